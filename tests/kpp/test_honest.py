"""Regimes keep labels apart, and alpha="auto" is not fooled by labels that grew the trees."""

import numpy as np
import pytest

from kpp.problems import learner, problem, rows_of, weight
from treespec.errors import DataNeededError
from treespec.kpp.fit import fit
from treespec.kpp.folds import folds
from treespec.kpp.honest import cross_fit, honest
from treespec.kpp.penalty_path import RIDGE_GRID, Path
from treespec.kpp.refit import refitter
from treespec.kpp.targets import Targets
from treespec.plugins import manager

adapt = manager().adapt


def settings(alpha, scheme="variance-decrease", name="ridge"):
    return {"weights": weight(scheme), "learner": learner(name), "alpha": alpha}


def test_honest_weights_come_from_the_rows_that_grew_the_trees():
    p = problem("diabetes")
    refit = refitter(p.model, adapt)
    k = honest(refit, p.X, p.y, settings=settings(1.0))
    m = k.representation.maps[0]
    from sklearn.model_selection import train_test_split

    grow, final = train_test_split(np.arange(len(p.y)), test_size=0.5, random_state=0)
    expected = weight("variance-decrease").function(m.forest, rows_of(m.forest, p.X[grow], p.y[grow]))
    np.testing.assert_array_equal(m.node_weight, expected)
    np.testing.assert_array_equal(k.targets.value[:, 0], p.y[final])


def test_honest_alpha_is_cross_validated_on_the_features_as_they_are():
    p = problem("binary")
    k = honest(refitter(p.model, adapt), p.X, p.y, settings=settings("auto", "uniform", "logistic"))
    assert k.info["alpha"]["method"] == "folds" and k.regime.name == "honest"
    assert k.predict(p.X).dtype.kind == "U"


def test_no_fold_sees_its_own_labels():
    """Held-out scores do not change when the labels of the fold do."""
    p = problem("diabetes")
    refit = refitter(p.model, adapt)
    first = cross_fit(refit, p.X, p.y, settings=settings(1.0), n_folds=3)
    fold = first.test[1]
    y = p.y.copy()
    y[fold] = -1000.0
    second = cross_fit(refit, p.X, y, settings=settings(1.0), n_folds=3)
    np.testing.assert_array_equal(first.held_out[fold], second.held_out[fold])
    assert not np.array_equal(first.held_out[first.test[0]], second.held_out[first.test[0]])
    assert sorted(np.concatenate(first.test)) == list(range(len(p.y)))
    np.testing.assert_allclose(first.decision_function(p.X), np.mean([m.decision_function(p.X) for m in first.models], axis=0))
    labels = cross_fit(refitter(problem("binary").model, adapt), problem("binary").X, problem("binary").y, n_folds=3,
                       settings=settings(0.1, "uniform", "logistic"))  # fmt: skip
    assert set(labels.predict_train()) == {"benign", "malign"} and labels.regime.name == "cross-fit"


def test_noise_labels_get_a_large_penalty_where_the_training_features_would_not():
    """Deep trees grown on pure noise: leave-one-out on their own features is leaky, the nested and the label-free choice are not."""
    from sklearn.ensemble import RandomForestRegressor

    from treespec.kpp.ridge import RidgePath

    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(200, 5)), rng.normal(size=200)
    model = RandomForestRegressor(20, bootstrap=False, max_features=1, min_samples_leaf=2, random_state=0).fit(X, y)
    forest = adapt(model)
    rows = rows_of(forest, X, y)
    call = {"weights": weight("impurity-decrease"), "learner": learner("ridge")}
    nested = fit([(forest, rows)], alpha="auto", refit=[refitter(model, adapt)], **call)
    free = fit([(forest, rows)], alpha="auto", **call)
    assert (nested.info["alpha"]["method"], free.info["alpha"]["method"]) == ("nested", "label-free")
    path = RidgePath(nested.features, y)
    grid = nested.info["alpha"]["grid"]
    leaky = grid[int(np.argmin([(path.leave_one_out(a) ** 2).sum() for a in grid]))]
    assert nested.alpha_ > 30 * leaky and free.alpha_ > 30 * leaky
    assert np.std(nested.predict(rng.normal(size=(200, 5)))) < 0.3


def test_relative_penalties_scale_as_each_learner_counts_its_rows():
    """A sum of losses over twice the rows needs twice the alpha, a mean the same."""
    p = problem("binary")
    data = rows_of(p.forest, p.X, p.y)
    k = fit([(p.forest, data)], **settings(1.0, "uniform", "logistic"))
    code = k.targets
    whole = {name: Path.of(k.features, code, learner(name), None, {}).size for name in ("ridge", "logistic")}
    twice = k.features.rows(np.repeat(np.arange(200), 2))
    double = {name: Path.of(twice, code.take(np.repeat(np.arange(200), 2)), learner(name), None, {}).size for name in whole}
    np.testing.assert_allclose(double["ridge"], 2 * whole["ridge"])
    np.testing.assert_allclose(double["logistic"], whole["logistic"])
    np.testing.assert_allclose(whole["ridge"], 200 * whole["logistic"])


@pytest.mark.parametrize("dense", [True, False])
def test_a_ridge_path_is_its_single_fits(dense, monkeypatch):
    from treespec.kpp import penalty_path

    monkeypatch.setattr(penalty_path, "DENSE_ROWS", 3000 if dense else 0)
    p = problem("diabetes")
    k = fit([(p.forest, p.data)], **settings(1.0))
    path = Path.of(k.features, k.targets, learner("ridge"), None, {})
    scores = list(path.scores(k.features))
    assert len(scores) == len(RIDGE_GRID)
    for i in (8, 20):
        one = fit([(p.forest, p.data)], **settings(path.alpha(path.grid[i])))
        np.testing.assert_allclose(scores[i][:, 0], one.decision_function(p.X), rtol=1e-6 if dense else 2e-2)


def test_folds_need_rows_of_each_class():
    code = np.array([0] * 20 + [1] * 3)
    targets = Targets("classes", np.eye(2)[code], code[:, None], (np.arange(2),))
    with pytest.raises(DataNeededError, match="rows of each class"):
        folds(targets, 0)
    assert len(folds(targets, 0, n_folds=3)) == 3


def test_each_half_of_an_honest_split_has_its_share_of_each_class():
    p = problem("multiclass")
    few = np.concatenate([np.arange(100), [100, 101]])  # two rows of the last class
    for seed in range(5):
        k = honest(refitter(p.model, adapt), p.X[few], p.y[few], random_state=seed, settings=settings(0.1, "uniform", "logistic"))
        assert sorted(np.bincount(k.targets.code[:, 0])) == [1, 25, 25]
    with pytest.raises(DataNeededError, match="two rows of each class"):
        honest(refitter(p.model, adapt), p.X[few[:-1]], p.y[few[:-1]], settings=settings(0.1, "uniform", "logistic"))
