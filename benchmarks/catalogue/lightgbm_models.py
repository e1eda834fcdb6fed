"""Models of LightGBM: every objective, boosting, growth option, output kind, category kind and wrapper."""

from __future__ import annotations

import copy
import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from catalogue.case import Case, data, numbers, words

SMALL = {
    "n_estimators": 8, "num_leaves": 12, "n_jobs": 1, "min_child_samples": 4, "cat_smooth": 1, "min_data_per_group": 2, "verbose": -1,
    "random_state": 0,
}  # fmt: skip
BAGGED = {"boosting_type": "rf", "bagging_freq": 1, "bagging_fraction": 0.6}
CODES = {"fit": {"categorical_feature": [3]}}


def regressor(y: Any = None, X: Any = None, fit: Any = None, **options: Any) -> Any:
    """Return a function that fits a regressor."""
    import lightgbm

    d = data()
    return lambda: lightgbm.LGBMRegressor(**(SMALL | options)).fit(d.X if X is None else X, d.y if y is None else y, **(fit or {}))


def classifier(y: Any = None, X: Any = None, fit: Any = None, **options: Any) -> Any:
    """Return a function that fits a classifier."""
    import lightgbm

    d = data()
    y = np.where(d.two, "yes", "no") if y is None else y
    return lambda: lightgbm.LGBMClassifier(**(SMALL | options)).fit(d.X if X is None else X, y, **(fit or {}))


def trained(param: Any = None, y: Any = None, rounds: int = 6, X: Any = None, dataset: Any = None, **options: Any) -> Any:
    """Return a function that trains a booster."""
    import lightgbm

    d = data()
    param = {"num_leaves": 8, "num_threads": 1, "verbose": -1, "min_data_in_leaf": 5, "seed": 0} | (param or {})

    def make() -> Any:
        made = lightgbm.Dataset(d.X if X is None else X, d.y if y is None else y, **(dataset or {}))
        return lightgbm.train(param, made, rounds, **options)

    return make


def cases() -> list[Case]:
    """Return the cases; none without LightGBM."""
    try:
        import lightgbm  # noqa: F401
    except ImportError:
        return []
    return [*_objectives(), *_boosting(), *_growth(), *_inputs(), *_wrappers(), *_boosters(), *_refused()]


def _case(model: str, setting: str, make: Any, **options: Any) -> Case:
    return Case("LightGBM", model, setting, make, **options)


def _objectives() -> Iterator[Case]:
    d = data()
    of = {
        "regression": d.y, "regression_l1": d.y, "huber": d.y, "fair": d.y, "quantile": d.y, "mape": d.y, "poisson": d.counts,
        "gamma": d.positive, "tweedie": d.positive, "cross_entropy": d.share, "cross_entropy_lambda": d.share,
    }  # fmt: skip
    for objective, y in of.items():
        yield _case("LGBMRegressor", objective, regressor(y, objective=objective))
        yield _case("Booster", objective, trained({"objective": objective}, y))
    yield _case("LGBMRegressor", "reg_sqrt", regressor(reg_sqrt=True))
    yield _case("LGBMRegressor", "quantile 0.95", regressor(objective="quantile", alpha=0.95))
    yield _case("LGBMRegressor", "tweedie, power 1.9", regressor(d.positive, objective="tweedie", tweedie_variance_power=1.9))
    yield _case("LGBMRegressor", "poisson, max_delta_step 0.1", regressor(d.counts, objective="poisson", poisson_max_delta_step=0.1))
    yield _case("LGBMRegressor", "custom objective", regressor(objective=lambda y, p: (p - y, np.ones_like(p))))
    yield _case("LGBMClassifier", "binary", classifier())
    yield _case("LGBMClassifier", "binary, sigmoid 2.5, unbalanced", classifier(sigmoid=2.5, is_unbalance=True))
    yield _case("LGBMClassifier", "binary, scale_pos_weight", classifier(scale_pos_weight=5.0))
    yield _case("LGBMClassifier", "binary, class_weight", classifier(class_weight="balanced"))
    yield _case("LGBMClassifier", "binary by regression", classifier(objective="regression"))
    yield _case("LGBMClassifier", "multiclass", classifier(d.words))
    yield _case("LGBMClassifier", "multiclassova", classifier(d.three * 10, objective="multiclassova", sigmoid=0.7))
    yield _case("LGBMClassifier", "ten classes", classifier((np.arange(len(d.y)) * 7 + d.three) % 10))
    yield _case("LGBMClassifier", "labels -1 and 1", classifier(2 * d.two - 1))
    yield _case("LGBMClassifier", "custom objective", classifier(d.two, objective=lambda y, p: (p - y, np.ones_like(p))))
    yield _case("Booster", "binary", trained({"objective": "binary"}, d.two))
    yield _case("Booster", "multiclass", trained({"objective": "multiclass", "num_class": 3}, d.three))
    yield _case("Booster", "multiclassova", trained({"objective": "multiclassova", "num_class": 3}, d.three))
    yield _case("Booster", "custom objective, three outputs", trained({"objective": _three_outputs, "num_class": 3}, d.three))
    for objective in ("lambdarank", "rank_xendcg"):
        yield _case("LGBMRanker", objective, _ranker(objective))


