"""C exports: compiled with every warning an error and the sanitizers on, then compared with the student, row by row."""

import ctypes
import shutil
import subprocess
from itertools import pairwise

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
from compiled import STRICT, run
from probe import nasty_rows
from treespec.errors import TreespecError
from treespec.ir import InputRule
from treespec.students.c_code import expected_outputs
from treespec.students.c_rows import raw_rows
from treespec.students.fold import store
from treespec.students.mlp import MLPStudent
from treespec.students.outcome import Outcome
from treespec.students.packed import PackedStudent
from treespec.students.preprocess import Column, Preprocess

pytestmark = pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc")

DIABETES, CANCER, IRIS = (load(return_X_y=True) for load in (load_diabetes, load_breast_cancer, load_iris))


def same(student, rows, folder, **options):
    """Compare outputs and margins within 1e-6 relative, margins bit for bit where the student gives them as they are."""
    rows = rows.astype(np.float32)
    outputs, margins, export = run(student, rows, folder, **options)
    margin = student._margin(raw_rows(student, rows))
    plain = student.head in {"margin", "value"}
    np.testing.assert_allclose(margins, margin.astype(np.float32), rtol=0 if plain else 1e-6, atol=0)
    np.testing.assert_allclose(outputs, expected_outputs(student.outcome, margin), rtol=1e-6, atol=1e-38)
    if not options.get("fast"):
        assert export.data_bytes <= student.n_bytes
    return export


def teachers():
    holes = np.where(np.random.default_rng(0).random(DIABETES[0].shape) < 0.1, np.nan, DIABETES[0])
    yield "forest", RandomForestRegressor(10, max_depth=5, random_state=0), *DIABETES
    yield "forest of shared values", RandomForestRegressor(10, random_state=0), DIABETES[0], np.round(DIABETES[1], -1)
    yield "missing", RandomForestRegressor(10, max_depth=5, random_state=0), holes, DIABETES[1]
    yield "doubles", HistGradientBoostingRegressor(max_iter=10), holes, DIABETES[1]
    yield "counts", HistGradientBoostingRegressor(loss="poisson", max_iter=10), holes, np.round(DIABETES[1] / 40)
    yield "binary", GradientBoostingClassifier(n_estimators=10), CANCER[0], np.array(["no", "yes"])[CANCER[1]]
    yield "binary forest", RandomForestClassifier(10, random_state=0), *CANCER
    yield "classes", HistGradientBoostingClassifier(max_iter=8), *IRIS
    yield "class forest", RandomForestClassifier(10, random_state=0), *IRIS
    yield "two outputs", RandomForestRegressor(5, max_depth=5, random_state=0), DIABETES[0], np.column_stack([DIABETES[1], -DIABETES[1]])


TEACHERS = [pytest.param(*t, id=t[0].replace(" ", "-")) for t in teachers()]
BITS = [(t, None) for t in TEACHERS] + [(t, 6) for t in TEACHERS[2::3]]


@pytest.mark.parametrize(("name", "model", "X", "y", "leaf_bits"), [pytest.param(*t.values, b, id=f"{t.id}-{b}") for t, b in BITS])
def test_packed_trees_are_bit_equal(name, model, X, y, leaf_bits, tmp_path):
    forest = treespec.wrap(model.fit(X, y)).forest
    student = PackedStudent.of(forest, leaf_bits)
    rng = np.random.default_rng(0)
    with np.errstate(over="ignore"):
        rows = np.concatenate([X[:100], nasty_rows(forest, rng, n_random=100, max_nodes=60)]).astype(np.float32)
    good = np.isfinite(rows).all(axis=1) if forest.inputs.infinite == "refuse" else np.ones(len(rows), bool)
    if forest.inputs.nan == "refuse":
        good &= ~np.isnan(rows).any(axis=1)
    same(student, rows[good], tmp_path)
    same(student, rows[good], tmp_path, fast=True, libm=False)


def test_refused_rows_give_nan(tmp_path):
    forest = treespec.wrap(GradientBoostingClassifier(n_estimators=3).fit(*IRIS)).forest
    rows = IRIS[0][:3].astype(np.float32)
    rows[0, 1], rows[1, 3] = np.nan, np.inf
    outputs, margins, _ = run(PackedStudent.of(forest), rows, tmp_path)
    assert np.isnan(outputs[:2]).all() and np.isnan(margins[:2]).all() and np.isfinite(outputs[2]).all()


