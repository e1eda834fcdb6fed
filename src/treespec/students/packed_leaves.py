"""Leaf values without loss: as they are, or as indices into a table of distinct values."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from treespec.ir import ALL_OUTPUTS, Forest, stats
from treespec.students.packed_bits import BitReader, BitWriter, bit_width, damaged, gamma_cost
from treespec.students.packed_direct import Direct, choose_direct, read_direct, write_direct
from treespec.students.packed_numbers import Dtype, Style, numbers_of, read_style, write_style


def leaf_rows(forest: Forest, order: NDArray[np.int32]) -> tuple[NDArray[np.float64], NDArray[np.int32]]:
    """Return the values of leaves, given breadth first, as (n_leaves, width), and the tree of each.

    Width is 1 where every tree adds to one output, else the number of outputs.
    """
    leaves = order[forest.is_leaf[order]]
    tree = stats.tree_of(forest)[leaves]
    if forest.n_outputs == 1 or (forest.tree_output == ALL_OUTPUTS).any():
        return forest.value[leaves], tree
    return forest.value[leaves, forest.tree_output[tree]][:, None], tree


def value_type(values: NDArray[np.float64], dtype: Dtype) -> Dtype:
    """Return float32 where that holds values of a forest that sums in ``dtype`` exactly."""
    with np.errstate(over="ignore"):
        return "float32" if dtype == "float32" or np.array_equal(values.astype(np.float32), values) else "float64"


def write_exact(out: BitWriter, rows: NDArray[np.float64], dtype: Dtype) -> None:
    """Write (n_leaves, width) leaf values as they are, or as a table of distinct values and indices where that is smaller."""
    rows = rows.astype(dtype) + np.zeros(1, dtype)  # no negative zero
    scalar, where = np.unique(rows, return_inverse=True)
    distinct, row = np.unique(where.reshape(rows.shape), axis=0, return_inverse=True)
    style, keys, bits = choose_direct(scalar, dtype)
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
    write_direct(out, keys, style.k)
    if wide:
        out.gamma(len(distinct) - 1)
        out.numbers(distinct, bit_width(len(scalar)))
    out.align()
    out.numbers(row, bit_width(len(distinct)))


@dataclass(frozen=True, eq=False)
class LeafTable:
    """Distinct leaf values.

    Attributes
    ----------
    style : Style
    direct : Direct
    scalar : (n_scalar,) float32 or float64
    distinct : (n_rows, width) int64
        Numbers of values in ``scalar``.
    row : (n_leaves,) int64
        The row of ``distinct`` of each leaf.
    distinct_at : int
        Where in what was read, in bits, ``distinct`` begins.
    """

    style: Style
    direct: Direct
    scalar: NDArray[np.floating]
    distinct: NDArray[np.int64]
    row: NDArray[np.int64]
    distinct_at: int


@dataclass(frozen=True, eq=False)
class Exact:
    """Leaf values as they were.

    Attributes
    ----------
    values : (n_leaves, width) float32 or float64
    n_bits : int
        Of the last part: the values or the rows.
    table : LeafTable or None
        Where they were written as one.
    """

    values: NDArray[np.floating]
    n_bits: int
    table: LeafTable | None = None


def read_exact(source: BitReader, n_leaves: int, width: int) -> Exact:
    """Read what `write_exact` wrote."""
    dtype: Dtype = "float64" if source.flag() else "float32"
    if not source.flag():
        size = np.dtype(dtype).itemsize
        values = np.frombuffer(source.raw(n_leaves * width * size), np.dtype(dtype).newbyteorder("<")).astype(dtype)
        return Exact(_finite(values).reshape(n_leaves, width), n_leaves * width * size * 8)
    n_scalar = source.gamma(source.n_left, "number of distinct leaf values") + 1
    style = read_style(source, None)
    keys = read_direct(source, n_scalar, style.k)
    scalar = _finite(numbers_of(style, keys.keys, dtype))
    n_rows = n_scalar if width == 1 else source.gamma(source.n_left, "number of distinct leaves") + 1
    distinct_at = source.position
    distinct = np.arange(n_scalar)[:, None]
    if width > 1:
        distinct = _below(source.numbers(n_rows * width, bit_width(n_scalar)), n_scalar).reshape(n_rows, width)
    source.align()
    row = _below(source.numbers(n_leaves, bit_width(n_rows)), n_rows)
    table = LeafTable(style, keys, scalar, distinct, row, distinct_at)
    return Exact(scalar[distinct[row]], n_leaves * bit_width(n_rows), table)


def _finite(values: NDArray[np.floating]) -> NDArray[np.floating]:
    if not np.isfinite(values).all():
        raise damaged("a leaf value that is not finite")
    return values


def _below(index: NDArray[np.uint64], limit: int) -> NDArray[np.int64]:
    if len(index) and int(index.max()) >= limit:
        raise damaged(f"an index above {limit - 1}")
    return index.astype(np.int64)
