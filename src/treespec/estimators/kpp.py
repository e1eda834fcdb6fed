"""`KPPRegressor` and `KPPClassifier`: the forest as a path-isometric feature map, with a linear model on it."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, softmax
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.utils.metaestimators import available_if

from treespec.estimators.base import BaseKPP
from treespec.estimators.rows import read_classes, read_values

Array = NDArray[np.float64]


class KPPRegressor(RegressorMixin, BaseKPP):  # type: ignore[misc]  # scikit-learn has no types
    """A linear model on the paths of one tree ensemble or several (kernel of partition paths), for values.

    Parameters
    ----------
    estimator : estimator, list of estimators, or None
        Unfitted regressors of scikit-learn, XGBoost or LightGBM: each is cloned and fitted; several share one block-structured Gram
        matrix. None: extremely randomised trees and histogram boosting. A fitted raw booster is used as it is, in
        regime "fixed" without stack.
    weights : str
        Node weights; "auto" is "impurity-decrease" where the ensemble stores impurities, else "variance-decrease" from the data.
    alpha : float or str
        Penalty of the linear model. "auto" refits the ensembles in folds where the same labels grew the trees, so that they cannot
        mislead the choice; see `treespec.kpp.alpha.choose_alpha`.
    regime : {"fixed", "honest", "cross-fit"}
        "fixed": trees and linear model from all rows, figures on these rows are diagnostics. "honest": trees from one half of the rows,
        linear model from the other. "cross-fit": one model a fold, ``kpp_.predict_train()`` has the held-out predictions; new rows get
        the mean score.
    cv : int
        Folds of the stack and of the regime "cross-fit".
    stack : bool or "auto"
        Whether KPP, KPP with raw features, the ensembles and a raw linear model are mixed with non-negative weights, found on
        out-of-fold predictions. "auto": where ``estimator`` is None, in regime "fixed", for one output.
    learner : str
        "auto" is "ridge"; "huber" and "quantile" are robust ones.
    raw : bool
        Whether scaled raw features stand beside the path features.
    random_state : int, RandomState or None
        Seeds the folds, and every ensemble whose own seed is None.

    Attributes
    ----------
    kpp_ : treespec.kpp.model.KPP or treespec.kpp.honest.CrossFit
        The fitted model: attributions, radii, bounds, dashboard.
    stack_ : treespec.estimators.stack.Stack or None
        Weights and out-of-fold errors of the mix.
    estimators_ : list
        The fitted ensembles (not in the regimes "honest" and "cross-fit").
    n_features_in_, feature_names_in_
        As in scikit-learn.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.ensemble import RandomForestRegressor
    >>> from treespec import KPPRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = KPPRegressor(RandomForestRegressor(10, max_depth=4), alpha=1.0, random_state=0).fit(X, y)
    >>> model.predict(X[:2]).shape
    (2,)
    >>> model.kpp_.regime.status
    'diagnostic, not a guarantee: the same labels built the representation and fitted the model'
    """

    _kind = "values"

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> KPPRegressor:
        """Fit the ensembles and the linear model.

        Parameters
        ----------
        X : array-like, sparse matrix or frame (n, p)
        y : array-like (n,) or (n, n_outputs)
        sample_weight : array-like (n,), optional

        Notes
        -----
        ``alpha="auto"`` and the stack cost ``cv`` further fits of every ensemble; regime "cross-fit" with ``alpha="auto"`` costs
        ``6 * cv``.
        """
        rows, weight = self._read(X, sample_weight)
        self._fit(rows, read_values(y, rows.shape[0]), weight)
        return self

    def predict(self, X: Any) -> NDArray[Any]:
        """Return (n,) or (n, n_outputs) values."""
        score = self._scores(X)
        return score[:, 0] if score.shape[1] == 1 else score


def _has_probabilities(model: Any) -> bool:
    return model.learner in ("auto", "logistic")


class KPPClassifier(ClassifierMixin, BaseKPP):  # type: ignore[misc]
    """A linear model on the paths of one tree ensemble or several (kernel of partition paths), for classes.

    Parameters
    ----------
    estimator, weights, alpha, regime, cv, stack, raw, random_state
        As `KPPRegressor`, with classifiers.
    learner : str
        "auto" is "logistic" (mean log-loss plus ``alpha / 2 |w|^2``, homogeneous as the bounds need); "ridge" fits -1 and +1, and has
        no probabilities.
    anchor : {None, "base"}
        "base": a correction on top of the ensembles' own log-odds, which are cross-fitted where the same rows grew the trees.

    Attributes
    ----------
    classes_ : (n_classes,) array
    kpp_, stack_, estimators_, n_features_in_, feature_names_in_
        As `KPPRegressor`.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.ensemble import ExtraTreesClassifier
    >>> from treespec import KPPClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> KPPClassifier(ExtraTreesClassifier(10), alpha=1e-3, random_state=0).fit(X, y).predict_proba(X[:2]).shape
    (2, 3)
    """

    _kind = "classes"

    def __init__(
        self,
        estimator: Any = None,
        *,
        weights: str = "auto",
        alpha: float | str = "auto",
        regime: str = "fixed",
        cv: Any = 5,
        stack: Any = "auto",
        learner: str = "auto",
        raw: bool = False,
        anchor: str | None = None,
        random_state: Any = None,
    ) -> None:
        super().__init__(
            estimator, weights=weights, alpha=alpha, regime=regime, cv=cv, stack=stack, learner=learner, raw=raw, random_state=random_state
        )
        self.anchor = anchor

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> KPPClassifier:
        """Fit the ensembles and the linear model; see `KPPRegressor.fit`.

        Raises
        ------
        DataMismatchError
            If y has one class only.
        """
        rows, weight = self._read(X, sample_weight)
        self.classes_, code = read_classes(y, rows.shape[0], weight)
        self._fit(rows, code, weight, self.classes_)
        return self

    def decision_function(self, X: Any) -> Array:
        """Return the scores: (n,), positive for the second of two classes, or (n, n_classes)."""
        score = self._scores(X)
        return score[:, 0] if score.shape[1] == 1 else score

    def predict(self, X: Any) -> NDArray[Any]:
        """Return (n,) class labels."""
        score = self._scores(X)
        best = (score[:, 0] > 0).astype(int) if score.shape[1] == 1 else score.argmax(axis=1)
        return np.asarray(self.classes_[best])

    @available_if(_has_probabilities)  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> Array:
        """Return (n, n_classes) probabilities; for learner "logistic"."""
        score = self._scores(X)
        if score.shape[1] == 1:
            return np.column_stack([expit(-score[:, 0]), expit(score[:, 0])])
        return np.asarray(softmax(score, axis=1))
