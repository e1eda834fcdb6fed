"""The forest kernel of the SCATE paper: how much two rows share leaves, each leaf divided by its rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from treespec.errors import DataMismatchError
from treespec.operators.base import Array, is_lazy
from treespec.operators.incidence import Incidence
from treespec.operators.leaf import LeafIncidence
from treespec.operators.replay import distance
from treespec.operators.rows import incidence, margins, row_targets
from treespec.operators.smoother import LeafSmoother, Router

if TYPE_CHECKING:
    from treespec.hooks import RowData
    from treespec.ir import Forest


class ForestKernel(LeafSmoother):
    """The (n, n) kernel ``K = Q Q.T``, ``Q = Z diag(1 / sqrt(n_trees * rows in leaf))``; symmetric, doubly stochastic, PSD.

    Source: the SCATE paper, section "Random Forests": the average over trees of ``1{same leaf} / rows in leaf``. It counts every row
    once; for the weights of a bootstrapped forest see `treespec.operators.bagging`.

    Parameters
    ----------
    Z : Incidence (n, n_leaves)
    weight : (n,) array, optional
        Row weights w. The kernel is then ``Z diag(1 / (n_trees * weight in leaf)) Z.T diag(w)``: rows still sum to 1, and it is
        symmetric in the inner product ``u.T diag(w) v`` (`sqrt_weight`).
    route : callable, optional
        Routes new rows, for `cross` and `weights`.

    Notes
    -----
    A product costs O(n * n_trees) a column. Leaves without rows contribute zero, and a new row that reaches only such leaves gets
    weights 0.

    Examples
    --------
    >>> K = ForestKernel(LeafIncidence([[0], [0], [1]], n_leaves=2))
    >>> K.to_dense()
    array([[0.5, 0.5, 0. ],
           [0.5, 0.5, 0. ],
           [0. , 0. , 1. ]])
    >>> K.trace()
    2.0
    """

    def __init__(self, Z: Incidence, weight: Any = None, *, route: Router | None = None, exactness: float = float("nan")) -> None:
        right: Incidence = Z
        if weight is not None:
            w = weight if is_lazy(weight) else np.asarray(weight, dtype=np.float64)
            if w.shape != (Z.shape[0],) or not (is_lazy(w) or (np.isfinite(w) & (w >= 0)).all()):  # lazy ones were checked when routed
                raise DataMismatchError.expected(
                    f"{Z.shape[0]} finite weights of 0 and more", f"shape {w.shape}", "pass the weights that the model was fitted with"
                )
            right = Z.with_entries(w)
        self.weight = None if weight is None else w
        super().__init__(Z, inverse(Z.n_trees * right.counts()), right, route=route, exactness=exactness)

    @property
    def sqrt_weight(self) -> Any:
        """(n,) square roots of the row weights; ones where there are none."""
        return np.ones(self.shape[0]) if self.weight is None else np.sqrt(self.weight)


def inverse(x: Array) -> Array:
    """Return 1 / x, and 0 where x is 0."""
    return np.divide(1.0, x, out=np.zeros_like(x), where=x > 0)


def leaf(forest: Forest, data: RowData) -> ForestKernel:
    """Return the forest kernel on these rows (smoother ``leaf``); any rows will do, not only the training rows.

    ``exactness`` compares ``K @ y`` with a forest's own predictions: it is large for a bootstrapped forest, whose exact smoother is
    ``in-bag``, and NaN for boosters.
    """
    Z = incidence(forest, data)
    exactness = float("nan")
    if forest.aggregation == "mean" and data.y is not None and forest.task != "outlier":
        replay = ForestKernel(Z, data.sample_weight).matmat(row_targets(forest, data))
        exactness = distance(replay, margins(forest, data))
    return ForestKernel(Z, data.sample_weight, route=lambda X: LeafIncidence.of(forest, data.apply(X)), exactness=exactness)
