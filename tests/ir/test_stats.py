"""Sums along paths against the path table itself."""

import numpy as np
from hypothesis import given, settings

from strategies import forests
from treespec.ir import stats


def path_table(forest):
    """Return the (n_nodes, n_nodes) table: T[v, u] = 1 where u is on the path from the root to v."""
    parent = stats.parent(forest)
    table = np.zeros((forest.n_nodes, forest.n_nodes))
    for v in range(forest.n_nodes):
        u = v
        while u != -1:
            table[v, u] = 1
            u = parent[u]
    return table


@given(forests())
@settings(max_examples=60)
def test_push_down_and_pull_up_are_the_path_table_and_its_transpose(forest):
    weight = np.random.default_rng(0).normal(size=(forest.n_nodes, 2))
    table = path_table(forest)
    np.testing.assert_allclose(stats.push_down(forest, weight), table @ weight, atol=1e-12)
    np.testing.assert_allclose(stats.pull_up(forest, weight), table.T @ weight, atol=1e-12)


@given(forests())
@settings(max_examples=60)
def test_depth_counts_the_splits_above(forest):
    np.testing.assert_array_equal(stats.depth(forest), path_table(forest).sum(axis=1) - 1)
    assert sorted(np.concatenate(stats.levels(forest)).tolist()) == list(range(forest.n_nodes))


@given(forests())
@settings(max_examples=30)
def test_tree_of_names_the_tree(forest):
    for node, tree in enumerate(stats.tree_of(forest)):
        assert forest.tree_offset[tree] <= node < forest.tree_offset[tree + 1]
