"""KPP from wrapped models: which rows, which schemes, which regime. The mathematics is in `treespec.kpp`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from treespec.distill.report import fitted_on
from treespec.errors import DataMismatchError, DataNeededError
from treespec.facade.steps import check_no_steps
from treespec.hooks import RowData, Scheme
from treespec.kpp.anchor import AnchorName
from treespec.kpp.fit import fit
from treespec.kpp.learners import default_learner
from treespec.kpp.refit import refitter
from treespec.kpp.regimes import FIXED, HONEST
from treespec.kpp.weights import default_scheme
from treespec.operators.path import Normalisation
from treespec.plugins import manager

if TYPE_CHECKING:
    from treespec.facade.wrapped import Wrapped
    from treespec.kpp.model import KPP

_STORED = frozenset({"impurity-decrease", "gain", "uniform"})
"""Weights that the model itself stores: no label of the rows enters."""


def kpp(
    models: Sequence[Wrapped],
    X: Any = None,
    y: Any = None,
    *,
    weights: str = "auto",
    learner: str = "auto",
    alpha: float | str = "auto",
    normalisation: Normalisation = "forest",
    raw: bool = False,
    anchor: AnchorName | None = None,
    sample_weight: Any = None,
    random_state: int = 0,
    **options: Any,
) -> KPP:
    """Fit one linear model on the path features of several ensembles, in one block-structured Gram matrix.

    Parameters
    ----------
    models : sequence of Wrapped
    X, y : optional
        Rows and labels of the fit; by default those of `wrap` (of the first model).
    weights : str
        Node-weight scheme; "auto" is "impurity-decrease" where the model stores impurities, else "variance-decrease" or
        "entropy-decrease" from the data.
    learner : str
        "ridge", "logistic", "huber", "quantile", or another that ``treespec.plugins()`` lists; "auto" is "logistic" for classes, else
        "ridge".
    alpha : float or str
        The penalty (ridge: as scikit-learn's ``Ridge``; logistic: mean loss plus ``alpha / 2 |w|^2``). "auto" is not fooled by labels
        that also grew the trees: see `treespec.kpp.alpha.choose_alpha`.
    normalisation : {"forest", "tree"}
    raw : bool
        Whether scaled raw features are a further block.
    anchor : {None, "base"}
        "base", for classes: a correction on top of the log-odds of the ensembles themselves (their mean, where there are several), which
        are cross-fitted on rows that grew the trees: five more fits of each. Every score then includes them.
    sample_weight : array-like of shape (n,), optional
    random_state : int
    **options
        Passed on to the learner (``fit_intercept``, ``quantile``, ...).

    Returns
    -------
    KPP

    Raises
    ------
    DataNeededError
        If there are no labels, a weight scheme needs more than it is given, or an anchor needs an ensemble that can be fitted again.
    """
    if not models:
        raise DataNeededError.expected("at least one wrapped model", "none", "pass treespec.kpp([w1, w2], X, y)")
    for w in models:
        check_no_steps(w.steps, "kpp")
    tasks = {w.task for w in models}
    if len(tasks) > 1:
        raise DataMismatchError.expected("models of one task", f"{sorted(tasks)}", "fit regressors and classifiers apart")
    given = [w.rows_of(X, y, sample_weight) for w in models]
    rows = [w.rows if r is None else r for w, r in zip(models, given, strict=True)]
    plugins = manager()
    schemes = [plugins.scheme("node-weights", default_scheme(w.forest) if weights == "auto" else weights) for w in models]
    fresh = X is not None and all(fitted_on(w.forest, r.leaf_id) == "no" for w, r in zip(models, rows, strict=True))
    seen = _weight_rows(models, schemes, rows) if fresh else list(rows)
    honest = fresh and all(a is not b for a, b in zip(seen, rows, strict=True))
    return fit(
        [(w.forest, r) for w, r in zip(models, rows, strict=True)],
        weights=schemes,
        learner=plugins.scheme("learner", default_learner(models[0].forest) if learner == "auto" else learner),
        alpha=alpha,
        weight_data=seen,
        normalisation=normalisation,
        raw=raw,
        anchor=anchor,
        regime=HONEST if honest else FIXED,
        refit=[refitter(r.model, plugins.adapt) for r in rows],
        random_state=random_state,
        options=options,
    )


def _weight_rows(models: Sequence[Wrapped], schemes: Sequence[Scheme], rows: Sequence[RowData]) -> list[RowData | None]:
    """Return what weight schemes see where the rows of the fit did not grow the trees: those that did, so that the fit stays honest."""
    out: list[RowData | None] = []
    for w, scheme, own in zip(models, schemes, rows, strict=True):
        if w.has_rows:
            out.append(w.rows)
        else:
            out.append(None if scheme.name in _STORED else own)
    return out
