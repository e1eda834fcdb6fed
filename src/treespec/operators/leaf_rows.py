"""`LeafRows`: the rows of each leaf, sorted, and the sparse rows of a kernel that follow from them."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from treespec.operators.base import frozen
from treespec.operators.leaf import LeafIncidence

_PAIRS = 1 << 20  # pairs of rows that are sorted at a time


class LeafRows:
    """Which rows are in each leaf: ``rows[start[l] : start[l + 1]]``, ascending tree by tree, and their entries.

    Parameters
    ----------
    Z : LeafIncidence (n, n_leaves)

    Attributes
    ----------
    rows : (n * n_trees,) int32
    start : (n_leaves + 1,) int64
    entry : (n * n_trees,) array, or None where all entries are one

    Notes
    -----
    One sort of each tree's column: O(n * n_trees). Holds 4 bytes for each row and tree, and the entries in their own type.
    """

    def __init__(self, Z: LeafIncidence) -> None:
        self.n = Z.shape[0]
        self.entry: NDArray[Any] | None = None
        if not disjoint(Z):
            table = csr_array(Z.to_sparse().T)
            self.rows, self.start = frozen(table.indices.astype(np.int32)), frozen(table.indptr.astype(np.int64))
            self.entry = None if Z.entries() is None else frozen(table.data)
            return
        size = np.zeros(Z.shape[1] + 1, np.int64)
        rows = np.empty((Z.n_trees, self.n), np.int32)
        for t in range(Z.n_trees):
            low, width, local = Z.tree(t)
            rows[t] = np.argsort(local, kind="stable")  # a radix sort where ordinals have one or two bytes
            size[low + 1 : low + width + 1] = np.bincount(local, minlength=width)
        self.rows, self.start = frozen(rows.ravel()), frozen(np.cumsum(size))
        entries = Z.entries()
        if entries is not None:
            self.entry = frozen(np.take_along_axis(entries, rows, axis=1).ravel())

    def pairs(self, leaf: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return (m,) how many entries the leaves of each row of ``leaf`` (m, n_trees) hold together."""
        total: NDArray[np.int64] = (self.start[leaf + 1] - self.start[leaf]).sum(axis=1)
        return total

    def weighted_rows(self, leaf: NDArray[np.int64], scale: NDArray[np.float64]) -> csr_array:
        """Return the (m, n) sums over trees of ``scale`` (m, n_trees) times the entries of the rows in ``leaf`` (m, n_trees).

        O(p log p) for p pairs, and 40 bytes for each of up to 2 ** 20 pairs (or those of one row) at a time.
        """
        edge = np.append(0, np.cumsum(self.pairs(leaf)))
        data, column, size = [], [], [np.zeros(1, np.int64)]
        first = 0
        while first < len(leaf):
            last = max(first + 1, int(np.searchsorted(edge, edge[first] + _PAIRS, side="right")) - 1)
            part = self._sorted(leaf[first:last], scale[first:last])
            data.append(part[0])
            column.append(part[1])
            size.append(part[2])
            first = last
        indptr = np.cumsum(np.concatenate(size))
        empty = [np.empty(0)]
        return csr_array(
            (np.concatenate(data or empty), np.concatenate(column or empty).astype(np.int32), indptr), shape=(len(leaf), self.n)
        )

    def _sorted(
        self, leaf: NDArray[np.int64], scale: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.int64], NDArray[np.int64]]:
        """Return weights, columns and the number of them in each row."""
        start = self.start[leaf.ravel()]
        size = self.start[leaf.ravel() + 1] - start
        at = np.arange(size.sum()) + np.repeat(start - (np.cumsum(size) - size), size)  # positions in ``rows``, list after list
        row = np.repeat(np.arange(len(leaf)), size.reshape(leaf.shape).sum(axis=1))
        key = row * self.n + self.rows[at]
        value = np.repeat(scale.ravel(), size)
        if self.entry is not None:
            value = value * self.entry[at]
        order = np.argsort(key)
        key = key[order]
        first = np.flatnonzero(np.diff(key, prepend=-1))
        found = key[first]
        total = np.add.reduceat(value[order], first) if len(first) else np.empty(0)
        return total, found % self.n, np.bincount(found // self.n, minlength=len(leaf))


def disjoint(Z: LeafIncidence) -> bool:
    """Return whether the trees use separate leaves, in the order of the trees, as those of a forest do."""
    edges = [Z.tree(t)[:2] for t in range(Z.n_trees)]
    return len(edges) > 0 and all(a + width <= b for (a, width), (b, _) in pairwise(edges))
