"""`wrap`: the model as it is, checked against the framework, with clear errors for what cannot be."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.datasets import load_breast_cancer, load_diabetes
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.ensemble import GradientBoostingClassifier, GradientBoostingRegressor, RandomForestClassifier, RandomForestRegressor
from sklearn.linear_model import Ridge

import treespec
from treespec import errors
from treespec.facade import selfcheck
from treespec.facade.routing import Router
from treespec.facade.selfcheck import self_check, threshold_rows
from treespec.plugins import manager

X, y = load_diabetes(return_X_y=True)


@pytest.fixture(scope="module")
def model():
    return RandomForestRegressor(10, max_depth=4, random_state=0).fit(X, y)


def test_wrapped_is_the_model(model):
    w = treespec.wrap(model, X, y)
    np.testing.assert_array_equal(w.predict(X), model.predict(X))
    assert w.apply(X).dtype == np.int32
    assert w.apply(X).shape == (len(X), 10)
    assert w.task == "regression"
    assert w.check.n_rows == len(X)
    assert w.check.max_difference <= 1e-12
    assert "442 rows with labels" in repr(w)


def test_without_data_the_check_uses_thresholds(model):
    w = treespec.wrap(model)
    assert w.check.rows == "made from the thresholds"
    assert w.check.n_rows == 1000
    with pytest.raises(errors.DataNeededError, match="wrapped without data"):
        w.smoother("leaf")


def test_classifiers_give_labels_and_probabilities():
    X, y = load_breast_cancer(return_X_y=True)
    names = np.array(["malignant", "benign"])[y]
    model = RandomForestClassifier(10, max_depth=4, random_state=0).fit(X, names)
    w = treespec.wrap(model, X, names)
    np.testing.assert_array_equal(w.predict(X), model.predict(X))
    np.testing.assert_allclose(w.predict_proba(X), model.predict_proba(X), rtol=1e-12)
    assert w.task == "binary"


class Bent:
    """The framework's view of a model, bent in one place."""

    def __init__(self, native, forest, what):
        self._native, self._forest, self._what = native, forest, what

    def leaf_id(self, X):
        leaf = np.array(self._native.leaf_id(X))
        if self._what == "leaf":
            other = self._forest.leaves[self._forest.leaves < self._forest.tree_offset[1]][:2]
            leaf[0, 0] = self._forest.native_id[other[0] if leaf[0, 0] != self._forest.native_id[other[0]] else other[1]]
        return leaf

    def margin(self, X):
        return self._native.margin(X) * (1 + 2e-5 if self._what == "margin" else 1)

    def predict(self, X):
        return self._native.predict(X) * (1 + 2e-5 if self._what == "predict" else 1)


@pytest.mark.parametrize(("what", "message"), [("leaf", "the same leaf"), ("margin", "equal margins"), ("predict", "equal predictions")])
def test_the_self_check_refuses_any_difference(model, what, message):
    forest = manager().adapt(model)
    native = manager().native(model, forest)
    self_check(forest, native, X)
    with pytest.raises(errors.SelfCheckError, match=message):
        self_check(forest, Bent(native, forest, what), X)


def test_the_self_check_refuses_a_wrong_threshold(model):
    forest = manager().adapt(model)
    native = manager().native(model, forest)
    threshold = forest.threshold.copy()
    threshold[0] = np.nextafter(np.float32(threshold[0]), np.float32(np.inf)) + 1e-6
    wrong = forest.with_values(forest.value, threshold=threshold)
    with pytest.raises(errors.SelfCheckError):
        self_check(wrong, native)


def test_threshold_rows_hit_thresholds_and_their_neighbours(model):
    forest = manager().adapt(model)
    rows = threshold_rows(forest, 500)
    hits = np.isin(rows[:, 2], forest.threshold[forest.feature == 2].astype(np.float32))
    assert 0.2 < hits.mean() < 0.8


def test_fewer_rows_are_checked_for_very_many_trees(model, monkeypatch):
    monkeypatch.setattr(selfcheck, "_MAX_PAIRS", 1000)
    assert treespec.wrap(model, X, y).check.n_rows == 100


def test_rows_are_routed_in_blocks(model, monkeypatch):
    w = treespec.wrap(model, X, y)
    whole = w.apply(X)
    monkeypatch.setattr("treespec.facade.routing._BLOCK_PAIRS", 77)
    np.testing.assert_array_equal(w.apply(X), whole)
    np.testing.assert_array_equal(Router(w.forest, None)(X), whole)


