"""Adapter for scikit-learn's single trees and bagged forests, and the reader of ``tree_`` that boosting shares."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treespec.adapters.sklearn_native import ForestNative
from treespec.errors import ModelNotFittedError, UnsupportedModelError
from treespec.hooks import Native, hookimpl, is_a
from treespec.ir import Forest, InputRule
from treespec.ir.forest import Task

TREES = ("DecisionTreeClassifier", "DecisionTreeRegressor", "ExtraTreeClassifier", "ExtraTreeRegressor")
_FORESTS = ("RandomForestClassifier", "RandomForestRegressor", "ExtraTreesClassifier", "ExtraTreesRegressor")


@hookimpl
def treespec_adapt(model: Any) -> Forest | None:
    """Return the forest of a decision tree, extra tree, random forest or extra-trees estimator."""
    if not _is_mine(model):
        return None
    return forest_of(model, estimators_of(model), framework=f"scikit-learn {type(model).__name__}")


def forest_of(model: Any, estimators: Sequence[Any], **fields: Any) -> Forest:
    """Return the mean of single trees as the model's forest.

    Parameters
    ----------
    model : fitted estimator
        Whose classes and column names hold.
    estimators : sequence of fitted trees
        All with the model's classes.
    **fields
        Fields of the `Forest` that are not those of trees over all columns; ``framework`` at least.
    """
    trees = [estimator.tree_ for estimator in estimators]
    value, classes = _values(model, trees)
    n_outputs = value.shape[1]
    own: dict[str, Any] = {
        "value": value,
        "tree_output": np.full(len(trees), -1 if n_outputs > 1 else 0),
        "aggregation": "mean",
        "link": "identity" if classes is None else "probability",
        "inputs": InputRule(dtype="float32", nan="route" if allows_missing(estimators[0]) else "refuse", infinite="refuse"),
        "feature_names": feature_names(model),
        "task": _task(n_outputs, classes),
        "classes": classes,
    }
    return Forest(**(splits_of(trees) | own | fields))


@hookimpl
def treespec_native(model: Any, forest: Forest) -> Native | None:
    """Return the estimators' own routing and prediction."""
    return ForestNative(model, forest, [estimator.tree_ for estimator in estimators_of(model)]) if _is_mine(model) else None


def _is_mine(model: object) -> bool:
    return is_a(model, "sklearn.tree", *TREES) or is_a(model, "sklearn.ensemble", *_FORESTS)


def estimators_of(model: Any) -> list[Any]:
    """Return the fitted single trees of an estimator, in the order in which it adds them up.

    Raises
    ------
    ModelNotFittedError
        If there are none.
    """
    if hasattr(model, "tree_"):
        return [model]
    estimators = getattr(model, "estimators_", None)
    if estimators is None or len(estimators) == 0:
        raise ModelNotFittedError.expected("a fitted model", f"an unfitted {type(model).__name__}", "call fit(X, y) first")
    return list(np.asarray(estimators, dtype=object).ravel())


def splits_of(trees: Sequence[Any]) -> dict[str, Any]:
    """Return the fields of `Forest` that scikit-learn's ``Tree`` objects fix: all but the values and what they mean.

    ``gain`` is the weighted decrease of impurity, (w I - w_l I_l - w_r I_r) / w_root, as in scikit-learn's importances.
    """
    offset = np.concatenate([[0], np.cumsum([tree.node_count for tree in trees], dtype=np.int64)])
    start = np.repeat(offset[:-1], [tree.node_count for tree in trees])
    local_left, local_right = _stacked(trees, "children_left"), _stacked(trees, "children_right")
    leaf = local_left == -1
    left, right = np.where(leaf, -1, local_left + start), np.where(leaf, -1, local_right + start)
    cover, impurity = _stacked(trees, "weighted_n_node_samples"), _stacked(trees, "impurity")
    mass = cover * impurity
    with np.errstate(divide="ignore", invalid="ignore"):
        gain = np.where(leaf, 0.0, (mass - mass[left] - mass[right]) / cover[start])
    return {
        "tree_offset": offset,
        "left": left,
        "right": right,
        "feature": np.where(leaf, -1, _stacked(trees, "feature")),
        "threshold": np.where(leaf, np.nan, _stacked(trees, "threshold")),
        "default_left": _stacked(trees, "missing_go_to_left").astype(bool),
        "count": _stacked(trees, "n_node_samples"),
        "cover": cover,
        "impurity": impurity,
        "gain": gain,
        "native_id": np.arange(offset[-1]) - start,
        "n_features": int(trees[0].n_features),
    }


def _stacked(trees: Sequence[Any], name: str) -> NDArray[Any]:
    return np.concatenate([getattr(tree, name) for tree in trees])


def _values(model: Any, trees: Sequence[Any]) -> tuple[NDArray[np.float64], tuple[NDArray[Any], ...] | None]:
    """Return (n_nodes, n_outputs) node values, the outputs of all targets side by side, and the classes of each target."""
    value = np.concatenate([tree.value for tree in trees])  # (n_nodes, n_targets, most classes)
    if not hasattr(model, "classes_"):
        return value[:, :, 0], None
    classes = tuple(model.classes_) if value.shape[1] > 1 else (model.classes_,)
    columns = np.concatenate([value[:, k, : len(c)] for k, c in enumerate(classes)], axis=1)
    if columns.shape[1] < 2:
        raise UnsupportedModelError.expected("at least two classes", f"only {classes[0][0]!r}", "there is nothing to explain in a constant")
    return columns, classes


def _task(n_outputs: int, classes: tuple[NDArray[Any], ...] | None) -> Task:
    if classes is None:
        return "regression" if n_outputs == 1 else "multi-output"
    if len(classes) > 1:
        return "multi-output"
    return "binary" if n_outputs == 2 else "multiclass"


def allows_missing(estimator: Any) -> bool:
    """Tell whether an estimator predicts rows with missing values (that of a single tree depends on its options)."""
    return bool(estimator.__sklearn_tags__().input_tags.allow_nan)


def feature_names(model: Any) -> tuple[str, ...] | None:
    """Return the column names of the frame that the model was fitted on, if it was one."""
    names = getattr(model, "feature_names_in_", None)
    return None if names is None else tuple(map(str, names))
