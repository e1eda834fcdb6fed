"""The path feature map against its definition: expanded by hand, node by node."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import strategies
from treespec.errors import DataMismatchError, DataNeededError
from treespec.ir import stats
from treespec.operators.path import PathMap
from treespec.operators.path_smoother import PathSmoother
from treespec.operators.path_table import PathTable


def weights_of(case, *, leaves=False, share=0.7):
    """Random node weights, some of them zero, at least one positive (or None: no splits)."""
    forest, rng = case.forest, case.rng
    a = rng.exponential(size=forest.n_nodes) * (rng.random(forest.n_nodes) < share)
    if not leaves:
        a[forest.is_leaf] = 0.0
        if forest.is_leaf.all():
            return None
        a[np.flatnonzero(~forest.is_leaf)[0]] = 1.0
    elif not a.any():
        a[0] = 1.0
    return a


def visited(forest, leaf_id):
    """The (n, n_nodes) 0/1 matrix of nodes on the paths, by climbing."""
    parent = stats.parent(forest)
    out = np.zeros((len(leaf_id), forest.n_nodes))
    for i, leaves in enumerate(leaf_id):
        for node in leaves:
            while node >= 0:
                out[i, node] = 1.0
                node = parent[node]
    return out


def path_distance(forest, a, leaf_id, *, endpoints=False):
    """eq. 7 and 8 by definition: node weights on the simple path between the leaves (eq. 86 with ``endpoints``)."""
    on = visited(forest, leaf_id)
    parent = stats.parent(forest)
    n = len(leaf_id)
    out = np.zeros((n, n))
    for i in range(n):
        for j in range(n):
            nodes = np.flatnonzero(on[i] != on[j])
            lca = {parent[v] for v in nodes} - set(nodes.tolist())
            out[i, j] = a[nodes].sum() + a[list(lca)].sum() if len(nodes) else 0.0
    return out


many = settings(max_examples=60, deadline=None)


@given(strategies.cases(max_rows=12))
@many
def test_the_table_is_the_paths(case):
    table = PathTable(case.forest)
    dense = table.to_sparse().toarray()
    np.testing.assert_array_equal(dense, visited(case.forest, np.arange(case.forest.n_nodes)[case.forest.leaves][:, None]))
    v, u = case.rng.normal(size=(dense.shape[1], 2)), case.rng.normal(size=(dense.shape[0], 2))
    np.testing.assert_allclose(table @ v, dense @ v, atol=1e-12)
    np.testing.assert_allclose(table.T @ u, dense.T @ u, atol=1e-12)
    np.testing.assert_array_equal(table.parent, stats.parent(case.forest))
    np.testing.assert_allclose(table.push_down(v), stats.push_down(case.forest, v), atol=1e-12)


@given(strategies.cases(max_rows=8), st.sampled_from(["forest", "tree"]))
@many
def test_features_are_scaled_visits_and_products_never_expand(case, normalisation):
    a = weights_of(case)
    if a is None:
        return
    phi = PathMap(case.forest, a, normalisation=normalisation).features(case.leaf_id)
    dense = phi.to_sparse().toarray()
    np.testing.assert_allclose(dense, visited(case.forest, case.leaf_id) * phi.map.scale, atol=1e-15)
    v, u = case.rng.normal(size=(dense.shape[1], 3)), case.rng.normal(size=(dense.shape[0], 3))
    np.testing.assert_allclose(phi @ v, dense @ v, atol=1e-12)
    np.testing.assert_allclose(np.vdot(u, phi @ v), np.vdot(phi.H @ u, v), atol=1e-11)
    np.testing.assert_allclose(phi.gram(), dense @ dense.T, atol=1e-13)
    np.testing.assert_allclose(phi.gram(phi.rows(slice(0, 2))), dense @ dense[:2].T, atol=1e-13)
    np.testing.assert_allclose(phi.row_norm2(), (dense**2).sum(1), atol=1e-13)
    np.testing.assert_allclose(phi.column_square(u[:, 0]), (dense**2).T @ u[:, 0], atol=1e-12)
    np.testing.assert_allclose(phi.map.leaf_values(v)[case.forest.leaf_index[case.leaf_id]].sum(1), dense @ v, atol=1e-12)


@given(strategies.cases(max_rows=8))
@many
def test_isometry_norm_bound_and_reconstruction(case):
    """eq. 22, 23, 25 and Corollary 4.12."""
    a = weights_of(case)
    if a is None:
        return
    phi = PathMap(case.forest, a).features(case.leaf_id)
    expected = path_distance(case.forest, a, case.leaf_id) / a.sum()
    np.testing.assert_allclose(phi.distance(), expected, atol=1e-13)
    assert phi.row_norm2().max() <= 1 + 1e-13
    gram = phi.gram()
    assert (gram >= 0).all()
    assert np.linalg.eigvalsh(gram).min() > -1e-13


@given(strategies.cases(max_rows=8))
@many
def test_appendix_b_embeds_leaf_weights(case):
    """eq. 86 to 89: rows in one leaf are 0 apart, others by the weights of both leaves more."""
    a = weights_of(case, leaves=True)
    phi = PathMap(case.forest, a, leaf_weights=True).features(case.leaf_id)
    expected = path_distance(case.forest, a, case.leaf_id, endpoints=True) / a.sum()
    np.testing.assert_allclose(phi.distance(), expected, atol=1e-13)
    assert phi.row_norm2().max() <= 1 + 1e-13
    if a[case.forest.is_leaf].any():
        with pytest.raises(DataMismatchError, match="weights of 0 at leaves"):
            PathMap(case.forest, a)


@given(strategies.cases(max_rows=8))
@many
def test_tree_normalisation_averages_trees(case):
    """eq. 27 to 32: the mean of the single-tree Grams; with the forest's, a mass-weighted mean."""
    a, forest = weights_of(case), case.forest
    if a is None:
        return
    edges = forest.tree_offset
    mass = np.add.reduceat(a, edges[:-1])
    grams = []
    for t in np.flatnonzero(mass):
        only = np.zeros_like(a)
        only[edges[t] : edges[t + 1]] = a[edges[t] : edges[t + 1]]
        grams.append(PathMap(forest, only).features(case.leaf_id).gram())
    by_tree = PathMap(forest, a, normalisation="tree").features(case.leaf_id)
    np.testing.assert_allclose(by_tree.gram(), np.mean(grams, axis=0), atol=1e-13)
    share = mass[mass > 0] / mass.sum()
    by_forest = PathMap(forest, a).features(case.leaf_id)
    np.testing.assert_allclose(by_forest.gram(), np.tensordot(share, grams, 1), atol=1e-13)


