"""Forests and rows that the kit makes are valid and varied, and follow the forest's input rule."""

import sys

import numpy as np
import pytest
from hypothesis import find, given, settings

from treespec.errors import ContractError, MissingDependencyError, TreespecError
from treespec.ir import Forest, InputRule
from treespec.testing import grow, nasty_rows, row_data, rows
from treespec.testing import strategies as our


@settings(max_examples=30, deadline=None)
@given(our.cases(max_outputs=3, min_rows=2))
def test_cases_route_and_survive_their_bytes(case):
    assert Forest.from_bytes(case.forest.to_bytes()).equals(case.forest)
    assert case.leaf_id.shape == (len(case.X), case.forest.n_trees) and len(case.X) >= 2
    assert case.forest.is_leaf[case.leaf_id].all()
    np.testing.assert_array_equal(case.rng.random(3), case.rng.random(3))


@pytest.mark.parametrize(
    "wanted",
    [
        lambda f: f.n_outputs > 1 and (f.tree_output >= 0).all(),
        lambda f: f.n_outputs > 1 and (f.tree_output < 0).all(),
        lambda f: f.categorical.any(),
        lambda f: f.is_leaf.all(),
        lambda f: f.aggregation == "mean" and not f.is_leaf.all(),
    ],
)
def test_every_kind_of_forest_is_found(wanted):
    assert wanted(find(our.forests(max_outputs=2), wanted, settings=settings(max_examples=500, database=None)))


def test_without_hypothesis_the_error_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "hypothesis", None)
    with pytest.raises(MissingDependencyError, match=r"treespec\[test\]"):
        our.forests()


def test_rows_with_text_come_as_a_frame_with_known_and_unknown_values():
    rule = InputRule(categorical=(0,), categories=((0, ("red", "blue", "green", "grey")),), missing_category="refuse")
    forest = grow(np.random.default_rng(0), categorical=(0,), inputs=rule, feature_names=("colour", "b", "c"))
    frame = nasty_rows(forest, np.random.default_rng(0))
    assert list(frame.columns) == ["colour", "b", "c"]
    assert set(frame["colour"]) == {"red", "blue", "green", "grey", "a text that is no category"}
    assert frame["b"].isna().any()
    forest.apply(frame)
    refusing = grow(
        np.random.default_rng(0),
        categorical=(0,),
        inputs=InputRule(categorical=(0,), categories=((0, ("red", "blue", "green", "grey")),), unknown_category="refuse"),
    )
    refusing.apply(nasty_rows(refusing, np.random.default_rng(0)))


def test_a_missing_category_is_refused_where_the_rule_says_so():
    forest = grow(np.random.default_rng(0), categorical=(0,), inputs=InputRule(categorical=(0,), missing_category="refuse"))
    X = rows(np.random.default_rng(0), forest, 5, missing=0.0)
    forest.apply(X)
    X[2, 1] = np.nan
    forest.apply(X)
    X[2, 0] = np.nan
    with pytest.raises(TreespecError, match="missing value in column 0"):
        forest.apply(X)
    assert Forest.from_bytes(forest.to_bytes()).inputs.missing_category == "refuse"


def test_row_data_is_routed():
    forest = grow(np.random.default_rng(0))
    X = rows(np.random.default_rng(0), forest, 5)
    data = row_data(forest, X, [1, 2, 3, 4, 5])
    np.testing.assert_array_equal(data.leaf_id, forest.apply(X))
    np.testing.assert_array_equal(data.margin(X), forest.margin(X))
    assert data.y.tolist() == [1, 2, 3, 4, 5] and data.n_rows == 5


def test_a_broken_promise_is_a_failed_assertion_and_an_error_of_treespec():
    assert issubclass(ContractError, AssertionError) and issubclass(ContractError, TreespecError)
