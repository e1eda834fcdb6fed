"""The input rule of a forest: how the caller's values become the numbers that are compared with thresholds.

Frameworks differ more here than anywhere else (`float32` or `float64`, what zero means, what an unseen category is). A
forest carries its rule as data, `encode` applies it, and after that one comparison serves every framework.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from treespec.errors import DataMismatchError
from treespec.ir.table import Table, beyond_float64, is_missing, read_table

ZERO_THRESHOLD = 1.0000000180025095e-35
"""LightGBM treats every value of at most this magnitude as zero (the float32 1e-35 as a double)."""

Category = str | float | bool


@dataclass(frozen=True, slots=True)
class InputRule:
    """How raw values become the matrix that is routed.

    Parameters
    ----------
    dtype : {"float32", "float64"}
        Type that values are rounded to before they are compared (with float64 thresholds).
    nan : {"route", "refuse"}
        Whether a missing value follows `Forest.default_left` or is an error, as in the framework.
    infinite : {"route", "refuse"}
        The same for infinities (and values beyond the range of ``dtype``).
    missing_value : float
        A further value that means "missing" (``missing=-999`` of XGBoost); NaN for none.
    zero : {"keep", "flush", "missing"}
        What happens to a value of magnitude up to `ZERO_THRESHOLD` in a numerical column: nothing, it becomes 0 (LightGBM, but not
        for the entries of row-wise sparse matrices and Arrow tables), or it is missing (LightGBM with ``zero_as_missing``).
    absent : {"zero", "missing", "refuse"}
        What an entry that a sparse matrix does not store means; several models may disagree about it.
    categorical : tuple of int
        Columns that hold categories.
    categories : tuple of (int, tuple) pairs
        For some of those columns, the value that each code 0, 1, ... stands for; columns not listed hold the codes themselves.
    unknown_category : {"other", "missing", "refuse"}
        Whether a value outside ``categories`` is a category that no split lists, is missing, or is an error (XGBoost).
    missing_category : {"route", "refuse"}
        Whether a missing value in one of ``categorical`` follows `Forest.default_left` or is an error (CatBoost).
    numbers_are_codes : bool
        Whether numbers in the columns of ``categories`` are codes already, and an error in frames (but for polars, which has no
        categories that are numbers); else they are values. (XGBoost and LightGBM translate the categories of frames only.)
    negative_fraction_is_zero : bool
        Whether a code in (-1, 0) is category 0 (the C cast of LightGBM).
    float32_first : {"never", "numbers", "all"}
        Which arrays and lists are rounded to float32 before all else, whatever ``dtype`` is, so that integers beyond 2^24 lose digits:
        none; those of numbers that are neither float32 nor float64 (LightGBM's wrappers); those of objects as well (its boosters).
    """

    dtype: Literal["float32", "float64"] = "float64"
    nan: Literal["route", "refuse"] = "route"
    infinite: Literal["route", "refuse"] = "route"
    missing_value: float = float("nan")
    zero: Literal["keep", "flush", "missing"] = "keep"
    absent: Literal["zero", "missing", "refuse"] = "zero"
    categorical: tuple[int, ...] = ()
    categories: tuple[tuple[int, tuple[Category, ...]], ...] = ()
    unknown_category: Literal["other", "missing", "refuse"] = "other"
    missing_category: Literal["route", "refuse"] = "route"
    numbers_are_codes: bool = False
    negative_fraction_is_zero: bool = False
    float32_first: Literal["never", "numbers", "all"] = "never"

    def encode(self, X: Any, n_features: int, feature_names: tuple[str, ...] | None = None) -> NDArray[np.floating[Any]]:
        """Return the (n, n_features) C-contiguous matrix of type ``dtype`` that is routed.

        Parameters
        ----------
        X : array-like, sparse matrix or data frame of shape (n, n_features)
            Frames are matched by column name where ``feature_names`` are known, else by position.
        n_features : int
        feature_names : tuple of str, optional

        Raises
        ------
        DataMismatchError
            If the number or the names of columns differ, a numerical column holds text, or a value is refused by the rule.

        Notes
        -----
        One pass and one copy of the rows; numpy input that needs no change is not copied.
        """
        table = read_table(X, n_features, feature_names, absent=self.absent)
        values = self._numbers(table)
        if not table.floats and (self.float32_first == "all" or (self.float32_first == "numbers" and table.matrix is not None)):
            values = values.astype(np.float32)
        own = values is not table.matrix  # may be changed in place
        if not np.isnan(self.missing_value):
            dtype = np.dtype(self.dtype)
            with np.errstate(over="ignore"):
                values = np.where(values.astype(dtype) == dtype.type(self.missing_value), np.nan, values)
            own = True
        if self.zero == "missing" or (self.zero == "flush" and not table.stored):
            tiny = np.abs(values) <= ZERO_THRESHOLD
            tiny[:, list(self.categorical)] = False
            if tiny.any():
                values = np.where(tiny, np.nan if self.zero == "missing" else 0.0, values)
                own = True
        if self.negative_fraction_is_zero and self.categorical:
            columns = list(self.categorical)
            part = values[:, columns]
            hit = (part > -1) & (part < 0)
            if hit.any():
                values = values if own else values.copy()
                values[:, columns] = np.where(hit, 0.0, part)
        with np.errstate(over="ignore"):  # checked below
            cast = np.ascontiguousarray(values, dtype=self.dtype)
        self._refuse(cast, table)
        return cast

    def _numbers(self, table: Table) -> NDArray[np.floating[Any]]:
        """Return all columns as numbers: category values become codes."""
        known = dict(self.categories)
        if table.matrix is not None and not known:
            return table.matrix
        columns = []
        for j in range(table.n_columns):
            if j in known:
                columns.append(self._codes(table, j, known[j]))
            else:
                columns.append(table.numbers(j))
        return np.column_stack(columns) if columns else np.empty((table.n_rows, 0))

    def _codes(self, table: Table, j: int, categories: tuple[Category, ...]) -> NDArray[np.float64]:
        """Return the code of each value: NaN where it is missing or (by the rule) unknown, else ``len(categories)``."""
        values, name = table.values(j), table.name(j)
        if self.numbers_are_codes and values.dtype.kind in "fiub" and not table.numbers_are_values:
            if table.names is not None:
                raise DataMismatchError.expected(
                    f"the categories of training in column {name}",
                    "a column of numbers, which may be values or codes",
                    "give the frame's column the type category, as at training, or pass an array with the codes",
                )
            return values.astype(np.float64)
        self._refuse_large(values, name)
        unknown = np.nan if self.unknown_category == "missing" else float(len(categories))
        code = {_key(value): float(k) for k, value in enumerate(categories)}
        if values.dtype.kind in "fiub":
            if categories and all(isinstance(c, str) for c in categories):
                raise DataMismatchError.expected(
                    f"values such as {categories[0]!r} in the categorical column {name}",
                    f"numbers ({values.dtype})",
                    "pass the column as it was at training, as text or as a frame's category, not its codes",
                )
            distinct, where = np.unique(values.astype(np.float64), return_inverse=True)
            found = np.asarray([np.nan if np.isnan(v) else code.get(float(v), unknown) for v in distinct], dtype=np.float64)[where].tolist()
        else:
            found = [np.nan if is_missing(v) else code.get(_key(v), unknown) for v in values]
        if self.unknown_category == "refuse" and unknown in found:
            raise DataMismatchError.expected(
                f"the {len(categories)} categories of training in column {name}",
                f"{values[found.index(unknown)]!r} in row {found.index(unknown)}",
                "the framework rejects such rows too; make unknown values missing",
            )
        return np.array(found, dtype=np.float64)

    @staticmethod
    def _refuse_large(values: NDArray[Any], name: str) -> None:
        """Raise where a category is an integer that frameworks look up as a float: what they find depends on the rows beside it."""
        large = beyond_float64(values)
        if large.any():
            raise DataMismatchError.expected(
                f"integers of magnitude up to 2^53 in the categorical column {name}",
                f"{values[large][0]!s} in row {int(large.argmax())}, which float64 does not tell from its neighbours",
                "pass such identifiers as text, at training as well, or the column as float64 where they are unknown to the model",
            )

    def _refuse(self, cast: NDArray[Any], table: Table) -> None:
        """Raise where the framework would refuse a value."""
        if self.nan == "refuse":
            bad = np.isnan(cast).any(axis=0)
            if bad.any():
                raise DataMismatchError.expected(
                    "no missing values (the model was fitted without support for them)",
                    f"NaN in column {table.name(int(bad.argmax()))}",
                    "impute the column as before training",
                )
        if self.missing_category == "refuse":
            bad = np.isnan(cast[:, list(self.categorical)]).any(axis=0)
            if bad.any():
                raise DataMismatchError.expected(
                    "categories in every row (the framework takes no missing ones)",
                    f"a missing value in column {table.name(self.categorical[int(bad.argmax())])}",
                    "give missing categories a name of their own, as before training",
                )
        if self.infinite == "refuse":
            bad = np.isinf(cast).any(axis=0)
            if bad.any():
                raise DataMismatchError.expected(
                    f"finite values within the range of {self.dtype}",
                    f"a value too large in column {table.name(int(bad.argmax()))}",
                    "the framework rejects such rows too; clip or drop them",
                )


def _key(value: Any) -> Category:
    """Return the form in which category values are compared: text as text, numbers as floats."""
    if isinstance(value, (str, np.str_)):
        return str(value)
    if isinstance(value, (bool, np.bool_)):
        return float(value)
    try:
        return float(value)
    except (TypeError, ValueError):
        return str(value)
