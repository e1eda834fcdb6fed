"""`RemoteLabels`: labels that stay with the workers beside their rows; only sums over rows come back."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from treespec.kpp.partition import Partition
from treespec.kpp.ridge import encode
from treespec.kpp.targets import CLASS_TASKS, Targets
from treespec.operators.path_table import PathTable

if TYPE_CHECKING:
    from treespec.ir import Forest
    from treespec.operators.incidence import Incidence
    from treespec.operators.leaf import LeafIncidence
    from treespec.operators.rows import BlockRows

Array = NDArray[np.float64]


class RemoteLabels:
    """Labels and weights of rows in blocks, and the sums that KPP needs of them.

    Parameters
    ----------
    forest : Forest
    data : BlockRows
        With labels.

    Attributes
    ----------
    empty : Targets
        Of no rows: the kind of labels and their classes.
    total : float
        Sum of the row weights.
    """

    def __init__(self, forest: Forest, data: BlockRows) -> None:
        self.Z: Incidence = data.table
        y: Any = data.y
        self._rows = (y, data.sample_weight)
        classes = forest.classes
        if classes is None and forest.task in CLASS_TASKS:
            classes = (np.unique(np.concatenate(self.Z.each(_classes, rows=(y,)))),)
        self._meta = SimpleNamespace(classes=classes, task=forest.task)  # what `Targets.of` asks of a forest, without its trees
        width = y.shape[1] if y.ndim > 1 else 1
        first = np.repeat([c[0] for c in classes or ()], 1)
        self.empty = _targets(first[None] if classes else np.zeros((1, width)), self._meta).take(np.empty(0, np.int64))
        self.total = float(self.Z.counts(data.sample_weight).sum()) / max(1, self.Z.n_trees)

    def mean(self, *, indicators: bool) -> Array:
        """Return the (k,) weighted means of the labels: values, or indicators of the classes or -1 and +1 for them."""
        return np.asarray(self.Z.total(_sum, self._meta, indicators, rows=self._rows) / self.total)

    def centred_sums(self, mean: Array) -> Array:
        """Return (n_leaves, k) weighted sums of the labels, as ridge takes them, minus their means."""
        return self.Z.total(_centred_sums, self._meta, mean, rows=self._rows)

    def partition(self, forest: Forest) -> Partition:
        """Return what the labels say about the nodes of the forest; see `Partition.of`."""
        centre = np.zeros(self.empty.value.shape[1])
        if self.empty.kind == "values":
            ends = np.stack(self.Z.each(_ends, self._meta, rows=self._rows))
            same = ends[:, 0].min(axis=0) == ends[:, 1].max(axis=0)
            centre = np.where(same, ends[0, 0], self.mean(indicators=True))  # exactly 0 where a column is constant
        sums = self.Z.total(_moments, self._meta, centre, self.total, rows=self._rows)
        return Partition.of_sums(forest, PathTable(forest).rmatmat(sums), self.empty)


def _targets(y: NDArray[Any], meta: Any) -> Targets:
    return Targets.of(meta, y)


def _classes(block: LeafIncidence, y: NDArray[Any]) -> NDArray[Any]:
    return np.unique(y)


def _numbers(y: NDArray[Any], meta: Any, *, indicators: bool) -> Array:
    targets = _targets(y, meta)
    if targets.kind == "values" or indicators:
        return targets.value
    return encode(targets.code, [len(c) for c in targets.classes])


def _ones(y: NDArray[Any], weight: Array | None) -> Array:
    return np.ones(len(y)) if weight is None else weight


def _sum(block: LeafIncidence, meta: Any, indicators: bool, y: NDArray[Any], weight: Array | None) -> Array:
    return np.asarray(_ones(y, weight) @ _numbers(y, meta, indicators=indicators))


def _centred_sums(block: LeafIncidence, meta: Any, mean: Array, y: NDArray[Any], weight: Array | None) -> Array:
    return block.rmatmat(_ones(y, weight)[:, None] * (_numbers(y, meta, indicators=False) - mean))


def _ends(block: LeafIncidence, meta: Any, y: NDArray[Any], weight: Array | None) -> Array:
    value = _targets(y, meta).value
    return np.stack([value.min(axis=0, initial=np.inf), value.max(axis=0, initial=-np.inf)])


def _moments(block: LeafIncidence, meta: Any, centre: Array, total: float, y: NDArray[Any], weight: Array | None) -> Array:
    w, value = _ones(y, weight) / total, _targets(y, meta).value - centre
    return block.rmatmat(np.column_stack([w, w[:, None] * value, w * (value**2).sum(axis=1)]))
