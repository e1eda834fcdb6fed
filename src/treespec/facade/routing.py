"""Routes rows to leaves by the fastest exact way: the framework's own leaf ids, else Treelite."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treespec.adapters._treelite import TreeliteRouter
from treespec.errors import PluginError, SelfCheckError
from treespec.hooks import Native
from treespec.ir import Forest
from treespec.ir.table import n_rows, take

_BLOCK_PAIRS = 1 << 24  # (row, tree) pairs a block: native ids of 64 bits then take 128 MB
_CACHED_PAIRS = 1 << 18  # pairs translated at a time: they stay in the cache


class Router:
    """Routes rows as the user passes them to node ids of the forest.

    Parameters
    ----------
    forest : Forest
    native : Native or None
        Used where it offers ``leaf_id`` and the forest knows the native ids, unless it says ``routes_rows = False`` (Treelite is
        faster).

    Notes
    -----
    Memory: the (n, n_trees) int32 result, plus one block of native ids.
    """

    def __init__(self, forest: Forest, native: Native | None) -> None:
        self._forest = forest
        offers = native is not None and forest.native_id is not None and hasattr(native, "leaf_id")
        self._native = native if offers and getattr(native, "routes_rows", True) else None
        self._leaves: NativeLeaves | None = None
        self._treelite: TreeliteRouter | None = None

    @property
    def way(self) -> str:
        """Who routes: "native" or "treelite"."""
        return "native" if self._native is not None else "treelite"

    def __call__(self, X: Any) -> NDArray[np.int32]:
        """Return the (n, n_trees) int32 node ids of the leaves that the rows reach."""
        n, n_trees = n_rows(X), self._forest.n_trees
        step = max(1, _BLOCK_PAIRS // max(1, n_trees))
        if n <= step:
            return self._block(X)
        out = np.empty((n, n_trees), np.int32)
        for start in range(0, n, step):
            rows = slice(start, min(n, start + step))
            out[rows] = self._block(take(X, rows))
        return out

    def _block(self, X: Any) -> NDArray[np.int32]:
        if self._native is None:
            if self._treelite is None:
                self._treelite = TreeliteRouter(self._forest)
            leaf_id: NDArray[np.int32] = self._treelite.leaf_id(self._forest.encode(X))
            return leaf_id
        self._forest.encode(X)  # one cheap pass: the clear errors of the input rule, before the framework sees the rows
        return self.to_nodes(np.asarray(self._native.leaf_id(X)))

    def to_nodes(self, native_leaf: NDArray[Any]) -> NDArray[np.int32]:
        """Translate (n, n_trees) native leaf ids to node ids of the forest.

        Raises
        ------
        SelfCheckError
            If there is no such leaf.
        """
        if self._leaves is None:
            self._leaves = NativeLeaves.of(self._forest)
        out = np.empty(native_leaf.shape, np.int32)
        step = max(1, _CACHED_PAIRS // max(1, native_leaf.shape[1]))
        for start in range(0, len(native_leaf), step):
            rows = slice(start, start + step)
            out[rows] = self._leaves.nodes(native_leaf[rows])
        if out.min(initial=0) < 0:
            i, t = np.argwhere(out < 0)[0]
            raise SelfCheckError.expected(
                f"leaves of the wrapped {self._forest.framework}",
                f"leaf {native_leaf[i, t]} of tree {t} (row {i}), which it had not",
                "the model was changed after it was wrapped: wrap it again",
            )
        return out


@dataclass(frozen=True, eq=False)
class NativeLeaves:
    """The node of each native leaf id: the tables of all trees, one after the other.

    Attributes
    ----------
    node : (n_ids,) int32
        -1 where a tree has no such leaf.
    start, width : (n_trees,) int64
        Where the table of each tree begins, and its length.
    """

    node: NDArray[np.int32]
    start: NDArray[np.int64]
    width: NDArray[np.int64]

    @classmethod
    def of(cls, forest: Forest) -> NativeLeaves:
        """Make the tables; every tree's native leaf ids are small numbers."""
        if forest.native_id is None:
            raise PluginError.expected("Forest.native_id", "None", "an adapter whose Native has leaf_id must fill native_id")
        leaf = forest.leaves
        tree = np.searchsorted(forest.tree_offset, leaf, side="right") - 1
        width = np.zeros(forest.n_trees, np.int64)
        np.maximum.at(width, tree, forest.native_id[leaf].astype(np.int64) + 1)
        start = np.cumsum(width) - width
        node = np.full(int(width.sum()), -1, np.int32)
        node[start[tree] + forest.native_id[leaf]] = leaf
        return cls(node, start, width)

    def nodes(self, native_leaf: NDArray[Any]) -> NDArray[np.int32]:
        """Return (n, n_trees) node ids, -1 where there is no such leaf."""
        leaf = native_leaf.astype(np.int64, copy=False)
        found = self.node.take(leaf + self.start, mode="clip")
        if leaf.min(initial=0) < 0 or (leaf >= self.width).any():
            found[(leaf < 0) | (leaf >= self.width)] = -1
        return found
