import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strategies import cases, rows
from treespec.errors import DataMismatchError, DataNeededError
from treespec.hooks import RowData
from treespec.operators import ForestKernel, LeafIncidence
from treespec.operators import smoother as smoother_module
from treespec.operators.kernel import leaf


def naive(train, new, weight):
    """The definition: mean over trees of weight of the row / weight of the leaf, where both are in the same leaf."""
    out = np.zeros((len(new), len(train)))
    for t in range(train.shape[1]):
        same = new[:, t][:, None] == train[:, t]
        total = (same * weight).sum(axis=1, keepdims=True)
        out += np.divide(same * weight, total, out=np.zeros(same.shape), where=total > 0)
    return out / train.shape[1]


def data_of(case, y=None, weight=None):
    return RowData(case.X, y, weight, case.leaf_id, case.forest.apply, case.forest.margin)


@given(cases(), st.booleans())
def test_it_is_the_definition(case, weighted):
    weight = case.rng.integers(0, 3, size=len(case.X)).astype(float) if weighted else None
    K = leaf(case.forest, data_of(case, weight=weight))
    X_new = rows(case.rng, case.forest, 7)
    new = case.forest.apply(X_new)
    w = np.ones(len(case.X)) if weight is None else weight
    dense, cross = naive(case.leaf_id, case.leaf_id, w), naive(case.leaf_id, new, w)
    V, U = case.rng.normal(size=(len(dense), 3)), case.rng.normal(size=(7, 2))
    np.testing.assert_allclose(K.to_dense(), dense, atol=1e-12)
    np.testing.assert_allclose(K @ V, dense @ V, atol=1e-12)
    np.testing.assert_allclose(K.T @ V, dense.T @ V, atol=1e-12)
    np.testing.assert_allclose(K.diagonal(), dense.diagonal(), atol=1e-12)
    np.testing.assert_allclose(K.trace(), dense.trace(), atol=1e-10)
    np.testing.assert_allclose(K.cross(X_new) @ V, cross @ V, atol=1e-12)
    np.testing.assert_allclose(K.cross(X_new).T @ U, cross.T @ U, atol=1e-12)
    np.testing.assert_allclose(K.cross_leaves(case.forest.leaf_index[new]).to_dense(), cross, atol=1e-12)
    np.testing.assert_allclose(K.weights(X_new).toarray(), cross, atol=1e-12)


@given(cases())
def test_it_is_doubly_stochastic_symmetric_and_psd(case):
    K = leaf(case.forest, data_of(case))
    dense = K.to_dense()
    np.testing.assert_allclose(dense, dense.T, atol=1e-14)
    np.testing.assert_allclose(dense.sum(axis=1), 1.0)
    assert np.linalg.eigvalsh(dense).min() > -1e-12


@given(cases(min_rows=2), st.integers(1, 5))
def test_top_keeps_the_largest(case, top):
    K = leaf(case.forest, data_of(case))
    all_weights, kept = K.weights(case.X).toarray(), K.weights(case.X, top=top)
    assert (np.diff(kept.indptr) <= top).all()
    for i in range(len(case.X)):
        expected = np.sort(all_weights[i])[::-1][:top]
        np.testing.assert_allclose(np.sort(kept[[i]].data)[::-1], expected[expected > 0])
    assert (kept.toarray()[kept.toarray() > 0] == all_weights[kept.toarray() > 0]).all()


def test_columns_are_taken_in_blocks_without_a_seam(monkeypatch):
    monkeypatch.setattr(smoother_module, "_LEAF_SUMS", 1)
    rng = np.random.default_rng(0)
    K = ForestKernel(LeafIncidence(rng.integers(0, 4, size=(20, 3)), 4))
    V = rng.normal(size=(20, 5))
    np.testing.assert_allclose(K @ V, K.to_dense() @ V, atol=1e-12)
    np.testing.assert_allclose(K.T @ V, K.to_dense().T @ V, atol=1e-12)


def test_leaves_without_rows_give_zero_not_nan():
    K = ForestKernel(LeafIncidence([[0]], n_leaves=2))
    np.testing.assert_array_equal(K.cross_leaves([[1], [0]]).to_dense(), [[0.0], [1.0]])


def test_weights_must_fit():
    for bad in ([1.0], [1.0, -1.0], [1.0, np.nan]):
        with pytest.raises(DataMismatchError, match="weights of 0 and more"):
            ForestKernel(LeafIncidence([[0], [0]], 1), np.array(bad))


def test_without_a_router_new_rows_are_refused():
    with pytest.raises(DataNeededError, match="cross_leaves"):
        ForestKernel(LeafIncidence([[0]], 1)).cross([[0.0]])


def test_a_forest_grown_on_all_rows_is_its_kernel_and_a_bootstrapped_one_is_not(rows_of, table):
    from sklearn.ensemble import ExtraTreesRegressor, RandomForestRegressor

    X, y, _ = table
    assert leaf(*rows_of(ExtraTreesRegressor(10, random_state=0).fit(X, y), X, y)).exactness < 1e-12
    assert leaf(*rows_of(RandomForestRegressor(10, random_state=0).fit(X, y), X, y)).exactness > 0.1
