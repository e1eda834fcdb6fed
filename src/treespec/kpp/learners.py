"""The built-in learners, registered through the hook."""

from __future__ import annotations

from typing import TYPE_CHECKING

from treespec.hooks import Learner, Register, hookimpl
from treespec.kpp.logistic import logistic
from treespec.kpp.ridge import ridge
from treespec.kpp.robust import huber, quantile

if TYPE_CHECKING:
    from treespec.ir import Forest


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
