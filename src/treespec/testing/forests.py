"""Random valid forests and rows for them, from a numpy generator."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treespec.hooks import RowData
from treespec.ir import ALL_OUTPUTS, LEAF, Forest, InputRule

GRID = np.arange(-2.0, 2.5, 0.5)
"""Thresholds and values come from the same few numbers, so that ties happen."""

_CODES = 4  # categories that a split may list; rows hold two more


def grow(
    rng: np.random.Generator,
    *,
    n_trees: int = 3,
    max_depth: int = 3,
    n_features: int = 3,
    n_outputs: int = 1,
    split: float = 0.8,
    categorical: Collection[int] = (),
    by_output: bool = False,
    **fields: Any,
) -> Forest:
    """Return a random valid forest.

    Parameters
    ----------
    rng : numpy.random.Generator
    n_trees, max_depth, n_features, n_outputs : int
    split : float
        The chance that a node above ``max_depth`` is split (0: constant trees).
    categorical : collection of int
        Columns that hold categories 0, 1, ...
    by_output : bool
        Whether each tree adds to one output; else leaves hold vectors.
    **fields
        Further fields of `Forest`.
    """
    left: list[int] = []
    right: list[int] = []
    feature: list[int] = []
    threshold: list[float] = []
    codes: list[NDArray[Any]] = []
    offset = [0]
    for _ in range(n_trees):
        stack: list[tuple[int, str, int]] = [(-1, "", 0)]
        while stack:
            parent, side, depth = stack.pop()
            node = len(left)
            if parent >= 0:
                (left if side == "left" else right)[parent] = node
            inner = depth < max_depth and rng.random() < split
            column = int(rng.integers(n_features)) if inner else -1
            listed = column in categorical
            left.append(LEAF)
            right.append(LEAF)
            feature.append(column)
            threshold.append(float(rng.choice(GRID)) if inner and not listed else np.nan)
            codes.append(np.flatnonzero(rng.random(_CODES) < 0.5) if listed else np.empty(0, np.intp))
            if inner:
                stack += [(node, "right", depth + 1), (node, "left", depth + 1)]
        offset.append(len(left))
    n_nodes = len(left)
    is_leaf = np.array(left) == LEAF
    tree_output = (rng.integers(n_outputs, size=n_trees) if by_output else np.full(n_trees, ALL_OUTPUTS)).astype(np.int32)
    value = np.where(is_leaf[:, None], rng.normal(size=(n_nodes, n_outputs)), np.nan)
    if by_output:
        owner = np.repeat(tree_output, np.diff(offset))
        value[is_leaf[:, None] & (np.arange(n_outputs) != owner[:, None])] = 0.0
    fields.setdefault("inputs", InputRule(categorical=tuple(categorical)))
    fields.setdefault("base_score", rng.normal(size=n_outputs))
    fields.setdefault("task", "regression" if n_outputs == 1 else "multi-output")
    return Forest(
        tree_offset=np.array(offset), left=np.array(left), right=np.array(right), feature=np.array(feature), threshold=np.array(threshold),
        default_left=rng.random(n_nodes) < 0.5, value=value, n_features=n_features, tree_output=tree_output,
        category_offset=np.cumsum([0, *map(len, codes)]), category=np.concatenate([*codes, np.empty(0, np.intp)]),
        category_left=rng.random(n_nodes) < 0.5, categorical=~is_leaf & np.isin(feature, list(categorical)), **fields,
    )  # fmt: skip


def rows(rng: np.random.Generator, forest: Forest, n: int, *, missing: float = 0.1) -> NDArray[np.float64]:
    """Return (n, n_features) rows on and off the thresholds of `GRID`, a share of them missing, categories seen and unseen."""
    X = rng.choice(np.concatenate([GRID, GRID + 0.25]), size=(n, forest.n_features))
    for j in forest.inputs.categorical:
        X[:, j] = rng.integers(_CODES + 2, size=n)
    if forest.inputs.nan == "route":
        X[rng.random(X.shape) < missing] = np.nan
    return np.asarray(X, np.float64)


def row_data(forest: Forest, X: Any, y: Any = None, sample_weight: NDArray[np.float64] | None = None, *, model: object = None) -> RowData:
    """Return rows as schemes get them, routed by the reference traversal."""
    labels = None if y is None else np.asarray(y)
    return RowData(X, labels, sample_weight, forest.apply(X), forest.apply, forest.margin, model)
