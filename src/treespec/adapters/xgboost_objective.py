"""What XGBoost's objectives mean: link, task, loss, and the margin of a stored base score."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from treespec.errors import FileFormatError, UnsupportedModelError
from treespec.ir.forest import Task


@dataclass(frozen=True, slots=True)
class Objective:
    """Meaning of an objective.

    Attributes
    ----------
    link : str
    task : str
        For one output; several targets are "multi-output".
    loss : str
    base : {"identity", "logit", "log"}
        Function from the stored base score to the margin.
    """

    link: str = "identity"
    task: Task = "regression"
    loss: str = "unknown"
    base: Literal["identity", "logit", "log"] = "identity"


_EXP = {"count:poisson": "poisson", "reg:gamma": "gamma", "reg:tweedie": "tweedie", "survival:cox": "cox", "survival:aft": "aft"}
_REGRESSION = {
    "reg:squarederror": "squared", "reg:linear": "squared", "reg:squaredlogerror": "squared-log", "reg:absoluteerror": "absolute",
    "reg:pseudohubererror": "pseudo-huber", "reg:quantileerror": "quantile",
}  # fmt: skip
_OBJECTIVES: dict[str, Objective] = {
    "binary:logistic": Objective("sigmoid", "binary", "logistic", "logit"),
    "reg:logistic": Objective("sigmoid", "regression", "logistic", "logit"),
    "binary:logitraw": Objective("identity", "binary", "logistic"),
    "binary:hinge": Objective("hinge", "binary", "hinge"),
    "multi:softprob": Objective("softmax", "multiclass", "logistic"),
    "multi:softmax": Objective("softmax", "multiclass", "logistic"),
    **{name: Objective("identity", "regression", loss) for name, loss in _REGRESSION.items()},
    **{name: Objective("exp", "regression", loss, "log") for name, loss in _EXP.items()},
    **{f"rank:{name}": Objective("identity", "ranking", f"rank-{name}") for name in ("pairwise", "ndcg", "map")},
}


def objective_of(name: str) -> Objective:
    """Return the meaning of an objective; one that is not known predicts its margin."""
    return _OBJECTIVES.get(name, Objective())


def base_margin(base_score: NDArray[np.float32], objective: Objective) -> NDArray[np.float64]:
    """Return the margins of stored base scores, bit-equal to XGBoost's float32.

    Raises
    ------
    UnsupportedModelError
        If it is a probability of 0 or 1: training saw one class only.
    FileFormatError
        If a score is outside the range of its objective.
    """
    if objective.base == "logit" and np.isin(base_score, (0, 1)).any():
        raise UnsupportedModelError.expected(
            "a model of two classes",
            f"a base_score of {float(base_score[0])}: training saw one class only, and the margin is infinite",
            "there is nothing to explain in a constant; train on rows of both classes, or with a base_score between 0 and 1",
        )
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        if objective.base == "logit":
            inverse = np.float32(1) / base_score - np.float32(1)
            margin = (-np.log(inverse.astype(np.float64))).astype(np.float32)
        elif objective.base == "log":
            margin = np.log(base_score.astype(np.float64)).astype(np.float32)
        else:
            margin = base_score
    if not np.isfinite(margin).all():
        raise FileFormatError.expected("a base_score in the range of the objective", str(base_score), "the model is damaged")
    return margin.astype(np.float64)
