"""Models of XGBoost: every objective, booster, growth policy, output kind, category kind and wrapper."""

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

SMALL = {"n_estimators": 8, "max_depth": 4, "n_jobs": 1, "random_state": 0}
VECTOR = {"multi_strategy": "multi_output_tree", "tree_method": "hist"}
CODES = {"enable_categorical": True, "feature_types": ["q", "q", "q", "c"], "tree_method": "hist"}


def regressor(y: Any = None, X: Any = None, fit: Any = None, **options: Any) -> Any:
    """Return a function that fits a regressor."""
    import xgboost

    d = data()
    return lambda: xgboost.XGBRegressor(**(SMALL | options)).fit(d.X if X is None else X, d.y if y is None else y, **(fit or {}))


def classifier(y: Any = None, X: Any = None, fit: Any = None, **options: Any) -> Any:
    """Return a function that fits a classifier."""
    import xgboost

    d = data()
    return lambda: xgboost.XGBClassifier(**(SMALL | options)).fit(d.X if X is None else X, d.two if y is None else y, **(fit or {}))


def trained(param: Any = None, y: Any = None, rounds: int = 6, matrix: Any = None, **options: Any) -> Any:
    """Return a function that trains a booster."""
    import xgboost

    d = data()

    def make() -> Any:
        made = xgboost.DMatrix(d.X, d.y if y is None else y, **(matrix or {}))
        return xgboost.train({"nthread": 1, "max_depth": 4, "seed": 0} | (param or {}), made, rounds, **options)

    return make


def survival(distribution: str) -> Any:
    """Return a function that trains an accelerated failure time model."""

    def make() -> Any:
        import xgboost

        d = data()
        matrix = xgboost.DMatrix(d.X)
        matrix.set_float_info("label_lower_bound", d.positive)
        matrix.set_float_info("label_upper_bound", np.where(d.two, d.positive + 1, np.inf))
        return xgboost.train({"objective": "survival:aft", "aft_loss_distribution": distribution, "nthread": 1}, matrix, 5)

    return make


def cases() -> list[Case]:
    """Return the cases; none without XGBoost."""
    try:
        import xgboost  # noqa: F401
    except ImportError:
        return []
    return [*_objectives(), *_growth(), *_outputs(), *_base_scores(), *_inputs(), *_wrappers(), *_boosters(), *_refused()]


def _case(model: str, setting: str, make: Any, **options: Any) -> Case:
    return Case("XGBoost", model, setting, make, **options)


def _objectives() -> Iterator[Case]:
    d = data()
    of = {
        "reg:squarederror": d.y, "reg:squaredlogerror": d.positive, "reg:logistic": d.share, "reg:pseudohubererror": d.y,
        "reg:absoluteerror": d.y, "reg:gamma": d.positive, "reg:tweedie": d.positive, "count:poisson": d.counts, "survival:cox": d.positive,
    }  # fmt: skip
    for objective, y in of.items():
        yield _case("XGBRegressor", objective, regressor(y, objective=objective))
        yield _case("XGBRegressor", f"{objective}, deep, no shrinkage", regressor(y, objective=objective, max_depth=9, learning_rate=1.0))
    yield _case("XGBRegressor", "reg:tweedie, power 1.9", regressor(d.positive, objective="reg:tweedie", tweedie_variance_power=1.9))
    yield _case("XGBRegressor", "reg:quantileerror", regressor(objective="reg:quantileerror", quantile_alpha=0.7))
    yield _case("XGBRegressor", "reg:quantileerror, three", regressor(objective="reg:quantileerror", quantile_alpha=[0.1, 0.5, 0.9]))
    yield _case("XGBRegressor", "reg:pseudohubererror, slope 3", regressor(objective="reg:pseudohubererror", huber_slope=3.0))
    yield _case("XGBRegressor", "custom objective", regressor(objective=lambda t, p: (p - t, np.ones_like(p))))
    for distribution in ("normal", "logistic", "extreme"):
        yield _case("Booster", f"survival:aft, {distribution}", survival(distribution))
    for objective in ("binary:logistic", "binary:logitraw", "binary:hinge"):
        yield _case("XGBClassifier", objective, classifier(objective=objective))
        yield _case("Booster", objective, trained({"objective": objective}, d.two))
    for objective in ("multi:softprob", "multi:softmax"):
        yield _case("XGBClassifier", objective, classifier(d.three, objective=objective))
        yield _case("Booster", objective, trained({"objective": objective, "num_class": 3}, d.three))
    for objective in ("rank:ndcg", "rank:pairwise", "rank:map"):
        yield _case("XGBRanker", objective, _ranker(objective))
    yield _case("Booster", "custom objective", trained(obj=lambda p, m: (p - m.get_label(), np.ones_like(p))))
    halved = trained({"base_score": 0.5}, obj=lambda p, m: (p - m.get_label(), 0 * p + 2))
    yield _case("Booster", "custom objective, base score 0.5", halved)


