"""`distill`: checks, the rows to learn from, the compressor, the report."""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, cast

import numpy as np

from treespec.distill.budget import parse_budget
from treespec.distill.data import DistillData, Objective, can_use_labels, split_rows
from treespec.distill.probe import draw_rows
from treespec.distill.report import Holdout, Report, make_report
from treespec.distill.unseen import Adapt, grow_sibling
from treespec.errors import DataNeededError, PluginError, TreespecError
from treespec.hooks import Progress, RowData, Teacher
from treespec.students import Student

DRAWN_ROWS = 20_000

_LARGEST_SEED = 2**31 - 1  # every library that draws takes those
_GIVEN = ("data", "random_state", "progress", "compressors")


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
    adapt: Adapt | None = None,
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
    adapt : callable, optional
        Turns a fitted model into a forest; with it the model's like can be fitted on fewer rows, to judge its trees fairly.
    """
    started = time.perf_counter()
    size = parse_budget(budget)
    _check_call(compressor, compressors[compressor], options, progress)
    data = make_data(teacher, rows, objective, random_state, adapt)
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


def _check_call(compressor: str, function: Callable[..., Any], options: Mapping[str, Any], progress: Any) -> None:
    """Raise where an option is not the compressor's, or progress cannot be called.

    Raises
    ------
    TreespecError
    """
    if progress is not None and not callable(progress):
        raise TreespecError.expected("progress to be a function of what is done and the share of it", repr(progress), "or None for silence")
    parameters = inspect.signature(function).parameters
    own = [n for n, p in parameters.items() if p.kind is p.KEYWORD_ONLY and n not in _GIVEN]
    unknown = [n for n in options if n not in own]
    if unknown and not any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
        raise TreespecError.expected(
            f"options of the compressor {compressor!r} ({', '.join(own) or 'it has none'})",
            ", ".join(map(repr, unknown)),
            "check the spelling; options belong to one compressor, so name it: distill(budget, compressor='mlp', steps=500)",
        )
    _check_types(compressor, function, options)


_NUMBER = (int, float, np.integer, np.floating)
_TYPES: dict[str, tuple[type, ...]] = {
    "int": (int, np.integer), "float": _NUMBER, "bool": (bool, np.bool_), "str": (str,), "None": (type(None),),
}  # fmt: skip
"""Annotations of options to the types that they take."""


def _check_types(compressor: str, function: Callable[..., Any], options: Mapping[str, Any]) -> None:
    """Raise where an option is plainly of another type than the compressor says.

    Raises
    ------
    TreespecError
    """
    parameters = inspect.signature(function).parameters
    for name, value in options.items():
        kinds = str(getattr(parameters.get(name), "annotation", "")).split(" | ")
        if not all(kind in _TYPES for kind in kinds):
            continue
        allowed = tuple(t for kind in kinds for t in _TYPES[kind])
        if not isinstance(value, allowed) or (isinstance(value, bool) and "bool" not in kinds):
            raise TreespecError.expected(
                f"{name} of the compressor {compressor!r} to be {' or '.join(kinds)}", repr(value), "see the page on distillation"
            )


def make_data(teacher: Teacher, rows: RowData | None, objective: str, random_state: Any, adapt: Adapt | None = None) -> DistillData:
    """Return the rows to learn from, split; drawn from the forest where there are none.

    Raises
    ------
    TreespecError
        If the objective is unknown, or needs labels that are not there or that a student cannot learn from.
    """
    if objective not in ("auto", "accuracy", "fidelity"):
        raise TreespecError.expected(
            "objective 'auto', 'accuracy' or 'fidelity'", repr(objective), "'auto' is 'accuracy' where there are labels"
        )
    if not (isinstance(random_state, (int, np.integer)) and not isinstance(random_state, bool) and 0 <= random_state <= _LARGEST_SEED):
        raise TreespecError.expected(
            f"random_state to be an int of 0 to {_LARGEST_SEED}", repr(random_state), "the same number gives the same bytes"
        )
    has_labels = rows is not None and rows.y is not None and can_use_labels(teacher.forest)
    if objective == "accuracy" and not has_labels:
        came = "none" if rows is None or rows.y is None else f"a model for {teacher.forest.task} with loss {teacher.forest.loss!r}"
        raise DataNeededError.expected(
            "labels whose mean the model predicts, for objective='accuracy'", came, "pass y, or ask for objective='fidelity'"
        )
    seed = int(random_state)
    chosen = cast("Objective", ("accuracy" if has_labels else "fidelity") if objective == "auto" else objective)
    drawn = rows is None
    if rows is None:
        X = draw_rows(teacher.forest, DRAWN_ROWS, seed)
        rows = RowData(X, None, None, teacher.apply(X), teacher.apply, teacher.margin)
    margin = teacher.forest.margin_of(rows.leaf_id)
    fit, validation = split_rows(rows.y, rows.n_rows, seed, classes=teacher.forest.task in ("binary", "multiclass"))
    grow = None if adapt is None else partial(grow_sibling, adapt, teacher.forest, rows, random_state=seed)
    return DistillData(rows, margin, fit, validation, chosen, drawn, grow)
