"""What the compressors that prune the teacher's own trees share: which rows judge, thresholds, the number of splits that fits, packing.

Trees that were grown on the validation rows know their labels, and any choice made by them would favour deep trees. So choices are made on
trees of the same kind that were grown on the other rows alone (`treespec.distill.data.DistillData.unseen`), and then repeated on the
teacher's own. Where there are no such trees, the student says that it was judged in-sample.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treespec.distill.boosted_join import Frame
from treespec.distill.data import DistillData
from treespec.distill.grove import Goal, Grove, scores_of
from treespec.distill.judge import judge, wanted_of
from treespec.distill.problem import Problem, pose
from treespec.distill.refit import refit
from treespec.distill.shorten import Gaps
from treespec.distill.unseen import unseen
from treespec.errors import BudgetError
from treespec.hooks import Progress, Teacher
from treespec.ir import Forest
from treespec.ir.prune import node_means
from treespec.students.packed import PackedStudent
from treespec.students.packed_format import estimate, pack

Thin = Callable[[Grove, int], Grove]
"""``thin(grove, n_splits)`` returns the grove with at most so many splits."""

_BINS = ((3_000, 31), (30_000, 63), (float("inf"), 255))
"""Up to this budget, how many places a feature's thresholds may have: shared ones cost a few bits a split, own ones a dozen."""

_LEAF_BITS = ((3_000, 5), (float("inf"), 6))
_ROUGHLY = 6  # times as many splits as fit are kept before anything else is done
_A_SPLIT = 17  # bits, about
_GUESSES = 3
_FULL, _MORE = 0.93, 1.04  # shares of the budget: less is not full enough, and a little more is asked for then
_MIXES = (1.0, 0.5)
_SHARES, _MANY = (1.0, 0.25), 30_000  # shares are tried for budgets above so many bytes


@dataclass(frozen=True)
class Setting:
    """What validation chooses.

    Attributes
    ----------
    mix : float
        Share of the labels in the target; the rest is the teacher.
    share : float
        Of the splits that fit; fewer can be better where many fit.
    alpha : float or None
        Of the last refit of all leaves; None leaves them as they are.
    """

    mix: float
    share: float
    alpha: float | None

    def to_dict(self) -> dict[str, Any]:
        """Return what a report says of it."""
        return {"label share": self.mix, "share of the splits": self.share} | ({} if self.alpha is None else {"alpha": self.alpha})


def thinned(
    name: str,
    thin: Thin,
    alphas: Sequence[float | None],
    teacher: Teacher,
    budget: int,
    *,
    data: DistillData,
    progress: Progress | None,
    leaf_bits: int | None = None,
) -> PackedStudent:
    """Return the student of at most ``budget`` bytes that ``thin`` makes of the teacher's trees.

    Raises
    ------
    BudgetError
        If not even a constant fits.
    """
    work = _Work(teacher.forest, budget, data, thin, leaf_bits or next(bits for top, bits in _LEAF_BITS if budget <= top))
    labelled = work.problem.labels is not None and data.objective == "accuracy"
    fair = unseen(teacher.forest, data)
    forest, leaf_id = (teacher.forest, data.rows.leaf_id) if fair is None else fair
    mixes = _MIXES if labelled else (0.0,)
    tried: list[tuple[float, Setting, Grove]] = []
    for k, mix in enumerate(mixes):
        if progress is not None:
            progress(f"{name}: label share {mix}", k / (len(mixes) + 1))
        full = work.thinned(forest, leaf_id[data.fit], data.fit, mix)
        for share in _SHARES if budget > _MANY else (1.0,):
            for setting in (Setting(mix, share, alpha) for alpha in alphas):
                grove = work.finished(full, setting)
                tried.append((work.loss(grove), setting, grove))
    _, best, made = min(tried, key=lambda t: t[0])
    if progress is not None:
        progress(f"{name}: all rows", len(mixes) / (len(mixes) + 1))
    every = np.arange(data.n_rows)
    grove = work.thinned(teacher.forest, data.rows.leaf_id, every, best.mix)
    student = work.pack(work.finished(grove, best), every)
    if student.n_bytes > budget:
        raise BudgetError.too_small(budget, student.n_bytes, "a constant")
    n_splits = student.forest.n_nodes - student.forest.n_leaves
    student.report = {
        "compressor": name,
        "chosen": best.to_dict() | {"trees": student.forest.n_trees, "splits": n_splits, "leaf bits": work.bits},
        "candidates": [s.to_dict() | {"splits": g.n_splits, "loss": loss} for loss, s, g in tried],
        "validation_margin": work.pack(made, data.fit).margin_of(work.X[data.validation]),
        "in_sample": fair is None and data.objective == "accuracy",
    }
    return student


def thin_forest(thin: Thin, teacher: Teacher, budget: int, data: DistillData) -> Grove:
    """Return the teacher's trees thinned, by all rows and the labels (or, for want of them, the teacher), to fit a budget when packed."""
    work = _Work(teacher.forest, budget, data, thin, _LEAF_BITS[-1][1])
    return work.thinned(teacher.forest, data.rows.leaf_id, np.arange(data.n_rows), 1.0 if data.objective == "accuracy" else 0.0)


