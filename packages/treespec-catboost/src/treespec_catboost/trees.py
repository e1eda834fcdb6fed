"""Trees of the document as flat arrays: oblivious trees written out in full, and trees of any shape."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treespec_catboost.document import Document, damaged

_DEEPEST = 30  # of oblivious trees; CatBoost trains up to 16


@dataclass(frozen=True, slots=True)
class Trees:
    """All trees, node after node.

    Attributes
    ----------
    tree_offset : (n_trees + 1,) int64
    left, right : (n_nodes,) int64
        Global ids; -1 at leaves. The right child is where a split is true.
    split : (n_nodes,) int64
        Place in ``splits``; -1 at leaves.
    splits : list of dict
        The different splits, as the document holds them.
    value : (n_nodes, n_outputs) float64
        Before scale and bias; NaN at inner nodes.
    weight : (n_nodes,) float64 or None
        Training weight of each node.
    """

    tree_offset: NDArray[np.int64]
    left: NDArray[np.int64]
    right: NDArray[np.int64]
    split: NDArray[np.int64]
    splits: list[dict[str, Any]]
    value: NDArray[np.float64]
    weight: NDArray[np.float64] | None


@dataclass(slots=True)
class _Tree:
    left: NDArray[np.int64]
    right: NDArray[np.int64]
    split: NDArray[np.int64]
    value: NDArray[np.float64]  # (n_nodes, n_outputs)
    weight: NDArray[np.float64] | None


def trees_of(document: Document) -> Trees:
    """Return all trees; O(n_nodes) time and memory."""
    splits: list[dict[str, Any]] = []
    place: dict[str, int] = {}

    def number(split: dict[str, Any]) -> int:
        key = repr(sorted(split.items()))
        if key not in place:
            place[key] = len(splits)
            splits.append(split)
        return place[key]

    if "oblivious_trees" in document:
        trees = [_oblivious(tree, number) for tree in document["oblivious_trees"]]
    else:
        trees = [_any_shape(tree, number) for tree in document["trees"]]
    if not trees or len({tree.value.shape[1] for tree in trees}) != 1:
        raise damaged("a model without trees, or with leaves of different lengths")
    offset = np.cumsum([0, *(len(tree.left) for tree in trees)])
    moved = [
        np.concatenate([np.where(side == -1, -1, side + start) for side, start in zip(sides, offset, strict=False)])
        for sides in ([tree.left for tree in trees], [tree.right for tree in trees])
    ]
    weights = [tree.weight for tree in trees if tree.weight is not None]
    return Trees(
        offset, moved[0], moved[1], np.concatenate([tree.split for tree in trees]), splits,
        np.concatenate([tree.value for tree in trees]), np.concatenate(weights) if len(weights) == len(trees) else None,
    )  # fmt: skip


def _oblivious(tree: dict[str, Any], number: Any) -> _Tree:
    """Return an oblivious tree written out: the last split at the root, so that leaves stand in CatBoost's order."""
    chosen = [number(split) for split in tree.get("splits") or ()][::-1]
    depth = len(chosen)
    if depth > _DEEPEST or not len(tree["leaf_values"]) or len(tree["leaf_values"]) % (1 << depth):
        raise damaged(f"{len(tree['leaf_values'])} leaf values in a tree of depth {depth}")
    n_leaves = 1 << depth
    inner = n_leaves - 1
    leaf_value = np.asarray(tree["leaf_values"], np.float64).reshape(n_leaves, -1)
    node = np.arange(2 * n_leaves - 1)
    level = np.repeat(np.arange(depth + 1), [1 << k for k in range(depth + 1)])
    is_leaf = node >= inner
    weight = None
    if tree.get("leaf_weights"):
        levels = [np.asarray(tree["leaf_weights"], np.float64)]
        if len(levels[0]) != n_leaves:
            raise damaged("other numbers of leaf weights and leaves")
        for _ in range(depth):
            levels.append(levels[-1].reshape(-1, 2).sum(axis=1))
        weight = np.concatenate(levels[::-1])
    value = np.full((len(node), leaf_value.shape[1]), np.nan)
    value[inner:] = leaf_value
    return _Tree(
        np.where(is_leaf, -1, 2 * node + 1), np.where(is_leaf, -1, 2 * node + 2), np.array([*chosen, -1], np.int64)[level], value, weight
    )


def _any_shape(tree: dict[str, Any], number: Any) -> _Tree:
    """Return a tree of any shape, nodes in the order of a walk that goes left first."""
    left: list[int] = []
    right: list[int] = []
    split: list[int] = []
    leaf: list[Any] = []
    weight: list[float] = []
    stack: list[tuple[dict[str, Any], int]] = [(tree, -1)]
    while stack:
        node, parent = stack.pop()
        here = len(left)
        if parent >= 0:
            (left if left[parent] == -1 else right)[parent] = here
        inner = node.get("split") is not None
        left.append(-1)
        right.append(-1)
        split.append(number(node["split"]) if inner else -1)
        leaf.append(None if inner else node["value"])
        weight.append(np.nan if inner else float(node.get("weight", np.nan)))
        if inner:
            stack += [(node["right"], here), (node["left"], here)]
    at = np.array(split) == -1
    values = np.array([np.atleast_1d(v) for v in leaf if v is not None], np.float64)
    value = np.full((len(left), values.shape[1]), np.nan)
    value[at] = values
    total = np.array(weight)
    for k in range(len(left) - 1, -1, -1):
        if left[k] != -1:
            total[k] = total[left[k]] + total[right[k]]
    return _Tree(np.array(left), np.array(right), np.array(split), value, None if np.isnan(total).any() else total)


def native_ids(model: Any, trees: Trees, first: int = 0, *, oblivious: bool) -> NDArray[np.int64]:
    """Return at leaves the number by which ``calc_leaf_indexes`` calls them, -1 elsewhere.

    The number of a leaf of an oblivious tree has its splits as bits. Other trees are kept by CatBoost as steps to children, 0 where
    a node is the leaf on that side itself. ``first`` is the number of the first tree.
    """
    out = np.full(len(trees.left), -1, np.int64)
    for t, (start, end) in enumerate(pairwise(trees.tree_offset.tolist())):
        leaves = start + np.flatnonzero(trees.left[start:end] == -1)
        out[leaves] = np.arange(len(leaves)) if oblivious else _numbers(model, first + t)
    return out


def _numbers(model: Any, tree: int) -> list[int]:
    steps, number = model._object._get_tree_step_nodes(tree), model._object._get_tree_node_to_leaf(tree)
    found: list[int] = []
    stack: list[tuple[int, bool]] = [(0, False)]
    while stack:
        node, ends = stack.pop()
        down = steps[node]
        if ends or down == (0, 0):
            found.append(number[node])
        else:
            stack += [(node + step, step == 0) for step in (down[1], down[0])]
    return found
