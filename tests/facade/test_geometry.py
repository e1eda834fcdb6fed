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
    assert forest.kpp(np.r_[fresh[:-1], X[:1]], y, alpha=1.0).regime.labels_used_twice  # one row grew the trees
    model = RandomForestRegressor(30, max_depth=6, random_state=0).fit(X, y)
    assert treespec.wrap(model).kpp(fresh, y, alpha=1.0).regime.labels_used_twice  # nobody knows which rows grew the trees


@pytest.mark.parametrize("estimator", [RandomForestRegressor(30, random_state=0), GradientBoostingRegressor(n_estimators=30, max_depth=4)])
def test_a_part_of_the_rows_that_grew_the_trees_is_not_unseen(estimator):
    model = estimator.fit(X, y)
    assert treespec.wrap(model, X, y).kpp(X[:165], y[:165], alpha=1.0).regime.labels_used_twice
    part = treespec.wrap(model, X[:165], y[:165])
    assert part.kpp(alpha=1.0).regime.labels_used_twice
    assert part.kpp(X[165:], y[165:], alpha=1.0).regime.labels_used_twice  # wrapped with a part: others may have grown them


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
