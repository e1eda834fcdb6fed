"""Feature operators side by side: several ensembles, and raw features, in one block-structured Gram matrix (KPP, section 9)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, hstack

from treespec.operators.base import Array, Operator, frozen
from treespec.operators.path import PathFeatures

_CLIP = 3.0  # standard deviations


class RawFeatures(Operator):
    """The (n, p) matrix of scaled raw features, small enough to be held.

    Parameters
    ----------
    matrix : (n, p) array
    """

    def __init__(self, matrix: Array) -> None:
        super().__init__((matrix.shape[0], matrix.shape[1]))
        self.matrix = frozen(np.ascontiguousarray(matrix))

    def _forward(self, V: Array) -> Array:
        return np.asarray(self.matrix @ V)

    def _backward(self, U: Array) -> Array:
        return np.asarray(self.matrix.T @ U)

    def row_norm2(self) -> Array:
        """Return the (n,) squared norms of the rows."""
        return np.asarray((self.matrix**2).sum(axis=1))

    def column_square(self, weight: NDArray[Any]) -> Array:
        """Return ``sum_i weight[i] matrix[i, j]^2``."""
        return np.asarray((self.matrix**2).T @ weight)

    def gram(self, other: RawFeatures | None = None) -> Array:
        """Return the dense Gram matrix."""
        return np.asarray(self.matrix @ (self if other is None else other).matrix.T)

    def to_sparse(self) -> csr_array:
        """Return the matrix as a CSR array."""
        return csr_array(self.matrix)


@dataclass(frozen=True, eq=False)
class RawScale:
    """How raw features are scaled: missing values to the mean, standardised, clipped at 3 standard deviations, norm at most 1.

    Attributes
    ----------
    mean, sd : (p,) arrays
        Of the training rows.
    """

    mean: Array
    sd: Array

    @classmethod
    def of(cls, encoded: NDArray[Any], sample_weight: Array | None = None) -> RawScale:
        """Measure rows (n, p), weighted where there are weights."""
        known = np.isfinite(encoded)
        X = np.where(known, encoded, 0.0).astype(np.float64)
        weight = known * (1.0 if sample_weight is None else sample_weight[:, None])
        total = np.maximum(weight.sum(axis=0), np.finfo(float).tiny)
        mean = (weight * X).sum(axis=0) / total
        return cls(frozen(mean), frozen(np.sqrt((weight * (X - mean) ** 2).sum(axis=0) / total)))

    def features(self, encoded: NDArray[Any]) -> RawFeatures:
        """Return rows (n, p), scaled."""
        X = np.where(np.isnan(encoded), self.mean, encoded)
        standard = np.divide(X - self.mean, self.sd, out=np.zeros(X.shape), where=self.sd > 0)
        return RawFeatures(np.clip(standard, -_CLIP, _CLIP) / (_CLIP * np.sqrt(max(1, X.shape[1]))))


class Blocks(Operator):
    """Feature operators side by side, each divided by the square root of their number: norms stay at most 1, Grams are averaged.

    Parameters
    ----------
    parts : sequence of PathFeatures or RawFeatures, each (n, m_i)
    """

    def __init__(self, parts: Sequence[PathFeatures | RawFeatures]) -> None:
        self.parts = tuple(parts)
        self.edges = np.cumsum([0, *(part.shape[1] for part in self.parts)])
        self.factor = float(1 / np.sqrt(len(self.parts)))
        super().__init__((self.parts[0].shape[0], int(self.edges[-1])))

    def _forward(self, V: Array) -> Array:
        out = np.zeros((self.shape[0], V.shape[1]))
        for part, low, high in zip(self.parts, self.edges[:-1], self.edges[1:], strict=True):
            out += part.matmat(V[low:high])
        out *= self.factor
        return out

    def _backward(self, U: Array) -> Array:
        return np.asarray(np.concatenate([part.rmatmat(U) for part in self.parts]) * self.factor)

    def rows(self, rows: slice | NDArray[np.integer[Any]]) -> Blocks:
        """Return the same features of some rows."""
        return Blocks([p.rows(rows) if isinstance(p, PathFeatures) else RawFeatures(p.matrix[rows]) for p in self.parts])

    def prepared(self) -> Blocks:
        """Return the same operator made ready for many products."""
        return Blocks([p.prepared() if isinstance(p, PathFeatures) else p for p in self.parts])

    def row_norm2(self) -> Array:
        """Return the (n,) squared norms of the rows."""
        return np.asarray(np.sum([part.row_norm2() for part in self.parts], axis=0) * self.factor**2)

    def column_square(self, weight: NDArray[Any]) -> Array:
        """Return ``sum_i weight[i] Phi[i, v]^2``."""
        return np.asarray(np.concatenate([part.column_square(weight) for part in self.parts]) * self.factor**2)

    def gram(self, other: Blocks | None = None) -> Array:
        """Return the dense Gram matrix: the mean of those of the parts."""
        out = np.zeros((self.shape[0], (self if other is None else other).shape[0]))
        for k, part in enumerate(self.parts):
            out += part.gram(None if other is None else other.parts[k])  # type: ignore[arg-type]  # parts of two operators match
        out *= self.factor**2
        return out

    def distance(self, other: Blocks | None = None) -> Array:
        """Return the dense squared Euclidean distances of the features."""
        second = self if other is None else other
        out = self.row_norm2()[:, None] + second.row_norm2()[None, :] - 2 * self.gram(other)
        return np.maximum(out, 0.0, out=out)

    def to_sparse(self) -> csr_array:
        """Return the matrix as a CSR array."""
        return csr_array(hstack([part.to_sparse() for part in self.parts], format="csr") * self.factor)
