"""The smoother of a boosted ensemble with squared loss, as a product of projections: two walks over the trees, no n-by-n matrix."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from treespec.errors import DataNeededError
from treespec.operators import rowwise
from treespec.operators.base import Array, Operator, frozen
from treespec.operators.kernel import inverse
from treespec.operators.leaf import LeafIncidence, sum_by_leaf
from treespec.operators.smoother import Router
from treespec.operators.trace import Trace, diagonal_of, trace_of


class BoostingSmoother(Operator):
    """The (n, n) smoother S of a booster: ``f = c + S (y - c)`` with the initial score c held fixed.

    ``I - S = (I - P_B) ... (I - P_1)`` where a tree of step length eta is ``P = eta Z (Z.T W Z + ridge I)^-1 Z.T W``, W its row weights
    times its in-bag mask; the trees of one round are added up before they are subtracted. Source: the SCATE paper, section "Gradient
    Boosting", whose recursion is the case ridge = 0, W = I, c = 0.

    Parameters
    ----------
    Z : LeafIncidence (n, n_leaves)
        Its entries (`LeafIncidence.with_entries`), where it has any, are the row weights times masks of each tree.
    eta : (n_trees,) array or float
        Step length of each tree (of parallel trees: divided by their number).
    ridge : (n_leaves,) array or float
        Added to the weight of a leaf (``lambda``).
    round_of : (n_trees,) integer array, optional
        Non-decreasing; trees of one round see the same residual. Default: one tree a round.
    mix : (n_leaves, n_leaves) sparse array, optional
        Leaf values from the weighted leaf sums, instead of ``1 / (weight + ridge)`` on the diagonal (path smoothing); zero between trees.
    initial : float
        The initial score c.
    route : callable, optional
        ``route(X_new)`` returns the incidence of new rows.
    exactness : float
        max |replay - native| / sd on the training rows.

    Notes
    -----
    A product with k columns costs O(n * n_trees * k) time and two (n, k) arrays; `cross` also holds n_leaves * k numbers.
    """

    def __init__(
        self,
        Z: LeafIncidence,
        *,
        eta: NDArray[Any] | float,
        ridge: NDArray[Any] | float = 0.0,
        round_of: NDArray[np.integer[Any]] | None = None,
        mix: csr_array | None = None,
        initial: float = 0.0,
        route: Router | None = None,
        exactness: float = float("nan"),
    ) -> None:
        super().__init__((Z.shape[0], Z.shape[0]))
        self.Z, self.route = Z, route
        self.initial, self.exactness = float(initial), float(exactness)
        self._eta = frozen(np.array(np.broadcast_to(np.asarray(eta, dtype=np.float64), Z.n_trees)))
        weight = Z.counts()
        self._solve = frozen(np.where(weight > 0, inverse(weight + ridge), 0.0))
        self._mix = mix
        order = np.arange(Z.n_trees) if round_of is None else np.asarray(round_of)
        self._rounds = [np.flatnonzero(order == r).tolist() for r in np.unique(order)]

    # ---- one tree

    def _sums(self, t: int, V: Array) -> Array:
        """Return (width, k) weighted sums of V over the leaves of tree t."""
        _, width, local = self.Z.tree(t)
        entries = self.Z.entries()
        return sum_by_leaf(local, V, width, None if entries is None else entries[t])

    def _solved(self, t: int, sums: Array, *, transposed: bool = False) -> Array:
        """Return leaf values from leaf sums: symmetric but for ``mix``."""
        low, width, _ = self.Z.tree(t)
        if self._mix is None:
            return np.asarray((self._eta[t] * self._solve[low : low + width, None]) * sums)
        block = self._mix[low : low + width, low : low + width]
        return np.asarray(self._eta[t] * ((block.T if transposed else block) @ sums))

    def _weighted(self, t: int, rows: Array) -> Array:
        """Multiply (n, k) rows by the weights of tree t, in place."""
        entries = self.Z.entries()
        if entries is not None:
            rows *= entries[t][:, None]
        return rows

    # ---- walks

    def _forward(self, V: Array) -> Array:
        residual = V.copy()
        for trees in self._rounds:
            steps = [(t, self._solved(t, self._sums(t, residual))) for t in trees]
            for t, value in steps:
                residual -= value.take(self.Z.tree(t)[2], axis=0)
        return V - residual

    def _backward(self, U: Array) -> Array:
        adjoint = U.copy()
        for trees in reversed(self._rounds):
            steps = [(t, self._solved(t, self._plain_sums(t, adjoint), transposed=True)) for t in trees]
            for t, value in steps:
                adjoint -= self._weighted(t, value.take(self.Z.tree(t)[2], axis=0))
        return U - adjoint

    def _plain_sums(self, t: int, U: Array) -> Array:
        _, width, local = self.Z.tree(t)
        return sum_by_leaf(local, U, width)

    def leaf_values(self, V: NDArray[Any]) -> Array:
        """Return the (n_leaves, k) values that the trees take when they are fitted to the columns of V (n, k), step length included."""
        residual = np.array(V, dtype=np.float64, order="C")
        out = np.zeros((self.Z.shape[1], residual.shape[1]))
        for trees in self._rounds:
            steps = [(t, self._solved(t, self._sums(t, residual))) for t in trees]
            for t, value in steps:
                low, width, local = self.Z.tree(t)
                out[low : low + width] = value
                residual -= value.take(local, axis=0)
        return out

    def leaf_values_adjoint(self, G: NDArray[Any]) -> Array:
        """Return the transpose of `leaf_values` times G (n_leaves, k): (n, k)."""
        adjoint = np.zeros((self.shape[0], G.shape[1]))
        for trees in reversed(self._rounds):
            steps = []
            for t in trees:
                low, width, _ = self.Z.tree(t)
                steps.append((t, self._solved(t, G[low : low + width] - self._plain_sums(t, adjoint), transposed=True)))
            for t, value in steps:
                adjoint += self._weighted(t, value.take(self.Z.tree(t)[2], axis=0))
        return adjoint

    # ---- what a smoother can be asked

    def replay(self, y: NDArray[Any]) -> Array:
        """Return the fitted values ``c + S (y - c)`` of labels y (n,)."""
        return self.initial + self.matvec(np.asarray(y, dtype=np.float64) - self.initial)

    def cross(self, X_new: Any) -> BoostingCross:
        """Return the (m, n) operator that predicts the rows of ``X_new`` (minus c) from training labels (minus c)."""
        if self.route is None:
            raise DataNeededError.expected(
                "a smoother that can route new rows", "one built from leaf ids alone", "use cross_incidence(Z_new)"
            )
        return self.cross_incidence(self.route(X_new))

    def cross_incidence(self, Z_new: LeafIncidence) -> BoostingCross:
        """Return the (m, n) operator for new rows given by their leaf incidence."""
        return BoostingCross(self, Z_new)

    def cross_leaves(self, leaf_index_new: NDArray[np.integer[Any]]) -> BoostingCross:
        """Return the (m, n) operator for new rows given by their leaf ordinals (m, n_trees)."""
        return self.cross_incidence(LeafIncidence(leaf_index_new, self.Z.shape[1]))

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


class BoostingCross(Operator):
    """The (m, n) operator from training labels to the predictions of new rows.

    Parameters
    ----------
    smoother : BoostingSmoother
    Z_new : LeafIncidence (m, n_leaves)
    """

    def __init__(self, smoother: BoostingSmoother, Z_new: LeafIncidence) -> None:
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
