"""`DistilledRegressor` and `DistilledClassifier`: fit an ensemble, distil it into a byte budget, predict with the student."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils import check_random_state

from treespec.distill.run import distill
from treespec.errors import DataMismatchError
from treespec.estimators.bases import Kind, bases_of, default_ensembles, input_tags
from treespec.estimators.route import Route
from treespec.estimators.rows import predict_rows, read_classes, read_rows, read_values, read_weights
from treespec.hooks import RowData
from treespec.ir import Forest
from treespec.ir import link as links
from treespec.plugins import manager

Array = NDArray[np.float64]


class _Teacher:
    """A fitted ensemble as compressors see it (`treespec.hooks.Teacher`)."""

    def __init__(self, forest: Forest) -> None:
        self.forest, self.apply = forest, Route(forest)

    def margin(self, X: Any) -> Array:
        return np.asarray(links.squeeze(self.forest.margin_of(self.apply(X))))

    def predict(self, X: Any) -> NDArray[Any]:
        return links.predict(self.forest, self.forest.margin_of(self.apply(X)))


class _Distilled(BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """Fits the ensemble, then the student."""

    _kind: Kind

    def __init__(self, estimator: Any = None, *, budget: str | int = "10KB", compressor: str = "auto", random_state: Any = None) -> None:
        self.estimator = estimator
        self.budget = budget
        self.compressor = compressor
        self.random_state = random_state

    def _one(self) -> Any:
        return default_ensembles(self._kind)[-1] if self.estimator is None else self.estimator

    def __sklearn_tags__(self) -> Any:
        """What the ensemble takes."""
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan, _, _ = input_tags(self._one(), self._kind)
        tags.target_tags.required = True
        return tags

    def _fit(self, X: Any, y: NDArray[Any], sample_weight: Any) -> None:
        if isinstance(self.estimator, (list, tuple)):
            raise DataMismatchError.expected("one ensemble", "a list", "distil one ensemble at a time")
        weight = read_weights(sample_weight, X)
        random = check_random_state(self.random_state)
        forest, grown = bases_of(self._one(), self._kind, random)[0].grow(X, y, weight)
        self.estimator_ = grown.model
        teacher = _Teacher(forest)
        self.student_ = distill(
            teacher,
            self.budget,
            rows=RowData(X, y, weight, grown.leaf_id, teacher.apply, teacher.margin, grown.model),
            compressor=manager().scheme("compressor", self.compressor).name,
            objective="auto",
            random_state=int(random.randint(2**31 - 1)),
            progress=None,
            compressors={s.name: s.function for s in manager().registry("compressor").values()},
            options={},
            adapt=manager().adapt,
        )


class DistilledRegressor(RegressorMixin, _Distilled):  # type: ignore[misc]
    """A small model that was distilled from a tree ensemble, for values.

    Parameters
    ----------
    estimator : estimator or None
        Unfitted; None is histogram boosting.
    budget : str or int
        "10KB" is 10,000 bytes; what `treespec.facade.Wrapped.distill` takes.
    compressor : str
        "auto" races them on validation rows.
    random_state : int, RandomState or None

    Attributes
    ----------
    student_ : treespec.students.base.Student
        What predicts; ``student_.report`` says how it came about, ``student_.save(path)`` keeps it.
    estimator_ : estimator
        The teacher.
    """

    _kind = "values"

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> DistilledRegressor:
        """Fit the ensemble on X (n, p) and y (n,), and distil it on the same rows."""
        rows = read_rows(self, X, reset=True, allow_nan=self.__sklearn_tags__().input_tags.allow_nan, sparse=False)
        self._fit(rows, read_values(y, rows.shape[0]), sample_weight)
        return self

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the student's (n,) values."""
        rows = predict_rows(self, X)
        return np.asarray(self.student_.predict(rows), dtype=np.float64)


class DistilledClassifier(ClassifierMixin, _Distilled):  # type: ignore[misc]
    """A small model that was distilled from a tree ensemble, for classes.

    Parameters
    ----------
    estimator, budget, compressor, random_state
        As `DistilledRegressor`.

    Attributes
    ----------
    classes_ : (n_classes,) array
    student_, estimator_
        As `DistilledRegressor`; both know classes by their numbers, 0 to n_classes - 1.
    """

    _kind = "classes"

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> DistilledClassifier:
        """Fit the ensemble on X (n, p) and y (n,), and distil it on the same rows."""
        rows = read_rows(self, X, reset=True, allow_nan=self.__sklearn_tags__().input_tags.allow_nan, sparse=False)
        self.classes_, code = read_classes(y, rows.shape[0])
        self._fit(rows, code, sample_weight)
        return self

    def predict_proba(self, X: Any) -> Array:
        """Return the student's (n, n_classes) probabilities."""
        rows = predict_rows(self, X)
        return np.asarray(self.student_.predict_proba(rows), dtype=np.float64)

    def predict(self, X: Any) -> NDArray[Any]:
        """Return (n,) class labels."""
        best = self.predict_proba(X).argmax(axis=1)
        return np.asarray(self.classes_[best])