@settings(deadline=None, max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    seed=st.integers(0, 10_000), dtype=st.sampled_from(["float32", "float64"]), sums=st.sampled_from(["float32", "float64"]),
    bits=st.sampled_from([None, 1, 5, 16]), outputs=st.integers(1, 3), categories=st.booleans(), depth=st.integers(0, 5),
    aggregation=st.sampled_from(["sum", "mean"]), odd=st.booleans(), fast=st.booleans(),
)  # fmt: skip
def test_any_forest(seed, dtype, sums, bits, outputs, categories, depth, aggregation, odd, fast, tmp_path_factory):
    rng = np.random.default_rng(seed)
    categorical = (0,) if categories else ()
    rule = InputRule(
        dtype=dtype, categorical=categorical, **({"missing_value": 0.5, "zero": "flush", "negative_fraction_is_zero": True} if odd else {})
    )
    forest = strategies.grow(
        rng, n_trees=5, max_depth=depth, n_features=3, n_outputs=outputs, categorical=categorical, by_output=outputs > 1 and odd, inputs=rule,
        sum_dtype=sums, aggregation=aggregation,
    )  # fmt: skip
    rows = strategies.rows(rng, forest, 60, missing=0.2)
    if categories:
        rows[:, 0] = rng.choice([0, 1, 2, 3, 9, -1, -0.5, 2.7, 2.0**31, 1e30, np.inf, np.nan], len(rows))
    same(PackedStudent.of(forest, bits), rows, tmp_path_factory.mktemp("c"), fast=fast)


@pytest.mark.parametrize("side", [np.inf, -np.inf, 0])
def test_thresholds_beside_short_numbers(side, tmp_path):
    forest = strategies.grow(np.random.default_rng(0), n_trees=5, max_depth=4, n_features=2, split=1.0)
    forest = forest.with_values(forest.value, threshold=np.nextafter(forest.threshold, side) if side else forest.threshold / 3)
    near = np.concatenate([strategies.GRID, strategies.GRID / 3]).astype(np.float32)
    pool = np.concatenate([near, np.nextafter(near, np.float32(9)), np.nextafter(near, np.float32(-9)), [np.nan, np.inf, -np.inf]])
    for fast in (False, True):
        same(PackedStudent.of(forest), np.random.default_rng(1).choice(pool, (300, 2)), tmp_path, fast=fast)


@pytest.mark.parametrize("unknown", ["other", "missing"])
@pytest.mark.parametrize("values", [("a", "b", "c", "d"), (3.0, 5.0, 7.5, 100.0)])
def test_categories_behind_codes(values, unknown, tmp_path):
    rng = np.random.default_rng(0)
    rule = InputRule(categorical=(0,), categories=((0, values),), unknown_category=unknown, missing_value=2.0)  # code 2, not value 2
    forest = strategies.grow(rng, n_trees=6, max_depth=4, n_features=2, categorical=(0,), split=1.0, inputs=rule)
    rows = strategies.rows(rng, forest, 100)
    rows[:, 0] = rng.choice([*(range(6) if isinstance(values[0], str) else [*values, 4.0, -1.0]), np.nan], 100)
    student = PackedStudent.of(forest)
    same(student, rows, tmp_path)
    assert ("0 = a, 1 = b" in (tmp_path / "m.h").read_text()) == isinstance(values[0], str)


def test_missing_categories_that_are_refused_give_nan(tmp_path):
    rule = InputRule(categorical=(0,), missing_category="refuse")
    forest = strategies.grow(np.random.default_rng(0), n_trees=6, max_depth=4, n_features=2, categorical=(0,), split=1.0, inputs=rule)
    student = PackedStudent.of(forest)
    assert student.forest.inputs.missing_category == "refuse"
    outputs, _, _ = run(student, np.array([[np.nan, 0], [1, np.nan], [1, 0]], np.float32), tmp_path)
    assert np.isnan(outputs[0]).all() and np.isfinite(outputs[1:]).all()


def test_large_codes_and_many_nodes(tmp_path):
    forest = strategies.grow(np.random.default_rng(0), n_trees=5, max_depth=4, n_features=2, categorical=(0,), split=1.0)
    forest = forest.with_values(forest.value, category=np.array([0, 7, 2**20, 2**31 - 1])[forest.category])
    rows = np.random.default_rng(1).choice([0, 7, 2**20, 2.0**31, np.nan, 3], (60, 2))
    same(PackedStudent.of(forest), rows, tmp_path)


