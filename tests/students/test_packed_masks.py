"""Prediction by masks of leaves: the same bits as by walking, for any forest of small trees; larger ones walk."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import strategies
from treespec.ir import InputRule
from treespec.students import packed_masks
from treespec.students.packed import PackedStudent


@settings(deadline=None, max_examples=60)
@given(
    seed=st.integers(0, 10_000), dtype=st.sampled_from(["float32", "float64"]), sums=st.sampled_from(["float32", "float64"]),
    bits=st.sampled_from([None, 5]), categories=st.booleans(), depth=st.integers(1, 6), missing=st.sampled_from(["node", "table", "left"]),
    aggregation=st.sampled_from(["sum", "mean"]),
)  # fmt: skip
def test_masks_and_walks_agree(seed, dtype, sums, bits, categories, depth, missing, aggregation):
    rng = np.random.default_rng(seed)
    categorical = (0,) if categories else ()
    forest = strategies.grow(
        rng, n_trees=6, max_depth=depth, n_features=3, split=0.9, categorical=categorical, aggregation=aggregation, sum_dtype=sums,
        inputs=InputRule(dtype=dtype, categorical=categorical),
    )  # fmt: skip
    sides = {"node": forest.default_left, "table": forest.feature == 1, "left": ~forest.is_leaf}[missing]
    forest = forest.with_values(forest.value, default_left=sides)
    rows = strategies.rows(rng, forest, 100, missing=0.2)
    if categories:
        rows[:, 0] = rng.choice([0, 1, 2, 3, 9, -1, -0.5, 2.7, 2.0**31, 1e30, np.inf, np.nan], len(rows))
    student = PackedStudent.of(forest, bits)
    expected = student.forest.margin(rows)
    np.testing.assert_array_equal(student.margin(rows), expected)
    assert (student._walk._masks is not None) == bool(len(student.unpacked.index))
    np.testing.assert_array_equal([student.margin(row[None])[0] for row in rows[:5]], expected[:5])  # few rows walk


def test_trees_of_64_leaves_have_masks_and_larger_ones_walk():
    rng = np.random.default_rng(0)
    for depth, fits in ((6, True), (7, False)):
        forest = strategies.grow(rng, n_trees=4, max_depth=depth, n_features=4, split=1.0)
        student = PackedStudent.of(forest)
        assert packed_masks.suits(student.unpacked) == fits
        rows = strategies.rows(rng, forest, 300)
        np.testing.assert_array_equal(student.margin(rows), forest.margin(rows))


@pytest.mark.parametrize("limit", [0, 1 << 26])
def test_masks_take_no_more_memory_than_they_may(limit, monkeypatch):
    monkeypatch.setattr(packed_masks, "_MOST_BYTES", limit)
    student = PackedStudent.of(strategies.grow(np.random.default_rng(0), n_trees=4, max_depth=3, split=1.0))
    assert packed_masks.suits(student.unpacked) == bool(limit)
