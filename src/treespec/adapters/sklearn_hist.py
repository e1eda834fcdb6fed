"""Adapter for scikit-learn's HistGradientBoosting estimators, read from their predictors' node records.

Categories live in the space of the estimator's ordinal encoder: what the encoder does not know is missing.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from treespec.adapters._asked import refuse_missing, rounds_asked, said
from treespec.adapters.sklearn_boosting import meaning_of, stopped
from treespec.adapters.sklearn_native import HistNative
from treespec.adapters.sklearn_trees import feature_names
from treespec.errors import ModelNotFittedError, UnsupportedModelError
from treespec.hooks import Asked, Native, hookimpl, is_a
from treespec.ir import Forest, InputRule
from treespec.ir.inputs import Category
from treespec.ir.table import beyond_float64


@hookimpl
def treespec_adapt(model: Any) -> Forest | None:
    """Return the forest of a histogram-based gradient-boosting estimator."""
    asked = Asked.of(model)
    model = asked.model
    if not _is_mine(model):
        return None
    refuse_missing(asked, "takes NaN for missing")
    if not hasattr(model, "_predictors"):
        raise ModelNotFittedError.expected("a fitted model", f"an unfitted {type(model).__name__}", "call fit(X, y) first")
    n_stages = len(model._predictors)
    rounds = rounds_asked(asked, n_stages, from_start=True)
    stages = model._predictors[: n_stages if rounds is None else rounds[1]]
    predictors = [predictor for stage in stages for predictor in stage]
    n_outputs = int(model.n_trees_per_iteration_)
    tree_output = np.tile(np.arange(n_outputs, dtype=np.int32), len(stages))
    column_of, categories = _columns(model)
    return Forest(
        **_splits(predictors, column_of),
        value=_values(model, predictors, tree_output, n_outputs),
        tree_output=tree_output,
        base_score=np.asarray(model._baseline_prediction, np.float64).reshape(-1),
        n_features=int(model.n_features_in_),
        inputs=InputRule(categorical=tuple(j for j, _ in categories), categories=categories, unknown_category="missing"),
        feature_names=feature_names(model),
        framework=said(stopped(model, n_stages, model.max_iter), rounds, n_stages),
        **meaning_of(model),
    )


@hookimpl
def treespec_native(model: Any, forest: Forest) -> Native | None:
    """Return the estimator's own prediction; it has no leaf ids."""
    asked = Asked.of(model)
    if not _is_mine(asked.model):
        return None
    return HistNative(asked.model, forest, staged=asked.iteration_range is not None)  # type: ignore[return-value]


def _is_mine(model: object) -> bool:
    return is_a(model, "sklearn.ensemble", "HistGradientBoostingClassifier", "HistGradientBoostingRegressor")


def _columns(model: Any) -> tuple[NDArray[np.int64], tuple[tuple[int, tuple[Category, ...]], ...]]:
    """Return the user's column of each column that the trees see (categorical ones come first there), and the values of categories."""
    categorical = getattr(model, "is_categorical_", None)
    if categorical is None or model._preprocessor is None:
        return np.arange(model.n_features_in_), ()
    encoder = model._preprocessor.named_transformers_["encoder"]
    columns = np.flatnonzero(categorical)
    values = tuple((int(j), _category_values(known)) for j, known in zip(columns, encoder.categories_, strict=True))
    return np.concatenate([columns, np.flatnonzero(~categorical)]), values


def _category_values(known: NDArray[Any]) -> tuple[Category, ...]:
    """Return the values behind codes 0, 1, ...; a NaN at the end, where training saw missing values, is no category."""
    values = known.tolist()
    if values and isinstance(values[-1], float) and np.isnan(values[-1]):
        values = values[:-1]
    if not all(isinstance(value, (str, int, float, bool)) for value in values):
        raise UnsupportedModelError.expected(
            "categories that are text or numbers", f"{values[-1]!r}", "fit the model with NaN, not None, for missing categories"
        )
    large = beyond_float64(np.array(values, dtype=object))
    if large.any():
        raise UnsupportedModelError.expected(
            "categories that are integers of magnitude up to 2^53",
            f"{values[int(large.argmax())]}, which float64 does not tell from its neighbours",
            "fit the model with such identifiers as text",
        )
    return tuple(value if isinstance(value, str) else float(value) for value in values)


def _splits(predictors: list[Any], column_of: NDArray[np.int64]) -> dict[str, Any]:
    """Return structure, splits and statistics of all trees."""
    size = [len(predictor.nodes) for predictor in predictors]
    nodes = np.concatenate([predictor.nodes for predictor in predictors])
    offset = np.concatenate([[0], np.cumsum(size, dtype=np.int64)])
    start = np.repeat(offset[:-1], size)
    leaf = nodes["is_leaf"].astype(bool)
    categorical = ~leaf & nodes["is_categorical"].astype(bool)
    first_set = np.cumsum([0, *(len(predictor.raw_left_cat_bitsets) for predictor in predictors)])[:-1]
    bits = np.concatenate([_bits(predictor.raw_left_cat_bitsets) for predictor in predictors])
    listed = bits[(nodes["bitset_idx"] + np.repeat(first_set, size))[categorical]]
    width = np.zeros(len(nodes), np.int64)
    width[categorical] = listed.sum(axis=1)
    return {
        "tree_offset": offset,
        "left": np.where(leaf, -1, nodes["left"].astype(np.int64) + start),
        "right": np.where(leaf, -1, nodes["right"].astype(np.int64) + start),
        "feature": np.where(leaf, -1, column_of[np.where(leaf, 0, nodes["feature_idx"])]),
        "threshold": np.where(leaf | categorical, np.nan, nodes["num_threshold"]),
        "default_left": ~leaf & nodes["missing_go_to_left"].astype(bool),
        "categorical": categorical,
        "category_offset": np.concatenate([[0], np.cumsum(width)]),
        "category": np.nonzero(listed)[1],
        "category_left": categorical,
        "count": nodes["count"],
        "gain": np.where(leaf, 0.0, nodes["gain"]),
    }


def _bits(bitsets: NDArray[np.uint32]) -> NDArray[np.bool_]:
    """Return (n_sets, 256): whether a set holds each code."""
    return np.unpackbits(np.ascontiguousarray(bitsets, "<u4").view(np.uint8).reshape(-1, 32), axis=1, bitorder="little").astype(bool)


def _values(model: Any, predictors: list[Any], tree_output: NDArray[np.int32], n_outputs: int) -> NDArray[np.float64]:
    """Return node values; those of leaves have the learning rate in them, those of inner nodes lack it, or mean nothing."""
    nodes = np.concatenate([predictor.nodes for predictor in predictors])
    leaves_were_moved = not model._loss.differentiable
    stacked = np.where(nodes["is_leaf"], nodes["value"], np.nan if leaves_were_moved else model.learning_rate * nodes["value"])
    value = np.zeros((len(stacked), n_outputs))
    value[np.arange(len(stacked)), np.repeat(tree_output, [len(predictor.nodes) for predictor in predictors])] = stacked
    return value
