"""Predicts packed trees of few leaves with numpy, many rows at a time: a mask of leaves for each tree instead of a walk.

Each split that sends a row right rules out the leaves left of it; the first leaf that no split rules out is the one that the row reaches
(Lucchese et al. 2015, QuickScorer). For each table of splits, what each outcome rules out is laid down once, so that a row takes one look
into each table and an ``and`` for each tree.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from treespec.students.packed_reader import Unpacked
from treespec.students.packed_rebuild import tree_of_nodes
from treespec.students.packed_splits import BY_NODE, BY_TABLE, LEFT, CategoryTable, threshold_of

MOST_LEAVES = 64
_MOST_BYTES = 1 << 26
_ROWS = 256  # rows at a time
_ALL = np.uint64((1 << 64) - 1)
_LARGEST_CODE = 2.0**31
_EXPONENT, _EXPONENTS, _BIAS = np.int64(52), np.int64(2047), np.int64(1023)

Masks = NDArray[np.uint64]


class LeafMasks:
    """Packed trees of at most 64 leaves each, laid out as masks.

    Parameters
    ----------
    u : Unpacked

    Attributes
    ----------
    first : (n_trees,) int64
        Number of the first leaf of each tree.
    place : (n_leaves,) int64
        For each leaf, counted tree by tree from left to right, its number in breadth-first order.

    Notes
    -----
    8 bytes for each tree and each distinct split.
    """

    def __init__(self, u: Unpacked) -> None:
        start, size = _spans(u)
        self.first = np.concatenate([[0], np.cumsum(size[: u.n_trees])])[:-1]
        leaf = np.flatnonzero(~u.shape)
        self.place = np.empty(len(leaf), np.int64)
        self.place[self.first[tree_of_nodes(u)[leaf]] + start[leaf]] = np.arange(len(leaf))
        inner = np.flatnonzero(u.shape)
        left = u.n_trees + 2 * np.arange(len(inner))
        rules_out = ~(((np.uint64(1) << size[left].astype(np.uint64)) - np.uint64(1)) << start[inner].astype(np.uint64))
        tree = tree_of_nodes(u)[inner]
        self._tables: list[tuple[Any, NDArray[Any], Masks]] = []
        before = 0
        for table in u.tables:
            here = (u.index >= before) & (u.index < before + table.count)
            split = u.index[here] - before
            before += table.count
            masks = _joined((table.count, u.n_trees), (split, tree[here]), rules_out[here])
            default = table.default_left if u.missing == BY_TABLE else u.missing == LEFT
            goes_right = here & ~u.default_left if u.missing == BY_NODE else here & (not default)
            missing = _joined((1, u.n_trees), (np.zeros(int(goes_right.sum()), np.int64), tree[goes_right]), rules_out[goes_right])
            if isinstance(table, CategoryTable):
                right = np.column_stack([table.member, np.zeros(table.count, bool)]) != table.listed_left
                rows = [np.bitwise_and.reduce(np.where(side[:, None], masks, _ALL), axis=0) for side in right.T]
                self._tables.append((table, table.codes, np.vstack([*rows, missing])))
                continue
            value = threshold_of(table.style.mapping.values(table.keys, u.rule.dtype), u.nudge)
            below = np.bitwise_and.accumulate(masks, axis=0)
            self._tables.append((table, value, np.vstack([np.full((1, u.n_trees), _ALL), below, missing])))

    def leaves(self, rows: NDArray[np.floating[Any]]) -> NDArray[np.int64]:
        """Return the (n, n_trees) leaves that encoded rows reach, counted tree by tree from left to right."""
        alive = np.full((len(rows), len(self.first)), _ALL)
        look = np.empty_like(alive)
        for table, values, masks in self._tables:
            np.take(masks, _outcome(table, values, rows[:, table.feature], len(masks)), axis=0, out=look, mode="clip")
            np.bitwise_and(alive, look, out=alive)
        lowest = alive & (~alive + np.uint64(1))
        power = lowest.view(np.int64).astype(np.float64).view(np.int64)  # its exponent is the number of the bit, whatever its sign
        return np.asarray(((power >> _EXPONENT) & _EXPONENTS) - _BIAS + self.first)

    def blocks(self, rows: NDArray[np.floating[Any]]) -> Any:
        """Yield slices of rows and the leaves that those reach."""
        for begin in range(0, len(rows), _ROWS):
            part = slice(begin, begin + _ROWS)
            yield part, self.leaves(rows[part])


def suits(u: Unpacked) -> bool:
    """Tell whether trees have at most 64 leaves, masks are not too large, and looking is quicker than walking."""
    if (
        not len(u.index)
        or u.n_splits * u.n_trees * 8 > _MOST_BYTES
        or any(isinstance(t, CategoryTable) and len(t.codes) > 1000 for t in u.tables)
    ):
        return False
    _, size = _spans(u)
    return int(size[: u.n_trees].max()) <= MOST_LEAVES and len(u.tables) * u.n_trees <= 16 * len(u.index)


def _spans(u: Unpacked) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return for each node the first of its leaves, counted in its tree from left to right, and how many there are."""
    size = np.where(u.shape, 0, 1).astype(np.int64)
    inner = np.flatnonzero(u.shape)
    child = u.n_trees + 2 * np.arange(len(inner))
    levels = _levels(u)
    for begin, end in reversed(levels):
        size[inner[begin:end]] = size[child[begin:end]] + size[child[begin:end] + 1]
    start = np.zeros(len(u.shape), np.int64)
    for begin, end in levels:
        start[child[begin:end]] = start[inner[begin:end]]
        start[child[begin:end] + 1] = start[inner[begin:end]] + size[child[begin:end]]
    return start, size


def _levels(u: Unpacked) -> list[tuple[int, int]]:
    """Return the ranges of inner nodes of each level."""
    out: list[tuple[int, int]] = []
    begin, stop = 0, u.n_trees
    while True:
        end = int(u.shape[:stop].sum())
        if end == begin:
            return out
        out.append((begin, end))
        begin, stop = end, u.n_trees + 2 * end


def _joined(shape: tuple[int, int], at: tuple[NDArray[Any], NDArray[Any]], masks: Masks) -> Masks:
    out = np.full(shape, _ALL)
    np.bitwise_and.at(out, at, masks)
    return out


def _outcome(table: Any, values: NDArray[Any], x: NDArray[np.floating[Any]], n: int) -> NDArray[np.intp]:
    """Return the row of the table's masks for each value; the last is for missing ones."""
    if isinstance(table, CategoryTable):
        inside = (x >= 0) & (x < _LARGEST_CODE)
        code = np.where(inside, x, -1).astype(np.int64)
        place = np.minimum(np.searchsorted(values, code), max(0, len(values) - 1))
        known = inside & (values[place] == code) if len(values) else np.zeros(len(x), bool)
        return np.where(np.isnan(x), n - 1, np.where(known, place, n - 2))
    return np.where(np.isnan(x), n - 1, np.searchsorted(values, x))
