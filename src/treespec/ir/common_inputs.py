"""One input rule for several forests: what can be moved into thresholds exactly is moved, what cannot be is refused."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from treespec.errors import UnsupportedModelError
from treespec.ir.forest import Forest
from treespec.ir.inputs import ZERO_THRESHOLD, InputRule

_OF_CATEGORIES = ("categorical", "categories", "unknown_category", "missing_category", "numbers_are_codes", "negative_fraction_is_zero")


def with_common_inputs(forests: Sequence[Forest], what: str) -> list[Forest]:
    """Return forests that route all rows as the given ones do, with one `InputRule` for all.

    Where some compare float32 values and others float64, all compare float64: a value is at most ``t`` after rounding to float32 iff it is
    at most the largest double that rounds to at most ``t``. Zeros that some flush (LightGBM) become thresholds likewise. A missing value
    or an infinity that one model refuses is refused.

    Parameters
    ----------
    forests : sequence of Forest
        Over the same columns.
    what : str
        For messages: what the forests are members of.

    Raises
    ------
    UnsupportedModelError
        If they read missing values, zeros or categories in ways that no one rule has.
    """
    rules = [f.inputs for f in forests]
    if all(repr(rule) == repr(rules[0]) for rule in rules):
        return list(forests)
    if len({repr(rule.missing_value) for rule in rules}) > 1:
        raise _refused(what, f"missing values of {sorted({repr(rule.missing_value) for rule in rules})}")
    categories = _common_categories(forests, what)
    zeros_differ = len({rule.zero for rule in rules}) > 1
    if zeros_differ and any(rule.zero == "missing" for rule in rules):
        raise _refused(what, "zeros that are missing values to some (zero_as_missing)")
    double = zeros_differ or len({rule.dtype for rule in rules}) > 1
    if double and any(rule.dtype == "float32" for rule in rules) and not np.isnan(rules[0].missing_value):
        raise _refused(what, "a missing value other than NaN, compared in float32 and in float64")
    out = [_as_double(f) if double and f.inputs.dtype == "float32" else f for f in forests]
    if zeros_differ:
        out = _with_common_zeros(out)
    rule = replace(out[0].inputs, nan=_strictest([r.nan for r in rules]), infinite=_strictest([r.infinite for r in rules]))
    absent = {f.inputs.absent for f in out}
    rule = replace(rule, absent=absent.pop() if len(absent) == 1 else "refuse")
    return [replace(f, inputs=replace(rule, **categories)) for f in out]


def _common_categories(forests: Sequence[Forest], what: str) -> dict[str, Any]:
    """Return the fields of the rule that are about categories; a model that reads those columns as numbers may not split on them."""
    own = [f for f in forests if f.inputs.categorical or f.inputs.categories]
    rules = [{name: getattr(f.inputs, name) for name in _OF_CATEGORIES} for f in own]
    if not rules:
        return {name: getattr(InputRule(), name) for name in _OF_CATEGORIES}
    columns = set(rules[0]["categorical"])
    others = [f for f in forests if all(f is not g for g in own)]
    if any(rule != rules[0] for rule in rules) or any(columns & set(f.feature.tolist()) for f in others):
        raise _refused(what, f"columns {sorted(columns)[:5]} that are categories to some and something else to others")
    return rules[0]


def _strictest(settings: Sequence[str]) -> Literal["route", "refuse"]:
    return "refuse" if "refuse" in settings else "route"


def _as_double(forest: Forest) -> Forest:
    """Return the forest with thresholds for rows that were not rounded to float32."""
    return replace(forest, threshold=largest_that_rounds_to(forest.threshold), inputs=replace(forest.inputs, dtype="float64"))


def largest_that_rounds_to(threshold: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return, for each threshold t, the largest double x whose float32 rounding (to nearest, ties to even) is at most t."""
    with np.errstate(over="ignore", invalid="ignore"):
        below = threshold.astype(np.float32)
        below = np.where(below.astype(np.float64) > threshold, np.nextafter(below, np.float32(-np.inf)), below)
        above = np.nextafter(below, np.float32(np.inf)).astype(np.float64)
    above = np.where((below == np.finfo(np.float32).max) & np.isinf(above), 2.0**128, above)  # where rounding overflows
    low = np.where(np.isneginf(below), -(2.0**128), below.astype(np.float64))
    with np.errstate(invalid="ignore"):
        middle = low + (above - low) / 2
    even = (below.view(np.int32) & 1) == 0
    out = np.where(even, middle, np.nextafter(middle, -np.inf))
    return np.where(np.isposinf(below), np.inf, np.where(np.isnan(threshold), np.nan, out))


def _with_common_zeros(forests: Sequence[Forest]) -> list[Forest]:
    """Return forests that all flush tiny values to zero, where that moves no row, else forests of which none does."""
    others = [f for f in forests if f.inputs.zero == "keep"]
    if any(((f.threshold >= -ZERO_THRESHOLD) & (f.threshold < ZERO_THRESHOLD)).any() for f in others):
        return [_unflushed(f) if f.inputs.zero == "flush" else f for f in forests]
    return [replace(f, inputs=replace(f.inputs, zero="flush")) for f in forests]


def _unflushed(forest: Forest) -> Forest:
    """Return the forest for rows whose tiny values were not made zero."""
    t = forest.threshold
    moved = np.where((t >= 0) & (t < ZERO_THRESHOLD), ZERO_THRESHOLD, t)
    moved = np.where((t < 0) & (t >= -ZERO_THRESHOLD), np.nextafter(-ZERO_THRESHOLD, -np.inf), moved)
    rule = replace(forest.inputs, zero="keep")
    if not np.array_equal(moved, t, equal_nan=True):
        rule = replace(rule, absent="refuse")  # the entries of row-wise sparse matrices are not flushed, and would go another way
    return replace(forest, threshold=moved, inputs=rule)


def _refused(what: str, came: str) -> Exception:
    return UnsupportedModelError.expected(
        f"members of a {what} that read rows alike", came, "wrap the members one by one, or fit them with one setting"
    )
