"""From boosted trees of single outputs to one packed student: rounds interleaved, thresholds shortened, leaf values rounded."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treespec.distill.boosters import Boosted, trees_of
from treespec.distill.problem import Problem
from treespec.distill.shorten import Gaps
from treespec.ir import Forest, InputRule
from treespec.ir import link as links
from treespec.students.outcome import Outcome
from treespec.students.packed import PackedStudent
from treespec.students.packed_format import pack

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Frame:
    """What students of one teacher share.

    Attributes
    ----------
    outcome : Outcome
        The teacher's.
    problem : Problem
    rule : InputRule
        The teacher's, in float32.
    gaps : Gaps
        Of all rows.
    never_missing : (n_features,) bool
        True where no row has a missing value, so that its direction means nothing.
    """

    outcome: Outcome
    problem: Problem
    rule: InputRule
    gaps: Gaps
    never_missing: NDArray[np.bool_]

    @classmethod
    def of(cls, teacher: Forest, problem: Problem, X: NDArray[np.float32]) -> Frame:
        """Return the frame of a teacher and its encoded rows."""
        rule = replace(teacher.inputs, dtype="float32")
        return cls(Outcome.of(teacher), problem, rule, Gaps(X), np.asarray(~np.isnan(X).any(axis=0)))

    @property
    def head(self) -> str:
        """What the sums of the trees are to the student (`packed_format.HEADS`)."""
        return self.problem.head if self.outcome.links_head(self.problem.head) else "margin"

    def margin(self, sums: Array) -> Array:
        """Return the student's margins from sums of trees (n, k)."""
        if self.head == "margin":
            return sums * self.problem.margin_scale
        p = np.asarray(links.LINKS["sigmoid" if self.head == "logit" else "softmax"](sums), dtype=np.float64)
        return np.column_stack([1 - p, p]) if self.head == "logit" and self.outcome.n_outputs > 1 else p

    def tidy(self, forest: Forest) -> Forest:
        """Return a forest of one output with this input rule, short thresholds, and no missing directions that mean nothing."""
        silent = self.never_missing[np.maximum(forest.feature, 0)]
        plain = forest.with_values(forest.value, inputs=self.rule, default_left=forest.default_left & ~silent)
        return self.gaps.shorten(plain)

    def join(self, boosted: Boosted, n_rounds: int) -> Forest:
        """Return the first rounds of tidied boosters as one forest, tree t adding to output t mod k."""
        k = len(boosted.forests)
        scale = self.problem.margin_scale if self.head == "margin" else 1.0
        own: dict[str, Any] = {"inputs": self.rule, "base_score": boosted.base * scale}
        if k == 1:
            f = boosted.forests[0]
            first = trees_of(f, np.arange(min(n_rounds, f.n_trees)))
            return first.with_values(first.value * scale, **own)
        order = [(r, j) for r in range(n_rounds) for j in range(k) if r < boosted.forests[j].n_trees]
        wide = []
        for j, f in enumerate(boosted.forests):
            value = np.where(f.is_leaf[:, None], 0.0, np.nan) * np.ones(k)
            value[:, j] = f.value[:, 0] * scale
            wide.append(f.with_values(value, base_score=np.zeros(k), tree_output=np.full(f.n_trees, j)))
        return _concatenate(wide, order, own)

    def student(self, forest: Forest, leaf_bits: int) -> PackedStudent:
        """Return the packed student of a joined forest."""
        return PackedStudent(pack(forest, leaf_bits, self.head), self.outcome)


def _concatenate(forests: list[Forest], order: list[tuple[int, int]], own: dict[str, Any]) -> Forest:
    """Return trees (number, forest) of several forests as one forest."""
    first = np.concatenate([[0], np.cumsum([f.n_nodes for f in forests])])
    parts = [np.arange(forests[j].tree_offset[r], forests[j].tree_offset[r + 1]) + first[j] for r, j in order]
    nodes = np.concatenate([*parts, np.empty(0, np.int64)]).astype(np.int64)
    place = np.full(first[-1] + 1, -1)
    place[nodes] = np.arange(len(nodes))

    def all_of(name: str) -> NDArray[Any]:
        return np.asarray(np.concatenate([getattr(f, name) for f in forests])[nodes])

    def child(name: str) -> NDArray[Any]:
        moved = [np.where(getattr(f, name) >= 0, getattr(f, name) + start, -1) for f, start in zip(forests, first, strict=False)]
        return np.asarray(place[np.concatenate(moved)[nodes]])

    sets = [f.category[a:b] for f in forests for a, b in zip(f.category_offset[:-1], f.category_offset[1:], strict=True)]
    chosen = [sets[v] for v in nodes]
    known = all(f.cover is not None for f in forests)
    return Forest(
        tree_offset=np.concatenate([[0], np.cumsum([len(p) for p in parts])]), left=child("left"), right=child("right"),
        feature=all_of("feature"), threshold=all_of("threshold"), default_left=all_of("default_left"),
        value=np.concatenate([f.value for f in forests])[nodes], n_features=forests[0].n_features,
        tree_output=np.array([j for _, j in order], np.int32), category_offset=np.concatenate([[0], np.cumsum([len(c) for c in chosen])]),
        category=np.concatenate([*chosen, np.empty(0, np.int32)]), category_left=all_of("category_left"),
        categorical=all_of("categorical"), cover=all_of("cover") if known else None,
        task="regression" if forests[0].n_outputs == 1 else "multi-output", **own,
    )  # fmt: skip
