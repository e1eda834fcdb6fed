"""Compressor ``fp-scate``: SCATE on the trees that ForestPrune leaves of the teacher.

Source: Vu and Watson, section "Compression Benchmark". Pruned trees are no smoother of a booster's training, so the directions are always
those of their leaf kernel.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from treespec.distill.data import DistillData
from treespec.distill.forestprune import prune_layers
from treespec.distill.scate import scate
from treespec.distill.thin import thin_forest
from treespec.hooks import Progress, Teacher
from treespec.ir import Forest
from treespec.students.mlp import MLPStudent

PRUNED_TO = 20
"""``fp-scate`` learns the kernel of trees that would be packed into so many times the budget."""

_LEAST = 5_000  # bytes: the trees of smaller budgets are the same, and so are the columns that they use and the smallest student

_STRUCTURE = (
    "tree_offset", "left", "right", "feature", "threshold", "default_left", "category_offset", "category", "category_left", "categorical",
    "tree_output", "inputs",
)  # fmt: skip


class _Pruned:
    """A teacher whose trees were pruned; margins are the teacher's own."""

    def __init__(self, teacher: Teacher, forest: Forest) -> None:
        self.forest, self._teacher = forest, teacher
        self.apply = forest.apply
        self.margin, self.predict = teacher.margin, teacher.predict


def fp_scate(
    teacher: Teacher, budget: int, *, data: DistillData, random_state: int, progress: Progress | None, **options: Any
) -> MLPStudent:
    """Return a student that learns the spectral directions of the trees that ForestPrune leaves of the teacher.

    Parameters
    ----------
    **options
        Those of ``scate``.
    """
    if progress is not None:
        progress("fp-scate: prune", 0.0)
    grove = thin_forest(prune_layers, teacher, PRUNED_TO * max(budget, _LEAST), data)
    fields: dict[str, Any] = {name: getattr(grove.forest, name) for name in _STRUCTURE}
    none: dict[str, Any] = {"cover": None, "count": None, "gain": None, "impurity": None, "native_id": None}
    value = np.zeros((grove.forest.n_nodes, teacher.forest.n_outputs))
    loss = "unknown" if teacher.forest.loss == "squared" else teacher.forest.loss
    pruned = replace(teacher.forest, value=value, loss=loss, **fields, **none)
    rows = replace(data.rows, leaf_id=grove.leaf_id, apply=pruned.apply)
    student = scate(
        _Pruned(teacher, pruned), budget, data=replace(data, rows=rows), random_state=random_state, progress=progress, **options
    )
    student.report["compressor"] = "fp-scate"
    student.report["chosen"] |= {"trees": pruned.n_trees, "splits": grove.n_splits}
    return student
