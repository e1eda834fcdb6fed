"""The node-indexed, path-isometric feature map of a forest (KPP, section 4), as an operator on rows."""

from __future__ import annotations

from copy import copy
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, diags_array

from treespec.errors import DataMismatchError
from treespec.ir import Forest, stats
from treespec.operators.base import Array, Operator, frozen
from treespec.operators.incidence import Incidence
from treespec.operators.leaf import LeafIncidence
from treespec.operators.path_gram import leaf_gram
from treespec.operators.path_table import PathTable
from treespec.operators.rows import here
from treespec.operators.sorted_leaves import SortedLeaves

_PREPARED = 1 << 24  # (row, tree) pairs

Normalisation = Literal["forest", "tree"]


class PathMap:
    """The feature map ``phi(x) = (scale(v) 1{x reaches v})_v`` of a forest with node weights; no rows yet.

    ``scale(v)^2`` is the edge weight ``omega(v) = (a(parent) + a(v)) / 2`` (eq. 9), at roots ``a(root) / 2`` (eq. 13), divided by the
    normalisation. Squared distances are then normalised path distances (eq. 22), and ``|phi(x)| <= 1`` (eq. 23).

    Parameters
    ----------
    forest : Forest
    node_weight : (n_nodes,) array
        The weights ``a``: finite, 0 and more, not all 0.
    normalisation : {"forest", "tree"}
        "forest": by ``S_T``, the sum of all weights (eq. 21). "tree": each tree by its own sum and by the number of trees that have
        any (eq. 27 and 29), so that every tree counts the same.
    leaf_weights : bool
        Whether leaves may have weights, by the endpoint-leaf embedding of Appendix B (eq. 86 to 88): a leaf's coordinate is
        ``sqrt(a(parent) / 2 + a(leaf))``, and two rows in different leaves of a tree are further apart by the weights of both leaves.

    Raises
    ------
    DataMismatchError
        If the weights are not as said, or are positive at a leaf without ``leaf_weights``.
    """

    def __init__(
        self, forest: Forest, node_weight: NDArray[Any], *, normalisation: Normalisation = "forest", leaf_weights: bool = False
    ) -> None:
        a = np.array(node_weight, dtype=np.float64)
        _check(forest, a, leaf_weights=leaf_weights)
        self.forest, self.node_weight = forest, frozen(a)
        self.normalisation, self.leaf_weights = normalisation, leaf_weights
        self.table = PathTable(forest)
        parent = self.table.parent
        squared = np.where(parent >= 0, (a[parent] + a) / 2, a / 2)
        if leaf_weights:
            squared = np.where(forest.is_leaf & (parent >= 0), a[parent] / 2 + a, squared)
        self.scale = frozen(np.sqrt(squared / self._mass(a)))

    def _mass(self, a: Array) -> Array | float:
        if self.normalisation == "forest":
            return float(a.sum())
        mass = np.add.reduceat(a, self.forest.tree_offset[:-1])
        each = np.where(mass > 0, mass * np.count_nonzero(mass), 1.0)
        return each[stats.tree_of(self.forest)]

    @property
    def n_coordinates(self) -> int:
        """Number of coordinates m: one for each node, roots and leaves included."""
        return len(self.scale)

    @cached_property
    def leaf_norm2(self) -> Array:
        """(n_leaves,) what each leaf adds to the squared norm of the rows that reach it."""
        return frozen(self.table.matvec(self.scale**2))

    @cached_property
    def junction_norm2(self) -> Array:
        """(n_leaves,) squared norm that the leaves of rank r - 1 and r share: that of the path to where they part."""
        shared = self.table.push_down(self.scale[:, None] ** 2)[:, 0]
        return frozen(np.where(self.table.junction >= 0, shared[self.table.junction], 0.0))

    def on_leaves(self, V: NDArray[Any]) -> Array:
        """Return (n_leaves, k) what each leaf adds for coefficients V (n_coordinates, k): pushed down the trees."""
        return self.table.matmat(self.scale[:, None] * V)

    def on_nodes(self, U: NDArray[Any]) -> Array:
        """Return the transpose of `on_leaves` times U (n_leaves, k): pulled up the trees."""
        out: Array = self.scale[:, None] * self.table.rmatmat(U)
        return out

    def leaf_values(self, coef: NDArray[Any]) -> Array:
        """Return (n_leaves,) or (n_leaves, k): what each leaf adds to the linear score ``Phi @ coef``."""
        w = np.asarray(coef, dtype=np.float64)
        out = self.on_leaves(w.reshape(len(w), -1))
        return out if w.ndim > 1 else out[:, 0]

    def features(self, leaf_id: NDArray[np.integer[Any]] | Incidence) -> PathFeatures:
        """Return the (n, m) operator of rows that reach the leaves ``leaf_id`` (n, n_trees), given as node ids, or of an incidence."""
        return PathFeatures(self, leaf_id if isinstance(leaf_id, Incidence) else LeafIncidence.of(self.forest, leaf_id))


