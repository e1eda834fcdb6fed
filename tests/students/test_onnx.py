"""ONNX exports, run with onnxruntime and compared with the student, row by row."""

import json
import sys

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris
from sklearn.ensemble import (
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)

import composites
import strategies
import treespec
from probe import nasty_rows
from treespec.errors import MissingDependencyError
from treespec.ir import InputRule
from treespec.students.c_code import expected_outputs
from treespec.students.c_rows import raw_rows
from treespec.students.packed import PackedStudent

onnxruntime = pytest.importorskip("onnxruntime")
pytest.importorskip("onnx")

DIABETES, CANCER, IRIS = (load(return_X_y=True) for load in (load_diabetes, load_breast_cancer, load_iris))


def run(student, rows, folder):
    """Return what the exported file gives for rows, by name."""
    student.to_onnx(folder / "s.onnx")
    session = onnxruntime.InferenceSession(folder / "s.onnx", providers=["CPUExecutionProvider"])
    kind = {"tensor(float)": np.float32, "tensor(double)": np.float64}[session.get_inputs()[0].type]
    with np.errstate(over="ignore"):
        given = rows.astype(kind)
    names = [o.name for o in session.get_outputs()]
    return dict(zip(names, session.run(None, {"x": given}), strict=True)), given


def same(student, rows, folder, tolerance=0.0):
    """Compare margins (bit for bit, or within a tolerance), outputs and labels."""
    got, given = run(student, rows, folder)
    margin = student._margin(raw_rows(student, given))
    np.testing.assert_allclose(got["margin"], margin.astype(np.float32), rtol=tolerance, atol=tolerance * np.abs(margin).max(initial=0))
    np.testing.assert_allclose(
        got["output"], expected_outputs(student.outcome, margin), rtol=max(tolerance, 1e-6), atol=max(tolerance, 1e-37)
    )
    if "label" in got:
        np.testing.assert_array_equal(got["label"].astype(str), student.predict(raw_rows(student, given)).astype(str))
    return got


def teachers():
    holes = np.where(np.random.default_rng(0).random(DIABETES[0].shape) < 0.1, np.nan, DIABETES[0])
    yield "forest", RandomForestRegressor(10, max_depth=5, random_state=0), *DIABETES
    yield "missing", RandomForestRegressor(10, max_depth=5, random_state=0), holes, DIABETES[1]
    yield "doubles", HistGradientBoostingRegressor(max_iter=10), holes, DIABETES[1]
    yield "counts", HistGradientBoostingRegressor(loss="poisson", max_iter=10), holes, np.round(DIABETES[1] / 40)
    yield "binary", GradientBoostingClassifier(n_estimators=10, random_state=0), CANCER[0], np.array(["no", "yes"])[CANCER[1]]
    yield "binary forest", RandomForestClassifier(10, random_state=0), *CANCER
    yield "zeros and ones", RandomForestRegressor(10, max_depth=5, random_state=0), *CANCER
    yield "classes", HistGradientBoostingClassifier(max_iter=8), *IRIS
    yield "class forest", RandomForestClassifier(10, random_state=0), *IRIS
    yield "two outputs", RandomForestRegressor(5, max_depth=5, random_state=0), DIABETES[0], np.column_stack([DIABETES[1], -DIABETES[1]])


TEACHERS = [pytest.param(*t, id=t[0].replace(" ", "-")) for t in teachers()]


@pytest.mark.parametrize(("name", "model", "X", "y"), TEACHERS)
@pytest.mark.parametrize("leaf_bits", [None, 6])
def test_packed_trees_are_bit_equal(name, model, X, y, leaf_bits, tmp_path):
    forest = treespec.wrap(model.fit(X, y)).forest
    student = PackedStudent.of(forest, leaf_bits)
    rows = np.concatenate([X[:100], nasty_rows(forest, np.random.default_rng(0), n_random=100, max_nodes=60)])
    with np.errstate(over="ignore"):
        rows = rows.astype(forest.inputs.dtype)
    good = np.isfinite(rows).all(axis=1) if forest.inputs.infinite == "refuse" else np.ones(len(rows), bool)
    if forest.inputs.nan == "refuse":
        good &= ~np.isnan(rows).any(axis=1)
    same(student, rows[good], tmp_path)


@settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    seed=st.integers(0, 10_000), dtype=st.sampled_from(["float32", "float64"]), sums=st.sampled_from(["float32", "float64"]),
    bits=st.sampled_from([None, 1, 16]), outputs=st.integers(1, 3), categories=st.booleans(), depth=st.integers(0, 5),
    aggregation=st.sampled_from(["sum", "mean"]), odd=st.booleans(), zero=st.sampled_from(["flush", "missing"]),
)  # fmt: skip
def test_any_forest(seed, dtype, sums, bits, outputs, categories, depth, aggregation, odd, zero, tmp_path_factory):
    rng = np.random.default_rng(seed)
    categorical = (0,) if categories else ()
    rule = InputRule(
        dtype=dtype, categorical=categorical, **({"missing_value": 0.5, "zero": zero, "negative_fraction_is_zero": True} if odd else {})
    )
    forest = strategies.grow(
        rng, n_trees=5, max_depth=depth, n_features=3, n_outputs=outputs, categorical=categorical, by_output=outputs > 1 and odd, inputs=rule,
        sum_dtype=sums, aggregation=aggregation,
    )  # fmt: skip
    rows = strategies.rows(rng, forest, 60, missing=0.2)
    if categories:
        rows[:, 0] = rng.choice([0, 1, 2, 3, 9, -1, -0.5, 2.7, 2.0**31, 1e30, np.inf, np.nan], len(rows))
    same(PackedStudent.of(forest, bits), rows, tmp_path_factory.mktemp("onnx"))


