"""A logistic KPP on top of the ensembles' own log-odds: what every method says about it, or refuses."""

import numpy as np
import pytest
from scipy.special import expit, log_softmax, logit
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.ensemble import ExtraTreesClassifier, GradientBoostingClassifier

import treespec
from kpp.problems import learner, problem, rows_of, weight
from treespec import KPPClassifier, KPPRegressor
from treespec.errors import DataMismatchError, DataNeededError, UnsupportedModelError
from treespec.hooks import Scheme
from treespec.kpp.anchor import LEAST
from treespec.kpp.fit import fit
from treespec.kpp.folds import folds

A, b = load_breast_cancer(return_X_y=True)
A, b = A[:200, :6], b[:200]
IRIS, kinds = load_iris(return_X_y=True)


def model_of(name):
    if name == "forest":
        return ExtraTreesClassifier(15, max_depth=4, random_state=0)
    if name == "boosting":
        return GradientBoostingClassifier(n_estimators=8, max_depth=2, random_state=0)
    if name == "xgboost":
        return pytest.importorskip("xgboost").XGBClassifier(n_estimators=6, max_depth=2, n_jobs=1)
    averaged = {"boosting_type": "rf", "subsample": 0.8, "subsample_freq": 1, "sigmoid": 1.7} if name == "averaged lightgbm" else {}
    lightgbm = pytest.importorskip("lightgbm")
    return lightgbm.LGBMClassifier(n_estimators=6, num_leaves=4, min_child_samples=5, n_jobs=1, verbose=-1, **averaged)


MODELS = ["forest", "boosting", "xgboost", "lightgbm", "averaged lightgbm"]


def anchored(name, X, y, **options):
    w = treespec.wrap(model_of(name).fit(X, y), X, y)
    return w, w.kpp(anchor="base", **{"alpha": 1e-2, **options})


def log_odds(w, X):
    return _log_odds(w.forest, X)


def _log_odds(forest, X):
    p = forest.predict_proba(X)
    if forest.link == "probability":
        p = (p + LEAST) / (1 + LEAST * p.shape[1])
    return logit(p[:, 1]) if p.shape[1] == 2 else np.log(p)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize(("X", "y"), [(A, b), (IRIS, kinds)], ids=["binary", "multiclass"])
def test_the_score_is_the_ensembles_log_odds_and_a_linear_correction(name, X, y):
    w, k = anchored(name, X, y)
    correction = k.transform(X) @ k.coef_ + k.intercept_
    score = k.decision_function(X)
    rest, own = score - correction, log_odds(w, X)
    if y.max() > 1:
        rest, own = log_softmax(rest, axis=1), log_softmax(own, axis=1)
    np.testing.assert_allclose(rest, own, rtol=2e-5, atol=2e-5)  # boosters add up in float32
    p = k.predict_proba(X)
    np.testing.assert_array_equal(k.predict(X), k.targets.classes[0][p.argmax(axis=1)])
    if y.max() == 1:
        np.testing.assert_allclose(p[:, 1], expit(score))
    a = k.attribute(X, centred=True)
    np.testing.assert_allclose(a.base + a.values.sum(axis=1), score, rtol=1e-10, atol=1e-10)
    assert len(a.base) == len(X)
    np.testing.assert_allclose(k.attribute().base + k.attribute().values.sum(axis=1), score, rtol=1e-10, atol=1e-10)
    nodes = k.attribute(X, by="node")
    total = np.column_stack([v.sum(axis=1) for v in nodes.values]) if y.max() > 1 else nodes.values.sum(axis=1)
    np.testing.assert_allclose(nodes.base + total, score, rtol=1e-10, atol=1e-10)
    assert "anchored" in repr(k)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize(("X", "y"), [(A, b), (IRIS, kinds)], ids=["binary", "multiclass"])
