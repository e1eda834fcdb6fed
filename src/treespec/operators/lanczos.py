"""Leading eigenpairs of a symmetric positive semi-definite operator: thick-restarted Lanczos with full reorthogonalisation."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from treespec.operators.base import Array

_BREAKDOWN = 1e-12
_CHECK_EVERY = 10
_BASIS_ENTRIES = 1 << 26  # 512 MB: the basis holds at most so many numbers before it is compressed (but at least twice the rank)
_MAX_PRODUCTS = 20_000


def leading_eigenpairs(
    multiply: Callable[[Array], Array], n: int, rank: int, *, random_state: int, tolerance: float
) -> tuple[Array, Array, Array]:
    """Return the ``rank`` largest eigenvalues (descending), their eigenvectors (n, rank), and the residual norm of each pair.

    Parameters
    ----------
    multiply : callable
        ``multiply(v)`` returns the operator times v (n,).
    n, rank : int
    random_state : int
        Seed of the starting vector (and of fresh ones where an invariant space is exhausted), so that results repeat to the bit.
    tolerance : float
        Pairs count as found when ``|A v - value v| <= tolerance * value`` (an eigenvalue is then within that distance), or at the
        rounding error of the largest value.

    Notes
    -----
    One product a step, some two to six times ``rank`` of them; O(n * steps ** 2) for the reorthogonalisation. At most 512 MB.
    """
    rng = np.random.default_rng(random_state)
    size = min(n, max(2 * rank + 20, min(10 * rank + 100, _BASIS_ENTRIES // n)))
    basis = np.empty((size + 1, n))
    projected = np.zeros((size + 1, size + 1))
    basis[0] = _fresh(rng, basis[:0], n)
    filled, products = 0, 0
    while True:
        while filled < size:
            w = multiply(basis[filled])
            products += 1
            norm = _orthogonalise(w, basis[: filled + 1], projected[: filled + 1, filled])
            projected[filled, : filled + 1] = projected[: filled + 1, filled]
            filled += 1
            exhausted = norm <= _BREAKDOWN * max(1e-300, float(np.abs(projected[:filled, :filled]).max()))
            if filled < n:
                basis[filled] = _fresh(rng, basis[:filled], n) if exhausted else w / norm
            norm = 0.0 if exhausted else norm
            if filled == size or (filled > rank and filled % _CHECK_EVERY == 0):
                values, vectors = np.linalg.eigh(projected[:filled, :filled])
                values, vectors = values[::-1], vectors[:, ::-1]
                residual = norm * np.abs(vectors[-1, :rank])
                floor = 4 * np.finfo(float).eps * np.sqrt(n) * abs(values[0])
                if filled >= n or products >= _MAX_PRODUCTS or (residual <= np.maximum(tolerance * np.abs(values[:rank]), floor)).all():
                    return values[:rank], basis[:filled].T @ vectors[:, :rank], residual
        keep = min(size - 10, rank + (size - rank) // 3)
        basis[:keep] = vectors[:, :keep].T @ basis[:size]
        basis[keep] = basis[size]
        projected[:] = 0.0
        projected[np.arange(keep), np.arange(keep)] = values[:keep]
        filled = keep


def _orthogonalise(w: Array, basis: Array, coefficient: Array) -> float:
    """Remove the basis from w in place (twice is enough), write the coefficients, and return the norm that is left."""
    first = basis @ w
    w -= first @ basis
    second = basis @ w
    w -= second @ basis
    coefficient[:] = first + second
    return float(np.linalg.norm(w))


def _fresh(rng: np.random.Generator, basis: Array, n: int) -> Array:
    """Return a random unit vector orthogonal to the basis."""
    w = rng.standard_normal(n)
    for _ in range(2):
        w -= (basis @ w) @ basis
        w /= np.linalg.norm(w)
    return w
