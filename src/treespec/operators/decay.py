"""What the values of a spectrum say: the power law that they follow, and the effective dimension."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from treespec.errors import DataMismatchError
from treespec.operators.base import Array
from treespec.operators.leaf_spectrum import NEGLIGIBLE

_DECAY_RANKS = 100
_FEWEST = 3  # values that a line is fitted to


@dataclass(frozen=True)
class Decay:
    """The power law ``value = constant * rank ** -beta`` that fits a spectrum best (assumption C2 of the SCATE paper).

    Attributes
    ----------
    beta : float
        Minus the slope of log value on log rank; C2 asks for more than 1.
    constant : float
        Value of the line at rank 1.
    r2 : float
        Share of the variance of log value that the line explains.
    n_values : int
        How many values were fitted: the positive ones of the first 100.
    """

    beta: float
    constant: float
    r2: float
    n_values: int


def fit_decay(values: Array) -> Decay:
    """Return the power law that fits the first 100 of the descending ``values`` best.

    Source: the SCATE paper, appendix "Evaluating the C2 Assumption": least squares of log value on log rank over the top 100.

    Raises
    ------
    DataMismatchError
        If fewer than three values are positive.
    """
    top = values[:_DECAY_RANKS]
    top = top[top > NEGLIGIBLE * values.max(initial=0.0)]
    if len(top) < _FEWEST:
        raise DataMismatchError.expected("at least 3 positive values to fit", f"{len(top)}", "ask for spectrum(rank=100)")
    x, z = np.log(np.arange(1, len(top) + 1)), np.log(top)
    slope, intercept = np.polyfit(x, z, 1)
    spread = float(((z - z.mean()) ** 2).sum())
    left_over = float(((z - slope * x - intercept) ** 2).sum())
    return Decay(float(-slope), float(np.exp(intercept)), 1.0 - left_over / spread if spread > 0 else 1.0, len(top))


@dataclass(frozen=True)
class EffectiveDimension:
    """Bounds on ``Tr(K (K + alpha I)^-1)``, how many directions a ridge penalty leaves free.

    The leading values are known, and of the others their number, their sum and the largest that they can be. They coincide where the
    spectrum has full rank.

    Attributes
    ----------
    lower, upper : float
    """

    lower: float
    upper: float


def effective_dimension(values: Array, alpha: float, trace: float, n: int) -> EffectiveDimension:
    """Return the effective dimension of a positive semidefinite (n, n) matrix from its leading eigenvalues and its trace.

    ``v / (v + alpha)`` is concave in v: of all values that add up to the rest of the trace, equal ones make it largest, and as many as
    possible at the smallest known value make it smallest.

    Raises
    ------
    DataMismatchError
        If ``alpha`` is not positive.
    """
    if not 0 < alpha < np.inf:
        raise DataMismatchError.expected("a positive alpha", f"{alpha}", "an alpha of 0 leaves all directions free")
    known = float((values / (values + alpha)).sum())
    rest, others = max(0.0, trace - float(values.sum())), n - len(values)
    if not others:
        return EffectiveDimension(known, known)
    smallest = float(values.min())
    mean = rest / others
    lower = rest / (smallest + alpha)
    return EffectiveDimension(known + min(lower, others * mean / (mean + alpha)), known + others * mean / (mean + alpha))
