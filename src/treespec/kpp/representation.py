"""`Representation`: from rows as the user passes them to path features of one ensemble or several."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treespec.errors import DataMismatchError
from treespec.ir import Forest
from treespec.kpp.blocks import Blocks, RawScale
from treespec.operators.incidence import Incidence
from treespec.operators.path import PathFeatures, PathMap

Array = NDArray[np.float64]
Features = PathFeatures | Blocks
Route = Callable[[Any], NDArray[np.int32]]

_GATHERED = 1 << 20  # leaf values gathered at a time


@dataclass(frozen=True, eq=False)
class Representation:
    """The feature map of a KPP model: a path map for each ensemble, how each routes rows, and raw features beside them if asked for.

    Attributes
    ----------
    maps : tuple of PathMap
    routes : tuple of callables
        ``routes[e](X)`` returns the (n, n_trees) leaf ids of ensemble e.
    raw : RawScale or None
    """

    maps: tuple[PathMap, ...]
    routes: tuple[Route, ...]
    raw: RawScale | None = None

    @property
    def forests(self) -> list[Forest]:
        """The ensembles."""
        return [m.forest for m in self.maps]

    @property
    def n_blocks(self) -> int:
        """Number of blocks, raw features included."""
        return len(self.maps) + (self.raw is not None)

    @property
    def edges(self) -> NDArray[np.int64]:
        """(n_blocks + 1,) where the coordinates of each block start."""
        sizes = [m.n_coordinates for m in self.maps] + ([] if self.raw is None else [len(self.raw.mean)])
        return np.cumsum([0, *sizes])

    @property
    def factor(self) -> float:
        """What the coordinates of each block are multiplied by."""
        return float(1 / np.sqrt(self.n_blocks))

    def leaf_ids(self, X: Any) -> list[NDArray[np.int32]]:
        """Return the leaf ids of rows, one array an ensemble."""
        return [route(X) for route in self.routes]

    def features(self, X: Any, leaf_ids: Sequence[NDArray[np.int32] | Incidence] | None = None) -> Features:
        """Return the (n, m) feature operator of rows; ``leaf_ids`` (or incidences) save routing them again."""
        ids: Sequence[NDArray[np.int32] | Incidence] = self.leaf_ids(X) if leaf_ids is None else leaf_ids
        parts: list[Any] = [m.features(i) for m, i in zip(self.maps, ids, strict=True)]
        if self.raw is not None:
            parts.append(self.raw.features(self.forests[0].encode(X)))
        return parts[0] if len(parts) == 1 else Blocks(parts)

    def leaf_values(self, coef: Array) -> list[Array]:
        """Return, for each ensemble, (n_nodes, k) what a leaf adds to the scores of coefficients (m, k); 0 at inner nodes."""
        out = []
        for m, low, high in zip(self.maps, self.edges, self.edges[1:], strict=False):
            value = np.zeros((m.n_coordinates, coef.shape[1]))
            value[m.forest.leaves] = self.factor * m.leaf_values(coef[low:high])
            out.append(value)
        return out

    def leaf_ids_of(self, features: Features) -> list[NDArray[np.int32]]:
        """Return the leaf ids of the rows of ``features``, one array an ensemble."""
        parts: Any = getattr(features, "parts", [features])
        return [f.leaves[part.Z.leaf_index()] for f, part in zip(self.forests, parts, strict=False)]

    def score(self, X: Any, values: Sequence[Array], coef: Array, leaf_ids: Sequence[NDArray[np.int32]]) -> Array:
        """Return (n, k) scores of rows, routed to ``leaf_ids``, from the ``values`` of `leaf_values`: one gather a row and tree."""
        parts = [gather(value, ids) for ids, value in zip(leaf_ids, values, strict=True)]
        if self.raw is not None:
            parts.append(self.factor * self.raw.features(self.forests[0].encode(X)).matmat(coef[self.edges[-2] :]))
        return parts[0] if len(parts) == 1 else np.asarray(np.sum(parts, axis=0))

    def common_features(self) -> int:
        """Return the number of input columns, the same for all ensembles.

        Raises
        ------
        DataMismatchError
            If it differs.
        """
        widths = {f.n_features for f in self.forests}
        if len(widths) > 1:
            raise DataMismatchError.expected(
                "ensembles with the same input columns", f"{sorted(widths)} columns", "fit all ensembles on the same X"
            )
        return widths.pop()


def gather(value: Array, leaf_id: NDArray[np.int32]) -> Array:
    """Return (n, k) sums over trees of ``value[leaf_id]``, in row blocks."""
    n, n_trees = leaf_id.shape
    out = np.empty((n, value.shape[1]))
    columns = [np.ascontiguousarray(value[:, j]) for j in range(value.shape[1])]
    step = max(1, _GATHERED // max(1, n_trees))
    for start in range(0, n, step):
        block = leaf_id[start : start + step]
        for j, column in enumerate(columns):
            out[start : start + step, j] = column.take(block).sum(axis=1)
    return out
