"""Compressors that prune the teacher's trees: budgets, tasks, what each of them minimises, and who judges them."""

from itertools import product

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_diabetes, load_iris
from sklearn.ensemble import (
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.metrics import r2_score

import strategies
import treespec
from treespec.distill.data import DistillData
from treespec.distill.forestprune import _Layers, prune_layers
from treespec.distill.grove import Goal, Grove, scores_of
from treespec.distill.leaf_refit import merge_leaves
from treespec.distill.lop import prune_levels
from treespec.distill.problem import pose
from treespec.distill.pruners import forestprune, leaf_refit, lop
from treespec.distill.refit import refit, ridge
from treespec.errors import BudgetError, UnsupportedModelError
from treespec.hooks import RowData
from treespec.ir import link as links
from treespec.ir.prune import node_means
from treespec.students.file import loads

DIABETES, IRIS = (load(return_X_y=True) for load in (load_diabetes, load_iris))
BINARY = IRIS[0], np.array(["no", "yes"])[(IRIS[1] == 1).astype(int)]
NAMES = ("forestprune", "lop", "leaf-refit")
THIN = {"forestprune": prune_layers, "lop": prune_levels, "leaf-refit": merge_leaves}


def teachers():
    yield "regression", RandomForestRegressor(12, max_depth=7, random_state=0), *DIABETES
    yield "binary forest", RandomForestClassifier(12, random_state=0), *BINARY
    yield "binary booster", GradientBoostingClassifier(n_estimators=12, random_state=0), *BINARY
    yield "class forest", RandomForestClassifier(12, random_state=0), *IRIS
    yield "class booster", HistGradientBoostingClassifier(max_iter=12, min_samples_leaf=5), *IRIS
    yield "counts", HistGradientBoostingRegressor(loss="poisson", max_iter=12), DIABETES[0], np.round(DIABETES[1] / 40)
    yield "two outputs", RandomForestRegressor(8, max_depth=6, random_state=0), DIABETES[0], np.column_stack([DIABETES[1], -DIABETES[1]])


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("task", "model", "X", "y"), [pytest.param(*t, id=t[0]) for t in teachers()])
def test_every_task(name, task, model, X, y):
    w = treespec.wrap(model.fit(X, y), X, y)
    student = w.distill(500, compressor=name)
    assert student.n_bytes <= 500
    assert w.distill(500, compressor=name).payload() == student.payload()
    np.testing.assert_array_equal(loads(student.to_bytes()).predict(X), student.predict(X))
    assert student.margin(X).shape == w.margin(X).shape and student.predict(X).dtype == w.predict(X).dtype
    if hasattr(model, "predict_proba"):
        np.testing.assert_allclose(student.predict_proba(X).sum(axis=1), 1)
        assert (student.predict(X) == y).mean() > 0.9
    else:
        assert r2_score(y, student.predict(X)) > (0.25 if task == "counts" else 0.4)
    assert "in-sample" not in str(student.report.candidates)


class Bare:
    """A teacher that is its forest."""

    def __init__(self, forest):
        self.forest, self.apply = forest, forest.apply
        self.margin, self.predict = forest.margin, forest.predict


