"""The built-in learners, registered through the hook."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from treespec.errors import PluginError
from treespec.hooks import Learner, Register, hookimpl
from treespec.kpp.logistic import logistic
from treespec.kpp.ridge import ridge
from treespec.kpp.robust import huber, quantile

if TYPE_CHECKING:
    from treespec.hooks import Scheme
    from treespec.ir import Forest
    from treespec.kpp.targets import Targets

Array = NDArray[np.float64]


@hookimpl
def treespec_learners(register: Register[Learner]) -> None:
    """Register the four learners."""
    register("ridge", ridge)
    register("logistic", logistic)
    register("huber", huber)
    register("quantile", quantile)


def default_learner(forest: Forest) -> str:
    """Return what ``learner="auto"`` means: ``logistic`` for classes, ``ridge`` for values."""
    return "logistic" if forest.classes is not None or forest.task in ("binary", "multiclass") else "ridge"


def learn(
    learner: Scheme, features: Any, targets: Targets, *, alpha: float, sample_weight: Array | None, options: Mapping[str, Any]
) -> tuple[Array, Array, dict[str, Any]]:
    """Call a learner and check what it returns.

    Learners get values as (n,) or (n, k); classes as (n,) or (n, n_targets) class numbers with ``n_classes``. ``sample_weight`` is
    passed where there is any, ``offset`` (n, k) where the model is anchored.

    Raises
    ------
    PluginError
        If shapes are wrong or numbers are not finite; names the learner and its owner.
    """
    extra = dict(options)
    if targets.kind == "classes":
        extra["n_classes"] = [len(c) for c in targets.classes]
    if sample_weight is not None:
        extra["sample_weight"] = sample_weight
    if targets.offset is not None:
        extra["offset"] = targets.offset
    labels = targets.value if targets.kind == "values" else targets.code
    ready = features.prepared() if hasattr(features, "prepared") else features
    came = learner.function(ready, labels[:, 0] if labels.shape[1] == 1 else labels, alpha=alpha, **extra)
    coef, intercept, info = came
    coef, intercept = np.asarray(coef, dtype=np.float64), np.atleast_1d(np.asarray(intercept, dtype=np.float64))
    k = 1 if targets.binary else labels.shape[1] if targets.kind == "values" else sum(map(len, targets.classes))
    coef = coef[:, 0] if coef.shape[1:] == (1,) else coef
    if coef.shape != ((features.shape[1],) if k == 1 else (features.shape[1], k)) or intercept.shape != (k,):
        raise PluginError.expected(
            f"coefficients of {features.shape[1]} coordinates for {k} outputs from {learner.name!r} of {learner.owner}, and {k} intercepts",
            f"shapes {coef.shape} and {intercept.shape}",
            "the learner is at fault",
        )
    if not (np.isfinite(coef).all() and np.isfinite(intercept).all()):
        raise PluginError.expected(
            f"finite coefficients from {learner.name!r} of {learner.owner}", "others", "try a larger alpha; else the learner is at fault"
        )
    return coef, intercept, dict(info)
