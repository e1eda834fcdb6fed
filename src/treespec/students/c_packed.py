"""C99 code of packed trees: the packed bytes as they are, and a decoder that walks in them; neither libm nor tables in RAM."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from treespec.ir import InputRule
from treespec.students.c_code import CCode, byte_array, c_number, number_array
from treespec.students.c_packed_source import ABOVE, ASK, NUMBERS, READER, SETS, TABLE_READER, WALK
from treespec.students.packed_bits import bit_width
from treespec.students.packed_format import ALL, IN_TURN
from treespec.students.packed_leaves import Exact
from treespec.students.packed_quantise import Quantised
from treespec.students.packed_reader import Unpacked
from treespec.students.packed_splits import BY_NODE, BY_TABLE, LEFT, CategoryTable

if TYPE_CHECKING:
    from treespec.students.packed import PackedStudent

_SHORT_NODES = 1 << 15
_INT32 = 1 << 31


def packed_code(student: PackedStudent) -> CCode:
    """Return the C code of a student of packed trees."""
    u, f = student.unpacked, student.forest
    payload = student.payload()
    tables = payload[u.table_at // 8 : u.shape_at // 8]
    shape_bits = int(np.flatnonzero(u.shape)[-1]) + 1 if u.shape.any() else 0
    shape = payload[u.shape_at // 8 : u.index_at // 8]
    inner = len(u.index)
    end = u.index_at + inner * (bit_width(u.n_splits) + (u.missing == BY_NODE))
    splits = payload[u.index_at // 8 : (end + 7) // 8]
    double = u.rule.dtype == "float64"
    leaves, leaf_text, leaf_bytes = _leaves(student)
    sum_type = _sum_type(student)
    short = len(u.shape) < _SHORT_NODES
    has_sets = any(isinstance(t, CategoryTable) for t in u.tables)
    by_node = u.missing == BY_NODE
    head = "".join(
        f"#define {name} {value}\n"
        for name, value in (
            ("REAL", "double" if double else "float"), ("WORD", "uint64_t" if double else "uint32_t"),
            ("KEY", "int64_t" if double else "int32_t"),
            ("SUM", sum_type), ("N_FEATURES", f.n_features), ("N_SUMS", f.n_outputs), ("N_TREES", u.n_trees), ("N_TABLES", len(u.tables)),
            ("N_SPLITS", u.n_splits), ("TABLES_AT", u.table_at % 8 + 1), ("DEFAULT_LEFT", int(u.missing == LEFT)),
            ("SHAPE_BITS", f"{shape_bits}u"), ("SPLIT_BITS", bit_width(u.n_splits)),
            ("NODE", "uint16_t" if short else "uint32_t"), ("LEAF", "0x8000u" if short else "0x80000000u"),
        )
    )  # fmt: skip
    if not inner:
        text = head + leaf_text + READER + _sums_code(student, leaves, by_node=False) + _refused_code(u.rule)
        return CCode(text, leaf_bytes, f.n_outputs, 100, _notes(u.rule))
    text = head + byte_array("tables", tables) + byte_array("shape", shape) + byte_array("splits", splits) + leaf_text
    text += READER + TABLE_READER + NUMBERS + (ABOVE if u.nudge == 2 else "")
    text += _value_code(u.rule) + _ask_code(u, has_sets=has_sets) + _fill(
        WALK,
        MISSING_ARGUMENT=", const uint8_t *missing" if by_node else "",
        BY_NODE=f"                if (missing[split >> 3] >> (split & 7) & 1u) side = !get(splits, {inner}u * SPLIT_BITS + inner, 1);\n"
        if by_node else "",
    )  # fmt: skip
    text += _sums_code(student, leaves, by_node=by_node) + _refused_code(u.rule)
    stack = u.n_trees * (2 if short else 4) + (u.n_splits + 7) // 8 * (1 + by_node) + 200
    return CCode(text, len(tables) + len(shape) + len(splits) + leaf_bytes, f.n_outputs, stack, _notes(u.rule))


def _fill(template: str, **parts: str) -> str:
    for name, part in parts.items():
        template = template.replace(f"@{name}@", part)
    return template


def _sum_type(student: PackedStudent) -> str:
    if isinstance(student.unpacked.leaves, Quantised):
        return "float" if student.forest.link == "identity" else "double"
    return "double" if student.forest.sum_dtype == "float64" or student.forest.aggregation == "mean" else "float"


def _ask_code(u: Unpacked, *, has_sets: bool) -> str:
    v = "number(s.key, kind, exponent, scale)"
    return _fill(
        ASK,
        SETS=SETS if has_sets else "",
        MISSING_ARGUMENT=", uint8_t *missing" if u.missing == BY_NODE else "",
        IS_SET="        int is_set = (int)next(&at, 1);\n" if has_sets else "",
        BY_TABLE="        left = (int)next(&at, 1);\n" if u.missing == BY_TABLE else "",
        MISSING="        if (v != v) for (i = 0; i < count; i++) set(missing, split + i);\n" if u.missing == BY_NODE else "",
        ASK_SETS="        if (is_set) at = ask_sets(at, v, left, split, count, right);\n        else\n" if has_sets else "",
        COMPARE=(f"v <= {v}", f"v < {v}", f"v <= above({v})")[u.nudge],
    )  # fmt: skip


def _leaves(student: PackedStudent) -> tuple[str, str, int]:
    """Return C that adds leaf ``n`` of tree ``t`` to output ``k`` (variables of that name), the arrays, and their bytes."""
    u, payload = student.unpacked, student.payload()
    if isinstance(u.leaves, Quantised):
        q = u.leaves
        integers = payload[u.leaf_at // 8 :]
        codes = payload[(q.code_at + 32) // 8 : u.leaf_at // 8] if q.code_bits else b""
        size = (
            f"get(codes, {(q.code_at + 32) % 8}u + t * {q.code_bits}u, {q.code_bits})" if q.code_bits else str(int(q.code.max(initial=0)))
        )
        add = f"""            uint32_t code = (uint32_t){size};
            out[k] += (INTEGER)get(leaves, (n * WIDTH + j) * {q.bits}u, {q.bits}) * (INTEGER)((2 + (code & 1)) << (code >> 1));
