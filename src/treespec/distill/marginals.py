"""The distribution of each feature, as far as a forest's thresholds and covers tell it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from treespec.ir import Forest, stats

Array = NDArray[np.float64]

_LEAST = 1e-4  # mass beyond the outermost thresholds


class Marginal:
    """The distribution of one feature: a piecewise linear distribution function, or frequencies of category codes.

    Parameters
    ----------
    points : (k,) array
        Ascending values; of a discrete feature its codes.
    cdf : (k,) array
        Share of rows up to each.
    discrete : bool
    """

    def __init__(self, points: Array, cdf: Array, *, discrete: bool) -> None:
        self.points, self.cdf, self.discrete = points, cdf, discrete

    @property
    def mass(self) -> Array:
        """(k,) share of each code of a discrete feature."""
        return np.diff(self.cdf, prepend=0.0)

    def draw(self, u: Array) -> Array:
        """Return the quantiles of u."""
        if self.discrete:
            return np.asarray(self.points[np.minimum(np.searchsorted(self.cdf, u, side="right"), len(self.points) - 1)])
        return np.interp(u, self.cdf, self.points)

    def below(self, x: Array) -> Array:
        """Return the share of rows up to x; 0 and 1 at the infinities."""
        return np.interp(x, self.points, self.cdf, left=0.0, right=1.0)

    def between(self, low: Array, high: Array, u: Array) -> Array:
        """Return the draws in (low, high] that u in (0, 1) stands for."""
        a, b = self.below(low), self.below(high)
        x = np.interp(a + u * (b - a), self.cdf, self.points)
        no_mass = b - a < 1e-12  # spread evenly over what is bounded
        lo = np.where(np.isfinite(low), low, np.minimum(high, self.points[0]))
        hi = np.where(np.isfinite(high), high, np.maximum(low, self.points[-1]))
        x = np.where(no_mass, lo + u * (hi - lo), x)
        return np.clip(x, np.nextafter(low, np.inf), high)


def rows_of_nodes(forest: Forest) -> Array:
    """Return how many training rows (or how much weight) reached each node; halves at each split where the forest knows neither."""
    for known in (forest.count, forest.cover):
        if known is not None and (known > 0).any():
            return np.maximum(known, 1e-12)
    return np.asarray(0.5 ** stats.depth(forest).astype(float))


def fit_marginals(forest: Forest) -> list[Marginal]:
    """Return the marginal of each feature. A split near a root sees nearly all rows and counts most."""
    weight = rows_of_nodes(forest)
    root = weight[forest.tree_offset[:-1]][stats.tree_of(forest)]
    importance = (weight / root) ** 2
    return [_marginal(forest, j, weight, importance) for j in range(forest.n_features)]


def _marginal(forest: Forest, j: int, weight: Array, importance: Array) -> Marginal:
    at = np.flatnonzero((forest.feature == j) & ~forest.is_leaf)
    if j in forest.inputs.categorical:
        return _frequencies(forest, j, at, weight, importance)
    if not len(at):
        return Marginal(np.zeros(2), np.array([0.0, 1.0]), discrete=False)
    share = weight[forest.left[at]] / (weight[forest.left[at]] + weight[forest.right[at]])
    points, cdf = _monotone(forest.threshold[at], share, importance[at])
    gap = float(np.median(np.diff(points))) if len(points) > 1 else max(1.0, abs(float(points[0])) / 10)
    reach = max(gap, float(points[-1] - points[0]) / 20)
    points = np.concatenate([[points[0] - reach], points, [points[-1] + reach]])
    return Marginal(points, np.concatenate([[0.0], cdf, [1.0]]), discrete=False)


def _monotone(threshold: Array, share: Array, importance: Array) -> tuple[Array, Array]:
    """Return distinct thresholds and a non-decreasing share of rows up to each."""
    from sklearn.isotonic import isotonic_regression

    order = np.argsort(threshold, kind="stable")
    points, start = np.unique(threshold[order], return_index=True)
    total = np.add.reduceat(importance[order], start)
    mean = np.add.reduceat((importance * share)[order], start) / total
    return points, np.clip(isotonic_regression(mean, sample_weight=total), _LEAST, 1 - _LEAST)


def _frequencies(forest: Forest, j: int, at: NDArray[np.intp], weight: Array, importance: Array) -> Marginal:
    """Return category frequencies: a split tells how many rows have the categories that it lists, in equal parts."""
    known = dict(forest.inputs.categories).get(j)
    here = np.repeat(np.isin(np.arange(forest.n_nodes), at), np.diff(forest.category_offset))
    n_codes = len(known) if known is not None else int(forest.category[here].max(initial=0)) + 2  # one that no split lists
    mass, seen = np.full(n_codes, 1e-3 / n_codes), np.full(n_codes, 1e-3)
    for node in at[forest.categorical[at]]:
        listed = forest.category[forest.category_offset[node] : forest.category_offset[node + 1]]
        listed = listed[listed < n_codes]
        others = np.setdiff1d(np.arange(n_codes), listed)
        left = weight[forest.left[node]] / weight[[forest.left[node], forest.right[node]]].sum()
        share = left if forest.category_left[node] else 1 - left
        for codes, part in ((listed, share), (others, 1 - share)):
            mass[codes] += importance[node] * part / max(1, len(codes))
            seen[codes] += importance[node]
    p = mass / seen
    return Marginal(np.arange(n_codes, dtype=float), np.cumsum(p / p.sum()), discrete=True)
