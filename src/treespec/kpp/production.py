"""The way back to production: a KPP model as a forest with the same splits and new leaf values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from treespec.errors import UnsupportedModelError
from treespec.ir.combine import Member, combine

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
    k = model.coef.shape[1]
    output = _output(model) | {
        "aggregation": "sum",
        "link_scale": 1.0,
        "sum_dtype": "float64",
        "ties_to_last": False,
        "loss": "unknown",
        "framework": "KPP on " + " + ".join(f.framework for f in forests),
    }
    refitted = []
    for forest, value in zip(forests, values, strict=True):
        tree_output = np.full(forest.n_trees, -1 if k > 1 else 0, np.int32)
        new = np.where(forest.is_leaf[:, None], value, np.nan)
        refitted.append((new, {"tree_output": tree_output, "base_score": np.zeros(k), **output}))
    if len(forests) == 1:
        value, fields = refitted[0]
        return forests[0].with_values(value, **{**fields, "base_score": constant.copy()})
    members = [Member(f.with_values(value, **fields), np.eye(k)) for f, (value, fields) in zip(forests, refitted, strict=True)]
    what = "KPP model of several ensembles"
    return combine(members, n_features=forests[0].n_features, what=what, base=constant, feature_names=_common_names(forests), **output)


def _common_names(forests: list[Forest]) -> tuple[str, ...] | None:
    names = {f.feature_names for f in forests if f.feature_names is not None}
    if len(names) > 1:
        raise UnsupportedModelError.expected(
            "ensembles with the same feature names, to make one forest of them",
            f"{[n[:3] for n in sorted(names)]}",
            "fit them on one frame",
        )
    return names.pop() if names else None


def _output(model: KPP) -> dict[str, Any]:
    targets = model.targets
    if targets.kind == "values":
        return {"link": "identity", "task": "regression" if model.coef_.ndim == 1 else "multi-output", "classes": None}
    if len(targets.classes) > 1:
        return {"link": "identity", "task": "multi-output", "classes": targets.classes}
    link = "identity" if model.learner != "logistic" else "sigmoid" if targets.binary else "softmax"
    return {"link": link, "task": "binary" if targets.binary else "multiclass", "classes": targets.classes}
