"""The distribution of each feature on its own, as far as a forest's thresholds and covers tell it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from treespec.distill.boxes import Boxes
from treespec.ir import Forest

Array = NDArray[np.float64]
Cells = NDArray[np.int64]

_ROUNDS = 50  # of expectation maximisation
_TAIL = 0.01  # least spread beyond the outermost thresholds, as a share of the spread between them
_WHOLE = 1e-6
_LARGEST_WHOLE = 2.0**20


@dataclass(frozen=True, eq=False)
class Codes:
    """A feature that the forest splits as categories: every code that it knows, equally likely.

    Attributes
    ----------
    codes : (k,) array
    """

    codes: Array

    def draw(self, rng: np.random.Generator, n: int) -> Array:
        """Return n codes."""
        return rng.choice(self.codes, n)


class Numbers:
    """A feature that the forest splits by thresholds: a chance for each cell between two of them.

    Values are evenly spread within a cell; beyond the outermost thresholds they fall off over the width of the cell next to it. Where all
    thresholds are whole or half numbers, values are whole. Where none is negative, neither are values.

    Parameters
    ----------
    cuts : (k,) array
        Distinct thresholds, ascending; cell i is ``(cuts[i - 1], cuts[i]]``.
    mass : (k + 1,) array
        Chance of each cell.
    """

    def __init__(self, cuts: Array, mass: Array) -> None:
        self.cuts = cuts
        self._cumulated = np.concatenate([[0.0], np.cumsum(mass / mass.sum())])
        spread = float(cuts[-1] - cuts[0]) if len(cuts) > 1 else float(abs(cuts[0]) or 1.0)
        gaps = np.diff(cuts) if len(cuts) > 1 else np.array([spread])
        self._left, self._right = max(float(gaps[0]), _TAIL * spread), max(float(gaps[-1]), _TAIL * spread)
        self._whole = _is_whole(cuts)

    def draw(self, rng: np.random.Generator, n: int) -> Array:
        """Return n values."""
        return self.within(rng, np.zeros(n, np.int64), np.full(n, len(self.cuts)))

    def cell(self, values: Array) -> Cells:
        """Return the cell of each value."""
        return np.searchsorted(self.cuts, values, side="left")

    def within(self, rng: np.random.Generator, low: Cells, high: Cells) -> Array:
        """Return one value each in the cells ``low`` to ``high``, both included."""
        a, b = self._cumulated[low], self._cumulated[high + 1]
        cell = np.searchsorted(self._cumulated, a + rng.random(len(low)) * (b - a), side="right") - 1
        return self._values(rng, np.clip(cell, low, high))

    def _values(self, rng: np.random.Generator, cell: Cells) -> Array:
        k = len(self.cuts)
        below, above = self.cuts[np.maximum(cell - 1, 0)], self.cuts[np.minimum(cell, k - 1)]
        first, last = cell == 0, cell == k
        tail = rng.exponential(size=len(cell))
        if self._whole:
            tail = np.floor(tail * np.where(first, self._left, self._right) / 2) if k > 1 else np.zeros(len(cell))
            low, high = np.floor(below) + 1, np.floor(above)
            out = low + np.floor(rng.random(len(cell)) * (high - low + 1))
            out = np.where(first, high - tail, np.where(last, low + tail, out))
        else:
            out = above - rng.random(len(cell)) * (above - below)
            out = np.where(first, above - tail * self._left, np.where(last, below + (tail + _WHOLE) * self._right, out))
        return np.maximum(out, 0.0) if self.cuts[0] >= 0 else out


def _is_whole(cuts: Array) -> bool:
    """Tell whether all thresholds are whole or half numbers, or the float next to one; a single one counts between 0 and 1 only."""
    if np.abs(cuts).max() > _LARGEST_WHOLE or (len(cuts) == 1 and not 0 <= cuts[0] <= 1):
        return False
    twice = 2 * cuts
    return bool((np.abs(twice - np.round(twice)) <= _WHOLE * np.maximum(1.0, np.abs(twice))).all())


Marginal = Codes | Numbers


def fit_marginals(forest: Forest, boxes: Boxes) -> dict[int, Marginal]:
    """Return the marginal of every feature that a tree splits on.

    The leaves of ``boxes`` are taken as interval-censored rows: chances of cells are Turnbull's estimate, by expectation maximisation.
    Within what the boxes cannot tell apart, cells between the forest's thresholds are equally likely.
    """
    out: dict[int, Marginal] = {}
    inner = ~forest.is_leaf
    for j in np.unique(forest.feature[inner & ~forest.categorical]).tolist():
        cuts = np.unique(forest.threshold[inner & ~forest.categorical & (forest.feature == j)])
        cuts = cuts[np.isfinite(cuts)]
        if not len(cuts):
            continue
        if j in boxes.features:
            low, high = boxes.intervals(j)
            mass = _turnbull(np.searchsorted(cuts, low, side="right"), np.searchsorted(cuts, high, side="left"), boxes.share, len(cuts) + 1)
        else:
            mass = np.ones(len(cuts) + 1)
        out[j] = Numbers(cuts, mass)
    known = dict(forest.inputs.categories)
    for j in np.unique(forest.feature[forest.categorical]).tolist():
        listed = forest.category[np.repeat(forest.feature == j, np.diff(forest.category_offset))]
        codes = range(len(known[j])) if j in known else sorted({*listed.tolist(), int(listed.max(initial=-1)) + 1})
        out[j] = Codes(np.array(codes, dtype=np.float64))
    return out


def _turnbull(low: Cells, high: Cells, share: Array, n_cells: int) -> Array:
    """Return chances of cells from the share of rows between the cells ``low`` and ``high``, both included."""
    mass = np.full(n_cells, 1 / n_cells)
    for _ in range(_ROUNDS):
        cumulated = np.concatenate([[0.0], np.cumsum(mass)])
        ratio = share / np.maximum(cumulated[high + 1] - cumulated[low], 1e-300)
        slope = np.bincount(low, ratio, n_cells + 1) - np.bincount(high + 1, ratio, n_cells + 1)
        mass = np.maximum(mass * np.cumsum(slope)[:-1], 0.0)
        mass /= mass.sum()
    return np.asarray(mass + 1e-9)
