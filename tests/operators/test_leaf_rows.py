import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strategies import cases
from treespec.operators import LeafIncidence, leaf_rows
from treespec.operators import smoother as smoother_module
from treespec.operators.leaf_rows import LeafRows, disjoint
from treespec.operators.smoother import LeafProduct


@given(cases(), st.sampled_from(["ones", "counts", "one column"]))
def test_leaves_hold_their_rows_and_entries(case, kind):
    Z = LeafIncidence.of(case.forest, case.leaf_id)
    n, T = Z.shape[0], Z.n_trees
    entry = {"ones": None, "counts": case.rng.integers(0, 3, (n, T)), "one column": case.rng.uniform(1, 2, n)}[kind]
    Z = Z if entry is None else Z.with_entries(entry)
    dense, held = Z.to_sparse().toarray(), LeafRows(Z)
    for leaf in range(Z.shape[1]):
        at = slice(held.start[leaf], held.start[leaf + 1])
        column = np.zeros(n)
        column[held.rows[at]] = 1.0 if held.entry is None else held.entry[at]
        np.testing.assert_array_equal(column, dense[:, leaf])


@pytest.mark.parametrize("sparse", [True, False])
@pytest.mark.parametrize("pairs", [1, 50, 1 << 20])
def test_rows_of_a_product_are_those_of_the_dense_matrix(sparse, pairs, monkeypatch):
    monkeypatch.setattr(leaf_rows, "_PAIRS", pairs)
    monkeypatch.setattr(smoother_module, "_SPARSE", np.inf if sparse else -1.0)
    rng = np.random.default_rng(0)
    tables = [LeafIncidence(rng.integers(0, 6, size=(n, 5)) + 6 * np.arange(5), 30) for n in (13, 40)]
    for left in (tables[0], tables[0].with_entries(rng.uniform(size=(13, 5)))):
        for right in (tables[1], tables[1].with_entries(rng.integers(0, 3, size=(40, 5)))):
            product = LeafProduct(left, rng.uniform(size=30), right)
            rows = product.row_blocks()
            for block in (slice(0, 13), slice(3, 9), slice(12, 13)):
                found = rows(block)
                found = found.toarray() if hasattr(found, "toarray") else found
                np.testing.assert_allclose(found, product.to_dense()[block], atol=1e-14)


def test_empty_leaves_and_no_rows():
    held = LeafRows(LeafIncidence([[0, 3]], 5))
    np.testing.assert_array_equal(held.weighted_rows(np.array([[1, 4], [0, 3]]), np.ones((2, 2))).toarray(), [[0.0], [2.0]])
    assert held.weighted_rows(np.zeros((0, 2), np.int64), np.zeros((0, 2))).shape == (0, 1)


@pytest.mark.parametrize(("index", "good"), [([[0, 1]], True), ([[1, 0]], False), ([[0, 1], [1, 2]], False)])
def test_leaves_that_trees_share_are_noticed(index, good):
    Z = LeafIncidence(index, 3)
    assert disjoint(Z) == good
    held = LeafRows(Z)
    np.testing.assert_array_equal(np.diff(held.start), Z.counts())
    weights = held.weighted_rows(Z.leaf_index(), np.ones((len(index), 2))).toarray()
    np.testing.assert_array_equal(weights, (Z.to_sparse() @ Z.to_sparse().T).toarray())


def test_the_sorted_rows_are_kept_for_the_next_call(rows_of, table):
    from sklearn.ensemble import RandomForestRegressor

    from treespec.operators import in_bag

    X, y, _ = table
    S = in_bag(*rows_of(RandomForestRegressor(5, random_state=0).fit(X, y), X, y))
    S.weights(X[:2])
    assert S.leaf_rows is S.leaf_rows
    np.testing.assert_allclose(S.weights(X[:5]).toarray(), S.cross(X[:5]).to_dense(), atol=1e-14)
