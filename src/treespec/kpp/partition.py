"""What rows say about the nodes that they visit: mass, moments, entropy, and the gain of each split (KPP, section 7.4)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import xlogy

from treespec.operators.incidence import Incidence
from treespec.operators.leaf import LeafIncidence
from treespec.operators.path_table import PathTable

if TYPE_CHECKING:
    from treespec.ir import Forest
    from treespec.kpp.targets import Targets

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Partition:
    """Rows with labels, summed over the nodes of a forest.

    Several values count by their mean (as scikit-learn's impurity does); the classes of one target by their sum (Gini impurity and
    entropy), several such targets by their mean. Entropy is in nats.

    Attributes
    ----------
    forest : Forest
    mass : (n_nodes,) array
        Share of the row weight that visits each node: p(v).
    mean : (n_nodes, k) array
        Mean label, or class shares; 0 at nodes that no row visits.
    square : (n_nodes,) array
        Mean square of the centred labels.
    targets : Targets
    """

    forest: Forest
    mass: Array
    mean: Array
    square: Array
    targets: Targets

    @classmethod
    def of(
        cls, forest: Forest, rows: NDArray[np.integer[Any]] | Incidence, targets: Targets, weight: NDArray[Any] | None = None
    ) -> Partition:
        """Sum rows over the nodes that they visit, by their leaf ids (n, n_trees) or incidence. O(n * n_trees * k + n_nodes * k)."""
        w = np.ones(targets.n_rows) if weight is None else np.asarray(weight, dtype=np.float64)
        w = w / w.sum()
        value = targets.value if targets.kind == "classes" else _centred(targets.value, w)
        table, Z = PathTable(forest), rows if isinstance(rows, Incidence) else LeafIncidence.of(forest, rows)
        columns = np.column_stack([w, w[:, None] * value, w * (value**2).sum(axis=1)])
        return cls.of_sums(forest, table.rmatmat(Z.rmatmat(columns)), targets)

    @classmethod
    def of_sums(cls, forest: Forest, sums: Array, targets: Targets) -> Partition:
        """Return the partition of rows from (n_nodes, k + 2) sums of shares, of shares times labels, and of shares times squares."""
        mass = np.maximum(sums[:, 0], 0.0)
        share = np.divide(1.0, mass, out=np.zeros_like(mass), where=mass > 0)
        return cls(forest, mass, sums[:, 1:-1] * share[:, None], sums[:, -1] * share, targets)

    @property
    def _divisor(self) -> int:
        return self.targets.n_targets

    @cached_property
    def variance(self) -> Array:
        """(n_nodes,) Q(v): variance of the labels at each node; Gini impurity for classes."""
        Q: Array = np.maximum(self.square - (self.mean**2).sum(axis=1), 0.0)
        return Q / self._divisor

    @cached_property
    def entropy(self) -> Array:
        """(n_nodes,) h(v): entropy of the classes at each node (eq. 72), in nats."""
        h: Array = -xlogy(self.mean, self.mean).sum(axis=1) / self._divisor
        return np.where(self.mass > 0, np.maximum(h, 0.0), 0.0)

    @cached_property
    def variance_decrease(self) -> Array:
        """(n_nodes,) the decrease of Q(v) at each split (eq. 68), 0 at leaves: ``pi_L pi_R |mean_L - mean_R|^2``, never negative."""
        inner, left, right, pi_left, pi_right = self._splits()
        out = np.zeros(self.forest.n_nodes)
        out[inner] = pi_left * pi_right * ((self.mean[left] - self.mean[right]) ** 2).sum(axis=1) / self._divisor
        return out

    @cached_property
    def entropy_decrease(self) -> Array:
        """(n_nodes,) the decrease of h(v) at each split (eq. 73), 0 at leaves."""
        inner, left, right, pi_left, pi_right = self._splits()
        out = np.zeros(self.forest.n_nodes)
        h = self.entropy
        out[inner] = np.maximum(h[inner] - pi_left * h[left] - pi_right * h[right], 0.0)
        return out

    def gain(self, decrease: Array) -> float:
        """Return the mean over trees of ``sum p(v) decrease(v)`` (eq. 70, 76 and 77): IG_var or IG_h."""
        return float(self.mass @ decrease) / self.forest.n_trees

    def leaf_risk(self, level: Array) -> float:
        """Return the mean over trees of ``sum p(l) level(l)`` over leaves (eq. 69, 75 and 77)."""
        leaves = self.forest.leaves
        return float(self.mass[leaves] @ level[leaves]) / self.forest.n_trees

    def root_level(self, level: Array) -> float:
        """Return the level at the root, the same for all trees: Var(y) or h of the class shares."""
        return float(level[self.forest.tree_offset[0]])

    def _splits(self) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any], Array, Array]:
        return splits(self.forest, self.mass)


def _centred(value: Array, share: Array) -> Array:
    """Return the columns minus their means: exactly 0 where a column is constant."""
    return np.where(np.ptp(value, axis=0) > 0, value - share @ value, 0.0)


def splits(forest: Forest, mass: Array) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any], Array, Array]:
    """Return the split nodes, their left and right children, and the shares pi_L and pi_R of their mass (eq. 65; 0 where it is 0)."""
    inner = np.flatnonzero(~forest.is_leaf)
    left, right = forest.left[inner], forest.right[inner]
    total = mass[left] + mass[right]
    pi_left = np.divide(mass[left], total, out=np.zeros_like(total), where=total > 0)
    pi_right = np.divide(mass[right], total, out=np.zeros_like(total), where=total > 0)
    return inner, left, right, pi_left, pi_right
