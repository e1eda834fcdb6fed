"""Writes a `Forest` in Treelite's documented binary serialisation (version 4), tree by tree with numpy."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from treespec.errors import UnsupportedModelError
from treespec.ir import Forest
from treespec.ir.link import EACH

VERSION = (4, 0, 0)
LESS_OR_EQUAL = 3
EXACT_FLOAT32 = 2**24  # integers up to here are exact as float32
_TYPE = {"float32": 2, "float64": 3}
_TASK = {"binary": 0, "regression": 1, "outlier": 1, "multi-output": 1, "multiclass": 2, "ranking": 3}
_SINGLE = {
    "identity": "identity", "probability": "identity", "sigmoid": "sigmoid", "sigmoid-each": "sigmoid", "exp": "exponential",
    "log1p-exp": "logarithm_one_plus_exp", "signed-square": "signed_square", "hinge": "hinge", "softmax": "softmax",
    "sigmoid-by-target": "sigmoid",
}  # fmt: skip
_CLASSES = _SINGLE | {"identity": "identity_multiclass", "probability": "identity_multiclass"} | dict.fromkeys(EACH, "multiclass_ova")

Dtype = Literal["float32", "float64"]


def model_dtype(forest: Forest) -> Dtype:
    """Return the type of Treelite model that routes like the forest: that of its inputs, or float64 where float32 cannot hold a number."""
    if forest.inputs.dtype == "float64" or int(forest.category.max(initial=0)) > EXACT_FLOAT32:
        return "float64"
    largest = np.abs(forest.value[forest.is_leaf]).max(initial=0.0)
    return "float32" if largest <= np.finfo(np.float32).max else "float64"


def dumps(forest: Forest, dtype: Dtype, groups: Sequence[range] | None = None) -> list[bytes]:
    """Return the forest, or each group of its trees, as bytes for ``treelite.Model.deserialize_bytes``.

    Parameters
    ----------
    forest : Forest
    dtype : {"float32", "float64"}
        Type of thresholds and leaf values.
    groups : sequence of range, optional
        Trees of each model; all trees in one by default.

    Notes
    -----
    O(n_nodes) time; the result takes some 80 bytes a node.
    """
    writer = _TreeWriter(forest, dtype)
    return [
        b"".join([_header(forest, dtype, writer.single, trees), *map(writer.tree, trees)]) for trees in groups or [range(forest.n_trees)]
    ]


def _array(values: NDArray[Any], dtype: str) -> bytes:
    return struct.pack("<Q", len(values)) + np.ascontiguousarray(values, dtype=np.dtype(dtype).newbyteorder("<")).tobytes()


def _text(text: str) -> bytes:
    data = text.encode()
    return struct.pack("<Q", len(data)) + data


def _shape(forest: Forest) -> tuple[int, ...]:
    """Return the number of outputs of each target."""
    if forest.n_outputs == 1:
        return (1,)
    if forest.classes is not None and forest.task != "outlier":
        return tuple(len(c) for c in forest.classes)
    return (1,) * forest.n_outputs if forest.task == "multi-output" else (forest.n_outputs,)


def _header(forest: Forest, dtype: Dtype, single: bool, trees: range) -> bytes:
    n_classes = _shape(forest)
    most = max(n_classes)
    if forest.link not in _SINGLE:
        raise UnsupportedModelError.expected(
            "a link that Treelite has", repr(forest.link), "export the margins: forest.with_values(forest.value, link='identity')"
        )
    scaled = "sigmoid" in forest.link
    if forest.link_scale != 1.0 and not scaled:
        raise UnsupportedModelError.expected(
            "link_scale 1", f"{forest.link_scale} with link {forest.link!r}", "Treelite scales sigmoids only"
        )
    if forest.link not in _SINGLE:
        raise UnsupportedModelError.expected(f"a link of {sorted(_SINGLE)}", repr(forest.link), "Treelite has no such postprocessor")
    name = (_CLASSES if most > 1 else _SINGLE)[forest.link]
    target, cls = np.full(len(trees), -1), np.full(len(trees), -1)
    if single:
        owner = np.concatenate([np.full(n, k) for k, n in enumerate(n_classes)])
        within = np.concatenate([np.arange(n) for n in n_classes])
        output = np.maximum(forest.tree_output[trees.start : trees.stop], 0)
        target, cls = owner[output], within[output]
    task = _TASK[forest.task] if most == 1 or forest.task in ("multiclass", "ranking") else _TASK["multiclass"]
    return b"".join([
        struct.pack("<iiiBBQ", *VERSION, _TYPE[dtype], _TYPE[dtype], len(trees)),
        struct.pack("<iBBi", forest.n_features, task, forest.aggregation == "mean", len(n_classes)),
        _array(np.array(n_classes), "i4"),
        _array(np.array([1, 1] if single else [len(n_classes), most]), "i4"),
        _array(target, "i4"), _array(cls, "i4"), _text(name),
        struct.pack("<ff", forest.link_scale if scaled else 1.0, 1.0),
        _array(_padded(forest.base_score[None], n_classes)[0], "f8"), _text("{}"), struct.pack("<i", 0),
    ])  # fmt: skip


def _padded(values: NDArray[np.float64], n_classes: tuple[int, ...]) -> NDArray[np.float64]:
    """Return (n, n_targets * most) from (n, n_outputs): every target gets as many columns as the largest."""
    most = max(n_classes)
    column = np.concatenate([k * most + np.arange(n) for k, n in enumerate(n_classes)])
    out = np.zeros((len(values), most * len(n_classes)))
    out[:, column] = values
    return out


def round_down(threshold: NDArray[np.float64]) -> NDArray[np.float32]:
    """Return the largest float32 up to each threshold: ``x <= threshold`` is the same for every float32 x."""
    with np.errstate(over="ignore"):
        rounded = threshold.astype(np.float32)
        return np.where(rounded > threshold, np.nextafter(rounded, np.float32(-np.inf)), rounded)


class _TreeWriter:
    """Prepares the columns of all nodes at once; `tree` slices one tree out of them."""

    def __init__(self, forest: Forest, dtype: Dtype) -> None:
        self._forest = forest
        leaf, categorical = forest.is_leaf, forest.categorical
        threshold = np.where(leaf | categorical, 0.0, forest.threshold)
        self._float = "f4" if dtype == "float32" else "f8"
        self.single = forest.n_outputs == 1 or (forest.aggregation == "sum" and bool((forest.tree_output >= 0).all()))
        start = np.repeat(forest.tree_offset[:-1], np.diff(forest.tree_offset))
        value = np.where(leaf[:, None], forest.value, 0.0)
        if self.single:
            output = np.repeat(np.maximum(forest.tree_output, 0), np.diff(forest.tree_offset))
            self._vector, scalar = None, value[np.arange(len(leaf)), output]
        else:
            self._vector, scalar = _padded(value, _shape(forest)), np.zeros(len(leaf))
        self._columns: list[tuple[NDArray[Any], str]] = [
            (np.where(leaf, 0, np.where(categorical, 2, 1)), "i1"),
            (np.where(leaf, -1, forest.left - start), "i4"),
            (np.where(leaf, -1, forest.right - start), "i4"),
            (forest.feature, "i4"),
            (forest.default_left, "u1"),
            (scalar, self._float),
            (round_down(threshold) if dtype == "float32" else threshold, self._float),
            (np.where(leaf | categorical, 0, LESS_OR_EQUAL), "i1"),
            (categorical & ~forest.category_left, "u1"),
        ]
        self._columns = [(column.astype(kind), kind) for column, kind in self._columns]
        count = forest.count if forest.count is not None and (forest.count == np.rint(forest.count)).all() else None
        self._statistics = [(count, np.ones_like(leaf), "u8"), (forest.cover, np.ones_like(leaf), "f8"), (forest.gain, ~leaf, "f8")]

    def tree(self, t: int) -> bytes:
        """Return the bytes of one tree."""
        forest = self._forest
        here = slice(int(forest.tree_offset[t]), int(forest.tree_offset[t + 1]))
        n = here.stop - here.start
        parts = [struct.pack("<iB", n, bool(forest.categorical[here].any()))]
        parts += [_array(column[here], kind) for column, kind in self._columns]
        parts += self._leaf_vectors(here)
        begin, end = forest.category_offset[here], forest.category_offset[here.start + 1 : here.stop + 1]
        first = int(begin[0])
        parts += [_array(forest.category[first : int(end[-1])], "u4"), _array(begin - first, "u8"), _array(end - first, "u8")]
        for column, present, kind in self._statistics:
            parts += [_array(np.empty(0) if column is None else np.where(present, column, 0)[here], kind)]
            parts += [_array(np.empty(0) if column is None else present[here], "u1")]
        return b"".join([*parts, struct.pack("<ii", 0, 0)])

    def _leaf_vectors(self, here: slice) -> list[bytes]:
        leaf = self._forest.is_leaf[here]
        if self._vector is None:
            nowhere = np.zeros(len(leaf))
            return [_array(np.empty(0), self._float), _array(nowhere, "u8"), _array(nowhere, "u8")]
        width = self._vector.shape[1]
        end = np.cumsum(np.where(leaf, width, 0))
        return [_array(self._vector[here][leaf].ravel(), self._float), _array(end - np.where(leaf, width, 0), "u8"), _array(end, "u8")]
