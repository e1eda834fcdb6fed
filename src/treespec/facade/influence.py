"""Smoothers of a wrapped model by name: which one is meant, with which options, and the influence of labels that follows from it."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from treespec.errors import DataNeededError, UnknownNameError, UnsupportedModelError
from treespec.operators import settings_lightgbm
from treespec.operators.boosted import chosen_output
from treespec.operators.bootstrap import unwrap
from treespec.operators.replay import targets
from treespec.operators.tangent import BoostingTangent

if TYPE_CHECKING:
    from scipy.sparse import csr_array

    from treespec.facade.wrapped import Wrapped
    from treespec.hooks import Scheme


def default_smoother(w: Wrapped) -> str:
    """Return what "auto" means: "leaf" for forests, "boosting" where the loss is squared, else "boosting-tangent"."""
    if w.forest.aggregation == "mean" or w.forest.loss == "none":
        return "leaf"
    return "boosting" if w.forest.loss == "squared" else "boosting-tangent"


def check_options(scheme: Scheme, options: dict[str, Any]) -> None:
    """Raise `UnknownNameError` where a smoother scheme does not take one of the options."""
    parameters = list(inspect.signature(scheme.function).parameters.values())[2:]  # after forest and data
    if any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters):
        return
    known = [p.name for p in parameters]
    for name in options:
        if name not in known:
            takes = ", ".join(map(repr, known)) or "none"
            raise UnknownNameError.expected(f"an option of the {scheme.kind} {scheme.name!r} ({takes})", repr(name), "leave it out")


def influence(w: Wrapped, X_new: Any, top: int | None, output: int | None) -> csr_array:
    """Return `Wrapped.influence`."""
    name = default_smoother(w)
    if w.forest.loss == "none" and not _is_bagged_trees(w):
        raise UnsupportedModelError.expected(
            "a model whose predictions are one smoother of its labels",
            w.forest.framework,
            "wrap its members one by one, or ask for w.smoother('leaf').weights(X_new): rows that share leaves",
        )
    if w.forest.task == "outlier":
        return w.smoother("leaf").weights(X_new, top)  # there are no labels: rows that share leaves
    if w.forest.aggregation == "mean":
        name = "boosting" if settings_lightgbm.is_mine(unwrap(w.rows.model)) else "in-bag"
    several = w.forest.n_outputs > 1
    if name == "boosting" and several:
        return w.smoother(name, output=chosen_output(w.forest, output, "influence(X_new, output=0)")).weights(X_new, top)
    smoother = w.smoother(name)
    if isinstance(smoother, BoostingTangent) and several:
        return smoother.label_weights(X_new, _outputs(w, X_new, output), top)
    chosen_output(w.forest, 0 if output is None else output, "influence(X_new, output=0)")  # a forest weighs rows alike for all outputs
    return smoother.weights(X_new, top)


def _is_bagged_trees(w: Wrapped) -> bool:
    """Whether the model is a mean of trees that each drew rows of their own, which one smoother describes."""
    samples = getattr(unwrap(w.rows.model), "estimators_samples_", ())
    return w.forest.aggregation == "mean" and w.forest.task != "outlier" and len(samples) == w.forest.n_trees


def _outputs(w: Wrapped, X_new: Any, output: int | None) -> NDArray[np.int64]:
    """Return (m,) the output that is meant for each new row: the one given, or of classes the one with the largest margin."""
    if output is None and w.forest.task == "multiclass":
        largest: NDArray[np.int64] = np.argmax(w.forest.margin_of(w.apply(X_new)), axis=1)
        return largest
    number = chosen_output(w.forest, output, "influence(X_new, output=0)")
    return np.full(len(w.apply(X_new)), number)


def label_columns(w: Wrapped, smoother: Any) -> NDArray[np.float64]:
    """Return what a smoother of the wrapped rows is applied to: (n, k) labels or indicators, less the initial score of a booster."""
    if w.rows.y is None:
        raise DataNeededError.expected(
            "the training labels, for order='share'", "rows without y", "pass X and y, as the model was fitted on them, to wrap()"
        )
    labels = targets(w.forest, w.rows.y)
    if smoother.shape[0] != len(labels):
        return labels.reshape(smoother.shape[0], -1)
    return labels - getattr(smoother, "initial", 0.0)
