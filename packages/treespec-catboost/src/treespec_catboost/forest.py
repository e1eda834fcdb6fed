"""`forest_of`: from CatBoost's document to a `Forest`.

A split is true where the float32 value is greater than its border, and true goes right, so that left is ``x <= border``. A missing value
is less than every border, or greater (``AsTrue``). A one-hot split is true for one category.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from treespec.errors import InvalidForestError, TreespecError, UnsupportedModelError
from treespec.ir import Forest, InputRule
from treespec.ir.inputs import Category
from treespec_catboost.categories import category_values
from treespec_catboost.document import Document, damaged
from treespec_catboost.meaning import meaning_of
from treespec_catboost.rounds import Range, first_trees, said
from treespec_catboost.trees import Trees, native_ids, trees_of


def forest_of(document: Document, wrapper: str, X: Any = None, model: Any = None, rounds: Range | None = None) -> Forest:
    """Return the forest of a CatBoost model.

    Parameters
    ----------
    document : dict
        CatBoost's JSON export.
    wrapper : str
        Name of the model's class.
    X : array-like or frame, optional
        Rows of training, for the names of categories.
    model : CatBoost, optional
        For the numbers by which it calls its leaves.
    rounds : (int, int), optional
        The first tree and the one after the last that are used; all by default.

    Raises
    ------
    UnsupportedModelError
        If trees split on target statistics of categories (CTR) or on text or embedding features.
    DataNeededError, DataMismatchError
        If names of categories are needed and are not in the rows.
    FileFormatError
        If the document is damaged.
    """
    try:
        return _forest(first_trees(document, rounds), said(wrapper, rounds, document), X, model, 0 if rounds is None else rounds[0])
    except InvalidForestError as error:
        raise damaged(str(error).partition("\n")[0]) from error
    except TreespecError:
        raise
    except (KeyError, IndexError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise damaged(f"a document that breaks its form ({type(error).__name__}: {error})") from error


def _forest(document: Document, wrapper: str, X: Any, model: Any, first: int) -> Forest:
    info = document["features_info"]
    floats = {int(f["feature_index"]): f for f in info.get("float_features") or ()}
    cats = {int(f["feature_index"]): f for f in info.get("categorical_features") or ()}
    columns = {int(f["flat_feature_index"]): str(f.get("feature_id") or "") for f in (*floats.values(), *cats.values())}
    n_features = max(columns, default=-1) + 1
    if len(columns) != n_features:
        raise damaged("gaps between the features")
    names = tuple(columns[j] for j in range(n_features)) if all(columns.values()) else None
    trees = trees_of(document)
    _refuse(trees.splits, cats)
    listed = _hashes(trees.splits, cats)
    values = category_values({j: sorted(h) for j, h in listed.items()}, X, n_features, names)
    codes, categories = _codes(values)
    scale, bias = document["scale_and_bias"]
    n_outputs = trees.value.shape[1]
    categorical = tuple(sorted(int(f["flat_feature_index"]) for f in cats.values()))
    return Forest(
        **_splits(trees, floats, cats, codes),
        tree_offset=trees.tree_offset,
        left=trees.left.astype(np.int32),
        right=trees.right.astype(np.int32),
        value=trees.value * float(scale),
        base_score=np.broadcast_to(np.asarray(bias, np.float64).reshape(-1), n_outputs),
        cover=trees.weight,
        n_features=n_features,
        feature_names=names,
        inputs=InputRule(
            dtype="float32",
            categorical=categorical,
            categories=tuple((j, categories.get(j, ())) for j in categorical),
            missing_category="refuse" if categorical else "route",
        ),
        framework=f"catboost {wrapper}",
        native_id=None if model is None else native_ids(model, trees, first, oblivious="oblivious_trees" in document).astype(np.int32),
        **meaning_of(document, wrapper, n_outputs),
    )


def _refuse(splits: list[dict[str, Any]], cats: dict[int, dict[str, Any]]) -> None:
    for split in splits:
        kind = split["split_type"]
        if kind in ("FloatFeature", "OneHotFeature"):
            continue
        names = sorted({f.get("feature_id") or str(f["flat_feature_index"]) for f in cats.values()})
        raise UnsupportedModelError.expected(
            "splits on numbers and on single categories",
            f"a split of type {kind}" + (f" on the categorical features {', '.join(map(repr, names))}" if kind == "OnlineCtr" else ""),
            "target statistics of categories depend on training labels; train with one_hot_max_size above the number of categories, or "
            "encode the categories as numbers first",
        )


def _hashes(splits: list[dict[str, Any]], cats: dict[int, dict[str, Any]]) -> dict[int, set[int]]:
    """Return the hashes that trees split on, by column."""
    out: dict[int, set[int]] = {}
    for split in splits:
        if split["split_type"] == "OneHotFeature":
            out.setdefault(int(cats[split["cat_feature_index"]]["flat_feature_index"]), set()).add(int(split["value"]))
    return out


def _codes(values: dict[int, dict[int, list[Category]]]) -> tuple[dict[tuple[int, int], list[int]], dict[int, tuple[Category, ...]]]:
    """Return the codes of each hash by column, and the value of each code."""
    codes: dict[tuple[int, int], list[int]] = {}
    categories: dict[int, tuple[Category, ...]] = {}
    for j, of_hash in values.items():
        known: list[Category] = []
        for h, found in of_hash.items():
            codes[j, h] = list(range(len(known), len(known) + len(found)))
            known += found
        categories[j] = tuple(known)
    return codes, categories


def _splits(
    trees: Trees, floats: dict[int, dict[str, Any]], cats: dict[int, dict[str, Any]], codes: dict[tuple[int, int], list[int]]
) -> dict[str, Any]:
    """Return what nodes split on, worked out once for each different split."""
    feature, threshold, missing_left, lists = [], [], [], []
    for split in trees.splits:
        if split["split_type"] == "FloatFeature":
            column = floats[split["float_feature_index"]]
            feature.append(int(column["flat_feature_index"]))
            threshold.append(float(np.float32(split["border"])))
            missing_left.append(column.get("nan_value_treatment") != "AsTrue")
            lists.append(np.zeros(0, np.int64))
        else:
            j = int(cats[split["cat_feature_index"]]["flat_feature_index"])
            feature.append(j)
            threshold.append(np.nan)
            missing_left.append(True)
            lists.append(np.array(codes[j, int(split["value"])], np.int64))
    at = trees.split
    inner = at >= 0
    width = np.array([*map(len, lists), 0], np.int64)[at]
    return {
        "feature": _of(at, feature, -1),
        "threshold": _of(at, threshold, np.nan),
        "default_left": _of(at, missing_left, fill=False),
        "categorical": inner & np.isnan(_of(at, threshold, 0.0)),
        "category_left": np.zeros(len(at), bool),
        "category_offset": np.concatenate([[0], np.cumsum(width)]),
        "category": np.concatenate([*(lists[k] for k in at[width > 0].tolist()), np.zeros(0, np.int64)]),
    }


def _of(at: NDArray[np.int64], values: list[Any], fill: Any) -> NDArray[Any]:
    return np.array([*values, fill])[at]
