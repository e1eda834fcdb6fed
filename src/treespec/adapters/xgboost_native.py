"""XGBoost's own routing and prediction."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from treespec.hooks import is_a
from treespec.ir import Forest

_LARGEST = float(np.finfo(np.float32).max)


class XgboostNative:
    """Routing and prediction by a booster or a wrapper.

    Parameters
    ----------
    model : Booster or XGBModel
    booster : Booster
    forest : Forest
    rounds : (int, int) or None
        First boosting round that is used, and the one after the last; None for all.
    """

    routes_rows = False  # measured: Treelite's leaf ids are a fifth faster than ``pred_leaf``

    def __init__(self, model: Any, booster: Any, forest: Forest, rounds: tuple[int, int] | None) -> None:
        self._model, self._booster, self._forest = model, booster, forest
        self._range = rounds or (0, 0)
        self._chosen = {} if rounds is None else {"iteration_range": rounds}
        self._wrapped = is_a(model, "xgboost", "XGBModel")
        self._missing = forest.inputs.missing_value

    def leaf_id(self, X: Any) -> NDArray[np.int32]:
        """Return the (n, n_trees) node ids of ``pred_leaf``.

        A DMatrix refuses infinities, which the wrappers' ``predict`` accepts: they are routed as the largest finite values, which no
        threshold tells apart from them.
        """
        import xgboost

        rows, missing = self._rows(X)
        numbers = isinstance(rows, np.ndarray)
        rows = self._finite_rows(rows, missing)
        named = {"feature_names": self._booster.feature_names, "feature_types": self._booster.feature_types} if numbers else {}
        if hasattr(rows, "tocsr"):
            named = {"feature_names": self._booster.feature_names}
        data = xgboost.DMatrix(rows, missing=missing, enable_categorical=True, **named)
        last = (0, self._range[1])  # XGBoost tells leaves from the first round on only
        leaf = np.asarray(self._booster.predict(data, pred_leaf=True, iteration_range=last, validate_features=False))
        leaf = leaf.reshape(rows.shape[0], -1)
        first = leaf.shape[1] - self._forest.n_trees if self._range[0] else 0
        return leaf[:, first:].reshape(rows.shape[0], self._forest.n_trees).astype(np.int32)

    def margin(self, X: Any) -> NDArray[Any]:
        """Return ``predict(..., output_margin=True)``."""
        return self.margin_from(X, None)

    def margin_from(self, X: Any, base_margin: NDArray[Any] | None) -> NDArray[Any]:
        """Return the margins that start at ``base_margin``."""
        rows, missing = self._rows(X)
        return np.asarray(
            self._booster.inplace_predict(
                rows, iteration_range=self._range, predict_type="margin", missing=missing, validate_features=False, base_margin=base_margin
            )
        )

    def predict(self, X: Any) -> NDArray[Any]:
        """Return ``predict`` of the wrapper, or of the booster."""
        rows, missing = self._rows(X)
        if self._wrapped:
            return np.asarray(self._model.predict(rows, **self._chosen))
        return np.asarray(self._booster.inplace_predict(rows, iteration_range=self._range, missing=missing, validate_features=False))

    def predict_proba(self, X: Any) -> NDArray[Any] | None:
        """Return ``predict_proba`` of a classifier, else None."""
        if not hasattr(self._model, "predict_proba"):
            return None
        return np.asarray(self._model.predict_proba(self._rows(X)[0], **self._chosen))

    def _rows(self, X: Any) -> tuple[Any, float]:
        """Return the rows in a form that XGBoost takes as they are (else encoded), and what means missing in them."""
        from scipy.sparse import csr_matrix

        forest = self._forest
        missing = self._missing
        if isinstance(X, np.ndarray) and X.dtype in (np.float32, np.float64):
            return X, missing
        if hasattr(X, "tocsr"):
            return csr_matrix(X), missing  # XGBoost does not know sparse arrays
        names = list(forest.feature_names or ())
        if is_a(X, "pandas", "DataFrame") and names and set(names) <= set(X.columns):
            kinds = [X[name].dtype for name in names]
            known = dict(forest.inputs.categories)
            if all((j in known) == (str(kind) == "category") and (j in known or kind.kind in "fiub") for j, kind in enumerate(kinds)):
                return X[names], missing
        rows = forest.encode(X)
        return (rows if np.isnan(missing) else np.where(np.isnan(rows), np.float32(missing), rows)), missing

    def _finite_rows(self, rows: Any, missing: float) -> Any:
        """Return an array, sparse matrix or frame with finite numbers."""
        if isinstance(rows, np.ndarray):
            return self._finite(rows, missing)
        if hasattr(rows, "tocsr"):
            return type(rows)((self._finite(rows.data, missing), rows.indices, rows.indptr), shape=rows.shape)
        floats = {name: self._finite(rows[name].to_numpy(), missing) for name in rows.columns if rows[name].dtype.kind == "f"}
        return rows.assign(**floats)

    def _finite(self, rows: NDArray[Any], missing: float) -> NDArray[np.float32]:
        with np.errstate(over="ignore"):
            cast = rows.astype(np.float32)
        beyond = np.isinf(cast)
        if not beyond.any() or np.isinf(missing):
            return cast
        return np.where(beyond, np.copysign(np.float32(_LARGEST), cast), cast)