def test_a_booster_that_was_changed_after_it_was_wrapped():
    lightgbm = pytest.importorskip("lightgbm")
    booster = lightgbm.train({"verbose": -1, "num_leaves": 5}, lightgbm.Dataset(X, y), 5, keep_training_booster=True)
    w = treespec.wrap(booster)
    before = w.predict(X)
    booster.update()
    np.testing.assert_array_equal(w.predict(X), before)
    for _ in range(2):
        booster.rollback_one_iter()
    with pytest.raises(errors.SelfCheckError, match="wrap it again"):
        w.predict(X)


def test_leaves_that_the_wrapped_model_had_not(model):
    router = Router(manager().adapt(model), None)
    for leaf in (-1, 0, 10_000):  # the root is no leaf
        with pytest.raises(errors.SelfCheckError, match=f"leaf {leaf} of tree 0"):
            router.to_nodes(np.full((2, 10), leaf))


def test_a_booster_that_saw_one_class():
    model = pytest.importorskip("xgboost").XGBClassifier(n_estimators=2).fit(X, np.zeros(442, int))
    with pytest.raises(errors.UnsupportedModelError, match="one class only"):
        treespec.wrap(model)


class Bold(GradientBoostingClassifier):
    """Gives other probabilities than its margins mean."""

    def predict_proba(self, X):
        return np.sqrt(super().predict_proba(X))


def test_probabilities_that_margins_do_not_mean():
    model = Bold(n_estimators=2).fit(X, y > 140)
    with pytest.raises(errors.SelfCheckError, match="equal probabilities"):
        treespec.wrap(model)


def test_probabilities_of_boosters_that_a_subclass_changes():
    xgboost, lightgbm = pytest.importorskip("xgboost"), pytest.importorskip("lightgbm")
    for base, options in ((xgboost.XGBClassifier, {}), (lightgbm.LGBMClassifier, {"verbose": -1})):
        changed = type("Changed", (base,), {"predict_proba": lambda self, X, base=base, **k: np.sqrt(base.predict_proba(self, X, **k))})
        with pytest.raises(errors.SelfCheckError, match="equal probabilities"):
            treespec.wrap(changed(n_estimators=2, **options).fit(X, (y > 140).astype(int)))


BAD_MODELS = [
    (RandomForestRegressor(), errors.ModelNotFittedError, "fitted"),
    (GradientBoostingRegressor(), errors.ModelNotFittedError, "fitted"),
    (Ridge().fit(X, y), errors.UnsupportedModelError, "Ridge"),
    (LinearDiscriminantAnalysis().fit(X, y > 140), errors.UnsupportedModelError, "LinearDiscriminantAnalysis"),
    (RandomForestRegressor, errors.ModelNotFittedError, "class RandomForestRegressor"),
    (None, errors.UnsupportedModelError, "NoneType"),
    ({"trees": []}, errors.UnsupportedModelError, "dict"),
]


@pytest.mark.parametrize(("bad", "error", "message"), BAD_MODELS)
def test_models_that_cannot_be_wrapped(bad, error, message):
    with pytest.raises(error, match=message) as caught:
        treespec.wrap(bad)
    assert "Hint:" in str(caught.value)


def with_nan(values):
    out = np.array(values, dtype=float)
    out[3] = np.nan
    return out


BAD_DATA = [
    (lambda: {"X": X[:, :5], "y": y}, "10 columns"),
    (lambda: {"X": X, "y": y[:-1]}, "442 labels"),
    (lambda: {"X": X, "y": with_nan(y)}, "1 such labels in y, the first in row 3"),
    (lambda: {"X": X, "y": y.astype(str)}, "numbers as labels"),
    (lambda: {"X": X[:0], "y": y[:0]}, "at least one row"),
    (lambda: {"X": X[0], "y": y[:1]}, "two-dimensional"),
    (lambda: {"X": X, "y": y, "sample_weight": np.ones(3)}, "442 weights"),
    (lambda: {"X": X, "y": y, "sample_weight": -np.ones(442)}, "finite weights"),
    (lambda: {"X": X, "y": y, "sample_weight": np.full(442, 1e308)}, "of a finite sum"),
    (lambda: {"X": X, "y": y, "sample_weight": "balanced"}, "weights, which are numbers, but got 'balanced'"),
    (lambda: {"X": X, "y": y, "sample_weight": {0: 1.0}}, "weights, which are numbers, but got a dict"),
    (lambda: {"X": X, "y": np.array([pd.NA, *y[1:]], dtype=object)}, "1 such labels in y, the first in row 0"),
    (lambda: {"X": X, "y": [[1.0], [1.0, 2.0]] * 221}, "labels of different lengths"),
    (lambda: {"X": X, "y": np.column_stack([y, y])}, r"labels of 1 target, but got y of shape \(442, 2\)"),
    (lambda: {"X": iter(X), "y": y}, "eager data frame"),
    (lambda: {"X": np.where(np.arange(10) == 2, "text", X.astype(object)), "y": y}, "numbers in column 2"),
    (lambda: {"y": y}, "no X"),
]


