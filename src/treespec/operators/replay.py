"""Replaying a model from its training labels, and refusing where the replay is not the model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from treespec.errors import DataMismatchError, DataNeededError, UnsupportedModelError

if TYPE_CHECKING:
    from treespec.hooks import RowData
    from treespec.ir import Forest

RELATIVE = 1e-5
"""Largest difference that is allowed, in standard deviations of the model's own predictions."""

_FLOAT32_ULPS = 10 * 2.0**-23


def targets(forest: Forest, y: NDArray[Any]) -> NDArray[np.float64]:
    """Return the (n, n_outputs) numbers that a model of these labels averages: values, or indicators of the classes.

    Raises
    ------
    DataMismatchError
        If a label is not a class of the model, or there are not ``n_outputs`` columns.
    """
    labels = np.asarray(y)
    if forest.classes is None:
        values = labels.astype(np.float64).reshape(len(labels), -1)
    else:
        columns = labels.reshape(len(labels), -1)
        if columns.shape[1] != len(forest.classes):
            raise DataMismatchError.expected(f"{len(forest.classes)} columns of labels", f"{columns.shape[1]}", "pass y as at training")
        values = np.hstack([_indicators(columns[:, j], c) for j, c in enumerate(forest.classes)])
        if forest.n_outputs == 1:
            values = values[:, 1:]
    if values.shape[1] != forest.n_outputs:
        raise DataMismatchError.expected(f"{forest.n_outputs} columns of labels", f"{values.shape[1]}", "pass y as at training")
    return values


def _indicators(labels: NDArray[Any], classes: NDArray[Any]) -> NDArray[np.float64]:
    one_hot = labels[:, None] == classes
    if not one_hot.any(axis=1).all():
        unknown = labels[~one_hot.any(axis=1)][0]
        raise DataMismatchError.expected(f"labels among {classes.tolist()}", f"{unknown!r}", "pass y as at training")
    return np.asarray(one_hot, dtype=np.float64)


def distance(replay: NDArray[np.float64], native: NDArray[np.float64]) -> float:
    """Return max |replay - native| in standard deviations of ``native`` (or, where it is constant, of its size)."""
    if not native.size:
        return 0.0
    scale = float(native.std(axis=0).max()) or float(np.abs(native).max()) or 1.0
    return float(np.abs(replay - native).max()) / scale


def check(replay: NDArray[np.float64], native: NDArray[np.float64], *, single: bool, name: str, reason: str) -> float:
    """Return `distance`, or raise where it is above the tolerance.

    Parameters
    ----------
    single : bool
        Whether the framework adds up in float32, which costs up to 10 units in the last place of the largest prediction.
    name, reason : str
        What is refused, and the likely cause.

    Raises
    ------
    DataMismatchError
    """
    exactness = distance(replay, native)
    scale = float(native.std(axis=0).max()) if native.size else 0.0
    ulps = (_FLOAT32_ULPS if single else 64 * 2.0**-52) * float(np.abs(native).max(initial=0.0))
    came = float(np.abs(replay - native).max(initial=0.0))
    if not came <= RELATIVE * scale + ulps:
        raise DataMismatchError.expected(
            f"the {name!r} smoother to reproduce the model on these rows within {RELATIVE:g} standard deviations",
            f"{exactness:.3g} standard deviations ({reason})",
            "pass the rows, labels and weights that the model was fitted on, in their order; smoother('leaf') accepts any rows",
        )
    return exactness


def labels_of(data: RowData, name: str) -> NDArray[Any]:
    """Return y, or raise `DataNeededError`."""
    if data.y is None:
        raise DataNeededError.expected(
            f"the training labels for the {name!r} smoother", "rows without y", "pass X and y, as the model was fitted on them, to wrap()"
        )
    return np.asarray(data.y)


def refuse(expected: str, came: str, hint: str = "use smoother('leaf'), which is defined for every forest") -> UnsupportedModelError:
    """Return the error for a model that has no smoother of this kind."""
    return UnsupportedModelError(str(UnsupportedModelError.expected(expected, came, hint)))
