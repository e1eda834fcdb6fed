"""What the replay of a booster needs to know and its trees do not say: step length, ridge, initial score, weights, sampled rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array


@dataclass(frozen=True)
class Settings:
    """How a booster with squared loss was fitted.

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
