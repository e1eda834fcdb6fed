"""Boosting settings of LightGBM, from the parameters that its model text carries."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from treespec.ir import stats
from treespec.operators import sampling
from treespec.operators.boosting_settings import Settings, average, class_weighted, labels, single, suspects
from treespec.operators.leaf import LeafIncidence
from treespec.operators.losses import Logistic, Loss, Poisson, Softmax, Squared
from treespec.operators.replay import refuse

if TYPE_CHECKING:
    from treespec.hooks import RowData
    from treespec.ir import Forest


def is_mine(model: Any) -> bool:
    """Return whether the model, or the model file, is LightGBM's."""
    return _text(model) is not None


def _text(model: Any) -> str | None:
    """Return the model text of a LightGBM model or file, else None."""
    booster = getattr(model, "booster_", model)
    if hasattr(booster, "model_to_string"):
        return str(booster.model_to_string())
    if isinstance(model, (str, Path)) and Path(model).is_file():
        content = Path(model).read_bytes()
        return content.decode("utf-8", "replace") if content.startswith(b"tree") else None
    return None


def read(model: Any, forest: Forest, data: RowData, Z: LeafIncidence) -> Settings | None:
    """Return the settings, or None where the model is not LightGBM's.

    Raises
    ------
    UnsupportedModelError
        If the loss is not one that can be replayed.
    """
    text = _text(model)
    if text is None:
        return None
    parameters = _parameters(text)
    y = single(labels(forest, np.asarray(data.y)))
    loss = _loss(_line(text, "objective="), parameters, forest.n_outputs)
    given = class_weighted(model, np.asarray(data.y), data.sample_weight)
    weight = None if given is None else single(given)
    is_forest = parameters.get("boosting") in ("rf", "random_forest")
    fraction, freq = _number(parameters, "bagging_fraction", 1), int(_number(parameters, "bagging_freq"))
    bagged = freq > 0 and fraction < 1
    mask = sampling.lightgbm(forest, Z, fraction, freq, int(parameters.get("bagging_seed", 3))) if bagged else None
    ridge = _number(parameters, "lambda_l2") + _categorical_ridge(forest, text, parameters)
    from_average = _number(parameters, "boost_from_average", 1) != 0 and not forest.base_score.any()
    smooth = _number(parameters, "path_smooth")
    initial = _initial(loss, average(y, weight)) if from_average else forest.base_score
    weight = _balanced(parameters, y, weight)  # which does not enter the initial score
    entries = weight if mask is None else mask if weight is None else mask * weight[:, None]
    return Settings(
        y=y,
        eta=1.0 / Z.n_trees if is_forest else _number(parameters, "learning_rate", 0.1),
        ridge=ridge,
        initial=initial,
        weight=entries,
        parallel=Z.n_trees if is_forest else 1,
        loss=loss,
        alpha=_number(parameters, "lambda_l1"),
        clip=_number(parameters, "max_delta_step") or float("inf"),
        mix=path_smoothing(forest, Z if entries is None else Z.with_entries(entries), ridge, smooth) if smooth > 0 else None,
        reason=suspects(
            {
                "bagging with rows that could not be regenerated": bagged and mask is None,
                "goss sampling": "goss" in (parameters.get("boosting"), parameters.get("data_sample_strategy")),
                "dropped trees (dart)": parameters.get("boosting") == "dart",
                "quantised gradients": _number(parameters, "use_quantized_grad") != 0
                and _number(parameters, "quant_train_renew_leaf") == 0,
                "path_smooth with row weights": smooth > 0 and weight is not None,
                "monotone constraints": "1" in parameters.get("monotone_constraints", ""),
                "max_delta_step": _number(parameters, "max_delta_step") != 0,
            }
        ),
    )


def _loss(objective: str, parameters: dict[str, str], n_outputs: int) -> Loss:
    name = objective.partition(" ")[0]
    if objective == "regression":
        return Squared()
    if name in ("binary", "multiclassova"):
        return Logistic(_number(parameters, "sigmoid", 1))
    if name == "multiclass":
        return Softmax(n_outputs / (n_outputs - 1))
    if name == "poisson":
        return Poisson(_number(parameters, "poisson_max_delta_step", 0.7))
    raise refuse("a loss that can be replayed (squared, logistic, softmax, Poisson)", f"objective {objective!r}")


