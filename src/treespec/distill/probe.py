"""Rows drawn from the forest itself, for distillation without data.

A forest's covers say how the training rows were spread over its leaves: each tree is a density estimate in boxes. Rows are drawn so that
they agree with many trees in turn (a Gibbs sampler over trees): route a row into a tree, keep every feature that the drawn leaf's box
already allows, and redraw the others inside the box from the feature's marginal, which thresholds and covers of all trees give.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from treespec.ir import Forest, stats

Array = NDArray[np.float64]

_SWEEPS = 40  # trees that each row is made to agree with


def draw_rows(forest: Forest, n: int, random_state: int) -> Any:
    """Return n rows that the forest's own covers and thresholds make plausible.

    A numpy array, or a pandas frame where columns hold category values. Deterministic in ``random_state``.

    Notes
    -----
    O(n * 40 * depth) time. What the thresholds do not tell is not known here: correlations that no tree splits on, and the spread
    beyond the outermost thresholds.
    """
    rng = np.random.default_rng(random_state)
    marginals = [_marginal(forest, j) for j in range(forest.n_features)]
    X = np.column_stack([m.draw(rng.random(n)) for m in marginals]) if marginals else np.empty((n, 0))
    weight = _weight(forest)
    trees = np.arange(forest.n_trees)
    sizes = np.diff(forest.tree_offset)
    chance = np.where(sizes > 1, 1.0, 0.0)
    if chance.any():
        for _ in range(_SWEEPS):
            tree = rng.choice(trees, size=n, p=chance / chance.sum())
            _agree(forest, weight, marginals, X, tree, rng)
    return _as_rows(forest, X)


class _Marginal:
    """The distribution of one feature: a piecewise linear quantile function, or category frequencies."""

    def __init__(self, points: Array, cdf: Array, *, discrete: bool) -> None:
        self.points, self.cdf, self.discrete = points, cdf, discrete

    def draw(self, u: Array) -> Array:
        """Return the quantiles of u."""
        if self.discrete:
            return self.points[np.minimum(np.searchsorted(self.cdf, u, side="right"), len(self.points) - 1)]
        return np.interp(u, self.cdf, self.points)

    def between(self, low: Array, high: Array, u: Array) -> Array:
        """Return draws in (low, high]."""
        a = np.interp(low, self.points, self.cdf, left=0.0, right=1.0)
        b = np.interp(high, self.points, self.cdf, left=0.0, right=1.0)
        x = np.interp(a + u * (b - a), self.cdf, self.points)
        flat = (b - a) < 1e-12  # noqa: PLR2004 -- the marginal has no mass there: spread evenly over what is bounded
        if flat.any():
            lo = np.where(np.isfinite(low), low, np.minimum(high, self.points[0]))
            hi = np.where(np.isfinite(high), high, np.maximum(low, self.points[-1]))
            x = np.where(flat, lo + u * (hi - lo), x)
        return np.clip(x, np.nextafter(low, np.inf), high)


def _weight(forest: Forest) -> Array:
    """Return how many training rows reached each node, as far as the forest knows."""
    for known in (forest.count, forest.cover):
        if known is not None and np.isfinite(known).all() and (known > 0).any():
            return np.maximum(known, 1e-12)
    return 0.5 ** stats.depth(forest).astype(float)


def _marginal(forest: Forest, j: int) -> _Marginal:
    """Return the marginal of feature j from the splits on it nearest to each root, where the rows are least selected."""
    here = (forest.feature == j) & ~forest.is_leaf
    if here.any() and forest.categorical[here].any():
        codes = np.unique(forest.category[np.repeat(here, np.diff(forest.category_offset))]).astype(float)
        codes = np.append(codes, codes.max(initial=-1) + 1)
        return _Marginal(codes, np.cumsum(np.full(len(codes), 1 / len(codes))), discrete=True)
    at = np.flatnonzero(here)
    if not len(at):
        return _Marginal(np.array([0.0, 0.0]), np.array([0.0, 1.0]), discrete=False)
    weight = _weight(forest)
    share = weight[forest.left[at]] / (weight[forest.left[at]] + weight[forest.right[at]])
    root = weight[forest.tree_offset[stats.tree_of(forest)[at]]]
    importance = (weight[at] / root) ** 2  # a split that sees all rows tells the marginal; deep ones tell a conditional
    points, cdf = _monotone(forest.threshold[at], share, importance)
    gap = float(np.median(np.diff(points))) if len(points) > 1 else max(1.0, abs(points[0]) * 0.1)
    reach = max(gap, (points[-1] - points[0]) * 0.05)
    points = np.concatenate([[points[0] - reach], points, [points[-1] + reach]])
    return _Marginal(points, np.concatenate([[0.0], cdf, [1.0]]), discrete=False)


def _monotone(threshold: Array, share: Array, importance: Array) -> tuple[Array, Array]:
    """Return distinct thresholds and a non-decreasing cumulative share at each: pooled adjacent violators, by importance."""
    from sklearn.isotonic import isotonic_regression

    order = np.argsort(threshold, kind="stable")
    t, s, w = threshold[order], share[order], importance[order]
    points, start = np.unique(t, return_index=True)
    total = np.add.reduceat(w, start)
    mean = np.add.reduceat(w * s, start) / total
    return points, np.clip(isotonic_regression(mean, sample_weight=total), 1e-4, 1 - 1e-4)


def _agree(forest: Forest, weight: Array, marginals: list[_Marginal], X: Array, tree: NDArray[np.intp], rng: np.random.Generator) -> None:
    """Redraw, in place, what keeps each row from a leaf of its tree that is drawn in proportion to its rows."""
    node = forest.tree_offset[tree].astype(np.int64)
    low, high = np.full(X.shape, -np.inf), np.full(X.shape, np.inf)
    active = np.flatnonzero(~forest.is_leaf[node])
    while len(active):
        at = node[active]
        left_share = weight[forest.left[at]] / (weight[forest.left[at]] + weight[forest.right[at]])
        left = rng.random(len(active)) < left_share
        feature = forest.feature[at]
        categorical = forest.categorical[at]
        number = np.flatnonzero(~categorical)
        rows, columns, threshold = active[number], feature[number], forest.threshold[at[number]]
        high[rows, columns] = np.where(left[number], np.minimum(high[rows, columns], threshold), high[rows, columns])
        low[rows, columns] = np.where(left[number], low[rows, columns], np.maximum(low[rows, columns], threshold))
        for k in np.flatnonzero(categorical):
            X[active[k], feature[k]] = _category(forest, int(at[k]), left=bool(left[k]), now=X[active[k], feature[k]], rng=rng)
        node[active] = np.where(left, forest.left[at], forest.right[at])
        active = active[~forest.is_leaf[node[active]]]
    outside = (X <= low) | (X > high)
    for j in range(X.shape[1]):
        rows = np.flatnonzero(outside[:, j])
        if len(rows) and not marginals[j].discrete:
            X[rows, j] = marginals[j].between(low[rows, j], high[rows, j], rng.random(len(rows)))


def _category(forest: Forest, node: int, *, left: bool, now: float, rng: np.random.Generator) -> float:
    """Return the category now, if the node sends it the drawn way; else one that it does."""
    listed = forest.category[forest.category_offset[node] : forest.category_offset[node + 1]]
    wants_listed = left == bool(forest.category_left[node])
    if (now in listed) == wants_listed:
        return now
    if wants_listed:
        return float(rng.choice(listed)) if len(listed) else now
    known = dict(forest.inputs.categories).get(int(forest.feature[node]), ())
    top = max(len(known), int(listed.max(initial=0)) + 2)
    others = np.setdiff1d(np.arange(top), listed)
    return float(rng.choice(others)) if len(others) else now


def _as_rows(forest: Forest, X: Array) -> Any:
    """Return the rows as a user would pass them: with category values where columns have them."""
    known = dict(forest.inputs.categories)
    if not known:
        return X
    import pandas as pd

    names = forest.feature_names or tuple(str(j) for j in range(forest.n_features))
    columns = {}
    for j, name in enumerate(names):
        if j in known:
            codes = np.clip(X[:, j], -1, len(known[j]) - 1).astype(int)
            columns[name] = pd.Categorical.from_codes(codes, categories=list(known[j]))
        else:
            columns[name] = X[:, j]
    return pd.DataFrame(columns)
