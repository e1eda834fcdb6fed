"""`combine`: forests whose margins are added up, scaled, averaged or laid side by side, as one forest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treespec.ir.common_inputs import with_common_inputs
from treespec.ir.forest import Forest

_SPLITS = ("feature", "threshold", "default_left", "category", "category_left", "categorical")
_STATISTICS = ("cover", "count", "gain", "impurity", "native_id")
_ROUNDING = 8 * np.finfo(np.float64).eps


@dataclass(frozen=True, eq=False)
class Member:
    """A forest and its part in a sum.

    Attributes
    ----------
    forest : Forest
    matrix : (n_outputs, forest.n_outputs) float64
        What its margins are multiplied by.
    columns : (forest.n_features,) integer, optional
        Column of the whole that each of its columns is; by default they are the same.
    """

    forest: Forest
    matrix: NDArray[np.float64]
    columns: NDArray[np.integer[Any]] | None = None


def combine(members: Sequence[Member], *, n_features: int, what: str, base: NDArray[np.float64] | float = 0.0, **fields: Any) -> Forest:
    """Return the forest whose margin is ``base + sum of matrix @ margin`` over the members.

    Means of forests that have no initial score stay means, so that votes are counted as the framework counts them; otherwise values are
    scaled, and margins are equal to rounding of float64.

    Parameters
    ----------
    members : sequence of Member
    n_features : int
        Columns of the whole.
    what : str
        For messages: the kind of model that is combined.
    base : float or (n_outputs,) array
        Margin before the first tree, beside those of the members.
    **fields
        Other fields of the `Forest`: link, task, classes, ...

    Raises
    ------
    UnsupportedModelError
        If the members read rows in ways that no one rule has.

    Notes
    -----
    O(n_nodes * n_outputs) time and memory.
    """
    whole = [_on_columns(m.forest, m.columns, n_features) for m in members]
    forests = with_common_inputs(whole, what)
    matrices = [np.atleast_2d(np.asarray(m.matrix, np.float64)) for m in members]
    n_outputs = len(matrices[0])
    start = np.broadcast_to(np.asarray(base, np.float64), (n_outputs,)).copy()
    start += sum(a @ f.base_score for a, f in zip(matrices, forests, strict=True))
    n_trees = sum(f.n_trees for f in forests)
    mean = all(f.aggregation == "mean" for f in forests) and not start.any()
    values, outputs = [], []
    for a, f in zip(matrices, forests, strict=True):
        factor = (n_trees if mean else 1) / (f.n_trees if f.aggregation == "mean" else 1)
        values.append(_scaled(f, _rounded(a * factor)))
        outputs.append(_outputs(f, a))
    size = np.cumsum([0, *(f.n_nodes for f in forests)])
    split = {name: _joined(forests, name) for name in _SPLITS}
    stored = {name: None if any(getattr(f, name) is None for f in forests) else _joined(forests, name) for name in _STATISTICS}
    arrays: dict[str, Any] = {
        "tree_offset": np.concatenate([[0], *(f.tree_offset[1:] + s for f, s in zip(forests, size, strict=False))]),
        "left": _children(forests, size, "left"),
        "right": _children(forests, size, "right"),
        "category_offset": _offsets(forests),
        "value": np.concatenate(values),
        "tree_output": np.concatenate(outputs),
        "aggregation": "mean" if mean else "sum",
        "base_score": start,
        "inputs": forests[0].inputs,
        "n_features": n_features,
    }
    return Forest(**(arrays | split | stored | fields))


def common_loss(forests: Sequence[Forest]) -> str:
    """Return the loss of a sum of forests: that of all, where it says that labels are not what is predicted, else "none"."""
    losses = {f.loss for f in forests}
    return losses.pop() if len(losses) == 1 and losses <= _NOT_MEANS else "none"


_NOT_MEANS = frozenset({"quantile", "absolute", "mape", "huber", "pseudo-huber", "fair", "squared-log"})


def _on_columns(forest: Forest, columns: NDArray[np.integer[Any]] | None, n_features: int) -> Forest:
    if columns is None:
        return forest
    columns = np.asarray(columns, np.int64)
    rule = forest.inputs
    rule = replace(
        rule,
        categorical=tuple(sorted(int(columns[j]) for j in rule.categorical)),
        categories=tuple((int(columns[j]), values) for j, values in rule.categories),
    )
    feature = np.where(forest.feature < 0, -1, columns[np.maximum(forest.feature, 0)] if len(columns) else -1)
    return replace(forest, feature=feature, n_features=n_features, feature_names=None, inputs=rule)


def _rounded(factor: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return factors with those that rounding moved off a whole number put back, so that votes stay whole."""
    whole = np.rint(factor)
    return np.where(np.abs(factor - whole) <= _ROUNDING * np.abs(whole), whole, factor)


def _scaled(forest: Forest, matrix: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return node values times the matrix; inner nodes may be NaN."""
    out = np.zeros((forest.n_nodes, len(matrix)))
    for k, row in enumerate(matrix):
        for j in np.flatnonzero(row):
            out[:, k] += row[j] * forest.value[:, j]
    return out


def _outputs(forest: Forest, matrix: NDArray[np.float64]) -> NDArray[np.int32]:
    """Return the output that each tree adds to, or -1 for several."""
    only = np.array([np.flatnonzero(column)[0] if np.count_nonzero(column) == 1 else -1 for column in matrix.T], np.int32)
    if len(matrix) == 1:
        return np.zeros(forest.n_trees, np.int32)
    every = only[0] if len(only) == 1 else -1
    return np.where(forest.tree_output >= 0, only[np.maximum(forest.tree_output, 0)], every).astype(np.int32)


def _joined(forests: Sequence[Forest], name: str) -> NDArray[Any]:
    return np.concatenate([getattr(f, name) for f in forests])


def _children(forests: Sequence[Forest], size: NDArray[np.int64], side: str) -> NDArray[np.int64]:
    return np.concatenate([np.where(getattr(f, side) < 0, -1, getattr(f, side) + s) for f, s in zip(forests, size, strict=False)])


def _offsets(forests: Sequence[Forest]) -> NDArray[np.int64]:
    width = np.concatenate([np.diff(f.category_offset) for f in forests])
    return np.concatenate([[0], np.cumsum(width)])
