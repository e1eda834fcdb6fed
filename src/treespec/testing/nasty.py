"""Rows on which adapters go wrong: every split's threshold with its float neighbours, and every value that has a rule of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treespec.ir import Forest, stats

SPECIAL = (
    *(0.0, -0.0, 5e-324, -5e-324, 1e-45, -1e-45, 1e-310, 1e-35, -1e-35, 1.0000000180025095e-35, -1.0000000180025095e-35, 1e-30, 0.1, -0.1),
    *(2.0**24 + 1, 2.0**31, 2.0**31 - 1, 2.0**53 + 1, -(2.0**31), 1e30, -1e30, 3.4028234663852886e38, -3.4028234663852886e38),
)
BEYOND_FLOAT32 = (1e39, -1e39, 1e100, -1e100, 1e300, -1e300, np.inf, -np.inf)
CODES = (-1.0, -0.5, -0.0, 0.3, 1.5, 7.999, -3.0, 255.0, 256.0, 1e6, 2.0**24 + 1, 2.0**31, 2.0**32 + 1, 1e30, -1e30, -1e-3)
"""Values of a column of category codes that frameworks treat differently."""

Array = NDArray[np.float64]


def neighbours(threshold: Any) -> Array:
    """Return (6, ...) thresholds with their float32 and float64 neighbours, as float64."""
    t = np.asarray(threshold, np.float64)
    t32 = t.astype(np.float32)
    both = [
        t,
        np.nextafter(t, -np.inf),
        np.nextafter(t, np.inf),
        t32,
        np.nextafter(t32, np.float32(-np.inf)),
        np.nextafter(t32, np.float32(np.inf)),
    ]
    return np.stack([b.astype(np.float64) for b in both])


def nasty_rows(
    forest: Forest, rng: np.random.Generator, *, n_random: int = 400, max_nodes: int = 300, codes: Sequence[float] = CODES
) -> Any:
    """Return rows for the raw input of ``forest``.

    For up to ``max_nodes`` splits, rows that reach the split and carry its threshold or a neighbour of it (a category that it
    lists, or one that it does not); then ``n_random`` rows whose cells are drawn from all thresholds, neighbours and special values.
    Missing and infinite values come where `InputRule` lets them through.

    Parameters
    ----------
    forest : Forest
    rng : numpy.random.Generator
    n_random, max_nodes : int
    codes : sequence of float
        Extra values of categorical columns that hold numbers.

    Returns
    -------
    (n, n_features) float64 array; a pandas frame where columns hold categories of text
    """
    text = {j: known for j, known in forest.inputs.categories if any(isinstance(v, str) for v in known)}
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        pools = [_pool(forest, j, codes, text) for j in range(forest.n_features)]
        mixed = np.column_stack([rng.choice(pool, n_random) for pool in pools])
        plain = rng.normal(size=mixed.shape)
        mixed = np.where(rng.random((n_random, 1)) < 0.5, mixed, np.where(rng.random(mixed.shape) < 0.3, mixed, plain))
        for j in forest.inputs.categorical:
            mixed[:, j] = rng.choice(pools[j], n_random)
        rows = np.concatenate([_on_splits(forest, rng, pools, max_nodes), mixed])
    if forest.inputs.infinite != "route":
        rows = np.where(_within(rows, forest.inputs.dtype), rows, 0.5)
    return _with_text(forest, rows, text) if text else rows


def _within(x: Array, dtype: str) -> NDArray[np.bool_]:
    with np.errstate(over="ignore"):
        return np.asarray(~np.isinf(x.astype(dtype)))


def _pool(forest: Forest, j: int, codes: Sequence[float], text: dict[int, Any]) -> Array:
    """Return the values that column j may hold; of a column of text, places in its categories and one place more."""
    rule = forest.inputs
    refused = rule.nan == "refuse" or (j in rule.categorical and rule.missing_category == "refuse")
    missing = [] if refused else [np.nan] * 3
    if j in text:
        return np.concatenate([np.arange(len(text[j]) + float(rule.unknown_category != "refuse")), missing])
    if not np.isnan(forest.inputs.missing_value):
        missing += [forest.inputs.missing_value] * 3
    if j in forest.inputs.categorical:
        known = dict(forest.inputs.categories)
        if known.get(j) == ():  # no category is known: any number is another one
            return np.concatenate([np.arange(3.0), missing])
        listed = forest.category[np.repeat(forest.feature == j, np.diff(forest.category_offset))]
        values = np.asarray(known[j], np.float64) if j in known else np.arange(listed.max(initial=0) + 3.0)
        return np.concatenate([values, values, values + 0.5, codes, missing])
    at = ~forest.is_leaf & ~forest.categorical & (forest.feature == j)
    on = neighbours(np.unique(forest.threshold[at])).ravel()
    pool = np.concatenate([on, SPECIAL, BEYOND_FLOAT32, missing, missing])
    return pool if forest.inputs.infinite == "route" else pool[_within(pool, forest.inputs.dtype)]


def _on_splits(forest: Forest, rng: np.random.Generator, pools: list[Array], max_nodes: int) -> Array:
    """Return rows that reach a split and sit on its threshold."""
    parent = stats.parent(forest)
    inner = np.flatnonzero(~forest.is_leaf)
    chosen = rng.permutation(inner)[:max_nodes]
    rows = []
    for node in chosen:
        base = rng.normal(size=forest.n_features)
        for j in forest.inputs.categorical:
            base[j] = rng.choice(pools[j])
        low, high = np.full(forest.n_features, -np.inf), np.full(forest.n_features, np.inf)
        child, at = node, parent[node]
        while at >= 0:
            j, t = forest.feature[at], forest.threshold[at]
            if not forest.categorical[at]:
                if child == forest.left[at]:
                    high[j] = min(high[j], t)
                else:
                    low[j] = max(low[j], t)
            child, at = at, parent[at]
        inside = np.where(np.isfinite(low) & np.isfinite(high), low + (high - low) / 2, np.where(np.isfinite(high), high - 1, low + 1))
        bounded = np.isfinite(low) | np.isfinite(high)
        base[bounded] = inside[bounded]
        j = forest.feature[node]
        values = rng.choice(pools[j], 8) if forest.categorical[node] else neighbours(forest.threshold[node])
        block = np.tile(base, (len(values), 1))
        block[:, j] = values
        rows.append(block)
    return np.concatenate(rows) if rows else np.empty((0, forest.n_features))


def _with_text(forest: Forest, rows: Array, text: dict[int, Any]) -> Any:
    """Return the rows as a frame, the categories of text by value and a text that is none of them."""
    import pandas as pd

    names = forest.feature_names or tuple(str(j) for j in range(forest.n_features))
    columns: dict[str, Any] = {}
    for j, name in enumerate(names):
        if j in text:
            values = np.array([*map(str, text[j]), "a text that is no category"], dtype=object)
            place = np.where(np.isnan(rows[:, j]), 0, rows[:, j]).astype(int)
            columns[name] = np.where(np.isnan(rows[:, j]), None, values[place])
        else:
            columns[name] = rows[:, j]
    return pd.DataFrame(columns)
