"""Compressor ``boosted``: budgets are kept, thresholds move no row, every task, with and without LightGBM."""

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris
from sklearn.ensemble import (
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.metrics import r2_score

import treespec
from treespec.distill import boosted as module
from treespec.distill import boosters
from treespec.distill.boosters import Config, fit, one_output, trees_of
from treespec.distill.shorten import Gaps
from treespec.errors import BudgetError
from treespec.students.file import loads
from treespec.students.packed_format import estimate, pack

DIABETES, CANCER, IRIS = (load(return_X_y=True) for load in (load_diabetes, load_breast_cancer, load_iris))


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(module, "_GRID", ((1_500, (0.5,), (4,), (31,)), (float("inf"), (0.3,), (8,), (31,))))
    monkeypatch.setattr(module, "_MOST_ROUNDS", 12)
    monkeypatch.setattr(module, "_SMALL", 0)  # one fold


@pytest.fixture(params=["lightgbm", "scikit-learn"])
def library(request, monkeypatch):
    if request.param == "lightgbm":
        pytest.importorskip("lightgbm")
    else:
        monkeypatch.setattr(boosters, "find_spec", lambda name: None)


def teachers():
    yield "regression", RandomForestRegressor(10, max_depth=6, random_state=0), *DIABETES
    yield "binary booster", GradientBoostingClassifier(n_estimators=10), *CANCER
    yield "binary forest", RandomForestClassifier(10, random_state=0), CANCER[0], np.array(["no", "yes"])[CANCER[1]]
    yield "class forest", RandomForestClassifier(10, random_state=0), IRIS[0], np.array(["a", "b", "c"])[IRIS[1]]
    yield "class booster", HistGradientBoostingClassifier(max_iter=10), *IRIS
    yield "counts", HistGradientBoostingRegressor(loss="poisson", max_iter=10), DIABETES[0], np.round(DIABETES[1] / 40)
    two = np.column_stack([DIABETES[1], -2 * DIABETES[1]])
    yield "two outputs", RandomForestRegressor(10, max_depth=6, random_state=0), DIABETES[0], two


@pytest.mark.parametrize(("name", "model", "X", "y"), [pytest.param(*t, id=t[0]) for t in teachers()])
def test_every_task(name, model, X, y, library):
    w = treespec.wrap(model.fit(X, y), X, y)
    student = w.distill(1500, compressor="boosted")
    assert student.n_bytes <= 1500
    again = loads(student.to_bytes())
    np.testing.assert_array_equal(again.predict(X), student.predict(X))
    assert student.margin(X).shape == w.margin(X).shape
    assert student.predict(X).dtype == w.predict(X).dtype
    if hasattr(model, "predict_proba"):
        assert student.predict_proba(X).shape == w.predict_proba(X).shape
        np.testing.assert_allclose(student.predict_proba(X).sum(axis=1), 1)
        assert (student.predict(X) == y).mean() > 0.9
    else:
        assert r2_score(y, student.predict(X)) > (0.3 if name == "counts" else 0.45)


def test_budgets_are_kept_and_filled(monkeypatch):
    monkeypatch.setattr(module, "_MOST_ROUNDS", 200)
    X = np.random.default_rng(0).normal(size=(500, 3))
    y = X[:, 0] * X[:, 1] + np.sin(2 * X[:, 2])
    w = treespec.wrap(RandomForestRegressor(5, max_depth=4, random_state=0).fit(X, y), X, y)
    for budget in (60, 150, 400, 1_000):
        student = w.distill(budget, compressor="boosted", leaf_bits=5)
        assert 0.9 * budget - 20 <= student.n_bytes <= budget
        assert student.leaf_bits == student.report.settings["chosen"]["leaf bits"] == 5


def test_few_rows_are_cross_validated(monkeypatch):
    monkeypatch.setattr(module, "_SMALL", 1000)
    seen = []
    monkeypatch.setattr(module, "fit", lambda X, *a, **k: seen.append(len(X)) or fit(X, *a, **k))
    w = treespec.wrap(RandomForestRegressor(5, max_depth=4, random_state=0).fit(*DIABETES), *DIABETES)
    student = w.distill(500, compressor="boosted")
    n = len(DIABETES[0])
    assert min(seen) >= n // 2 and len(set(seen)) > 1 and seen[-1] == n  # three quarters of the rows in turn, then all
    assert all(c["label share"] in (1.0, 0.75) for c in student.report.candidates)  # the teacher knows these rows


def test_an_impossible_budget_names_the_smallest():
    w = treespec.wrap(RandomForestRegressor(5, max_depth=4, random_state=0).fit(*DIABETES), *DIABETES)
    with pytest.raises(BudgetError, match="one split") as caught:
        w.distill(10, compressor="boosted")
    assert w.distill(caught.value.smallest, compressor="boosted").n_bytes == caught.value.smallest
    with pytest.raises(BudgetError):
        w.distill(caught.value.smallest - 1, compressor="boosted")


def test_without_labels_it_imitates_the_teacher():
    w = treespec.wrap(RandomForestRegressor(10, max_depth=4, random_state=0).fit(*DIABETES))
    student = w.distill("3KB", compressor="boosted")
    assert r2_score(w.predict(DIABETES[0]), student.predict(DIABETES[0])) > 0.8
    other = treespec.wrap(RandomForestRegressor(10, max_depth=4, random_state=0).fit(*DIABETES), DIABETES[0], DIABETES[1][::-1])
    same = treespec.wrap(RandomForestRegressor(10, max_depth=4, random_state=0).fit(*DIABETES), *DIABETES)
    one, two = (v.distill("1KB", compressor="boosted", objective="fidelity") for v in (other, same))
    assert one.payload() == two.payload()


def test_the_same_call_gives_the_same_bytes():
    w = treespec.wrap(RandomForestRegressor(5, max_depth=4, random_state=0).fit(*DIABETES), *DIABETES)
    assert len({w.distill("1KB", compressor="boosted", random_state=3).payload() for _ in range(2)}) == 1


def test_missing_values_and_categories():
    rng = np.random.default_rng(0)
    lightgbm = pytest.importorskip("lightgbm")
    n = 600
    frame = pd.DataFrame({"a": rng.normal(size=n), "c": pd.Categorical(rng.choice(["x", "y", "z", "w"], n))})
    y = np.where(frame["c"].isin(["x", "w"]), 3.0, 0.0) + (frame["a"] > 0)
    frame.loc[rng.random(n) < 0.2, "a"] = np.nan
    y = y + 5 * frame["a"].isna()
    w = treespec.wrap(lightgbm.LGBMRegressor(n_estimators=40, verbose=-1, n_jobs=1).fit(frame, y), frame, y.to_numpy())
    student = w.distill("1KB", compressor="boosted")
    assert student.forest.categorical.any()
    assert r2_score(y, student.predict(frame)) > 0.95
    unseen = frame.assign(c=pd.Categorical(["other"] * n))
    assert np.isfinite(student.predict(unseen)).all()
    np.testing.assert_array_equal(loads(student.to_bytes()).predict(unseen), student.predict(unseen))


def test_weights_count():
    X, y = np.repeat([[0.0], [1.0]], 50, axis=0), np.r_[np.zeros(50), np.ones(50)]
    y[::2] = 5.0
    weight = np.where(y == 5.0, 0.0, 1.0)
    w = treespec.wrap(RandomForestRegressor(2, random_state=0).fit(X, y), X, y, sample_weight=weight)
    found = fit(X.astype(np.float32), y[:, None], "squared", Config(1.0, 2, 31, 1), 20, weight=weight, categorical=())
    sums = found.base[0] + sum(f.value[f.apply(X), 0].sum(axis=1) for f in found.forests)
    np.testing.assert_allclose(sums, X[:, 0], atol=0.05)
    assert w.distill(300, compressor="boosted").predict(X).max() < 3


@pytest.mark.parametrize("scale", [1.0, 1e-6, 1e6])
def test_shorter_thresholds_move_no_row(scale):
    rng = np.random.default_rng(0)
    X = (rng.normal(size=(300, 4)) * scale).astype(np.float32)
    X[:, 1] = np.round(X[:, 1] / scale, 1)
    X[:, 2] = rng.integers(0, 3, 300)
    X[rng.random(X.shape) < 0.1] = np.nan
    y = np.nan_to_num(X[:, 0] / scale) + np.nan_to_num(X[:, 1]) + 2 * np.isnan(X[:, 2])
    forest = fit(X, y[:, None], "squared", Config(0.3, 16, 255, 2), 20, weight=None, categorical=()).forests[0]
    short = Gaps(X).shorten(forest)
    np.testing.assert_array_equal(short.apply(X), forest.apply(X))
    assert len(pack(short, 5)) < len(pack(forest, 5))


def test_size_is_estimated_well():
    X = DIABETES[0].astype(np.float32)
    forest = Gaps(X).shorten(fit(X, DIABETES[1][:, None], "squared", Config(0.1, 8, 63, 5), 50, weight=None, categorical=()).forests[0])
    for bits in (4, 6, 8):
        assert abs(estimate(forest, bits) - len(pack(forest, bits))) < 0.02 * len(pack(forest, bits)) + 15


def test_parts_of_forests():
    model = GradientBoostingClassifier(n_estimators=4, random_state=0).fit(*IRIS)
    forest = treespec.wrap(model).forest
    sums = np.column_stack([one_output(forest, k).margin(IRIS[0]) for k in range(3)]) + forest.base_score
    np.testing.assert_allclose(sums, forest.margin(IRIS[0]))
    one = one_output(forest, 1)
    np.testing.assert_allclose(
        trees_of(one, np.array([2, 0])).margin(IRIS[0]), sum(trees_of(one, np.array([t])).margin(IRIS[0]) for t in (0, 2))
    )
