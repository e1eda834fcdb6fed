import numpy as np
import pytest
from sklearn.ensemble import GradientBoostingRegressor, HistGradientBoostingRegressor

from treespec.operators import LeafIncidence, settings_lightgbm, settings_sklearn, settings_xgboost


def read(module, rows_of, model, X, y):
    forest, data = rows_of(model.fit(X, y), X, y)
    return module.read(model, forest, data, LeafIncidence.of(forest, data.leaf_id))


def test_what_xgboost_says_of_itself(rows_of, table):
    xgboost = pytest.importorskip("xgboost")
    X, y, _ = table
    model = xgboost.XGBRegressor(n_estimators=3, reg_lambda=2.3, reg_alpha=0.4, learning_rate=0.2, num_parallel_tree=2, max_delta_step=0.7)
    found = read(settings_xgboost, rows_of, model, X, y)
    assert (found.ridge, found.alpha, found.eta) == (np.float32(2.3), np.float32(0.4), np.float32(0.2) / 2)
    assert (found.parallel, found.clip) == (2, pytest.approx(0.7))
    np.testing.assert_array_equal(found.y[:, 0], y.astype(np.float32))


def test_what_lightgbm_says_of_itself(rows_of, table):
    lightgbm = pytest.importorskip("lightgbm")
    X, y, _ = table
    model = lightgbm.LGBMRegressor(n_estimators=3, reg_lambda=2.3, reg_alpha=0.4, learning_rate=0.2, verbose=-1, max_delta_step=0.7)
    found = read(settings_lightgbm, rows_of, model, X, y)
    np.testing.assert_array_equal(found.ridge, 2.3)
    assert (found.alpha, found.eta, found.clip) == (0.4, 0.2, 0.7)
    np.testing.assert_array_equal(found.y[:, 0], y.astype(np.float32))
    np.testing.assert_allclose(found.initial, y.astype(np.float32).mean(), rtol=1e-6)
    from_zero = lightgbm.LGBMRegressor(n_estimators=3, boost_from_average=False, verbose=-1)
    np.testing.assert_array_equal(read(settings_lightgbm, rows_of, from_zero, X, y).initial, 0.0)


def test_what_scikit_learn_says_of_itself(rows_of, table):
    X, y, _ = table
    found = read(settings_sklearn, rows_of, HistGradientBoostingRegressor(max_iter=3, l2_regularization=2.3, learning_rate=0.2), X, y)
    assert (found.ridge, found.eta, found.weight) == (pytest.approx(2.3), 0.2, None)
    found = read(settings_sklearn, rows_of, GradientBoostingRegressor(n_estimators=3, learning_rate=0.2), X, y)
    assert (found.ridge, found.eta, found.weight) == (0.0, 0.2, None)


def test_models_of_others_are_passed_on(rows_of, table):
    X, y, _ = table
    model = GradientBoostingRegressor(n_estimators=2)
    for module in (settings_xgboost, settings_lightgbm):
        assert read(module, rows_of, model, X, y) is None
    forest, data = rows_of(model, X, y)
    assert settings_sklearn.read(object(), forest, data, LeafIncidence.of(forest, data.leaf_id)) is None
