"""The invariants of a `Forest`, checked once when it is built; vectorised, O(n_nodes)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from treespec.errors import InvalidForestError
from treespec.ir.link import EACH, LINKS, Outcome

if TYPE_CHECKING:
    from treespec.ir.forest import Forest

_DTYPES: dict[str, Any] = {
    "tree_offset": np.int64, "left": np.int32, "right": np.int32, "feature": np.int32, "threshold": np.float64,
    "default_left": np.bool_, "value": np.float64, "tree_output": np.int32, "base_score": np.float64,
    "category_offset": np.int64, "category": np.int32, "category_left": np.bool_, "categorical": np.bool_,
    "cover": np.float64, "count": np.float64, "gain": np.float64, "impurity": np.float64, "native_id": np.int32,
}  # fmt: skip

_FLOATS, _REFUSALS = ("float32", "float64"), ("route", "refuse")
_TASKS = ("regression", "binary", "multiclass", "multi-output", "ranking", "outlier")


def freeze(forest: Forest) -> None:
    """Give every array its type, fill defaults that depend on sizes, and make all arrays read-only (copies what is shared)."""
    n_nodes, n_trees = len(forest.left), len(forest.tree_offset) - 1
    value = np.asarray(forest.value, np.float64)
    defaults = {
        "value": value[:, None] if value.ndim == 1 else value,
        "tree_output": np.full(n_trees, -1) if not len(forest.tree_output) else forest.tree_output,
        "base_score": np.zeros(value.shape[1] if value.ndim == 2 else 1) if not len(forest.base_score) else forest.base_score,
        "category_offset": np.zeros(n_nodes + 1) if not len(forest.category_offset) else forest.category_offset,
        "category_left": np.zeros(n_nodes) if not len(forest.category_left) else forest.category_left,
        "categorical": np.zeros(n_nodes) if not len(forest.categorical) else forest.categorical,
    }
    for name, dtype in _DTYPES.items():
        array = defaults.get(name, getattr(forest, name))
        if array is None:
            continue
        frozen = np.array(array, dtype=dtype, order="C")
        frozen.flags.writeable = False
        object.__setattr__(forest, name, frozen)
    if forest.classes is not None:
        object.__setattr__(forest, "classes", tuple(np.array(c) for c in forest.classes))


def check(forest: Forest) -> None:
    """Raise `InvalidForestError` at the first broken invariant, naming the node."""
    _check_shapes(forest)
    _check_meaning(forest)
    _check_structure(forest)
    _check_splits(forest)
    _check_numbers(forest)


def _require(good: Any, expected: str, came: str) -> None:
    if not good:
        raise InvalidForestError.expected(expected, came, "the adapter that built this forest is at fault; please report it with the model")


def _check_shapes(f: Forest) -> None:
    n, t = f.n_nodes, f.n_trees
    _require(
        t >= 0 and f.tree_offset.ndim == 1 and f.tree_offset[0] == 0 and f.tree_offset[-1] == n,
        "tree_offset from 0 to n_nodes",
        str(f.tree_offset[[0, -1]]),
    )
    _require((np.diff(f.tree_offset) > 0).all(), "at least one node in every tree", "an empty tree")
    shapes: dict[str, tuple[int, ...]] = {
        "left": (n,), "right": (n,), "feature": (n,), "threshold": (n,), "default_left": (n,), "value": (n, f.n_outputs),
        "tree_output": (t,), "base_score": (f.n_outputs,), "category_offset": (n + 1,), "category_left": (n,), "categorical": (n,),
        "cover": (n,), "count": (n,), "gain": (n,), "impurity": (n,), "native_id": (n,),
    }  # fmt: skip
    for name, shape in shapes.items():
        array = getattr(f, name)
        _require(array is None or array.shape == shape, f"{name} of shape {shape}", str(None if array is None else array.shape))
    _require(f.n_outputs >= 1, "at least one output", "none")
    _require(
        f.feature_names is None or len(f.feature_names) == f.n_features, f"{f.n_features} feature names", str(len(f.feature_names or ()))
    )


def _check_structure(f: Forest) -> None:
    """Check that each tree is a tree: children after parents, inside the tree, and every node but the root a child exactly once."""
    node = np.arange(f.n_nodes)
    tree = np.repeat(np.arange(f.n_trees), np.diff(f.tree_offset))
    inner = np.flatnonzero(f.left != -1)
    _require(((f.left == -1) == (f.right == -1)).all(), "two children or none at every node", "a node with one child")
    children = np.concatenate([f.left[inner], f.right[inner]])
    parent = np.concatenate([inner, inner])
    bad = np.flatnonzero((children <= parent) | (children >= f.tree_offset[tree[parent] + 1]))
    _require(not len(bad), "children after their parent and in the same tree", f"node {parent[bad[0]] if len(bad) else ''}")
    times = np.bincount(children, minlength=f.n_nodes)
    is_root = node == f.tree_offset[:-1][tree]
    bad = np.flatnonzero(times != ~is_root)
    _require(
        not len(bad),
        "every node but the roots to be a child exactly once",
        f"node {bad[0] if len(bad) else ''}, {times[bad[0]] if len(bad) else ''} times",
    )


def _check_splits(f: Forest) -> None:
    inner = f.left != -1
    _require(((f.feature[inner] >= 0) & (f.feature[inner] < f.n_features)).all(), f"split features in [0, {f.n_features})", "one outside")
    _require((f.feature[~inner] == -1).all(), "feature -1 at leaves", "another")
    _require(not (f.categorical & ~inner).any(), "categories at inner nodes only", "a categorical leaf")
    numerical = inner & ~f.categorical
    _require(not np.isnan(f.threshold[numerical]).any(), "a threshold at every numerical split", "NaN")
    width = np.diff(f.category_offset)
    _require(
        f.category_offset[0] == 0 and (width >= 0).all() and f.category_offset[-1] == len(f.category),
        "category_offset in CSR form",
        "another",
    )
    _require(not (width[~f.categorical] > 0).any(), "categories at categorical splits only", "categories elsewhere")
    _require(not len(f.category) or f.category.min() >= 0, "category codes of 0 and more", "a negative one")
    used = set(np.unique(f.feature[f.categorical]).tolist())
    _require(
        used <= set(f.inputs.categorical),
        "columns split on categories to be listed in inputs.categorical",
        str(sorted(used - set(f.inputs.categorical))),
    )


def _check_numbers(f: Forest) -> None:
    leaf = f.left == -1
    _require(np.isfinite(f.value[leaf]).all(), "finite leaf values", "a NaN or an infinity")
    _require(np.isfinite(f.base_score).all(), "a finite base_score", str(f.base_score))
    _require(((f.tree_output >= -1) & (f.tree_output < f.n_outputs)).all(), f"tree_output in [-1, {f.n_outputs})", "one outside")
    for name in ("cover", "count"):
        array = getattr(f, name)
        _require(array is None or (np.isfinite(array) & (array >= 0)).all(), f"finite {name} of 0 and more", "another")
    problem = classes_problem(f)
    _require(not problem, "a class for each output", problem)


def classes_problem(f: Outcome) -> str:
    """Return what is wrong with the classes of a forest or student, empty where nothing is."""
    if f.classes is None or f.task == "outlier":
        return ""
    if not len(f.classes) or any(c.ndim != 1 for c in f.classes):
        return "class labels that are no list of them for each target"
    columns = 1 if f.task == "binary" and f.n_outputs == 1 else f.n_outputs
    given = 1 if f.task == "binary" and f.n_outputs == 1 and len(f.classes[0]) > 1 else sum(len(c) for c in f.classes)
    if f.link in EACH and len(f.classes) > 1:  # several labels a row
        given = len(f.classes) if all(len(c) == 2 for c in f.classes) else -1
    return "" if given == columns else f"{given} classes and {f.n_outputs} outputs"


def _check_meaning(f: Forest) -> None:
    """Check the plain fields, which a file may have filled with anything."""
    choices: dict[str, tuple[object, Sequence[object]]] = {
        "link": (f.link, sorted(LINKS)), "aggregation": (f.aggregation, ("sum", "mean")), "sum_dtype": (f.sum_dtype, _FLOATS),
        "task": (f.task, _TASKS), "inputs.dtype": (f.inputs.dtype, _FLOATS), "inputs.nan": (f.inputs.nan, _REFUSALS),
        "inputs.infinite": (f.inputs.infinite, _REFUSALS), "inputs.zero": (f.inputs.zero, ("keep", "flush", "missing")),
        "inputs.absent": (f.inputs.absent, ("zero", "missing", "refuse")),
        "inputs.unknown_category": (f.inputs.unknown_category, ("other", "missing", "refuse")),
        "inputs.missing_category": (f.inputs.missing_category, _REFUSALS),
        "inputs.numbers_are_codes": (f.inputs.numbers_are_codes, (False, True)),
        "inputs.negative_fraction_is_zero": (f.inputs.negative_fraction_is_zero, (False, True)),
        "inputs.float32_first": (f.inputs.float32_first, ("never", "numbers", "all")),
        "ties_to_last": (f.ties_to_last, (False, True)),
    }  # fmt: skip
    for name, (came, allowed) in choices.items():
        _require(any(came is a or (isinstance(came, str) and came == a) for a in allowed), f"{name} of {list(allowed)}", repr(came))
    numbers: dict[str, object] = {"link_scale": f.link_scale, "offset": f.offset}
    for name, number in numbers.items():
        _require(isinstance(number, float) and np.isfinite(number), f"a finite {name}", repr(number))
    names: tuple[object, ...] = (f.loss, f.framework)
    _require(all(isinstance(name, str) for name in names), "names of loss and framework", repr(names))
    columns = [*f.inputs.categorical, *(j for j, _ in f.inputs.categories)]
    _require(all(0 <= j < f.n_features for j in columns), f"categorical columns in [0, {f.n_features})", str(columns))
