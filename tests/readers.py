"""The readers of files that treespec has: for each, sample files and a function that reads one and uses what it got."""

from __future__ import annotations

import struct
import tempfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path

import numpy as np
from sklearn.datasets import make_friedman1
from sklearn.ensemble import GradientBoostingClassifier, HistGradientBoostingRegressor, RandomForestClassifier, RandomForestRegressor

import treespec
from mutation import mutate
from strategies import grow
from treespec.adapters import files
from treespec.ir import Forest, InputRule
from treespec.students.file import loads
from treespec.students.fold import fold_output, store
from treespec.students.mlp import _HEAD as _MLP_HEAD
from treespec.students.mlp import MLPStudent
from treespec.students.outcome import Outcome
from treespec.students.packed import PackedStudent
from treespec.students.preprocess import Column, Preprocess

X, Y = make_friedman1(200, noise=1.0, random_state=0)
X[::7, 0] = np.nan
X[:, 1] = np.round(9 * X[:, 1])
THREE = np.digitize(Y, [12, 17])


@dataclass(frozen=True)
class Reader:
    """One file format.

    Attributes
    ----------
    samples : callable
        Returns files that are valid.
    read : callable
        Reads the bytes of a file and uses the result.
    checksum : callable or None
        Puts a file's checksum right.
    body : callable or None
        Returns where in a binary file the values stand; None for text.
    """

    samples: Callable[[], list[bytes]]
    read: Callable[[bytes], object]
    checksum: Callable[[bytes], bytes] | None = None
    body: Callable[[bytes], tuple[int, int]] | None = None

    def mutated(self, n: int, seed: int) -> list[bytes]:
        """Return n mutated files."""
        samples, rng = self.samples(), np.random.default_rng(seed)
        for sample in samples:
            self.read(sample)  # warm, and valid
        bodies = [None if self.body is None else self.body(sample) for sample in samples]
        at = [k % len(samples) for k in range(n)]
        return [mutate(samples[k], rng, body=bodies[k], checksum=self.checksum) for k in at]


