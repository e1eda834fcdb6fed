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

    return treelite.Model.deserialize_bytes(dumps(forest, dtype or model_dtype(forest)))


class TreeliteRouter:
    """Routes encoded rows by Treelite's predictor, leaf for leaf as `treespec.ir.traverse.apply` does.

    Parameters
    ----------
    forest : Forest

    Notes
    -----
    The Treelite model is made at the first call, without leaf values. O(n * n_trees * depth) time over all threads that OpenMP
    allows; memory is the int32 result plus 32 MB.
    """

    def __init__(self, forest: Forest) -> None:
        self._forest = forest
        self._model: Any = None
        self._dtype: Dtype = "float64"

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

        model = self._built()
        first = forest.tree_offset[:-1].astype(np.int32)
        out = np.empty((len(encoded), forest.n_trees), np.int32)
        step = max(1, _BLOCK // forest.n_trees)
        for start in range(0, len(encoded), step):
            rows = np.ascontiguousarray(encoded[start : start + step], dtype=self._dtype)
            block = out[start : start + step]
            block[:] = gtil.predict_leaf(model, rows).reshape(block.shape)
            block += first
        return out

    def _built(self) -> Any:
        if self._model is None:
            # float32 inputs in a float64 model compare alike; it is for trees whose ids or codes float32 cannot hold
            self._dtype = model_dtype(self._forest) if np.diff(self._forest.tree_offset).max() <= EXACT_FLOAT32 else "float64"
            none: dict[str, Any] = {"cover": None, "count": None, "gain": None, "impurity": None, "classes": None, "task": "regression"}
            plain = {"tree_output": np.empty(0), "base_score": np.empty(0), "aggregation": "sum", "link": "identity", "link_scale": 1.0}
            bare = self._forest.with_values(np.zeros((self._forest.n_nodes, 1)), **none, **plain)
            self._model = to_treelite(bare, self._dtype)
        return self._model
