"""Leaf values as small integers, each tree on a step of its own: 2 or 3 times a power of two.

The smallest leaf of a tree is folded into the base score. Sums are sums of integers: exact, in any order, on any device.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from treespec.ir import Forest
from treespec.students.packed_bits import BitReader, BitWriter, bit_width, damaged
from treespec.students.packed_leaves import leaf_rows

MAX_LEAF_BITS = 16
_CODES = 32  # 2 and 3 times 2**0 to 2**15
_BASE_BITS = 40
_CONSTANT_BITS = 24  # of a forest of constant trees
_LENGTH_BITS = 6
_LONGEST_BASE = 52
_FINER = (4, 3, 2)  # quarters of the step that spans all leaves of a tree; finer ones cut off outliers
_STARTS = 7

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Quantised:
    """Leaf values as integers: a leaf of tree t is ``integer * size[t] * 2**step``, the base score ``base * 2**step``.

    Attributes
    ----------
    integer : (n_leaves, width) int64, of 0 and more
    code : (n_trees,) int64, 0 to 31
        Stands for the size ``(2 + code % 2) * 2**(code // 2)``.
    base : (n_outputs,) int64
    step : int
    bits : int
        Of one integer.
    """

    integer: NDArray[np.int64]
    code: NDArray[np.int64]
    base: NDArray[np.int64]
    step: int
    bits: int

    @property
    def n_bits(self) -> int:
        """Bits of all the integers."""
        return self.integer.size * self.bits

    @property
    def size(self) -> NDArray[np.int64]:
        """(n_trees,) step of each tree, in units of ``2**step``."""
        return (2 + (self.code & 1)) << (self.code >> 1)

    def values(self, tree: NDArray[np.integer]) -> Array:
        """Return the (n_leaves, width) leaf values, ``tree`` being the tree of each leaf."""
        return np.asarray(np.ldexp((self.integer * self.size[tree][:, None]).astype(np.float64), self.step))


def quantise(forest: Forest, order: NDArray[np.int32], bits: int) -> Quantised:
    """Return the leaf values rounded to ``bits`` bits.

    Each tree gets the step, and the place of its grid, with the least squared error; leaves count by the weight of the training rows that
    reached them, where the forest knows it.
    """
    rows, tree = leaf_rows(forest, order)
    if forest.aggregation == "mean":
        rows = rows / max(1, forest.n_trees)
    cover = forest.cover if forest.cover is not None else forest.count
    weight = np.ones(len(rows)) if cover is None else cover[order[forest.is_leaf[order]]] + 1e-9
    by_tree = np.split(np.argsort(tree, kind="stable"), np.cumsum(np.bincount(tree, minlength=forest.n_trees))[:-1])
    span = np.array([np.ptp(rows[at], axis=0).max() for at in by_tree])
    need = _least_power(span / ((1 << bits) - 1))
    wide = need[span > 0]
    total = float(np.abs(forest.base_score).max() + sum(np.abs(rows[at]).max() for at in by_tree))
    floor = max(int(wide.min()) - 1, int(wide.max()) - _CODES // 2 + 1) if len(wide) else int(np.frexp(total)[1]) - _CONSTANT_BITS
    step = max(floor - 1, int(np.frexp(total)[1]) - _BASE_BITS, -1000)
    code = np.zeros(forest.n_trees, np.int64)
    integer = np.zeros(rows.shape, np.int64)
    start = np.zeros((forest.n_trees, rows.shape[1]), np.int64)
    for t, at in enumerate(by_tree):
        code[t], start[t], integer[at] = _round_tree(np.ldexp(rows[at], -step), weight[at], int(need[t]) - step, bits, flat=span[t] == 0)
    base = np.rint(np.ldexp(forest.base_score, -step)).astype(np.int64)
    if rows.shape[1] == forest.n_outputs:
        base = base + start.sum(axis=0)
    else:
        np.add.at(base, forest.tree_output, start[:, 0])
    return Quantised(integer, code, base, step, bits)


def _least_power(value: Array) -> NDArray[np.int64]:
    """Return the least k with ``2**k >= value``."""
    fraction, exponent = np.frexp(value)
    return np.where(fraction == 0.5, exponent - 1, exponent).astype(np.int64)


def _round_tree(rows: Array, weight: Array, need: int, bits: int, *, flat: bool) -> tuple[int, NDArray[np.int64], NDArray[np.int64]]:
    """Return code, starts and integers of one tree with the least weighted squared error; ``rows`` are in units of the step."""
    low, high, levels = rows.min(axis=0), rows.max(axis=0), (1 << bits) - 1
    if flat:
        return 0, np.rint(low).astype(np.int64), np.zeros(rows.shape, np.int64)
    best: tuple[float, int, NDArray[np.int64], NDArray[np.int64]] | None = None
    for quarters in _FINER:
        code = _code(need, quarters)
        if not 0 <= code < _CODES:
            continue
        size = (2 + code % 2) << (code // 2)
        over = high - low - levels * size
        starts = low + np.linspace(0, 1, _STARTS)[:, None] * np.where(over > 0, over, np.minimum(0, np.maximum(-size, over)))
        starts = np.rint(starts)  # (_STARTS, width)
        integer = np.clip(np.rint((rows - starts[:, None, :]) / size), 0, levels)
        error = ((starts[:, None, :] + integer * size - rows) ** 2 * weight[:, None]).sum(axis=1)
        chosen = error.argmin(axis=0)
        column = np.arange(rows.shape[1])
        loss = float(error[chosen, column].sum())
        if best is None or loss < best[0]:
            best = loss, code, starts[chosen, column].astype(np.int64), integer[chosen, :, column].T.astype(np.int64)
    if best is None:  # a range beyond all codes on the fine side: the finest step
        return 0, np.rint(low).astype(np.int64), np.clip(np.rint((rows - np.rint(low)) / 2), 0, levels).astype(np.int64)
    return best[1:]


def _code(need: int, quarters: int) -> int:
    """Return the code of ``quarters`` quarters of ``2**need``."""
    return 2 * (need - 1) - (4 - quarters)


def write_quantised(out: BitWriter, q: Quantised) -> None:
    """Write step, base and codes, then the integers from a byte boundary on."""
    out.gamma(q.bits)
    out.signed(q.step)
    for value in q.base:
        length = abs(int(value)).bit_length()
        out.number(length, _LENGTH_BITS)
        out.number(abs(int(value)), length)
        out.flag(value < 0)
    width = bit_width(int(q.code.max(initial=0)) + 1)
    out.number(width, 3)
    out.numbers(q.code, width)
    out.align()
    out.numbers(q.integer, q.bits)


def read_quantised(source: BitReader, n_leaves: int, width: int, n_trees: int, n_outputs: int) -> Quantised:
    """Read what `write_quantised` wrote."""
    bits = source.gamma(MAX_LEAF_BITS, "number of leaf bits")
    step = source.signed(1100, "leaf step")
    base = np.array([_read_integer(source) for _ in range(n_outputs)], dtype=np.int64)
    code_bits = source.number(3)
    if 1 << code_bits > _CODES:
        raise damaged(f"steps of {code_bits} bits")
    code = source.numbers(n_trees, code_bits).astype(np.int64)
    source.align()
    integer = source.numbers(n_leaves * width, bits).astype(np.int64).reshape(n_leaves, width)
    return Quantised(integer, code, base, step, bits)


def _read_integer(source: BitReader) -> int:
    length = source.number(_LENGTH_BITS)
    if length > _LONGEST_BASE:
        raise damaged(f"a base score of {length} bits")
    value = source.number(length)
    return -value if source.flag() else value
