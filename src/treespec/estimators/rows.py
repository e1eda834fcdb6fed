"""Rows and labels as scikit-learn estimators take them: arrays, sparse matrices and frames."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, column_or_1d, validate_data

from treespec.errors import DataMismatchError

_NUMBER = "biuf"


def read_rows(estimator: Any, X: Any, *, reset: bool, allow_nan: bool, sparse: bool) -> Any:
    """Return rows for the ensembles: a float64 array, a CSR matrix, or the frame itself where a column is no number.

    Parameters
    ----------
    estimator : estimator
        Gets ``n_features_in_`` and ``feature_names_in_`` with ``reset``, else is compared with them.
    X : array-like, sparse matrix or frame (n, p)
    reset : bool
    allow_nan : bool
        Whether the ensembles take missing values.
    sparse : bool
        Whether they take sparse matrices.

    Raises
    ------
    ValueError
        If X does not fit, in scikit-learn's words.
    """
    if reset:
        estimator._keeps_frames = has_categories(X)
    elif not estimator._keeps_frames and has_categories(X):
        raise DataMismatchError.expected(
            "columns of numbers, as at fit", "a frame with other columns", "pass the columns that the model was fitted on"
        )
    if estimator._keeps_frames:
        validate_data(estimator, X, reset=reset, skip_check_array=True)
        return X.to_pandas() if hasattr(X, "to_pandas") else X
    return validate_data(
        estimator,
        X,
        reset=reset,
        dtype=np.float64,
        accept_sparse="csr" if sparse else False,
        ensure_all_finite="allow-nan" if allow_nan else True,
        ensure_min_samples=2 if reset else 1,
    )


def has_categories(X: Any) -> bool:
    """Tell whether X is a frame with a column that holds no numbers (text, categories)."""
    if hasattr(X, "iloc"):
        return any(getattr(kind, "kind", "O") not in _NUMBER for kind in getattr(X, "dtypes", ()))
    if hasattr(X, "to_pandas") and hasattr(X, "schema"):  # polars
        return not all(kind.is_numeric() or str(kind) == "Boolean" for kind in X.schema.values())
    return False


def read_values(y: Any, n: int) -> NDArray[np.float64]:
    """Return regression labels as float64, (n,) or (n, n_outputs)."""
    labels = _as_array(y)
    if labels.dtype.kind == "O":
        labels = labels.astype(np.float64)
    if labels.dtype.kind == "c" or labels.dtype.kind not in _NUMBER:
        raise DataMismatchError.expected("numbers as labels", f"y of type {labels.dtype}", "use KPPClassifier for classes")
    if labels.ndim != 2 or labels.shape[1] == 1:
        labels = column_or_1d(labels, warn=True)
    labels = labels.astype(np.float64)
    _check_length(labels, n)
    if not np.isfinite(labels).all():
        raise DataMismatchError.expected("finite labels", "y with NaN or infinity", "drop those rows")
    return labels


def read_classes(y: Any, n: int, weight: NDArray[np.float64] | None = None) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Return the classes and the (n,) class numbers of the labels."""
    labels = column_or_1d(_as_array(y), warn=True)
    _check_length(labels, n)
    if labels.dtype.kind == "f" and not np.isfinite(labels).all():
        raise DataMismatchError.expected("labels that are known", "y with NaN or infinity", "drop those rows")
    check_classification_targets(labels)
    classes, code = np.unique(labels, return_inverse=True)
    if len(np.unique(code if weight is None else code[weight > 0])) < 2:
        raise DataMismatchError.expected("at least two classes among labels of positive weight", "one class", "a constant needs no model")
    return classes, code.astype(np.int64)


def read_weights(sample_weight: Any, X: Any) -> NDArray[np.float64] | None:
    """Return (n,) weights, or None."""
    if sample_weight is None:
        return None
    return np.asarray(_check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True))


def predict_rows(estimator: Any, X: Any) -> Any:
    """Return rows of a fitted estimator, checked against those of the fit."""
    check_is_fitted(estimator)
    tags = estimator.__sklearn_tags__().input_tags
    return read_rows(estimator, X, reset=False, allow_nan=tags.allow_nan, sparse=tags.sparse)


def _as_array(y: Any) -> NDArray[Any]:
    if y is None:
        raise DataMismatchError.expected("labels (requires y to be passed, but the target y is None)", "no y", "pass fit(X, y)")
    return np.asarray(y.to_numpy() if hasattr(y, "to_numpy") else y)


def _check_length(labels: NDArray[Any], n: int) -> None:
    if len(labels) != n:
        raise DataMismatchError.expected(f"{n} labels, one for each row of X", f"{len(labels)}", "pass the labels of the same rows")
