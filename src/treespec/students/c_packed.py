"""C99 code of packed trees: the packed bytes as they are, and a decoder that walks in them; neither libm nor tables in RAM."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from treespec.students import c_packed_source as source
from treespec.students.c_code import CCode, byte_array, number_array
from treespec.students.c_packed_leaves import LeafCode, leaf_code
from treespec.students.c_rule import notes, refused_code, value_code
from treespec.students.packed_bits import bit_width
from treespec.students.packed_format import ALL, IN_TURN, LISTED
from treespec.students.packed_quantise import Quantised
from treespec.students.packed_reader import Unpacked
from treespec.students.packed_splits import BY_NODE, BY_TABLE, LEFT, CategoryTable, NumberTable, threshold_of

if TYPE_CHECKING:
    from treespec.students.packed import PackedStudent

PAD = 4
"""Zero bytes behind the data, so that 32 bits can be loaded from any of its bits."""

_SHORT_NODES = 1 << 16
_NARROW = 25  # bits that one load gives


@dataclass(frozen=True)
class Layout:
    """The bytes that go into C, and where in them, in bits, the parts begin.

    Attributes
    ----------
    data : bytes
    shift : int
        What to take from a position in the payload's bits.
    integer : bool
        Whether inputs are int32 and thresholds plain integers (`treespec.students.c_integer`).
    """

    data: bytes
    shift: int
    integer: bool = False


def packed_code(student: PackedStudent, *, fast: bool = False) -> CCode:
    """Return the C code of a student of packed trees; ``fast``: with a table of steps, 4 bytes a node (8 above 65,535 nodes) more."""
    u, payload = student.unpacked, student.payload()
    start = (u.output_at if u.mode == LISTED else u.table_at) // 8
    return forest_code(student, u, Layout(payload[start:] + bytes(PAD), 8 * start), fast=fast)


def forest_code(student: PackedStudent, u: Unpacked, layout: Layout, *, fast: bool = False) -> CCode:
    """Return the C code of what ``u`` holds; the parts of a student but its trees come from ``student``."""
    f = student.forest
    leaves = leaf_code(student, u, layout.shift, integer=layout.integer)
    head = _defines(u, layout, f.n_features, f.n_outputs) + f"#define SUM {leaves.sum_type}\n"
    text = head + byte_array("data", layout.data) + source.READER
    text += f"\n#define INPUT {'int32_t' if layout.integer else 'float'}\n"
    plain = fast and not any(isinstance(t, CategoryTable) for t in u.tables)
    if leaves.needs_reader or (len(u.index) and not plain):
        text += _fill(source.COUNTING, WIDE=source.WIDE if _widest(u) > _NARROW else "")
    size = len(layout.data)
    if len(u.index):
        text += f"\n#define MISSING(v) {'(v) == INT32_MIN' if layout.integer else '(v) != (v)'}\n"
        text += source.FILL + value_code(u.rule, layout.integer)
        tables, table_bytes = _fast_ask(u) if plain else (_ask_code(u, integer=layout.integer), 0)
        steps, step_bytes = _steps(u) if fast else ("", 0)
        size += table_bytes + step_bytes
        text += tables + steps + _walk_code(u, fast=fast)
    text += leaves.text + _sums_code(u, leaves, f.n_outputs, layout.shift) + refused_code(u.rule, layout.integer)
    down = int(tree_heights(u).sum())
    operations = {"thresholds read": u.n_splits, "steps down at most": down, "leaves added": u.n_trees * leaves.width}
    return CCode(text, size, f.n_outputs, _stack(u), notes(u.rule), operations)


def tree_heights(u: Unpacked) -> NDArray[np.int64]:
    """Return the (n_trees,) most steps from a root to a leaf."""
    from treespec.students.packed_rebuild import tree_of_nodes
    from treespec.students.packed_walk import depths

    height = np.zeros(u.n_trees, np.int64)
    np.maximum.at(height, tree_of_nodes(u), depths(u))
    return height


def _defines(u: Unpacked, layout: Layout, n_features: int, n_outputs: int) -> str:
    double = u.rule.dtype == "float64" and not layout.integer
    shape_bits = int(np.flatnonzero(u.shape)[-1]) + 1 if u.shape.any() else 0
    wide = "uint64_t" if double or _widest(u) > 32 else "uint32_t"
    real = "int32_t" if layout.integer else "double" if double else "float"
    values: tuple[tuple[str, object], ...] = (
        ("REAL", real), ("WORD", wide), ("KEY", "int64_t" if double else "int32_t"), ("BITS", "uint64_t" if double else "uint32_t"),
        ("MANTISSA", 53 if double else 24), ("N_FEATURES", n_features), ("N_SUMS", n_outputs), ("N_TREES", f"{u.n_trees}u"),
        ("N_TABLES", len(u.tables)), ("N_SPLITS", u.n_splits), ("TABLES_AT", f"{u.table_at - layout.shift + 1}u"),
        ("DEFAULT_LEFT", int(u.missing == LEFT)), ("SHAPE_AT", f"{u.shape_at - layout.shift}u"), ("SHAPE_BITS", f"{shape_bits}u"),
        ("SPLITS_AT", f"{u.index_at - layout.shift}u"), ("SPLIT_BITS", f"{bit_width(u.n_splits)}u"),
        ("NODE", "uint16_t" if len(u.shape) < _SHORT_NODES else "uint32_t"),
    )  # fmt: skip
    return "".join(f"#define {name} {value}\n" for name, value in values)


def _widest(u: Unpacked) -> int:
    """Return the most bits that are read at once."""
    keys = [max(t.style.k, abs(int(t.keys[0])).bit_length()) for t in u.tables if isinstance(t, NumberTable)]
    table = None if isinstance(u.leaves, Quantised) else u.leaves.table
    more = [] if table is None else [table.style.k, abs(int(table.direct.keys[-1])).bit_length()]
    double = 33 if u.rule.dtype == "float64" or (table is not None and table.scalar.dtype == np.float64) else 0
    codes = 31 if any(isinstance(t, CategoryTable) for t in u.tables) else 0
    return max([0, *keys, *more, double, codes])


def _low(u: Unpacked) -> str:
    """Return C for the k low bits of a gap: one load where that always does."""
    narrow = all(isinstance(t, NumberTable) and t.style.k <= _NARROW for t in u.tables)
    return "(WORD)FIELD(low, k)" if narrow else "get(low, k)"


def _fill(template: str, **parts: str) -> str:
    for name, part in parts.items():
        template = template.replace(f"@{name}@", part)
    return template


def _kinds(u: Unpacked) -> set[str]:
    return {t.style.mapping.kind for t in u.tables if isinstance(t, NumberTable)}


def _numbers_code(u: Unpacked, *, integer: bool) -> str:
    if integer:
        return ""
    kinds = _kinds(u)
    text = _fill(source.FLOATS, LIMIT=source.LIMIT[u.nudge]) if "float" in kinds else ""
    if kinds - {"float"}:
        text += (source.ABOVE if u.nudge == 2 else "") + _fill(source.NUMBERS, COMPARE=source.COMPARE[u.nudge])
    return text


def _limit(u: Unpacked) -> str:
    number, bits = "limit_of_number(v, kind, exponent)", "limit_of_bits(v, exponent)"
    kinds = _kinds(u)
    if "float" not in kinds:
        return f"limit = {number};"
    return f"limit = {bits};" if kinds == {"float"} else f"limit = kind == 2 ? {bits} : {number};"


def _ask_code(u: Unpacked, *, integer: bool) -> str:
    has_sets, by_node = any(isinstance(t, CategoryTable) for t in u.tables), u.missing == BY_NODE
    return _fill(source.TABLE_READER, LOW=_low(u)) + _numbers_code(u, integer=integer) + _fill(
        source.ASK,
        SETS=_fill(source.SETS, KNOWN="v >= 0" if integer else "v >= 0 && v < (REAL)2147483648.0") if has_sets else "",
        MISSING_ARGUMENT=", uint32_t *missing" if by_node else "",
        IS_SET="        int is_set = (int)next(&at, 1);\n" if has_sets else "",
        BY_TABLE="        left = (int)next(&at, 1);\n" if u.missing == BY_TABLE else "",
        MISSING="        if (MISSING(v)) fill(missing, split, split + count);\n" if by_node else "",
        ASK_SETS="        if (is_set) at = ask_sets(at, v, left, split, count, right);\n        else\n" if has_sets else "",
        LIMIT="limit = v;" if integer else _limit(u),
    )  # fmt: skip


def _fast_ask(u: Unpacked) -> tuple[str, int]:
    """Return C arrays of all thresholds and the function that searches them, and the bytes."""
    numbers = [t for t in u.tables if isinstance(t, NumberTable)]
    values = [threshold_of(t.style.mapping.values(t.keys, u.rule.dtype), u.nudge) for t in numbers]
    small = u.n_splits < _SHORT_NODES and max(t.feature for t in numbers) < _SHORT_NODES
    arrays = {
        "threshold": np.concatenate(values),
        "end_of": np.cumsum([t.count for t in numbers]).astype(np.uint16 if small else np.uint32),
        "feature_of": np.array([t.feature for t in numbers], np.uint16 if small else np.uint32),
        "left_of": np.array([t.default_left for t in numbers], np.int8),
    }
    if u.missing != BY_TABLE:
        del arrays["left_of"]
    by_node = u.missing == BY_NODE
    text = "".join(number_array(name, values) for name, values in arrays.items()) + _fill(
        source.FAST_ASK,
        MISSING_ARGUMENT=", uint32_t *missing" if by_node else "",
        MISSING="            fill(missing, split, end);\n" if by_node else "",
        LEFT="left_of[t]" if u.missing == BY_TABLE else "DEFAULT_LEFT",
    )
    return "\n" + text, sum(a.nbytes for a in arrays.values())


def _steps(u: Unpacked) -> tuple[str, int]:
    """Return C arrays of a step down from each node, and their bytes."""
    kind = np.uint16 if len(u.shape) < _SHORT_NODES and u.n_splits < _SHORT_NODES else np.uint32
    split, following = np.full(len(u.shape), u.n_splits, kind), np.empty(len(u.shape), kind)
    split[u.shape] = u.index
    following[u.shape] = u.n_trees + 2 * np.arange(len(u.index))
    following[~u.shape] = np.arange(int((~u.shape).sum()))
    return "\n" + number_array("split_of", split) + number_array("next_of", following), split.nbytes + following.nbytes


def _walk_code(u: Unpacked, *, fast: bool) -> str:
    by_node = u.missing == BY_NODE
    inner = "((next_of[here] - N_TREES) >> 1)" if fast else "inner"
    side = f"!FIELD(SPLITS_AT + {len(u.index)}u * SPLIT_BITS + {inner}, 1)"
    return _fill(
        source.FAST_WALK if fast else source.WALK,
        MISSING_ARGUMENT=", const uint32_t *missing" if by_node else "",
        BY_NODE=f"            if (missing[split >> 5] >> (split & 31) & 1u) side = {side};\n" if by_node else "",
    )


def _sums_code(u: Unpacked, leaves: LeafCode, n_outputs: int, shift: int) -> str:
    listed = f"FIELD({u.output_at - shift}u + t * {bit_width(n_outputs)}u, {bit_width(n_outputs)})"
    mode = {ALL: "j", IN_TURN: "t % N_SUMS"}.get(u.mode, listed)
    by_node = u.missing == BY_NODE
    missing = f"    uint32_t missing[{u.n_splits // 32 + 1}] = {{0}};\n" if by_node else ""
    argument = ", missing" if by_node else ""
    begin = "".join(f"    out[{k}] = {value};\n" for k, value in enumerate(leaves.start))
    if not len(u.index):
        reach, leaf = "    (void)x;\n    (void)load;\n", "t"
    else:
        reach = f"""    NODE node[N_TREES];
    uint32_t right[{u.n_splits // 32 + 1}] = {{0}};
{missing}    ask(x, right{argument});
    walk(right{argument}, node);
"""
        leaf = "node[t]"
    return f"""
#define WIDTH {leaves.width}u

static void sums(const INPUT *x, SUM *margin)
{{
    {leaves.total_type} out[N_SUMS];
    unsigned t, j, k;
{reach}{begin}    for (t = 0; t < N_TREES; t++) {{
        uint32_t n = {leaf};
{leaves.by_tree}        for (j = 0; j < WIDTH; j++) {{
            k = {mode};
{leaves.add}        }}
    }}
{leaves.end}}}
"""


def _stack(u: Unpacked) -> int:
    if not len(u.index):
        return 100
    item = 2 if len(u.shape) < _SHORT_NODES else 4
    nodes = 2 * u.n_trees + len(u.shape) // 32 + 1
    return item * nodes + 4 * (u.n_splits // 32 + 1) * (1 + (u.missing == BY_NODE)) + 200
