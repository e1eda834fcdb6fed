"""Huber and quantile regression on path features (the other regularised losses of KPP, section 9)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from treespec.errors import DataMismatchError
from treespec.kpp.losses import Huber, Pinball
from treespec.kpp.newton import minimise
from treespec.kpp.ridge import check_alpha, ridge

if TYPE_CHECKING:
    from scipy.sparse.linalg import LinearOperator

Array = NDArray[np.float64]

_MAD_TO_SD = 1.4826  # of a normal distribution
_NARROWINGS = 12


def huber(
    features: LinearOperator,
    y: NDArray[Any],
    *,
    alpha: float,
    sample_weight: NDArray[Any] | None = None,
    n_classes: Sequence[int] | None = None,
    epsilon: float = 1.345,
    width: float | None = None,
    tolerance: float = 1e-8,
    **options: Any,
) -> tuple[Array, Array, dict[str, Any]]:
    """Fit ``sum H(y - b - Phi w) + alpha |w|^2``, H quadratic up to ``width`` and straight beyond (learner ``huber``).

    With a large ``width`` this is ``ridge``.

    Parameters
    ----------
    features : LinearOperator (n, m)
    y : (n,) or (n, k) array of values
    alpha : float
    sample_weight : (n,) array, optional
    epsilon : float
        ``width`` in robust standard deviations (1.4826 times the weighted median absolute residual of the ridge fit). The default keeps 95
        percent of the efficiency of least squares under normal noise.
    width : float, optional
        In units of y; overrides ``epsilon``.

    Returns
    -------
    coef, intercept, info
        As `treespec.kpp.ridge.ridge`; info holds the ``width`` of each column and the ``gradient`` that was reached.
    """
    check_alpha(alpha)
    Y = _values(y, n_classes, "huber")
    weight = np.ones(len(Y)) if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
    first, b, _ = ridge(features, Y, alpha=alpha, sample_weight=sample_weight)
    residual = np.abs(Y - features.matmat(first) - b)
    columns, widths, worst = [], [], 0.0
    for j in range(Y.shape[1]):
        scale = _MAD_TO_SD * _median(residual[:, j], weight) or float(residual[weight > 0, j].max(initial=0.0)) or 1.0
        widths.append(epsilon * scale if width is None else width)
        found = minimise(
            features,
            Huber(Y[:, [j]], weight, widths[-1]),
            2 * alpha,
            (features.shape[1], 1),
            intercept=True,
            start=(first[:, [j]], b[[j]]),
            tolerance=tolerance,
        )
        columns.append((found.coef, found.intercept))
        worst = max(worst, found.gradient)
    return _stacked(columns, y, {"solver": "newton-cg", "width": widths, "gradient": worst})


def quantile(
    features: LinearOperator,
    y: NDArray[Any],
    *,
    alpha: float,
    sample_weight: NDArray[Any] | None = None,
    n_classes: Sequence[int] | None = None,
    quantile: float = 0.5,
    gap: float = 1e-4,
    **options: Any,
) -> tuple[Array, Array, dict[str, Any]]:
    """Fit ``sum rho(y - b - Phi w) + alpha |w|^2`` with the pinball loss rho (learner ``quantile``).

    Parameters
    ----------
    features : LinearOperator (n, m)
    y : (n,) or (n, k) array of values
    alpha : float
    sample_weight : (n,) array, optional
    quantile : float
        Between 0 and 1.
    gap : float
        Relative duality gap at which to stop: how far the objective may be above its minimum.

    Returns
    -------
    coef, intercept, info
        As `treespec.kpp.ridge.ridge`; info holds the ``gap`` that was reached, which certifies the fit.

    Notes
    -----
    The kink is rounded over a width that shrinks fourfold, each fit starting from the last, until the dual that the rounded loss gives
    is within ``gap``.
    """
    check_alpha(alpha)
    if not 0 < quantile < 1:
        raise DataMismatchError.expected("a quantile between 0 and 1", f"{quantile!r}", "0.5 is the median")
    Y = _values(y, n_classes, "quantile")
    weight = np.ones(len(Y)) if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
    columns, worst = [], 0.0
    for j in range(Y.shape[1]):
        target = Y[:, [j]]
        used = target[weight > 0] if weight.any() else target
        width = float(used.std()) or 1.0
        start = (np.zeros((features.shape[1], 1)), np.array([np.quantile(used, quantile)]))
        reached = np.inf
        for _ in range(_NARROWINGS):
            loss = Pinball(target, weight, quantile, width)
            found = minimise(features, loss, 2 * alpha, (features.shape[1], 1), intercept=True, start=start, tolerance=1e-6)
            start = (found.coef, found.intercept)
            reached = min(reached, _gap(features, loss, alpha, *start))
            if reached <= gap:
                break
            width /= 4
        columns.append(start)
        worst = max(worst, reached)
    return _stacked(columns, y, {"solver": "newton-cg", "gap": worst})


def _median(values: Array, weight: Array) -> float:
    """Return the weighted median: half of the weight lies on either side."""
    order = np.argsort(values)
    order = order[weight[order] > 0]
    if not len(order):
        return 0.0
    share = np.cumsum(weight[order]) / weight.sum()
    middle = values[order[[np.searchsorted(share, 0.5), np.searchsorted(share, 0.5, side="right")]]]
    return float(middle.mean())


def _gap(features: Any, loss: Pinball, alpha: float, coef: Array, intercept: Array) -> float:
    """Return the relative duality gap of a pinball fit; the dual is ``sum w a y - |Phi.T w a|^2 / (4 alpha)`` where ``sum w a = 0``."""
    score = features.matmat(coef) + intercept
    primal = loss.exact(score) + alpha * float((coef**2).sum())
    a = loss.dual(score)
    w = loss.weight
    room = np.where((w * a).sum() > 0, a - (loss.level - 1), loss.level - a)  # how far each may move to restore the sum
    a = a - (w * a).sum() / max(float((w * room).sum()), np.finfo(float).tiny) * room
    pulled = features.rmatmat(w * a)
    dual = float((w * a * loss.y).sum()) - float((pulled**2).sum()) / (4 * alpha)
    return (primal - dual) / max(abs(primal), np.finfo(float).tiny)


def _values(y: NDArray[Any], n_classes: Sequence[int] | None, name: str) -> Array:
    if n_classes is not None:
        raise DataMismatchError.expected(f"values for learner={name!r}", "classes", "use learner='logistic' or 'ridge'")
    labels = np.asarray(y, dtype=np.float64)
    return labels.reshape(len(labels), -1)


def _stacked(columns: list[tuple[Array, Array]], y: NDArray[Any], info: dict[str, Any]) -> tuple[Array, Array, dict[str, Any]]:
    coef, intercept = np.hstack([c for c, _ in columns]), np.concatenate([b for _, b in columns])
    return (coef if np.ndim(y) > 1 or coef.shape[1] > 1 else coef[:, 0]), intercept, info
