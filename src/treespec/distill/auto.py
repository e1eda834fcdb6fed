"""Compressor ``auto``: races every other compressor that is registered on the same validation rows, and takes the best."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from treespec.distill.data import DistillData
from treespec.distill.judge import judge_validation
from treespec.errors import BudgetError, MissingDependencyError, UnsupportedModelError
from treespec.hooks import Progress, Student, Teacher
from treespec.students.outcome import Outcome


def auto(
    teacher: Teacher,
    budget: int,
    *,
    data: DistillData,
    random_state: int,
    progress: Progress | None,
    compressors: Mapping[str, Callable[..., Any]],
) -> Student:
    """Return the best student that any compressor makes, by the loss on the validation rows that none of them was fitted on.

    Never worse than ``scate`` alone by that measure: it is among the candidates. The model's own trees, rounded to fit, are judged by
    labels only where the model was not fitted on the validation rows. Where they fit lossless they are the model, and are taken without a
    race (unless the rows are new to the model, so that labels can judge it fairly). A compressor that cannot meet the budget, or whose
    package is missing, is left out and reported.

    Raises
    ------
    BudgetError
        If none can meet the budget; it names the smallest that one can.
    """
    outcome = Outcome.of(teacher.forest)
    names = sorted((name for name in compressors if name != "auto"), key=lambda name: (name != "packed", name))
    raced: list[dict[str, Any]] = []
    students: dict[str, Student] = {}
    refusals: list[Exception] = []
    for k, name in enumerate(names):
        if progress is not None:
            progress(f"auto: {name}", k / len(names))
        started = time.perf_counter()
        try:
            student = compressors[name](teacher, budget, data=data, random_state=random_state, progress=None)
        except (BudgetError, MissingDependencyError, UnsupportedModelError) as error:
            refusals.append(error)
            raced.append({"compressor": name, "refused": str(error).split("\n", maxsplit=1)[0]})
            continue
        report = dict(getattr(student, "report", None) or {})
        margin = report.get("validation_margin")
        if margin is None:
            raced.append({"compressor": name, "refused": "it reports no margins on the validation rows"})
            continue
        verdict = judge_validation(outcome, margin, data)
        seen = report.get("in_sample", False) and not report.get("exact", False)  # rounded trees that were fitted on these very rows
        entry = {"compressor": name, "bytes": student.n_bytes, "in-sample loss" if seen else "loss": verdict.loss, "score": verdict.score}
        raced.append(entry | {"seconds": time.perf_counter() - started, "chosen": report.get("chosen")})
        students[name] = student
        if report.get("exact", False) and (data.objective == "fidelity" or report.get("in_sample", False)):
            break  # it is the model itself, and these rows cannot say whether another would be better on new ones
    if not students:
        raise _none(refusals, budget)
    fair = [entry for entry in raced if "loss" in entry] or [entry for entry in raced if "in-sample loss" in entry]
    best = min(fair, key=lambda entry: entry.get("loss", 0.0))["compressor"]
    winner: Any = students[best]
    winner.report = dict(winner.report) | {"compressor": best, "raced": raced}
    won: Student = winner
    return won


def _none(refusals: list[Exception], budget: int) -> Exception:
    """Return the most useful refusal: the smallest possible budget, else the first."""
    sizes = [e.smallest for e in refusals if isinstance(e, BudgetError) and e.smallest is not None]
    if sizes:
        return BudgetError.too_small(budget, min(sizes), "a student of this model")
    return refusals[0] if refusals else BudgetError.expected("a compressor", "none registered", "treespec.plugins() lists what there is")
