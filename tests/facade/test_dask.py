"""Rows of Dask: the numbers are those of rows in memory, blocks stay where they are, a lost worker is survived."""

import os
import signal
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_diabetes, load_iris
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import treespec
from treespec import errors
from treespec.facade import dask_rows
from treespec.operators import dask_incidence
from treespec.operators.dask_incidence import DaskIncidence

dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")
dd = pytest.importorskip("dask.dataframe")

X, y = load_diabetes(return_X_y=True)
weight = np.random.default_rng(0).uniform(0.5, 2, len(y))
names = [f"c{j}" for j in range(X.shape[1])]
dX, dy = da.from_array(X, chunks=(100, 4)), da.from_array(y, chunks=130)
frame = pd.DataFrame(X, columns=names)


@pytest.fixture(autouse=True)
def scheduler():
    with dask.config.set(scheduler="synchronous"):
        yield


@pytest.fixture(scope="module")
def model():
    return RandomForestRegressor(12, min_samples_leaf=20, random_state=0).fit(X, y, sample_weight=weight)


@pytest.fixture(scope="module")
def here(model):
    return treespec.wrap(model, X, y, sample_weight=weight)


@pytest.fixture
def there(model):
    return treespec.wrap(model, dX, dy, sample_weight=weight)


def test_blocks_are_compact_and_nothing_else_is_kept(there):
    table = there.rows.table
    assert isinstance(table, DaskIncidence)
    assert table.sizes == (100, 100, 100, 100, 42)
    block = table.each(lambda block: block)[1]
    assert block.nbytes == 100 * 12
    np.testing.assert_array_equal(there.forest.leaves[block.leaf_index()], there.apply(X[100:200]))
    assert type(there.rows.y).__module__.startswith("dask")
    assert "442 rows with labels" in repr(there)


@pytest.mark.parametrize("name", ["leaf", "path"])
@pytest.mark.parametrize("scheduler_name", ["synchronous", "threads"])
def test_smoothers_are_those_of_rows_in_memory(here, there, name, scheduler_name, monkeypatch):
    monkeypatch.setattr(dask_incidence, "_SENT", 300)  # several graphs
    monkeypatch.setattr(dask_incidence, "_TOGETHER", 2)
    mine, theirs = here.smoother(name), there.smoother(name)
    V = np.random.default_rng(1).normal(size=(len(X), 7))
    with dask.config.set(scheduler=scheduler_name):
        np.testing.assert_allclose(theirs @ V, mine @ V, atol=1e-10)
        np.testing.assert_allclose(theirs.rmatmat(V), mine.rmatmat(V), atol=1e-10)
        lazy = theirs @ dy
        assert type(lazy).__module__.startswith("dask")
        np.testing.assert_allclose(lazy.compute(), mine @ y, rtol=1e-10)
        np.testing.assert_allclose(theirs.rmatvec(dy).compute(), mine.rmatvec(y), rtol=1e-10)
        np.testing.assert_allclose(theirs.cross(X[:7]) @ dy, mine.cross(X[:7]) @ y, rtol=1e-10)
        np.testing.assert_allclose(theirs.diagonal().compute(), mine.diagonal(), rtol=1e-10)
        np.testing.assert_allclose(theirs.trace(), mine.trace(), rtol=1e-12)
        np.testing.assert_allclose(theirs.exactness, mine.exactness, rtol=1e-10)
        for top in (4, None):
            np.testing.assert_allclose(theirs.weights(X[:7], top=top).toarray(), mine.weights(X[:7], top=top).toarray(), atol=1e-14)


@pytest.mark.parametrize("name", ["leaf", "path"])
def test_spectra_are_those_of_rows_in_memory(here, there, name):
    mine, theirs = here.spectrum(6, smoother=name), there.spectrum(6, smoother=name)
    np.testing.assert_allclose(theirs.values, mine.values, rtol=1e-10)
    assert type(theirs.left).__module__.startswith("dask")
    np.testing.assert_allclose(theirs.left.compute(), mine.left, atol=1e-10)
    np.testing.assert_allclose(theirs.right.compute(), mine.right, atol=1e-10)
    np.testing.assert_allclose(theirs.extend(X[:9]), mine.extend(X[:9]), atol=1e-10)
    np.testing.assert_allclose(theirs.coefficients(dy), mine.coefficients(y), rtol=1e-8)
    np.testing.assert_allclose(theirs.shares(dy), mine.shares(y), atol=1e-10)
    assert theirs.decay().beta == pytest.approx(mine.decay().beta)


