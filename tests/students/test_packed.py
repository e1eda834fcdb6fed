"""Packed trees: margins survive, bit for bit; bytes are few; the file round trips."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris
from sklearn.ensemble import GradientBoostingClassifier, HistGradientBoostingRegressor, RandomForestClassifier, RandomForestRegressor

import strategies
import treespec
from probe import nasty_rows
from treespec.errors import UnsupportedModelError
from treespec.ir import InputRule
from treespec.students import load_student
from treespec.students.file import loads
from treespec.students.packed import PackedStudent
from treespec.students.packed_format import pack
from treespec.students.packed_splits import breadth_first, find_splits


@pytest.fixture
def rng():
    return np.random.default_rng(0)


RULES = (
    {"dtype": "float32"}, {"dtype": "float64"}, {"dtype": "float32", "missing_value": -0.5}, {"dtype": "float64", "zero": "missing"},
    {"dtype": "float64", "zero": "flush", "negative_fraction_is_zero": True}, {"dtype": "float32", "nan": "refuse"},
    {"dtype": "float64", "float32_first": "numbers"}, {"dtype": "float64", "float32_first": "all"},
)  # fmt: skip


def same(student, forest, X):
    np.testing.assert_array_equal(student.margin(X), forest.margin(X))


@settings(deadline=None, max_examples=30)
@given(case=strategies.cases(max_outputs=3), rule=st.sampled_from(RULES), sum_dtype=st.sampled_from(["float32", "float64"]))
def test_any_forest_keeps_its_margins(case, rule, sum_dtype):
    rng = case.rng
    forest = strategies.grow(
        rng, n_trees=4, max_depth=4, n_features=case.forest.n_features, n_outputs=case.forest.n_outputs,
        categorical=case.forest.inputs.categorical, aggregation=case.forest.aggregation, sum_dtype=sum_dtype,
        inputs=InputRule(categorical=case.forest.inputs.categorical, **rule), by_output=case.forest.n_outputs > 1,
    )  # fmt: skip
    for f in (case.forest, forest):
        X = strategies.rows(rng, f, 40)
        student = PackedStudent.of(f)
        same(student, f, X)
        again = loads(student.to_bytes())
        assert again.payload() == student.payload() == pack(f)
        assert again.n_bytes == len(student.payload())
        same(again, f, X)
        np.testing.assert_array_equal(student.forest.margin(X), f.margin(X))  # the rebuilt forest, by the reference traversal


@settings(deadline=None, max_examples=40)
@given(case=strategies.cases(max_outputs=3, min_rows=5), bits=st.integers(1, 16))
def test_rounded_leaves_are_off_by_half_a_step_a_tree(case, bits):
    f = case.forest
    student = PackedStudent.of(f, leaf_bits=bits)
    weight = 1 / f.n_trees if f.aggregation == "mean" else 1
    spans = [np.ptp(f.value[a:b][f.is_leaf[a:b]], axis=0).max() for a, b in zip(f.tree_offset[:-1], f.tree_offset[1:], strict=True)]
    step = 2 * weight * np.array(spans) / (2**bits - 1)  # the binary step is at most twice that
    bound = np.maximum(step, max(step) / 2**14).sum() + 1e-6 * (1 + np.abs(f.value[f.leaves]).sum() + np.abs(f.base_score).max())
    assert np.abs(student.margin(case.X) - f.margin(case.X)).max() <= bound
    np.testing.assert_array_equal(student.forest.margin(case.X), student.margin(case.X))
    assert student.leaf_bits == bits and not student.is_exact


def models():
    X, y = load_diabetes(return_X_y=True)
    holes = np.where(np.random.default_rng(0).random(X.shape) < 0.1, np.nan, X)
    yield "forest", RandomForestRegressor(10, random_state=0).fit(X, y), X
    yield "missing", RandomForestRegressor(10, random_state=0).fit(holes, y), holes
    yield "histogram", HistGradientBoostingRegressor(max_iter=20).fit(holes, y), holes
    X, y = load_iris(return_X_y=True)
    yield "multiclass", GradientBoostingClassifier(n_estimators=5).fit(X, y), X
    yield "class forest", RandomForestClassifier(20, random_state=0).fit(X, np.array(["a", "b", "c"])[y]), X
    X, y = load_breast_cancer(return_X_y=True)
    yield "binary", GradientBoostingClassifier(n_estimators=20).fit(X, y), X


@pytest.mark.parametrize(("name", "model", "X"), [pytest.param(*m, id=m[0]) for m in models()])
def test_models_predict_as_before(name, model, X, rng, tmp_path):
    w = treespec.wrap(model)
    student = PackedStudent.of(w.forest)
    rows = np.concatenate([X, nasty_rows(w.forest, rng)])
    same(student, w.forest, rows)
    student.save(tmp_path / "s")
    again = load_student(tmp_path / "s")
    np.testing.assert_array_equal(again.predict(rows), w.forest.predict(rows))
    if hasattr(model, "predict_proba"):
        np.testing.assert_array_equal(again.predict_proba(rows), w.forest.predict_proba(rows))


def test_xgboost_is_bit_equal_and_small(rng):
    xgboost = pytest.importorskip("xgboost")
    X, y = load_diabetes(return_X_y=True)
    X[rng.random(X.shape) < 0.05] = np.nan
    model = xgboost.XGBRegressor(n_estimators=100, max_depth=6, n_jobs=1).fit(X, y)
    student = PackedStudent.of(treespec.wrap(model).forest)
    np.testing.assert_array_equal(student.predict(X).astype(np.float32), model.predict(X))
    assert student.n_bytes < 3.6 * student.forest.n_nodes


def test_float64_thresholds_stay_exact():
    X, y = load_diabetes(return_X_y=True)
    f = treespec.wrap(HistGradientBoostingRegressor(max_iter=3).fit(X, y)).forest
    student = PackedStudent.of(f)
    splits = np.sort(f.threshold[~f.is_leaf])
    np.testing.assert_array_equal(np.sort(student.forest.threshold[~student.forest.is_leaf]), splits)
    assert not np.array_equal(splits.astype(np.float32), splits)


@pytest.mark.parametrize(
    "values", [[1.0, 2.5, -3.5, 7.0], [0.1, 0.2, 0.7, 12.3], [1 / 3, 2 / 3, 1e-30, 1e30], [-np.inf, 0.0, 5e-324, np.inf]]
)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_thresholds_of_every_kind_are_exact(values, dtype, rng):
    f = strategies.grow(rng, n_trees=6, max_depth=4, n_features=2, split=1.0, inputs=InputRule(dtype=dtype))
    threshold = np.where(f.is_leaf, np.nan, rng.choice(values, f.n_nodes))
    f = f.with_values(f.value, threshold=threshold)
    near = np.array(values, dtype)
    pool = np.concatenate([near, np.nextafter(near, near.dtype.type(-np.inf)), np.nextafter(near, near.dtype.type(np.inf)), [np.nan]])
    same(PackedStudent.of(f), f, rng.choice(pool, (400, 2)))


@pytest.mark.parametrize("side", [np.inf, -np.inf])
def test_neighbours_of_short_numbers_stay_short(side, rng):
    f = strategies.grow(rng, n_trees=6, max_depth=4, n_features=2, split=1.0)
    plain = len(pack(f))
    moved = f.with_values(f.value, threshold=np.nextafter(f.threshold, side))
    assert len(pack(moved)) == plain
    same(PackedStudent.of(moved), moved, strategies.rows(rng, moved, 200))


def test_missing_directions_cost_what_they_need(rng):
    f = strategies.grow(rng, n_trees=20, max_depth=5, n_features=3, split=1.0)
    inner = np.flatnonzero(~f.is_leaf)
    by_feature = f.with_values(f.value, default_left=f.feature == 1)
    constant = f.with_values(f.value, default_left=~f.is_leaf)
    sizes = [len(pack(g)) for g in (constant, by_feature, f)]
    assert sizes == sorted(sizes) and sizes[1] - sizes[0] <= 2 and sizes[2] - sizes[0] <= 2 + len(inner) / 8 + 1
    for g in (constant, by_feature, f):
        same(PackedStudent.of(g), g, strategies.rows(rng, g, 200, missing=0.4))


def test_category_values_count_and_come_back(rng):
    values = tuple(f"category {i}" for i in range(4))
    rule = InputRule(categorical=(0,), categories=((0, values),), unknown_category="missing")
    f = strategies.grow(rng, n_trees=5, max_depth=4, n_features=2, categorical=(0,), split=1.0, inputs=rule)
    bare = strategies.grow(np.random.default_rng(0), n_trees=1, n_features=2, categorical=(0,))
    student = PackedStudent.of(f)
    X = np.empty((50, 2), object)
    X[:, 0], X[:, 1] = rng.choice([*values, "new", None], 50), rng.choice(strategies.GRID, 50)
    same(loads(student.to_bytes()), f, X)
    assert student.n_bytes > sum(len(v) for v in values) + 20
    assert bare.inputs.categories == ()


def test_large_category_codes_take_no_room(rng):
    f = strategies.grow(rng, n_trees=5, max_depth=4, n_features=2, categorical=(0,), split=1.0)
    moved = f.with_values(f.value, category=np.array([0, 7, 2**20, 2**31 - 1])[f.category])
    X = strategies.rows(rng, f, 100)
    X[:, 0] = rng.choice([0, 7, 2**20, 2.0**31 - 1, 2.0**31, 1e30, -1, 6.5, 7.9, np.nan], 100)
    student = PackedStudent.of(moved)
    same(student, moved, X)
    assert student.n_bytes < len(pack(f)) + 60


def test_deep_forests_share_leaf_values():
    X, y = load_diabetes(return_X_y=True)
    f = treespec.wrap(RandomForestRegressor(20, random_state=0).fit(X, np.round(y, -1))).forest
    student = PackedStudent.of(f)
    assert student.unpacked.leaves.table is not None
    assert student.n_bytes < f.n_leaves * 8


def test_index_takes_ceil_log2_bits(rng):
    f = strategies.grow(rng, n_trees=30, max_depth=5, n_features=2, split=1.0)
    order = breadth_first(f)
    splits = find_splits(f, order[~f.is_leaf[order]])
    assert splits.count <= 2 * len(strategies.GRID) * 2
    n = (~f.is_leaf).sum()
    assert splits.bits >= n * np.ceil(np.log2(splits.count))
    assert len(pack(f)) * 8 < splits.bits + f.n_nodes + f.n_leaves * 64 + 400


def test_too_many_node_values_are_refused(rng, monkeypatch):
    monkeypatch.setattr("treespec.students.packed_format.MAX_VALUES", 10)
    with pytest.raises(UnsupportedModelError, match="node values"):
        pack(strategies.grow(rng, split=1.0))
    with pytest.raises(UnsupportedModelError, match="leaf bits"):
        pack(strategies.grow(rng, max_depth=0), leaf_bits=17)
