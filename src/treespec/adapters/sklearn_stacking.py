"""Adapter for ``StackingRegressor`` and ``StackingClassifier`` whose final estimator is linear in the members' predictions."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from treespec.adapters._members import WholeNative, check_links, columns_of, fitted, forests_of, name_of
from treespec.errors import UnsupportedModelError
from treespec.hooks import Adapt, Native, hookimpl, is_a
from treespec.ir import Forest
from treespec.ir.combine import Member, combine

_REGRESSORS = (
    "Ridge", "RidgeCV", "LinearRegression", "Lasso", "LassoCV", "ElasticNet", "ElasticNetCV", "HuberRegressor", "SGDRegressor", "Lars",
    "LassoLars", "BayesianRidge", "ARDRegression", "QuantileRegressor", "TheilSenRegressor",
)  # fmt: skip
_WITH_PROBABILITIES = ("LogisticRegression", "LogisticRegressionCV")
_CLASSIFIERS = (*_WITH_PROBABILITIES, "RidgeClassifier", "RidgeClassifierCV", "Perceptron")


@hookimpl
def treespec_adapt(model: Any, adapt: Adapt) -> Forest | None:
    """Return the forest of a stack: the members' trees times the coefficients of the final estimator."""
    if not _is_mine(model):
        return None
    fitted(model, "final_estimator_", "estimators_")
    classes = np.asarray(model.classes_) if hasattr(model, "classes_") else None
    coef, intercept = _linear(model, classes)
    forests = forests_of(model, model.estimators_, adapt)
    members, at = [], 0
    for f, method in zip(forests, model.stack_method_, strict=True):
        part = _columns(model, f, method, classes)
        members.append(Member(f, coef[:, at : at + len(part)] @ part))
        at += len(part)
    if at != coef.shape[1]:
        raise UnsupportedModelError.expected(f"{at} coefficients", f"{coef.shape[1]}", "please report the model")
    n_outputs = len(coef)
    return combine(
        members,
        base=intercept,
        what=type(model).__name__,
        **columns_of(model, forests),
        **_meaning(model, classes, n_outputs),
        classes=None if classes is None else (classes,),
        loss="none",
        framework=name_of(model, forests),
    )


@hookimpl
def treespec_native(model: Any, forest: Forest) -> Native | None:
    """Return the stack's own prediction."""
    if not _is_mine(model):
        return None
    return WholeNative(model, forest, "predict" if forest.classes is None else "decision_function")  # type: ignore[return-value]


def _is_mine(model: object) -> bool:
    return is_a(model, "sklearn.ensemble", "StackingRegressor", "StackingClassifier")


def _linear(model: Any, classes: NDArray[Any] | None) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return coefficients (n_outputs, n_predictions) and intercepts (n_outputs,) of the final estimator.

    Raises
    ------
    UnsupportedModelError
        If it is not linear, or also sees the columns.
    """
    final = model.final_estimator_
    if not is_a(final, "sklearn.linear_model", *(_REGRESSORS if classes is None else _CLASSIFIERS)):
        raise UnsupportedModelError.expected(
            f"a {type(model).__name__} whose final estimator is linear in the members' predictions (Ridge, LogisticRegression, ...)",
            f"a {type(final).__name__}",
            "fit it with a linear final_estimator, or wrap the members one by one",
        )
    if model.passthrough:
        raise UnsupportedModelError.expected(
            f"a {type(model).__name__} of the members' predictions alone", "passthrough=True, which adds a term for each column",
            "fit it with passthrough=False",
        )  # fmt: skip
    if classes is not None and len(classes) > 2 and getattr(final, "solver", "") == "liblinear":
        raise UnsupportedModelError.expected(
            "a LogisticRegression that is multinomial", "solver='liblinear', which is one against the rest", "use another solver"
        )
    coef = np.atleast_2d(np.asarray(final.coef_, np.float64))
    return coef, np.broadcast_to(np.asarray(final.intercept_, np.float64), (len(coef),))


def _columns(model: Any, forest: Forest, method: str, classes: NDArray[Any] | None) -> NDArray[np.float64]:
    """Return the matrix from a member's margins to the columns that the final estimator sees of it."""
    hint = "use members whose predictions are sums over trees, or stack_method='decision_function' for boosters"
    if method == "predict_proba":
        check_links(model, [forest], ("probability",), "probabilities are class frequencies", hint)
        return np.eye(forest.n_outputs)[1 if classes is not None and len(classes) == 2 else 0 :]
    if method == "decision_function":
        check_links(model, [forest], ("sigmoid", "softmax"), "decision functions are sums over trees", hint)
    elif classes is not None:
        raise UnsupportedModelError.expected("probabilities or decision functions of the members", "predicted classes", hint)
    else:
        check_links(model, [forest], ("identity",), "predictions are sums over trees", hint)
    return np.eye(forest.n_outputs)


def _meaning(model: Any, classes: NDArray[Any] | None, n_outputs: int) -> dict[str, Any]:
    if classes is None:
        return {"task": "regression" if n_outputs == 1 else "multi-output"}
    if not is_a(model.final_estimator_, "sklearn.linear_model", *_WITH_PROBABILITIES):
        return {"task": "binary" if len(classes) == 2 else "multiclass"}
    return {"task": "binary", "link": "sigmoid"} if len(classes) == 2 else {"task": "multiclass", "link": "softmax"}
