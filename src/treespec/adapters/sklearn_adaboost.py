"""Adapter for ``AdaBoostClassifier``: each tree votes with its weight for the class of the leaf (SAMME)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treespec.adapters._members import WholeNative, columns_of, fitted, forests_of
from treespec.errors import UnsupportedModelError
from treespec.hooks import Adapt, Native, hookimpl, is_a
from treespec.ir import Forest
from treespec.ir.combine import Member, combine


@hookimpl
def treespec_adapt(model: Any, adapt: Adapt) -> Forest | None:
    """Return the forest of an AdaBoost classifier of single trees; its margin is ``decision_function``."""
    if not is_a(model, "sklearn.ensemble", "AdaBoostClassifier"):
        return None
    fitted(model, "estimators_", "estimator_weights_")
    _check(model)
    forests = forests_of(model, model.estimators_, adapt)
    if any(f.n_trees > 1 or f.link != "probability" for f in forests):
        raise UnsupportedModelError.expected(
            "an AdaBoostClassifier of single decision trees", f"one of {forests[0].framework}", "a vote of many trees is no sum over them"
        )
    classes = np.asarray(model.classes_)
    weight = np.asarray(model.estimator_weights_[: len(forests)], np.float64)
    members = [
        Member(_votes(f, classes, w), np.eye(1 if len(classes) == 2 else len(classes)) / weight.sum())
        for f, w in zip(forests, weight, strict=True)
    ]
    forest = combine(
        members,
        what="AdaBoostClassifier",
        **columns_of(model, forests),
        link="sigmoid" if len(classes) == 2 else "softmax",
        link_scale=1.0 if len(classes) == 2 else 1 / (len(classes) - 1),
        task="binary" if len(classes) == 2 else "multiclass",
        classes=(classes,),
        loss="none",
        framework=f"scikit-learn {type(model).__name__}",
    )
    return replace(forest, inputs=replace(forest.inputs, nan="refuse", infinite="refuse"))  # as its own check of rows


@hookimpl
def treespec_native(model: Any, forest: Forest) -> Native | None:
    """Return the model's own decision function and prediction."""
    if not is_a(model, "sklearn.ensemble", "AdaBoostClassifier"):
        return None
    return WholeNative(model, forest, "decision_function")  # type: ignore[return-value]


def _check(model: Any) -> None:
    if getattr(model, "algorithm", "SAMME") == "SAMME.R":
        raise UnsupportedModelError.expected(
            "an AdaBoostClassifier with algorithm='SAMME'", "'SAMME.R', which adds logarithms of probabilities", "fit it with 'SAMME'"
        )


def _votes(forest: Forest, classes: NDArray[Any], weight: float) -> Forest:
    """Return a tree whose values are votes: the weight for the class it predicts, and -1/(K - 1) of it for every other."""
    own = np.searchsorted(classes, forest.classes[0]) if forest.classes is not None else np.arange(forest.n_outputs)
    chosen = own[forest.value.argmax(axis=1)]
    k = len(classes)
    value = np.where(chosen[:, None] == np.arange(k), weight, -1 / (k - 1) * weight)
    if k == 2:
        value = value[:, 1:] - value[:, :1]
    return forest.with_values(
        value, aggregation="sum", tree_output=np.full(1, 0 if k == 2 else -1), base_score=np.zeros(value.shape[1]), classes=None,
        task="regression", link="identity",
    )  # fmt: skip
