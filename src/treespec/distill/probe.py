"""Rows drawn from the forest itself, for distillation without data.

What a forest knows of its training rows is how many of them reached each leaf of each tree. Rows are drawn so that they repeat all those
shares and are otherwise as independent as they can be (`treespec.distill.chains`).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from treespec.distill.boxes import coarse
from treespec.distill.chains import Chains
from treespec.distill.marginals import Array
from treespec.ir import Forest

_TREES = 60  # rows are made to agree with at most this many
_FIRST_ROUNDS = 10  # of boosted trees whose covers are sums of hessians: later ones count uncertain rows more
_SHARE = 0.005  # nodes of fewer rows are not split
_CHAINS = 4000
_LEARN = (80, 0.1)  # steps, rate
_SETTLE = (20, 0.03)


def draw_rows(forest: Forest, n: int, random_state: int) -> Any:
    """Return n rows that repeat, as closely as they can, how training rows were spread over the leaves of the forest.

    A numpy array, or a pandas frame where columns hold category values. Deterministic in ``random_state``.

    Notes
    -----
    80 times 4,000 rows and 20 times n rows are routed through at most 60 trees, split down to 0.5 percent of the rows: 2 to 10 seconds
    for 20,000 rows. What the leaves do not tell is not known here: dependence that no tree splits on, and the spread beyond the
    outermost thresholds.
    """
    from treespec.adapters._treelite import TreeliteRouter

    rng = np.random.default_rng(random_state)
    part = coarse(forest, _informative_trees(forest, rng), _SHARE)
    router = TreeliteRouter(part)
    chains = Chains(forest, part, lambda X: router.leaf_id(part.encode(X)), min(n, _CHAINS), rng)
    if part.n_trees and part.n_leaves > part.n_trees:
        chains.run(*_LEARN)
        chains.multiply(-(-n // len(chains.X)))
        chains.run(*_SETTLE)
    else:
        chains.multiply(-(-n // len(chains.X)))
    return _as_rows(forest, rng.permutation(chains.X)[:n])


def _informative_trees(forest: Forest, rng: np.random.Generator) -> NDArray[np.intp]:
    """Return the trees to agree with: those with splits whose covers count rows."""
    trees = np.flatnonzero(np.diff(forest.tree_offset) > 1)
    if forest.count is None and forest.aggregation == "sum" and forest.loss != "squared":
        trees = trees[: _FIRST_ROUNDS * forest.n_outputs]
    return trees if len(trees) <= _TREES else np.sort(rng.choice(trees, _TREES, replace=False))


def _as_rows(forest: Forest, X: Array) -> Any:
    """Return the rows as a user would pass them: with category values where columns have them."""
    known = dict(forest.inputs.categories)
    if not known:
        return X
    import pandas as pd

    names = forest.feature_names or tuple(str(j) for j in range(forest.n_features))
    columns = {}
    for j, name in enumerate(names):
        if j in known:
            lowest = 0 if forest.inputs.missing_category == "refuse" else -1
            codes = np.clip(X[:, j], lowest, max(lowest, len(known[j]) - 1)).astype(int)
            columns[name] = pd.Categorical.from_codes(codes, categories=list(known[j]) or ["none"])
        else:
            columns[name] = X[:, j]
    return pd.DataFrame(columns)
