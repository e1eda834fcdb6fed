"""Finite-forest stability (Remark 4.17): how far the geometries of two halves of the forest are apart, against the number of trees."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.linalg import LinearOperator, eigsh

from treespec.operators.path import PathMap

if TYPE_CHECKING:
    from treespec.ir import Forest

Array = NDArray[np.float64]

_ROUNDING = 1e-12
_SMALL = 3  # rows up to which ARPACK has no room


@dataclass(frozen=True, eq=False)
class Stability:
    """The half-forest discrepancy as a curve.

    Attributes
    ----------
    n_trees : (n_points,) int array
        K: trees in each half.
    delta : (n_points,) array
        ``Delta_K = |G1 - G2|_op / sqrt(2)`` on tree-normalised Gram matrices (eq. 27 to 29). A diagnostic for when to stop adding
        trees; no bound on the distance to the infinite forest.
    relative : (n_points,) array
        The same, divided by the number of rows: comparable between data sets.
    """

    n_trees: NDArray[np.int64]
    delta: Array
    relative: Array

    @property
    def last_decrease(self) -> float:
        """By which share the last doubling of K lowered Delta_K; 0 where there is one point."""
        if len(self.delta) < 2 or self.delta[-2] == 0:  # two points make a slope
            return 0.0
        return float(1 - self.delta[-1] / self.delta[-2])


def half_forests(forest: Forest, node_weight: NDArray[Any], leaf_id: NDArray[np.integer[Any]], *, random_state: int = 0) -> Stability:
    """Return Delta_K for half the trees, a quarter, an eighth, ... down to one, ascending.

    Trees with weight go to the halves in turn, so that both halves of a boosted ensemble span all rounds. Trees of a boosted ensemble are
    not exchangeable: there the curve says how the paths differ, not how a limit is approached.

    Notes
    -----
    A Lanczos run on the operator for each K, O(n * K) a product; no n-by-n matrix.
    """
    mass = np.add.reduceat(np.asarray(node_weight, dtype=np.float64), forest.tree_offset[:-1])
    alive = np.flatnonzero(mass > 0)
    halves = alive[0::2], alive[1::2]
    top = len(halves[1])
    sizes = [top >> j for j in reversed(range(top.bit_length()))]
    delta = [_discrepancy(forest, node_weight, leaf_id, [h[:K] for h in halves], random_state) for K in sizes]
    n = max(1, len(leaf_id))
    return Stability(np.array(sizes, dtype=np.int64), np.array(delta), np.array(delta) / n)


def _discrepancy(forest: Forest, a: NDArray[Any], leaf_id: NDArray[Any], halves: list[NDArray[Any]], random_state: int) -> float:
    parts = [_some_trees(forest, np.asarray(a), half).features(leaf_id) for half in halves]
    n = len(leaf_id)

    def multiply(v: Array) -> Array:
        V = v.reshape(n, -1)
        out = parts[0].matmat(parts[0].rmatmat(V)) - parts[1].matmat(parts[1].rmatmat(V))
        return np.asarray(out)

    if n <= _SMALL:
        values = np.linalg.eigvalsh(multiply(np.eye(n)))
    else:
        start = np.random.default_rng(random_state).standard_normal(n)
        if np.linalg.norm(multiply(start)) <= _ROUNDING * np.linalg.norm(start):  # equal halves: ARPACK would have nothing to go by
            return 0.0
        operator = LinearOperator((n, n), matvec=multiply, matmat=multiply, dtype=np.dtype(np.float64))
        values = eigsh(operator, k=1, which="LM", v0=start, tol=1e-4, return_eigenvectors=False)
    return float(np.abs(values).max() / np.sqrt(2))


def _some_trees(forest: Forest, a: Array, trees: NDArray[Any]) -> PathMap:
    only = np.zeros_like(a, dtype=np.float64)
    for t in trees:
        nodes = slice(forest.tree_offset[t], forest.tree_offset[t + 1])
        only[nodes] = a[nodes]
    return PathMap(forest, only, normalisation="tree")
