"""The compressors that prune the teacher's own trees: ``forestprune``, ``lop`` and ``leaf-refit``."""

from __future__ import annotations

from treespec.distill.data import DistillData
from treespec.distill.forestprune import prune_layers
from treespec.distill.leaf_refit import merge_leaves
from treespec.distill.lop import prune_levels
from treespec.distill.thin import thinned
from treespec.hooks import Progress, Teacher
from treespec.students.packed import PackedStudent

ALPHAS = (1.0, 10.0, 100.0)
"""Penalties of the last refit of all leaves that are tried."""


def forestprune(
    teacher: Teacher, budget: int, *, data: DistillData, random_state: int, progress: Progress | None, leaf_bits: int | None = None
) -> PackedStudent:
    """Return the teacher's trees cut to depths that were chosen together, reweighted, packed (`treespec.distill.forestprune`).

    Parameters
    ----------
    leaf_bits : int, optional
        Of a leaf value; by default 5 up to 3 KB, else 6.
    """
    return thinned("forestprune", prune_layers, (None,), teacher, budget, data=data, progress=progress, leaf_bits=leaf_bits)


def lop(
    teacher: Teacher, budget: int, *, data: DistillData, random_state: int, progress: Progress | None, leaf_bits: int | None = None
) -> PackedStudent:
    """Return the teacher's trees pruned level by level with the lasso, leaves refitted, packed (`treespec.distill.lop`).

    Parameters
    ----------
    leaf_bits : int, optional
        Of a leaf value; by default 5 up to 3 KB, else 6.
    """
    return thinned("lop", prune_levels, ALPHAS, teacher, budget, data=data, progress=progress, leaf_bits=leaf_bits)


def leaf_refit(
    teacher: Teacher, budget: int, *, data: DistillData, random_state: int, progress: Progress | None, leaf_bits: int | None = None
) -> PackedStudent:
    """Return the teacher's trees with leaves refitted and merged in rounds, packed (`treespec.distill.leaf_refit`).

    Parameters
    ----------
    leaf_bits : int, optional
        Of a leaf value; by default 5 up to 3 KB, else 6.
    """
    return thinned("leaf-refit", merge_leaves, ALPHAS, teacher, budget, data=data, progress=progress, leaf_bits=leaf_bits)
