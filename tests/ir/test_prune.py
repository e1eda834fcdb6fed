"""Pruning: routes as before down to the cut, keeps the fields of what stays, and nested sets of splits."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import strategies
from treespec.errors import InvalidForestError
from treespec.ir import stats
from treespec.ir.prune import best_splits, node_means, prune


@given(strategies.cases(max_outputs=2), st.data())
def test_rows_reach_what_stands_in_for_their_leaf(case, data):
    forest, rng = case.forest, case.rng
    forest = forest.with_values(node_means(forest, np.ones(forest.n_nodes)))
    trees = rng.permutation(forest.n_trees)[: data.draw(st.integers(0, forest.n_trees))]
    pruned = prune(forest, rng.random(forest.n_nodes) < 0.6, trees)
    new = pruned.forest
    np.testing.assert_array_equal(new.apply(case.X), pruned.route(case.leaf_id, trees))
    for name in ("value", "default_left"):
        np.testing.assert_array_equal(getattr(new, name), getattr(forest, name)[pruned.origin])
    np.testing.assert_array_equal(new.feature[~new.is_leaf], forest.feature[pruned.origin][~new.is_leaf])
    np.testing.assert_array_equal(new.tree_output, forest.tree_output[trees])
    gone = np.isin(stats.tree_of(forest), trees, invert=True)
    assert (pruned.stand_in[gone] == -1).all() and (pruned.stand_in[~gone] >= 0).all()
    for k, v in enumerate(pruned.origin):  # the categories of a node are those that it had
        if not new.is_leaf[k]:
            old = forest.category[forest.category_offset[v] : forest.category_offset[v + 1]]
            np.testing.assert_array_equal(new.category[new.category_offset[k] : new.category_offset[k + 1]], old)


@given(strategies.forests(max_outputs=2))
def test_with_every_split_it_is_the_forest(forest):
    assert prune(forest, ~forest.is_leaf).forest.equals(forest.with_values(forest.value, native_id=None))


def test_a_new_leaf_needs_a_value():
    forest = strategies.grow(np.random.default_rng(0), split=1.0)
    with pytest.raises(InvalidForestError):
        prune(forest, np.zeros(forest.n_nodes, bool))


@given(strategies.cases(max_outputs=2))
def test_node_means_are_means_of_rows(case):
    forest = case.forest
    weight = np.bincount(case.leaf_id.ravel(), minlength=forest.n_nodes).astype(float)
    mean = node_means(forest, weight)
    for t in range(forest.n_trees):
        root = forest.tree_offset[t]
        np.testing.assert_allclose(mean[root], forest.value[case.leaf_id[:, t]].mean(axis=0), atol=1e-12)
    empty = node_means(forest, np.zeros(forest.n_nodes))
    leaves = forest.leaves[stats.tree_of(forest)[forest.leaves] == 0]
    np.testing.assert_allclose(empty[0], forest.value[leaves].mean(axis=0), atol=1e-12)


@given(strategies.forests(), st.data())
def test_best_splits_are_nested_and_at_most_as_many(forest, data):
    gain = data.draw(st.integers(0, 2**32 - 1).map(lambda seed: np.random.default_rng(seed).integers(0, 5, forest.n_nodes).astype(float)))
    inner = int((~forest.is_leaf).sum())
    previous = np.zeros(forest.n_nodes, bool)
    for n in range(inner + 1):
        kept = best_splits(forest, gain, n)
        assert kept.sum() <= n and not (previous & ~kept).any()
        parent = stats.parent(forest)
        assert all(kept[parent[v]] for v in np.flatnonzero(kept) if parent[v] >= 0)  # a tree stays a tree
        previous = kept
    assert previous.sum() == inner
    if len(np.unique(gain[~forest.is_leaf])) == inner:  # no ties: exactly as many as asked for where gains fall towards the leaves
        falling = -stats.depth(forest).astype(float) + gain / 10
        assert best_splits(forest, falling, inner // 2).sum() == inner // 2
