"""The settings whose exactness is measured: framework, name, model, and what else it needs (labels, weights, rows)."""

from __future__ import annotations

import numpy as np
from lightgbm import LGBMClassifier, LGBMRegressor
from sklearn.ensemble import (
    ExtraTreesRegressor,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from xgboost import XGBClassifier, XGBRegressor, XGBRFRegressor

ROUNDS = 100


def gb(**o):
    return GradientBoostingRegressor(**{"n_estimators": ROUNDS, "random_state": 0, **o})


def hgb(**o):
    return HistGradientBoostingRegressor(**{"max_iter": ROUNDS, "random_state": 0, **o})


def xgb(**o):
    return XGBRegressor(**{"n_estimators": ROUNDS, "max_depth": 5, "n_jobs": 1, **o})


def lgb(**o):
    return LGBMRegressor(**{"n_estimators": ROUNDS, "verbose": -1, "n_jobs": 1, **o})


def xgbc(**o):
    return XGBClassifier(n_estimators=ROUNDS, max_depth=3, n_jobs=1, **o)


def lgbc(**o):
    return LGBMClassifier(n_estimators=ROUNDS, verbose=-1, n_jobs=1, **o)


def own_loss(y, f):
    """Squared loss, written by a user."""
    return f - y, np.ones_like(y)


def two(y):
    return (y > np.median(y)).astype(int)


def three(y):
    return np.digitize(y, np.quantile(y, [1 / 3, 2 / 3]))


def counts(y):
    return np.floor(np.abs(y) / 3)


def pair(y):
    return np.column_stack([y, np.sqrt(np.abs(y))])


GB, HGB, XGB, LGB, RF = "scikit-learn GradientBoosting", "scikit-learn HistGradientBoosting", "XGBoost", "LightGBM", "scikit-learn forests"
SUB = {"subsample": 0.7}
BAG = {"subsample": 0.7, "subsample_freq": 1}
SQUARED = [
    (GB, "default", gb()),
    (GB, "squared_error criterion", gb(criterion="squared_error")),
    (GB, "init='zero'", gb(init="zero")),
    (GB, "max_features", gb(max_features=3)),
    (GB, "sample weights", gb(), "w"),
    (GB, "subsample, seed", gb(subsample=0.6)),
    (GB, "subsample, seed, weights", gb(subsample=0.6), "w"),
    (GB, "subsample, no seed", gb(subsample=0.6, random_state=None)),
    (GB, "n_iter_no_change", gb(n_iter_no_change=5, n_estimators=300)),
    (GB, "500 rounds", gb(n_estimators=500)),
    (GB, "huber loss", gb(loss="huber")),
    (GB, "absolute_error loss", gb(loss="absolute_error")),
    (GB, "quantile loss", gb(loss="quantile")),
    (HGB, "default", hgb()),
    (HGB, "l2", hgb(l2_regularization=5.0)),
    (HGB, "sample weights", hgb(), "w"),
    (HGB, "max_features", hgb(max_features=0.5)),
    (HGB, "early stopping", hgb(early_stopping=True, max_iter=300)),
    (HGB, "12,000 rows: stops early by default", hgb(), "large"),
    (HGB, "y + 1e6", hgb(), "far"),
    (HGB, "categorical", hgb(categorical_features=[0]), "cat"),
    (HGB, "monotonic_cst", hgb(monotonic_cst=[1] + [0] * 9)),
    (HGB, "absolute_error loss", hgb(loss="absolute_error")),
    (HGB, "quantile loss", hgb(loss="quantile", quantile=0.7)),
    (HGB, "gamma loss", hgb(loss="gamma"), "positive"),
    (XGB, "default", xgb()),
    (XGB, "approx", xgb(tree_method="approx")),
    (XGB, "exact", xgb(tree_method="exact")),
    (XGB, "lambda 0", xgb(reg_lambda=0)),
    (XGB, "sample weights", xgb(), "w"),
    (XGB, "gamma", xgb(gamma=1.0)),
    (XGB, "min_child_weight", xgb(min_child_weight=20)),
    (XGB, "colsample", xgb(colsample_bytree=0.5, colsample_bynode=0.5)),
    (XGB, "lossguide", xgb(grow_policy="lossguide", max_leaves=15)),
    (XGB, "4 parallel trees", xgb(num_parallel_tree=4, **SUB)),
    (XGB, "dart, no drops", xgb(booster="dart", rate_drop=0)),
    (XGB, "base_score", xgb(base_score=0.5)),
    (XGB, "500 rounds", xgb(n_estimators=500)),
    (XGB, "1000 y + 1e6", xgb(), "farther"),
    (XGB, "subsample, hist", xgb(**SUB, random_state=3)),
    (XGB, "subsample, approx", xgb(**SUB, random_state=3, tree_method="approx")),
    (XGB, "subsample, exact", xgb(**SUB, random_state=3, tree_method="exact")),
    (XGB, "subsample, weights", xgb(**SUB, random_state=3), "w"),
    (XGB, "subsample by gradient", xgb(**SUB, sampling_method="gradient_based", device="cpu")),
    (XGB, "random forest (XGBRFRegressor)", XGBRFRegressor(n_estimators=ROUNDS, max_depth=5, n_jobs=1, random_state=3)),
    (XGB, "early stopping", xgb(n_estimators=400, early_stopping_rounds=5, learning_rate=0.3), "stop"),
    (XGB, "one tree an output", xgb(), "pair"),
    (XGB, "vector leaves", xgb(multi_strategy="multi_output_tree"), "pair"),
    (XGB, "own loss (squared)", xgb(objective=own_loss)),
    (XGB, "alpha (l1)", xgb(reg_alpha=5.0)),
    (XGB, "max_delta_step, binding", xgb(max_delta_step=0.5)),
    (XGB, "max_delta_step, not binding", xgb(max_delta_step=1000)),
    (XGB, "dart, drops", xgb(booster="dart", rate_drop=0.3)),
    (XGB, "monotone constraints", xgb(monotone_constraints="(1,0,0,0,0,0,0,0,0,0)")),
    (XGB, "absolute error", xgb(objective="reg:absoluteerror")),
    (XGB, "quantile", xgb(objective="reg:quantileerror", quantile_alpha=0.7)),
    (XGB, "pseudo-Huber", xgb(objective="reg:pseudohubererror", huber_slope=5.0)),
    (XGB, "squared log", xgb(objective="reg:squaredlogerror"), "positive"),
    (XGB, "gamma loss", xgb(objective="reg:gamma"), "positive"),
    (XGB, "Tweedie loss", xgb(objective="reg:tweedie"), "positive"),
    (LGB, "default", lgb()),
    (LGB, "l2", lgb(reg_lambda=5.0)),
    (LGB, "sample weights", lgb(), "w"),
    (LGB, "boost_from_average off", lgb(boost_from_average=False)),
    (LGB, "min_data_in_leaf", lgb(min_child_samples=60)),
    (LGB, "feature_fraction", lgb(colsample_bytree=0.5)),
    (LGB, "extra_trees", lgb(extra_trees=True)),
    (LGB, "500 rounds", lgb(n_estimators=500)),
    (LGB, "path_smooth", lgb(path_smooth=5.0)),
    (LGB, "path_smooth, weights", lgb(path_smooth=5.0), "w"),
    (LGB, "categorical, cat_l2", lgb(min_data_per_group=5), "cat"),
    (LGB, "bagging", lgb(**BAG)),
    (LGB, "bagging, weights", lgb(**BAG), "w"),
    (LGB, "bagging every 5 rounds", lgb(subsample=0.6, subsample_freq=5)),
    (LGB, "random forest", lgb(boosting_type="rf", **BAG)),
    (LGB, "quantised gradients, leaves renewed", lgb(use_quantized_grad=True, quant_train_renew_leaf=True)),
    (LGB, "early stopping", lgb(n_estimators=400, learning_rate=0.2), "stop"),
    (LGB, "quantised gradients", lgb(use_quantized_grad=True)),
    (LGB, "l1", lgb(reg_alpha=5.0)),
    (LGB, "goss", lgb(data_sample_strategy="goss")),
    (LGB, "dart", lgb(boosting_type="dart", drop_rate=0.3)),
    (LGB, "linear trees", lgb(linear_tree=True)),
    (LGB, "monotone constraints", lgb(monotone_constraints=[1] + [0] * 9)),
    (LGB, "max_delta_step", lgb(max_delta_step=0.5)),
    (LGB, "absolute error", lgb(objective="regression_l1")),
    (LGB, "Huber", lgb(objective="huber")),
    (LGB, "quantile", lgb(objective="quantile", alpha=0.7)),
    (LGB, "reg_sqrt", lgb(reg_sqrt=True)),
    (LGB, "own loss (squared)", lgb(objective=own_loss)),
    (LGB, "refitted on other labels", lgb(), "refit"),
]
FORESTS = [
    (RF, "bootstrap", RandomForestRegressor(ROUNDS, random_state=0)),
    (RF, "max_samples", RandomForestRegressor(ROUNDS, max_samples=0.5, random_state=0)),
    (RF, "no seed", RandomForestRegressor(ROUNDS)),
    (RF, "sample weights", RandomForestRegressor(ROUNDS, random_state=0), "w"),
    (RF, "poisson criterion", RandomForestRegressor(ROUNDS, criterion="poisson", random_state=0), "positive"),
    (RF, "all rows", RandomForestRegressor(ROUNDS, bootstrap=False, max_features=0.5, random_state=0), "w"),
    (RF, "extra trees", ExtraTreesRegressor(ROUNDS, random_state=0)),
    (RF, "classes, balanced", RandomForestClassifier(ROUNDS, class_weight="balanced", random_state=0), three),
    (RF, "absolute_error criterion", RandomForestRegressor(10, criterion="absolute_error", max_depth=6, random_state=0)),
    (RF, "monotonic_cst", RandomForestRegressor(ROUNDS, monotonic_cst=[1] + [0] * 9, random_state=0)),
]
SMOOTH = [
    (XGB, "logistic", xgbc(), two),
    (XGB, "softmax", xgbc(), three),
    (XGB, "Poisson", xgb(objective="count:poisson", max_depth=3), counts),
    (XGB, "alpha (l1)", xgb(reg_alpha=5.0)),
    (XGB, "max_delta_step, binding", xgb(max_delta_step=0.5)),
    (XGB, "logistic, subsample", xgbc(**SUB), two),
    (LGB, "logistic", lgbc(), two),
    (LGB, "softmax", lgbc(), three),
    (LGB, "logistic, bagging", lgbc(**BAG), two),
    (LGB, "Poisson", lgb(objective="poisson"), counts),
    (LGB, "l1", lgb(reg_alpha=5.0)),
    (LGB, "logistic, goss", lgbc(data_sample_strategy="goss"), two),
    (GB, "logistic", GradientBoostingClassifier(n_estimators=ROUNDS, random_state=0), two),
    (GB, "softmax", GradientBoostingClassifier(n_estimators=ROUNDS, random_state=0), three),
    (GB, "exponential", GradientBoostingClassifier(n_estimators=ROUNDS, loss="exponential", random_state=0), two),
    (GB, "logistic, subsample", GradientBoostingClassifier(n_estimators=ROUNDS, subsample=0.7, random_state=0), two),
    (HGB, "logistic", HistGradientBoostingClassifier(max_iter=ROUNDS, max_leaf_nodes=8, random_state=0), two),
    (HGB, "softmax", HistGradientBoostingClassifier(max_iter=ROUNDS, max_leaf_nodes=8, random_state=0), three),
    (HGB, "Poisson", hgb(loss="poisson"), counts),
    (XGB, "gamma loss", xgb(objective="reg:gamma"), "positive"),
    (LGB, "quantile", lgb(objective="quantile"), "plain"),
]
