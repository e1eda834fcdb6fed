"""The fitted object: scores, geometry, attribution and the way back to a forest, on every task."""

import numpy as np
import pytest
from hypothesis import given, settings
from scipy.special import expit, softmax

import strategies
from kpp.problems import learner, problem, rows_of, weight
from treespec.errors import DataMismatchError, DataNeededError, PluginError, UnsupportedModelError
from treespec.hooks import Scheme
from treespec.ir import Forest
from treespec.kpp import attribution
from treespec.kpp.fit import fit
from treespec.kpp.learners import default_learner

TASKS = ["diabetes", "multi-output", "binary", "multiclass", "multi-label"]


def fitted(name, *, alpha=0.01, **options):
    p = problem(name)
    options.setdefault("learner", learner(default_learner(p.forest)))
    options.setdefault("weights", weight("impurity-decrease"))
    return fit([(p.forest, p.data)], alpha=alpha, **options)


@pytest.mark.parametrize("name", TASKS)
def test_the_score_is_linear_in_the_features(name):
    p, k = problem(name), fitted(name)
    phi = k.transform(p.X)
    score = k.decision_function(p.X)
    np.testing.assert_allclose(phi @ k.coef_ + k.intercept_, score, rtol=1e-10, atol=1e-10)
    assert phi.shape == (len(p.X), p.forest.n_nodes)
    assert np.sqrt((phi.multiply(phi)).sum(axis=1)).max() <= 1 + 1e-12
    dense = phi.toarray()
    np.testing.assert_allclose(k.gram(p.X[:9], p.X[5:]), dense[:9] @ dense[5:].T, atol=1e-13)
    np.testing.assert_allclose(k.gram(p.X[:9]), dense[:9] @ dense[:9].T, atol=1e-13)
    d = ((dense[:9, None] - dense[None, 5:]) ** 2).sum(-1)
    np.testing.assert_allclose(k.distance(p.X[:9], p.X[5:]), d, atol=1e-13)


@pytest.mark.parametrize("name", TASKS)
def test_predictions_fit_the_labels(name):
    p, k = problem(name), fitted(name, alpha=1e-4 if name in ("diabetes", "multi-output") else 1e-3)
    predicted = k.predict(p.X)
    assert predicted.shape == p.y.shape and (predicted.dtype.kind == "f" or set(predicted.ravel()) <= set(p.y.ravel()))
    if name in ("diabetes", "multi-output"):
        assert ((predicted - p.y) ** 2).mean() < 0.6 * p.y.var(axis=0).mean()
    else:
        assert (predicted == p.y).mean() > 0.8


def test_probabilities_are_the_link_of_the_scores():
    p, k = problem("binary"), fitted("binary")
    np.testing.assert_allclose(k.predict_proba(p.X)[:, 1], expit(k.decision_function(p.X)))
    p, k = problem("multiclass"), fitted("multiclass")
    np.testing.assert_allclose(k.predict_proba(p.X), softmax(k.decision_function(p.X), axis=1))
    p, k = problem("multi-label"), fitted("multi-label")
    assert [q.shape for q in k.predict_proba(p.X)] == [(150, 3), (150, 2)]
    with pytest.raises(UnsupportedModelError, match="logistic model"):
        fitted("binary", learner=learner("ridge")).predict_proba(p.X)
    with pytest.raises(UnsupportedModelError, match="logistic model"):
        fitted("diabetes").predict_proba(problem("diabetes").X)


@pytest.mark.parametrize("name", TASKS)
@pytest.mark.parametrize("centred", [False, True])
@pytest.mark.parametrize("by", ["variable", "node"])
def test_attributions_add_up_to_the_score(name, centred, by):
    """eq. 36 to 39, at 1e-10 relative."""
    p, k = problem(name), fitted(name)
    a = k.attribute(p.X, by=by, centred=centred)
    score = k.decision_function(p.X)
    total = np.column_stack([v.sum(axis=1) for v in a.values]) if isinstance(a.values, list) else a.values.sum(axis=1)
    np.testing.assert_allclose(a.base + total, score, rtol=1e-10, atol=1e-10 * np.abs(score).max())
    if by == "variable":
        assert a.values.shape == (len(p.X), p.forest.n_features, *score.shape[1:])
    if centred and by == "variable":
        np.testing.assert_allclose(a.values.mean(axis=0), 0, atol=1e-9 * np.abs(score).max())


