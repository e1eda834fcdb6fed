"""Models with random hyper-parameters on random data: the same seed gives the same model."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sklearn import ensemble, tree


@dataclass
class Draw:
    """A random model before it is fitted.

    Attributes
    ----------
    name : str
        Framework and class.
    options : dict
        Hyper-parameters.
    X, y : ndarray
        Training rows and labels.
    make : callable
        Fits the model.
    """

    name: str
    options: dict[str, Any]
    X: np.ndarray
    y: np.ndarray
    make: Callable[[], Any] = field(repr=False)


def draw(seed: int) -> Draw:
    """Return the random model of a seed."""
    rng = np.random.default_rng(seed)
    kinds = [_trees, _forests, _boosting, _histogram]
    kinds += [_xgboost] * 4 if importlib.util.find_spec("xgboost") else []
    kinds += [_lightgbm] * 4 if importlib.util.find_spec("lightgbm") else []
    return kinds[int(rng.integers(len(kinds)))](rng)


# ---- data


def _rows(rng: np.random.Generator, *, missing: bool, exponent: int) -> np.ndarray:
    """Return rows whose columns have a kind each: numbers of any size, integers, few values, constants, ties; some missing."""
    n, p = int(rng.integers(20, 250)), int(rng.integers(1, 6))
    columns = []
    for _ in range(p):
        kind = rng.choice(["normal", "scaled", "integers", "stamps", "few", "constant", "tiny"], p=[0.3, 0.2, 0.15, 0.1, 0.15, 0.02, 0.08])
        column = {
            "normal": lambda: rng.normal(size=n),
            "scaled": lambda: rng.normal(size=n) * 10.0 ** rng.integers(-exponent, exponent),
            "integers": lambda: rng.integers(-50, 50, n).astype(float),
            "stamps": lambda: rng.integers(1_600_000_000, 1_700_000_000, n).astype(float),
            "few": lambda: rng.choice(rng.normal(size=3), n),
            "constant": lambda: np.full(n, 3.0),
            "tiny": lambda: rng.normal(size=n) * 1e-35,
        }[str(kind)]()
        columns.append(np.where(rng.random(n) < rng.choice([0, 0, 0.3]), 0.0, column))
    X = np.column_stack(columns)
    if missing and rng.random() < 0.6:
        X[rng.random(X.shape) < rng.choice([0.02, 0.2, 0.6])] = np.nan
    return X


def _labels(rng: np.random.Generator, X: np.ndarray, task: str) -> np.ndarray:
    n = len(X)
    rank = np.argsort(np.argsort(np.nan_to_num(X[:, 0]))) / n
    y = rank + 0.3 * rng.normal(size=n)
    if task == "binary":
        out = (y > np.median(y)).astype(int)
    elif task == "multiclass":
        k = int(rng.integers(3, 6))
        out = np.digitize(y, np.quantile(y, np.arange(1, k) / k))
    elif task == "targets":
        return np.column_stack([y, y**2, rng.normal(size=n)])
    elif task == "positive":
        return np.abs(y) + 0.01
    elif task == "counts":
        return np.floor(5 * np.abs(y))
    else:
        return y * 10.0 ** rng.integers(-6, 7) + rng.choice([0.0, 1e3, -1e6])
    out[: out.max() + 1] = np.arange(out.max() + 1)  # every class has a row
    return out


def _some(rng: np.random.Generator, options: dict[str, list[Any]], share: float = 0.3) -> dict[str, Any]:
    """Return a random part of the options, each with a random value."""
    return {name: values[int(rng.integers(len(values)))] for name, values in options.items() if rng.random() < share}


def _weights(rng: np.random.Generator, n: int) -> dict[str, Any]:
    return {"sample_weight": rng.integers(1, 5, n).astype(float)} if rng.random() < 0.2 else {}


def _drawn(cls: Any, options: dict[str, Any], X: np.ndarray, y: np.ndarray, fit: dict[str, Any]) -> Draw:
    return Draw(f"{cls.__module__.partition('.')[0]} {cls.__name__}", options, X, y, lambda: cls(**options).fit(X, y, **fit))


# ---- scikit-learn


def _trees(rng: np.random.Generator) -> Draw:
    X = _rows(rng, missing=rng.random() < 0.5, exponent=30)
    task = str(rng.choice(["regression", "binary", "multiclass", "targets"]))
    names = (
        ("DecisionTreeClassifier", "ExtraTreeClassifier")
        if task in ("binary", "multiclass")
        else ("DecisionTreeRegressor", "ExtraTreeRegressor")
    )
    options = _some(
        rng,
        {"max_depth": [1, 3, 8], "min_samples_leaf": [1, 5, 0.1], "max_leaf_nodes": [2, 9], "max_features": [1, 0.7], "ccp_alpha": [1e-4]},
    )
    y = _labels(rng, X, task)
    return _drawn(getattr(tree, names[int(rng.integers(2))]), options | {"random_state": 0}, X, y, _weights(rng, len(X)))


def _forests(rng: np.random.Generator) -> Draw:
    X = _rows(rng, missing=rng.random() < 0.5, exponent=30)
    task = str(rng.choice(["regression", "binary", "multiclass", "targets"]))
    names = (
        ("RandomForestClassifier", "ExtraTreesClassifier")
        if task in ("binary", "multiclass")
        else ("RandomForestRegressor", "ExtraTreesRegressor")
    )
    options = _some(rng, {"max_depth": [1, 4, 9], "bootstrap": [True, False], "max_features": [1, 0.6], "min_samples_leaf": [3]})
    options |= {"n_estimators": int(rng.integers(1, 9)), "random_state": 0}
    return _drawn(getattr(ensemble, names[int(rng.integers(2))]), options, X, _labels(rng, X, task), _weights(rng, len(X)))


def _boosting(rng: np.random.Generator) -> Draw:
    X = _rows(rng, missing=False, exponent=30)
    task = str(rng.choice(["regression", "binary", "multiclass"]))
    own = {"learning_rate": [0.01, 1.0], "max_depth": [1, 5], "subsample": [0.6], "n_iter_no_change": [2], "init": ["zero"]}
    options = _some(rng, own | ({"loss": ["squared_error", "absolute_error", "huber", "quantile"]} if task == "regression" else {}))
    options |= {"n_estimators": int(rng.integers(1, 12)), "random_state": 0}
    cls = ensemble.GradientBoostingRegressor if task == "regression" else ensemble.GradientBoostingClassifier
    return _drawn(cls, options, X, _labels(rng, X, task), _weights(rng, len(X)))


def _histogram(rng: np.random.Generator) -> Draw:
    X = _rows(rng, missing=True, exponent=200)
    task = str(rng.choice(["regression", "binary", "multiclass", "positive"]))
    own = {
        "learning_rate": [0.01, 1.0],
        "max_leaf_nodes": [2, 15, None],
        "max_bins": [4, 255],
        "l2_regularization": [3.0],
        "early_stopping": [True],
    }
    options = _some(rng, own) | {"max_iter": int(rng.integers(1, 9)), "min_samples_leaf": int(rng.integers(1, 10)), "random_state": 0}
    if rng.random() < 0.4:
        j = int(rng.integers(X.shape[1]))
        X[:, j] = rng.integers(-5, 20, len(X)) * rng.choice([1.0, 0.5])
        options |= {"categorical_features": [j], "max_bins": 64}
    if task == "positive":
        options["loss"] = str(rng.choice(["poisson", "gamma"]))
    regression = task in ("regression", "positive")
    cls = ensemble.HistGradientBoostingRegressor if regression else ensemble.HistGradientBoostingClassifier
    return _drawn(cls, options, X, _labels(rng, X, task), _weights(rng, len(X)))


# ---- boosters

_XGBOOST = {
    "max_depth": [0, 1, 3, 8], "learning_rate": [0.01, 1.0], "tree_method": ["exact", "hist", "approx"], "gamma": [0.1], "reg_lambda": [0, 10],
    "reg_alpha": [0.5], "subsample": [0.6], "colsample_bytree": [0.6], "min_child_weight": [0, 5], "max_delta_step": [0.3], "max_bin": [4, 64],
    "num_parallel_tree": [2, 3], "grow_policy": ["lossguide"], "max_leaves": [5, 30], "booster": ["dart"], "base_score": [0.2, 0.5, 0.9],
    "max_cat_to_onehot": [1, 50],
}  # fmt: skip
_XGBOOST_TASKS = {
    "regression": ["reg:squarederror", "reg:absoluteerror", "reg:pseudohubererror", "reg:quantileerror"],
    "positive": ["reg:gamma", "reg:tweedie", "reg:squaredlogerror", "survival:cox"], "counts": ["count:poisson"], "targets": ["reg:squarederror"],
    "binary": ["binary:logistic", "binary:logitraw", "binary:hinge", "reg:logistic"], "multiclass": ["multi:softprob", "multi:softmax"],
}  # fmt: skip


def _xgboost(rng: np.random.Generator) -> Draw:
    import xgboost

    X = _rows(rng, missing=True, exponent=30)
    task = str(rng.choice(list(_XGBOOST_TASKS)))
    options = _some(rng, _XGBOOST, 0.25)
    if options.get("grow_policy") == "lossguide" or options.get("max_depth") == 0:
        options["tree_method"] = "hist"
    if options.get("max_depth") == 0:
        options.setdefault("max_leaves", 20)
    if "max_leaves" in options and options.get("tree_method") == "exact":
        options["tree_method"] = "hist"
    objective = str(rng.choice(_XGBOOST_TASKS[task]))
    if "quantile" in objective:
        options["quantile_alpha"] = [0.3] if rng.random() < 0.5 else [0.1, 0.9]
    if task == "targets" and options.get("booster") != "dart" and rng.random() < 0.5:
        options |= {"multi_strategy": "multi_output_tree", "tree_method": "hist"}
    elif options.get("tree_method") != "exact" and rng.random() < 0.3:
        j = int(rng.integers(X.shape[1]))
        X[:, j] = np.where(np.isnan(X[:, j]), np.nan, rng.integers(0, 15, len(X)))
        options["feature_types"] = ["c" if k == j else "q" for k in range(X.shape[1])]
        options |= {"enable_categorical": True, "tree_method": options.get("tree_method", "hist")}
    if rng.random() < 0.15:
        options["missing"] = float(rng.choice([-999.0, 0.0]))
        X = np.nan_to_num(X, nan=options["missing"])
    options |= {"objective": objective, "n_estimators": int(rng.integers(1, 9)), "n_jobs": 1, "random_state": 0}
    classes = task in ("binary", "multiclass") and objective != "reg:logistic"
    drawn = _drawn(xgboost.XGBClassifier if classes else xgboost.XGBRegressor, options, X, _labels(rng, X, task), _weights(rng, len(X)))
    if rng.random() < 0.3 and "missing" not in options:
        return Draw(drawn.name + " booster", options, X, drawn.y, lambda: drawn.make().get_booster())
    return drawn


_LIGHTGBM = {
    "num_leaves": [2, 5, 60], "learning_rate": [0.01, 1.0], "max_depth": [1, 4], "min_child_samples": [1, 3, 30], "reg_lambda": [5.0],
    "reg_alpha": [0.3], "subsample": [0.6], "colsample_bytree": [0.6], "max_bin": [3, 15], "extra_trees": [True], "path_smooth": [2.0],
    "max_delta_step": [0.3], "zero_as_missing": [True], "use_missing": [False], "boosting_type": ["dart", "rf"], "min_data_in_bin": [1],
    "boost_from_average": [False], "use_quantized_grad": [True], "data_sample_strategy": ["goss"], "max_cat_to_onehot": [1, 50],
    "cat_smooth": [0.1], "min_data_per_group": [1], "feature_pre_filter": [False],
}  # fmt: skip
_LIGHTGBM_TASKS = {
    "regression": ["regression", "regression_l1", "huber", "fair", "quantile", "mape"], "positive": ["gamma", "tweedie"], "counts": ["poisson"],
    "share": ["cross_entropy", "cross_entropy_lambda"], "binary": ["binary"], "multiclass": ["multiclass", "multiclassova"],
}  # fmt: skip


def _lightgbm(rng: np.random.Generator) -> Draw:
    import lightgbm

    X = _rows(rng, missing=True, exponent=200)
    task = str(rng.choice(list(_LIGHTGBM_TASKS)))
    options, fit = _some(rng, _LIGHTGBM, 0.25), _weights(rng, len(X))
    if options.get("boosting_type") == "rf":
        options |= {"bagging_freq": 1, "bagging_fraction": 0.6}
        options.pop("data_sample_strategy", None)
    if rng.random() < 0.35:
        j = int(rng.integers(X.shape[1]))
        X[:, j] = np.where(np.isnan(X[:, j]), np.nan, rng.integers(0, int(rng.choice([3, 30, 300])), len(X)))
        fit["categorical_feature"] = [j]
    if rng.random() < 0.2:
        with np.errstate(over="ignore"):
            X = X.astype(np.float32).astype(float)
    options |= {"objective": str(rng.choice(_LIGHTGBM_TASKS[task])), "n_estimators": int(rng.integers(1, 9)), "n_jobs": 1}
    options |= {"random_state": 0, "verbose": -1}
    if rng.random() < 0.2 and task in ("binary", "multiclass"):
        options["sigmoid"] = 2.0
    y = 1 / (1 + np.exp(-_labels(rng, X, "binary") + rng.normal(size=len(X)))) if task == "share" else _labels(rng, X, task)
    drawn = _drawn(lightgbm.LGBMClassifier if task in ("binary", "multiclass") else lightgbm.LGBMRegressor, options, X, y, fit)
    if rng.random() < 0.3:
        return Draw(drawn.name + " booster", options, X, drawn.y, lambda: drawn.make().booster_)
    return drawn
