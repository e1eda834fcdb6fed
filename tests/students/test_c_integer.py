"""The C export for integers: what the student gives for ``x * unit``, exactly, and no floating point in the object."""

import shutil
import subprocess

import numpy as np
import pytest
from sklearn.datasets import load_diabetes, load_iris
from sklearn.ensemble import GradientBoostingClassifier, GradientBoostingRegressor

import strategies
import treespec
from treespec.errors import TreespecError, UnsupportedModelError
from treespec.ir import InputRule
from treespec.students.c_export import integer_sums
from treespec.students.c_integer import MISSING, units_of
from treespec.students.packed import PackedStudent

pytestmark = pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc")

CHECKED = ["gcc", "-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
MAIN = """
#include "m.h"
#include <stdio.h>
#define main self_test
#include "m_test.c"
#undef main
int main(int n, char **arguments) {
    (void)arguments;
    if (n > 1) return self_test();
    static int32_t x[M_N_FEATURES];
    static OUT m[M_N_MARGINS];
    while (fread(x, sizeof(int32_t), M_N_FEATURES, stdin) == M_N_FEATURES) {
        m_margin(x, m);
        fwrite(m, sizeof m[0], M_N_MARGINS, stdout);
    }
    return 0;
}
"""


def run(student, rows, unit, folder):
    """Return the (n, n_outputs) integers that the compiled C gives."""
    export = student.to_c(folder, "m", unit=unit)
    header = (folder / "m.h").read_text()
    kind = "int64" if "int64_t *out" in header else "int32"
    (folder / "main.c").write_text(MAIN.replace("OUT", f"{kind}_t"))
    subprocess.run([*CHECKED, "m.c", "main.c", "-o", "main"], cwd=folder, check=True)
    subprocess.run([folder / "main", "test"], check=True, capture_output=True)
    out = subprocess.run([folder / "main"], input=rows.astype("<i4").tobytes(), check=True, capture_output=True).stdout
    text = (folder / "m.c").read_text()
    assert "float" not in text and "double" not in text
    return np.frombuffer(out, kind).reshape(len(rows), -1), export


def same(student, rows, unit, folder):
    got, export = run(student, rows, unit, folder)
    np.testing.assert_array_equal(got, integer_sums(student, rows, units_of(student, unit)))
    x = np.where(rows == MISSING, np.nan, rows * units_of(student, unit)).astype(student.forest.inputs.dtype)
    np.testing.assert_array_equal(got * export.step, student.forest.margin(x).reshape(len(rows), -1))


@pytest.mark.parametrize("unit", [0.25, 0.1, 2.0**-20, np.array([0.5, 1.0, 0.003])])
@pytest.mark.parametrize("outputs", [1, 3])
def test_integers_stand_for_their_multiples(unit, outputs, tmp_path):
    rng = np.random.default_rng(0)
    rule = InputRule(dtype=("float32", "float64")[outputs > 1], missing_value=np.nan if np.ndim(unit) else 0.5)
    forest = strategies.grow(rng, n_trees=9, max_depth=4, n_features=3, n_outputs=outputs, by_output=outputs > 1, inputs=rule)
    rows = np.rint(rng.choice(np.concatenate([strategies.GRID, strategies.GRID + 0.1]), (400, 3)) / unit) + rng.integers(-1, 2, (400, 3))
    rows[rng.random(rows.shape) < 0.1] = MISSING
    rows[0], rows[1] = 2**31 - 1, -(2**31) + 1
    same(PackedStudent.of(forest, 5), rows.astype(np.int64), unit, tmp_path)


def test_thresholds_beside_integers_and_far_away(tmp_path):
    forest = strategies.grow(np.random.default_rng(0), n_trees=8, max_depth=4, n_features=2, split=1.0)
    for side in (np.inf, -np.inf):
        moved = forest.with_values(forest.value, threshold=np.nextafter(forest.threshold, side))
        rows = np.random.default_rng(1).integers(-6, 7, (200, 2))
        same(PackedStudent.of(moved, 4), rows, 0.5, tmp_path)
    far = forest.with_values(forest.value, threshold=forest.threshold * 1e12)
    same(PackedStudent.of(far, 4), np.random.default_rng(1).integers(-6, 7, (50, 2)), 1.0, tmp_path)


def test_categories_are_codes(tmp_path):
    rng = np.random.default_rng(0)
    rule = InputRule(categorical=(0,), categories=((0, (3.0, 5.0, 7.5, 100.0)),), unknown_category="missing")
    forest = strategies.grow(rng, n_trees=6, max_depth=4, n_features=2, categorical=(0,), split=1.0, inputs=rule)
    rows = np.column_stack([rng.choice([3, 5, 7, 100, 4, -1, MISSING, 2**31 - 1], 200), rng.integers(-9, 9, 200)])
    same(PackedStudent.of(forest, 6), rows, 0.25, tmp_path)


def test_a_model(tmp_path):
    X, y = load_diabetes(return_X_y=True, scaled=False)
    w = treespec.wrap(GradientBoostingRegressor(n_estimators=20, random_state=0).fit(X, y), X, y)
    student = w.distill("2KB", compressor="packed", leaf_bits=6)
    rows = np.rint(X / 0.01).astype(np.int64)
    got, export = run(student, rows, 0.01, tmp_path)
    np.testing.assert_allclose(got[:, 0] * export.step, student.predict((rows * 0.01).astype(np.float32)), rtol=1e-12)
    assert export.data_bytes <= student.n_bytes


def test_rows_that_the_model_refuses(tmp_path):
    X, y = load_iris(return_X_y=True)
    student = PackedStudent.of(treespec.wrap(GradientBoostingClassifier(n_estimators=3, random_state=0).fit(X, y)).forest, 6)
    rows = np.rint(X[:3] / 0.1).astype(np.int64)
    rows[0, 1] = MISSING
    got, _ = run(student, rows, 0.1, tmp_path)
    assert (got[0] == np.iinfo(got.dtype).min).all() and (got[1:] != np.iinfo(got.dtype).min).all()


def test_what_cannot_be_integers_is_refused(tmp_path):
    forest = strategies.grow(np.random.default_rng(0), n_features=2)
    with pytest.raises(UnsupportedModelError, match="leaf values of few bits"):
        PackedStudent.of(forest).to_c(tmp_path, unit=1.0)
    student = PackedStudent.of(forest, 4)
    for unit in (0.0, -1.0, np.nan, [1.0], 1e-40):
        with pytest.raises(TreespecError, match="positive unit"):
            student.to_c(tmp_path, unit=unit)
    with pytest.raises(TreespecError, match="unit or fast"):
        student.to_c(tmp_path, unit=1.0, fast=True)
    marked = strategies.grow(np.random.default_rng(0), n_features=2, inputs=InputRule(missing_value=-1.0))
    with pytest.raises(TreespecError, match="one unit for all"):
        PackedStudent.of(marked, 4).to_c(tmp_path, unit=[1.0, 0.5])
