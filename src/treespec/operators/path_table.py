"""`PathTable`: which nodes lie on the path to each leaf, as a product that never expands the table."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from treespec.ir import Forest
from treespec.operators.base import Array, Operator, frozen


class PathTable(Operator):
    """The (n_leaves, n_nodes) 0/1 matrix ``A`` with ``A[l, v] = 1`` where node v is on the path from the root to leaf l, both included.

    Parameters
    ----------
    forest : Forest

    Notes
    -----
    ``A @ w`` pushes node numbers down the trees, ``A.T @ u`` pulls leaf numbers up: O(n_nodes * k) time and memory, level after level.
    The schedule (nodes by depth, siblings side by side) is built once, in O(n_nodes).

    Examples
    --------
    >>> import numpy as np
    >>> from treespec.ir import Forest
    >>> stump = Forest(tree_offset=[0, 3], left=[1, -1, -1], right=[2, -1, -1], feature=[0, -1, -1], threshold=[0.5, np.nan, np.nan],
    ...                default_left=[True] * 3, value=np.zeros((3, 1)), n_features=1)
    >>> PathTable(stump).to_sparse().toarray()
    array([[1., 1., 0.],
           [1., 0., 1.]])
    """

    def __init__(self, forest: Forest) -> None:
        super().__init__((forest.n_leaves, forest.n_nodes))
        self.forest = forest
        level = forest.tree_offset[:-1].astype(np.int32)
        order, steps, end = [level], [], len(level)
        while len(level):
            inner = np.flatnonzero(~forest.is_leaf[level]).astype(np.int32)
            parent = (inner + (end - len(level))).astype(np.int32)
            level = np.column_stack([forest.left[level[inner]], forest.right[level[inner]]]).ravel()
            if len(level):
                steps.append((frozen(parent), slice(end, end + len(level))))
                order.append(level)
                end += len(level)
        self._order = frozen(np.concatenate(order))
        self._place = np.empty(forest.n_nodes, np.int32)
        self._place[self._order] = np.arange(forest.n_nodes, dtype=np.int32)
        self._leaf_place = frozen(self._place[forest.leaves])
        self._steps = steps

    def _forward(self, V: Array) -> Array:
        return np.take(self._pushed(V), self._leaf_place, axis=0)

    def _backward(self, U: Array) -> Array:
        level = np.zeros((self.shape[1], U.shape[1]))
        level[self._leaf_place] = U
        for parent, children in reversed(self._steps):
            pair = level[children].reshape(len(parent), 2, -1)
            level[parent] = pair[:, 0] + pair[:, 1]
        return np.take(level, self._place, axis=0)

    def push_down(self, V: NDArray[Any]) -> Array:
        """Return for each node the sums of V (n_nodes, k) over the path from its root to it (all nodes, not the leaves only)."""
        return np.take(self._pushed(np.asarray(V, dtype=np.float64)), self._place, axis=0)

    def _pushed(self, V: Array) -> Array:
        level: Array = np.take(V, self._order, axis=0)
        for parent, children in self._steps:
            pair = level[children].reshape(len(parent), 2, -1)
            pair += level[parent][:, None]
        return level

    @cached_property
    def parent(self) -> NDArray[np.int32]:
        """(n_nodes,) parent ids, -1 at roots."""
        out = np.full(self.shape[1], -1, np.int32)
        for parent, children in self._steps:
            out[self._order[children]] = np.repeat(self._order[parent], 2)
        return frozen(out)

    @cached_property
    def leaf_rank(self) -> NDArray[np.int64]:
        """(n_leaves,) place of each leaf in the left-to-right order of all leaves, tree after tree."""
        return frozen(self._left_edge[self.forest.leaves])

    @cached_property
    def _left_edge(self) -> NDArray[np.int64]:
        """(n_nodes,) rank of the leftmost leaf below each node."""
        below = self.rmatvec(np.ones(self.shape[0])).astype(np.int64)[self._order]
        edge = np.zeros(self.shape[1], np.int64)
        n_trees = self.forest.n_trees
        edge[:n_trees] = np.cumsum(below[:n_trees]) - below[:n_trees]
        for parent, children in self._steps:
            first = np.arange(children.start, children.stop, 2)
            edge[first] = edge[parent]
            edge[first + 1] = edge[parent] + below[first]
        return frozen(edge[self._place])

    @cached_property
    def junction(self) -> NDArray[np.int32]:
        """(n_leaves,) node at which the paths to the leaves of rank r - 1 and r part; -1 at the first leaf of each tree."""
        out = np.full(self.shape[0], -1, np.int32)
        inner = np.flatnonzero(~self.forest.is_leaf).astype(np.int32)
        out[self._left_edge[self.forest.right[inner]]] = inner
        return frozen(out)

    def to_sparse(self) -> csr_array:
        """Return A as a CSR array: one entry for each leaf and node on its path, 12 bytes each."""
        leaf = np.arange(self.shape[0])
        node = self.forest.leaves.astype(np.int64)
        rows, columns = [], []
        while len(node):
            rows.append(leaf)
            columns.append(node)
            up = self.parent[node]
            leaf, node = leaf[up >= 0], up[up >= 0].astype(np.int64)
        index = (np.concatenate(rows), np.concatenate(columns))
        return csr_array((np.ones(len(index[0])), index), shape=self.shape)
