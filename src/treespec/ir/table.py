"""Rows as the caller holds them (array, sparse matrix, frame), read as columns."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from treespec.errors import DataMismatchError

_LISTED = 5  # names shown in a message
_LARGEST_INTEGER = 2**53  # up to here float64 has all integers
_ROWS = "an array, a sparse matrix or an eager data frame (pandas, polars, Arrow)"
_ROWS_HINT = "collect a lazy frame first, or pass a numpy array of shape (n, n_features)"


@dataclass(frozen=True, slots=True)
class Table:
    """Columns of the caller's rows, in the order of the model.

    Attributes
    ----------
    n_rows, n_columns : int
    matrix : ndarray of shape (n_rows, n_columns) or None
        All columns at once, where they are numbers of one type.
    columns : tuple of ndarray
        Otherwise one array a column, of numbers or of objects.
    names : tuple of str or None
    floats : bool
        Whether the rows came as float32, float64 or a frame; else they are an array or list of other numbers or objects.
    stored : bool
        Whether they came entry by entry (row-wise sparse matrix, Arrow table).
    numbers_are_values : bool
        Whether they are of a frame whose categories are never numbers (polars), so that a column of numbers holds values and not codes.
    """

    n_rows: int
    n_columns: int
    matrix: NDArray[Any] | None
    columns: tuple[NDArray[Any], ...]
    names: tuple[str, ...] | None
    floats: bool = True
    stored: bool = False
    numbers_are_values: bool = False

    def name(self, j: int) -> str:
        """Return how a message calls column ``j``."""
        return repr(self.names[j]) if self.names else str(j)

    def values(self, j: int) -> NDArray[Any]:
        """Return column ``j`` as it came."""
        return self.matrix[:, j] if self.matrix is not None else self.columns[j]

    def numbers(self, j: int) -> NDArray[np.float64]:
        """Return column ``j`` as float64, missing values as NaN; text is an error."""
        column = self.values(j)
        if column.dtype.kind in "fiub":
            return column.astype(np.float64)
        out = np.empty(len(column))
        for i, value in enumerate(column):
            if isinstance(value, (str, bytes)) or not _is_number(value):
                raise DataMismatchError.expected(
                    f"numbers in column {self.name(j)}",
                    f"{value!r} in row {i}",
                    "the model split this column as a number; encode it as before training, or pass the columns in the model's order",
                )
            out[i] = np.nan if is_missing(value) else float(value)
        return out


def is_missing(value: Any) -> bool:
    """Tell whether an object is a missing value (None, NaN, NA, NaT)."""
    if value is None:
        return True
    try:
        return bool(value != value)
    except TypeError:  # pandas.NA has no truth value
        return True
    except ValueError:  # an array in a cell
        return False


def beyond_float64(values: NDArray[Any]) -> NDArray[np.bool_]:
    """Tell which values are integers so large that float64 may not tell them from their neighbours: beyond 2^53."""
    if values.dtype.kind == "O":
        return np.array([isinstance(v, (int, np.integer)) and abs(int(v)) > _LARGEST_INTEGER for v in values], dtype=bool)
    if values.dtype.kind not in "iu":
        return np.zeros(values.shape, bool)
    return (values > _LARGEST_INTEGER) | (values < -_LARGEST_INTEGER)


def _is_number(value: Any) -> bool:
    return value is None or isinstance(value, (int, float, np.number, np.bool_)) or type(value).__name__ in {"NAType", "Decimal"}


def read_table(
    X: Any, n_features: int, feature_names: tuple[str, ...] | None = None, *, absent: Literal["zero", "missing", "refuse"] = "zero"
) -> Table:
    """Read rows from an array, a sparse matrix or a data frame.

    Parameters
    ----------
    X : array-like, scipy sparse matrix, or pandas, polars or Arrow frame of shape (n, n_features)
    n_features : int
        Columns that the model has.
    feature_names : tuple of str, optional
        Frames are matched by these names; without them by position.
    absent : {"zero", "missing", "refuse"}
        What an entry that a sparse matrix does not store means.

    Raises
    ------
    DataMismatchError
        If X is not two-dimensional or its columns are not the model's.
    """
    if hasattr(X, "tocsr") and hasattr(X, "nnz"):
        if absent == "refuse":
            raise DataMismatchError.expected(
                "a dense array or frame",
                "a sparse matrix, whose absent or tiny entries mean different things to the members of the model",
                "pass X.toarray(), with NaN where values are missing",
            )
        return replace(_of_array(_densify(X, absent), n_features), stored=not _by_columns(X))
    if isinstance(X, np.ndarray) or not _is_frame(X):
        return _of_array(X, n_features)
    return _of_frame(X, n_features, feature_names)


def _by_columns(X: Any) -> bool:
    """Tell whether a sparse matrix is one that LightGBM reads by columns: it makes rows of all others."""
    return getattr(X, "format", "") == "csc" and type(X).__name__ == "csc_matrix"


def without(table: Table, missing_value: float) -> Table:
    """Return the table with NaN where a number, rounded to float32 as XGBoost does, is the one that means missing."""
    if np.isnan(missing_value):
        return table

    def cleared(values: NDArray[Any]) -> NDArray[Any]:
        if values.dtype.kind not in "fiub":
            return values
        with np.errstate(over="ignore"):
            return np.where(values.astype(np.float32) == np.float32(missing_value), np.nan, values)

    matrix = None if table.matrix is None else cleared(table.matrix)
    return replace(table, matrix=matrix, columns=tuple(map(cleared, table.columns)))


def _is_frame(X: Any) -> bool:
    return hasattr(type(X), "columns")  # asked of the type: a lazy frame would have to look at its data


def _densify(X: Any, absent: str) -> NDArray[np.float64]:
    coo = X.tocsr().tocoo()  # entries that a matrix of coordinates stores twice are added up, whatever absent ones mean
    dense = np.full(coo.shape, np.nan if absent == "missing" else 0.0)
    if absent == "zero":
        np.add.at(dense, (coo.row, coo.col), coo.data)
    else:
        dense[coo.row, coo.col] = coo.data
    return dense


def _of_array(X: Any, n_features: int) -> Table:
    try:
        array = np.asarray(X)
    except ValueError as error:
        raise DataMismatchError.expected(
            "a two-dimensional array or frame", f"rows of different lengths ({error})", "pass one row a sample"
        ) from None
    if array.ndim != 2:
        raise DataMismatchError.expected(
            f"a two-dimensional X of shape (n, {n_features})",
            f"shape {array.shape}",
            "for one row pass X.reshape(1, -1)",
        )
    _check_width(array.shape[1], n_features)
    if array.dtype.kind in "fiub":
        return Table(array.shape[0], n_features, array, (), None, floats=array.dtype in (np.float32, np.float64))
    if array.dtype.kind not in "OUS":
        raise DataMismatchError.expected(
            "numbers or categories", f"an array of type {array.dtype}", "convert dates and complex values to numbers as before training"
        )
    return Table(array.shape[0], n_features, None, tuple(array[:, j].astype(object) for j in range(n_features)), None, floats=False)


def _of_frame(X: Any, n_features: int, feature_names: tuple[str, ...] | None) -> Table:
    import narwhals as nw
    from narwhals.exceptions import DuplicateError

    try:
        frame = nw.from_native(X, eager_only=True)
    except DuplicateError as error:
        raise DataMismatchError.expected(
            "a frame whose columns have different names",
            f"the {' '.join(str(error).split(':', 1)[-1].split())}",
            "rename or drop the duplicated columns",
        ) from None
    except TypeError:
        raise DataMismatchError.expected(_ROWS, _type_name(X), _ROWS_HINT) from None
    names = [str(c) for c in frame.columns]
    if feature_names is not None:
        if not set(feature_names) <= set(names):  # LightGBM writes blanks in names as underscores
            plain = [c.replace(" ", "_") for c in names]
            names = plain if set(plain) == set(feature_names) and len(set(plain)) == len(names) else names
        _check_names(names, feature_names)
        order = [names.index(c) for c in feature_names]
    else:
        _check_width(len(names), n_features)
        order = list(range(n_features))
    columns = tuple(_column(frame[:, j]) for j in order)
    kind = frame.implementation
    found = tuple(names[j] for j in order)
    return Table(len(frame), n_features, None, columns, found, stored=kind.is_pyarrow(), numbers_are_values=kind.is_polars())


def _column(series: Any) -> NDArray[Any]:
    """Return a frame's column as float64 (missing is NaN), as integers where some are `beyond_float64`, or as objects (missing is None)."""
    import narwhals as nw

    dtype = series.dtype
    if dtype == nw.Boolean or dtype.is_numeric():
        if series.null_count():
            series = series.cast(nw.Float64) if not dtype.is_float() else series
        values = np.asarray(series.to_numpy())
        return values if beyond_float64(values).any() else values.astype(np.float64, copy=False)
    if dtype == nw.Categorical or dtype == nw.Enum or dtype == nw.String or dtype == nw.Object:
        return np.array(series.to_list(), dtype=object)
    raise DataMismatchError.expected(
        f"numbers or categories in column {series.name!r}",
        f"type {dtype}",
        "turn dates and times into numbers as before training, and sparse columns of pandas into dense ones (X.sparse.to_dense())",
    )


