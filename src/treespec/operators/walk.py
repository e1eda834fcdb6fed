"""`WalkSmoother`: smoothers of boosters, whose new leaf values follow from labels by a walk over the trees."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from treespec.errors import DataNeededError
from treespec.operators import rowwise
from treespec.operators.base import Array, Operator
from treespec.operators.leaf import LeafIncidence
from treespec.operators.smoother import Router
from treespec.operators.trace import Trace, diagonal_of, trace_of


class WalkSmoother(Operator):
    """An (n, n) smoother given by the walk from labels to leaf values and its transpose.

    Parameters
    ----------
    n, n_leaves : int
    route : callable, optional
        ``route(X_new)`` returns the incidence of new rows.
    exactness : float
        max |replay - native| / sd on the training rows.
    """

    def __init__(self, n: int, n_leaves: int, *, route: Router | None, exactness: float) -> None:
        super().__init__((n, n))
        self.n_leaves, self.route, self.exactness = n_leaves, route, float(exactness)

    @abstractmethod
    def leaf_values(self, V: NDArray[Any]) -> Array:
        """Return the (n_leaves, k) leaf values for the columns of V (n, k), step length included."""

    @abstractmethod
    def leaf_values_adjoint(self, G: NDArray[Any]) -> Array:
        """Return the transpose of `leaf_values` times G (n_leaves, k): (n, k)."""

    def cross(self, X_new: Any) -> WalkCross:
        """Return the (m, n) operator that predicts the rows of ``X_new`` (minus c) from training labels (minus c)."""
        if self.route is None:
            raise DataNeededError.expected(
                "a smoother that can route new rows", "one built from leaf ids alone", "use cross_incidence(Z_new)"
            )
        return self.cross_incidence(self.route(X_new))

    def cross_incidence(self, Z_new: LeafIncidence) -> WalkCross:
        """Return the (m, n) operator for new rows given by their leaf incidence."""
        return WalkCross(self, Z_new)

    def cross_leaves(self, leaf_index_new: NDArray[np.integer[Any]]) -> WalkCross:
        """Return the (m, n) operator for new rows given by their leaf ordinals (m, n_trees)."""
        return self.cross_incidence(LeafIncidence(leaf_index_new, self.n_leaves))

    def diagonal(self) -> Array:
        """Return the (n,) diagonal, exactly: n columns in blocks, O(n * n * n_trees) time and 64 MB."""
        return diagonal_of(self)

    def trace(self, *, probes: int | None = None, random_state: int = 0) -> Trace:
        """Return the trace (effective degrees of freedom), a float with a ``standard_error``; see `treespec.operators.trace.trace_of`."""
        return trace_of(self, probes=probes, random_state=random_state)

    def weights(self, X_new: Any, top: int | None = None) -> csr_array:
        """Return the (m, n) sparse weights of the training rows in each prediction, with sign; one backward walk a new row, in blocks."""
        cross = self.cross(X_new)
        return rowwise.largest(cross.row_blocks(), cross.shape, top)

    def to_dense(self) -> Array:
        """Return the (n, n) matrix itself: O(n * n) memory."""
        return self.matmat(np.eye(self.shape[0]))


class WalkCross(Operator):
    """The (m, n) operator from training labels to the predictions of new rows.

    Parameters
    ----------
    smoother : WalkSmoother
    Z_new : LeafIncidence (m, n_leaves)
    """

    def __init__(self, smoother: WalkSmoother, Z_new: LeafIncidence) -> None:
        super().__init__((Z_new.shape[0], smoother.shape[0]))
        self.smoother, self.Z_new = smoother, Z_new

    def _forward(self, V: Array) -> Array:
        return self.Z_new.matmat(self.smoother.leaf_values(V))

    def _backward(self, U: Array) -> Array:
        return self.smoother.leaf_values_adjoint(self.Z_new.rmatmat(U))

    def row_blocks(self) -> rowwise.Rows:
        """Return a function from a slice to these rows: one backward walk for all of them."""
        return rowwise.rows_of_adjoint(self.rmatmat, self.shape[0])

    def to_dense(self) -> Array:
        """Return the (m, n) matrix itself."""
        return self.rmatmat(np.eye(self.shape[0])).T
