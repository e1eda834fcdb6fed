"""Each check catches a plugin that breaks one promise, and says which."""

import json
import sys
from dataclasses import replace
from types import ModuleType

import numpy as np
import pytest
from scipy.sparse import csr_array
from scipy.sparse.linalg import LinearOperator, aslinearoperator
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

import treespec
from treespec.adapters import sklearn_trees
from treespec.distill.packed import packed
from treespec.errors import BudgetError, ContractError, DataNeededError, UnsupportedModelError
from treespec.hooks import hookimpl
from treespec.kpp.ridge import ridge
from treespec.operators.kernel import leaf
from treespec.testing import (
    check_adapter,
    check_compressor,
    check_learner,
    check_node_weights,
    check_smoother,
    grow,
    row_data,
    rows,
)


def broken(match):
    return pytest.raises(ContractError, match=f"(?s){match}.*\n\nHint: .")


RNG = np.random.default_rng(0)
FOREST = grow(RNG, max_depth=4)
X = rows(RNG, FOREST, 40)
DATA = row_data(FOREST, X, RNG.normal(size=40), np.ones(40))


# ---- node weights


def halves(forest, data=None):
    return np.where(forest.is_leaf, 0.0, 0.5)


def writes(forest, data=None):
    data.y[0] += 1
    return halves(forest)


def remembers(forest, data=None, seen=[]):  # noqa: B006
    seen.append(1)
    return halves(forest) * len(seen)


def by_identity(forest, data=None):
    return halves(forest) * (2 if forest is FOREST else 1)


def needs_data(forest, data=None):
    return halves(forest) * data.n_rows


def refuses_without(forest, data=None):
    if data is None:
        raise DataNeededError.expected("rows", "none", "pass X")
    return halves(forest)


def global_draws(forest, data=None):
    return halves(forest) + 0 * np.random.random()  # noqa: NPY002


@pytest.mark.parametrize(
    ("scheme", "match"),
    [
        (lambda forest, data=None: halves(forest)[1:], "n_nodes"),
        (lambda forest, data=None: halves(forest).astype(str), "n_nodes"),
        (lambda forest, data=None: halves(forest) * np.nan, "not finite"),
        (lambda forest, data=None: -halves(forest), "negative weights"),
        (lambda forest, data=None: halves(forest) + 1, "positive weights at leaves"),
        (writes, "leave its arguments as they are"),
        (remembers, "the same weights at every call"),
        (by_identity, "fields and the data alone"),
        (needs_data, "AttributeError"),
        (global_draws, "random_state alone"),
    ],
)
def test_node_weights(scheme, match):
    with broken(match):
        check_node_weights(scheme, FOREST, row_data(FOREST, X, np.zeros(40)))


def test_node_weights_that_keep_their_promises():
    check_node_weights(halves, FOREST, DATA)
    check_node_weights(refuses_without, FOREST, DATA)
    with pytest.raises(DataNeededError):
        check_node_weights(refuses_without, FOREST)


# ---- smoothers


class Dense(LinearOperator):
    """The leaf smoother as a matrix, with one thing changed."""

    def __init__(self, forest, data, change=""):
        self.smoother = leaf(forest, data)
        self.change, self.exactness, self.calls = change, float("nan"), 0
        self.matrix = self.smoother.matmat(np.eye(data.n_rows))
        super().__init__(np.float32 if change == "dtype" else np.float64, self.matrix.shape)

    def _matmat(self, V):
        self.calls += 1
        if self.change == "writes":
            V[0] = 0
        out = self.matrix @ V
        if self.change == "affine":
            out = out + 1
        if self.change == "columns" and V.shape[1] > 1:
            out[:, 0] *= 2
        if self.change == "state":
            out = out + 1e-13 * self.calls * out
        return out * np.nan if self.change == "nan" else out

    def _matvec(self, x):
        return self._matmat(x.reshape(-1, 1))[:, 0]

    def _rmatmat(self, U):
        return self.matrix.T @ U * (1 + np.arange(len(self.matrix))[:, None] if self.change == "adjoint" else 1)

    def _rmatvec(self, u):
        return self._rmatmat(u.reshape(-1, 1))[:, 0] * (2 if self.change == "rcolumns" else 1)

    def diagonal(self):
        return np.diag(self.matrix) * (2 if self.change == "diagonal" else 1)

    def trace(self):
        return float(np.trace(self.matrix)) + (1 if self.change == "trace" else 0)

    def cross(self, X_new):
        if self.change == "width" and X_new.shape[1] > 10_000:
            return self
        cross = self.smoother.cross(X_new)
        if self.change == "cross shape":
            return aslinearoperator(np.zeros((cross.shape[0] + 1, cross.shape[1])))
        if self.change == "cross rows":
            return aslinearoperator(cross.matmat(np.eye(cross.shape[1])) / cross.shape[0])
        return cross

    def weights(self, X_new, top=None):
        kept = self.smoother.weights(X_new, top)
        if self.change == "top" and top is not None:
            return self.smoother.weights(X_new, None)
        if self.change == "smallest" and top is not None:
            dense = self.smoother.weights(X_new, None).toarray()
            at = np.argsort(np.where(dense == 0, np.inf, dense), axis=1)[:, :top]
            smallest = np.zeros_like(dense)
            np.put_along_axis(smallest, at, np.take_along_axis(dense, at, 1), 1)
            return csr_array(smallest)
        return kept.toarray() if self.change == "sparse" else kept * (2 if self.change == "weights" else 1)


