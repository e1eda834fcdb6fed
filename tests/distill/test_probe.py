"""Rows drawn from the forest: plausible to it, in its boxes, repeatable."""

import numpy as np
import pandas as pd
from hypothesis import given, settings

from strategies import forests, grow
from treespec.distill.probe import draw_rows


@given(forests(max_outputs=2))
@settings(max_examples=30, deadline=None)
def test_any_forest_can_be_drawn_from(forest):
    rows = draw_rows(forest, 40, 0)
    assert rows.shape == (40, forest.n_features)
    assert np.isfinite(rows).all()
    np.testing.assert_array_equal(rows, draw_rows(forest, 40, 0))
    forest.apply(rows)


def test_leaves_are_reached_as_often_as_by_the_training_rows():
    from sklearn.ensemble import RandomForestRegressor

    from treespec.plugins import manager

    rng = np.random.default_rng(0)
    X = np.column_stack([rng.exponential(size=3000), rng.normal(size=3000)])
    X = np.column_stack([X, X[:, 0] + 0.1 * rng.normal(size=3000)])  # strongly correlated with the first
    y = X[:, 0] + np.abs(X[:, 1])
    forest = manager().adapt(RandomForestRegressor(30, max_leaf_nodes=20, bootstrap=False, max_features=1, random_state=0).fit(X, y))
    drawn = draw_rows(forest, 6000, 1)
    share = np.bincount(forest.apply(drawn).ravel(), minlength=forest.n_nodes)[forest.leaves] / 6000
    wanted = forest.count[forest.leaves] / 3000
    assert np.abs(share - wanted).sum() / 2 / forest.n_trees < 0.08  # independent features: 0.22
    independent = np.corrcoef(rng.permuted(X, axis=0).T)[0, 2]
    assert np.corrcoef(drawn.T)[0, 2] > 0.8 > independent  # trees that split on both features tell their dependence


def test_features_of_trees_that_are_left_out_vary_too():
    from treespec.distill.boxes import boxes_of, coarse
    from treespec.distill.marginals import fit_marginals

    rng = np.random.default_rng(0)
    forest = grow(rng, n_trees=6, max_depth=4, n_features=5, split=1.0)
    part = coarse(forest, np.array([2]), 0.3)
    assert len(boxes_of(part).features) < 5
    marginals = fit_marginals(forest, boxes_of(part))
    assert set(marginals) == set(range(5))
    for marginal in marginals.values():
        assert len(np.unique(marginal.draw(rng, 50))) > 4


def test_whole_numbers_stay_whole():
    from sklearn.ensemble import RandomForestRegressor

    from treespec.plugins import manager

    rng = np.random.default_rng(0)
    X = np.column_stack([rng.integers(0, 2, 500), rng.integers(3, 9, 500), rng.exponential(size=500)]).astype(float)
    drawn = draw_rows(manager().adapt(RandomForestRegressor(10, random_state=0).fit(X, X.sum(axis=1))), 400, 0)
    assert set(drawn[:, 0]) == {0.0, 1.0}
    assert set(range(3, 9)) <= set(drawn[:, 1]) <= set(range(13))
    assert drawn[:, 2].min() >= 0  # no threshold is negative
    assert len(np.unique(drawn[:, 2])) > 200


def test_students_of_drawn_rows_are_constant_far_away_like_their_teacher():
    import pytest

    import treespec

    pytest.importorskip("torch")
    from sklearn.ensemble import RandomForestRegressor

    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, 2))
    w = treespec.wrap(RandomForestRegressor(10, max_depth=4, random_state=0).fit(X, X[:, 0]))
    student = w.distill("2KB", compressor="mlp", steps=100)
    far = np.array([[1e3, 0.0], [1e6, 0.0], [-1e3, 0.0], [-1e6, 0.0]])
    got = student.predict(far)
    assert got[0] == got[1]
    assert got[2] == got[3]


def test_categories_come_as_values():
    from sklearn.ensemble import HistGradientBoostingRegressor

    from treespec.plugins import manager

    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"c": pd.Categorical(rng.choice(list("abcd"), 500)), "x": rng.normal(size=500)})
    y = frame["c"].isin(["a", "d"]) * 2.0 + frame["x"]
    model = HistGradientBoostingRegressor(max_iter=10, categorical_features="from_dtype").fit(frame, y)
    drawn = draw_rows(manager().adapt(model), 200, 0)
    assert set(drawn["c"].dropna()) == set("abcd")
    assert np.isfinite(model.predict(drawn)).all()