class PathFeatures(Operator):
    """The (n, m) matrix ``Phi`` of path features: leaf incidence times path table times ``diag(scale)``, never multiplied out.

    Parameters
    ----------
    map : PathMap
    Z : Incidence (n, n_leaves)

    Notes
    -----
    ``Phi @ w`` and ``Phi.T @ r`` cost O(n * n_trees + n_nodes) a column. The expanded matrix (`to_sparse`) has n * n_trees * depth
    entries.
    """

    def __init__(self, map: PathMap, Z: Incidence) -> None:  # noqa: A002  # the word of the paper
        super().__init__((Z.shape[0], map.n_coordinates))
        self.map, self.Z = map, Z
        self._incidence: Incidence | SortedLeaves = Z

    def _forward(self, V: Array) -> Array:
        return self._incidence.matmat(self.map.on_leaves(V))

    def _backward(self, U: Array) -> Array:
        return self.map.on_nodes(self._incidence.rmatmat(U))

    def gather(self, V: NDArray[Any]) -> Array:
        """Return ``Phi @ V``, where the rows are (`Incidence.gather`)."""
        return self.Z.gather(self.map.on_leaves(V))

    def normal(self, V: NDArray[Any], weight: Any = None) -> Array:
        """Return ``Phi.T diag(weight) Phi V`` (m, k) in one pass over the rows."""
        return self.map.on_nodes(self.Z.normal(self.map.on_leaves(V), weight))

    def prepared(self) -> PathFeatures:
        """Return the same operator made ready for many products; itself where that would take more than 200 MB."""
        if self.shape[0] * self.Z.n_trees > _PREPARED or not isinstance(self.Z, LeafIncidence) or self.Z.compact:
            return self
        new = copy(self)
        new._incidence = SortedLeaves(self.Z)
        return new

    def rows(self, rows: slice | NDArray[np.integer[Any]]) -> PathFeatures:
        """Return the same features of some rows."""
        return PathFeatures(self.map, LeafIncidence(here(self.Z, "some of the rows").leaf_index(rows), self.Z.shape[1]))

    def row_norm2(self) -> Array:
        """Return the (n,) squared norms of the rows: the diagonal of the Gram matrix."""
        norm2: Array = self.Z.gather(self.map.leaf_norm2[:, None])[:, 0]
        return norm2

    def column_square(self, weight: NDArray[Any]) -> Array:
        """Return the (m,) sums ``sum_i weight[i] Phi[i, v]^2``: what a diagonal preconditioner needs."""
        return self.map.scale * self.rmatvec(np.asarray(weight, dtype=np.float64))

    def gram(self, other: PathFeatures | None = None) -> Array:
        """Return the dense (n, n') Gram matrix ``Phi @ other.T`` (eq. 24); ``other`` defaults to these rows.

        Notes
        -----
        O(n * n' * n_trees) time, and (n + n')^2 numbers of working memory for each tree in turn. Entries are exact sums of path norms:
        nothing cancels.
        """
        what = "a dense Gram matrix"
        return leaf_gram(self.map, here(self.Z, what), None if other is None else here(other.Z, what))

    def distance(self, other: PathFeatures | None = None) -> Array:
        """Return the dense (n, n') normalised path distances ``delta_T`` (eq. 22 and 25), squared Euclidean distances of the features."""
        second = self if other is None else other
        out = self.row_norm2()[:, None] + second.row_norm2()[None, :] - 2 * self.gram(other)
        return np.maximum(out, 0.0, out=out)

    def to_sparse(self) -> csr_array:
        """Return Phi as a CSR array with n * n_trees * depth entries, those of zero-weight nodes left out."""
        phi = here(self.Z, "expanded path features").to_sparse() @ (self.map.table.to_sparse() @ diags_array(self.map.scale))
        phi = csr_array(phi)
        phi.eliminate_zeros()
        phi.sort_indices()
        return phi


def _check(forest: Forest, a: Array, *, leaf_weights: bool) -> None:
    if a.shape != (forest.n_nodes,):
        raise DataMismatchError.expected(f"{forest.n_nodes} node weights", f"shape {a.shape}", "give one weight a node")
    if not np.isfinite(a).all() or (a < 0).any():
        raise DataMismatchError.expected("finite node weights of 0 and more", "others", "clip them at 0")
    if not a.any():
        raise DataMismatchError.expected(
            "a node weight above 0",
            "weights that are all 0",
            "a forest without splits has no path metric; for others weights='uniform' always works",
        )
    if not leaf_weights and a[forest.is_leaf].any():
        raise DataMismatchError.expected(
            "weights of 0 at leaves", "a positive weight at a leaf", "use leaf_weights=True, the endpoint-leaf embedding"
        )
