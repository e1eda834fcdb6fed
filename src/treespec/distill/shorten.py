"""Moves thresholds inside their gaps in the rows to numbers that take few bits; no row changes sides."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treespec.ir import Forest
from treespec.students.packed_numbers import STYLE_BITS, Mapping, rice

Float32 = NDArray[np.float32]
_PLACES = range(-24, 32)
_DECIMALS = range(6)
_SHIFTS = range(30, -1, -1)


class Gaps:
    """The sorted distinct values of every column of some rows.

    Parameters
    ----------
    X : (n, p) float32
        Encoded rows.
    most : int, optional
        Of a column with more gaps, so many are kept, with about as many rows between each two: thresholds then do move rows.
    """

    def __init__(self, X: Float32, most: int | None = None) -> None:
        self._values = [_with_ends(_distinct(column[np.isfinite(column)], most)) for column in X.T]

    def shorten(self, forest: Forest) -> Forest:
        """Return the forest with every numerical threshold moved inside its gap; those in one gap become the same."""
        threshold = forest.threshold.copy()
        numerical = ~forest.is_leaf & ~forest.categorical
        for j in np.unique(forest.feature[numerical]):
            at = np.flatnonzero(numerical & (forest.feature == j))
            values = self._values[j]
            gap = np.clip(np.searchsorted(values, threshold[at], side="right"), 1, len(values) - 1)
            used, where = np.unique(gap, return_inverse=True)  # values[gap - 1] <= threshold < values[gap]
            threshold[at] = _short(values[used - 1], values[used])[where]
        return forest.with_values(forest.value, threshold=threshold)


def _distinct(column: Float32, most: int | None) -> Float32:
    """Return the distinct values, or some of them."""
    values = np.unique(column)
    if most is None or len(values) <= most:
        return values
    return np.unique(np.quantile(column, np.linspace(0, 1, most), method="nearest"))


def _with_ends(values: Float32) -> Float32:
    """Return sorted values with one more on either side, for splits between missing and present ones."""
    if not len(values):
        return np.array([-1, 1], np.float32)
    with np.errstate(over="ignore"):
        far = np.float32(max(1.0, float(values[-1]) - float(values[0])))
        return np.concatenate([[values[0] - far], values, [values[-1] + far]]).astype(np.float32)


def _short(low: Float32, high: Float32) -> Float32:
    """Return increasing numbers v with ``low <= v < high`` in as few bits as can be, close to the middle of each gap."""
    best: tuple[int, Float32] | None = None
    for candidates in (_decimals(low, high), _binary(low, high), _floats(low, high)):
        found = next(candidates, None)
        if found is None:
            continue
        mapping, keys = found
        bits = rice(keys)[1] + STYLE_BITS
        if best is None or bits < best[0]:
            best = bits, np.asarray(mapping.values(keys, "float32"), dtype=np.float32)
    return low if best is None else best[1]


def _decimals(low: Float32, high: Float32) -> Iterator[tuple[Mapping, NDArray[np.int64]]]:
    for e in _DECIMALS:
        yield from _on_grid(Mapping("decimal", e), low, high, low * 10.0**e, high * 10.0**e)


def _binary(low: Float32, high: Float32) -> Iterator[tuple[Mapping, NDArray[np.int64]]]:
    for s in _PLACES:
        yield from _on_grid(Mapping("binary", 32 + s), low, high, np.ldexp(low.astype(float), s), np.ldexp(high.astype(float), s))


def _floats(low: Float32, high: Float32) -> Iterator[tuple[Mapping, NDArray[np.int64]]]:
    below, above = (Mapping("float", 0).match(v, "float32")[0].astype(float) for v in (low, high))
    for s in _SHIFTS:
        yield from _on_grid(Mapping("float", s), low, high, np.ldexp(below, -s), np.ldexp(above, -s))


def _on_grid(
    mapping: Mapping, low: Float32, high: Float32, first: NDArray[Any], last: NDArray[Any]
) -> Iterator[tuple[Mapping, NDArray[np.int64]]]:
    """Yield the integers nearest to the middles of [first, last), if each interval has one that maps into its gap."""
    lowest, highest = np.ceil(first.astype(float)), np.ceil(last.astype(float)) - 1
    if (lowest > highest).any() or max(np.abs(lowest).max(), np.abs(highest).max()) >= 1 << 31:
        return
    keys = np.clip(np.rint((first.astype(float) + last.astype(float)) / 2), lowest, highest).astype(np.int64)
    values = mapping.values(keys, "float32")
    if ((values >= low) & (values < high)).all():
        yield mapping, keys
