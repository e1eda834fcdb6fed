"""Table 7 of the paper, three regimes on scikit-learn's diabetes, to the printed digits (and those that math.md adds)."""

import numpy as np
import pytest
from sklearn.datasets import load_diabetes
from sklearn.ensemble import RandomForestRegressor

from kpp.problems import adapt, learner, rows_of, weight
from treespec.kpp.capacity import capacity
from treespec.kpp.fit import fit
from treespec.kpp.honest import cross_fit, honest
from treespec.kpp.partition import Partition
from treespec.kpp.refit import refitter
from treespec.kpp.targets import Targets

ALPHA = 0.4329
SETTINGS = {"weights": weight("impurity-decrease"), "learner": learner("ridge"), "alpha": ALPHA}


@pytest.fixture(scope="module")
def table():
    X, y = load_diabetes(return_X_y=True)
    model = RandomForestRegressor(30, max_depth=6, random_state=0)
    return X, y, model


def rmse(a, b):
    return np.sqrt(np.mean((a - b) ** 2))


def ig_var(forest, X, y):
    part = Partition.of(forest, forest.apply(X), Targets.of(forest, y))
    total = part.root_level(part.variance)
    np.testing.assert_allclose(total - part.leaf_risk(part.variance), part.gain(part.variance_decrease), rtol=1e-10)
    return part.gain(part.variance_decrease)


def test_fixed(table):
    X, y, model = table
    forest = adapt(model.fit(X, y))
    k = fit([(forest, rows_of(forest, X, y))], **SETTINGS)
    c = capacity(k.features, ALPHA)
    assert f"{rmse(y, k.predict(X)):.4f}" == "45.3974"
    assert f"{c.trace / 442:.5f}" == "0.14309"
    assert f"{c.effective_dimension / 442:.5f}" == "0.07303"
    assert f"{c.mu_min:.3e}" == "3.676e-05"
    assert f"{k.norm:.2f}" == "727.35"
    assert f"{ig_var(forest, X, y):.2f}" == "3609.17"
    assert k.regime.labels_used_twice


def test_honest(table):
    X, y, model = table
    k = honest(refitter(model, adapt), X, y, settings=SETTINGS)
    c = capacity(k.representation.features(X), ALPHA)
    assert f"{rmse(y, k.predict(X)):.2f}" == "53.26"
    assert f"{c.trace / 442:.5f}" == "0.19457"
    assert f"{c.effective_dimension / 442:.5f}" == "0.07947"
    assert f"{c.mu_min:.3e}" == "4.806e-05"
    assert f"{k.norm:.1f}" == "505.7"
    assert f"{ig_var(k.representation.forests[0], X, y):.2f}" == "3029.02"
    assert k.targets.n_rows == 221 and k.regime.name == "honest" and not k.regime.labels_used_twice


def test_cross_fit(table):
    X, y, model = table
    k = cross_fit(refitter(model, adapt), X, y, settings=SETTINGS)
    assert f"{rmse(y, k.predict_train()):.4f}" == "57.3278"  # the paper prints 57.33
    assert f"{rmse(y, k.predict(X)):.2f}" == "46.72"
    traces = [capacity(m.representation.features(X), ALPHA).trace / 442 for m in k.models]
    assert f"{np.mean(traces):.4f}" == "0.1614"
    assert f"{k.norm.mean():.2f} +- {k.norm.std():.2f}" == "662.67 +- 4.56"
    assert k.regime.name == "cross-fit"