class _Work:
    """One call of `thinned`."""

    def __init__(self, forest: Forest, budget: int, data: DistillData, thin: Thin, bits: int) -> None:
        self.budget, self.data, self.thin, self.bits = budget, data, thin, bits
        self.problem: Problem = pose(forest, data)
        with np.errstate(over="ignore"):
            self.X = forest.encode(data.rows.X).astype(np.float32)
        gaps = Gaps(self.X, next(n for top, n in _BINS if budget <= top))
        self.frame = replace(Frame.of(forest, self.problem, self.X), gaps=gaps)

    def thinned(self, forest: Forest, leaf_id: NDArray[np.int32], rows: NDArray[np.intp], mix: float) -> Grove:
        """Return the forest thinned by some rows to about as many splits as fit."""
        grove = self._grove(forest, leaf_id, rows, mix)
        wanted = self._guess
        for _ in range(_GUESSES):
            found = self.thin(grove, wanted)
            size = estimate(self._sums(found), self.bits)
            if size >= _FULL * self.budget or found.n_splits >= grove.n_splits:
                break
            wanted = max(wanted + 1, int(_MORE * wanted * self.budget / size))
        return self._trimmed(found)

    def finished(self, grove: Grove, setting: Setting) -> Grove:
        """Return the grove with the share of its splits and the leaf values that a setting asks for."""
        if setting.share < 1:
            grove = self.thin(grove, max(1, int(setting.share * grove.n_splits)))
        return grove if setting.alpha is None else refit(grove, setting.alpha)

    def _trimmed(self, grove: Grove) -> Grove:
        """Return the grove without the splits that tell least, until it is about as large as fits."""
        while (size := estimate(self._sums(grove), self.bits)) > self.budget and grove.n_splits:
            grove = grove.trim(min(grove.n_splits - 1, int(grove.n_splits * self.budget / size)))
        return grove

    def _grove(self, forest: Forest, leaf_id: NDArray[np.int32], rows: NDArray[np.intp], mix: float) -> Grove:
        """Return the trees on the scale of scores, roughly trimmed, with thresholds at few places."""
        times = np.bincount(leaf_id.ravel(), minlength=forest.n_nodes).astype(float)
        scores = scores_of(forest, self.problem)
        scores = scores.with_values(node_means(scores, times))
        grove = Grove(scores, leaf_id, self._goal(rows, mix), forest.aggregation == "mean").trim(_ROUGHLY * self._guess)
        shared = self.frame.tidy(grove.forest)
        return replace(grove, forest=shared, leaf_id=_route(shared, self.X[rows]))

    def _goal(self, rows: NDArray[np.intp], mix: float) -> Goal:
        """Return what is wanted of rows: so many parts labels, the rest the teacher."""
        weight = np.ones(len(rows)) if self.data.rows.sample_weight is None else self.data.rows.sample_weight[rows]
        labels, teacher = self.problem.labels, self.problem.teacher
        target = teacher if labels is None else mix * labels + (1 - mix) * teacher
        return Goal(target[rows], weight, self.problem.loss)

    @property
    def _guess(self) -> int:
        """About how many splits fit."""
        return max(1, self.budget * 8 // (_A_SPLIT + self.bits * (self.problem.n_outputs - 1)))

    def _sums(self, grove: Grove) -> Forest:
        """Return the trees on the scale of the student's sums."""
        scale = self.problem.margin_scale if self.frame.head == "margin" else 1.0
        return grove.forest.with_values(grove.forest.value * scale, base_score=grove.forest.base_score * scale)

    def loss(self, grove: Grove) -> float:
        """Return the loss on the validation rows, before leaf values are rounded."""
        rows = self.data.validation
        margin = self.frame.margin(grove.forest.margin_of(_route(grove.forest, self.X[rows])))
        weight = None if self.data.rows.sample_weight is None else self.data.rows.sample_weight[rows]
        return judge(self.frame.outcome, margin, wanted_of(self.frame.outcome, self.data, rows), weight).loss

    def pack(self, grove: Grove, rows: NDArray[np.intp]) -> PackedStudent:
        """Return the student; the splits that tell least are cut until it fits.

        Where none is left it is the best constant of these rows, whose size does not depend on what was tried before; it is returned
        whether or not it fits.
        """
        while grove.n_splits:
            payload = pack(self._sums(grove), self.bits, self.frame.head)
            if len(payload) <= self.budget:
                return PackedStudent(payload, self.frame.outcome)
            grove = grove.trim(min(grove.n_splits - 1, int(grove.n_splits * self.budget / len(payload))))
        none = grove.cut(np.zeros(grove.forest.n_nodes, bool)).forest
        start = self._goal(rows, 1.0 if self.data.objective == "accuracy" else 0.0).start
        constant = replace(grove, forest=none.with_values(none.value, base_score=start))
        return PackedStudent(pack(self._sums(constant), self.bits, self.frame.head), self.frame.outcome)


def _route(forest: Forest, X: NDArray[np.float32]) -> NDArray[np.int32]:
    from treespec.adapters._treelite import TreeliteRouter

    return TreeliteRouter(forest).leaf_id(X)
