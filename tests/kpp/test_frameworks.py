"""KPP on a model of every framework: weights, isometry, attribution, refits, alpha."""

import numpy as np
import pytest

from kpp.problems import WEIGHTS, learner, rows_of, weight
from treespec.errors import DataMismatchError, DataNeededError, UnsupportedModelError
from treespec.kpp.fit import fit
from treespec.kpp.learners import default_learner
from treespec.kpp.refit import refitter, routed
from treespec.kpp.smoother import path
from treespec.kpp.weights import default_scheme, node_weights
from treespec.plugins import manager


def data(task):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 4)).round(1)
    X[rng.random(X.shape) < 0.05] = np.nan
    signal = np.nan_to_num(X[:, 0]) + np.nan_to_num(X[:, 1]) ** 2 + rng.normal(size=120) / 3
    y = {"regression": signal, "binary": (signal > 1).astype(int), "multiclass": np.digitize(signal, [0.3, 1.5])}[task]
    return X, y


def sklearn_forest(task):
    from sklearn.ensemble import ExtraTreesClassifier, ExtraTreesRegressor

    cls = ExtraTreesRegressor if task == "regression" else ExtraTreesClassifier
    return cls(10, max_depth=4, random_state=0)


def sklearn_boosting(task):
    from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

    cls = HistGradientBoostingRegressor if task == "regression" else HistGradientBoostingClassifier
    return cls(max_iter=8, max_leaf_nodes=6, min_samples_leaf=5, early_stopping=False)


def xgboost(task):
    xgb = pytest.importorskip("xgboost")
    cls = xgb.XGBRegressor if task == "regression" else xgb.XGBClassifier
    return cls(n_estimators=8, max_depth=3, n_jobs=1)


def lightgbm(task):
    lgb = pytest.importorskip("lightgbm")
    cls = lgb.LGBMRegressor if task == "regression" else lgb.LGBMClassifier
    return cls(n_estimators=8, num_leaves=6, min_child_samples=5, n_jobs=1, verbose=-1)


FRAMEWORKS = {f.__name__: f for f in (sklearn_forest, sklearn_boosting, xgboost, lightgbm)}
adapt = manager().adapt


@pytest.fixture(params=sorted(FRAMEWORKS))
def framework(request):
    return FRAMEWORKS[request.param]


@pytest.mark.parametrize("task", ["regression", "binary", "multiclass"])
def test_every_weight_works_or_says_what_it_needs(framework, task):
    X, y = data(task)
    forest = adapt(framework(task).fit(X, y))
    rows = rows_of(forest, X, y)
    for name in WEIGHTS:
        lacks = {"impurity-decrease": forest.impurity is None, "gain": forest.gain is None}.get(name, False)
        if lacks:
            with pytest.raises(DataNeededError, match="stores"):
                node_weights(weight(name), forest, rows)
            continue
        if name == "entropy-decrease" and task == "regression":
            with pytest.raises(UnsupportedModelError, match="classifier"):
                node_weights(weight(name), forest, rows)
            continue
        a = node_weights(weight(name), forest, rows)
        k = fit([(forest, rows)], weights=weight(name), learner=learner(default_learner(forest)), alpha=0.05)
        phi = k.transform(X)
        assert np.sqrt(phi.power(2).sum(axis=1)).max() <= 1 + 1e-12
        d = ((phi.toarray()[:8, None] - phi.toarray()[None, :8]) ** 2).sum(-1)
        np.testing.assert_allclose(k.distance(X[:8]), d, atol=1e-13)
        score, parts = k.decision_function(X), k.attribute(X)
        np.testing.assert_allclose(parts.base + parts.values.sum(axis=1), score, rtol=1e-10, atol=1e-10)
        np.testing.assert_allclose(k.to_forest().margin(X), score, rtol=1e-10, atol=1e-10)
        assert (a > 0).any() and k.predict(X).shape == y.shape


@pytest.mark.parametrize(("name", "task"), [("sklearn_forest", "binary"), ("xgboost", "regression"), ("lightgbm", "multiclass")])
def test_automatic_penalty_refits_what_can_be_refitted(name, task):
    X, y = data(task)
    model = FRAMEWORKS[name](task).fit(X, y)
    forest = adapt(model)
    call = {"weights": weight("variance-decrease"), "learner": learner(default_learner(forest)), "alpha": "auto"}
    k = fit([(forest, rows_of(forest, X, y))], refit=[refitter(model, adapt)], **call)
    how = k.info["alpha"]
    assert how["method"] == "nested" and len(how["grid"]) == len(how["error"])
    assert k.alpha_ == how["grid"][int(np.argmin(how["error"]))]
    free = fit([(forest, rows_of(forest, X, y))], **call)
    assert free.info["alpha"]["method"] == "label-free"
    if task == "regression":
        again = fit([(forest, rows_of(forest, X, y))], refit=[refitter(model, adapt)], **call)
        assert again.alpha_ == k.alpha_ and np.array_equal(again.coef_, k.coef_)


