"""C99 code that adds up the leaf values of packed trees."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from treespec.students.c_code import c_number
from treespec.students.packed_bits import bit_width
from treespec.students.packed_format import ALL
from treespec.students.packed_leaves import LeafTable
from treespec.students.packed_quantise import Quantised
from treespec.students.packed_reader import Unpacked

if TYPE_CHECKING:
    from treespec.students.packed import PackedStudent

_INT32 = 1 << 31
_CRC_BITS = 32

_TABLE = r"""
/* Distinct leaf value i: sorted integers of LOW_BITS low bits each, their higher bits in unary. */
static {real} scalar(uint32_t i)
{{
    WORD key = {first};
    if (i) {{
        uint32_t from = {high}u, bits = 0;
        unsigned left = i, some;
        while ((some = ones(bits)) < left) {{
            left -= some;
            bits = fetch(from) & 0xffffffu;
            from += 24;
        }}
        while (--left) bits &= bits - 1;
        key += (WORD)(from - 24 + zeros(bits) - {high}u - (i - 1)) << {k} | get({low}u + (i - 1) * {k}u, {k});
    }}
{number}}}
"""


@dataclass(frozen=True)
class LeafCode:
    """Parts of the C function that adds up leaves: leaf ``n`` of tree ``t``, value ``j`` of ``width``, to output ``k``.

    Attributes
    ----------
    text : str
        Functions that the parts call.
    sum_type, total_type : str
        C types of what the function returns, and of what it adds in.
    start : list of str
        What the outputs begin with.
    by_tree, add, end : str
        For each tree; for each value; after all.
    """

    text: str
    sum_type: str
    total_type: str
    start: list[str]
    by_tree: str
    add: str
    end: str
    width: int
    needs_reader: bool


def leaf_code(student: PackedStudent, u: Unpacked, shift: int, *, integer: bool = False) -> LeafCode:
    """Return the C parts for the leaves of ``u``, whose positions are ``shift`` bits further than in ``data``."""
    width = student.forest.n_outputs if u.mode == ALL else 1
    if isinstance(u.leaves, Quantised):
        return _quantised(student, u, u.leaves, shift, width, integer=integer)
    f, exact = student.forest, u.leaves
    sum_type = "double" if f.sum_dtype == "float64" or f.aggregation == "mean" else "float"
    total = sum_type if f.sum_dtype == "float64" or f.aggregation == "sum" else "float"
    base = f.base_score.astype(f.sum_dtype if f.aggregation == "sum" else np.float64)
    start = [c_number(b) for b in base] if f.aggregation == "sum" else ["0"] * f.n_outputs
    end = "    for (k = 0; k < N_SUMS; k++) margin[k] = (SUM)out[k];\n"
    if f.aggregation == "mean":
        end = "".join(f"    margin[{k}] = {c_number(b)} + (SUM)(out[{k}] / {max(1, u.n_trees)});\n" for k, b in enumerate(base))
    real = "double" if exact.values.dtype == np.float64 else "float"
    leaf_at = u.leaf_at - shift
    if exact.table is None:
        add = f"""            {{
                {real} v;
                memcpy(&v, data + {leaf_at // 8} + (n * WIDTH + j) * sizeof v, sizeof v);
                out[k] += ({total})v;
            }}
"""
        return LeafCode("", sum_type, total, start, "", add, end, width, needs_reader=False)
    table, bits = exact.table, bit_width(len(exact.table.distinct))
    by_tree = f"        n = FIELD({leaf_at}u + n * {bits}u, {bits});\n"
    scalars, offset = bit_width(len(table.scalar)), table.distinct_at + _CRC_BITS - shift
    at = f"FIELD({offset}u + (n * WIDTH + j) * {scalars}u, {scalars})" if width > 1 else "n"
    return LeafCode(
        _scalar(table, real, shift),
        sum_type,
        total,
        start,
        by_tree,
        f"            out[k] += ({total})scalar({at});\n",
        end,
        width,
        needs_reader=True,
    )


def _scalar(table: LeafTable, real: str, shift: int) -> str:
    mapping, double = table.style.mapping, real == "double"
    signed, unsigned = ("int64_t", "uint64_t") if double else ("int32_t", "uint32_t")
    kind = np.float64 if double else np.float32
    if mapping.kind == "decimal":
        number = f"    return ({real})({signed})key / {c_number(kind(10.0**mapping.exponent))};\n"
    elif mapping.kind == "binary":
        number = f"    return ({real})({signed})key * {c_number(kind(2.0 ** (32 - mapping.exponent)))};\n"
    else:
        number = f"""    {{
        {real} v;
        {unsigned} bits = ({unsigned})(({signed})key < 0 ? (WORD)0 - key : key) << {mapping.exponent};
        memcpy(&v, &bits, sizeof v);
        return ({signed})key < 0 ? -v : v;
    }}
"""
    first = int(table.direct.keys[0])
    return _TABLE.format(
        real=real, first=f"(WORD)0 - (WORD){-first}u" if first < 0 else f"{first}u", high=table.direct.high_at + _CRC_BITS - shift,
        low=table.direct.low_at + _CRC_BITS - shift, k=table.style.k, number=number,
    )  # fmt: skip


def _quantised(student: PackedStudent, u: Unpacked, q: Quantised, shift: int, width: int, *, integer: bool) -> LeafCode:
    largest = np.abs(q.base).max(initial=0) + int((((1 << q.bits) - 1) * q.size).sum())
    kind = "int32_t" if largest < _INT32 else "int64_t"
    sum_type = kind if integer else "float" if student.forest.link == "identity" else "double"
    code = str(int(q.code.max(initial=0)))
    if q.code_bits:
        code = f"FIELD({q.code_at + _CRC_BITS - shift}u + t * {q.code_bits}u, {q.code_bits})"
    by_tree = f"        uint32_t code = {code};\n        {kind} step = ({kind})(2 + (code & 1)) << (code >> 1);\n"
    add = f"            out[k] += ({kind})FIELD({u.leaf_at - shift}u + (n * WIDTH + j) * {q.bits}u, {q.bits}) * step;\n"
    suffix = np.float32 if sum_type == "float" else np.float64
    factor = "" if integer else f" * {c_number(suffix(2.0**q.step))}"
    end = f"    for (k = 0; k < N_SUMS; k++) margin[k] = (SUM)out[k]{factor};\n"
    return LeafCode("", sum_type, kind, [str(int(b)) for b in q.base], by_tree, add, end, width, needs_reader=False)
