"""Boosting settings of XGBoost, from the configuration of a booster in memory."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np

from treespec.operators import sampling
from treespec.operators.boosting_settings import Settings, labels, single, suspects
from treespec.operators.leaf import LeafIncidence
from treespec.operators.losses import Logistic, Loss, Poisson, Softmax, Squared
from treespec.operators.replay import refuse

if TYPE_CHECKING:
    from treespec.hooks import RowData
    from treespec.ir import Forest


_FLOOR = 1e-16  # of hessians


def read(model: Any, forest: Forest, data: RowData, Z: LeafIncidence) -> Settings | None:
    """Return the settings, or None where the model is not XGBoost's.

    Raises
    ------
    UnsupportedModelError
        If the loss is not one that can be replayed.
    """
    booster = model.get_booster() if hasattr(model, "get_booster") else model
    if not hasattr(booster, "save_config"):
        return None
    learner = json.loads(booster.save_config())["learner"]
    loss = _loss(learner["objective"])
    gbtree = learner["gradient_booster"]
    dart = gbtree.get("dart_train_param", {})
    gbtree = gbtree.get("gbtree", gbtree)
    parameters = gbtree["tree_train_param"]
    y = single(labels(forest, np.asarray(data.y)))
    weight = None if data.sample_weight is None else single(data.sample_weight)
    positive = _number(learner["objective"].get("reg_loss_param", {}), "scale_pos_weight", 1)
    if positive != 1:
        weight = np.where(y[:, 0] == 1, positive, 1.0) * (1.0 if weight is None else weight)
    parallel = int(gbtree["gbtree_model_param"]["num_parallel_tree"])
    subsample = _number(parameters, "subsample", 1)
    mask = None
    if subsample < 1 and isinstance(loss, Squared):  # other losses: the weight of a leaf depends on the margins
        exact = "grow_colmaker" in str(gbtree.get("gbtree_train_param", {}).get("updater", ""))
        rows = np.ones(Z.shape[0]) if weight is None else weight
        mask = sampling.xgboost(forest, Z, rows, subsample, int(learner["generic_param"]["seed"]), exact=exact)
    return Settings(
        y=y,
        eta=float(single(parameters["eta"])) / parallel,
        ridge=float(single(parameters["lambda"])),
        initial=forest.base_score,
        weight=weight if mask is None else mask if weight is None else mask * weight[:, None],
        parallel=parallel,
        loss=loss,
        alpha=float(single(parameters.get("alpha", 0))),
        clip=_number(parameters, "max_delta_step") or float("inf"),
        reason=suspects(
            {
                f"subsample={subsample:g} with rows that could not be regenerated": subsample < 1 and mask is None,
                "max_delta_step": _number(parameters, "max_delta_step") != 0 and isinstance(loss, Squared),
                "monotone constraints": any(c in "123456789" for c in str(parameters.get("monotone_constraints", ""))),
                "dropped trees (dart)": _number(dart, "rate_drop") > 0,
            }
        ),
    )


def _loss(objective: dict[str, Any]) -> Loss:
    name = objective["name"]
    if name == "reg:squarederror":
        return Squared()
    if name in ("binary:logistic", "binary:logitraw", "reg:logistic"):
        return Logistic(floor=_FLOOR)
    if name in ("multi:softmax", "multi:softprob"):
        return Softmax(factor=2.0, floor=_FLOOR)
    if name == "count:poisson":
        return Poisson(float(single(objective["poisson_regression_param"]["max_delta_step"])))
    raise refuse("a loss that can be replayed (squared, logistic, softmax, Poisson)", f"objective {name!r}")


def _number(parameters: dict[str, Any], name: str, default: float = 0.0) -> float:
    return float(parameters.get(name, default))