def _three_outputs(margin: Any, matrix: Any) -> Any:
    margin = margin.reshape(-1, 3, order="F") if margin.ndim == 1 else margin
    wanted = np.eye(3)[matrix.get_label().astype(int)]
    return margin - wanted, np.ones_like(margin)


def _ranker(objective: str) -> Any:
    def make() -> Any:
        import lightgbm

        d = data()
        return lightgbm.LGBMRanker(**(SMALL | {"objective": objective})).fit(d.X, d.three, group=[100] * 4)

    return make


def _boosting() -> Iterator[Case]:
    d = data()
    mode = {"boosting_type": "dart", "xgboost_dart_mode": True, "drop_rate": 0.5}
    of = {
        "dart": {"boosting_type": "dart"}, "dart, xgboost_dart_mode": mode,
        "dart, uniform_drop": {"boosting_type": "dart", "uniform_drop": True, "skip_drop": 0.1}, "rf": BAGGED,
        "rf, no average": BAGGED | {"boost_from_average": False}, "goss": {"data_sample_strategy": "goss"},
        "bagging": {"bagging_freq": 2, "bagging_fraction": 0.5},
    }  # fmt: skip
    for name, options in of.items():
        yield _case("LGBMRegressor", name, regressor(**options))
        yield _case("LGBMClassifier", f"{name}, three classes", classifier(d.three, **options))
    yield _case("LGBMRegressor", "rf, poisson", regressor(d.counts, objective="poisson", **BAGGED))
    yield _case("LGBMClassifier", "rf, binary", classifier(**BAGGED))
    balanced = {"bagging_freq": 1, "pos_bagging_fraction": 0.4, "neg_bagging_fraction": 0.8}
    yield _case("LGBMClassifier", "positive and negative bagging", classifier(**balanced))


def _growth() -> Iterator[Case]:
    d = data()
    of = {
        "extra_trees": {"extra_trees": True}, "path_smooth": {"path_smooth": 1.0}, "lambda_l1": {"reg_alpha": 1.0},
        "lambda_l2": {"reg_lambda": 5.0}, "max_delta_step": {"max_delta_step": 0.1},
        "monotone, basic": {"monotone_constraints": [1, -1, 0, 0]},
        "monotone, intermediate": {"monotone_constraints": [1, -1, 0, 0], "monotone_constraints_method": "intermediate"},
        "monotone, advanced": {"monotone_constraints": [1, -1, 0, 0], "monotone_constraints_method": "advanced", "monotone_penalty": 1.5},
        "interaction": {"interaction_constraints": [[0, 1], [2, 3]]}, "quantised": {"use_quantized_grad": True},
        "quantised, renewed": {"use_quantized_grad": True, "quant_train_renew_leaf": True}, "max_bin 4": {"max_bin": 4},
        "min_data_in_bin 1": {"min_data_in_bin": 1}, "column samples": {"feature_fraction": 0.6, "feature_fraction_bynode": 0.7},
        "stumps": {"num_leaves": 2, "n_estimators": 40}, "depth 3": {"max_depth": 3},
        "200 leaves": {"num_leaves": 200, "min_child_samples": 1},
        "300 rounds": {"n_estimators": 300, "num_leaves": 4}, "no average": {"boost_from_average": False},
        "cost of features": {"cegb_penalty_split": 0.1, "cegb_penalty_feature_coupled": [1, 1, 1, 1]}, "eta 1e-6": {"learning_rate": 1e-6},
        "two threads": {"n_jobs": 2}, "columns together": {"force_col_wise": True}, "rows together": {"force_row_wise": True},
    }  # fmt: skip
    for name, options in of.items():
        yield _case("LGBMRegressor", name, regressor(**options))
    yield _case("LGBMRegressor", "forced splits", _forced)
    yield _case("LGBMRegressor", "sample weights", regressor(fit={"sample_weight": d.weight}))
    yield _case("LGBMRegressor", "y + 1e6", regressor(d.y + 1e6))
    yield _case("LGBMRegressor", "y * 1e12", regressor(d.y * 1e12))
    yield _case("LGBMRegressor", "constant y", regressor(np.ones(len(d.y))))
    yield _case("LGBMRegressor", "constant y of 0", regressor(np.zeros(len(d.y))))


