"""Adapter for a model of each target or class: ``MultiOutputRegressor``, ``MultiOutputClassifier``, ``OneVsRestClassifier``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treespec.adapters._members import WholeNative, check_links, columns_of, fitted, forests_of, name_of
from treespec.errors import UnsupportedModelError
from treespec.hooks import Adapt, Native, hookimpl, is_a
from treespec.ir import Forest
from treespec.ir.combine import Member, combine, common_loss

_BY_TARGET = ("MultiOutputRegressor", "MultiOutputClassifier")
_ONE_LINK = "wrap each of estimators_ on its own"


@hookimpl
def treespec_adapt(model: Any, adapt: Adapt) -> Forest | None:
    """Return one forest with the outputs of all members side by side."""
    if is_a(model, "sklearn.multioutput", *_BY_TARGET):
        fitted(model, "estimators_")
        if len(model.estimators_) == 1:
            raise UnsupportedModelError.expected(
                "several targets", f"a {type(model).__name__} of one, which predicts a column", "wrap model.estimators_[0]"
            )
        forests = forests_of(model, model.estimators_, adapt)
        return _side_by_side(model, forests, _of_targets(model, forests))
    if is_a(model, "sklearn.multiclass", "OneVsRestClassifier"):
        fitted(model, "estimators_")
        if any(type(e).__name__ == "_ConstantPredictor" for e in model.estimators_):
            raise UnsupportedModelError.expected("classes that all rows do not share", "a class that none or all rows have", "drop it")
        if model.label_binarizer_.sparse_input_:
            raise UnsupportedModelError.expected(
                "labels of several targets in an array", "labels in a sparse matrix, and so predictions in one", "fit it on y.toarray()"
            )
        forests = forests_of(model, model.estimators_, adapt)
        return _one_against_rest(model, forests)
    return None


@hookimpl
def treespec_native(model: Any, forest: Forest) -> Native | None:
    """Return the members' own margins and the whole's prediction."""
    if not (is_a(model, "sklearn.multioutput", *_BY_TARGET) or is_a(model, "sklearn.multiclass", "OneVsRestClassifier")):
        return None
    return SideBySideNative(model, forest)  # type: ignore[return-value]


def _of_targets(model: Any, forests: Sequence[Forest]) -> dict[str, Any]:
    """Return what the outputs of all targets mean."""
    first = forests[0]
    if first.classes is None:
        _check_same(model, forests, "link", "link_scale", "sum_dtype")
        return {"task": "multi-output", "link": first.link, "link_scale": first.link_scale, "sum_dtype": first.sum_dtype}
    check_links(model, forests, ("probability", "sigmoid"), "classes are told by class frequencies or one margin", _ONE_LINK)
    _check_same(model, forests, "link", "link_scale", "ties_to_last", "sum_dtype")
    classes = tuple(f.classes[0] for f in forests if f.classes is not None)
    link = "sigmoid-by-target" if first.link == "sigmoid" else first.link
    return {
        "task": "multi-output", "link": link, "link_scale": first.link_scale, "classes": classes, "ties_to_last": first.ties_to_last,
        "sum_dtype": first.sum_dtype,
    }  # fmt: skip


def _check_same(model: Any, forests: Sequence[Forest], *names: str) -> None:
    for name in names:
        found = {getattr(f, name) for f in forests}
        if len(found) > 1:
            raise UnsupportedModelError.expected(f"one {name} for all members of a {type(model).__name__}", f"{sorted(found)}", _ONE_LINK)


def _side_by_side(model: Any, forests: Sequence[Forest], meaning: dict[str, Any]) -> Forest:
    edge = np.cumsum([0, *(f.n_outputs for f in forests)])
    every = np.eye(int(edge[-1]))
    members = [Member(f, every[:, a:b]) for f, a, b in zip(forests, edge, edge[1:], strict=False)]
    fields = {"loss": common_loss(forests), "framework": name_of(model, forests)} | columns_of(model, forests) | meaning
    return combine(members, what=type(model).__name__, **fields)


def _one_against_rest(model: Any, forests: Sequence[Forest]) -> Forest:
    """Return the outputs of binary members: class frequencies of the second class, or margins."""
    check_links(model, forests, ("probability", "sigmoid"), "classes are told by class frequencies or one margin", _ONE_LINK)
    _check_same(model, forests, "link", "link_scale", "sum_dtype", "ties_to_last")
    first, several = forests[0], bool(model.multilabel_)
    frequencies = first.link == "probability"
    classes = np.asarray(model.classes_)
    if several and frequencies:
        raise UnsupportedModelError.expected(
            "a OneVsRestClassifier of boosters, for several labels a row", f"one of {first.framework}",
            "use the forest's own support for several labels, or MultiOutputClassifier",
        )  # fmt: skip
    every = np.eye(len(forests))
    members = [Member(f, every[:, [k]] @ _second(f)) for k, f in enumerate(forests)]
    scale = {"link_scale": 1.0 if frequencies else first.link_scale, "sum_dtype": first.sum_dtype, "ties_to_last": first.ties_to_last}
    if several:
        meaning = {"task": "multi-output", "link": "sigmoid-each", "classes": tuple(np.arange(2) for _ in forests), "ties_to_last": False}
    elif len(forests) == 1:
        meaning = {"task": "binary", "link": first.link, "classes": (classes,), "ties_to_last": False}
    else:
        meaning = {"task": "multiclass", "link": "normalised" if frequencies else "sigmoid-normalised", "classes": (classes,)}
    fields = {"loss": common_loss(forests), "framework": name_of(model, forests)} | columns_of(model, forests) | scale | meaning
    return combine(members, what=type(model).__name__, **fields)


def _second(forest: Forest) -> NDArray[np.float64]:
    """Return the row that takes the second class of two, or the margin."""
    return np.eye(forest.n_outputs)[-1:]


class SideBySideNative(WholeNative):
    """Prediction by a model of models, one for each target or class.

    Parameters
    ----------
    model : fitted estimator
    forest : Forest
    """

    def __init__(self, model: Any, forest: Forest) -> None:
        super().__init__(model, forest, "predict")
        self._whole = forest

    def margin(self, X: Any) -> NDArray[Any]:
        """Return the members' margins side by side: decision functions, class frequencies, or values."""
        rows = self._rows(X)
        alone = is_a(self._model, "sklearn.multiclass", "OneVsRestClassifier")
        parts = [_margin(e, rows, self._whole, second=alone) for e in self._model.estimators_]
        return np.column_stack(parts)


def _margin(estimator: Any, rows: Any, whole: Forest, *, second: bool) -> NDArray[Any]:
    if is_a(estimator, "xgboost", "XGBModel"):
        return np.asarray(estimator.predict(rows, output_margin=True))
    if is_a(estimator, "lightgbm", "LGBMModel"):
        return np.asarray(estimator.predict(rows, raw_score=True))
    if whole.classes is None:
        found = np.asarray(estimator.predict(rows), np.float64)
        return np.log(found) if whole.link == "exp" else found
    if hasattr(estimator, "decision_function"):
        return np.asarray(estimator.decision_function(rows))
    found = np.asarray(estimator.predict_proba(rows))
    return found[:, 1] if second else found
