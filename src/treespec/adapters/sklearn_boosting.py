"""Adapter for scikit-learn's GradientBoosting estimators."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from treespec.adapters._asked import refuse_missing, rounds_asked, said
from treespec.adapters.sklearn_native import BoostingNative
from treespec.adapters.sklearn_trees import estimators_of, feature_names, splits_of
from treespec.errors import UnsupportedModelError
from treespec.hooks import Asked, Native, hookimpl, is_a
from treespec.ir import Forest, InputRule
from treespec.ir.forest import Task

_LINKS = {
    "IdentityLink": ("identity", 1.0),
    "LogLink": ("exp", 1.0),
    "LogitLink": ("sigmoid", 1.0),
    "HalfLogitLink": ("sigmoid", 2.0),
    "MultinomialLogit": ("softmax", 1.0),
}
_LOSSES = {"squared_error": "squared", "absolute_error": "absolute", "log_loss": "logistic"}


@hookimpl
def treespec_adapt(model: Any) -> Forest | None:
    """Return the forest of a gradient-boosting estimator; as many stages as were fitted (early stopping included)."""
    asked = Asked.of(model)
    model = asked.model
    if not _is_mine(model):
        return None
    refuse_missing(asked, "takes no missing values here")
    every = estimators_of(model)
    fitted_stages, n_outputs = np.shape(model.estimators_)
    rounds = rounds_asked(asked, fitted_stages, from_start=True)
    n_stages = fitted_stages if rounds is None else rounds[1]
    estimators = every[: n_stages * n_outputs]
    splits = splits_of([estimator.tree_ for estimator in estimators])
    tree_output = np.tile(np.arange(n_outputs), n_stages)
    return Forest(
        **splits,
        value=_values(model, estimators, tree_output, n_outputs),
        tree_output=tree_output,
        base_score=_base_score(model),
        inputs=InputRule(dtype="float32", nan="refuse", infinite="refuse"),
        feature_names=feature_names(model),
        ties_to_last=True,
        framework=said(stopped(model, fitted_stages, model.n_estimators), rounds, fitted_stages),
        **meaning_of(model),
    )


@hookimpl
def treespec_native(model: Any, forest: Forest) -> Native | None:
    """Return the estimator's own routing and prediction."""
    asked = Asked.of(model)
    model = asked.model
    if not _is_mine(model):
        return None
    trees = [estimator.tree_ for estimator in estimators_of(model)]
    return BoostingNative(model, forest, trees[: forest.n_trees], staged=asked.iteration_range is not None)


def stopped(model: Any, fitted_stages: int, most: int) -> str:
    """Return how people call the model, with the stages at which it stopped early."""
    name = f"scikit-learn {type(model).__name__}"
    return name if fitted_stages >= most else f"{name} (stopped after {fitted_stages} of {most} rounds)"


def _is_mine(model: object) -> bool:
    return is_a(model, "sklearn.ensemble", "GradientBoostingClassifier", "GradientBoostingRegressor")


def meaning_of(model: Any) -> dict[str, Any]:
    """Return link, loss, task and classes of a fitted boosting estimator (histogram boosting has the same attributes).

    Raises
    ------
    UnsupportedModelError
        If the link of the loss is not known.
    """
    link = type(model._loss.link).__name__
    if link not in _LINKS:
        raise UnsupportedModelError.expected(
            f"a link of {sorted(_LINKS)}", link, "please report the loss, with the version of scikit-learn"
        )
    name, scale = _LINKS[link]
    classes = (model.classes_,) if hasattr(model, "classes_") else None
    task: Task = "regression" if classes is None else "binary" if len(classes[0]) == 2 else "multiclass"
    loss = str(model.loss)
    return {"link": name, "link_scale": scale, "loss": _LOSSES.get(loss, loss.replace("_", "-")), "task": task, "classes": classes}


def _values(model: Any, estimators: list[Any], tree_output: NDArray[np.int64], n_outputs: int) -> NDArray[np.float64]:
    """Return node values; a line search moves the leaves of all losses but the squared one, so that inner nodes are on another scale."""
    scaled = model.learning_rate * np.concatenate([estimator.tree_.value[:, 0, 0] for estimator in estimators])
    if model.loss != "squared_error":
        leaf = np.concatenate([estimator.tree_.children_left for estimator in estimators]) == -1
        scaled[~leaf] = np.nan
    column = np.repeat(tree_output, [estimator.tree_.node_count for estimator in estimators])
    value = np.zeros((len(scaled), n_outputs))
    value[np.arange(len(scaled)), column] = scaled
    return value


def _base_score(model: Any) -> NDArray[np.float64]:
    """Return the margin before the first stage.

    Raises
    ------
    UnsupportedModelError
        If the initial model depends on the features or on chance.
    """
    init = model.init_
    constant = is_a(init, "sklearn.dummy", "DummyRegressor", "DummyClassifier") and getattr(init, "strategy", "") != "stratified"
    if not constant and not (isinstance(init, str) and init == "zero"):
        raise UnsupportedModelError.expected(
            "an initial model that is a constant",
            f"init={init!r}, a function of the features",
            "fit the boosting model with init='zero' on the residuals of the initial model, and add its prediction yourself",
        )
    return np.asarray(model._raw_predict_init(np.zeros((1, model.n_features_in_), np.float32))[0], np.float64)
