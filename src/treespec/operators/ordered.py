"""`OrderedLeaves`: a leaf incidence prepared for many products: similar rows beside each other, in sparse blocks that share their ones."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from treespec.operators.base import Array, Operator
from treespec.operators.leaf import LeafIncidence

_ENTRIES = 1 << 23  # of a block; its ones take 64 MB
_SORT_TREES = 3  # rows are sorted by their leaves in so many trees
_FILLED = 1 << 13  # rows whose leaf ids are transposed at a time


class OrderedLeaves(Operator):
    """The (n, n_kept) columns of a leaf incidence that are kept, in the original order of rows.

    Rows that share leaves in the first trees tend to share them in all. Stored beside each other they touch the same part of the leaf
    sums, which then is in cache: a product takes a third of the time.

    Parameters
    ----------
    Z : LeafIncidence (n, n_leaves)
        Its entries are ones.
    column : (n_leaves,) integer array
        Column of each leaf, -1 for leaves that are left out.

    Notes
    -----
    Holds 4 bytes for each row and tree that is kept, and at most 64 MB.
    """

    def __init__(self, Z: LeafIncidence, column: NDArray[np.integer[Any]]) -> None:
        super().__init__((Z.shape[0], int(column.max(initial=-1)) + 1))
        n, n_trees = Z.shape[0], Z.n_trees
        columns = column.astype(np.int32)
        tables = [Z.tree(t) for t in range(n_trees)]
        order = np.lexsort([local for _, _, local in tables[:_SORT_TREES][::-1]]) if n_trees else np.arange(n)
        step = max(1, _ENTRIES // max(1, n_trees))
        ones = np.ones(min(n, step) * n_trees)
        self._blocks: list[tuple[NDArray[np.intp], csr_array]] = []
        for start in range(0, n, step):
            rows = order[start : start + step]
            kept, size = [], [np.zeros(1, np.int32)]
            for first in range(0, len(rows), _FILLED):
                part = rows[first : first + _FILLED]
                index = np.empty((len(part), n_trees), np.int32)
                for t, (low, width, local) in enumerate(tables):
                    index[:, t] = columns[low : low + width][local[part]]
                kept.append(index[index >= 0])
                size.append((index >= 0).sum(axis=1, dtype=np.int32))
            indptr = np.cumsum(np.concatenate(size), dtype=np.int32)
            block = csr_array((ones[: indptr[-1]], np.concatenate(kept), indptr), shape=(len(rows), self.shape[1]))
            self._blocks.append((rows, block))

    def _forward(self, V: Array) -> Array:
        out = np.empty((self.shape[0], V.shape[1]))
        for rows, block in self._blocks:
            out[rows] = block @ V
        return out

    def _backward(self, U: Array) -> Array:
        out = np.zeros((self.shape[1], U.shape[1]))
        for rows, block in self._blocks:
            out += block.T @ U[rows]
        return out

    def normal(self, V: Array, weight: Array) -> Array:
        """Return ``Z.T diag(weight) Z @ V`` for V (n_kept, k) and ``weight`` (n,), block by block: no (n, k) array."""
        out = np.zeros((self.shape[1], V.shape[1]))
        for rows, block in self._blocks:
            reached = block @ V
            reached *= weight[rows, None]
            out += block.T @ reached
        return out
