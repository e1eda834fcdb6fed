"""Boosting settings of a model that does not know them (a model file), from the values of its first trees."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from treespec.operators.boosting_settings import Settings, average, single
from treespec.operators.leaf import LeafIncidence
from treespec.operators.replay import targets

if TYPE_CHECKING:
    from treespec.hooks import RowData
    from treespec.ir import Forest

_DIGITS = 5


def guess(forest: Forest, data: RowData, Z: LeafIncidence) -> Iterator[Settings]:
    """Yield settings that explain the first tree of the first output: with an initial score that is stored, or the mean of y.

    A leaf value is ``eta G / (H + ridge)`` with G the weighted sum of residuals and H the weight of the leaf, both known before any
    tree; so ``G = H v / eta + v ridge / eta`` over the leaves gives both by least squares. Numbers of few digits are tried first. They
    are only guesses: the caller replays them.
    """
    y, weight = targets(forest, np.asarray(data.y)), data.sample_weight
    if forest.sum_dtype == "float32" or not forest.base_score.any():
        y, weight = single(y), None if weight is None else single(weight)
    w = np.ones(len(y)) if weight is None else weight
    starts = [(forest.base_score, 0.0)]
    if not forest.base_score.any():
        mean = average(y, weight)
        starts.append((mean, float(mean[0])))
    low, width, local = Z.tree(0)
    output = max(0, int(forest.tree_output[0]))
    value = forest.value[forest.leaves[low : low + width], output]
    for initial, inside in starts:
        total = np.bincount(local, w * (y[:, output] - initial[output]), minlength=width)
        found = _solve(total, np.bincount(local, w, minlength=width), value - inside)
        for eta, ridge in found:
            yield Settings(y=y, eta=eta, ridge=ridge, initial=initial, weight=weight)


def _solve(total: NDArray[Any], weight: NDArray[Any], value: NDArray[np.float64]) -> list[tuple[float, float]]:
    """Return (eta, ridge): rounded, and as fitted."""
    table = np.stack([weight * value, value], axis=1)
    if len(value) < 2 or np.linalg.matrix_rank(table) < 2:
        return []
    (slope, constant), *_ = np.linalg.lstsq(table, total, rcond=None)
    if not slope > 0:
        return []
    eta, ridge = 1 / slope, constant / slope
    rounded = float(f"{eta:.{_DIGITS - 1}g}"), max(0.0, round(ridge, _DIGITS - 2))
    return [(float(np.float32(rounded[0])), rounded[1]), rounded, (float(eta), float(max(0.0, ridge)))]