@pytest.mark.parametrize("unknown", ["other", "missing"])
@pytest.mark.parametrize("values", [("a", "b", "c", "d"), (3.0, 5.0, 7.5, 100.0)])
def test_categories_behind_codes(values, unknown, tmp_path):
    import onnx

    rng = np.random.default_rng(0)
    rule = InputRule(categorical=(0,), categories=((0, values),), unknown_category=unknown, missing_value=2.0)  # code 2, not value 2
    forest = strategies.grow(rng, n_trees=6, max_depth=4, n_features=2, categorical=(0,), split=1.0, inputs=rule)
    rows = strategies.rows(rng, forest, 100)
    rows[:, 0] = rng.choice([*(range(6) if isinstance(values[0], str) else [*values, 4.0, -1.0]), np.nan], 100)
    same(PackedStudent.of(forest), rows, tmp_path)
    about = {p.key: p.value for p in onnx.load(tmp_path / "s.onnx").metadata_props}
    assert json.loads(about.get("categories", "{}")) == ({"0": list(values)} if isinstance(values[0], str) else {})


@pytest.mark.parametrize(
    "name",
    [
        "isolation forest",
        "one against rest, forests",
        "one against rest, boosted",
        "boosted classes of each target",
        "logarithm of the target",
    ],
)
def test_links_of_models_made_of_models(name, tmp_path):
    same(treespec.wrap(composites.MODELS[name]()).distill("1MB", compressor="packed"), composites.X[:50], tmp_path)


def test_every_link_has_its_operators():
    from treespec.ir.link import LINKS
    from treespec.students.onnx_export import _LINKS

    assert set(_LINKS) == set(LINKS)


def test_refused_rows_give_nan(tmp_path):
    forest = treespec.wrap(GradientBoostingClassifier(n_estimators=3).fit(*IRIS)).forest
    rows = IRIS[0][:3].astype(np.float32)
    rows[0, 1], rows[1, 3] = np.nan, np.inf
    got, _ = run(PackedStudent.of(forest), rows, tmp_path)
    for name in ("output", "margin"):
        assert np.isnan(got[name][:2]).all() and np.isfinite(got[name][2]).all()
    rule = InputRule(categorical=(0,), missing_category="refuse")
    forest = strategies.grow(np.random.default_rng(0), n_trees=6, max_depth=4, n_features=2, categorical=(0,), split=1.0, inputs=rule)
    got, _ = run(PackedStudent.of(forest), np.array([[np.nan, 0], [1, np.nan]]), tmp_path)
    assert np.isnan(got["margin"][0]).all() and np.isfinite(got["margin"][1]).all()


@pytest.mark.parametrize(
    ("name", "model", "X", "y"),
    [t for t in TEACHERS if t.values[0] in {"missing", "binary forest", "class forest", "counts", "zeros and ones"}],
)
def test_distilled_students(name, model, X, y, tmp_path):
    pytest.importorskip("torch")
    w = treespec.wrap(model.fit(X, y), X, y)
    boosted = w.distill("2KB", compressor="packed", leaf_bits=3) if name == "missing" else w.distill(500, compressor="boosted", leaf_bits=5)
    same(boosted, X[:150], tmp_path, 1e-6)
    for precision in ("float16", "int8"):
        student = w.distill("2KB", compressor="mlp", precision=precision, steps=20)
        rows = X[:100].astype(np.float32)
        rows[0, 0], rows[1, 1], rows[2, 2] = np.inf, -np.inf, 1e30
        same(student, rows, tmp_path, 2e-5)


def test_nets_with_categories(tmp_path):
    pd = pytest.importorskip("pandas")
    lightgbm = pytest.importorskip("lightgbm")
    pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {"colour": pd.Categorical(rng.choice(["red", "green", "blue"], 300)), "a": rng.normal(size=300), "n": rng.integers(0, 3, 300)}
    )
    frame.loc[::7, "a"] = np.nan
    y = (frame["colour"] == "red") * 2.0 + frame["a"].fillna(1) * frame["n"]
    w = treespec.wrap(lightgbm.LGBMRegressor(n_estimators=5, n_jobs=1, verbose=-1).fit(frame, y), frame, y)
    student = w.distill("2KB", compressor="mlp", steps=20)
    rows = np.column_stack([rng.choice([0, 1, 2, 3, np.nan], 60), rng.choice([0.5, np.nan, -2], 60), rng.integers(0, 3, 60)]).astype(
        np.float32
    )
    got, _ = run(student, rows, tmp_path)
    np.testing.assert_allclose(
        got["output"][:, 0], student.predict(pd.DataFrame(raw_rows(student, rows), columns=frame.columns)), rtol=1e-4, atol=1e-5
    )


def test_without_onnx_the_error_names_the_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnx", None)
    student = PackedStudent.of(strategies.grow(np.random.default_rng(0)))
    with pytest.raises(MissingDependencyError, match=r"treespec\[onnx\]"):
        student.to_onnx(tmp_path / "s.onnx")
    assert not (tmp_path / "s.onnx").exists()
