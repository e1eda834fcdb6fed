"""Deterministic certificates in the path metric (section 6): radius, robust accuracy, robust squared error.

They bound how far a score can move between rows that are close **in the forest's path metric** delta, not in the raw inputs; for those see
`treespec.kpp.raw_robustness`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from treespec.errors import DataMismatchError, DataNeededError
from treespec.kpp.anchor import refuse
from treespec.kpp.targets import Targets

if TYPE_CHECKING:
    from treespec.kpp.model import KPP

Array = NDArray[np.float64]

_POINTS = 101
_NO_METRIC = "the norm of the correction does not limit how far the ensemble itself moves; raw_certificate() covers both"


@dataclass(frozen=True, eq=False)
class Curve:
    """A certificate against the radius u of a ball in the path metric.

    Attributes
    ----------
    u : (n_points,) array
        Radii in delta, ascending.
    value : (n_points,) array
        "accuracy": share of rows whose (right) prediction no row within u can change (eq. 47). "squared error": upper bound on the mean
        worst squared error within u, labels held fixed (eq. 44).
    kind : {"accuracy", "squared error"}
    u_max : float
        Where the margins of all rows are used up: ``(max |m| / L)^2``, or ``(max |y| / L)^2`` for values.
    u_half : float
        Smallest radius at which accuracy falls to half of that at 0, or the bound on the squared error doubles.
    lipschitz : float
        L: norm of the coefficients (largest norm of a difference of two classes' where there are more than two).
    """

    u: Array
    value: Array
    kind: str
    u_max: float
    u_half: float
    lipschitz: float

    def plot(self, ax: Any = None) -> Any:
        """Draw the curve and return the axes."""
        from matplotlib import pyplot as plt

        ax = plt.gca() if ax is None else ax
        ax.plot(self.u, self.value)
        ax.set_xlabel("radius u in the path metric")
        ax.set_ylabel("certified accuracy" if self.kind == "accuracy" else "bound on robust squared error")
        return ax


def targets_of(model: KPP, X: Any, y: NDArray[Any] | None) -> Targets:
    """Return labels of other rows, as the model was fitted on them."""
    if y is None:
        raise DataNeededError.expected("labels of the rows", "none", "pass y; the certificate is about a label")
    labels = y.to_numpy() if hasattr(y, "to_numpy") else np.asarray(y)
    forest = model.representation.forests[0]
    known = (
        forest
        if forest.classes is not None or model.targets.kind == "values"
        else forest.with_values(forest.value, classes=model.targets.classes)
    )
    return Targets.of(known, labels)


def margins(model: KPP, score: Array, targets: Targets) -> tuple[Array, Array]:
    """Return margins and Lipschitz constants, (n, r) each: row i keeps its label while every margin stays positive.

    Two classes: ``m = y g`` and the norm of w (eq. 46), r = 1. More: ``g_y - g_k`` and ``|w_y - w_k|`` for each other class k; several
    targets side by side.
    """
    if targets.binary:
        return targets.sign[:, None] * score, np.full((len(score), 1), model.norm)
    m, L, low = [], [], 0
    for j, classes in enumerate(targets.classes):
        W, g = model.coef[:, low : low + len(classes)], score[:, low : low + len(classes)]
        low += len(classes)
        square = W.T @ W
        apart = np.sqrt(np.maximum(np.diag(square)[:, None] + np.diag(square) - 2 * square, 0.0))
        own = targets.code[:, j]
        others = np.argsort(np.arange(len(classes)) == own[:, None], axis=1, kind="stable")[:, :-1]
        m.append(np.take_along_axis(g, own[:, None], 1) - np.take_along_axis(g, others, 1))
        L.append(apart[own[:, None], others])
    return np.hstack(m), np.hstack(L)


def radius(model: KPP, X: Any, y: Any = None, *, epsilon: float | None = None) -> Array:
    """Return (n,) certified radii in the path metric delta.

    Classes: every row x' with ``delta(x, x') < radius`` gets the same prediction as x (eq. 46; several classes: the least over pairs of
    classes of ``(g_y - g_k)^2 / |w_y - w_k|^2``); 0 where x itself is predicted wrongly.

    Values: every x' with ``delta(x, x') < radius`` has a prediction within ``epsilon`` of that of x (several outputs: in Euclidean
    distance): ``(epsilon / |w|)^2``, the same for all rows.

    Parameters
    ----------
    model : KPP
    X : array-like or frame (n, p)
    y : (n,) array
        Labels; not needed for values.
    epsilon : float, optional
        For values; by default the root mean squared error on the training rows.
    """
    if model.targets.kind == "values":
        if epsilon is None:
            residual = model.targets.value - np.asarray(model.features.matmat(model.coef)) - model.intercept
            epsilon = float(np.sqrt((residual**2).sum(axis=1).mean()))
        if not epsilon >= 0:
            raise DataMismatchError.expected("epsilon of 0 or more", f"{epsilon}", "it is a distance between predictions")
        n = len(model.representation.leaf_ids(X)[0])
        return np.full(n, np.inf if model.norm == 0 else (epsilon / model.norm) ** 2)
    refuse(model, "a radius in the path metric", _NO_METRIC)
    m, L = margins(model, model.scores(X), targets_of(model, X, y))
    return _radii(m, L)


def _radii(m: Array, L: Array) -> Array:
    each = np.where(m > 0, np.divide(m, L, out=np.full_like(m, np.inf), where=L > 0), 0.0)
    return np.asarray(each.min(axis=1) ** 2)


def curve(model: KPP, X: Any, y: Any, u: NDArray[Any] | Sequence[float] | None = None) -> Curve:
    """Return RobAcc(u) (eq. 47) for classes or the bound on RobMSE(u) (eq. 44) for values, on labelled rows.

    Parameters
    ----------
    model : KPP
    X, y
        Rows and labels: held-out ones for a figure to report.
    u : array, optional
        Radii in delta; by default 101 from 0 to ``u_max``.
    """
    refuse(model, "a curve in the path metric", _NO_METRIC)
    return curve_of(model, model.scores(X), targets_of(model, X, y), u)


def curve_of(model: KPP, score: Array, targets: Targets, u: NDArray[Any] | Sequence[float] | None = None) -> Curve:
    """Return `curve` for rows whose (n, k) scores are at hand."""
    if targets.kind == "values":
        return _squared_error(model, targets.value - score, targets, u)
    m, L = margins(model, score, targets)
    radii = _radii(m, L)
    top = float(L.max(initial=0.0))
    u_max = float((np.divide(np.abs(m), L, out=np.zeros_like(m), where=L > 0)).max(initial=0.0) ** 2)
    points = np.linspace(0.0, u_max, _POINTS) if u is None else np.sort(np.asarray(u, dtype=np.float64))
    right = np.sort(radii[(m > 0).all(axis=1)])
    value = (len(right) - np.searchsorted(right, points, side="right")) / len(radii)
    gone = int(np.ceil(len(right) / 2))  # so many must be lost for the accuracy to halve
    return Curve(points, value, "accuracy", u_max, float(right[gone - 1]) if gone else 0.0, top)


def _squared_error(model: KPP, residual: Array, targets: Targets, u: NDArray[Any] | Sequence[float] | None) -> Curve:
    """Eq. 44 with |e| the norm of a row's residuals, which for several outputs is Cauchy-Schwarz with the Frobenius norm of w."""
    size = np.linalg.norm(residual, axis=1)
    mse, mae, L = float((size**2).mean()), float(size.mean()), model.norm
    M = float(np.linalg.norm(targets.value, axis=1).max())
    u_max = (M / L) ** 2 if L > 0 else np.inf
    points = np.linspace(0.0, u_max if L > 0 else 1.0, _POINTS) if u is None else np.sort(np.asarray(u, dtype=np.float64))
    value = mse + 2 * mae * L * np.sqrt(points) + L**2 * points
    root = (np.sqrt(mae**2 + mse) - mae) / L if L > 0 else np.inf  # L^2 u + 2 mae L sqrt(u) = mse
    return Curve(points, value, "squared error", float(u_max), float(root**2), L)
