"""Checks of the rows, labels and weights that users pass."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from treespec.errors import DataMismatchError
from treespec.ir import Forest
from treespec.ir.table import n_rows


def check_labels(y: Any, n: int, forest: Forest) -> NDArray[np.generic]:
    """Return y as an array of n labels.

    Raises
    ------
    DataMismatchError
        If the length differs, a label is missing, or a regression label is no finite number.
    """
    labels = np.asarray(y.to_numpy() if hasattr(y, "to_numpy") else y)
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    if labels.ndim not in (1, 2) or len(labels) != n:
        raise DataMismatchError.expected(
            f"{n} labels (one for each row of X)", f"y of shape {labels.shape}", "pass the labels of the same rows"
        )
    if labels.dtype.kind == "f":
        bad = ~np.isfinite(labels)
    elif labels.dtype.kind == "O":
        bad = np.array([v is None or v != v for v in labels.ravel()], dtype=bool)
    else:
        bad = np.zeros(labels.shape, bool)
    if bad.any():
        raise DataMismatchError.expected(
            "labels without missing or infinite values",
            f"{int(bad.sum())} such labels in y, the first in row {int(np.argwhere(bad.reshape(n, -1).any(axis=1))[0, 0])}",
            "drop those rows",
        )
    if forest.task in ("regression", "ranking") and labels.dtype.kind not in "fiub":
        raise DataMismatchError.expected(
            "numbers as labels of a regression model", f"y of type {labels.dtype}", "pass the target that the model was fitted on"
        )
    if forest.classes is not None and len(forest.classes) == 1 and labels.ndim == 1:
        known = set(forest.classes[0].tolist())
        unknown = [c for c in np.unique(labels).tolist() if c not in known]
        if unknown:
            raise DataMismatchError.expected(
                f"labels among the model's classes {forest.classes[0].tolist()[:10]}",
                f"{unknown[:5]}",
                "pass the labels as the model was fitted on them, not encoded otherwise",
            )
    return labels


def check_weights(sample_weight: Any, n: int) -> NDArray[np.float64] | None:
    """Return the weights as (n,) float64, or None.

    Raises
    ------
    DataMismatchError
        If the length differs or a weight is negative or not finite.
    """
    if sample_weight is None:
        return None
    weight = np.asarray(sample_weight, dtype=np.float64)
    if weight.shape != (n,):
        raise DataMismatchError.expected(f"{n} weights", f"sample_weight of shape {weight.shape}", "pass one weight a row")
    if not (np.isfinite(weight) & (weight >= 0)).all() or not weight.any():
        raise DataMismatchError.expected("finite weights of 0 and more, not all 0", "others", "check sample_weight")
    return weight


def check_some_rows(X: Any) -> None:
    """Raise where X has no rows."""
    if n_rows(X) == 0:
        raise DataMismatchError.expected("at least one row", "X with 0 rows", "check the filter that made X")
