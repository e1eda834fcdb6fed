"""`Pareto`: the rate-distortion curve of a model, one student a budget."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from treespec.distill.budget import parse_budget
from treespec.distill.report import Report
from treespec.errors import BudgetError, TreespecError
from treespec.students import Student


@dataclass(frozen=True)
class Point:
    """What one budget buys.

    Attributes
    ----------
    budget, n_bytes : int
        Bytes allowed and used; 0 used where no student fits.
    chosen : str
        The compressor that made the student, or why there is none.
    metric : str
        As in `treespec.distill.report.Score`.
    score, teacher_score : float or None
        Of student and model on the same rows: those of ``holdout`` where given, else the validation rows. None where only the teacher can
        judge, or there is no student.
    fidelity : float or None
        Closeness to the model on the validation rows.
    rows : str
        What the score was measured on.
    student : Student or None
    """

    budget: int
    n_bytes: int
    chosen: str
    metric: str = ""
    score: float | None = None
    teacher_score: float | None = None
    fidelity: float | None = None
    rows: str = ""
    student: Student | None = field(default=None, repr=False, compare=False)


@dataclass(frozen=True)
class Pareto:
    """The points of the curve, by budget."""

    points: tuple[Point, ...]

    def to_frame(self) -> Any:
        """Return a pandas frame, one budget a row, without the students."""
        import pandas as pd

        return pd.DataFrame([{k: v for k, v in asdict(p).items() if k != "student"} for p in self.points])

    def __str__(self) -> str:
        """Return the curve as text."""
        lines = [f"{'budget':>10} {'bytes':>10} {'score':>8} {'fidelity':>8}  chosen"]
        for p in self.points:
            score, fidelity = ("" if v is None else f"{v:.4f}" for v in (p.score, p.fidelity))
            lines.append(f"{p.budget:>10} {p.n_bytes or '':>10} {score:>8} {fidelity:>8}  {p.chosen}")
        judged = next((p for p in self.points if p.score is not None), None)
        return "\n".join(lines if judged is None else [*lines, "", f"score: {judged.metric} on {judged.rows}"])

    def plot(self, ax: Any = None) -> Any:
        """Draw scores (fidelity, where no labels judge) against bytes, the model's own as a line; return the matplotlib axes."""
        from treespec.plots.pareto import plot_pareto

        made = [p for p in self.points if p.student is not None]
        by_labels = all(p.score is not None for p in made)
        value = [p.score if by_labels else p.fidelity for p in made]
        own = next((p.teacher_score for p in made), None) if by_labels else None
        metric = next((p.metric for p in made), "score") if by_labels else "fidelity to the model"
        return plot_pareto([p.n_bytes for p in made], value, [p.chosen for p in made], own=own, metric=metric, ax=ax)


def trace(budgets: Sequence[str | int], distil: Callable[[int], Student]) -> Pareto:
    """Return the curve of what ``distil(budget)`` gives for each budget; budgets that nothing fits are kept, with the reason.

    Raises
    ------
    BudgetError
        If a budget cannot be read.
    TreespecError
        If there is none.
    """
    if isinstance(budgets, (str, int)) or not len(budgets):
        raise TreespecError.expected("a list of budgets", repr(budgets), "for one budget use distill(budget)")
    points = []
    for size in sorted({parse_budget(b) for b in budgets}):
        try:
            student = distil(size)
        except BudgetError as error:
            points.append(Point(size, 0, str(error).split("\n", maxsplit=1)[0]))
            continue
        points.append(_point(size, student))
    return Pareto(tuple(points))


def _point(size: int, student: Student) -> Point:
    report: Report = student.report
    told = {s.model: s for s in reversed(report.scores) if not s.metric.endswith("the teacher")}
    fidelity = next((s.value for s in report.scores if s.metric.endswith("the teacher")), None)
    if "student" not in told:
        return Point(size, student.n_bytes, report.chosen, fidelity=fidelity, student=student)
    own, teacher = told["student"], told.get("teacher")
    teacher_score = None if teacher is None else teacher.value
    return Point(size, student.n_bytes, report.chosen, own.metric, own.value, teacher_score, fidelity, own.rows, student)
