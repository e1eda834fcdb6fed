"""Predicts packed trees with numpy: every distinct split is asked once a row, then all trees walk down together.

The answers are a matrix of bytes (splits by rows); a step down is one look into it and one into the table of nodes.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treespec.ir import ALL_OUTPUTS, Forest
from treespec.students.packed_masks import LeafMasks, suits
from treespec.students.packed_reader import Unpacked
from treespec.students.packed_rebuild import as_packed, leaf_values, tree_of_nodes
from treespec.students.packed_splits import BY_NODE, BY_TABLE, LEFT, CategoryTable, threshold_of

_PAIRS = 1 << 17  # (row, tree) pairs that walk together
_ANSWERS = 1 << 20  # bytes of answers of a block of rows
_FEW_ROWS = 64  # fewer are not worth laying out masks
_LARGEST_CODE = 2.0**31
_SHIFT = np.int64(32)
_MASK = np.int64((1 << 32) - 1)


class Walk:
    """Packed trees laid out for prediction.

    Parameters
    ----------
    u : Unpacked
    forest : Forest
        From `treespec.students.packed_rebuild.rebuild`.

    Notes
    -----
    16 bytes a node; `margin` needs some 10 MB besides.
    """

    def __init__(self, u: Unpacked, forest: Forest) -> None:
        self._u, self._forest = u, forest
        inner = np.flatnonzero(u.shape)
        n_trees, n_nodes = u.n_trees, len(u.shape)
        split = 1 + u.index + (u.n_splits * u.default_left if u.missing == BY_NODE else 0)
        step = np.arange(n_nodes, dtype=np.int64)  # a leaf is its own child, and its split (0) says left
        step[inner] = (split << _SHIFT) | (n_trees + 2 * np.arange(len(inner)))
        self._step = step
        tree, depth = tree_of_nodes(u), depths(u)
        height = np.zeros(n_trees, np.int64)
        np.maximum.at(height, tree, depth)
        self._trees = np.argsort(-height, kind="stable")
        self._walking = [int((height > d).sum()) for d in range(int(height.max(initial=0)))]
        self._value = np.zeros((n_nodes, forest.n_outputs), forest.sum_dtype)
        self._value[~u.shape] = leaf_values(u, tree[~u.shape], forest.n_outputs)
        self._questions = [_question(table, u) for table in u.tables]

    @classmethod
    def of(cls, forest: Forest) -> Walk:
        """Return the walk of any forest, packed or not."""
        return cls(as_packed(forest), forest)

    def leaf_values(self, encoded: NDArray[np.floating[Any]]) -> NDArray[np.floating[Any]]:
        """Return the (n_trees, n) leaf values that encoded rows get from a forest of one output."""
        block = self._block()
        parts = [encoded[start : start + block] for start in range(0, len(encoded), block)]
        leaves = [self._value[self._leaves(self._answers(rows), len(rows)), 0] for rows in parts]
        out = np.empty((self._u.n_trees, len(encoded)), self._value.dtype)
        out[self._trees] = np.concatenate([*leaves, out[:, :0]], axis=1)
        return out

    def _block(self) -> int:
        """Return how many rows walk together."""
        return max(16, min(_PAIRS // max(1, self._u.n_trees), _ANSWERS // (1 + self._u.n_splits)))

    def margin(self, encoded: NDArray[np.floating[Any]]) -> NDArray[np.float64]:
        """Return the (n, n_outputs) margins of encoded rows, added up tree by tree as `treespec.ir.traverse.margin` does."""
        if self._masks is not None and len(encoded) >= _FEW_ROWS:
            return self._margin_by_masks(self._masks, encoded)
        block = self._block()
        out = np.empty((len(encoded), self._forest.n_outputs))
        for start in range(0, len(encoded), block):
            rows = encoded[start : start + block]
            out[start : start + block] = self._sum(self._leaves(self._answers(rows), len(rows)))
        return out

    @cached_property
    def _masks(self) -> LeafMasks | None:
        return LeafMasks(self._u) if self._forest.n_outputs == 1 and suits(self._u) else None

    def _margin_by_masks(self, masks: LeafMasks, encoded: NDArray[np.floating[Any]]) -> NDArray[np.float64]:
        """Return the margins of a forest of one output, the same bits: running sums are in the order of the trees."""
        f, n_trees = self._forest, self._u.n_trees
        value = self._value[~self._u.shape, 0][masks.place]
        out = np.empty((len(encoded), 1))
        start = f.base_score[0] if f.aggregation == "sum" else 0.0
        for part, leaf in masks.blocks(encoded):
            steps = np.empty((len(leaf), n_trees + 1), f.sum_dtype)
            steps[:, 0] = start
            steps[:, 1:] = value.take(leaf, mode="clip")
            total = np.add.accumulate(steps, axis=1)[:, -1]
            out[part, 0] = f.base_score[0] + total / n_trees if f.aggregation == "mean" else total
        return out

    def _answers(self, rows: NDArray[np.floating[Any]]) -> NDArray[np.uint8]:
        """Return the (1 + n_splits, n) answers: 1 where a row goes right; twice where the missing direction is told by node."""
        n_splits, by_node = self._u.n_splits, self._u.missing == BY_NODE
        right = np.zeros((1 + n_splits * (2 if by_node else 1), len(rows)), np.uint8)
        at = 1
        for (feature, left, values, table), count in zip(self._questions, (t.count for t in self._u.tables), strict=True):
            x = rows[:, feature]
            part = right[at : at + count]
            if isinstance(table, CategoryTable):
                _ask_categories(table, x, part)
            else:
                rank = np.searchsorted(values, x).astype(np.int32)  # missing values come last: right
                np.greater(rank, np.arange(count, dtype=np.int32)[:, None], out=part.view(bool))
            missing = np.isnan(x)
            if by_node:
                right[at + n_splits : at + n_splits + count] = np.where(missing, 0, part)
            if missing.any():
                part[:, missing] = not left
            at += count
        return right

    def _leaves(self, right: NDArray[np.uint8], n: int) -> NDArray[np.int64]:
        """Return the (n_trees, n) leaves that rows reach, trees in the order of ``_trees``."""
        node = np.repeat(self._trees, n)
        row = np.tile(np.arange(n, dtype=np.int64), len(self._trees))
        answers = right.ravel()
        for walking in self._walking:
            here = node[: walking * n]
            step = self._step.take(here, mode="clip")
            question = step >> _SHIFT
            question *= n
            question += row[: walking * n]
            step &= _MASK
            np.add(step, answers.take(question, mode="clip"), out=here)
        return node.reshape(-1, n)

    def _sum(self, leaf: NDArray[np.int64]) -> NDArray[np.float64]:
        f = self._forest
        total = np.zeros((leaf.shape[1], f.n_outputs), f.sum_dtype)
        if f.aggregation == "sum":
            total += f.base_score.astype(f.sum_dtype)
        place = np.empty(len(leaf), np.int64)
        place[self._trees] = np.arange(len(leaf))
        narrow = self._value[:, 0].copy() if f.n_outputs == 1 else None
        for t in range(len(leaf)):
            k = int(f.tree_output[t])
            at = leaf[place[t]]
            if narrow is not None:
                total[:, 0] += narrow.take(at, mode="clip")
            elif k == ALL_OUTPUTS:
                total += self._value[at]
            else:
                total[:, k] += self._value[at, k]
        return np.asarray(f.base_score + total / max(1, len(leaf)) if f.aggregation == "mean" else total, dtype=np.float64)


def depths(u: Unpacked) -> NDArray[np.int64]:
    """Return the depth of each node."""
    depth = np.zeros(len(u.shape), np.int64)
    start, stop, inner, d = 0, u.n_trees, 0, 0
    while start < stop:
        depth[start:stop] = d
        inner += int(u.shape[start:stop].sum())
        start, stop, d = stop, u.n_trees + 2 * inner, d + 1
    return depth


def _question(table: Any, u: Unpacked) -> tuple[int, bool, NDArray[np.floating[Any]], Any]:
    left = bool(table.default_left) if u.missing == BY_TABLE else u.missing == LEFT
    if isinstance(table, CategoryTable):
        return table.feature, left, np.empty(0), table
    value = table.style.mapping.values(table.keys, u.rule.dtype)
    return table.feature, left, threshold_of(value, u.nudge), table


def _ask_categories(table: CategoryTable, x: NDArray[np.floating[Any]], right: NDArray[np.uint8]) -> None:
    """Write whether each category goes right, for each set."""
    inside = (x >= 0) & (x < _LARGEST_CODE)
    code = np.where(inside, x, -1).astype(np.int64)
    if not len(table.codes):
        right[:] = table.listed_left
        return
    place = np.minimum(np.searchsorted(table.codes, code), len(table.codes) - 1)
    listed = table.member[:, place] & (inside & (table.codes[place] == code))
    np.not_equal(listed, table.listed_left, out=right.view(bool))
