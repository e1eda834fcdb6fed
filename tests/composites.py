"""Models that are made of models, by name: what can be wrapped exactly, and what is refused with its reason."""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_matrix
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import TransformedTargetRegressor
from sklearn.datasets import load_diabetes
from sklearn.ensemble import (
    AdaBoostClassifier,
    AdaBoostRegressor,
    BaggingClassifier,
    BaggingRegressor,
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    HistGradientBoostingRegressor,
    IsolationForest,
    RandomForestClassifier,
    RandomForestRegressor,
    StackingClassifier,
    StackingRegressor,
    VotingClassifier,
    VotingRegressor,
)
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression, Ridge, RidgeClassifier
from sklearn.model_selection import FixedThresholdClassifier, GridSearchCV, RandomizedSearchCV
from sklearn.multiclass import OneVsOneClassifier, OneVsRestClassifier, OutputCodeClassifier
from sklearn.multioutput import ClassifierChain, MultiOutputClassifier, MultiOutputRegressor, RegressorChain
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler
from sklearn.semi_supervised import SelfTrainingClassifier
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor, ExtraTreeClassifier

X, Y = load_diabetes(return_X_y=True)
RNG = np.random.default_rng(0)
X_NAN = np.where(RNG.random(X.shape) < 0.1, np.nan, X)
X_CAT = np.column_stack([X[:, 0], RNG.integers(-2, 6, len(Y)), X[:, 2:]])
TWO = (Y > 140).astype(int)
THREE = np.array(["low", "mid", "top"])[np.digitize(Y, [100, 200])]
TARGETS = np.column_stack([Y, -Y, Y**2])
LABELS = np.column_stack([TWO, (Y > 200).astype(int)])


def forest(n=5, **options):
    return RandomForestRegressor(n, max_depth=5, random_state=0, **options)


def classes(n=7, **options):
    return RandomForestClassifier(n, max_depth=5, random_state=0, **options)


def boosted():
    return GradientBoostingRegressor(n_estimators=5, random_state=0)


def boosted_classes():
    return GradientBoostingClassifier(n_estimators=5, random_state=0)


def histogram(categorical=None):
    return HistGradientBoostingRegressor(max_iter=5, categorical_features=categorical, random_state=0)


def extra(n=3):
    return ExtraTreesClassifier(n, max_depth=6, random_state=1)


def xgb(kind="XGBRegressor", **options):
    import xgboost

    return getattr(xgboost, kind)(**({"n_estimators": 5, "max_depth": 3, "n_jobs": 1} | options))


def lgbm(kind="LGBMRegressor", **options):
    import lightgbm

    return getattr(lightgbm, kind)(**({"n_estimators": 5, "verbose": -1, "n_jobs": 1} | options))


def named(*members):
    return [(f"m{k}", m) for k, m in enumerate(members)]


