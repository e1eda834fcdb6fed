"""`Preprocess`: from the rows that a user passes to the inputs of a net, as part of the student.

Numbers are imputed (and a missing value may be an input of its own); categories are one-hot by value. Scaling is no step here: it is
folded into the first layer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from treespec.errors import DataMismatchError
from treespec.ir.table import Table, is_missing, read_table, without
from treespec.students.outcome import Outcome

Value = str | float
Kind = Literal["unused", "number", "category"]


@dataclass(frozen=True, slots=True)
class Column:
    """What becomes of one column of the rows.

    Attributes
    ----------
    kind : {"unused", "number", "category"}
    fill : float
        What replaces a missing number; NaN where there was none at training, so that one is an error.
    indicator : bool
        Whether a missing value is an input of its own (1 where missing).
    low, high : float
        Numbers are cut to this range, where a few far outliers would rule the net; infinities for no cut.
    values : tuple of str or float
        Categories that are inputs of their own, in order; any other value is all zeros.
    """

    kind: Kind = "number"
    fill: float = float("nan")
    indicator: bool = False
    low: float = float("-inf")
    high: float = float("inf")
    values: tuple[Value, ...] = ()

    @property
    def is_cut(self) -> bool:
        """Whether numbers are cut to a range."""
        return not (np.isneginf(self.low) and np.isposinf(self.high))

    @property
    def n_inputs(self) -> int:
        """Number of inputs that the column becomes."""
        if self.kind == "unused":
            return 0
        return (1 if self.kind == "number" else len(self.values)) + self.indicator


class Preprocess:
    """Turns rows into the (n, n_inputs) float32 inputs of a net.

    Parameters
    ----------
    columns : tuple of Column
        One for each column of the rows.
    """

    def __init__(self, columns: tuple[Column, ...]) -> None:
        self.columns = columns
        self.n_inputs = sum(c.n_inputs for c in columns)

    @property
    def is_binary(self) -> NDArray[np.bool_]:
        """(n_inputs,) True for inputs that are 0 or 1."""
        flags: list[bool] = []
        for c in self.columns:
            flags += [False] * (c.kind == "number") + [True] * (c.n_inputs - (c.kind == "number"))
        return np.array(flags, dtype=bool)

    def __call__(self, X: Any, outcome: Outcome) -> NDArray[np.float32]:
        """Return the inputs for rows (array, sparse matrix or frame).

        Raises
        ------
        DataMismatchError
            If columns differ, hold text where numbers were, or a value is missing in a column that had none at training.
        """
        table = without(read_table(X, outcome.n_features, outcome.feature_names, absent=outcome.absent), outcome.missing_value)
        out = np.zeros((table.n_rows, self.n_inputs), np.float32)
        at = 0
        for j, column in enumerate(self.columns):
            if column.kind == "number":
                _number(table, j, column, out[:, at : at + column.n_inputs])
            elif column.kind == "category":
                _category(table, j, column, out[:, at : at + column.n_inputs])
            at += column.n_inputs
        return out


def _number(table: Table, j: int, column: Column, out: NDArray[np.float32]) -> None:
    values = table.numbers(j)
    missing = np.isnan(values)
    if missing.any():
        if np.isnan(column.fill):
            raise DataMismatchError.expected(
                f"no missing values in column {table.name(j)} (it had none where the student was distilled)",
                f"{int(missing.sum())} of them, the first in row {int(missing.argmax())}",
                "impute them, or distil on rows where the column has missing values",
            )
        values = np.where(missing, column.fill, values)
    out[:, 0] = np.clip(values, max(column.low, -_LARGEST), min(column.high, _LARGEST))
    if column.indicator:
        out[:, 1] = missing


_LARGEST = float(np.finfo(np.float32).max)


def _category(table: Table, j: int, column: Column, out: NDArray[np.float32]) -> None:
    keys, missing = category_keys(table.values(j), text=bool(column.values) and isinstance(column.values[0], str))
    for k, value in enumerate(column.values):
        out[:, k] = keys == value
    if column.indicator:
        out[:, len(column.values)] = missing


def category_keys(values: NDArray[Any], *, text: bool) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """Return values in the form in which categories are compared (text, or numbers), and which of them are missing."""
    if values.dtype.kind in "fiub":
        numbers = values.astype(np.float64)
        return numbers, np.isnan(numbers)
    missing = np.array([is_missing(v) for v in values], dtype=bool)
    if text:
        return np.array(["" if m else str(v) for v, m in zip(values, missing, strict=True)], dtype=object), missing
    return np.array([np.nan if m else _as_number(v) for v, m in zip(values, missing, strict=True)]), missing


def _as_number(value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        return float("inf")  # text where numbers were the categories: none of them
