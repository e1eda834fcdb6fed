"""`LeafIncidence`: the 0/1 matrix Z that says which leaves each row reaches."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from copy import copy
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from treespec.errors import DataMismatchError
from treespec.operators.base import Array, frozen
from treespec.operators.incidence import Incidence

if TYPE_CHECKING:
    from treespec.ir import Forest

_GATHERED = 1 << 18  # numbers gathered at a time: the block of results stays in cache while the trees pass over it
_SCATTERED = 1 << 19  # numbers scattered at a time
FEW_COLUMNS = 2  # up to here one bincount a column beats a sparse product
_BLOCK_ROWS = 1 << 16

Ids = NDArray[np.unsignedinteger[Any]]


class LeafIncidence(Incidence):
    """The (n, n_leaves) matrix ``Z`` with ``Z[i, l] = 1`` where row i reaches leaf l: ``n_trees`` ones a row.

    Parameters
    ----------
    leaf_index : (n, n_trees) integer array
        Leaf ordinals in ``[0, n_leaves)``, as `Forest.leaf_index` counts them.
    n_leaves : int

    Raises
    ------
    DataMismatchError
        If an ordinal is out of range or the array is not two-dimensional.

    Notes
    -----
    Stored tree by tree as ordinals relative to the tree's lowest, each tree in the smallest unsigned type that holds its own: 1, 2 or 4
    bytes a row. The arrays may be memory maps (`LeafWriter`).
    ``Z @ V`` and ``Z.T @ U`` cost O(n * n_trees * k) time and no memory beyond the result and one block of rows.

    Examples
    --------
    >>> Z = LeafIncidence([[0, 2], [1, 2]], n_leaves=4)
    >>> Z @ [1.0, 2.0, 10.0, 0.0]
    array([11., 12.])
    """

    def __init__(self, leaf_index: NDArray[np.integer[Any]], n_leaves: int) -> None:
        index = _ids(leaf_index, n_leaves, "leaf ordinals", "build it from node ids with LeafIncidence.of(forest, forest.apply(X))")
        super().__init__((len(index), n_leaves))
        low = index.min(axis=0).astype(np.int64) if len(index) else np.zeros(index.shape[1], np.int64)
        width = index.max(axis=0).astype(np.int64) - low + 1 if len(index) else np.zeros(index.shape[1], np.int64)
        local = [(index[:, t] - low[t]).astype(smallest(int(w))) for t, w in enumerate(width)]
        self._set(local, low, width)

    def _set(self, local: Sequence[Ids], low: NDArray[np.int64], width: NDArray[np.int64]) -> None:
        self.compact = False
        self._local, self._low, self._width = tuple(frozen(column) for column in local), frozen(low), frozen(width)
        self._entry: NDArray[Any] | None = None

    @classmethod
    def of_trees(cls, local: Sequence[Ids], low: NDArray[np.int64], width: NDArray[np.int64], n_leaves: int) -> LeafIncidence:
        """Return the incidence of one (n,) array a tree, as `tree` gives them; they are kept, not copied or checked.

        Operators then hold nothing beside it that grows with n * n_trees (``compact``).
        """
        new = cls(np.empty((len(local[0]) if local else 0, 0), np.int64), n_leaves)
        new._set(local, low, width)
        new.compact = True
        return new

    @classmethod
    def of(cls, forest: Forest, leaf_id: NDArray[np.integer[Any]]) -> LeafIncidence:
        """Return the incidence of rows that reach the leaves ``leaf_id`` (n, n_trees), given as node ids of the forest.

        Raises
        ------
        DataMismatchError
            If an id is not a leaf, or its column is not its tree.
        """
        ids = _ids(leaf_id, forest.n_nodes, "node ids", "pass forest.apply(X)")
        index = forest.leaf_index[ids]
        own_tree = ids.shape[1] == forest.n_trees and bool(((ids >= forest.tree_offset[:-1]) & (ids < forest.tree_offset[1:])).all())
        if not own_tree or index.min(initial=0) < 0:
            raise DataMismatchError.expected(
                f"one leaf of each of the {forest.n_trees} trees, in their order",
                "other nodes or another number of columns",
                "pass forest.apply(X)",
            )
        return cls(index, forest.n_leaves)

    def with_entries(self, entry: NDArray[Any]) -> LeafIncidence:
        """Return the matrix with ``entry[i, t]`` (n, n_trees) in place of the one of row i in tree t; shares the leaf table.

        ``entry`` (n,) counts the same in all trees and takes no more memory than that; bootstrap counts are kept in their own type.
        """
        array = np.asarray(entry)
        shape = (self.n_trees, self.shape[0])
        if array.shape not in (shape[::-1], shape[1:]):
            raise DataMismatchError.expected(f"entries of shape {shape[::-1]}", f"{array.shape}", "give one number a row and tree")
        new = copy(self)
        new._entry = np.broadcast_to(array.copy(), shape) if array.ndim == 1 else frozen(np.array(array.T, order="C"))
        return new

    def plain(self) -> LeafIncidence:
        """Return the matrix with ones for entries."""
        new = copy(self)
        new._entry = None
        return new

    def select(self, trees: NDArray[np.integer[Any]]) -> LeafIncidence:
        """Return the incidence of some trees only, over the same leaves."""
        new = copy(self)
        new._local, new._low, new._width = tuple(self._local[t] for t in np.asarray(trees)), self._low[trees], self._width[trees]
        new._entry = None if self._entry is None else self._entry[trees]
        return new

    def entries(self) -> NDArray[Any] | None:
        """Return the (n_trees, n) entries, or None where all are one."""
        return self._entry

    @property
    def n_trees(self) -> int:
        """Number of ones in each row."""
        return len(self._local)

    @property
    def nbytes(self) -> int:
        """Bytes that the leaf table takes."""
        return sum(int(column.nbytes) for column in self._local)

    def leaf_index(self, rows: slice | NDArray[np.integer[Any]] = slice(None)) -> NDArray[np.int64]:
        """Return the leaf ordinals (n, n_trees) of all rows or of some."""
        columns = [column[rows] + low for column, low in zip(self._local, self._low, strict=True)]
        return np.stack(columns).T if columns else np.empty((self.shape[0], 0), np.int64)

    def tree(self, t: int) -> tuple[int, int, Ids]:
        """Return the lowest leaf ordinal that tree t uses, how many follow, and the (n,) ordinals relative to it."""
        return int(self._low[t]), int(self._width[t]), self._local[t]

    def _forward(self, V: Array) -> Array:
        out = np.zeros((self.shape[0], V.shape[1]))
        step = max(1024, _GATHERED // max(1, V.shape[1]))
        buffer = np.empty((min(step, len(out)), V.shape[1]))
        tables = [V[a : a + w] for a, w in zip(self._low, self._width, strict=True)]
        for start in range(0, len(out), step):
            block = out[start : start + step]
            part = buffer[: len(block)]
            rows = slice(start, start + step)
            for t, table in enumerate(tables):
                np.take(table, self._local[t][rows], axis=0, out=part, mode="clip")  # "clip" writes to out without a copy; ids are in range
                if self._entry is not None:
                    part *= self._entry[t, rows, None]
                block += part
        return out

    def _backward(self, U: Array) -> Array:
        out = np.zeros((self.shape[1], U.shape[1]))
        group = 1 if U.shape[1] <= FEW_COLUMNS else max(1, _SCATTERED // max(1, U.size))  # few trees at a time: their leaves stay in cache
        for start in range(0, self.n_trees, group):
            trees = slice(start, start + group)
            low, end = int(self._low[trees].min()), int((self._low[trees] + self._width[trees]).max())
            local: NDArray[Any] = self._local[start]
            if group > 1:
                local = np.stack([column + (first - low) for column, first in zip(self._local[trees], self._low[trees], strict=True)])
            out[low:end] += sum_by_leaf(local, U, end - low, None if self._entry is None else self._entry[trees])
        return out

    def to_sparse(self) -> csr_array:
        """Return Z as a CSR array: 12 bytes an entry, n * n_trees entries."""
        n, n_trees = self.shape[0], self.n_trees
        index = self.leaf_index().astype(np.int32 if max(self.shape[1], n * n_trees) < 2**31 else np.int64)
        data = np.ones(n * n_trees) if self._entry is None else self._entry.T.astype(np.float64).ravel()
        return csr_array((data, index.ravel(), np.arange(n + 1, dtype=index.dtype) * n_trees), shape=self.shape)

    # ---- rows in blocks

    @property
    def here(self) -> bool:
        """True: the rows are in this process."""
        return True

    def block(self, rows: slice) -> LeafIncidence:
        """Return consecutive rows, which share the leaf table."""
        local = [column[rows] for column in self._local]
        new = LeafIncidence.of_trees(local, self._low, self._width, self.shape[1])
        new._entry = None if self._entry is None else self._entry[:, rows]
        return new

    def blocks(self) -> Iterator[tuple[slice, LeafIncidence]]:
        """Yield the rows in blocks of some 65,000 (more where there are more leaves): one block's results then stay small."""
        n, step = self.shape[0], max(_BLOCK_ROWS, self.shape[1])
        for start in range(0, n, step):
            rows = slice(start, min(start + step, n))
            yield rows, self if rows == slice(0, n) else self.block(rows)

    def each(self, function: Callable[..., Any], *shared: Any, rows: Sequence[Any] = ()) -> list[Any]:
        """Return ``function(block, *shared, *pieces)`` for each block."""
        return list(self._mapped(function, shared, rows))

    def total(self, function: Callable[..., Array], *shared: Any, rows: Sequence[Any] = ()) -> Array:
        """Return the sum of what `each` returns."""
        out: Array | None = None
        for part in self._mapped(function, shared, rows):
            out = part if out is None else np.add(out, part, out=out)
        return function(self, *shared, *rows) if out is None else out

    def _mapped(self, function: Callable[..., Any], shared: Sequence[Any], rows: Sequence[Any]) -> Iterator[Any]:
        for place, block in self.blocks():
            yield function(block, *shared, *(None if piece is None else piece[place] for piece in rows))

    def stack(self, function: Callable[..., Array], *shared: Any, width: int, rows: Sequence[Any] = ()) -> Array:
        """Return the (n, width) rows that `each` returns, in one array."""
        out = np.empty((self.shape[0], width))
        for (place, _), part in zip(self.blocks(), self._mapped(function, shared, rows), strict=True):
            out[place] = part
        return out

    def gather(self, V: NDArray[Any]) -> Array:
        """Return ``Z @ V``."""
        return self.matmat(V)

    def times(self, other: LeafIncidence) -> LeafIncidence:
        """Return the matrix whose entries are the products of these and the other's."""
        mine, theirs = self._entry, other.entries()
        both = theirs if mine is None else mine if theirs is None else mine * theirs
        return self.plain() if both is None else self.with_entries(both.T)