def data_of(forest, X, y, objective="accuracy"):
    rows = RowData(X, y, None, forest.apply(X), forest.apply, forest.margin)
    order = np.random.default_rng(0).permutation(len(X))
    k = max(1, len(X) // 4)
    return DistillData(rows, forest.margin_of(rows.leaf_id), order[k:], order[:k], objective, False)


def leaf_alone():
    """A tree of one leaf, and rows of which those to fit have a mean that takes a byte more than the mean of all."""
    forest = strategies.grow(np.random.default_rng(0), n_trees=1, max_depth=0, n_features=1, split=0.0, aggregation="sum")
    X = strategies.rows(np.random.default_rng(2), forest, 8)
    return strategies.Case(forest, X, forest.apply(X), 2)


@settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@example(leaf_alone(), lop, 1, True)
@example(leaf_alone(), lop, 15, True)
@given(strategies.cases(min_rows=8, max_rows=40), st.sampled_from([forestprune, lop, leaf_refit]), st.integers(1, 400), st.booleans())
def test_any_forest_any_budget(case, compressor, budget, labelled):
    forest = case.forest
    y = case.rng.normal(size=len(case.X)) if labelled else None
    data = data_of(forest, case.X, y, "accuracy" if labelled else "fidelity")
    try:
        student = compressor(Bare(forest), budget, data=data, random_state=0, progress=None)
    except BudgetError as refusal:
        smallest = refusal.smallest
        student = compressor(Bare(forest), smallest, data=data, random_state=0, progress=None)
        assert budget < smallest
        budget = smallest
    assert student.n_bytes <= budget
    student.report = None  # distill makes it one that can be stored
    again = loads(student.to_bytes())
    np.testing.assert_array_equal(again.margin(case.X), student.margin(case.X))
    assert np.isfinite(student.margin(case.X)).all()


def grove_of(model, X, y, mix=1.0):
    w = treespec.wrap(model.fit(X, y), X, y)
    data = data_of(w.forest, X, y)
    problem = pose(w.forest, data)
    scores = scores_of(w.forest, problem)
    leaf_id = w.apply(X)
    scores = scores.with_values(node_means(scores, np.bincount(leaf_id.ravel(), minlength=scores.n_nodes).astype(float)))
    return w, Grove(scores, leaf_id, Goal(problem.labels, np.ones(len(X)), problem.loss), w.forest.aggregation == "mean")


def squared(grove):
    return float(((grove.goal.target - grove.score) ** 2).mean())


@pytest.fixture(scope="module")
def forest_grove():
    return grove_of(RandomForestRegressor(20, max_depth=6, random_state=0), *DIABETES)[1]


def test_scores_are_margins_or_logits(forest_grove):
    w, grove = grove_of(GradientBoostingClassifier(n_estimators=10, random_state=0), *BINARY)
    np.testing.assert_allclose(grove.score[:, 0], w.margin(BINARY[0]))
    w, grove = grove_of(RandomForestRegressor(5, random_state=0), *DIABETES)
    np.testing.assert_allclose(grove.score[:, 0], w.margin(DIABETES[0]))
    w, grove = grove_of(RandomForestClassifier(30, max_depth=3, random_state=0), *BINARY)
    p = w.predict_proba(BINARY[0])[:, 1]
    order = np.argsort(p)
    assert grove.score.shape == (150, 1) and (np.diff(grove.score[order, 0]) >= -1e-9).all()  # logits rise with the probability
    w, grove = grove_of(RandomForestClassifier(30, max_depth=3, random_state=0), *IRIS)
    assert (grove.score.argmax(axis=1) == w.predict(IRIS[0])).mean() > 0.95


@pytest.mark.parametrize("name", NAMES)
def test_thinning_keeps_to_the_number_of_splits(name, forest_grove):
    for n in (400, 100, 20, 3):
        thinned = THIN[name](forest_grove, n)
        assert thinned.n_splits <= n
        np.testing.assert_array_equal(thinned.forest.apply(DIABETES[0]), thinned.leaf_id)
        assert n > 50 or thinned.n_splits >= n // 2
        assert squared(thinned) < np.var(DIABETES[1])
    assert THIN[name](forest_grove, forest_grove.n_splits) is forest_grove or name == "leaf-refit"


def test_cutting_moves_the_score_to_the_mean_of_the_rows(forest_grove):
    cut = forest_grove.cut(np.zeros(forest_grove.forest.n_nodes, bool))
    assert cut.forest.n_trees == 0
    np.testing.assert_allclose(cut.score[:, 0], forest_grove.score.mean())
    keep = np.random.default_rng(0).random(forest_grove.forest.n_nodes) < 0.8
    part = forest_grove.cut(keep)
    np.testing.assert_allclose(part.score.mean(), forest_grove.score.mean())
    np.testing.assert_allclose(part.balanced().score.mean(), DIABETES[1].mean())


def test_gain_is_the_squared_error_that_a_split_takes_away():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 2))
    y = X[:, 0] + 0.1 * rng.normal(size=200)
    model = RandomForestRegressor(1, max_depth=1, bootstrap=False, random_state=0)
    _, grove = grove_of(model, X, y)
    np.testing.assert_allclose(grove.gain[0], ((y - y.mean()) ** 2).sum() - ((y - grove.score[:, 0]) ** 2).sum())


def test_refit_is_the_ridge_solution(forest_grove):
    small = forest_grove.trim(60)
    alpha = 2.0
    got = refit(small, alpha)
    Z = np.stack([small.leaf_id == leaf for leaf in small.forest.leaves], axis=-1).any(axis=1).astype(float)
    rest = (small.goal.target - small.score)[:, 0]
    shift = rest.mean()
    change = np.linalg.solve(Z.T @ Z + alpha * np.eye(Z.shape[1]), Z.T @ (rest - shift))
    np.testing.assert_allclose(got.score[:, 0], small.score[:, 0] + shift + Z @ change, rtol=1e-2, atol=0.2)
    assert squared(got) < squared(small)
    kept = refit(small, 1e12)
    np.testing.assert_allclose(kept.forest.value[small.forest.leaves], small.forest.value[small.forest.leaves], atol=1e-6)


def test_refit_fits_classes_by_the_log_loss():
    _, grove = grove_of(RandomForestClassifier(10, max_depth=2, random_state=0), *IRIS)
    p = links.LINKS["softmax"](refit(grove, 0.1).score)
    before = links.LINKS["softmax"](grove.score)
    loss = [-(grove.goal.target * np.log(np.maximum(q, 1e-12))).sum(axis=1).mean() for q in (before, p)]
    assert loss[1] < 0.7 * loss[0]


