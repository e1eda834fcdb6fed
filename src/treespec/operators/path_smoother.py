"""The KPP Gram matrix ``Phi Phi.T`` as a smoother (``path``): similarity of rows by the paths that they share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from treespec.errors import DataNeededError
from treespec.operators import rowwise
from treespec.operators.base import Array, Operator, is_lazy
from treespec.operators.leaf import LeafIncidence
from treespec.operators.path import PathFeatures


class PathCross(Operator):
    """The (m, n) operator ``left @ right.T`` of two sets of rows with the same path map.

    Parameters
    ----------
    left : PathFeatures (m, n_coordinates)
    right : PathFeatures (n, n_coordinates)

    Notes
    -----
    A product costs O((m + n) * n_trees + n_nodes) a column.
    """

    def __init__(self, left: PathFeatures, right: PathFeatures) -> None:
        super().__init__((left.shape[0], right.shape[0]))
        self.left, self.right = left, right

    def _forward(self, V: Array) -> Array:
        return self.left.gather(self.right.rmatmat(V)) if is_lazy(V) else self.left.matmat(self.right.rmatmat(V))

    def _backward(self, U: Array) -> Array:
        return self.right.gather(self.left.rmatmat(U)) if is_lazy(U) else self.right.matmat(self.left.rmatmat(U))

    def to_dense(self) -> Array:
        """Return the (m, n) matrix itself."""
        return self.left.gram(self.right)


class PathSmoother(PathCross):
    """The (n, n) KPP Gram matrix ``G = Phi Phi.T`` (eq. 24) as an operator: symmetric, positive semidefinite, entries in [0, 1].

    It is a kernel, not a matrix whose rows sum to 1, so there is no model that it replays: ``exactness`` is NaN.

    Parameters
    ----------
    features : PathFeatures (n, n_coordinates)
    route : callable, optional
        ``route(X_new)`` returns the (m, n_trees) leaf ids of new rows.
    """

    exactness = float("nan")

    def __init__(self, features: PathFeatures, route: Callable[[Any], NDArray[np.integer[Any]]] | None = None) -> None:
        super().__init__(features, features)
        self.features, self.route = features, route

    def cross(self, X_new: Any) -> PathCross:
        """Return the (m, n) operator between new rows and these."""
        if self.route is None:
            raise DataNeededError.expected("a smoother that can route new rows", "one built from leaf ids alone", "build it from RowData")
        return PathCross(self.features.map.features(self.route(X_new)), self.features)

    def diagonal(self) -> Array:
        """Return the (n,) squared norms of the rows. O(n * n_trees)."""
        return self.features.row_norm2()

    def trace(self) -> float:
        """Return ``Tr(G)``, exactly. O(n * n_trees)."""
        return float(self.diagonal().sum())

    def weights(self, X_new: Any, top: int | None = None) -> csr_array:
        """Return the (m, n) sparse similarities of new rows to these, the ``top`` largest or all that are not zero."""
        return rowwise.merge(self.features.Z.each(_largest, self.cross(X_new).left, top), top)


def _largest(block: LeafIncidence, left: PathFeatures, top: int | None) -> csr_array:
    right = PathFeatures(left.map, block)
    return rowwise.largest(lambda rows: left.rows(rows).gram(right), (left.shape[0], right.shape[0]), top)
