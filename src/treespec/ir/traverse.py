"""Reference traversal: clear first, vectorised over rows and trees, in row blocks.

Frameworks and Treelite route faster (see `treespec.adapters`); this is what they are checked against.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from treespec.ir.forest import Forest

_BLOCK = 1 << 20  # (row, tree) pairs routed at a time: some 30 MB of working memory
_CODE_LIMIT = 2.0**31


def apply(forest: Forest, encoded: NDArray[np.floating[Any]]) -> NDArray[np.int32]:
    """Return the (n, n_trees) ids of the leaves that rows reach.

    Parameters
    ----------
    forest : Forest
    encoded : (n, n_features) array
        From `Forest.encode`.

    Notes
    -----
    O(n * n_trees * depth) time; the result plus about 30 MB of memory.
    """
    n, n_trees = len(encoded), forest.n_trees
    out = np.empty((n, n_trees), np.int32)
    step = max(1, _BLOCK // max(1, n_trees))
    for start in range(0, n, step):
        out[start : start + step] = _apply_block(forest, encoded[start : start + step])
    return out


def _apply_block(forest: Forest, rows: NDArray[np.floating[Any]]) -> NDArray[np.int32]:
    n = len(rows)
    node = np.tile(forest.tree_offset[:-1].astype(np.int32), n)
    flat = rows.ravel()
    active = np.flatnonzero(forest.left[node] != -1)
    at, start = node[active], np.repeat(np.arange(n) * rows.shape[1], forest.n_trees)[active]  # of the row, in ``flat``
    while len(active):
        x = flat.take(start + forest.feature.take(at))
        at = np.where(goes_left(forest, at, x), forest.left.take(at), forest.right.take(at))
        node[active] = at
        inner = forest.left.take(at) != -1
        active, at, start = active[inner], at[inner], start[inner]
    return node.reshape(n, forest.n_trees)


def goes_left(forest: Forest, node: NDArray[np.integer[Any]], x: NDArray[np.floating[Any]]) -> NDArray[np.bool_]:
    """Return, for pairs of an inner node and the encoded value of its feature, whether the value goes left."""
    left = np.asarray(x <= forest.threshold.take(node))  # NaN thresholds of categorical splits give False
    if forest.inputs.categorical:
        at = np.flatnonzero(forest.categorical.take(node))
        left[at] = _listed(forest, node[at], x[at]) == forest.category_left[node[at]]
    missing = np.flatnonzero(np.isnan(x))
    left[missing] = forest.default_left[node[missing]]
    return left


def _listed(forest: Forest, node: NDArray[np.integer[Any]], x: NDArray[np.floating[Any]]) -> NDArray[np.bool_]:
    """Return whether the category of each value is among those that its node lists (sorted within a node)."""
    inside = (x >= 0) & (x < _CODE_LIMIT)
    code = np.where(inside, x, 0).astype(np.int64)
    key = forest_category_key(forest)
    wanted = node.astype(np.int64) << 32 | code
    if not len(key):
        return np.zeros(len(x), bool)
    position = np.minimum(np.searchsorted(key, wanted), len(key) - 1)
    return np.asarray((key[position] == wanted) & inside)


def forest_category_key(forest: Forest) -> NDArray[np.int64]:
    """Return the sorted (node, category) pairs as one integer each."""
    node = np.repeat(np.arange(forest.n_nodes, dtype=np.int64), np.diff(forest.category_offset))
    return np.sort(node << 32 | forest.category.astype(np.int64))


def margin(forest: Forest, leaf_id: NDArray[np.integer[Any]], start: NDArray[np.float64] | None = None) -> NDArray[np.float64]:
    """Return the (n, n_outputs) margins of rows that reach the leaves ``leaf_id`` (n, n_trees).

    Added up tree after tree, in the framework's precision, so that the result is bit-equal to the framework's where that is
    possible: boosters start from the base score, or from ``start`` (n, n_outputs).

    Notes
    -----
    O(n * n_trees) time for boosters with one tree an output, n_outputs times that for leaves with vectors.
    """
    dtype = np.dtype(forest.sum_dtype)
    value = forest.value.astype(dtype)
    total = np.zeros((len(leaf_id), forest.n_outputs), dtype)
    if forest.aggregation == "sum":
        total += (forest.base_score if start is None else start).astype(dtype)
    for t in range(forest.n_trees):
        k = forest.tree_output[t]
        if k >= 0:
            total[:, k] += value[leaf_id[:, t], k]
        else:
            total += value[leaf_id[:, t]]
    if forest.aggregation == "mean":
        total = forest.base_score + total / max(1, forest.n_trees)
    return total.astype(np.float64)