@pytest.mark.parametrize(
    ("change", "match"),
    {
        "dtype": "float64 products", "writes": "leave its arguments", "affine": "linear|adjoint", "columns": "adjoint|column of matmat",
        "state": "immutable", "nan": "finite products", "adjoint": "adjoint of matvec", "rcolumns": "column of rmatmat",
        "diagonal": "diagonal\\(\\) to be", "trace": "trace\\(\\) to be", "width": "rows of another width", "cross shape": "cross of shape",
        "cross rows": "each new row alone", "top": "largest weights|at most top", "smallest": "largest weights", "sparse": "sparse array",
        "weights": "numbers of cross",
    }.items(),
)  # fmt: skip
def test_smoothers(change, match):
    with broken(match):
        check_smoother(lambda forest, data: Dense(forest, data, change), FOREST, DATA)


def test_smoothers_that_are_none():
    check_smoother(Dense, FOREST, DATA)
    with broken("LinearOperator"):
        check_smoother(lambda forest, data: Dense(forest, data).matrix, FOREST, DATA)

    def short(forest, data):
        return Dense(forest, row_data(forest, X[:7], data.y[:7]))

    with broken(r"shape \(40, 40\)"):
        check_smoother(short, FOREST, DATA)

    def inexact(forest, data):
        smoother = Dense(forest, data)
        smoother.exactness = None
        return smoother

    with broken("exactness"):
        check_smoother(inexact, FOREST, DATA)

    rng = np.random.default_rng(0)

    def random(forest, data):
        smoother = Dense(forest, data)
        smoother.matrix = smoother.matrix * (1 + 1e-12 * rng.random())
        return smoother

    with broken("same smoother at every call"):
        check_smoother(random, FOREST, DATA)


# ---- learners


def learner(change):
    calls = []

    def fit(features, y, *, alpha, sample_weight=None, **options):
        calls.append(1)
        if change == "writes":
            y[0] = 0
        if change == "weights" and sample_weight is not None:
            sample_weight = 3 * sample_weight
        if change == "ignored weights":
            sample_weight = None
        if change == "dense":
            features = features.A
        coef, b, info = ridge(features, y, alpha=1 / alpha if change == "penalty" else alpha, sample_weight=sample_weight)
        if change == "state":
            coef = coef * (1 + 1e-9 * len(calls))
        if change == "nan":
            coef = coef * np.nan
        if change == "short":
            coef = coef[1:]
        if change == "intercepts":
            b = np.append(b, 0.0)
        return (coef, b) if change == "pair" else (coef, b, info)

    return fit


@pytest.mark.parametrize(
    ("change", "match"),
    {
        "writes": "read-only|leave its arguments", "weights": "equal weights are none", "ignored weights": "without influence",
        "penalty": "alpha to be a penalty", "state": "same coefficients", "nan": "finite coefficients", "short": "coefficients of shape",
        "intercepts": "intercepts of shape", "pair": "info a dict", "dense": "AttributeError",
    }.items(),
)  # fmt: skip
def test_learners(change, match):
    with broken(match):
        check_learner(learner(change))


def test_a_learner_that_keeps_its_promises():
    check_learner(learner(""))


# ---- compressors


