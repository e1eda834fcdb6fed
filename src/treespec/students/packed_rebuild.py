"""From an unpacked payload back to a `Forest`: the packed trees as the rest of treespec sees them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treespec.errors import InvalidForestError
from treespec.ir import LEAF, Forest, InputRule
from treespec.students.outcome import Outcome
from treespec.students.packed_bits import damaged
from treespec.students.packed_format import output_mode
from treespec.students.packed_leaves import Exact, leaf_rows
from treespec.students.packed_quantise import Quantised
from treespec.students.packed_reader import Unpacked
from treespec.students.packed_splits import BY_TABLE, CategoryTable, NumberTable, breadth_first, find_splits, threshold_of


@dataclass(frozen=True, eq=False)
class SplitArrays:
    """Every distinct split as arrays over their numbers.

    Attributes
    ----------
    feature : (n_splits,) int32
    threshold : (n_splits,) float64
        NaN for categorical splits.
    default_left, categorical, listed_left : (n_splits,) bool
    codes : list of (n_listed,) int64 arrays
        What a split lists; empty for numerical ones.
    """

    feature: NDArray[np.int32]
    threshold: NDArray[np.float64]
    default_left: NDArray[np.bool_]
    categorical: NDArray[np.bool_]
    listed_left: NDArray[np.bool_]
    codes: list[NDArray[np.int64]]


def split_arrays(u: Unpacked) -> SplitArrays:
    """Return the distinct splits of a payload, thresholds decoded."""
    feature: list[int] = []
    threshold: list[NDArray[np.floating[Any]]] = [np.empty(0)]
    left: list[bool] = []
    categorical: list[bool] = []
    listed: list[bool] = []
    codes: list[NDArray[np.int64]] = []
    for table in u.tables:
        n = table.count
        feature += [table.feature] * n
        left += [table.default_left] * n
        categorical += [isinstance(table, CategoryTable)] * n
        if isinstance(table, NumberTable):
            value = table.style.mapping.values(table.keys, u.rule.dtype)
            threshold.append(threshold_of(value, u.nudge).astype(np.float64))
            listed += [False] * n
            codes += [np.empty(0, np.int64)] * n
        else:
            threshold.append(np.full(n, np.nan))
            listed += [table.listed_left] * n
            codes += [table.codes[row] for row in table.member]
    return SplitArrays(
        np.array(feature, np.int32),
        np.concatenate(threshold),
        np.array(left, bool),
        np.array(categorical, bool),
        np.array(listed, bool),
        codes,
    )


def as_packed(forest: Forest) -> Unpacked:
    """Return a forest in the form of a payload that was read, without writing one."""
    order = breadth_first(forest)
    splits = find_splits(forest, order[~forest.is_leaf[order]], thorough=False)
    rows, _ = leaf_rows(forest, order)
    return Unpacked(
        "margin", forest.aggregation == "mean", forest.sum_dtype == "float64", output_mode(forest), forest.tree_output.astype(np.int64),
        forest.inputs, splits.nudge, splits.missing, splits.tables, ~forest.is_leaf[order], splits.index, splits.default_left,
        Exact(rows, 0), forest.base_score, 0, 0, 0, 0, 0,
    )  # fmt: skip


def tree_of_nodes(u: Unpacked) -> NDArray[np.int32]:
    """Return the tree of each node, nodes being breadth first over all trees."""
    tree = np.empty(len(u.shape), np.int32)
    tree[: u.n_trees] = np.arange(u.n_trees)
    start, stop, inner = 0, u.n_trees, 0
    while start < stop:
        parents = start + np.flatnonzero(u.shape[start:stop])
        first = u.n_trees + 2 * inner
        tree[first : first + 2 * len(parents)] = np.repeat(tree[parents], 2)
        start, stop, inner = stop, first + 2 * len(parents), inner + len(parents)
    return tree


def rebuild(u: Unpacked, outcome: Outcome) -> Forest:
    """Return the forest that a payload holds.

    With exact leaves its margins are those of the forest that was packed; names, statistics and native ids come from ``outcome`` or are
    gone. Nodes are breadth first within each tree.

    Raises
    ------
    FileFormatError
        If payload and outcome do not fit each other.
    """
    tree = tree_of_nodes(u)
    order = np.argsort(tree, kind="stable")
    place = np.empty_like(order)  # from breadth first over all trees to tree by tree
    place[order] = np.arange(len(order))
    n, inner, leaf = len(order), place[np.flatnonzero(u.shape)], place[np.flatnonzero(~u.shape)]
    child = place[u.n_trees :].reshape(-1, 2)
    splits = split_arrays(u)
    value = np.full((n, outcome.n_outputs), np.nan)
    value[leaf] = leaf_values(u, tree[~u.shape], outcome.n_outputs)
    listed = [splits.codes[i] for i in u.index]
    width = np.zeros(n + 1, np.int64)
    width[inner + 1] = [len(c) for c in listed]
    by_place = np.argsort(inner)
    exact = not isinstance(u.leaves, Quantised)
    try:
        return Forest(
            tree_offset=np.concatenate([[0], np.cumsum(np.bincount(tree, minlength=u.n_trees))]),
            left=_at(n, inner, child[:, 0], LEAF), right=_at(n, inner, child[:, 1], LEAF),
            feature=_at(n, inner, splits.feature[u.index], -1), threshold=_at(n, inner, splits.threshold[u.index], np.nan),
            default_left=_at(n, inner, splits.default_left[u.index] if u.missing == BY_TABLE else u.default_left, fill=False),
            value=value, n_features=outcome.n_features, tree_output=u.tree_output.astype(np.int32), base_score=u.base,
            aggregation="mean" if u.mean and exact else "sum", link=outcome.link, link_scale=outcome.link_scale,
            sum_dtype="float64" if u.double or not exact else "float32",
            category_offset=np.cumsum(width), category=np.concatenate([*(listed[i] for i in by_place), np.empty(0, np.int64)]),
            category_left=_at(n, inner, splits.listed_left[u.index], fill=False),
            categorical=_at(n, inner, splits.categorical[u.index], fill=False),
            inputs=_rule(u, outcome), feature_names=outcome.feature_names, task=outcome.task, classes=outcome.classes,  # type: ignore[arg-type]
            ties_to_last=outcome.ties_to_last, framework=outcome.framework, offset=outcome.offset,
        )  # fmt: skip
    except InvalidForestError as error:
        raise damaged(str(error).split("\n", maxsplit=1)[0]) from error


def _rule(u: Unpacked, outcome: Outcome) -> InputRule:
    """Return the input rule; the payload has one bit for absent entries, the metadata a third answer."""
    return replace(u.rule, absent="refuse") if outcome.absent == "refuse" else u.rule


def _at(n: int, place: NDArray[np.intp], values: NDArray[Any], fill: float | bool) -> NDArray[Any]:
    out = np.full(n, fill, dtype=np.result_type(values, type(fill)) if isinstance(fill, float) else values.dtype)
    out[place] = values
    return out


def leaf_values(u: Unpacked, tree: NDArray[np.int32], n_outputs: int) -> NDArray[np.float64]:
    """Return the (n_leaves, n_outputs) leaf values, ``tree`` being the tree of each leaf."""
    rows = u.leaves.values(tree) if isinstance(u.leaves, Quantised) else u.leaves.values.astype(np.float64)
    if rows.shape[1] == n_outputs:
        return rows
    out = np.zeros((len(rows), n_outputs))
    out[np.arange(len(rows)), u.tree_output[tree]] = rows[:, 0]
    return out
