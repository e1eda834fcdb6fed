"""Models that are made of trees and are no sum over them: refused by name, with the reason and what to do instead."""

from __future__ import annotations

from typing import Any

from treespec.errors import UnsupportedModelError
from treespec.hooks import hookimpl, is_a
from treespec.ir import Forest

_REFUSED = {
    ("sklearn.ensemble", "AdaBoostRegressor"): (
        "it predicts a weighted median of its members", "use GradientBoostingRegressor, or BaggingRegressor, which adds up",
    ),
    ("sklearn.multiclass", "OneVsOneClassifier"): (
        "it counts the votes of all pairs of classes", "use OneVsRestClassifier, or the classifier itself, which knows several classes",
    ),
    ("sklearn.multiclass", "OutputCodeClassifier"): (
        "it predicts the class of the nearest code word", "use the classifier itself, which knows several classes",
    ),
    ("sklearn.multioutput", "ClassifierChain"): (
        "a member sees what the members before it predict", "use MultiOutputClassifier, or wrap each of estimators_",
    ),
    ("sklearn.multioutput", "RegressorChain"): (
        "a member sees what the members before it predict", "use MultiOutputRegressor, or wrap each of estimators_",
    ),
    ("sklearn.model_selection", "TunedThresholdClassifierCV"): (
        "its classes are told by a threshold of their own", "wrap its estimator_, and compare predict_proba with best_threshold_",
    ),
    ("sklearn.model_selection", "FixedThresholdClassifier"): (
        "its classes are told by a threshold of their own", "wrap its estimator_, and compare predict_proba with the threshold",
    ),
    ("lightgbm", "CVBooster"): ("it holds a booster for each fold", "wrap one of them: model.boosters[0]"),
}  # fmt: skip


@hookimpl
def treespec_adapt(model: Any) -> Forest | None:
    """Raise for a model that cannot be one forest; None for any other."""
    for (module, name), (reason, hint) in _REFUSED.items():
        if is_a(model, module, name):
            raise UnsupportedModelError.expected("a sum over trees", f"a {type(model).__name__}: {reason}", hint)
    return None