@pytest.mark.parametrize(
    ("weight", "message"),
    [
        ([1.0, 0.0], "3 node weights"),
        ([-1.0, 0, 0], "0 and more"),
        ([np.nan, 0, 0], "finite"),
        ([0.0, 0, 0], "all 0"),
        ([1.0, 1, 0], "leaves"),
    ],
)
def test_bad_weights_are_refused(weight, message):
    stump = strategies.grow(np.random.default_rng(0), n_trees=1, max_depth=1, split=1.0)
    with pytest.raises(DataMismatchError, match=message):
        PathMap(stump, weight)


def test_the_path_smoother_is_the_gram_matrix():
    rng = np.random.default_rng(3)
    forest = strategies.grow(rng, n_trees=4, max_depth=4)
    X, X_new = strategies.rows(rng, forest, 15), strategies.rows(rng, forest, 4)
    phi = PathMap(forest, np.where(forest.is_leaf, 0.0, 1.0)).features(forest.apply(X))
    S = PathSmoother(phi, forest.apply)
    gram, v = phi.gram(), rng.normal(size=15)
    np.testing.assert_allclose(S @ v, gram @ v, atol=1e-13)
    np.testing.assert_allclose(S.diagonal(), np.diag(gram), atol=1e-14)
    np.testing.assert_allclose(S.trace(), np.trace(gram), atol=1e-13)
    np.testing.assert_allclose(S.to_dense(), gram)
    cross = phi.map.features(forest.apply(X_new)).gram(phi)
    np.testing.assert_allclose(S.cross(X_new).to_dense(), cross)
    np.testing.assert_allclose(S.cross(X_new).T @ cross[:, 0], cross.T @ cross[:, 0], atol=1e-13)
    np.testing.assert_allclose(S.weights(X_new).toarray(), cross)
    top = S.weights(X_new, top=2)
    assert (np.diff(top.indptr) <= 2).all()
    np.testing.assert_allclose(top.max(axis=1).toarray().ravel(), cross.max(axis=1))
    with pytest.raises(DataNeededError, match="route new rows"):
        PathSmoother(phi).cross(X_new)


@given(strategies.cases(max_rows=12))
@many
def test_prepared_features_are_the_same_operator(case):
    a = weights_of(case)
    if a is None:
        return
    phi = PathMap(case.forest, a).features(case.leaf_id)
    ready = phi.prepared()
    v, u = case.rng.normal(size=(phi.shape[1], 2)), case.rng.normal(size=(phi.shape[0], 2))
    for k in (1, 2):
        np.testing.assert_allclose(ready @ v[:, :k], phi @ v[:, :k], atol=1e-13)
        np.testing.assert_allclose(ready.T @ u[:, :k], phi.T @ u[:, :k], atol=1e-13)
    np.testing.assert_array_equal(ready.gram(), phi.gram())
