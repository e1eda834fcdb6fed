"""The C of every kind of student and task, of forests and boosted models, on rows with missing and infinite values and unseen categories."""

import shutil

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

import treespec
from compiled import run
from treespec.students.c_code import expected_outputs
from treespec.students.c_rows import raw_rows

pytestmark = pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc")

N, COLOURS = 400, ("red", "green", "blue", "grey")
KINDS = {
    "packed": {"compressor": "packed"},
    "packed, 6 bits": {"compressor": "packed", "leaf_bits": 6},
    "boosted": {"compressor": "boosted"},
    "mlp": {"compressor": "mlp", "steps": 15, "precision": "int8"},
    "scate": {"compressor": "scate", "max_steps": 15},
}


def frame(teacher):
    """Return rows with holes; for LightGBM a frame with a column of text categories, too."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, 4)).round(2)
    X[:, 3] = rng.integers(0, 3, N)
    X[rng.random(X.shape) < 0.1] = np.nan
    if teacher != "LightGBM":
        return X
    pd = pytest.importorskip("pandas")
    out = pd.DataFrame(X, columns=list("abcd"))
    out["colour"] = pd.Categorical(rng.choice(COLOURS, N, p=[0.5, 0.3, 0.1, 0.1]))
    return out


def labels(X, task):
    values = np.nan_to_num(np.asarray(X[["a", "b"]] if hasattr(X, "columns") else X[:, :2], float))
    y = values[:, 0] + 2 * values[:, 1] * (values[:, 0] > 0)
    if hasattr(X, "columns"):
        y += 2.0 * (X["colour"] == "red").to_numpy()
    of_task = {"regression": y, "binary": np.where(y > 0.3, "yes", "no"), "three classes": np.digitize(y, [-0.3, 0.8])}
    return of_task.get(task, (y > 0.3).astype(float))  # a regression on zeros and ones


def model(teacher, task):
    classes = task not in {"regression", "zeros and ones"}
    if teacher == "forest":
        return (RandomForestClassifier if classes else RandomForestRegressor)(8, max_depth=5, random_state=0)
    options = {"n_estimators": 8, "n_jobs": 1, "random_state": 0}
    if teacher == "XGBoost":
        xgboost = pytest.importorskip("xgboost")
        return (xgboost.XGBClassifier if classes else xgboost.XGBRegressor)(max_depth=4, **options)
    lightgbm = pytest.importorskip("lightgbm")
    return (lightgbm.LGBMClassifier if classes else lightgbm.LGBMRegressor)(num_leaves=9, min_child_samples=5, verbose=-1, **options)


def rows_for(n, n_columns, *, infinite):
    """Return float32 rows as C takes them: numbers on and off those of training, holes, infinities, codes of categories that none is."""
    rng = np.random.default_rng(1)
    rows = rng.normal(size=(n, n_columns)).round(2)
    rows[:, 3] = rng.choice([0, 1, 2, 7, -1, 0.5], n)
    far = [np.inf, -np.inf, 1e30, -1e30, 3e38] if infinite else [1e30, -1e30, 3e38]
    hit = rng.random(rows.shape) < 0.05
    rows[hit] = rng.choice(far, int(hit.sum()))
    if n_columns > 4:
        rows[:, 4] = rng.choice([0, 1, 2, 3, 4, 9], n)
    rows[rng.random(rows.shape) < 0.1] = np.nan
    return rows.astype(np.float32)


def check(teacher, task, kind, n, folder):
    X = frame(teacher)
    y = labels(X, task)
    fitted = model(teacher, task).fit(X, y if y.dtype.kind != "U" or teacher != "XGBoost" else (y == "yes").astype(int))
    y = y if y.dtype.kind != "U" or teacher != "XGBoost" else (y == "yes").astype(int)
    w = treespec.wrap(fitted, X, y)
    budget = "20KB" if kind == "packed" else "3KB"
    student = w.distill(budget, **KINDS[kind])
    infinite = student.kind == "mlp" or student.forest.inputs.infinite == "route"
    rows = rows_for(n, student.outcome.n_features, infinite=infinite)
    outputs, margins, export = run(student, rows, folder)
    given = raw_rows(student, rows)
    if student.outcome.feature_names is not None:
        import pandas as pd

        given = pd.DataFrame(given, columns=list(student.outcome.feature_names))
    margin = student._margin(given)
    exact = student.head in {"margin", "value"}
    np.testing.assert_allclose(margins, margin.astype(np.float32), rtol=0 if exact else 1e-6, atol=0)
    np.testing.assert_allclose(outputs, expected_outputs(student.outcome, margin), rtol=1e-6, atol=1e-37)
    assert export.data_bytes <= student.n_bytes


TEACHERS, TASKS = ("forest", "XGBoost", "LightGBM"), ("regression", "binary", "three classes", "zeros and ones")
QUICK = {
    ("forest", "zeros and ones", "boosted"),
    ("XGBoost", "zeros and ones", "mlp"),
    ("forest", "three classes", "scate"),
    ("LightGBM", "regression", "mlp"),
    ("XGBoost", "binary", "packed"),
    ("LightGBM", "three classes", "packed, 6 bits"),
}


@pytest.mark.parametrize(("teacher", "task", "kind"), sorted(QUICK))
def test_some(teacher, task, kind, tmp_path):
    if kind in {"mlp", "scate"}:
        pytest.importorskip("torch")
    check(teacher, task, kind, 400, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("teacher", TEACHERS)
def test_every_kind_and_task_on_ten_thousand_rows(teacher, task, kind, tmp_path):
    if kind in {"mlp", "scate"}:
        pytest.importorskip("torch")
    check(teacher, task, kind, 10_000, tmp_path)