def _ranker(objective: str, **options: Any) -> Any:
    def make() -> Any:
        import xgboost

        d = data()
        y = d.two if objective == "rank:map" else d.three
        return xgboost.XGBRanker(**(SMALL | {"objective": objective} | options)).fit(d.X, y, group=[100] * 4)

    return make


def _growth() -> Iterator[Case]:
    d = data()
    for method in ("exact", "hist", "approx"):
        yield _case("XGBRegressor", f"tree_method {method}", regressor(tree_method=method))
        yield _case("XGBClassifier", f"tree_method {method}, three classes", classifier(d.three, tree_method=method))
    of = {
        "lossguide": {"grow_policy": "lossguide", "max_leaves": 9, "tree_method": "hist"},
        "lossguide, no depth limit": {"grow_policy": "lossguide", "max_leaves": 40, "max_depth": 0, "tree_method": "hist"},
        "max_bin 4": {"max_bin": 4},
        "pruned by gamma": {"tree_method": "exact", "gamma": 2.0},
        "alpha": {"reg_alpha": 2.0},
        "lambda 0": {"reg_lambda": 0},
        "max_delta_step": {"max_delta_step": 0.1},
        "min_child_weight 40": {"min_child_weight": 40},
        "subsample": {"subsample": 0.5},
        "column samples": {"colsample_bytree": 0.7, "colsample_bylevel": 0.7, "colsample_bynode": 0.7},
        "monotone": {"monotone_constraints": (1, -1, 0, 0)},
        "interaction": {"interaction_constraints": "[[0, 1], [2, 3]]"},
        "depth 30": {"max_depth": 30, "min_child_weight": 0, "reg_lambda": 0},
        "stumps": {"max_depth": 1, "n_estimators": 40},
        "parallel trees": {"num_parallel_tree": 3, "subsample": 0.6},
        "300 rounds": {"n_estimators": 300, "max_depth": 2},
        "two threads": {"n_jobs": 2},
        "eta 1e-6": {"learning_rate": 1e-6},
    }
    for name, options in of.items():
        yield _case("XGBRegressor", name, regressor(**options))
    yield _case("XGBClassifier", "scale_pos_weight", classifier(scale_pos_weight=7.0))
    yield _case("XGBRegressor", "sample weights", regressor(fit={"sample_weight": d.weight}))
    yield _case("XGBRegressor", "feature weights", regressor(colsample_bynode=0.5, feature_weights=[1, 2, 3, 4]))
    yield _case("XGBRegressor", "constant y", regressor(np.ones(len(d.y))))
    yield _case("XGBRegressor", "y + 1e6, 200 rounds", regressor(d.y + 1e6, n_estimators=200))
    yield _case("XGBRegressor", "y * 1e12", regressor(d.y * 1e12))
    yield _case("XGBRegressor", "y * 1e-12", regressor(d.y * 1e-12))
    yield _case("XGBRegressor", "process_type update", _updated("refresh,prune"))


def _updated(updater: str) -> Any:
    def make() -> Any:
        import xgboost

        d = data()
        first = trained()()
        param = {"process_type": "update", "updater": updater, "refresh_leaf": True, "nthread": 1}
        return xgboost.train(param, xgboost.DMatrix(d.X, -d.y), 6, xgb_model=first)

    return make


def _outputs() -> Iterator[Case]:
    d = data()
    yield _case("XGBRegressor", "three targets", regressor(d.targets))
    yield _case("XGBRegressor", "three targets, vector leaves", regressor(d.targets, **VECTOR))
    yield _case("XGBRegressor", "three targets, vector leaves, parallel", regressor(d.targets, num_parallel_tree=2, **VECTOR))
    yield _case("XGBRegressor", "three targets, absolute error", regressor(d.targets, objective="reg:absoluteerror"))
    yield _case("XGBRegressor", "one target as a column", regressor(d.y[:, None]))
    yield _case("XGBClassifier", "three classes, vector leaves", classifier(d.three, **VECTOR))
    yield _case("XGBClassifier", "several labels", classifier(d.labels))
    yield _case("XGBClassifier", "several labels, vector leaves", classifier(d.labels, **VECTOR))
    yield _case("XGBClassifier", "three classes, parallel trees", classifier(d.three, num_parallel_tree=2, subsample=0.7))
    yield _case("XGBClassifier", "ten classes", classifier((np.arange(len(d.y)) * 7 + d.three) % 10))
    yield _case("Booster", "softprob of two classes", trained({"objective": "multi:softprob", "num_class": 2}, d.two))
    yield _case("Booster", "softprob, a class without rows", trained({"objective": "multi:softprob", "num_class": 5}, d.three))
    yield _case("Booster", "custom objective, three outputs", trained({"num_class": 3, "objective": "multi:softprob"}, d.three))


