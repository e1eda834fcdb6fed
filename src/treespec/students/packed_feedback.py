"""Rounding of leaf values in which each tree makes good what the rounding of the trees before it did to some rows."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from treespec.students.packed_quantise import Units

_DOUBT = 10.0  # rows that a leaf is thought to hold besides, which have no error


def with_feedback(
    units: Units, need: NDArray[np.int64], place: NDArray[np.int64], outputs: NDArray[np.integer] | None, n_outputs: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Return what `Units.best` does, tree by tree, each taking in the mean error so far of the rows in each of its leaves.

    ``place`` (n, n_trees) is the leaf of each row, counted through all trees; ``outputs`` (n_trees,) the output that a tree adds to, None
    for all of them.
    """
    error = np.zeros((len(place), n_outputs))
    parts = []
    for t, (begin, end) in enumerate(pairwise(np.append(units.first, len(units.rows)))):
        columns = slice(None) if outputs is None else slice(outputs[t], outputs[t] + 1)
        own, leaf = units.rows[begin:end], place[:, t] - begin
        count = np.bincount(leaf, minlength=end - begin)
        total = np.column_stack([np.bincount(leaf, column, minlength=end - begin) for column in error[:, columns].T])
        wanted = own + total / (count + _DOUBT)[:, None]
        one = Units(wanted, units.weight[begin:end], np.zeros(end - begin, np.int64), np.zeros(1, np.int64), units.bits)
        code, start, integer = one.best(need[t : t + 1])
        parts.append((code, start, integer))
        error[:, columns] += (own - start - integer * ((2 + (code & 1)) << (code >> 1)))[leaf]
    code, start, integer = (np.concatenate(part) for part in zip(*parts, strict=True))
    return code, start, integer
