"""The curve: a point for each budget, in order, with its student; what fits nowhere is told; the picture shows what the table says."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.datasets import load_diabetes
from sklearn.ensemble import GradientBoostingRegressor

import treespec
from treespec.errors import BudgetError, TreespecError

X, Y = load_diabetes(return_X_y=True)


@pytest.fixture(scope="module")
def wrapped():
    return treespec.wrap(GradientBoostingRegressor(n_estimators=20, random_state=0).fit(X[:300], Y[:300]), X[:300], Y[:300])


def test_a_point_for_each_budget(wrapped):
    curve = wrapped.pareto(["2KB", 5, 600], compressor="packed", holdout=(X[300:], Y[300:]))
    assert [p.budget for p in curve.points] == [5, 600, 2000]
    nothing, small, exact = curve.points
    assert nothing.student is None and nothing.score is None and "at least" in nothing.chosen
    assert 0 < small.n_bytes <= 600 < exact.n_bytes <= 2000 and small.chosen == "packed"
    rest = Y[300:] - exact.student.predict(X[300:])
    assert exact.score == pytest.approx(1 - (rest**2).mean() / Y[300:].var()) == pytest.approx(exact.teacher_score)
    assert exact.fidelity == 1 > small.fidelity and "holdout" in exact.rows
    frame = curve.to_frame()
    assert list(frame["n_bytes"]) == [0, small.n_bytes, exact.n_bytes] and "student" not in frame
    assert f"{small.score:.4f}" in str(curve) and "R2 on" in str(curve)


def test_the_picture_shows_the_students_and_the_model(wrapped):
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    curve = wrapped.pareto([5, 600, 2000], compressor="packed", holdout=(X[300:], Y[300:]))
    ax = curve.plot()
    line, own = ax.get_lines()
    np.testing.assert_array_equal(line.get_xdata(), [p.n_bytes for p in curve.points[1:]])
    np.testing.assert_array_equal(line.get_ydata(), [p.score for p in curve.points[1:]])
    assert own.get_ydata()[0] == curve.points[2].teacher_score and ax.get_ylabel() == "R2"
    assert [t.get_text() for t in ax.texts] == ["packed", "packed"]
    plt.close("all")
    faithful = wrapped.pareto([600, 2000], compressor="packed", objective="fidelity")
    ax = faithful.plot()
    assert ax.get_ylabel() == "fidelity to the model" and len(ax.get_lines()) == 1
    plt.close("all")


def test_the_report_draws_its_race(wrapped):
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    raced = ({"compressor": "a", "loss": 0.3}, {"compressor": "b", "loss": 0.1}, {"compressor": "c", "refused": "too small"})
    report = replace(wrapped.distill(600, compressor="leaf-refit").report, candidates=raced, chosen="b")
    ax = report.plot()
    assert [t.get_text() for t in ax.get_yticklabels()] == ["a", "b (chosen)"]
    assert [bar.get_width() for bar in ax.patches] == [0.3, 0.1]
    own = wrapped.distill(600, compressor="leaf-refit").report
    labels = [t.get_text() for t in own.plot().get_yticklabels()]
    assert len(labels) == len(own.candidates) and labels[-1].endswith("(chosen)") and "alpha" in labels[-1]
    plt.close("all")


@pytest.mark.parametrize(("budgets", "error"), [("10KB", TreespecError), ([], TreespecError), (["ten"], BudgetError)])
def test_what_is_no_list_of_budgets_is_refused(wrapped, budgets, error):
    with pytest.raises(error):
        wrapped.pareto(budgets)
