"""Markov chains of rows that fill every leaf of every tree as the training rows did.

Of all distributions with the same share of rows in every leaf, the one nearest to independent features is those features times a factor
for each leaf that a row reaches. Factors are found while the chains run (stochastic approximation): a leaf that is too full loses, one
that is too empty gains.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from treespec.distill.boxes import boxes_of
from treespec.distill.marginals import Array, Numbers, fit_marginals
from treespec.ir import Forest

Route = Callable[[Array], NDArray[np.int32]]


class Chains:
    """Rows that move.

    Parameters
    ----------
    forest : Forest
        Whose thresholds and features there are.
    part : Forest
        Some of its trees and of their nodes (`treespec.distill.boxes.coarse`), whose leaves are to be filled.
    route : callable
        ``route(X)`` returns the (n, n_trees) node ids of the leaves of ``part``.
    n : int
        Number of chains.
    rng : Generator

    Attributes
    ----------
    X : (n, n_features) array
        Categories as codes; features that no tree splits on are 0.
    factor : (n_leaves,) array
        Log of the factor of each leaf of ``part``.
    """

    def __init__(self, forest: Forest, part: Forest, route: Route, n: int, rng: np.random.Generator) -> None:
        self._part, self._route, self._rng = part, route, rng
        self._boxes = boxes_of(part)
        self._marginals = fit_marginals(forest, self._boxes)
        self._used = np.array(sorted(self._marginals), np.int64)
        self._first = np.searchsorted(part.leaves, part.tree_offset)
        self._cumulated = np.concatenate([[0.0], np.cumsum(self._boxes.share)])
        self.factor = np.zeros(part.n_leaves)
        self.X = np.zeros((n, forest.n_features))
        for j, marginal in self._marginals.items():
            self.X[:, j] = marginal.draw(rng, n)
        self._leaf = self._leaves(self.X)

    def _leaves(self, X: Array) -> NDArray[np.int32]:
        return self._part.leaf_index[self._route(X)]

    @property
    def filled(self) -> Array:
        """(n_leaves,) share of the chains in each leaf."""
        return np.bincount(self._leaf.ravel(), minlength=self._part.n_leaves) / len(self.X)

    def run(self, steps: int, rate: float) -> None:
        """Move all chains ``steps`` times, and each time change log factors by ``rate`` times the log of wanted over filled."""
        moves = (self._borrow, self._enter_a_leaf, self._borrow, self._redraw)
        floor = 1 / len(self.X)
        for step in range(steps):
            proposed = moves[step % len(moves)]()
            leaf = self._leaves(proposed)
            gain = (self.factor[leaf] - self.factor[self._leaf]).sum(axis=1)
            accepted = np.log1p(-self._rng.random(len(gain))) < gain
            self.X[accepted], self._leaf[accepted] = proposed[accepted], leaf[accepted]
            self.factor += rate * np.log((self._boxes.share + floor) / (self.filled + floor))

    def multiply(self, times: int) -> None:
        """Let every chain go on as several."""
        self.X, self._leaf = np.repeat(self.X, times, axis=0), np.repeat(self._leaf, times, axis=0)

    # ---- moves: all return (n, n_features) proposals

    def _redraw(self) -> Array:
        """One feature of each row, from its marginal."""
        X = self.X.copy()
        column = self._rng.choice(self._used, len(X))
        for j, marginal in self._marginals.items():
            rows = np.flatnonzero(column == j)
            X[rows, j] = marginal.draw(self._rng, len(rows))
        return X

    def _borrow(self) -> Array:
        """One feature of each row, from another row."""
        X = self.X.copy()
        rows, column = np.arange(len(X)), self._rng.choice(self._used, len(X))
        X[rows, column] = self.X[self._rng.permutation(len(X)), column]
        return X

    def _enter_a_leaf(self) -> Array:
        """What keeps each row from the box of a leaf that is drawn by its share, so that several features can move at once."""
        rng, X = self._rng, self.X.copy()
        tree = rng.integers(self._part.n_trees, size=len(X))
        first, end = self._first[tree], self._first[tree + 1]
        a, b = self._cumulated[first], self._cumulated[end]
        leaf = np.clip(np.searchsorted(self._cumulated, a + rng.random(len(X)) * (b - a), side="right") - 1, first, end - 1)
        for j in self._boxes.features:
            marginal = self._marginals[j]
            if not isinstance(marginal, Numbers):
                continue
            low, high = (side[leaf] for side in self._boxes.intervals(j))
            rows = np.flatnonzero((X[:, j] <= low) | (X[:, j] > high))
            cells = np.searchsorted(marginal.cuts, low[rows], side="right"), np.searchsorted(marginal.cuts, high[rows], side="left")
            X[rows, j] = marginal.within(rng, *cells)
        return X
