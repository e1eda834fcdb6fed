"""The race: who judges the model's own trees, the time limit, and that nothing is worse than plain SCATE."""

from functools import partial

import numpy as np
import pytest
from sklearn.datasets import load_diabetes, load_iris
from sklearn.ensemble import GradientBoostingRegressor, RandomForestClassifier, RandomForestRegressor

import treespec
from treespec.distill.auto import auto
from treespec.distill.folds import FOLDS, folds
from treespec.distill.packed import packed
from treespec.distill.problem import pose
from treespec.distill.pruners import leaf_refit
from treespec.distill.run import make_data
from treespec.distill.scate import find_directions, scate
from treespec.distill.unseen import grow_sibling, unseen
from treespec.errors import BudgetError
from treespec.plugins import manager

X, Y = load_diabetes(return_X_y=True)


@pytest.fixture(scope="module")
def wrapped():
    return treespec.wrap(GradientBoostingRegressor(n_estimators=10, max_depth=3, random_state=0).fit(X, Y), X, Y)


def data_of(w, objective="auto", adapt=None):
    return make_data(w, w.rows, objective, 0, adapt)


class Fake:
    """A student of given margins on the validation rows."""

    n_bytes = 10

    def __init__(self, margin, says=None, **report):
        self.report = {"validation_margin": margin} | report
        self.margin = says


def knowing(noise, elsewhere, seed):
    """A compressor that knows the validation rows' labels within ``noise`` standard deviations, those of other rows within ``elsewhere``."""

    def compressor(teacher, budget, *, data, random_state, progress):
        rng = np.random.default_rng([seed, len(data.fit)])
        wanted = np.asarray(data.rows.y[data.validation], float)
        truth = {row.tobytes(): label for row, label in zip(X, Y, strict=True)}

        def says(rows):
            return np.array([truth[row.tobytes()] for row in rows]) + elsewhere * Y.std() * rng.normal(size=len(rows))

        return Fake((wanted + noise * Y.std() * rng.normal(size=len(wanted)))[:, None], says)

    return compressor


def faked(noise):
    """A compressor whose student misses the labels of the validation rows by so many standard deviations."""

    def compressor(teacher, budget, *, data, random_state, progress):
        wanted = np.asarray(data.rows.y[data.validation], float)
        return Fake((wanted + noise * Y.std() * np.random.default_rng(0).normal(size=len(wanted)))[:, None])

    return compressor


def race(w, compressors, budget=10_000, **options):
    adapt = options.pop("adapt", None)
    data = data_of(w, options.pop("objective", "auto"), adapt)
    return auto(w, budget, data=data, random_state=0, progress=None, compressors=compressors, **options)


def test_the_model_itself_is_taken_where_nothing_can_judge_it_by_labels(wrapped):
    assert race(wrapped, {"packed": packed, "perfect": faked(0.0)}).report["compressor"] == "packed"
    assert race(wrapped, {"packed": packed, "perfect": faked(0.0)}, objective="fidelity").report["compressor"] == "packed"


def test_the_model_itself_is_judged_by_its_like_that_has_not_seen_the_rows(wrapped):
    options = {"adapt": manager().adapt}
    student = race(wrapped, {"packed": packed, "perfect": faked(0.0)}, **options)
    assert student.report["compressor"] == "perfect"
    assert race(wrapped, {"packed": packed, "awful": faked(3.0)}, **options).report["compressor"] == "packed"
    loss = {e["compressor"]: e["loss"] for e in student.report["raced"]}["packed"]
    data = data_of(wrapped)
    like = GradientBoostingRegressor(n_estimators=10, max_depth=3, random_state=0).fit(X[data.fit], Y[data.fit])
    rest = Y[data.validation] - like.predict(X[data.validation])
    assert loss == pytest.approx((rest**2).mean() / Y[data.validation].var())
    seen = Y[data.validation] - wrapped.predict(X[data.validation])
    assert loss > 1.1 * (seen**2).mean() / Y[data.validation].var()  # what the model itself says of rows that it knows flatters it
    assert race(wrapped, {"packed": packed, "perfect": faked(0.0)}, objective="fidelity", **options).report["compressor"] == "packed"


def test_distil_uses_it_and_the_report_is_that_of_the_model():
    w = treespec.wrap(RandomForestRegressor(10, max_depth=3, random_state=0).fit(X, Y), X, Y)
    report = w.distill("10KB", compressor="packed").report
    assert report.fidelity == 1 and "fair_margin" not in report.settings  # scores are those of the student, not of its like


