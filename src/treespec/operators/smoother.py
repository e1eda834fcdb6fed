"""`LeafSmoother`: smoothers that average leaf means over trees, as a product of sparse leaf incidences."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, diags_array

from treespec.errors import DataNeededError
from treespec.operators import rowwise
from treespec.operators.base import Array, Operator, frozen, is_lazy
from treespec.operators.incidence import Incidence
from treespec.operators.leaf import LeafIncidence
from treespec.operators.leaf_rows import LeafRows
from treespec.operators.rows import here

_LEAF_SUMS = 1 << 22
_SPARSE = 2.0  # pairs for each training row, up to where the weights of a new row are sorted instead of written out

Router = Callable[[Any], LeafIncidence]


class LeafProduct(Operator):
    """The (m, n) operator ``left @ diag(scale) @ right.T`` of two leaf incidences over the same leaves.

    Parameters
    ----------
    left : Incidence (m, n_leaves)
    scale : (n_leaves,) array
    right : Incidence (n, n_leaves)

    Notes
    -----
    A product costs O((m + n) * n_trees * k) time and, beside the result, 64 MB or twice n_leaves numbers of memory.
    """

    def __init__(self, left: Incidence, scale: NDArray[Any], right: Incidence) -> None:
        super().__init__((left.shape[0], right.shape[0]))
        self.left, self.right = left, right
        self.scale = frozen(np.array(scale, dtype=np.float64))

    def _forward(self, V: Array) -> Array:
        if is_lazy(V):
            return self.left.gather(self._scaled(self.right.rmatmat(V)))
        return _by_columns(V, self.shape[0], len(self.scale), lambda v: self.left.matmat(self._scaled(self.right.rmatmat(v))))

    def _backward(self, U: Array) -> Array:
        if is_lazy(U):
            return self.right.gather(self._scaled(self.left.rmatmat(U)))
        return _by_columns(U, self.shape[1], len(self.scale), lambda u: self.right.matmat(self._scaled(self.left.rmatmat(u))))

    def _scaled(self, sums: Array) -> Array:
        sums *= self.scale[:, None]
        return sums

    def to_dense(self) -> Array:
        """Return the (m, n) matrix itself: O(m * n) memory."""
        left, right = here(self.left, "to_dense()"), here(self.right, "to_dense()")
        dense: Array = (left.to_sparse() @ diags_array(self.scale) @ right.to_sparse().T).toarray()
        return dense

    def row_blocks(self, leaf_rows: LeafRows | None = None) -> rowwise.Rows:
        """Return a function from a slice to these rows: sorted from the rows of each leaf where that is sparse, else written out.

        ``leaf_rows`` are those of ``right``, if they are at hand.
        """
        left, right = here(self.left, "the weights of rows"), here(self.right, "all weights of rows")
        by_leaf = LeafRows(right) if leaf_rows is None else leaf_rows
        entry = left.entries()

        def rows(block: slice) -> csr_array | NDArray[np.float64]:
            leaf = left.leaf_index(block)
            scale = self.scale[leaf] if entry is None else self.scale[leaf] * entry[:, block].T
            if by_leaf.pairs(leaf).max(initial=0) <= _SPARSE * self.shape[1]:
                return by_leaf.weighted_rows(leaf, scale)
            per_leaf = np.zeros((len(self.scale), len(leaf)))
            np.add.at(per_leaf, (leaf, np.arange(len(leaf))[:, None]), scale)
            return right.matmat(per_leaf).T

        return rows

    def largest(self, top: int | None) -> csr_array:
        """Return the (m, n) sparse array of the ``top`` entries of largest magnitude of each row, or of all that are not zero.

        Notes
        -----
        Each block of columns gives its own ``top``, where it is; the largest of those remain.
        """
        return rowwise.merge(self.right.each(_largest, here(self.left, "weights of these rows"), self.scale, top), top)


def _largest(block: LeafIncidence, left: LeafIncidence, scale: Array, top: int | None) -> csr_array:
    product = LeafProduct(left, scale, block)
    return rowwise.largest(product.row_blocks(), product.shape, top)


def _by_columns(V: Array, n_rows: int, n_leaves: int, product: Callable[[Array], Array]) -> Array:
    """Return ``product`` of V, taken over few enough columns at a time that their leaf sums fit in 32 MB."""
    step = max(1, _LEAF_SUMS // max(1, n_leaves))
    if step >= V.shape[1]:
        return product(V)
    out = np.empty((n_rows, V.shape[1]))
    for start in range(0, V.shape[1], step):
        out[:, start : start + step] = product(np.ascontiguousarray(V[:, start : start + step]))
    return out


class LeafSmoother(LeafProduct):
    """A smoother (n, n) over the training rows, with its extension to new rows.

    Parameters
    ----------
    left, right : Incidence (n, n_leaves)
        The same leaf table with different entries: how trees count for a row that is predicted, and how a training row counts in a leaf.
    scale : (n_leaves,) array
        What a leaf's sum is multiplied by.
    route : callable or None
        ``route(X_new)`` returns the incidence of new rows.
    exactness : float
        max |replay - native| / sd on the training rows; NaN where there is nothing to compare with.
    """

    def __init__(
        self,
        left: Incidence,
        scale: NDArray[Any],
        right: Incidence,
        *,
        route: Router | None = None,
        exactness: float = float("nan"),
    ) -> None:
        super().__init__(left, scale, right)
        self.route = route
        self.exactness = float(exactness)

    def cross(self, X_new: Any) -> LeafProduct:
        """Return the (m, n) operator that predicts the rows of ``X_new`` from training labels."""
        if self.route is None:
            raise DataNeededError.expected(
                "a smoother that can route new rows", "one built from leaf ids alone", "use cross_leaves(leaf_id), or build it from RowData"
            )
        return self.cross_incidence(self.route(X_new))

    def cross_incidence(self, Z_new: LeafIncidence) -> LeafProduct:
        """Return the (m, n) operator for new rows given by their leaf incidence."""
        return LeafProduct(Z_new, self.scale, self.right)

    def cross_leaves(self, leaf_index_new: NDArray[np.integer[Any]]) -> LeafProduct:
        """Return the (m, n) operator for new rows given by their leaf ordinals (m, n_trees)."""
        return self.cross_incidence(LeafIncidence(leaf_index_new, self.left.shape[1]))

    def diagonal(self) -> Array:
        """Return the (n,) diagonal: what each row's own label contributes to its fitted value. O(n * n_trees)."""
        diagonal: Array = self.left.times(self.right).gather(self.scale[:, None])[:, 0]
        return diagonal

    def trace(self) -> float:
        """Return the trace, exactly: the effective degrees of freedom. O(n * n_trees)."""
        return float(self.diagonal().sum())

    def weights(self, X_new: Any, top: int | None = None) -> csr_array:
        """Return the (m, n) sparse weights of the training rows in each prediction, the ``top`` largest or all that are not zero.

        Notes
        -----
        Costs the number of training rows that share a leaf with each new row, summed over trees, and their sort. Beside the result,
        memory is `leaf_rows`, which the smoother keeps for the next call, and some 100 MB for the rows at hand. Of rows in blocks each
        block is sorted in turn, and nothing is kept.
        """
        cross = self.cross(X_new)
        if not isinstance(self.right, LeafIncidence) or self.right.compact:
            return cross.largest(top)
        return rowwise.largest(cross.row_blocks(self.leaf_rows), cross.shape, top)

    @cached_property
    def leaf_rows(self) -> LeafRows:
        """The training rows of each leaf, sorted when they are first asked for and kept: 4 bytes a row and tree, and the entries."""
        return LeafRows(here(self.right, "the rows of each leaf"))