def test_the_refit_is_the_model_on_other_rows(framework):
    X, y = data("regression")
    model = framework("regression").fit(X, y)
    refit = refitter(model, adapt)
    forest, rows = refit(X[:80], y[:80])
    expected = adapt(framework("regression").fit(X[:80], y[:80]))
    assert forest.equals(expected)
    np.testing.assert_array_equal(rows.leaf_id, expected.apply(X[:80]))
    np.testing.assert_allclose(rows.margin(X), expected.margin(X))
    np.testing.assert_array_equal(routed(forest, X, None).leaf_id, expected.apply(X))


def test_what_cannot_be_refitted_says_so():
    lgb = pytest.importorskip("lightgbm")
    X, y = data("regression")
    model = lightgbm("regression").fit(X, y)
    assert refitter(model.booster_, adapt) is None and refitter(None, adapt) is None and refitter(lgb.LGBMRegressor, adapt) is None
    forest = adapt(model.booster_)
    call = {"weights": weight("uniform"), "learner": learner("ridge")}
    with pytest.raises(DataNeededError, match="fitted again"):
        fit([(forest, rows_of(forest, X, y))], alpha="nested", refit=[None], **call)
    with pytest.raises(DataMismatchError, match="'auto', 'nested'"):
        fit([(forest, rows_of(forest, X, y))], alpha="best", **call)
    with pytest.raises(DataNeededError, match="at least 10 rows"):
        fit([(forest, rows_of(forest, X[:8], y[:8]))], alpha="auto", **call)


def test_early_stopping_is_refitted_with_the_rounds_it_stopped_at():
    xgb = pytest.importorskip("xgboost")
    X, y = data("regression")
    model = xgb.XGBRegressor(n_estimators=100, max_depth=2, early_stopping_rounds=2, n_jobs=1)
    model.fit(X[:80], y[:80], eval_set=[(X[80:], y[80:])], verbose=False)
    forest, _ = refitter(model, adapt)(X, y)
    assert forest.n_trees == model.best_iteration + 1


@pytest.mark.parametrize("task", ["regression", "binary"])
def test_the_path_smoother_takes_the_default_weights(framework, task):
    X, y = data(task)
    forest = adapt(framework(task).fit(X, y))
    S = path(forest, rows_of(forest, X, y))
    k = fit([(forest, rows_of(forest, X, y))], weights=weight(default_scheme(forest)), learner=learner(default_learner(forest)), alpha=1.0)
    np.testing.assert_allclose(S.to_dense(), k.gram(X), atol=1e-14)
    assert np.linalg.eigvalsh(S.to_dense()).min() > -1e-12
    assert path(forest, rows_of(forest, X)).trace() > 0


@pytest.mark.parametrize("task", ["regression", "binary", "multiclass"])
def test_no_row_found_by_search_violates_a_certificate(framework, task):
    """Both certificates, on rows of the data and on rows drawn within balls around them, missing values among them."""
    X, y = data(task)
    forest = adapt(framework(task).fit(X, y))
    k = fit([(forest, rows_of(forest, X, y))], weights=weight("uniform"), learner=learner(default_learner(forest)), alpha=0.01)
    score, delta = k.scores(X), k.distance(X)
    apart = np.linalg.norm(score[:, None] - score[None], axis=-1)
    assert (apart <= k.norm * np.sqrt(delta) * (1 + 1e-9) + 1e-9).all()
    spread = float(score.std())
    radius = k.robust_radius(X, y, epsilon=spread) if task == "regression" else k.robust_radius(X, y)
    near = delta < radius[:, None]
    assert near.sum() >= (radius > 0).sum() > len(X) / 2
    if task == "regression":
        assert apart[near].max() <= spread
    else:
        assert (k.predict(X)[:, None] == k.predict(X)[None])[near].all()
    cert, rng = k.raw_certificate(X, 0.15), np.random.default_rng(0)
    for _ in range(25):
        moved = X + rng.choice([-0.15, 0.15, 0.0, rng.uniform(-0.15, 0.15)], size=X.shape)
        for value, low, high in (
            (k.decision_function(moved), cert.score_low, cert.score_high),
            (forest.margin(moved), cert.margin_low, cert.margin_high),
        ):
            assert (low <= value).all() and (value <= high).all()
