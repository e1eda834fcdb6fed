"""Small fitted problems that the tests of kpp share, and a scheme in its wrapper."""

from functools import cache
from types import SimpleNamespace

import numpy as np
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

from treespec.hooks import RowData, Scheme
from treespec.kpp import learners, weights
from treespec.plugins import Plugins


def adapt(model, X=None):
    return Plugins(("treespec.adapters.sklearn_trees", "treespec.adapters.sklearn_boosting"), use_entry_points=False).adapt(model, X)


def schemes(module, hook):
    found = {}
    getattr(module, hook)(lambda name, function: found.update({name: function}))
    return found


WEIGHTS = schemes(weights, "treespec_node_weights")
LEARNERS = schemes(learners, "treespec_learners")


def weight(name):
    return Scheme("node-weights", name, WEIGHTS[name], "treespec.kpp.weights")


def learner(name):
    return Scheme("learner", name, LEARNERS[name], "treespec.kpp.learners")


def rows_of(forest, X, y=None, sample_weight=None, model=None):
    """RowData whose routing is the reference traversal."""
    return RowData(X, y, sample_weight, forest.apply(X), forest.apply, forest.margin, model)


@cache
def problem(name):
    """(model, forest, X, y, data) of a small fitted model."""
    rng = np.random.default_rng(0)
    if name == "diabetes":
        X, y = load_diabetes(return_X_y=True)
        model = RandomForestRegressor(10, max_depth=4, random_state=0)
    elif name == "multi-output":
        X, y = load_diabetes(return_X_y=True)
        X, y = X[:150], np.column_stack([y[:150], rng.normal(size=150) * 50 + y[:150]])
        model = RandomForestRegressor(6, max_depth=4, random_state=0)
    elif name == "binary":
        X, y = load_breast_cancer(return_X_y=True)
        X, y = X[:200, :8], np.array(["benign", "malign"])[y[:200]]
        model = RandomForestClassifier(8, max_depth=3, random_state=0)
    elif name == "multiclass":
        X, y = load_iris(return_X_y=True)
        model = RandomForestClassifier(6, max_depth=3, random_state=0)
    elif name == "multi-label":
        X, y = load_iris(return_X_y=True)
        y = np.column_stack([y, rng.integers(2, size=len(y))])
        model = RandomForestClassifier(5, max_depth=3, random_state=0)
    model.fit(X, y)
    forest = adapt(model)
    return SimpleNamespace(model=model, forest=forest, X=X, y=y, data=rows_of(forest, X, y, model=model))
