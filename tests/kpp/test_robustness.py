"""Certificates are never violated: by search over rows, over the balls of raw inputs, and against their formulas."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import strategies
from kpp.problems import learner, problem, rows_of, weight
from kpp.test_model import fitted
from treespec.errors import DataMismatchError, DataNeededError
from treespec.ir import InputRule
from treespec.kpp.fit import fit
from treespec.kpp.raw_robustness import ball, reachable


@pytest.mark.parametrize("name", ["diabetes", "binary", "multiclass", "multi-label", "multi-output"])
def test_no_pair_of_rows_violates_the_radius(name):
    """eq. 40, 41 and 46."""
    p, k = problem(name), fitted(name)
    score, delta = k.scores(p.X), k.distance(p.X)
    assert (np.linalg.norm(score[:, None] - score[None], axis=-1) <= k.norm * np.sqrt(delta) * (1 + 1e-9) + 1e-9).all()
    if k.targets.kind == "values":
        spread = float(score.std())
        radius = k.robust_radius(p.X, epsilon=spread)
        near = delta < radius[:, None]
        assert near.sum() > len(p.X)
        assert np.linalg.norm(score[:, None] - score[None], axis=-1)[near].max() <= spread
        error = ((p.y - k.predict(p.X)) ** 2).reshape(len(p.y), -1).sum(axis=1).mean()
        np.testing.assert_allclose(k.robust_radius(p.X), error / k.norm**2)
        return
    radius, predicted = k.robust_radius(p.X, p.y), k.predict(p.X)
    wrong = predicted != p.y if p.y.ndim == 1 else (predicted != p.y).any(axis=1)
    np.testing.assert_array_equal(radius == 0, wrong)
    near = delta < radius[:, None]
    same = predicted[:, None] == predicted[None] if p.y.ndim == 1 else (predicted[:, None] == predicted[None]).all(axis=-1)
    assert same[near].all()


def test_the_radius_is_that_of_the_paper_and_tight_in_the_feature_space():
    p, k = problem("binary"), fitted("binary")
    sign = np.where(p.y == "malign", 1, -1)
    margin = sign * k.decision_function(p.X)
    np.testing.assert_allclose(k.robust_radius(p.X, p.y), (np.maximum(margin, 0) / np.linalg.norm(k.coef_)) ** 2)
    p, k = problem("multiclass"), fitted("multiclass")
    g, W = k.decision_function(p.X), k.coef_
    i = 60
    expected = min(((g[i, p.y[i]] - g[i, c]) / np.linalg.norm(W[:, p.y[i]] - W[:, c])) ** 2 for c in range(3) if c != p.y[i])
    np.testing.assert_allclose(k.robust_radius(p.X, p.y)[i], expected)


def test_robust_accuracy_curve():
    """eq. 47, with u_max and u_half of Table 6."""
    p, k = problem("binary"), fitted("binary")
    u = [0.0, 1e-4, 1e-3, 1e-2, 0.5]
    c = k.robust_curve(p.X, p.y, u)
    margin = np.where(p.y == "malign", 1, -1) * k.decision_function(p.X)
    np.testing.assert_allclose(c.value, [(margin > np.linalg.norm(k.coef_) * np.sqrt(x)).mean() for x in u])
    whole = k.robust_curve(p.X, p.y)
    assert whole.value[0] == c.value[0] and whole.value[-1] == 0 and (np.diff(whole.value) <= 0).all()
    np.testing.assert_allclose(whole.u_max, (np.abs(margin).max() / k.norm) ** 2)
    at = k.robust_curve(p.X, p.y, [whole.u_half * (1 - 1e-9), whole.u_half]).value
    assert at[0] > whole.value[0] / 2 >= at[1]


@pytest.mark.parametrize("name", ["diabetes", "multi-output"])
def test_robust_squared_error_bounds_every_worst_case(name):
    """eq. 44: against the worst row found within the ball, and twice the error at u_half."""
    p, k = problem(name), fitted(name)
    delta, score = k.distance(p.X), k.scores(p.X)
    y = p.y.reshape(len(p.y), -1)
    c = k.robust_curve(p.X, p.y)
    error = ((y[:, None] - score[None]) ** 2).sum(-1)
    for u, value in zip(c.u[::25], c.value[::25], strict=True):
        worst = np.where(delta <= u, error, 0).max(axis=1).mean()
        assert worst <= value * (1 + 1e-12)
    np.testing.assert_allclose(c.value[0], error.diagonal().mean())
    np.testing.assert_allclose(k.robust_curve(p.X, p.y, [c.u_half]).value[0], 2 * c.value[0])
    e = np.sqrt(error.diagonal())
    u = c.u_max / 10
    expected = (e**2).mean() + 2 * e.mean() * k.norm * np.sqrt(u) + k.norm**2 * u
    np.testing.assert_allclose(k.robust_curve(p.X, p.y, [u]).value[0], expected)
    np.testing.assert_allclose(c.u_max, (np.linalg.norm(y, axis=1).max() / k.norm) ** 2)


def test_certificates_of_labels_need_labels():
    p, k = problem("binary"), fitted("binary")
    with pytest.raises(DataNeededError, match="labels of the rows"):
        k.robust_radius(p.X)
    with pytest.raises(DataMismatchError, match="epsilon of 0"):
        fitted("diabetes").robust_radius(problem("diabetes").X, epsilon=-1.0)


# ---- raw inputs


@given(strategies.cases(max_rows=6, max_outputs=2), st.sampled_from([0.0, 0.25, 0.5, 1.3]), st.sampled_from(["float32", "float64"]))
@settings(max_examples=80, deadline=None)
def test_no_row_of_the_ball_leaves_the_enclosure(case, radius, dtype):
    """Search over random rows of the ball and its corners, for score and margin; categories and missing values held fixed."""
    rule = InputRule(dtype=dtype, categorical=case.forest.inputs.categorical)
    forest = case.forest.with_values(case.forest.value, inputs=rule)
    if forest.is_leaf.all():
        return
    rng = case.rng
    X = case.X + np.where(rng.random(case.X.shape) < 0.5, 0, rng.normal(size=case.X.shape) * 1e-8)
    X[:, list(rule.categorical)] = case.X[:, list(rule.categorical)]
    y = rng.normal(size=(len(X), forest.n_outputs))
    data = rows_of(forest, X, y[:, 0] if forest.n_outputs == 1 else y)
    k = fit([(forest, data)], weights=weight("uniform"), learner=learner("ridge"), alpha=0.1)
    cert = k.raw_certificate(X, radius)
    moved = np.full(X.shape, radius)
    moved[:, list(rule.categorical)] = 0
    for _ in range(30):
        shift = rng.choice([-1.0, 1.0, 0.0, rng.uniform(-1, 1)], size=X.shape) * moved
        near = X + shift
        for value, low, high in (
            (k.decision_function(near), cert.score_low, cert.score_high),
            (forest.margin(near), cert.margin_low, cert.margin_high),
        ):
            assert (low <= value).all() and (value <= high).all()
    assert (cert.score_low <= cert.score).all() and (cert.movement >= 0).all() and (cert.margin_movement >= 0).all()
    if radius == 0:
        assert (cert.n_leaves == forest.n_trees).all()
        assert cert.movement.max() < 1e-9


@given(st.integers(0, 10_000), st.sampled_from([0.25, 0.5, 1.3]), st.booleans())
@settings(max_examples=40, deadline=None)
def test_no_row_of_the_ball_leaves_the_enclosure_of_several_ensembles(seed, radius, raw):
    """Two ensembles that round their rows differently, and raw features beside them."""
    rng = np.random.default_rng(seed)
    forests = [strategies.grow(rng, n_features=2, split=1.0, max_depth=2, inputs=InputRule(dtype=d)) for d in ("float32", "float64")]
    X = strategies.rows(rng, forests[0], 12) + rng.normal(size=(12, 2)) * 1e-8
    X[:, 1] *= rng.choice([0.0, 1.0])  # a constant column has no scale
    y = rng.normal(size=12)
    k = fit([(f, rows_of(f, X, y)) for f in forests], weights=weight("uniform"), learner=learner("ridge"), alpha=1e-3, raw=raw)
    cert = k.raw_certificate(X, radius)
    assert len(cert.margin) == len(cert.margin_movement) == 2
    for _ in range(30):
        near = X + rng.choice([-1.0, 1.0, 0.0, rng.uniform(-1, 1)], size=X.shape) * radius
        value = k.decision_function(near)
        assert (cert.score_low <= value).all() and (value <= cert.score_high).all()
        for j, f in enumerate(forests):
            assert (cert.margin_low[j] <= f.margin(near)).all() and (f.margin(near) <= cert.margin_high[j]).all()
    assert (cert.n_leaves >= sum(f.n_trees for f in forests)).all()
    assert k.raw_certificate(X, 0.0).movement.max() < 1e-9


def test_the_enclosure_is_exact_for_one_tree():
    """On a single stump the least and largest leaf values are attained."""
    rng = np.random.default_rng(1)
    forest = strategies.grow(rng, n_trees=1, max_depth=1, split=1.0, n_features=1)
    t = forest.threshold[0]
    X = np.array([[t - 0.2], [t + 0.2], [t - 5.0], [np.nan]])
    k = fit([(forest, rows_of(forest, X, np.array([0.0, 1, 0, 1])))], weights=weight("uniform"), learner=learner("ridge"), alpha=0.1)
    cert = k.raw_certificate(X, 0.3)
    np.testing.assert_array_equal(cert.n_leaves, [2, 2, 1, 1])
    both = np.sort(k.decision_function(X[:2]))
    np.testing.assert_allclose(cert.score_low[:2], both[0], atol=1e-12)
    np.testing.assert_allclose(cert.score_high[:2], both[1], atol=1e-12)
    per_feature = k.raw_certificate(X, np.array([[0.1], [0.3], [0.0], [0.0]]))
    np.testing.assert_array_equal(per_feature.n_leaves, [1, 2, 1, 1])


@pytest.mark.parametrize("rule", [{"zero": "missing"}, {"missing_value": 0.0}, {"zero": "flush"}])
def test_a_ball_that_holds_a_marker_of_missing_reaches_both_sides(rule):
    rng = np.random.default_rng(0)
    forest = strategies.grow(rng, n_trees=1, max_depth=1, split=1.0, n_features=1, inputs=InputRule(**rule))
    forest = forest.with_values(forest.value, threshold=np.array([-1.5, np.nan, np.nan]), default_left=np.array([True] * 3))
    low, high = ball(forest, np.array([[0.5]]), 0.6)
    (_, (_, leaf)) = next(reachable(forest, low, high))
    values = forest.apply(np.array([[0.5], [0.0], [-0.1], [1.1]]))[:, 0]
    assert set(values) <= set(leaf)
    assert len(leaf) == (1 if rule.get("zero") == "flush" else 2)


def test_a_ball_covers_what_rounding_to_float32_hides():
    """A row is known as its float32: the ends of the ball are those of the row before it was rounded, rounded themselves."""
    forest = strategies.grow(np.random.default_rng(0), n_features=1, inputs=InputRule(dtype="float32"))
    up = np.nextafter(np.float32(1), np.float32(2))
    x = (1.0 + float(up)) / 2 - 1e-9  # rounds down to 1
    centre = np.array([-x, x, 3.0, np.inf, 1 - 2.9e-8, 2.9e-8 - 1])
    low, high = ball(forest, centre[:, None], 1.0)
    assert (low[:, 0] <= (centre - 1.0).astype(np.float32)).all() and (high[:, 0] >= (centre + 1.0).astype(np.float32)).all()
    assert low[2, 0] > 1.999 and high[2, 0] < 4.001 and np.isposinf(low[3, 0])


def test_a_class_that_is_kept_is_kept():
    p, k = problem("multiclass"), fitted("multiclass")
    rng = np.random.default_rng(0)
    cert = k.raw_certificate(p.X, 0.1)
    assert 0 < cert.keeps_class.mean() < 1
    for _ in range(20):
        near = p.X + rng.choice([-0.1, 0.1], size=p.X.shape)
        assert (k.predict(near) == k.predict(p.X))[cert.keeps_class].all()
    b = problem("binary")
    kb = fitted("binary")
    cert = kb.raw_certificate(b.X, 0.2)
    assert 0 < cert.keeps_class.mean() <= 1
    near = b.X + rng.choice([-0.2, 0.2], size=b.X.shape)
    assert (kb.predict(near) == kb.predict(b.X))[cert.keeps_class].all()


def test_bad_radii_are_refused():
    p, k = problem("diabetes"), fitted("diabetes")
    for radius in (-1.0, np.nan, np.inf):
        with pytest.raises(DataMismatchError, match="finite radii"):
            k.raw_certificate(p.X, radius)
