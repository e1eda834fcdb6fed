"""`Grove`: trees that are being pruned, with the rows that decide and what is wanted of their scores.

Scores are what trees add up to: values, or logits of classes. Forests of classes, whose leaves hold probabilities, are brought to logits by
the first-order expansion around the mean.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from treespec.distill.problem import Loss, Problem
from treespec.ir import ALL_OUTPUTS, Forest, stats
from treespec.ir.prune import best_splits, node_means, prune

Array = NDArray[np.float64]

_FAR = 30.0
_LEAST = 1e-3  # of a hessian
_TINY = 1e-6
_BALANCE = 5  # Newton steps


@dataclass(frozen=True, eq=False)
class Goal:
    """What is wanted of the scores of rows.

    Attributes
    ----------
    target : (n, k)
        On the scale of the mean, as in `treespec.distill.problem.Problem`.
    weight : (n,)
    loss : {"squared", "logistic", "softmax", "poisson"}
    """

    target: Array
    weight: Array
    loss: Loss

    def working(self, score: Array) -> tuple[Array, Array]:
        """Return the (n, k) weights and residuals of the weighted least squares problem that a Newton step solves."""
        if self.loss == "squared":
            return np.repeat(self.weight[:, None], score.shape[1], axis=1), self.target - score
        z = np.clip(score, -_FAR, _FAR)
        if self.loss == "softmax":
            e = np.exp(z - z.max(axis=1, keepdims=True))
            mean = e / e.sum(axis=1, keepdims=True)
        else:
            mean = np.exp(z) if self.loss == "poisson" else 1 / (1 + np.exp(-z))
        bend = np.maximum(mean if self.loss == "poisson" else mean * (1 - mean), _LEAST)
        return bend * self.weight[:, None], (self.target - mean) / bend

    @property
    def start(self) -> Array:
        """(k,) best constant scores."""
        mean = np.average(self.target, axis=0, weights=self.weight)
        if self.loss == "squared":
            return np.asarray(mean)
        if self.loss == "logistic":
            mean = np.clip(mean, _TINY, 1 - _TINY)
            return np.asarray(np.log(mean / (1 - mean)))
        return np.asarray(np.log(np.maximum(mean, _TINY)))


@dataclass(frozen=True, eq=False)
class Grove:
    """Trees, and the leaves that rows reach.

    Attributes
    ----------
    forest : Forest
        One score an output of the problem; aggregation "sum"; every node has a value (inner nodes the mean of the rows in them).
    leaf_id : (n, n_trees) int32
    goal : Goal
    alike : bool
        Whether each tree on its own is an estimate of the whole (forests), so that fewer of them must count more.
    """

    forest: Forest
    leaf_id: NDArray[np.int32]
    goal: Goal
    alike: bool

    @property
    def n_splits(self) -> int:
        """Number of inner nodes."""
        return self.forest.n_nodes - self.forest.n_leaves

    @cached_property
    def score(self) -> Array:
        """(n, k) scores of the rows."""
        return self.forest.margin_of(self.leaf_id)

    @cached_property
    def rows(self) -> Array:
        """(n_nodes,) weight of the rows in each node."""
        weight = np.repeat(self.goal.weight, self.leaf_id.shape[1])
        at_leaf = np.bincount(self.leaf_id.ravel(), weight, self.forest.n_nodes).astype(np.float64)
        return np.asarray(stats.pull_up(self.forest, at_leaf), dtype=np.float64)

    @cached_property
    def gain(self) -> Array:
        """(n_nodes,) squared error that each split takes away, its sides taken as constant; 0 at leaves."""
        f, inner = self.forest, np.flatnonzero(~self.forest.is_leaf)
        left, right = self.rows[f.left[inner]], self.rows[f.right[inner]]
        step = f.value[f.left[inner]] - f.value[f.right[inner]]
        gain = np.zeros(f.n_nodes)
        gain[inner] = left * right / np.maximum(left + right, _TINY) * (step**2).sum(axis=1)
        return gain

    def with_values(self, value: Array, base: Array | None = None) -> Grove:
        """Return the same trees with other leaf values; inner nodes get the means of their rows."""
        forest = self.forest.with_values(value, **({} if base is None else {"base_score": base}))
        return replace(self, forest=forest.with_values(node_means(forest, np.where(forest.is_leaf, self.rows, 0.0))))

    def balanced(self) -> Grove:
        """Return the same trees with the base score at which residuals are 0 in the mean."""
        base, trees = self.forest.base_score.copy(), self.score - self.forest.base_score
        for _ in range(_BALANCE):
            bend, rest = self.goal.working(trees + base)
            base += (bend * rest).sum(axis=0) / bend.sum(axis=0)
        return replace(self, forest=self.forest.with_values(self.forest.value, base_score=base))

    def cut(self, split: NDArray[np.bool_]) -> Grove:
        """Return the trees cut at nodes that are not in ``split``; trees without a split go into the base score."""
        f = self.forest
        roots = f.tree_offset[:-1]
        alive = split[roots] & ~f.is_leaf[roots]
        base = f.base_score.copy()
        for t in np.flatnonzero(~alive):
            k = f.tree_output[t]
            base += f.value[roots[t]] if k == ALL_OUTPUTS else np.where(np.arange(len(base)) == k, f.value[roots[t]], 0.0)
        trees = np.flatnonzero(alive)
        pruned = prune(f.with_values(f.value, cover=self.rows), split, trees, base_score=base)
        return replace(self, forest=pruned.forest, leaf_id=pruned.route(self.leaf_id, trees))

    def trim(self, n_splits: int) -> Grove:
        """Return the trees with at most ``n_splits`` splits, those that take most squared error away."""
        return self if self.n_splits <= n_splits else self.cut(best_splits(self.forest, self.gain, n_splits))


def scores_of(forest: Forest, problem: Problem) -> Forest:
    """Return the forest with values and base score on the scale of the problem's scores, aggregation "sum"."""
    share = 1 / max(1, forest.n_trees) if forest.aggregation == "mean" else 1.0
    value, base = forest.value * share, forest.base_score
    if forest.link == "probability" and problem.loss != "squared":
        mean = np.clip(problem.teacher.mean(axis=0), _TINY, 1 - _TINY)
        bend = np.maximum(mean * (1 - mean) if problem.loss == "logistic" else mean, _TINY)
        if value.shape[1] != len(mean):
            value, base = value[:, -len(mean) :], base[-len(mean) :]
        value = (value - mean * share) / bend
        base = base / bend + np.log(mean / (1 - mean) if problem.loss == "logistic" else mean)
    else:
        value, base = value / problem.margin_scale, base / problem.margin_scale
    k = value.shape[1]
    return forest.with_values(
        value, base_score=base, aggregation="sum", sum_dtype="float64", link="identity", link_scale=1.0, classes=None, gain=None,
        impurity=None, count=None, task="regression" if k == 1 else "multi-output",
    )  # fmt: skip
