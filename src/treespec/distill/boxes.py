"""The part of a forest that rows are drawn to agree with: its larger nodes, and the box of each."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from treespec.ir import Forest, stats
from treespec.ir.prune import prune

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Boxes:
    """What the path to each leaf asks of each numerical feature.

    Attributes
    ----------
    features : dict of int to int
        Column of ``low`` and ``high`` for each feature.
    low, high : (n_leaves, q) arrays
        Values in ``(low, high]`` reach the leaf; infinities where nothing is asked.
    share : (n_leaves,) array
        Share of the tree's rows that are in the leaf.
    """

    features: dict[int, int]
    low: Array
    high: Array
    share: Array

    def intervals(self, j: int) -> tuple[Array, Array]:
        """Return low and high of one feature, (n_leaves,) each."""
        return self.low[:, self.features[j]], self.high[:, self.features[j]]


def rows_of_nodes(forest: Forest) -> Array:
    """Return how many training rows (or how much weight) reached each node; halves at each split where the forest knows neither."""
    for known in (forest.count, forest.cover):
        if known is not None and (known[forest.tree_offset[:-1]] > 0).all():
            return known
    return np.asarray(0.5 ** stats.depth(forest).astype(float))


def coarse(forest: Forest, trees: NDArray[np.intp], smallest: float) -> Forest:
    """Return some of the trees, with nodes of less than the ``smallest`` share of rows no longer split.

    Leaf values are dropped; ``count`` holds `rows_of_nodes`, and categorical columns hold codes.
    """
    rows = rows_of_nodes(forest)
    share = rows / rows[forest.tree_offset[:-1]][stats.tree_of(forest)]
    bare = replace(
        forest,
        value=np.zeros((forest.n_nodes, 1)),
        tree_output=np.full(forest.n_trees, -1),
        base_score=np.zeros(1),
        cover=None,
        count=rows,
        gain=None,
        impurity=None,
        inputs=replace(forest.inputs, categories=(), numbers_are_codes=False),
        task="regression",
        classes=None,
        link="identity",
    )
    return prune(bare, share >= smallest, trees).forest


def boxes_of(forest: Forest) -> Boxes:
    """Return the boxes of all leaves: O(n_nodes * features) time and memory."""
    inner = ~forest.is_leaf & ~forest.categorical
    features = {j: q for q, j in enumerate(np.unique(forest.feature[inner]).tolist())}
    column = np.array([features.get(j, 0) for j in range(forest.n_features)] or [0])
    low, high = np.full((forest.n_nodes, len(features)), -np.inf), np.full((forest.n_nodes, len(features)), np.inf)
    for level in stats.levels(forest)[:-1]:
        nodes = level[~forest.is_leaf[level]]
        for child in (forest.left[nodes], forest.right[nodes]):
            low[child], high[child] = low[nodes], high[nodes]
        nodes = nodes[inner[nodes]]
        left, right, q = forest.left[nodes], forest.right[nodes], column[forest.feature[nodes]]
        high[left, q] = np.minimum(high[left, q], forest.threshold[nodes])
        low[right, q] = np.maximum(low[right, q], forest.threshold[nodes])
    rows = rows_of_nodes(forest)[forest.leaves]
    tree = stats.tree_of(forest)[forest.leaves]
    return Boxes(features, low[forest.leaves], high[forest.leaves], rows / np.bincount(tree, rows, minlength=forest.n_trees)[tree])