def _initial(loss: Loss, mean: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the score that boosting starts from, given the mean of y or the shares of the classes."""
    if isinstance(loss, Logistic):
        return np.asarray(np.log(mean / (1 - mean)) / loss.scale)
    return mean if isinstance(loss, Squared) else np.log(mean)


def _balanced(parameters: dict[str, str], y: NDArray[np.float64], weight: NDArray[np.float64] | None) -> NDArray[np.float64] | None:
    """Return row weights times ``scale_pos_weight``, or what ``is_unbalance`` makes of the labels."""
    positive = y[:, 0] > 0
    up, down = _number(parameters, "scale_pos_weight", 1), 1.0
    if _number(parameters, "is_unbalance") != 0:
        n_up, n_down = int(positive.sum()), int((~positive).sum())
        up, down = (1.0, n_up / n_down) if n_up > n_down else (n_down / n_up, 1.0)
    if up == down == 1.0:
        return weight
    return np.where(positive, up, down) * (1.0 if weight is None else weight)


def path_smoothing(forest: Forest, Z: LeafIncidence, ridge: NDArray[np.float64], smooth: float) -> csr_array:
    """Return the (n_leaves, n_leaves) map from weighted leaf sums to leaf values under ``path_smooth``.

    ``out(node) = raw(node) k / (k + 1) + out(parent) / (k + 1)``, k = rows in the node / smooth; the root is not smoothed.
    """
    in_leaf = np.zeros(forest.n_nodes)
    in_leaf[forest.leaves] = Z.counts()
    rows = stats.pull_up(forest, in_leaf)  # and weight: LightGBM does not smooth exactly where they differ
    node_ridge = np.full(forest.n_nodes, float(ridge.min(initial=0.0)))
    node_ridge[forest.leaves] = ridge
    parent = stats.parent(forest)
    k = rows / smooth
    own, inherited = np.where(parent < 0, 1.0, k / (k + 1)), np.where(parent < 0, 0.0, 1 / (k + 1))
    leaf, node, share = np.arange(forest.n_leaves), forest.leaves.astype(np.int64), np.ones(forest.n_leaves)
    triples: list[tuple[NDArray[Any], ...]] = []
    while len(node):
        triples.append((leaf, node, share * own[node]))
        inner = parent[node] >= 0
        leaf, node, share = leaf[inner], parent[node[inner]].astype(np.int64), share[inner] * inherited[node[inner]]
    at, via, value = (np.concatenate(column) for column in zip(*triples, strict=True))
    shape = (forest.n_leaves, forest.n_nodes)
    below = csr_array((np.ones(len(at)), (at, via)), shape=shape)
    inverse = np.divide(1.0, rows + node_ridge, out=np.zeros(forest.n_nodes), where=rows > 0)
    smoothed = csr_array((value * inverse[via], (at, via)), shape=shape)
    return csr_array(smoothed @ below.T)


def _categorical_ridge(forest: Forest, text: str, parameters: dict[str, str]) -> NDArray[np.float64]:
    """Return (n_leaves,) ``cat_l2`` for leaves whose parent splits many categories against many, else 0."""
    out = np.zeros(forest.n_leaves)
    if not forest.categorical.any():
        return out
    n_bins = np.array(
        [info.count(":") + 1 if info.startswith("[") else len(info.split(":")) for info in _line(text, "feature_infos=").split()]
    )
    parent = stats.parent(forest)[forest.leaves]
    many = (parent >= 0) & forest.categorical[parent] & (n_bins[forest.feature[parent]] > _number(parameters, "max_cat_to_onehot", 4))
    out[many] = _number(parameters, "cat_l2", 10)
    return out


def _parameters(text: str) -> dict[str, str]:
    """Return the ``[name: value]`` lines."""
    lines = [line[1:-1].split(":", 1) for line in text.splitlines() if line.startswith("[") and line.endswith("]") and ":" in line]
    return {name.strip(): value.strip() for name, value in lines}


def _line(text: str, start: str) -> str:
    return next((line[len(start) :] for line in text.splitlines() if line.startswith(start)), "")


def _number(parameters: dict[str, str], name: str, default: float = 0.0) -> float:
    return float(parameters.get(name, default) or default)
