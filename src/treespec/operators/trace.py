"""Diagonal and trace of an operator that is known by its products."""

from __future__ import annotations

from typing import Self

import numpy as np

from treespec.operators.base import Array, Operator

_ENTRIES = 1 << 22  # numbers of a block of columns: 32 MB
_EXACT_ROWS = 4096
_PROBES = 128


class Trace(float):
    """A trace; ``standard_error`` is 0 where it is exact."""

    standard_error: float

    def __new__(cls, value: float, standard_error: float = 0.0) -> Self:
        """Return the float with its error."""
        new = super().__new__(cls, value)
        new.standard_error = float(standard_error)
        return new


def diagonal_of(operator: Operator) -> Array:
    """Return the (n,) diagonal from n unit columns in blocks: n products, 64 MB."""
    n = operator.shape[0]
    out = np.empty(n)
    step = max(1, _ENTRIES // max(1, n))
    for start in range(0, n, step):
        index = np.arange(start, min(start + step, n))
        unit = np.zeros((n, len(index)))
        unit[index, index - start] = 1.0
        out[index] = operator.matmat(unit)[index, index - start]
    return out


def trace_of(operator: Operator, *, probes: int | None = None, random_state: int = 0) -> Trace:
    """Return the trace, exactly or by Hutchinson's estimator.

    Parameters
    ----------
    probes : int or None
        0 for the exact trace (n products); above 1, that many random sign vectors; None for the exact trace up to 4,096 rows and 128
        probes above, which the result's ``standard_error`` tells (0 where exact).
    random_state : int
    """
    n = operator.shape[0]
    wanted = (0 if n <= _EXACT_ROWS else _PROBES) if probes is None else probes
    if wanted < 2 or wanted >= n:
        return Trace(float(diagonal_of(operator).sum()))
    rng = np.random.default_rng(random_state)
    step = max(1, _ENTRIES // n)
    samples = []
    for start in range(0, wanted, step):
        sign = rng.integers(0, 2, size=(n, min(step, wanted - start))) * 2.0 - 1.0
        samples.append((sign * operator.matmat(sign)).sum(axis=0))
    sample = np.concatenate(samples)
    return Trace(float(sample.mean()), float(sample.std(ddof=1) / np.sqrt(len(sample))))
