"""Compressor ``packed``: lossless where it fits, rounded where not, and an error that names the smallest budget."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_diabetes, load_iris
from sklearn.ensemble import GradientBoostingRegressor, RandomForestClassifier

import strategies
import treespec
from treespec.distill.packed import packed
from treespec.errors import BudgetError
from treespec.students.outcome import Outcome
from treespec.students.packed import PackedStudent
from treespec.students.packed_format import pack

X, Y = load_diabetes(return_X_y=True)


@pytest.fixture(scope="module")
def wrapped():
    return treespec.wrap(GradientBoostingRegressor(n_estimators=30, random_state=0).fit(X, Y), X, Y)


class Bare:
    """A teacher that is its forest."""

    def __init__(self, forest):
        self.forest = forest


def distil(forest, budget, **options):
    return packed(Bare(forest), budget, data=None, random_state=0, progress=None, **options)


def test_lossless_where_it_fits(wrapped):
    student = wrapped.distill("20KB", compressor="packed")
    np.testing.assert_array_equal(student.margin(X), wrapped.margin(X))
    assert student.is_exact and student.report.settings["chosen"] == {"leaves": "exact"}
    assert student.report.fidelity == 1


def test_as_many_bits_as_fit(wrapped):
    exact, size = len(pack(wrapped.forest)), [len(pack(wrapped.forest, b)) for b in range(1, 17)]
    errors = []
    for bits in (3, 5, 8, 12):
        student = wrapped.distill(size[bits] - 1, compressor="packed")  # one byte short of one bit more
        assert student.leaf_bits == bits and student.n_bytes <= size[bits] - 1 < exact
        errors.append(np.abs(student.margin(X) - wrapped.margin(X)).max())
    assert errors == sorted(errors, reverse=True) and errors[-1] < 0.1 < errors[0]
    assert wrapped.distill("20KB", compressor="packed", leaf_bits=4).leaf_bits == 4


def test_rows_make_rounding_better_on_rows_like_them(wrapped):
    plain = PackedStudent.of(wrapped.forest, 4)
    student = wrapped.distill("20KB", compressor="packed", leaf_bits=4)
    assert abs(student.n_bytes - plain.n_bytes) <= 30
    new = X + np.random.default_rng(0).normal(scale=0.002, size=X.shape)
    for rows in (X, new):
        error, before = (np.sqrt(np.mean((s.margin(rows) - wrapped.margin(rows)) ** 2)) for s in (student, plain))
        assert error < 0.8 * before
    assert wrapped.distill("20KB", compressor="packed", leaf_bits=4).payload() == student.payload()


@pytest.mark.parametrize("options", [{"n_outputs": 3, "by_output": True}, {"n_outputs": 2, "aggregation": "mean"}, {"n_outputs": 1}])
def test_errors_are_fed_to_the_outputs_that_trees_add_to(options):
    rng = np.random.default_rng(0)
    forest = strategies.grow(rng, n_trees=30, max_depth=4, split=0.9, **options)
    rows = strategies.rows(rng, forest, 400)
    students = [PackedStudent(pack(forest, 3, leaf_id=leaf_id), Outcome.of(forest)) for leaf_id in (None, forest.apply(rows))]
    plain, fed = (np.sqrt(np.mean((s.margin(rows) - forest.margin(rows)) ** 2)) for s in students)
    assert fed < 0.8 * plain


def test_a_budget_too_small_names_the_smallest(wrapped):
    with pytest.raises(BudgetError, match="own trees") as caught:
        wrapped.distill(500, compressor="packed")
    smallest = caught.value.smallest
    assert abs(smallest - len(pack(wrapped.forest, 3))) <= 30  # codes of steps differ
    assert wrapped.distill(smallest, compressor="packed").n_bytes == smallest
    with pytest.raises(BudgetError):
        wrapped.distill(smallest - 1, compressor="packed")


def test_forests_of_classes_round_to_a_shared_grid():
    X, y = load_iris(return_X_y=True)
    w = treespec.wrap(RandomForestClassifier(40, min_samples_leaf=3, random_state=0).fit(X, y), X, y)
    exact = len(pack(w.forest))
    student = w.distill(exact - 30, compressor="packed")
    assert student.report.settings["chosen"] == {"leaves": "a table of rounded values"}
    assert student.n_bytes <= exact - 30
    assert np.abs(student.predict_proba(X) - w.predict_proba(X)).max() < 0.02


def test_classes_of_several_targets():
    X, y = load_iris(return_X_y=True)
    labels = np.column_stack([y, y > 1])
    model = RandomForestClassifier(5, max_depth=3, random_state=0).fit(X, labels)
    student = treespec.wrap(model, X, labels).distill("10KB", compressor="packed")
    np.testing.assert_array_equal(student.predict(X), model.predict(X))
    for ours, theirs in zip(student.predict_proba(X), model.predict_proba(X), strict=True):
        np.testing.assert_allclose(ours, theirs)
    assert student.report.fidelity == 1
    accuracy = next(s.value for s in student.report.scores if s.metric == "accuracy")
    assert 0.9 < accuracy <= 1


@settings(deadline=None, max_examples=60)
@given(forest=strategies.forests(max_outputs=3), share=st.floats(0.05, 1.3))
def test_any_forest_any_budget(forest, share):
    budget = max(1, int(len(pack(forest)) * share))
    student, smallest = distil_or_smallest(forest, budget)
    if student is None:
        assert smallest > budget
        student, _ = distil_or_smallest(forest, smallest)
        assert student is not None and student.n_bytes <= smallest
    else:
        assert student.n_bytes <= budget


def distil_or_smallest(forest, budget):
    try:
        return distil(forest, budget), None
    except BudgetError as error:
        return None, error.smallest


def test_auto_does_not_judge_rounded_trees_by_rows_that_they_were_fitted_on(wrapped):
    student = wrapped.distill(2000, compressor="packed")
    assert not student.is_exact
    raced = treespec.distill.auto.auto(
        wrapped, 2000, data=treespec.distill.run.make_data(wrapped, wrapped.rows, "auto", 0), random_state=0, progress=None,
        compressors={"packed": packed, "other": lambda *a, **k: _worse(packed(*a, **k))},
    ).report  # fmt: skip
    assert raced["compressor"] == "other"


def _worse(student):
    student.report = {"validation_margin": student.report["validation_margin"] * 0}
    return student
