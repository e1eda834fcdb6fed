"""Refits the leaves of all trees at once: ridge on their 0/1 indicators (Ren et al. 2015, "Global refinement of random forest").

Leaf values move from where they are; alpha holds them back, so that a large one keeps them and a small one fits the rows alone.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.linalg import LinearOperator, cg

from treespec.distill.grove import Array, Grove
from treespec.ir import ALL_OUTPUTS, Forest

_NEWTON = 4
_STEPS = 40  # of conjugate gradients
_TOLERANCE = 1e-3


def refit(grove: Grove, alpha: float) -> Grove:
    """Return the grove with the leaf values that minimise its loss plus ``alpha`` times the squared change.

    Parameters
    ----------
    alpha : float
        In rows of mean weight: how many rows' worth each leaf is held back by.

    Notes
    -----
    Conjugate gradients, one output after the other: some 40 passes over the (n, n_trees) leaves, and four times that where the loss is
    not squared. O(n * n_trees) memory.
    """
    forest, goal = grove.forest, grove.goal
    value, base = forest.value.copy(), forest.base_score.copy()
    parts = [_design(forest, grove.leaf_id, j) for j in range(forest.n_outputs)]
    score = grove.score.copy()
    for _ in range(1 if goal.loss == "squared" else _NEWTON):
        bend, rest = goal.working(score)
        for j, (Z, leaves) in enumerate(parts):
            shift = float(np.average(rest[:, j], weights=bend[:, j]))
            change = ridge(Z, rest[:, j] - shift, bend[:, j], alpha * float(bend[:, j].mean()))
            base[j] += shift
            value[leaves, j] += change
            score[:, j] += shift + Z @ change
    return grove.with_values(value, base)


def _design(forest: Forest, leaf_id: NDArray[np.int32], output: int) -> tuple[csr_array, NDArray[np.int32]]:
    """Return the 0/1 matrix of the leaves of the trees that add to an output, and the node of each column."""
    trees = np.flatnonzero((forest.tree_output == ALL_OUTPUTS) | (forest.tree_output == output))
    where = forest.leaf_index[leaf_id[:, trees]]
    used, column = np.unique(where, return_inverse=True)
    start = np.arange(len(leaf_id) + 1) * len(trees)
    Z = csr_array((np.ones(where.size), column.ravel(), start), shape=(len(leaf_id), len(used)))
    return Z, forest.leaves[used]


def ridge(Z: csr_array, y: Array, weight: Array, alpha: float) -> Array:
    """Return w that minimises ``sum weight (y - Z w)^2 + alpha |w|^2``, to a relative residual of 0.001."""
    if not Z.shape[1]:
        return np.zeros(0)
    transposed = Z.T.tocsr()
    diagonal = transposed.multiply(transposed) @ weight + alpha
    normal = LinearOperator((Z.shape[1],) * 2, matvec=lambda v: transposed @ (weight * (Z @ v)) + alpha * v, dtype=np.float64)
    scale = LinearOperator((Z.shape[1],) * 2, matvec=lambda v: v / diagonal, dtype=np.float64)
    w, _ = cg(normal, transposed @ (weight * y), rtol=_TOLERANCE, maxiter=_STEPS, M=scale)
    return np.asarray(w)
