"""LightGBM's own routing and prediction."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treespec.errors import SelfCheckError
from treespec.hooks import is_a
from treespec.ir import Forest


class LightgbmNative:
    """Routing and prediction by a booster or a wrapper, up to ``best_iteration`` where it is set.

    Parameters
    ----------
    model : Booster or LGBMModel
    booster : Booster
    forest : Forest
    rounds : dict
        ``start_iteration`` and ``num_iteration``; empty where LightGBM chooses.
    """

    def __init__(self, model: Any, booster: Any, forest: Forest, rounds: dict[str, int]) -> None:
        self._model, self._booster, self._forest, self._rounds = model, booster, forest, rounds
        self._first = rounds.get("start_iteration", 0) * forest.n_outputs
        self._seen = self._fingerprint()

    def leaf_id(self, X: Any) -> NDArray[np.int32]:
        """Return the (n, n_trees) leaf numbers of ``pred_leaf``, of the rounds that the forest has, whatever was trained since.

        Raises
        ------
        SelfCheckError
            If trees were lost, shuffled or changed since the model was wrapped: the first leaf of each tree is looked at (2 us a tree).
        """
        rows, n_trees = self._rows(X), self._forest.n_trees
        if self._fingerprint() != self._seen:
            raise SelfCheckError.expected("the trees of the wrapped booster", "others: it was changed in place", "wrap it again")
        rounds = {"num_iteration": n_trees // self._forest.n_outputs} | self._rounds
        leaf = np.asarray(self._booster.predict(rows, pred_leaf=True, **rounds))
        if leaf.size != rows.shape[0] * n_trees:
            raise SelfCheckError.expected(
                f"a booster of {n_trees} trees", f"{leaf.size // rows.shape[0]}", "it lost trees after it was wrapped; wrap it again"
            )
        return leaf.reshape(rows.shape[0], n_trees).astype(np.int32)

    def _fingerprint(self) -> list[float]:
        """Return the value of the first leaf of each tree that is still there."""
        last = min(self._first + self._forest.n_trees, self._booster.num_trees())
        return [self._booster.get_leaf_output(t, 0) for t in range(self._first, last)]

    def margin(self, X: Any) -> NDArray[Any]:
        """Return ``predict(..., raw_score=True)``; in random forest mode divided by the rounds, as LightGBM does before its link."""
        forest = self._forest
        raw = np.asarray(self._booster.predict(self._rows(X), raw_score=True, **self._rounds))
        return raw / (forest.n_trees // forest.n_outputs) if forest.aggregation == "mean" else raw

    def predict(self, X: Any) -> NDArray[Any]:
        """Return ``predict`` of the wrapper, or of the booster."""
        with warnings.catch_warnings():  # of arrays where a frame was fitted, of custom objectives: both are meant here
            warnings.simplefilter("ignore", UserWarning)
            return np.asarray(self._model.predict(self._rows(X), **self._rounds))

    def predict_proba(self, X: Any) -> NDArray[Any] | None:
        """Return ``predict_proba`` of a classifier, else None."""
        if not hasattr(self._model, "predict_proba"):
            return None
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            return np.asarray(self._model.predict_proba(self._rows(X), **self._rounds))

    def _rows(self, X: Any) -> Any:
        """Return the rows in a form that LightGBM takes as they are (else encoded)."""
        from scipy.sparse import csr_matrix

        forest = self._forest
        if isinstance(X, np.ndarray) and X.dtype in (np.float32, np.float64):
            return X
        if hasattr(X, "tocsr"):
            rows = X if is_a(X, "scipy.sparse", "csc_matrix") else csr_matrix(X)
            return rows if rows.dtype in (np.float32, np.float64) else rows.astype(np.float64)
        if is_a(X, "pandas", "DataFrame"):
            names = list(X.columns if forest.feature_names is None else forest.feature_names)
            known = dict(forest.inputs.categories)
            if set(names) <= set(X.columns):
                kinds = [X[name].dtype for name in names]
                if all(str(kind) == "category" if j in known else kind.kind in "fiub" for j, kind in enumerate(kinds)):
                    return X[names]
        rows = forest.encode(X)
        return csr_matrix(rows) if is_a(X, "pyarrow", "Table") else rows  # of neither does LightGBM flush tiny entries
