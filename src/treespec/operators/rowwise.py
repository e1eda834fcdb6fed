"""Sparse rows of an operator: the largest weights of each row, found block by block."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, hstack, vstack

from treespec.errors import DataMismatchError

Rows = Callable[[slice], csr_array | NDArray[np.float64]]

_ENTRIES = 1 << 22  # numbers held at a time: 32 MB


def largest(rows: Rows, shape: tuple[int, int], top: int | None) -> csr_array:
    """Return a (m, n) CSR array with the ``top`` entries of largest magnitude of each row (all that are not zero for None).

    Parameters
    ----------
    rows : callable
        ``rows(slice)`` returns these rows, sparse or dense.
    shape : (m, n)
    top : int or None
        Ties go to the lower column.

    Raises
    ------
    DataMismatchError
        If ``top`` is below 1.

    Notes
    -----
    Working memory is 2 ** 22 entries whatever m and n are; the result holds m * top entries.
    """
    if top is not None and not top >= 1:
        raise DataMismatchError.expected("how many rows to keep, 1 or more, or None for all", f"top={top}", "top=10 keeps ten")
    kept = [_keep(csr_array(block), top) for block in _blocks(rows, shape)]
    return csr_array(vstack(kept, format="csr")) if kept else csr_array(shape, dtype=np.float64)


def merge(parts: Sequence[csr_array], top: int | None) -> csr_array:
    """Return the arrays (m, n_b) side by side, again with the ``top`` entries of each row alone."""
    return parts[0] if len(parts) == 1 else _keep(csr_array(hstack(parts, format="csr")), top)


def squared_norm(rows: Rows, shape: tuple[int, int]) -> float:
    """Return the squared Frobenius norm of the (m, n) array that ``rows`` gives, block by block."""
    return sum(float((csr_array(block).data ** 2).sum()) for block in _blocks(rows, shape))


def _blocks(rows: Rows, shape: tuple[int, int]) -> Iterator[csr_array | NDArray[np.float64]]:
    m, n = shape
    step = max(1, _ENTRIES // max(1, n))
    for start in range(0, m, step):
        yield rows(slice(start, min(start + step, m)))


def _keep(block: csr_array, top: int | None) -> csr_array:
    block.sum_duplicates()
    block.eliminate_zeros()
    if top is None:
        return block
    size = np.abs(block.data)
    kept = [start + _largest(size[start:stop], top) for start, stop in zip(block.indptr[:-1], block.indptr[1:], strict=True)]
    index = np.concatenate(kept) if kept else np.empty(0, np.int64)
    indptr = np.cumsum([0, *map(len, kept)])
    return csr_array((block.data[index], block.indices[index], indptr), shape=block.shape)


def _largest(size: NDArray[np.float64], top: int) -> NDArray[np.intp]:
    """Return the positions of the ``top`` largest numbers, ascending; of equal ones the first."""
    if len(size) <= top:
        return np.arange(len(size))
    least = np.partition(size, len(size) - top)[len(size) - top]
    above = np.flatnonzero(size > least)
    equal = np.flatnonzero(size == least)[: top - len(above)]
    return np.sort(np.concatenate([above, equal]))


def rows_of_adjoint(adjoint: Callable[[NDArray[np.float64]], NDArray[np.float64]], m: int) -> Rows:
    """Return the rows of an operator (m, n) that is known by ``adjoint(U) = A.T @ U``: one adjoint product a row."""

    def rows(block: slice) -> NDArray[np.float64]:
        unit = np.zeros((m, block.stop - block.start))
        unit[np.arange(block.start, block.stop), np.arange(block.stop - block.start)] = 1.0
        return adjoint(unit).T

    return rows
