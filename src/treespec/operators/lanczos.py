"""Leading eigenpairs of a symmetric positive semi-definite operator: thick-restarted block Lanczos with full reorthogonalisation."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from treespec.operators.base import Array

DENSE_ROWS = 800
"""Up to here a dense decomposition is faster."""

_BLOCK = 4
_WIDE_BLOCK = 8  # of vectors that are too long for the cache: the basis is read once a block
_LONG = 1 << 15
_BREAKDOWN = 1e-12
_CANCELLED = 1e-2  # a vector that shrank so much within its block is made orthogonal to the whole basis again
_SHRANK = 1e-4  # a block of which so little is left after its neighbours were subtracted is made orthogonal to the whole basis twice
_LOOK = 20  # products between looks at the Ritz values, and of the second look
_BASIS_ENTRIES = 1 << 26  # 512 MB: the basis is compressed when it holds so many numbers (but holds at least twice the rank)
_MAX_PRODUCTS = 20_000


def leading_eigenpairs(
    multiply: Callable[[Array], Array], n: int, rank: int, *, random_state: int, tolerance: float, block: int | None = None
) -> tuple[Array, Array, Array]:
    """Return the ``rank`` largest eigenvalues (descending), their eigenvectors (n, rank), and the residual norm of each pair.

    Parameters
    ----------
    multiply : callable
        ``multiply(V)`` returns the operator times V (n, k).
    n, rank : int
        ``rank`` at most n / 4.
    random_state : int
        Seed of the starting block (and of fresh vectors where an invariant space is exhausted), so that results repeat to the bit.
    tolerance : float
        Pairs count as found when ``|A v - value v| <= tolerance * value`` (an eigenvalue is then within that distance), or at the
        rounding error of the largest value.
    block : int, optional
        Vectors that are multiplied at a time: more of them cost a little more products in all, and fewer calls. By default 4, and 8 where
        the vectors are long.

    Notes
    -----
    A Krylov space holds one copy of a multiple eigenvalue for each vector of its block. Therefore, when all pairs are found, a fresh
    block orthogonal to them looks for what was missed, until nothing changes.

    Some four to eight times ``rank`` products; O(n * steps ** 2) for the reorthogonalisation. At most 512 MB.
    """
    rng = np.random.default_rng(random_state)
    basis = _Basis(n, rank, rng, block or (_BLOCK if n < _LONG else _WIDE_BLOCK))
    confirmed: tuple[Array, Array] | None = None
    while True:
        basis.expand(multiply)
        if (basis.blocks % basis.look or basis.filled < rank) and not basis.full:
            continue
        values, vectors, residual = basis.ritz(rank)
        floor = 4 * np.finfo(float).eps * np.sqrt(n) * abs(values[0])
        found = bool((residual <= np.maximum(tolerance * np.abs(values[:rank]), floor)).all())
        same = confirmed is not None and np.allclose(values[:rank], confirmed[0], rtol=tolerance, atol=10 * floor)
        if (found and same) or basis.products >= _MAX_PRODUCTS:
            return values[:rank], basis.combine(vectors[:, :rank]), residual if confirmed is None else np.hypot(residual, confirmed[1])
        if found:
            confirmed = values[:rank].copy(), residual
            basis.restart(values, vectors, rank, fresh=True)
        elif basis.full:
            basis.restart(values, vectors, rank + (basis.size - rank) // 3, fresh=False)


def dense_eigenpairs(multiply: Callable[[Array], Array], n: int, rank: int) -> tuple[Array, Array]:
    """Return the ``rank`` largest eigenvalues (descending) and their eigenvectors (n, rank) of a symmetric operator, made dense."""
    dense = multiply(np.eye(n))
    values, vectors = np.linalg.eigh((dense + dense.T) / 2)
    return values[::-1][:rank].copy(), vectors[:, ::-1][:, :rank].copy()


class _Basis:
    """An orthonormal basis (rows), the operator projected on it, and the block that continues it."""

    def __init__(self, n: int, rank: int, rng: np.random.Generator, block: int) -> None:
        self._rng = rng
        self.block = b = block
        self.look = max(1, _LOOK // b)  # blocks
        self.size = min(n - n % b, max(2 * rank + 12 * b, min(10 * rank + 100, _BASIS_ENTRIES // n)) // b * b)
        self._rows = np.empty((self.size + b, n))
        self._projected = np.zeros((self.size, self.size))
        self._coupling = np.zeros((b, b))
        self.filled = 0
        self.products = self.blocks = 0
        self._coupled = 0  # the operator takes the current block to itself, to the basis from here on, and to the next block
        self._append(np.zeros((n, b)), 0, scale=1.0)

    @property
    def full(self) -> bool:
        """Whether the basis must be compressed before it can grow."""
        return self.filled + self.block > self.size

    def expand(self, multiply: Callable[[Array], Array]) -> None:
        """Multiply the current block, project, and orthogonalise what comes out into the next block."""
        old, new = self.filled, self.filled + self.block
        W = multiply(np.ascontiguousarray(self._rows[old:new].T))
        before = np.linalg.norm(W, axis=0)
        coefficient = np.zeros((new, self.block))
        near, basis = self._rows[self._coupled : new], self._rows[:new]
        coefficient[self._coupled :] = near @ W  # in exact arithmetic W has no other part
        W -= near.T @ coefficient[self._coupled :]
        for _ in range(1 + bool((np.linalg.norm(W, axis=0) < _SHRANK * before).any())):
            again = basis @ W
            W -= basis.T @ again
            coefficient += again
        self._projected[:new, old:new] = coefficient
        self._projected[old:new, :new] = coefficient.T
        self.filled, self._coupled = new, old
        self.products += self.block
        self.blocks += 1
        self._append(W, new, scale=float(np.abs(coefficient).max()))

    def _append(self, W: Array, start: int, *, scale: float) -> None:
        """Write the columns of W, made orthonormal, as the next block; where nothing is left of one, a fresh random vector."""
        self._coupling[:] = 0.0
        for j in range(self.block):
            w, block = W[:, j].copy(), self._rows[start : start + j]
            before = float(np.linalg.norm(w))
            for _ in range(2):
                inner = block @ w
                w -= inner @ block
                self._coupling[:j, j] += inner
            norm = float(np.linalg.norm(w))
            if norm <= _BREAKDOWN * scale:
                norm = 0.0
                w = self._rng.standard_normal(len(w))
            self._coupling[j, j] = norm
            if norm <= _CANCELLED * before:
                basis = self._rows[: start + j]
                for _ in range(2):
                    w -= (basis @ w) @ basis
                norm = float(np.linalg.norm(w))
            self._rows[start + j] = w / norm

    def ritz(self, rank: int) -> tuple[Array, Array, Array]:
        """Return all Ritz values (descending), their vectors in the basis, and the residual norms of the first ``rank``."""
        values, vectors = np.linalg.eigh(self._projected[: self.filled, : self.filled])
        values, vectors = values[::-1], vectors[:, ::-1]
        return values, vectors, np.linalg.norm(self._coupling @ vectors[-self.block :, :rank], axis=0)

    def combine(self, vectors: Array) -> Array:
        """Return (n, k) vectors from their coordinates in the basis."""
        return self._rows[: self.filled].T @ vectors

    def restart(self, values: Array, vectors: Array, keep: int, *, fresh: bool) -> None:
        """Keep the first Ritz vectors and continue from the current block, or from a fresh random one."""
        keep -= keep % -self.block
        following = self._rows[self.filled : self.filled + self.block].copy()
        self._rows[:keep] = vectors[:, :keep].T @ self._rows[: self.filled]
        self._projected[:] = 0.0
        self._projected[np.arange(keep), np.arange(keep)] = values[:keep]
        self.filled, self.blocks, self._coupled = keep, 0, 0
        if fresh:
            self._append(np.zeros((self._rows.shape[1], self.block)), keep, scale=1.0)
        else:
            self._rows[keep : keep + self.block] = following
