"""Names of categories: a model keeps hashes alone, so the rows of training are asked, and CatBoost which of their values it hashes so."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treespec.errors import DataMismatchError, DataNeededError
from treespec.ir.inputs import Category
from treespec.ir.table import is_missing, read_table

_LARGEST_FLOAT = 2**53  # integers up to here are floats exactly


def text_of(value: Any) -> str | None:
    """Return the text by which CatBoost knows a category, None for a number with a fraction, which it refuses, and for a missing value.

    Integers are their digits, and booleans are 1 and 0, as CatBoost has them in arrays and frames.
    """
    if isinstance(value, (str, np.str_)):
        return str(value)
    if is_missing(value):
        return None
    number = float(value)
    return str(int(value)) if number.is_integer() else None


def category_values(
    hashes: Mapping[int, Sequence[int]], X: Any, n_features: int, names: tuple[str, ...] | None
) -> dict[int, dict[int, list[Category]]]:
    """Return, for each column, the values behind each hash, as `InputRule.categories` has them: text, and the number it is the digits of.

    Parameters
    ----------
    hashes : mapping of int to sequence of int
        Hashes that trees split on, by column.
    X : array-like or frame, or None
        Rows of training.
    n_features : int
    names : tuple of str or None

    Raises
    ------
    DataNeededError
        If there are no rows.
    DataMismatchError
        If they lack a category that trees split on.
    """
    if not hashes:
        return {}
    shown = ", ".join(repr(names[j]) if names else str(j) for j in sorted(hashes))
    if X is None:
        raise DataNeededError.expected(
            f"the rows of training, for the names of the categories in columns {shown}",
            "none: CatBoost keeps hashes of them alone",
            "use treespec.wrap(model, X, y)",
        )
    table = read_table(X, n_features, names)
    out: dict[int, dict[int, list[Category]]] = {}
    for j, wanted in hashes.items():
        texts = sorted({text for text in map(text_of, set(table.values(j).tolist())) if text is not None})
        hit = _hits(texts, wanted)
        lost = int((~hit.any(axis=0)).sum())
        if lost:
            raise DataMismatchError.expected(
                f"rows with each of the {len(wanted)} categories that trees split on in column {table.name(j)}",
                f"rows that lack {lost} of them",
                "pass all rows of training: CatBoost keeps hashes of the names alone",
            )
        out[j] = {h: [v for i in np.flatnonzero(hit[:, k]) for v in _both(texts[i])] for k, h in enumerate(wanted)}
    return out


def _both(text: str) -> list[Category]:
    """Return the text, and the number that CatBoost takes for the same category."""
    try:
        number = int(text)
    except ValueError:
        return [text]
    return [text, float(number)] if str(number) == text and abs(number) <= _LARGEST_FLOAT else [text]


def _hits(texts: Sequence[str], hashes: Sequence[int]) -> NDArray[np.bool_]:
    """Return (n_texts, n_hashes): which texts CatBoost hashes to which of the hashes, asked of a model with one split for each hash."""
    import catboost
    import pandas as pd

    feature = {"feature_id": "", "feature_index": 0, "flat_feature_index": 0, "values": list(hashes)}
    trees = [
        {
            "leaf_values": [0, 1], "leaf_weights": [1, 1],
            "splits": [{"cat_feature_index": 0, "split_index": k, "split_type": "OneHotFeature", "value": h}],
        }
        for k, h in enumerate(hashes)
    ]  # fmt: skip
    document = {
        "features_info": {"categorical_features": [feature]},
        "oblivious_trees": trees,
        "scale_and_bias": [1, [0]],
        "model_info": {},
    }
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory, "model.json")
        path.write_text(json.dumps(document), encoding="utf-8")
        model = catboost.CatBoost().load_model(str(path), format="json")
    if not texts:
        return np.zeros((0, len(hashes)), bool)
    pool = catboost.Pool(pd.DataFrame({"category": pd.Series(list(texts), dtype=object)}), cat_features=["category"])
    return np.asarray(model.calc_leaf_indexes(pool) == 1, dtype=bool).reshape(len(texts), len(hashes))
