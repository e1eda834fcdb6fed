"""KPP on ensembles of several frameworks goes back to production as one forest."""

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_diabetes, load_iris
from sklearn.ensemble import ExtraTreesClassifier, ExtraTreesRegressor, HistGradientBoostingClassifier, HistGradientBoostingRegressor

import treespec
from treespec import KPPClassifier, KPPRegressor
from treespec.errors import UnsupportedModelError

X, y = load_diabetes(return_X_y=True)
IRIS, kinds = load_iris(return_X_y=True)


def ensembles(kind):
    """Float32 and float64 inputs; zeros that are flushed, and entries of sparse matrices that mean different things."""
    xgboost, lightgbm = pytest.importorskip("xgboost"), pytest.importorskip("lightgbm")
    small = {"n_estimators": 4, "n_jobs": 1}
    if kind == "values":
        forests = [ExtraTreesRegressor(4, max_depth=4), HistGradientBoostingRegressor(max_iter=4)]
        return [*forests, xgboost.XGBRegressor(**small), lightgbm.LGBMRegressor(**small, verbose=-1)]
    forests = [ExtraTreesClassifier(4, max_depth=4), HistGradientBoostingClassifier(max_iter=4)]
    return [*forests, xgboost.XGBClassifier(**small), lightgbm.LGBMClassifier(**small, verbose=-1)]


def test_four_frameworks_become_one_forest():
    k = KPPRegressor(ensembles("values"), alpha=1.0, random_state=0).fit(X, y).kpp_
    forest = k.to_forest()
    assert forest.n_trees == sum(f.n_trees for f in k.representation.forests)
    np.testing.assert_allclose(forest.margin(X), k.decision_function(X), rtol=1e-12)
    np.testing.assert_allclose(treespec.wrap(k.to_treelite()).margin(X), k.decision_function(X), rtol=1e-5)
    assert treespec.Forest.from_bytes(forest.to_bytes()).equals(forest)


def test_probabilities_of_several_classes_too():
    k = KPPClassifier(ensembles("classes"), alpha=1e-2, random_state=0).fit(IRIS, kinds).kpp_
    np.testing.assert_allclose(k.to_forest().predict_proba(IRIS), k.predict_proba(IRIS), rtol=1e-10)
    np.testing.assert_array_equal(k.to_forest().predict(IRIS), k.predict(IRIS))


def test_several_boosters_with_their_anchor_become_one_forest():
    A, b = IRIS[50:], kinds[50:] - 1
    k = KPPClassifier(ensembles("classes")[1:], anchor="base", alpha=1e-2, random_state=0).fit(A, b).kpp_
    np.testing.assert_allclose(k.to_forest().margin(A), k.decision_function(A), rtol=1e-10)
    cert = k.raw_certificate(A, 0.0)
    np.testing.assert_allclose(cert.score_low, k.decision_function(A), atol=1e-9)


def test_names_that_contradict_each_other_are_refused():
    names = [f"c{j}" for j in range(10)]
    frames = [pd.DataFrame(X, columns=names), pd.DataFrame(X, columns=names)[names[::-1]]]
    models = [treespec.wrap(ExtraTreesRegressor(2, max_depth=2, random_state=0).fit(f, y), f, y) for f in frames]
    k = treespec.kpp(models, frames[0], y, alpha=1.0)
    with pytest.raises(UnsupportedModelError, match="same feature names"):
        k.to_forest()
    k = treespec.kpp([models[0], models[0]], frames[0], y, alpha=1.0)
    assert k.to_forest().feature_names == tuple(names)
    np.testing.assert_allclose(k.to_forest().margin(frames[1]), k.decision_function(frames[0]), rtol=1e-12)


def test_raw_features_have_no_place_in_trees():
    k = treespec.wrap(ExtraTreesRegressor(2, max_depth=2).fit(X, y), X, y).kpp(alpha=1.0, raw=True)
    with pytest.raises(UnsupportedModelError, match="without raw features"):
        k.to_forest()
