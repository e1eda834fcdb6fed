"""Compressor ``auto``: races every other compressor that is registered on the same validation rows, and takes the best.

Where the validation rows cannot tell the best from others, these race again on folds (`treespec.distill.folds`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treespec.distill.data import DistillData
from treespec.distill.folds import Fold, folds
from treespec.distill.judge import judge_validation, row_losses, wanted_of
from treespec.errors import BudgetError, MissingDependencyError, UnsupportedModelError
from treespec.hooks import Progress, Student, Teacher
from treespec.ir.table import take
from treespec.students.outcome import Outcome

Array = NDArray[np.float64]

TIME_LIMIT = 60.0

_CLEAR = 2.0
"""Standard errors of the paired difference by which a compressor must be worse than the best to be out."""

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
    """Return the best student that any compressor makes, by the loss on rows that none of them was fitted on.

    All are judged on the validation rows first. Those that these rows do not show to be worse than the best then work on folds: on
    three quarters of the rows as if there were no others, four times, the rest judging each student; a fold puts out those that are
    clearly worse by then. Never worse than ``scate`` alone by these measures: it is always among the candidates. A compressor that
    cannot meet the budget, or whose package is missing, is left out and reported.

    Where the model's own trees fit lossless, they are the model. They are taken without a race where the objective is fidelity, or where
    labels cannot judge them fairly: the model was fitted on the validation rows, and cannot be fitted again without them. Otherwise they
    are raced like any other, judged by what the same kind of model says of the validation rows when it has not seen them.

    Parameters
    ----------
    time_limit : float
        Seconds after which no further candidate and no further fold is started (a candidate takes up to some 20 s). Those that were not
        started are reported. The same call gives the same bytes as long as the same candidates and folds are.

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
    race.settle(compressors, lambda: time.perf_counter() - started <= time_limit, progress)
    return race.winner()


class _Race:
    """One call of `auto`."""

    def __init__(self, teacher: Teacher, budget: int, data: DistillData, random_state: int) -> None:
        self.teacher, self.budget, self.data, self.random_state = teacher, budget, data, random_state
        self.outcome = Outcome.of(teacher.forest)
        self.entries: list[dict[str, Any]] = []
        self.students: dict[str, Any] = {}
        self.losses: dict[str, Array] = {}
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
        if not in_sample:
            self.losses[name] = self._losses(margin, self.data.validation)
        self.decided = report.get("exact", False) and (in_sample or self.data.objective == "fidelity")

    def settle(self, compressors: Mapping[str, Callable[..., Any]], in_time: Callable[[], bool], progress: Progress | None) -> None:
        """Judge those that may be the best on rows that nobody has seen, fold after fold, until one is left or time is up."""
        left = [] if self.decided else _not_worse(self.losses)
        seen: dict[str, list[Array]] = {name: [] for name in left}
        for k, fold in enumerate(folds(self.teacher, self.data, self.random_state) if len(left) > 1 else ()):
            found: dict[str, Array] = {}
            for name in left:
                if progress is not None:
                    progress(f"auto: {name}, fold {k + 1}", 1.0)
                if not in_time():
                    return
                losses = self._on_fold(compressors[name], fold)
                found |= {} if losses is None else {name: losses}
            left = list(found)
            for name in left:
                seen[name].append(found[name])
            pooled = {name: np.concatenate(seen[name]) for name in left}
            for name in left:
                entry = next(e for e in self.entries if e["compressor"] == name)
                entry |= {"loss on folds": float(pooled[name].mean()), "folds": len(seen[name])}
            left = _not_worse(pooled)
            if len(left) == 1:
                return

    def _on_fold(self, compressor: Callable[..., Any], fold: Fold) -> Array | None:
        """Return the losses of the rows left out, or None where there is no student without them."""
        try:
            student = compressor(fold.teacher, self.budget, data=fold.data, random_state=self.random_state, progress=None)
        except (BudgetError, MissingDependencyError, UnsupportedModelError):
            return None
        return self._losses(student.margin(take(self.data.rows.X, fold.left_out)).reshape(len(fold.left_out), -1), fold.left_out)

    def _losses(self, margin: Array, rows: NDArray[np.intp]) -> Array:
        """Return the losses of rows, on the scale of all."""
        data, every = self.data, np.arange(self.data.n_rows)
        padded = np.zeros((data.n_rows, margin.shape[1]))
        padded[rows] = margin
        weight = data.rows.sample_weight
        losses = row_losses(self.outcome, padded, wanted_of(self.outcome, data, every), weight)[rows]
        return losses if weight is None else losses * weight[rows] / weight.mean()

    def _best(self) -> str:
        """Return the name of the best: by the folds where there were any (who saw most of them), else by the validation rows."""
        judged = _with(self.entries, "folds")
        if judged:
            most = max(entry["folds"] for entry in judged)
            key, entries = "loss on folds", [entry for entry in judged if entry["folds"] == most]
        else:
            key = "loss" if _with(self.entries, "loss") else "in-sample loss"
            entries = _with(self.entries, key)
        return str(min(entries, key=lambda entry: float(entry[key]))["compressor"])

    def winner(self) -> Student:
        """Return the best student, its report listing all."""
        if not self.students:
            raise _none(self.refusals, self.budget)
        best = self.entries[-1]["compressor"] if self.decided else self._best()
        student: Any = self.students[best]
        student.report = dict(student.report) | {"compressor": best, "raced": self.entries}
        won: Student = student
        return won


def _not_worse(losses: Mapping[str, Array]) -> list[str]:
    """Return the names whose losses (of the same rows) are not clearly larger than those of the best."""
    if not losses:
        return []
    best = losses[min(losses, key=lambda name: losses[name].mean())]

    def may_be_best(own: Array) -> bool:
        more = own - best
        return bool(more.mean() <= _CLEAR * more.std() / np.sqrt(max(1, len(more) - 1)))

    return [name for name, own in losses.items() if may_be_best(own)]


def _with(entries: Iterable[dict[str, Any]], key: str) -> list[dict[str, Any]]:
    return [entry for entry in entries if key in entry]


def _none(refusals: list[Exception], budget: int) -> Exception:
    """Return the most useful refusal: the smallest possible budget, else the first."""
    sizes = [e.smallest for e in refusals if isinstance(e, BudgetError) and e.smallest is not None]
    if sizes:
        return BudgetError.too_small(budget, min(sizes), "a student of this model")
    return refusals[0] if refusals else BudgetError.expected("a compressor", "none registered", "treespec.plugins() lists what there is")
