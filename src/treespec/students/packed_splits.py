"""The splits of a forest as one list of distinct (feature, threshold) pairs in sorted tables, and an index into it for each node."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from treespec.ir import Forest
from treespec.students.packed_bits import bit_width, gamma_cost
from treespec.students.packed_numbers import Dtype, Keys, Mapping, Style, choose, rice, rice_cost_of

Nudge = Literal[0, 1, 2]
"""A split sends x left iff: 0: ``x <= v``; 1: ``x < v``; 2: ``x <= next float after v``, v being the number in the table."""

NO_NUDGE: Nudge = 0

RIGHT, LEFT, BY_TABLE, BY_NODE = range(4)
"""Where a missing value goes: right, left, as the table says that the split is in, or as one bit a node says."""

_SPLIT_DECIMALS = 4


@dataclass(frozen=True, eq=False)
class NumberTable:
    """Thresholds of one feature that share a mapping (and a missing direction, where that is told by table)."""

    feature: int
    default_left: bool
    style: Style
    keys: Keys

    @property
    def count(self) -> int:
        """Number of thresholds."""
        return len(self.keys)


@dataclass(frozen=True, eq=False)
class CategoryTable:
    """Distinct category sets of one feature.

    Attributes
    ----------
    codes : (n_codes,) int64
        Codes that some set lists, ascending.
    member : (n_sets, n_codes) bool
    listed_left : bool
        Whether the listed categories go left.
    """

    feature: int
    default_left: bool
    listed_left: bool
    codes: Keys
    member: NDArray[np.bool_]

    @property
    def count(self) -> int:
        """Number of sets."""
        return len(self.member)


@dataclass(frozen=True, eq=False)
class Splits:
    """All splits of a forest.

    Attributes
    ----------
    tables : list of NumberTable or CategoryTable
        By feature; their splits are numbered through.
    index : (n_inner,) int64
        For inner nodes in breadth-first order, the number of the split.
    nudge : {0, 1, 2}
    missing : int
        One of `RIGHT`, `LEFT`, `BY_TABLE`, `BY_NODE`.
    default_left : (n_inner,) bool
    """

    tables: list[NumberTable | CategoryTable]
    index: NDArray[np.int64]
    nudge: Nudge
    missing: int
    default_left: NDArray[np.bool_]
    bits: int = field(compare=False)

    @property
    def count(self) -> int:
        """Number of distinct splits."""
        return sum(t.count for t in self.tables)


def breadth_first(forest: Forest) -> NDArray[np.int32]:
    """Return the node ids of the whole forest breadth first: all roots, then all their children, ..."""
    order = []
    level = forest.tree_offset[:-1].astype(np.int32)
    while len(level):
        order.append(level)
        inner = level[~forest.is_leaf[level]]
        level = np.column_stack([forest.left[inner], forest.right[inner]]).ravel()
    return np.concatenate([*order, np.empty(0, np.int32)])


def threshold_of(value: NDArray[np.floating], nudge: int) -> NDArray[np.floating]:
    """Return t such that ``x <= t`` is what the table's number and the nudge say."""
    return _neighbour(value, (0.0, -np.inf, np.inf)[nudge])


def _value_of(threshold: NDArray[np.floating], nudge: int) -> NDArray[np.floating]:
    """Return the number that a table holds for a threshold."""
    return _neighbour(threshold, (0.0, np.inf, -np.inf)[nudge])


def _neighbour(value: NDArray[np.floating], towards: float) -> NDArray[np.floating]:
    """Return the next floats in a direction (0: the values themselves), zeros without sign."""
    if not towards:
        return value
    with np.errstate(over="ignore", under="ignore"):
        return np.asarray(np.nextafter(value, np.array(towards, dtype=value.dtype)) + np.zeros(1, value.dtype))


def floor_to(threshold: NDArray[np.float64], dtype: Dtype) -> NDArray[np.floating]:
    """Return the largest numbers of type ``dtype`` that are not above thresholds; zeros without sign."""
    with np.errstate(over="ignore", under="ignore"):
        out = threshold.astype(dtype)
    return np.asarray(np.where(out > threshold, _neighbour(out, -np.inf), out) + np.zeros(1, dtype))


def find_splits(forest: Forest, inner: NDArray[np.int32], *, thorough: bool = True) -> Splits:
    """Return the splits of inner nodes (given breadth first) in the fewest bits over nudges and ways to tell the missing direction.

    Nudges other than 0 are tried only where ``thorough``: thresholds that were chosen to be short need none.
    """
    dtype: Dtype = forest.inputs.dtype
    default_left = forest.default_left[inner] & (forest.inputs.nan == "route")
    threshold = floor_to(np.where(forest.categorical[inner], 0.0, forest.threshold[inner]), dtype)
    ways = [BY_TABLE, BY_NODE] if default_left.any() and not default_left.all() else [LEFT if default_left.any() else RIGHT]
    best: Splits | None = None
    for nudge in _nudges(threshold, dtype) if thorough else (NO_NUDGE,):
        for missing in ways:
            found = _splits(forest, inner, threshold, default_left, nudge, missing)
            if best is None or found.bits < best.bits:
                best = found
    return best if best is not None else Splits([], np.empty(0, np.int64), 0, RIGHT, default_left, 0)


