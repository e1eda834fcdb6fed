"""Adapter for means of models: ``VotingRegressor``, soft ``VotingClassifier``, ``BaggingRegressor`` and ``BaggingClassifier``.

A mean of values, or of class frequencies, is a mean over all trees. A mean of boosters' probabilities is not: each is a sigmoid of a sum.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from treespec.adapters._members import WholeNative, check_links, columns_of, fitted, forests_of, name_of
from treespec.adapters.sklearn_trees import TREES, forest_of
from treespec.errors import UnsupportedModelError
from treespec.hooks import Adapt, Native, hookimpl, is_a
from treespec.ir import Forest
from treespec.ir.combine import Member, combine, common_loss

_VOTING = ("VotingRegressor", "VotingClassifier")
_BAGGING = ("BaggingRegressor", "BaggingClassifier")


@hookimpl
def treespec_adapt(model: Any, adapt: Adapt) -> Forest | None:
    """Return the forest of a voting or bagging ensemble whose members can be averaged tree by tree."""
    if not _is_mine(model):
        return None
    fitted(model, "estimators_")
    _check_voting(model)
    if _are_plain_trees(model):
        return _of_trees(model)
    forests = forests_of(model, model.estimators_, adapt)
    classes = model.classes_ if hasattr(model, "classes_") else None
    if classes is None:
        check_links(
            model, forests, ("identity",), "predictions are sums over trees", "wrap the members one by one, and average their predictions"
        )
        matrices = [np.eye(f.n_outputs) for f in forests]
    else:
        check_links(
            model, forests, ("probability",), "probabilities are means of class frequencies (trees, random forests, extra-trees)",
            "wrap the members one by one, and average their predict_proba",
        )  # fmt: skip
        matrices = [_to_classes(f, len(classes)) for f in forests]
    weight = _weights(model)
    columns = model.estimators_features_ if is_a(model, "sklearn.ensemble", *_BAGGING) else [None] * len(forests)
    members = [Member(f, w * a, c) for f, w, a, c in zip(forests, weight, matrices, columns, strict=True)]
    n_outputs = len(matrices[0])
    return combine(
        members,
        what=type(model).__name__,
        **columns_of(model, forests),
        link="identity" if classes is None else "probability",
        task=("regression" if n_outputs == 1 else "multi-output") if classes is None else "binary" if n_outputs == 2 else "multiclass",
        classes=None if classes is None else (np.asarray(classes),),
        loss=common_loss(forests),
        framework=name_of(model, forests),
    )


@hookimpl
def treespec_native(model: Any, forest: Forest) -> Native | None:
    """Return the ensemble's own prediction."""
    if not _is_mine(model):
        return None
    return MeanNative(model, forest, "predict" if forest.classes is None else "predict_proba")  # type: ignore[return-value]


class MeanNative(WholeNative):
    """Prediction by a mean of models."""

    @property
    def margin_is_prediction(self) -> bool:
        """Whether `margin` is the model's ``predict``: of regressors."""
        return self._method == "predict"


def _is_mine(model: object) -> bool:
    return is_a(model, "sklearn.ensemble", *_VOTING, *_BAGGING)


def _are_plain_trees(model: Any) -> bool:
    """Tell whether a bag holds scikit-learn's single trees alone, all with its classes, which can be read at once."""
    members = model.estimators_
    if not is_a(model, "sklearn.ensemble", *_BAGGING) or not members or type(members[0]).__name__ not in TREES:
        return False
    if any(type(m) is not type(members[0]) or not hasattr(m, "tree_") for m in members):
        return False
    n_classes = len(model.classes_) if hasattr(model, "classes_") else 1
    return (
        type(members[0]).__module__.startswith("sklearn.tree.")
        and all(m.tree_.n_classes.max() == n_classes for m in members)
        and len({(m.splitter, m.criterion, m.monotonic_cst is None) for m in members}) == 1  # what decides on missing values
    )


def _of_trees(model: Any) -> Forest:
    """Return the forest of a bag of single trees: as that of a random forest, but for the columns that each tree has seen."""
    trees = [member.tree_ for member in model.estimators_]
    feature = [np.where(t.feature < 0, -1, c[np.maximum(t.feature, 0)]) for t, c in zip(trees, model.estimators_features_, strict=True)]
    return forest_of(
        model,
        model.estimators_,
        feature=np.concatenate(feature),
        loss="none",
        n_features=int(model.n_features_in_),
        framework=f"scikit-learn {type(model).__name__} of {type(model.estimators_[0]).__name__}",
    )


def _check_voting(model: Any) -> None:
    if is_a(model, "sklearn.ensemble", "VotingClassifier") and model.voting != "soft":
        raise UnsupportedModelError.expected(
            "a VotingClassifier with voting='soft'",
            f"voting={model.voting!r}: the majority of classes is no function of a sum over trees",
            "fit it with voting='soft', or wrap the members one by one",
        )


def _weights(model: Any) -> NDArray[np.float64]:
    own = model._weights_not_none if is_a(model, "sklearn.ensemble", *_VOTING) else None
    weight = np.ones(len(model.estimators_)) if own is None else np.asarray(own, np.float64)
    return np.asarray(weight / weight.sum())


def _to_classes(forest: Forest, n_classes: int) -> NDArray[np.float64]:
    """Return the matrix that puts a member's classes (numbers, of which a bagged member may lack some) in their places."""
    known = np.arange(n_classes) if forest.classes is None else np.asarray(forest.classes[0])
    out = np.zeros((n_classes, forest.n_outputs))
    if len(known) == n_classes:
        known = np.arange(n_classes)
    out[known.astype(int), np.arange(forest.n_outputs)] = 1.0
    return out
