"""What follows from a forest's structure alone: parents, depths, path sums, the boxes of its leaves."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from treespec.ir.forest import Forest


def parent(forest: Forest) -> NDArray[np.int32]:
    """Return the (n_nodes,) parent ids, -1 at roots."""
    out = np.full(forest.n_nodes, -1, np.int32)
    inner = np.flatnonzero(~forest.is_leaf).astype(np.int32)
    out[forest.left[inner]] = inner
    out[forest.right[inner]] = inner
    return out


def tree_of(forest: Forest) -> NDArray[np.int32]:
    """Return the (n_nodes,) tree that each node belongs to."""
    return np.repeat(np.arange(forest.n_trees, dtype=np.int32), np.diff(forest.tree_offset))


def levels(forest: Forest) -> list[NDArray[np.int32]]:
    """Return the node ids of each depth, roots first; every node once. O(n_nodes)."""
    out = []
    level = forest.tree_offset[:-1].astype(np.int32)
    while len(level):
        out.append(level)
        inner = level[~forest.is_leaf[level]]
        level = np.concatenate([forest.left[inner], forest.right[inner]])
    return out


def depth(forest: Forest) -> NDArray[np.int32]:
    """Return the (n_nodes,) number of splits above each node."""
    out = np.zeros(forest.n_nodes, np.int32)
    for d, nodes in enumerate(levels(forest)):
        out[nodes] = d
    return out


def push_down(forest: Forest, weight: NDArray[np.floating]) -> NDArray[np.floating]:
    """Return for each node the sum of ``weight`` over the path from the root to it.

    Parameters
    ----------
    weight : (n_nodes,) or (n_nodes, k) array

    Notes
    -----
    This is the path table times ``weight``: O(n_nodes) instead of O(n_leaves * depth).
    """
    out = np.array(weight, copy=True)
    for nodes in levels(forest)[:-1]:
        inner = nodes[~forest.is_leaf[nodes]]
        out[forest.left[inner]] += out[inner]
        out[forest.right[inner]] += out[inner]
    return out


def pull_up(forest: Forest, weight: NDArray[np.floating]) -> NDArray[np.floating]:
    """Return for each node the sum of ``weight`` over the node and everything below it (the transpose of `push_down`)."""
    out = np.array(weight, copy=True)
    for nodes in reversed(levels(forest)[:-1]):
        inner = nodes[~forest.is_leaf[nodes]]
        out[inner] += out[forest.left[inner]] + out[forest.right[inner]]
    return out


def ancestors(forest: Forest, depths: NDArray[np.integer]) -> NDArray[np.int32]:
    """Return the (len(depths), n_nodes) ancestors of all nodes at each of some ascending depths; nodes above that depth are their own."""
    above, own = parent(forest), depth(forest)
    out = np.empty((len(depths), forest.n_nodes), np.int32)
    now = np.arange(forest.n_nodes, dtype=np.int32)
    for row, d in zip(out[::-1], depths[::-1], strict=True):
        while (deeper := own[now] > d).any():
            now = np.where(deeper, above[now], now)
        row[:] = now
    return out
