"""The plugin's own tests, as a third party would write them: its promises by `treespec.testing`, its values by hand."""

import numpy as np
import pytest
from hypothesis import given, settings
from sklearn.datasets import load_diabetes
from sklearn.ensemble import RandomForestRegressor

import treespec
import treespec_depthdecay
from treespec.hooks import NodeWeights
from treespec.plugins import BUILTIN, Plugins
from treespec.testing import check_node_weights, grow
from treespec.testing.strategies import forests
from treespec_depthdecay import depth_decay


@settings(max_examples=30, deadline=None)
@given(forests(max_outputs=2))
def test_it_keeps_the_promises_of_node_weights(forest):
    check_node_weights(depth_decay, forest)


def test_it_registers_its_name():
    plugins = Plugins(BUILTIN, use_entry_points=False)
    plugins.register(treespec_depthdecay, "depthdecay")
    scheme: NodeWeights = plugins.scheme("node-weights", "depth-decay").function
    assert scheme is depth_decay


def test_a_node_weighs_half_of_its_parent():
    forest = grow(np.random.default_rng(1), max_depth=4)
    weight = depth_decay(forest)
    inner = np.flatnonzero(~forest.is_leaf)
    for child in (forest.left[inner], forest.right[inner]):
        split = ~forest.is_leaf[child]
        np.testing.assert_array_equal(weight[child[split]], weight[inner[split]] / 2)
    assert (weight[forest.tree_offset[:-1]] == ~forest.is_leaf[forest.tree_offset[:-1]]).all()
    assert not weight[forest.is_leaf].any()


@pytest.mark.skipif(not any(row.name == "depth-decay" for row in treespec.plugins()), reason="treespec-depthdecay is not installed")
def test_once_installed_it_is_listed_and_used_by_name():
    row = next(row for row in treespec.plugins() if row.name == "depth-decay")
    assert row.kind == "node-weights" and "treespec-depthdecay" in row.owner
    X, y = load_diabetes(return_X_y=True)
    w = treespec.wrap(RandomForestRegressor(3, max_depth=3, random_state=0).fit(X, y), X, y)
    assert w.kpp(weights="depth-decay", alpha=1.0).predict(X).shape == y.shape
