"""The mix of KPP, KPP with raw features, the ensembles and a raw linear model, with non-negative weights found out of fold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from treespec.errors import DataMismatchError
from treespec.estimators.out_of_fold import KPP_NAME, LINEAR_NAME, RAW_NAME, Task, logs, native, out_of_fold, represent, views
from treespec.estimators.pool import pool_logs, pool_values
from treespec.kpp.learners import learn
from treespec.kpp.model import KPP
from treespec.kpp.penalty_path import Path, error_of
from treespec.kpp.regimes import FIXED
from treespec.kpp.targets import Targets

if TYPE_CHECKING:
    from treespec.estimators.bases import Base
    from treespec.kpp.blocks import RawScale

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class RawLinear:
    """A linear model on scaled raw features."""

    forest: Any = field(repr=False)  # encodes the rows
    scale: RawScale = field(repr=False)
    coef: Array
    intercept: Array
    alpha: float

    def scores(self, X: Any) -> Array:
        """Return (n, k) linear scores."""
        return np.asarray(self.scale.features(self.forest.encode(X)).matmat(self.coef)) + self.intercept


@dataclass(frozen=True, eq=False)
class Stack:
    """The fitted mix.

    Attributes
    ----------
    weights : dict of str to float, or to (n_outputs,) array
        Of each candidate, 0 and more. Values: of its distance from ``centre``, output by output. Classes: of its log-probabilities.
    errors : dict of str to float
        Out-of-fold mean loss (squared error, log-loss) of each candidate and of the "mix". Weights and penalties were chosen on the
        same out-of-fold predictions, so those of the mix and of KPP are optimistic by that choice.
    difference, standard_error : float
        Out-of-fold loss of the mix minus that of the best ensemble, paired by row.
    best : str
        Which ensemble that is.
    centre : float or (n_outputs,) array
    targets : Targets
    models : dict of str to model
        The fitted candidates.
    held : dict of str to (n, k) array
        Their out-of-fold predictions: values, or log-probabilities.
    row_weight : (n,) array
    """

    weights: dict[str, Any]
    errors: dict[str, float]
    difference: float
    standard_error: float
    best: str
    centre: Any
    targets: Targets = field(repr=False)
    models: dict[str, Any] = field(repr=False)
    held: dict[str, Array] = field(repr=False)
    row_weight: Array = field(repr=False)

    def without(self, *names: str) -> Stack:
        """Return the mix of the other candidates, its weights found anew: what these ones add is the difference."""
        left = {n: part for n, part in self.held.items() if n not in names}
        bases = [n for n in left if not hasattr(self.models[n], "scores")]
        if not bases:
            raise DataMismatchError.expected("an ensemble that stays", "a mix without any", "name fewer candidates")
        return _mix(left, self.targets, self.row_weight, bases, {n: self.models[n] for n in left})

    def scores(self, X: Any) -> Array:
        """Return (n, k) scores of rows: values, log-odds of two classes, or unnormalised log-probabilities of several."""
        mix: Any = self.centre
        for name, weight in self.weights.items():
            if np.any(weight > 0):
                mix = mix + weight * (self._candidate(name, X) - self.centre)
        if self.targets.kind == "values":
            return np.broadcast_to(np.asarray(mix, dtype=np.float64), (X.shape[0], self.targets.n_targets))
        mix = np.broadcast_to(mix, (X.shape[0], len(self.targets.classes[0])))
        return np.asarray(mix[:, 1:] - mix[:, :1] if self.targets.binary else mix)

    def _candidate(self, name: str, X: Any) -> Array:
        model = self.models[name]
        return logs(model.scores(X), self.targets) if hasattr(model, "scores") else native(model, X, self.targets)

    def to_frame(self) -> Any:
        """Return a pandas frame: candidate, weight, out-of-fold loss."""
        import pandas as pd

        rows = [{"candidate": n, "weight": np.atleast_1d(self.weights.get(n, np.nan)), "loss": e} for n, e in self.errors.items()]
        if self.targets.n_targets == 1:
            return pd.DataFrame(rows).explode("weight").astype({"weight": float})
        return pd.DataFrame(rows)

    def __str__(self) -> str:
        """Return the table as text, and the paired difference to the best ensemble."""
        weight = {n: " ".join(f"{w:6.3f}" for w in np.atleast_1d(self.weights.get(n, np.nan))) for n in self.errors}
        lines = [f"{n:<34} weight {weight[n]}   loss {e:.5g}" for n, e in self.errors.items()]
        return "\n".join([*lines, f"mix minus {self.best}: {self.difference:+.4g} +- {self.standard_error:.2g} (out of fold, paired)"])


def stack_of(bases: Sequence[Base], X: Any, y: NDArray[Any], weight: Array | None, task: Task) -> tuple[KPP, Stack]:
    """Fit the mix: every candidate in folds, weights and penalties from what it says out of fold, then all candidates on all rows.

    Returns
    -------
    kpp : KPP
        The block KPP without raw features, on all rows.
    stack : Stack

    Notes
    -----
    ``n_folds + 1`` fits of every ensemble. The penalties come from the same folds, so that nothing is nested twice.
    """
    grown = [b.grow(X, y, weight) for b in bases]
    rows = [r for _, r in grown]
    targets = Targets.of(grown[0][0], y)
    said = out_of_fold(bases, X, y, weight, task, targets)
    feature_map = represent([f for f, _ in grown], rows, task.weights)
    features: Any = feature_map.features(X, [r.leaf_id for r in rows])
    row_weight = np.ones(len(y)) if weight is None else weight
    held: dict[str, Array] = {b.name: said[b.name][0] for b in bases}
    alpha: dict[str, float] = {}
    models: dict[str, Any] = {b.name: r.model for b, r in zip(bases, rows, strict=True)}
    scale: Any = feature_map.raw
    for name, (view, options) in views(features, task).items():
        path = Path.of(view, targets, task.learner, weight, options)
        best = int(np.argmin([float(row_weight @ error_of(path.criterion, path.level, score, targets)) for score in said[name]]))
        alpha[name] = path.alpha(path.grid[best]) if len(said[name]) > 1 else float(task.alpha)
        held[name] = logs(said[name][best], targets)
        coef, intercept, info = learn(task.learner, view, targets, alpha=alpha[name], sample_weight=weight, options=options)
        if name == LINEAR_NAME:
            models[name] = RawLinear(grown[0][0], scale, coef.reshape(len(coef), -1), intercept, alpha[name])
            continue
        whole = feature_map if name == RAW_NAME else replace(feature_map, raw=None)
        models[name] = KPP(
            whole,
            coef,
            float(intercept[0]) if coef.ndim == 1 else intercept,
            alpha[name],
            task.learner.name,
            task.weights.name,
            whole.features(X, [r.leaf_id for r in rows]),
            targets,
            {**info, "alpha": {"method": "nested", "n_folds": task.n_folds, "relative": path.grid.tolist(), "criterion": path.criterion}},
            FIXED,
            weight,
        )
    return models[KPP_NAME], _mix(held, targets, row_weight, [b.name for b in bases], models)


def _mix(held: dict[str, Array], targets: Targets, row_weight: Array, bases: Sequence[str], models: dict[str, Any]) -> Stack:
    parts = np.stack(list(held.values()))
    weights: Any
    centre: Any
    if targets.kind == "values":
        pooled = [pool_values(parts[:, :, j], targets.value[:, j], row_weight) for j in range(targets.n_targets)]
        weights, centre = np.column_stack([w for w, _ in pooled]), np.array([c for _, c in pooled])
        mix = centre + np.einsum("mk,mik->ik", weights, parts - centre)
        if targets.n_targets == 1:
            weights, centre = weights[:, 0], float(centre[0])
    else:
        weights, centre = pool_logs(parts, targets.code[:, 0], row_weight), 0.0
        mix = np.tensordot(weights, parts, axes=1)
    loss = {name: _loss(part, targets) for name, part in {**held, "mix": mix}.items()}
    errors = {name: float(np.average(each, weights=row_weight)) for name, each in loss.items()}
    best = min(bases, key=errors.__getitem__)
    paired = loss["mix"] - loss[best]
    difference = float(np.average(paired, weights=row_weight))
    spread = float(np.sqrt(np.average((paired - difference) ** 2, weights=row_weight) / len(paired)))
    found = dict(zip(held, weights.tolist() if weights.ndim == 1 else weights, strict=True))
    return Stack(found, errors, difference, spread, best, centre, targets, models, held, row_weight)


def _loss(score: Array, targets: Targets) -> Array:
    """Return the (n,) squared errors, or the log-losses of log-probabilities up to a constant a row."""
    if targets.kind == "values":
        return error_of("squared", 0.5, score, targets)
    if targets.binary:
        return error_of("log-loss", 0.5, score[:, 1:] - score[:, :1], targets)
    return error_of("log-loss", 0.5, score, targets)