def _nudges(threshold: NDArray[np.floating], dtype: Dtype) -> Iterator[Nudge]:
    yield 0
    for nudge in (1, 2):
        value = _value_of(threshold, nudge)
        if np.array_equal(threshold_of(value, nudge), threshold):
            yield nudge


def _splits(
    forest: Forest,
    inner: NDArray[np.int32],
    threshold: NDArray[np.floating],
    default_left: NDArray[np.bool_],
    nudge: Nudge,
    missing: int,
) -> Splits:
    feature, categorical = forest.feature[inner], forest.categorical[inner]
    side = default_left if missing == BY_TABLE else np.zeros(len(inner), bool)
    listed = forest.category_left[inner] & categorical
    group = ((feature.astype(np.int64) * 2 + categorical) * 2 + listed) * 2 + side
    value = _value_of(threshold, nudge)
    tables: list[NumberTable | CategoryTable] = []
    index = np.zeros(len(inner), np.int64)
    count = bits = previous = 0
    style: Style | None = None
    for key in np.unique(group):
        at = np.flatnonzero(group == key)
        j, left = int(feature[at[0]]), bool(side[at[0]])
        if categorical[at[0]]:
            table, where = _category_table(forest, inner[at], j, left)
            index[at] = count + where
            tables.append(table)
            count += table.count
            bits += category_cost(table) + gamma_cost(j - previous) + gamma_cost(table.count - 1)
            previous = j
            continue
        distinct, where = np.unique(value[at], return_inverse=True)
        part, place, cost = _number_tables(distinct, forest.inputs.dtype, style)
        for chosen, keys in part:
            tables.append(NumberTable(j, left, chosen, keys))
            bits += gamma_cost(j - previous) + gamma_cost(len(keys) - 1)
            style, previous = chosen, j
        index[at] = count + place[where]
        count += len(distinct)
        bits += cost
    bits += len(inner) * (bit_width(count) + (missing == BY_NODE)) + len(tables) * (missing == BY_TABLE)
    return Splits(tables, index, nudge, missing, default_left, bits)


def _number_tables(
    distinct: NDArray[np.floating], dtype: Dtype, before: Style | None
) -> tuple[list[tuple[Style, Keys]], NDArray[np.int64], int]:
    """Return one table, or one of decimals and one of the rest; the place of each number; the bits."""
    style, keys, bits = choose(distinct, dtype, before)
    best = [(style, keys)], np.arange(len(distinct)), bits
    if style.mapping.kind != "float" or len(distinct) < 4:
        return best
    for e in range(_SPLIT_DECIMALS):
        mapping = Mapping("decimal", e)
        matched, good = mapping.match(distinct, dtype)
        if not good.any() or good.all():
            continue
        first = matched[good]
        k, _ = rice(first)
        style, keys, more = choose(distinct[~good], dtype, Style(mapping, k))
        total = rice_cost_of(Style(mapping, k), first, before) + more + 2 * gamma_cost(len(distinct))
        if total < best[2]:
            place = np.empty(len(distinct), np.int64)
            place[good], place[~good] = np.arange(int(good.sum())), int(good.sum()) + np.arange(int((~good).sum()))
            best = [(Style(mapping, k), first), (style, keys)], place, total
    return best


def _category_table(forest: Forest, nodes: NDArray[np.int32], j: int, left: bool) -> tuple[CategoryTable, NDArray[np.int64]]:
    start, stop = forest.category_offset[nodes], forest.category_offset[nodes + 1]
    sets = [forest.category[a:b] for a, b in zip(start, stop, strict=True)]
    codes = np.unique(np.concatenate(sets)).astype(np.int64)
    member = np.zeros((len(nodes), len(codes)), bool)
    for row, listed in zip(member, sets, strict=True):
        row[np.searchsorted(codes, listed)] = True
    distinct, where = np.unique(member, axis=0, return_inverse=True)
    return CategoryTable(j, left, bool(forest.category_left[nodes[0]]), codes, distinct), where.ravel()


def category_cost(table: CategoryTable) -> int:
    """Return the bits of a category table without its feature and count."""
    n = len(table.codes)
    dense = n == 0 or int(table.codes[-1]) == n - 1
    return 3 + gamma_cost(n) + (0 if dense else 6 + rice(table.codes)[1]) + table.member.size
