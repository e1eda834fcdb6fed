"""C99 code of an input rule: what a missing value is, codes of categories, rows that the model refuses."""

from __future__ import annotations

import numpy as np

from treespec.ir import InputRule
from treespec.students.c_code import c_number

_TINY = "v <= (REAL)1.0000000180025095e-35f && v >= (REAL)-1.0000000180025095e-35f"


def value_code(rule: InputRule, integer: bool) -> str:
    """Return C for the value of a column as it is compared: missing values NaN (the least integer), categories as codes."""
    missing = "INT32_MIN" if integer else "NAN"
    lines = []
    for j, values in rule.categories:
        if rule.numbers_are_codes or not values:
            continue
        if all(isinstance(c, str) for c in values):
            if rule.unknown_category == "missing":
                lines.append(f"    if (j == {j} && !(v >= 0 && v < {len(values)})) v = {missing};\n")
            continue
        tests = "".join(f"v == {_category(float(c), integer)} ? {k} : " for k, c in enumerate(values) if _possible(c, integer))
        unknown = missing if rule.unknown_category == "missing" else str(len(values))
        known = "v != INT32_MIN" if integer else "v == v"
        lines.append(f"    if (j == {j} && {known}) v = (REAL)({tests}{unknown});\n")
    if not np.isnan(rule.missing_value):
        lines.append(f"    if (v == {_missing_number(rule, integer)}) v = {missing};\n")
    if rule.zero != "keep":
        others = "".join(f"j != {j} && " for j in rule.categorical)
        lines.append(f"    if ({others}{'v == 0' if integer else _TINY}) v = {missing if rule.zero == 'missing' else '0'};\n")
    if rule.negative_fraction_is_zero and rule.categorical and not integer:
        some = " || ".join(f"j == {j}" for j in rule.categorical)
        lines.append(f"    if (({some}) && v > -1 && v < 0) v = 0;\n")
    return f"\nstatic REAL value(const INPUT *x, unsigned j)\n{{\n    REAL v = (REAL)x[j];\n{''.join(lines)}    return v;\n}}\n"


def _missing_number(rule: InputRule, integer: bool) -> str:
    if integer:
        return str(int(rule.missing_value))
    return c_number(np.float32(rule.missing_value) if rule.dtype == "float32" else np.float64(rule.missing_value))


def _possible(value: object, integer: bool) -> bool:
    return not isinstance(value, str) and (not integer or (float(value) == int(float(value)) and abs(float(value)) < 1 << 31))  # type: ignore[arg-type]


def _category(value: float, integer: bool) -> str:
    return str(int(value)) if integer else c_number(np.float64(value))


def refused_code(rule: InputRule, integer: bool) -> str:
    """Return C that tells whether the model refuses a row."""
    tests = []
    if rule.nan == "refuse":
        missing = "" if np.isnan(rule.missing_value) else f" || x[j] == {_missing_number(rule, integer)}"
        tests.append(("x[j] == INT32_MIN" if integer else "x[j] != x[j]") + missing)
    if rule.missing_category == "refuse":
        tests += [f"(j == {j} && {'x[j] == INT32_MIN' if integer else 'x[j] != x[j]'})" for j in rule.categorical]
    if rule.infinite == "refuse" and not integer:
        tests.append("x[j] > 3.402823466e38f || x[j] < -3.402823466e38f")
    body = f"    unsigned j;\n    for (j = 0; j < N_FEATURES; j++) if ({' || '.join(tests)}) return 1;\n" if tests else "    (void)x;\n"
    return f"\nstatic int refused(const INPUT *x)\n{{\n{body}    return 0;\n}}\n"


def notes(rule: InputRule) -> list[str]:
    """Return what a caller must know of the columns."""
    out = []
    for j, values in rule.categories:
        if values and all(isinstance(c, str) for c in values):
            listed = ", ".join(f"{k} = {c}" for k, c in enumerate(values))
            out.append(f"x[{j}] is a code: {listed}; {_unknown(rule, len(values))}")
    if not np.isnan(rule.missing_value):
        out.append(f"{rule.missing_value} means missing, as does NaN")
    if rule.nan == "refuse":
        out.append("the model takes no missing values: a row with one gives NaN")
    if rule.missing_category == "refuse" and rule.categorical:
        out.append("the model takes no missing categories: a row with one gives NaN")
    if rule.infinite == "refuse":
        out.append("the model takes no infinities: a row with one gives NaN")
    return out


def _unknown(rule: InputRule, n: int) -> str:
    return f"{n} for any other, which is missing then" if rule.unknown_category == "missing" else f"{n} for any other"
