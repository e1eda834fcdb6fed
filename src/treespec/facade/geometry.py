"""KPP from wrapped models: which rows, which schemes, which regime. The mathematics is in `treespec.kpp`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from treespec.distill.report import fitted_on
from treespec.errors import DataMismatchError, DataNeededError
from treespec.facade.steps import check_no_steps
from treespec.hooks import RowData
from treespec.ir.table import take
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
        Rows and labels of the fit; by default those of `wrap` (of the first model). The regime is "honest" only where these rows are known
        not to have grown the trees: the models were wrapped with all their training rows, and none of the rows equals one of these. Else
        it is "fixed", and the figures are diagnostics.
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
    honest = X is not None and all(_unseen(w, r) for w, r in zip(models, rows, strict=True))
    return fit(
        [(w.forest, r) for w, r in zip(models, rows, strict=True)],
        weights=schemes,
        learner=plugins.scheme("learner", default_learner(models[0].forest) if learner == "auto" else learner),
        alpha=alpha,
        weight_data=[w.rows for w in models] if honest else list(rows),
        normalisation=normalisation,
        raw=raw,
        anchor=anchor,
        regime=HONEST if honest else FIXED,
        refit=[refitter(r.model, plugins.adapt) for r in rows],
        random_state=random_state,
        options=options,
    )


def _unseen(w: Wrapped, rows: RowData) -> bool:
    """Tell whether rows are known not to have grown the trees.

    They are where the model was wrapped with its training rows, which its leaves do not contradict, and none of the rows equals one of
    these. What is not known to be unseen is treated as seen.
    """
    if not w.has_rows or w.rows.sampled_from is not None or fitted_on(w.forest, w.rows.leaf_id) == "no":
        return False
    shared = np.flatnonzero(_among(np.asarray(rows.leaf_id, np.int32), np.asarray(w.rows.leaf_id, np.int32)))  # equal rows share every leaf
    if not len(shared):
        return True
    try:
        own, other = w.forest.encode(w.rows.X), w.forest.encode(take(rows.X, shared))
    except DataNeededError:  # rows that are larger than memory are not kept
        return False
    return not _among(other + 0.0, own + 0.0).any()


def _among(rows: NDArray[Any], others: NDArray[Any]) -> NDArray[np.bool_]:
    """Tell which rows are among others of the same type, bit by bit."""
    known = {row.tobytes() for row in others}
    return np.array([row.tobytes() in known for row in rows], bool)