@pytest.mark.parametrize(
    ("name", "model", "X", "y"), [t for t in TEACHERS if t.values[0] in {"binary", "binary forest", "class forest", "counts"}]
)
def test_boosted_students(name, model, X, y, tmp_path):
    w = treespec.wrap(model.fit(X, y), X, y)
    student = w.distill(600, compressor="boosted", leaf_bits=5)
    export = same(student, X[:150].astype(np.float32), tmp_path, libm=False)
    assert export.data_bytes <= 600


@pytest.mark.parametrize(
    ("name", "model", "X", "y", "precision"),
    [
        pytest.param(*t.values, p, id=f"{t.id}-{p}")
        for t in TEACHERS
        for p in {
            "forest": ["float32", "float16", "int8"],
            "missing": ["int8"],
            "binary": ["float16"],
            "class forest": ["int8"],
            "counts": ["float16"],
        }.get(t.values[0], [])
    ],
)
def test_nets(name, model, X, y, precision, tmp_path):
    pytest.importorskip("torch")
    w = treespec.wrap(model.fit(X, y), X, y)
    student = w.distill("2KB", compressor="mlp", precision=precision, steps=20)
    rows = X[:100].astype(np.float32).copy()
    rows[0, 0], rows[1, 1], rows[2, 2] = np.inf, -np.inf, 1e30
    for libm in (True, False):
        same(student, rows, tmp_path, libm=libm)


def test_nets_are_the_same_bits_when_compiled_for_speed(tmp_path):
    rng, shape = np.random.default_rng(0), (9, 13, 6, 3)
    nets = [[(rng.normal(size=(b, a)), 100 * rng.normal(size=b)) for a, b in pairwise(shape)] for _ in range(2)]
    exponent, members = store(nets, np.full(9, 5.0), np.full(9, 3.0), "int8")
    made = MLPStudent(Outcome("multi-output", "identity", 3, 9), Preprocess((Column(),) * 9), exponent, members, "value", "int8")
    rows = np.random.default_rng(1).normal(5, 30, (500, 9)).astype(np.float32)
    _, margins, _ = run(made, rows, tmp_path, [*STRICT, "-O3", "-march=native"])
    np.testing.assert_array_equal(margins, made._margin(rows).astype(np.float32))


def test_nets_share_the_number_that_means_missing(tmp_path):
    rng = np.random.default_rng(0)
    columns = (Column(fill=0.5, indicator=True), Column(), Column("category", values=(1.0, 2.0), indicator=True))
    exponent, members = store([[(rng.normal(size=(1, 6)), rng.normal(size=1))]], np.zeros(6), np.ones(6), "float32")
    outcome = Outcome("regression", "identity", 1, 3, missing_value=-999.0)
    made = MLPStudent(outcome, Preprocess(columns), exponent, members, "value", "float32")
    rows = np.column_stack([rng.choice([-999.0, np.nan, 1.0], 60), rng.normal(size=60), rng.choice([-999.0, np.nan, 1.0, 2.0, 3.0], 60)])
    np.testing.assert_array_equal(made.predict(rows), made.predict(np.where(rows == -999, np.nan, rows)))
    same(made, rows, tmp_path)
    with pytest.raises(TreespecError, match="no missing values in column 1"):
        made.predict(np.array([[0.0, -999.0, 1.0]]))
    assert Outcome.from_json(outcome.to_json()).missing_value == -999.0
    refused, _, _ = run(made, np.array([[0.0, -999.0, 1.0]]), tmp_path)
    assert np.isnan(refused).all()


def test_the_constant_data_is_what_the_report_says(tmp_path):
    forest = treespec.wrap(RandomForestRegressor(10, max_depth=5, random_state=0).fit(*DIABETES)).forest
    for student, fast in ((PackedStudent.of(forest), False), (PackedStudent.of(forest, 6), False), (PackedStudent.of(forest), True)):
        export = student.to_c(tmp_path, "m", fast=fast)
        subprocess.run([*STRICT, "-O0", "-c", "m.c"], cwd=tmp_path, check=True)
        table = subprocess.run(["nm", "-S", "m.o"], cwd=tmp_path, check=True, capture_output=True, text=True).stdout
        symbols = [line.split() for line in table.splitlines()]
        assert sum(int(s[1], 16) for s in symbols if len(s) == 4 and s[2] in "rR") == export.data_bytes
        assert not [s for s in symbols if s[-2] in "bBdDC"]  # no variables: the stack is all the RAM
        assert fast or export.data_bytes <= student.n_bytes
        assert export.operations["leaves added"] == 10 and export.operations["steps down at most"] == 50


