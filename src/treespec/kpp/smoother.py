"""The smoother ``path``: the KPP Gram matrix of the wrapped rows, with the default node weights."""

from __future__ import annotations

from typing import TYPE_CHECKING

from treespec.hooks import Register, RowData, Scheme, SmootherScheme, hookimpl
from treespec.kpp.weights import default_scheme, entropy_decrease, impurity_decrease, node_weights, uniform, variance_decrease
from treespec.operators.path import PathMap
from treespec.operators.path_smoother import PathSmoother
from treespec.operators.rows import incidence

if TYPE_CHECKING:
    from treespec.ir import Forest

_DEFAULTS = {"impurity-decrease": impurity_decrease, "variance-decrease": variance_decrease, "entropy-decrease": entropy_decrease}


@hookimpl
def treespec_smoothers(register: Register[SmootherScheme]) -> None:
    """Register ``path``."""
    register("path", path)


def path(forest: Forest, data: RowData) -> PathSmoother:
    """Return the (n, n) KPP Gram matrix ``Phi Phi.T`` (eq. 24) as an operator (smoother ``path``).

    Node weights: the impurity decreases that the model stores; else the decreases of variance or entropy on these rows; without labels 1
    at every split. For other weights use ``w.kpp(weights=...).gram``.
    """
    name = default_scheme(forest)
    if name != "impurity-decrease" and data.y is None:
        scheme = Scheme("node-weights", "uniform", uniform, "treespec.kpp.weights")
    else:
        scheme = Scheme("node-weights", name, _DEFAULTS[name], "treespec.kpp.weights")
    return PathSmoother(PathMap(forest, node_weights(scheme, forest, data)).features(incidence(forest, data)), data.apply)
