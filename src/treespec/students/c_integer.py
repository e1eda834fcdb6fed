"""C99 code of packed trees that takes integers, gives integers and holds no floating point: for devices whose sensors count.

Input j is an int32 that stands for ``x[j] * unit[j]``; each threshold becomes the largest integer that goes left, so that the C gives
what the student gives for ``x * unit``, exactly. Margins come out in units of a power of two.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from treespec.errors import TreespecError, UnsupportedModelError
from treespec.ir import InputRule
from treespec.students.packed_bits import BitWriter, bit_width
from treespec.students.packed_format import LISTED
from treespec.students.packed_numbers import Mapping, Style, rice
from treespec.students.packed_quantise import Quantised
from treespec.students.packed_reader import Unpacked
from treespec.students.packed_splits import BY_NODE, NumberTable, threshold_of
from treespec.students.packed_tables import write_tables

if TYPE_CHECKING:
    from treespec.students.packed import PackedStudent

MISSING = -(1 << 31)
"""What stands for a missing value."""

_CRC_BITS = 32
_SMALLEST, _LARGEST = 1e-30, 1e30


def units_of(student: PackedStudent, unit: ArrayLike) -> NDArray[np.float64]:
    """Return the (n_features,) units of columns; those of categories are 1.

    Raises
    ------
    TreespecError
        If there are not as many as columns, or one is not positive (within 1e-30 and 1e30).
    """
    given = np.asarray(unit, np.float64)
    n = student.forest.n_features
    if given.shape not in {(), (n,)} or not ((given >= _SMALLEST) & (given <= _LARGEST)).all():
        raise TreespecError.expected(
            f"one positive unit, or {n} of them", f"{unit!r}", "the unit of a column is what one step of its integers means"
        )
    out = np.broadcast_to(given, n).copy()
    out[list(student.forest.inputs.categorical)] = 1.0
    return out


def floats_of(rule: InputRule, x: NDArray[np.integer], unit: NDArray[np.float64]) -> NDArray[np.floating]:
    """Return the numbers that integers stand for, as the student compares them; `MISSING` is NaN."""
    with np.errstate(over="ignore", under="ignore"):
        out = (x.astype(np.float64) * unit).astype(rule.dtype)
    return np.asarray(np.where(x == MISSING, out.dtype.type(np.nan), out))


def integer_forest(student: PackedStudent, unit: NDArray[np.float64]) -> tuple[Unpacked, bytes]:
    """Return the student's trees with integer thresholds, and their bytes, from the outputs of trees or the first table on.

    Raises
    ------
    UnsupportedModelError
        If leaf values are not integers.
    """
    u = student.unpacked
    if not isinstance(u.leaves, Quantised):
        raise UnsupportedModelError.expected(
            "leaf values of few bits", "exact leaf values", "distil with compressor='boosted', or 'packed' with leaf_bits"
        )
    tables, place, before = [], [], 0
    for table in u.tables:
        if isinstance(table, NumberTable):
            value = threshold_of(table.style.mapping.values(table.keys, u.rule.dtype), u.nudge)
            keys, where = np.unique(_integers(u.rule, value, float(unit[table.feature])), return_inverse=True)
            table = NumberTable(table.feature, table.default_left, Style(Mapping("decimal", 0), rice(keys)[0]), keys)  # noqa: PLW2901
        else:
            where = np.arange(table.count)
        tables.append(table)
        place.append(before + where)
        before += table.count
    index = np.concatenate([*place, np.empty(0, np.int64)]).astype(np.int64)[u.index]
    return _write(replace(u, tables=tables, index=index, nudge=0, rule=_rule(u.rule, unit)), u.leaves)


def _write(u: Unpacked, leaves: Quantised) -> tuple[Unpacked, bytes]:
    out = BitWriter()
    if u.mode == LISTED:
        out.numbers(u.tree_output, bit_width(leaves.base.size))
    table_at = out.n_bits
    write_tables(out, u.tables, u.missing)
    out.align()
    shape_at = out.n_bits
    out.append(u.shape[: int(np.flatnonzero(u.shape)[-1]) + 1] if u.shape.any() else u.shape[:0])
    out.align()
    index_at = out.n_bits
    out.numbers(u.index, bit_width(u.n_splits))
    if u.missing == BY_NODE:
        out.append(u.default_left)
    code_at = out.n_bits
    out.numbers(leaves.code, leaves.code_bits)
    leaf_at = out.n_bits
    out.numbers(leaves.integer, leaves.bits)
    leaves = replace(leaves, code_at=code_at - _CRC_BITS)
    made = replace(u, leaves=leaves, output_at=0, table_at=table_at, shape_at=shape_at, index_at=index_at, leaf_at=leaf_at)
    return made, out.to_bytes()


def _integers(rule: InputRule, threshold: NDArray[np.floating], unit: float) -> NDArray[np.int64]:
    """Return the largest int32 each that is not above a threshold; `MISSING` where none is."""
    low = np.full(len(threshold), MISSING, np.int64)
    high = np.full(len(threshold), -MISSING, np.int64)  # the answer is at least low, and below high
    while (high - low > 1).any():
        middle = low + (high - low) // 2
        with np.errstate(over="ignore", under="ignore"):
            left = (middle.astype(np.float64) * unit).astype(rule.dtype) <= threshold
        low, high = np.where(left, middle, low), np.where(left, high, middle)
    return low


def _rule(rule: InputRule, unit: NDArray[np.float64]) -> InputRule:
    """Return the rule of integers: a number that means missing must be the same number for all columns."""
    if np.isnan(rule.missing_value):
        return rule
    codes = np.unique(np.rint(rule.missing_value / unit))
    if len(codes) > 1 or abs(float(codes[0])) >= -MISSING:
        raise TreespecError.expected(
            "one unit for all columns, as a number means missing", f"{rule.missing_value} in several units", "pass one unit"
        )
    exact = float(np.float64(codes[0] * unit[0]).astype(rule.dtype)) == float(np.float64(rule.missing_value).astype(rule.dtype))
    return replace(rule, missing_value=float(codes[0]) if exact else float("nan"))
