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
    bits, code_bits : int
        Of one integer, of one code.
    code_at : int
        Where in what was read, in bits, the codes begin.
    """

    integer: NDArray[np.int64]
    code: NDArray[np.int64]
    base: NDArray[np.int64]
    step: int
    bits: int
    code_bits: int
    code_at: int = 0

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


def quantise(forest: Forest, order: NDArray[np.int32], bits: int, leaf_id: NDArray[np.integer] | None = None) -> Quantised:
    """Return the leaf values rounded to ``bits`` bits.

    Each tree gets the step, and the place of its grid, with the least squared error; leaves count by the weight of the training rows that
    reached them, where the forest knows it.

    Parameters
    ----------
    forest : Forest
    order : (n_nodes,) int32
        Nodes breadth first.
    bits : int
    leaf_id : (n, n_trees) array, optional
        The leaves that some rows reach: each tree then makes good, as far as its leaves can, what the rounding of the trees before it did
        to those rows. O(n * n_trees) time.
    """
    rows, tree = leaf_rows(forest, order)
    if not len(rows):
        step = int(np.frexp(np.abs(forest.base_score).max())[1]) - _CONSTANT_BITS
        base = np.rint(np.ldexp(forest.base_score, -step)).astype(np.int64)
        return Quantised(np.zeros(rows.shape, np.int64), np.zeros(0, np.int64), base, step, bits, 0)
    if forest.aggregation == "mean":
        rows = rows / max(1, forest.n_trees)
    cover = forest.cover if forest.cover is not None else forest.count
    weight = np.ones(len(rows)) if cover is None else cover[order[forest.is_leaf[order]]] + 1e-9
    sort = np.argsort(tree, kind="stable")
    sorted_rows, first = rows[sort], np.searchsorted(tree[sort], np.arange(forest.n_trees))
    low, high = np.minimum.reduceat(sorted_rows, first), np.maximum.reduceat(sorted_rows, first)
    span = (high - low).max(axis=1)
    need = _least_power(span / ((1 << bits) - 1))
    wide = need[span > 0]
    total = float(np.abs(forest.base_score).max() + np.maximum(np.abs(low), np.abs(high)).max(axis=1).sum())
    floor = max(int(wide.min()) - 1, int(wide.max()) - _CODES // 2 + 1) if len(wide) else int(np.frexp(total)[1]) - _CONSTANT_BITS
    step = max(floor - 1, int(np.frexp(total)[1]) - _BASE_BITS, -1000)
    units = Units(np.ldexp(sorted_rows, -step), weight[sort], tree[sort], first, bits)
    need = np.where(span > 0, need - step, 1)
    if leaf_id is None:
        code, start, sorted_integer = units.best(need)
    else:
        number = np.empty(forest.n_nodes, np.int64)
        number[order[forest.is_leaf[order]][sort]] = np.arange(len(rows))
        outputs = forest.tree_output if rows.shape[1] < forest.n_outputs else None
        from treespec.students.packed_feedback import with_feedback

        code, start, sorted_integer = with_feedback(units, need, number[leaf_id], outputs, forest.n_outputs)
    integer = np.empty(rows.shape, np.int64)
    integer[sort] = sorted_integer
    base = np.rint(np.ldexp(forest.base_score, -step)).astype(np.int64)
    if rows.shape[1] == forest.n_outputs:
        base = base + start.sum(axis=0)
    else:
        np.add.at(base, forest.tree_output, start[:, 0])
    return Quantised(integer, code, base, step, bits, bit_width(int(code.max()) + 1))


def _least_power(value: Array) -> NDArray[np.int64]:
    """Return the least k with ``2**k >= value``."""
    fraction, exponent = np.frexp(value)
    return np.where(fraction == 0.5, exponent - 1, exponent).astype(np.int64)


@dataclass(frozen=True, eq=False)
class Units:
    """Leaf values of all trees, tree by tree, in units of the step."""

    rows: Array
    weight: Array
    tree: NDArray[np.integer]
    first: NDArray[np.integer]
    bits: int

    def best(self, need: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Return codes, starts and integers with the least weighted squared error; a step of ``2**need`` spans all leaves of a tree."""
        shape = (len(self.first), self.rows.shape[1])
        loss, code = np.full(shape[0], np.inf), np.zeros(shape[0], np.int64)
        start, integer = np.zeros(shape, np.int64), np.zeros(self.rows.shape, np.int64)
        for quarters in _FINER:
            mine = np.clip(_code(need, quarters), 0, _CODES - 1)
            error, begin, rounded = self._at((2 + (mine & 1)) << (mine >> 1))
            better = error.sum(axis=1) < loss
            loss = np.where(better, error.sum(axis=1), loss)
            code = np.where(better, mine, code)
            start[better], integer[better[self.tree]] = begin[better], rounded[better[self.tree]]
        return code, start, integer

    def _at(self, size: NDArray[np.int64]) -> tuple[Array, NDArray[np.int64], NDArray[np.int64]]:
        """Return errors (n_trees, width), starts and integers for given steps, over several places of the grid."""
        levels = (1 << self.bits) - 1
        low, high = np.minimum.reduceat(self.rows, self.first), np.maximum.reduceat(self.rows, self.first)
        over = high - low - levels * size[:, None]
        room = np.where(over > 0, over, np.minimum(0, np.maximum(-size[:, None], over)))
        best = np.full(low.shape, np.inf)
        start, integer = np.zeros(low.shape, np.int64), np.zeros(self.rows.shape, np.int64)
        wide = size[self.tree][:, None]
        for share in np.linspace(0, 1, _STARTS):
            begin = np.rint(low + share * room)
            rounded = np.clip(np.rint((self.rows - begin[self.tree]) / wide), 0, levels)
            error = np.add.reduceat((begin[self.tree] + rounded * wide - self.rows) ** 2 * self.weight[:, None], self.first)
            better = error < best
            best = np.where(better, error, best)
            start = np.where(better, begin, start).astype(np.int64)
            integer = np.where(better[self.tree], rounded, integer).astype(np.int64)
        return best, start, integer


def _code(need: NDArray[np.int64], quarters: int) -> NDArray[np.int64]:
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
    out.number(q.code_bits, 3)
    out.numbers(q.code, q.code_bits)
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
    code_at = source.position
    code = source.numbers(n_trees, code_bits).astype(np.int64)
    source.align()
    integer = source.numbers(n_leaves * width, bits).astype(np.int64).reshape(n_leaves, width)
    return Quantised(integer, code, base, step, bits, code_bits, code_at)


def _read_integer(source: BitReader) -> int:
    length = source.number(_LENGTH_BITS)
    if length > _LONGEST_BASE:
        raise damaged(f"a base score of {length} bits")
    value = source.number(length)
    return -value if source.flag() else value
