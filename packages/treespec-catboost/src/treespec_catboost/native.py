"""CatBoost's own routing and prediction."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from treespec.errors import DataMismatchError
from treespec.hooks import is_a
from treespec.ir import Forest
from treespec.ir.table import read_table
from treespec_catboost.categories import text_of


class CatboostNative:
    """Routing and prediction by a model.

    Parameters
    ----------
    model : CatBoost
    forest : Forest
    rounds : (int, int), optional
        The first tree and the one after the last; 0 for the end.
    """

    def __init__(self, model: Any, forest: Forest, rounds: tuple[int, int] | None = None) -> None:
        self._model, self._forest = model, forest
        start, stop = rounds or (0, 0)
        self._trees = {"ntree_start": int(start), "ntree_end": int(stop) or int(model.tree_count_)}

    def leaf_id(self, X: Any) -> NDArray[np.int32]:
        """Return the (n, n_trees) leaf numbers of ``calc_leaf_indexes``."""
        rows = self._rows(X)
        return np.asarray(self._model.calc_leaf_indexes(rows, **self._trees)).reshape(rows.shape[0], self._forest.n_trees).astype(np.int32)

    def margin(self, X: Any) -> NDArray[Any]:
        """Return the values of ``prediction_type="RawFormulaVal"``."""
        import catboost

        return np.asarray(catboost.CatBoost.predict(self._model, self._rows(X), prediction_type="RawFormulaVal", **self._trees))

    def predict(self, X: Any) -> NDArray[Any]:
        """Return ``predict``; labels of several classes, which CatBoost gives as a column, as (n,)."""
        out = np.asarray(self._model.predict(self._rows(X), **self._trees))
        return out[:, 0] if out.ndim == 2 and out.shape[1] == 1 else out

    def predict_proba(self, X: Any) -> NDArray[Any] | None:
        """Return ``predict_proba`` of a classifier, else None."""
        return np.asarray(self._model.predict_proba(self._rows(X), **self._trees)) if hasattr(self._model, "predict_proba") else None

    def _rows(self, X: Any) -> Any:
        """Return the rows in a form that CatBoost takes as they are; else numbers encoded, and categories as text."""
        from scipy.sparse import csr_matrix

        forest = self._forest
        if forest.inputs.categorical:
            return self._frame(X)
        if isinstance(X, np.ndarray) and X.dtype.kind in "fiu":
            return X
        if hasattr(X, "tocsr"):
            return csr_matrix(X)
        if is_a(X, "pandas", "DataFrame"):
            names = list(X.columns if forest.feature_names is None else forest.feature_names)
            if set(names) <= set(X.columns) and all(X[name].dtype.kind in "fiu" for name in names):
                return X[names]
        return forest.encode(X)

    def _frame(self, X: Any) -> Any:
        import pandas as pd

        forest = self._forest
        forest.encode(X)  # the clear errors first
        table = read_table(X, forest.n_features, forest.feature_names)
        names = forest.feature_names or tuple(map(str, range(forest.n_features)))
        columns: dict[Any, Any] = {}
        for j, name in enumerate(names):
            if j in forest.inputs.categorical:
                texts = [text_of(v) for v in table.values(j)]
                if None in texts:
                    raise DataMismatchError.expected(
                        f"text or integers in the categorical column {table.name(j)}",
                        f"{table.values(j)[texts.index(None)]} in row {texts.index(None)}",
                        "CatBoost rejects such rows too; make the numbers integers or text, as before training",
                    )
                columns[name] = pd.Series(texts, dtype=object)
            else:
                columns[name] = table.numbers(j)
        return pd.DataFrame(columns)
