"""Adapter for links around one model: ``CalibratedClassifierCV`` of one fold, and ``TransformedTargetRegressor``."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treespec.adapters._members import WholeNative, check_links, columns_of, fitted, forests_of, name_of
from treespec.errors import UnsupportedModelError
from treespec.hooks import Adapt, Native, hookimpl, is_a
from treespec.ir import Forest
from treespec.ir.combine import Member, combine

_INVERSES = {np.exp: "exp", np.expm1: "expm1"}


@hookimpl
def treespec_adapt(model: Any, adapt: Adapt) -> Forest | None:
    """Return the forest of a calibrated classifier, or of a regressor of a transformed target."""
    if is_a(model, "sklearn.calibration", "CalibratedClassifierCV"):
        fitted(model, "calibrated_classifiers_")
        return _calibrated(model, adapt)
    if is_a(model, "sklearn.compose", "TransformedTargetRegressor"):
        fitted(model, "regressor_")
        return _transformed(model, adapt)
    return None


@hookimpl
def treespec_native(model: Any, forest: Forest) -> Native | None:
    """Return the model's own prediction; margins are those inside the link."""
    if is_a(model, "sklearn.calibration", "CalibratedClassifierCV"):
        return CalibratedNative(model, forest)  # type: ignore[return-value]
    if is_a(model, "sklearn.compose", "TransformedTargetRegressor"):
        return TransformedNative(model, forest, "predict")  # type: ignore[return-value]
    return None


def _calibrated(model: Any, adapt: Adapt) -> Forest:
    """Return the forest whose margins are those inside the calibrators' sigmoids.

    Raises
    ------
    UnsupportedModelError
        If the probabilities are a mean over folds, or the calibrators are no sigmoids.
    """
    if len(model.calibrated_classifiers_) > 1:
        raise UnsupportedModelError.expected(
            "a CalibratedClassifierCV of one classifier",
            f"a mean of the probabilities of {len(model.calibrated_classifiers_)} folds, which is no function of a sum over trees",
            "fit it with ensemble=False, or around FrozenEstimator(model)",
        )
    one = model.calibrated_classifiers_[0]
    if one.method != "sigmoid":
        raise UnsupportedModelError.expected(
            "a CalibratedClassifierCV with method='sigmoid'", f"method={one.method!r}, which is no link that treespec has",
            "fit it with method='sigmoid', or wrap the classifier and calibrate what it says",
        )  # fmt: skip
    forest = forests_of(model, [one.estimator], adapt)[0]
    check_links(
        model, [forest], ("probability", "sigmoid", "softmax"), "scores are sums over trees", "wrap the classifier itself: model.estimator"
    )
    if forest.link in ("sigmoid", "softmax") and not hasattr(one.estimator, "decision_function"):
        raise UnsupportedModelError.expected(
            "a classifier with a decision_function, inside CalibratedClassifierCV",
            f"{forest.framework}, whose probabilities (not margins) are calibrated",
            "wrap the classifier itself, and calibrate what it says",
        )
    slope = np.array([-c.a_ for c in one.calibrators])
    shift = np.array([-c.b_ for c in one.calibrators])
    classes = np.asarray(model.classes_)
    two = len(classes) == 2
    matrix = np.diag(slope) @ (np.eye(forest.n_outputs)[-1:] if two else np.eye(forest.n_outputs))
    whole = combine(
        [Member(forest, matrix)], base=shift, what="CalibratedClassifierCV", **columns_of(model, [forest]),
        link="sigmoid" if two else "sigmoid-normalised", task="binary" if two else "multiclass", classes=(classes,), loss="none",
        framework=name_of(model, [forest]),
    )  # fmt: skip
    return replace(whole, ties_to_last=False)


class CalibratedNative(WholeNative):
    """Prediction by a calibrated classifier of one fold."""

    def __init__(self, model: Any, forest: Forest) -> None:
        super().__init__(model, forest, "predict_proba")

    def margin(self, X: Any) -> NDArray[Any]:
        """Return what the calibrators' sigmoids are given."""
        one, rows = self._model.calibrated_classifiers_[0], self._rows(X)
        has = hasattr(one.estimator, "decision_function")
        score = np.asarray(one.estimator.decision_function(rows) if has else one.estimator.predict_proba(rows))
        if score.ndim == 1:
            score = score[:, None]
        score = score[:, -1:] if len(one.calibrators) == 1 else score
        return np.column_stack([-(c.a_ * score[:, k] + c.b_) for k, c in enumerate(one.calibrators)])


def _transformed(model: Any, adapt: Adapt) -> Forest:
    """Return the regressor's forest with the inverse transformation as its link, or worked into its values where that is affine.

    Raises
    ------
    UnsupportedModelError
        If the inverse is no link that treespec has.
    """
    forest = forests_of(model, [model.regressor_], adapt)[0]
    transformer = model.transformer_
    check_links(model, [forest], ("identity",), "regressor predicts a sum over trees", "wrap the regressor itself: model.regressor_")
    name = name_of(model, [forest])
    if is_a(transformer, "sklearn.preprocessing", "StandardScaler"):
        scale = np.ones(forest.n_outputs) if transformer.scale_ is None else transformer.scale_
        mean = np.zeros(forest.n_outputs) if transformer.mean_ is None else transformer.mean_
        return combine(
            [Member(forest, np.diag(scale))], base=mean, what="TransformedTargetRegressor", **columns_of(model, [forest]),
            task=forest.task, loss=forest.loss, framework=name,
        )  # fmt: skip
    inverse = getattr(transformer, "inverse_func", False) if is_a(transformer, "sklearn.preprocessing", "FunctionTransformer") else False
    if inverse is None:
        return replace(forest, framework=name)
    if inverse not in _INVERSES:
        raise UnsupportedModelError.expected(
            "a TransformedTargetRegressor whose inverse is np.exp, np.expm1, a StandardScaler's or nothing",
            f"{getattr(inverse, '__name__', inverse) if inverse else type(transformer).__name__}",
            "wrap the regressor itself, model.regressor_, and transform what it predicts",
        )
    return replace(forest, link=_INVERSES[inverse], loss="none", framework=name)


class TransformedNative(WholeNative):
    """Prediction by a regressor of a transformed target."""

    def margin(self, X: Any) -> NDArray[Any]:
        """Return the inner regressor's prediction, on the scale of the margins."""
        found = np.asarray(self._model.regressor_.predict(self._rows(X)))
        transformer = self._model.transformer_
        if not is_a(transformer, "sklearn.preprocessing", "StandardScaler"):
            return found
        return np.asarray(transformer.inverse_transform(found.reshape(len(found), -1)))