def _base_scores() -> Iterator[Case]:
    d = data()
    for base in (0.0, 0.5, -3.25, 0.1, 1e6):
        yield _case("XGBRegressor", f"base_score {base:g}", regressor(base_score=base))
    for base in (0.01, 0.3, 0.999999):
        yield _case("XGBClassifier", f"base_score {base:g}", classifier(base_score=base))
    yield _case("XGBClassifier", "base_score 0.7, three classes", classifier(d.three, base_score=0.7))
    yield _case("XGBRegressor", "base_score 2.5, count:poisson", regressor(d.counts, objective="count:poisson", base_score=2.5))
    yield _case("XGBRegressor", "base_score 0.2, reg:logistic", regressor(d.share, objective="reg:logistic", base_score=0.2))


def _inputs() -> Iterator[Case]:
    d = data()
    frames = lambda values: lambda: [  # noqa: E731
        d.frame(values), d.frame(values, reverse=True), d.frame(values, missing=True), d.frame(values)[["e", "a", "d", "b c"]]
    ]  # fmt: skip
    yield _case("XGBRegressor", "codes", regressor(**CODES))
    yield _case("XGBRegressor", "codes, one-hot", regressor(**CODES, max_cat_to_onehot=100))
    yield _case("XGBRegressor", "codes, approx", regressor(**(CODES | {"tree_method": "approx"})))
    yield _case("XGBRegressor", "codes, max_cat_threshold 4", regressor(**CODES, max_cat_threshold=4))
    yield _case("XGBClassifier", "codes, three classes", classifier(d.three, **CODES))
    for kind, values in (("text", words()), ("integers", numbers())):
        make = regressor(X=d.frame(values), enable_categorical=True)
        yield _case("XGBRegressor", f"frame, categories that are {kind}", make, frames=frames(values))
        make = classifier(d.three, X=d.frame(values), enable_categorical=True)
        yield _case("XGBClassifier", f"frame, categories that are {kind}", make, frames=frames(values))
    yield _case("XGBRegressor", "frame of numbers", regressor(X=d.frame()))
    for missing in (-999.0, 0.0, 0.1):
        X = np.nan_to_num(d.X, nan=missing)
        yield _case("XGBRegressor", f"missing={missing:g}", regressor(X=X, missing=missing))
    yield _case("XGBRegressor", "no missing values", regressor(X=d.full))
    yield _case("XGBRegressor", "trained on a sparse matrix", regressor(X=sparse.csr_matrix(d.full)))
    yield _case("XGBRegressor", "one column", regressor(X=d.X[:, :1]))
    yield _case("XGBRegressor", "2,000 sparse columns", regressor(X=sparse.random(400, 2000, 0.02, "csr", random_state=0)))
    yield _case("XGBRegressor", "values to 1e38", regressor(X=d.X * 1e37))
    yield _case("XGBRegressor", "subnormal values", regressor(X=d.X * 1e-40))
    yield _case("XGBRegressor", "integers beyond 2^24", regressor(X=np.trunc(d.full * 2**26)))
    yield _case("XGBRegressor", "booleans", regressor(X=d.full > 0))
    yield _case("Booster", "base_margin at training", trained(matrix={"base_margin": d.y * 0 + 3}))
    yield _case("Booster", "names like file syntax", trained(matrix={"feature_names": ["f0", "f 1=2", '"q"', "é{}"]}))


