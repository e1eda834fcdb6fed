import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strategies import cases
from treespec.operators import ForestKernel, LeafIncidence, ordered
from treespec.operators.merged import LeafGram, MergedKernel
from treespec.operators.ordered import OrderedLeaves


def symmetric(kernel):
    root = kernel.sqrt_weight
    return root[:, None] * (kernel.left.to_sparse() * kernel.scale @ kernel.left.to_sparse().T).toarray() * root


@given(cases(), st.booleans())
def test_both_forms_have_the_eigenpairs_of_the_kernel(case, weighted):
    weight = case.rng.integers(0, 3, size=len(case.X)).astype(float) if weighted else None
    kernel = ForestKernel(LeafIncidence.of(case.forest, case.leaf_id), weight)
    dense = symmetric(kernel)
    V = case.rng.normal(size=(len(case.X), 3))
    np.testing.assert_allclose(MergedKernel(kernel) @ V, dense @ V, atol=1e-12)
    np.testing.assert_allclose(MergedKernel(kernel).T @ V, dense @ V, atol=1e-12)
    gram = LeafGram(kernel)
    table = gram @ np.eye(gram.shape[0])
    np.testing.assert_allclose(table, table.T, atol=1e-12)
    values, vectors = np.linalg.eigh(table)
    large = values > 1e-9
    lifted = gram.lift(values[large], vectors[:, large])
    np.testing.assert_allclose(lifted.T @ lifted, np.eye(large.sum()), atol=1e-9)
    np.testing.assert_allclose(lifted * values[large] @ lifted.T, dense, atol=1e-9)


@pytest.mark.parametrize("index", [[[1, 0], [1, 2]], [[0, 1], [1, 2]], [[2, 2], [0, 1]]])
def test_trees_may_share_leaves(index):
    kernel = ForestKernel(LeafIncidence(index, 3))
    np.testing.assert_allclose(MergedKernel(kernel) @ np.eye(2), symmetric(kernel), atol=1e-14)


def test_blocks_of_rows_have_no_seam(monkeypatch):
    monkeypatch.setattr(ordered, "_ENTRIES", 7 * 30)
    monkeypatch.setattr(ordered, "_FILLED", 11)
    rng = np.random.default_rng(0)
    Z = LeafIncidence(rng.integers(0, 5, size=(100, 7)) + 5 * np.arange(7), 35)
    column = np.where(np.arange(35) % 3 == 1, -1, np.arange(35) - np.arange(35) // 3)
    kept = np.flatnonzero(column >= 0)
    column[kept] = np.arange(len(kept))
    dense, weight = Z.to_sparse().toarray()[:, kept], rng.uniform(size=100)
    table = OrderedLeaves(Z, column)
    V, U = rng.normal(size=(len(kept), 3)), rng.normal(size=(100, 3))
    np.testing.assert_allclose(table @ V, dense @ V, atol=1e-12)
    np.testing.assert_allclose(table.T @ U, dense.T @ U, atol=1e-12)
    np.testing.assert_allclose(table.normal(V, weight), dense.T @ (weight[:, None] * (dense @ V)), atol=1e-12)
