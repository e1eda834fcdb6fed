"""Compressor ``mlp``: plain distillation into small nets, by a recipe that was measured over seven data sets.

Candidates are {linear, one hidden layer, two} x {labels, half labels and half teacher} x three weight decays; the best on the validation
rows is refitted on all rows, and spare bytes go to averaging several nets.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treespec.distill.data import DistillData
from treespec.distill.nets import Inputs, Output, build, prepare
from treespec.distill.problem import Problem, pose
from treespec.distill.shapes import check_smallest, members_that_fit, widest
from treespec.distill.train import Recipe, loss_of, train
from treespec.hooks import Progress, Teacher
from treespec.ir.table import take
from treespec.students.fold import Net
from treespec.students.mlp import MLPStudent, Precision, student_bytes

Array = NDArray[np.float64]

DECAYS = {"few": (0.1, 0.5, 2.0), "many": (0.003, 0.05, 0.5)}
"""Weight decays to try: up to 3,000 rows, and above, where training is longer and the rows hold a net back themselves."""
MIXES = (1.0, 0.5)
_WIDEST = ((20_000, 48, 40), (60_000, 64, 64), (float("inf"), 128, 112))
"""Up to this budget, the most units of one hidden layer and of each of two: wider single nets lose to averages."""
_MANY_ROWS = 3000


@dataclass(frozen=True)
class Candidate:
    """One thing that was tried.

    Attributes
    ----------
    hidden : tuple of int
    mix : float
        Share of the labels in the target; the rest is the teacher.
    decay : float
    loss : float
        On the validation rows.
    step : int
        After which it was best.
    net : Net
        Trained on the rows to fit alone.
    """

    hidden: tuple[int, ...]
    mix: float
    decay: float
    loss: float
    step: int
    net: Net = field(repr=False)

    def to_dict(self) -> dict[str, Any]:
        """Return what a report says of it."""
        return {"hidden": list(self.hidden), "label share": self.mix, "weight decay": self.decay, "loss": self.loss, "step": self.step}


def mlp(
    teacher: Teacher,
    budget: int,
    *,
    data: DistillData,
    random_state: int,
    progress: Progress | None,
    precision: Precision | None = None,
    steps: int | None = None,
) -> MLPStudent:
    """Return a student of at most ``budget`` bytes: small nets trained on labels, the teacher, or both.

    Parameters
    ----------
    precision : {"float32", "float16", "int8"}, optional
        Of the stored weights; by default float16, or int8 where nothing else fits.
    steps : int, optional
        Of training; by default 800 of 64 rows (above 3,000 rows 1,600 to 4,000 of 128).
    """
    problem = pose(teacher.forest, data, shares=True)
    inputs = prepare(teacher.forest, data, budget)
    check_smallest(inputs.preprocess, problem.n_outputs, budget, "a linear student of these columns")
    stored = precision or _precision(inputs, problem, budget)
    few = data.n_rows <= _MANY_ROWS
    length = {"steps": steps or (800 if few else min(4000, max(1600, data.n_rows // 4))), "batch": 64 if few else 128}
    shapes = candidate_shapes(inputs, problem, budget, stored)
    tried: list[Candidate] = []
    for k, hidden in enumerate(shapes):
        if progress is not None:
            progress(f"mlp: nets of {hidden or 'no'} hidden units", k / (len(shapes) + 1))
        tried += _try(inputs, problem, data, hidden, random_state, length)
    winner = min(tried, key=lambda c: c.loss)
    shape = (inputs.preprocess.n_inputs, *winner.hidden, problem.n_outputs)
    n_members = members_that_fit(inputs.preprocess, shape, budget, stored) if winner.hidden else 1
    if progress is not None:
        progress("mlp: refit on all rows", len(shapes) / (len(shapes) + 1))
    nets = _refit(inputs, problem, data, winner, n_members, random_state, length)
    output = Output(problem.head, problem.scale * problem.margin_scale, problem.shift * problem.margin_scale)
    student = build(teacher.forest, inputs, nets, output, stored)
    judged = build(teacher.forest, inputs, [winner.net], output, stored)
    student.report = {
        "compressor": "mlp",
        "chosen": winner.to_dict() | {"nets": n_members, "precision": stored},
        "candidates": [c.to_dict() for c in tried],
        "validation_margin": judged.margin(take(data.rows.X, data.validation)).reshape(len(data.validation), -1),
    }
    return student


def candidate_shapes(inputs: Inputs, problem: Problem, budget: int, precision: Precision) -> list[tuple[int, ...]]:
    """Return hidden widths worth trying: none, one layer (so that three nets fit), two (so that at least one does)."""
    one, two = next((a, b) for top, a, b in _WIDEST if budget <= top)
    k = problem.n_outputs
    single = widest(inputs.preprocess, 1, k, budget, precision, members=3, most=one) or widest(
        inputs.preprocess, 1, k, budget, precision, most=one
    )
    double = widest(inputs.preprocess, 2, k, budget, precision, members=2, most=two) or widest(
        inputs.preprocess, 2, k, budget, precision, most=two
    )
    return [(), *([(single,)] if single > 1 else []), *([(double, double)] if double > 3 else [])]


def _precision(inputs: Inputs, problem: Problem, budget: int) -> Precision:
    shape = (inputs.preprocess.n_inputs, problem.n_outputs)
    return "float16" if student_bytes(inputs.preprocess, shape, "float16", 1) <= budget else "int8"


def _try(
    inputs: Inputs, problem: Problem, data: DistillData, hidden: tuple[int, ...], seed: int, length: dict[str, int]
) -> list[Candidate]:
    """Train all targets and decays of one shape at once on the rows to fit, and judge them on the rows to validate."""
    mixes = MIXES if problem.labels is not None and data.objective == "accuracy" else (0.0,)
    grid = [(mix, decay) for mix in mixes for decay in DECAYS["few" if data.n_rows <= _MANY_ROWS else "many"]]
    wanted = problem.target(data.objective)[data.validation]
    weight = None if data.rows.sample_weight is None else data.rows.sample_weight[data.validation]
    targets = np.stack([_mixed(problem, mix)[data.fit] for mix, _ in grid]).astype(np.float32)
    recipe = Recipe(hidden, loss_of(problem.loss, problem.shift, problem.scale), [d for _, d in grid], seed=seed, **length)
    best = train(
        inputs.values[data.fit],
        targets,
        recipe,
        judge=lambda outputs: [problem.validation_loss(o, wanted, weight) for o in outputs],
        judged=inputs.values[data.validation],
        row_weight=None if data.rows.sample_weight is None else data.rows.sample_weight[data.fit],
    )
    found = zip(grid, best.value, best.step, best.net, strict=True)
    return [Candidate(hidden, mix, decay, loss, step, net) for (mix, decay), loss, step, net in found]


def _refit(
    inputs: Inputs, problem: Problem, data: DistillData, winner: Candidate, n_members: int, seed: int, length: dict[str, int]
) -> list[Net]:
    """Train ``n_members`` nets like the winner on all rows, each from its own start, up to the step where the winner was best."""
    recipe = Recipe(winner.hidden, loss_of(problem.loss, problem.shift, problem.scale), [winner.decay] * n_members, seed=seed + 1, **length)
    best = train(
        inputs.values,
        _mixed(problem, winner.mix)[None].astype(np.float32),
        recipe,
        stop=[winner.step] * n_members,
        row_weight=data.rows.sample_weight,
    )
    return best.net


def _mixed(problem: Problem, mix: float) -> Array:
    """Return ``mix`` parts of labels and the rest of the teacher."""
    if problem.labels is None or mix == 0:
        return problem.teacher
    return mix * problem.labels + (1 - mix) * problem.teacher