@pytest.fixture(scope="module")
def teacher():
    rng = np.random.default_rng(0)
    A = rng.normal(size=(60, 2)).astype(np.float32).astype(np.float64)
    k = (A[:, 0] > 0).astype(int) + (A[:, 1] > 0)
    return treespec.wrap(RandomForestClassifier(2, max_depth=2, random_state=0).fit(A, k), A, k)


class Changed:
    """A student with one thing changed; not one of treespec's own."""

    def __init__(self, student, change, calls):
        self.student, self.change, self.number = student, change, len(calls)

    @property
    def n_bytes(self):
        return {"bytes": 10_000, "bytes type": 3.5}.get(self.change, self.student.n_bytes)

    def margin(self, X):
        m = self.student.margin(X)
        if self.change == "batch":
            m = m - m.mean(axis=0)
        return m[:, :1] if self.change == "margin shape" else m * (np.nan if self.change == "nan" else 1)

    def predict(self, X):
        if self.change == "width" and X.shape[1] > 10_000:
            return np.zeros(2)
        p = self.student.predict(X)
        return p + 7 if self.change == "labels" else p.astype(float) if self.change == "label type" else p

    def predict_proba(self, X):
        return self.student.predict_proba(X) * (3 if self.change == "proba" else 1)

    def save(self, path):
        data = {"pickle": b"\x80\x04", "bytes differ": bytes([self.number])}.get(self.change, b"student")
        path.write_bytes(data)
        if self.change == "two files":
            path.with_suffix(".more").write_bytes(data)


def compressor(change):
    calls = []

    def compress(teacher, budget, *, data, random_state, progress, **options):
        calls.append(1)
        if change == "draws":
            np.random.random()  # noqa: NPY002
        if change == "writes":
            data.margin[0] = 0
        if change == "crash" and budget > 1:
            raise ZeroDivisionError("by zero")
        if progress is not None:
            progress("one", 2.0 if change == "share" else 0.5)
            progress("two", 0.1 if change == "falls" else 1.0)
        try:
            return Changed(packed(teacher, budget, data=data, random_state=random_state, progress=None), change, calls)
        except BudgetError as error:
            if change == "no smallest":
                error.smallest = None
            if change == "wrong smallest":
                error.smallest = error.smallest // 2
            raise

    return compress


@pytest.mark.parametrize(
    ("change", "match"),
    {
        "bytes": "at most 300 bytes", "bytes type": "positive int", "batch": "one by one", "margin shape": "margins of shape", "nan": "finite margins",
        "width": "rows of another width", "labels": "teacher's classes", "label type": "predictions of shape", "proba": "probabilities of 0 to 1",
        "pickle": "without pickle", "bytes differ": "same bytes", "two files": "one file", "draws": "random_state alone", "writes": "leave its arguments",
        "crash": "ZeroDivisionError", "share": "share of 0 to 1", "falls": "does not fall", "no smallest": "names the smallest",
        "wrong smallest": "to be met",
    }.items(),
)  # fmt: skip
def test_compressors(change, match, teacher):
    with broken(match):
        check_compressor(compressor(change), teacher, 300)


def test_a_compressor_that_keeps_its_promises(teacher):
    assert check_compressor(compressor(""), teacher, 300).n_bytes <= 300


def test_a_student_of_treespec_that_does_not_come_back_from_its_file(teacher, monkeypatch):
    from treespec.students.packed import PackedStudent

    class Forgetful(PackedStudent):
        def _margin(self, X):
            return super()._margin(X) * 0.5

    def compress(*args, **options):
        student = packed(*args, **options)
        return Forgetful.from_payload(student.payload(), student.outcome)

    with broken("save and load_student"):
        check_compressor(compress, teacher, 300)


# ---- adapters