def read_model(content: bytes) -> object:
    """Read a model file and route a few rows by it."""
    with tempfile.NamedTemporaryFile(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as file:
        file.write(content)
        file.flush()
        return _used(files.treespec_adapt(file.name))


def read_forest(content: bytes) -> object:
    """Read a forest's bytes and route a few rows by it."""
    return _used(Forest.from_bytes(content))


def _used(forest: Forest) -> object:
    if forest.n_features > 10_000:  # a matrix of that width is the caller's own
        return forest
    rows = np.random.default_rng(0).normal(size=(3, forest.n_features))
    if not forest.inputs.categories and forest.inputs.categorical == ():
        return forest.predict(rows)
    plain = InputRule(dtype=forest.inputs.dtype, categorical=forest.inputs.categorical)
    return forest.with_values(forest.value, inputs=plain).predict(np.abs(np.round(rows)))


def read_student(content: bytes) -> object:
    """Read a student and predict a few rows."""
    student = loads(content)
    if student.outcome.n_features > 10_000:
        return student
    rows = np.random.default_rng(0).normal(size=(3, student.outcome.n_features))
    try:
        return student.predict(rows)
    except treespec.errors.DataMismatchError:  # its categories are text
        return student


def _forest_checksum(content: bytes) -> bytes:
    """Return a forest's bytes with the right checksum."""
    return content if len(content) < 20 else content[:16] + struct.pack("<I", zlib.crc32(content[20:])) + content[20:]


def _student_checksum(content: bytes) -> bytes:
    """Return a student's bytes with the right lengths and checksums, the payload's own among them."""
    if len(content) < 20:
        return content
    n_text = min(struct.unpack("<I", content[8:12])[0], len(content) - 20)
    payload = content[20 + n_text :]
    end = _MLP_HEAD.size if b'"kind": "mlp"' in content[20 : 20 + n_text] else 4  # of the payload's head, which ends with the checksum
    if len(payload) >= end:
        content = content[: 20 + n_text] + payload[: end - 4] + struct.pack("<I", zlib.crc32(payload[end:])) + payload[end:]
    return content[:8] + struct.pack("<III", n_text, len(content) - 20 - n_text, zlib.crc32(content[20:])) + content[20:]


def _whole(content: bytes) -> tuple[int, int]:
    return 0, len(content)


def _after_json(content: bytes) -> tuple[int, int]:
    """Return where the arrays of a forest, or the payload of a student, stand."""
    n_text = struct.unpack("<Q", content[8:16])[0] if content[:4] == b"TSPF" else struct.unpack("<I", content[8:12])[0]
    return 20 + n_text, len(content)


@cache
def _xgboost() -> tuple[object, ...]:
    import xgboost

    def train(param: dict[str, object], y: object, **options: object) -> object:
        matrix = xgboost.DMatrix(X, y, enable_categorical=True, **options)
        return xgboost.train({"max_depth": 3, "nthread": 1} | param, matrix, 3)

    import pandas as pd

    frame = pd.DataFrame(X, columns=[f"c{j}" for j in range(10)])
    frame["c1"] = pd.Categorical([f"v{int(v)}" for v in X[:, 1]])
    return (
        train({}, Y, feature_types=["q", "c"] + ["q"] * 8),
        train({"objective": "multi:softprob", "num_class": 3}, THREE),
        train({"booster": "dart", "rate_drop": 0.5}, Y),
        train({"multi_strategy": "multi_output_tree", "tree_method": "hist"}, np.column_stack([Y, -Y])),
        xgboost.XGBRegressor(n_estimators=3, max_depth=3, enable_categorical=True).fit(frame, Y).get_booster(),
    )


@cache
def _lightgbm() -> tuple[object, ...]:
    import lightgbm

    def train(param: dict[str, object], y: object, **options: object) -> object:
        param = {"num_leaves": 6, "num_threads": 1, "verbose": -1, "min_data_per_group": 5, "cat_smooth": 1} | param
        return lightgbm.train(param, lightgbm.Dataset(X, y, **options), 3)

    return (
        train({}, Y, categorical_feature=[1]),
        train({"objective": "multiclass", "num_class": 3}, THREE),
        train({"boosting": "rf", "bagging_freq": 1, "bagging_fraction": 0.5, "zero_as_missing": True}, Y),
    )


@cache
def _treelite() -> tuple[object, ...]:
    import treelite

    import_model, full = treelite.sklearn.import_model, np.nan_to_num(X)
    few = {"n_estimators": 3, "max_depth": 3, "random_state": 0}
    return (
        import_model(RandomForestRegressor(**few).fit(X, Y)),
        import_model(RandomForestClassifier(**few).fit(X, THREE)),
        import_model(GradientBoostingClassifier(**few).fit(full, THREE)),
        import_model(HistGradientBoostingRegressor(max_iter=3, categorical_features=[1]).fit(full, Y)),
        import_model(RandomForestRegressor(**few).fit(X, np.column_stack([Y, -Y]))),
    )


def _forests() -> list[Forest]:
    rng = np.random.default_rng(0)
    rule = InputRule(categorical=(0,), categories=((0, ("a", "b", "c", "d")),), missing_value=-1.0, unknown_category="missing")
    own = [treespec.wrap(m).forest for m in (RandomForestClassifier(3, max_depth=3).fit(X, np.array(["x", "y", "z"])[THREE]),)]
    return [*own, grow(rng, n_outputs=2, by_output=True, categorical=(0,), inputs=rule), grow(rng, split=1.0)]


def _packed() -> list[bytes]:
    exact = [PackedStudent.of(f) for f in _forests()]
    return [s.to_bytes() for s in (*exact, PackedStudent.of(_forests()[0], leaf_bits=6))]


def _nets() -> list[bytes]:
    """Return nets of every precision, with columns of every kind."""
    rng = np.random.default_rng(0)
    columns = (Column(), Column(fill=0.5, indicator=True), Column("category", values=("a", "b")), Column("unused"), Column(low=-1, high=2))
    preprocess, out = Preprocess(columns), []
    for precision, widths in (("float32", (6, 3)), ("float16", (5, 4, 1)), ("int8", (7, 1)), ("float32", (1,))):
        shape = (preprocess.n_inputs, *widths)
        net = [(rng.normal(size=(b, a)), rng.normal(size=b)) for a, b in pairwise(shape)]
        k = widths[-1]
        folded = fold_output(net, np.ones(k), np.zeros(k))
        exponent, members = store([folded, folded], np.zeros(shape[0]), np.ones(shape[0]), precision)
        outcome = Outcome("regression" if k == 1 else "multi-output", "identity", k, len(columns))
        out.append(MLPStudent(outcome, preprocess, exponent, members, "value", precision).to_bytes())
    return out


READERS = {
    "XGBoost JSON": Reader(lambda: [bytes(b.save_raw("json")) for b in _xgboost()], read_model),
    "XGBoost UBJSON": Reader(lambda: [bytes(b.save_raw("ubj")) for b in _xgboost()], read_model, body=_whole),
    "LightGBM text": Reader(lambda: [b.model_to_string().partition("\nparameters:")[0].encode() for b in _lightgbm()], read_model),
    "Treelite checkpoint": Reader(lambda: [m.serialize_bytes() for m in _treelite()], read_model, body=_whole),
    "treespec forest": Reader(lambda: [f.to_bytes() for f in _forests()], read_forest, _forest_checksum, _after_json),
    "packed student": Reader(_packed, read_student, _student_checksum, _after_json),
    "mlp student": Reader(_nets, read_student, _student_checksum, _after_json),
}
"""Name of each format to its reader."""
