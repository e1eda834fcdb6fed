"""Adapter for LightGBM: boosters and scikit-learn wrappers.

``Booster.predict`` and the wrappers use ``best_iteration`` where early stopping set it, and the text that they write ends there too: the
forest has those rounds. The text of a booster is the model (see `treespec.adapters.lightgbm_text`).
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from treespec.adapters import lightgbm_text
from treespec.adapters._asked import refuse_missing, rounds_asked, said
from treespec.adapters._reach import reachable
from treespec.adapters.lightgbm_native import LightgbmNative
from treespec.adapters.lightgbm_text import MISSING_NAN, MISSING_NONE, MISSING_ZERO, LightgbmText, LightgbmTree
from treespec.errors import FileFormatError, ModelNotFittedError, UnsupportedModelError
from treespec.hooks import Asked, Native, hookimpl, is_a
from treespec.ir import Forest, InputRule
from treespec.ir.forest import Task

_MEANING: dict[str, tuple[str, Task, str]] = {
    "regression": ("identity", "regression", "squared"), "regression_l1": ("identity", "regression", "absolute"),
    "huber": ("identity", "regression", "huber"), "fair": ("identity", "regression", "fair"),
    "quantile": ("identity", "regression", "quantile"), "mape": ("identity", "regression", "mape"),
    "poisson": ("exp", "regression", "poisson"), "gamma": ("exp", "regression", "gamma"), "tweedie": ("exp", "regression", "tweedie"),
    "binary": ("sigmoid", "binary", "logistic"), "cross_entropy": ("sigmoid", "regression", "logistic"),
    "cross_entropy_lambda": ("log1p-exp", "regression", "cross-entropy-lambda"), "multiclass": ("softmax", "multiclass", "logistic"),
    "multiclassova": ("sigmoid-each", "multiclass", "one-vs-all"), "lambdarank": ("identity", "ranking", "lambdarank"),
    "rank_xendcg": ("identity", "ranking", "rank-xendcg"),
}  # fmt: skip
"""Objective, as the text names it, to link, task and loss; one that is not known (custom) predicts its margin."""


@hookimpl
def treespec_adapt(model: Any) -> Forest | None:
    """Return the forest of a LightGBM booster or wrapper."""
    asked = Asked.of(model)
    model = asked.model
    if not is_a(model, "lightgbm", "Booster", "LGBMModel"):
        return None
    refuse_missing(asked, "takes NaN for missing (and zeros where it was trained with zero_as_missing)")
    booster = booster_of(model)
    chosen = rounds_asked(asked, booster.current_iteration())
    text = lightgbm_text.read(booster.model_to_string(**_arguments(chosen)))
    labels = np.asarray(model.classes_) if is_a(model, "lightgbm", "LGBMClassifier") and not callable(model.objective) else None
    name, n_rounds = f"lightgbm {type(model).__name__}", len(text.trees) // text.n_outputs
    if chosen is not None:
        name = said(name, chosen, booster.current_iteration())
    elif n_rounds < booster.current_iteration():
        name += f" (the first {n_rounds} of {booster.current_iteration()} rounds, up to best_iteration)"
    return forest_of(text, framework=name, labels=labels, wrapper=is_a(model, "lightgbm", "LGBMModel"))


@hookimpl
def treespec_native(model: Any, forest: Forest) -> Native | None:
    """Return LightGBM's own routing and prediction."""
    asked = Asked.of(model)
    model = asked.model
    if not is_a(model, "lightgbm", "Booster", "LGBMModel"):
        return None
    booster = booster_of(model)
    return LightgbmNative(model, booster, forest, _arguments(rounds_asked(asked, booster.current_iteration())))


def _arguments(rounds: tuple[int, int] | None) -> dict[str, int]:
    """Return a range of rounds in LightGBM's words."""
    return {} if rounds is None else {"start_iteration": rounds[0], "num_iteration": rounds[1] - rounds[0]}


def booster_of(model: Any) -> Any:
    """Return the booster of a wrapper, or the booster itself.

    Raises
    ------
    ModelNotFittedError
    """
    if is_a(model, "lightgbm", "Booster"):
        return model
    if not model.__sklearn_is_fitted__():
        raise ModelNotFittedError.expected("a fitted model", f"an unfitted {type(model).__name__}", "call fit first")
    return model.booster_


