import numpy as np
import pytest
from hypothesis import given

from strategies import cases, grow, rows
from treespec.errors import DataMismatchError
from treespec.operators import LeafIncidence
from treespec.operators import leaf as leaf_module


def naive(leaf_index, n_leaves, entry=None):
    dense = np.zeros((len(leaf_index), n_leaves))
    for i, row in enumerate(leaf_index):
        for t, leaf in enumerate(row):
            dense[i, leaf] += 1 if entry is None else entry[i, t]
    return dense


@given(cases())
def test_products_are_those_of_the_dense_matrix(case):
    index = case.forest.leaf_index[case.leaf_id]
    dense = naive(index, case.forest.n_leaves)
    Z = LeafIncidence.of(case.forest, case.leaf_id)
    np.testing.assert_array_equal(Z.to_sparse().toarray(), dense)
    np.testing.assert_array_equal(Z.leaf_index(), index)
    np.testing.assert_array_equal(Z.counts(), dense.sum(axis=0))
    for k in (1, 2, 3, 7):  # few and many columns take different ways
        V, U = case.rng.normal(size=(Z.shape[1], k)), case.rng.normal(size=(Z.shape[0], k))
        np.testing.assert_allclose(Z @ V, dense @ V, atol=1e-12)
        np.testing.assert_allclose(Z.T @ U, dense.T @ U, atol=1e-12)
        np.testing.assert_allclose(np.vdot(U, Z @ V), np.vdot(Z.H @ U, V), atol=1e-10)


@given(cases())
def test_entries_take_the_place_of_the_ones(case):
    Z = LeafIncidence.of(case.forest, case.leaf_id)
    entry = case.rng.integers(0, 4, size=(Z.shape[0], Z.n_trees)).astype(np.uint8)
    dense = naive(Z.leaf_index(), Z.shape[1], entry)
    weighted = Z.with_entries(entry)
    np.testing.assert_array_equal(weighted.to_sparse().toarray(), dense)
    for k in (1, 5):
        V, U = case.rng.normal(size=(Z.shape[1], k)), case.rng.normal(size=(Z.shape[0], k))
        np.testing.assert_allclose(weighted @ V, dense @ V, atol=1e-12)
        np.testing.assert_allclose(weighted.T @ U, dense.T @ U, atol=1e-12)
    np.testing.assert_array_equal(
        Z.with_entries(entry[:, 0]).to_sparse().toarray(), naive(Z.leaf_index(), Z.shape[1], entry[:, :1].repeat(Z.n_trees, 1))
    )
    assert Z.entries() is None  # the original has not changed


@given(cases())
def test_select_keeps_the_leaves(case):
    Z = LeafIncidence.of(case.forest, case.leaf_id)
    trees = np.arange(0, Z.n_trees, 2)
    np.testing.assert_array_equal(Z.select(trees).to_sparse().toarray(), naive(Z.leaf_index()[:, trees], Z.shape[1]))


def test_rows_and_trees_are_taken_in_blocks_without_a_seam(monkeypatch):
    monkeypatch.setattr(leaf_module, "_GATHERED", 1)
    monkeypatch.setattr(leaf_module, "_SCATTERED", 1 << 16)
    rng = np.random.default_rng(1)
    index = rng.integers(0, 5, size=(2500, 7)) + 5 * np.arange(7)
    Z, dense = LeafIncidence(index, 35), naive(index, 35)
    V, U = rng.normal(size=(35, 4)), rng.normal(size=(2500, 4))
    np.testing.assert_allclose(Z @ V, dense @ V, atol=1e-12)
    np.testing.assert_allclose(Z.T @ U, dense.T @ U, atol=1e-10)


def test_the_table_takes_the_smallest_type():
    assert LeafIncidence([[0, 256], [255, 511]], 512).nbytes == 4  # one byte each: ordinals count from the tree's lowest
    assert LeafIncidence([[0], [256]], 512).nbytes == 4


def test_no_rows_and_no_trees():
    assert (LeafIncidence(np.zeros((0, 2), int), 3) @ np.ones((3, 2))).shape == (0, 2)
    np.testing.assert_array_equal(LeafIncidence(np.zeros((0, 2), int), 3).T @ np.ones((0, 2)), np.zeros((3, 2)))
    np.testing.assert_array_equal(LeafIncidence(np.zeros((2, 0), int), 0) @ np.ones((0, 1)), np.zeros((2, 1)))


def test_the_operator_does_not_follow_its_input():
    index = np.array([[0], [1]])
    Z = LeafIncidence(index, 2)
    index[:] = 0
    np.testing.assert_array_equal(Z.to_sparse().toarray(), np.eye(2))
    with pytest.raises(ValueError, match="read-only"):
        Z.tree(0)[2][0] = 1


@pytest.mark.parametrize("index", [[[0, 3]], [[-1, 0]], [[0.0, 1.0]], [0, 1]])
def test_bad_ordinals_are_refused(index):
    with pytest.raises(DataMismatchError, match="leaf ordinals"):
        LeafIncidence(np.array(index), 3)


def test_ids_that_are_not_one_leaf_of_each_tree_are_refused():
    forest = grow(np.random.default_rng(0), n_trees=2, split=1.0)
    leaf_id = forest.apply(rows(np.random.default_rng(0), forest, 3))
    for bad in (leaf_id[:, ::-1], leaf_id[:, :1], np.tile(forest.tree_offset[:-1], (3, 1))):
        with pytest.raises(DataMismatchError, match="one leaf of each"):
            LeafIncidence.of(forest, bad)


def test_complex_vectors_are_refused():
    with pytest.raises(TypeError, match="Cannot cast"):
        LeafIncidence([[0]], 1) @ np.array([1j])
