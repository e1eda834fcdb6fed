"""Reads the payload of a `PackedStudent`; sizes are checked against the bytes that are there before anything is allocated."""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from treespec.errors import FileFormatError
from treespec.ir import ALL_OUTPUTS, InputRule
from treespec.ir.link import LINKS
from treespec.students.outcome import Outcome
from treespec.students.packed_bits import BitReader, bit_width, damaged
from treespec.students.packed_format import ALL, HEADS, IN_TURN, LISTED, MAX_TREES, MAX_VALUES, VERSION
from treespec.students.packed_inputs import read_rule
from treespec.students.packed_leaves import Exact, read_exact
from treespec.students.packed_quantise import Quantised, read_quantised
from treespec.students.packed_splits import BY_NODE, LEFT, CategoryTable, NumberTable
from treespec.students.packed_tables import read_tables

_CRC_BITS = 32


@dataclass(frozen=True, eq=False)
class Unpacked:
    """What a payload holds; nodes are breadth first over all trees.

    Attributes
    ----------
    head : str
        What the sums are (`packed_format.HEADS`).
    mean, double : bool
        Whether margins are means, and sums float64.
    mode : int
        How trees map to outputs (`packed_format`); ``tree_output`` (n_trees,) says it tree by tree.
    rule : InputRule
    nudge, missing : int
    tables : list of NumberTable or CategoryTable
    shape : (n_nodes,) bool
        True at inner nodes.
    index : (n_inner,) int64
        Number of the split of each inner node.
    default_left : (n_inner,) bool
        Meaningless where the missing direction is told by table.
    leaves : Exact or Quantised
    base : (n_outputs,) float64
    output_at, table_at, shape_at, index_at, leaf_at : int
        Where in the payload, in bits, the outputs of trees (where they are listed), the first table, the shape, the indices and the leaves'
        numbers begin.
    """

    head: str
    mean: bool
    double: bool
    mode: int
    tree_output: NDArray[np.int64]
    rule: InputRule
    nudge: int
    missing: int
    tables: list[NumberTable | CategoryTable]
    shape: NDArray[np.bool_]
    index: NDArray[np.int64]
    default_left: NDArray[np.bool_]
    leaves: Exact | Quantised
    base: NDArray[np.float64]
    output_at: int
    table_at: int
    shape_at: int
    index_at: int
    leaf_at: int

    @property
    def n_trees(self) -> int:
        """Number of trees."""
        return len(self.tree_output)

    @property
    def n_splits(self) -> int:
        """Number of distinct splits."""
        return sum(t.count for t in self.tables)


def unpack(payload: bytes, outcome: Outcome) -> Unpacked:
    """Return what ``payload`` holds.

    Raises
    ------
    FileFormatError
        If the bytes are truncated, damaged, of another version, or no packed forest.
    """
    if len(payload) < 4 or struct.unpack_from("<I", payload)[0] != zlib.crc32(payload[4:]):
        raise damaged("a payload whose checksum is wrong")
    if outcome.n_outputs < 1 or outcome.n_features < 0 or outcome.link not in LINKS:
        raise damaged(f"{outcome.n_outputs} outputs, {outcome.n_features} features and link {outcome.link!r}")
    source = BitReader(payload[4:])
    version = source.number(4)
    if version != VERSION:
        raise FileFormatError.expected(f"packed format version {VERSION}", f"version {version}", "read it with the release that wrote it")
    head = source.number(2)
    if head >= len(HEADS) or (head and not outcome.links_head(HEADS[head])):
        raise damaged(f"head {head} for link {outcome.link!r}")
    n_outputs = 1 if HEADS[head] == "logit" else outcome.n_outputs
    n_trees = source.gamma(MAX_TREES, "number of trees")
    n_inner = source.gamma(source.n_left, "number of inner nodes")
    n_tables = source.gamma(source.n_left, "number of tables")
    if (n_trees + 2 * n_inner) * n_outputs > MAX_VALUES:
        raise damaged(f"{n_trees} trees with {n_inner} inner nodes and {n_outputs} outputs")
    mean, double = source.flag(), source.flag()
    output_at = source.position + 2
    mode, tree_output = _read_outputs(source, n_trees, n_outputs)
    rule = read_rule(source, outcome.n_features)
    nudge, missing = source.number(2), source.number(2)
    if nudge > 2:
        raise damaged(f"nudge {nudge}")
    table_at = source.position
    tables = read_tables(source, n_tables, missing, outcome.n_features, rule.dtype)
    n_splits = sum(t.count for t in tables)
    source.align()
    shape_at = source.position
    shape = _read_shape(source, n_trees, n_inner)
    source.align()
    index_at = source.position
    index = source.numbers(n_inner, bit_width(n_splits)).astype(np.int64)
    if n_inner and int(index.max()) >= n_splits:
        raise damaged(f"a split above {n_splits - 1}")
    default_left = source.take(n_inner).astype(bool) if missing == BY_NODE else np.full(n_inner, missing == LEFT)
    base, leaves = _read_leaves(source, n_trees + n_inner, n_trees, n_outputs if mode == ALL else 1, n_outputs)
    leaf_at = source.position - leaves.n_bits
    source.align()
    if source.n_left:
        raise damaged(f"{source.n_left // 8} bytes too many")
    at = [p + _CRC_BITS for p in (output_at, table_at, shape_at, index_at, leaf_at)]
    return Unpacked(
        HEADS[head], mean, double, mode, tree_output, rule, nudge, missing, tables, shape, index, default_left, leaves, base, *at
    )


def _read_outputs(source: BitReader, n_trees: int, n_outputs: int) -> tuple[int, NDArray[np.int64]]:
    mode = source.number(2)
    if mode == ALL:
        return mode, np.full(n_trees, ALL_OUTPUTS, dtype=np.int64)
    if mode == IN_TURN:
        return mode, np.arange(n_trees) % n_outputs
    listed = source.numbers(n_trees, bit_width(n_outputs)).astype(np.int64)
    if mode != LISTED or (listed >= n_outputs).any():
        raise damaged("a tree that adds to no output")
    return mode, listed


def _read_shape(source: BitReader, n_trees: int, n_inner: int) -> NDArray[np.bool_]:
    """Read which nodes are inner ones; each must be a child of one before it."""
    place = source.ends(n_inner)
    if (place >= n_trees + 2 * np.arange(n_inner)).any():
        raise damaged("an inner node without a parent")
    shape = np.zeros(n_trees + 2 * n_inner, bool)
    shape[place] = True
    return shape


def _read_leaves(
    source: BitReader, n_leaves: int, n_trees: int, width: int, n_outputs: int
) -> tuple[NDArray[np.float64], Exact | Quantised]:
    if source.flag():
        q = read_quantised(source, n_leaves, width, n_trees, n_outputs)
        return np.ldexp(q.base.astype(np.float64), q.step), q
    some, double = source.flag(), source.flag()
    base = np.zeros(n_outputs)
    if some:
        base = np.frombuffer(source.raw(n_outputs * (8 if double else 4)), "<f8" if double else "<f4").astype(np.float64)
        if not np.isfinite(base).all():
            raise damaged("a base score that is not finite")
    return base, read_exact(source, n_leaves, width)
