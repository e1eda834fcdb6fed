import numpy as np
import pytest
from sklearn.ensemble import GradientBoostingRegressor, HistGradientBoostingRegressor, RandomForestRegressor

from treespec.errors import DataMismatchError, DataNeededError, UnsupportedModelError
from treespec.operators.boosted import boosting
from treespec.operators.replay import RELATIVE


def xgb(**options):
    module = pytest.importorskip("xgboost")
    return module.XGBRegressor(**{"n_estimators": 20, "max_depth": 4, "n_jobs": 1, **options})


def lgb(**options):
    module = pytest.importorskip("lightgbm")
    return module.LGBMRegressor(**{"n_estimators": 20, "verbose": -1, "n_jobs": 1, "min_child_samples": 5, **options})


def gb(**options):
    return GradientBoostingRegressor(**{"n_estimators": 20, **options})


def hgb(**options):
    return HistGradientBoostingRegressor(**{"max_iter": 20, "min_samples_leaf": 5, **options})


EXACT = {
    "xgb": lambda: xgb(),
    "xgb lambda 0": lambda: xgb(reg_lambda=0),
    "xgb base score": lambda: xgb(base_score=0.5),
    "xgb parallel": lambda: xgb(num_parallel_tree=3, subsample=0.8, seed=1),
    "xgb hist sampled": lambda: xgb(subsample=0.7, seed=3, colsample_bynode=0.6),
    "xgb approx sampled": lambda: xgb(subsample=0.7, seed=9, tree_method="approx"),
    "xgb exact sampled": lambda: xgb(subsample=0.7, seed=5, tree_method="exact"),
    "xgb dart without drops": lambda: xgb(booster="dart", rate_drop=0),
    "xgb lossguide": lambda: xgb(grow_policy="lossguide", max_leaves=7, gamma=0.1),
    "lgb": lambda: lgb(),
    "lgb l2": lambda: lgb(reg_lambda=3.0),
    "lgb from zero": lambda: lgb(boost_from_average=False),
    "lgb path smooth": lambda: lgb(path_smooth=5.0),
    "lgb bagging": lambda: lgb(subsample=0.7, subsample_freq=1),
    "lgb bagging now and then": lambda: lgb(subsample=0.6, subsample_freq=3, bagging_seed=7),
    "lgb forest": lambda: lgb(boosting_type="rf", subsample=0.7, subsample_freq=1),
    "gb": lambda: gb(),
    "gb from zero": lambda: gb(init="zero"),
    "gb sampled": lambda: gb(subsample=0.6, random_state=3),
    "gb stopped": lambda: gb(n_iter_no_change=3, random_state=1, n_estimators=200),
    "gb stopped and sampled": lambda: gb(n_iter_no_change=3, subsample=0.7, random_state=1, n_estimators=200, validation_fraction=0.3),
    "hgb": lambda: hgb(),
    "hgb l2": lambda: hgb(l2_regularization=4.0),
    "hgb stopped": lambda: hgb(early_stopping=True, random_state=4),
    "hgb stopped without a seed": lambda: hgb(early_stopping=True, validation_fraction=0.25),
}


@pytest.mark.parametrize("case", EXACT)
@pytest.mark.parametrize("weighted", [False, True])
def test_it_predicts_what_the_model_predicts(case, weighted, rows_of, table):
    X, y, weight = table
    weight = weight if weighted else None
    if "path smooth" in case and weighted:
        pytest.skip("refused: test_path_smoothing_with_weights_is_refused")
    model = EXACT[case]()
    model.fit(X, y, sample_weight=weight)
    forest, data = rows_of(model, X, y, weight)
    S = boosting(forest, data)
    assert S.exactness <= RELATIVE
    native = model.predict(X).astype(float)
    np.testing.assert_allclose(S.replay(y), native, atol=1e-5 * native.std())
    X_new = X[:50] + 0.05
    native = model.predict(X_new).astype(float)
    c = S.initial
    np.testing.assert_allclose(c + S.cross(X_new) @ (y - c), native, atol=1e-5 * native.std())
    np.testing.assert_allclose(c + S.weights(X_new) @ (y - c), native, atol=1e-5 * native.std())