@pytest.mark.parametrize(("arguments", "message"), BAD_DATA)
def test_data_that_does_not_fit(model, arguments, message):
    with pytest.raises(errors.TreespecError, match=message) as caught:
        treespec.wrap(model, **arguments())
    assert "Hint:" in str(caught.value)


@pytest.mark.parametrize("method", ["apply", "margin", "predict"])
def test_rows_that_do_not_fit(model, method):
    call = getattr(treespec.wrap(model), method)
    for bad in (X[:, :3], X[:0], X[0], np.array([["a"] * 10]), None, 3, iter(X)):
        with pytest.raises(errors.DataMismatchError):
            call(bad)


def test_labels_are_a_column_for_each_target():
    two = np.column_stack([y, -y])
    model = RandomForestRegressor(2, max_depth=2, random_state=0).fit(X, two)
    assert treespec.wrap(model, X, two.astype(object)).rows.y.dtype == np.float64
    with pytest.raises(errors.DataMismatchError, match="labels of 2 targets"):
        treespec.wrap(model, X, y)
    classes = np.column_stack([y > 140, np.where(y > 200, "high", "low")]).astype(object)
    model = RandomForestClassifier(2, max_depth=2, random_state=0).fit(X, classes)
    treespec.wrap(model, X, classes)
    with pytest.raises(errors.DataMismatchError, match="among the model's classes"):
        treespec.wrap(model, X, np.column_stack([y > 140, y > 200]))


def test_a_quantile_booster_has_more_outputs_than_labels():
    xgboost = pytest.importorskip("xgboost")
    model = xgboost.XGBRegressor(n_estimators=2, max_depth=2, objective="reg:quantileerror", quantile_alpha=[0.1, 0.9]).fit(X, y)
    assert treespec.wrap(model, X, y).predict(X).shape == (442, 2)


@pytest.mark.parametrize("kind", ["scikit-learn", "xgboost", "lightgbm"])
@pytest.mark.parametrize("make", [lambda d: d, lambda d: pl.from_pandas(d), lambda d: pa.Table.from_pandas(d, preserve_index=False)])
def test_frames_in_another_order_of_columns(kind, make):
    frame = pd.DataFrame(X[:, :3], columns=["a", "b", "c"])
    model = named_model(kind).fit(frame, y)
    w = treespec.wrap(model, make(frame[["c", "a", "b"]]), y)
    np.testing.assert_allclose(w.predict(make(frame[["b", "c", "a"]])), model.predict(frame), rtol=1e-6)


@pytest.mark.parametrize("kind", ["scikit-learn", "xgboost", "lightgbm"])
def test_frames_whose_columns_are_numbered(kind):
    frame = pd.DataFrame(X[:, :3])
    model = named_model(kind).fit(frame, y)
    np.testing.assert_allclose(treespec.wrap(model, frame, y).predict(frame), model.predict(frame), rtol=1e-6)


def named_model(kind):
    if kind == "scikit-learn":
        return RandomForestRegressor(3, max_depth=3, random_state=0)
    if kind == "xgboost":
        return pytest.importorskip("xgboost").XGBRegressor(n_estimators=3, max_depth=3)
    return pytest.importorskip("lightgbm").LGBMRegressor(n_estimators=3, verbose=-1)


def test_labels_must_be_the_models_classes():
    names = np.where(y > 140, "high", "low")
    model = RandomForestClassifier(3, max_depth=2, random_state=0).fit(X, names)
    with pytest.raises(errors.DataMismatchError, match="among the model's classes"):
        treespec.wrap(model, X, y > 140)


def test_names_that_are_not_registered(model):
    w = treespec.wrap(model, X, y)
    with pytest.raises(errors.UnknownNameError, match="a smoother of"):
        w.smoother("loess")
    with pytest.raises(errors.UnknownNameError, match="a compressor of"):
        w.distill("10KB", compressor="zip")


def test_a_wrapped_model_is_not_pickled(model):
    import pickle

    with pytest.raises(errors.TreespecError, match="save the forest"):
        pickle.dumps(treespec.wrap(model))
