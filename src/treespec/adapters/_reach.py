"""Keeps the nodes of foreign trees that can be reached from their roots, and refuses what is not a tree."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treespec.errors import UnsupportedModelError


@dataclass(frozen=True, slots=True)
class Reached:
    """Trees restricted to the nodes that can be reached from their roots.

    Attributes
    ----------
    source : (n_nodes,) int64
        Position of each kept node in the arrays that were given.
    tree_offset : (n_trees + 1,) int64
    left, right : (n_nodes,) int32
        Global ids of the children among the kept nodes; -1 at leaves.
    """

    source: NDArray[np.int64]
    tree_offset: NDArray[np.int64]
    left: NDArray[np.int32]
    right: NDArray[np.int32]


def reachable(left: NDArray[np.integer[Any]], right: NDArray[np.integer[Any]], tree_offset: NDArray[np.integer[Any]]) -> Reached:
    """Return the part of the trees that hangs on their roots.

    The given order is kept where parents come before their children in it; otherwise nodes come breadth-first.

    Parameters
    ----------
    left, right : (n,) integer
        Ids of the children, counted within the tree; -1 at leaves.
    tree_offset : (n_trees + 1,) integer
        The nodes of tree t are ``tree_offset[t]:tree_offset[t + 1]``, its root comes first.

    Raises
    ------
    UnsupportedModelError
        If a tree is empty, a child lies outside its tree, or a node has two parents (a cycle among them).

    Notes
    -----
    O(n) time and memory, level by level.
    """
    size: NDArray[np.int64] = np.asarray(tree_offset[1:] - tree_offset[:-1], np.int64)
    _require((size > 0).all(), "a tree without nodes")
    base = np.repeat(np.asarray(tree_offset[:-1], np.int64), size)
    end = np.repeat(size, size)
    depth = np.full(len(base), -1, np.int64)
    level, reached, at = np.asarray(tree_offset[:-1], np.int64), 0, 0
    while len(level):
        reached += len(level)
        _require(reached <= len(base), "a node with two parents")  # ends cycles, and chains that double at each level
        depth[level] = at
        inner = level[left[level] != -1]
        child = np.stack([left[inner], right[inner]], axis=1).astype(np.int64)
        _require(((child >= 0) & (child < end[inner, None])).all(), "a child outside its tree")
        level, at = (child + base[inner, None]).ravel(), at + 1
    kept = np.flatnonzero(depth >= 0)
    _require(len(kept) == reached, "a node with two parents")
    inner = kept[left[kept] != -1]
    if (base[inner] + np.minimum(left[inner], right[inner]) <= inner).any():
        kept = kept[np.lexsort((depth[kept], base[kept]))]
    new_id = np.full(len(base), -1, np.int64)
    new_id[kept] = np.arange(len(kept))
    new_offset = np.concatenate([[0], np.cumsum(np.bincount(np.repeat(np.arange(len(size)), size)[kept], minlength=len(size)))])
    is_leaf = left[kept] == -1
    children = [np.where(is_leaf, -1, new_id[np.where(is_leaf, kept, base[kept] + side[kept])]).astype(np.int32) for side in (left, right)]
    return Reached(kept, new_offset, children[0], children[1])


def _require(good: Any, came: str) -> None:
    if not good:
        raise UnsupportedModelError.expected("well-formed trees", came, "the model is damaged; save it again with its framework")
