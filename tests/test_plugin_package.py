"""The plugin package of the repository, found through its entry point like any third party's."""

import numpy as np
import pytest

import treespec
from strategies import grow
from treespec.hooks import NodeWeights
from treespec.plugins import manager

pytest.importorskip("treespec_depthdecay", reason="packages/treespec-depthdecay is not installed")


def test_it_is_found_and_listed():
    rows = [row for row in treespec.plugins() if row.name == "depth-decay"]
    assert [row.kind for row in rows] == ["node-weights"]
    assert "treespec-depthdecay" in rows[0].owner


def test_a_node_weighs_half_of_its_parent():
    scheme: NodeWeights = manager().scheme("node-weights", "depth-decay").function
    forest = grow(np.random.default_rng(1), max_depth=4)
    weight = scheme(forest)
    inner = np.flatnonzero(~forest.is_leaf)
    for child in (forest.left[inner], forest.right[inner]):
        split = ~forest.is_leaf[child]
        np.testing.assert_array_equal(weight[child[split]], weight[inner[split]] / 2)
    assert (weight[forest.tree_offset[:-1]] == ~forest.is_leaf[forest.tree_offset[:-1]]).all()
    assert not weight[forest.is_leaf].any()
