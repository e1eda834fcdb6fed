"""The reference traversal against a walk written node by node."""

import numpy as np
from hypothesis import given, settings

from strategies import cases
from treespec.ir import traverse


def walk(forest, tree, x):
    node = int(forest.tree_offset[tree])
    while forest.left[node] != -1:
        v = x[forest.feature[node]]
        if np.isnan(v):
            left = forest.default_left[node]
        elif forest.categorical[node]:
            listed = set(forest.category[forest.category_offset[node] : forest.category_offset[node + 1]].tolist())
            left = (v >= 0 and int(v) in listed) == forest.category_left[node]
        else:
            left = v <= forest.threshold[node]
        node = int(forest.left[node] if left else forest.right[node])
    return node


@given(cases(max_outputs=3))
@settings(max_examples=80)
def test_apply_is_the_walk(case):
    encoded = case.forest.encode(case.X)
    expected = [[walk(case.forest, t, x) for t in range(case.forest.n_trees)] for x in encoded]
    np.testing.assert_array_equal(case.leaf_id, expected)


@given(cases(max_outputs=3))
@settings(max_examples=80)
def test_margin_adds_up_leaf_values(case):
    forest = case.forest
    total = forest.value[case.leaf_id].sum(axis=1)
    expected = forest.base_score + (total / forest.n_trees if forest.aggregation == "mean" else total)
    np.testing.assert_allclose(forest.margin_of(case.leaf_id), expected, rtol=1e-12, atol=1e-12)


def test_blocks_do_not_change_the_result(monkeypatch):
    from strategies import grow, rows

    rng = np.random.default_rng(0)
    forest = grow(rng, n_trees=5, max_depth=5)
    X = rows(rng, forest, 100)
    whole = forest.apply(X)
    monkeypatch.setattr(traverse, "_BLOCK", 13)
    np.testing.assert_array_equal(forest.apply(X), whole)


def test_float32_margins_are_added_in_float32_from_the_base_score():
    from strategies import grow, rows

    rng = np.random.default_rng(0)
    forest = grow(rng, n_trees=50, sum_dtype="float32", base_score=np.array([1000.0]))
    X = rows(rng, forest, 20)
    expected = np.full(20, np.float32(1000))
    for t, leaf in enumerate(forest.apply(X).T):
        expected = expected + forest.value[leaf, 0].astype(np.float32)
        assert expected.dtype == np.float32, t
    np.testing.assert_array_equal(forest.margin(X), expected.astype(np.float64))
