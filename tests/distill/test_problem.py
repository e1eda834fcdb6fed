"""What nets are trained on and judged by, for each task and link; and the training losses against the same formulas in numpy."""

from itertools import pairwise

import numpy as np
import pytest

from strategies import grow
from treespec.distill.data import DistillData, split_rows
from treespec.distill.judge import judge, one_hot
from treespec.distill.problem import pose
from treespec.distill.report import fitted_on
from treespec.errors import DataMismatchError, UnsupportedModelError
from treespec.hooks import RowData
from treespec.students.outcome import Outcome

RNG = np.random.default_rng(0)


def data_for(forest, margin, y, objective="accuracy"):
    leaf = np.zeros((len(margin), forest.n_trees), np.int32)
    rows = RowData(None, y, None, leaf, lambda X: leaf, lambda X: margin)
    order = np.arange(len(margin))
    return DistillData(rows, margin, order, order, objective, drawn=False)


def forest_with(n_outputs=1, **fields):
    forest = grow(np.random.default_rng(1), n_trees=2, n_outputs=n_outputs)
    return forest.with_values(forest.value, **fields)


def test_regression_is_standardised_by_the_labels():
    y = RNG.normal(5, 3, 50)
    p = pose(forest_with(task="regression"), data_for(forest_with(), RNG.normal(size=(50, 1)), y))
    assert (p.head, p.loss) == ("value", "squared")
    np.testing.assert_allclose([p.shift[0], p.scale[0]], [y.mean(), y.std()])
    np.testing.assert_array_equal(p.labels[:, 0], y)


def test_a_regression_on_zeros_and_ones_is_one_on_shares_where_that_is_asked_for():
    y = RNG.integers(0, 2, 50).astype(float)
    forest, margin = forest_with(task="regression"), RNG.normal(size=(50, 1))
    p = pose(forest, data_for(forest, margin, y), shares=True)
    assert (p.head, p.loss) == ("logit", "logistic") and Outcome.of(forest).links_head(p.head)
    np.testing.assert_array_equal(p.labels[:, 0], y)
    np.testing.assert_array_equal(p.teacher, np.clip(margin, 0, 1))
    plain = [
        (y, {}, "accuracy"),
        (2 * y, {"shares": True}, "accuracy"),
        (y, {"shares": True}, "fidelity"),
        (0 * y, {"shares": True}, "accuracy"),
    ]
    assert {pose(forest, data_for(forest, margin, labels, o), **options).head for labels, options, o in plain} == {"value"}
    binary = forest_with(task="binary")  # its margins are logits
    assert not Outcome.of(binary).links_head("logit") and not Outcome.of(forest).links_head("softmax")


def test_a_log_link_is_poisson_on_the_scale_of_the_mean():
    margin = RNG.normal(size=(50, 1))
    y = RNG.poisson(3, 50).astype(float)
    forest = forest_with(task="regression", link="exp")
    p = pose(forest, data_for(forest, margin, y))
    assert (p.head, p.loss) == ("value", "poisson")
    np.testing.assert_allclose(p.teacher, np.exp(margin))
    np.testing.assert_allclose(p.shift, np.log(y.mean()), rtol=1e-6)
    with pytest.raises(DataMismatchError, match="log link"):
        pose(forest, data_for(forest, margin, y - 10))


def test_a_signed_square_link_takes_roots_of_the_labels():
    forest = forest_with(task="regression", link="signed-square")
    p = pose(forest, data_for(forest, RNG.normal(size=(2, 1)), np.array([9.0, -4.0])))
    np.testing.assert_array_equal(p.labels[:, 0], [3, -2])


def test_links_without_labels_of_their_own_learn_from_the_teacher():
    forest = forest_with(task="regression", link="log1p-exp")
    assert pose(forest, data_for(forest, RNG.normal(size=(9, 1)), np.ones(9))).labels is None
    ranking = forest_with(task="ranking")
    assert pose(ranking, data_for(ranking, RNG.normal(size=(9, 1)), np.ones(9))).labels is None


