"""Adapter for XGBoost: boosters and scikit-learn wrappers.

Treelite gives the structure; cover, gain and node values come from the model's own document, as do base score, categories and objective,
which Treelite would refuse or round. A wrapper that stopped early predicts with ``best_iteration + 1`` rounds and is cut there; a bare
booster predicts with all its trees, and so does its forest.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treespec.adapters import xgboost_document
from treespec.adapters._asked import rounds_asked, said
from treespec.adapters._treelite import TreeliteStructure, structure_of
from treespec.adapters.xgboost_document import XgboostDocument
from treespec.adapters.xgboost_native import XgboostNative
from treespec.adapters.xgboost_objective import Objective, base_margin, objective_of
from treespec.errors import ModelNotFittedError, UnsupportedModelError
from treespec.hooks import Asked, Native, hookimpl, is_a
from treespec.ir import Forest, InputRule
from treespec.ir.forest import Task


@hookimpl
def treespec_adapt(model: Any) -> Forest | None:
    """Return the forest of an XGBoost booster or wrapper."""
    asked = Asked.of(model)
    model = asked.model
    if not is_a(model, "xgboost", "Booster", "XGBModel"):
        return None
    booster = booster_of(model)
    document = xgboost_document.read(bytes(booster.save_raw("ubj")))
    labels = _labels(model, document) if is_a(model, "xgboost", "XGBClassifier") else None
    return chosen_of(
        asked, document, framework=f"xgboost {type(model).__name__}", stopped=rounds_of(model), missing=missing_of(asked), labels=labels,
        step=_step(booster),
    )  # fmt: skip


@hookimpl
def treespec_native(model: Any, forest: Forest) -> Native | None:
    """Return XGBoost's own routing and prediction."""
    asked = Asked.of(model)
    model = asked.model
    if not is_a(model, "xgboost", "Booster", "XGBModel"):
        return None
    booster, stopped = booster_of(model), rounds_of(model)
    rounds = rounds_asked(asked, booster.num_boosted_rounds()) or (None if stopped is None else (0, stopped))
    return XgboostNative(model, booster, forest, rounds)


def missing_of(asked: Asked) -> float:
    """Return the value that means missing: the wrapper's, or what the caller says of a booster.

    Raises
    ------
    UnsupportedModelError
        If a wrapper says another.
    """
    own = getattr(asked.model, "missing", None)
    own = np.nan if own is None else float(own)
    if asked.missing is None:
        return own
    if is_a(asked.model, "xgboost", "XGBModel") and not np.array_equal(own, asked.missing, equal_nan=True):
        raise UnsupportedModelError.expected(
            f"missing={own}, which the wrapper says", f"missing={asked.missing}", "wrap its booster: model.get_booster()"
        )
    return float(asked.missing)


def chosen_of(asked: Asked, document: XgboostDocument, *, framework: str, stopped: int | None = None, **fields: Any) -> Forest:
    """Return the forest of the rounds that are asked for, else of those that ``predict`` uses."""
    rounds = rounds_asked(asked, document.n_rounds)
    if rounds is not None:
        return forest_of(document.rounds(*rounds), framework=said(framework, rounds, document.n_rounds), **fields)
    name = framework_of(framework, document, stopped)
    return forest_of(document if stopped is None else document.rounds(0, min(stopped, document.n_rounds)), framework=name, **fields)


def booster_of(model: Any) -> Any:
    """Return the booster of a wrapper, or the booster itself.

    Raises
    ------
    ModelNotFittedError
    """
    if is_a(model, "xgboost", "Booster"):
        import xgboost

        try:
            model.num_features()
        except xgboost.core.XGBoostError as error:
            came, hint = "an empty xgboost.Booster", "train it, or load a model into it"
            raise ModelNotFittedError(str(ModelNotFittedError.expected("a trained booster", came, hint))) from error
        return model
    if not model.__sklearn_is_fitted__():
        raise ModelNotFittedError.expected("a fitted model", f"an unfitted {type(model).__name__}", "call fit or load_model first")
    return model.get_booster()


