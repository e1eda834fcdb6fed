"""KPP under the honest and the cross-fit proof boundary (section 3.5): trees and final fit from different rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from treespec.errors import DataNeededError
from treespec.ir.table import take
from treespec.kpp.fit import fit
from treespec.kpp.folds import folds
from treespec.kpp.refit import Refit, routed
from treespec.kpp.regimes import CROSS_FIT, FIXED, HONEST, Regime
from treespec.kpp.targets import Targets

if TYPE_CHECKING:
    from treespec.kpp.model import KPP

Array = NDArray[np.float64]


def honest(
    refit: Refit | Sequence[Refit],
    X: Any,
    y: NDArray[Any],
    *,
    sample_weight: Array | None = None,
    share: float = 0.5,
    random_state: int = 0,
    settings: Mapping[str, Any],
) -> KPP:
    """Grow the trees, and set their node weights, on some rows; fit the final model on the others (PB-02).

    Parameters
    ----------
    refit : Refit or sequence of Refit
        Fits the ensemble; several share one block-structured Gram matrix.
    X, y, sample_weight
        All rows.
    share : float
        Of the rows that the final fit gets.
    random_state : int
        Of the split, which gives each half its share of each class.
    settings : mapping
        Of `treespec.kpp.fit.fit`: weights, learner, alpha, ...

    Raises
    ------
    DataNeededError
        If a class has one row only.
    """
    from sklearn.model_selection import train_test_split

    labels = np.asarray(y)
    grow, final = train_test_split(np.arange(len(labels)), test_size=share, random_state=random_state, stratify=_classes(labels))
    weight = None if sample_weight is None else sample_weight[grow]
    grown = [r(take(X, grow), labels[grow], weight) for r in _several(refit)]
    weight = None if sample_weight is None else sample_weight[final]
    rows = [(forest, routed(forest, take(X, final), labels[final], weight)) for forest, _ in grown]
    return fit(rows, weight_data=[data for _, data in grown], regime=HONEST, **settings)


@dataclass(frozen=True, eq=False)
class CrossFit:
    """One KPP model for each fold, its trees and its fit from the other folds (PB-03).

    Attributes
    ----------
    models : list of KPP
        Each is label-dependent on its own rows (PB-04): what its training rows say is a diagnostic.
    test : list of arrays
        The rows of each fold.
    held_out : (n, k) array
        Scores of each row from the model that has not seen it: the figures to trust.
    regime : Regime
    """

    models: list[KPP]
    test: list[NDArray[np.int64]] = field(repr=False)
    held_out: Array = field(repr=False)
    regime: Regime = CROSS_FIT

    def predict_train(self) -> NDArray[Any]:
        """Return the leave-one-fold-out predictions of the training rows."""
        return self.models[0].decide(self.held_out)

    def scores(self, X: Any) -> Array:
        """Return the mean (n, k) scores of the models: another predictor than the one that `predict_train` judges (section 8.3)."""
        return np.asarray(np.mean([model.scores(X) for model in self.models], axis=0))

    def decision_function(self, X: Any) -> Array:
        """Return the mean scores, (n,) or (n, n_outputs)."""
        return self.models[0].squeeze(self.scores(X))

    def predict(self, X: Any) -> NDArray[Any]:
        """Return predictions from the mean scores."""
        return self.models[0].decide(self.scores(X))

    @property
    def norm(self) -> Array:
        """(n_folds,) norms of the coefficients: how stable the fit is."""
        return np.array([model.norm for model in self.models])


def cross_fit(
    refit: Refit | Sequence[Refit],
    X: Any,
    y: NDArray[Any],
    *,
    sample_weight: Array | None = None,
    n_folds: int = 5,
    random_state: int = 0,
    settings: Mapping[str, Any],
) -> CrossFit:
    """Fit one KPP model for each fold on the rows of the others.

    With ``alpha="auto"`` each fold chooses its own penalty, nested within its rows: ``n_folds * 6`` fits of the ensemble.

    Parameters
    ----------
    refit, X, y, sample_weight, random_state, settings
        As `honest`.
    n_folds : int
    """
    labels, refits = np.asarray(y), _several(refit)
    models, test, scores = [], [], []
    for train, held in _folds(labels, n_folds, random_state):
        weight = None if sample_weight is None else sample_weight[train]
        grown = [r(take(X, train), labels[train], weight) for r in refits]
        models.append(fit(grown, regime=FIXED, refit=refits, **settings))
        test.append(held)
        scores.append(models[-1].scores(take(X, held)))
    out = np.empty((len(labels), scores[0].shape[1]))
    for held, score in zip(test, scores, strict=True):
        out[held] = score
    return CrossFit(models, test, out)


def _classes(labels: NDArray[Any]) -> NDArray[np.int64] | None:
    """Return class numbers (of the first target), None for values."""
    if labels.dtype.kind == "f":
        return None
    _, code, count = np.unique(labels.reshape(len(labels), -1)[:, 0], return_inverse=True, return_counts=True)
    if count.min() < 2:
        raise DataNeededError.expected(
            "at least two rows of each class, for regime='honest'", "one of a class", "drop it, or use regime='fixed'"
        )
    return code


def _several(refit: Refit | Sequence[Refit]) -> list[Refit]:
    return list(refit) if isinstance(refit, Sequence) else [refit]


def _folds(labels: NDArray[Any], n_folds: int, random_state: int) -> list[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    if labels.dtype.kind == "f":
        targets = Targets("values", labels.reshape(len(labels), -1).astype(np.float64), np.empty((len(labels), 0), np.int64), ())
    else:
        classes, code = np.unique(labels.reshape(len(labels), -1)[:, 0], return_inverse=True)
        targets = Targets("classes", np.empty((len(labels), 0)), code[:, None], (classes,))
    return folds(targets, random_state, n_folds)
