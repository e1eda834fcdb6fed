"""KPP, influence and spectra from wrapped models: wiring, regimes, clear errors."""

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_diabetes
from sklearn.ensemble import ExtraTreesRegressor, GradientBoostingClassifier, GradientBoostingRegressor, RandomForestRegressor

import treespec
from treespec import errors

X, y = load_diabetes(return_X_y=True)


@pytest.fixture(scope="module")
def forest():
    return treespec.wrap(RandomForestRegressor(30, max_depth=6, random_state=0).fit(X, y), X, y)


def test_the_default_is_the_papers_model(forest):
    k = forest.kpp(alpha=0.4329)
    assert k.weights == "impurity-decrease"
    assert k.learner == "ridge"
    assert round(float(np.sqrt(np.mean((k.predict(X) - y) ** 2))), 4) == 45.3974  # Table 7, regime fixed


def test_several_ensembles_share_one_model(forest):
    other = treespec.wrap(ExtraTreesRegressor(10, max_depth=5, random_state=0).fit(X, y), X, y)
    k = treespec.kpp([forest, other], alpha=1.0)
    assert k.coef_.shape == (forest.forest.n_nodes + other.forest.n_nodes,)
    assert k.predict(X[:5]).shape == (5,)


def test_rows_that_grew_the_trees_make_a_diagnostic_and_fresh_rows_do_not(forest):
    assert forest.kpp(alpha=1.0).regime.labels_used_twice
    assert forest.kpp(X, y, alpha=1.0).regime.labels_used_twice
    fresh = np.random.default_rng(0).permuted(X, axis=0)
    assert forest.kpp(fresh, y, alpha=1.0).regime.name == "honest"
    bare = treespec.wrap(RandomForestRegressor(30, max_depth=6, random_state=0).fit(X, y))
    assert bare.kpp(fresh, y, alpha=1.0).regime.name == "honest"  # the weights are the model's own
    assert bare.kpp(fresh, y, weights="variance-decrease", alpha=1.0).regime.labels_used_twice  # the labels set the weights


def test_errors_of_the_wiring(forest):
    with pytest.raises(errors.UnknownNameError, match="a learner of"):
        forest.kpp(learner="svm")
    with pytest.raises(errors.UnknownNameError, match="a node-weights of"):
        forest.kpp(weights="depth")
    with pytest.raises(errors.DataNeededError, match="at least one"):
        treespec.kpp([])
    cancer = load_breast_cancer(return_X_y=True)
    classifier = treespec.wrap(GradientBoostingClassifier(n_estimators=3).fit(*cancer), *cancer)
    with pytest.raises(errors.DataMismatchError, match="one task"):
        treespec.kpp([forest, classifier])
    with pytest.raises(errors.DataNeededError):
        treespec.wrap(RandomForestRegressor(3, random_state=0).fit(X, y)).kpp()


def test_influence_is_the_derivative_of_the_margin():
    boosted = treespec.wrap(GradientBoostingRegressor(n_estimators=20, random_state=0).fit(X, y), X, y)
    J = boosted.influence(X[:4], top=None)
    S = boosted.smoother("boosting")
    np.testing.assert_allclose(J @ (y - S.initial) + S.initial, boosted.predict(X[:4]), rtol=1e-10)
    top = boosted.influence(X[:4], top=3).toarray()
    assert ((top != 0).sum(axis=1) == 3).all()
    full = np.abs(J.toarray())
    np.testing.assert_allclose(np.abs(top).max(axis=1), full.max(axis=1))


def test_influence_of_a_bootstrapped_forest_is_exact(forest):
    np.testing.assert_allclose(forest.influence(X[:4], top=None) @ y, forest.predict(X[:4]), rtol=1e-10)


def test_influence_of_a_classifier_is_its_tangent():
    cancer = load_breast_cancer(return_X_y=True)
    w = treespec.wrap(GradientBoostingClassifier(n_estimators=10, random_state=0).fit(*cancer), *cancer)
    J = w.influence(cancer[0][:3], top=5)
    assert J.shape == (3, 569)
    assert w.smoother().exactness < 1e-10


def test_the_spectrum_of_each_default(forest):
    s = forest.spectrum(rank=5)
    assert abs(s.values[0] - 1) < 1e-9  # the constant eigenvector of a doubly stochastic kernel
    assert (np.diff(s.values) <= 1e-12).all()
    boosted = treespec.wrap(GradientBoostingRegressor(n_estimators=10, random_state=0).fit(X, y), X, y)
    assert boosted.spectrum(rank=3).left.shape == (442, 3)
    np.testing.assert_array_equal(boosted.spectrum(rank=3).values, boosted.spectrum(rank=3).values)
