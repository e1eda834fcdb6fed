"""Compressor ``leaf-refit``: all leaves refitted together, then the splits that tell least are cut, and so on down to the budget.

Source: Ren, Cao, Wei and Sun, "Global refinement of random forest" (CVPR 2015): leaf values of all trees are one ridge regression on leaf
indicators, and between refits the pairs of sibling leaves that matter least are merged. What a pair matters is measured here by the squared
error that merging it adds.
"""

from __future__ import annotations

from treespec.distill.grove import Grove
from treespec.distill.refit import refit

_FIRST = 8  # times as many splits as wanted are left when leaves are first refitted
_ROUND = 0.6
_ALPHA = 3.0


def merge_leaves(grove: Grove, n_splits: int) -> Grove:
    """Return the grove with at most ``n_splits`` splits, refitted and trimmed in rounds."""
    grove = grove.trim(_FIRST * n_splits)
    while grove.n_splits > n_splits:
        grove = refit(grove, _ALPHA).trim(max(n_splits, int(_ROUND * grove.n_splits)))
    return grove