@pytest.mark.parametrize("weights", ["auto", "variance-decrease"])
@pytest.mark.parametrize("weighted", [False, True])
def test_kpp_ridge_is_that_of_rows_in_memory(model, weights, weighted):
    w = weight if weighted else None
    mine = treespec.wrap(model, X, y, sample_weight=w).kpp(alpha=1.0, weights=weights)
    theirs = treespec.wrap(model, dX, dy, sample_weight=w).kpp(alpha=1.0, weights=weights)
    np.testing.assert_allclose(theirs.coef_, mine.coef_, atol=1e-8 * np.abs(mine.coef_).max())
    np.testing.assert_allclose(theirs.predict(X), mine.predict(X), rtol=1e-8)
    np.testing.assert_allclose(theirs.attribute(X[:5], centred=True).values, mine.attribute(X[:5], centred=True).values, atol=1e-6)


def test_classes_of_text_and_alpha_from_a_sample():
    Xi, yi = load_iris(return_X_y=True)
    labels = np.array(["a", "bb", "c"])[yi]
    model = RandomForestClassifier(5, max_depth=3, random_state=0).fit(Xi, labels)
    mine = treespec.wrap(model, Xi, labels)
    theirs = treespec.wrap(
        model, da.from_array(Xi, chunks=(40, 4)), dd.from_pandas(pd.Series(labels), npartitions=1).repartition([0, 40, 80, 120, 149])
    )
    assert theirs.smoother().exactness == pytest.approx(mine.smoother().exactness)
    for weights in ("auto", "entropy-decrease"):
        a, b = (w.kpp(learner="ridge", alpha=0.5, weights=weights) for w in (mine, theirs))
        np.testing.assert_allclose(b.coef_, a.coef_, atol=1e-8)
        np.testing.assert_array_equal(b.predict(Xi), a.predict(Xi))
    a, b = mine.kpp(learner="ridge", alpha="label-free"), theirs.kpp(learner="ridge")
    assert b.info["alpha"]["method"] == "label-free"
    assert b.alpha_ == pytest.approx(a.alpha_)  # the sample is all rows


def test_frames_steps_and_empty_partitions(model):
    named = RandomForestRegressor(4, max_depth=4, random_state=0).fit(frame, y)
    parts = dd.concat([dd.from_pandas(frame, npartitions=3), dd.from_pandas(frame[:0], npartitions=1)], interleave_partitions=True)
    w = treespec.wrap(named, parts[names[::-1]], y)
    np.testing.assert_allclose(w.smoother() @ y, treespec.wrap(named, frame, y).smoother() @ y, rtol=1e-12)
    pipeline = make_pipeline(StandardScaler(), RandomForestRegressor(4, max_depth=4, random_state=0)).fit(X, y)
    w = treespec.wrap(pipeline, dX, dy)
    np.testing.assert_allclose(w.smoother() @ y, treespec.wrap(pipeline, X, y).smoother() @ y, rtol=1e-12)


def test_students_learn_from_a_sample(model, monkeypatch):
    monkeypatch.setattr(dask_rows, "sample_size", lambda forest: 150)
    w = treespec.wrap(model, dX, dy, sample_weight=weight)
    rows = w.rows.sample()
    assert (rows.n_rows, rows.sampled_from) == (150, len(X))
    place = [int(np.flatnonzero((row == X).all(axis=1))[0]) for row in rows.X]
    assert place == sorted(place)
    np.testing.assert_array_equal(rows.y, y[place])
    np.testing.assert_array_equal(rows.sample_weight, weight[place])
    assert "a uniform sample of 150 of the 442 rows" in w.distill(2000, compressor="mlp", steps=40).report.data