def test_attribution_goes_to_the_variable_of_the_split_above():
    """eq. 37, by climbing node by node."""
    p, k = problem("diabetes"), fitted("diabetes")
    from treespec.ir import stats

    parent = stats.parent(p.forest)
    node_part = k.attribute(p.X[:5], by="node").values.toarray()
    expected = np.zeros((5, p.forest.n_features))
    for v in np.flatnonzero(parent >= 0):
        expected[:, p.forest.feature[parent[v]]] += node_part[:, v]
    np.testing.assert_allclose(k.attribute(p.X[:5]).values, expected, atol=1e-12 * np.abs(node_part).max())
    roots = node_part[:, p.forest.tree_offset[:-1]].sum(axis=1)
    np.testing.assert_allclose(k.attribute(p.X[:5]).base, k.intercept_ + roots, rtol=1e-12)


def test_the_training_rows_need_not_be_passed_again():
    p, k = problem("multiclass"), fitted("multiclass")
    np.testing.assert_array_equal(k.attribute().values, k.attribute(p.X).values)


def test_attribution_in_small_tables_is_the_same(monkeypatch):
    p, k = problem("multiclass"), fitted("multiclass")
    whole = k.attribute(p.X).values
    monkeypatch.setattr(attribution, "_TABLE", 1)
    np.testing.assert_allclose(k.attribute(p.X).values, whole, atol=1e-14)


@pytest.mark.parametrize("name", TASKS)
def test_the_forest_has_the_same_splits_and_the_scores_as_margins(name):
    p, k = problem(name), fitted(name)
    forest = k.to_forest()
    score = k.decision_function(p.X)
    np.testing.assert_allclose(forest.margin(p.X), score, rtol=1e-12, atol=1e-12 * np.abs(score).max())
    np.testing.assert_array_equal(forest.predict(p.X), k.predict(p.X)) if k.targets.kind == "classes" else None
    np.testing.assert_array_equal(forest.left, p.forest.left)
    np.testing.assert_array_equal(forest.threshold, p.forest.threshold)
    assert Forest.from_bytes(forest.to_bytes()).equals(forest)
    if name in ("binary", "multiclass"):
        np.testing.assert_allclose(forest.predict_proba(p.X), k.predict_proba(p.X), rtol=1e-12)


@pytest.mark.parametrize("name", ["diabetes", "binary", "multiclass"])
def test_treelite_predicts_what_the_model_predicts(name):
    from treelite import gtil

    p, k = problem(name), fitted(name)
    raw = gtil.predict(k.to_treelite(), k.to_forest().encode(p.X), pred_margin=True)
    np.testing.assert_allclose(raw.reshape(k.decision_function(p.X).shape), k.decision_function(p.X), rtol=1e-5, atol=1e-5)


@given(strategies.cases(min_rows=6, max_rows=20, max_outputs=2))
@settings(max_examples=40, deadline=None)
def test_any_forest_can_be_refitted_and_explained(case):
    """Stumps, constant trees, categorical splits, missing values, repeated rows, leaves without rows."""
    forest = case.forest
    y = case.rng.normal(size=(len(case.X), forest.n_outputs))
    data = rows_of(forest, case.X, y[:, 0] if forest.n_outputs == 1 else y)
    call = {"weights": weight("uniform"), "learner": learner("ridge"), "alpha": 0.1}
    if forest.is_leaf.all():
        with pytest.raises(UnsupportedModelError, match="no split"):
            fit([(forest, data)], **call)
        return
    for normalisation in ("forest", "tree"):
        k = fit([(forest, data)], normalisation=normalisation, **call)
        score = k.decision_function(case.X)
        assert np.isfinite(score).all()
        a = k.attribute(case.X)
        np.testing.assert_allclose(a.base + a.values.sum(axis=1), score, rtol=1e-10, atol=1e-10)
        np.testing.assert_allclose(k.to_forest().margin(case.X), score, rtol=1e-10, atol=1e-10)
        again = fit([(forest, data)], normalisation=normalisation, **call)
        np.testing.assert_array_equal(again.coef_, k.coef_)


