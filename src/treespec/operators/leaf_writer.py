"""`LeafWriter`: a leaf table that grows block by block, in memory or in files, for rows that are never held together."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from treespec.operators.leaf import Ids, LeafIncidence, smallest

if TYPE_CHECKING:
    from treespec.ir import Forest


class LeafWriter:
    """Collects the leaves that blocks of rows reach, each tree in the smallest unsigned type that holds its leaves.

    Parameters
    ----------
    forest : Forest
    folder : Path, optional
        Existing folder that gets one file a tree (``tree_00000.uint8``: raw ordinals, nothing else); None keeps them in memory.

    Notes
    -----
    n * n_trees * 1, 2 or 4 bytes; while `finish` runs, in memory, one tree more.
    """

    def __init__(self, forest: Forest, folder: Path | None = None) -> None:
        self._forest, self._folder = forest, folder
        edges = np.searchsorted(forest.leaves, forest.tree_offset)
        self._low, self._width = edges[:-1].astype(np.int64), np.diff(edges).astype(np.int64)
        self._pieces: list[list[Ids]] = [[] for _ in self._low]
        self._paths = [] if folder is None else [folder / f"tree_{t:05d}.{smallest(int(w)).name}" for t, w in enumerate(self._width)]
        self.n_rows = 0
        for path in self._paths:
            path.write_bytes(b"")

    def add(self, leaf_id: NDArray[np.integer[Any]]) -> None:
        """Append rows that reach the leaves ``leaf_id`` (n, n_trees), given as node ids of the forest."""
        for t, column in enumerate(compact(self._forest, leaf_id)):
            if self._folder is None:
                self._pieces[t].append(column)
            else:
                with self._paths[t].open("ab") as file:
                    file.write(column.tobytes())
        self.n_rows += len(leaf_id)

    def finish(self) -> LeafIncidence:
        """Return the incidence of all rows; files are mapped into memory, read-only."""
        local: list[Ids] = []
        for t, width in enumerate(self._width):
            dtype = smallest(int(width))
            if self._folder is None or not self.n_rows:
                local.append(np.concatenate([np.empty(0, dtype), *self._pieces[t]], dtype=dtype))
                self._pieces[t] = []
            else:
                local.append(np.memmap(self._paths[t], dtype=dtype, mode="r", shape=(self.n_rows,)))
        return LeafIncidence.of_trees(local, self._low, self._width, self._forest.n_leaves)


def compact(forest: Forest, leaf_id: NDArray[np.integer[Any]]) -> list[Ids]:
    """Return, for each tree, the (n,) ordinals of the leaves relative to the tree's first, in the smallest type that holds its leaves."""
    edges = np.searchsorted(forest.leaves, forest.tree_offset)
    columns = []
    for t in range(forest.n_trees):
        ordinal = forest.leaf_index[leaf_id[:, t]] - edges[t]
        columns.append(ordinal.astype(smallest(int(edges[t + 1] - edges[t]))))
    return columns


def block_of(forest: Forest, leaf_id: NDArray[np.integer[Any]]) -> LeafIncidence:
    """Return one block of rows as a compact incidence."""
    edges = np.searchsorted(forest.leaves, forest.tree_offset)
    return LeafIncidence.of_trees(compact(forest, leaf_id), edges[:-1].astype(np.int64), np.diff(edges), forest.n_leaves)
