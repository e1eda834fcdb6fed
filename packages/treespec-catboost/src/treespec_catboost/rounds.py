"""The trees of a document that the caller of `wrap` asks for."""

from __future__ import annotations

from typing import Any

import numpy as np

from treespec.errors import DataMismatchError, UnsupportedModelError
from treespec.hooks import Asked
from treespec_catboost.document import Document, damaged

Range = tuple[int, int]


def trees_asked(asked: Asked, document: Document) -> Range | None:
    """Return the first tree and the one after the last, or None for all.

    Raises
    ------
    UnsupportedModelError
        If the caller names a missing value.
    DataMismatchError
        If it is no range of the model's trees.
    """
    if asked.missing is not None:
        raise UnsupportedModelError.expected(
            "a CatBoost model as it is: its missing value is NaN", f"missing={asked.missing!r}", "leave missing= out"
        )
    given: Any = asked.iteration_range
    if given is None:
        return None
    n_trees = len(_trees(document))
    whole = isinstance(given, (tuple, list)) and len(given) == 2 and all(isinstance(k, (int, np.integer)) for k in given)
    start, stop = (int(given[0]), int(given[1]) or n_trees) if whole else (-1, -1)
    if not 0 <= start < stop <= n_trees:
        raise DataMismatchError.expected(
            f"iteration_range=(a, b) within the {n_trees} trees of the model", repr(given), "(0, 10) uses the first ten"
        )
    return start, stop


def first_trees(document: Document, rounds: Range | None) -> Document:
    """Return the document with these trees alone; like CatBoost, with the bias only where they begin with the first."""
    if rounds is None:
        return document
    start, stop = rounds
    name = "oblivious_trees" if "oblivious_trees" in document else "trees"
    scale, bias = document["scale_and_bias"]
    return document | {name: _trees(document)[start:stop], "scale_and_bias": [scale, bias if start == 0 else [0.0]]}


def _trees(document: Document) -> list[Any]:
    trees = document.get("oblivious_trees", document.get("trees"))
    if not isinstance(trees, list):
        raise damaged("a document without trees")
    return trees


def said(wrapper: str, rounds: Range | None, document: Document) -> str:
    """Return the name of the wrapper with the trees that were asked for."""
    if rounds is None or rounds == (0, len(_trees(document))):
        return wrapper
    return f"{wrapper} (trees {rounds[0]} to {rounds[1]} of {len(_trees(document))}, as asked)"
