"""Treelite, both ways, and the router that runs on it. Its fields are known to this file and its halves alone."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from treespec.adapters._treelite_bytes import EXACT_FLOAT32, Dtype, dumps, model_dtype
from treespec.adapters._treelite_read import TreeliteStructure, structure_of
from treespec.ir import Forest, traverse

__all__ = ["TreeliteRouter", "TreeliteStructure", "structure_of", "to_treelite"]

_BLOCK = 1 << 22  # (row, tree) pairs a block: 32 MB of Treelite's float ids
_GROUP = 1 << 15  # nodes that are walked together: 1 MB of Treelite's columns


def to_treelite(forest: Forest, dtype: Dtype | None = None) -> Any:
    """Return the forest as a ``treelite.Model``; the id of a node there is its id here minus ``tree_offset`` of its tree.

    Parameters
    ----------
    forest : Forest
    dtype : {"float32", "float64"}, optional
        Type of the model's thresholds, leaf values and inputs; by default that of `InputRule.dtype`, with which rows route alike.
        Thresholds are rounded down to float32, which no float32 row notices; leaf values lose 6e-8 of their size.

    Raises
    ------
    UnsupportedModelError
        If the link is scaled in a way that Treelite lacks.

    Notes
    -----
    Treelite has no place for the rest of the input rule (what means missing, category values), names and class labels: pass rows
    through `Forest.encode` first. O(n_nodes) time; some 200 bytes a node while it runs.
    """
    import treelite

    return treelite.Model.deserialize_bytes(dumps(forest, dtype or model_dtype(forest))[0])


class TreeliteRouter:
    """Routes encoded rows by Treelite's predictor, leaf for leaf as `treespec.ir.traverse.apply` does.

    Parameters
    ----------
    forest : Forest

    Notes
    -----
    Treelite models without leaf values are made at the first call, each of so few trees that they stay in the cache while the rows
    pass (up to 5 times faster for deep forests). O(n * n_trees * depth) time over all threads that OpenMP allows; memory is the
    int32 result plus 32 MB.
    """

    def __init__(self, forest: Forest) -> None:
        self._forest = forest
        self._models: list[tuple[range, Any]] | None = None
        # float32 rows in a float64 model compare alike; it is for trees whose ids or codes float32 cannot hold
        small = np.diff(forest.tree_offset).max(initial=0) <= EXACT_FLOAT32
        self._dtype: Dtype = model_dtype(self._bare()) if small else "float64"

    def leaf_id(self, encoded: NDArray[np.floating[Any]]) -> NDArray[np.int32]:
        """Return the (n, n_trees) int32 node ids of the leaves that rows reach.

        Parameters
        ----------
        encoded : (n, n_features) array
            From `Forest.encode`.
        """
        forest = self._forest
        if not forest.n_trees or not forest.n_features:
            return traverse.apply(forest, encoded)
        from treelite import gtil

        first = forest.tree_offset[:-1].astype(np.int32)
        out = np.empty((len(encoded), forest.n_trees), np.int32)
        for trees, model in self._built():
            step = max(1, _BLOCK // len(trees))
            columns = slice(trees.start, trees.stop)
            for start in range(0, len(encoded), step):
                rows = np.ascontiguousarray(encoded[start : start + step], dtype=self._dtype)
                block = out[start : start + step, columns]
                block[:] = gtil.predict_leaf(model, rows).reshape(block.shape)
                block += first[columns]
        return out

    def _built(self) -> list[tuple[range, Any]]:
        if self._models is None:
            import treelite

            groups = _groups(np.diff(self._forest.tree_offset))
            models = [treelite.Model.deserialize_bytes(data) for data in dumps(self._bare(), self._dtype, groups)]
            self._models = list(zip(groups, models, strict=True))
        return self._models

    def _bare(self) -> Forest:
        """Return the splits alone."""
        none: dict[str, Any] = {"cover": None, "count": None, "gain": None, "impurity": None, "classes": None, "task": "regression"}
        plain = {"tree_output": np.empty(0), "base_score": np.empty(0), "aggregation": "sum", "link": "identity", "link_scale": 1.0}
        return self._forest.with_values(np.zeros((self._forest.n_nodes, 1)), **none, **plain)


def _groups(size: NDArray[np.int64]) -> list[range]:
    """Return consecutive trees of up to `_GROUP` nodes together (at least one tree)."""
    groups, start, total = [], 0, 0
    for t, n in enumerate(size.tolist()):
        if t > start and total + n > _GROUP:
            groups.append(range(start, t))
            start, total = t, 0
        total += n
    return [*groups, range(start, len(size))]
