"""Compressor ``lop``: level after level, subtrees that an L1-regularised linear model does without become leaves.

Source: Devos et al. 2025, from its description. At a level, every subtree that begins there is two features: what it says of a row, and
whether the row is in it. The lasso on them scales what is kept, moves the level of it, and drops the rest: whole trees at the first level,
ever smaller subtrees below. One penalty serves all levels; it is found by bisection.
"""

from __future__ import annotations

import warnings

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csc_array, hstack

from treespec.distill.grove import Array, Grove
from treespec.ir import ALL_OUTPUTS, stats

_ROWS = 4000  # that the lasso is fitted on
_PENALTIES = 7
_LEVELS = 8
_FEWER = 1.5  # times as many splits as wanted are close enough: the rest is trimmed
_PASSES = 60
_WEAKEST, _STRONGEST = 1e-6, 1e-1  # penalty, in squared units of what is to be explained


def prune_levels(grove: Grove, n_splits: int) -> Grove:
    """Return the grove with at most ``n_splits`` splits."""
    if grove.n_splits <= n_splits:
        return grove
    levels = _Levels(grove)
    low, high = np.log(_WEAKEST), np.log(_STRONGEST)
    best: tuple[float, Array, NDArray[np.bool_]] | None = None
    for _ in range(_PENALTIES):
        penalty = (low + high) / 2
        value, split = levels.prune(float(np.exp(penalty)))
        count = int(split.sum())
        low, high = (penalty, high) if count > _FEWER * n_splits else (low, penalty)
        distance = abs(np.log(max(count, 1) / n_splits))
        if best is None or distance < best[0]:
            best = distance, value, split
        if n_splits <= count <= _FEWER * n_splits:
            break
    return grove if best is None else grove.with_values(best[1]).cut(best[2]).balanced().trim(n_splits)


class _Levels:
    """The subtrees of a grove, level by level, on some of its rows."""

    def __init__(self, grove: Grove) -> None:
        f, n = grove.forest, len(grove.leaf_id)
        rows = np.arange(n) if n <= _ROWS else np.sort(np.random.default_rng(0).choice(n, _ROWS, replace=False))
        self.forest = f
        self.depth = stats.depth(f)
        self.above = stats.ancestors(f, np.arange(_LEVELS))
        self.leaf = grove.leaf_id[rows]
        self.trees = [np.flatnonzero((f.tree_output == ALL_OUTPUTS) | (f.tree_output == j)) for j in range(f.n_outputs)]
        bend, rest = grove.goal.working(grove.score)
        self.bend = bend[rows]
        self.wanted = rest[rows] + grove.score[rows] - f.base_score
        self.unit = np.sqrt(np.average(self.wanted**2, axis=0, weights=self.bend))

    def prune(self, penalty: float) -> tuple[Array, NDArray[np.bool_]]:
        """Return new leaf values, and which nodes are still split."""
        f = self.forest
        value, split = f.value.copy(), ~f.is_leaf
        for level in range(_LEVELS):
            heads = np.flatnonzero(split & (self.depth == level))
            if not len(heads):
                break
            kept = np.zeros(f.n_nodes, bool)
            for j in range(f.n_outputs):
                kept |= self._lasso(value, heads, level, j, penalty)
            split &= kept[self.above[level]] | (self.depth < level) | f.is_leaf
        return value, split & ~f.is_leaf

    def _lasso(self, value: Array, heads: NDArray[np.intp], level: int, j: int, penalty: float) -> NDArray[np.bool_]:
        """Fit one output at one level, write the new leaf values into ``value`` and return the heads that are kept."""
        place = np.full(self.forest.n_nodes, -1)
        place[heads] = np.arange(len(heads))
        leaf = self.leaf[:, self.trees[j]]
        root = np.sqrt(self.bend[:, j] / self.bend[:, j].mean())
        row, at = np.nonzero((column := place[self.above[level][leaf]]) >= 0)
        column = column[row, at]
        weight = root[row] ** 2
        said = value[leaf[row, at], j]
        total = np.maximum(np.bincount(column, weight, len(heads)), 1e-300)
        mean = np.bincount(column, weight * said, len(heads)) / total
        row, column = row.astype(np.int32), column.astype(np.int32)  # scikit-learn takes no wider ones
        shape = (len(leaf), len(heads))
        says = csc_array(((said - mean[column]) * root[row], (row, column)), shape=shape)
        inside = csc_array((self.unit[j] * root[row], (row, column)), shape=shape)
        y = root * (self.wanted[:, j] - value[leaf, j].sum(axis=1)) + says @ np.ones(len(heads))
        scale, shift = _fit(says, inside, y, penalty * float(self.unit[j]) ** 2)
        below = place[self.above[level]]
        mine = np.flatnonzero((below >= 0) & self.forest.is_leaf)
        k = below[mine]
        value[mine, j] = mean[k] + self.unit[j] * shift[k] + scale[k] * (value[mine, j] - mean[k])
        kept = np.zeros(self.forest.n_nodes, bool)
        kept[heads[scale != 0]] = True
        return kept


def _fit(says: csc_array, inside: csc_array, y: Array, penalty: float) -> tuple[Array, Array]:
    """Return the lasso's coefficients of what subtrees say, and of being in them."""
    from sklearn.linear_model import Lasso

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about convergence: what is dropped is clear long before
        coef = Lasso(penalty, fit_intercept=False, max_iter=_PASSES, tol=1e-3).fit(hstack([says, inside], format="csc"), y).coef_
    return coef[: says.shape[1]], coef[says.shape[1] :]
