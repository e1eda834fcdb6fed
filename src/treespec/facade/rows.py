"""Checks of the rows, labels and weights that users pass."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from treespec.errors import DataMismatchError
from treespec.ir import Forest
from treespec.ir.table import is_missing, n_rows


def check_labels(y: Any, n: int, forest: Forest) -> NDArray[np.generic]:
    """Return y as an array of n labels.

    Raises
    ------
    DataMismatchError
        If the length or the number of targets differs, a label is missing, or a regression label is no finite number.
    """
    try:
        labels = np.array(y.to_numpy() if hasattr(y, "to_numpy") else y)  # a copy: users change theirs
    except ValueError:
        raise DataMismatchError.expected(
            f"{n} labels (one for each row of X)", "labels of different lengths", "pass an array of shape (n,) or (n, n_targets)"
        ) from None
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    if labels.ndim not in (1, 2) or len(labels) != n:
        raise DataMismatchError.expected(
            f"{n} labels (one for each row of X)", f"y of shape {labels.shape}", "pass the labels of the same rows"
        )
    if forest.classes is None and labels.dtype.kind == "O":
        labels = _numbers(labels)
    _check_present(labels)
    _check_targets(labels, forest)
    if forest.classes is None and labels.dtype.kind not in "fiub":
        raise DataMismatchError.expected(
            "numbers as labels of a regression model", f"y of type {labels.dtype}", "pass the target that the model was fitted on"
        )
    _check_classes(labels, forest)
    return labels


_ONE_COLUMN = ("quantile", "normal", "unknown")  # losses of boosters that may have more outputs than there are labels


def _check_targets(labels: NDArray[np.generic], forest: Forest) -> None:
    """Raise where the columns of the labels are not the targets of the model."""
    came = 1 if labels.ndim == 1 else labels.shape[1]
    targets = 1
    if forest.task == "multi-output":
        targets = forest.n_outputs if forest.classes is None else len(forest.classes)
    elif forest.task == "multiclass" and forest.classes is None:
        targets = forest.n_outputs if came > 1 else 1  # a raw booster: class numbers, or a probability of each class
    if came != targets and not (came == 1 and forest.aggregation == "sum" and forest.loss in _ONE_COLUMN):
        raise DataMismatchError.expected(
            f"labels of {targets} target{'s' if targets > 1 else ''}",
            f"y of shape {labels.shape}",
            "pass the labels that the model was fitted on, a column for each target",
        )


def _numbers(labels: NDArray[np.generic]) -> NDArray[np.generic]:
    """Return objects as floats where all of them are numbers."""
    return labels.astype(np.float64) if all(isinstance(v, (int, float, np.number)) for v in labels.ravel()) else labels


def _check_present(labels: NDArray[np.generic]) -> None:
    """Raise where a label is missing or infinite."""
    if labels.dtype.kind == "f":
        bad = ~np.isfinite(labels)
    elif labels.dtype.kind == "O":
        bad = np.array([is_missing(v) for v in labels.ravel()], dtype=bool).reshape(labels.shape)
    else:
        bad = np.zeros(labels.shape, bool)
    if bad.any():
        raise DataMismatchError.expected(
            "labels without missing or infinite values",
            f"{int(bad.sum())} such labels in y, the first in row {int(np.argwhere(bad.reshape(len(bad), -1).any(axis=1))[0, 0])}",
            "drop those rows",
        )


def _check_classes(labels: NDArray[np.generic], forest: Forest) -> None:
    """Raise where a label is none of the classes of its target."""
    for classes, column in zip(forest.classes or (), labels.reshape(len(labels), -1).T, strict=False):
        known = set(classes.tolist())
        unknown = [c for c in dict.fromkeys(column.tolist()) if c not in known]
        if unknown:
            raise DataMismatchError.expected(
                f"labels among the model's classes {classes.tolist()[:10]}",
                f"{unknown[:5]}",
                "pass the labels as the model was fitted on them, not encoded otherwise",
            )


def check_weights(sample_weight: Any, n: int) -> NDArray[np.float64] | None:
    """Return the weights as (n,) float64, or None.

    Raises
    ------
    DataMismatchError
        If the length differs or a weight is negative or not finite.
    """
    if sample_weight is None:
        return None
    try:
        weight = np.array(sample_weight, dtype=np.float64)
    except (TypeError, ValueError):
        came = repr(sample_weight) if isinstance(sample_weight, str) else f"a {type(sample_weight).__name__} of something else"
        raise DataMismatchError.expected(f"{n} weights, which are numbers", came, "pass one weight a row") from None
    if weight.shape != (n,):
        raise DataMismatchError.expected(f"{n} weights", f"sample_weight of shape {weight.shape}", "pass one weight a row")
    with np.errstate(over="ignore"):
        total = weight.sum()
    if not (weight >= 0).all() or not np.isfinite(total) or not total:
        raise DataMismatchError.expected("finite weights of 0 and more, not all 0, of a finite sum", "others", "check sample_weight")
    return weight


def check_base_margin(base_margin: Any, n: int, forest: Forest) -> NDArray[np.float64] | None:
    """Return the margins before the first tree as (n, n_outputs) float64, or None.

    Raises
    ------
    DataMismatchError
        If they are no finite numbers of that shape, or the model is a mean over trees, which starts nowhere.
    """
    if base_margin is None:
        return None
    if forest.aggregation == "mean":
        raise DataMismatchError.expected("a boosted model, with base_margin", f"{forest.framework}, a mean over trees", "leave it out")
    wanted = f"base_margin of shape ({n},)" if forest.n_outputs == 1 else f"base_margin of shape ({n}, {forest.n_outputs})"
    try:
        start = np.array(base_margin, dtype=np.float64)
    except (TypeError, ValueError):
        raise DataMismatchError.expected(wanted, f"a {type(base_margin).__name__} of something else", "pass an array of numbers") from None
    if start.shape not in {(n, forest.n_outputs), (n,) if forest.n_outputs == 1 else (n, forest.n_outputs)}:
        raise DataMismatchError.expected(wanted, f"shape {start.shape}", "pass one margin a row and output")
    if not np.isfinite(start).all():
        raise DataMismatchError.expected("a finite base_margin", "NaN or an infinity", "check how it was computed")
    return start.reshape(n, forest.n_outputs)


def check_holdout(holdout: Any, forest: Forest) -> tuple[Any, NDArray[np.generic]] | None:
    """Return the rows and labels of a holdout, or None.

    Raises
    ------
    DataMismatchError
        If it is no pair, or rows and labels do not fit the model or each other.
    """
    if holdout is None:
        return None
    if not isinstance(holdout, (tuple, list)) or len(holdout) != 2:
        raise DataMismatchError.expected(
            "a holdout of two things, (X, y)", f"a {type(holdout).__name__}", "pass distill(budget, holdout=(X_test, y_test))"
        )
    X, y = holdout
    check_some_rows(X)
    forest.encode(X)
    return X, check_labels(y, n_rows(X), forest)


def check_some_rows(X: Any) -> None:
    """Raise where X has no rows."""
    if n_rows(X) == 0:
        raise DataMismatchError.expected("at least one row", "X with 0 rows", "check the filter that made X")
