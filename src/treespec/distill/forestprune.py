"""Compressor ``forestprune``: the depth to which each tree is kept, chosen together with that of all others.

Source: Liu and Mazumder, "ForestPrune: compact depth-pruned tree ensembles" (AISTATS 2023). Minimised is the squared error of the ensemble
plus a price for each split, over one depth a tree (0 leaves the tree out), by block coordinate descent: a tree at a time, all its depths
tried against the residual of the others. Trees are then reweighted by ridge regression. The price is found by bisection, each solution
starting from the one before.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from treespec.distill.grove import Array, Grove
from treespec.ir import ALL_OUTPUTS, stats

_DEEPEST = 16
_NUMBERS = 24_000_000  # node values held at a time; rows are drawn where there would be more
_SWEEPS = 5
_PRICES = 12
_RIDGE = 1e-3
_TINY = 1e-12
_A_TREE = 16  # splits of a tree of a small forest, to begin with


def prune_layers(grove: Grove, n_splits: int) -> Grove:
    """Return the grove with at most ``n_splits`` splits."""
    if grove.n_splits <= n_splits:
        return grove
    layers = _Layers(grove)
    chosen, weight = layers.search(n_splits)
    tree = stats.tree_of(grove.forest)
    weighted = grove.with_values(grove.forest.value * weight[tree][:, None])
    return weighted.cut(stats.depth(grove.forest) < layers.depths[chosen][tree]).balanced()


class _Layers:
    """What each tree says of each row at each depth, and what it costs.

    Attributes
    ----------
    depths : (d,) integers
        Depths that are tried, 0 first.
    """

    def __init__(self, grove: Grove) -> None:
        f = grove.forest
        self.grove = grove
        depth, tree = stats.depth(f), stats.tree_of(f)
        deepest = int(depth.max(initial=0))
        self.depths = np.unique([*range(min(deepest, _DEEPEST) + 1), deepest])
        k = f.n_outputs
        most = _NUMBERS // max(1, f.n_trees * len(self.depths) * (k if (f.tree_output == ALL_OUTPUTS).any() else 1))
        n = len(grove.leaf_id)
        self.rows = np.arange(n) if n <= most else np.sort(np.random.default_rng(0).choice(n, most, replace=False))
        bend, rest = grove.goal.working(np.repeat(grove.goal.start[None], n, axis=0))
        self.bend, self.rest = bend[self.rows], rest[self.rows]
        inner = ~f.is_leaf
        self.cost = np.stack([np.bincount(tree[inner & (depth < d)], minlength=f.n_trees) for d in self.depths], axis=1).astype(float)
        self.outputs = [np.arange(k) if o == ALL_OUTPUTS else np.array([o]) for o in f.tree_output]
        above = stats.ancestors(f, self.depths)
        leaf = grove.leaf_id[self.rows]
        self.says: list[NDArray[np.float32]] = []
        for t in range(f.n_trees):
            own = self.outputs[t]
            value = f.value[above[:, leaf[:, t]]][:, :, own].astype(np.float32)  # (depths, rows, outputs)
            mean = (value * self.bend[:, own]).sum(axis=1, keepdims=True) / self.bend[:, own].sum(axis=0)
            centred = (value - mean) * np.sqrt(self.bend[:, own])
            self.says.append(centred.reshape(len(self.depths), -1).astype(np.float32))
        self.target = (self.rest * np.sqrt(self.bend)).astype(np.float32)
        self.square = np.stack([(s * s).sum(axis=1) for s in self.says]).astype(float)

    def search(self, n_splits: int) -> tuple[NDArray[np.intp], Array]:
        """Return the place in ``depths`` and the weight of each tree, for the lowest price at which at most ``n_splits`` are left."""
        n_trees = len(self.says)
        first = np.full(n_trees, max(1.0, n_trees / max(1, n_splits // _A_TREE)) if self.grove.alike else 1.0)
        total = float((self.target**2).sum())
        low, high = np.log(1e-9 * total), np.log(max(total, 1e-300))
        best: tuple[NDArray[np.intp], Array] = np.zeros(n_trees, np.intp), np.zeros(n_trees)
        start = np.zeros(n_trees, np.intp), first
        for _ in range(_PRICES):
            price = (low + high) / 2
            found = self.descend(np.exp(price), *start)
            if self._splits(found[0]) <= n_splits:
                best, high = found, price
            else:
                low = price
            start = found[0], np.where(found[0] > 0, found[1], first)
        return best

    def _splits(self, chosen: NDArray[np.intp]) -> float:
        return float(self.cost[np.arange(len(chosen)), chosen].sum())

    def descend(self, price: float, chosen: NDArray[np.intp], weight: Array) -> tuple[NDArray[np.intp], Array]:
        """Return depths and weights from which no tree alone can improve (or after six sweeps)."""
        chosen, weight = chosen.copy(), weight.copy()
        for _ in range(_SWEEPS):
            before = chosen.copy()
            rest = self._rest(chosen, weight)
            for t, says in enumerate(self.says):
                own = self.outputs[t]
                part = rest[:, own].ravel() + np.float32(weight[t]) * says[chosen[t]]
                along = np.maximum(says @ part, 0)
                worth = along**2 / np.maximum(self.square[t], _TINY) - price * self.cost[t]
                chosen[t] = int(worth.argmax())
                weight[t] = along[chosen[t]] / max(self.square[t, chosen[t]], _TINY) if chosen[t] else weight[t]
                rest[:, own] = (part - np.float32(weight[t]) * says[chosen[t]]).reshape(-1, len(own))
            weight = self._weights(chosen, weight)
            if (chosen == before).all():
                break
        return chosen, weight

    def _rest(self, chosen: NDArray[np.intp], weight: Array) -> NDArray[np.float32]:
        rest = self.target.copy()
        for t in np.flatnonzero(chosen):
            rest[:, self.outputs[t]] -= (np.float32(weight[t]) * self.says[t][chosen[t]]).reshape(len(rest), -1)
        return rest

    def _weights(self, chosen: NDArray[np.intp], weight: Array) -> Array:
        """Return the trees' weights by ridge regression, those of trees that are left out unchanged."""
        used = np.flatnonzero(chosen)
        if not len(used):
            return weight
        wide = np.zeros((len(used), *self.target.shape), np.float32)
        for row, t in zip(wide, used, strict=True):
            row[:, self.outputs[t]] = self.says[t][chosen[t]].reshape(len(row), -1)
        X = wide.reshape(len(used), -1)
        gram = (X @ X.T).astype(float)
        solved = np.linalg.solve(gram + _RIDGE * np.trace(gram) / len(used) * np.eye(len(used)), X @ self.target.ravel())
        out = weight.copy()
        out[used] = solved
        return out