def test_several_ensembles_share_one_gram():
    """Section 9: norms stay at most 1, the Gram matrix is the mean of the parts'."""
    p = problem("diabetes")
    from sklearn.ensemble import GradientBoostingRegressor

    from kpp.problems import adapt

    other = adapt(GradientBoostingRegressor(n_estimators=5, random_state=0).fit(p.X, p.y))
    pairs = [(p.forest, p.data), (other, rows_of(other, p.X, p.y))]
    call = {"weights": weight("impurity-decrease"), "learner": learner("ridge"), "alpha": 0.1}
    k = fit(pairs, **call)
    single = [fit([pair], **call) for pair in pairs]
    np.testing.assert_allclose(k.gram(p.X[:20]), np.mean([s.gram(p.X[:20]) for s in single], axis=0), atol=1e-14)
    phi = k.transform(p.X)
    np.testing.assert_allclose(phi @ k.coef_ + k.intercept_, k.decision_function(p.X), rtol=1e-10)
    np.testing.assert_allclose(k.features.to_sparse().toarray(), phi.toarray())
    v, u = np.random.default_rng(0).normal(size=phi.shape[1]), np.random.default_rng(1).normal(size=phi.shape[0])
    np.testing.assert_allclose(k.features @ v, phi @ v, atol=1e-12)
    np.testing.assert_allclose(k.features.T @ u, phi.T @ u, atol=1e-12)
    np.testing.assert_allclose(k.features.column_square(u), phi.power(2).T @ u, atol=1e-12)
    a = k.attribute(p.X, centred=True)
    np.testing.assert_allclose(a.base + a.values.sum(axis=1), k.decision_function(p.X), rtol=1e-10)
    forest = k.to_forest()
    assert forest.n_trees == p.forest.n_trees + other.n_trees
    np.testing.assert_allclose(forest.margin(p.X), k.decision_function(p.X), rtol=1e-10)
    with pytest.raises(DataMismatchError, match="same rows"):
        fit([pairs[0], (other, rows_of(other, p.X[:9], p.y[:9]))], **call)


def test_raw_features_are_a_block_of_their_own():
    p = problem("diabetes")
    X = p.X.copy()
    X[0, 0] = 1e6  # an outlier is clipped
    k = fit([(p.forest, rows_of(p.forest, X, p.y))], weights=weight("uniform"), learner=learner("ridge"), alpha=0.1, raw=True)
    phi = k.transform(X)
    assert phi.shape[1] == p.forest.n_nodes + 10
    assert np.sqrt(phi.power(2).sum(axis=1)).max() <= 1 + 1e-12
    np.testing.assert_allclose(phi @ k.coef_ + k.intercept_, k.decision_function(X), rtol=1e-10)
    a = k.attribute(X, centred=True)
    np.testing.assert_allclose(a.base + a.values.sum(axis=1), k.decision_function(X), rtol=1e-10)
    np.testing.assert_allclose(a.values.mean(axis=0), 0, atol=1e-9)
    with pytest.raises(UnsupportedModelError, match="raw features"):
        k.to_forest()


def test_bad_input_is_refused_with_a_reason():
    p = problem("binary")
    with pytest.raises(DataNeededError, match="rows without y"):
        fit([(p.forest, rows_of(p.forest, p.X))], weights=weight("uniform"), learner=learner("logistic"), alpha=1.0)
    one = rows_of(p.forest, p.X[p.y == "benign"], p.y[p.y == "benign"])
    with pytest.raises(DataMismatchError, match="one class only"):
        fit([(p.forest, one)], weights=weight("uniform"), learner=learner("logistic"), alpha=1.0)
    with pytest.raises(DataMismatchError, match="labels among"):
        fit([(p.forest, rows_of(p.forest, p.X, np.arange(200)))], weights=weight("uniform"), learner=learner("logistic"), alpha=1.0)
    with pytest.raises(DataMismatchError, match="alpha above 0"):
        fitted("binary", alpha=0)


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        (lambda m: (np.zeros(3), np.zeros(1), {}), "shapes"),
        (lambda m: (np.zeros(m), np.zeros(2), {}), "shapes"),
        (lambda m: (np.zeros((m, 2)), np.zeros(2), {}), "shapes"),
        (lambda m: (np.full(m, np.nan), np.zeros(1), {}), "finite"),
    ],
)
def test_what_a_learner_returns_is_checked_and_its_owner_named(returned, message):
    odd = Scheme("learner", "odd", lambda features, y, *, alpha, **options: returned(features.shape[1]), "my-plugin")
    with pytest.raises(PluginError, match=message) as error:
        fitted("diabetes", learner=odd)
    assert "my-plugin" in str(error.value)


def test_a_learner_plugin_may_return_a_column():
    column = Scheme("learner", "column", lambda f, y, *, alpha, **o: (np.ones((f.shape[1], 1)), np.array([2.0]), {}), "my-plugin")
    assert fitted("diabetes", learner=column).decision_function(problem("diabetes").X).shape == (442,)
