"""What a model predicts: link, task, loss and class labels, by its loss function and the class of its wrapper."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from treespec.errors import UnsupportedModelError
from treespec_catboost.document import Document, damaged

_LOSSES = {
    "RMSE": "squared", "MAE": "absolute", "Quantile": "quantile", "MultiQuantile": "quantile", "Expectile": "expectile", "MAPE": "mape",
    "Huber": "huber", "Poisson": "poisson", "Tweedie": "tweedie", "LogLinQuantile": "quantile", "MultiRMSE": "squared", "Cox": "cox",
    "SurvivalAft": "aft", "Logloss": "logistic", "CrossEntropy": "logistic", "MultiClass": "logistic", "MultiClassOneVsAll": "logistic",
    "MultiLogloss": "logistic", "MultiCrossEntropy": "logistic", "Lq": "lq", "LogCosh": "log-cosh", "RMSEWithUncertainty": "normal",
}  # fmt: skip
_RANKING = ("YetiRank", "YetiRankPairwise", "PairLogit", "PairLogitPairwise", "QueryRMSE", "QuerySoftMax", "QueryCrossEntropy",
            "LambdaMart", "StochasticRank", "StochasticFilter", "GroupQuantile")  # fmt: skip
_EXPONENT = ("Poisson", "Tweedie")
_LABELS = ("MultiLogloss", "MultiCrossEntropy")
_DTYPES = {"Integer": np.int64, "Float": np.float64, "Boolean": np.bool_, "String": np.str_}


def meaning_of(document: Document, wrapper: str, n_outputs: int) -> dict[str, Any]:
    """Return link, task, classes and loss, as fields of a `Forest`.

    Parameters
    ----------
    document : dict
    wrapper : str
        Name of the model's class. ``CatBoost`` itself predicts raw values; a file is what its loss says.
    n_outputs : int

    Raises
    ------
    UnsupportedModelError
        If a class has no raw value, or the model decides at another probability than one half.
    """
    info = document.get("model_info") or {}
    name = str(((info.get("params") or {}).get("loss_function") or {}).get("type", "unknown"))
    loss = _LOSSES.get(name, f"rank-{name}".lower() if name in _RANKING else "unknown")
    labels = _labels(info) if info.get("class_params") else None
    kind = _kind(wrapper, name, labels)
    fields: dict[str, Any] = {"loss": loss, "link": "identity", "classes": None}
    if kind == "raw":
        one = "ranking" if name in _RANKING else "binary" if labels is not None else "regression"
        many = "multiclass" if labels is not None and name not in _LABELS else "multi-output"
        return fields | {"task": one if n_outputs == 1 else many}
    if kind == "ranker":
        return fields | {"task": "ranking"}
    if kind == "regressor":
        link = "mean-variance" if name == "RMSEWithUncertainty" else "exp" if name in _EXPONENT else "identity"
        return fields | {"task": "regression" if n_outputs == 1 else "multi-output", "link": link}
    return fields | _classes(info, name, labels if labels is not None else np.arange(2), n_outputs)


def _kind(wrapper: str, loss: str, labels: NDArray[Any] | None) -> str:
    for kind in ("Classifier", "Regressor", "Ranker"):
        if kind in wrapper:
            return kind.lower()
    if not wrapper.startswith("model file"):
        return "raw"
    return "ranker" if loss in _RANKING else "classifier" if labels is not None else "regressor"


def _labels(info: dict[str, Any]) -> NDArray[Any]:
    """Return the class labels in the type that they had at training."""
    given = info["class_params"]
    names, numbers = given.get("class_names") or [], given.get("class_to_label") or []
    kind = _DTYPES.get(given.get("class_label_type", "Integer"))
    if kind is None:
        raise damaged(f"class labels of type {given.get('class_label_type')!r}")
    most = max(len(names), int(given.get("classes_count") or 0), len(numbers))
    if len(numbers) and most > len(numbers):
        raise UnsupportedModelError.expected(
            "a raw value for each class", f"{most} classes of which {len(numbers)} occurred at training",
            "the others have a raw value of minus infinity; train without classes_count, or on rows of each class",
        )  # fmt: skip
    return np.array(names or numbers, dtype=kind)


def _classes(info: dict[str, Any], loss: str, labels: NDArray[Any], n_outputs: int) -> dict[str, Any]:
    if n_outputs == 1:
        cut = float(info.get("binclass_probability_threshold", 0.5))
        if cut != 0.5:
            raise UnsupportedModelError.expected(
                "a classifier that decides at probability 0.5", f"one that decides at {cut}",
                "reset it with set_probability_threshold(0.5), and compare predict_proba with your threshold",
            )  # fmt: skip
        return {"task": "binary", "link": "sigmoid", "classes": (labels,)}
    if loss in _LABELS:
        return {"task": "multi-output", "link": "sigmoid-each", "classes": tuple(np.arange(2) for _ in range(n_outputs))}
    link = "sigmoid-each" if loss == "MultiClassOneVsAll" else "softmax"
    return {"task": "multiclass", "link": link, "classes": (labels,)}
