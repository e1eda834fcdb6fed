"""From the path metric back to raw inputs: how far a score can move while every feature moves by at most a radius.

The certificate is about an l-infinity ball around each row, **not** about the path metric. In each tree the ball reaches some leaves; the
least and the largest of their values, summed over trees, enclose every score that a row of the ball can get. It is an upper bound on the
movement (each tree may use another row of the ball), it holds for every row of the ball, and it covers the KPP score and the margin of the
original ensemble alike.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from treespec.errors import DataMismatchError
from treespec.ir.inputs import ZERO_THRESHOLD
from treespec.kpp.production import leaf_values

if TYPE_CHECKING:
    from treespec.ir import Forest
    from treespec.kpp.model import KPP

Array = NDArray[np.float64]
Pairs = tuple[NDArray[np.int64], NDArray[np.int64]]

_PAIRS = 1 << 18  # (row, tree) pairs started at a time


@dataclass(frozen=True, eq=False)
class RawCertificate:
    """Enclosures of the KPP score, and of the original ensemble's margin, over an l-infinity ball of raw inputs around each row.

    Attributes
    ----------
    score, score_low, score_high : (n,) or (n, n_outputs) arrays
        The KPP score, and the least and largest that a row of the ball can get.
    margin, margin_low, margin_high : (n,) or (n, n_outputs) arrays
        The same of the original ensemble's raw margin; of several ensembles a tuple, one array for each.
    n_leaves : (n,) array
        How many leaves the ball reaches, over all trees: their number where nothing can change.
    """

    score: Array
    score_low: Array
    score_high: Array
    margin: Array | tuple[Array, ...]
    margin_low: Array | tuple[Array, ...]
    margin_high: Array | tuple[Array, ...]
    n_leaves: NDArray[np.int64]

    @property
    def movement(self) -> Array:
        """Upper bound on how far the KPP score can move."""
        return np.maximum(self.score_high - self.score, self.score - self.score_low)

    @property
    def margin_movement(self) -> Array | tuple[Array, ...]:
        """Upper bound on how far the original ensemble's margin can move."""
        if isinstance(self.margin, tuple):
            return tuple(np.maximum(h - m, m - w) for m, w, h in zip(self.margin, self.margin_low, self.margin_high, strict=True))
        return np.maximum(self.margin_high - self.margin, self.margin - self.margin_low)

    @property
    def keeps_class(self) -> NDArray[np.bool_]:
        """(n,) whether no row of the ball changes the KPP prediction of a classifier with one target."""
        if self.score.ndim == 1:
            return (self.score_low > 0) | (self.score_high <= 0)
        own = self.score.argmax(axis=1)[:, None]
        others = np.where(np.arange(self.score.shape[1]) == own, -np.inf, self.score_high)
        return np.asarray(np.take_along_axis(self.score_low, own, 1)[:, 0] > others.max(axis=1))


def certificate(model: KPP, X: Any, radius: float | NDArray[Any]) -> RawCertificate:
    """Return how far scores and margins can move while every numerical feature moves by at most ``radius``.

    Parameters
    ----------
    model : KPP
    X : array-like or frame (n, p)
    radius : float, (p,) or (n, p) array
        In units of the features; 0 holds a feature fixed. Categories and missing values are held fixed.

    Raises
    ------
    DataMismatchError
        If a radius is negative or NaN.

    Notes
    -----
    O(number of (row, leaf) pairs that the balls reach, times depth), in row blocks. Enclosures are widened by the rounding of the sums.
    Several ensembles, raw features and an anchor add their own enclosures; an anchor of boosters is added leaf by leaf, which is tighter.
    """
    r = model.representation
    values, constant = leaf_values(model)
    ids = r.leaf_ids(X)
    low, high = (np.tile(constant, (len(ids[0]), 1)) for _ in range(2))
    count = np.zeros(len(low), np.int64)
    margins: list[tuple[Array, Array, Array]] = []
    for forest, value, leaf_id in zip(r.forests, values, ids, strict=True):
        reached, (score, own) = _enclosures(forest, X, radius, (value, forest.value))
        slack = _rounding(forest, value, "float64", divisor=1)
        low, high, count = low + score[0] - slack, high + score[1] + slack, count + reached
        divisor = forest.n_trees if forest.aggregation == "mean" else 1
        slack = _rounding(forest, np.nan_to_num(forest.value), forest.sum_dtype, divisor=divisor)
        ends = [side / divisor + forest.base_score + sign * slack for side, sign in zip(own, (-1.0, 1.0), strict=True)]
        margins.append((forest.margin_of(leaf_id), ends[0], ends[1]))
    for least, largest in _further(model, X, radius, margins):
        low, high = low + least, high + largest
    sides = [tuple(_flat(each[j]) for each in margins) for j in range(3)]
    margin, margin_low, margin_high = (side[0] if len(side) == 1 else side for side in sides)
    return RawCertificate(_flat(model.scores(X)), _flat(low), _flat(high), margin, margin_low, margin_high, count)


