from __future__ import annotations

import numpy as np
import pytest

from treespec.hooks import RowData


def adapt(model):
    """Return the forest of a model, by the adapter that takes it."""
    from treespec.adapters import lightgbm, sklearn_boosting, sklearn_hist, sklearn_trees, xgboost

    for adapter in (sklearn_trees, sklearn_boosting, sklearn_hist, xgboost, lightgbm):
        forest = adapter.treespec_adapt(model)
        if forest is not None:
            return forest
    raise LookupError(type(model))


@pytest.fixture
def rows_of():
    """Return a function from a fitted model and its training rows to the forest and `RowData`."""

    def build(model, X, y=None, weight=None):
        forest = adapt(model)
        return forest, RowData(X, y, weight, forest.apply(X), forest.apply, forest.margin, model)

    return build


@pytest.fixture(scope="session")
def table():
    """Return X (400, 5), a noisy y, positive weights."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 5)).astype(np.float32).astype(np.float64)
    y = 3 * np.sin(X[:, 0]) + X[:, 1] * X[:, 2] + 0.3 * rng.normal(size=400)
    return X, y, rng.uniform(0.2, 3.0, size=400)
