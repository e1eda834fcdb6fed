"""`Report`: how a student came about, with each score and the rows it was measured on."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treespec.distill.data import DistillData
from treespec.distill.judge import is_classifier, judge, judge_validation, probabilities
from treespec.hooks import Teacher
from treespec.ir import Forest
from treespec.ir import link as links
from treespec.students import Student
from treespec.students.outcome import Outcome

Holdout = tuple[Any, NDArray[Any]]
"""Rows and labels that neither model was fitted on."""


@dataclass(frozen=True)
class Score:
    """One figure.

    Attributes
    ----------
    model : {"teacher", "student"}
    metric : str
        "R2", "accuracy", "R2 to the teacher" or "agreement with the teacher".
    value : float
    rows : str
        Which rows it was measured on, and who was fitted on them.
    """

    model: str
    metric: str
    value: float
    rows: str


@dataclass(frozen=True)
class Report:
    """How a student came about.

    Attributes
    ----------
    compressor : str
        What was asked for.
    chosen : str
        The compressor that made the student.
    budget, n_bytes : int
    objective : {"accuracy", "fidelity"}
    data : str
        Which rows the student learned from.
    teacher_rows : str
        Whether the teacher was fitted on the same rows: "yes", "not on these alone" (its training rows are others or more, so that some of
        these may be among them), "no (they were drawn)" or "cannot tell".
    scores : tuple of Score
    candidates : tuple of dict
        Everything that was tried, with its loss on the validation rows.
    settings : dict
        What the winner is.
    seconds : float
    """

    compressor: str
    chosen: str
    budget: int
    n_bytes: int
    objective: str
    data: str
    teacher_rows: str
    scores: tuple[Score, ...]
    candidates: tuple[dict[str, Any], ...]
    settings: dict[str, Any] = field(default_factory=dict)
    seconds: float = 0.0

    @property
    def fidelity(self) -> float:
        """Closeness to the teacher on the validation rows: R2, or the share of rows with the same class."""
        return next(s.value for s in self.scores if s.metric.endswith("the teacher"))

    def to_dict(self) -> dict[str, Any]:
        """Return plain values (they go into the student's file)."""
        plain: dict[str, Any] = _plain(asdict(self))
        return plain

    def to_frame(self) -> Any:
        """Return the scores as a pandas frame, one a row."""
        import pandas as pd

        return pd.DataFrame([asdict(s) for s in self.scores])

    def plot(self, ax: Any = None) -> Any:
        """Draw the validation loss of every compressor that was raced (of every candidate, where none was); return the matplotlib axes."""
        from treespec.plots.race import plot_race

        judged = [c for c in self.candidates if "loss" in c]
        if any("compressor" in c for c in judged):
            names = [str(c["compressor"]) for c in judged]
            chosen = names.index(self.chosen) if self.chosen in names else -1
        else:
            names = [f"{k + 1}: {_line({n: v for n, v in c.items() if n != 'loss'})}" for k, c in enumerate(judged)]
            chosen = min(range(len(judged)), key=lambda k: judged[k]["loss"], default=-1)
        return plot_race(names, [float(c["loss"]) for c in judged], chosen=chosen, ax=ax)

    def __str__(self) -> str:
        """Return the report as text."""
        lines = [
            f"{self.chosen} student: {self.n_bytes} of {self.budget} bytes, {self.seconds:.1f} s, objective {self.objective}",
            f"learned from {self.data}",
            f"teacher fitted on these rows: {self.teacher_rows}",
            "",
            *(f"{s.model:<8} {s.metric:<26} {s.value:8.4f}   {s.rows}" for s in self.scores),
        ]
        if self.candidates:
            lines += ["", "tried:", *("  " + _line(c) for c in self.candidates)]
        return "\n".join(lines)


def _line(candidate: dict[str, Any]) -> str:
    if "refused" in candidate:
        return f"{candidate['compressor']}: left out ({candidate['refused']})"
    return ", ".join(f"{k} {v:.4g}" if isinstance(v, float) else f"{k} {v}" for k, v in candidate.items())


def make_report(
    student: Student, teacher: Teacher, data: DistillData, budget: int, compressor: str, seconds: float, holdout: Holdout | None
) -> Report:
    """Return the report of a student that a compressor made."""
    made = dict(student.report or {})
    outcome = Outcome.of(teacher.forest)
    margin = made.pop("validation_margin", None)
    made.pop("fair_margin", None)
    seen = "cannot tell" if data.drawn else fitted_on(teacher.forest, data.rows.leaf_id, data.rows.sampled_from)
    scores = [] if margin is None else _validation_scores(outcome, data, margin, seen)
    if holdout is not None:
        scores = _holdout_scores(outcome, teacher, student, holdout) + scores
    source = f"{data.n_rows} rows " + ("drawn from the forest itself, labelled by the teacher" if data.drawn else "that were passed")
    if data.rows.sampled_from is not None:
        source = f"a uniform sample of {data.n_rows} of the {data.rows.sampled_from} rows that were passed"
    return Report(
        compressor=compressor,
        chosen=str(made.pop("compressor", compressor)),
        budget=budget,
        n_bytes=student.n_bytes,
        objective=data.objective,
        data=source + f"; chosen on {len(data.validation)} of them that candidates were not fitted on, then refitted on all",
        teacher_rows="no (they were drawn)" if data.drawn else "not on these alone" if seen == "no" else seen,
        scores=tuple(scores),
        candidates=tuple(_plain(c) for c in made.pop("raced", made.get("candidates", ()))),
        settings=_plain(made),
        seconds=seconds,
    )


def _validation_scores(outcome: Outcome, data: DistillData, margin: NDArray[np.float64], seen: str) -> list[Score]:
    rows = f"{len(data.validation)} validation rows, before the refit on all rows; the student was chosen on them"
    teachers = rows.split(";", maxsplit=1)[0].replace(", before the refit on all rows", "")
    teachers += {
        "yes": "; the teacher was fitted on them (in-sample)",
        "no": "; whether the teacher was fitted on some of them cannot be told",
    }.get(seen, "; whether the teacher was fitted on them cannot be told")
    scores = []
    if data.objective == "accuracy":
        student = judge_validation(outcome, margin, data)
        own = judge_validation(outcome, data.margin[data.validation], data)
        scores += [Score("teacher", own.metric, own.score, teachers), Score("student", student.metric, student.score, rows)]
    return [*scores, _fidelity(outcome, margin, data.margin[data.validation], rows)]


def _fidelity(outcome: Outcome, margin: NDArray[np.float64], teacher: NDArray[np.float64], rows: str) -> Score:
    if is_classifier(outcome):
        verdict = judge(outcome, margin, probabilities(outcome, teacher))
        return Score("student", "agreement with the teacher", verdict.score, rows)
    verdict = judge(outcome, margin, links.apply_link(outcome, teacher))
    return Score("student", "R2 to the teacher", verdict.score, rows)


def _holdout_scores(outcome: Outcome, teacher: Teacher, student: Student, holdout: Holdout) -> list[Score]:
    X, y = holdout
    rows = f"{len(y)} rows of holdout, passed as rows that neither was fitted on"
    scores = []
    for name, model in (("teacher", teacher), ("student", student)):
        verdict = judge(outcome, model.margin(X).reshape(len(y), -1), y)
        scores.append(Score(name, verdict.metric, verdict.score, rows))
    return scores


def fitted_on(forest: Forest, leaf_id: NDArray[np.int32], sampled_from: int | None = None) -> str:
    """Tell whether these are the rows that the forest was fitted on, all of them: "yes", "no" or "cannot tell".

    Training rows reach every leaf, and where the forest knows counts, at least as many times as it counted. Other rows do so only
    where leaves are few. "no" does not say that the rows are unseen: a part of the training rows misses
    leaves too. Of a sample (``sampled_from`` more rows) it cannot be told.
    """
    if sampled_from is not None:
        return "cannot tell"
    times = np.bincount(leaf_id.ravel(), minlength=forest.n_nodes)[forest.leaves]
    wanted = np.ones(forest.n_leaves) if forest.count is None else forest.count[forest.leaves]
    if (times < np.maximum(wanted, 1)).any():
        return "no"
    rare = (times < _FEW).sum()
    return "yes" if rare > _FEW else "cannot tell"


_FEW = 20  # a leaf of fewer rows would be missed by as many other rows now and then; so many such leaves are no accident


def _plain(value: Any) -> Any:
    """Return a value with numpy scalars and arrays turned into Python's, for JSON."""
    if isinstance(value, dict):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(v) for v in value]
    if isinstance(value, np.ndarray):
        return _plain(value.tolist())
    return value.item() if isinstance(value, np.generic) else value
