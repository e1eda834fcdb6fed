"""From the path metric back to raw inputs: how far a score can move while every feature moves by at most a radius.

The certificate is about an l-infinity ball around each row, **not** about the path metric. In each tree the ball reaches some leaves; the
least and the largest of their values, summed over trees, enclose every score that a row of the ball can get. It is an upper bound on the
movement (each tree may use another row of the ball), it holds for every row of the ball, and it covers the KPP score and the margin of the
original ensemble alike.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from treespec.errors import DataMismatchError, UnsupportedModelError
from treespec.ir.inputs import ZERO_THRESHOLD

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
        The same of the original ensemble's raw margin.
    n_leaves : (n,) array
        How many leaves the ball reaches, over all trees: ``n_trees`` where nothing can change.
    """

    score: Array
    score_low: Array
    score_high: Array
    margin: Array
    margin_low: Array
    margin_high: Array
    n_leaves: NDArray[np.int64]

    @property
    def movement(self) -> Array:
        """Upper bound on how far the KPP score can move."""
        return np.maximum(self.score_high - self.score, self.score - self.score_low)

    @property
    def margin_movement(self) -> Array:
        """Upper bound on how far the original ensemble's margin can move."""
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
        Of one ensemble without raw features.
    X : array-like or frame (n, p)
    radius : float, (p,) or (n, p) array
        In units of the features; 0 holds a feature fixed. Categories and missing values are held fixed.

    Raises
    ------
    DataMismatchError
        If a radius is negative or NaN.
    UnsupportedModelError
        If the model has several blocks.

    Notes
    -----
    O(number of (row, leaf) pairs that the balls reach, times depth), in row blocks. Enclosures are widened by the rounding of the sums.
    """
    if model.representation.n_blocks > 1:
        raise UnsupportedModelError.expected("a KPP of one ensemble without raw features", "several blocks", "fit KPP on one ensemble")
    forest = model.representation.forests[0]
    low, high = ball(forest, X, radius)
    score_value = model.representation.leaf_values(model.coef)[0]
    n = len(low)
    count = np.zeros(n, np.int64)
    found: dict[str, list[Array]] = {"score_low": [], "score_high": [], "margin_low": [], "margin_high": []}
    for rows, (pair_row, leaf) in reachable(forest, low, high):
        count[rows] = np.bincount(pair_row, minlength=rows.stop - rows.start)
        edges = _edges(pair_row, leaf, forest)
        for name, value in (("score", score_value), ("margin", forest.value)):
            part = value[leaf]
            for side, reduce in (("low", np.minimum), ("high", np.maximum)):
                each = reduce.reduceat(part, edges, axis=0)
                found[f"{name}_{side}"].append(each.reshape(rows.stop - rows.start, forest.n_trees, -1).sum(axis=1))
    stacked = {name: np.concatenate(parts) for name, parts in found.items()}
    score, margin = model.scores(X), forest.margin_of(model.representation.leaf_ids(X)[0])
    divisor = forest.n_trees if forest.aggregation == "mean" else 1
    for side, sign in (("low", -1.0), ("high", 1.0)):
        stacked[f"score_{side}"] += model.intercept + sign * _rounding(forest, score_value, "float64", divisor=1)
        slack = _rounding(forest, np.nan_to_num(forest.value), forest.sum_dtype, divisor=divisor)
        stacked[f"margin_{side}"] = stacked[f"margin_{side}"] / divisor + forest.base_score + sign * slack
    out = {**stacked, "score": score, "margin": margin}
    return RawCertificate(n_leaves=count, **{k: v[:, 0] if v.shape[1] == 1 else v for k, v in out.items()})


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
