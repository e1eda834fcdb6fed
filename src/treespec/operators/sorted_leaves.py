"""`SortedLeaves`: a leaf incidence prepared for many products, its entries sorted by leaf."""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_array

from treespec.operators.base import Array, Operator
from treespec.operators.leaf import LeafIncidence
from treespec.operators.leaf_rows import LeafRows


class SortedLeaves(Operator):
    """The (n, n_leaves) matrix ``Z`` of a `LeafIncidence`, held as the rows of each leaf.

    Parameters
    ----------
    Z : LeafIncidence
        Its entries are ones.

    Notes
    -----
    Holds 12 bytes for each row and tree, where the leaf table takes 1 or 2; products with one column take a half to a fifth of the
    time, so that it pays off after some ten of them.
    """

    def __init__(self, Z: LeafIncidence) -> None:
        super().__init__(Z.shape)
        sorted_rows = LeafRows(Z)
        small = sorted_rows.start[-1] < 2**31
        start = sorted_rows.start.astype(np.int32) if small else sorted_rows.start
        self._rows = csr_array((np.ones(len(sorted_rows.rows)), sorted_rows.rows, start), shape=Z.shape[::-1])

    def _forward(self, V: Array) -> Array:
        return np.asarray(self._rows.T @ V)

    def _backward(self, U: Array) -> Array:
        return np.asarray(self._rows @ U)