def test_a_binary_booster_learns_logits_on_the_teachers_scale():
    forest = forest_with(task="binary", link="sigmoid", link_scale=2.0, classes=(np.array(["no", "yes"]),))
    margin = RNG.normal(size=(30, 1))
    y = np.where(RNG.random(30) < 0.5, "yes", "no")
    p = pose(forest, data_for(forest, margin, y))
    assert (p.head, p.loss, p.margin_scale) == ("logit", "logistic", 0.5)
    np.testing.assert_allclose(p.teacher, 1 / (1 + np.exp(-2 * margin)))
    np.testing.assert_array_equal(p.labels[:, 0], y == "yes")


def test_raw_boosters_have_class_numbers():
    two = forest_with(task="binary", link="sigmoid")
    with pytest.raises(DataMismatchError, match="from 0 to 1"):
        pose(two, data_for(two, np.zeros((2, 1)), np.array([0.0, 2.0])))
    three = forest_with(3, task="multiclass", link="softmax")
    p = pose(three, data_for(three, np.zeros((3, 3)), np.array([0.0, 2.0, 1.0])))
    np.testing.assert_array_equal(p.labels, [[1, 0, 0], [0, 0, 1], [0, 1, 0]])
    with pytest.raises(DataMismatchError, match="from 0 to 2"):
        pose(three, data_for(three, np.zeros((2, 3)), np.array([0.0, 3.0])))


def test_a_forest_of_two_classes_has_one_logit():
    forest = forest_with(2, task="binary", link="probability", aggregation="mean", classes=(np.array([4, 7]),))
    margin = np.array([[0.9, 0.1], [0.2, 0.8]])
    p = pose(forest, data_for(forest, margin, np.array([4, 7])))
    assert p.head == "logit"
    np.testing.assert_allclose(p.teacher[:, 0], margin[:, 1])
    np.testing.assert_array_equal(p.labels[:, 0], [0, 1])


def test_several_targets_of_classes_are_refused():
    forest = forest_with(4, task="multi-output", link="probability", classes=(np.arange(2), np.arange(2)))
    with pytest.raises(UnsupportedModelError, match="a model for each target"):
        pose(forest, data_for(forest, np.zeros((2, 4)), np.zeros((2, 2))))


@pytest.mark.parametrize("name", ["squared", "logistic", "softmax", "poisson"])
def test_training_losses_are_the_validation_losses(name):
    """Up to a factor that does not depend on the net (the squared loss is standardised, the Poisson loss divided by the mean)."""
    torch = pytest.importorskip("torch")
    from treespec.distill.problem import _LOSSES
    from treespec.distill.train import loss_of

    k = 3 if name == "softmax" else 2
    shift, scale = np.array([0.3, -0.2, 0.1])[:k], np.array([1.5, 0.7, 1.0])[:k]
    target = np.eye(3)[RNG.integers(3, size=20)] if name == "softmax" else RNG.random((20, k))
    outputs = RNG.normal(size=(2, 20, k))
    theirs = loss_of(name, shift, scale)(torch.tensor(outputs).float(), torch.tensor(target[None]).float(), None).numpy()
    if name == "squared":
        ours = ((outputs * scale + shift - target) ** 2 / scale**2).mean(axis=(1, 2))
    elif name == "poisson":
        z = outputs * scale + shift
        ours = ((np.exp(z) - target * z) / np.exp(shift)).mean(axis=(1, 2))
    else:
        ours = [_LOSSES[name](o * scale + shift, target).mean() for o in outputs]
    np.testing.assert_allclose(theirs, ours, rtol=1e-5)


def test_the_spectral_loss_weighs_directions_and_penalises_their_overlap():
    torch = pytest.importorskip("torch")
    from treespec.distill.train import spectral_loss

    psi, g = RNG.normal(size=(1, 40, 3)), RNG.normal(size=(1, 40, 3))
    weight = np.array([1.0, 0.25, 0.01])
    c, wanted = RNG.normal(size=(3, 1)), RNG.normal(size=(40, 1))
    loss = spectral_loss(weight, 0.5, c, [(2.0, wanted)])
    got = loss(torch.tensor(g).float(), torch.tensor(psi).float(), torch.arange(40)).item()
    gram = g[0].T @ g[0] / 40
    off = (gram**2).sum() - (np.diag(gram) ** 2).sum()
    expected = (weight * (g[0] - psi[0]) ** 2).sum(axis=1).mean() + 0.5 * off + 2.0 * ((g[0] @ c - wanted) ** 2).mean()
    np.testing.assert_allclose(got, expected, rtol=1e-5)