def smallest(width: int) -> np.dtype[np.unsignedinteger[Any]]:
    """Return the smallest unsigned type that holds the ordinals of so many leaves."""
    return np.min_scalar_type(max(0, width - 1))


def sum_by_leaf(local: NDArray[np.integer[Any]], U: Array, width: int, weight: NDArray[Any] | None = None) -> Array:
    """Return (width, k) sums over trees of the rows of U (n, k), times their ``weight``, that share a value of ``local``.

    ``local`` and ``weight`` are (n,) for one tree or (n_trees, n).
    """
    index = np.atleast_2d(local)
    if U.shape[1] <= FEW_COLUMNS and len(index) == 1:
        out = np.empty((width, U.shape[1]))
        for j in range(U.shape[1]):
            out[:, j] = np.bincount(index[0], U[:, j] if weight is None else np.ravel(weight) * U[:, j], minlength=width)
        return out
    n_trees, n = index.shape
    entry = np.ones(n * n_trees) if weight is None else np.atleast_2d(weight).T.astype(np.float64).ravel()
    indptr = np.arange(0, n * n_trees + 1, n_trees, dtype=np.int32)
    leaf_of = csr_array((entry, index.T.astype(np.int32, order="C").ravel(), indptr), shape=(n, width))
    return np.asarray(leaf_of.T @ U)


def _ids(ids: NDArray[np.integer[Any]], n: int, what: str, hint: str) -> NDArray[np.integer[Any]]:
    """Return two-dimensional integers in [0, n), or raise."""
    array = np.asarray(ids)
    if array.ndim != 2:
        raise DataMismatchError.expected(f"(n, n_trees) {what}", f"shape {array.shape}", hint)
    if array.size and (array.dtype.kind not in "iu" or array.min() < 0 or array.max() >= n):
        raise DataMismatchError.expected(f"{what} in [0, {n})", f"type {array.dtype}, {array.min()} to {array.max()}", hint)
    return array if array.size else array.astype(np.int64)
