"""Models and rows that change after `wrap`, and values whose meaning students must share: never silently another result."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import load_diabetes
from sklearn.ensemble import RandomForestRegressor

import treespec
from treespec import errors
from treespec.facade.unchanged import fingerprint

X, y = load_diabetes(return_X_y=True)


def forest(rows=X):
    return RandomForestRegressor(4, max_depth=4, random_state=0).fit(rows, y)


# ---- the model


def test_trees_of_lightgbm_that_were_shuffled_or_changed():
    lightgbm = pytest.importorskip("lightgbm")

    def trained():
        return lightgbm.train({"verbose": -1, "num_leaves": 8}, lightgbm.Dataset(X, y), 30)

    for change in (lambda b: b.shuffle_models(), lambda b: b.set_leaf_output(7, 0, 3.0)):
        booster = trained()
        w = treespec.wrap(booster)
        before = w.predict(X)
        change(booster)
        with pytest.raises(errors.SelfCheckError, match="changed in place"):
            w.predict(X)
        assert (treespec.wrap(booster).predict(X) != before).any() or booster.num_trees() == 30


def test_thresholds_of_scikit_learn_that_were_changed():
    model = forest()
    w = treespec.wrap(model)
    w.predict(X)
    model.estimators_[2].tree_.threshold[0] += 0.01
    with pytest.raises(errors.SelfCheckError, match="changed in place"):
        w.predict(X)


def test_models_that_were_fitted_again_do_not_matter():
    model = forest()
    w = treespec.wrap(model)
    before = w.predict(X)
    model.fit(X[::-1], y)
    np.testing.assert_array_equal(w.predict(X), before)


def test_a_booster_that_was_changed_after_fitting():
    model = pytest.importorskip("xgboost").XGBRegressor(n_estimators=2, max_depth=2).fit(X, y)
    model.set_params(booster="dart")
    with pytest.raises(errors.UnsupportedModelError, match="has lost its trees"):
        treespec.wrap(model)


# ---- the rows


@pytest.mark.parametrize("kind", ["array", "fortran", "sparse", "frame"])
def test_rows_that_were_changed_in_place(kind):
    pd = pytest.importorskip("pandas")
    rows = {
        "array": X.copy(), "fortran": np.asfortranarray(X), "sparse": sparse.csr_array(X), "frame": pd.DataFrame(X.copy())
    }[kind]  # fmt: skip
    w = treespec.wrap(forest(), rows, y)
    assert w.rows is w.rows
    if kind == "frame":
        rows.iloc[3, 2] = 7.0
    elif kind == "sparse":
        rows.data[11] = 7.0
    else:
        rows[3, 2] = 7.0
    with pytest.raises(errors.DataMismatchError, match="changed in place since"):
        w.smoother("leaf")
    with pytest.raises(errors.DataMismatchError, match="changed in place since"):
        w.distill("10KB", compressor="packed")


def test_labels_and_weights_are_copied():
    labels, weight = y.copy(), np.ones(len(y))
    w = treespec.wrap(forest(), X, labels, sample_weight=weight)
    labels[0], weight[0] = -1.0, 5.0
    assert w.rows.y[0] == y[0]
    assert w.rows.sample_weight[0] == 1.0


def test_fingerprints():
    pd = pytest.importorskip("pandas")
    assert fingerprint(X) == fingerprint(np.asfortranarray(X)) != fingerprint(X[::-1])
    assert fingerprint(None) is fingerprint([[1.0]]) is fingerprint(X.astype(object)) is None
    mixed = pd.DataFrame({"a": pd.array([1, None], dtype="Int64"), "b": ["x", "y"], "c": [1.0, 2.0]})
    assert fingerprint(mixed) == fingerprint(mixed[["c"]])
    assert fingerprint(sparse.lil_array(X)) is None


# ---- what means missing, in students too


@pytest.mark.parametrize("compressor", ["packed", "boosted"])
def test_students_share_the_value_that_means_missing(compressor, tmp_path):
    xgboost = pytest.importorskip("xgboost")
    rows = np.where(np.random.default_rng(0).random((60, 2)) < 0.2, -999.0, X[:60, 2:4])
    model = xgboost.XGBRegressor(n_estimators=2, max_depth=2, missing=-999.0, n_jobs=1).fit(rows, y[:60])
    student = treespec.wrap(model, rows, y[:60]).distill("1KB", compressor=compressor)
    student.save(tmp_path / "s")
    for s in (student, treespec.load_student(tmp_path / "s")):
        np.testing.assert_array_equal(s.predict(rows), s.predict(np.where(rows == -999, np.nan, rows)))


# ---- categories that are numbers, in polars


@pytest.mark.parametrize("framework", ["xgboost", "lightgbm"])
def test_polars_frames_hold_values_and_not_codes(framework):
    pd, pl = pytest.importorskip("pandas"), pytest.importorskip("polars")
    values = np.random.default_rng(0).choice([3, 7, -2], len(y))
    frame = pd.DataFrame({"kind": pd.Categorical(values), "size": X[:, 0]})
    if framework == "xgboost":
        model = pytest.importorskip("xgboost").XGBRegressor(n_estimators=4, enable_categorical=True, n_jobs=1).fit(frame, y + 30 * values)
    else:
        model = pytest.importorskip("lightgbm").LGBMRegressor(n_estimators=4, verbose=-1).fit(frame, y + 30 * values)
    w = treespec.wrap(model, frame, y)
    theirs = pl.DataFrame({"kind": values, "size": X[:, 0]})
    np.testing.assert_allclose(w.predict(theirs), model.predict(frame), rtol=1e-6)
    if framework == "xgboost":
        with pytest.raises(errors.DataMismatchError, match="categories of training"):
            w.predict(theirs.with_columns(kind=pl.lit(5)))
    with pytest.raises(errors.DataMismatchError, match="values or codes"):
        w.predict(frame.assign(kind=values))


def test_labels_of_several_targets_have_the_type_of_xgboosts():
    xgboost = pytest.importorskip("xgboost")
    labels = np.column_stack([y > 140, y > 200]).astype(int)
    model = xgboost.XGBClassifier(n_estimators=3, max_depth=2).fit(X, labels)
    w = treespec.wrap(model, X, labels)
    assert w.predict(X).dtype == model.predict(X).dtype
    np.testing.assert_array_equal(w.predict(X), model.predict(X))


# ---- options and paths


@pytest.fixture(scope="module")
def student():
    return treespec.wrap(forest(), X, y).distill("100KB", compressor="packed")


@pytest.mark.parametrize(
    ("compressor", "options"),
    [("packed", {"leaf_bits": "x"}), ("packed", {"leaf_bits": 4.0}), ("packed", {"leaf_bits": True}), ("mlp", {"steps": "many"})],
)
def test_options_of_another_type(compressor, options):
    w = treespec.wrap(forest(), X, y)
    with pytest.raises(errors.TreespecError, match=f"{next(iter(options))} of the compressor '{compressor}' to be int"):
        w.distill("10KB", compressor=compressor, **options)


@pytest.mark.parametrize("bad", ["missing/folder/s", "", 3, None])
def test_paths_that_cannot_be_written(bad, student, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(errors.TreespecError, match="the path of a file to write"):
        student.save(tmp_path / bad if isinstance(bad, str) else bad)
    with pytest.raises(errors.TreespecError, match="a directory to write to"):
        student.to_c(tmp_path / "file" if isinstance(bad, str) else bad)


def test_inputs_of_a_net_are_fitted_without_the_number_that_means_missing():
    from treespec.distill.columns import fit_columns

    xgboost = pytest.importorskip("xgboost")
    rows = np.where(np.random.default_rng(0).random(X.shape) < 0.2, -999.0, X)
    w = treespec.wrap(xgboost.XGBRegressor(n_estimators=4, missing=-999.0, n_jobs=1).fit(rows, y))
    column = fit_columns(w.forest, rows, 10_000).columns[2]
    assert column.indicator
    assert abs(column.fill) < 1
