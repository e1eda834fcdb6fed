"""Each rule of the adapters, switched off, is caught by the self-check of `wrap`."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse
from sklearn.ensemble import (
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)

from treespec.errors import SelfCheckError
from treespec.facade.selfcheck import self_check, threshold_rows
from treespec.plugins import manager

N = 300
RNG = np.random.default_rng(0)
FULL = np.column_stack([RNG.normal(size=(N, 3)), RNG.integers(0, 20, N)])
X = np.where(RNG.random(FULL.shape) < [0.15, 0.15, 0.15, 0], np.nan, FULL)
X[:, 2] = np.where(RNG.random(N) < 0.3, 0.0, X[:, 2])
Y = np.nan_to_num(X[:, 0]) + (X[:, 3] % 3 == 1) + np.nan_to_num(X[:, 1], nan=2.0) + (X[:, 2] == 0) + 0.1 * RNG.normal(size=N)
TWO, THREE = (Y > 1).astype(int), np.array(["a", "b", "c"])[np.digitize(Y, [0.5, 1.5])]
TINY = np.column_stack([np.where(RNG.random(N) < 0.3, 0.0, RNG.normal(size=N) * 1e-34), X[:, 1]])
ODD = np.column_stack([FULL[:, :3], 3 * (FULL[:, 3] % 6) - 6])
GAPS = np.where((RNG.random(N) < 0.3)[:, None] & [False, False, False, True], np.nan, ODD)
FEW = {"n_estimators": 8, "random_state": 0}
HIST = {"max_iter": 8, "min_samples_leaf": 5, "random_state": 0}
LGB = {"n_estimators": 8, "min_child_samples": 4, "cat_smooth": 1, "min_data_per_group": 2, "verbose": -1, "n_jobs": 1}
XGB = {"n_estimators": 8, "max_depth": 4, "n_jobs": 1}


def sklearn_model(cls, y=Y, X=X, **options):
    return lambda: cls(**options).fit(X, y)


def lightgbm(y=Y, X=X, fit=None, kind="LGBMRegressor", **options):
    def make():
        lgb = pytest.importorskip("lightgbm")
        return getattr(lgb, kind)(**(LGB | options)).fit(X, y, **fit or {})

    return make


def xgboost(y=Y, X=X, kind="XGBRegressor", fit=None, **options):
    def make():
        xgb = pytest.importorskip("xgboost")
        return getattr(xgb, kind)(**(XGB | options)).fit(X, y, **fit or {})

    return make


def stopped():
    xgb = pytest.importorskip("xgboost")
    model = xgb.XGBRegressor(n_estimators=60, learning_rate=0.3, n_jobs=1, early_stopping_rounds=2)
    return model.fit(X[:200], Y[:200], eval_set=[(X[200:], Y[200:][::-1])], verbose=False)


def frame(reverse=False):
    pd = pytest.importorskip("pandas")
    out = pd.DataFrame(X[:, :3], columns=["a", "b", "c"])
    names = [f"v{k}" for k in range(20)]
    out["d"] = pd.Categorical.from_codes(X[:, 3].astype(int), categories=names)
    if reverse:
        out["d"] = out["d"].cat.reorder_categories(names[::-1])
    return out


def inputs(**rule):
    """Return a function that changes the input rule."""
    return lambda forest: forest.with_values(forest.value, inputs=replace(forest.inputs, **rule))


def fields(**changed):
    return lambda forest: forest.with_values(changed.get("value", forest.value), **{k: v for k, v in changed.items() if k != "value"})


def values(change):
    return lambda forest: forest.with_values(change(forest.value))


def as_numbers(forest):
    """Forget the values behind the codes of categories."""
    return inputs(categories=())(forest)


def thresholds(change):
    return lambda forest: replace(forest, threshold=change(forest.threshold))


def reverse_categories(forest):
    return inputs(categories=tuple((j, known[::-1]) for j, known in forest.inputs.categories))(forest)


def shuffled_columns(forest):
    return replace(forest, feature=np.where(forest.is_leaf, -1, (forest.feature + 1) % 2))


CODES = {"categorical_feature": [3]}
RULES = {
    "scikit-learn rounds rows to float32": (sklearn_model(RandomForestRegressor, **FEW), inputs(dtype="float64"), None),
    "gradient boosting rounds rows to float32": (sklearn_model(GradientBoostingRegressor, X=FULL, **FEW), inputs(dtype="float64"), None),
    "forests take the mean": (sklearn_model(RandomForestRegressor, **FEW), fields(aggregation="sum"), None),
    "missing values go where training sent them": (
        sklearn_model(RandomForestRegressor, **FEW), lambda f: replace(f, default_left=~f.default_left & ~f.is_leaf), None,
    ),
    "class labels are kept": (
        sklearn_model(RandomForestClassifier, THREE, **FEW), lambda f: fields(classes=(f.classes[0][::-1],))(f), None,
    ),
    "the initial model is added": (sklearn_model(GradientBoostingRegressor, X=FULL, **FEW), fields(base_score=np.zeros(1)), None),
    "the learning rate is in the leaves": (sklearn_model(GradientBoostingRegressor, X=FULL, **FEW), values(lambda v: v * 10), None),
    "the exponential loss has half a logit": (
        sklearn_model(GradientBoostingClassifier, TWO, FULL, loss="exponential", **FEW), fields(link_scale=1.0), None,
    ),
    "every class has its tree": (
        sklearn_model(GradientBoostingClassifier, THREE, FULL, **FEW), values(lambda v: v[:, ::-1].copy()), None,
    ),
    "histogram boosting does not round": (sklearn_model(HistGradientBoostingRegressor, **HIST), inputs(dtype="float32"), X),
    "the baseline is added": (sklearn_model(HistGradientBoostingClassifier, THREE, **HIST), fields(base_score=np.zeros(3)), None),
    "unknown categories are missing (histogram)": (
        sklearn_model(HistGradientBoostingRegressor, (GAPS[:, 3] > 3) - 3.0 * np.isnan(GAPS[:, 3]), GAPS, categorical_features=[3], **HIST),
        inputs(unknown_category="other"), None,
    ),
    "categories are values, not codes (histogram)": (
        sklearn_model(HistGradientBoostingRegressor, X=ODD, categorical_features=[3], **HIST),
        as_numbers, ODD,
    ),
    "XGBoost compares with <": (xgboost(), thresholds(lambda t: np.nextafter(t.astype(np.float32), np.float32(np.inf)).astype(float)), None),
    "XGBoost rounds rows to float32": (xgboost(), inputs(dtype="float64"), None),
    "missing= is read from the wrapper": (xgboost(X=np.nan_to_num(X, nan=-999), missing=-999.0), inputs(missing_value=np.nan), np.nan_to_num(X, nan=-999)),
    "the base score is a margin": (xgboost(TWO, kind="XGBClassifier", base_score=0.2), fields(base_score=np.array([0.2])), None),
    "the link of counts is exp": (xgboost(np.floor(np.abs(Y)), objective="count:poisson"), fields(link="identity"), None),
    "wrappers stop at the best iteration": (
        stopped, lambda f: manager().adapt(stopped().get_booster()), None,
    ),
    "what a sparse matrix leaves out is missing": (
        xgboost(X=np.nan_to_num(X)), inputs(absent="zero"), sparse.csr_matrix(np.nan_to_num(X)),
    ),
    "categories are matched by value (XGBoost)": (
        lambda: xgboost(X=frame(), enable_categorical=True)(), reverse_categories, lambda forest: frame(reverse=True),
    ),
    "columns are matched by name": (xgboost(), shuffled_columns, None),
    "tiny values are zero": (lightgbm(X=TINY, max_bin=500, min_data_in_bin=1), inputs(zero="keep"), None),
    "zero is missing": (lightgbm(zero_as_missing=True), inputs(zero="flush"), None),
    "zero is not missing": (lightgbm(), inputs(zero="missing"), None),
    "categories in (-1, 0) are 0": (lightgbm(fit=CODES), inputs(negative_fraction_is_zero=False), None),
    "listed categories go left": (lightgbm(fit=CODES), lambda f: replace(f, category_left=~f.category_left & f.categorical), None),
    "integers lose digits": (
        lightgbm(X=np.trunc(FULL * 2**40)), inputs(float32_first="never"),
        lambda forest: np.nan_to_num(threshold_rows(forest, 400), posinf=0, neginf=0).clip(-(2**60), 2**60).astype(np.int64) + 1,
    ),
    "LightGBM does not round": (lightgbm(), inputs(dtype="float32"), lambda forest: threshold_rows(forest, 400)),
    "the sigmoid is scaled": (lightgbm(TWO, kind="LGBMClassifier", sigmoid=3.0), fields(link_scale=1.0), None),
    "random forest mode takes the mean": (
        lightgbm(boosting_type="rf", bagging_freq=1, bagging_fraction=0.5), fields(aggregation="sum"), None,
    ),
    "categories are matched by value (LightGBM)": (lambda: lightgbm(X=frame())(), reverse_categories, lambda forest: frame(reverse=True)),
    "unknown categories are missing (LightGBM)": (
        lambda: lightgbm(X=frame())(), lambda f: replace(inputs(unknown_category="other")(f), category_left=~f.category_left & f.categorical), None,
    ),
}  # fmt: skip


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.filterwarnings("ignore:X does not have valid feature names", "ignore:(overflow|invalid value) encountered")
def test_a_rule_that_is_switched_off_is_caught(rule):
    make, switch_off, rows = RULES[rule]
    model = make()
    forest = manager().adapt(model)
    rows = rows(forest) if callable(rows) else rows
    native = manager().native(model, forest)
    assert self_check(forest, native, rows).n_rows > 0
    with pytest.raises(SelfCheckError):
        self_check(switch_off(forest), native, rows)
