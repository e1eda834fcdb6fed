"""Hypothesis strategies: random valid forests and rows for them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st

from treespec.ir import ALL_OUTPUTS, LEAF, Forest, InputRule

GRID = np.arange(-2.0, 2.5, 0.5)
"""Thresholds and values come from the same few numbers, so that ties happen."""


@dataclass(frozen=True)
class Case:
    """A forest, rows for it, and the leaves that they reach."""

    forest: Forest
    X: np.ndarray
    leaf_id: np.ndarray
    seed: int

    @property
    def rng(self) -> np.random.Generator:
        return np.random.default_rng(self.seed)


def grow(rng, *, n_trees=3, max_depth=3, n_features=3, n_outputs=1, split=0.8, categorical=(), by_output=False, **fields):
    """Return a random valid forest; ``split`` is the chance that a node above ``max_depth`` is split (0: constant trees)."""
    left, right, feature, threshold, codes, offset = [], [], [], [], [], [0]
    for _ in range(n_trees):
        stack = [(None, None, 0)]
        while stack:
            parent, side, depth = stack.pop()
            node = len(left)
            if parent is not None:
                (left if side == "left" else right)[parent] = node
            inner = depth < max_depth and rng.random() < split
            column = int(rng.integers(n_features)) if inner else -1
            listed = column in categorical
            left.append(LEAF)
            right.append(LEAF)
            feature.append(column)
            threshold.append(rng.choice(GRID) if inner and not listed else np.nan)
            codes.append(np.flatnonzero(rng.random(4) < 0.5) if listed else np.empty(0, int))
            if inner:
                stack += [(node, "right", depth + 1), (node, "left", depth + 1)]
        offset.append(len(left))
    n_nodes = len(left)
    is_leaf = np.array(left) == LEAF
    tree_output = rng.integers(n_outputs, size=n_trees) if by_output else np.full(n_trees, ALL_OUTPUTS)
    value = np.where(is_leaf[:, None], rng.normal(size=(n_nodes, n_outputs)), np.nan)
    if by_output:
        owner = np.repeat(tree_output, np.diff(offset))
        value[is_leaf[:, None] & (np.arange(n_outputs) != owner[:, None])] = 0.0
    fields.setdefault("inputs", InputRule(categorical=tuple(categorical)))
    fields.setdefault("base_score", rng.normal(size=n_outputs))
    return Forest(
        tree_offset=np.array(offset), left=np.array(left), right=np.array(right), feature=np.array(feature), threshold=np.array(threshold),
        default_left=rng.random(n_nodes) < 0.5, value=value, n_features=n_features, tree_output=tree_output,
        category_offset=np.cumsum([0, *map(len, codes)]), category=np.concatenate([*codes, np.empty(0, int)]),
        category_left=rng.random(n_nodes) < 0.5, categorical=~is_leaf & np.isin(feature, list(categorical)),
        task="regression" if n_outputs == 1 else "multi-output", **fields,
    )  # fmt: skip


def rows(rng, forest, n, *, missing=0.1):
    """Return (n, n_features) rows on and off the thresholds, a share of them missing, categories seen and unseen."""
    X = rng.choice(np.concatenate([GRID, GRID + 0.25]), size=(n, forest.n_features))
    for j in forest.inputs.categorical:
        X[:, j] = rng.integers(6, size=n)
    if forest.inputs.nan == "route":
        X[rng.random(X.shape) < missing] = np.nan
    return X


@st.composite
def forests(draw, *, max_trees=5, max_depth=4, max_features=4, max_outputs=1, categories=True):
    """Random valid forests: stumps, constant trees and deep ones, one or several outputs, categorical splits, missing values."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1), label="seed"))
    n_features = draw(st.integers(1, max_features))
    n_outputs = draw(st.integers(1, max_outputs))
    return grow(
        rng,
        n_trees=draw(st.integers(1, max_trees)),
        max_depth=draw(st.integers(0, max_depth)),
        n_features=n_features,
        n_outputs=n_outputs,
        split=draw(st.sampled_from([0.0, 0.5, 0.9, 1.0])),
        categorical=(0,) if categories and draw(st.booleans()) else (),
        by_output=n_outputs > 1 and draw(st.booleans()),
        aggregation=draw(st.sampled_from(["sum", "mean"])),
    )


@st.composite
def cases(draw, *, max_rows=30, min_rows=1, **options):
    """Forests with rows: one row and up, repeated rows, leaves that no row reaches."""
    forest = draw(forests(**options))
    seed = draw(st.integers(0, 2**32 - 1), label="row seed")
    X = rows(np.random.default_rng(seed), forest, draw(st.integers(min_rows, max_rows)))
    return Case(forest, X, forest.apply(X), seed)
