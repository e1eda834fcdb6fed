"""One tree of XGBoost's model document as checked arrays, and as Treelite is given it."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from treespec.adapters._reach import reachable
from treespec.errors import FileFormatError, TreespecError, UnsupportedModelError

Tree = dict[str, NDArray[Any]]

MOST_OUTPUTS = 1 << 16
_NODE_FIELDS = {
    "left_children": np.int32, "right_children": np.int32, "split_indices": np.int32, "split_conditions": np.float32,
    "default_left": np.uint8,
}  # fmt: skip
_STATISTICS = {"sum_hessian": np.float32, "loss_changes": np.float32, "base_weights": np.float32}
_CATEGORIES = {
    "categories": np.int32, "categories_nodes": np.int32, "categories_segments": np.int64, "categories_sizes": np.int64,
}  # fmt: skip
_LARGEST_CODE = 2**24


def tree_of(tree: Any, n_features: int, n_outputs: int) -> Tree:
    """Return the fields of one tree of the document, bounds checked."""
    out = {name: np.asarray(tree[name], dtype).reshape(-1) for name, dtype in (_NODE_FIELDS | _STATISTICS).items()}
    n = len(out["left_children"])
    out["split_type"] = np.asarray(tree["split_type"], np.uint8) if len(tree.get("split_type", ())) else np.zeros(n, np.uint8)
    for name, dtype in _CATEGORIES.items():
        out[name] = np.asarray(tree.get(name, ()), dtype).reshape(-1)
    out["parents"] = np.zeros(n, np.int32)
    require(n > 0 and all(len(out[name]) == n for name in (*_NODE_FIELDS, "split_type")), "arrays of one length in each tree")
    left, right, inner = out["left_children"], out["right_children"], out["left_children"] != -1
    require(((left[inner] > 0) & (left[inner] < n) & (right[inner] > 0) & (right[inner] < n)).all(), "children inside their tree")
    require(((out["split_indices"][inner] >= 0) & (out["split_indices"][inner] < n_features)).all(), "splits on features that exist")
    require(np.isfinite(out["split_conditions"][~inner]).all(), "finite leaf values")
    require(not np.isnan(out["split_conditions"][inner & (out["split_type"] == 0)]).any(), "a threshold at each split")
    _check_categories(out, n)
    width = integer(tree["tree_param"].get("size_leaf_vector", 1), MOST_OUTPUTS)
    if width > 1:
        _vector_leaves(out, tree, n, n_outputs if width == n_outputs else -1)
    else:
        right[~inner] = -1
    for name in _STATISTICS:  # absent in some versions for vector leaves
        if len(out[name]) != n * (width if name == "base_weights" and width > 1 else 1):
            out[name] = np.zeros(0, np.float32)
    return out


def check_shape(trees: tuple[Tree, ...]) -> None:
    """Raise where the nodes below a root are no tree, before Treelite walks them."""
    left = np.concatenate([np.zeros(0, np.int32), *(t["left_children"] for t in trees)])
    right = np.concatenate([np.zeros(0, np.int32), *(t["right_children"] for t in trees)])
    offset = np.cumsum([0, *(len(t["left_children"]) for t in trees)])
    try:
        reachable(left, np.where(left == -1, -1, right), offset)
    except UnsupportedModelError as error:
        raise damaged("nodes that are no tree") from error


def _vector_leaves(out: Tree, tree: Any, n: int, width: int) -> None:
    """Check leaves that hold a vector; a leaf's ``right_children`` is its place in ``leaf_weights`` (XGBoost 3.1 and later)."""
    require(width > 1, "leaves with a value for each output")
    leaf = out["left_children"] == -1
    weights = np.asarray(tree.get("leaf_weights", ()), np.float32).reshape(-1)
    if not len(weights):
        raise UnsupportedModelError.expected(
            "leaf vectors as XGBoost 3.1 and later write them", "an older model with vector leaves", "load and save it with a newer XGBoost"
        )
    place = out["right_children"][leaf]
    require(np.isfinite(weights).all() and ((place >= 0) & (place < len(weights) // width)).all(), "a finite vector at each leaf")
    out["leaf_weights"], out["width"] = weights, np.array([width])


def _check_categories(out: Tree, n: int) -> None:
    node, first, size, code = (out[k] for k in ("categories_nodes", "categories_segments", "categories_sizes", "categories"))
    require(len(node) == len(first) == len(size), "a list of categories for each categorical split")
    require(((node >= 0) & (node < n)).all() and (np.diff(node) > 0).all(), "categories at nodes that exist, in order")
    require(((first >= 0) & (size >= 0) & (first <= len(code)) & (size <= len(code) - first)).all(), "category lists that end inside")
    require(((code >= 0) & (code <= _LARGEST_CODE)).all(), "category codes of 0 to 2^24")
    categorical = np.flatnonzero((out["split_type"] == 1) & (out["left_children"] != -1))
    require((out["split_type"] <= 1).all() and np.isin(categorical, node).all(), "a list of categories for each categorical split")


def plain(tree: Tree, number: int, n_features: int) -> dict[str, Any]:
    """Return a tree as Treelite is given it."""
    n, width = len(tree["left_children"]), len(tree.get("leaf_weights", ())) and tree["width"][0]
    param = {"num_deleted": "0", "num_feature": str(n_features), "num_nodes": str(n), "size_leaf_vector": str(max(1, int(width)))}
    return {"id": number, "tree_param": param} | {name: a for name, a in tree.items() if name != "width"}


def integer(text: Any, most: int) -> int:
    """Return the size that is written as text, at most ``most``."""
    value = int(text)
    require(0 <= value <= most, f"sizes of 0 to {most}")
    return value


def require(good: Any, expected: str) -> None:
    """Raise `FileFormatError` unless ``good``."""
    if not good:
        raise damaged(f"one without {expected}")


def damaged(came: str) -> TreespecError:
    """Return the error for a model that breaks a rule."""
    return FileFormatError.expected("a well-formed XGBoost model", came, "the model is truncated or damaged; save it again with XGBoost")