def rounds_of(model: Any) -> int | None:
    """Return the number of rounds that ``predict`` uses where it is not all: of wrappers that stopped early."""
    if is_a(model, "xgboost", "Booster"):
        return None
    best = model.get_booster().attr("best_iteration")
    return None if best is None else int(best) + 1


def framework_of(name: str, document: XgboostDocument, n_rounds: int | None = None) -> str:
    """Return ``name`` with the rounds that are used, where early stopping leaves a choice."""
    best = document.best_iteration
    if n_rounds is None and best is not None and best + 1 < document.n_rounds:
        return f"{name} (all {document.n_rounds} rounds, as Booster.predict; best_iteration is {best})"
    if n_rounds is not None and n_rounds < document.n_rounds:
        return f"{name} (the first {n_rounds} of {document.n_rounds} rounds, up to best_iteration)"
    return name


def forest_of(
    document: XgboostDocument,
    *,
    framework: str,
    missing: float = float("nan"),
    labels: tuple[NDArray[Any], ...] | None = None,
    step: tuple[float, float] | None = None,
) -> Forest:
    """Return the forest of an XGBoost model.

    Parameters
    ----------
    document : XgboostDocument
    framework : str
    missing : float
        The wrapper's ``missing``.
    labels : tuple of ndarray, optional
        Class labels of each target of a wrapper that predicts classes.
    step : (eta, lambda), optional
        Learning rate and L2 penalty, if known, with which inner node values are scaled as leaves are (and the scaling is checked).
    """
    import treelite

    if not document.trees:
        raise UnsupportedModelError.expected(
            "at least one tree", "none",
            "train for at least one round; a wrapper whose booster= was changed after fitting has lost its trees: fit it again",
        )  # fmt: skip
    try:
        structure = structure_of(treelite.frontend.from_xgboost_ubjson(document.for_treelite()))
    except treelite.TreeliteError as error:
        raise UnsupportedModelError(
            str(UnsupportedModelError.expected("an XGBoost model that Treelite reads", str(error), "please report it with the model"))
        ) from error
    objective = objective_of(document.objective)
    at = _positions(document, structure)
    link, task, classes = _meaning(document, objective, labels)
    categorical = set(structure.categorical_columns) | {j for j, _ in document.categories}
    categorical |= {j for j, kind in enumerate(document.feature_types or ()) if kind == "c"}
    fields = structure.forest_fields() | {
        "value": _values(document, structure, at, step), "base_score": base_margin(document.base_score, objective),
        "cover": _statistic(document, "sum_hessian", at), "gain": _gain(document, structure, at),
    }  # fmt: skip
    return Forest(
        **fields, link=link, task=task, classes=classes, sum_dtype="float32", loss=objective.loss, framework=framework,
        feature_names=document.feature_names,
        inputs=InputRule(
            dtype="float32", missing_value=missing, absent="missing", categorical=tuple(sorted(categorical)),
            categories=document.categories, unknown_category="refuse", numbers_are_codes=True,
        ),
    )  # fmt: skip


def _labels(model: Any, document: XgboostDocument) -> tuple[NDArray[Any], ...]:
    """Return the class labels of a classifier: those of each target where rows have several labels."""
    if document.n_targets > 1:
        return tuple(np.arange(2.0) for _ in range(document.n_targets))  # predict gives floats there
    classes = np.asarray(model.classes_)
    return (classes if len(classes) > 1 else np.arange(2),)


