"""A forest kernel prepared for the some hundred products of an eigensolver, as a matrix over its rows or over its leaves."""

from __future__ import annotations

import numpy as np

from treespec.operators.base import Array, Operator
from treespec.operators.kernel import ForestKernel
from treespec.operators.ordered import OrderedLeaves
from treespec.operators.rows import here


class MergedKernel(Operator):
    """The symmetric form ``diag(sqrt w) Z D Z.T diag(sqrt w)`` of a kernel (n, n), which has the kernel's eigenvalues.

    Deep trees put half of their leaves on a single row each; those only add to the diagonal.

    Parameters
    ----------
    kernel : ForestKernel

    Notes
    -----
    Holds 4 bytes for each row and tree that shares its leaf (`OrderedLeaves`).
    """

    def __init__(self, kernel: ForestKernel) -> None:
        super().__init__(kernel.shape)
        Z = here(kernel.left, "a merged kernel")
        count = Z.counts()
        alone, shared = count == 1, count > 1
        self._root = kernel.sqrt_weight[:, None]
        self._diagonal = self._root**2 * Z.matvec(np.where(alone, kernel.scale, 0.0))[:, None]
        self._Z = OrderedLeaves(Z, np.where(shared, np.cumsum(shared) - 1, -1))
        self._scale = kernel.scale[shared, None]

    def _forward(self, V: Array) -> Array:
        sums = self._Z.rmatmat(self._root * V)
        sums *= self._scale
        out = self._Z.matmat(sums)
        out *= self._root
        out += self._diagonal * V
        return out

    def _backward(self, U: Array) -> Array:
        return self._forward(U)


class LeafGram(Operator):
    """The same kernel over the leaves that hold rows: ``D^1/2 Z.T diag(w) Z D^1/2``, with the kernel's eigenvalues above 0.

    Where leaves are fewer than rows its vectors are the shorter ones, and a product passes over the leaf ids once.

    Parameters
    ----------
    kernel : ForestKernel
    """

    def __init__(self, kernel: ForestKernel) -> None:
        filled = kernel.scale > 0
        super().__init__((int(filled.sum()), int(filled.sum())))
        self._weight, self._root = kernel.sqrt_weight**2, np.sqrt(kernel.scale[filled, None])
        self._Z = OrderedLeaves(here(kernel.left, "a merged kernel"), np.where(filled, np.cumsum(filled) - 1, -1))

    def _forward(self, V: Array) -> Array:
        out = self._Z.normal(self._root * V, self._weight)
        out *= self._root
        return out

    def _backward(self, U: Array) -> Array:
        return self._forward(U)

    def lift(self, values: Array, vectors: Array) -> Array:
        """Return the (n, k) eigenvectors of `MergedKernel` for eigenpairs of this matrix; ``values`` above 0."""
        out = self._Z.matmat(self._root * vectors)
        out *= np.sqrt(self._weight)[:, None]
        out /= np.sqrt(values)
        return out
