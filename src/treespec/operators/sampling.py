"""The rows that a booster sampled for each tree, regenerated from its seed.

The generators are internals of the frameworks, so nothing here is believed unless the leaves agree: every function returns None where
the weight or the count of a leaf is not what the model stored.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from treespec.operators.leaf import LeafIncidence

if TYPE_CHECKING:
    from treespec.ir import Forest

Mask = NDArray[np.bool_]

_AHEAD = 4096  # other draws (columns) that may lie between those of two trees
_SAME = 1e-5  # relative; leaf weights are float32 sums
_LIGHTGBM_BLOCK = 1024


def split(n: int, fraction: float, seed: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return the training and the validation rows of scikit-learn's ``train_test_split(test_size=fraction, random_state=seed)``."""
    order = np.random.RandomState(seed).permutation(n)
    n_test = int(np.ceil(fraction * n)) if fraction < 1 else int(fraction)  # a share, or a number of rows
    return order[n_test:], order[:n_test]


def gradient_boosting(n: int, n_trees: int, per_stage: int, subsample: float, seed: int) -> Mask:
    """Return the (n, n_trees) rows of scikit-learn's GradientBoosting with ``subsample`` below 1 and an integer ``random_state``."""
    rng = np.random.RandomState(seed)
    wanted = max(1, int(subsample * n))
    out = np.empty((n, n_trees), bool)
    for start in range(0, n_trees, per_stage):
        out[:, start : start + per_stage] = _reservoir(rng.uniform(size=n), wanted)[:, None]
        for _ in range(per_stage):
            rng.randint(0, 2**31 - 1)  # each tree draws its own seed
    return out


def _reservoir(u: NDArray[np.float64], wanted: int) -> Mask:
    """Choose ``wanted`` rows: row i when ``u[i] * (rows to come) < rows still wanted``."""
    chosen, n = 0, len(u)
    out = np.zeros(n, bool)
    for i, scaled in enumerate((u * np.arange(n, 0, -1)).tolist()):
        if scaled < wanted - chosen:
            out[i] = True
            chosen += 1
    return out


def xgboost(forest: Forest, Z: LeafIncidence, weight: NDArray[np.float64], subsample: float, seed: int, *, exact: bool) -> Mask | None:
    """Return the (n, n_trees) rows of XGBoost's uniform sampling, or None.

    ``hist`` and ``approx`` seed a multiplicative generator with one draw a tree; ``exact`` takes two draws a row.
    """
    if forest.cover is None or not 0 <= seed < 2**32:
        return None
    n, n_trees = Z.shape[0], Z.n_trees
    share = float(np.float32(subsample))
    draws_a_tree = 2 * n if exact else 1
    total = n_trees * draws_a_tree + _AHEAD * (1 + n_trees)
    raw = np.random.RandomState(seed).randint(0, 2**32, size=total, dtype=np.uint32).astype(np.uint64)
    power = np.cumprod(np.full(n, 16807, np.uint64))
    out = np.empty((n, n_trees), bool)
    position = 0
    for t in range(n_trees):
        for start in range(position, min(position + _AHEAD, total - draws_a_tree + 1)):
            if exact:
                pair = raw[start : start + 2 * n].astype(np.float64)
                mask = (pair[::2] + pair[1::2] * 2.0**32) / 2.0**64 < share
            else:
                x = (power * raw[start]) & np.uint64(2**63 - 1)
                mask = (x - np.uint64(1)) / 2.0**63 < share
            if _agrees(forest, Z, t, weight * mask, forest.cover):
                out[:, t] = mask
                position = start + draws_a_tree
                break
        else:
            return None
    return out


def lightgbm(forest: Forest, Z: LeafIncidence, fraction: float, freq: int, seed: int) -> Mask | None:
    """Return the (n, n_trees) rows of LightGBM's bagging, or None: a linear congruential generator for each block of 1,024 rows."""
    if forest.count is None:
        return None
    n, n_trees = Z.shape[0], Z.n_trees
    n_blocks = -(-n // _LIGHTGBM_BLOCK)
    state = (np.arange(n_blocks, dtype=np.uint64) + np.uint64(seed)) & np.uint64(2**32 - 1)
    length = np.minimum(_LIGHTGBM_BLOCK, n - np.arange(n_blocks) * _LIGHTGBM_BLOCK)
    out = np.empty((n, n_trees), bool)
    for t in range(n_trees):
        if t % freq:
            out[:, t] = out[:, t - 1]
        else:
            out[:, t], state = _lightgbm_draw(state, length, n, fraction)
        if not _agrees(forest, Z, t, out[:, t].astype(np.float64), forest.count):
            return None
    return out


def _lightgbm_draw(state: NDArray[np.uint64], length: NDArray[np.int64], n: int, fraction: float) -> tuple[Mask, NDArray[np.uint64]]:
    """Draw once a row: ``x <- 214013 x + 2531011 mod 2^32`` in each block, all steps of a block at once."""
    power, shift = _lightgbm_jumps()
    x = (power * state[:, None] + shift) & np.uint64(2**32 - 1)  # (n_blocks, 1024): the generator after 1, 2, ... steps
    kept = ((x >> np.uint64(16)) & np.uint64(0x7FFF)) / 32768.0 < fraction
    return kept.ravel()[:n], x[np.arange(len(x)), length - 1]


@cache
def _lightgbm_jumps() -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    """Return factors and summands (1024,) of i steps at once."""
    power, shift = [], []
    a, c = 1, 0
    for _ in range(_LIGHTGBM_BLOCK):
        a, c = a * 214013 % 2**32, (c * 214013 + 2531011) % 2**32
        power.append(a)
        shift.append(c)
    return np.array(power, np.uint64), np.array(shift, np.uint64)


def _agrees(forest: Forest, Z: LeafIncidence, t: int, weight: NDArray[np.float64], stored: NDArray[Any]) -> bool:
    """Return whether the rows' weights add up to what is stored in the root and in every leaf of tree t."""
    root = stored[forest.tree_offset[t]]
    if abs(weight.sum() - root) > _SAME * root + 0.5 * (stored is forest.count):
        return False
    low, width, local = Z.tree(t)
    nodes = np.arange(forest.tree_offset[t], forest.tree_offset[t + 1])
    leaves = nodes[forest.is_leaf[nodes]]
    sums = np.zeros(len(leaves))
    first = low - forest.leaf_index[leaves[0]]
    sums[first : first + width] = np.bincount(local, weight, minlength=width)
    return bool((np.abs(sums - stored[leaves]) <= _SAME * np.maximum(stored[leaves], 1.0)).all())
