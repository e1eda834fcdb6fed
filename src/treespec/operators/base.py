"""`Operator`: what all operators of treespec have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.linalg import LinearOperator

if TYPE_CHECKING:
    _Base = LinearOperator[np.float64]
else:
    _Base = LinearOperator

Array = NDArray[np.float64]


class Operator(_Base, ABC):
    """A real ``LinearOperator`` given by ``_matmat`` and ``_rmatmat``; immutable, in float64.

    Parameters
    ----------
    shape : (int, int)
    """

    def __init__(self, shape: tuple[int, int]) -> None:
        super().__init__(np.dtype(np.float64), shape)  # type: ignore[call-arg]  # the stubs type __new__ only

    def dot(self, x: Any) -> Array:  # type: ignore[override]  # Dask arrays too
        """Return ``self @ x``; a Dask array of rows gives a Dask array."""
        if not is_lazy(x):
            return np.asarray(super().dot(x))
        return self.matvec(x) if x.ndim == 1 else self.matmat(x)

    def matvec(self, x: Any) -> Array:  # type: ignore[override]  # Dask arrays too
        """Return ``self @ x`` (n_rows,)."""
        return self._forward(x[:, None])[:, 0] if is_lazy(x) else super().matvec(x)

    def matmat(self, X: Any) -> Array:  # type: ignore[override]  # Dask arrays too
        """Return ``self @ X`` (n_rows, k)."""
        return self._forward(X) if is_lazy(X) else super().matmat(X)

    def rmatvec(self, x: Any) -> Array:  # type: ignore[override]  # Dask arrays too
        """Return ``self.T @ x`` (n_columns,)."""
        return self._backward(x[:, None])[:, 0] if is_lazy(x) else super().rmatvec(x)

    def rmatmat(self, X: Any) -> Array:  # type: ignore[override]  # Dask arrays too
        """Return ``self.T @ X`` (n_columns, k)."""
        return self._backward(X) if is_lazy(X) else super().rmatmat(X)

    def _matvec(self, x: NDArray[Any]) -> Array:
        return self._matmat(np.reshape(x, (-1, 1)))[:, 0]

    def _rmatvec(self, x: NDArray[Any]) -> Array:
        return self._rmatmat(np.reshape(x, (-1, 1)))[:, 0]

    def _matmat(self, X: NDArray[Any]) -> Array:
        return self._forward(_real(X))

    def _rmatmat(self, X: NDArray[Any]) -> Array:
        return self._backward(_real(X))

    @abstractmethod
    def _forward(self, V: Array) -> Array:
        """Return ``self @ V`` for a C-contiguous float64 (n_columns, k) array."""

    @abstractmethod
    def _backward(self, U: Array) -> Array:
        """Return ``self.T @ U`` for a C-contiguous float64 (n_rows, k) array."""


def _real(X: NDArray[Any]) -> Array:
    """Return X as a C-contiguous float64 array; complex input is refused by NumPy."""
    return np.require(np.asarray(X).astype(np.float64, casting="same_kind", copy=False), requirements="C")


def is_lazy(x: object) -> bool:
    """Tell whether an array is one of Dask, whose numbers are not in this process; imports nothing."""
    return type(x).__module__.partition(".")[0] == "dask"


def frozen(array: NDArray[Any]) -> NDArray[Any]:
    """Return the array itself, made read-only."""
    array.flags.writeable = False
    return array