@pytest.mark.parametrize("libm", [True, False])
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
def test_links_of_models_made_of_models(name, libm, tmp_path):
    student = treespec.wrap(composites.MODELS[name]()).distill("1MB", compressor="packed")
    same(student, composites.X[:50], tmp_path, libm=libm)


def test_without_libm_nothing_is_called(tmp_path):
    w = treespec.wrap(GradientBoostingClassifier(n_estimators=4).fit(*IRIS), *IRIS)
    for libm in (True, False):
        w.distill("1KB", compressor="packed", leaf_bits=5).to_c(tmp_path, "m", libm=libm)
        subprocess.run([*STRICT, "-O2", "-fno-builtin", "-c", "m.c"], cwd=tmp_path, check=True)
        wanted = subprocess.run(["nm", "-u", "m.o"], cwd=tmp_path, check=True, capture_output=True, text=True).stdout.split()
        assert ("exp" in wanted) == libm and set(wanted) <= {"U", "exp", "memcpy", "_GLOBAL_OFFSET_TABLE_"}


def test_functions_without_libm_are_exact(tmp_path):
    from treespec.students.c_math import without_libm

    text = without_libm(
        "static double all(double v, int k) { return k == 0 ? exp(v) : k == 1 ? log(fabs(v)) : k == 2 ? log1p(fabs(v)) : sqrt(fabs(v)); }\n"
    )
    main = "int main(void) { double v; while (fread(&v, 8, 1, stdin)) for (int k = 0; k < 4; k++) { double o = all(v, k); fwrite(&o, 8, 1, stdout); } return 0; }"
    (tmp_path / "f.c").write_text("#include <stdint.h>\n#include <stdio.h>\n#include <string.h>\n" + text + main)
    subprocess.run([*STRICT, "f.c", "-o", "f"], cwd=tmp_path, check=True)
    v = np.concatenate([np.linspace(-50, 50, 2001)[::2] + 1e-3, 10.0 ** np.arange(-12, 3), [-690.0, 700.0]])
    out = np.frombuffer(subprocess.run([tmp_path / "f"], input=v.tobytes(), check=True, capture_output=True).stdout).reshape(-1, 4)
    expected = np.column_stack([np.exp(v), np.log(abs(v)), np.log1p(abs(v)), np.sqrt(abs(v))])
    np.testing.assert_allclose(out, expected, rtol=1e-14, atol=1e-16)


def test_a_shared_library_has_no_state(tmp_path):
    student = PackedStudent.of(treespec.wrap(RandomForestRegressor(10, max_depth=5, random_state=0).fit(*DIABETES)).forest)
    student.to_c(tmp_path, "two")
    subprocess.run([*STRICT, "-O2", "-shared", "-fPIC", "two.c", "-o", "two.so", "-lm"], cwd=tmp_path, check=True)
    library = ctypes.CDLL(str(tmp_path / "two.so"))
    rows = np.ascontiguousarray(DIABETES[0][:20], np.float32)
    out = np.zeros(20, np.float32)
    for _ in range(2):
        for i in range(20):
            library.two_predict(rows[i].ctypes.data_as(ctypes.c_void_p), out[i:].ctypes.data_as(ctypes.c_void_p))
        np.testing.assert_array_equal(out, student.predict(rows).astype(np.float32))
    symbols = subprocess.run(["nm", "--defined-only", "two.so"], cwd=tmp_path, check=True, capture_output=True, text=True).stdout
    assert {line.split()[-1] for line in symbols.splitlines() if line.split()[-2] in "TBD"} >= {"two_predict", "two_margin"}
    assert "malloc" not in (tmp_path / "two.c").read_text()


def test_names_must_be_identifiers_and_notes_cannot_end_comments(tmp_path):
    names = ("*/ int evil;", "a\nb")
    forest = strategies.grow(np.random.default_rng(0), n_features=2, feature_names=names)
    student = PackedStudent.of(forest)
    with pytest.raises(TreespecError, match="identifier"):
        student.to_c(tmp_path, "a b")
    same(student, np.zeros((3, 2)), tmp_path)