def _forced() -> Any:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "splits.json"
        path.write_text(json.dumps({"feature": 1, "threshold": 0.25, "right": {"feature": 0, "threshold": -0.5}}))
        return regressor(forcedsplits_filename=str(path))()


def _inputs() -> Iterator[Case]:
    d = data()
    frames = lambda values: lambda: [  # noqa: E731
        d.frame(values), d.frame(values, reverse=True), d.frame(values, missing=True), d.frame([*values[:-3], "x", "y", "z"] if
        isinstance(values[0], str) else [*values[:-3], 9001, 9002, 9003])
    ]  # fmt: skip
    yield _case("LGBMRegressor", "codes", regressor(**CODES))
    yield _case("LGBMRegressor", "codes, one-hot", regressor(max_cat_to_onehot=100, **CODES))
    few = np.column_stack([d.X[:, :3], d.X[:, 3] % 3])
    yield _case("LGBMRegressor", "codes, few categories", regressor(X=few, **CODES))
    many = np.column_stack([d.X[:, :3], np.arange(len(d.y)) % 200])
    yield _case("LGBMRegressor", "codes, 200 categories", regressor(X=many, **CODES))
    gap = np.where(np.isnan(d.X), np.nan, d.X).copy()
    gap[::9, 3] = np.nan
    yield _case("LGBMRegressor", "codes, some missing", regressor(X=gap, **CODES))
    negative = np.column_stack([d.X[:, :3], d.X[:, 3] - 5])
    yield _case("LGBMRegressor", "codes, negative at training", regressor(X=negative, **CODES))
    whole = np.abs(np.round(d.full * 3))
    yield _case("LGBMRegressor", "all columns are codes", regressor(X=whole, fit={"categorical_feature": [0, 1, 2, 3]}))
    yield _case("LGBMClassifier", "codes, three classes", classifier(d.three, **CODES))
    yield _case("LGBMRegressor", "codes, rf", regressor(**(BAGGED | CODES)))
    for kind, values in (("text", words()), ("integers", numbers())):
        made = regressor(X=d.frame(values).rename(columns={"b c": "b_c"}))
        renamed = lambda values=values: [f.rename(columns={"b c": "b_c"}) for f in frames(values)()]  # noqa: E731
        yield _case("LGBMRegressor", f"frame, categories that are {kind}", made, frames=renamed)
        made = classifier(d.three, X=d.frame(values).rename(columns={"b c": "b_c"}))
        yield _case("LGBMClassifier", f"frame, categories that are {kind}", made, frames=renamed)
    yield _case("LGBMRegressor", "frame of numbers", regressor(X=d.frame()))
    yield _case("LGBMRegressor", "zero_as_missing", regressor(zero_as_missing=True))
    yield _case("LGBMRegressor", "zero_as_missing, codes", regressor(zero_as_missing=True, **CODES))
    yield _case("LGBMRegressor", "zero_as_missing, no missing values", regressor(X=d.full, zero_as_missing=True))
    yield _case("LGBMClassifier", "zero_as_missing, three classes", classifier(d.three, zero_as_missing=True))
    yield _case("LGBMRegressor", "use_missing off", regressor(use_missing=False))
    yield _case("LGBMRegressor", "no missing values", regressor(X=d.full))
    yield _case("LGBMRegressor", "trained on a sparse matrix", regressor(X=sparse.csr_matrix(d.full)))
    yield _case("LGBMRegressor", "one column", regressor(X=d.X[:, :1]))
    wide = sparse.random(400, 2000, 0.02, "csr", random_state=0)
    yield _case("LGBMRegressor", "2,000 sparse columns", regressor(X=wide, min_child_samples=1))
    yield _case("LGBMRegressor", "values to 1e300", regressor(X=d.X * 1e300))
    yield _case("LGBMRegressor", "values of 1e-35", regressor(X=d.X * 1e-35))
    yield _case("LGBMRegressor", "subnormal values", regressor(X=d.X * 1e-310))
    yield _case("LGBMRegressor", "infinite values", regressor(X=np.where(d.X > 1, np.inf, d.X)))
    yield _case("LGBMRegressor", "integers beyond 2^24", regressor(X=np.trunc(d.full * 2**26)))
    yield _case("LGBMRegressor", "float32 at training", regressor(X=d.X.astype(np.float32)))
    yield _case("LGBMRegressor", "booleans", regressor(X=d.full > 0))
    yield _case("Booster", "init_score", trained(dataset={"init_score": d.y * 0 + 3}))
    yield _case("Booster", "names in other scripts", trained(dataset={"feature_name": ["é", "名", "f=0", "Tree1"]}))


