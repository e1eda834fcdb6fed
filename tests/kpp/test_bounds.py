"""Capacity, bounds and stability against their equations written out."""

import numpy as np
import pytest
from hypothesis import given, settings

import strategies
from kpp.problems import learner, problem, rows_of, weight
from kpp.test_model import fitted
from treespec.errors import DataMismatchError, UnsupportedModelError
from treespec.kpp import capacity as capacity_module
from treespec.kpp.capacity import capacity
from treespec.kpp.fit import fit
from treespec.kpp.partition import Partition
from treespec.kpp.regimes import HONEST
from treespec.kpp.stability import half_forests
from treespec.kpp.targets import Targets
from treespec.kpp.weights import uniform
from treespec.operators.path import PathMap


def test_regression_bound():
    """eq. 50 and 55."""
    k, y = fitted("diabetes"), problem("diabetes").y
    b = k.bounds(0.1)
    G = k.gram(problem("diabetes").X)
    n, B, M = len(y), np.linalg.norm(k.coef_), np.abs(y).max()
    risk = np.mean((y - k.predict(problem("diabetes").X)) ** 2)
    np.testing.assert_allclose(b.trace_term, 2 * B * np.sqrt(np.trace(G)) / n)
    uniform_bound = risk + 4 * (M + B) * B / n * np.sqrt(np.trace(G)) + 3 * (M + B) ** 2 * np.sqrt(2 * np.log(2 / 0.1) / n)
    np.testing.assert_allclose(b.uniform, uniform_bound)
    assert b.null_risk == M**2 and b.trivial and b.error_bound is None


def test_logistic_bound_and_calibration():
    """eq. 62 and 64."""
    p, k = problem("binary"), fitted("binary", alpha=0.5)
    b = k.bounds()
    n, B, G = len(p.y), np.linalg.norm(k.coef_), k.gram(p.X)
    sign = np.where(p.y == "malign", 1, -1)
    risk = np.log1p(np.exp(-sign * k.decision_function(p.X))).mean()
    expected = risk + 2 * B / n * np.sqrt(np.trace(G)) + 3 * np.log1p(np.exp(B)) * np.sqrt(np.log(2 / 0.05) / (2 * n))
    np.testing.assert_allclose(b.uniform, expected)
    np.testing.assert_allclose(b.error_bound, expected / np.log(2))
    np.testing.assert_allclose(b.null_risk, np.log(2))
    assert b.trivial == (expected > np.log(2))


def test_several_classes_and_outputs_reduce_to_the_paper_as_extensions():
    for name in ("multiclass", "multi-output"):
        b = fitted(name).bounds()
        assert "Maurer" in b.source and b.uniform > b.empirical_risk


def test_a_bound_carries_its_regime():
    p = problem("diabetes")
    call = {"weights": weight("uniform"), "learner": learner("ridge"), "alpha": 1.0}
    leaky = fit([(p.forest, p.data)], **call).bounds()
    assert leaky.regime == "fixed" and leaky.status.startswith("diagnostic, not a guarantee")
    honest = fit([(p.forest, p.data)], regime=HONEST, **call).bounds()
    assert honest.regime == "honest" and honest.status.startswith("holds conditionally")


def test_what_the_bounds_are_not_about_is_refused():
    with pytest.raises(UnsupportedModelError, match="homogeneous"):
        fitted("binary", options={"intercept": True}).bounds()
    with pytest.raises(UnsupportedModelError, match="one target"):
        fitted("multi-label").bounds()
    with pytest.raises(UnsupportedModelError, match="logistic fit"):
        fitted("binary", learner=learner("ridge")).bounds()
    with pytest.raises(DataMismatchError, match="delta"):
        fitted("diabetes").bounds(0.0)


def test_capacity_by_products_agrees_with_all_eigenvalues(monkeypatch):
    """eq. 56; above the dense limit with a standard error."""
    phi = fitted("diabetes").features
    values = np.linalg.eigvalsh(phi.gram())
    exact = capacity(phi, 0.3)
    np.testing.assert_allclose(exact.effective_dimension, (values / (values + 0.3)).sum(), rtol=1e-8)
    np.testing.assert_allclose([exact.mu_min, exact.mu_max], [max(values[0], 0), values[-1]], atol=1e-10)
    monkeypatch.setattr(capacity_module, "DENSE_ROWS", 10)
    rough = capacity(phi, 0.3)
    assert 0 < rough.effective_dimension_error < 0.1 * exact.effective_dimension
    assert abs(rough.effective_dimension - exact.effective_dimension) < 4 * rough.effective_dimension_error
    np.testing.assert_allclose([rough.trace, rough.mu_max], [exact.trace, exact.mu_max], rtol=1e-6)
    assert rough.mu_min == 0.0  # many rows of shallow trees are alike
    assert capacity(phi.rows(np.array([0, 1, 0])), 1.0).mu_min < 1e-12


