"""XGBoost's model document (JSON or UBJSON) as checked arrays: what Treelite is given, and what it leaves out.

Nothing that a file says is trusted: ids are bounds-checked and sizes compared before Treelite's parser sees them, unknown fields are
left behind, and the objective is replaced (Treelite refuses unknown ones), since the link is read here.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treespec.adapters import _ubjson
from treespec.adapters.xgboost_tree import MOST_OUTPUTS, Tree, check_shape, damaged, integer, plain, require, tree_of
from treespec.errors import TreespecError, UnsupportedModelError

_MOST_FEATURES = 2**31 - 1


@dataclass(frozen=True, slots=True)
class XgboostDocument:
    """A tree model of XGBoost.

    Attributes
    ----------
    version : tuple of int
    booster : {"gbtree", "dart"}
    objective : str
    base_score : (n_outputs,) float32
        As stored: a mean or a probability, not a margin.
    n_features, n_classes, n_targets : int
        ``n_classes`` and ``n_targets`` are 1 where the model has one output.
    feature_names, feature_types : tuple of str, or None where the user gave none
    categories : tuple of (int, tuple) pairs
        For columns that were a frame's categories at training: the value of each code.
    trees : tuple of dict of ndarray
        Fields of XGBoost's trees, checked.
    tree_info : (n_trees,) int32
        Output of each tree.
    round_offset : (n_rounds + 1,) int64
        Where the trees of each boosting round start.
    weight_drop : (n_trees,) float32 or None
        Weights of DART, which Treelite multiplies into the leaves.
    n_parallel : int
    best_iteration : int or None
        Set by early stopping; a bare booster's ``predict`` does not look at it.
    """

    version: tuple[int, ...]
    booster: str
    objective: str
    base_score: NDArray[np.float32]
    n_features: int
    n_classes: int
    n_targets: int
    feature_names: tuple[str, ...] | None
    feature_types: tuple[str, ...] | None
    categories: tuple[tuple[int, tuple[str | float, ...]], ...]
    trees: tuple[Tree, ...]
    tree_info: NDArray[np.int32]
    round_offset: NDArray[np.int64]
    weight_drop: NDArray[np.float32] | None
    n_parallel: int
    best_iteration: int | None = None

    @property
    def n_outputs(self) -> int:
        """Columns of the margin."""
        return self.n_classes * self.n_targets

    @property
    def n_rounds(self) -> int:
        """Number of boosting rounds."""
        return len(self.round_offset) - 1

    def rounds(self, start: int, stop: int) -> XgboostDocument:
        """Return the model with the boosting rounds from ``start`` up to ``stop``, which is left out."""
        offset = self.round_offset[start : stop + 1]
        part = slice(int(offset[0]), int(offset[-1]))
        drop = None if self.weight_drop is None else self.weight_drop[part]
        return replace(self, trees=self.trees[part], tree_info=self.tree_info[part], round_offset=offset - offset[0], weight_drop=drop)

    def for_treelite(self) -> bytes:
        """Return the trees as UBJSON with the fields that Treelite needs and no others."""
        size = len(self.trees)
        model = {
            "gbtree_model_param": {"num_parallel_tree": str(self.n_parallel), "num_trees": str(size)},
            "tree_info": self.tree_info, "trees": [plain(t, k, self.n_features) for k, t in enumerate(self.trees)],
        }  # fmt: skip
        booster: dict[str, Any] = {"model": model, "name": "gbtree"}
        if self.weight_drop is not None:
            booster = {"gbtree": booster, "name": "dart", "weight_drop": self.weight_drop}
        param = {
            "base_score": "0", "num_class": str(self.n_classes if self.n_classes > 1 else 0), "num_feature": str(self.n_features),
            "num_target": str(self.n_targets),
        }  # fmt: skip
        objective = {"name": "multi:softprob" if self.n_classes > 1 else "reg:squarederror"}
        learner = {"gradient_booster": booster, "learner_model_param": param, "objective": objective}
        return _ubjson.dumps({"learner": learner, "version": np.array(self.version, np.int32)})


def read(data: bytes) -> XgboostDocument:
    """Return the model in ``data`` (JSON or UBJSON).

    Raises
    ------
    FileFormatError
        If it is truncated, damaged, or no XGBoost model.
    UnsupportedModelError
        If the booster is linear.
    """
    try:
        with np.errstate(over="ignore"):  # what overflows float32 is refused as not finite
            return _document(_parse(data))
    except TreespecError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, RecursionError, OverflowError) as error:
        raise damaged(f"one without a usable field ({type(error).__name__}: {error})") from error


def _parse(data: bytes) -> Any:
    if data[1:2] in b"iUIlL$#" and data[1:2]:
        return _ubjson.loads(data)
    return json.loads(data)


def _document(document: Any) -> XgboostDocument:
    learner = document["learner"]
    booster, param = learner["gradient_booster"], learner["learner_model_param"]
    name, drop = str(booster["name"]), None
    if name == "gblinear":
        raise UnsupportedModelError.expected(
            "an XGBoost model of trees (booster 'gbtree' or 'dart')",
            "booster 'gblinear', which has no trees",
            "its coef_ and intercept_ are the model: there is nothing to look into",
        )
    if name == "dart":
        drop = np.asarray(booster["weight_drop"], np.float32)
        booster = booster["gbtree"]
    elif name != "gbtree":
        raise UnsupportedModelError.expected("booster 'gbtree' or 'dart'", repr(name), "only tree boosters can be represented")
    model = booster["model"]
    n_features = integer(param["num_feature"], _MOST_FEATURES)
    n_classes, n_targets = (max(1, integer(param.get(k, 0), MOST_OUTPUTS)) for k in ("num_class", "num_target"))
    trees = tuple(tree_of(t, n_features, n_classes * n_targets) for t in model["trees"])
    tree_info = np.asarray(model["tree_info"], np.int32).reshape(-1)
    check_shape(trees)
    n_parallel = max(1, integer(model["gbtree_model_param"].get("num_parallel_tree", 1), _MOST_FEATURES))
    require(len(tree_info) == len(trees) and (drop is None or len(drop) == len(trees)), "an output and a weight for each tree")
    require(((tree_info >= 0) & (tree_info < n_classes * n_targets)).all(), "trees of outputs that exist")
    require(n_classes == 1 or n_targets == 1, "several classes or several targets, not both")
    names, types = (tuple(map(str, learner.get(k) or ())) for k in ("feature_names", "feature_types"))
    require(len(names) in (0, n_features) and len(types) in (0, n_features), "a name and a type for each feature, or none")
    best = str(learner.get("attributes", {}).get("best_iteration", ""))
    version = np.array(document.get("version", (1, 0, 0)), np.int32)  # OverflowError for what Treelite could not read back
    return XgboostDocument(
        version=tuple(version.tolist())[:3], booster=name, objective=str(learner["objective"]["name"]),
        base_score=_base_score(param["base_score"], n_classes * n_targets), n_features=n_features, n_classes=n_classes,
        n_targets=n_targets, feature_names=names or None, feature_types=types or None, categories=_categories(model.get("cats")),
        trees=trees, tree_info=tree_info, round_offset=_rounds(model, trees, n_classes * n_targets * n_parallel, n_parallel),
        weight_drop=drop, n_parallel=n_parallel, best_iteration=int(best) if best.isdecimal() else None,
    )  # fmt: skip


def _rounds(model: Any, trees: tuple[Tree, ...], per_round: int, n_parallel: int) -> NDArray[np.int64]:
    offset = np.asarray(model.get("iteration_indptr", ()), np.int64).reshape(-1)
    if not len(offset):  # before XGBoost 1.7 or so
        offset = np.arange(0, len(trees) + 1, n_parallel if trees and "leaf_weights" in trees[0] else per_round)
    require(offset[0] == 0 and offset[-1] == len(trees) and (np.diff(offset) >= 0).all(), "rounds that cover the trees")
    return offset


def _categories(cats: Any) -> tuple[tuple[int, tuple[str | float, ...]], ...]:
    """Return the category values of each column that has them: text as one buffer with offsets, or integers."""
    out: list[tuple[int, tuple[str | float, ...]]] = []
    for j, entry in enumerate(cats["enc"] if cats else ()):
        values = np.asarray(entry["values"])
        if "offsets" in entry:
            edge = np.asarray(entry["offsets"], np.int64)
            text = values.astype(np.int64).astype(np.uint8).tobytes()
            inside = not len(edge) or (edge[0] == 0 and edge[-1] == len(text) and (np.diff(edge) >= 0).all())
            require(inside, "category names that end inside")
            if not text.isascii():
                raise UnsupportedModelError.expected(
                    "category names in ASCII, or integers",
                    f"other characters in column {j}, which XGBoost (to 3.2 at least) stores cut short, and mixes up in frames",
                    "rename the categories and train again, or train on integer codes",
                )
            names: tuple[str | float, ...] = tuple(text[a:b].decode() for a, b in pairwise(edge))
        else:
            names = tuple(int(v) for v in values)
        if names:
            out.append((j, names))
    return tuple(out)


def _base_score(stored: Any, n_outputs: int) -> NDArray[np.float32]:
    values = np.array([float(v) for v in str(stored).strip("[] ").split(",")], np.float32)
    require(len(values) in (1, n_outputs) and np.isfinite(values).all(), "a finite base_score, or one for each output")
    return np.broadcast_to(values, n_outputs).copy()
