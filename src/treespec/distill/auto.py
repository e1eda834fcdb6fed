"""Compressor ``auto``: races every other compressor that is registered on the same validation rows, and takes the best."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from treespec.distill.data import DistillData
from treespec.distill.judge import judge_validation
from treespec.errors import BudgetError, MissingDependencyError, UnsupportedModelError
from treespec.hooks import Progress, Student, Teacher
from treespec.students.outcome import Outcome

TIME_LIMIT = 60.0

_FIRST = ("packed", "scate", "leaf-refit", "mlp", "boosted", "forestprune", "lop", "fp-scate")
"""Raced in this order, then those of plugins: the model itself, what nothing may be worse than, then what wins most often."""


def auto(
    teacher: Teacher,
    budget: int,
    *,
    data: DistillData,
    random_state: int,
    progress: Progress | None,
    compressors: Mapping[str, Callable[..., Any]],
    time_limit: float = TIME_LIMIT,
) -> Student:
    """Return the best student that any compressor makes, by the loss on the validation rows that none of them was fitted on.

    Never worse than ``scate`` alone by that measure: it is always among the candidates. A compressor that cannot meet the budget, or whose
    package is missing, is left out and reported.

    Where the model's own trees fit lossless, they are the model. They are taken without a race where the objective is fidelity, or where
    labels cannot judge them fairly: the model was fitted on the validation rows, and cannot be fitted again without them. Otherwise they
    are raced like any other, judged by what the same kind of model says of the validation rows when it has not seen them.

    Parameters
    ----------
    time_limit : float
        Seconds after which no further candidate is started (a candidate takes up to some 20 s). Those that were not started are
        reported. The same call gives the same bytes as long as the same candidates are started.

    Raises
    ------
    BudgetError
        If none can meet the budget; it names the smallest that one can.
    """
    race = _Race(teacher, budget, data, random_state)
    names = [name for name in (*_FIRST, *sorted(set(compressors) - {*_FIRST, "auto"})) if name in compressors]
    started = time.perf_counter()
    for k, name in enumerate(names):
        if progress is not None:
            progress(f"auto: {name}", k / len(names))
        if time.perf_counter() - started > time_limit and name != "scate":
            race.leave_out(name, f"the time limit of {time_limit:g} s was reached")
            continue
        race.enter(name, compressors[name])
        if race.decided:
            break
    return race.winner()


class _Race:
    """One call of `auto`."""

    def __init__(self, teacher: Teacher, budget: int, data: DistillData, random_state: int) -> None:
        self.teacher, self.budget, self.data, self.random_state = teacher, budget, data, random_state
        self.outcome = Outcome.of(teacher.forest)
        self.entries: list[dict[str, Any]] = []
        self.students: dict[str, Any] = {}
        self.refusals: list[Exception] = []
        self.decided = False

    def leave_out(self, name: str, why: str) -> None:
        """Report a compressor that does not take part."""
        self.entries.append({"compressor": name, "refused": why})

    def enter(self, name: str, compressor: Callable[..., Any]) -> None:
        """Let a compressor make its student, and judge it."""
        started = time.perf_counter()
        try:
            student = compressor(self.teacher, self.budget, data=self.data, random_state=self.random_state, progress=None)
        except (BudgetError, MissingDependencyError, UnsupportedModelError) as error:
            self.refusals.append(error)
            self.leave_out(name, str(error).split("\n", maxsplit=1)[0])
            return
        report = dict(getattr(student, "report", None) or {})
        margin = report.get("fair_margin", report.get("validation_margin"))
        if margin is None:
            self.leave_out(name, "it reports no margins on the validation rows")
            return
        verdict = judge_validation(self.outcome, margin, self.data)
        in_sample = report.get("in_sample", False) and "fair_margin" not in report  # its trees were fitted on these very rows
        self.entries.append({
            "compressor": name, "bytes": student.n_bytes, "in-sample loss" if in_sample else "loss": verdict.loss, "score": verdict.score,
            "seconds": time.perf_counter() - started, "chosen": report.get("chosen"),
        })  # fmt: skip
        self.students[name] = student
        self.decided = report.get("exact", False) and (in_sample or self.data.objective == "fidelity")

    def winner(self) -> Student:
        """Return the best student, its report listing all."""
        if not self.students:
            raise _none(self.refusals, self.budget)
        if self.decided:
            best = self.entries[-1]["compressor"]
        else:
            key = "loss" if _with(self.entries, "loss") else "in-sample loss"
            best = min(_with(self.entries, key), key=lambda entry: float(entry[key]))["compressor"]
        student: Any = self.students[best]
        student.report = dict(student.report) | {"compressor": best, "raced": self.entries}
        won: Student = student
        return won


def _with(entries: Iterable[dict[str, Any]], key: str) -> list[dict[str, Any]]:
    return [entry for entry in entries if key in entry]


def _none(refusals: list[Exception], budget: int) -> Exception:
    """Return the most useful refusal: the smallest possible budget, else the first."""
    sizes = [e.smallest for e in refusals if isinstance(e, BudgetError) and e.smallest is not None]
    if sizes:
        return BudgetError.too_small(budget, min(sizes), "a student of this model")
    return refusals[0] if refusals else BudgetError.expected("a compressor", "none registered", "treespec.plugins() lists what there is")
