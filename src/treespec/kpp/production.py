"""The way back to production: a KPP model as a forest with the same splits and new leaf values."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from treespec.errors import UnsupportedModelError
from treespec.ir.join import join

if TYPE_CHECKING:
    from treespec.ir import Forest
    from treespec.kpp.model import KPP

Array = NDArray[np.float64]


def leaf_values(model: KPP) -> tuple[list[Array], Array]:
    """Return what each leaf adds to the scores, one array (n_nodes, k) an ensemble (0 at inner nodes), and a constant (k,).

    An anchor is folded in where its log-odds are a sum over leaves, else left out.
    """
    values, constant = model.representation.leaf_values(model.coef), model.intercept
    folded = None if model.anchor is None else model.anchor.leaf_values()
    if folded is None:
        return values, constant
    return [v + a for v, a in zip(values, folded[0], strict=True)], constant + folded[1]


def to_forest(model: KPP) -> Forest:
    """Return a KPP model as a forest; see `treespec.kpp.model.KPP.to_forest`."""
    if model.representation.raw is not None:
        raise UnsupportedModelError.expected(
            "a KPP without raw features", "one with them", "fit with raw=False: trees have no place for them"
        )
    if model.anchor is not None and model.anchor.leaf_values() is None:
        raise UnsupportedModelError.expected(
            "an anchor whose log-odds are a sum over trees (boosters)",
            "a forest's, the logarithm of a mean of probabilities",
            "fit without anchor, or keep the ensemble beside k.coef_",
        )
    forests = model.representation.forests
    values, constant = leaf_values(model)
    value = np.concatenate([np.where(f.is_leaf[:, None], v, np.nan) for f, v in zip(forests, values, strict=True)])
    k = model.coef.shape[1]
    link, task, classes = _output(model)
    return join(
        forests,
        value,
        tree_output=np.full(sum(f.n_trees for f in forests), -1 if k > 1 else 0, np.int32),
        base_score=constant.copy(),
        aggregation="sum",
        link=link,
        link_scale=1.0,
        sum_dtype="float64",
        task=task,
        classes=classes,
        ties_to_last=False,
        loss="unknown",
        framework="KPP on " + " + ".join(f.framework for f in forests),
    )


def _output(model: KPP) -> tuple[str, str, tuple[NDArray[np.generic], ...] | None]:
    targets = model.targets
    if targets.kind == "values":
        return "identity", "regression" if model.coef_.ndim == 1 else "multi-output", None
    if len(targets.classes) > 1:
        return "identity", "multi-output", targets.classes
    link = "identity" if model.learner != "logistic" else "sigmoid" if targets.binary else "softmax"
    return link, "binary" if targets.binary else "multiclass", targets.classes
