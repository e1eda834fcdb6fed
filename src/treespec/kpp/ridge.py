"""Ridge regression on path features: one fit, or a whole penalty path with leave-one-out errors from one decomposition."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from treespec.errors import DataMismatchError
from treespec.kpp.krylov import solve_shifted

if TYPE_CHECKING:
    from scipy.sparse.linalg import LinearOperator

Array = NDArray[np.float64]

DENSE_ROWS = 3000
"""Up to here the (n, n) Gram matrix is built (72 MB) and factorised; above it conjugate gradients run on the operator."""


def ridge(
    features: LinearOperator,
    y: NDArray[Any],
    *,
    alpha: float,
    sample_weight: NDArray[Any] | None = None,
    n_classes: Sequence[int] | None = None,
    tolerance: float = 1e-10,
    **options: Any,
) -> tuple[Array, Array, dict[str, Any]]:
    """Fit ``|y - b - Phi w|^2 + alpha |w|^2`` with a joint unpenalised intercept b, as scikit-learn's ``Ridge`` (learner ``ridge``).

    Parameters
    ----------
    features : LinearOperator (n, m)
    y : (n,) or (n, k) array
        Values; or class numbers if ``n_classes`` is given, which are then fitted as -1 and +1 (several classes: one column a class).
    alpha : float
        Above 0.
    sample_weight : (n,) array, optional
    n_classes : sequence of int, optional
        Number of classes of each target.
    tolerance : float
        Relative residual of conjugate gradients, above 3,000 rows.

    Returns
    -------
    coef : (m,) or (m, k) array
    intercept : (k,) array
    info : dict
        ``solver``, and for conjugate gradients ``iterations`` and the ``residual`` that was reached.

    Notes
    -----
    Up to 3,000 rows O(n^2 * n_trees + n^3); above, O(n * n_trees + m) an iteration and some ten vectors of n numbers a column.
    """
    check_alpha(alpha)
    problem = Centred(features, encode(y, n_classes), sample_weight)
    if features.shape[0] <= DENSE_ROWS:
        dual = _solve(problem.gram() + alpha * np.eye(problem.n), problem.Y, alpha)
        info: dict[str, Any] = {"solver": "cholesky"}
    else:
        solution = solve_shifted(problem.multiply, problem.Y, np.array([alpha]), tolerance=tolerance)
        dual, info = solution.x[0], {"solver": "cg", "iterations": solution.n_iterations, "residual": solution.residual}
    coef, intercept = problem.primal(dual)
    return (coef if np.ndim(y) > 1 or coef.shape[1] > 1 else coef[:, 0]), intercept, info


def _solve(system: Array, Y: Array, alpha: float) -> Array:
    try:
        return np.asarray(scipy.linalg.solve(system, Y, assume_a="pos"))
    except np.linalg.LinAlgError:
        raise DataMismatchError.expected(
            "alpha large enough for a unique fit in float64", f"{alpha:.2g}", "try 1e-8 times the number of rows, or alpha='auto'"
        ) from None


class Centred:
    """The dual of ridge with an intercept: rows and labels centred, both times the square roots of the row weights.

    Parameters
    ----------
    features : LinearOperator (n, m)
    Y : (n, k) array
    sample_weight : (n,) array, optional
    """

    def __init__(self, features: LinearOperator, Y: Array, sample_weight: NDArray[Any] | None = None) -> None:
        self.features, self.n = features, features.shape[0]
        weight = np.ones(self.n) if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
        self.share = weight / weight.sum()
        self.root = np.sqrt(weight)[:, None]
        self.mean_y: Array = self.share @ Y
        self.mean_phi: Array = np.asarray(features.rmatvec(self.share))
        self.Y: Array = self.root * (Y - self.mean_y)

    def multiply(self, V: Array) -> Array:
        """Return the centred, weighted Gram matrix times V (n, k), from two products."""
        U = self.root * V
        w = self.features.rmatmat(U) - self.mean_phi[:, None] * U.sum(axis=0)
        scores = np.asarray(self.features.matmat(w))
        return np.asarray(self.root * (scores - self.mean_phi @ w))

    def gram(self) -> Array:
        """Return the centred, weighted Gram matrix (n, n)."""
        G = dense_gram(self.features)
        along = G @ self.share
        G -= along
        G -= along[:, None]
        G += self.share @ along
        G *= self.root
        G *= self.root.T
        return G

    def trace(self) -> float:
        """Return the trace of `gram`: the total weighted squared distance of rows from their mean."""
        weight = (self.root**2)[:, 0]
        return float(weight @ row_norm2(self.features) - weight.sum() * (self.mean_phi @ self.mean_phi))

    def primal(self, dual: Array) -> tuple[Array, Array]:
        """Return coefficients (m, k) and intercept (k,) from the dual solution (n, k)."""
        coef = np.asarray(self.features.rmatmat(self.root * dual))
        return coef, np.asarray(self.mean_y - self.mean_phi @ coef)


class RidgePath:
    """Ridge fits for every alpha, and their leave-one-out errors, from one eigendecomposition of the centred Gram matrix.

    Parameters
    ----------
    features : LinearOperator (n, m)
    y : (n,) or (n, k) array
    sample_weight : (n,) array, optional

    Notes
    -----
    O(n^3) once, then O(n^2 * k) an alpha; two (n, n) arrays.
    """

    def __init__(self, features: LinearOperator, y: NDArray[Any], sample_weight: NDArray[Any] | None = None) -> None:
        self.problem = Centred(features, encode(y, None), sample_weight)
        values, self.vectors = scipy.linalg.eigh(self.problem.gram())
        self.values: Array = np.maximum(values, 0.0)

    @cached_property
    def _rotated(self) -> Array:
        out: Array = self.vectors.T @ self.problem.Y
        return out

    def fit(self, alpha: float) -> tuple[Array, Array]:
        """Return coefficients (m, k) and intercept (k,)."""
        check_alpha(alpha)
        return self.problem.primal(self.vectors @ (self._rotated / (self.values + alpha)[:, None]))

    def leave_one_out(self, alpha: float) -> Array:
        """Return (n, k) residuals of each row under the fit to all others (exact: residual over one minus leverage)."""
        check_alpha(alpha)
        shrink = self.values / (self.values + alpha)
        leverage: Array = (self.vectors**2) @ shrink + self.problem.share
        scaled = self.problem.Y - self.vectors @ (self._rotated * shrink[:, None])
        room = self.problem.root * np.maximum(1 - leverage, np.finfo(float).eps)[:, None]
        out = np.zeros_like(scaled)
        np.divide(scaled, room, out=out, where=room > 0)
        return out


def check_alpha(alpha: Any) -> None:
    """Raise unless alpha is a finite number above 0."""
    if not (isinstance(alpha, (int, float, np.floating, np.integer)) and np.isfinite(alpha) and alpha > 0):
        raise DataMismatchError.expected("alpha above 0, or 'auto'", f"{alpha!r}", "0 has no unique fit: path features are collinear")


def encode(y: NDArray[Any], n_classes: Sequence[int] | None) -> Array:
    """Return labels as (n, k) numbers: values, or -1 and +1 for classes."""
    labels = np.asarray(y)
    columns = labels.reshape(len(labels), -1)
    if n_classes is None:
        return columns.astype(np.float64)
    sides = [np.where(columns[:, [j]] == np.arange(c), 1.0, -1.0) for j, c in enumerate(n_classes)]
    return sides[0][:, 1:] if len(sides) == 1 and sides[0].shape[1] == 2 else np.hstack(sides)


def dense_gram(features: Any) -> Array:
    """Return the dense (n, n) Gram matrix of any feature operator."""
    if hasattr(features, "gram"):
        return np.asarray(features.gram())
    return np.asarray(features.matmat(features.rmatmat(np.eye(features.shape[0]))))


def row_norm2(features: Any) -> Array:
    """Return the (n,) squared norms of the rows of any feature operator."""
    return np.asarray(features.row_norm2()) if hasattr(features, "row_norm2") else np.diag(dense_gram(features)).copy()
