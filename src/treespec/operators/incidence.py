"""`Incidence`: which leaves each row reaches, the rows in blocks wherever they are held; what operators need of rows at any scale."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from treespec.operators.base import Array, Operator

if TYPE_CHECKING:
    from treespec.operators.leaf import LeafIncidence


class Incidence(Operator):
    """The (n, n_leaves) matrix Z of rows that lie in blocks: in memory, in files, or with the workers of a cluster.

    All that operators do with rows is a map over blocks (`each`) and a sum over leaves (`total`), so that one operator serves every
    place. A *block* is a `LeafIncidence`. *Row pieces* are arrays of n rows (labels, weights), cut like the blocks: NumPy arrays where
    the rows are in this process, Dask arrays where they are not; None stays None.
    """

    @property
    @abstractmethod
    def n_trees(self) -> int:
        """Number of leaves that each row reaches."""

    @property
    @abstractmethod
    def here(self) -> bool:
        """Whether the rows are in this process (in memory or on disk)."""

    @abstractmethod
    def each(self, function: Callable[..., Any], *shared: Any, rows: Sequence[Any] = ()) -> list[Any]:
        """Return ``function(block, *shared, *pieces)`` for each block, in order; ``rows`` are cut into the pieces."""

    @abstractmethod
    def total(self, function: Callable[..., Array], *shared: Any, rows: Sequence[Any] = ()) -> Array:
        """Return the sum over blocks of what `each` returns: no more than one such result a block in flight is held."""

    @abstractmethod
    def stack(self, function: Callable[..., Array], *shared: Any, width: int, rows: Sequence[Any] = ()) -> Any:
        """Return the (n, width) rows that `each` returns, where the rows are: a NumPy array, or a Dask array not computed yet."""

    def gather(self, V: NDArray[Any]) -> Array:
        """Return ``Z @ V`` (n, k) for V (n_leaves, k), where the rows are."""
        out: Array = self.stack(_gathered, V, width=V.shape[1])
        return out

    @abstractmethod
    def with_entries(self, entry: Any) -> Self:
        """Return the matrix with the entries (n,) or (n, n_trees) in place of ones."""

    @abstractmethod
    def times(self, other: Self) -> Self:
        """Return the matrix whose entries are the products of these and the other's."""

    def normal(self, V: NDArray[Any], weight: Any = None) -> Array:
        """Return ``Z.T diag(weight) Z V`` (n_leaves, k) in one pass: nothing larger than the leaves leaves a block."""
        return self.total(_normal, V, rows=(weight,))

    def counts(self, weight: Any = None) -> Array:
        """Return (n_leaves,) rows in each leaf (times their entries), or the sum of their ``weight`` (n,)."""
        return self.total(_counts, rows=(weight,))


def _gathered(block: LeafIncidence, V: Array) -> Array:
    return block.matmat(V)


def _normal(block: LeafIncidence, V: Array, weight: Array | None) -> Array:
    U = block.matmat(V)
    if weight is not None:
        U *= weight[:, None]
    return block.rmatmat(U)


def _counts(block: LeafIncidence, weight: Array | None) -> Array:
    return block.rmatvec(np.ones(block.shape[0]) if weight is None else np.asarray(weight, dtype=np.float64))
