"""Every built-in plugin keeps the promises of its hook; one that is registered later is checked here without a new test."""

import functools

import numpy as np
import pandas as pd
import pytest
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_diabetes
from sklearn.ensemble import (
    AdaBoostClassifier,
    BaggingRegressor,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    HistGradientBoostingClassifier,
    IsolationForest,
    RandomForestClassifier,
    RandomForestRegressor,
    StackingRegressor,
    VotingRegressor,
)
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import GridSearchCV
from sklearn.multioutput import MultiOutputRegressor
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from treespec.errors import ContractError, TreespecError
from treespec.plugins import BUILTIN, Plugins
from treespec.testing import check_adapter, check_compressor, check_learner, check_node_weights, check_smoother

PLUGINS = Plugins(BUILTIN, use_entry_points=False)


def names(kind):
    return sorted(PLUGINS.registry(kind))


def table():
    X, y = load_diabetes(return_X_y=True)
    return X[:120, :4].astype(np.float32).astype(np.float64), y[:120]


@functools.cache
def wrapped(name):
    import xgboost

    import treespec

    X, y = table()
    labels = {"regression": y, "binary": y > 120, "multiclass": np.digitize(y, [90, 160]), "pair": np.column_stack([y, X[:, 0] * y])}
    model, target = {
        "forest": (RandomForestRegressor(4, max_depth=4, random_state=0), "regression"),
        "forest of classes": (RandomForestClassifier(4, max_depth=3, random_state=0), "multiclass"),
        "forest of two targets": (RandomForestRegressor(3, max_depth=3, random_state=0), "pair"),
        "boosting": (GradientBoostingRegressor(n_estimators=4, random_state=0), "regression"),
        "boosting of classes": (GradientBoostingClassifier(n_estimators=4, random_state=0), "binary"),
        "xgboost": (xgboost.XGBRegressor(n_estimators=4, max_depth=3), "regression"),
    }[name]
    return treespec.wrap(model.fit(X, labels[target]), X, labels[target])


MODELS = ["forest", "forest of classes", "forest of two targets", "boosting", "boosting of classes", "xgboost"]


def accepted(check, *args, **options):
    """Whether the check passes; False where the plugin refuses the case. A broken promise is raised."""
    try:
        check(*args, **options)
    except ContractError:
        raise
    except TreespecError:
        return False
    return True


@pytest.mark.parametrize("name", names("node-weights"))
def test_node_weights(name):
    scheme = PLUGINS.scheme("node-weights", name).function
    passed = [m for m in MODELS if accepted(check_node_weights, scheme, wrapped(m).forest, wrapped(m).rows)]
    assert len(passed) >= 2, passed


@pytest.mark.parametrize("name", names("smoother"))
def test_smoothers(name):
    scheme = PLUGINS.scheme("smoother", name).function
    passed = [m for m in MODELS if accepted(check_smoother, scheme, wrapped(m).forest, wrapped(m).rows)]
    assert len(passed) >= 2, passed


LOOSE = {"quantile": 1e-3}
"""A learner that stops at a duality gap of 1e-4."""


@pytest.mark.parametrize("name", names("learner"))
def test_learners(name):
    learner = PLUGINS.scheme("learner", name).function
    cases = [{}, {"n_classes": 2, "alpha": 0.1}, {"n_classes": 3, "alpha": 0.1}, {"y": np.random.default_rng(1).normal(size=(60, 2))}]
    passed = [case for case in cases if accepted(check_learner, learner, tolerance=LOOSE.get(name, 1e-5), **case)]
    assert len(passed) >= 2, passed


FAST = {"mlp": {"steps": 20}, "scate": {"epochs": 2, "max_steps": 30, "rank": 3}, "auto": {}}
"""Options that make a compressor quick; one that is not listed runs with its own."""


@functools.cache
def teacher(name):
    import treespec

    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2)).astype(np.float32).astype(np.float64)
    y = X[:, 0] ** 2 + X[:, 1]
    if name == "classes":
        return treespec.wrap(RandomForestClassifier(2, max_depth=2, random_state=0).fit(X, y > 0.5), X, y > 0.5)
    return treespec.wrap(RandomForestRegressor(2, max_depth=2, random_state=0).fit(X, y), X, y)


@pytest.mark.parametrize("what", ["values", "classes"])
@pytest.mark.parametrize("name", names("compressor"))
def test_compressors(name, what):
    options = dict(FAST.get(name, {}))
    if name == "auto":
        raced = ("packed", "mlp")
        options["compressors"] = {n: functools.partial(PLUGINS.scheme("compressor", n).function, **FAST.get(n, {})) for n in raced}
    check_compressor(PLUGINS.scheme("compressor", name).function, teacher(what), 300, **options)


