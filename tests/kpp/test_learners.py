"""Learners against scikit-learn on the expanded matrix, and against their own optimality conditions."""

import numpy as np
import pytest
from scipy.sparse.linalg import aslinearoperator
from sklearn.linear_model import LogisticRegression, Ridge

from kpp.problems import LEARNERS, problem
from treespec.errors import DataMismatchError
from treespec.kpp import ridge as ridge_module
from treespec.kpp.krylov import solve_shifted
from treespec.kpp.ridge import Centred, RidgePath
from treespec.kpp.weights import uniform
from treespec.operators.path import PathMap


def features(name):
    p = problem(name)
    return PathMap(p.forest, uniform(p.forest)).features(p.data.leaf_id)


@pytest.fixture
def phi():
    return features("diabetes")


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("solver", ["cholesky", "cg"])
def test_ridge_is_scikit_learns(phi, weighted, solver, monkeypatch):
    monkeypatch.setattr(ridge_module, "DENSE_ROWS", 3000 if solver == "cholesky" else 0)
    y = np.column_stack([problem("diabetes").y, np.arange(442) % 7])
    w = np.random.default_rng(0).integers(0, 3, 442) + 0.5 if weighted else None
    coef, intercept, info = LEARNERS["ridge"](phi, y, alpha=0.4, sample_weight=w)
    expected = Ridge(0.4).fit(phi.to_sparse().toarray(), y, sample_weight=w)
    np.testing.assert_allclose(coef, expected.coef_.T, atol=1e-7)
    np.testing.assert_allclose(intercept, expected.intercept_, rtol=1e-9)
    assert info["solver"] == solver
    single, b, _ = LEARNERS["ridge"](phi, y[:, 0], alpha=0.4, sample_weight=w)
    np.testing.assert_allclose(single, coef[:, 0], atol=1e-7)
    assert b.shape == (1,)


@pytest.mark.parametrize("alpha", [1e-3, 0.5, 50.0])
def test_ridge_path_and_leave_one_out_are_refits(phi, alpha):
    y, w = problem("diabetes").y, np.random.default_rng(0).random(442) + 0.5
    path = RidgePath(phi, y, w)
    coef, b, _ = LEARNERS["ridge"](phi, y, alpha=alpha, sample_weight=w)
    np.testing.assert_allclose(path.fit(alpha)[0][:, 0], coef, atol=1e-6)
    left_out = path.leave_one_out(alpha)[:, 0]
    for i in (0, 17, 441):
        others = np.delete(np.arange(442), i)
        coef, b, _ = LEARNERS["ridge"](phi.rows(others), y[others], alpha=alpha, sample_weight=w[others])
        np.testing.assert_allclose(left_out[i], y[i] - (phi.rows(np.array([i])) @ coef + b[0])[0], rtol=1e-6)


