"""Reads a Treelite model into flat arrays. Its fields are known to this file, `_treelite_*` and `treelite_checkpoint`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from treespec.adapters._reach import Reached, reachable
from treespec.adapters._treelite_fields import Fields, Trees, refused

LESS, LESS_OR_EQUAL = 2, 3
TASKS = ("kBinaryClf", "kRegressor", "kMultiClf", "kLearningToRank", "kIsolationForest")
MOST_OUTPUTS = 1 << 16
_EXACT_INTEGER = {"float32": 2**24, "float64": 2**31 - 1}  # category codes beyond are never matched


@dataclass(frozen=True, slots=True)
class TreeliteStructure:
    """All trees of a Treelite model as flat arrays (copies), with the meaning that `treespec.ir.Forest` gives them.

    Attributes
    ----------
    tree_offset, left, right, feature, threshold, default_left, value, tree_output, category_offset, category, category_left, categorical
        As in `Forest`; values of inner nodes are NaN.
    cover, count, gain : (n_nodes,) float64 or None
        Sum of hessians, number of rows and gain, where every node (for the gain: every split) has them.
    node_id : (n_nodes,) int32
        Id of each node within its tree in the Treelite model.
    base_score : (n_outputs,) float64
        Margin before the first tree.
    aggregation : {"sum", "mean"}
    n_features : int
    n_classes : tuple of int
        Outputs of each target, in the order of the columns of ``value``.
    task : str
        Name of Treelite's task type, one of `TASKS`.
    postprocessor : str
        Treelite's name of what turns margins into predictions, with its parameters ``sigmoid_alpha`` and ``ratio_c``.
    input_dtype : {"float32", "float64"}
        Type in which values and thresholds are compared.
    """

    tree_offset: NDArray[np.int64]
    left: NDArray[np.int32]
    right: NDArray[np.int32]
    feature: NDArray[np.int32]
    threshold: NDArray[np.float64]
    default_left: NDArray[np.bool_]
    value: NDArray[np.float64]
    tree_output: NDArray[np.int32]
    category_offset: NDArray[np.int64]
    category: NDArray[np.int32]
    category_left: NDArray[np.bool_]
    categorical: NDArray[np.bool_]
    cover: NDArray[np.float64] | None
    count: NDArray[np.float64] | None
    gain: NDArray[np.float64] | None
    node_id: NDArray[np.int32]
    base_score: NDArray[np.float64]
    aggregation: Literal["sum", "mean"]
    n_features: int
    n_classes: tuple[int, ...]
    task: str
    postprocessor: str
    sigmoid_alpha: float
    ratio_c: float
    input_dtype: Literal["float32", "float64"]

    @property
    def categorical_columns(self) -> tuple[int, ...]:
        """Columns that some node splits on categories: the least that `InputRule.categorical` must list."""
        return tuple(np.unique(self.feature[self.categorical]).tolist())

    def forest_fields(self) -> dict[str, Any]:
        """Return the fields of `Forest` that the structure fixes; the adapter adds inputs, link, task, classes and its own statistics."""
        names = (
            "tree_offset", "left", "right", "feature", "threshold", "default_left", "value", "tree_output", "category_offset", "category",
            "category_left", "categorical", "cover", "count", "gain", "base_score", "aggregation", "n_features",
        )  # fmt: skip
        return {name: getattr(self, name) for name in names} | {"native_id": self.node_id}


def structure_of(model: Any) -> TreeliteStructure:
    """Return the trees of a ``treelite.Model``.

    Every field is copied: Treelite hands out views on memory that dies with the model, which is held until the end of the call.

    Raises
    ------
    UnsupportedModelError
        If trees are damaged, compare with another operator than ``<`` and ``<=``, or an output has no Forest form.

    Notes
    -----
    O(n_nodes) time and memory, plus some 0.1 ms a tree for Treelite's accessors.
    """
    header = Fields(model.get_header_accessor())
    return structure_from(header, [Fields(model.get_tree_accessor(t)) for t in range(int(header.number("num_tree")))])


def structure_from(header: Fields, trees: list[Fields]) -> TreeliteStructure:
    """Return the trees behind the fields of a model's header and of its trees; errors as in `structure_of`."""
    raw = Trees(trees)
    reached = reachable(raw.column("cleft"), raw.column("cright"), raw.offset)
    source, leaf = reached.source, reached.left == -1
    dtype: Literal["float32", "float64"] = "float32" if raw.dtype("threshold") == np.float32 else "float64"
    categorical = ~leaf & (raw.column("node_type")[source] == 2)
    category_offset, category = _categories(raw, source, categorical, dtype)
    feature = np.where(leaf, -1, raw.column("split_index")[source]).astype(np.int32)
    n_classes = tuple(int(k) for k in header.array("num_class"))
    if len(n_classes) * max(n_classes) > MOST_OUTPUTS:
        raise refused(f"at most {MOST_OUTPUTS} outputs", str(n_classes))
    tree_output, columns = _outputs(header, n_classes)
    average = bool(header.number("average_tree_output"))
    value = _values(raw, reached, columns, sum(n_classes), average)
    n_features = int(header.number("num_feature"))
    if (feature >= n_features).any() or (feature[~leaf] < 0).any():
        raise refused(f"split features below {n_features}", "another")
    return TreeliteStructure(
        tree_offset=reached.tree_offset, left=reached.left, right=reached.right, feature=feature,
        threshold=_thresholds(raw, source, ~leaf & ~categorical),
        default_left=raw.column("default_left")[source].astype(bool), value=value, tree_output=tree_output,
        category_offset=category_offset, category=category, categorical=categorical,
        category_left=categorical & (raw.column("category_list_right_child")[source] == 0),
        cover=_statistic(raw, "sum_hess", source, np.ones_like(leaf)), count=_statistic(raw, "data_count", source, np.ones_like(leaf)),
        gain=_statistic(raw, "gain", source, ~leaf),
        node_id=(source - np.repeat(raw.offset[:-1], np.diff(reached.tree_offset))).astype(np.int32),
        base_score=_base_score(header, n_classes), aggregation="mean" if average else "sum", n_features=n_features, n_classes=n_classes,
        task=TASKS[int(header.number("task_type"))], postprocessor=header.text("postprocessor"),
        sigmoid_alpha=float(header.number("sigmoid_alpha")), ratio_c=float(header.number("ratio_c")), input_dtype=dtype,
    )  # fmt: skip


