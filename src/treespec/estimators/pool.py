"""Non-negative weights for the predictions of several models (stacked generalisation)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize, nnls
from scipy.special import log_softmax

Array = NDArray[np.float64]

_SHRINK = 1e-3  # keeps the weights of near copies apart from each other finite; loss units


def pool_values(parts: Array, y: Array, sample_weight: Array) -> tuple[Array, float]:
    """Return weights of 0 and more, and the centre, that minimise the weighted squared error.

    Parameters
    ----------
    parts : (n_models, n) array
        Out-of-fold predictions.
    y, sample_weight : (n,) arrays

    Returns
    -------
    weights : (n_models,) array
    centre : float
        The mean label: the mix is ``centre + weights @ (parts - centre)``.
    """
    centre = float(np.average(y, weights=sample_weight))
    root = np.sqrt(sample_weight)
    weights, _ = nnls((root * (parts - centre)).T, root * (y - centre))
    return np.asarray(weights), centre


def pool_logs(parts: Array, code: NDArray[np.integer], sample_weight: Array) -> Array:
    """Return weights of 0 and more that minimise the log-loss of ``softmax(weights @ parts)`` (a logarithmic opinion pool).

    Parameters
    ----------
    parts : (n_models, n, n_classes) array
        Out-of-fold log-probabilities.
    code : (n,) array
        Class numbers.
    sample_weight : (n,) array
    """
    n_models, n, _ = parts.shape
    share = sample_weight / sample_weight.sum()
    own = parts[:, np.arange(n), code] @ share
    start = np.full(n_models, 1.0 / n_models)

    def loss(w: Array) -> tuple[float, Array]:
        logs = np.asarray(log_softmax(np.tensordot(w, parts, axes=1), axis=1))
        value = -float(share @ logs[np.arange(n), code]) + _SHRINK / 2 * float((w - start) @ (w - start))
        slope = np.einsum("i,ik,jik->j", share, np.exp(logs), parts) - own + _SHRINK * (w - start)
        return value, slope

    found = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=[(0.0, None)] * n_models)
    return np.asarray(found.x)