MODELS = {
    "voting of forests": lambda: VotingRegressor(named(forest(), ExtraTreesRegressor(5, random_state=1))).fit(X, Y),
    "voting, weights": lambda: VotingRegressor(named(forest(3), forest(7)), weights=[0.2, 0.7]).fit(X, Y),
    "voting, one dropped": lambda: VotingRegressor([*named(forest(3), boosted()), ("x", "drop")]).fit(X, Y),
    "voting of float32 and float64": lambda: VotingRegressor(named(boosted(), histogram())).fit(X, Y),
    "voting with XGBoost": lambda: VotingRegressor(named(forest(), xgb())).fit(X, Y),
    "voting with LightGBM": lambda: VotingRegressor(named(forest(), lgbm())).fit(X, Y),
    "voting of four frameworks": lambda: VotingRegressor(named(forest(), boosted(), xgb(), lgbm()), weights=[1, 2, 3, 4]).fit(X, Y),
    "voting of boosters, missing": lambda: VotingRegressor(named(histogram(), xgb(), lgbm())).fit(X_NAN, Y),
    "voting, categories": lambda: VotingRegressor(named(histogram([1]), histogram([1]).set_params(max_iter=3))).fit(X_CAT, Y),
    "bagging, categories": lambda: BaggingRegressor(histogram([1]), 3, bootstrap=False, random_state=0).fit(X_CAT, Y),
    "categories, a model for each target": lambda: MultiOutputRegressor(histogram([1])).fit(X_CAT, TARGETS),
    "voting of XGBRF": lambda: VotingRegressor(named(xgb("XGBRFRegressor"), forest())).fit(X, Y),
    "soft voting": lambda: VotingClassifier(named(classes(), extra(7)), voting="soft").fit(X, THREE),
    "soft voting, weights": lambda: VotingClassifier(named(classes(), extra()), voting="soft", weights=[0.3, 0.7]).fit(X, TWO),
    "bagging": lambda: BaggingRegressor(DecisionTreeRegressor(max_depth=4), 6, max_features=0.5, random_state=0).fit(X, Y),
    "bagging, missing": lambda: BaggingRegressor(DecisionTreeRegressor(max_depth=4), 6, random_state=0).fit(X_NAN, Y),
    "bagging of LightGBM, columns drawn twice": lambda: BaggingRegressor(
        lgbm(), 4, max_features=0.5, bootstrap_features=True, random_state=0
    ).fit(X, Y),
    "bagging of XGBoost": lambda: BaggingRegressor(xgb(), 4, max_features=0.7, random_state=0).fit(X_NAN, Y),
    "bagged classes": lambda: BaggingClassifier(DecisionTreeClassifier(), 10, max_features=0.5, random_state=0).fit(X, THREE),
    "bagged classes, some missing": lambda: BaggingClassifier(
        make_pipeline("passthrough", ExtraTreeClassifier(max_depth=3)), 30, max_samples=12, random_state=0
    ).fit(X, np.digitize(Y, [60, 100, 200, 300])),
    "bagged forests of classes": lambda: BaggingClassifier(classes(), 3, random_state=0).fit(X, TWO),
    "stack": lambda: StackingRegressor(named(forest(), histogram()), cv=3).fit(X, Y),
    "stack of frameworks": lambda: StackingRegressor(named(forest(), xgb(), lgbm()), Ridge(), cv=3).fit(X, Y),
    "stack of classes": lambda: StackingClassifier(named(classes(), extra()), cv=3).fit(X, TWO),
    "stack of three classes": lambda: StackingClassifier(named(classes(), extra()), cv=3).fit(X, THREE),
    "stack of decision functions": lambda: StackingClassifier(
        named(boosted_classes()), LogisticRegression(), stack_method="decision_function", cv=3
    ).fit(X, THREE),
    "stack under a ridge of classes": lambda: StackingClassifier(named(classes()), RidgeClassifier(), cv=3).fit(X, THREE),
    "AdaBoost": lambda: AdaBoostClassifier(n_estimators=7, random_state=0).fit(X, TWO),
    "AdaBoost, three classes": lambda: AdaBoostClassifier(DecisionTreeClassifier(max_depth=2), n_estimators=7, random_state=0).fit(X, THREE),
    "a forest for each target": lambda: MultiOutputRegressor(forest()).fit(X, TARGETS),
    "XGBoost for each target": lambda: MultiOutputRegressor(xgb()).fit(X_NAN, TARGETS),
    "LightGBM for each target": lambda: MultiOutputRegressor(lgbm(objective="poisson")).fit(X, np.abs(TARGETS)),
    "classes of each target": lambda: MultiOutputClassifier(classes()).fit(X, np.column_stack([THREE, TWO])),
    "boosted classes of each target": lambda: MultiOutputClassifier(boosted_classes()).fit(X, LABELS),
    "XGBoost classes of each target": lambda: MultiOutputClassifier(xgb("XGBClassifier")).fit(X, LABELS),
    "LightGBM classes of each target": lambda: MultiOutputClassifier(lgbm("LGBMClassifier")).fit(X, LABELS),
    "one against rest, forests": lambda: OneVsRestClassifier(classes()).fit(X, THREE),
    "one against rest, boosted": lambda: OneVsRestClassifier(boosted_classes()).fit(X, THREE),
    "one against rest, XGBoost": lambda: OneVsRestClassifier(xgb("XGBClassifier")).fit(X, THREE),
    "one against rest, LightGBM": lambda: OneVsRestClassifier(lgbm("LGBMClassifier")).fit(X, THREE),
    "one against rest, two classes": lambda: OneVsRestClassifier(boosted_classes()).fit(X, TWO),
    "one against rest, two classes of a forest": lambda: OneVsRestClassifier(classes()).fit(X, TWO),
    "one against rest, several labels": lambda: OneVsRestClassifier(boosted_classes()).fit(X, LABELS),
    "calibrated": lambda: CalibratedClassifierCV(boosted_classes(), ensemble=False, cv=3).fit(X, TWO),
    "calibrated forest": lambda: CalibratedClassifierCV(classes(), ensemble=False, cv=3).fit(X, TWO),
    "calibrated, three classes": lambda: CalibratedClassifierCV(boosted_classes(), ensemble=False, cv=3).fit(X, THREE),
    "calibrated forest, three classes": lambda: CalibratedClassifierCV(classes(), ensemble=False, cv=3).fit(X, THREE),
    "calibrated after": lambda: CalibratedClassifierCV(FrozenEstimator(boosted_classes().fit(X, TWO))).fit(X, TWO),
    "logarithm of the target": lambda: TransformedTargetRegressor(boosted(), func=np.log1p, inverse_func=np.expm1).fit(X, Y),
    "logarithm of the target, XGBoost": lambda: TransformedTargetRegressor(xgb(), func=np.log, inverse_func=np.exp).fit(X_NAN, Y),
    "scaled target": lambda: TransformedTargetRegressor(forest(), transformer=StandardScaler()).fit(X, Y),
    "target as it is": lambda: TransformedTargetRegressor(boosted()).fit(X, Y),
    "grid search": lambda: GridSearchCV(forest(), {"max_depth": [2, 3]}, cv=2).fit(X, Y),
    "random search": lambda: RandomizedSearchCV(xgb(), {"max_depth": [2, 3]}, n_iter=1, cv=2, random_state=0).fit(X_NAN, Y),
    "frozen": lambda: FrozenEstimator(forest().fit(X, Y)),
    "self-training": lambda: SelfTrainingClassifier(classes()).fit(X, np.where(X[:, 0] > 0.05, -1, TWO)),
    "pipeline without steps": lambda: make_pipeline("passthrough", forest()).fit(X, Y),
    "search of a voting of searches": lambda: GridSearchCV(
        VotingRegressor(named(GridSearchCV(forest(3), {"max_depth": [2, 3]}, cv=2), boosted())), {"n_jobs": [None]}, cv=2
    ).fit(X, Y),
    "isolation forest": lambda: IsolationForest(n_estimators=20, random_state=0).fit(X),
    "isolation forest, missing, columns drawn": lambda: IsolationForest(
        n_estimators=20, max_features=0.4, contamination=0.05, random_state=0
    ).fit(X_NAN),
}  # fmt: skip

