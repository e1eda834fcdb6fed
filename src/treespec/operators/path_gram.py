"""Dense Gram matrices of path features: what two leaves share is the path to where they part."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from treespec.operators.base import Array

if TYPE_CHECKING:
    from treespec.operators.leaf import LeafIncidence
    from treespec.operators.path import PathMap

_BLOCK = 1 << 17  # numbers of the result that stay in cache while the trees pass over them


def leaf_gram(map: PathMap, Z: LeafIncidence, other: LeafIncidence | None = None) -> Array:  # noqa: A002  # the word of the paper
    """Return the dense (n, n') sums over trees of the squared norm that the paths of two rows share.

    Notes
    -----
    For each tree: the leaves that rows reach, in left-to-right order; the paths of two leaves part at the highest of the junctions
    between them, whose path norm is the least. A running minimum gives all pairs; rows then gather.
    """
    second = Z if other is None else other
    out = np.zeros((Z.shape[0], second.shape[0]))
    rank, own = map.table.leaf_rank, map.leaf_norm2[np.argsort(map.table.leaf_rank)]
    step = max(1, _BLOCK // max(1, out.shape[1]))
    buffer = np.empty((min(step, len(out)), out.shape[1]))
    for t in range(Z.n_trees):
        here = _ranks(Z, t, rank)
        there = here if other is None else _ranks(second, t, rank)
        reached, place = np.unique(here if other is None else np.concatenate([here, there]), return_inverse=True)
        if not len(reached):
            continue
        columns = np.take(_shared(reached, map.junction_norm2, own), place[len(place) - len(there) :], axis=1)
        for start in range(0, len(out), step):
            block = out[start : start + step]
            part = buffer[: len(block)]
            np.take(columns, place[start : start + len(block)], axis=0, out=part, mode="clip")
            block += part
    return out


def _ranks(Z: LeafIncidence, t: int, rank: NDArray[np.int64]) -> NDArray[np.int64]:
    low, width, local = Z.tree(t)
    ranks: NDArray[np.int64] = rank[low : low + width][local]
    return ranks


def _shared(reached: NDArray[np.int64], junction_norm2: Array, own: Array) -> Array:
    """Return the (u, u) squared norms that leaves of one tree share, given their ascending ranks."""
    out = np.diag(own[reached])
    if len(reached) > 1:
        between = np.minimum.reduceat(junction_norm2[: reached[-1] + 1], reached[:-1] + 1)
        least = np.full(len(between), np.inf)
        for k, norm2 in enumerate(between, start=1):
            np.minimum(least[:k], norm2, out=least[:k])
            out[k, :k] = least[:k]
        np.maximum(out, out.T, out=out)
    return out
