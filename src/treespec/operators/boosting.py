"""The smoother of a boosted ensemble with squared loss, as a product of projections: two walks over the trees, no n-by-n matrix."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csc_array, csr_array, diags_array

from treespec.operators.base import Array, frozen
from treespec.operators.kernel import inverse
from treespec.operators.leaf import FEW_COLUMNS, LeafIncidence, sum_by_leaf
from treespec.operators.smoother import Router
from treespec.operators.walk import WalkSmoother

_TABLE_BYTES = 1 << 28  # up to where the leaf ids of all trees are kept in the form that sums need


class BoostingSmoother(WalkSmoother):
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
    A product with k columns costs O(n * n_trees * k) time and two (n, k) arrays; `cross` also holds n_leaves * k numbers. Up to 256 MB of
    leaf ids are kept for the next product.
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
        super().__init__(Z.shape[0], Z.shape[1], route=route, exactness=exactness)
        self.Z, self.initial = Z, float(initial)
        self._eta = frozen(np.array(np.broadcast_to(np.asarray(eta, dtype=np.float64), Z.n_trees)))
        weight = Z.counts()
        self._solve = frozen(np.where(weight > 0, inverse(weight + ridge), 0.0))
        self._mix = None if mix is None else csr_array(diags_array((Z.plain().counts() > 0) * 1.0) @ mix)  # as above: 0 where no row is
        order = np.arange(Z.n_trees) if round_of is None else np.asarray(round_of)
        self._rounds = [np.flatnonzero(order == r).tolist() for r in np.unique(order)]

    # ---- one tree

    @cached_property
    def _tables(self) -> list[csc_array] | None:
        """The (width, n) incidence of each tree, all sharing their ones: made once, as that costs as much as a product."""
        n = self.shape[0]
        if self.Z.compact or 4 * n * self.Z.n_trees > _TABLE_BYTES:
            return None
        ones, start = np.ones(n), np.arange(n + 1, dtype=np.int32)
        trees = (self.Z.tree(t) for t in range(self.Z.n_trees))
        return [csc_array((ones, local.astype(np.int32), start), shape=(width, n)) for _, width, local in trees]

    def _sums(self, t: int, V: Array) -> Array:
        """Return (width, k) weighted sums of V over the leaves of tree t."""
        entries = self.Z.entries()
        if entries is None:
            return self._plain_sums(t, V)
        _, width, local = self.Z.tree(t)
        return sum_by_leaf(local, V, width, entries[t])

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
        if U.shape[1] <= FEW_COLUMNS or self._tables is None:
            return sum_by_leaf(local, U, width)
        return np.asarray(self._tables[t] @ U)

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
