"""Conjugate gradients for symmetric systems that are known by their products."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Solution:
    """What `solve_shifted` found.

    Attributes
    ----------
    x : (n_shifts, n, k) array
    n_iterations : int
    residual : float
        Largest ``|Y - (A + shift) x| / |Y|`` over columns and shifts, from the solutions themselves.
    """

    x: Array
    n_iterations: int
    residual: float


def solve_shifted(
    multiply: Callable[[Array], Array], Y: Array, shift: NDArray[Any], *, tolerance: float = 1e-10, max_iterations: int = 3000
) -> Solution:
    """Solve ``(A + shift I) x = Y`` for positive semidefinite A, many right-hand sides and many shifts, in one Krylov space.

    Parameters
    ----------
    multiply : callable
        ``multiply(V) = A @ V`` for (n, k) arrays.
    Y : (n, k) array
    shift : (n_shifts,) array of positive numbers
    tolerance : float
        Relative residual at the smallest shift (which converges last).
    max_iterations : int

    Notes
    -----
    One product an iteration however many shifts there are: the residuals of shifted systems are parallel. Memory is
    ``2 * n_shifts + 4`` arrays of the size of Y. Source: Jegerlehner, "Krylov space solvers for shifted linear systems", 1996.
    """
    shifts = np.asarray(shift, dtype=np.float64)
    base = float(shifts.min())
    delta = (shifts - base)[:, None]
    x = np.zeros((len(shifts), *Y.shape))
    direction = np.broadcast_to(Y, x.shape).copy()
    r, p = Y.copy(), Y.copy()
    rr = (r * r).sum(axis=0)
    goal = tolerance**2 * rr
    zeta_old = zeta = np.ones((len(shifts), Y.shape[1]))
    step_old, ratio_old = np.ones(Y.shape[1]), np.zeros(Y.shape[1])
    iteration = 0
    while iteration < max_iterations and (rr > goal).any():
        iteration += 1
        live = rr > goal
        q = multiply(p) + base * p
        step = np.divide(rr, (p * q).sum(axis=0), out=np.zeros_like(rr), where=live)
        below = step_old * zeta_old * (1 + step * delta) + step * ratio_old * (zeta_old - zeta)
        zeta_new = np.where(live, np.divide(zeta * zeta_old * step_old, below, out=np.zeros_like(below), where=below > 0), zeta)
        growth = np.divide(zeta_new, zeta, out=np.zeros_like(zeta), where=zeta > 0)
        x += (step * growth)[:, None] * direction
        r -= step * q
        rr_new = np.where(live, (r * r).sum(axis=0), rr)
        ratio = np.divide(rr_new, rr, out=np.zeros_like(rr), where=live)
        p = r + ratio * p
        direction *= np.where(live, ratio * growth**2, 1.0)[:, None]
        direction += np.where(live, zeta_new, 0.0)[:, None] * r
        zeta_old, zeta, step_old, ratio_old, rr = zeta, zeta_new, np.where(live, step, 1.0), ratio, rr_new
    scale = np.sqrt(np.maximum((Y * Y).sum(axis=0), np.finfo(float).tiny))
    worst = max(float((np.linalg.norm(Y - multiply(v) - s * v, axis=0) / scale).max(initial=0.0)) for v, s in zip(x, shifts, strict=True))
    return Solution(x, iteration, worst)
