"""`distill`: checks, the rows to learn from, the compressor, the report."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, cast

import numpy as np

from treespec.distill.budget import parse_budget
from treespec.distill.data import DistillData, Objective, split_rows
from treespec.distill.probe import draw_rows
from treespec.distill.report import Holdout, Report, make_report
from treespec.errors import DataNeededError, PluginError, TreespecError
from treespec.hooks import Progress, RowData, Teacher
from treespec.students import Student

DRAWN_ROWS = 20_000


def distill(
    teacher: Teacher,
    budget: str | int,
    *,
    rows: RowData | None,
    compressor: str,
    objective: str,
    random_state: int,
    progress: Progress | None,
    compressors: Mapping[str, Callable[..., Any]],
    options: Mapping[str, Any],
    holdout: Holdout | None = None,
) -> Student:
    """Return a student of at most ``budget`` bytes, with its report.

    Parameters
    ----------
    teacher : Teacher
    budget : str or int
    rows : RowData or None
        Rows to learn from; None draws them from the forest.
    compressor : str
        Key of ``compressors``.
    objective : {"auto", "accuracy", "fidelity"}
    random_state : int
    progress : callable or None
    compressors : mapping of str to callable
        Everything that is registered.
    options : mapping
        Passed on to the compressor.
    holdout : Holdout, optional
        Rows that neither model was fitted on.
    """
    started = time.perf_counter()
    size = parse_budget(budget)
    data = make_data(teacher, rows, objective, random_state)
    extra = {"compressors": compressors} if compressor == "auto" else {}
    student = compressors[compressor](teacher, size, data=data, random_state=random_state, progress=progress, **extra, **options)
    if student.n_bytes > size:
        raise PluginError.expected(
            f"a student of at most {size} bytes from the compressor {compressor!r}",
            f"{student.n_bytes} bytes",
            "the compressor is at fault",
        )
    made: Report = make_report(student, teacher, data, size, compressor, time.perf_counter() - started, holdout)
    student.report = made
    return cast("Student", student)


def make_data(teacher: Teacher, rows: RowData | None, objective: str, random_state: Any) -> DistillData:
    """Return the rows to learn from, split; drawn from the forest where there are none.

    Raises
    ------
    TreespecError
        If the objective is unknown, or needs labels that are not there.
    """
    if objective not in ("auto", "accuracy", "fidelity"):
        raise TreespecError.expected(
            "objective 'auto', 'accuracy' or 'fidelity'", repr(objective), "'auto' is 'accuracy' where there are labels"
        )
    if not (isinstance(random_state, (int, np.integer)) and random_state >= 0):
        raise TreespecError.expected("random_state to be an int of 0 or more", repr(random_state), "the same number gives the same bytes")
    has_labels = rows is not None and rows.y is not None and teacher.forest.task != "ranking"
    if objective == "accuracy" and not has_labels:
        raise DataNeededError.expected("labels for objective='accuracy'", "none", "pass y, or ask for objective='fidelity'")
    seed = int(random_state)
    chosen = cast("Objective", ("accuracy" if has_labels else "fidelity") if objective == "auto" else objective)
    drawn = rows is None
    if rows is None:
        X = draw_rows(teacher.forest, DRAWN_ROWS, seed)
        rows = RowData(X, None, None, teacher.apply(X), teacher.apply, teacher.margin)
    margin = teacher.forest.margin_of(rows.leaf_id)
    fit, validation = split_rows(rows.y, rows.n_rows, seed, classes=teacher.forest.task in ("binary", "multiclass"))
    return DistillData(rows, margin, fit, validation, chosen, drawn)
