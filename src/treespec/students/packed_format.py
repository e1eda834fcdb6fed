"""Writes a forest as packed bytes: the payload of a `PackedStudent`.

Layout: CRC-32 (4 bytes), then one stream of bits, least significant first::

    version       4 bits
    head          2 bits: what sums are (`HEADS`)
    sizes         trees, inner nodes, split tables (gamma code)
    sums          mean or sum, type of sums, how trees map to outputs
    input rule    `packed_inputs`
    splits        nudge, missing direction; tables of thresholds and category sets (`packed_tables`)
    shape         from a byte boundary: a bit a node, breadth first over the whole forest, up to the last inner node
    index         from a byte boundary: ceil(log2 n_splits) bits an inner node; then a bit each where the missing direction is told by node
    leaves        `packed_leaves`: exact (values or indices into a table of them) or quantised

Nodes are breadth first over all trees at once: the roots, then their children, and so on. So the children of the k-th inner node are nodes
``n_trees + 2 k`` and ``n_trees + 2 k + 1``, a leaf's number is its position less the inner nodes before it, and there are no offsets.
"""

from __future__ import annotations

import struct
import zlib

import numpy as np
from numpy.typing import NDArray

from treespec.errors import UnsupportedModelError
from treespec.ir import ALL_OUTPUTS, Forest
from treespec.students.packed_bits import BitWriter, bit_width
from treespec.students.packed_inputs import write_rule
from treespec.students.packed_leaves import leaf_rows, value_type, write_exact
from treespec.students.packed_quantise import MAX_LEAF_BITS, quantise, write_quantised
from treespec.students.packed_splits import BY_NODE, breadth_first, find_splits
from treespec.students.packed_tables import write_tables

VERSION = 1
ALL, IN_TURN, LISTED = range(3)
"""Tree t adds to all outputs; to output t mod n_outputs; to an output that is listed."""

_CODE_BITS, _BASE_BITS, _HEADER_BITS = 4, 26, 80  # as they usually are
MAX_TREES = 1 << 20
MAX_VALUES = 1 << 26
"""Limits that keep a hostile file from asking for more than some 500 MB."""


HEADS = ("margin", "logit", "softmax")
"""What the sums of the trees are: the student's margins; or the logit of the second class, or logits of all classes, from which its margins
(probabilities, where the teacher is a forest of classes) follow."""


def pack(forest: Forest, leaf_bits: int | None = None, head: str = "margin", *, leaf_id: NDArray[np.integer] | None = None) -> bytes:
    """Return a forest as packed bytes.

    Parameters
    ----------
    forest : Forest
    leaf_bits : int, optional
        Round leaf values to so many bits, 1 to 16, each tree on its own binary step. By default nothing is rounded: margins are equal,
        bit for bit, to those of ``forest``.
    head : {"margin", "logit", "softmax"}
        What the margins of ``forest`` are to the student; see `HEADS`.
    leaf_id : (n, n_trees) array, optional
        Leaves of ``forest`` that some rows reach, to round with less error on such rows; see `treespec.students.packed_quantise.quantise`.

    Raises
    ------
    UnsupportedModelError
        If there are more than 2**20 trees or 2**26 node values.

    Notes
    -----
    O(n_nodes log n_nodes) time; memory some 100 bytes a node.
    """
    if forest.n_trees > MAX_TREES or forest.n_nodes * forest.n_outputs > MAX_VALUES:
        raise UnsupportedModelError.expected(
            f"a forest of at most {MAX_TREES} trees and {MAX_VALUES} node values",
            f"{forest.n_trees} trees and {forest.n_nodes} nodes with {forest.n_outputs} outputs",
            "keep the forest itself (Forest.to_bytes), or distil it with another compressor",
        )
    if leaf_bits is not None and not 1 <= leaf_bits <= MAX_LEAF_BITS:
        raise UnsupportedModelError.expected(f"1 to {MAX_LEAF_BITS} leaf bits", str(leaf_bits), "leave it out to keep leaf values exact")
    order = breadth_first(forest)
    out = BitWriter()
    out.number(VERSION, 4)
    out.number(HEADS.index(head), 2)
    write_splits(out, forest, order)
    out.flag(leaf_bits is not None)
    if leaf_bits is not None:
        write_quantised(out, quantise(forest, order, leaf_bits, leaf_id))
    else:
        rows, _ = leaf_rows(forest, order)
        _write_base(out, forest)
        write_exact(out, rows, value_type(rows, forest.sum_dtype))
    body = out.to_bytes()
    return struct.pack("<I", zlib.crc32(body)) + body


def estimate(forest: Forest, leaf_bits: int) -> int:
    """Return about how many bytes `pack` takes with rounded leaves (within some 2 bits a tree), without rounding any."""
    order = breadth_first(forest)
    out = BitWriter()
    write_splits(out, forest, order, thorough=False)
    width = 1 if output_mode(forest) != ALL else forest.n_outputs
    leaves = forest.n_leaves * width * leaf_bits + _CODE_BITS * forest.n_trees + _BASE_BITS * forest.n_outputs
    return (_HEADER_BITS + out.n_bits + leaves) // 8


def write_splits(out: BitWriter, forest: Forest, order: NDArray[np.int32], *, thorough: bool = True) -> None:
    """Write everything between the head and the leaves."""
    inner = order[~forest.is_leaf[order]]
    splits = find_splits(forest, inner, thorough=thorough)
    out.gamma(forest.n_trees)
    out.gamma(len(inner))
    out.gamma(len(splits.tables))
    out.flag(forest.aggregation == "mean", forest.sum_dtype == "float64")
    _write_outputs(out, forest)
    write_rule(out, forest)
    out.number(splits.nudge, 2)
    out.number(splits.missing, 2)
    write_tables(out, splits.tables, splits.missing)
    out.align()
    shape = ~forest.is_leaf[order]
    out.append(shape[: int(np.flatnonzero(shape)[-1]) + 1] if shape.any() else shape[:0])
    out.align()
    out.numbers(splits.index, bit_width(splits.count))
    if splits.missing == BY_NODE:
        out.append(splits.default_left)


def output_mode(forest: Forest) -> int:
    """Return how the outputs that trees add to are told."""
    if forest.n_outputs == 1 or (forest.tree_output == ALL_OUTPUTS).any():
        return ALL
    return IN_TURN if np.array_equal(forest.tree_output, np.arange(forest.n_trees) % forest.n_outputs) else LISTED


def _write_outputs(out: BitWriter, forest: Forest) -> None:
    mode = output_mode(forest)
    out.number(mode, 2)
    if mode == LISTED:
        out.numbers(forest.tree_output, bit_width(forest.n_outputs))


def _write_base(out: BitWriter, forest: Forest) -> None:
    """Write the base score: nothing where it is zero."""
    base = forest.base_score
    dtype = value_type(base, forest.sum_dtype if forest.aggregation == "sum" else "float64")
    out.flag(bool(base.any()), dtype == "float64")
    if base.any():
        out.raw(base.astype(np.dtype(dtype).newbyteorder("<")).tobytes())
