"""Capacity and conditioning of path features: trace, effective dimension, smallest eigenvalue (section 7.2)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from treespec.kpp.krylov import solve_shifted
from treespec.kpp.ridge import DENSE_ROWS, dense_gram, row_norm2

Array = NDArray[np.float64]

_PROBES = 64


@dataclass(frozen=True)
class Capacity:
    """What a Gram matrix (uncentred) says about capacity and conditioning.

    Attributes
    ----------
    n : int
    trace : float
        ``Tr(G)``, at most n.
    effective_dimension : float
        ``Tr(G (G + alpha I)^-1)`` (eq. 56).
    effective_dimension_error : float
        Its standard error; 0 where it is exact.
    mu_min : float or None
        Smallest eigenvalue of G; None where it was not computed (more than 3,000 rows, none of them alike).
    mu_max : float
        Largest eigenvalue.
    alpha : float
        The shift of the effective dimension, on the scale of the squared loss summed over rows.
    """

    n: int
    trace: float
    effective_dimension: float
    effective_dimension_error: float
    mu_min: float | None
    mu_max: float
    alpha: float


def capacity(features: Any, alpha: float, *, random_state: int = 0) -> Capacity:
    """Measure a feature operator (n, m).

    Notes
    -----
    Up to 3,000 rows from all eigenvalues of the dense Gram matrix. Above, the effective dimension is estimated from 64 random sign
    vectors by conjugate gradients, the largest eigenvalue by power iteration, and the smallest is 0 where two rows visit the same
    nodes and None otherwise.
    """
    n = features.shape[0]
    if n <= DENSE_ROWS:
        values = np.maximum(scipy.linalg.eigvalsh(dense_gram(features)), 0.0)
        return Capacity(
            n, float(values.sum()), float((values / (values + alpha)).sum()), 0.0, float(values[0]), float(values[-1]), float(alpha)
        )
    rng = np.random.default_rng(random_state)

    def multiply(V: Array) -> Array:
        return np.asarray(features.matmat(features.rmatmat(V)))

    signs = np.where(rng.integers(0, 2, size=(n, _PROBES)) == 1, 1.0, -1.0)
    solved = solve_shifted(multiply, signs, np.array([alpha]), tolerance=1e-4).x[0]
    sample = n - alpha * (signs * solved).sum(axis=0)
    v = np.ones((n, 1))
    for _ in range(30):  # entries of G are not negative: the leading vector is not either
        v = multiply(v / np.linalg.norm(v))
    return Capacity(
        n,
        float(row_norm2(features).sum()),
        float(sample.mean()),
        float(sample.std(ddof=1) / np.sqrt(_PROBES)),
        0.0 if _has_twins(features) else None,
        float(np.linalg.norm(v)),
        float(alpha),
    )


def _has_twins(features: Any) -> bool:
    """Tell whether two rows have the same features: seen through a random projection."""
    image = np.asarray(features.matvec(np.random.default_rng(0).standard_normal(features.shape[1])))
    return len(np.unique(image)) < len(image)