def _flat(a: Array) -> Array:
    return a[:, 0] if a.shape[1] == 1 else a


def _enclosures(
    forest: Forest, X: Any, radius: float | NDArray[Any], values: Sequence[Array]
) -> tuple[NDArray[np.int64], list[tuple[Array, Array]]]:
    """Return how many leaves the ball of each row reaches, and for each of the ``values`` (n_nodes, k) the least and largest sums."""
    low, high = ball(forest, X, radius)
    count = np.zeros(len(low), np.int64)
    found: list[tuple[list[Array], list[Array]]] = [([], []) for _ in values]
    for rows, (pair_row, leaf) in reachable(forest, low, high):
        n = rows.stop - rows.start
        count[rows] = np.bincount(pair_row, minlength=n)
        edges = _edges(pair_row, leaf, forest)
        for value, sides in zip(values, found, strict=True):
            part = value[leaf]
            for side, reduce in zip(sides, (np.minimum, np.maximum), strict=True):
                each = reduce.reduceat(part, edges, axis=0)
                side.append(each.reshape(n, forest.n_trees, -1).sum(axis=1))
    return count, [(np.concatenate(least), np.concatenate(largest)) for least, largest in found]


def _further(model: KPP, X: Any, radius: float | NDArray[Any], margins: list[tuple[Array, Array, Array]]) -> Iterator[tuple[Array, Array]]:
    """Yield the enclosures of what is no sum over leaves: raw features, and an anchor of forests."""
    r = model.representation
    if r.raw is not None:
        ends = [r.raw.features(end).matrix for end in ball(r.forests[0], X, radius)]
        coef = r.factor * model.coef[r.edges[-2] :]
        falls, rises = np.minimum(coef, 0), np.maximum(coef, 0)
        least, largest = ends[1] @ falls + ends[0] @ rises, ends[0] @ falls + ends[1] @ rises
        slack = 4 * coef.shape[0] * np.finfo(float).eps * np.abs(coef).sum(axis=0)
        yield least - slack, largest + slack
    if model.anchor is not None and model.anchor.leaf_values() is None:
        yield model.anchor.enclose([(low, high) for _, low, high in margins])


