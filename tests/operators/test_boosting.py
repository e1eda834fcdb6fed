import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array

from strategies import cases, rows
from treespec.errors import DataNeededError
from treespec.operators import BoostingSmoother, LeafIncidence
from treespec.operators.trace import diagonal_of, trace_of


def naive(index, new, entry, eta, ridge, round_of, mix):
    """The recursion on n-by-n matrices: the smoother, and its rows at new points."""
    n, n_leaves = len(index), len(ridge)
    residual, at_new = np.eye(n), np.zeros((len(new), n))
    for r in np.unique(round_of):
        step = np.zeros((n, n))
        for t in np.flatnonzero(round_of == r):
            one_hot = (index[:, t][:, None] == np.arange(n_leaves)).astype(float)
            sums = one_hot.T @ (entry[:, t][:, None] * residual)
            weight = one_hot.T @ entry[:, t]
            solve = np.diag(np.divide(1.0, weight + ridge, out=np.zeros(n_leaves), where=weight > 0)) if mix is None else mix
            used = np.bincount(index[:, t], minlength=n_leaves) > 0
            value = eta[t] * (solve @ sums) * used[:, None]
            step += one_hot @ value
            at_new += (new[:, t][:, None] == np.arange(n_leaves)) @ value
        residual = residual - step
    return np.eye(n) - residual, at_new


@st.composite
def boosters(draw):
    case = draw(cases(max_rows=14, categories=False))
    rng = case.rng
    n, T, L = len(case.X), case.forest.n_trees, case.forest.n_leaves
    index = case.forest.leaf_index[case.leaf_id]
    new = case.forest.leaf_index[case.forest.apply(rows(rng, case.forest, 5))]
    entry = draw(st.sampled_from(["ones", "weights", "masks"]))
    entry = {
        "ones": np.ones((n, T)),
        "weights": np.repeat(rng.uniform(0.1, 2, size=(n, 1)), T, axis=1),
        "masks": rng.integers(0, 2, (n, T)) * 1.0,
    }[entry]
    eta, ridge = rng.uniform(0.1, 1.0, size=T), rng.choice([0.0, 1.0, 3.5]) * np.ones(L)
    round_of = np.arange(T) // draw(st.integers(1, 3))
    mix = None
    if draw(st.booleans()):
        tree = np.repeat(np.arange(T), np.diff(np.searchsorted(case.forest.leaves, case.forest.tree_offset)))
        mix = rng.normal(size=(L, L)) * (tree[:, None] == tree)
    return index, new, entry, eta, ridge, round_of, mix, L


@given(boosters())
def test_it_is_the_recursion(booster):
    index, new, entry, eta, ridge, round_of, mix, L = booster
    dense, cross = naive(index, new, entry, eta, ridge, round_of, mix)
    Z = LeafIncidence(index, L)
    Z = Z if (entry == 1).all() else Z.with_entries(entry)
    S = BoostingSmoother(Z, eta=eta, ridge=ridge, round_of=round_of, mix=None if mix is None else csr_array(mix), initial=0.5)
    n = len(index)
    scale = max(1.0, np.abs(dense).max(), np.abs(cross).max())
    for k in (1, 3):
        V = np.random.default_rng(k).normal(size=(n, k))
        np.testing.assert_allclose(S @ V, dense @ V, atol=1e-10 * scale)
        np.testing.assert_allclose(S.T @ V, dense.T @ V, atol=1e-10 * scale)
    C = S.cross_leaves(new)
    np.testing.assert_allclose(S.to_dense(), dense, atol=1e-10 * scale)
    np.testing.assert_allclose(C @ np.eye(n), cross, atol=1e-10 * scale)
    np.testing.assert_allclose(C.to_dense(), cross, atol=1e-10 * scale)
    np.testing.assert_allclose(S.diagonal(), dense.diagonal(), atol=1e-10 * scale)
    np.testing.assert_allclose(S.trace(), dense.trace(), atol=1e-9 * scale)
    np.testing.assert_allclose(C.row_blocks()(slice(1, 4)), cross[1:4], atol=1e-10 * scale)
    y = np.arange(n)
    np.testing.assert_allclose(S.replay(y), 0.5 + dense @ (y - 0.5), atol=1e-9 * scale)


def paper(index, eta):
    """The recursion of the SCATE paper: ridge 0, no weights, initial score 0, one tree a round."""
    n = len(index)
    s = np.zeros((n, n))
    for t in range(index.shape[1]):
        same = index[:, t][:, None] == index[:, t]
        mean = same / same.sum(axis=1, keepdims=True)
        s = s + eta * (mean - mean @ s)
    return s


@given(cases(max_rows=14))
def test_without_ridge_it_is_the_papers(case):
    Z = LeafIncidence.of(case.forest, case.leaf_id)
    np.testing.assert_allclose(BoostingSmoother(Z, eta=0.3).to_dense(), paper(Z.leaf_index(), 0.3), atol=1e-12)


def random_smoother(n=60, n_trees=8, route=None):
    rng = np.random.default_rng(5)
    Z = LeafIncidence(rng.integers(0, 6, size=(n, n_trees)) + 6 * np.arange(n_trees), 6 * n_trees)
    return BoostingSmoother(Z, eta=0.3, ridge=1.0, route=route)


def test_weights_keep_sign_and_the_largest():
    rng = np.random.default_rng(0)
    new = LeafIncidence(rng.integers(0, 6, size=(9, 8)) + 6 * np.arange(8), 48)
    S = random_smoother(route=lambda X: new)
    cross = S.cross(None).to_dense()
    np.testing.assert_allclose(S.weights(None).toarray(), cross, atol=1e-14)
    kept = S.weights(None, top=4).toarray()
    for i in range(9):
        largest = np.argsort(-np.abs(cross[i]))[:4]
        np.testing.assert_allclose(kept[i, largest], cross[i, largest], atol=1e-14)
        assert np.count_nonzero(kept[i]) == 4
    assert (cross < 0).any()


def test_the_trace_says_whether_it_is_an_estimate():
    S = random_smoother()
    exact, estimate = S.trace(), S.trace(probes=40, random_state=1)
    assert exact.standard_error == 0.0
    np.testing.assert_allclose(exact, np.trace(S.to_dense()))
    assert estimate.standard_error > 0
    assert abs(estimate - exact) < 5 * estimate.standard_error
    assert estimate == S.trace(probes=40, random_state=1) != S.trace(probes=40, random_state=2)


def test_the_trace_of_many_rows_is_estimated_by_default(monkeypatch):
    monkeypatch.setattr("treespec.operators.trace._EXACT_ROWS", 10)
    monkeypatch.setattr("treespec.operators.trace._PROBES", 20)
    assert trace_of(random_smoother()).standard_error > 0
    assert trace_of(random_smoother(), probes=0).standard_error == 0


def test_the_diagonal_is_taken_in_blocks_without_a_seam(monkeypatch):
    S = random_smoother()
    monkeypatch.setattr("treespec.operators.trace._ENTRIES", 60 * 7)
    np.testing.assert_allclose(diagonal_of(S), S.to_dense().diagonal(), atol=1e-14)


def test_without_a_router_new_rows_are_refused():
    with pytest.raises(DataNeededError, match="cross_incidence"):
        random_smoother().cross([[0.0]])
