"""Leaf values in few bits: as they are, as indices into a table of distinct values, or as small integers with an exponent a tree."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from treespec.ir import ALL_OUTPUTS, Forest, stats
from treespec.students.packed_bits import BitReader, BitWriter, bit_width, damaged, gamma_cost
from treespec.students.packed_numbers import Dtype, choose, read_table, write_keys, write_style

RAW, TABLE, QUANTISED = range(3)

MAX_LEAF_BITS = 16
_EXPONENTS = 15  # steps of different trees differ by at most 2**15
_BASE_BITS = 40
_CONSTANT_BITS = 24  # of a forest of constant trees
_LENGTH_BITS = 6
_LONGEST_BASE = 52


@dataclass(frozen=True, eq=False)
class Quantised:
    """Leaf values as integers: a leaf of tree t is ``integer * 2**(step + exponent[t])``, the base score ``base * 2**step``.

    Sums of them are exact in float64, in any order.

    Attributes
    ----------
    integer : (n_leaves, width) int64, of 0 and more
    exponent : (n_trees,) int64, 0 to 15
    base : (n_outputs,) int64
        The smallest leaf of each tree is folded in here.
    step : int
    bits : int
        Of one integer.
    """

    integer: NDArray[np.int64]
    exponent: NDArray[np.int64]
    base: NDArray[np.int64]
    step: int
    bits: int

    @property
    def n_bits(self) -> int:
        """Bits of all the integers."""
        return self.integer.size * self.bits

    def values(self, tree: NDArray[np.integer]) -> NDArray[np.float64]:
        """Return the (n_leaves, width) leaf values, ``tree`` being the tree of each leaf."""
        return np.asarray(np.ldexp((self.integer << self.exponent[tree][:, None]).astype(np.float64), self.step))


def leaf_rows(forest: Forest, order: NDArray[np.int32]) -> tuple[NDArray[np.float64], NDArray[np.int32]]:
    """Return the values of leaves, given breadth first, as (n_leaves, width), and the tree of each.

    Width is 1 where every tree adds to one output, else the number of outputs.
    """
    leaves = order[forest.is_leaf[order]]
    tree = stats.tree_of(forest)[leaves]
    if forest.n_outputs == 1 or (forest.tree_output == ALL_OUTPUTS).any():
        return forest.value[leaves], tree
    return forest.value[leaves, forest.tree_output[tree]][:, None], tree


def quantise(forest: Forest, order: NDArray[np.int32], bits: int) -> Quantised:
    """Return the leaf values rounded to ``bits`` bits, each tree on the finest binary step that spans its range."""
    rows, tree = leaf_rows(forest, order)
    weight = 1.0 if forest.aggregation == "sum" else 1.0 / max(1, forest.n_trees)
    rows = rows * weight
    low, high = np.full((forest.n_trees, rows.shape[1]), np.inf), np.full((forest.n_trees, rows.shape[1]), -np.inf)
    np.minimum.at(low, tree, rows)
    np.maximum.at(high, tree, rows)
    span = (high - low).max(axis=1, initial=0.0)
    levels = (1 << bits) - 1
    fraction, need = np.frexp(span / levels)
    need = np.where(fraction == 0.5, need - 1, need)  # the least k with 2**k * levels >= span
    wide = need[span > 0]
    top = int(wide.max()) if len(wide) else 0
    total = float(np.abs(forest.base_score).max() + np.abs(low).sum())
    step = max(int(wide.min()), top - _EXPONENTS) if len(wide) else int(np.frexp(total)[1]) - _CONSTANT_BITS
    step = max(step, int(np.frexp(total)[1]) - _BASE_BITS, -1000)
    exponent = np.where(span > 0, np.clip(need - step, 0, _EXPONENTS), 0).astype(np.int64)
    size = np.ldexp(1.0, step + exponent)
    slack = (levels * size[:, None] - (high - low)) / 2  # centre the grid on the range
    start = np.rint(np.ldexp(low - np.minimum(slack, size[:, None] / 2), -step)).astype(np.int64)
    integer = np.rint((rows - np.ldexp(start.astype(np.float64), step)[tree]) / size[tree][:, None]).astype(np.int64)
    base = np.rint(np.ldexp(forest.base_score, -step)).astype(np.int64)
    if rows.shape[1] == forest.n_outputs:
        base = base + start.sum(axis=0)
    else:
        np.add.at(base, forest.tree_output, start[:, 0])
    return Quantised(np.clip(integer, 0, levels), exponent, base, step, bits)


def write_quantised(out: BitWriter, q: Quantised) -> None:
    """Write step, base, exponents, then the integers from a byte boundary on."""
    out.gamma(q.bits)
    out.signed(q.step)
    for value in q.base:
        length = abs(int(value)).bit_length()
        out.number(length, _LENGTH_BITS)
        out.number(abs(int(value)), length)
        out.flag(value < 0)
    width = bit_width(int(q.exponent.max(initial=0)) + 1)
    out.number(width, 3)
    out.numbers(q.exponent, width)
    out.align()
    out.numbers(q.integer, q.bits)


def read_quantised(source: BitReader, n_leaves: int, width: int, n_trees: int, n_outputs: int) -> Quantised:
    """Read what `write_quantised` wrote."""
    bits = source.gamma(MAX_LEAF_BITS, "number of leaf bits")
    step = source.signed(1100, "leaf step")
    base = np.array([_read_integer(source) for _ in range(n_outputs)], dtype=np.int64)
    exponent_bits = source.number(3)
    if exponent_bits > 4:
        raise damaged(f"exponents of {exponent_bits} bits")
    exponent = source.numbers(n_trees, exponent_bits).astype(np.int64)
    source.align()
    integer = source.numbers(n_leaves * width, bits).astype(np.int64).reshape(n_leaves, width)
    return Quantised(integer, exponent, base, step, bits)


def _read_integer(source: BitReader) -> int:
    length = source.number(_LENGTH_BITS)
    if length > _LONGEST_BASE:
        raise damaged(f"a base score of {length} bits")
    value = source.number(length)
    return -value if source.flag() else value


def value_type(values: NDArray[np.float64], dtype: Dtype) -> Dtype:
    """Return float32 where that holds values of a forest that sums in ``dtype`` exactly."""
    with np.errstate(over="ignore"):
        return "float32" if dtype == "float32" or np.array_equal(values.astype(np.float32), values) else "float64"


def write_exact(out: BitWriter, rows: NDArray[np.float64], dtype: Dtype) -> None:
    """Write (n_leaves, width) leaf values as they are, or as a table of distinct values and indices where that is smaller."""
    rows = rows.astype(dtype) + np.zeros(1, dtype)  # no negative zero
    scalar, where = np.unique(rows, return_inverse=True)
    distinct, row = np.unique(where.reshape(rows.shape), axis=0, return_inverse=True)
    style, keys, bits = choose(scalar, dtype, None)
    wide = rows.shape[1] > 1
    table = bits + len(rows) * bit_width(len(distinct)) + gamma_cost(len(scalar) - 1)
    table += gamma_cost(len(distinct) - 1) + distinct.size * bit_width(len(scalar)) if wide else 0
    raw = rows.size * 8 * np.dtype(dtype).itemsize
    out.flag(dtype == "float64", table < raw)
    if table >= raw:
        out.raw(rows.astype(np.dtype(dtype).newbyteorder("<")).tobytes())
        return
    out.gamma(len(scalar) - 1)
    write_style(out, style, None)
    write_keys(out, keys, style.k)
    if wide:
        out.gamma(len(distinct) - 1)
        out.numbers(distinct, bit_width(len(scalar)))
    out.align()
    out.numbers(row, bit_width(len(distinct)))


@dataclass(frozen=True, eq=False)
class Exact:
    """Leaf values as they were.

    Attributes
    ----------
    values : (n_leaves, width) float32 or float64
    row : (n_leaves,) int64 or None
        Where they were written as a table, the row of ``distinct`` of each leaf.
    distinct : (n_rows, width) int64 or None
        Numbers of values in ``scalar``.
    scalar : (n_scalar,) or None
    n_bits : int
        Of the last part: the values or the rows.
    """

    values: NDArray[np.floating]
    n_bits: int
    row: NDArray[np.int64] | None = None
    distinct: NDArray[np.int64] | None = None
    scalar: NDArray[np.floating] | None = None


def read_exact(source: BitReader, n_leaves: int, width: int) -> Exact:
    """Read what `write_exact` wrote."""
    dtype: Dtype = "float64" if source.flag() else "float32"
    if not source.flag():
        size = np.dtype(dtype).itemsize
        values = np.frombuffer(source.raw(n_leaves * width * size), np.dtype(dtype).newbyteorder("<")).astype(dtype)
        return Exact(_finite(values).reshape(n_leaves, width), n_leaves * width * size * 8)
    n_scalar = source.gamma(source.n_left, "number of distinct leaf values") + 1
    _, scalar = read_table(source, n_scalar, dtype, None)
    _finite(scalar)
    if width == 1:
        distinct = np.arange(n_scalar)[:, None]
    else:
        n_rows = source.gamma(source.n_left, "number of distinct leaves") + 1
        distinct = _below(source.numbers(n_rows * width, bit_width(n_scalar)), n_scalar).reshape(n_rows, width)
    source.align()
    row = _below(source.numbers(n_leaves, bit_width(len(distinct))), len(distinct))
    return Exact(scalar[distinct[row]], n_leaves * bit_width(len(distinct)), row, distinct, scalar)


def _finite(values: NDArray[np.floating]) -> NDArray[np.floating]:
    if not np.isfinite(values).all():
        raise damaged("a leaf value that is not finite")
    return values


def _below(index: NDArray[np.uint64], limit: int) -> NDArray[np.int64]:
    if len(index) and int(index.max()) >= limit:
        raise damaged(f"an index above {limit - 1}")
    return index.astype(np.int64)