def test_a_booster_with_its_correction_is_one_forest_and_a_forest_is_refused(name, X, y):
    _, k = anchored(name, X, y)
    if name == "forest":
        with pytest.raises(UnsupportedModelError, match="a sum over trees"):
            k.to_forest()
        return
    forest = k.to_forest()
    np.testing.assert_allclose(forest.margin(X), k.decision_function(X), rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(forest.predict_proba(X), k.predict_proba(X), rtol=1e-9)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize(("X", "y"), [(A, b), (IRIS, kinds)], ids=["binary", "multiclass"])
def test_no_row_of_the_ball_leaves_the_enclosure(name, X, y):
    w, k = anchored(name, X, y, raw=name == "forest")
    rng, reach = np.random.default_rng(0), 0.1 * X.std(axis=0)
    rows = X[:: len(X) // 40]
    cert = k.raw_certificate(rows, reach)
    for _ in range(40):
        near = rows + rng.choice([-1.0, 1.0, 0.3], size=rows.shape) * reach
        score, margin = k.decision_function(near), w.margin(near)
        assert (cert.score_low <= score).all() and (score <= cert.score_high).all()
        assert (cert.margin_low <= margin).all() and (margin <= cert.margin_high).all()
        assert (k.predict(near) == k.predict(rows))[cert.keeps_class].all()
    still = k.raw_certificate(rows, 0.0)
    assert still.movement.max() < 1e-4
    assert cert.movement.max() > 0.01


def test_rows_that_grew_the_trees_get_log_odds_of_trees_that_have_not_seen_them():
    w, k = anchored("forest", A, b)
    for train, test in folds(k.targets, 0):
        other = treespec.wrap(model_of("forest").fit(A[train], b[train]))
        np.testing.assert_allclose(k.targets.offset[test, 0], log_odds(other, A[test]), rtol=1e-9)
    assert np.abs(k.targets.offset[:, 0] - log_odds(w, A)).max() > 0.5
    score = k.fitted_scores()[:, 0]
    gradient = k.features.T @ (expit(score) - k.targets.code[:, 0]) / len(b) + k.alpha_ * k.coef_
    assert np.abs(gradient).max() < 1e-5  # the optimum of eq. 61 with these log-odds as offset


def test_the_penalty_is_chosen_on_top_of_the_anchor():
    """On labels that the ensemble already explains, the correction is penalised away; without an anchor it cannot be."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 2))
    y = (rng.random(200) < expit(2 * np.sign(X[:, 0]))).astype(int)
    w = treespec.wrap(GradientBoostingClassifier(n_estimators=20, max_depth=1, random_state=0).fit(X, y), X, y)
    k, plain = w.kpp(anchor="base"), w.kpp()
    how = k.info["alpha"]
    assert how["method"] == "nested"
    assert k.norm < 0.3 * plain.norm
    without = np.logaddexp(0, -k.targets.sign * k.targets.offset[:, 0]).mean()
    assert without < 0.5
    np.testing.assert_allclose(how["error"][-1], without, atol=0.02)  # a correction of almost nothing
    free = w.kpp(anchor="base", alpha="label-free")
    assert free.info["alpha"]["method"] == "label-free" and np.isfinite(free.decision_function(X)).all()


def test_more_rows_than_are_refitted_elsewhere_are_still_nested(monkeypatch):
    from treespec.kpp import alpha

    monkeypatch.setattr(alpha, "NESTED_ROWS", 100)
    assert anchored("boosting", A, b, alpha="auto")[1].info["alpha"]["method"] == "nested"


def test_rows_that_the_trees_have_not_seen_need_no_refit():
    w = treespec.wrap(model_of("boosting").fit(A[:100], b[:100]), A[:100], b[:100])
    k = w.kpp(A[100:], b[100:], anchor="base", alpha=1e-2)
    assert not k.regime.labels_used_twice
    np.testing.assert_allclose(k.targets.offset[:, 0], log_odds(w, A[100:]), rtol=1e-6)
    assert w.kpp(A[100:], b[100:], anchor="base").info["alpha"]["method"] == "folds"


def test_a_booster_that_cannot_be_refitted_is_refused_on_its_own_rows():
    xgb = pytest.importorskip("xgboost")
    booster = xgb.train({"objective": "binary:logistic", "max_depth": 2}, xgb.DMatrix(A, label=b), 5)
    with pytest.raises(DataNeededError, match="fitted again"):
        treespec.wrap(booster, A, b).kpp(anchor="base", alpha=1.0)


def test_what_the_path_metric_does_not_limit_is_refused():
    _, k = anchored("forest", A, b)
    for call in (lambda: k.robust_radius(A, b), lambda: k.robust_curve(A, b), k.bounds):
        with pytest.raises(UnsupportedModelError, match="without anchor"):
            call()
    d = k.dashboard(A, b)
    assert d.curve is None and d["norm of w"] == k.norm and d["uniform bound"] is None
    with pytest.raises(KeyError):
        d["u_half"]
    assert "does not limit the anchor" in str(d)
    error = (k.predict(A) != b).mean()
    np.testing.assert_allclose(d["error rate"], error)
    own = k.dashboard()
    np.testing.assert_allclose(own["error rate"], ((k.fitted_scores()[:, 0] > 0) != b).mean())


def test_values_ridge_several_targets_and_other_words_are_refused():
    p = problem("diabetes")
    with pytest.raises(DataMismatchError, match="learner='logistic'"):
        fit([(p.forest, p.data)], weights=weight("uniform"), learner=learner("ridge"), alpha=1.0, anchor="base")
    q = problem("binary")
    call = {"weights": weight("uniform"), "alpha": 1.0}
    with pytest.raises(DataMismatchError, match="learner='logistic'"):
        fit([(q.forest, q.data)], learner=learner("ridge"), anchor="base", **call)
    with pytest.raises(DataMismatchError, match="anchor None or 'base'"):
        fit([(q.forest, q.data)], learner=learner("logistic"), anchor="mean", **call)
    several = problem("multi-label")
    with pytest.raises(DataMismatchError, match="one target"):
        fit([(several.forest, several.data)], learner=learner("logistic"), anchor="base", **call)
    with pytest.raises(DataMismatchError, match="an anchor that is known for new rows"):
        fit([(q.forest, q.data)], learner=learner("logistic"), options={"offset": np.zeros(200)}, **call)
    with pytest.raises(DataMismatchError, match="learner='logistic'"):
        treespec.wrap(p.model, p.X, p.y).kpp(anchor="base")
    assert "anchor" not in KPPRegressor().get_params()


def test_a_learner_plugin_with_an_offset_can_be_anchored():
    seen = {}

    def still(features, y, *, alpha, n_classes=None, offset=None, **options):
        seen["offset"] = offset
        return np.zeros(features.shape[1]), np.zeros(1), {}

    w = treespec.wrap(model_of("boosting").fit(A, b), A, b)
    data = rows_of(w.forest, A, b)
    from treespec.kpp.refit import refitter
    from treespec.plugins import manager

    k = fit([(w.forest, data)], weights=weight("uniform"), learner=Scheme("learner", "still", still, "my-plugin"), alpha=1.0,
            anchor="base", refit=[refitter(model_of("boosting"), manager().adapt)])  # fmt: skip
    np.testing.assert_array_equal(seen["offset"], k.targets.offset)
    np.testing.assert_allclose(k.decision_function(A), w.margin(A), rtol=1e-6)


def test_estimators_of_several_ensembles_and_every_regime():
    names = np.array(["benign", "malign"])[b]
    for regime in ("fixed", "honest", "cross-fit"):
        model = KPPClassifier(
            [model_of("forest"), model_of("boosting")], anchor="base", alpha=1e-2, regime=regime, cv=3, random_state=0
        ).fit(A, names)
        assert model.score(A, names) > 0.85
        np.testing.assert_allclose(model.predict_proba(A).sum(axis=1), 1)
        first = model.kpp_ if regime != "cross-fit" else model.kpp_.models[0]
        correction = first.transform(A) @ first.coef_ + first.intercept_
        own = [_log_odds(f, A) for f in first.anchor.forests]
        np.testing.assert_allclose(first.decision_function(A) - correction, np.mean(own, axis=0), rtol=1e-9, atol=1e-9)
    default = KPPClassifier(anchor="base", alpha=1e-2, random_state=0).fit(A[:80], b[:80])
    assert default.stack_ is None and default.kpp_.anchor is not None
    with pytest.raises(DataMismatchError, match="no anchor with stack"):
        KPPClassifier(model_of("forest"), anchor="base", stack=True).fit(A, b)


def test_a_fitted_estimator_survives_pickling():
    import pickle

    model = KPPClassifier(model_of("boosting"), anchor="base", alpha=1e-2, random_state=0).fit(A, b)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).decision_function(A), model.decision_function(A))
