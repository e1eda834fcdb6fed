"""Spectra from the leaf side: those of the dense kernel, for any rows, weights and blocks."""

import numpy as np
import pytest
from hypothesis import given, settings

from strategies import cases, grow, rows
from treespec.errors import DataMismatchError
from treespec.operators import ForestKernel, LeafIncidence, leaf_spectrum, spectrum
from treespec.operators import leaf as leaf_module
from treespec.operators.leaf_spectrum import KernelFactor, PathFactor, leaf_directions
from treespec.operators.leaf_writer import block_of
from treespec.operators.path import PathMap
from treespec.operators.path_smoother import PathSmoother


@pytest.fixture
def problem():
    rng = np.random.default_rng(0)
    forest = grow(rng, n_trees=8, max_depth=3, n_features=4)
    X = rows(rng, forest, 900)
    return forest, block_of(forest, forest.apply(X)), rng


def factor_of(smoother):
    if isinstance(smoother, PathSmoother):
        return PathFactor(smoother.features.Z, smoother.features.map)
    return KernelFactor(smoother.left, smoother.weight, np.sqrt(smoother.scale))


@settings(max_examples=40, deadline=None)
@given(cases(min_rows=3, max_rows=25))
def test_values_and_directions_are_those_of_the_dense_kernel(case):
    Z = LeafIncidence.of(case.forest, case.leaf_id)
    weight = case.rng.uniform(0, 2, Z.shape[0])
    for w in (None, weight):
        K = ForestKernel(Z, w)
        rank = min(3, case.forest.n_leaves, Z.shape[0])
        found = leaf_directions(factor_of(K), rank, 0, 1e-8)
        root = K.sqrt_weight
        symmetric = root[:, None] * K.to_dense() / np.where(root > 0, root, 1)
        expected = np.linalg.eigvalsh((symmetric + symmetric.T) / 2)[::-1][:rank]
        np.testing.assert_allclose(found.values, expected, atol=1e-10)
        left = Z @ found.leaf
        np.testing.assert_allclose(K @ left, left * found.values, atol=1e-8)
        assert found.residual < 1e-7
        large = found.values > 1e-9
        right = left if w is None else left * w[:, None]
        np.testing.assert_allclose((left.T @ right)[np.ix_(large, large)], np.eye(large.sum()), atol=1e-7)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("krylov", [False, True])
def test_the_leaf_side_agrees_with_the_row_side(problem, weighted, krylov, monkeypatch):
    forest, Z, rng = problem
    if krylov:
        monkeypatch.setattr(leaf_spectrum, "DENSE_ROWS", 0)
    monkeypatch.setattr(leaf_module, "_BLOCK_ROWS", 200)
    K = ForestKernel(Z, rng.uniform(0.2, 2, Z.shape[0]) if weighted else None, route=lambda X: LeafIncidence.of(forest, forest.apply(X)))
    new = rows(rng, forest, 20)
    leaf_side = spectrum(K, 4, tolerance=1e-10)
    assert leaf_side.leaf.shape == (forest.n_leaves, 4)
    dense = np.linalg.eigvalsh(K.sqrt_weight[:, None] * K.to_dense() / K.sqrt_weight)[::-1][:4]
    np.testing.assert_allclose(leaf_side.values, dense, rtol=1e-10)
    np.testing.assert_allclose(K @ leaf_side.left, leaf_side.left * leaf_side.values, atol=1e-8)
    np.testing.assert_allclose(
        leaf_side.extend(new),
        K.cross(new) @ leaf_side.right / leaf_side.values if not weighted else K.cross(new) @ leaf_side.left / leaf_side.values,
        atol=1e-8,
    )
    top = leaf_side.right[np.abs(leaf_side.right).argmax(axis=0), np.arange(4)]
    assert (top > 0).all()
    y = rng.normal(size=len(K.sqrt_weight))
    np.testing.assert_allclose(leaf_side.coefficients(y), leaf_side.values * (leaf_side.right.T @ y), rtol=1e-10)
    assert leaf_side.residual < 1e-9


def test_the_path_kernel_has_a_leaf_side(problem):
    forest, Z, rng = problem
    S = PathSmoother(PathMap(forest, np.where(forest.is_leaf, 0.0, 1.0)).features(Z), forest.apply)
    found = spectrum(S, 5, tolerance=1e-10)
    assert hasattr(found, "leaf")
    np.testing.assert_allclose(found.values, np.linalg.eigvalsh(S.to_dense())[::-1][:5], rtol=1e-10)
    np.testing.assert_allclose(S @ found.left, found.left * found.values, atol=1e-8)
    new = rows(rng, forest, 6)
    np.testing.assert_allclose(found.extend(new), S.cross(new) @ found.left / found.values, atol=1e-9)


def test_more_directions_than_leaves_are_taken_from_the_rows_or_refused(problem):
    _, Z, _ = problem
    K = ForestKernel(Z)
    assert spectrum(K, 200).rank == 200  # fewer leaves than that: the row side
    with pytest.raises(DataMismatchError, match="leaves of the forest"):
        leaf_directions(factor_of(K), 200, 0, 1e-6)


def test_normal_is_one_pass_of_both_products(problem, monkeypatch):
    _, Z, rng = problem
    monkeypatch.setattr(leaf_module, "_BLOCK_ROWS", 123)
    V, w = rng.normal(size=(Z.shape[1], 3)), rng.uniform(size=Z.shape[0])
    np.testing.assert_allclose(Z.normal(V, w), Z.T @ (w[:, None] * (Z @ V)), rtol=1e-12)
    np.testing.assert_allclose(Z.counts(w), Z.T @ w, rtol=1e-12)
