"""What the caller of `wrap` says beyond the model: rounds, what means missing, margins before the first tree."""

import numpy as np
import pytest
from sklearn.datasets import load_diabetes
from sklearn.ensemble import GradientBoostingClassifier, GradientBoostingRegressor, HistGradientBoostingRegressor, RandomForestRegressor

import treespec
from treespec import errors

X, y = load_diabetes(return_X_y=True)
TWO, THREE = (y > 140).astype(int), np.digitize(y, [100, 200])


def xgb(kind="XGBRegressor", labels=y, rows=X, **options):
    module = pytest.importorskip("xgboost")
    return getattr(module, kind)(**({"n_estimators": 9, "max_depth": 3, "n_jobs": 1} | options)).fit(rows, labels)


def lgbm(kind="LGBMRegressor", labels=y, **options):
    module = pytest.importorskip("lightgbm")
    return getattr(module, kind)(**({"n_estimators": 9, "verbose": -1, "n_jobs": 1} | options)).fit(X, labels)


# ---- rounds

RANGES = [(0, 4), (2, 7), (3, 0), (0, 9), (8, 9)]


@pytest.mark.parametrize("rounds", RANGES)
@pytest.mark.parametrize(
    ("kind", "labels", "options"),
    [
        ("XGBRegressor", y, {}), ("XGBClassifier", THREE, {}), ("XGBClassifier", TWO, {"booster": "dart", "rate_drop": 0.3}),
        ("XGBRegressor", y, {"num_parallel_tree": 2}),
    ],
)  # fmt: skip
def test_rounds_of_xgboost(kind, labels, options, rounds):
    model = xgb(kind, labels, **options)
    w = treespec.wrap(model, X, iteration_range=rounds)
    given = (rounds[0], rounds[1] or 9)
    np.testing.assert_allclose(w.margin(X), model.predict(X, output_margin=True, iteration_range=given), rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(w.predict(X), model.predict(X, iteration_range=given), rtol=1e-6)
    booster = treespec.wrap(model.get_booster(), iteration_range=rounds)
    np.testing.assert_array_equal(booster.margin(X), w.margin(X))
    assert rounds in ((0, 0), (0, 9)) or f"rounds {given[0]} to {given[1]} of 9" in repr(w)


@pytest.mark.parametrize("rounds", RANGES)
@pytest.mark.parametrize(
    ("kind", "labels", "options"),
    [
        ("LGBMRegressor", y, {}), ("LGBMClassifier", THREE, {}),
        ("LGBMRegressor", y, {"boosting_type": "rf", "bagging_freq": 1, "bagging_fraction": 0.6}),
    ],
)  # fmt: skip
def test_rounds_of_lightgbm(kind, labels, options, rounds):
    model = lgbm(kind, labels, **options)
    w = treespec.wrap(model, X, iteration_range=rounds)
    given = {"start_iteration": rounds[0], "num_iteration": (rounds[1] or 9) - rounds[0]}
    np.testing.assert_allclose(w.predict(X), model.predict(X, **given), rtol=1e-12)
    np.testing.assert_array_equal(w.forest.native_id[w.apply(X)], model.predict(X, pred_leaf=True, **given).reshape(len(X), -1))


@pytest.mark.parametrize(
    "model",
    [
        GradientBoostingRegressor(n_estimators=9, random_state=0).fit(X, y),
        GradientBoostingClassifier(n_estimators=9, random_state=0).fit(X, THREE),
        HistGradientBoostingRegressor(max_iter=9, loss="poisson").fit(X, y),
    ],
)
def test_stages_of_scikit_learn(model):
    w = treespec.wrap(model, iteration_range=(0, 4))
    np.testing.assert_array_equal(w.predict(X), list(model.staged_predict(X))[3])
    with pytest.raises(errors.DataMismatchError, match=r"iteration_range=\(0, b\)"):
        treespec.wrap(model, iteration_range=(2, 4))


@pytest.mark.parametrize("bad", [(0, 10), (5, 5), (6, 2), (-1, 4), (0,), 3, "ab", (0.0, 2.0)])
def test_ranges_that_are_none(bad):
    for model in (xgb(), lgbm(), GradientBoostingRegressor(n_estimators=9).fit(X, y)):
        with pytest.raises(errors.DataMismatchError, match="within the 9 rounds"):
            treespec.wrap(model, iteration_range=bad)


def test_rounds_of_a_model_without_any():
    with pytest.raises(errors.UnsupportedModelError, match="boosted model, with iteration_range="):
        treespec.wrap(RandomForestRegressor(2).fit(X, y), iteration_range=(0, 1))


def test_rounds_beyond_those_that_early_stopping_chose():
    model = xgb(rows=X[:300], labels=y[:300])
    model.set_params(n_estimators=60, early_stopping_rounds=2, learning_rate=0.9)
    model.fit(X[:300], y[:300], eval_set=[(X[300:], y[300:])], verbose=False)
    n, best = model.get_booster().num_boosted_rounds(), model.best_iteration
    assert best + 1 < n
    assert f"the first {best + 1} of {n} rounds" in repr(treespec.wrap(model))
    w = treespec.wrap(model, iteration_range=(0, n))
    np.testing.assert_allclose(w.predict(X), model.predict(X, iteration_range=(0, n)), rtol=1e-6)
    stopped = GradientBoostingRegressor(n_estimators=300, learning_rate=0.5, n_iter_no_change=2, random_state=0).fit(X, y)
    assert f"stopped after {stopped.n_estimators_} of 300 rounds" in repr(treespec.wrap(stopped))


def test_rounds_of_files(tmp_path):
    model, other = xgb(), lgbm()
    model.save_model(tmp_path / "x.json")
    other.booster_.save_model(tmp_path / "l.txt")
    for path, wrapped in (("x.json", model), ("l.txt", other)):
        file = treespec.wrap(str(tmp_path / path), iteration_range=(2, 5))
        np.testing.assert_array_equal(file.margin(X), treespec.wrap(wrapped, iteration_range=(2, 5)).margin(X))
        with pytest.raises(errors.DataMismatchError, match="9 rounds"):
            treespec.wrap(str(tmp_path / path), iteration_range=(2, 50))


# ---- what means missing


def test_missing_of_a_booster(tmp_path):
    rows = np.where(np.random.default_rng(0).random(X.shape) < 0.2, -999.0, X)
    model = xgb(rows=rows, missing=-999.0)
    booster = model.get_booster()
    w = treespec.wrap(booster, rows, missing=-999)
    np.testing.assert_array_equal(w.predict(rows), model.predict(rows))
    assert (treespec.wrap(booster).predict(rows) != model.predict(rows)).any()
    model.save_model(tmp_path / "m.json")
    np.testing.assert_array_equal(treespec.wrap(tmp_path / "m.json", missing=-999).predict(rows), model.predict(rows))
    treespec.wrap(model, missing=-999.0)
    with pytest.raises(errors.UnsupportedModelError, match=r"missing=-999\.0, which the wrapper says"):
        treespec.wrap(model, missing=0)


def test_missing_of_frameworks_that_have_none():
    for model in (lgbm(), GradientBoostingRegressor(n_estimators=2).fit(X, y), HistGradientBoostingRegressor(max_iter=2).fit(X, y)):
        with pytest.raises(errors.UnsupportedModelError, match=r"model of XGBoost, with missing="):
            treespec.wrap(model, missing=-999)


# ---- margins before the first tree


@pytest.mark.parametrize(("kind", "labels", "k"), [("XGBRegressor", y, 1), ("XGBClassifier", TWO, 1), ("XGBClassifier", THREE, 3)])
def test_base_margins_of_xgboost(kind, labels, k):
    rng = np.random.default_rng(0)
    base = rng.normal(size=(len(y), k)) * 3
    base = base[:, 0] if k == 1 else base
    module = pytest.importorskip("xgboost")
    model = getattr(module, kind)(n_estimators=5, max_depth=3, n_jobs=1).fit(X, labels, base_margin=base)
    w = treespec.wrap(model, X, labels, base_margin=base)
    np.testing.assert_array_equal(w.margin(X, base_margin=base), model.predict(X, output_margin=True, base_margin=base))
    np.testing.assert_allclose(w.predict(X, base_margin=base), model.predict(X, base_margin=base), rtol=1e-6)
    np.testing.assert_array_equal(w.margin(X), model.predict(X, output_margin=True))
    if k == 3:
        np.testing.assert_allclose(w.predict_proba(X, base_margin=base), model.predict_proba(X, base_margin=base), rtol=1e-5, atol=1e-7)


def test_init_scores_of_lightgbm():
    lightgbm = pytest.importorskip("lightgbm")
    start = np.linspace(-50, 50, len(y))
    model = lightgbm.LGBMRegressor(n_estimators=5, verbose=-1).fit(X, y, init_score=start)
    w = treespec.wrap(model, X, y, base_margin=start)
    np.testing.assert_allclose(w.predict(X, base_margin=start), model.predict(X) + start, rtol=1e-12)


def test_what_a_base_margin_changes():
    base = np.full(len(y), 100.0)
    w = treespec.wrap(xgb(), X, y, base_margin=base)
    student = w.distill("1MB", compressor="packed")
    assert student.report.objective == "fidelity"
    assert w.distill("1MB", X, y, compressor="packed").report.objective == "fidelity"
    with pytest.raises(errors.DataNeededError, match="base_margin"):
        w.distill("1MB", compressor="packed", objective="accuracy")
    with pytest.raises(errors.UnsupportedModelError, match="base_margin"):
        w.smoother("boosting")
    w.smoother("leaf")


@pytest.mark.parametrize("bad", [np.zeros(3), np.zeros((442, 2)), np.full(442, np.nan), "none", ["a"] * 442])
def test_base_margins_that_do_not_fit(bad):
    model = xgb()
    with pytest.raises(errors.DataMismatchError, match="base_margin"):
        treespec.wrap(model, X, y, base_margin=bad)
    with pytest.raises(errors.DataMismatchError, match="base_margin"):
        treespec.wrap(model).predict(X, base_margin=bad)


def test_base_margins_of_what_has_no_start():
    with pytest.raises(errors.DataMismatchError, match="mean over trees"):
        treespec.wrap(RandomForestRegressor(2).fit(X, y)).margin(X, base_margin=y)
    with pytest.raises(errors.DataNeededError, match="base_margin"):
        treespec.wrap(xgb(), base_margin=y)
