"""Trains small boosted trees on values or soft classes: LightGBM where it is installed, else scikit-learn's histogram boosting."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from treespec.distill.problem import Loss
from treespec.ir import ALL_OUTPUTS, Forest
from treespec.ir.prune import prune

Array = NDArray[np.float64]

_TINY = 1e-6
_L2 = 1.0


@dataclass(frozen=True)
class Config:
    """How trees are grown.

    Attributes
    ----------
    rate : float
        Learning rate.
    leaves : int
        Most leaves of a tree.
    bins : int
        Most distinct thresholds of a feature, and one.
    rows_a_leaf : int
        Fewest rows of a leaf.
    """

    rate: float
    leaves: int
    bins: int
    rows_a_leaf: int


@dataclass(frozen=True, eq=False)
class Boosted:
    """Boosted trees as forests, one for each output; round r of an output is tree r of its forest.

    Attributes
    ----------
    forests : list of Forest
        Of one output each; only splits, values and covers count.
    base : (n_outputs,) float64
        Margin before the first round.
    """

    forests: list[Forest]
    base: Array

    @property
    def n_rounds(self) -> int:
        """Number of rounds; outputs that stopped earlier count less."""
        return max(f.n_trees for f in self.forests)


def fit(
    X: NDArray[np.float32], target: Array, loss: Loss, config: Config, n_rounds: int, *, weight: Array | None, categorical: Sequence[int]
) -> Boosted:
    """Return boosted trees for (n, k) targets on the scale of the mean.

    Parameters
    ----------
    X : (n, p) float32
        Encoded rows; NaN is missing, categories are codes.
    target : (n, k)
        Values; rates for "poisson"; probabilities for "logistic" (each output on its own) and "softmax" (all together).
    """
    w = np.ones(len(X)) if weight is None else weight
    base = np.array([_start(target[:, j], w, loss) for j in range(target.shape[1])])
    train = _lightgbm if find_spec("lightgbm") is not None else _histogram
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about constant columns and rows too few to split
        return Boosted(train(X, target, base, loss, config, n_rounds, w, list(categorical)), base)


def _start(target: Array, weight: Array, loss: Loss) -> float:
    """Return the best constant margin."""
    mean = float(np.average(target, weights=weight))
    if loss == "squared":
        return mean
    if loss in ("poisson", "softmax"):
        return float(np.log(max(mean, _TINY)))
    return float(np.log(np.clip(mean, _TINY, 1 - _TINY) / (1 - np.clip(mean, _TINY, 1 - _TINY))))


def _lightgbm(
    X: NDArray[np.float32], target: Array, base: Array, loss: Loss, config: Config, n_rounds: int, weight: Array, categorical: list[int]
) -> list[Forest]:
    import lightgbm

    from treespec.adapters.lightgbm import treespec_adapt

    params: dict[str, Any] = {
        "learning_rate": config.rate, "num_leaves": config.leaves, "max_bin": config.bins, "min_data_in_leaf": config.rows_a_leaf,
        "lambda_l2": _L2, "verbose": -1, "deterministic": True, "force_row_wise": True, "seed": 0, "num_threads": 1,
        "boost_from_average": False, "min_data_in_bin": 1, "min_sum_hessian_in_leaf": 1e-3, "feature_pre_filter": False,
    }  # fmt: skip
    params |= {"objective": {"squared": "regression", "logistic": "cross_entropy", "poisson": "poisson"}.get(loss, "none")}
    columns = [np.arange(target.shape[1])] if loss == "softmax" else [np.array([j]) for j in range(target.shape[1])]
    forests: list[Forest] = []
    for chosen in columns:
        y = target[:, chosen]
        start = np.broadcast_to(base[chosen], y.shape).ravel(order="F")
        data = lightgbm.Dataset(
            X.astype(np.float64), y[:, 0], weight=weight, init_score=start, categorical_feature=categorical, free_raw_data=True
        )
        own = params | ({"objective": _softmax_of(y), "num_class": len(chosen)} if loss == "softmax" else {})
        booster = lightgbm.train(own, data, n_rounds)
        forest: Forest = cast("Forest", treespec_adapt(booster))
        forests += [forest] if len(chosen) == 1 else [one_output(forest, j) for j in range(len(chosen))]
    return forests


def _softmax_of(target: Array) -> Any:
    """Return the objective of soft classes: gradients and hessians of the log loss, the latter as LightGBM scales them."""
    k = target.shape[1]

    def objective(score: Array, data: Any) -> tuple[Array, Array]:
        z = score.reshape(-1, k, order="F") if score.ndim == 1 else score
        e = np.exp(z - z.max(axis=1, keepdims=True))
        p = e / e.sum(axis=1, keepdims=True)
        w = data.get_weight()
        scale = 1.0 if w is None else np.asarray(w)[:, None]
        return (p - target) * scale, k / (k - 1) * p * (1 - p) * scale

    return objective


def one_output(forest: Forest, k: int) -> Forest:
    """Return the trees that add to output ``k`` as a forest of their own."""
    return trees_of(forest, np.flatnonzero(forest.tree_output == k), forest.value[:, [k]])


def trees_of(forest: Forest, chosen: NDArray[np.integer], value: Array | None = None) -> Forest:
    """Return a forest of some trees, in the given order, of one output (that of ``value``, by default the first)."""
    value = forest.value[:, :1] if value is None else value
    plain: dict[str, Any] = {
        "tree_output": np.full(forest.n_trees, ALL_OUTPUTS), "base_score": np.zeros(1), "aggregation": "sum", "sum_dtype": "float64",
        "link": "identity", "link_scale": 1.0, "task": "regression", "classes": None, "gain": None, "impurity": None,
    }  # fmt: skip
    return prune(forest.with_values(value, **plain), ~forest.is_leaf, chosen).forest


def _histogram(
    X: NDArray[np.float32], target: Array, base: Array, loss: Loss, config: Config, n_rounds: int, weight: Array, categorical: list[int]
) -> list[Forest]:
    from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

    from treespec.adapters.sklearn_hist import treespec_adapt

    options: dict[str, Any] = {
        "learning_rate": config.rate, "max_leaf_nodes": config.leaves, "max_bins": min(255, config.bins), "max_iter": n_rounds,
        "min_samples_leaf": config.rows_a_leaf, "l2_regularization": _L2, "early_stopping": False, "random_state": 0,
        "categorical_features": [j for j in categorical if np.nanmax(X[:, j], initial=0) < min(255, config.bins)] or None,
    }  # fmt: skip
    wide = X.astype(np.float64)
    if loss in ("squared", "poisson"):
        kind = "squared_error" if loss == "squared" else "poisson"
        models = [HistGradientBoostingRegressor(loss=kind, **options).fit(wide, y, sample_weight=weight) for y in target.T]
        forests = [cast("Forest", treespec_adapt(m)) for m in models]
    elif loss == "logistic":  # a row of probability p is a row of class 1 with weight p and one of class 0 with the rest
        forests = [_soft_classes(HistGradientBoostingClassifier(**options), wide, np.column_stack([1 - p, p]), weight) for p in target.T]
    else:
        joint = _soft_classes(HistGradientBoostingClassifier(**options), wide, target, weight)
        forests = [one_output(joint, j) for j in range(target.shape[1])]
        base[:] = joint.base_score
        return forests
    base[:] = [float(f.base_score[0]) for f in forests]
    return [trees_of(f, np.arange(f.n_trees)) for f in forests]


def _soft_classes(model: Any, X: Array, p: Array, weight: Array) -> Forest:
    from treespec.adapters.sklearn_hist import treespec_adapt

    row, label = np.nonzero(p > 0)
    return cast("Forest", treespec_adapt(model.fit(X[row], label, sample_weight=(weight[:, None] * p)[row, label])))