def test_one_krylov_space_serves_all_penalties(phi):
    y = np.column_stack([problem("diabetes").y, np.arange(442) % 7.0])
    shifts = np.array([3.0, 1e-3, 0.1])
    system = Centred(phi, y)
    found = solve_shifted(system.multiply, system.Y, shifts)
    assert found.residual < 1e-9
    for x, s in zip(found.x, shifts, strict=True):
        np.testing.assert_allclose(x, np.linalg.solve(system.gram() + s * np.eye(442), system.Y), rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(system.trace(), np.trace(system.gram()), rtol=1e-12)


def test_learners_need_only_an_operator(phi):
    """A plain LinearOperator has no gram() and no column_square()."""
    plain, y = aslinearoperator(phi.to_sparse().toarray()), problem("diabetes").y
    for name in ("ridge", "huber", "quantile"):
        mine, theirs = LEARNERS[name](phi, y, alpha=1.0), LEARNERS[name](plain, y, alpha=1.0)
        np.testing.assert_allclose(phi @ mine[0] + mine[1], phi @ theirs[0] + theirs[1], rtol=3e-2)


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("alpha", [1e-4, 1e-1])
def test_binary_logistic_is_scikit_learns(alpha, intercept):
    """eq. 61: mean log-loss plus alpha / 2 |w|^2 is C = 1 / (n alpha)."""
    phi, code = features("binary"), (problem("binary").y == "malign").astype(int)
    coef, b, info = LEARNERS["logistic"](phi, code, alpha=alpha, n_classes=[2], intercept=intercept, tolerance=1e-8)
    expected = LogisticRegression(C=1 / alpha / len(code), fit_intercept=intercept, tol=1e-10, max_iter=10_000).fit(phi.to_sparse(), code)
    np.testing.assert_allclose(phi @ coef + b, phi @ expected.coef_[0] + expected.intercept_, rtol=1e-3, atol=1e-3)
    assert coef.shape == (phi.shape[1],) and b.shape == (1,) and info["gradient"] <= 1e-8
    if not intercept:
        assert b[0] == 0


def test_multinomial_logistic_is_scikit_learns_and_takes_weights():
    phi, code = features("multiclass"), problem("multiclass").y
    w = np.random.default_rng(0).integers(1, 4, len(code))
    coef, b, _ = LEARNERS["logistic"](phi, code, alpha=1e-2, n_classes=[3], sample_weight=w, intercept=True)
    expected = LogisticRegression(C=1 / 1e-2 / w.sum(), tol=1e-10, max_iter=10_000).fit(phi.to_sparse(), code, sample_weight=w)
    score = phi @ coef + b
    np.testing.assert_allclose(score - score.mean(axis=1, keepdims=True), expected.decision_function(phi.to_sparse()), atol=1e-3)
    again, _, info = LEARNERS["logistic"](phi, code, alpha=1e-2, n_classes=[3], sample_weight=w, intercept=True, start=(coef, b))
    assert info["steps"] == 0
    np.testing.assert_array_equal(again, coef)


def test_several_targets_are_fitted_one_by_one():
    phi, y = features("multi-label"), problem("multi-label").y
    coef, _, _ = LEARNERS["logistic"](phi, y, alpha=1e-2, n_classes=[3, 2])
    first, _, _ = LEARNERS["logistic"](phi, y[:, 0], alpha=1e-2, n_classes=[3])
    assert coef.shape == (phi.shape[1], 5)
    np.testing.assert_array_equal(coef[:, :3], first)


def test_logistic_offset_moves_the_score():
    phi, code = features("binary"), (problem("binary").y == "malign").astype(int)
    coef, _, _ = LEARNERS["logistic"](phi, code, alpha=1e-3, n_classes=[2])
    rest, _, _ = LEARNERS["logistic"](phi, code, alpha=1e-3, n_classes=[2], offset=phi @ coef)
    assert np.linalg.norm(rest) < np.linalg.norm(coef)
    far, _, _ = LEARNERS["logistic"](phi, code, alpha=1e-3, n_classes=[2], offset=np.where(code, 30.0, -30.0))
    assert np.linalg.norm(far) < 1e-6  # nothing is left to explain


def test_huber_is_ridge_with_a_wide_band_and_ignores_outliers_with_a_narrow_one(phi):
    y = problem("diabetes").y.copy()
    plain, b, _ = LEARNERS["ridge"](phi, y, alpha=1.0)
    wide, _, _ = LEARNERS["huber"](phi, y, alpha=1.0, width=1e6)
    np.testing.assert_allclose(wide, plain, atol=1e-6)
    y[:20] += 5000
    spoilt, b1, _ = LEARNERS["ridge"](phi, y, alpha=1.0)
    robust, b2, info = LEARNERS["huber"](phi, y, alpha=1.0)
    base = phi @ plain + b
    assert np.abs(phi @ robust + b2 - base)[20:].mean() < 0.2 * np.abs(phi @ spoilt + b1 - base)[20:].mean()
    assert info["gradient"] < 1e-7


@pytest.mark.parametrize("level", [0.1, 0.5, 0.9])
def test_quantile_covers_its_share_and_certifies_itself(phi, level):
    y = problem("diabetes").y
    coef, b, info = LEARNERS["quantile"](phi, y, alpha=1.0, quantile=level)
    below = (y <= phi @ coef + b).mean()
    assert abs(below - level) < 0.03
    assert 0 <= info["gap"] <= 1e-4
    rng = np.random.default_rng(0)

    def objective(c, b):
        r = y - phi @ c - b
        return np.maximum(level * r, (level - 1) * r).sum() + (c**2).sum()

    best = objective(coef, b)
    assert all(objective(coef + rng.normal(size=coef.shape), b + rng.normal()) > best for _ in range(10))


@pytest.mark.parametrize("alpha", [0.0, -1.0, np.nan, np.inf, "auto", None])
@pytest.mark.parametrize("name", sorted(LEARNERS))
def test_alpha_must_be_above_zero(phi, name, alpha):
    with pytest.raises(DataMismatchError, match="alpha above 0"):
        LEARNERS[name](phi, problem("diabetes").y, alpha=alpha)


def test_bad_labels_are_refused(phi):
    with pytest.raises(DataMismatchError, match="one class only"):
        LEARNERS["logistic"](phi, np.zeros(442, int), alpha=1.0, n_classes=[2])
    with pytest.raises(DataMismatchError, match="classes for learner='logistic'"):
        LEARNERS["logistic"](phi, np.zeros(442), alpha=1.0)
    for name in ("huber", "quantile"):
        with pytest.raises(DataMismatchError, match=f"values for learner='{name}'"):
            LEARNERS[name](phi, np.zeros(442), alpha=1.0, n_classes=[2])
    with pytest.raises(DataMismatchError, match="quantile between 0 and 1"):
        LEARNERS["quantile"](phi, np.zeros(442), alpha=1.0, quantile=1.0)


def test_an_alpha_that_vanishes_in_rounding_is_refused():
    p = problem("diabetes")
    features = PathMap(p.forest, uniform(p.forest)).features(np.repeat(p.data.leaf_id, 2, axis=0))
    with pytest.raises(DataMismatchError, match="large enough"):
        LEARNERS["ridge"](features, np.repeat(p.y, 2), alpha=1e-300)
