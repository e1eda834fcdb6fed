"""`check_smoother`."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.linalg import LinearOperator

from treespec.errors import TreespecError
from treespec.hooks import RowData, Smoother, SmootherScheme
from treespec.ir import Forest
from treespec.ir.table import n_rows, take
from treespec.testing.contract import Contract, same

_CONTRACT = Contract("a smoother")
_TOP = 3
_UNITS = 5
_TRACE_ERRORS = 6.0

Array = NDArray[np.float64]


def check_smoother(
    scheme: SmootherScheme, forest: Forest, data: RowData, *, X_new: Any = None, seed: int = 0, tolerance: float = 1e-9
) -> None:
    """Check a smoother scheme: ``scheme(forest, data) -> Smoother``.

    A real, linear, immutable ``LinearOperator`` of shape (n, n) (n times n_outputs where outputs are smoothed apart), whose ``rmatvec`` is
    the adjoint of ``matvec``; products of several columns are those of each; ``diagonal`` and ``trace`` are those of the matrix (within six
    standard errors, where a trace has a ``standard_error``); ``cross`` is the same for new rows, row by row, and refuses rows of another
    width; ``weights`` are the largest numbers of ``cross``; ``exactness`` is a number; and the same call gives the same bits.

    Parameters
    ----------
    scheme : callable
    forest : Forest
    data : RowData
        A few hundred rows at most: matrices are formed.
    X_new : array-like or frame, optional
        New rows; by default the first rows of ``data.X``.
    seed : int
        Of the vectors that are multiplied.
    tolerance : float
        Of differences, relative to the largest number.

    Raises
    ------
    ContractError
        If a promise is broken.
    TreespecError
        Whatever the scheme refuses the forest or data with.
    """
    rng = np.random.default_rng(seed)
    given = (data.X, data.y, data.sample_weight, data.leaf_id)
    with _CONTRACT.call("the scheme", *given):
        smoother = scheme(forest, data)
    n = smoother.shape[0]
    _CONTRACT.require(
        isinstance(smoother, LinearOperator), "a scipy.sparse.linalg.LinearOperator", type(smoother).__qualname__, "subclass LinearOperator"
    )
    _CONTRACT.require(
        n in (data.n_rows, data.n_rows * forest.n_outputs) and smoother.shape == (n, n),
        f"shape ({data.n_rows}, {data.n_rows}), or that times {forest.n_outputs} outputs",
        str(smoother.shape),
        "rows and columns are ordered by row, then output",
    )
    matrix = _check_linear(smoother, "the smoother", rng, tolerance)
    exactness = getattr(smoother, "exactness", None)
    _CONTRACT.require(
        isinstance(exactness, float) and not exactness < 0,
        "exactness, a float of 0 and more (NaN where there is nothing to compare with)",
        repr(exactness),
        "max |replay - native| / sd on the training rows",
    )
    _check_diagonal(smoother, matrix, tolerance)
    new = take(data.X, slice(0, min(20, data.n_rows))) if X_new is None else X_new
    _check_cross(smoother, new, n // data.n_rows, rng, tolerance)
    with _CONTRACT.call("the scheme", *given):
        again = scheme(forest, data)
    vector = rng.normal(size=n)
    _CONTRACT.require(
        same(smoother.matvec(vector), again.matvec(vector)),
        "the same smoother at every call",
        "another one at the second",
        "draw random numbers with a fixed seed, if at all",
    )


def _check_linear(operator: Any, name: str, rng: np.random.Generator, tolerance: float) -> Array:
    """Check what every operator promises, and return its matrix."""
    m, n = operator.shape
    _CONTRACT.require(np.dtype(operator.dtype) == np.float64, f"float64 products of {name}", str(operator.dtype), "set dtype in __init__")
    V, U = rng.normal(size=(n, 3)), rng.normal(size=(m, 3))
    with _CONTRACT.call(f"a product of {name}", V, U):
        forward, backward = operator.matmat(V), operator.rmatmat(U)
    forward = _CONTRACT.numbers(forward, f"products of {name}", (m, 3))
    backward = _CONTRACT.numbers(backward, f"transposed products of {name}", (n, 3))
    asks = f"rmatvec to be the adjoint of matvec in {name}: <Sx, u> = <x, S'u>"
    _CONTRACT.close(forward.T @ U, V.T @ backward, asks, "_rmatmat multiplies by the transpose", tolerance)
    for k in range(3):
        _CONTRACT.close(
            operator.matvec(V[:, k]), forward[:, k], f"matvec of {name} to be a column of matmat", "derive one from the other", tolerance
        )
        _CONTRACT.close(
            operator.rmatvec(U[:, k]),
            backward[:, k],
            f"rmatvec of {name} to be a column of rmatmat",
            "derive one from the other",
            tolerance,
        )
    _CONTRACT.close(
        operator.matvec(V[:, 0] - 2 * V[:, 1]),
        forward[:, 0] - 2 * forward[:, 1],
        f"{name} to be linear",
        "an affine part belongs to the model, not to its smoother",
        tolerance,
    )
    _CONTRACT.require(
        same(operator.matmat(V), forward) and same(operator.rmatmat(U), backward),
        f"{name} to be immutable: the same product at every call",
        "another product at the second",
        "keep no state, and return no buffer that is used again",
    )
    return np.asarray(operator.matmat(np.eye(n)), np.float64)


def _check_diagonal(smoother: Smoother, matrix: Array, tolerance: float) -> None:
    n = len(matrix)
    with _CONTRACT.call("diagonal()"):
        diagonal = _CONTRACT.numbers(smoother.diagonal(), "a diagonal", (n,))
    _CONTRACT.close(diagonal, np.diag(matrix), "diagonal() to be that of the matrix", "e_i' S e_i for each row i", tolerance)
    with _CONTRACT.call("trace()"):
        trace = smoother.trace()
    _CONTRACT.numbers(trace, "a trace", ())
    error = float(getattr(trace, "standard_error", 0.0))
    off, scale = abs(float(trace) - float(np.trace(matrix))), float(np.abs(diagonal).sum())
    _CONTRACT.require(
        off <= tolerance * max(scale, 1e-300) + _TRACE_ERRORS * error,
        "trace() to be the sum of the diagonal",
        f"{float(trace)} instead of {np.trace(matrix)}",
        "an estimate is a float with a standard_error",
    )


def _check_cross(smoother: Smoother, X_new: Any, outputs: int, rng: np.random.Generator, tolerance: float) -> None:
    n, m = smoother.shape[0], n_rows(X_new) * outputs
    with _CONTRACT.call("cross(X_new)", X_new):
        cross = smoother.cross(X_new)
    _CONTRACT.require(cross.shape == (m, n), f"cross of shape ({m}, {n})", str(cross.shape), "a row for each new row and output")
    matrix = _check_linear(cross, "cross(X_new)", rng, tolerance)
    one = smoother.cross(take(X_new, slice(1, 2)))
    _CONTRACT.close(
        one.matmat(np.eye(n)),
        matrix[outputs : 2 * outputs],
        "cross to treat each new row alone",
        "statistics come from the training rows, not from X_new",
        tolerance,
    )
    for top in (None, _TOP):
        with _CONTRACT.call("weights(X_new, top)", X_new):
            weights = smoother.weights(X_new, top)
        _CONTRACT.require(
            hasattr(weights, "toarray") and weights.shape == (m, n),
            f"weights as a sparse array of shape ({m}, {n})",
            repr(weights),
            "csr_array",
        )
        kept = weights.toarray()
        expected = matrix if top is None else np.where(kept != 0, matrix, 0.0)
        _CONTRACT.close(kept, expected, "weights to be the numbers of cross", "row i holds the weights of the training rows", tolerance)
        if top is not None:
            size = np.sort(np.abs(matrix), axis=1)[:, ::-1][:, :top]
            came = np.sort(np.abs(kept), axis=1)[:, ::-1][:, :top]
            _CONTRACT.close(came, size, f"the {top} largest weights of each row", "by magnitude", tolerance)
            most = int((kept != 0).sum(axis=1).max(initial=0))
            _CONTRACT.require(most <= top, f"at most top={top} weights a row", str(most), "keep the largest alone")
    try:
        smoother.cross(np.zeros((2, 10_001)))
    except TreespecError:
        return
    except Exception as error:
        raise _CONTRACT.broken(
            "a DataMismatchError for rows of another width", repr(error), "route with data.apply, which checks"
        ) from error
    raise _CONTRACT.broken("a DataMismatchError for rows of another width", "an operator", "route with data.apply, which checks")
