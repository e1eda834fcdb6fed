"""Rows drawn from the forest itself, for distillation without data.

What a forest knows of its training rows is how many of them reached each leaf of each tree. Rows are drawn so that they repeat all those
shares: candidates from the marginals of the features are weighted by iterative proportional fitting (raking) until every cell of every
tree has its share, which is the distribution of largest entropy that does; they are resampled, and recombined into new candidates (some
features of one row, the rest of another), round after round, so that dependence between features builds up without rows repeating.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treespec.distill.marginals import Array, fit_marginals, rows_of_nodes
from treespec.ir import Forest, stats

_TREES = 100  # raked over at most this many
_FIRST_ROUNDS = 10  # of boosted trees whose covers are sums of hessians: later ones count uncertain rows more
_ROUNDS = 6
_SWEEPS = 8
_CANDIDATES = 4  # for each row
_SHARE = 0.004  # cells of fewer rows are too rare to be raked to: their parents are
_STEP = 4.0  # largest factor of a weight in one step

Apply = Callable[[Any], NDArray[np.int32]]


def draw_rows(forest: Forest, n: int, random_state: int, apply: Apply | None = None) -> Any:
    """Return n rows that repeat, as closely as they can, how training rows were spread over the leaves of the forest.

    A numpy array, or a pandas frame where columns hold category values. Deterministic in ``random_state``.

    Parameters
    ----------
    forest : Forest
    n : int
    random_state : int
    apply : callable, optional
        Routes rows as `Forest.apply` does, faster.

    Notes
    -----
    Six rounds of 4 n candidates, routed through at most 100 trees each. What the leaves do not tell is not known here: dependence that
    no tree splits on, and the spread beyond the outermost thresholds.
    """
    rng = np.random.default_rng(random_state)
    marginals = fit_marginals(forest)
    many = _CANDIDATES * n

    def draw(k: int) -> Array:
        return np.column_stack([m.draw(rng.random(k)) for m in marginals]) if marginals else np.empty((k, 0))

    trees = _informative_trees(forest, rng)
    if not len(trees):
        return _as_rows(forest, draw(n))
    cell, wanted = _cells(forest)
    route = forest.apply if apply is None else apply
    X = draw(many)
    for k in range(_ROUNDS):
        weight = _rake(cell[route(_as_rows(forest, X))[:, trees]], wanted)
        X = X[_systematic(weight, n, rng)]
        if k < _ROUNDS - 1:
            X = np.concatenate([X, _recombine(X, many - n, rng)])
    return _as_rows(forest, rng.permutation(X))


def _informative_trees(forest: Forest, rng: np.random.Generator) -> NDArray[np.intp]:
    """Return the trees to rake over: those with splits whose covers count rows."""
    trees = np.flatnonzero(np.diff(forest.tree_offset) > 1)
    if forest.count is None and forest.aggregation == "sum" and forest.loss != "squared":
        trees = trees[: _FIRST_ROUNDS * forest.n_outputs]
    return trees if len(trees) <= _TREES else np.sort(rng.choice(trees, _TREES, replace=False))


def _cells(forest: Forest) -> tuple[NDArray[np.int64], Array]:
    """Return the cell of each leaf (the deepest node above it that is not too rare) and the share of rows of each node."""
    rows = rows_of_nodes(forest)
    share = rows / rows[forest.tree_offset[:-1]][stats.tree_of(forest)]
    cell = np.arange(forest.n_nodes)
    for nodes in stats.levels(forest)[:-1]:  # parents first: a rare node takes its parent's cell, and so do all below it
        inner = nodes[~forest.is_leaf[nodes]]
        for child in (forest.left[inner], forest.right[inner]):
            merged = (cell[inner] != inner) | (np.minimum(share[forest.left[inner]], share[forest.right[inner]]) < _SHARE)
            cell[child[merged]] = cell[inner[merged]]
    return cell, share


def _rake(cell: NDArray[np.int64], wanted: Array) -> Array:
    """Return weights (m,) of rows with which the cells of each tree (m, n_trees) have their wanted shares."""
    log_weight = np.zeros(len(cell))
    columns = []
    for t in range(cell.shape[1]):
        nodes, code = np.unique(cell[:, t], return_inverse=True)
        columns.append((wanted[nodes], code))
    for sweep in range(_SWEEPS):
        for target, code in columns:
            weight = np.exp(log_weight - log_weight.max())
            have = np.bincount(code, weight, minlength=len(target))
            factor = np.log(np.maximum(target, 1e-9)) - np.log(np.maximum(have / have.sum(), 1e-9))
            log_weight += (0.5 if sweep else 1.0) * np.clip(factor, -np.log(_STEP), np.log(_STEP))[code]
    weight = np.exp(log_weight - log_weight.max())
    return np.asarray(weight / weight.sum())


def _systematic(weight: Array, n: int, rng: np.random.Generator) -> NDArray[np.intp]:
    """Return n rows in proportion to their weights, with the least possible repetition."""
    edges = np.cumsum(weight)
    return np.minimum(np.searchsorted(edges / edges[-1], (np.arange(n) + rng.random()) / n), len(weight) - 1)


def _recombine(X: Array, k: int, rng: np.random.Generator) -> Array:
    """Return k rows that take one to half of their features from another row."""
    p = X.shape[1]
    out, other = X[rng.integers(len(X), size=k)], X[rng.integers(len(X), size=k)]
    taken = rng.random((k, p)) < rng.uniform(1 / p, 0.5, size=(k, 1)) if p > 1 else np.zeros((k, p), bool)
    return np.where(taken, other, out)


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
