"""Which inputs a student makes of the columns of its rows: fitted on rows, within a share of the budget."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treespec.ir import Forest
from treespec.ir.table import Table, read_table, without
from treespec.students.preprocess import Column, Preprocess, Value, category_keys

_BYTES_AN_INPUT = 40  # of budget for each category: what a net of fitting width spends on one input
_FEWEST_CATEGORIES = 8
_TWO = 2
_FAR = 6.0  # standard deviations: a column with values beyond is cut
_TAIL = 0.002
_BYTES_A_CUT = 8
_CUT_SHARE, _CUT_SHARE_DRAWN = 25, 8  # at most one byte in so many goes to cuts


def fit_columns(forest: Forest, X: Any, budget: int, *, drawn: bool = False) -> Preprocess:
    """Return the preprocessing for rows X.

    Numbers are kept, imputed with their mean where any is missing (and then a missing value is an input of its own). Categories are
    one-hot: those that the forest splits as categories. Where there are more than the budget has room for, the most frequent are
    kept. Columns that no tree splits on are left out.

    Parameters
    ----------
    forest : Forest
    X : array-like or frame of shape (n, n_features)
    budget : int
        Bytes of the whole student.
    drawn : bool
        Whether the rows were drawn from the forest. They end not far beyond its outermost thresholds, where real rows may lie and the
        teacher is constant: every number is cut there, as the budget allows.
    """
    table = without(read_table(X, forest.n_features, forest.feature_names, absent=forest.inputs.absent), forest.inputs.missing_value)
    used = np.unique(forest.feature[~forest.is_leaf])
    found = {int(j): _categories(forest, table, int(j)) for j in used if int(j) in forest.inputs.categorical}
    room = max(_FEWEST_CATEGORIES, budget // _BYTES_AN_INPUT)
    most = _most_for_each([len(values) for values, _ in found.values()], room)
    columns = []
    for j in range(table.n_columns):
        if j not in used:
            columns.append(Column("unused"))
        elif j in found:
            values, missing = found[j]
            listed = values[:1] if len(values) == _TWO and not missing else values[:most]
            columns.append(Column("category", values=tuple(listed), indicator=missing))
        else:
            columns.append(_number(table.numbers(j)))
    return Preprocess(tuple(_cut(columns, table, budget, drawn=drawn)))


def _number(values: NDArray[np.float64]) -> Column:
    missing = np.isnan(values)
    if not missing.any():
        return Column("number")
    known = values[~missing & np.isfinite(values)]
    return Column("number", fill=float(np.float32(known.mean())) if len(known) else 0.0, indicator=True)


def _cut(columns: list[Column], table: Table, budget: int, *, drawn: bool) -> list[Column]:
    """Return the columns, those with the farthest outliers (of drawn rows: all) cut to all but their outermost 0.2 percent each side."""
    far: dict[int, float] = {}
    for j, column in enumerate(columns):
        if column.kind == "number":
            values = table.numbers(j)
            values = values[np.isfinite(values)]
            sd = values.std() if len(values) else 0.0
            far[j] = float(np.abs(values - values.mean()).max() / sd) if sd > 0 else 0.0
            if drawn and len(np.unique(values)) <= _TWO:
                far[j] = 0.0
    most = budget // (_CUT_SHARE_DRAWN if drawn else _CUT_SHARE) // _BYTES_A_CUT
    chosen = sorted((j for j, z in far.items() if z > (0 if drawn else _FAR)), key=lambda j: -far[j])[:most]
    for j in chosen:
        values = table.numbers(j)
        low, high = np.quantile(values[np.isfinite(values)], [_TAIL, 1 - _TAIL]).astype(np.float32).tolist()
        columns[j] = replace(columns[j], low=low, high=high)
    return columns


def _categories(forest: Forest, table: Table, j: int) -> tuple[list[Value], bool]:
    """Return the categories of a column, most frequent first, and whether any is missing."""
    known = dict(forest.inputs.categories).get(j, ())
    keys, missing = category_keys(table.values(j), text=any(isinstance(v, str) for v in known))
    distinct, times = np.unique(keys[~missing], return_counts=True)
    order = np.argsort(-times, kind="stable")
    return [str(v) if isinstance(v, str) else float(v) for v in distinct[order]], bool(missing.any())


def _most_for_each(sizes: list[int], room: int) -> int:
    """Return the largest number of categories a column such that all columns together have room."""
    most = max(sizes, default=0)
    while most > 1 and sum(min(s, most) for s in sizes) > room:
        most -= 1
    return most
