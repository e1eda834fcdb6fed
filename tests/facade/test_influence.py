"""Smoothers with options, influence of several outputs, spectra by share: wiring and clear errors."""

import numpy as np
import pytest
from sklearn.datasets import load_diabetes, load_iris
from sklearn.ensemble import (
    ExtraTreesRegressor,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import treespec
from treespec import errors
from treespec.plugins import manager

X, y = load_diabetes(return_X_y=True)
IRIS = load_iris(return_X_y=True)


@pytest.fixture(scope="module")
def several():
    """A booster with two outputs."""
    xgboost = pytest.importorskip("xgboost")
    Y = np.column_stack([y, np.sqrt(y) * (1 + X[:, 0])])
    model = xgboost.XGBRegressor(n_estimators=8, max_depth=3, n_jobs=1).fit(X, Y)
    return treespec.wrap(model, X, Y), Y, model


def test_options_reach_the_scheme(several):
    w, Y, model = several
    for k in (0, 1):
        S = w.smoother("boosting", output=k)
        np.testing.assert_allclose(S.replay(Y[:, k]), model.predict(X)[:, k], atol=1e-5 * Y[:, k].std())
        assert w.smoother("boosting", output=k) is S  # kept
    assert w.smoother("boosting", output=0) is not w.smoother("boosting", output=1)
    assert w.spectrum(rank=3, smoother=w.smoother("boosting", output=1)).smoother is w.smoother("boosting", output=1)


def test_an_output_must_be_named_and_exist(several):
    w, _, _ = several
    for call in (w.smoother, w.spectrum, lambda: w.influence(X[:2])):
        with pytest.raises(errors.DataNeededError, match="one of 2 outputs"):
            call()
    for bad in (2, -1, 0.5, "a"):
        with pytest.raises(errors.DataMismatchError, match="an output in"):
            w.smoother("boosting", output=bad)
        with pytest.raises(errors.DataMismatchError, match="an output in"):
            w.influence(X[:2], output=bad)


def test_options_that_a_scheme_does_not_have_are_refused(several):
    w, _, _ = several
    with pytest.raises(errors.UnknownNameError, match=r"option of the smoother 'leaf' \(none\), but got 'output'"):
        w.smoother("leaf", output=1)
    with pytest.raises(errors.UnknownNameError, match=r"'boosting' \('output'\), but got 'rank'"):
        w.smoother("boosting", rank=1)
    with pytest.raises(errors.UnknownNameError, match="'value' or 'share'"):
        w.spectrum(order="size")


def test_schemes_of_plugins_may_take_any_option():
    class Plugin:
        @staticmethod
        @treespec.hooks.hookimpl
        def treespec_smoothers(register):
            register("any", lambda forest, data, **options: options)

    plugin = Plugin()
    manager().register(plugin, "test")
    try:
        w = treespec.wrap(ExtraTreesRegressor(2, max_depth=2, random_state=0).fit(X, y), X, y)
        assert w.smoother("any", a=1, b="x") == {"a": 1, "b": "x"}
    finally:
        manager().unregister(plugin)


def test_influence_of_one_of_several_outputs(several):
    w, Y, model = several
    J = w.influence(X[:5], top=None, output=1)
    S = w.smoother("boosting", output=1)
    assert J.shape == (5, len(X))
    np.testing.assert_allclose(S.initial + J @ (Y[:, 1] - S.initial), model.predict(X[:5])[:, 1], rtol=1e-4)


@pytest.fixture(scope="module")
def classes():
    model = GradientBoostingClassifier(n_estimators=6, max_depth=2, random_state=0).fit(*IRIS)
    return treespec.wrap(model, *IRIS), model


def test_influence_on_a_class_is_the_block_of_that_class(classes):
    w, model = classes
    rows = IRIS[0][[0, 60, 120, 149]]
    full = w.smoother().cross(rows).to_dense().reshape(4, 3, 150, 3)
    for k in range(3):
        found = w.influence(rows, top=None, output=k)
        assert found.shape == (4, 150)
        np.testing.assert_allclose(found.toarray(), full[:, k, :, k], atol=1e-12)
    predicted = model.predict(rows)
    assert len(set(predicted)) == 3
    np.testing.assert_allclose(
        w.influence(rows, top=None).toarray(), np.stack([full[j, c, :, c] for j, c in enumerate(predicted)]), atol=1e-12
    )
    top = w.influence(rows, top=4)
    assert (np.diff(top.indptr) <= 4).all()
    np.testing.assert_allclose(np.abs(top.toarray()).max(axis=1), np.abs(w.influence(rows, top=None).toarray()).max(axis=1))


def test_influence_of_a_forest_is_exact_or_refused():
    forest = RandomForestClassifier(8, random_state=0).fit(*IRIS)
    w = treespec.wrap(forest, *IRIS)
    W = w.influence(IRIS[0][:7] + 0.1, top=None)
    np.testing.assert_allclose(W @ np.eye(3)[IRIS[1]], forest.predict_proba(IRIS[0][:7] + 0.1), atol=1e-12)
    np.testing.assert_array_equal(
        w.influence(IRIS[0][:2], output=1).toarray(), w.influence(IRIS[0][:2]).toarray()
    )  # the same for all classes
    with pytest.raises(errors.DataMismatchError, match="an output in"):
        w.influence(IRIS[0][:2], output=3)
    with pytest.raises(errors.DataMismatchError, match="fitted on"):
        treespec.wrap(forest, IRIS[0][::-1], IRIS[1][::-1]).influence(IRIS[0][:2])
    inside = make_pipeline(StandardScaler(), RandomForestRegressor(5, random_state=0)).fit(X, y)
    scaled = inside[0].transform(X)
    np.testing.assert_allclose(treespec.wrap(inside[-1], scaled, y).influence(scaled[:3], top=None) @ y, inside.predict(X[:3]))
    extra = ExtraTreesRegressor(5, random_state=0).fit(X, y)
    with pytest.raises(errors.DataMismatchError, match="standard deviations"):
        treespec.wrap(extra, X, y + 1e3 * (np.arange(len(y)) == 3)).influence(X[:2])


def test_influence_of_a_lightgbm_forest():
    lightgbm = pytest.importorskip("lightgbm")
    model = lightgbm.LGBMRegressor(
        n_estimators=8, boosting_type="rf", subsample=0.7, subsample_freq=1, verbose=-1, n_jobs=1, min_child_samples=5
    ).fit(X, y)
    w = treespec.wrap(model, X, y)
    J, S = w.influence(X[:3], top=None), w.smoother("boosting")
    np.testing.assert_allclose(S.initial + J @ (y - S.initial), model.predict(X[:3]), rtol=1e-6)


def test_the_order_by_share_of_the_prediction(classes):
    w = treespec.wrap(GradientBoostingRegressor(n_estimators=20, random_state=0).fit(X, y), X, y)
    by_value, by_share = w.spectrum(rank=20), w.spectrum(rank=20, order="share")
    labels = y - w.smoother().initial
    carried = np.linalg.norm(by_share.left * (by_share.values * (by_share.right.T @ labels)), axis=0) ** 2
    np.testing.assert_allclose(by_share.shares(labels), carried / np.linalg.norm(w.smoother() @ labels) ** 2)
    assert (np.diff(by_share.shares(labels)) <= 0).all()
    assert (np.diff(by_share.values) > 0).any()
    np.testing.assert_allclose(np.sort(by_share.values), np.sort(by_value.values))
    assert by_share.decay() == by_value.decay()
    kernel = treespec.wrap(RandomForestClassifier(8, random_state=0).fit(*IRIS), *IRIS, sample_weight=np.linspace(1, 2, 150))
    assert 0.9 < kernel.spectrum(rank=150, order="share").shares(np.eye(3)[IRIS[1]]).sum() < 1 + 1e-9
    tangent = classes[0].spectrum(rank=5, smoother="boosting-tangent", order="share")
    assert tangent.left.shape == (450, 5)
    with pytest.raises(errors.DataNeededError, match="order='share'"):
        treespec.wrap(RandomForestRegressor(3, random_state=0).fit(X, y), X).spectrum(rank=3, order="share")


def test_the_order_by_share_where_leaves_carry_the_directions():
    many, labels = np.tile(X, (3, 1)), np.tile(y, 3)  # more rows than nodes by far
    w = treespec.wrap(GradientBoostingRegressor(n_estimators=5, max_depth=2, random_state=0).fit(many, labels), many, labels)
    by_share, by_value = (w.spectrum(rank=6, smoother="path", order=order) for order in ("share", "value"))
    order = np.argsort(-by_value.shares(labels), kind="stable")
    assert hasattr(by_value, "leaf")
    assert (order != np.arange(6)).any()
    np.testing.assert_allclose(by_share.extend(X[:5]), by_value.extend(X[:5])[:, order], atol=1e-12)


SHUFFLED = np.random.default_rng(0).permutation(len(y))
BAD_ROWS = {
    "other rows": lambda w: (X[:-9], y[:-9], w[:-9]),
    "shuffled labels": lambda w: (X, y[SHUFFLED], w),
    "wrong weights": lambda w: (X, y, w[::-1]),
    "no weights": lambda w: (X, y, None),
}
FITTED_WITH_WEIGHTS = {
    "in-bag": ExtraTreesRegressor(5, max_depth=4, random_state=0),
    "boosting": GradientBoostingRegressor(n_estimators=5, random_state=0),
    "boosting-tangent": GradientBoostingRegressor(n_estimators=5, random_state=0),
}


@pytest.mark.parametrize("bad", BAD_ROWS)
@pytest.mark.parametrize("name", FITTED_WITH_WEIGHTS)
def test_rows_labels_and_weights_that_are_not_those_of_the_training_are_refused_with_the_number(name, bad):
    weight = np.linspace(0.2, 3.0, len(y))
    model = FITTED_WITH_WEIGHTS[name].fit(X, y, sample_weight=weight)
    rows, labels, other = BAD_ROWS[bad](weight)
    w = treespec.wrap(model, rows, labels, sample_weight=other)
    with pytest.raises(errors.DataMismatchError, match=r"(off by|but got) [\d.e+-]+"):
        w.smoother(name)
    assert w.smoother("leaf").shape == (len(rows), len(rows))  # the kernel is defined on any rows
    same = treespec.wrap(model, X[SHUFFLED], y[SHUFFLED], sample_weight=weight[SHUFFLED])
    assert same.smoother(name).exactness < 1e-10  # the order does not matter where nothing is sampled by position