def test_weights_decay_and_biases_do_not():
    pytest.importorskip("torch")
    from treespec.distill.train import Recipe, train

    def flat(output, target, rows):
        return output.sum(dim=(1, 2)) * 0

    X, T = np.ones((8, 2), np.float32), np.zeros((1, 8, 1), np.float32)
    start, decayed = (train(X, T, Recipe((), flat, [d], steps=50, rate=0.1)).net[0][0] for d in (0.0, 1.0))
    assert np.abs(decayed[0]).max() < 0.2 * np.abs(start[0]).max()
    np.testing.assert_array_equal(decayed[1], start[1])


def test_the_best_state_on_the_judged_rows_is_kept():
    pytest.importorskip("torch")
    from treespec.distill.train import Recipe, loss_of, train

    seen = []

    def judge_outputs(outputs):
        seen.append(outputs.copy())
        return [abs(len(seen) - 3)]  # the third check is the best

    X, T = RNG.normal(size=(16, 2)).astype(np.float32), RNG.normal(size=(1, 16, 1)).astype(np.float32)
    recipe = Recipe((), loss_of("squared", np.zeros(1), np.ones(1)), [0.0], steps=40, batch=8, checks=5)
    best = train(X, T, recipe, judge=judge_outputs, judged=X)
    weight, bias = best.net[0][0]
    np.testing.assert_allclose(X @ weight.T + bias, seen[2][0], atol=1e-5)
    assert best.value == [0.0]
    assert train(X, T, recipe, stop=[best.step[0]]).net[0][0][0] == pytest.approx(weight)


def test_classes_are_split_in_equal_shares():
    y = np.repeat([0, 1, 2], [80, 16, 4])
    fit, validation = split_rows(y, 100, 3, classes=True)
    assert sorted([*fit, *validation]) == list(range(100))
    np.testing.assert_array_equal(np.bincount(y[validation]), [20, 4, 1])
    fit, validation = split_rows(None, 100, 3, classes=False)
    assert len(validation) == 25
    assert [len(part) for part in split_rows(None, 2, 0, classes=False)] == [2, 2]


def test_judging():
    regression = forest_with(task="regression")
    v = judge(regression, np.array([[1.0], [2.0], [4.0]]), np.array([1.0, 2.0, 3.0]))
    np.testing.assert_allclose([v.score, v.loss], [0.5, 0.5])
    weighted = judge(regression, np.array([[1.0], [2.0], [4.0]]), np.array([1.0, 2.0, 3.0]), np.array([1.0, 1.0, 0.0]))
    assert weighted.score == 1
    binary = forest_with(task="binary", link="sigmoid", classes=(np.array([0, 1]),))
    v = judge(binary, np.array([[0.0], [np.log(3)]]), np.array([0, 1]))
    np.testing.assert_allclose(v.loss, (0.25 + 0.0625) / 2)
    np.testing.assert_array_equal(one_hot(forest_with(task="binary", link="sigmoid"), np.array([0.0, 0.3]), 2), [[1, 0], [0.7, 0.3]])


def test_who_was_fitted_on_what_is_told_by_the_leaves():
    forest = grow(np.random.default_rng(2), n_trees=40, max_depth=5, split=1.0)
    leaves = [forest.leaves[(forest.leaves >= a) & (forest.leaves < b)] for a, b in pairwise(forest.tree_offset)]
    n = max(len(part) for part in leaves)
    every = np.column_stack([np.resize(part, n) for part in leaves])
    assert fitted_on(forest, every) == "yes"
    assert fitted_on(forest, every[1:][: n // 2]) == "no"
    assert fitted_on(forest, np.tile(every, (30, 1))) == "cannot tell"
    counted = forest.with_values(forest.value, count=np.full(forest.n_nodes, 3.0))
    assert fitted_on(counted, every) == "no"
    assert fitted_on(counted, np.tile(every, (3, 1))) == "yes"
