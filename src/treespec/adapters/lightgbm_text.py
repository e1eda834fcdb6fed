"""LightGBM's text model as checked arrays.

The structure is read from the text itself, not through Treelite: the text is LightGBM's own complete record, with the leaf numbers of
``pred_leaf``, the missing type of every split and the statistics that Treelite drops, and its nodes are two arrays of children.
Treelite's import loses the first two (``zero_as_missing`` is silently wrong), so that everything would have to be read twice and
matched; and its parser, as LightGBM's, need not survive a damaged file. Tests compare the result with Treelite's all the same.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treespec.errors import FileFormatError, TreespecError, UnsupportedModelError

MISSING_NONE, MISSING_ZERO, MISSING_NAN = 0, 1, 2
_CATEGORICAL, _DEFAULT_LEFT = 1, 2
_VERSIONS = ("v2", "v3", "v4")
_MOST_OUTPUTS = 1 << 16
_MOST_FEATURES = 2**31 - 1


@dataclass(frozen=True, slots=True)
class LightgbmTree:
    """One tree: the splits come first, in LightGBM's numbering, then the leaves in theirs.

    Attributes
    ----------
    left, right : (n_nodes,) int64
        Children within the tree; -1 at leaves.
    feature, threshold, default_left, categorical, missing_type : (n_splits,) arrays
        The threshold of a categorical split is the number of its category list.
    category_lists : tuple of (k,) int64
        Codes that go left.
    value : (n_nodes,) float64
        Those of splits have six digits.
    count, cover : (n_nodes,) float64, or None where the text has none
    gain : (n_splits,) float64 or None
    """

    left: NDArray[np.int64]
    right: NDArray[np.int64]
    feature: NDArray[np.int64]
    threshold: NDArray[np.float64]
    default_left: NDArray[np.bool_]
    categorical: NDArray[np.bool_]
    missing_type: NDArray[np.int64]
    category_lists: tuple[NDArray[np.int64], ...]
    value: NDArray[np.float64]
    count: NDArray[np.float64] | None
    cover: NDArray[np.float64] | None
    gain: NDArray[np.float64] | None


@dataclass(frozen=True, slots=True)
class LightgbmText:
    """A text model.

    Attributes
    ----------
    objective : str
        Name; "" where there is none (custom).
    objective_options : dict
        "sigmoid", "num_class", "sqrt", ...
    n_features, n_outputs : int
    average : bool
        Whether the margin is the mean over trees (random forest mode).
    feature_names : tuple of str, or None where LightGBM made them up
    pandas_categorical : tuple of tuples
        Category values of each categorical column of the training frame, column after column.
    categorical_columns : tuple of int
        Columns that were categorical at training.
    trees : tuple of LightgbmTree
    """

    objective: str
    objective_options: dict[str, str]
    n_features: int
    n_outputs: int
    average: bool
    feature_names: tuple[str, ...] | None
    pandas_categorical: tuple[tuple[Any, ...], ...]
    categorical_columns: tuple[int, ...]
    trees: tuple[LightgbmTree, ...]


def read(text: str) -> LightgbmText:
    """Return the model in a text.

    Raises
    ------
    FileFormatError
        If it is truncated, damaged, or no LightGBM model.
    UnsupportedModelError
        If its leaves are linear models.

    Notes
    -----
    O(length of the text) time: some 0.3 s for 100,000 nodes.
    """
    try:
        return _read(text)
    except TreespecError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, RecursionError, OverflowError) as error:
        raise _damaged(f"one without a usable field ({type(error).__name__}: {error})") from error


def _read(text: str) -> LightgbmText:
    text = text.replace("\r\n", "\n")
    body, end, tail = text.partition("\nend of trees")
    _require(end, "the line 'end of trees' (it is truncated)")
    head, *blocks = body.split("\nTree=")
    header = _pairs(head)
    if not head.startswith("tree\n") or header.get("version") not in _VERSIONS:
        raise _damaged(f"version {header.get('version')!r} instead of one of {', '.join(_VERSIONS)}")
    n_features = _integer(header["max_feature_idx"], _MOST_FEATURES) + 1
    n_outputs = _integer(header.get("num_tree_per_iteration", header.get("num_class", "1")), _MOST_OUTPUTS)
    trees = tuple(_tree(_pairs(block), n_features) for block in blocks)
    _require(n_outputs > 0 and len(trees) % n_outputs == 0, "as many trees of each output (it is truncated)")
    sizes = header.get("tree_sizes")
    _require(sizes is None or len(sizes.split()) == len(trees), "the number of trees that it announces (it is truncated)")
    objective, *options = header.get("objective", "").split() or [""]
    parts = (option.partition(":") for option in options)
    return LightgbmText(
        objective=objective, objective_options={name: value for name, _, value in parts}, n_features=n_features, n_outputs=n_outputs,
        average="average_output" in header, feature_names=_names(header, n_features), pandas_categorical=_pandas_categorical(tail),
        categorical_columns=_categorical_columns(header, tail, trees, n_features), trees=trees,
    )  # fmt: skip


def _pairs(block: str) -> dict[str, str]:
    """Return the ``key=value`` lines of a block; a line without ``=`` is a key with an empty value."""
    out = {}
    for line in block.split("\n"):
        key, _, value = line.partition("=")
        if key:
            out[key] = value
    return out


def _tree(block: dict[str, str], n_features: int) -> LightgbmTree:
    if block.get("is_linear", "0").strip() not in ("", "0"):
        raise UnsupportedModelError.expected(
            "leaves that hold a value", "linear models at the leaves (linear_tree=true)", "train with linear_tree=false"
        )
    n_leaves = int(block["num_leaves"])
    n_splits = n_leaves - 1
    _require(n_leaves >= 1, "a leaf in each tree")
    leaf_value = _floats(block, "leaf_value", n_leaves)
    _require(np.isfinite(leaf_value).all(), "finite leaf values")
    children = [_integers(block, name, n_splits) for name in ("left_child", "right_child")]
    for child in children:
        _require(((child >= -n_leaves) & (child < n_splits)).all(), "children inside their tree")
    left, right = (np.concatenate([np.where(c >= 0, c, n_splits + ~c), np.full(n_leaves, -1)]) for c in children)
    feature = _integers(block, "split_feature", n_splits)
    _require(((feature >= 0) & (feature < n_features)).all(), "splits on features that exist")
    threshold, decision = _floats(block, "threshold", n_splits), _integers(block, "decision_type", n_splits)
    categorical, missing_type = (decision & _CATEGORICAL) > 0, decision >> 2 & 3
    _require(not np.isnan(threshold).any() and (missing_type <= MISSING_NAN).all(), "thresholds and known missing types")
    lists = _category_lists(block)
    number = threshold[categorical]
    _require(((number >= 0) & (number < len(lists)) & (number == np.floor(number))).all(), "a list for each categorical split")
    return LightgbmTree(
        left, right, feature, threshold, (decision & _DEFAULT_LEFT) > 0, categorical, missing_type, lists,
        value=np.concatenate([_floats(block, "internal_value", n_splits, needed=False), leaf_value]),
        count=_statistic(block, "count", n_splits, n_leaves), cover=_statistic(block, "weight", n_splits, n_leaves),
        gain=_floats(block, "split_gain", n_splits) if block.get("split_gain") else None,
    )  # fmt: skip


def _floats(block: dict[str, str], name: str, n: int, *, needed: bool = True) -> NDArray[np.float64]:
    if not needed and not block.get(name):
        return np.full(n, np.nan)
    values = np.array(block[name].split() if n else [], dtype=np.float64)
    _require(len(values) == n, f"{n} numbers in {name}")
    return values


def _integers(block: dict[str, str], name: str, n: int) -> NDArray[np.int64]:
    values = np.array(block[name].split() if n else [], dtype=np.int64)
    _require(len(values) == n, f"{n} numbers in {name}")
    return values


def _statistic(block: dict[str, str], name: str, n_splits: int, n_leaves: int) -> NDArray[np.float64] | None:
    """Return a statistic of splits and leaves; None where the text (of an old version, or a single leaf) leaves it out."""
    if not block.get(f"leaf_{name}"):
        return None
    parts = [_floats(block, f"internal_{name}", n_splits), _floats(block, f"leaf_{name}", n_leaves)]
    return np.concatenate(parts)


def _category_lists(block: dict[str, str]) -> tuple[NDArray[np.int64], ...]:
    """Return the codes of each category list, which the text holds as the bits of 32-bit words."""
    n = int(block.get("num_cat", "0") or 0)
    if n <= 0:
        return ()
    edge, words = _integers(block, "cat_boundaries", n + 1), np.array(block["cat_threshold"].split(), dtype=np.int64)
    _require(edge[0] == 0 and edge[-1] == len(words) and (np.diff(edge) >= 0).all(), "category lists that end inside")
    _require(((words >= 0) & (words < 2**32)).all(), "category lists of 32-bit words")
    bits = (words[:, None] >> np.arange(32) & 1).astype(bool)
    return tuple(np.flatnonzero(bits[a:b].ravel()) for a, b in pairwise(edge))


def _names(header: dict[str, str], n_features: int) -> tuple[str, ...] | None:
    names = tuple(header.get("feature_names", "").split(" "))
    if len(names) != n_features or names == tuple(f"Column_{j}" for j in range(n_features)):
        return None
    return names


def _categorical_columns(header: dict[str, str], tail: str, trees: tuple[LightgbmTree, ...], n_features: int) -> tuple[int, ...]:
    """Return the columns that are split on categories, or were declared so at training."""
    numerical = {int(j) for t in trees for j in t.feature[~t.categorical]}
    split = {int(j) for t in trees for j in t.feature[t.categorical]}
    if split & numerical:
        raise UnsupportedModelError.expected(
            "columns that are either numbers or categories", f"column {min(split & numerical)} split both ways", "train without init_model"
        )
    declared = re.search(r"^\[categorical_feature: ([0-9,]*)\]$", tail, re.MULTILINE)
    if declared:
        listed = {int(j) for j in declared[1].split(",") if j}
    else:
        infos = header.get("feature_infos", "").split(" ")  # a range [a:b] for numbers, a list a:b:c of codes for categories
        listed = {j for j, info in enumerate(infos) if not info.startswith("[") and info not in ("none", "")}
    return tuple(sorted(split | {j for j in listed - numerical if j < n_features}))


def _pandas_categorical(tail: str) -> tuple[tuple[Any, ...], ...]:
    _, found, line = tail.rpartition("\npandas_categorical:")
    values = json.loads(line.strip().split("\n", 1)[0]) if found else None
    return tuple(tuple(v) for v in values or ())


def _integer(text: str, most: int) -> int:
    value = int(text)
    _require(0 <= value <= most, f"sizes of 0 to {most}")
    return value


def _require(good: Any, expected: str) -> None:
    if not good:
        raise _damaged(f"one without {expected}")


def _damaged(came: str) -> TreespecError:
    return FileFormatError.expected("a well-formed LightGBM model", came, "the model is truncated or damaged; save it again with LightGBM")
