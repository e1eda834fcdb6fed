"""CatBoost for treespec: an adapter through the hooks alone, as any third party can write one.

A model is read from CatBoost's own JSON export; `treespec.wrap` then checks the conversion against CatBoost on every model.

>>> import treespec, treespec_catboost
>>> from treespec.plugins import manager
>>> if not any(row.owner.startswith("catboost") for row in treespec.plugins()):  # an installed plugin is found by itself
...     manager().register(treespec_catboost, "catboost")
>>> from catboost import CatBoostRegressor
>>> from sklearn.datasets import load_diabetes
>>> X, y = load_diabetes(return_X_y=True)
>>> model = CatBoostRegressor(iterations=20, depth=4, verbose=0, allow_writing_files=False).fit(X, y)
>>> w = treespec.wrap(model, X, y)
>>> w.forest
Forest(catboost CatBoostRegressor: 20 trees, 620 nodes, 10 features, 1 output, regression)
>>> w.distill("2KB", compressor="packed").n_bytes <= 2000
True
"""

from __future__ import annotations

from typing import Any

from treespec.hooks import Asked, Native, hookimpl
from treespec.ir import Forest
from treespec_catboost.document import document_of, is_mine
from treespec_catboost.files import read_file
from treespec_catboost.forest import forest_of
from treespec_catboost.native import CatboostNative
from treespec_catboost.rounds import trees_asked


@hookimpl
def treespec_adapt(model: Any, X: Any) -> Forest | None:
    """Return the forest of a CatBoost model, or of a file that CatBoost saved as ``cbm`` or ``json``."""
    asked = Asked.of(model)
    if is_mine(asked.model):
        document = document_of(asked.model)
        rounds = trees_asked(asked, document)
        return forest_of(document, type(asked.model).__name__, X, asked.model, rounds)
    read = read_file(asked.model)
    return None if read is None else forest_of(read, "model file", X, None, trees_asked(asked, read))


@hookimpl
def treespec_native(model: Any, forest: Forest) -> Native | None:
    """Return CatBoost's own routing and prediction."""
    asked = Asked.of(model)
    return CatboostNative(asked.model, forest, asked.iteration_range) if is_mine(asked.model) else None