@functools.cache
def examples():
    """Adapter to (model, rows that it was fitted on, further arguments of the check)."""
    import lightgbm
    import treelite
    import xgboost

    X, y = table()
    k = np.digitize(y, [90, 160])
    frame = pd.DataFrame(X, columns=list("abcd"))
    mixed = frame.assign(c=pd.Categorical(np.array(["u", "v", "w"])[np.arange(len(X)) % 3]))
    booster = xgboost.XGBRegressor(n_estimators=3, max_depth=3).fit(X, y)
    boosted = lightgbm.LGBMClassifier(n_estimators=3, num_leaves=5, verbose=-1)
    histogram = HistGradientBoostingClassifier(max_iter=3, max_leaf_nodes=5, categorical_features="from_dtype")
    refused = {"refused": [LinearRegression().fit(X, y)]}
    return {
        "treespec.adapters.treelite": [(treelite.frontend.from_xgboost(booster.get_booster()), None, {})],
        "treespec.adapters.sklearn_trees": [
            (RandomForestClassifier(3, max_depth=4, random_state=0).fit(X, k), X, {"unfitted": RandomForestClassifier(), "sparse": True}),
            (RandomForestRegressor(3, max_depth=4, random_state=0).fit(frame, y), frame, refused),
        ],
        "treespec.adapters.sklearn_boosting": [
            (GradientBoostingClassifier(n_estimators=3, random_state=0).fit(X, k), X, {"unfitted": GradientBoostingClassifier()}),
        ],
        "treespec.adapters.sklearn_hist": [(histogram.fit(mixed, k), mixed, {"unfitted": HistGradientBoostingClassifier()})],
        "treespec.adapters.xgboost": [
            (booster, X, {"unfitted": xgboost.XGBRegressor(), "sparse": True}),
            (xgboost.XGBClassifier(n_estimators=3, enable_categorical=True).fit(mixed, k), mixed, refused),
        ],
        "treespec.adapters.lightgbm": [
            (boosted.fit(X, k), X, {"unfitted": lightgbm.LGBMClassifier(), "sparse": True}),
            (lightgbm.LGBMRegressor(n_estimators=3, verbose=-1).fit(mixed, y), mixed, refused),
        ],
        "treespec.adapters.files": [("model.json", None, {})],
        "treespec.adapters.shells": [(GridSearchCV(DecisionTreeRegressor(random_state=0), {"max_depth": [2, 3]}, cv=2).fit(X, y), X, {})],
        "treespec.adapters.sklearn_averages": [
            (
                BaggingRegressor(GradientBoostingRegressor(n_estimators=2), n_estimators=2, max_features=0.5, random_state=0).fit(X, y),
                X,
                {},
            ),
            (VotingRegressor([("a", booster), ("b", DecisionTreeRegressor(max_depth=2))]).fit(X, y), X, {}),
        ],
        "treespec.adapters.sklearn_stacking": [
            (StackingRegressor([("a", DecisionTreeRegressor(max_depth=2, random_state=0))], LinearRegression(), cv=2).fit(X, y), X, {}),
        ],
        "treespec.adapters.sklearn_targets": [
            (MultiOutputRegressor(DecisionTreeRegressor(max_depth=2, random_state=0)).fit(X, np.column_stack([y, X[:, 0]])), X, {}),
        ],
        "treespec.adapters.sklearn_adaboost": [
            (AdaBoostClassifier(DecisionTreeClassifier(max_depth=2), n_estimators=3, random_state=0).fit(X, k), X, {}),
        ],
        "treespec.adapters.sklearn_calibrated": [
            (CalibratedClassifierCV(RandomForestClassifier(2, max_depth=2, random_state=0), cv=2, ensemble=False).fit(X, y > 120), X, {}),
        ],
        "treespec.adapters.sklearn_isolation": [(IsolationForest(n_estimators=3, max_samples=32, random_state=0).fit(X), X, {})],
        "treespec.adapters.refusals": [],
    }


ADAPTERS = [row.owner for row in PLUGINS.table() if row.kind == "adapter"]


@pytest.mark.parametrize("owner", ADAPTERS)
def test_adapters(owner, tmp_path):
    import importlib

    plugin = importlib.import_module(owner)
    cases = examples()[owner]  # a new adapter needs an example
    for model, X, options in cases:
        if model == "model.json":
            path = tmp_path / model
            examples()["treespec.adapters.xgboost"][0][0].save_model(path)
            model = path
        forest = check_adapter(plugin, model, X, **options)
        assert forest.n_trees
