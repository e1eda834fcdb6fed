"""How often each training row was drawn for each tree of a bagged forest, regenerated from the fitted model and verified by its leaves."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from treespec.errors import DataMismatchError, UnsupportedModelError
from treespec.operators.leaf import LeafIncidence

if TYPE_CHECKING:
    from treespec.hooks import RowData
    from treespec.ir import Forest

_SAME = 1e-6  # relative difference of a leaf's stored and regenerated weight; wrong masks miss by whole rows


def unwrap(model: object) -> Any:
    """Return the tree ensemble inside searches (``best_estimator_``) and pipelines (last step)."""
    while True:
        if hasattr(model, "best_estimator_"):
            model = model.best_estimator_
        elif hasattr(model, "steps") and hasattr(model, "named_steps"):
            model = model.steps[-1][1]
        else:
            return model


def draws(model: object, n: int, n_trees: int) -> NDArray[np.unsignedinteger[Any]]:
    """Return (n, n_trees) times that each row was drawn; ones where the model does not resample.

    Reads the public ``estimators_samples_`` of scikit-learn, which regenerates the draws from each tree's stored seed.

    Raises
    ------
    DataMismatchError
        If the model drew rows beyond n.
    UnsupportedModelError
        If the model draws once for several trees, as bagged forests do.
    """
    samples = getattr(unwrap(model), "estimators_samples_", None)
    if samples is None:
        return np.ones((n, n_trees), np.uint8)
    if len(samples) != n_trees:
        raise UnsupportedModelError.expected(
            "a model that draws its rows once for each tree",
            f"a {type(unwrap(model)).__name__} with {len(samples)} draws for {n_trees} trees",
            "use smoother('leaf'), which needs no draws",
        )
    last = max((int(np.max(s)) for s in samples if len(s)), default=-1)
    if last >= n:
        raise DataMismatchError.expected(
            f"the training rows (trees drew rows up to number {last})",
            f"{n} rows",
            "pass all rows that the model was fitted on, in their order",
        )
    counts = [np.bincount(s, minlength=n) for s in samples]
    dtype = np.min_scalar_type(int(max(c.max() for c in counts)))
    return np.stack([c.astype(dtype) for c in counts], axis=1)


def tree_weights(forest: Forest, data: RowData, Z: LeafIncidence) -> NDArray[Any]:
    """Return (n, n_trees) weights with which each row entered each tree: draws, times row and class weights where the model used them.

    The first combination whose sums over the leaves are those stored in the model is taken.

    Raises
    ------
    DataMismatchError
        If none is, with the number by which the best one misses.
    """
    n, n_trees = Z.shape[0], Z.n_trees
    drawn = draws(data.model, n, n_trees)
    worst = np.inf
    for candidate in _candidates(drawn, data):
        miss = _miss(forest, Z.with_entries(candidate), Z.with_entries(candidate > 0))
        if miss <= _SAME:
            return candidate
        worst = min(worst, miss)
    raise DataMismatchError.expected(
        "rows whose draws give every leaf the weight that the model stored",
        f"a leaf that is off by {worst:.3g} of its weight",
        "pass the rows and weights that the model was fitted on, in their order (a model that was read from a file has lost its seeds); "
        "smoother('leaf') accepts any rows",
    )


def _miss(forest: Forest, weighted: LeafIncidence, distinct: LeafIncidence) -> float:
    """Return the largest relative difference of leaf weights and counts from those stored; 0 where nothing is stored."""
    worst = 0.0
    for stored, found in ((forest.cover, weighted), (forest.count, distinct)):
        if stored is not None:
            own = stored[forest.leaves]
            worst = max(worst, float((np.abs(found.counts() - own) / np.maximum(own, 1e-300)).max(initial=0.0)))
    return worst


def _candidates(drawn: NDArray[Any], data: RowData) -> Iterator[NDArray[Any]]:
    """Yield draws, draws times class weights (scikit-learn 1.9 draws by weight instead and counts plainly), and both times row weights."""
    weight = None if data.sample_weight is None else np.asarray(data.sample_weight, dtype=np.float64)[:, None]
    bases = [*(drawn * factor for factor in _class_weights(drawn, weight, data)), drawn]
    yield from bases
    if weight is not None:
        for base in bases:
            yield base * weight


def _class_weights(drawn: NDArray[Any], weight: NDArray[np.float64] | None, data: RowData) -> Iterator[NDArray[np.float64]]:
    """Yield (n, n_trees) or (n, 1) factors that the model's ``class_weight`` can mean."""
    rule = getattr(unwrap(data.model), "class_weight", None)
    if rule is None or data.y is None or np.ndim(data.y) > 1:
        return
    labels, code = np.unique(data.y, return_inverse=True)
    if isinstance(rule, dict):
        yield np.array([rule.get(label, 1.0) for label in labels.tolist()])[code][:, None]
        return
    counted = [drawn] if rule == "balanced_subsample" else [np.ones((len(code), 1))]
    for rows in counted if weight is None else [*counted, weight]:
        total = np.stack([np.bincount(code, column, minlength=len(labels)) for column in rows.T], axis=1)  # (n_classes, n_trees)
        present = (total > 0).sum(axis=0)
        yield np.divide(rows.sum(axis=0) / present, total, out=np.zeros_like(total), where=total > 0)[code]
