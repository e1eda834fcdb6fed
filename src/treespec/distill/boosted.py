"""Compressor ``boosted``: small boosted trees trained on labels, on the teacher or on both, packed, as many as fill the budget."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treespec.distill.boosted_join import Frame
from treespec.distill.boosters import Boosted, Config, fit
from treespec.distill.data import DistillData
from treespec.distill.judge import judge, wanted_of
from treespec.distill.problem import Problem, pose
from treespec.distill.report import fitted_on
from treespec.errors import BudgetError
from treespec.hooks import Progress, Teacher
from treespec.students.packed import PackedStudent
from treespec.students.packed_format import estimate, pack
from treespec.students.packed_walk import Walk

Array = NDArray[np.float64]
Rows = NDArray[np.intp]

_GRID: tuple[tuple[float, tuple[float, ...], tuple[int, ...], tuple[int, ...]], ...] = (
    (1_500, (0.6, 0.3), (4, 8, 16), (31, 63)),
    (4_000, (0.4, 0.2), (8, 16, 31), (31, 63)),
    (15_000, (0.2, 0.1), (8, 16, 31), (63, 255)),
    (float("inf"), (0.1, 0.05), (16, 31), (63, 255)),
)
"""Up to this many bytes: learning rates, leaves and bins that are tried."""

_SMALL = 6000  # rows up to which candidates are cross-validated instead of judged on one validation set
_MOST_ROUNDS = 1000
_MOST_FOR_FEW, _ROWS_A_ROUND = 250, 20  # few rows are soon learned: so many rounds, and one for so many rows
_CHECKPOINTS = 24
_JUDGED = 4000  # validation rows that candidates are compared on
_MIXES = (0.75, 0.5, 0.0)
_SAFE_MIXES = (0.75,)
"""Where the teacher was fitted on these very rows, its predictions know the labels of validation rows: validation then favours the teacher
whether or not it helps on new rows. A quarter of teacher helped a little on nearly every data set tried; more did as much harm as good."""

_LEAF_BITS = (4, 5, 6, 8)
_USUAL_BITS = 5
_FEW_ROWS = 1000
_FINALISTS = 3
_BIT_FOLDS = 2
_GUESSES = 4


@dataclass(frozen=True)
class Candidate:
    """One thing that was tried.

    Attributes
    ----------
    config : Config
    mix : float
        Share of the labels in the target; the rest is the teacher.
    rounds : int
        As many as fit, or fewer where more do harm.
    fills : bool
        Whether the budget, not the validation rows, ended the rounds.
    loss : float
        On the validation rows, over all folds.
    """

    config: Config
    mix: float
    rounds: int
    fills: bool
    loss: float

    def to_dict(self) -> dict[str, Any]:
        """Return what a report says of it."""
        c = self.config
        return {
            "learning rate": c.rate, "leaves": c.leaves, "bins": c.bins, "label share": self.mix, "rounds": self.rounds, "loss": self.loss,
        }  # fmt: skip


def boosted(
    teacher: Teacher, budget: int, *, data: DistillData, random_state: int, progress: Progress | None, leaf_bits: int | None = None
) -> PackedStudent:
    """Return boosted trees of at most ``budget`` bytes, packed.

    Learning rate, tree size and number of thresholds are chosen on the validation rows (by cross-validation up to 6,000 rows), then the
    target (labels, labels with some teacher, teacher), then the bits of a leaf value; the winner is refitted on all rows with as many
    rounds as fit. Every threshold is moved inside its gap in the rows to a short number, which moves no row.

    Parameters
    ----------
    leaf_bits : int, optional
        Of a leaf value; by default 4, 5, 6 or 8, whichever is best.

    Raises
    ------
    BudgetError
        If not even one split fits.

    Notes
    -----
    Trains with LightGBM, or scikit-learn's histogram boosting where that is not installed, on one thread: up to some 20 s. Nothing is
    random: ``random_state`` only split the rows.
    """
    return _Search(teacher, budget, data, progress, (leaf_bits,) if leaf_bits else _LEAF_BITS).run()


class _Search:
    """One call of `boosted`."""

    def __init__(self, teacher: Teacher, budget: int, data: DistillData, progress: Progress | None, leaf_bits: Sequence[int]) -> None:
        self.budget, self.data, self.progress, self.leaf_bits = budget, data, progress, leaf_bits
        self.forest = teacher.forest
        self.problem: Problem = pose(teacher.forest, data, shares=True)
        encoded = teacher.forest.encode(data.rows.X)
        with np.errstate(over="ignore"):
            self.X = encoded.astype(np.float32)
        self.categorical = [j for j in teacher.forest.inputs.categorical if j < self.X.shape[1]]
        self.frame = Frame.of(teacher.forest, self.problem, self.X)
        self.folds = self._folds()
        self.tried: list[Candidate] = []
        self._leader: tuple[float, list[Boosted]] | None = None

    def _folds(self) -> list[tuple[Rows, Rows]]:
        """Return rows to fit on and to judge on: the given split first, for few rows three more."""
        fit_rows, validation = self.data.fit, self.data.validation
        if self.data.n_rows > _SMALL or self.data.n_rows < 40:
            return [(fit_rows, validation)]
        rest = np.array_split(fit_rows, 3)
        return [(fit_rows, validation)] + [(np.setdiff1d(np.arange(self.data.n_rows), part), part) for part in rest]

    def run(self) -> PackedStudent:
        """Search, refit, report."""
        labelled = self.problem.labels is not None and self.data.objective == "accuracy"
        mix = 1.0 if labelled else 0.0
        grid = self._grid()
        first = []
        for k, config in enumerate(grid):
            self._say(f"boosted: trees of {config.leaves} leaves", k / (len(grid) + 4))
            first.append(self._try(config, mix, self.folds[:1]))
        if len(self.folds) > 1:  # the given split alone chooses badly on few rows
            first.sort(key=lambda c: c.loss)
            self.tried = [self._try(c.config, mix, self.folds) for c in first[:_FINALISTS]]
        else:
            self.tried = first
        seen = fitted_on(self.forest, self.data.rows.leaf_id, self.data.rows.sampled_from) != "no"
        for other in () if not labelled else _SAFE_MIXES if seen else _MIXES:
            self._say("boosted: targets", len(grid) / (len(grid) + 4))
            self.tried.append(self._try(self._best.config, other, self.folds))
        bits, margin = self._choose_bits()
        self._say("boosted: refit on all rows", 1.0)
        student = self._refit(bits)
        student.report = {
            "compressor": "boosted",
            "chosen": self._best.to_dict() | {"leaf bits": student.leaf_bits, "trees": student.forest.n_trees},
            "candidates": [c.to_dict() for c in self.tried],
            "validation_margin": margin,
        }
        return student

    @property
    def _best(self) -> Candidate:
        return min(self.tried, key=lambda c: c.loss)

    def _say(self, what: str, share: float) -> None:
        if self.progress is not None:
            self.progress(what, share)

    def _grid(self) -> list[Config]:
        rates, leaves, bins = next((r, v, b) for top, r, v, b in _GRID if self.budget / self.problem.n_outputs <= top)
        fewest = 5 if len(self.data.fit) < _FEW_ROWS else 20
        few = len(self.data.fit) // 4
        return [Config(r, n, b, min(fewest, max(1, few))) for n in leaves for r in rates for b in bins]

    def _rounds(self, config: Config) -> int:
        """Return more rounds than can fit."""
        a_split = 7 if self.budget < _GRID[0][0] else 9  # bits: the index, the shape, a share of the tables
        bits = (config.leaves - 1) * a_split + config.leaves * min(self.leaf_bits)
        most = min(_MOST_ROUNDS, _MOST_FOR_FEW + self.data.n_rows // _ROWS_A_ROUND)
        return int(np.clip(self.budget * 8 // (bits * self.problem.n_outputs), 1, most))

    def _target(self, mix: float) -> Array:
        labels = self.problem.labels
        return self.problem.teacher if labels is None or mix == 0 else mix * labels + (1 - mix) * self.problem.teacher

    def _fit(self, rows: Rows, config: Config, mix: float, n_rounds: int) -> Boosted:
        weight = None if self.data.rows.sample_weight is None else self.data.rows.sample_weight[rows]
        found = fit(self.X[rows], self._target(mix)[rows], self.problem.loss, config, n_rounds, weight=weight, categorical=self.categorical)
        return replace(found, forests=[self.frame.tidy(f) for f in found.forests])

    def _try(self, config: Config, mix: float, folds: list[tuple[Rows, Rows]]) -> Candidate:
        """Train one configuration on folds, and find the best number of rounds that fits."""
        losses = []
        models = []
        points = np.arange(0)
        for fit_rows, judged in folds:
            found = self._fit(fit_rows, config, mix, self._rounds(config))
            models.append(found)
            if not len(points):
                fitting = self._fitting(found, _USUAL_BITS if len(self.leaf_bits) > 1 else self.leaf_bits[0])
                points = np.unique(np.linspace(1, max(1, fitting), _CHECKPOINTS).astype(int))
            losses.append([len(judged) * loss for loss in self._losses(found, judged[:_JUDGED], points)])
        mean = np.sum(losses, axis=0) / sum(len(judged) for _, judged in folds)
        chosen = int(mean.argmin())
        candidate = Candidate(config, mix, int(points[chosen]), chosen == len(points) - 1, float(mean[chosen]))
        if self._leader is None or candidate.loss < self._leader[0] or len(models) > len(self._leader[1]):
            self._leader = candidate.loss, models
        return candidate

    def _fitting(self, found: Boosted, bits: int) -> int:
        """Return about how many rounds fit."""
        low, below, above = 0, 0, 0
        high = at = found.n_rounds
        for _ in range(_GUESSES):
            size = estimate(self.frame.join(found, at), bits)
            if size <= self.budget:
                low, below = at, size
                if at == high:
                    break
            else:
                high, above = at, size
            if high - low <= 1 + high // 100:
                break
            at = int(np.clip(low + (self.budget - below) / max(1, above - below) * (high - low), low + 1, high - 1))
        return max(1, low)

    def _losses(self, found: Boosted, rows: Rows, points: NDArray[np.integer]) -> list[float]:
        """Return the loss on rows after each of some numbers of rounds."""
        sums = np.empty((len(points), len(rows), len(found.forests)))
        for j, forest in enumerate(found.forests):
            leaf = np.cumsum(Walk.of(forest).leaf_values(self.X[rows]), axis=0) if forest.n_trees else np.zeros((1, len(rows)))
            sums[:, :, j] = found.base[j] + leaf[np.minimum(points, len(leaf)) - 1]
        wanted = wanted_of(self.frame.outcome, self.data, rows)
        weight = None if self.data.rows.sample_weight is None else self.data.rows.sample_weight[rows]
        return [judge(self.frame.outcome, self.frame.margin(s), wanted, weight).loss for s in sums]

    def _choose_bits(self) -> tuple[int, Array]:
        """Return the best number of leaf bits, judged on packed students, and its margins on the validation rows of the given split."""
        loss = dict.fromkeys(self.leaf_bits, 0.0)
        margins = {b: self.frame.margin(np.zeros((len(self.data.validation), self.problem.n_outputs))) for b in self.leaf_bits}
        models = [] if self._leader is None else self._leader[1]
        for k, (found, (_, judged)) in enumerate(zip(models, self.folds[:_BIT_FOLDS], strict=False)):
            weight = None if self.data.rows.sample_weight is None else self.data.rows.sample_weight[judged]
            wanted = wanted_of(self.frame.outcome, self.data, judged)
            for bits in self.leaf_bits:
                student = self._filled(found, bits)
                if student is None:
                    loss[bits] = np.inf
                    continue
                margin = student.margin_of(self.X[judged])
                loss[bits] += len(judged) * judge(self.frame.outcome, margin, wanted, weight).loss
                if k == 0:
                    margins[bits] = margin
        best = min(loss, key=lambda b: loss[b])
        return best, margins[best]

    def _filled(self, found: Boosted, bits: int) -> PackedStudent | None:
        """Return the student of as many rounds as fit and help, or None where not even one fits."""
        most = found.n_rounds if self._best.fills else min(found.n_rounds, self._best.rounds)
        low, high, best = 1, most, None
        at = min(most, self._fitting(found, bits))
        while low <= high:
            payload = pack(self.frame.join(found, at), bits, self.frame.head)
            if len(payload) <= self.budget:
                best, low = payload, at + 1
            else:
                high = at - 1
            spare = (self.budget - len(payload)) / (len(payload) / at)
            at = int(np.clip(at + (max(1, int(spare)) if spare >= 0 else min(-1, int(spare))), low, max(low, high)))
        return None if best is None else PackedStudent(best, self.frame.outcome)

    def _refit(self, bits: int) -> PackedStudent:
        rows = np.arange(self.data.n_rows)
        student = self._filled(self._fit(rows, self._best.config, self._best.mix, self._rounds(self._best.config)), bits)
        if student is None:  # one split
            stump = replace(self._best.config, leaves=2, rate=1.0)
            forest = self.frame.join(self._fit(rows, stump, self._best.mix, 1), 1)
            payload = pack(forest, min(self.leaf_bits), self.frame.head)
            if len(payload) > self.budget:
                raise BudgetError.too_small(self.budget, len(payload), "one split")
            student = PackedStudent(payload, self.frame.outcome)
        return student
