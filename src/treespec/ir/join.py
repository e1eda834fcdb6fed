"""Several forests as one: their trees side by side, under one input rule."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treespec.errors import TreespecError, UnsupportedModelError
from treespec.ir.forest import LEAF, Forest
from treespec.ir.inputs import ZERO_THRESHOLD, InputRule

_BEYOND = 2.0**128  # where float32 would go on
_CHILDREN = ("left", "right")
_SIDE_BY_SIDE = ("left", "right", "feature", "threshold", "default_left", "category", "category_left", "categorical")


def join(forests: Sequence[Forest], value: NDArray[np.float64], **changes: Any) -> Forest:
    """Return one forest with the trees of all, in order, and new node values.

    Parameters
    ----------
    forests : sequence of Forest
        Of the same input columns.
    value : (n_nodes, n_outputs) array
        For the nodes of all forests, one after the other.
    **changes
        Further fields of the result, such as ``base_score`` and ``link``.

    Raises
    ------
    UnsupportedModelError
        If the forests read their input so differently that no one rule routes every row as each does.

    Notes
    -----
    Where some forests read float32 and others float64, the thresholds of the former become the float64 numbers at which rounding to
    float32 changes sides, so that every row goes where it went. Statistics of training (cover, count, gain, impurity) and native leaf
    ids are left out. Values that one of the forests refuses are refused, save those beyond the range of float32 where others read
    float64: these go where infinities go.
    """
    first = forests[0]
    if len(forests) == 1:
        return first.with_values(value, **changes)
    rule = _common_rule(forests)
    wide = [_widened(f) if f.inputs.dtype != rule.dtype else f for f in forests]
    nodes = np.cumsum([0, *(f.n_nodes for f in wide)])
    arrays: dict[str, Any] = {name: np.concatenate([getattr(f, name) for f in wide]) for name in _SIDE_BY_SIDE}
    for name in _CHILDREN:
        shift = np.repeat(nodes[:-1], [f.n_nodes for f in wide])
        arrays[name] = np.where(arrays[name] == LEAF, LEAF, arrays[name] + shift)
    return Forest(
        tree_offset=_chained([f.tree_offset for f in wide]),
        category_offset=_chained([f.category_offset for f in wide]),
        value=value,
        inputs=rule,
        n_features=first.n_features,
        feature_names=_common_names(forests),
        **arrays,
        **changes,
    )


def _chained(offsets: Sequence[NDArray[np.int64]]) -> NDArray[np.int64]:
    ends = np.cumsum([0, *(o[-1] for o in offsets)])
    return np.concatenate([[0], *(o[1:] + end for o, end in zip(offsets, ends[:-1], strict=True))])


def _common_rule(forests: Sequence[Forest]) -> InputRule:
    """Return the rule under which every forest routes as under its own; refuses where there is none."""
    rules = [f.inputs for f in forests]
    rule = replace(
        rules[0],
        dtype="float32" if all(r.dtype == "float32" for r in rules) else "float64",
        nan="refuse" if any(r.nan == "refuse" for r in rules) else "route",
        infinite="refuse" if any(r.infinite == "refuse" for r in rules) else "route",
        zero="flush" if any(r.zero == "flush" for r in rules) else rules[0].zero,
    )
    free = ("dtype", "nan", "infinite", "zero")
    for field in fields(InputRule):
        came = [getattr(r, field.name) for r in rules]
        if field.name not in free and any(repr(c) != repr(came[0]) for c in came):  # NaN marks "none"
            raise _differ(field.name, came)
    if len({r.zero == "missing" for r in rules}) > 1 or any(
        r.zero != rule.zero and not _ignores_tiny(f) for f, r in zip(forests, rules, strict=True)
    ):
        raise _differ("zero", [r.zero for r in rules])
    if any(r.dtype != rule.dtype for r in rules) and not np.isnan(rule.missing_value):
        raise _differ("dtype", [r.dtype for r in rules])
    return rule


def _differ(name: str, came: Sequence[object]) -> TreespecError:
    return UnsupportedModelError.expected(
        "ensembles that read their input alike, to make one forest of them",
        f"{name} {came}",
        "fit KPP on one of them; predict(), attribute() and raw_certificate() work for several",
    )


def _ignores_tiny(forest: Forest) -> bool:
    """Tell whether values that are almost 0 go where 0 goes."""
    t = forest.threshold[~forest.is_leaf & ~forest.categorical]
    return not bool(((t >= -ZERO_THRESHOLD) & (t < ZERO_THRESHOLD)).any())


def _common_names(forests: Sequence[Forest]) -> tuple[str, ...] | None:
    names = {f.feature_names for f in forests if f.feature_names is not None}
    if len(names) > 1:
        raise _differ("feature names", [n[:3] for n in sorted(names)])
    return names.pop() if names else None


def _widened(forest: Forest) -> Forest:
    """Return a forest that compares float64 values and sends them where they went when they were rounded to float32 first."""
    t = forest.threshold
    with np.errstate(over="ignore"):
        below = t.astype(np.float32)
        below = np.where(below > t, np.nextafter(below, np.float32(-np.inf)), below)
        above = np.nextafter(below, np.float32(np.inf))
    ends = [np.clip(side.astype(np.float64), -_BEYOND, _BEYOND) for side in (below, above)]
    middle = (ends[0] + ends[1]) / 2
    even = (below.view(np.int32) & 1) == 0  # a value half way rounds to the even neighbour
    wide = np.where(even, middle, np.nextafter(middle, -np.inf))
    wide = np.where(np.isnan(t) | np.isposinf(t), t, wide)
    return replace(forest, threshold=wide, inputs=replace(forest.inputs, dtype="float64"))
