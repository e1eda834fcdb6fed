"""A forest with fewer splits: some trees, cut at given nodes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from treespec.ir import stats

if TYPE_CHECKING:
    from treespec.ir.forest import Forest


@dataclass(frozen=True, eq=False)
class Pruned:
    """What `prune` returns.

    Attributes
    ----------
    forest : Forest
    stand_in : (n_nodes,) int32
        For each node of the forest that was pruned, the node that rows in it are in now: itself, or the ancestor that became a leaf; -1
        where its tree is gone.
    origin : (n_kept,) int64
        For each node of the new forest, which node it was.
    """

    forest: Forest
    stand_in: NDArray[np.int32]
    origin: NDArray[np.int64]

    def route(self, leaf_id: NDArray[np.integer[Any]], trees: NDArray[np.integer[Any]] | None = None) -> NDArray[np.int32]:
        """Return the leaves that rows reach now, from those (n, n_trees) that they reached; ``trees`` as for `prune`."""
        return np.asarray(self.stand_in[leaf_id if trees is None else leaf_id[:, trees]])


def prune(forest: Forest, split: NDArray[np.bool_], trees: NDArray[np.integer[Any]] | None = None, **changes: Any) -> Pruned:
    """Return the forest with only the inner nodes of ``split`` still split.

    Parameters
    ----------
    split : (n_nodes,) bool
        Ignored at leaves, and below a node that is not split.
    trees : integer array, optional
        Which trees to keep, in this order; by default all.
    **changes
        Other fields of the new forest. A node that becomes a leaf has the value that ``forest.value`` holds for it, which must be finite
        (`node_means` fills it in).

    Notes
    -----
    O(n_nodes) time and memory.
    """
    trees = np.arange(forest.n_trees) if trees is None else np.asarray(trees)
    kept, here = np.zeros(forest.n_nodes, bool), np.zeros(forest.n_nodes, bool)
    kept[forest.tree_offset[:-1][trees]] = True
    above = np.arange(forest.n_nodes)
    for level in stats.levels(forest)[:-1]:
        inner = level[~forest.is_leaf[level]]
        open_ = inner[kept[inner] & split[inner]]
        here[open_] = kept[forest.left[open_]] = kept[forest.right[open_]] = True
        shut = inner[~here[inner]]
        above[forest.left[shut]] = above[forest.right[shut]] = above[shut]
    tree = stats.tree_of(forest)
    rank = np.empty(forest.n_trees, np.int64)
    rank[trees] = np.arange(len(trees))
    node = np.flatnonzero(kept)
    node = node[np.argsort(rank[tree[node]], kind="stable")]
    new = np.full(forest.n_nodes + 1, -1, np.int32)  # the last entry is for LEAF
    new[node] = np.arange(len(node))
    at = here[node]
    width = np.diff(forest.category_offset) * here
    codes = [forest.category[forest.category_offset[v] : forest.category_offset[v + 1]] for v in node[width[node] > 0]]
    known = {name: None if (a := getattr(forest, name)) is None else a[node] for name in ("cover", "count", "gain", "impurity")}
    pruned = replace(
        forest,
        tree_offset=np.concatenate([[0], np.cumsum(np.bincount(tree[node], minlength=forest.n_trees)[trees])]),
        left=np.where(at, new[forest.left[node]], -1),
        right=np.where(at, new[forest.right[node]], -1),
        feature=np.where(at, forest.feature[node], -1),
        threshold=np.where(at, forest.threshold[node], np.nan),
        default_left=forest.default_left[node],
        category_offset=np.concatenate([[0], np.cumsum(width[node])]),
        category=np.concatenate([*codes, np.empty(0, np.int32)]),
        category_left=forest.category_left[node],
        categorical=forest.categorical[node] & at,
        native_id=None,
        **({"value": forest.value[node], "tree_output": forest.tree_output[trees]} | known | changes),
    )
    return Pruned(pruned, new[above], node)


def node_means(forest: Forest, weight: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return (n_nodes, n_outputs) node values: at an inner node the mean of the leaves below it.

    Parameters
    ----------
    weight : (n_nodes,)
        Weight of each leaf in these means (entries of inner nodes are ignored); where all leaves below a node have none, they count alike.
    """
    leaf = forest.is_leaf
    plain = stats.pull_up(forest, leaf.astype(float))
    at_leaf = np.where(leaf, weight, 0.0)
    total = stats.pull_up(forest, at_leaf)
    own = np.where(leaf[:, None], forest.value, 0.0)
    weighted = stats.pull_up(forest, own * at_leaf[:, None])
    alike = stats.pull_up(forest, own)
    some = total > 0
    mean = np.where(some[:, None], weighted / np.where(some, total, 1.0)[:, None], alike / plain[:, None])
    return np.asarray(np.where(leaf[:, None], forest.value, mean))


def best_splits(forest: Forest, gain: NDArray[np.float64], n_splits: int) -> NDArray[np.bool_]:
    """Return the (n_nodes,) splits to keep so that about ``n_splits`` are left: those with the largest gain in or below them.

    Sets for fewer splits are within those for more. Ties are kept or cut together, so that there are at most ``n_splits``.
    """
    inner = ~forest.is_leaf
    score = np.where(inner, gain, -np.inf)
    for level in reversed(stats.levels(forest)[:-1]):
        nodes = level[inner[level]]
        score[nodes] = np.maximum(score[nodes], np.maximum(score[forest.left[nodes]], score[forest.right[nodes]]))
    if n_splits >= int(inner.sum()):
        return inner
    least = np.partition(score[inner], -n_splits - 1)[-n_splits - 1]  # the largest that must go
    return np.asarray(inner & (score > least))
