"""What every candidate of the stack says about rows that it has not seen, at every penalty."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_expit, log_softmax

from treespec.ir.table import take
from treespec.kpp.anchor import LEAST
from treespec.kpp.blocks import Blocks, RawFeatures, RawScale
from treespec.kpp.folds import folds
from treespec.kpp.learners import learn
from treespec.kpp.penalty_path import Path
from treespec.kpp.representation import Representation
from treespec.kpp.weights import node_weights
from treespec.operators.path import PathFeatures, PathMap

if TYPE_CHECKING:
    from treespec.estimators.bases import Base, Kind
    from treespec.hooks import RowData, Scheme
    from treespec.ir import Forest
    from treespec.kpp.targets import Targets

Array = NDArray[np.float64]

KPP_NAME, RAW_NAME, LINEAR_NAME = "KPP", "KPP + raw features", "raw linear"


@dataclass(frozen=True)
class Task:
    """What is to be fitted: kind of labels, schemes, penalty, folds, seed."""

    kind: Kind
    weights: Scheme
    learner: Scheme
    alpha: float | str
    n_folds: int
    seed: int


def represent(forests: Sequence[Forest], rows: Sequence[RowData], weights: Scheme) -> Representation:
    """Return the feature map of all ensembles, with raw features as the last block."""
    maps = tuple(PathMap(f, node_weights(weights, f, r)) for f, r in zip(forests, rows, strict=True))
    return Representation(maps, tuple(r.apply for r in rows), RawScale.of(forests[0].encode(rows[0].X), rows[0].sample_weight))


class Kept(Blocks):
    """Blocks made ready for many products once, that keep their Gram matrix: several fits share them."""

    def __init__(self, parts: Sequence[Any]) -> None:
        super().__init__([p.prepared() if isinstance(p, PathFeatures) else p for p in parts])
        self._gram: Array | None = None

    def prepared(self) -> Kept:
        """Return these blocks: they are ready."""
        return self

    def gram(self, other: Blocks | None = None) -> Array:
        """Return the dense Gram matrix, as `Blocks`; that of the rows with themselves is a copy of the one that is kept."""
        if other is not None:
            return super().gram(other)
        if self._gram is None:
            self._gram = super().gram()
        return self._gram.copy()


class KeptWithRaw(Kept):
    """The same blocks with raw features beside them; their Gram matrix is not computed again."""

    def __init__(self, paths: Kept, raw: RawFeatures) -> None:
        super().__init__([*paths.parts, raw])
        self._paths, self._raw = paths, raw

    def gram(self, other: Blocks | None = None) -> Array:
        """Return the dense Gram matrix, as `Blocks`."""
        if other is not None:
            return super().gram(other)
        k = len(self._paths.parts)
        return (k * self._paths.gram() + self._raw.gram()) / (k + 1)


def views(features: Blocks, task: Task) -> dict[str, tuple[Any, Mapping[str, Any]]]:
    """Return the features, and options of the learner, of each linear candidate: all blocks, those without raw features, raw features."""
    *parts, raw = features.parts
    paths = Kept(parts)
    with_raw = KeptWithRaw(paths, raw) if isinstance(raw, RawFeatures) else features
    options = {"intercept": True} if task.learner.name == "logistic" else {}
    return {KPP_NAME: (paths, {}), RAW_NAME: (with_raw, {}), LINEAR_NAME: (raw, options)}


def out_of_fold(bases: Sequence[Base], X: Any, y: NDArray[Any], weight: Array | None, task: Task, targets: Targets) -> dict[str, Array]:
    """Return, for each candidate, (n_penalties, n, k) scores of rows from fits that have not seen them.

    k is the number of outputs of the linear scores; ensembles have one "penalty" and, for classes, log-probabilities.

    Notes
    -----
    ``n_folds`` fits of every ensemble and three penalty paths for each.
    """
    found: dict[str, Array] = {}
    for train, test in folds(targets, task.seed, task.n_folds):
        w = None if weight is None else weight[train]
        grown = [b.grow(take(X, train), y[train], w) for b in bases]
        rows, held = [r for _, r in grown], take(X, test)
        parts = {b.name: native(r.model, held, targets)[None] for b, r in zip(bases, rows, strict=True)}
        feature_map = represent([f for f, _ in grown], rows, task.weights)
        seen: Any = feature_map.features(rows[0].X, [r.leaf_id for r in rows])
        unseen: Any = feature_map.features(held)
        mine = targets.take(train)
        for (name, (features, options)), (other, _) in zip(views(seen, task).items(), views(unseen, task).values(), strict=True):
            parts[name] = _path(name, features, other, mine, w, task, options)
        for name, part in parts.items():
            found.setdefault(name, np.empty((part.shape[0], len(y), part.shape[2])))[:, test] = part
    return found


def _path(name: str, features: Any, held: Any, targets: Targets, weight: Array | None, task: Task, options: Mapping[str, Any]) -> Array:
    if isinstance(task.alpha, str) or name == LINEAR_NAME:
        return np.stack(list(Path.of(features, targets, task.learner, weight, options).scores(held)))
    coef, intercept, _ = learn(task.learner, features, targets, alpha=float(task.alpha), sample_weight=weight, options=options)
    return np.asarray(held.matmat(coef.reshape(len(coef), -1)) + intercept)[None]


def native(model: Any, X: Any, targets: Targets) -> Array:
    """Return what an ensemble says: (n, n_outputs) values, or (n, n_classes) log-probabilities."""
    if targets.kind == "values":
        return np.asarray(model.predict(X), dtype=np.float64).reshape(-1, targets.n_targets)
    p = np.asarray(model.predict_proba(X), dtype=np.float64)
    return np.asarray(np.log((p + LEAST) / (1 + LEAST * p.shape[1])))


def logs(score: Array, targets: Targets) -> Array:
    """Return linear scores (n, k) as they are for values, as (n, n_classes) log-probabilities for classes."""
    if targets.kind == "values":
        return score
    if targets.binary:
        return np.hstack([log_expit(-score), log_expit(score)])
    return np.asarray(log_softmax(score, axis=1))
