"""Boosting settings of scikit-learn's two gradient boosting models."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from treespec.operators import sampling
from treespec.operators.boosting_settings import Settings, suspects
from treespec.operators.leaf import LeafIncidence
from treespec.operators.replay import refuse, targets

if TYPE_CHECKING:
    from treespec.hooks import RowData
    from treespec.ir import Forest


def read(model: Any, forest: Forest, data: RowData, Z: LeafIncidence) -> Settings | None:
    """Return the settings, or None where the model is neither.

    Raises
    ------
    UnsupportedModelError
        If the loss is not squared.
    """
    if not all(hasattr(model, name) for name in ("loss", "learning_rate", "get_params")):
        return None
    if hasattr(model, "l2_regularization"):
        reader = _hist
    elif hasattr(model, "estimators_") and hasattr(model, "subsample"):
        reader = _gradient
    else:
        return None
    if model.loss != "squared_error":
        raise refuse("squared loss, for the 'boosting' smoother", f"loss {model.loss!r}")
    return reader(model, forest, data, Z)


def _gradient(model: Any, forest: Forest, data: RowData, Z: LeafIncidence) -> Settings:
    n = Z.shape[0]
    rows: NDArray[np.intp] = np.arange(n)
    seed = model.random_state
    stops = model.n_iter_no_change is not None
    known = isinstance(seed, (int, np.integer))
    if stops and known:
        rows, _ = sampling.split(n, model.validation_fraction, int(seed))
    mask = np.zeros((n, Z.n_trees), bool)
    mask[rows] = True
    if model.subsample < 1 and known:
        mask[rows] = sampling.gradient_boosting(len(rows), Z.n_trees, 1, model.subsample, int(seed))
    needed = stops or model.subsample < 1
    return Settings(
        y=targets(forest, np.asarray(data.y)),
        eta=float(model.learning_rate),
        ridge=0.0,
        initial=forest.base_score,
        weight=_times(mask if needed else None, data.sample_weight),
        reason=suspects({"row sampling or early stopping without an integer random_state": needed and not known}),
    )


def _hist(model: Any, forest: Forest, data: RowData, Z: LeafIncidence) -> Settings:
    n = Z.shape[0]
    mask = None
    stops = bool(getattr(model, "do_early_stopping_", False)) and model.validation_fraction is not None
    seed = _hist_seed(model)
    if stops and seed is not None:
        rows, _ = sampling.split(n, model.validation_fraction, seed)
        mask = np.zeros(n, bool)
        mask[rows] = True
    return Settings(
        y=targets(forest, np.asarray(data.y)),
        eta=float(model.learning_rate),
        ridge=float(model.l2_regularization),
        initial=forest.base_score,
        weight=_times(mask, data.sample_weight),
        reason=suspects(
            {
                "early stopping without an integer random_state": stops and seed is None,
                "monotonic constraints": model.monotonic_cst is not None,
            }
        ),
    )


def _hist_seed(model: Any) -> int | None:
    """Return the seed of the split, which the model draws from its ``random_state``."""
    stored = getattr(model, "_random_seed", None)
    if stored is not None:
        return int(stored)
    if isinstance(model.random_state, (int, np.integer)):
        rng = np.random.RandomState(model.random_state)
        return int(rng.randint(np.iinfo(np.uint32).max, dtype="u8"))
    return None


def _times(mask: NDArray[np.bool_] | None, weight: NDArray[np.float64] | None) -> NDArray[Any] | None:
    if mask is None or weight is None:
        return weight if mask is None else mask
    return mask * (weight if mask.ndim == 1 else weight[:, None])