"""
        largest = np.abs(q.base).max(initial=0) + int((((1 << q.bits) - 1) * q.size).sum())
        text = f"#define INTEGER {'int32_t' if largest < _INT32 else 'int64_t'}\n" + byte_array("leaves", integers)
        return add, text + (byte_array("codes", codes) if q.code_bits else ""), len(integers) + len(codes)
    exact: Exact = u.leaves
    kind = "double" if exact.values.dtype == np.float64 else "float"
    if exact.row is not None and exact.scalar is not None and exact.distinct is not None:
        rows, bits = exact.scalar[exact.distinct], bit_width(len(exact.distinct))
        numbers = payload[u.leaf_at // 8 :]
        add = f"            out[k] += (SUM)rows[(uint32_t)get(leaves, n * {bits}u, {bits}) * WIDTH + j];\n"
        return add, number_array("rows", rows) + byte_array("leaves", numbers), rows.nbytes + len(numbers)
    add = f"            {kind} v;\n            memcpy(&v, leaves + (n * WIDTH + j) * sizeof v, sizeof v);\n            out[k] += (SUM)v;\n"
    data = payload[u.leaf_at // 8 :]
    return add, byte_array("leaves", data), len(data)


def _sums_code(student: PackedStudent, add: str, *, by_node: bool) -> str:
    u, f = student.unpacked, student.forest
    if isinstance(u.leaves, Quantised):
        start, kind = [str(int(b)) for b in u.leaves.base], "INTEGER"
        suffix = np.float32 if _sum_type(student) == "float" else np.float64
        end = f"    for (k = 0; k < N_SUMS; k++) margin[k] = (SUM)out[k] * {c_number(suffix(2.0**u.leaves.step))};\n"
    else:
        kind = "SUM" if f.sum_dtype == "float64" or f.aggregation == "sum" else "float"
        base = f.base_score.astype(f.sum_dtype if f.aggregation == "sum" else np.float64)
        start = [c_number(b) for b in base] if f.aggregation == "sum" else ["0"] * f.n_outputs
        end = "    for (k = 0; k < N_SUMS; k++) margin[k] = (SUM)out[k];\n"
        if f.aggregation == "mean":
            end = "".join(f"    margin[{k}] = {c_number(b)} + (SUM)(out[{k}] / {max(1, u.n_trees)});\n" for k, b in enumerate(base))
    mode = {ALL: "j", IN_TURN: "t % N_SUMS"}.get(u.mode, "outputs[t]")
    listed = ""
    if mode == "outputs[t]":
        listed = number_array("outputs", u.tree_output.astype(np.uint16))
    width = f.n_outputs if u.mode == ALL else 1
    missing = f"    uint8_t missing[{(u.n_splits + 7) // 8 or 1}] = {{0}};\n" if by_node else ""
    argument = ", missing" if by_node else ""
    begin = "".join(f"    out[{k}] = {value};\n" for k, value in enumerate(start))
    if not len(u.index):
        reach, leaf = "    (void)x;\n    (void)get;\n", "t"
    else:
        reach = f"""    NODE node[{u.n_trees}];
    uint8_t right[{(u.n_splits + 7) // 8}] = {{0}};
{missing}    ask(x, right{argument});
    walk(right{argument}, node);
"""
        leaf = "node[t] & (LEAF - 1)"
    return f"""
#define WIDTH {width}u
{listed}
static void sums(const float *x, SUM *margin)
{{
    {kind} out[N_SUMS];
    unsigned t, j, k;
{reach}{begin}    for (t = 0; t < N_TREES; t++) {{
        uint32_t n = {leaf};
        for (j = 0; j < WIDTH; j++) {{
            k = {mode};
            {{
{add}            }}
        }}
    }}
{end}}}
"""


def _value_code(rule: InputRule) -> str:
    """Return C for the value of a column as it is compared: missing values NaN, categories as codes."""
    lines = []
    if not np.isnan(rule.missing_value):
        number = np.float32(rule.missing_value) if rule.dtype == "float32" else np.float64(rule.missing_value)
        lines.append(f"    if (v == {c_number(number)}) v = NAN;\n")
    if rule.zero != "keep":
        others = "".join(f"j != {j} && " for j in rule.categorical)
        tiny = "v <= (REAL)1.0000000180025095e-35f && v >= (REAL)-1.0000000180025095e-35f"
        lines.append(f"    if ({others}{tiny}) v = {'NAN' if rule.zero == 'missing' else '0'};\n")
    for j, values in rule.categories:
        if rule.numbers_are_codes or not values:
            continue
        if all(isinstance(c, str) for c in values):
            if rule.unknown_category == "missing":
                lines.append(f"    if (j == {j} && !(v >= 0 && v < {len(values)})) v = NAN;\n")
            continue
        tests = "".join(f"v == {c_number(np.float64(c))} ? {k} : " for k, c in enumerate(values) if not isinstance(c, str))
        unknown = "NAN" if rule.unknown_category == "missing" else str(len(values))
        lines.append(f"    if (j == {j} && v == v) v = (REAL)({tests}{unknown});\n")
    if rule.negative_fraction_is_zero and rule.categorical:
        some = " || ".join(f"j == {j}" for j in rule.categorical)
        lines.append(f"    if (({some}) && v > -1 && v < 0) v = 0;\n")
    return f"\nstatic REAL value(const float *x, unsigned j)\n{{\n    REAL v = (REAL)x[j];\n{''.join(lines)}    return v;\n}}\n"


def _refused_code(rule: InputRule) -> str:
    """Return C that tells whether the model refuses a row."""
    tests = []
    if rule.nan == "refuse":
        missing = "" if np.isnan(rule.missing_value) else f" || x[j] == {c_number(np.float32(rule.missing_value))}"
        tests.append(f"x[j] != x[j]{missing}")
    if rule.infinite == "refuse":
        tests.append("x[j] > 3.402823466e38f || x[j] < -3.402823466e38f")
    body = f"    unsigned j;\n    for (j = 0; j < N_FEATURES; j++) if ({' || '.join(tests)}) return 1;\n" if tests else "    (void)x;\n"
    return f"\nstatic int refused(const float *x)\n{{\n{body}    return 0;\n}}\n"


def _notes(rule: InputRule) -> list[str]:
    notes = []
    for j, values in rule.categories:
        if values and all(isinstance(c, str) for c in values):
            listed = ", ".join(f"{k} = {c}" for k, c in enumerate(values))
            notes.append(f"x[{j}] is a code: {listed}; {_unknown(rule, len(values))}")
    if not np.isnan(rule.missing_value):
        notes.append(f"{rule.missing_value} means missing, as does NaN")
    if rule.nan == "refuse":
        notes.append("the model takes no missing values: a row with one gives NaN")
    if rule.infinite == "refuse":
        notes.append("the model takes no infinities: a row with one gives NaN")
    return notes


def _unknown(rule: InputRule, n: int) -> str:
    return f"{n} for any other, which is missing then" if rule.unknown_category == "missing" else f"{n} for any other"
