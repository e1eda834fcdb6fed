"""`KPPRegressor` and `KPPClassifier`: wiring, regimes, inputs, clear errors."""

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris
from sklearn.ensemble import ExtraTreesRegressor, RandomForestClassifier, RandomForestRegressor
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeRegressor

import treespec
from treespec import KPPClassifier, KPPRegressor, errors

X, y = load_diabetes(return_X_y=True)
FRAME = pd.DataFrame(X, columns=load_diabetes().feature_names)
FOREST = RandomForestRegressor(10, max_depth=5, random_state=0)


@pytest.fixture(scope="module")
def fixed():
    return KPPRegressor(FOREST, alpha=1.0, random_state=0).fit(X, y)


def test_regime_fixed_is_kpp_of_the_fitted_model(fixed):
    w = treespec.wrap(FOREST.fit(X, y), X, y)
    k = w.kpp(alpha=1.0)
    np.testing.assert_allclose(fixed.predict(X), k.predict(X), rtol=1e-12)
    np.testing.assert_allclose(fixed.kpp_.coef_, k.coef_, rtol=1e-9, atol=1e-9)
    assert fixed.kpp_.regime.labels_used_twice


def test_the_golden_model_of_table_7():
    model = KPPRegressor(RandomForestRegressor(30, max_depth=6, random_state=0), alpha=0.4329).fit(X, y)
    assert round(float(np.sqrt(np.mean((model.predict(X) - y) ** 2))), 4) == 45.3974


def test_several_ensembles_and_raw_features_are_blocks():
    model = KPPRegressor([FOREST, ExtraTreesRegressor(5, max_depth=3)], alpha=1.0, raw=True, random_state=0).fit(X, y)
    assert model.kpp_.representation.n_blocks == 3
    assert len(model.estimators_) == 2
    assert model.stack_ is None
    np.testing.assert_allclose(model.predict(X[:3]), model.kpp_.predict(X[:3]))


@pytest.mark.parametrize("regime", ["honest", "cross-fit"])
@pytest.mark.parametrize("estimator", [FOREST, [FOREST, DecisionTreeRegressor(max_depth=3)]])
def test_other_regimes_use_no_label_twice(regime, estimator):
    model = KPPRegressor(estimator, regime=regime, alpha=1.0, cv=3, random_state=0).fit(X, y)
    assert model.kpp_.regime.name == regime
    assert not model.kpp_.regime.labels_used_twice
    assert model.score(X, y) > 0.3
    if regime == "cross-fit":
        assert len(model.kpp_.models) == 3
        held_out = 1 - np.mean((y - model.kpp_.predict_train()) ** 2) / y.var()
        assert 0.25 < held_out < model.score(X, y)  # rows in the mean of the models are not held out


def test_whole_numbers_as_values_are_no_classes():
    model = KPPRegressor(FOREST, regime="cross-fit", alpha=1.0, cv=3, random_state=0).fit(X, y.astype(int))
    assert model.kpp_.models[0].targets.kind == "values"


def test_classes_keep_their_labels():
    A, b = load_breast_cancer(return_X_y=True)
    names = np.array(["malignant", "benign"])[b]
    for regime in ("fixed", "cross-fit"):
        model = KPPClassifier(RandomForestClassifier(5, max_depth=4), alpha=1e-3, regime=regime, cv=3, random_state=0).fit(A, names)
        assert model.classes_.tolist() == ["benign", "malignant"]
        assert model.score(A, names) > 0.9
        p = model.predict_proba(A)
        np.testing.assert_allclose(p.sum(axis=1), 1)
        np.testing.assert_array_equal(model.predict(A), model.classes_[p.argmax(axis=1)])
        np.testing.assert_array_equal(model.decision_function(A) > 0, model.predict(A) == "malignant")
        first = model.kpp_ if regime == "fixed" else model.kpp_.models[0]
        assert set(first.predict(A)) == {"benign", "malignant"}


def test_several_classes_and_ridge_without_probabilities():
    A, b = load_iris(return_X_y=True)
    model = KPPClassifier(RandomForestClassifier(5, max_depth=3), alpha=1e-3, random_state=0).fit(A, b)
    assert model.decision_function(A).shape == (150, 3)
    ridge = clone(model).set_params(learner="ridge").fit(A, b)
    assert not hasattr(ridge, "predict_proba")
    assert ridge.score(A, b) > 0.9


