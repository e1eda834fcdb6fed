"""The stack: non-negative weights, honest bookkeeping."""

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris
from sklearn.ensemble import ExtraTreesClassifier, ExtraTreesRegressor, HistGradientBoostingRegressor
from sklearn.model_selection import train_test_split
from sklearn.tree import DecisionTreeRegressor

from treespec import KPPClassifier, KPPRegressor, errors
from treespec.estimators.out_of_fold import Kept, KeptWithRaw
from treespec.estimators.pool import pool_logs, pool_values
from treespec.kpp.blocks import Blocks

X, y = load_diabetes(return_X_y=True)


@pytest.fixture(scope="module")
def stacked():
    bases = [ExtraTreesRegressor(20, min_samples_leaf=3), HistGradientBoostingRegressor(max_iter=20)]
    return KPPRegressor(bases, stack=True, cv=3, random_state=0).fit(X, y)


def test_the_report_adds_up(stacked):
    s = stacked.stack_
    assert min(s.weights.values()) >= 0
    assert list(s.weights) == ["ExtraTreesRegressor", "HistGradientBoostingRegressor", "KPP", "KPP + raw features", "raw linear"]
    assert s.errors["mix"] <= min(s.errors.values()) * (1 + 1e-9)  # weights of any one candidate are among those it may choose
    np.testing.assert_allclose(s.difference, s.errors["mix"] - s.errors[s.best])
    assert s.standard_error > 0
    assert len(s.to_frame()) == 6
    assert "out of fold, paired" in str(s)


def test_predictions_are_the_weighted_candidates(stacked):
    s = stacked.stack_
    parts = {n: (m.scores(X)[:, 0] if hasattr(m, "scores") else m.predict(X)) for n, m in s.models.items()}
    mix = s.centre + sum(w * (parts[n] - s.centre) for n, w in s.weights.items())
    np.testing.assert_allclose(stacked.predict(X), mix, rtol=1e-10)
    np.testing.assert_allclose(stacked.kpp_.predict(X), parts["KPP"])


def test_out_of_fold_errors_are_those_of_unseen_rows(stacked):
    for name, model in stacked.stack_.models.items():
        own = model.scores(X)[:, 0] if hasattr(model, "scores") else model.predict(X)
        assert np.mean((own - y) ** 2) < stacked.stack_.errors[name], name


def test_the_same_mix_without_kpp(stacked):
    rest = stacked.stack_.without("KPP", "KPP + raw features")
    assert set(rest.weights) == {"ExtraTreesRegressor", "HistGradientBoostingRegressor", "raw linear"}
    assert rest.errors["mix"] >= stacked.stack_.errors["mix"] - 1e-9
    assert rest.scores(X).shape == (len(y), 1)
    with pytest.raises(errors.DataMismatchError, match="an ensemble that stays"):
        stacked.stack_.without("ExtraTreesRegressor", "HistGradientBoostingRegressor")


@pytest.mark.parametrize("load", [load_breast_cancer, load_iris])
def test_classes(load):
    A, b = load(return_X_y=True)
    train, test, a, t = train_test_split(A, b, random_state=0, stratify=b)
    model = KPPClassifier(ExtraTreesClassifier(20), stack=True, cv=3, random_state=0).fit(train, a)
    assert model.score(test, t) > 0.9
    p = model.predict_proba(test)
    np.testing.assert_allclose(p.sum(axis=1), 1)
    np.testing.assert_array_equal(model.predict(test), p.argmax(axis=1))
    assert model.stack_.errors["mix"] <= min(model.stack_.errors.values()) + 1e-2
    if p.shape[1] == 2:  # log-loss of the linear candidates is that of their own probabilities
        held = model.stack_.held["KPP"]
        np.testing.assert_allclose(-held[np.arange(len(a)), a].mean(), model.stack_.errors["KPP"])


def test_outputs_are_mixed_one_by_one():
    both = np.column_stack([y, 1000 * X[:, 8] - 500 * X[:, 0] + 1])
    bases = [ExtraTreesRegressor(8, max_depth=4), DecisionTreeRegressor(max_depth=3)]
    model = KPPRegressor(bases, stack=True, cv=3, alpha=1.0, random_state=0).fit(X, both)
    s = model.stack_
    assert model.predict(X).shape == both.shape
    assert all(w.shape == (2,) and (w >= 0).all() for w in s.weights.values())
    assert any(abs(w[0] - w[1]) > 0.05 for w in s.weights.values())
    held = s.centre + sum(w * (s.held[n] - s.centre) for n, w in s.weights.items())
    np.testing.assert_allclose(((held - both) ** 2).mean(), s.errors["mix"])
    alone = pool_values(np.stack([h[:, 1] for h in s.held.values()]), both[:, 1], np.ones(len(y)))[0]
    np.testing.assert_allclose([w[1] for w in s.weights.values()], alone)
    new = s.centre + sum(w * (s._candidate(n, X[:5]) - s.centre) for n, w in s.weights.items())
    np.testing.assert_allclose(model.predict(X[:5]), new)
    assert "mix" in str(s) and len(s.to_frame()) == len(s.errors)


def test_a_given_alpha_is_used():
    model = KPPRegressor(ExtraTreesRegressor(5, max_depth=4), stack=True, cv=2, alpha=0.7, random_state=0).fit(X, y)
    assert model.kpp_.alpha_ == 0.7


def test_row_weights_count():
    weight = np.where(y > 150, 0.0, 1.0)
    model = KPPRegressor(ExtraTreesRegressor(10, max_depth=4), stack=True, cv=3, random_state=0).fit(X, y, sample_weight=weight)
    assert model.predict(X).max() < 150


def test_pool_of_values_finds_the_weights():
    rng = np.random.default_rng(0)
    parts = rng.normal(size=(3, 200))
    target = 5 + 0.3 * parts[0] + 0.6 * parts[2]
    weights, centre = pool_values(parts + 5, target, np.ones(200))
    np.testing.assert_allclose(weights, [0.3, 0.0, 0.6], atol=0.02)
    np.testing.assert_allclose(centre, target.mean())


def test_pool_of_logs_takes_the_one_that_knows():
    rng = np.random.default_rng(0)
    code = rng.integers(0, 3, 500)
    good = np.log(np.where(np.arange(3) == code[:, None], 0.8, 0.1))
    noise = np.log(rng.dirichlet(np.ones(3), 500))
    weights = pool_logs(np.stack([noise, good]), code, np.ones(500))
    assert weights[1] > 10 * weights[0]


def test_kept_gram_is_the_gram(stacked):
    features = stacked.stack_.models["KPP + raw features"].features
    *parts, raw = features.parts
    kept = Kept(parts)
    both = KeptWithRaw(kept, raw)
    np.testing.assert_allclose(both.gram(), features.gram(), atol=1e-14)
    np.testing.assert_allclose(kept.gram(), Blocks(parts).gram(), atol=1e-14)
    kept.gram()[:] = 0.0  # a copy
    np.testing.assert_allclose(kept.gram(), Blocks(parts).gram(), atol=1e-14)
    np.testing.assert_allclose(both.gram(features), features.gram(features), atol=1e-14)


def test_the_default_is_a_stack():
    params = KPPRegressor().get_params()
    assert params["estimator"] is None
    assert params["stack"] == "auto"
    rows = np.random.default_rng(0).choice(len(X), 120, replace=False)
    model = KPPRegressor(cv=2, random_state=0).fit(X[rows], y[rows])
    assert model.stack_ is not None
    assert model.score(X, y) > 0.3
