"""Models of scikit-learn: single trees, forests, gradient boosting and histogram boosting."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn import ensemble, linear_model, tree
from sklearn.dummy import DummyClassifier, DummyRegressor

from catalogue.case import Case, data, numbers, words

FEW = {"n_estimators": 7, "random_state": 0}
HIST = {"max_iter": 8, "max_leaf_nodes": 9, "min_samples_leaf": 5, "random_state": 0}
CLASSES = {"gini", "entropy", "log_loss"}


def fitted(cls: Any, y: Any, X: Any = None, fit: Any = None, **options: Any) -> Any:
    """Return a function that fits a model."""
    d = data()
    return lambda: cls(**options).fit(d.X if X is None else X, y, **(fit or {}))


def cases() -> list[Case]:
    """Return the cases."""
    return [*_trees(), *_forests(), *_boosting(), *_histogram(), *_categories(), *_refused()]


def _case(cls: Any, setting: str, make: Any, **options: Any) -> Case:
    return Case("scikit-learn", cls if isinstance(cls, str) else cls.__name__, setting, make, **options)


def _trees() -> Iterator[Case]:
    d = data()
    for cls in (tree.DecisionTreeRegressor, tree.ExtraTreeRegressor):
        for criterion in ("squared_error", "friedman_mse", "absolute_error", "poisson"):
            y = d.positive if criterion == "poisson" else d.y
            X = d.full if criterion == "absolute_error" else d.X
            yield _case(cls, criterion, fitted(cls, y, X, criterion=criterion, max_depth=6, random_state=0))
        yield _case(cls, "three targets", fitted(cls, d.targets, max_depth=5, random_state=0))
    for cls in (tree.DecisionTreeClassifier, tree.ExtraTreeClassifier):
        for criterion in sorted(CLASSES):
            yield _case(cls, criterion, fitted(cls, d.words, criterion=criterion, max_depth=6, random_state=0))
        yield _case(cls, "two classes", fitted(cls, d.two, max_depth=6, random_state=0))
        yield _case(cls, "two targets", fitted(cls, np.column_stack([d.three, d.two]), max_depth=5, random_state=0))
    one = tree.DecisionTreeRegressor
    of = {
        "best first": {"max_leaf_nodes": 30}, "pruned": {"ccp_alpha": 0.01}, "random splits": {"splitter": "random"}, "unbounded": {},
        "min_impurity_decrease": {"min_impurity_decrease": 0.01}, "min_weight_fraction_leaf": {"min_weight_fraction_leaf": 0.05},
    }  # fmt: skip
    for name, options in of.items():
        yield _case(one, name, fitted(one, d.y, **options, random_state=0))
    yield _case(one, "monotonic", fitted(one, d.y, d.full, monotonic_cst=[1, -1, 0, 0], max_depth=6))
    yield _case(one, "one leaf", fitted(one, np.ones(len(d.y))))
    yield _case(one, "sample weights", fitted(one, d.y, fit={"sample_weight": d.weight}, max_depth=6, random_state=0))
    two = tree.DecisionTreeClassifier
    yield _case(two, "class weights", fitted(two, d.two, class_weight="balanced", max_depth=6))
    yield _case(two, "boolean labels", fitted(two, d.two > 0, max_depth=6))


def _forests() -> Iterator[Case]:
    d = data()
    regressors, classifiers = ("RandomForestRegressor", "ExtraTreesRegressor"), ("RandomForestClassifier", "ExtraTreesClassifier")
    for cls in (getattr(ensemble, name) for name in regressors):
        of = {
            "default": {}, "depth 4": {"max_depth": 4}, "bootstrap": {"bootstrap": True, "max_samples": 0.4},
            "no bootstrap": {"bootstrap": False},
            "max_features": {"max_features": 0.5}, "warm start": {"warm_start": True}, "friedman_mse": {"criterion": "friedman_mse"},
            "best first": {"max_leaf_nodes": 20}, "out of bag": {"bootstrap": True, "oob_score": True, "n_estimators": 30},
        }  # fmt: skip
        for name, options in of.items():
            yield _case(cls, name, fitted(cls, d.y, **(FEW | options)))
        yield _case(cls, "poisson", fitted(cls, d.positive, criterion="poisson", max_depth=5, **FEW))
        yield _case(cls, "absolute_error", fitted(cls, d.y, d.full, criterion="absolute_error", max_depth=4, **FEW))
        yield _case(cls, "monotonic", fitted(cls, d.y, d.full, monotonic_cst=[1, 0, 0, 0], max_depth=5, **FEW))
        yield _case(cls, "sample weights", fitted(cls, d.y, fit={"sample_weight": d.weight}, max_depth=7, **FEW))
        yield _case(cls, "three targets", fitted(cls, d.targets, max_depth=5, **FEW))
        yield _case(cls, "integers beyond 2^24", fitted(cls, d.y, np.trunc(d.full * 2**26), **FEW))
        yield _case(cls, "no missing values", fitted(cls, d.y, d.full, **FEW))
        yield _case(cls, "frame", fitted(cls, d.y, d.frame(), **FEW), frames=lambda: [d.frame()])
    for cls in (getattr(ensemble, name) for name in classifiers):
        yield _case(cls, "two classes", fitted(cls, d.two, **FEW))
        yield _case(cls, "words", fitted(cls, d.words, max_depth=6, **FEW))
        yield _case(cls, "entropy", fitted(cls, d.three, criterion="entropy", max_depth=6, **FEW))
        yield _case(cls, "class weights by subsample", fitted(cls, d.two, class_weight="balanced_subsample", **FEW))
        yield _case(cls, "3 and 2 classes", fitted(cls, np.column_stack([d.three, d.two]), max_depth=5, **FEW))
        yield _case(cls, "sample weights", fitted(cls, d.three, fit={"sample_weight": d.weight}, max_depth=6, **FEW))
        yield _case(cls, "no missing values", fitted(cls, d.words, d.full, **FEW))


def _boosting() -> Iterator[Case]:
    d = data()
    one, two = ensemble.GradientBoostingRegressor, ensemble.GradientBoostingClassifier
    for loss in ("squared_error", "absolute_error", "huber", "quantile"):
        yield _case(one, loss, fitted(one, d.y, d.full, loss=loss, **FEW))
        weighted = {"sample_weight": d.weight + 0.5}
        yield _case(one, f"{loss}, subsample, weights", fitted(one, d.y, d.full, weighted, loss=loss, subsample=0.6, **FEW))
        yield _case(one, f"{loss}, init zero", fitted(one, d.y, d.full, loss=loss, init="zero", **FEW))
    for strategy in ("mean", "median", "quantile", "constant"):
        extra = {"quantile": 0.3} if strategy == "quantile" else {"constant": 4.0} if strategy == "constant" else {}
        yield _case(one, f"init {strategy}", fitted(one, d.y, d.full, init=DummyRegressor(strategy=strategy, **extra), **FEW))
    yield _case(one, "early stopping", fitted(one, d.y, d.full, n_estimators=300, learning_rate=0.5, n_iter_no_change=2, random_state=0))
    yield _case(one, "warm start", lambda: _warm(one))
    yield _case(one, "learning_rate changed afterwards", lambda: fitted(one, d.y, d.full, **FEW)().set_params(learning_rate=0.3))
    yield _case(one, "best first", fitted(one, d.y, d.full, max_leaf_nodes=7, max_features=0.5, criterion="squared_error", **FEW))
    yield _case(one, "frame", fitted(one, d.y, d.frame().fillna(0), **FEW))
    yield _case(one, "y + 1e6", fitted(one, d.y + 1e6, d.full, **FEW))
    for name, y in (("two classes", d.two), ("words", d.words)):
        yield _case(two, name, fitted(two, y, d.full, **FEW))
        yield _case(two, f"{name}, subsample", fitted(two, y, d.full, subsample=0.5, **FEW))
        yield _case(two, f"{name}, init zero", fitted(two, y, d.full, init="zero", **FEW))
        for strategy in ("uniform", "most_frequent", "prior"):
            yield _case(two, f"{name}, init {strategy}", fitted(two, y, d.full, init=DummyClassifier(strategy=strategy), **FEW))
    yield _case(two, "exponential", fitted(two, d.two, d.full, loss="exponential", **FEW))
    yield _case(two, "early stopping, three classes", fitted(two, d.words, d.full, n_estimators=300, n_iter_no_change=2, learning_rate=0.9))


def _warm(cls: Any) -> Any:
    d = data()
    model = cls(warm_start=True, **FEW).fit(d.full, d.y)
    return model.set_params(n_estimators=12).fit(d.full, d.y)


def _histogram() -> Iterator[Case]:
    d = data()
    one, two = ensemble.HistGradientBoostingRegressor, ensemble.HistGradientBoostingClassifier
    for loss in ("squared_error", "absolute_error", "gamma", "poisson", "quantile"):
        extra = {"quantile": 0.7} if loss == "quantile" else {}
        y = d.positive if loss in ("gamma", "poisson") else d.y
        yield _case(one, loss, fitted(one, y, loss=loss, **extra, **HIST))
        yield _case(one, f"{loss}, weights", fitted(one, y, fit={"sample_weight": d.weight}, loss=loss, **extra, **HIST))
    of = {
        "l2": {"l2_regularization": 5.0}, "max_features": {"max_features": 0.5}, "max_bins 8": {"max_bins": 8}, "depth 3": {"max_depth": 3},
        "monotonic": {"monotonic_cst": [1, -1, 0, 0]}, "interaction": {"interaction_cst": [{0, 1}, {2, 3}]},
        "no shrinkage": {"learning_rate": 1.0}, "early stopping": {"early_stopping": True, "n_iter_no_change": 1, "max_iter": 100},
        "unbounded": {"max_leaf_nodes": None, "min_samples_leaf": 1},
    }  # fmt: skip
    for name, options in of.items():
        yield _case(one, name, fitted(one, d.y, **(HIST | options)))
    yield _case(one, "no missing values", fitted(one, d.y, d.full, **HIST))
    yield _case(one, "infinite values", fitted(one, d.y, np.where(d.X > 1, np.inf, d.X), **HIST))
    yield _case(one, "one leaf", fitted(one, d.y[:9], d.X[:9], **HIST))
    yield _case(one, "warm start", lambda: _warm_histogram(one))
    yield _case(one, "integers beyond 2^24", fitted(one, d.y, np.trunc(d.full * 2**26), **HIST))
    yield _case(one, "values to 1e300", fitted(one, d.y, d.X * 1e300, **HIST))
    yield _case(one, "copied", lambda: copy.deepcopy(fitted(one, d.y, **HIST)()))
    yield _case(two, "two classes", fitted(two, d.two, **HIST))
    yield _case(two, "words", fitted(two, d.words, **HIST))
    yield _case(two, "class weights", fitted(two, d.three, class_weight="balanced", **HIST))
    yield _case(two, "early stopping", fitted(two, d.words, **(HIST | {"early_stopping": True, "n_iter_no_change": 1, "max_iter": 100})))


def _warm_histogram(cls: Any) -> Any:
    d = data()
    model = cls(warm_start=True, **HIST).fit(d.X, d.y)
    return model.set_params(max_iter=14).fit(d.X, d.y)


def _categories() -> Iterator[Case]:
    d = data()
    one, two = ensemble.HistGradientBoostingRegressor, ensemble.HistGradientBoostingClassifier
    odd = d.X.copy()
    odd[:, 3], odd[:, 1] = 3 * odd[:, 3] - 20.5, np.round(odd[:, 1])
    yield _case(one, "codes", fitted(one, d.y, categorical_features=[3], **HIST))
    yield _case(one, "codes, some missing", fitted(one, d.y, np.where(d.X == 4, np.nan, d.X), categorical_features=[3], **HIST))
    yield _case(one, "negative and fractional categories", fitted(one, d.y, odd, categorical_features=[3, 1], **HIST))
    mask = [False, True, False, True]
    yield _case(two, "negative and fractional categories", fitted(two, d.words, odd, categorical_features=mask, **HIST))
    for kind, values in (("text", words()), ("integers", numbers())):
        frames = lambda values=values: [d.frame(values), d.frame(values, reverse=True), d.frame(values, missing=True)]  # noqa: E731
        for cls, y in ((one, d.y), (two, d.words)):
            make = fitted(cls, y, d.frame(values), categorical_features="from_dtype", **HIST)
            yield _case(cls, f"frame, categories that are {kind}", make, frames=frames)


def _refused() -> Iterator[Case]:
    d = data()
    one, two = ensemble.GradientBoostingRegressor, ensemble.GradientBoostingClassifier
    init = linear_model.LinearRegression()
    yield _case(one, "init is a linear model", fitted(one, d.y, d.full, init=init, **FEW), refused="an initial model that is a constant")
    chance = DummyClassifier(strategy="stratified", random_state=0)
    yield _case(two, "init is random", fitted(two, d.two, d.full, init=chance, **FEW), refused="an initial model that is a constant")
    forest = ensemble.RandomForestClassifier
    yield _case(forest, "one class", fitted(forest, d.two * 0, **FEW), refused="two classes")
    yield _case(ensemble.RandomForestRegressor, "not fitted", ensemble.RandomForestRegressor, refused="unfitted")
    yield _case(one, "not fitted", one, refused="unfitted")
    yield _case("HistGradientBoostingRegressor", "not fitted", ensemble.HistGradientBoostingRegressor, refused="unfitted")
    yield _case("LinearRegression", "no trees", fitted(linear_model.LinearRegression, d.y, d.full), refused="a tree ensemble")
    adaboost = fitted(ensemble.AdaBoostRegressor, d.y, d.full, n_estimators=4, random_state=0)
    yield _case(ensemble.AdaBoostRegressor, "a weighted median", adaboost, refused="AdaBoostRegressor")