def _thresholds(raw: Trees, source: NDArray[np.int64], numerical: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Return the t of ``x <= t``: in the type of the model, ``x < t`` is ``x <= nextafter(t, -inf)``."""
    threshold, operator = raw.column("threshold")[source], raw.column("cmp")[source]
    known = (operator == LESS) | (operator == LESS_OR_EQUAL)
    if (numerical & ~known).any():
        raise refused("comparisons < or <=", f"operator {operator[numerical & ~known][0]}")
    less = numerical & (operator == LESS)
    if np.isnan(threshold[numerical]).any() or np.isneginf(threshold[less]).any():
        raise refused("thresholds that some value is below", "NaN or < -inf")
    with np.errstate(over="ignore"):  # below the least number there is -inf
        threshold[less] = np.nextafter(threshold[less], threshold.dtype.type(-np.inf))
    return np.where(numerical, threshold.astype(np.float64), np.nan)


def _categories(
    raw: Trees, source: NDArray[np.int64], categorical: NDArray[np.bool_], dtype: str
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Return the category codes that nodes list, in CSR form, sorted within a node."""
    nodes = np.flatnonzero(categorical)
    if not len(nodes):
        return np.zeros(len(source) + 1, np.int64), np.empty(0, np.int32)
    offset, code = raw.ranges("category_list", source[nodes])
    owner = np.repeat(nodes, np.diff(offset))
    matched = code <= _EXACT_INTEGER[dtype]
    pair = np.unique(owner[matched].astype(np.int64) << 32 | code[matched].astype(np.int64))
    return np.searchsorted(pair >> 32, np.arange(len(source) + 1)), (pair & 0xFFFFFFFF).astype(np.int32)


def _outputs(header: Fields, n_classes: tuple[int, ...]) -> tuple[NDArray[np.int32], list[NDArray[np.int64]]]:
    """Return, for each tree, the output it adds to (-1: several) and the columns that the entries of its leaves go to (-1: padding)."""
    most, start = max(n_classes), np.cumsum((0, *n_classes))
    column = np.full((len(n_classes), most), -1, np.int64)
    for k, n in enumerate(n_classes):
        column[k, :n] = np.arange(start[k], start[k + 1])
    target, cls = header.array("target_id"), header.array("class_id")
    if (target >= len(n_classes)).any() or (cls >= most).any():
        raise refused("outputs that exist", "a tree of another target or class")
    columns = [column[(t if t >= 0 else slice(None)), (c if c >= 0 else slice(None))].reshape(-1) for t, c in zip(target, cls, strict=True)]
    return np.array([c[0] if len(c) == 1 else -1 for c in columns], np.int32), columns


def _values(raw: Trees, reached: Reached, columns: list[NDArray[np.int64]], n_outputs: int, average: bool) -> NDArray[np.float64]:
    """Return (n_nodes, n_outputs) leaf values; Treelite's mean is over the trees of an output, ours over all trees."""
    leaf = reached.left == -1
    value = np.full((len(leaf), n_outputs), np.nan)
    value[leaf] = 0.0
    tree = np.repeat(np.arange(len(columns)), np.diff(reached.tree_offset))
    width = np.array([len(c) for c in columns])[tree]
    source = reached.source
    n_listed = (raw.column("leaf_vector_end")[source] - raw.column("leaf_vector_begin")[source]).astype(np.int64)
    if (n_listed[leaf] != np.where(width == 1, n_listed, width)[leaf]).any() or (n_listed[leaf & (width == 1)] > 1).any():
        raise refused("a value for each output at every leaf", "another number")
    scalar = np.flatnonzero(leaf & (n_listed == 0))
    first = np.array([c[0] for c in columns], np.int64)
    value[scalar, first[tree[scalar]]] = raw.column("leaf_value")[source[scalar]]
    vector = np.flatnonzero(leaf & (n_listed > 0))
    if len(vector):
        offset, listed = raw.ranges("leaf_vector", source[vector])
        to = np.concatenate([columns[t] for t in tree[vector]])
        real = to >= 0
        value[np.repeat(vector, np.diff(offset))[real], to[real]] = listed[real]
    if average and len(columns):
        times = np.bincount(np.concatenate([c[c >= 0] for c in columns]), minlength=n_outputs)
        if (times != len(columns)).any():
            value *= len(columns) / np.maximum(1, times)
    return value


def _statistic(raw: Trees, name: str, source: NDArray[np.int64], needed: NDArray[np.bool_]) -> NDArray[np.float64] | None:
    """Return a statistic as floats if every node that needs it has it, else None; 0 elsewhere."""
    present = np.concatenate([*raw.part(f"{name}_present"), np.empty(0, bool)]).astype(bool)
    if len(present) != raw.offset[-1] or not needed.any() or not present[source][needed].all():
        return None
    return np.where(needed, raw.column(name)[source], 0).astype(np.float64)


def _base_score(header: Fields, n_classes: tuple[int, ...]) -> NDArray[np.float64]:
    score = header.array("base_scores").astype(np.float64).reshape(len(n_classes), -1)
    if score.shape[1] != max(n_classes):
        raise refused("a base score for each output", f"shape {score.shape}")
    return np.concatenate([score[k, :n] for k, n in enumerate(n_classes)])