REFUSED = {
    "alpha": (lambda: xgb(reg_alpha=1.0), UnsupportedModelError, r"alpha=1.*misses by 0\.\d+ standard deviations"),
    "l1": (lambda: lgb(reg_alpha=1.0), UnsupportedModelError, r"alpha=1.*misses by 0\.\d+ standard deviations"),
    "xgb logistic": (lambda: xgb(objective="reg:logistic", base_score=0.5), UnsupportedModelError, "logistic loss.*boosting-tangent"),
    "xgb loss": (lambda: xgb(objective="reg:absoluteerror"), UnsupportedModelError, "reg:absoluteerror"),
    "lgb loss": (lambda: lgb(objective="huber"), UnsupportedModelError, "huber"),
    "gb loss": (lambda: gb(loss="huber"), UnsupportedModelError, "huber"),
    "hgb loss": (lambda: hgb(loss="absolute_error"), UnsupportedModelError, "absolute_error"),
    "forest": (lambda: RandomForestRegressor(3), UnsupportedModelError, "RandomForestRegressor"),
    "xgb monotone": (lambda: xgb(monotone_constraints=(1, 0, 0, 0, 0)), DataMismatchError, "monotone constraints"),
    "xgb clipped": (lambda: xgb(max_delta_step=0.2), DataMismatchError, "max_delta_step"),
    "xgb dart": (lambda: xgb(booster="dart", rate_drop=0.5), DataMismatchError, "dropped trees"),
    "lgb dart": (lambda: lgb(boosting_type="dart", drop_rate=0.5), DataMismatchError, "dropped trees"),
    "lgb goss": (lambda: lgb(data_sample_strategy="goss", learning_rate=0.5), DataMismatchError, "goss"),
    "lgb quantised": (lambda: lgb(use_quantized_grad=True), DataMismatchError, "quantised"),
    "lgb monotone": (lambda: lgb(monotone_constraints=[1, 0, 0, 0, 0]), DataMismatchError, "monotone"),
    "gb sampled without a seed": (lambda: gb(subsample=0.5), DataMismatchError, "without an integer random_state"),
    "hgb monotone": (lambda: hgb(monotonic_cst=[1, 0, 0, 0, 0]), DataMismatchError, "monotonic"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_not_linear_is_refused_with_the_reason(case, rows_of, table):
    X, y, _ = table
    y = (y > 0).astype(float) if "logistic" in case else y
    build, error, reason = REFUSED[case]
    with pytest.raises(error, match=f"(?s){reason}"):
        boosting(*rows_of(build().fit(X, y), X, y))


@pytest.mark.parametrize("build", [xgb, lgb, gb, hgb])
def test_other_rows_are_refused_with_the_number(build, rows_of, table):
    X, y, _ = table
    model = build().fit(X, y)
    for bad in (y[::-1], y + 0.05 * (np.arange(len(y)) == 7)):
        with pytest.raises(DataMismatchError, match=r"\d standard deviations \(other rows"):
            boosting(*rows_of(model, X, bad))


def test_path_smoothing_leaves_the_root_as_it_is(rows_of, table):
    X, y, _ = table
    S = boosting(*rows_of(lgb(path_smooth=100.0, boost_from_average=False).fit(X, y + 5), X, y + 5))  # here the root is far from zero
    assert S.exactness < 1e-6


def test_path_smoothing_with_weights_is_refused(rows_of, table):
    X, y, weight = table
    with pytest.raises(DataMismatchError, match="path_smooth with row weights"):
        boosting(*rows_of(lgb(path_smooth=5.0).fit(X, y, sample_weight=weight), X, y, weight))


def test_without_labels_it_asks_for_them(rows_of, table):
    X, y, _ = table
    with pytest.raises(DataNeededError, match="training labels"):
        boosting(*rows_of(gb().fit(X, y), X))


@pytest.mark.parametrize("strategy", ["one_output_per_tree", "multi_output_tree"])
def test_every_output_has_its_own_smoother(strategy, rows_of, table):
    X, y, _ = table
    Y = np.column_stack([y, y**2, X[:, 3]])
    model = xgb(multi_strategy=strategy).fit(X, Y)
    forest, data = rows_of(model, X, Y)
    for k in range(3):
        S = boosting(forest, data, output=k)
        np.testing.assert_allclose(S.replay(Y[:, k]), model.predict(X)[:, k], atol=1e-5 * Y[:, k].std())
        c = S.initial
        np.testing.assert_allclose(c + S.cross(X[:9]) @ (Y[:, k] - c), model.predict(X[:9])[:, k], atol=1e-5 * Y[:, k].std())
    with pytest.raises(DataMismatchError, match="count outputs from 0"):
        boosting(forest, data, output=3)


def test_lightgbm_adds_cat_l2_where_many_categories_face_many(rows_of, table, tmp_path):
    X, y, _ = table
    X = X.copy()
    rng = np.random.default_rng(0)
    X[:, 0], X[:, 1] = rng.integers(0, 30, len(y)), rng.integers(0, 3, len(y))
    y = y + rng.normal(size=30)[X[:, 0].astype(int)]
    model = lgb(min_data_per_group=5, cat_smooth=1).fit(X, y, categorical_feature=[0, 1])
    forest, data = rows_of(model, X, y)
    assert forest.categorical.any()
    assert boosting(forest, data).exactness < 1e-6
    model.booster_.save_model(tmp_path / "model.txt")  # a model file carries the parameters too
    data = type(data)(X, y, None, data.leaf_id, data.apply, data.margin, model=tmp_path / "model.txt")
    assert boosting(forest, data).exactness < 1e-6


@pytest.mark.parametrize(
    "build", [lambda: xgb(learning_rate=0.17, reg_lambda=2.5), lambda: xgb(reg_lambda=0), lambda: lgb(learning_rate=0.07)]
)
def test_a_model_without_its_parameters_tells_them_by_its_first_tree(build, rows_of, table):
    X, y, _ = table
    model = build().fit(X, y)
    forest, data = rows_of(model, X, y)
    data = type(data)(X, y, None, data.leaf_id, data.apply, data.margin, model=None)
    assert boosting(forest, data).exactness <= RELATIVE


def test_float32_outputs_far_from_zero_get_their_units_in_the_last_place(rows_of, table):
    X, y, _ = table
    far = 1000 * y + 1e6
    S = boosting(*rows_of(xgb().fit(X, far), X, far))
    assert 1e-6 < S.exactness < 1e-2