def test_ridge_weighs_rows():
    from scipy.sparse import csr_array

    rng = np.random.default_rng(0)
    Z, y, weight = rng.integers(0, 2, (30, 4)).astype(float), rng.normal(size=30), rng.random(30)
    wanted = np.linalg.solve((Z.T * weight) @ Z + 0.5 * np.eye(4), Z.T @ (weight * y))
    np.testing.assert_allclose(ridge(csr_array(Z), y, weight, 0.5), wanted, rtol=1e-2, atol=1e-3)
    assert ridge(csr_array(np.zeros((3, 0))), y[:3], weight[:3], 1.0).shape == (0,)


def test_forestprune_is_close_to_the_best_of_all_depths():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(120, 3))
    y = X[:, 0] + np.sin(2 * X[:, 1])
    _, grove = grove_of(RandomForestRegressor(3, max_depth=3, random_state=0), X, y)
    layers = _Layers(grove)

    def objective(depths, weight, price):
        rest = layers.target[:, 0] - sum(weight[t] * layers.says[t][d] for t, d in enumerate(depths))
        return float((rest**2).sum()) + price * sum(layers.cost[t, d] for t, d in enumerate(depths))

    sizes = []
    for price in (0.01, 1.0, 5.0, 1e9):
        chosen, weight = layers.descend(price, np.full(3, 3), np.ones(3))
        every = [np.array(d) for d in product(range(len(layers.depths)), repeat=3)]
        best = min(objective(d, layers._weights(d, np.ones(3)), price) for d in every)
        assert best <= objective(chosen, weight, price) + 1e-6 <= 1.2 * best + 1e-6
        sizes.append(sum(layers.cost[t, d] for t, d in enumerate(chosen)))
    assert sizes == sorted(sizes, reverse=True) and sizes[0] > sizes[2] > sizes[3] == 0


def test_forestprune_leaves_out_a_tree_that_says_nothing():
    X, y = DIABETES
    _, grove = grove_of(RandomForestRegressor(4, max_depth=3, random_state=0), X, y)
    value = grove.forest.value.copy()
    second = slice(*grove.forest.tree_offset[1:3])
    value[second] = np.random.default_rng(0).permutation(value[second])  # the splits of a tree, the values of no use
    thinned = prune_layers(grove.with_values(value), 21)
    roots = thinned.forest.feature[thinned.forest.tree_offset[:-1]], thinned.forest.threshold[thinned.forest.tree_offset[:-1]]
    root = grove.forest.tree_offset[1]
    assert not ((roots[0] == grove.forest.feature[root]) & (roots[1] == grove.forest.threshold[root])).any()


def test_lop_drops_subtrees_that_do_not_help():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 2))
    y = np.where(X[:, 0] > 0, 3 * (X[:, 1] > 0), 0.0) + 0.01 * rng.normal(size=300)  # nothing to split on the left of 0
    _, grove = grove_of(RandomForestRegressor(1, max_depth=4, bootstrap=False, max_features=None, random_state=0), X, y)
    thinned = prune_levels(grove, 2)
    assert thinned.n_splits == 2 and sorted(thinned.forest.feature[~thinned.forest.is_leaf]) == [0, 1]
    assert squared(thinned) < 0.01


def test_leaf_refit_is_better_than_cutting_alone(forest_grove):
    assert squared(refit(merge_leaves(forest_grove, 40), 1.0)) < squared(forest_grove.trim(40))


def test_what_they_cannot_prune_is_refused():
    labels = np.column_stack([IRIS[1], IRIS[1] > 0])
    w = treespec.wrap(RandomForestClassifier(3, random_state=0).fit(IRIS[0], labels), IRIS[0], labels)
    for name in NAMES:
        with pytest.raises(UnsupportedModelError, match="classification of one target"):
            w.distill("1KB", compressor=name)


def test_fp_scate_learns_from_pruned_trees(monkeypatch):
    monkeypatch.setattr("treespec.distill.fp_scate._LEAST", 0)
    w = treespec.wrap(RandomForestRegressor(50, max_depth=9, random_state=0).fit(*DIABETES), *DIABETES)
    student = w.distill(700, compressor="fp-scate", max_steps=300)
    chosen = student.report.settings["chosen"]
    assert student.n_bytes <= 700 and student.kind == "mlp" and chosen["smoother"] == "leaf"
    assert chosen["splits"] < w.forest.n_nodes - w.forest.n_leaves
    assert student.report.chosen == "fp-scate"
    assert r2_score(DIABETES[1], student.predict(DIABETES[0])) > 0.2


def test_leaf_bits_can_be_chosen(forest_grove):
    w = treespec.wrap(RandomForestRegressor(20, max_depth=6, random_state=0).fit(*DIABETES), *DIABETES)
    assert w.distill(800, compressor="leaf-refit", leaf_bits=4).leaf_bits == 4