def test_no_further_candidate_is_started_after_the_time_limit(wrapped, monkeypatch):
    clock = iter(range(0, 1000, 10))
    monkeypatch.setattr("treespec.distill.auto.time.perf_counter", lambda: float(next(clock)))
    names = {"zebra": faked(0.1), "scate": faked(0.5), "mlp": faked(0.2), "boosted": faked(0.3)}
    report = race(wrapped, names, time_limit=45.0).report
    refused = {e["compressor"]: e["refused"] for e in report["raced"] if "refused" in e}
    assert list(refused) == ["boosted", "zebra"] and all("45 s" in why for why in refused.values())
    assert report["compressor"] == "mlp"
    assert race(wrapped, names, time_limit=0.0).report["compressor"] == "scate"  # it is always raced


def test_rows_that_nobody_has_seen_settle_what_validation_rows_cannot(wrapped):
    rivals = {"flattered": knowing(0.5, 1.0, 5), "honest": knowing(0.52, 0.5, 12), "clearly worse": knowing(2.0, 0.0, 3)}
    report = race(wrapped, rivals, adapt=manager().adapt).report
    raced = {e["compressor"]: e for e in report["raced"]}
    assert report["compressor"] == "honest" and raced["flattered"]["loss"] < raced["honest"]["loss"]
    assert raced["honest"]["folds"] == raced["flattered"]["folds"] == 1  # after which the difference is clear
    assert 0.2 < raced["honest"]["loss on folds"] < 0.3 and "folds" not in raced["clearly worse"]
    even = {"first": knowing(0.5, 0.5, 1), "second": knowing(0.5, 0.5, 2)}
    assert {e["folds"] for e in race(wrapped, even, adapt=manager().adapt).report["raced"]} == {FOLDS}
    assert race(wrapped, rivals).report["compressor"] == "flattered"  # without the like of a model nobody can judge fairly


def test_a_fold_that_time_ran_out_in_does_not_count(wrapped, monkeypatch):
    rivals = {"flattered": knowing(0.5, 1.0, 5), "honest": knowing(0.52, 0.5, 12)}
    for limit, best, n in ((7.5, "flattered", 0), (8.5, "honest", 1)):  # the clock is read once, three times a rival, once a rival and fold
        clock = iter(range(100))
        monkeypatch.setattr("treespec.distill.auto.time.perf_counter", lambda clock=clock: float(next(clock)))
        report = race(wrapped, rivals, adapt=manager().adapt, time_limit=limit).report
        assert report["compressor"] == best and {e.get("folds", 0) for e in report["raced"]} == {n}


def test_folds_leave_every_row_out_once_and_know_nothing_of_it():
    y = Y.copy()
    model = RandomForestRegressor(5, max_depth=4, random_state=0)
    data = data_of(treespec.wrap(model.fit(X, y), X, y), adapt=manager().adapt)
    first = list(folds(treespec.wrap(model, X, y), data, 0))
    np.testing.assert_array_equal(np.sort(np.concatenate([f.left_out for f in first])), np.arange(len(X)))
    np.testing.assert_array_equal(first[0].left_out, data.validation)
    for k, fold in enumerate(first):
        other = y.copy()
        other[fold.left_out] = 1e6
        again = list(folds(treespec.wrap(model, X, y), data_of(treespec.wrap(model, X, other), adapt=manager().adapt), 0))[k]
        assert again.teacher.forest.equals(fold.teacher.forest) and again.data.sibling.equals(fold.data.sibling)
        np.testing.assert_array_equal(again.data.margin, fold.data.margin)
        np.testing.assert_array_equal(again.data.rows.y, fold.data.rows.y)
        np.testing.assert_array_equal(np.sort(np.concatenate([fold.data.fit, fold.data.validation])), np.arange(len(fold.data.margin)))
        kept = data.fit if k == 0 else np.setdiff1d(np.arange(len(X)), fold.left_out)
        np.testing.assert_array_equal(fold.data.rows.X, X[kept])
        like = treespec.wrap(RandomForestRegressor(5, max_depth=4, random_state=0).fit(X[kept], y[kept])).forest
        assert fold.teacher.forest.equals(like)


def test_folds_of_a_model_that_has_not_seen_the_rows_are_its_own():
    w = treespec.wrap(RandomForestRegressor(5, max_depth=4, random_state=0).fit(X[:300], Y[:300]), X[300:], Y[300:])
    found = list(folds(w, data_of(w), 0))
    assert len(found) == FOLDS and all(f.teacher is w for f in found)
    iris, labels = load_iris(return_X_y=True)
    forest = treespec.wrap(RandomForestClassifier(3, random_state=0).fit(iris, labels), iris, labels)
    for fold in folds(forest, data_of(forest, adapt=manager().adapt), 0):
        assert np.ptp(np.bincount(labels[fold.left_out])) <= 2  # the classes in equal shares


def test_it_is_never_worse_than_scate(wrapped):
    small = {"scate": partial(scate, max_steps=150), "leaf-refit": leaf_refit}
    report = race(wrapped, small, budget=900, adapt=manager().adapt).report
    loss = {e["compressor"]: e.get("loss on folds", e["loss"]) for e in report["raced"]}
    assert set(loss) == set(small) and loss[report["compressor"]] == min(loss.values()) <= loss["scate"]


