"""Trees of the teacher's kind that were not grown on the validation rows, so that labels can judge them fairly."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treespec.distill.data import DistillData
from treespec.distill.report import fitted_on
from treespec.hooks import RowData
from treespec.ir import Forest
from treespec.ir.table import take

Adapt = Callable[[object], Forest]


def unseen(forest: Forest, data: DistillData) -> tuple[Forest, NDArray[np.int32]] | None:
    """Return a forest that validation rows judge fairly, and the leaves that all rows reach in it; None where there is none.

    The teacher's own where the objective is fidelity or it was not fitted on these rows; else its sibling, grown on ``data.fit`` alone.
    """
    if data.objective == "fidelity" or data.rows.y is None or fitted_on(forest, data.rows.leaf_id, data.rows.sampled_from) == "no":
        return forest, data.rows.leaf_id
    sibling = data.sibling
    return None if sibling is None else (sibling, _route(sibling, data.rows.X))


def _route(forest: Forest, X: Any) -> NDArray[np.int32]:
    from treespec.adapters._treelite import TreeliteRouter

    return TreeliteRouter(forest).leaf_id(forest.encode(X))


def grow_sibling(adapt: Adapt, forest: Forest, rows: RowData, chosen: NDArray[np.intp], random_state: int) -> Forest | None:
    """Return the forest of the same estimator fitted on the ``chosen`` rows alone.

    None where the rows are a sample, where the model is no scikit-learn estimator (a booster, a file), or where it cannot be fitted on
    these rows as it is (early stopping that wants rows of its own, a class that is missing).
    """
    model: Any = rows.model
    if rows.y is None or rows.sampled_from is not None or not (hasattr(model, "get_params") and hasattr(model, "fit")):
        return None
    from sklearn.base import clone

    weight = {} if rows.sample_weight is None else {"sample_weight": rows.sample_weight[chosen]}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            fresh = clone(model)
            if fresh.get_params().get("random_state", 0) is None:
                fresh.set_params(random_state=random_state)
            grown = adapt(fresh.fit(take(rows.X, chosen), rows.y[chosen], **weight))
        except (ValueError, TypeError, RuntimeError):
            return None
    same = (grown.n_outputs, grown.n_features, grown.link) == (forest.n_outputs, forest.n_features, forest.link)
    return grown if same else None
