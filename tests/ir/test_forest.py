"""The invariants of a Forest: a valid one is accepted, each broken rule is refused by name."""

import numpy as np
import pytest
from hypothesis import given, settings

from strategies import forests
from treespec.errors import InvalidForestError
from treespec.ir import Forest, InputRule

NAN = np.nan


def stump(**changes):
    fields = {
        "tree_offset": [0, 3], "left": [1, -1, -1], "right": [2, -1, -1], "feature": [0, -1, -1], "threshold": [0.5, NAN, NAN],
        "default_left": [True, False, False], "value": [0.0, 1.0, 2.0], "n_features": 2,
    }  # fmt: skip
    return Forest(**fields | changes)


BROKEN = {
    "children after their parent": {"left": [0, -1, -1]},
    "in the same tree": {"left": [3, -1, -1]},
    "two children or none": {"right": [-1, -1, -1]},
    "a child exactly once": {"left": [2, -1, -1]},
    "tree_offset from 0": {"tree_offset": [0, 2]},
    "at least one node": {"tree_offset": [0, 0, 3]},
    "split features in": {"feature": [2, -1, -1]},
    "feature -1 at leaves": {"feature": [0, 0, -1]},
    "a threshold at every numerical split": {"threshold": [NAN, NAN, NAN]},
    "finite leaf values": {"value": [0.0, np.inf, 2.0]},
    "finite base_score": {"base_score": [NAN]},
    "tree_output in": {"tree_output": [1]},
    "finite cover": {"cover": [3.0, -1.0, 2.0]},
    "finite count": {"count": [3.0, NAN, 2.0]},
    "threshold of shape": {"threshold": [0.5, NAN]},
    "feature names": {"feature_names": ("a",)},
    "link of": {"link": "probit"},
    "aggregation": {"aggregation": "median"},
    "categorical leaf": {"categorical": [False, True, False], "inputs": InputRule(categorical=(0,))},
    "inputs.categorical": {"categorical": [True, False, False]},
    "category_offset in CSR": {"category_offset": [0, 2, 1, 1], "category": [1]},
    "categories at categorical splits": {"category_offset": [0, 1, 1, 1], "category": [1]},
    "category codes": {"categorical": [True, False, False], "inputs": InputRule(categorical=(0,)), "category_offset": [0, 1, 1, 1], "category": [-1]},
    "a class for each output": {"task": "multiclass", "classes": (np.arange(3),)},
}  # fmt: skip


@pytest.mark.parametrize("rule", BROKEN)
def test_a_broken_invariant_is_named(rule):
    with pytest.raises(InvalidForestError, match=rule.split(" of shape")[0]):
        stump(**BROKEN[rule])


def test_arrays_are_copied_and_read_only():
    value = np.array([0.0, 1.0, 2.0])
    forest = stump(value=value)
    value[1] = 7.0
    assert forest.value[1, 0] == 1.0
    with pytest.raises(ValueError, match="read-only"):
        forest.value[1, 0] = 7.0
    with pytest.raises(ValueError, match="read-only"):
        forest.leaves[0] = 0


def test_one_comparison_left_iff_at_most_the_threshold():
    forest = stump()
    X = np.array([[0.5, 0], [np.nextafter(0.5, 1), 0], [NAN, 0], [-np.inf, 0], [np.inf, 0]])
    np.testing.assert_array_equal(forest.predict(X), [1, 2, 1, 1, 2])


def test_float32_inputs_are_rounded_before_the_comparison():
    x = np.array([[0.1, 0.0]])  # float32(0.1) > 0.1
    assert stump(threshold=[0.1, NAN, NAN]).predict(x) == [1.0]
    assert stump(threshold=[0.1, NAN, NAN], inputs=InputRule(dtype="float32")).predict(x) == [2.0]


def test_listed_categories_go_their_way_and_others_the_other():
    forest = stump(
        categorical=[True, False, False], category_offset=[0, 2, 2, 2], category=[1, 3], category_left=[True, False, False],
        threshold=[NAN] * 3, inputs=InputRule(categorical=(0,)), default_left=[False, False, False],
    )  # fmt: skip
    X = np.array([[1, 0], [3, 0], [3.7, 0], [0, 0], [2, 0], [-1, 0], [1e12, 0], [NAN, 0], [np.inf, 0]])
    np.testing.assert_array_equal(forest.predict(X), [1, 1, 1, 2, 2, 2, 2, 2, 2])
    other = forest.with_values(forest.value, category_left=np.zeros(3, bool), default_left=np.ones(3, bool))
    np.testing.assert_array_equal(other.predict(X), [2, 2, 2, 1, 1, 1, 1, 1, 1])


@given(forests(max_outputs=3))
@settings(max_examples=60)
def test_leaves_and_their_index_are_inverse(forest):
    np.testing.assert_array_equal(forest.leaf_index[forest.leaves], np.arange(forest.n_leaves))
    assert forest.n_leaves == (forest.n_nodes + forest.n_trees) // 2  # binary trees


def test_equality_is_bit_for_bit():
    assert stump().equals(stump())
    assert not stump().equals(stump(value=[0.0, 1.0, np.nextafter(2.0, 3)]))
    assert not stump().equals(stump(inputs=InputRule(dtype="float32")))
