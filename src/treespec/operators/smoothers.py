"""The built-in smoothers, registered through the hook that plugins use."""

from __future__ import annotations

from treespec.hooks import Register, SmootherScheme, hookimpl
from treespec.operators.bagging import in_bag, oob
from treespec.operators.boosted import boosting, boosting_tangent
from treespec.operators.kernel import leaf


@hookimpl
def treespec_smoothers(register: Register[SmootherScheme]) -> None:
    """Register the forest kernel, the exact smoothers of bagged forests, and those of boosters."""
    register("leaf", leaf)
    register("in-bag", in_bag)
    register("oob", oob)
    register("boosting", boosting)
    register("boosting-tangent", boosting_tangent)
