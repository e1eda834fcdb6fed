"""`Path`: one learner's fits over a grid of relative penalties, each as cheaply as that learner allows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from treespec.kpp.krylov import solve_shifted
from treespec.kpp.learners import learn
from treespec.kpp.ridge import DENSE_ROWS, Centred, RidgePath, encode

if TYPE_CHECKING:
    from treespec.hooks import Scheme
    from treespec.kpp.targets import Targets

Array = NDArray[np.float64]

RIDGE_GRID = np.logspace(-6, 1, 29)
GRID = np.logspace(-7, 0, 8)
"""Penalties relative to the size of the features: every quarter of a decade for ridge, every decade where each is a fit of its own."""

_TOLERANCE = 1e-4  # of the fits on the way: the choice among decades needs no more


@dataclass(frozen=True, eq=False)
class Path:
    """Fits over a grid of penalties.

    Attributes
    ----------
    grid : array
        Penalties relative to ``size``, ascending.
    size : float
        What a relative penalty of 1 is: the mean squared distance of the features from their mean, times the weight of all rows for
        learners whose loss is a sum (all but ``logistic``).
    criterion : {"squared", "absolute", "pinball", "log-loss", "error"}
        By which held-out rows judge.
    """

    features: Any = field(repr=False)
    targets: Targets = field(repr=False)
    learner: Scheme
    weight: Array | None = field(repr=False)
    options: Mapping[str, Any]
    grid: Array
    size: float
    criterion: str
    level: float

    @classmethod
    def of(cls, features: Any, targets: Targets, learner: Scheme, weight: Array | None, options: Mapping[str, Any]) -> Path:
        """Measure the features and set the grid."""
        total = 1.0 * targets.n_rows if weight is None else float(weight.sum())
        trace = Centred(features, np.zeros((targets.n_rows, 1)), weight).trace()
        size = max(trace, np.finfo(float).tiny) / (total if learner.name == "logistic" else 1.0)
        named = {"ridge": "squared", "huber": "absolute", "quantile": "pinball", "logistic": "log-loss"}
        criterion = "error" if targets.kind == "classes" and learner.name != "logistic" else named.get(learner.name, "squared")
        grid = RIDGE_GRID if learner.name == "ridge" else GRID
        return cls(features, targets, learner, weight, options, grid, size, criterion, float(options.get("quantile", 0.5)))

    def alpha(self, relative: float) -> float:
        """Return the penalty that a relative one stands for."""
        return float(relative * self.size)

    def scores(self, held_out: Any) -> Iterator[Array]:
        """Yield the (n', k) scores of other rows at each penalty of the grid, in its order."""
        if self.learner.name == "ridge":
            yield from self._ridge(held_out)
            return
        found: list[Array] = []
        start: dict[str, Any] = {}
        for relative in self.grid[::-1]:  # from smooth to rough, each from the last
            options = {**self.options, **start}
            if self.learner.name == "logistic":
                options["tolerance"] = _TOLERANCE
            alpha = self.alpha(relative)
            coef, intercept, _ = learn(self.learner, self.features, self.targets, alpha=alpha, sample_weight=self.weight, options=options)
            if self.learner.name == "logistic":
                start = {"start": (coef, intercept)}
            found.append(np.asarray(held_out.matmat(coef.reshape(len(coef), -1))) + intercept)
        yield from reversed(found)

    def _ridge(self, held_out: Any) -> Iterator[Array]:
        labels = self.targets.value if self.targets.kind == "values" else self.targets.code
        Y = encode(labels, None if self.targets.kind == "values" else [len(c) for c in self.targets.classes])
        alphas = np.array([self.alpha(x) for x in self.grid])
        if self.targets.n_rows <= DENSE_ROWS:
            path = RidgePath(self.features, Y, self.weight)
            for alpha in alphas:
                coef, intercept = path.fit(alpha)
                yield np.asarray(held_out.matmat(coef)) + intercept
            return
        problem = Centred(self.features, Y, self.weight)
        for dual in solve_shifted(problem.multiply, problem.Y, alphas, tolerance=_TOLERANCE).x:
            coef, intercept = problem.primal(dual)
            yield np.asarray(held_out.matmat(coef)) + intercept


def error_of(criterion: str, level: float, score: Array, targets: Targets) -> Array:
    """Return the (n,) errors of scores (n, k): means over outputs, or over targets."""
    if targets.kind == "values":
        r = targets.value - score
        each = r**2 if criterion == "squared" else np.abs(r) if criterion == "absolute" else np.maximum(level * r, (level - 1) * r)
        return np.asarray(each.mean(axis=1))
    if targets.binary:
        margin = targets.sign * score[:, 0]
        return np.logaddexp(0.0, -margin) if criterion == "log-loss" else (margin <= 0).astype(np.float64)
    out, low = np.zeros(len(score)), 0
    for j, c in enumerate(targets.classes):
        part = score[:, low : low + len(c)]
        low += len(c)
        code = targets.code[:, j]
        own = part[np.arange(len(part)), code]
        out += logsumexp(part, axis=1) - own if criterion == "log-loss" else part.argmax(axis=1) != code
    return out / len(targets.classes)
