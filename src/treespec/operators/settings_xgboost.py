"""Boosting settings of XGBoost, from the configuration of a booster in memory."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np

from treespec.operators import sampling
from treespec.operators.boosting_settings import Settings, single, suspects
from treespec.operators.leaf import LeafIncidence
from treespec.operators.replay import refuse, targets

if TYPE_CHECKING:
    from treespec.hooks import RowData
    from treespec.ir import Forest


def read(model: Any, forest: Forest, data: RowData, Z: LeafIncidence) -> Settings | None:
    """Return the settings, or None where the model is not XGBoost's.

    Raises
    ------
    UnsupportedModelError
        If the loss is not squared, or alpha makes leaf values affine.
    """
    booster = model.get_booster() if hasattr(model, "get_booster") else model
    if not hasattr(booster, "save_config"):
        return None
    learner = json.loads(booster.save_config())["learner"]
    objective = learner["objective"]["name"]
    if objective != "reg:squarederror":
        raise refuse("squared loss (reg:squarederror), for the 'boosting' smoother", f"objective {objective!r}")
    gbtree = learner["gradient_booster"]
    dart = gbtree.get("dart_train_param", {})
    gbtree = gbtree.get("gbtree", gbtree)
    parameters = gbtree["tree_train_param"]
    if _number(parameters, "alpha") != 0:
        raise refuse(
            "leaf values that are linear in the labels, for the 'boosting' smoother",
            f"reg_alpha={parameters['alpha']}, which shifts and thresholds them",
        )
    weight = None if data.sample_weight is None else single(data.sample_weight)
    if (
        "scale_pos_weight" in str(learner["objective"])
        and _number(learner["objective"].get("reg_loss_param", {}), "scale_pos_weight", 1) != 1
    ):
        factor = _number(learner["objective"]["reg_loss_param"], "scale_pos_weight", 1)
        weight = np.where(np.asarray(data.y) == 1, factor, 1.0) * (1.0 if weight is None else weight)
    parallel = int(gbtree["gbtree_model_param"]["num_parallel_tree"])
    subsample = _number(parameters, "subsample", 1)
    mask = None
    if subsample < 1:
        exact = "grow_colmaker" in str(gbtree.get("gbtree_train_param", {}).get("updater", ""))
        rows = np.ones(Z.shape[0]) if weight is None else weight
        mask = sampling.xgboost(forest, Z, rows, subsample, int(learner["generic_param"]["seed"]), exact=exact)
    return Settings(
        y=single(targets(forest, np.asarray(data.y))),
        eta=float(single(parameters["eta"])) / parallel,
        ridge=float(single(parameters["lambda"])),
        initial=forest.base_score,
        weight=weight if mask is None else mask if weight is None else mask * weight[:, None],
        parallel=parallel,
        reason=suspects(
            {
                f"subsample={subsample:g} with rows that could not be regenerated": subsample < 1 and mask is None,
                "max_delta_step": _number(parameters, "max_delta_step") != 0,
                "monotone constraints": any(c in "123456789" for c in str(parameters.get("monotone_constraints", ""))),
                "dropped trees (dart)": _number(dart, "rate_drop") > 0,
            }
        ),
    )


def _number(parameters: dict[str, Any], name: str, default: float = 0.0) -> float:
    return float(parameters.get(name, default))
