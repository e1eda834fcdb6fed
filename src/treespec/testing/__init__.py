"""Conformance checks for plugins: what each hook promises, checked on your own object.

>>> import numpy as np
>>> from treespec.testing import check_node_weights, grow
>>> def halving(forest, data=None):
...     return np.where(forest.is_leaf, 0.0, 0.5)
>>> check_node_weights(halving, grow(np.random.default_rng(0)))
>>> check_node_weights(lambda forest, data=None: -np.ones(forest.n_nodes), grow(np.random.default_rng(0)))
Traceback (most recent call last):
...
treespec.errors.ContractError: The contract of node weights asks for ..., but got negative weights (node 0).
<BLANKLINE>
Hint: ...

A check that finds a broken promise raises `treespec.errors.ContractError`, which says what is asked, what came and what to do. An error
with which the plugin itself refuses a model or its data (any other `treespec.errors.TreespecError`) passes through.
Random forests and rows come from `grow`, `rows` and `nasty_rows`, and as Hypothesis strategies from `treespec.testing.strategies`.
"""

from treespec.testing.adapter import check_adapter
from treespec.testing.compressor import check_compressor
from treespec.testing.forests import GRID, grow, row_data, rows
from treespec.testing.learner import check_learner
from treespec.testing.nasty import CODES, nasty_rows, neighbours
from treespec.testing.node_weights import check_node_weights
from treespec.testing.smoother import check_smoother

__all__ = [
    "CODES",
    "GRID",
    "check_adapter",
    "check_compressor",
    "check_learner",
    "check_node_weights",
    "check_smoother",
    "grow",
    "nasty_rows",
    "neighbours",
    "row_data",
    "rows",
]
