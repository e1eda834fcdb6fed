"""`check_learner`."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.linalg import LinearOperator, aslinearoperator

from treespec.hooks import Learner
from treespec.testing.contract import Contract, same

_CONTRACT = Contract("a learner")
_STRONGER = 100.0

Array = NDArray[np.float64]


def check_learner(
    learner: Learner,
    features: LinearOperator | None = None,
    y: NDArray[Any] | None = None,
    *,
    n_classes: int | None = None,
    alpha: float = 1.0,
    seed: int = 0,
    tolerance: float = 1e-5,
) -> None:
    """Check a learner: ``learner(features, y, *, alpha, ...) -> (coef, intercept, info)``.

    Finite float coefficients (m,) and one intercept, for several targets (m, k) and k (for two classes one column, for more one each); any
    ``LinearOperator`` is taken; the same call gives the same bits and changes nothing; ``sample_weight`` is understood (equal weights are
    none, a row of weight 0 is absent); a hundred times the penalty gives no larger coefficients.

    Parameters
    ----------
    learner : callable
    features : LinearOperator of shape (n, m), optional
        By default 60 rows of 7 random features.
    y : (n,) or (n, k) array, optional
        Values, or class numbers with ``n_classes``; by default a linear function of the features with noise.
    n_classes : int, optional
        Passed on as ``n_classes=[n_classes]``: the learner is one for classes.
    alpha : float
    seed : int
    tolerance : float
        How far a solver may be from its optimum, relative to the largest coefficient.

    Raises
    ------
    ContractError
        If a promise is broken.
    TreespecError
        Whatever the learner refuses features or labels with.
    """
    rng = np.random.default_rng(seed)
    operator = aslinearoperator(rng.normal(size=(60, 7))) if features is None else features
    n, m = operator.shape
    if y is None:
        linear = operator.matvec(rng.normal(size=m))
        noisy = linear / max(float(linear.std()), 1e-300) + 0.3 * rng.normal(size=n)
        edges = np.quantile(noisy, np.arange(1, n_classes) / n_classes) if n_classes else np.zeros(0)
        y = np.searchsorted(edges, noisy) if n_classes else noisy
    options: dict[str, Any] = {} if n_classes is None else {"n_classes": [n_classes]}
    k = (1 if n_classes == 2 else n_classes) if n_classes else 1 if y.ndim == 1 else y.shape[1]
    coef, intercept = _fit(learner, operator, y, k, alpha, options)
    again = _fit(learner, operator, y, k, alpha, options)
    _CONTRACT.require(
        same((coef, intercept), again), "the same coefficients at every call", "others at the second", "fix the seed of what is random"
    )
    frozen = np.array(y)
    frozen.flags.writeable = False
    _fit(learner, operator, frozen, k, alpha, options)
    ones = _fit(learner, operator, y, k, alpha, options | {"sample_weight": np.ones(n)})
    asks = "the option sample_weight, for which equal weights are none"
    _CONTRACT.close(ones[0], coef, asks, "weigh the loss of each row", tolerance)
    _check_zero_weights(learner, operator, y, k, alpha, options, tolerance, rng)
    strong, _ = _fit(learner, operator, y, k, _STRONGER * alpha, options)
    size, stronger = float(np.linalg.norm(coef)), float(np.linalg.norm(strong))
    _CONTRACT.require(
        stronger <= size * (1 + tolerance) + 1e-300,
        f"alpha to be a penalty: no larger coefficients at {_STRONGER:g} times alpha",
        f"a norm of {stronger:.4g} instead of {size:.4g}",
        "add alpha times the squared norm to the loss",
    )


def _check_zero_weights(
    learner: Learner,
    operator: LinearOperator,
    y: NDArray[Any],
    k: int,
    alpha: float,
    options: Any,
    tolerance: float,
    rng: np.random.Generator,
) -> None:
    """Check that labels of rows that weigh nothing do not matter."""
    weight = np.where(rng.random(len(y)) < 0.2, 0.0, 1.0)
    other = y.copy()
    other[weight == 0] = y[::-1][weight == 0]
    given, _ = _fit(learner, operator, y, k, alpha, options | {"sample_weight": weight})
    changed, _ = _fit(learner, operator, other, k, alpha, options | {"sample_weight": weight})
    asks = "a row of sample_weight 0 to be without influence"
    _CONTRACT.close(changed, given, asks, "weigh the loss of each row, the means for centring too", tolerance)


def _fit(learner: Learner, features: LinearOperator, y: NDArray[Any], k: int, alpha: float, options: dict[str, Any]) -> tuple[Array, Array]:
    m = features.shape[1]
    with _CONTRACT.call("the learner", y, *options.values()):
        came: Any = learner(features, y, alpha=alpha, **options)
    _CONTRACT.require(
        isinstance(came, tuple) and len(came) == 3 and isinstance(came[2], dict),
        "(coef, intercept, info) with info a dict",
        lambda: f"{type(came).__name__} {came!r}"[:80],
        "return coef, intercept, {}",
    )
    coef = np.asarray(came[0])
    coef = coef[:, 0] if coef.shape == (m, 1) else coef
    return (
        _CONTRACT.numbers(coef, "coefficients", (m,) if k == 1 else (m, k)),
        _CONTRACT.numbers(np.atleast_1d(np.asarray(came[1])), "intercepts", (k,)),
    )
