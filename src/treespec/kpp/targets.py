"""`Targets`: labels as the numbers that weights, learners and figures work on."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from treespec.errors import DataMismatchError

if TYPE_CHECKING:
    from treespec.ir import Forest

Array = NDArray[np.float64]

CLASS_TASKS = ("binary", "multiclass")


@dataclass(frozen=True, eq=False)
class Targets:
    """Labels of a model, checked.

    Attributes
    ----------
    kind : {"values", "classes"}
    value : (n, k) array
        The values; or 0/1 indicators of the classes of all targets, side by side.
    code : (n, n_targets) int array
        Class numbers; empty for values.
    classes : tuple of arrays
        Class labels of each target; empty for values.
    offset : (n, k) array or None
        What is added to the linear scores of the rows before the loss: the log-odds of an anchor (`treespec.kpp.anchor`).
    """

    kind: Literal["values", "classes"]
    value: Array
    code: NDArray[np.int64]
    classes: tuple[NDArray[Any], ...]
    offset: Array | None = field(default=None, repr=False)

    @classmethod
    def of(cls, forest: Forest, y: NDArray[Any]) -> Targets:
        """Read labels as ``forest`` was fitted on them.

        Classes are those of the model; where it stores none (raw boosters) those that occur in y.

        Raises
        ------
        DataMismatchError
            If a label is not a class of the model, or no finite number where values are wanted.
        """
        labels = np.asarray(y)
        columns = labels.reshape(len(labels), -1)
        if forest.classes is None and forest.task not in CLASS_TASKS:
            if columns.dtype.kind not in "fiub" or not np.isfinite(columns.astype(np.float64)).all():
                raise DataMismatchError.expected(
                    "finite numbers as labels", f"y of type {labels.dtype}", "pass the target that the model was fitted on"
                )
            return cls("values", columns.astype(np.float64), np.empty((len(labels), 0), np.int64), ())
        classes = forest.classes if forest.classes is not None else (np.unique(columns[:, 0]),)
        if columns.shape[1] != len(classes):
            raise DataMismatchError.expected(f"{len(classes)} columns of labels", f"{columns.shape[1]}", "pass y as at training")
        code = np.column_stack([_codes(columns[:, j], c) for j, c in enumerate(classes)])
        value = np.hstack([code[:, [j]] == np.arange(len(c)) for j, c in enumerate(classes)]).astype(np.float64)
        return cls("classes", value, code, tuple(np.asarray(c) for c in classes))

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.value)

    @property
    def n_targets(self) -> int:
        """Number of columns of y."""
        return len(self.classes) if self.kind == "classes" else self.value.shape[1]

    @property
    def binary(self) -> bool:
        """Whether there is one target of two classes."""
        return len(self.classes) == 1 and len(self.classes[0]) == 2

    @property
    def sign(self) -> Array:
        """(n,) -1 for the first class and +1 for the second, of a binary target (section 3.1)."""
        return np.where(self.code[:, 0] == 1, 1.0, -1.0)

    def take(self, rows: NDArray[np.integer[Any]]) -> Targets:
        """Return the labels of some rows."""
        offset = None if self.offset is None else self.offset[rows]
        return replace(self, value=self.value[rows], code=self.code[rows], offset=offset)


def _codes(labels: NDArray[Any], classes: NDArray[Any]) -> NDArray[np.int64]:
    order = np.argsort(classes, kind="stable")
    ordered = np.asarray(classes)[order]
    try:
        place = np.minimum(np.searchsorted(ordered, labels), len(ordered) - 1)
        known = ordered[place] == labels
    except TypeError:  # text against numbers
        place, known = np.zeros(len(labels), np.int64), np.zeros(len(labels), bool)
    if not np.all(known):
        unknown = labels[~np.asarray(known)][0]
        raise DataMismatchError.expected(f"labels among {np.asarray(classes).tolist()[:10]}", f"{unknown!r}", "pass y as at training")
    return np.asarray(order[place], dtype=np.int64)
