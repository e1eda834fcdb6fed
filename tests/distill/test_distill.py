"""Distillation end to end, on small models: every task, every budget, with and without data, the same bytes twice."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import random as sparse_random
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris
from sklearn.ensemble import GradientBoostingClassifier, HistGradientBoostingRegressor, RandomForestClassifier, RandomForestRegressor
from sklearn.metrics import r2_score

import treespec
from treespec.errors import BudgetError, DataMismatchError, DataNeededError, TreespecError, UnsupportedModelError

pytest.importorskip("torch")

DIABETES, CANCER, IRIS = (load(return_X_y=True) for load in (load_diabetes, load_breast_cancer, load_iris))
QUICK = {"mlp": {"steps": 30}, "scate": {"max_steps": 60}}


@pytest.fixture(scope="module")
def wrapped():
    return {
        "regression": treespec.wrap(RandomForestRegressor(8, max_depth=5, random_state=0).fit(*DIABETES), *DIABETES),
        "binary": treespec.wrap(GradientBoostingClassifier(n_estimators=8, random_state=0).fit(*CANCER), *CANCER),
        "three classes": treespec.wrap(RandomForestClassifier(8, max_depth=5, random_state=0).fit(*IRIS), *IRIS),
    }


@pytest.mark.parametrize("compressor", ["mlp", "scate"])
@pytest.mark.parametrize("task", ["regression", "binary", "three classes"])
def test_every_budget_is_kept_and_files_are_exact(wrapped, compressor, task, tmp_path):
    w = wrapped[task]
    X = {"regression": DIABETES, "binary": CANCER, "three classes": IRIS}[task][0]

    @given(st.floats(np.log(500), np.log(1e6)))
    @settings(max_examples=6, deadline=None)
    def check(log_budget):
        budget = round(np.exp(log_budget))
        student = w.distill(budget, compressor=compressor, **QUICK[compressor])
        assert student.n_bytes <= budget
        assert student.n_bytes == len(student.payload())
        student.save(tmp_path / "s.tsp")
        loaded = treespec.load_student(tmp_path / "s.tsp")
        np.testing.assert_array_equal(loaded.predict(X), student.predict(X))
        np.testing.assert_array_equal(loaded.margin(X), student.margin(X))
        assert loaded.n_bytes == student.n_bytes

    check()


@pytest.mark.parametrize("compressor", ["mlp", "scate", "auto"])
def test_an_impossible_budget_names_the_smallest_and_that_one_works(wrapped, compressor):
    w = wrapped["binary"]
    with pytest.raises(BudgetError, match="smallest") as caught:
        w.distill(12, compressor=compressor)
    smallest = caught.value.smallest
    assert w.distill(smallest, compressor=compressor, **QUICK.get(compressor, {})).n_bytes <= smallest
    with pytest.raises(BudgetError):
        w.distill(smallest - 1, compressor=compressor, **QUICK.get(compressor, {}))


@pytest.mark.parametrize("compressor", ["mlp", "scate"])
def test_the_same_call_gives_the_same_bytes_and_another_seed_others(wrapped, compressor):
    calls = [
        wrapped["regression"].distill("2KB", compressor=compressor, random_state=seed, **QUICK[compressor]).payload() for seed in (1, 1, 2)
    ]
    assert calls[0] == calls[1]
    assert calls[0] != calls[2]


def test_a_student_learns_what_the_forest_knows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1500, 4))
    y = X[:, 0] * X[:, 1] + np.sin(2 * X[:, 2])
    w = treespec.wrap(RandomForestRegressor(30, min_samples_leaf=3, random_state=0).fit(X[:1000], y[:1000]), X[:1000], y[:1000])
    for compressor in ("mlp", "scate"):
        student = w.distill("5KB", compressor=compressor)
        assert r2_score(y[1000:], student.predict(X[1000:])) > 0.6, compressor


def test_classes_and_probabilities_are_the_teachers(wrapped):
    student = wrapped["three classes"].distill("3KB", compressor="mlp")
    X, y = IRIS
    assert (student.predict(X) == y).mean() > 0.9
    p = student.predict_proba(X)
    assert p.shape == (150, 3)
    np.testing.assert_allclose(p.sum(axis=1), 1)
    np.testing.assert_allclose(student.margin(X), p)  # a forest's margin is its probabilities
    binary = wrapped["binary"].distill("3KB", compressor="mlp")
    assert binary.margin(CANCER[0]).shape == (569,)
    np.testing.assert_array_equal(binary.margin(CANCER[0]) > 0, binary.predict(CANCER[0]) == 1)


def test_text_labels():
    X, y = CANCER
    names = np.array(["malign", "benign"])[y]
    student = treespec.wrap(RandomForestClassifier(5, max_depth=4, random_state=0).fit(X, names), X, names).distill("3KB", compressor="mlp")
    assert set(student.predict(X)) == {"malign", "benign"}
    assert (student.predict(X) == names).mean() > 0.9


def test_missing_values_and_categories_are_the_students_own_affair(tmp_path):
    rng = np.random.default_rng(0)
    n = 600
    frame = pd.DataFrame({"x": rng.normal(size=n), "c": pd.Categorical(rng.choice(["a", "b", "c", "d"], n)), "z": rng.normal(size=n)})
    y = np.where(frame["c"].isin(["a", "d"]), 2.0, -2.0) + frame["x"].to_numpy()
    frame.loc[rng.random(n) < 0.2, "x"] = np.nan
    frame.loc[rng.random(n) < 0.1, "c"] = None
    y = y + np.where(frame["x"].isna(), 1.5, 0)
    w = treespec.wrap(HistGradientBoostingRegressor(max_iter=40, categorical_features="from_dtype", random_state=0).fit(frame, y), frame, y)
    student = w.distill("4KB", compressor="mlp")
    assert r2_score(y, student.predict(frame)) > 0.8
    student.save(tmp_path / "s.tsp")
    shuffled = frame[["z", "c", "x"]].assign(c=frame["c"].cat.set_categories(["d", "a", "new", "c", "b"]))
    np.testing.assert_array_equal(treespec.load_student(tmp_path / "s.tsp").predict(shuffled), student.predict(frame))
    assert b"d" in student.payload()  # the category map is among the bytes that count
    with pytest.raises(DataMismatchError, match="'z'"):
        student.predict(frame.assign(z=np.nan))


def test_without_data(wrapped):
    model = RandomForestRegressor(20, min_samples_leaf=5, random_state=0).fit(*DIABETES)
    student = treespec.wrap(model).distill("3KB", compressor="mlp")
    assert r2_score(model.predict(DIABETES[0]), student.predict(DIABETES[0])) > 0.5
    assert "drawn from the forest" in str(student.report)
    assert student.report.objective == "fidelity"
    assert not any(s.metric == "R2" for s in student.report.scores)  # there are no labels to score by


def test_fidelity_looks_at_the_teacher_only(wrapped):
    student = wrapped["regression"].distill("3KB", compressor="mlp", objective="fidelity", steps=60)
    assert [s.metric for s in student.report.scores] == ["R2 to the teacher"]
    other = treespec.wrap(
        RandomForestRegressor(8, max_depth=5, random_state=0).fit(*DIABETES), DIABETES[0], np.random.default_rng(0).permutation(DIABETES[1])
    )
    assert other.distill("3KB", compressor="mlp", objective="fidelity", steps=60).payload() == student.payload()


def test_auto_takes_the_best_on_the_validation_rows_and_says_what_it_tried(wrapped):
    student = wrapped["regression"].distill("2KB")
    raced = {c["compressor"]: c for c in student.report.candidates if "loss" in c}
    assert {"mlp", "scate"} <= set(raced)
    most = max(c.get("folds", 0) for c in raced.values())
    judged = {name: c["loss on folds"] if most else c["loss"] for name, c in raced.items() if c.get("folds", 0) == most}
    assert student.report.chosen == min(judged, key=judged.get)


def test_the_report_says_who_was_fitted_on_what(wrapped):
    w = wrapped["regression"]
    inside = w.distill("2KB", compressor="mlp", steps=40).report
    assert inside.teacher_rows == "yes"
    assert "in-sample" in str(inside)
    rng = np.random.default_rng(0)
    X = rng.permuted(DIABETES[0], axis=0)
    outside = w.distill("2KB", X, DIABETES[1], compressor="mlp", steps=40, holdout=(DIABETES[0][:50], DIABETES[1][:50])).report
    assert outside.teacher_rows == "not on these alone"
    assert any("cannot be told" in s.rows for s in outside.scores)
    part = w.distill("2KB", DIABETES[0][:200], DIABETES[1][:200], compressor="mlp", steps=40).report
    assert "not fitted on them" not in str(part)
    assert sum("holdout" in s.rows for s in outside.scores) == 2
    assert list(inside.to_frame()["model"]) == ["teacher", "student", "student"]
    assert 0 <= inside.fidelity <= 1
    loaded = treespec.students.file.loads(w.distill("2KB", compressor="mlp", steps=40).to_bytes())
    assert loaded.report["teacher_rows"] == "yes"


def test_progress_is_told(wrapped):
    seen = []
    wrapped["regression"].distill("2KB", compressor="mlp", steps=30, progress=lambda what, share: seen.append((what, share)))
    assert [share for _, share in seen] == sorted(share for _, share in seen)
    assert all(0 <= share <= 1 for _, share in seen)


def test_sample_weights_count():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 1))
    y = np.where(np.arange(400) % 2, 1.0, -1.0)
    weight = np.where(np.arange(400) % 2, 1.0, 0.01)
    w = treespec.wrap(
        RandomForestRegressor(5, min_samples_leaf=20, random_state=0).fit(X, y, sample_weight=weight), X, y, sample_weight=weight
    )
    assert w.distill("1KB", compressor="mlp").predict(X).mean() > 0.7


BAD = [
    ({"budget": "ten"}, BudgetError, "10KiB"),
    ({"budget": "1KB", "compressor": "zip"}, TreespecError, "a compressor of"),
    ({"budget": "1KB", "objective": "speed"}, TreespecError, "'accuracy' or 'fidelity'"),
    ({"budget": "1KB", "random_state": -1}, TreespecError, "random_state"),
    ({"budget": "1KB", "y": DIABETES[1]}, DataNeededError, "y alone"),
    ({"budget": "1KB", "X": DIABETES[0], "y": DIABETES[1][:5]}, DataMismatchError, "442 labels"),
    ({"budget": "1KB", "X": DIABETES[0][:, :2]}, DataMismatchError, "10 columns"),
    ({"budget": "1KB", "X": DIABETES[0][:0]}, DataMismatchError, "at least one row"),
    ({"budget": "1KB", "X": DIABETES[0], "objective": "accuracy"}, DataNeededError, "labels"),
    ({"budget": "1KB", "compressor": ["mlp"]}, TreespecError, "a compressor of"),
    ({"budget": "1KB", "random_state": True}, TreespecError, "random_state"),
    ({"budget": "1KB", "random_state": 2**40}, TreespecError, "random_state"),
    ({"budget": "1KB", "progress": True}, TreespecError, "progress to be a function"),
    (
        {"budget": "1KB", "compressor": "mlp", "step": 3},
        TreespecError,
        r"options of the compressor 'mlp' \(precision, steps\), but got 'step'",
    ),
    ({"budget": "1KB", "steps": 3}, TreespecError, r"'auto' \(time_limit\)"),
    ({"budget": "1KB", "sample_weight": np.ones(442)}, DataNeededError, "sample_weight alone"),
    ({"budget": "1KB", "holdout": DIABETES[0]}, DataMismatchError, r"two things, \(X, y\)"),
    ({"budget": "1KB", "holdout": (DIABETES[0][:, :3], DIABETES[1])}, DataMismatchError, "10 columns"),
]


@pytest.mark.parametrize(("arguments", "error", "message"), BAD)
def test_bad_calls_say_what_to_do(wrapped, arguments, error, message):
    with pytest.raises(error, match=message) as caught:
        wrapped["regression"].distill(**arguments)
    assert "Hint:" in str(caught.value)


def test_a_student_of_xgboost_takes_absent_entries_as_missing():
    xgboost = pytest.importorskip("xgboost")
    X = sparse_random(200, 3, 0.5, random_state=0, format="csr")
    dense = X.toarray()
    dense[dense == 0] = np.nan
    y = np.where(np.isnan(dense[:, 0]), 3.0, dense[:, 0])
    student = treespec.wrap(xgboost.XGBRegressor(n_estimators=5, max_depth=3).fit(X, y), X, y).distill("2KB", compressor="mlp")
    np.testing.assert_array_equal(student.predict(X), student.predict(dense))
    assert np.corrcoef(student.predict(dense), y)[0, 1] > 0.9


@pytest.mark.parametrize("compressor", ["mlp", "boosted"])
@pytest.mark.parametrize("data", [True, False])
def test_raw_scores_that_pass_for_probabilities(compressor, data):
    xgboost = pytest.importorskip("xgboost")
    X, y = load_breast_cancer(return_X_y=True)
    model = xgboost.XGBClassifier(n_estimators=10, max_depth=3, objective="binary:logitraw").fit(X, y)
    w = treespec.wrap(model, X, y) if data else treespec.wrap(model, X)
    student = w.distill("2KB", compressor=compressor)
    assert (student.predict(X) == model.predict(X)).mean() > 0.9


def test_several_targets():
    X, y = DIABETES
    Y = np.column_stack([y, -2 * y + 5])
    student = treespec.wrap(RandomForestRegressor(8, max_depth=4, random_state=0).fit(X, Y), X, Y).distill("3KB", compressor="mlp")
    assert student.predict(X).shape == (442, 2)
    np.testing.assert_array_less(np.corrcoef(student.predict(X).T)[0, 1], -0.9)
    labels = np.column_stack([y > 140, y > 200])
    w = treespec.wrap(RandomForestClassifier(5, max_depth=3, random_state=0).fit(X, labels), X, labels)
    with pytest.raises(UnsupportedModelError, match="a model for each target"):
        w.distill("3KB", compressor="mlp")
