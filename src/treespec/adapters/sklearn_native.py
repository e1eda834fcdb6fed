"""scikit-learn's own routing and prediction: what the self-check compares with, and the fastest way through its trees."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treespec.errors import SelfCheckError
from treespec.ir import Forest


class HistNative:
    """Prediction by an estimator that does not tell the leaves (histogram boosting): it has no ``leaf_id``.

    Parameters
    ----------
    model : fitted estimator
    forest : Forest
    staged : bool
        Whether the forest has only the first stages of the model.
    """

    def __init__(self, model: Any, forest: Forest, *, staged: bool = False) -> None:
        self._model = model
        self._names = forest.feature_names
        self._stages = forest.n_trees // forest.n_outputs if staged else None

    def margin(self, X: Any) -> NDArray[Any]:
        """Return the raw margins: (n,), or (n, n_classes)."""
        raw = np.asarray(self._ask("raw_predict", self._rows(X), private="_"))  # decision_function, which regressors lack
        return raw[:, 0] if raw.shape[1] == 1 else raw

    def predict(self, X: Any) -> NDArray[Any]:
        """Return ``predict``."""
        return np.asarray(self._ask("predict", self._rows(X)))

    def predict_proba(self, X: Any) -> NDArray[Any] | None:
        """Return ``predict_proba`` of a classifier, else None."""
        return np.asarray(self._ask("predict_proba", self._rows(X))) if hasattr(self._model, "predict_proba") else None

    def _ask(self, method: str, rows: Any, private: str = "") -> Any:
        """Return what a method gives, or its staged twin after the last stage of the forest."""
        if self._stages is None:
            return getattr(self._model, f"{private}{method}")(rows)
        return next(islice(getattr(self._model, f"{private}staged_{method}")(rows), self._stages - 1, None))

    def _rows(self, X: Any) -> Any:
        """Return a frame's columns in the order of training, on which scikit-learn insists."""
        if self._names is None or not hasattr(type(X), "columns"):
            return X
        names = getattr(X, "column_names", X.columns)  # Arrow's columns are data
        if tuple(map(str, names)) == self._names:
            return X
        return X.select(list(self._names)) if hasattr(X, "select") and hasattr(X, "column_names") else X[list(self._names)]


class BoostingNative(HistNative):
    """Routing and prediction by a gradient-boosting estimator.

    Parameters
    ----------
    model : fitted estimator
    forest : Forest
    trees : sequence of sklearn.tree._tree.Tree
        In the order of the forest.
    """

    def __init__(self, model: Any, forest: Forest, trees: Sequence[Any], *, staged: bool = False) -> None:
        super().__init__(model, forest, staged=staged)
        self._forest = forest
        self._trees = trees
        self._seen = self._fingerprint()

    def _fingerprint(self) -> list[float]:
        """Return the sum of the thresholds of each tree (0.1 ms for 100,000 nodes)."""
        return [float(tree.threshold.sum()) for tree in self._trees]

    @property
    def margin_is_prediction(self) -> bool:
        """Whether `margin` is the model's ``predict``: of regressors."""
        return not (hasattr(self._model, "decision_function") or hasattr(self._model, "predict_proba"))

    def leaf_id(self, X: Any) -> NDArray[np.int32]:
        """Return the (n, n_trees) ids that ``apply`` gives, routed by scikit-learn's trees, one after the other.

        Raises
        ------
        SelfCheckError
            If thresholds were changed in place since the model was wrapped.
        """
        if not np.array_equal(self._fingerprint(), self._seen, equal_nan=True):
            raise SelfCheckError.expected("the trees of the wrapped model", "others: they were changed in place", "wrap it again")
        rows = np.asarray(self._forest.encode(X))
        out = np.empty((len(rows), len(self._trees)), np.int32)
        for t, tree in enumerate(self._trees):
            out[:, t] = tree.apply(rows)
        return out

    def margin(self, X: Any) -> NDArray[Any]:
        """Return ``decision_function`` of a classifier, ``predict`` of a regressor."""
        return np.asarray(self._ask("decision_function" if hasattr(self._model, "decision_function") else "predict", self._rows(X)))


class ForestNative(BoostingNative):
    """Routing and prediction by a single tree or a bagged forest."""

    def predict_proba(self, X: Any) -> None:
        """Return None: probabilities are the margins."""

    def margin(self, X: Any) -> NDArray[Any]:
        """Return ``predict_proba`` (of all targets side by side) of a classifier, ``predict`` of a regressor."""
        model, rows = self._model, self._rows(X)
        if not hasattr(model, "predict_proba"):
            return np.asarray(model.predict(rows))
        proba = model.predict_proba(rows)
        return np.hstack(proba) if isinstance(proba, list) else np.asarray(proba)