def ball(forest: Forest, X: Any, radius: float | NDArray[Any]) -> tuple[Array, Array]:
    """Return the encoded least and largest rows (n, p) of the balls; NaN where a value is missing.

    Where some value of the ball would be read as missing (zero, or a marker such as -999), the interval is widened to all values; a value
    that already is missing, however it is written, is held fixed.
    """
    rule = forest.inputs
    centre = forest.encode(X)
    r = np.broadcast_to(np.asarray(radius, dtype=np.float64), centre.shape).copy()
    if not (np.isfinite(r) & (r >= 0)).all():
        raise DataMismatchError.expected("finite radii of 0 or more", "others", "0 holds a feature fixed")
    r[:, list(rule.categorical)] = 0.0
    r[:, np.unique(forest.feature[forest.categorical])] = 0.0
    # a row was rounded when it was encoded: one unit in the last place on either side covers what it was before
    ulp = np.where(np.isfinite(centre), np.spacing(np.abs(np.where(np.isfinite(centre), centre, 0))), 0.0)
    ulp += ZERO_THRESHOLD if rule.zero != "keep" else 0.0
    with np.errstate(over="ignore"):
        sides = [np.where(r > 0, centre + s * (r + ulp), centre).astype(rule.dtype).astype(np.float64) for s in (-1.0, 1.0)]
    low, high = (np.where(np.abs(s) <= ZERO_THRESHOLD, 0.0, s) if rule.zero == "flush" else s for s in sides)
    special = np.zeros(centre.shape, bool)
    if rule.zero == "missing":
        special |= (low <= ZERO_THRESHOLD) & (high >= -ZERO_THRESHOLD)
    if not np.isnan(rule.missing_value):
        special |= (low <= rule.missing_value) & (high >= rule.missing_value)
    special &= r > 0
    return np.where(special, -np.inf, low), np.where(special, np.inf, high)


def reachable(forest: Forest, low: Array, high: Array) -> Iterator[tuple[slice, Pairs]]:
    """Yield, for blocks of rows, the (row within the block, leaf) pairs that boxes reach, ordered by row and tree.

    A box reaches a child when some value of the split's feature goes there; infinite boxes also reach where missing values go.
    """
    step = max(1, _PAIRS // max(1, forest.n_trees))
    for start in range(0, len(low), step):
        rows = slice(start, min(len(low), start + step))
        yield rows, _reach(forest, low[rows], high[rows])


def _reach(forest: Forest, low: Array, high: Array) -> Pairs:
    n = len(low)
    row, node = np.repeat(np.arange(n), forest.n_trees), np.tile(forest.tree_offset[:-1], n)
    rows, leaves = [], []
    go_left = _goes_left(forest)
    while len(row):
        done = forest.is_leaf[node]
        rows.append(row[done])
        leaves.append(node[done])
        row, node = row[~done], node[~done]
        lo, hi = low[row, forest.feature[node]], high[row, forest.feature[node]]
        fixed = np.isnan(lo) | forest.categorical[node]
        left, right = lo <= forest.threshold[node], hi > forest.threshold[node]
        at = np.flatnonzero(fixed)
        if len(at):
            left[at] = go_left(node[at], lo[at])
            right[at] = ~left[at]
        row = np.concatenate([row[left], row[right]])
        node = np.concatenate([forest.left[node[left]], forest.right[node[right]]]).astype(np.int64)
    all_rows, all_leaves = np.concatenate(rows), np.concatenate(leaves)
    order = np.lexsort((all_leaves, all_rows))  # node ids ascend with the trees
    return all_rows[order], all_leaves[order]


def _goes_left(forest: Forest) -> Callable[[NDArray[Any], Array], NDArray[np.bool_]]:
    from treespec.ir.traverse import goes_left

    return lambda node, x: goes_left(forest, node, x)


def _edges(row: NDArray[np.int64], leaf: NDArray[np.int64], forest: Forest) -> NDArray[np.int64]:
    """Return where each (row, tree) starts; every tree has a leaf for every row."""
    tree = np.searchsorted(forest.tree_offset, leaf, side="right")
    change = (np.diff(row) != 0) | (np.diff(tree) != 0)
    return np.concatenate([[0], np.flatnonzero(change) + 1])


def _rounding(forest: Forest, value: Array, dtype: str, *, divisor: int) -> Array:
    """Return (k,) how far a sum over trees may be off by rounding."""
    largest = np.maximum.reduceat(np.abs(value), forest.tree_offset[:-1], axis=0).sum(axis=0) + np.abs(forest.base_score).max(initial=0.0)
    return np.asarray((forest.n_trees + 2) * float(np.finfo(dtype).eps) * largest / divisor)
