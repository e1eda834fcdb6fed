"""Folds: compressors work on some of the rows as if there were no others, and the rest judges the students that they make.

Validation rows that a compressor chose its settings on flatter it, and the more the more settings it tried; on a few hundred rows that is
as much as compressors differ by. Rows of which neither it nor the model that it imitates knew anything do not.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treespec.distill.data import DistillData, split_rows
from treespec.distill.unseen import unseen
from treespec.hooks import RowData, Teacher
from treespec.ir import Forest
from treespec.ir.table import take

Rows = NDArray[np.intp]

FOLDS = 4
"""The first is the validation rows; the rest is cut into the others, so that each row is left out once."""


@dataclass(frozen=True, eq=False)
class Fold:
    """What compressors are given, and the rows that they are not.

    Attributes
    ----------
    teacher : Teacher
        The model itself where it was not fitted on the rows left out; else the same estimator, fitted without them.
    data : DistillData
        Of the other rows, split anew.
    left_out : integer array
        Numbers of the rows left out.
    """

    teacher: Teacher
    data: DistillData
    left_out: Rows


class _Grown:
    """A teacher that is a forest."""

    def __init__(self, forest: Forest) -> None:
        self.forest, self.apply = forest, forest.apply
        self.margin, self.predict = forest.margin, forest.predict


def folds(teacher: Teacher, data: DistillData, random_state: int) -> Iterator[Fold]:
    """Yield the folds one after the other, each made when it is asked for; none where nothing can be judged fairly.

    Notes
    -----
    Costs one fit of the model's like for each fold, where the model was fitted on these rows.
    """
    classes = teacher.forest.task in ("binary", "multiclass")
    for k, out in enumerate(_parts(data, classes=classes)):
        kept = data.fit if k == 0 else np.setdiff1d(np.arange(data.n_rows), out)
        found = unseen(teacher.forest, data if k == 0 else replace(data, fit=kept, validation=out))
        if found is None or not len(kept):
            return
        own = found[0] is teacher.forest
        yield Fold(teacher if own else _Grown(found[0]), _part(data, kept, *found, random_state, classes=classes), out)


def _parts(data: DistillData, *, classes: bool) -> Iterator[Rows]:
    """Yield the rows left out: the validation rows, then the others in equal parts, the classes in equal shares."""
    yield data.validation
    order = data.fit
    if classes and data.rows.y is not None and data.rows.y.ndim == 1:
        order = order[np.argsort(data.rows.y[order], kind="stable")]
        yield from (order[k :: FOLDS - 1] for k in range(FOLDS - 1))
    else:
        yield from np.array_split(order, FOLDS - 1)


def _part(data: DistillData, rows: Rows, forest: Forest, leaf_id: NDArray[np.int32], random_state: int, *, classes: bool) -> DistillData:
    """Return the data of some rows alone, as this forest sees them."""
    whole, leaf_id = data.rows, leaf_id[rows]
    own: dict[str, Any] = {"X": take(whole.X, rows), "y": None if whole.y is None else whole.y[rows], "leaf_id": leaf_id}
    own["sample_weight"] = None if whole.sample_weight is None else whole.sample_weight[rows]
    part = RowData(**own, apply=forest.apply, margin=forest.margin, sampled_from=whole.sampled_from)
    fit, validation = split_rows(part.y, len(rows), random_state, classes=classes)
    grow = None if data.grow is None else (lambda chosen: data.grow(rows[chosen]))  # type: ignore[misc]
    return DistillData(part, forest.margin_of(leaf_id), fit, validation, data.objective, data.drawn, grow)
