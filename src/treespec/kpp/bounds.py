"""Risk bounds of section 7, evaluated at a fit: trace term, uniform bound, calibration to classification error, and their verdict.

They hold given the representation, for a norm budget fixed before the fit. Here the budget is the norm that was fitted and the envelope
of y is the largest label seen, so they are empirical surrogates; where the same labels also grew the trees they are diagnostics and no
guarantee (section 3.5 and Appendix D). The uniform column of Table 5 of the paper is twice what eq. 55 and 62 give with its other columns;
this file follows the equations.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from treespec.errors import DataMismatchError, UnsupportedModelError
from treespec.kpp.anchor import refuse
from treespec.kpp.losses import Logistic, Softmax
from treespec.kpp.ridge import row_norm2

if TYPE_CHECKING:
    from treespec.kpp.model import KPP

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Bounds:
    """Bounds at one fit.

    Attributes
    ----------
    task : {"regression", "binary", "multiclass"}
    B : float
        Norm of the coefficients, taken as the norm budget.
    M : float
        Largest absolute label (values); 0 for classes.
    delta : float
        The uniform bound fails with at most this probability.
    trace_term : float
        ``2 B sqrt(Tr(G)) / n``: twice the bound on the Rademacher complexity (eq. 50). Several outputs: times the root of their number.
    empirical_risk : float
        Mean squared error, or mean log-loss, on the training rows.
    uniform : float
        Right-hand side of eq. 55 (values) or 62 (classes).
    null_risk : float
        What the bound must beat: ``M^2``, or the log-loss of guessing.
    trivial : bool
        Whether it does not.
    error_bound : float or None
        Bound on the probability of a wrong class, ``uniform / log 2`` (eq. 64); None for values.
    regime : str
        "fixed", "honest" or "cross-fit".
    status : str
        What the numbers may claim.
    source : str
        Equations, or what extends them.
    """

    task: str
    B: float
    M: float
    delta: float
    trace_term: float
    empirical_risk: float
    uniform: float
    null_risk: float
    trivial: bool
    error_bound: float | None
    regime: str
    status: str
    source: str

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as a dict."""
        return asdict(self)


def bounds(model: KPP, delta: float = 0.05) -> Bounds:
    """Return the bounds of a fit, on its training rows.

    Values: eq. 55, where the intercept is taken up by centring the labels (section 3.4); several outputs count by the Frobenius norm. Two
    classes: eq. 62 and 64. More classes: the same by Maurer's contraction for vector-valued functions (softmax log-loss is
    sqrt(2)-Lipschitz), an extension that the paper leaves open.

    Parameters
    ----------
    model : KPP
    delta : float
        Between 0 and 1.

    Raises
    ------
    UnsupportedModelError
        For a logistic fit with an intercept or an anchor, which lies outside the class that the bounds are about; for other losses; and
        for several targets of classes.
    """
    refuse(model, "the bounds", "they are about linear scores alone: fit without anchor")
    if not 0 < delta < 1:
        raise DataMismatchError.expected("delta between 0 and 1", f"{delta}", "0.05 is usual")
    n, B = model.features.shape[0], model.norm
    trace = 2 * B * float(np.sqrt(row_norm2(model.features).sum())) / n
    score = np.asarray(model.features.matmat(model.coef)) + model.intercept
    if model.targets.kind == "values":
        return _squared(model, score, trace, delta)
    if model.learner != "logistic" or len(model.targets.classes) > 1:
        raise UnsupportedModelError.expected(
            "a logistic fit of one target, for the bounds", f"learner {model.learner!r} on {len(model.targets.classes)} targets",
            "the paper states bounds for squared loss and log-loss",
        )  # fmt: skip
    if model.intercept.any():
        raise UnsupportedModelError.expected(
            "a homogeneous logistic fit, which the bounds are about (section 3.4)",
            "one with an intercept",
            "fit with intercept=False: the root coordinates supply an intercept within the norm",
        )
    return _logistic(model, score, trace, delta)


def _squared(model: KPP, score: Array, trace: float, delta: float) -> Bounds:
    n, B = len(score), model.norm
    M = float(np.linalg.norm(model.targets.value, axis=1).max())
    risk = float(((model.targets.value - score) ** 2).sum(axis=1).mean())
    k = score.shape[1]
    # one output: eq. 55. Several: Maurer's contraction, sqrt(2) for the constant and sqrt(k) for the trace
    wide = 1.0 if k == 1 else float(np.sqrt(2 * k))
    uniform = risk + 2 * (M + B) * trace * wide + 3 * (M + B) ** 2 * float(np.sqrt(2 * np.log(2 / delta) / n))
    source = "eq. 50 and 55" if k == 1 else "eq. 55 extended to several outputs by vector contraction (Maurer 2016)"
    trace_term = trace * float(np.sqrt(k))
    return Bounds(
        "regression", B, M, delta, trace_term, risk, uniform, M**2, uniform > M**2, None, model.regime.name, model.regime.status, source
    )


def _logistic(model: KPP, score: Array, trace: float, delta: float) -> Bounds:
    n, B = len(score), model.norm
    share = np.full(n, 1 / n)
    deviation = 3 * float(np.sqrt(np.log(2 / delta) / (2 * n)))
    if model.targets.binary:
        k, source, task = 2, "eq. 50, 62 and 64", "binary"
        risk = Logistic(model.targets.sign, share).value(score)
        uniform = risk + trace + deviation * float(np.logaddexp(0.0, B))
        trace_term = trace
    else:
        k, task = score.shape[1], "multiclass"
        source = "eq. 62 and 64 extended to several classes by vector contraction (Maurer 2016)"
        risk = Softmax(model.targets.value, share).value(score)
        largest = float(np.logaddexp(0.0, np.log(k - 1) + np.sqrt(2) * B))  # |g_k - g_y| <= |w_k - w_y| <= sqrt(2) B
        uniform = risk + 2 * float(np.sqrt(k)) * trace + deviation * largest
        trace_term = trace * float(np.sqrt(k))
    null = float(np.log(k))
    return Bounds(
        task, B, 0.0, delta, trace_term, risk, uniform, null, uniform > null, uniform / float(np.log(2)), model.regime.name,
        model.regime.status, source,
    )  # fmt: skip