def _meaning(
    document: XgboostDocument, objective: Objective, labels: tuple[NDArray[Any], ...] | None
) -> tuple[str, Task, tuple[NDArray[Any], ...] | None]:
    """Return link, task and classes."""
    link, task = objective.link, objective.task
    if document.n_targets > 1:
        return ("sigmoid-each" if link == "sigmoid" else link), "multi-output", labels if link == "sigmoid" else None
    if labels is not None:
        if document.n_classes == 1 and link == "identity":
            link = "probability"  # the wrapper takes what is not a probability for one: class 1 iff it is above one half
        if link not in ("sigmoid", "softmax", "hinge", "probability") and document.n_classes == 1:
            raise UnsupportedModelError.expected(
                "a classifier with an objective for classes", f"objective {document.objective!r}", "wrap its booster: model.get_booster()"
            )
        return link, "multiclass" if document.n_classes > 1 else "binary", labels
    if document.objective == "multi:softmax":  # a booster that predicts the number of the class
        return link, task, (np.arange(document.n_classes, dtype=np.float32),)
    return link, "multiclass" if document.n_classes > 1 else task, None


# ---- statistics that the document holds


def _positions(document: XgboostDocument, structure: TreeliteStructure) -> NDArray[np.int64]:
    """Return where each node of the structure stands in the document's arrays, laid end to end."""
    start = np.cumsum([0, *(len(t["left_children"]) for t in document.trees)])[:-1]
    return np.asarray(np.repeat(start, np.diff(structure.tree_offset)) + structure.node_id, np.int64)


def _statistic(document: XgboostDocument, name: str, at: NDArray[np.int64]) -> NDArray[np.float64] | None:
    parts = [t[name] for t in document.trees]
    if not parts or any(len(p) != len(t["left_children"]) for p, t in zip(parts, document.trees, strict=True)):
        return None
    with np.errstate(invalid="ignore"):  # of a signalling NaN
        return np.concatenate(parts)[at].astype(np.float64)


def _gain(document: XgboostDocument, structure: TreeliteStructure, at: NDArray[np.int64]) -> NDArray[np.float64] | None:
    gain = _statistic(document, "loss_changes", at)
    return None if gain is None else np.where(structure.left == -1, 0.0, gain)


def _step(booster: Any) -> tuple[float, float] | None:
    """Return learning rate (of one tree) and L2 penalty as the booster remembers them, which a loaded one does not."""
    config = json.loads(booster.save_config())["learner"]["gradient_booster"]
    parallel = float(config.get("gbtree", config).get("gbtree_model_param", {}).get("num_parallel_tree", 1))
    param = config.get("gbtree", config).get("tree_train_param")
    return None if param is None else (float(param["eta"]) / parallel, float(param["lambda"]))


def _values(
    document: XgboostDocument, structure: TreeliteStructure, at: NDArray[np.int64], step: tuple[float, float] | None
) -> NDArray[np.float64]:
    """Return leaf values, and values of inner nodes (on the scale of leaves) where the step is known and holds, else NaN.

    XGBoost keeps -G / (H + lambda) at inner nodes, and eta times that at leaves. Above two leaves the sum of their G must be the node's.
    """
    value = structure.value
    raw, cover = _statistic(document, "base_weights", at), _statistic(document, "sum_hessian", at)
    if step is None or raw is None or cover is None or (structure.tree_output < 0).any():
        return value
    eta, ridge = step
    tree = np.repeat(np.arange(len(document.trees)), np.diff(structure.tree_offset))
    weight = 1.0 if document.weight_drop is None else document.weight_drop.astype(np.float64)[tree]
    column = structure.tree_output[tree]
    own = np.where(structure.left == -1, value[np.arange(len(at)), column], raw * eta * weight)
    slope = own * (cover + ridge)
    inner = np.flatnonzero(structure.left != -1)
    left, right = structure.left[inner], structure.right[inner]
    bottom = (structure.left[left] == -1) & (structure.left[right] == -1)
    error = np.abs(slope[left] + slope[right] - slope[inner])[bottom]
    if not (error <= 1e-4 * (np.abs(slope[left]) + np.abs(slope[right]))[bottom] + 1e-6).all():
        return value
    out = value.copy()
    out[inner] = 0.0
    out[inner, column[inner]] = own[inner]
    return out