def adapter(change, path=None):
    calls = []

    class Plugin:
        @hookimpl
        def treespec_adapt(self, model):
            calls.append(1)
            if change == "greedy" and model == 3.5:
                return FOREST
            if change == "guess" and isinstance(model, str):
                model = json.loads(model)
            if change == "imports" and type(model) is object:
                sys.modules["a_framework"] = ModuleType("a_framework")
            if not isinstance(model, RandomForestRegressor):
                return None
            if change == "unfitted" and not hasattr(model, "estimators_"):
                raise UnsupportedModelError.expected("a", "b", "c")
            if change == "dict":
                return {}
            forest = sklearn_trees.treespec_adapt(model)
            if change == "threshold":
                return replace(forest, threshold=np.nextafter(forest.threshold, -np.inf))
            if change == "value":
                return forest.with_values(forest.value * (1 + 1e-5))
            if change == "state":
                return replace(forest, base_score=np.array([1e-9 * len(calls)]))
            if change == "native id":
                return replace(forest, native_id=np.zeros(forest.n_nodes))
            if change == "no native id":
                return replace(forest, native_id=None)
            if change == "nan":
                return replace(forest, inputs=replace(forest.inputs, infinite="route"))
            if change == "parameters":
                model.set_params(n_jobs=len(calls))
            return replace(forest, framework="unknown") if change == "name" else forest

        @hookimpl
        def treespec_native(self, model, forest):
            native = sklearn_trees.treespec_native(model, forest)
            return native if native is None or change not in Native.CHANGES else Native(native, change)

    return Plugin()


class Native:
    CHANGES = ("leaf type", "order", "writes", "predict")

    def __init__(self, native, change):
        self.native, self.change = native, change

    def leaf_id(self, A):
        leaf = self.native.leaf_id(A)
        return leaf.astype(float) if self.change == "leaf type" else leaf

    def margin(self, A):
        if self.change == "writes":
            A[0, 0] = 0.25
        m = self.native.margin(A)
        return m * (1 + 1e-9 * (np.arange(len(m)) == 0)) if self.change == "order" else m

    def predict(self, A):
        return self.native.predict(A) + (1 if self.change == "predict" else 0)


@pytest.mark.parametrize(
    ("change", "match"),
    {
        "greedy": "not yours", "guess": "JSONDecodeError|error of treespec", "imports": "without imports", "dict": "treespec.ir.Forest",
        "threshold": "same leaf", "value": "equal margins", "state": "same forest", "native id": "native_id of its own",
        "no native id": "native_id in the forest", "nan": "refuse|error of treespec", "parameters": "left as it is", "name": "name the framework",
        "leaf type": "integer leaf ids", "order": "one by one", "writes": "leave its arguments", "predict": "equal predictions",
        "unfitted": "ModelNotFittedError",
    }.items(),
)  # fmt: skip
def test_adapters(change, match):
    A = np.random.default_rng(0).normal(size=(50, 3))
    model = RandomForestRegressor(2, max_depth=3, random_state=0).fit(A, A[:, 0])
    with broken(match):
        check_adapter(adapter(change), model, A, unfitted=RandomForestRegressor())


def test_an_adapter_that_keeps_its_promises():
    A = np.random.default_rng(0).normal(size=(50, 3))
    model = RandomForestRegressor(2, max_depth=3, random_state=0).fit(A, A[:, 0])
    assert check_adapter(adapter(""), model, A).n_trees == 2
    assert check_adapter(adapter(""), model, rows=A).n_trees == 2


def test_what_must_be_refused_and_is_not():
    A = np.random.default_rng(0).normal(size=(50, 3))
    model = RandomForestRegressor(2, max_depth=3, random_state=0).fit(A, A[:, 0])
    with broken("TreespecError for"):
        check_adapter(adapter(""), model, refused=[model])


def test_hooks_that_do_not_exist_or_are_not_marked():
    class Misspelt:
        @hookimpl
        def treespec_adapts(self, model): ...

    class Unmarked:
        def treespec_adapt(self, model): ...

    with broken("hooks that exist"):
        check_adapter(Misspelt(), None)
    with broken("treespec_adapt that is marked"):
        check_adapter(Unmarked(), None)


def test_columns_that_are_not_matched_by_name():
    import pandas as pd

    A = np.random.default_rng(0).normal(size=(50, 3))
    frame = pd.DataFrame(A, columns=list("abc"))
    model = RandomForestRegressor(2, max_depth=3, random_state=0).fit(frame, A[:, 0])

    class Positional:
        @hookimpl
        def treespec_adapt(self, model):
            return sklearn_trees.treespec_adapt(model) if isinstance(model, RandomForestRegressor) else None

        @hookimpl
        def treespec_native(self, model, forest):
            native = sklearn_trees.treespec_native(model, forest)
            if native is not None:
                native._names = None
                native._forest = replace(forest, feature_names=None)
            return native

    with broken("matched by name|error of treespec"):
        check_adapter(Positional(), model, frame)