REFUSED = {
    "hard voting": (lambda: VotingClassifier(named(classes(), extra())).fit(X, TWO), "majority of classes"),
    "soft voting of boosters": (
        lambda: VotingClassifier(named(classes(), boosted_classes()), voting="soft").fit(X, TWO), "a sigmoid of a sum"),
    "bagged boosters of classes": (lambda: BaggingClassifier(boosted_classes(), 2).fit(X, TWO), "a sigmoid of a sum"),
    "voting with a line": (lambda: VotingRegressor(named(forest(), Ridge())).fit(X, Y), r"Member 1 \(Ridge\) of the VotingRegressor"),
    "voting with a log link": (
        lambda: VotingRegressor(named(forest(), lgbm(objective="poisson"))).fit(X, Y), "prediction is a exp of a sum"),
    "voting, missing values of two kinds": (
        lambda: VotingRegressor(named(xgb(missing=-999), xgb())).fit(X, Y), "missing values of"),
    "voting, categories to some": (
        lambda: VotingRegressor(
            named(HistGradientBoostingRegressor(categorical_features=[1], max_iter=3), boosted())
        ).fit(np.column_stack([X[:, 0], np.digitize(Y, [80, 160]) % 3, X[:, 2]]), Y), "categories to some"),
    "stack under a forest": (lambda: StackingRegressor(named(forest()), forest(2), cv=2).fit(X, Y), "final estimator is linear"),
    "stack with the columns": (lambda: StackingRegressor(named(forest()), cv=2, passthrough=True).fit(X, Y), "passthrough=True"),
    "stack of boosters' probabilities": (
        lambda: StackingClassifier(named(boosted_classes()), cv=2, stack_method="predict_proba").fit(X, TWO), "class frequencies"),
    "AdaBoost of forests": (lambda: AdaBoostClassifier(classes(2), n_estimators=2).fit(X, TWO), "single decision trees"),
    "AdaBoost of values": (lambda: AdaBoostRegressor(n_estimators=2).fit(X, Y), "weighted median"),
    "calibrated in folds": (lambda: CalibratedClassifierCV(boosted_classes(), cv=2).fit(X, TWO), "2 folds"),
    "isotonic": (
        lambda: CalibratedClassifierCV(boosted_classes(), method="isotonic", ensemble=False, cv=2).fit(X, TWO), "method='isotonic'"),
    "calibrated XGBoost": (
        lambda: CalibratedClassifierCV(xgb("XGBClassifier"), ensemble=False, cv=2).fit(X, TWO), "probabilities .not margins. are calibrated"),
    "target in a range": (
        lambda: TransformedTargetRegressor(boosted(), transformer=MinMaxScaler()).fit(X, Y), "inverse is np.exp"),
    "one against one": (lambda: OneVsOneClassifier(classes(2)).fit(X, THREE), "all pairs of classes"),
    "code words": (lambda: OutputCodeClassifier(classes(2)).fit(X, THREE), "nearest code word"),
    "a chain of classes": (lambda: ClassifierChain(classes(2)).fit(X, LABELS), "members before it"),
    "a chain of values": (lambda: RegressorChain(forest(2)).fit(X, TARGETS), "members before it"),
    "a threshold of its own": (lambda: FixedThresholdClassifier(classes(2), threshold=0.3).fit(X, TWO), "threshold"),
    "search without a model": (
        lambda: GridSearchCV(forest(2), {"max_depth": [2, 3]}, cv=2, refit=False).fit(X, Y), "refit=False"),
    "steps inside": (
        lambda: VotingRegressor(named(make_pipeline(StandardScaler(), forest(2)))).fit(X, Y), "steps StandardScaler change them"),
    "one target": (lambda: MultiOutputRegressor(forest(2)).fit(X, Y[:, None]), "several targets"),
    "labels in a sparse matrix": (
        lambda: OneVsRestClassifier(boosted_classes()).fit(X, csr_matrix(LABELS)), "in a sparse matrix"),
    "several labels of forests": (lambda: OneVsRestClassifier(classes(2)).fit(X, LABELS), "of boosters"),
}  # fmt: skip