def bad(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_what_cannot_be_done_or_does_not_fit_is_named(model, there):
    wrap = treespec.wrap
    for name in ("in-bag", "oob", "boosting", "boosting-tangent"):
        bad(lambda name=name: there.smoother(name), errors.UnsupportedModelError, "smoother")
    bad(lambda: there.smoother("in-bag"), errors.UnsupportedModelError, "rows in this process, for the 'in-bag' smoother")
    bad(lambda: there.rows.leaf_id, errors.UnsupportedModelError, "workers of Dask")
    bad(lambda: there.rows.X, errors.DataNeededError, "not kept")
    bad(lambda: there.smoother("leaf").to_dense(), errors.UnsupportedModelError, "to_dense")
    bad(lambda: there.spectrum(3).oracle(X, y), errors.UnsupportedModelError, "workers of Dask")
    bad(lambda: there.spectrum(400), errors.DataMismatchError, "leaves of the forest")
    bad(lambda: there.kpp(learner="huber", alpha=1.0), errors.UnsupportedModelError, "learner 'huber'")
    bad(lambda: there.kpp(raw=True, alpha=1.0), errors.UnsupportedModelError, "raw=True")
    bad(lambda: there.kpp(alpha="nested"), errors.UnsupportedModelError, "'nested'")
    k = there.kpp(alpha=1.0)
    for call in (k.bounds, k.dashboard, lambda: k.robust_curve(X, y), k.attribute):
        bad(call, errors.UnsupportedModelError, "workers of Dask")
    bad(lambda: wrap(model, dX, dy[:-1]), errors.DataMismatchError, "442 labels .* y of 441 rows")
    bad(lambda: wrap(model, dX, y[:-1]), errors.DataMismatchError, "442 labels")
    bad(lambda: wrap(model, dX, dy, sample_weight=weight[1:]), errors.DataMismatchError, "442 weights")
    bad(lambda: wrap(model, dX, dy, sample_weight=-weight), errors.DataMismatchError, r"Block \d .* 0 and more")
    bad(lambda: wrap(model, dX, dy, sample_weight=0 * weight), errors.DataMismatchError, "not all 0")
    bad(lambda: wrap(model, dX, da.where(da.arange(442, chunks=100) == 250, np.nan, dy)), errors.DataMismatchError, "Block 2 .* missing")
    bad(lambda: wrap(model, dX[:, :9], dy), errors.DataMismatchError, "10 columns")
    bad(lambda: wrap(model, dX[:0], dy[:0]), errors.DataMismatchError, "at least one row")
    bad(lambda: wrap(model, dy, dy), errors.DataMismatchError, "two-dimensional Dask array")
    series = dd.from_pandas(pd.Series(y), npartitions=2)
    bad(lambda: wrap(model, dX, series), errors.DataMismatchError, "y in 5 partitions")
    bad(lambda: wrap(model, dX, dd.from_pandas(pd.Series(y), npartitions=5)), errors.DataMismatchError, r"Block \d .* labels")


# ---- a cluster of two processes


def test_a_cluster_that_loses_a_worker(here, model):
    pytest.importorskip("distributed")
    from distributed import Client, LocalCluster

    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None, silence_logs=50) as cluster,
        Client(cluster) as client,
        dask.config.set(scheduler=client),
    ):
        w = treespec.wrap(model, dX, dy, sample_weight=weight)
        found = w.spectrum(6)
        np.testing.assert_allclose(found.values, here.spectrum(6).values, rtol=1e-10)
        held = client.has_what()
        assert all(any("_routed" in str(key) for key in keys) for keys in held.values())  # leaf ids are with both workers
        _check_frameworks(client)
        os.kill(next(iter(client.run(os.getpid).values())), signal.SIGKILL)
        np.testing.assert_array_equal(w.spectrum(6).values, found.values)
        np.testing.assert_allclose((w.smoother("leaf") @ dy).compute(), here.smoother("leaf") @ y, rtol=1e-10)


def _check_frameworks(client):
    """Models that the frameworks fit on Dask are wrapped as they are."""
    dxgb = pytest.importorskip("xgboost.dask")
    dlgb = pytest.importorskip("lightgbm.dask")
    regressor = dxgb.DaskXGBRegressor(n_estimators=4, max_depth=3)
    regressor.client = client
    rows = dX.rechunk((100, -1)), dy.rechunk(100)
    regressor.fit(*rows)
    w = treespec.wrap(regressor, dX, dy)
    local = treespec.wrap(regressor.get_booster(), X, y)
    np.testing.assert_allclose(w.smoother("leaf") @ y, local.smoother("leaf") @ y, rtol=1e-10)
    np.testing.assert_allclose(w.kpp(alpha=1.0).predict(X), local.kpp(alpha=1.0).predict(X), rtol=1e-8)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the framework's own
        boosted = dlgb.DaskLGBMRegressor(n_estimators=4, client=client, verbose=-1).fit(*rows)
    w = treespec.wrap(boosted, dX, dy)
    np.testing.assert_allclose(w.predict(X), boosted.to_local().predict(X), rtol=1e-12)
    trained = dxgb.train(client, {"max_depth": 2}, dxgb.DaskDMatrix(client, *rows), num_boost_round=2)
    assert treespec.wrap(trained).forest.n_trees == 2