def _check_width(came: int, n_features: int) -> None:
    if came != n_features:
        raise DataMismatchError.expected(
            f"{n_features} columns (the model's features)", f"{came}", "pass the columns that the model was fitted on, in their order"
        )


def _check_names(names: list[str], feature_names: tuple[str, ...]) -> None:
    missing = [c for c in feature_names if c not in set(names)]
    extra = [c for c in names if c not in set(feature_names)]
    for title, found in (("missing columns", missing), ("columns that the model does not know", extra)):
        if found:
            shown = ", ".join(map(repr, found[:_LISTED])) + (f" and {len(found) - _LISTED} more" if len(found) > _LISTED else "")
            raise DataMismatchError.expected(
                f"a frame with the model's {len(feature_names)} columns",
                f"{title} {shown}",
                "select the model's columns by name (their order does not matter)",
            )


def n_rows(X: Any) -> int:
    """Return the number of rows of an array, sparse matrix or frame.

    Raises
    ------
    DataMismatchError
        If X has no length: a number, an iterator, a lazy frame, a framework's own data set.
    """
    shape = getattr(X, "shape", None)
    if shape:
        return int(shape[0])
    if shape is None and hasattr(X, "__len__"):
        return len(X)
    raise DataMismatchError.expected(_ROWS, "a single value" if shape == () else _type_name(X), _ROWS_HINT)


def _type_name(X: Any) -> str:
    return f"{type(X).__module__}.{type(X).__qualname__}"


def take(X: Any, rows: Any) -> Any:
    """Return the given rows (indices or slice) of an array, sparse matrix or frame, as the same kind."""
    if hasattr(X, "iloc"):
        return X.iloc[rows]
    if hasattr(X, "take") and hasattr(X, "column_names"):  # Arrow
        return X.take(np.arange(n_rows(X))[rows])
    if hasattr(X, "tocsr"):
        return X.tocsr()[rows].asformat(X.format)
    if isinstance(X, (list, tuple)):
        return np.asarray(X)[rows]
    return X[rows]