def _wrappers() -> Iterator[Case]:
    d = data()

    def stopped(name: str, y: Any, y_valid: Any, **options: Any) -> Any:
        def make() -> Any:
            import lightgbm

            model = getattr(lightgbm, name)(**(SMALL | {"n_estimators": 60} | options))
            stop = lightgbm.early_stopping(3, verbose=False)
            return model.fit(d.X[:300], y[:300], eval_set=[(d.X[300:], y_valid)], callbacks=[stop])

        return make

    yield _case("LGBMRegressor", "early stopping", stopped("LGBMRegressor", d.y, d.y[300:][::-1]))
    yield _case("LGBMClassifier", "early stopping, three classes", stopped("LGBMClassifier", d.words, d.words[300:]))
    yield _case("LGBMRegressor", "copied", lambda: copy.deepcopy(regressor()()))
    yield _case("LGBMRegressor", "set_params after fitting", lambda: regressor()().set_params(learning_rate=9.0, n_estimators=2))
    yield _case("LGBMRegressor", "continued (init_model)", _continued)


def _boosters() -> Iterator[Case]:
    d = data()
    yield _case("Booster", "early stopping", _early_stopped)
    yield _case("Booster", "refit", lambda: trained()().refit(d.X, d.y[::-1]))
    yield _case("Booster", "shuffle_models", lambda: trained(keep_training_booster=True)().shuffle_models())
    yield _case("Booster", "rollback_one_iter", lambda: trained(keep_training_booster=True)().rollback_one_iter())
    yield _case("Booster", "continued (init_model)", _continued_booster)
    yield _case("Booster", "from text", lambda: _from_text(trained({"objective": "binary"}, d.two)()))
    yield _case("Booster", "from text, rf", lambda: _from_text(trained({"boosting": "rf", "bagging_freq": 1, "bagging_fraction": 0.5})()))
    yield _case("Booster", "first three rounds as text", lambda: _from_text(trained()(), num_iteration=3))
    yield _case("Booster", "leaf values set by hand", lambda: trained()().set_leaf_output(0, 1, 42.0))
    yield _case("Booster", "chain of depth 40", _chain)


def _continued() -> Any:
    return regressor(fit={"init_model": regressor(num_leaves=4)()})()


def _continued_booster() -> Any:
    return trained({"seed": 1}, init_model=trained()())()


def _mixed() -> Any:
    return trained({"zero_as_missing": True}, init_model=trained()())()


def _early_stopped() -> Any:
    import lightgbm

    d = data()
    valid = lightgbm.Dataset(d.X[300:], d.y[300:][::-1])
    param = {"num_leaves": 8, "num_threads": 1, "verbose": -1}
    return lightgbm.train(
        param, lightgbm.Dataset(d.X[:300], d.y[:300]), 60, valid_sets=[valid], callbacks=[lightgbm.early_stopping(4, verbose=False)]
    )


def _from_text(booster: Any, **options: Any) -> Any:
    import lightgbm

    return lightgbm.Booster(model_str=booster.model_to_string(**options))


def _chain() -> Any:
    """Return a model whose one tree is a chain: each split cuts off the smallest rows."""
    X = np.repeat(np.arange(200.0), 5)[:, None]
    return trained({"num_leaves": 60, "min_data_in_leaf": 1, "learning_rate": 1.0, "lambda_l2": 0}, np.exp(X[:, 0] / 5), 1, X)()


def _refused() -> Iterator[Case]:
    d = data()
    yield _case("LGBMRegressor", "linear_tree", regressor(X=d.full, linear_tree=True), refused="linear models at the leaves")
    yield _case("LGBMRegressor", "not fitted", lambda: __import__("lightgbm").LGBMRegressor(), refused="unfitted")
    yield _case("Booster", "zero_as_missing in some rounds only", _mixed, refused="missing values at every split or at none")
    poisson = classifier(d.two, objective="poisson")
    yield _case("LGBMClassifier", "poisson", poisson, refused="objective for classes")
