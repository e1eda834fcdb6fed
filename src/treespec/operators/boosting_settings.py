"""What the replay of a booster needs to know and its trees do not say: loss, step length, ridge, initial score, weights, sampled rows."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from treespec.operators.losses import Loss, Squared
from treespec.operators.replay import targets

if TYPE_CHECKING:
    from treespec.ir import Forest


@dataclass(frozen=True)
class Settings:
    """How a booster was fitted.

    Attributes
    ----------
    y : (n, n_outputs) array
        Labels in the precision of the framework.
    eta : float
        Step length of a tree.
    ridge : float or (n_leaves,) array
        Added to the weight of a leaf.
    initial : (n_outputs,) array
        Initial score c.
    weight : (n,) or (n, n_trees) array, or None
        Row weights times the mask of sampled rows; None: all one.
    parallel : int
        Trees of one output that are fitted to the same residual.
    mix : sparse array or None
        See `BoostingSmoother`.
    loss : Loss
    alpha, clip : float
        Soft threshold of a leaf's gradient sum, and largest magnitude of its value before eta.
    reason : str
        The likely cause if the replay differs from the model.
    """

    y: NDArray[np.float64]
    eta: float
    ridge: NDArray[np.float64] | float
    initial: NDArray[np.float64]
    weight: NDArray[Any] | None = None
    parallel: int = 1
    mix: csr_array | None = None
    loss: Loss = field(default_factory=Squared)
    alpha: float = 0.0
    clip: float = float("inf")
    reason: str = "other rows, labels or weights than at training, or in another order"


def single(x: Any) -> NDArray[np.float64]:
    """Return numbers rounded to float32, as float64."""
    return np.asarray(x, dtype=np.float32).astype(np.float64)


def suspects(found: dict[str, bool]) -> str:
    """Return the reason that names those of the settings that are on."""
    on = [name for name, is_on in found.items() if is_on]
    return f"the model uses {', '.join(on)}, which cannot be replayed" if on else Settings.reason


def average(y: NDArray[np.float64], weight: NDArray[Any] | None) -> NDArray[np.float64]:
    """Return the (weighted) column means of y (n, k)."""
    return np.asarray(np.average(y, axis=0, weights=weight), dtype=np.float64)


def labels(forest: Forest, y: NDArray[Any]) -> NDArray[np.float64]:
    """Return y as (n, n_outputs) numbers; class codes of a raw booster become indicators."""
    codes = np.asarray(y)
    if forest.classes is None and forest.n_outputs > 1 and codes.ndim == 1:
        return np.asarray(codes[:, None] == np.arange(forest.n_outputs), dtype=np.float64)
    return targets(forest, codes)


def class_weighted(model: object, y: NDArray[Any], weight: NDArray[np.float64] | None) -> NDArray[np.float64] | None:
    """Return row weights times the model's ``class_weight``."""
    rule = getattr(model, "class_weight", None)
    if rule is None:
        return weight
    names, code, count = np.unique(y, return_inverse=True, return_counts=True)
    balanced = len(code) / (len(names) * count)
    factor = np.array([rule.get(name, 1.0) for name in names.tolist()]) if isinstance(rule, dict) else balanced
    return factor[code] * (1.0 if weight is None else weight)