def test_all_refusals_name_the_smallest(wrapped):
    with pytest.raises(BudgetError) as caught:
        race(wrapped, {"packed": packed}, budget=20)
    assert caught.value.smallest == race(wrapped, {"packed": packed}, budget=caught.value.smallest).n_bytes


# ---- the like of a model


def test_a_sibling_is_grown_on_the_rows_to_fit_alone():
    y = Y.copy()
    model = RandomForestRegressor(5, max_depth=4, random_state=0)
    w = treespec.wrap(model.fit(X, y), X, y)
    data = data_of(w, adapt=manager().adapt)
    y[data.validation] = 1e6  # it must not matter
    other = treespec.wrap(model, X, y)
    changed = data_of(other, adapt=manager().adapt)
    first, second = unseen(w.forest, data), unseen(other.forest, changed)
    assert first[0].equals(second[0]) and first[0].n_trees == 5
    np.testing.assert_array_equal(first[1], first[0].apply(X))
    assert data.sibling is data.sibling  # grown once


def test_a_model_that_has_not_seen_the_rows_is_its_own_judge():
    w = treespec.wrap(RandomForestRegressor(5, max_depth=4, random_state=0).fit(X[:300], Y[:300]), X[300:], Y[300:])
    data = data_of(w, adapt=manager().adapt)
    assert unseen(w.forest, data)[0] is w.forest


def test_what_cannot_be_fitted_again_has_no_sibling():
    lightgbm = pytest.importorskip("lightgbm")
    booster = lightgbm.train({"verbose": -1, "min_data_in_leaf": 1, "num_leaves": 60}, lightgbm.Dataset(X, Y), 5)
    w = treespec.wrap(booster, X, Y)
    assert data_of(w, adapt=manager().adapt).sibling is None
    xgboost = pytest.importorskip("xgboost")
    stopped = xgboost.XGBRegressor(n_estimators=5, early_stopping_rounds=2).fit(X, Y, eval_set=[(X, Y)], verbose=False)
    assert data_of(treespec.wrap(stopped, X, Y), adapt=manager().adapt).sibling is None
    assert "in-sample loss" in str(race(w, {"leaf-refit": manager().registry("compressor")["leaf-refit"].function}, budget=500).report)
    iris, labels = load_iris(return_X_y=True)
    model = RandomForestClassifier(3, random_state=0).fit(iris, labels)
    rows = treespec.wrap(model, iris, labels).rows
    forest = treespec.wrap(model).forest
    assert grow_sibling(manager().adapt, forest, rows, np.flatnonzero(labels < 2), 0) is None  # a class is missing
    assert grow_sibling(manager().adapt, forest, rows, np.arange(0, 150, 2), 0).n_outputs == 3


def test_a_sibling_of_an_unseeded_model_is_seeded():
    w = treespec.wrap(RandomForestRegressor(3, max_depth=3, random_state=0).fit(X, Y), X, Y)
    w.rows.model.random_state = None
    a, b = (data_of(w, adapt=manager().adapt).sibling for _ in range(2))
    assert a.equals(b)


# ---- scate


def test_scate_does_not_mind_where_labels_begin():
    w = [treespec.wrap(RandomForestRegressor(8, max_depth=4, random_state=0).fit(X, Y + k), X, Y + k) for k in (0, 10_000)]
    students = [scate(v, 900, data=data_of(v), random_state=0, progress=None, max_steps=60) for v in w]
    low, high = students[0].predict(X), students[1].predict(X) - 10_000
    assert np.sqrt(np.mean((low - high) ** 2)) < 0.2 * Y.std()  # errors of the constant direction do not count 10,000 times


def test_scate_is_compared_without_the_labels_of_validation_rows():
    w = treespec.wrap(RandomForestRegressor(8, max_depth=4, random_state=0).fit(X, Y), X, Y)
    data = data_of(w)
    other = Y.copy()
    other[data.validation] += 500
    again = data_of(treespec.wrap(w.rows.model, X, other))
    np.testing.assert_array_equal(data.fit, again.fit)
    first, second = (find_directions(w.forest, d, pose(w.forest, d), 20, 0) for d in (data, again))
    np.testing.assert_allclose(first.compared, second.compared)
    assert np.abs(first.coefficients - second.coefficients).max() > 10
    assert 0.8 < np.linalg.norm(first.compared) / np.linalg.norm(first.coefficients) < 1.25  # on the scale of all rows
    margin = [scate(w, 900, data=d, random_state=0, progress=None, max_steps=60).report["validation_margin"].mean() for d in (data, again)]
    assert abs(margin[1] - margin[0]) < 60  # with the coefficients of all rows it would be a quarter of 500
