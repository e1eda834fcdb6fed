"""The exact smoother of a bagged forest (``in-bag``) and its out-of-bag counterpart (``oob``)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from treespec.errors import UnsupportedModelError
from treespec.operators.bootstrap import tree_weights
from treespec.operators.kernel import inverse
from treespec.operators.leaf import LeafIncidence
from treespec.operators.replay import check, refuse, targets
from treespec.operators.rows import here, local_incidence, margins
from treespec.operators.smoother import LeafSmoother

if TYPE_CHECKING:
    from treespec.hooks import RowData
    from treespec.ir import Forest


def in_bag(forest: Forest, data: RowData) -> LeafSmoother:
    """Return the smoother that a forest of averages is (smoother ``in-bag``): ``model.predict(X) = S @ y``, exactly.

    ``S[x, i] = mean over trees of c_bi 1{same leaf} / sum of c_bj over the leaf``, c_bi the weight with which row i entered tree b:
    bootstrap draws (regenerated from each tree's seed), row weights, class weights. For classifiers S maps class indicators to
    probabilities.

    Raises
    ------
    DataMismatchError
        If these are not the training rows: the leaves hold other weights than the model stored, or the predictions differ.
    UnsupportedModelError
        If the model is not an average of trees.
    """
    if forest.aggregation != "mean" or forest.task == "outlier":
        raise refuse("a forest that averages trees, for the 'in-bag' smoother", forest.framework)
    Z = local_incidence(forest, data, "in-bag")
    right = Z.with_entries(tree_weights(forest, data, Z))
    scale = inverse(Z.n_trees * right.counts())
    exactness = float("nan")
    if data.y is not None:
        replay = LeafSmoother(Z, scale, right).matmat(targets(forest, data.y))
        reason = "other rows, labels or weights, or trees whose leaves are not means, such as absolute_error or monotonic ones"
        exactness = check(replay, margins(forest, data), single=False, name="in-bag", reason=reason)
    return LeafSmoother(Z, scale, right, route=lambda X: LeafIncidence.of(forest, data.apply(X)), exactness=exactness)


def oob(forest: Forest, data: RowData) -> LeafSmoother:
    """Return the smoother that predicts each training row from the trees that did not draw it (smoother ``oob``).

    Rows that every tree drew get weights 0. The diagonal is 0. New rows (`cross`) are in no bag and are predicted by all trees.

    Raises
    ------
    DataMismatchError, UnsupportedModelError
        As `in_bag`; also where no tree left a row out.
    """
    exact = in_bag(forest, data)
    drawn = here(exact.right, "the 'oob' smoother").entries()
    left_out = np.zeros((exact.left.n_trees, exact.shape[0]), bool) if drawn is None else drawn == 0
    times = left_out.sum(axis=0)
    if not times.any():
        raise UnsupportedModelError.expected(
            "a forest whose trees leave rows out, for the 'oob' smoother", "trees that saw all rows", "use smoother('in-bag')"
        )
    share = np.where(left_out, inverse(times / exact.left.n_trees), 0.0)
    return LeafSmoother(exact.left.with_entries(share.T), exact.scale, exact.right, route=exact.route, exactness=exact.exactness)