def twice(forest):
    """The forest with every tree again."""
    m = forest.n_nodes
    return forest.with_values(
        np.vstack([forest.value] * 2), tree_offset=np.concatenate([forest.tree_offset, forest.tree_offset[1:] + m]),
        **{f: np.concatenate([getattr(forest, f), np.where(forest.is_leaf, -1, getattr(forest, f) + m)]) for f in ("left", "right")},
        **{f: np.tile(getattr(forest, f), 2) for f in ("feature", "threshold", "default_left", "categorical", "category_left", "category")},
        tree_output=np.tile(forest.tree_output, 2),
        category_offset=np.concatenate([forest.category_offset, forest.category_offset[1:] + forest.category_offset[-1]]),
    )  # fmt: skip


@given(strategies.cases(min_rows=4, max_rows=15, max_trees=3))
@settings(max_examples=30, deadline=None)
def test_averages_do_not_change_when_trees_are_duplicated(case):
    """Remark 7.10 and eq. 29: IG and the tree-normalised Gram are averages, and so is delta_T."""
    forest = case.forest
    if forest.is_leaf.all():
        return
    double = twice(forest)
    y = case.rng.normal(size=len(case.X))
    targets = Targets("values", y[:, None], np.empty((len(y), 0), np.int64), ())
    one, two = (Partition.of(f, f.apply(case.X), targets) for f in (forest, double))
    np.testing.assert_allclose(two.gain(two.variance_decrease), one.gain(one.variance_decrease), rtol=1e-12)
    np.testing.assert_allclose(two.leaf_risk(two.variance), one.leaf_risk(one.variance), rtol=1e-10, atol=1e-14)
    for normalisation in ("forest", "tree"):
        grams = [PathMap(f, uniform(f), normalisation=normalisation).features(f.apply(case.X)).gram() for f in (forest, double)]
        np.testing.assert_allclose(grams[1], grams[0], atol=1e-13)


def test_half_forest_discrepancy_is_the_operator_norm():
    """Remark 4.17 on tree-normalised Grams (eq. 27 to 29)."""
    p = problem("diabetes")
    a = uniform(p.forest)
    curve = half_forests(p.forest, a, p.data.leaf_id)
    assert curve.n_trees.tolist() == [1, 2, 5]

    def gram(trees):
        only = np.zeros_like(a)
        for t in trees:
            part = slice(p.forest.tree_offset[t], p.forest.tree_offset[t + 1])
            only[part] = a[part] / a[part].sum()
        return PathMap(p.forest, only).features(p.data.leaf_id).gram()

    for K, delta in zip(curve.n_trees, curve.delta, strict=True):
        expected = np.linalg.norm(gram(range(0, 2 * K, 2)) - gram(range(1, 2 * K, 2)), 2) / np.sqrt(2)
        np.testing.assert_allclose(delta, expected, rtol=1e-3)
    np.testing.assert_allclose(curve.relative, curve.delta / len(p.y))
    np.testing.assert_allclose(curve.last_decrease, 1 - curve.delta[-1] / curve.delta[-2])


def test_half_forests_of_one_tree_or_of_equal_trees():
    rng = np.random.default_rng(0)
    one = strategies.grow(rng, n_trees=1, split=1.0)
    X = strategies.rows(rng, one, 10)
    empty = half_forests(one, uniform(one), one.apply(X))
    assert len(empty.delta) == 0 and empty.last_decrease == 0
    twins = twice(one)
    np.testing.assert_array_equal(half_forests(twins, uniform(twins), twins.apply(X)).delta, [0.0])
    p = problem("diabetes")
    few = half_forests(p.forest, uniform(p.forest), p.data.leaf_id[:2])
    assert len(few.delta) == 3 and np.isfinite(few.delta).all()
    assert rows_of(one, X).n_rows == 10
