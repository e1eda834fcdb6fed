"""Models that predict something else than the mean of the labels: the teacher alone tells what is wanted."""

import numpy as np
import pytest
from sklearn.ensemble import GradientBoostingRegressor, HistGradientBoostingRegressor

import treespec
from treespec.errors import DataNeededError

pytest.importorskip("torch")

rng = np.random.default_rng(0)
X = rng.normal(size=(1500, 2))
y = X[:, 0] + rng.exponential(2, size=1500)


@pytest.mark.parametrize("compressor", ["mlp", "scate"])
def test_a_quantile_stays_a_quantile(compressor):
    model = HistGradientBoostingRegressor(loss="quantile", quantile=0.9, max_iter=60, min_samples_leaf=40, random_state=0).fit(X, y)
    student = treespec.wrap(model, X, y).distill("2KB", compressor=compressor)
    assert abs((y <= student.predict(X)).mean() - (y <= model.predict(X)).mean()) < 0.06  # the mean: 0.64
    assert student.report.objective == "fidelity"
    assert not any(s.metric == "R2" for s in student.report.scores)


@pytest.mark.parametrize("loss", ["absolute_error", "huber"])
def test_a_robust_location_is_not_pulled_by_outliers(loss):
    far = np.where(rng.random(1500) < 0.05, 500.0, X[:, 0])
    model = GradientBoostingRegressor(loss=loss, n_estimators=50, random_state=0).fit(X, far)
    student = treespec.wrap(model, X, far).distill("1KB", compressor="mlp")
    assert np.median(np.abs(student.predict(X) - X[:, 0])) < 1  # the mean is 25 too large


def test_to_learn_from_labels_anyway_is_refused():
    w = treespec.wrap(GradientBoostingRegressor(loss="quantile", n_estimators=5).fit(X, y), X, y)
    with pytest.raises(DataNeededError, match="loss 'quantile'"):
        w.distill("1KB", compressor="mlp", objective="accuracy")
