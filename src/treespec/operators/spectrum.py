"""The spectrum of a smoother: leading directions, their extension to new rows, their decay, and the best that they can do."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treespec.errors import DataMismatchError, UnsupportedModelError
from treespec.operators import rowwise
from treespec.operators.base import Array, Operator, frozen, is_lazy
from treespec.operators.decay import Decay, EffectiveDimension, effective_dimension, fit_decay
from treespec.operators.dense import svd
from treespec.operators.kernel import ForestKernel
from treespec.operators.lanczos import DENSE_ROWS, dense_eigenpairs, leading_eigenpairs
from treespec.operators.leaf import LeafIncidence
from treespec.operators.leaf_spectrum import NEGLIGIBLE, Directions, Factor, KernelFactor, PathFactor, extended, leaf_directions, pays_off
from treespec.operators.merged import LeafGram, MergedKernel
from treespec.operators.path_smoother import PathSmoother
from treespec.plots.decay import plot_decay

_WALK_BLOCK = 8  # columns that walk over the trees together: a step costs little more than for one
_ROWS_PER_LEAF = 2  # from here the leaves make the smaller problem
_FULL_RANK = 1e-6  # of the largest value: what is smaller has no direction over the leaves that could be lifted to rows


@dataclass(frozen=True, eq=False)
class Oracle:
    """What a rank-P student could predict at best (the "Oracle Benchmark" of the SCATE paper).

    Attributes
    ----------
    prediction : (m,) or (m, k) array
        ``S_new right right.T y``: predictions through the best rank-P approximation of the cross smoother in these directions.
    error : float
        Frobenius norm of what the approximation leaves out of the (m, n) cross smoother.
    relative_error : float
        The same, divided by the norm of the cross smoother.
    """

    prediction: Array
    error: float
    relative_error: float


@dataclass(frozen=True, eq=False)
class Spectrum:
    """The P leading directions of a smoother: ``S ~ left @ diag(values) @ right.T``.

    Attributes
    ----------
    values : (P,) array
        Descending (but see `by_share`): eigenvalues of a kernel, singular values of any other smoother.
    left : (n, P) array
        Directions in prediction space (the paper's psi or u).
    right : (n, P) array
        Directions in label space; equal to ``left`` for a kernel, times the row weights where it has any.
    residual : float
        The largest ``|S right - values left|`` (and of its transpose), divided by the largest value.
    smoother : Smoother
        What was decomposed.
    """

    values: Array
    left: Array
    right: Array
    residual: float
    smoother: Any = field(repr=False)

    @property
    def rank(self) -> int:
        """Number of directions."""
        return len(self.values)

    def extend(self, X_new: Any) -> Array:
        """Return the (m, P) directions at new rows (Nystrom): ``cross(X_new) @ right / values``; 0 where a value is negligible."""
        return self.extend_with(self.smoother.cross(X_new))

    def extend_with(self, cross: Operator) -> Array:
        """Return `extend` for a cross smoother (m, n) that is already built."""
        large = self.values > NEGLIGIBLE * self.values.max(initial=0.0)
        return np.divide(cross.matmat(self._onto), self.values, out=np.zeros((cross.shape[0], self.rank)), where=large)

    def coefficients(self, y: NDArray[Any]) -> Array:
        """Return ``values * right.T y``, (P,) or (P, k): ``left @`` it (or `extend` of new rows) predicts. The paper's c."""
        c: Array = self.right.T @ np.asarray(y, dtype=np.float64)
        return self.values[:, None] * c if c.ndim > 1 else self.values * c

    def shares(self, y: NDArray[Any]) -> Array:
        """Return (P,) the share of the fitted values ``S y`` (their squared norm) that each direction carries, y (n,) or (n, k).

        For a kernel they add up to at most 1. Pass ``y - c`` for a smoother of a booster, as it fits what is left of the initial score.
        """
        numbers: Any = y if is_lazy(y) else np.asarray(y, dtype=np.float64)
        labels = numbers[:, None] if numbers.ndim == 1 else numbers
        root = self.smoother.sqrt_weight[:, None] if isinstance(self.smoother, ForestKernel) else 1.0
        total = float(((root * self.smoother.matmat(labels)) ** 2).sum())
        carried = (self.coefficients(labels) ** 2).sum(axis=1)
        return np.asarray(carried / total if total > 0 else carried)

    def by_share(self, y: NDArray[Any]) -> Spectrum:
        """Return the same directions in the order of their `shares` of the fitted values, the largest first."""
        return self._picked(np.argsort(-self.shares(y), kind="stable"))

    def _picked(self, order: NDArray[np.intp]) -> Spectrum:
        values, left, right = frozen(self.values[order]), _columns(self.left, order), _columns(self.right, order)
        return Spectrum(values, left, right, self.residual, self.smoother)

    def decay(self) -> Decay:
        """Return the power law that fits the 100 largest values best: assumption C2 of the SCATE paper, slope and quality of the fit.

        Raises
        ------
        DataMismatchError
            If fewer than three values are positive.
        """
        return fit_decay(np.sort(self.values)[::-1])

    def effective_dimension(self, alpha: float) -> EffectiveDimension:
        """Return bounds on ``Tr(K (K + alpha I)^-1)`` of a forest kernel (KPP, eq. 56) from these eigenvalues and its exact trace.

        Raises
        ------
        UnsupportedModelError
            If the smoother is no forest kernel: its singular values do not add up to its trace.
        DataMismatchError
            If ``alpha`` is not positive.
        """
        if not isinstance(self.smoother, ForestKernel):
            raise UnsupportedModelError.expected(
                "a spectrum of the forest kernel, for its effective dimension",
                type(self.smoother).__name__,
                "use the trace of the smoother, its effective degrees of freedom",
            )
        return effective_dimension(self.values, alpha, self.smoother.trace(), self.smoother.shape[0])

    def plot(self, ax: Any = None) -> Any:
        """Draw the values against their rank with the fitted power law, and return the matplotlib axes (new ones without ``ax``)."""
        fit = self.decay()
        return plot_decay(
            np.sort(self.values)[::-1],
            slope=-fit.beta,
            constant=fit.constant,
            r2=fit.r2,
            n_fitted=fit.n_values,
            name="eigenvalue" if isinstance(self.smoother, ForestKernel) else "singular value",
            ax=ax,
        )

    def oracle(self, X_new: Any, y: NDArray[Any], rank: int | None = None) -> Oracle:
        """Return what the first ``rank`` directions (None: all) can predict at new rows from training labels y.

        Notes
        -----
        The least-squares W of ``W (right diag(values)).T = S_new`` is the Nystrom extension, so the approximation is
        ``S_new right right.T``. The norm of S_new costs one pass over the weights of all new rows.
        """
        cross = self.smoother.cross(X_new)
        onto, dual = self._onto[:, :rank], self.right[:, :rank]
        reached = cross.matmat(onto)
        prediction: Array = reached @ (dual.T @ np.asarray(y, dtype=np.float64))
        total = rowwise.squared_norm(cross.row_blocks(), cross.shape)
        rest = max(0.0, total - 2 * float((cross.matmat(dual) * reached).sum()) + float(((reached.T @ reached) * (dual.T @ dual)).sum()))
        return Oracle(prediction, float(np.sqrt(rest)), float(np.sqrt(rest / total)) if total > 0 else 0.0)

    @property
    def _onto(self) -> Array:
        """(n, P) what S turns into ``left * values``."""
        return self.left if isinstance(self.smoother, ForestKernel) else self.right


@dataclass(frozen=True, eq=False)
class LeafSpectrum(Spectrum):
    """A `Spectrum` known by what each leaf contributes: ``left = Z @ leaf``, and new rows cost one gather.

    Attributes
    ----------
    leaf : (n_leaves, P) array
    """

    leaf: Array = field(repr=False)

    def extend_with(self, cross: Operator) -> Array:
        """Return the (m, P) directions at the new rows of a cross smoother; the training rows are not needed."""
        return extended(cross, self.leaf)

    def _picked(self, order: NDArray[np.intp]) -> Spectrum:
        found = super()._picked(order)
        return LeafSpectrum(found.values, found.left, found.right, self.residual, self.smoother, _columns(self.leaf, order))

    def coefficients(self, y: NDArray[Any]) -> Array:
        """Return ``values * right.T y``, (P,) or (P, k), from leaf sums; ``y`` may be a Dask array."""
        c: Array = np.asarray(self.right.T @ y)
        return self.values[:, None] * c if c.ndim > 1 else self.values * c


def spectrum(smoother: Any, rank: int = 50, random_state: int = 0, *, tolerance: float = 1e-6) -> Spectrum:
    """Return the ``rank`` leading directions of a smoother.

    Parameters
    ----------
    smoother : Smoother
        A `ForestKernel` gives eigenpairs, any other smoother singular triples.
    rank : int
        At most n.
    random_state : int
        The result repeats to the bit.
    tolerance : float
        Largest ``|S v - value u|`` relative to the value that is accepted; what was reached is in ``residual``. An eigenvalue is within
        that distance, and usually within its square.

    Notes
    -----
    Kernels (``leaf`` and ``path``) of rows in blocks are decomposed on the leaf side: memory is leaf-sized, and directions at new rows
    need no training rows.

    Others are dense up to 800 rows, and where ``rank`` is above a quarter of n. Otherwise block Lanczos:
    some 4 to 8 times ``rank`` products, O(n * n_trees) each, and
    at most 512 MB; no n-by-n matrix. Signs: the component of largest magnitude of each right direction is positive.

    Examples
    --------
    >>> from treespec.operators import ForestKernel, LeafIncidence
    >>> spectrum(ForestKernel(LeafIncidence([[0], [0], [1]], n_leaves=2)), rank=3).values.round(12)
    array([1., 1., 0.])
    """
    n = smoother.shape[1]
    if not 1 <= rank <= n:
        raise DataMismatchError.expected(
            f"a rank from 1 to {n} (the number of rows)", f"{rank}", f"ask for spectrum(rank={min(max(1, rank), n)})"
        )
    factor = _factor(smoother)
    if factor is not None and pays_off(factor) and (not factor.Z.here or (rank <= factor.n_columns and not _dense(n, rank))):
        found = leaf_directions(factor, rank, random_state, tolerance)
        if not factor.Z.here or found.values[-1] > _FULL_RANK * found.values[0]:
            return _of_leaves(smoother, factor, found)
    if isinstance(smoother, ForestKernel):
        return _of_kernel(smoother, rank, random_state, tolerance)
    return _of_smoother(smoother, rank, random_state, tolerance)


def _columns(array: Any, order: NDArray[np.intp]) -> Any:
    """Return columns of an array, in memory or of Dask."""
    picked = array[:, order]
    return frozen(picked) if isinstance(picked, np.ndarray) else picked


def _factor(smoother: Any) -> Factor | None:
    """Return F of a kernel ``F F.T``, None for other smoothers."""
    if isinstance(smoother, ForestKernel):
        return KernelFactor(smoother.left, smoother.weight, np.sqrt(smoother.scale))
    return PathFactor(smoother.features.Z, smoother.features.map) if isinstance(smoother, PathSmoother) else None


def _of_leaves(smoother: Any, factor: Factor, found: Directions) -> Spectrum:
    """Directions from the leaf side; those of the rows are made of them, where the rows are."""
    left = factor.Z.gather(found.leaf)
    right = left if factor.weight is None else left * factor.weight[:, None]
    if factor.Z.here:
        left, right = frozen(left), frozen(right)
    return LeafSpectrum(found.values, left, right, found.residual, smoother, found.leaf)


def _of_kernel(kernel: ForestKernel, rank: int, random_state: int, tolerance: float) -> Spectrum:
    """Eigenpairs of the symmetric form ``diag(sqrt w) Z D Z.T diag(sqrt w)``, which has the same eigenvalues."""
    root = kernel.sqrt_weight[:, None]
    safe = np.where(root > 0, root, 1.0)
    values, vectors = _eigen_of_kernel(kernel, rank, random_state, tolerance)
    vectors = vectors * _sign(vectors)
    left, right = vectors / safe, vectors * root
    if (root == 0).any():  # a row without weight has no direction of its own: extend to it
        left = np.divide(kernel.matmat(left), values, out=np.zeros_like(left), where=values > NEGLIGIBLE * values[0])
    residual = float(np.linalg.norm(root * (kernel.matmat(left) - left * values), axis=0).max() / (values[0] or 1.0))
    return Spectrum(frozen(values), frozen(left), frozen(right), residual, kernel)


def _eigen_of_kernel(kernel: ForestKernel, rank: int, random_state: int, tolerance: float) -> tuple[Array, Array]:
    """Return the leading eigenpairs of the symmetric form, over its leaves where they are few, else over its rows."""
    n = kernel.shape[0]
    if isinstance(kernel.left, LeafIncidence) and kernel.left.compact:  # nothing is held a second time
        root = kernel.sqrt_weight[:, None]
        safe = np.where(root > 0, root, 1.0)
        return _eigen(lambda V: root * kernel.matmat(V / safe), n, rank, random_state, tolerance)
    n_leaves = int(np.count_nonzero(kernel.scale))
    if not _dense(n, rank) and not _dense(n_leaves, rank) and _ROWS_PER_LEAF * n_leaves < n:
        gram = LeafGram(kernel)
        values, vectors = _eigen(gram.matmat, n_leaves, rank, random_state, tolerance)
        if values[-1] > _FULL_RANK * values[0]:
            return values, gram.lift(values, vectors)
    return _eigen(MergedKernel(kernel).matmat, n, rank, random_state, tolerance)


def _of_smoother(smoother: Any, rank: int, random_state: int, tolerance: float) -> Spectrum:
    """Singular triples: right directions from ``S.T S``, then a Rayleigh-Ritz step on S, which restores the digits that squaring costs."""
    n = smoother.shape[0]
    if _dense(n, rank):
        left, values, vt = svd(smoother.matmat(np.eye(n)))
        left, values, right = left[:, :rank].copy(), values[:rank].copy(), vt[:rank].T.copy()
    else:
        _, right, _ = leading_eigenpairs(
            lambda V: smoother.rmatmat(smoother.matmat(V)), n, rank, random_state=random_state, tolerance=tolerance, block=_WALK_BLOCK
        )
        basis, small = np.linalg.qr(smoother.matmat(right))
        u, values, vt = svd(small)
        left, right = basis @ u, right @ vt.T
    sign = _sign(right)
    left, right = left * sign, right * sign
    forward = np.linalg.norm(smoother.matmat(right) - left * values, axis=0).max()
    backward = np.linalg.norm(smoother.rmatmat(left) - right * values, axis=0).max()
    return Spectrum(frozen(values), frozen(left), frozen(right), float(max(forward, backward) / (values[0] or 1.0)), smoother)


def _dense(n: int, rank: int) -> bool:
    return n <= DENSE_ROWS or 4 * rank > n


def _eigen(multiply: Callable[[Array], Array], n: int, rank: int, random_state: int, tolerance: float) -> tuple[Array, Array]:
    """Return the leading eigenpairs of a symmetric operator; rounding below zero is zero."""
    if _dense(n, rank):
        values, vectors = dense_eigenpairs(multiply, n, rank)
    else:
        values, vectors, _ = leading_eigenpairs(multiply, n, rank, random_state=random_state, tolerance=tolerance)
    return np.maximum(values, 0.0), vectors


def _sign(vectors: Array) -> Array:
    """Return the (P,) signs of the components of largest magnitude."""
    top = vectors[np.abs(vectors).argmax(axis=0), np.arange(vectors.shape[1])]
    return np.where(top < 0, -1.0, 1.0)
