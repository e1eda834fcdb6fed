"""Boosting settings of scikit-learn's two gradient boosting models."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from treespec.operators import sampling
from treespec.operators.boosting_settings import Settings, class_weighted, labels, suspects
from treespec.operators.leaf import LeafIncidence
from treespec.operators.losses import Exponential, Logistic, Loss, Poisson, Softmax, Squared
from treespec.operators.replay import refuse

if TYPE_CHECKING:
    from treespec.hooks import RowData
    from treespec.ir import Forest


def read(model: Any, forest: Forest, data: RowData, Z: LeafIncidence) -> Settings | None:
    """Return the settings, or None where the model is neither.

    Raises
    ------
    UnsupportedModelError
        If the loss is not one that can be replayed.
    """
    if not all(hasattr(model, name) for name in ("loss", "learning_rate", "get_params")):
        return None
    if hasattr(model, "l2_regularization"):
        reader = _hist
    elif hasattr(model, "estimators_") and hasattr(model, "subsample"):
        reader = _gradient
    else:
        return None
    if model.loss not in ("squared_error", "log_loss", "poisson", "exponential"):
        raise refuse("a loss that can be replayed (squared, log loss, Poisson, exponential)", f"loss {model.loss!r}")
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
        mask[rows] = sampling.gradient_boosting(len(rows), Z.n_trees, forest.n_outputs, model.subsample, int(seed))
    needed = stops or model.subsample < 1
    return Settings(
        y=labels(forest, np.asarray(data.y)),
        eta=float(model.learning_rate),
        ridge=0.0,
        initial=forest.base_score,
        weight=_times(mask if needed else None, data.sample_weight),
        loss=_loss(model, forest.n_outputs, Softmax(forest.n_outputs / max(1, forest.n_outputs - 1))),
        reason=suspects(
            {
                "row sampling or early stopping without an integer random_state": needed and not known,
                "early stopping on a stratified split": stops and forest.classes is not None,
            }
        ),
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
        y=labels(forest, np.asarray(data.y)),
        eta=float(model.learning_rate),
        ridge=float(model.l2_regularization) + 1e-15,
        initial=forest.base_score,
        weight=_times(mask, class_weighted(model, np.asarray(data.y), data.sample_weight)),
        loss=_loss(model, forest.n_outputs, Softmax()),
        reason=suspects(
            {
                "early stopping on a stratified split": stops and forest.classes is not None,
                "early stopping without an integer random_state": stops and seed is None,
                "monotonic constraints": model.monotonic_cst is not None,
            }
        ),
    )


def _loss(model: Any, n_outputs: int, softmax: Softmax) -> Loss:
    if model.loss == "log_loss":
        return Logistic() if n_outputs == 1 else softmax
    found: dict[str, Loss] = {"squared_error": Squared(), "poisson": Poisson(), "exponential": Exponential()}
    return found[model.loss]


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
