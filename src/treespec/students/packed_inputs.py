"""The input rule of a packed forest: a few flags, and the category values behind codes."""

from __future__ import annotations

import json
import struct

import numpy as np

from treespec.ir import Forest, InputRule
from treespec.ir.inputs import Category
from treespec.students.packed_bits import BitReader, BitWriter, damaged

_ZERO = ("keep", "flush", "missing")
_FLOAT32_FIRST = ("never", "numbers", "all")
_UNKNOWN = ("other", "missing", "refuse")
_DOUBLE = struct.Struct("<d")


def write_rule(out: BitWriter, forest: Forest) -> None:
    """Write what the splits of ``forest`` need of its input rule.

    Category values of columns that no tree splits on are left out, unless unknown values are an error there.
    """
    rule = forest.inputs
    out.flag(rule.dtype == "float64", rule.nan == "refuse", rule.infinite == "refuse", rule.absent == "missing")
    out.number(_ZERO.index(rule.zero), 2)
    if rule.dtype == "float64":
        out.number(_FLOAT32_FIRST.index(rule.float32_first), 2)
    has_missing = not np.isnan(rule.missing_value)
    out.flag(has_missing, bool(rule.categorical))
    if has_missing:
        out.raw(_DOUBLE.pack(rule.missing_value))
    if not rule.categorical:
        return
    out.number(_UNKNOWN.index(rule.unknown_category), 2)
    out.flag(rule.numbers_are_codes, rule.negative_fraction_is_zero, rule.missing_category == "refuse")
    used = set(forest.feature[~forest.is_leaf].tolist())
    categories = [[j, list(values) if j in used or rule.unknown_category == "refuse" else []] for j, values in rule.categories]
    mapped = {j for j, values in categories if values}
    plain = [j for j in rule.categorical if j not in mapped and j in used]
    out.gamma(len(plain))
    for j in plain:
        out.gamma(j)
    text = json.dumps([c for c in categories if c[1]], separators=(",", ":"), ensure_ascii=False).encode() if mapped else b""
    out.gamma(len(text))
    out.raw(text)


def read_rule(source: BitReader, n_features: int) -> InputRule:
    """Read what `write_rule` wrote.

    Raises
    ------
    FileFormatError
        If it names columns that do not exist, or categories that are neither text nor numbers.
    """
    double, no_nan, no_infinity, absent = (source.flag() for _ in range(4))
    zero = source.number(2)
    first = source.number(2) if double else 0
    has_missing, has_categories = source.flag(), source.flag()
    missing = _DOUBLE.unpack(source.raw(8))[0] if has_missing else float("nan")
    unknown, are_codes, negative, no_missing = 0, False, False, False
    columns: set[int] = set()
    maps: tuple[tuple[int, tuple[Category, ...]], ...] = ()
    if has_categories:
        unknown, are_codes, negative, no_missing = source.number(2), source.flag(), source.flag(), source.flag()
        columns = {source.gamma(n_features - 1, "column") for _ in range(source.gamma(n_features, "number of categorical columns"))}
        maps = _maps(source.raw(source.gamma(source.n_left // 8, "length of the categories")), n_features)
    if zero >= len(_ZERO) or first >= len(_FLOAT32_FIRST) or unknown >= len(_UNKNOWN):
        raise damaged("an input rule that does not exist")
    return InputRule(
        dtype="float64" if double else "float32",
        nan="refuse" if no_nan else "route",
        infinite="refuse" if no_infinity else "route",
        missing_value=missing,
        zero=_ZERO[zero],  # type: ignore[arg-type]
        absent="missing" if absent else "zero",
        categorical=tuple(sorted(columns | {j for j, _ in maps})),
        categories=maps,
        unknown_category=_UNKNOWN[unknown],  # type: ignore[arg-type]
        missing_category="refuse" if no_missing else "route",
        numbers_are_codes=are_codes,
        negative_fraction_is_zero=negative,
        float32_first=_FLOAT32_FIRST[first],  # type: ignore[arg-type]
    )


def _maps(text: bytes, n_features: int) -> tuple[tuple[int, tuple[Category, ...]], ...]:
    if not text:
        return ()
    try:
        plain = json.loads(text)
        maps = tuple((j, tuple(values)) for j, values in plain)
    except (TypeError, ValueError, RecursionError) as error:
        raise damaged(f"categories that cannot be read ({error})") from error
    for j, values in maps:
        if not isinstance(j, int) or isinstance(j, bool) or not 0 <= j < n_features:
            raise damaged(f"categories of column {j!r}")
        if not all(isinstance(v, (str, float, int, bool)) for v in values):
            raise damaged("categories that are neither text nor numbers")
    return maps
