import numpy as np
import pytest
from sklearn.ensemble import (
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    GradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.tree import DecisionTreeRegressor

from treespec.errors import DataMismatchError, UnsupportedModelError
from treespec.operators import in_bag, oob
from treespec.operators.bootstrap import unwrap


def labels(y):
    return np.array(["a", "b", "c"])[np.digitize(y, [-1, 1])]


REGRESSORS = {
    "bootstrap": (RandomForestRegressor(12, random_state=0), False),
    "no seed": (RandomForestRegressor(12, max_samples=0.4), False),
    "weights": (RandomForestRegressor(12, random_state=1), True),
    "all rows": (ExtraTreesRegressor(12, random_state=0, max_depth=4), False),
    "all rows, weights": (ExtraTreesRegressor(12, random_state=0, max_depth=4), True),
    "one tree": (DecisionTreeRegressor(max_depth=4), True),
}
CLASSIFIERS = {
    "plain": (RandomForestClassifier(12, random_state=0), False),
    "balanced": (RandomForestClassifier(12, random_state=0, class_weight="balanced"), False),
    "subsample": (RandomForestClassifier(12, random_state=0, class_weight="balanced_subsample"), False),
    "dict": (RandomForestClassifier(12, random_state=0, class_weight={"a": 2.0, "b": 1.0, "c": 0.5}), True),
    "balanced, all rows": (ExtraTreesClassifier(12, random_state=0, class_weight="balanced", max_depth=4), True),
}


@pytest.mark.parametrize("case", REGRESSORS)
def test_it_predicts_what_a_regression_forest_predicts(case, rows_of, table):
    X, y, weight = table
    model, weighted = REGRESSORS[case]
    weight = weight if weighted else None
    model.fit(X, y, sample_weight=weight)
    S = in_bag(*rows_of(model, X, y, weight))
    X_new = X[:40] + 0.1
    assert S.exactness < 1e-12
    np.testing.assert_allclose(S @ y, model.predict(X))
    np.testing.assert_allclose(S.cross(X_new) @ y, model.predict(X_new))
    np.testing.assert_allclose(S.weights(X_new) @ y, model.predict(X_new))
    dense = S.to_dense()
    np.testing.assert_allclose(S @ np.eye(len(y)), dense, atol=1e-14)
    np.testing.assert_allclose(S.T @ np.eye(len(y)), dense.T, atol=1e-14)
    np.testing.assert_allclose(S.diagonal(), dense.diagonal(), atol=1e-14)


@pytest.mark.parametrize("case", CLASSIFIERS)
def test_it_predicts_the_probabilities_of_a_classification_forest(case, rows_of, table):
    X, y, weight = table
    model, weighted = CLASSIFIERS[case]
    weight = weight if weighted else None
    model.fit(X, labels(y), sample_weight=weight)
    S = in_bag(*rows_of(model, X, labels(y), weight))
    one_hot = (labels(y)[:, None] == model.classes_).astype(float)
    np.testing.assert_allclose(S.cross(X[:40] + 0.1) @ one_hot, model.predict_proba(X[:40] + 0.1), atol=1e-12)


def test_out_of_bag_is_that_of_scikit_learn(rows_of, table):
    X, y, _ = table
    model = RandomForestRegressor(60, random_state=0, oob_score=True).fit(X, y)
    S = oob(*rows_of(model, X, y))
    np.testing.assert_allclose(S @ y, model.oob_prediction_)
    np.testing.assert_array_equal(S.diagonal(), 0.0)
    np.testing.assert_allclose(S.cross(X[:9]) @ y, model.predict(X[:9]))


def test_rows_that_every_tree_drew_have_no_out_of_bag_weights(rows_of, table):
    X, y, _ = table
    model = RandomForestRegressor(2, random_state=0).fit(X, y)
    S = oob(*rows_of(model, X, y))
    sums = S @ np.ones(len(y))
    drawn = np.all([np.isin(np.arange(len(y)), s) for s in model.estimators_samples_], axis=0)
    assert drawn.any()
    np.testing.assert_allclose(sums, np.where(drawn, 0.0, 1.0))


def test_other_rows_are_refused_with_the_number(rows_of, table):
    X, y, _ = table
    model = RandomForestRegressor(5, random_state=0).fit(X, y)
    for bad_X, bad_y in ((X[::-1], y[::-1]), (X[:-1], y[:-1])):
        with pytest.raises(DataMismatchError, match="fitted on"):
            in_bag(*rows_of(model, bad_X, bad_y))
    with pytest.raises(DataMismatchError, match=r"\d standard deviations"):
        in_bag(*rows_of(model, X, y + 0.1 * (np.arange(len(y)) == 3)))


def test_leaves_that_are_not_means_are_refused(rows_of, table):
    X, y, _ = table
    with pytest.raises(DataMismatchError, match="absolute_error"):
        in_bag(*rows_of(RandomForestRegressor(3, max_depth=3, criterion="absolute_error", random_state=0).fit(X, y), X, y))


def test_without_labels_the_draws_are_still_verified(rows_of, table):
    X, y, _ = table
    model = RandomForestRegressor(5, random_state=0).fit(X, y)
    S = in_bag(*rows_of(model, X))
    assert np.isnan(S.exactness)
    np.testing.assert_allclose(S @ y, model.predict(X))


def test_what_is_no_bagged_forest_is_refused(rows_of, table):
    X, y, _ = table
    with pytest.raises(UnsupportedModelError, match="averages trees"):
        in_bag(*rows_of(GradientBoostingRegressor(n_estimators=2).fit(X, y), X, y))
    with pytest.raises(UnsupportedModelError, match="leave rows out"):
        oob(*rows_of(ExtraTreesRegressor(2).fit(X, y), X, y))


def test_models_are_found_inside_pipelines(table):
    X, y, _ = table
    pipeline = make_pipeline(FunctionTransformer(), RandomForestRegressor(2, random_state=0)).fit(X, y)
    assert unwrap(pipeline) is pipeline[-1]
