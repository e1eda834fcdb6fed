"""`DistillData`: the rows that a student learns from, split once so that all candidates are judged on the same rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from treespec.hooks import RowData
from treespec.ir import Forest

Objective = Literal["accuracy", "fidelity"]

VALIDATION_SHARE = 0.25

_NOT_MEANS = frozenset(
    {"quantile", "absolute", "mape", "huber", "pseudo-huber", "fair", "squared-log", "expectile", "lq", "log-cosh", "cox", "aft", "normal"}
)
"""Losses of regression models that predict something else than the mean of the labels."""


def can_use_labels(forest: Forest) -> bool:
    """Tell whether a student may learn from the labels: whether they are, on average, what the model predicts.

    For a quantile, a median, a robust location or a rank they are not, and only the teacher tells what is wanted.
    """
    return forest.task != "ranking" and forest.loss not in _NOT_MEANS


@dataclass(frozen=True, eq=False)
class DistillData:
    """What compressors get as ``data``.

    Attributes
    ----------
    rows : RowData
        The rows as the teacher takes them, their labels and weights where there are any, the leaves that they reach.
    margin : (n, n_outputs) float64
        The teacher's margins.
    fit, validation : integer arrays
        Rows for fitting candidates, and for choosing among them; the winner is refitted on all.
    objective : {"accuracy", "fidelity"}
        Whether candidates are judged by labels or by the teacher.
    drawn : bool
        Whether the rows were drawn from the forest (and have no labels).
    grow : callable or None
        ``grow(rows)`` fits the model's like on some of the rows.
    """

    rows: RowData
    margin: NDArray[np.float64]
    fit: NDArray[np.intp]
    validation: NDArray[np.intp]
    objective: Objective
    drawn: bool
    grow: Callable[[NDArray[np.intp]], Forest | None] | None = None

    @cached_property
    def sibling(self) -> Forest | None:
        """A forest of the teacher's kind, grown on ``fit`` alone; None where the model cannot be fitted again."""
        return None if self.grow is None else self.grow(self.fit)

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.margin)


def split_rows(y: NDArray[Any] | None, n: int, random_state: int, *, classes: bool) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return the rows to fit on and the rows to validate on (a quarter), the classes in equal shares where there are any."""
    rng = np.random.default_rng(random_state)
    order = rng.permutation(n)
    if n < 4:
        return order, order
    if classes and y is not None and y.ndim == 1:
        order = order[np.argsort(y[order], kind="stable")]  # every fourth row of the sorted order: equal shares
        chosen = np.zeros(n, bool)
        chosen[int(rng.integers(4)) :: 4] = True
        return rng.permutation(order[~chosen]), rng.permutation(order[chosen])
    k = max(1, round(VALIDATION_SHARE * n))
    return order[k:], order[:k]
