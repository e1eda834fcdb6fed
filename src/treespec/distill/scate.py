"""Compressor ``scate``: a small net learns the leading spectral directions of the ensemble's own smoother.

Source: Vu and Watson, "Minimax Rates and Spectral Distillation for Tree Ensembles", section "Spectral Compression of Adaptive Tree
Ensembles". Targets are the first P eigenvectors psi of the forest kernel (a booster of squared loss: left singular vectors of its
smoother; other boosters: the kernel of their trees); the loss is the spectrum-weighted squared error plus gamma times the off-diagonal
Gram penalty; the prediction is ``c . g(x)``, ``c = Lambda Psi.T y``. The output layer and c are both linear, so they fold into one layer,
and P costs no bytes.

While candidates are compared, c comes from the labels of the other rows alone (those of validation rows count as the mean); the spectrum,
in which no label enters but through the trees, is that of all rows throughout.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treespec.distill.data import DistillData
from treespec.distill.nets import Inputs, Output, build, prepare
from treespec.distill.problem import Problem, pose
from treespec.distill.shapes import check_smallest, widest
from treespec.distill.train import Best, Recipe, spectral_loss, train
from treespec.errors import TreespecError
from treespec.hooks import Progress, Teacher
from treespec.ir import Forest
from treespec.ir.table import take
from treespec.operators.boosted import boosting
from treespec.operators.kernel import leaf
from treespec.operators.spectrum import spectrum
from treespec.students.fold import Net
from treespec.students.mlp import MLPStudent, Precision

Array = NDArray[np.float64]

RANK = 50
GAMMA = 0.001
WIDTHS = (4, 8, 16, 32, 64, 128)
DEPTHS = (1, 2, 3, 4, 5)
DECAYS = {"few": (1e-4, 0.1, 1.0, 3.0), "many": (1e-4, 0.02, 0.2)}
"""Weight decays to try (the paper does not say which it used): up to 3,000 rows, and above."""
_MANY_ROWS = 3000


@dataclass(frozen=True, eq=False)
class Directions:
    """Spectral targets of all rows.

    Attributes
    ----------
    psi : (n, P) array
        Scaled to mean square 1.
    weight : (P,) array
        Squared eigenvalues over the largest.
    coefficients : (P, k) array
        ``psi @ coefficients + offset`` is the rank-P prediction.
    compared : (P, k) array
        The same from the labels of the rows that candidates are fitted on.
    offset, compared_offset : (k,) arrays
        Mean labels. The smoother is applied to what labels are above them: of smoothers that keep constants the prediction is the same, and
        a net's small error in the constant direction is not multiplied by the mean.
    smoother : str
    """

    psi: Array
    weight: Array
    coefficients: Array
    compared: Array
    offset: Array
    compared_offset: Array
    smoother: str


def scate(
    teacher: Teacher,
    budget: int,
    *,
    data: DistillData,
    random_state: int,
    progress: Progress | None,
    rank: int = RANK,
    gamma: float = GAMMA,
    teacher_term: float = 0.0,
    label_term: float = 0.0,
    precision: Precision = "float16",
    epochs: int = 200,
    max_steps: int = 2000,
) -> MLPStudent:
    """Return a student of at most ``budget`` bytes that learns spectral directions.

    Parameters
    ----------
    rank : int
        Number P of directions.
    gamma : float
        Weight of the off-diagonal Gram penalty.
    teacher_term, label_term : float
        Weight of the squared error to the teacher's margins and to the labels, which the paper does not use.
    precision : {"float32", "float16", "int8"}
        Of the stored weights.
    epochs : int
        As the paper; stopped early on the validation rows.
    max_steps : int
        Bound on the training of one net, whatever the number of rows.
    """
    forest = teacher.forest
    problem = pose(forest, data)
    inputs = prepare(forest, data, budget)
    check_smallest(inputs.preprocess, problem.n_outputs, budget, "a net of one hidden unit on these columns", hidden=(1,))
    if progress is not None:
        progress("scate: spectrum", 0.0)
    directions = find_directions(forest, data, problem, rank, random_state)
    if not widest(inputs.preprocess, 1, problem.n_outputs, budget, precision):
        precision = "int8"  # the cheapest, and the only one that fits
    few = data.n_rows <= _MANY_ROWS
    shapes = grid(inputs, problem.n_outputs, budget, precision)[: 3 if few else 2]
    terms = _terms(problem, directions, teacher_term, label_term)
    recipe = {"epochs": epochs, "max_steps": max_steps, "seed": random_state, "gamma": gamma}
    decays = DECAYS["few" if few else "many"]
    tried: list[_Tried] = []
    for k, hidden in enumerate(shapes):
        if progress is not None:
            progress(f"scate: net of {hidden} hidden units", (k + 1) / (len(shapes) + 2))
        best = _fit(inputs, directions, data, problem, hidden, recipe, terms, decays, rows=data.fit)
        tried += [_Tried(hidden, *t) for t in zip(decays, best.value, best.step, best.net, strict=True)]
    winner = min(tried, key=lambda t: t.loss)
    if progress is not None:
        progress("scate: refit on all rows", (len(shapes) + 1) / (len(shapes) + 2))
    final = _fit(inputs, directions, data, problem, winner.hidden, recipe, terms, (winner.decay,), rows=None, stop=[winner.step])
    head = "mean" if problem.loss != "squared" else "value"
    scale = np.full(problem.n_outputs, 1.0 if head == "mean" else problem.margin_scale)
    output = Output(head, scale, directions.offset * scale, directions.coefficients)
    compared = Output(head, scale, directions.compared_offset * scale, directions.compared)
    student = build(forest, inputs, final.net, output, precision)
    judged = build(forest, inputs, [winner.net], compared, precision)
    student.report = {
        "compressor": "scate",
        "chosen": winner.to_dict() | {"rank": directions.psi.shape[1], "smoother": directions.smoother, "precision": precision},
        "candidates": [t.to_dict() for t in tried],
        "validation_margin": judged.margin(take(data.rows.X, data.validation)).reshape(len(data.validation), -1),
    }
    return student


@dataclass(frozen=True)
class _Tried:
    """One net that was tried, trained on the rows to fit alone."""

    hidden: tuple[int, ...]
    decay: float
    loss: float
    step: int
    net: Net

    def to_dict(self) -> dict[str, Any]:
        """Return what a report says of it."""
        return {"hidden": list(self.hidden), "weight decay": self.decay, "loss": self.loss, "step": self.step}


def find_directions(forest: Forest, data: DistillData, problem: Problem, rank: int, random_state: int) -> Directions:
    """Return the leading directions of the smoother that the teacher is, and what they predict."""
    y = problem.target(data.objective)
    P = min(rank, data.n_rows - 1, data.n_rows)
    smoother, name = _smoother(forest, data)
    found = spectrum(smoother, max(1, P), random_state=random_state)
    offset, compared_offset = y.mean(axis=0), y[data.fit].mean(axis=0)
    root = np.sqrt(data.n_rows)
    c = found.coefficients(y - offset) / root
    compared = found.coefficients(_without(y, data) - compared_offset) / root
    return Directions(found.left * root, (found.values / found.values[0]) ** 2, c, compared, offset, compared_offset, name)


def _without(y: Array, data: DistillData) -> Array:
    """Return labels from which nothing can be told of the validation rows: theirs are the mean, the others deviate as much as all did."""
    mean = y[data.fit].mean(axis=0)
    out = np.repeat(mean[None], len(y), axis=0)
    out[data.fit] += (y[data.fit] - mean) * (len(y) / len(data.fit))
    return out


def _smoother(forest: Forest, data: DistillData) -> tuple[Any, str]:
    """Return the boosting smoother where it is exact on these rows, else the leaf kernel; and its name."""
    if forest.aggregation == "sum" and forest.loss == "squared" and forest.n_outputs == 1 and not data.drawn:
        try:
            smoother = boosting(forest, data.rows)
        except TreespecError:  # not the training rows, or leaf values that are not linear in the labels: the kernel of the trees serves
            pass
        else:
            return smoother, "boosting"
    return leaf(forest, data.rows), "leaf"


def grid(inputs: Inputs, n_outputs: int, budget: int, precision: Precision) -> list[tuple[int, ...]]:
    """Return the widest net of each depth that fits, among the paper's widths and the budget's own."""
    shapes: list[tuple[int, ...]] = []
    for depth in DEPTHS:
        width = widest(inputs.preprocess, depth, n_outputs, budget, precision, most=WIDTHS[-1])
        if width >= WIDTHS[0] or (width and not shapes):
            shapes.append((width,) * depth)
    return shapes


def _terms(problem: Problem, directions: Directions, teacher_term: float, label_term: float) -> list[tuple[float, Array]]:
    """Return the optional terms of the loss: (factor, standardised targets minus the offset)."""
    spread = float(problem.teacher.std()) or 1.0
    terms = [(teacher_term / spread**2, problem.teacher - directions.offset)] if teacher_term else []
    if label_term and problem.labels is not None:
        terms.append((label_term / spread**2, problem.labels - directions.offset))
    return terms


def _fit(
    inputs: Inputs,
    directions: Directions,
    data: DistillData,
    problem: Problem,
    hidden: tuple[int, ...],
    recipe: dict[str, Any],
    terms: list[tuple[float, Array]],
    decays: tuple[float, ...],
    *,
    rows: NDArray[np.intp] | None,
    stop: list[int] | None = None,
) -> Best:
    """Train nets of one shape; on ``rows`` with early stopping on the validation rows, or on all rows up to ``stop``."""
    chosen = np.arange(data.n_rows) if rows is None else rows
    batch = 128 if len(chosen) <= _MANY_ROWS else 256
    steps = max(50, min(recipe["max_steps"], recipe["epochs"] * len(chosen) // batch))
    loss = spectral_loss(directions.weight, recipe["gamma"], directions.coefficients if terms else None, [(f, t[chosen]) for f, t in terms])
    wanted = problem.target(data.objective)[data.validation]
    weight = None if data.rows.sample_weight is None else data.rows.sample_weight[data.validation]

    def judge(outputs: Array) -> list[float]:
        errors = ((outputs @ directions.compared + directions.compared_offset - wanted) ** 2).mean(axis=2)
        return [float(v) for v in np.average(errors, axis=1, weights=weight)]

    return train(
        inputs.values[chosen],
        directions.psi[chosen][None].astype(np.float32),
        Recipe(hidden, loss, decays, steps=steps, batch=batch, checks=10, seed=recipe["seed"]),
        judge=None if rows is None else judge,
        judged=None if rows is None else inputs.values[data.validation],
        stop=stop,
    )
