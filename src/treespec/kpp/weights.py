"""Node-weight schemes: how much a split counts in the path metric (KPP, sections 3.2 and 8.1, Appendix E)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from treespec.errors import DataNeededError, PluginError, UnsupportedModelError
from treespec.hooks import NodeWeights, Register, RowData, Scheme, hookimpl
from treespec.kpp.partition import Partition, splits
from treespec.kpp.targets import Targets
from treespec.operators.rows import BlockRows, incidence

if TYPE_CHECKING:
    from treespec.ir import Forest

Array = NDArray[np.float64]


@hookimpl
def treespec_node_weights(register: Register[NodeWeights]) -> None:
    """Register the schemes of this file."""
    register("impurity-decrease", impurity_decrease)
    register("variance-decrease", variance_decrease)
    register("entropy-decrease", entropy_decrease)
    register("variance", variance)
    register("gain", gain)
    register("uniform", uniform)


def default_scheme(forest: Forest) -> str:
    """Return what ``weights="auto"`` means: the paper's weight where the model stores impurities, else its counterpart from the data."""
    if forest.impurity is not None and forest.task != "outlier":  # an isolation forest's impurities are those of random labels
        return "impurity-decrease"
    return "entropy-decrease" if forest.classes is not None or forest.task in ("binary", "multiclass") else "variance-decrease"


def node_weights(scheme: Scheme, forest: Forest, data: RowData | None = None) -> Array:
    """Return the (n_nodes,) weights that a scheme gives, checked in one place for built-in and foreign schemes.

    Raises
    ------
    PluginError
        If they are not (n_nodes,) finite numbers of 0 and more with 0 at leaves; names the scheme and its owner.
    UnsupportedModelError
        If they are all 0.
    """
    came = np.asarray(scheme.function(forest, data))
    expected = f"(n_nodes,) = ({forest.n_nodes},) finite weights of 0 and more, 0 at leaves, from {scheme.name!r} of {scheme.owner}"
    fault = None
    if came.shape != (forest.n_nodes,) or came.dtype.kind not in "fiub":
        fault = f"an array of shape {came.shape} and type {came.dtype}"
    else:
        checks = {
            "weights that are not finite": ~np.isfinite(came),
            "negative weights": came < 0,
            "positive weights at leaves": forest.is_leaf & (came > 0),
        }
        fault = next((f"{what} (node {int(bad.argmax())})" for what, bad in checks.items() if bad.any()), None)
    if fault is not None:
        raise PluginError.expected(expected, fault, "the scheme is at fault; weights='uniform' works for every model")
    if not came.any():
        raise UnsupportedModelError.expected(
            f"a positive weight at some split, from {scheme.name!r} of {scheme.owner}",
            "weights that are all 0",
            "the trees have no split" if forest.is_leaf.all() else "no split tells these labels apart; try weights='uniform'",
        )
    return came.astype(np.float64)


# ---- from what the model stores


def impurity_decrease(forest: Forest, data: RowData | None = None) -> Array:
    """Return the impurity decrease at each split, **not** multiplied by p(v) (eq. 68 and 95), from what the model stores.

    The statistics are those of training: in-bag for a bootstrapped forest. Needs no data.
    """
    mass = forest.cover if forest.cover is not None else forest.count
    if forest.impurity is None or mass is None:
        raise DataNeededError.expected(
            "a model that stores impurities (scikit-learn's trees), for weights='impurity-decrease'",
            f"one of {forest.framework}, which does not",
            "use weights='variance-decrease' or 'entropy-decrease' with X and y, or weights='gain' or 'uniform' without",
        )
    inner, left, right, pi_left, pi_right = splits(forest, np.asarray(mass))
    out = np.zeros(forest.n_nodes)
    Q = forest.impurity
    out[inner] = np.maximum(Q[inner] - pi_left * Q[left] - pi_right * Q[right], 0.0)
    return out


def gain(forest: Forest, data: RowData | None = None) -> Array:
    """Return the loss reduction of each split as the framework stores it; a negative one counts as 0. Needs no data."""
    if forest.gain is None:
        raise DataNeededError.expected(
            "a model that stores gains, for weights='gain'",
            f"one of {forest.framework}, which does not",
            "use weights='variance-decrease' with X and y, or weights='uniform' without",
        )
    return np.where(forest.is_leaf, 0.0, np.maximum(forest.gain, 0.0))


def uniform(forest: Forest, data: RowData | None = None) -> Array:
    """Return 1 at every split: paths are as long as they have splits. Needs no data."""
    return np.where(forest.is_leaf, 0.0, 1.0)


# ---- from rows and labels


def variance_decrease(forest: Forest, data: RowData | None = None) -> Array:
    """Return the decrease of the variance of y (classes: of their Gini impurity) at each split (eq. 68), on the given rows."""
    return _partition(forest, data, "variance-decrease").variance_decrease


def entropy_decrease(forest: Forest, data: RowData | None = None) -> Array:
    """Return the decrease of the entropy of the classes at each split (eq. 73), on the given rows."""
    partition = _partition(forest, data, "entropy-decrease")
    if partition.targets.kind != "classes":
        raise UnsupportedModelError.expected(
            "a classifier, for weights='entropy-decrease'", f"a model for {forest.task}", "use weights='variance-decrease'"
        )
    return partition.entropy_decrease


def variance(forest: Forest, data: RowData | None = None) -> Array:
    """Return the variance of y (classes: Gini impurity) at each split, on the given rows: large where labels differ, split well or not."""
    return np.where(forest.is_leaf, 0.0, _partition(forest, data, "variance").variance)


def _partition(forest: Forest, data: RowData | None, name: str) -> Partition:
    missing = "X and y" if data is None else "y" if data.y is None else None
    if missing is not None or data is None or data.y is None:
        raise DataNeededError.expected(
            f"rows with labels, for weights={name!r}",
            f"no {missing}",
            "pass X and y; without labels use weights='uniform', or 'gain' or 'impurity-decrease' where the model stores them",
        )
    if isinstance(data, BlockRows) and not data.table.here:
        from treespec.kpp.remote_labels import RemoteLabels

        return RemoteLabels(forest, data).partition(forest)
    weight: Any = data.sample_weight
    return Partition.of(forest, incidence(forest, data), Targets.of(forest, data.y), weight)
