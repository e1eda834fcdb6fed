"""Logistic regression on path features, binary and multinomial."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from treespec.errors import DataMismatchError
from treespec.kpp.losses import Logistic, Loss, Softmax
from treespec.kpp.newton import Minimum, minimise
from treespec.kpp.ridge import check_alpha

if TYPE_CHECKING:
    from scipy.sparse.linalg import LinearOperator

Array = NDArray[np.float64]


def logistic(
    features: LinearOperator,
    y: NDArray[Any],
    *,
    alpha: float,
    n_classes: Sequence[int] | None = None,
    sample_weight: NDArray[Any] | None = None,
    intercept: bool = False,
    offset: NDArray[Any] | None = None,
    start: tuple[Array, Array] | None = None,
    tolerance: float = 1e-5,
    **options: Any,
) -> tuple[Array, Array, dict[str, Any]]:
    """Fit mean log-loss plus ``alpha / 2 |w|^2`` (eq. 61; learner ``logistic``).

    Parameters
    ----------
    features : LinearOperator (n, m)
    y : (n,) or (n, n_targets) array of class numbers
    alpha : float
        Above 0.
    n_classes : sequence of int
        Number of classes of each target: two of a single target are fitted by one column of scores, any others by a column a class
        (multinomial, target by target).
    sample_weight : (n,) array, optional
    intercept : bool
        Whether an unpenalised intercept is fitted. By default not, as the bounds of the paper need: the constant root coordinates
        supply one within the norm.
    offset : (n,) or (n, k) array, optional
        Added to the scores, such as cross-fitted margins of the ensemble.
    start : (coef, intercept), optional
        Where to start, in the shapes that this function returns.
    tolerance : float
        Norm of the gradient, relative to that at 0. The default leaves probabilities within about 1e-5 of their limit.

    Returns
    -------
    coef : (m,) or (m, k) array
    intercept : (k,) array
    info : dict
        ``gradient`` that was reached, ``steps`` and ``products``.

    Raises
    ------
    DataMismatchError
        If y has one class only, or holds values instead of classes.

    Notes
    -----
    O(n * n_trees + m) a product; see `treespec.kpp.newton`.
    """
    check_alpha(alpha)
    if n_classes is None:
        raise DataMismatchError.expected("classes for learner='logistic'", "values", "use learner='ridge', 'huber' or 'quantile'")
    code = np.asarray(y).reshape(len(y), -1)
    weight = np.ones(len(code)) if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
    weight = weight / weight.sum()
    binary = len(n_classes) == 1 and n_classes[0] == 2
    base = None if offset is None else np.asarray(offset, dtype=np.float64).reshape(len(code), -1)
    found, low = [], 0
    for j, k in enumerate(n_classes):
        if len(np.unique(code[weight > 0, j])) < 2:
            where = f" in target {j}" if len(n_classes) > 1 else ""
            raise DataMismatchError.expected("labels of at least two classes", f"one class only{where}", "add rows of the others")
        loss: Loss = (
            Logistic(np.where(code[:, j] == 1, 1.0, -1.0), weight)
            if binary
            else Softmax((code[:, [j]] == np.arange(k)).astype(np.float64), weight)
        )
        columns = slice(low, low + (1 if binary else k))
        low = columns.stop
        found.append(
            minimise(
                features,
                loss,
                float(alpha),
                (features.shape[1], columns.stop - columns.start),
                intercept=intercept,
                offset=0.0 if base is None else base[:, columns],
                start=None if start is None else (start[0].reshape(len(start[0]), -1)[:, columns], start[1][columns]),
                tolerance=tolerance,
            )
        )
    coef = np.hstack([f.coef for f in found])
    return (coef[:, 0] if binary else coef), np.concatenate([f.intercept for f in found]), _info(found)


def _info(found: list[Minimum]) -> dict[str, Any]:
    return {
        "solver": "newton-cg",
        "gradient": max(f.gradient for f in found),
        "steps": sum(f.n_steps for f in found),
        "products": sum(f.n_products for f in found),
    }