@pytest.mark.parametrize("booster", ["xgboost", "lightgbm"])
def test_boosters_of_other_frameworks_and_their_string_labels(booster):
    A, b = load_iris(return_X_y=True)
    if booster == "xgboost":
        from xgboost import XGBClassifier

        base = XGBClassifier(n_estimators=5, max_depth=3)
    else:
        from lightgbm import LGBMClassifier

        base = LGBMClassifier(n_estimators=5, verbose=-1)
    names = np.array(["c", "a", "b"])[b]
    model = KPPClassifier(base, alpha=1e-3, random_state=0).fit(A, names)
    assert model.score(A, names) > 0.9


def test_frames_of_pandas_and_polars_give_what_arrays_give(fixed):
    model = clone(fixed).fit(FRAME, y)
    assert model.feature_names_in_.tolist() == FRAME.columns.tolist()
    assert model.n_features_in_ == 10
    np.testing.assert_array_equal(model.predict(FRAME), fixed.predict(X))
    polars = clone(fixed).fit(pl.from_pandas(FRAME), pl.Series(y))
    np.testing.assert_array_equal(polars.predict(pl.from_pandas(FRAME)), fixed.predict(X))
    with pytest.raises(ValueError, match="feature names"):
        model.predict(FRAME.rename(columns={"age": "years"}))


def test_frames_with_categories_reach_the_ensemble():
    from lightgbm import LGBMRegressor

    mixed = FRAME.assign(group=pd.Categorical(np.where(y > 140, "high", "low")))
    model = KPPRegressor(LGBMRegressor(n_estimators=5, verbose=-1), alpha=1.0, random_state=0).fit(mixed, y)
    assert model.score(mixed, y) > 0.6
    with pytest.raises(errors.DataMismatchError, match="columns of numbers"):
        KPPRegressor(FOREST, alpha=1.0).fit(FRAME, y).predict(mixed)


def test_pipelines_grid_search_and_pickle(fixed):
    search = GridSearchCV(
        make_pipeline(StandardScaler(), KPPRegressor(DecisionTreeRegressor(max_depth=3), random_state=0)),
        {"kppregressor__alpha": [0.1, 10.0], "kppregressor__estimator__max_depth": [2, 4]},
        cv=2,
    ).fit(FRAME, y)
    assert search.best_score_ > 0.2
    before = fixed.predict(X)  # routers exist now
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(fixed)).predict(X), before)


def test_seeds_repeat_and_the_users_own_are_kept():
    a, b = (KPPRegressor(ExtraTreesRegressor(3, max_depth=4), alpha=1.0, random_state=s).fit(X, y).predict(X) for s in (1, 1))
    np.testing.assert_array_equal(a, b)
    c = KPPRegressor(ExtraTreesRegressor(3, max_depth=4), alpha=1.0, random_state=2).fit(X, y)
    assert not np.array_equal(a, c.predict(X))
    assert KPPRegressor(FOREST, alpha=1.0, random_state=5).fit(X, y).estimators_[0].random_state == 0
    assert FOREST.get_params() == RandomForestRegressor(10, max_depth=5, random_state=0).get_params()


def test_alpha_is_chosen_on_refitted_ensembles():
    model = KPPRegressor(DecisionTreeRegressor(max_depth=4), random_state=0).fit(X, y)
    assert model.kpp_.info["alpha"]["method"] == "nested"


def test_a_fitted_booster_is_used_as_it_is_or_refused():
    import xgboost

    booster = xgboost.train({"max_depth": 3}, xgboost.DMatrix(X, label=y), 10)
    model = KPPRegressor(booster, alpha=1.0).fit(X, y)
    assert model.kpp_.representation.forests[0].n_trees == 10
    for options in ({"regime": "honest"}, {"regime": "cross-fit"}, {"stack": True}):
        with pytest.raises(errors.DataNeededError, match="unfitted estimator"):
            KPPRegressor(booster, alpha=1.0, **options).fit(X, y)
    with pytest.raises(errors.DataNeededError, match="can be fitted again"):
        KPPRegressor(booster, alpha="nested").fit(X, y)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"regime": "free"}, "a regime among"),
        ({"stack": "yes"}, "stack True, False"),
        ({"stack": True, "regime": "honest"}, "regime='fixed'"),
        ({"stack": True, "cv": 1}, "number of folds"),
        ({"estimator": []}, "at least one ensemble"),
        ({"estimator": RandomForestClassifier(3)}, "a regressor"),
        ({"weights": "depth"}, "node-weights"),
        ({"learner": "svm"}, "learner"),
        ({"alpha": -1.0}, "alpha above 0"),
        ({"estimator": LogisticRegression()}, "a regressor"),
    ],
)
def test_bad_options_are_named(options, message):
    with pytest.raises(errors.TreespecError, match=message):
        KPPRegressor(**{"estimator": FOREST, "alpha": 1.0, **options}).fit(X, y)


