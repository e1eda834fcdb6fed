"""Fitting an ensemble again on some of its rows, for choices and regimes that need labels it has not seen."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from treespec.adapters._treelite import TreeliteRouter
from treespec.hooks import RowData
from treespec.ir import Forest

Array = NDArray[np.float64]


class Refit(Protocol):
    """Fits the ensemble on rows, and returns its forest with these rows routed."""

    def __call__(self, X: Any, y: NDArray[Any], sample_weight: Array | None = None) -> tuple[Forest, RowData]:
        """Return the forest, and the rows as schemes get them."""
        ...


def refitter(model: Any, adapt: Callable[[object, Any], Forest]) -> Refit | None:
    """Return how to fit ``model`` again with the parameters that it has, or None where that is not possible.

    Parameters
    ----------
    model : object
        Only scikit-learn estimators, and the wrappers that XGBoost and LightGBM have for it, can be refitted: a raw booster does not know
        how it was trained, a file even less.
    adapt : callable
        Returns the forest of a fitted model, given rows of its training (``Plugins.adapt``).

    Notes
    -----
    Early stopping needs rows that are not at hand; the refitted model has as many rounds as ``model`` stopped at.
    """
    if model is None or isinstance(model, type) or not (hasattr(model, "get_params") and hasattr(model, "fit")):
        return None
    from sklearn.base import clone

    def refit(X: Any, y: NDArray[Any], sample_weight: Array | None = None) -> tuple[Forest, RowData]:
        fresh = clone(model)
        if getattr(model, "early_stopping_rounds", None):
            rounds = getattr(model, "best_iteration", None)
            fresh.set_params(early_stopping_rounds=None, **({} if rounds is None else {"n_estimators": rounds + 1}))
        fresh.fit(X, y, **({} if sample_weight is None else {"sample_weight": sample_weight}))
        forest = adapt(fresh, X)
        return forest, routed(forest, X, y, sample_weight, fresh)

    return refit


def routed(forest: Forest, X: Any, y: NDArray[Any] | None, sample_weight: Array | None = None, model: object = None) -> RowData:
    """Return rows as schemes get them, routed by Treelite."""
    router = TreeliteRouter(forest)

    def apply(X: Any) -> NDArray[np.int32]:
        return router.leaf_id(forest.encode(X))

    def margin(X: Any) -> Array:
        found = forest.margin_of(apply(X))
        return found[:, 0] if found.shape[1] == 1 else found

    return RowData(X, y, sample_weight, apply(X), apply, margin, model)
