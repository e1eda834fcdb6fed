"""Adapter for ``IsolationForest``, whose leaves hold path lengths, and ``RandomTreesEmbedding``, whose leaves are all there is."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from treespec.adapters._members import fitted
from treespec.adapters.sklearn_native import BoostingNative, HistNative
from treespec.adapters.sklearn_trees import allows_missing, feature_names, splits_of
from treespec.hooks import Native, hookimpl, is_a
from treespec.ir import Forest, InputRule

_EULER = float(np.euler_gamma)


@hookimpl
def treespec_adapt(model: Any) -> Forest | None:
    """Return the forest of an isolation forest (margin: the sum of path lengths) or of an embedding (margin: 0)."""
    isolation = is_a(model, "sklearn.ensemble", "IsolationForest")
    if not isolation and not is_a(model, "sklearn.ensemble", "RandomTreesEmbedding"):
        return None
    fitted(model, "estimators_")
    trees = [estimator.tree_ for estimator in model.estimators_]
    splits = splits_of(trees) | {"n_features": int(model.n_features_in_)}
    if isolation:
        splits["feature"] = _own_columns(model, trees, splits["feature"])
    allowed = allows_missing(model if isolation else model.estimators_[0])
    return Forest(
        **splits,
        **(_isolation(model, trees) if isolation else _embedding(splits)),
        loss="none",
        inputs=InputRule(dtype="float32", nan="route" if allowed else "refuse", infinite="refuse"),
        feature_names=feature_names(model),
        framework=f"scikit-learn {type(model).__name__}",
    )


@hookimpl
def treespec_native(model: Any, forest: Forest) -> Native | None:
    """Return the model's own routing, scores and prediction."""
    if is_a(model, "sklearn.ensemble", "IsolationForest"):
        return IsolationNative(model, forest)
    if is_a(model, "sklearn.ensemble", "RandomTreesEmbedding"):
        return EmbeddingNative(model, forest, [estimator.tree_ for estimator in model.estimators_])
    return None


def average_path_length(n: NDArray[np.integer[Any]]) -> NDArray[np.float64]:
    """Return the mean length of an unsuccessful search in a binary tree of n keys (Liu, Ting and Zhou 2008, equation 1)."""
    many = np.where(n > 2, n, 3)
    return np.where(n > 2, 2.0 * (np.log(many - 1.0) + _EULER) - 2.0 * (many - 1.0) / many, np.where(n == 2, 1.0, 0.0))


def _isolation(model: Any, trees: list[Any]) -> dict[str, Any]:
    """Return values and meaning of path lengths, added up as scikit-learn does so that scores at the offset are equal to the last bit."""
    longest = float(average_path_length(np.array([model._max_samples]))[0])
    return {
        "value": _path_lengths(trees)[:, None],
        "link": "isolation",
        "link_scale": len(trees) * longest,
        "task": "outlier",
        "offset": float(model.offset_),
    }


def _embedding(splits: dict[str, Any]) -> dict[str, Any]:
    return {"value": np.zeros((len(splits["left"]), 1)), "link": "partition", "task": "regression", "aggregation": "mean"}


def _path_lengths(trees: list[Any]) -> NDArray[np.float64]:
    """Return, for each node, its depth and the average path length that the rows in it would add."""
    parts = []
    for tree in trees:
        nodes = np.ones(tree.node_count)  # on the path, the root included
        level = np.zeros(1, np.intp)
        while len(level):
            parents = level[tree.children_left[level] != -1]
            level = np.concatenate([tree.children_left[parents], tree.children_right[parents]])
            nodes[level] = np.tile(nodes[parents] + 1, 2)
        parts.append(nodes + average_path_length(tree.n_node_samples) - 1.0)
    return np.concatenate(parts)


def _own_columns(model: Any, trees: list[Any], feature: NDArray[np.integer[Any]]) -> NDArray[np.integer[Any]]:
    """Return the user's column of each split: trees see a subset of the columns where ``max_features`` is below all."""
    if model._max_features == model.n_features_in_:
        return feature
    parts = []
    for tree, columns in zip(trees, model.estimators_features_, strict=True):
        own = tree.feature
        parts.append(np.where(tree.children_left == -1, -1, np.asarray(columns)[np.maximum(own, 0)]))
    return np.concatenate(parts)


class IsolationNative(HistNative):
    """Routing and prediction by an isolation forest."""

    def __init__(self, model: Any, forest: Forest) -> None:
        super().__init__(model, forest)
        self._forest = forest

    def leaf_id(self, X: Any) -> NDArray[np.int32]:
        """Return the (n, n_trees) node ids of the leaves."""
        rows = np.asarray(self._forest.encode(X))
        subset = self._model._max_features != self._model.n_features_in_
        out = np.empty((len(rows), self._forest.n_trees), np.int32)
        for t, (estimator, columns) in enumerate(zip(self._model.estimators_, self._model.estimators_features_, strict=True)):
            out[:, t] = estimator.tree_.apply(np.ascontiguousarray(rows[:, columns]) if subset else rows)
        return out

    def margin(self, X: Any) -> NDArray[Any]:
        """Return the path lengths behind ``score_samples``."""
        return np.asarray(-np.log2(-np.asarray(self._model.score_samples(self._rows(X)))) * self._forest.link_scale)


class EmbeddingNative(BoostingNative):
    """Routing by an embedding, which predicts nothing."""

    def margin(self, X: Any) -> NDArray[Any]:
        """Return zeros."""
        return np.zeros(self._model.apply(self._rows(X)).shape[0])