def _wrappers() -> Iterator[Case]:
    d = data()
    stop = {"n_estimators": 60, "learning_rate": 0.3, "early_stopping_rounds": 3}

    def stopped(name: str, y: Any, y_valid: Any, **options: Any) -> Any:
        def make() -> Any:
            import xgboost

            model = getattr(xgboost, name)(**(SMALL | stop | options))
            return model.fit(d.X[:300], y[:300], eval_set=[(d.X[300:], y_valid)], verbose=False)

        return make

    yield _case("XGBRegressor", "early stopping", stopped("XGBRegressor", d.y, d.y[300:][::-1]))
    yield _case("XGBClassifier", "early stopping, three classes", stopped("XGBClassifier", d.three, d.three[300:]))
    yield _case("XGBRegressor", "early stopping, dart", stopped("XGBRegressor", d.y, d.y[300:][::-1], booster="dart"))
    yield _case("Booster", "early stopping", lambda: stopped("XGBRegressor", d.y, d.y[300:][::-1])().get_booster())
    for name, y in (("XGBRFRegressor", d.y), ("XGBRFClassifier", d.two), ("XGBRFClassifier", d.three)):
        yield _case(name, "three classes" if y is d.three or y.max() == 2 else "default", _forest(name, y))
    yield _case("XGBClassifier", "loaded from a file", lambda: _reloaded(classifier(d.three)()))
    yield _case("XGBRegressor", "copied", lambda: copy.deepcopy(regressor()()))
    later = {"learning_rate": 9.0, "base_score": 7.0, "n_estimators": 2}
    yield _case("XGBRegressor", "set_params after fitting", lambda: regressor()().set_params(**later))
    yield _case("XGBRegressor", "continued (xgb_model)", _continued)


def _forest(name: str, y: Any) -> Any:
    def make() -> Any:
        import xgboost

        return getattr(xgboost, name)(n_estimators=7, max_depth=4, n_jobs=1, random_state=0).fit(data().X, y)

    return make


def _continued() -> Any:
    return regressor(fit={"xgb_model": regressor(max_depth=2)()})()


def _reloaded(model: Any) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        model.save_model(Path(folder) / "m.ubj")
        back = type(model)()
        back.load_model(Path(folder) / "m.ubj")
        return back


def _boosters() -> Iterator[Case]:
    d = data()
    for setting, param in {
        "dart": {"rate_drop": 0.4}, "dart, forest normalisation": {"rate_drop": 0.4, "normalize_type": "forest"},
        "dart, weighted": {"rate_drop": 0.4, "sample_type": "weighted"}, "dart, one_drop": {"one_drop": 1, "skip_drop": 0.2},
        "dart, rate_drop 0": {"rate_drop": 0.0}, "dart, lossguide": {"rate_drop": 0.3, "grow_policy": "lossguide"},
    }.items():  # fmt: skip
        yield _case("Booster", setting, trained({"booster": "dart"} | param))
    yield _case("XGBClassifier", "dart, three classes, parallel", classifier(d.three, booster="dart", rate_drop=0.3, num_parallel_tree=2))
    yield _case("Booster", "slice", lambda: trained(rounds=9)()[1:9:2])
    yield _case("Booster", "slice of three classes", lambda: trained({"objective": "multi:softprob", "num_class": 3}, d.three, 9)()[2:5])
    yield _case("Booster", "slice of dart", lambda: trained({"booster": "dart", "rate_drop": 0.4}, rounds=9)()[:4])
    yield _case("Booster", "from JSON in memory", lambda: _from_raw("json"))
    yield _case("Booster", "from UBJSON in memory", lambda: _from_raw("ubj"))
    yield _case("Booster", "scalar base score of older files", _older)


def _from_raw(kind: str) -> Any:
    import xgboost

    back = xgboost.Booster()
    back.load_model(trained({"objective": "binary:logistic"}, data().two)().save_raw(kind))
    return back


def _older() -> Any:
    import xgboost

    document = json.loads(trained({"objective": "multi:softprob", "num_class": 3}, data().three)().save_raw("json"))
    document["learner"]["learner_model_param"]["base_score"] = "5E-1"
    document["version"] = [2, 1, 0]
    back = xgboost.Booster()
    back.load_model(bytearray(json.dumps(document).encode()))
    return back


def _refused() -> Iterator[Case]:
    d = data()
    linear = {"booster": "gblinear", "updater": "coord_descent"}
    yield _case("XGBRegressor", "gblinear", regressor(X=d.full, **linear), refused="has no trees")
    yield _case("XGBRegressor", "not fitted", lambda: __import__("xgboost").XGBRegressor(), refused="unfitted")
    yield _case("Booster", "empty", lambda: __import__("xgboost").Booster(), refused="empty")
    yield _case("Booster", "no rounds", trained(rounds=0), refused="at least one tree")
    yield _case("XGBClassifier", "count:poisson", classifier(objective="count:poisson"), refused="objective for classes")
    yield _case("Booster", "one class only", trained({"objective": "binary:logistic"}, d.two * 0), refused="one class only")
    accents = [f"é{k}" for k in range(30)]
    yield _case("XGBRegressor", "category names beyond ASCII", regressor(X=d.frame(accents), enable_categorical=True), refused="in ASCII")
