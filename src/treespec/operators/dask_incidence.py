"""`DaskIncidence`: blocks of rows that stay with the workers of Dask; leaf-sized sums come back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from treespec.operators.base import Array, is_lazy
from treespec.operators.incidence import Incidence
from treespec.operators.leaf import LeafIncidence

_SENT = 1 << 20  # numbers that go out with a graph: 8 MB, below what Dask warns of
_TOGETHER = 8  # sums that one task adds up


class DaskIncidence(Incidence):
    """The (n, n_leaves) incidence of rows in blocks, each a `dask.delayed` `LeafIncidence`.

    Works with every scheduler: threads, processes, or a cluster, on which persisted blocks live with the workers, and are made again
    from the rows where a worker is lost.

    Parameters
    ----------
    blocks : sequence of Delayed
    sizes : sequence of int
        Rows of each block.
    n_trees, n_leaves : int
    """

    def __init__(self, blocks: Sequence[Any], sizes: Sequence[int], n_trees: int, n_leaves: int) -> None:
        super().__init__((int(sum(sizes)), n_leaves))
        self.blocks, self.sizes = tuple(blocks), tuple(int(n) for n in sizes)
        self._n_trees = n_trees
        self._plain = self.blocks

    @property
    def n_trees(self) -> int:
        """Number of leaves that each row reaches."""
        return self._n_trees

    @property
    def here(self) -> bool:
        """False: the rows are with the workers."""
        return False

    def _tasks(self, function: Callable[..., Any], shared: Sequence[Any], rows: Sequence[Any]) -> list[Any]:
        from dask import delayed

        call = delayed(function, pure=False)
        common = [delayed(value, pure=False, traverse=False) for value in shared]
        pieces = zip(*(self.pieces(piece) for piece in rows), strict=True) if rows else [()] * len(self.blocks)
        return [call(block, *common, *piece) for block, piece in zip(self.blocks, pieces, strict=True)]

    def pieces(self, array: Any) -> list[Any]:
        """Return n rows of numbers cut like the blocks, ready for a task."""
        if array is None:
            return [None] * len(self.blocks)
        if is_lazy(array):
            chunks = (self.sizes, *((size,) for size in array.shape[1:]))
            return list(array.rechunk(chunks).to_delayed().ravel())
        edges = np.cumsum((0, *self.sizes))
        return [np.asarray(array)[a:b] for a, b in pairwise(edges.tolist())]

    def each(self, function: Callable[..., Any], *shared: Any, rows: Sequence[Any] = ()) -> list[Any]:
        """Return ``function(block, *shared, *pieces)`` for each block."""
        import dask

        return list(dask.compute(*self._tasks(function, shared, rows)))

    def total(self, function: Callable[..., Array], *shared: Any, rows: Sequence[Any] = ()) -> Array:
        """Return the sum of what `each` returns, added up by the workers in a fixed order."""
        from dask import delayed

        parts = self._tasks(function, shared, rows)
        add = delayed(_added, pure=False)
        while len(parts) > 1:
            parts = [add(parts[i : i + _TOGETHER]) for i in range(0, len(parts), _TOGETHER)]
        return np.asarray(parts[0].compute())

    def stack(self, function: Callable[..., Array], *shared: Any, width: int, rows: Sequence[Any] = ()) -> Any:
        """Return the (n, width) rows that `each` returns, as a Dask array that is not computed yet."""
        import dask.array as da

        parts = zip(self._tasks(function, shared, rows), self.sizes, strict=True)
        return da.concatenate([da.from_delayed(task, shape=(n, width), dtype=np.float64) for task, n in parts])

    def gather(self, V: NDArray[Any]) -> Any:
        """Return ``Z @ V`` as a Dask array that is not computed yet."""
        import dask.array as da

        parts = [super(DaskIncidence, self).gather(part) for part in self._columns(V)]
        return parts[0] if len(parts) == 1 else da.concatenate(parts, axis=1).rechunk({1: -1})

    def normal(self, V: NDArray[Any], weight: Any = None) -> Array:
        """Return ``Z.T diag(weight) Z V``."""
        return np.concatenate([super(DaskIncidence, self).normal(part, weight) for part in self._columns(V)], axis=1)

    def _columns(self, V: NDArray[Any]) -> list[Array]:
        """Return V in groups of columns that may go out with one graph."""
        step = max(1, _SENT // max(1, len(V)))
        return [np.ascontiguousarray(V[:, i : i + step]) for i in range(0, max(1, V.shape[1]), step)]

    def _forward(self, V: Array) -> Array:
        return np.asarray(self.gather(V).compute())

    def _backward(self, U: Array) -> Array:
        return self.total(_scattered, rows=(U,))

    def with_entries(self, entry: Any) -> Self:
        """Return the matrix with the entries (n,) in place of ones."""
        from dask import delayed

        call = delayed(_entered, pure=False)
        return self._with([call(block, piece) for block, piece in zip(self._plain, self.pieces(entry), strict=True)])

    def times(self, other: Self) -> Self:
        """Return the matrix whose entries are the products of these and the other's."""
        from dask import delayed

        call = delayed(_multiplied, pure=False)
        return self._with([call(a, b) for a, b in zip(self.blocks, other.blocks, strict=True)])

    def _with(self, blocks: Sequence[Any]) -> Self:
        new = type(self)(blocks, self.sizes, self._n_trees, self.shape[1])
        new._plain = self._plain
        return new


def _added(parts: list[Array]) -> Array:
    return np.asarray(sum(parts[1:], start=parts[0]))


def _scattered(block: LeafIncidence, U: Array) -> Array:
    return block.rmatmat(U)


def _entered(block: LeafIncidence, entry: NDArray[Any]) -> LeafIncidence:
    return block.with_entries(entry)


def _multiplied(block: LeafIncidence, other: LeafIncidence) -> LeafIncidence:
    return block.times(other)