def test_bad_labels_and_weights_are_named(fixed):
    with pytest.raises(errors.DataMismatchError, match="one class"):
        KPPClassifier(RandomForestClassifier(3)).fit(X, np.ones(len(X)))
    with pytest.raises(errors.DataMismatchError, match="finite labels"):
        clone(fixed).fit(X, np.where(y > 300, np.nan, y))
    with pytest.raises(ValueError, match="non-zero"):
        clone(fixed).fit(X, y, sample_weight=np.zeros(len(X)))
    with pytest.raises(errors.DataMismatchError, match="labels, one for each row"):
        clone(fixed).fit(X, y[:-1])
    with pytest.raises(NotFittedError):
        clone(fixed).predict(X)


def test_several_outputs():
    both = np.column_stack([y, -2 * y])
    model = KPPRegressor(FOREST, alpha=1.0).fit(X, both)
    np.testing.assert_allclose(model.predict(X)[:, 1], -2 * model.predict(X)[:, 0], rtol=1e-6)
    default = KPPRegressor(alpha=1.0, random_state=0).fit(X[:100], both[:100])
    assert [type(m).__name__ for m in default.estimators_] == ["ExtraTreesRegressor"]  # the default ensemble that takes several
    assert default.predict(X).shape == both.shape


class _Shifted(RandomForestRegressor):
    """Predicts something else than its trees say."""

    def predict(self, X):
        return super().predict(X) + 1.0


@pytest.mark.parametrize("options", [{}, {"regime": "honest"}, {"regime": "cross-fit"}, {"stack": True}])
def test_an_ensemble_that_is_not_represented_exactly_is_refused(options):
    with pytest.raises(errors.SelfCheckError, match="scikit-learn"):
        KPPRegressor(_Shifted(3, max_depth=3, random_state=0), alpha=1.0, cv=2, **options).fit(X, y)
    with pytest.raises(errors.SelfCheckError):
        treespec.KPPTransformer(_Shifted(3, max_depth=3, random_state=0)).fit(X, y)


def test_folds_that_lack_a_class_say_what_needs_them():
    A, b = load_iris(return_X_y=True)
    A, b = np.concatenate([A[:60], A[-3:]]), np.concatenate([b[:60], b[-3:]])
    with pytest.raises(errors.DataNeededError, match="5 rows of each class for 5 folds"):
        KPPClassifier(RandomForestClassifier(3), regime="cross-fit", alpha=1.0).fit(A, b)
    assert KPPClassifier(RandomForestClassifier(3), regime="cross-fit", alpha=1.0, cv=3).fit(A, b).kpp_.models


def test_weights_of_rows_count_as_repeats_do():
    count = np.random.default_rng(0).integers(1, 4, len(X)).astype(float)
    rows = np.repeat(np.arange(len(X)), count.astype(int))
    tree = DecisionTreeRegressor(max_depth=4, random_state=0)
    weighted = KPPRegressor(tree, alpha=1.0, weights="variance-decrease").fit(X, y, sample_weight=count)
    repeated = KPPRegressor(tree, alpha=1.0, weights="variance-decrease").fit(X[rows], y[rows])
    np.testing.assert_allclose(weighted.predict(X), repeated.predict(X), rtol=1e-6)


def test_missing_values_reach_scores_attributions_and_certificates():
    from sklearn.ensemble import HistGradientBoostingRegressor

    holes = np.where(np.random.default_rng(0).random(X.shape) < 0.1, np.nan, X)
    model = KPPRegressor(HistGradientBoostingRegressor(max_iter=8), raw=True, alpha=1.0, random_state=0).fit(holes, y)
    k = model.kpp_
    a, score = k.attribute(holes), k.decision_function(holes)
    np.testing.assert_allclose(a.base + a.values.sum(axis=1), score, rtol=1e-10)
    cert = k.raw_certificate(holes[:20], 0.01)
    assert (cert.score_low <= score[:20]).all() and (score[:20] <= cert.score_high).all()
    np.testing.assert_array_equal(model.predict(np.full((1, 10), np.nan)), k.predict(np.full((1, 10), np.nan)))


def test_grid_search_over_regimes_anchor_and_estimator():
    A, b = load_breast_cancer(return_X_y=True)
    A, b = A[:150, :5], np.array(["no", "yes"])[b[:150]]
    grid = {"regime": ["fixed", "honest", "cross-fit"], "anchor": [None, "base"], "estimator__max_depth": [2]}
    search = GridSearchCV(KPPClassifier(RandomForestClassifier(4), alpha=1e-2, random_state=0), grid, cv=2, n_jobs=1).fit(A, b)
    assert search.best_score_ > 0.8 and len(search.cv_results_["params"]) == 6
    assert set(search.predict(A)) <= {"no", "yes"}