def forest_of(text: LightgbmText, *, framework: str, labels: NDArray[Any] | None = None, wrapper: bool = False) -> Forest:
    """Return the forest of a LightGBM model.

    Parameters
    ----------
    text : LightgbmText
    framework : str
    labels : ndarray, optional
        Class labels of a wrapper that predicts classes.
    wrapper : bool
        Whether rows go through a wrapper, which reads arrays of objects as float64.

    Raises
    ------
    FileFormatError
        If the nodes are no trees.
    UnsupportedModelError
        If there is no tree, or the input rule cannot be told.
    """
    if not text.trees:
        raise UnsupportedModelError.expected("at least one tree", "none", "train for at least one round")
    trees, k = text.trees, text.n_outputs
    offset = np.cumsum([0, *(len(t.left) for t in trees)])
    left, right = (np.concatenate([getattr(t, side) for t in trees]) for side in ("left", "right"))
    try:
        reached = reachable(left, right, offset)
    except UnsupportedModelError as error:
        raise FileFormatError(str(error)) from error
    at, leaf = reached.source, reached.left == -1
    zero = _zero_rule(trees)
    category_offset, category = _categories(trees, offset, at)
    tree_output = np.tile(np.arange(k, dtype=np.int32), len(trees) // k)
    value = np.zeros((len(at), k))
    column = np.repeat(tree_output, np.diff(reached.tree_offset))
    value[np.arange(len(at)), column] = _joined(trees, "value")[at] * (k if text.average else 1)  # our mean is over all trees
    categorical = _splits(trees, "categorical", False)[at]
    position = at - np.repeat(offset[:-1], np.diff(reached.tree_offset))
    link, scale, task, loss, classes = _meaning(text, labels)
    return Forest(
        tree_offset=reached.tree_offset, left=reached.left, right=reached.right, value=value, n_features=text.n_features,
        feature=_splits(trees, "feature", -1)[at], threshold=np.where(categorical, np.nan, _splits(trees, "threshold", np.nan)[at]),
        default_left=np.concatenate([_default_left(t) for t in trees])[at], categorical=categorical, category_left=categorical,
        category_offset=category_offset, category=category, tree_output=tree_output, base_score=np.zeros(k),
        aggregation="mean" if text.average else "sum", cover=_cover(trees, at), count=_optional(trees, "count", at),
        gain=None if any(t.gain is None and len(t.feature) for t in trees) else np.where(leaf, 0.0, _splits(trees, "gain", 0.0)[at]),
        inputs=_inputs(text, zero, wrapper), feature_names=text.feature_names, link=link, link_scale=scale, task=task, loss=loss,
        classes=classes, framework=framework, native_id=_leaf_number(trees, reached.tree_offset, position),
    )  # fmt: skip


def _meaning(text: LightgbmText, labels: NDArray[Any] | None) -> tuple[str, float, Task, str, tuple[NDArray[Any], ...] | None]:
    """Return link, its scale, task, loss and classes."""
    link, task, loss = _MEANING.get(text.objective, ("identity", "regression", "unknown"))
    if text.n_outputs > 1 and task != "multiclass":
        task = "multi-output"  # custom objective
    if text.objective == "regression" and "sqrt" in text.objective_options:
        link, loss = "signed-square", "squared-sqrt"
    scale = float(text.objective_options.get("sigmoid", 1.0))
    if labels is None:
        return link, scale, task, loss, None
    if text.n_outputs == 1:
        if link == "identity":
            link = "probability"  # the wrapper takes what is not a probability for one: second class iff it is above one half
        if link not in ("sigmoid", "probability"):
            raise UnsupportedModelError.expected(
                "a classifier with an objective for classes", f"objective {text.objective!r}", "wrap its booster: model.booster_"
            )
        return link, scale, "binary", loss, (labels if len(labels) > 1 else np.arange(2),)
    return link, scale, "multiclass", loss, (labels,)


# ---- arrays over the nodes of all trees (a tree's splits, then its leaves)


def _joined(trees: tuple[LightgbmTree, ...], name: str) -> NDArray[Any]:
    return np.concatenate([getattr(t, name) for t in trees])


def _splits(trees: tuple[LightgbmTree, ...], name: str, at_leaf: Any) -> NDArray[Any]:
    """Return a field of the splits over all nodes."""
    parts = []
    for t in trees:
        own = getattr(t, name)
        n_leaves = len(t.left) - len(t.feature)
        parts += [own if own is not None else np.zeros(0), np.full(n_leaves, at_leaf)]
    return np.concatenate(parts)


def _optional(trees: tuple[LightgbmTree, ...], name: str, at: NDArray[np.int64]) -> NDArray[np.float64] | None:
    return None if any(getattr(t, name) is None for t in trees) else np.asarray(_joined(trees, name)[at], np.float64)


def _cover(trees: tuple[LightgbmTree, ...], at: NDArray[np.int64]) -> NDArray[np.float64] | None:
    """Return the sums of hessians; a tree of one leaf has none in the text, and its number of rows stands in."""
    parts = [t.count if t.cover is None and len(t.left) == 1 else t.cover for t in trees]
    known = [p for p in parts if p is not None]
    return np.concatenate(known)[at] if len(known) == len(parts) else None


def _leaf_number(trees: tuple[LightgbmTree, ...], offset: NDArray[np.int64], position: NDArray[np.int64]) -> NDArray[np.int32]:
    """Return LightGBM's leaf number of each leaf (its split number at splits)."""
    n_splits = np.repeat([len(t.feature) for t in trees], np.diff(offset))
    return np.where(position >= n_splits, position - n_splits, position).astype(np.int32)


def _default_left(tree: LightgbmTree) -> NDArray[np.bool_]:
    """Return where a missing value goes: where no missing values were seen, LightGBM takes it for 0; at categories, it goes right."""
    as_zero = tree.threshold >= 0
    own = np.where(tree.missing_type == MISSING_NONE, as_zero, tree.default_left) & ~tree.categorical
    return np.concatenate([own, np.zeros(len(tree.left) - len(own), bool)])


def _zero_rule(trees: tuple[LightgbmTree, ...]) -> Literal["flush", "missing"]:
    """Return what zeros are.

    Raises
    ------
    UnsupportedModelError
        If they are missing for some splits and numbers for others (training was continued with another ``zero_as_missing``).
    """
    kind = np.concatenate([t.missing_type[~t.categorical] for t in trees])
    if not (kind == MISSING_ZERO).any():
        return "flush"
    as_zero = np.concatenate([(t.threshold >= 0)[~t.categorical] for t in trees])
    default = np.concatenate([t.default_left[~t.categorical] for t in trees])
    if ((kind == MISSING_NAN) & (default != as_zero)).any():
        raise UnsupportedModelError.expected(
            "zeros that are missing values at every split or at none",
            "a model trained partly with zero_as_missing",
            "train all rounds with one setting of zero_as_missing",
        )
    return "missing"


def _categories(
    trees: tuple[LightgbmTree, ...], offset: NDArray[np.int64], at: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Return the lists of codes that go left, in CSR form over the kept nodes."""
    new_id = np.full(int(offset[-1]), -1)
    new_id[at] = np.arange(len(at))
    owner, code = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    for t, start in zip(trees, offset[:-1], strict=True):
        for split in np.flatnonzero(t.categorical):
            listed = t.category_lists[int(t.threshold[split])]
            if new_id[start + split] >= 0:
                owner.append(np.full(len(listed), new_id[start + split]))
                code.append(listed)
    owners, codes = np.concatenate(owner), np.concatenate(code)
    order = np.argsort(owners, kind="stable")
    return np.searchsorted(owners[order], np.arange(len(at) + 1)), codes[order].astype(np.int32)


def _inputs(text: LightgbmText, zero: Literal["flush", "missing"], wrapper: bool) -> InputRule:
    """Return the input rule.

    Raises
    ------
    UnsupportedModelError
        If it is not known which columns the category values of the training frame belong to.
    """
    values, columns = text.pandas_categorical, text.categorical_columns
    if values and len(values) != len(columns):
        raise UnsupportedModelError.expected(
            "category columns of the training frame that are the model's categorical features",
            f"{len(values)} category columns and {len(columns)} categorical features, which LightGBM does not match by name",
            "train with categorical_feature='auto' and unordered categories, or on codes",
        )
    pairs = tuple(zip(columns, values, strict=True)) if values else ()
    return InputRule(
        dtype="float64", zero=zero, absent="zero", categorical=columns, categories=pairs, unknown_category="missing",
        numbers_are_codes=True, negative_fraction_is_zero=True,
        float32_first="numbers" if wrapper else "all",
    )  # fmt: skip
