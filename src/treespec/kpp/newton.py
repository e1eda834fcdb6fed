"""Newton's method with conjugate gradients for a convex loss on path features: never more than products with the operator."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from treespec.kpp.losses import Loss

Array = NDArray[np.float64]

_ARMIJO = 1e-4
_HALVINGS = 40
_INNER = 500


@dataclass(frozen=True, eq=False)
class Minimum:
    """Where Newton's method stopped.

    Attributes
    ----------
    coef : (m, k) array
    intercept : (k,) array
    gradient : float
        Norm of the gradient, relative to that at coefficients of 0.
    n_steps, n_products : int
        Newton steps, and products with the operator and its transpose.
    """

    coef: Array
    intercept: Array
    gradient: float
    n_steps: int
    n_products: int


def minimise(
    features: Any,
    loss: Loss,
    penalty: float,
    shape: tuple[int, int],
    *,
    intercept: bool,
    offset: Array | float = 0.0,
    start: tuple[Array, Array] | None = None,
    tolerance: float = 1e-8,
    max_steps: int = 200,
) -> Minimum:
    """Minimise ``loss(Phi W + b + offset) + penalty / 2 |W|^2`` over W (m, k) and, with ``intercept``, b (k,).

    Parameters
    ----------
    features : LinearOperator (n, m)
    loss : Loss
    penalty : float
    shape : (m, k)
    intercept : bool
        Whether b is fitted (it is not penalised) or 0.
    offset : (n, k) array or float
    start : (coef, intercept), optional
    tolerance : float
        Norm of the gradient at which to stop, relative to that at 0.

    Notes
    -----
    Two products a conjugate gradient step, preconditioned by the diagonal where the operator knows its ``column_square``; memory is
    some eight arrays of the size of W.
    """
    W, b, score = np.zeros(shape), np.zeros(shape[1]), np.zeros((features.shape[0], shape[1])) + offset
    slope = loss.slope(score)
    pulled = features.rmatmat(slope)
    scale = _norm(pulled, slope.sum(axis=0) * intercept) or 1.0
    n_products, steps, size = 1, 0, np.inf
    if start is not None:
        W, b = start[0].copy(), start[1].copy()
        score = features.matmat(W) + b + offset
        slope = loss.slope(score)
        pulled = features.rmatmat(slope)
        n_products = 3
    value = loss.value(score) + penalty / 2 * float((W * W).sum())
    for steps in range(max_steps):  # noqa: B007  # reported
        gW, gb = pulled + penalty * W, slope.sum(axis=0) * intercept
        size = _norm(gW, gb) / scale
        if size <= tolerance:
            break
        hessian, diagonal = loss.curvature(score)
        system = _Newton(features, hessian, diagonal, penalty, intercept=intercept)
        dW, db, dscore, inner = system.step(gW, gb, forcing=min(0.1, np.sqrt(size)))
        n_products += 2 * inner + 1
        slant = float((gW * dW).sum() + gb @ db)
        t = 1.0
        for _ in range(_HALVINGS):
            trial = score + t * dscore
            new = loss.value(trial) + penalty / 2 * float(((W + t * dW) ** 2).sum())
            if new <= value + _ARMIJO * t * slant:
                break
            t /= 2
        else:
            break  # rounding: no step lowers the loss any more
        W, b, score, value = W + t * dW, b + t * db, trial, new
        slope = loss.slope(score)
        pulled = features.rmatmat(slope)
    return Minimum(W, b, size, steps, n_products)


def _norm(W: Array, b: Array) -> float:
    return float(np.sqrt((W * W).sum() + (b * b).sum()))


class _Newton:
    """One Newton system ``(Phi.T H Phi + penalty) d = -g``, intercept included, by preconditioned conjugate gradients."""

    def __init__(self, features: Any, hessian: Any, diagonal: Array, penalty: float, *, intercept: bool) -> None:
        self.features, self.hessian, self.penalty, self.intercept = features, hessian, penalty, intercept
        self.mass = np.maximum(diagonal.sum(axis=0), 1e-12 * penalty + np.finfo(float).tiny)
        if hasattr(features, "column_square"):
            squares = [features.column_square(diagonal[:, j]) for j in range(diagonal.shape[1])]
            self.over: Array = 1.0 / (np.column_stack(squares) + penalty)
        else:
            self.over = np.full((features.shape[1], diagonal.shape[1]), 1.0 / penalty)

    def _multiply(self, W: Array, b: Array) -> tuple[Array, Array, Array]:
        score = self.features.matmat(W) + b
        bent = self.hessian(score)
        return self.features.rmatmat(bent) + self.penalty * W, bent.sum(axis=0) * self.intercept, score

    def step(self, gW: Array, gb: Array, *, forcing: float) -> tuple[Array, Array, Array, int]:
        """Return the step, its scores, and the number of iterations; residual at most ``forcing`` times the gradient."""
        W, b = np.zeros_like(gW), np.zeros_like(gb)
        score = np.zeros((self.features.shape[0], gW.shape[1]))
        rW, rb = -gW, -gb
        zW, zb = self.over * rW, rb / self.mass
        pW, pb = zW.copy(), zb.copy()
        rz = float((rW * zW).sum() + rb @ zb)
        goal = forcing * _norm(gW, gb)
        inner = 0
        for inner in range(1, _INNER + 1):  # noqa: B007  # reported
            qW, qb, q = self._multiply(pW, pb)
            bend = float((pW * qW).sum() + pb @ qb)
            if bend <= 0:
                break
            t = rz / bend
            W, b, score = W + t * pW, b + t * pb, score + t * q
            rW, rb = rW - t * qW, rb - t * qb
            if _norm(rW, rb) <= goal:
                break
            zW, zb = self.over * rW, rb / self.mass
            new = float((rW * zW).sum() + rb @ zb)
            pW, pb, rz = zW + new / rz * pW, zb + new / rz * pb, new
        return W, b, score, inner
