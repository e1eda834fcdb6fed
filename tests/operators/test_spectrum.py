from importlib import import_module

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strategies import cases
from treespec.errors import DataMismatchError, UnsupportedModelError
from treespec.hooks import RowData
from treespec.operators import BoostingSmoother, ForestKernel, LeafIncidence, spectrum
from treespec.operators.kernel import leaf
from treespec.operators.lanczos import leading_eigenpairs


def incidence(n, n_trees=15, n_leaves=40, seed=0):
    """Leaves of trees that follow a noisy common order, so that the spectrum decays."""
    rng = np.random.default_rng(seed)
    x = np.linspace(0, 1, n)[:, None] + 0.05 * rng.normal(size=(n, n_trees))
    return LeafIncidence(np.clip((x * n_leaves).astype(int), 0, n_leaves - 1) + n_leaves * np.arange(n_trees), n_leaves * n_trees)


@pytest.mark.parametrize("n", [300, 1300])  # dense, Lanczos
@pytest.mark.parametrize("weighted", [False, True])
def test_kernel_eigenpairs_are_those_of_the_dense_kernel(n, weighted):
    weight = np.random.default_rng(1).integers(0, 4, size=n).astype(float) if weighted else None
    K = ForestKernel(incidence(n), weight)
    s = spectrum(K, rank=25)
    root = K.sqrt_weight
    dense = root[:, None] * ForestKernel(incidence(n), weight).to_dense() / np.where(root > 0, root, 1)
    expected = np.linalg.eigvalsh((dense + dense.T) / 2)[::-1][:25]
    np.testing.assert_allclose(s.values, expected, rtol=1e-6)
    np.testing.assert_allclose(s.right.T @ s.left, np.eye(25), atol=1e-8)
    np.testing.assert_allclose(K @ s.left, s.left * s.values, atol=1e-5)
    assert s.residual < 1e-5
    np.testing.assert_allclose(s.values[0], 1.0)


@pytest.mark.parametrize("n", [300, 1300])
def test_singular_triples_are_those_of_the_dense_smoother(n):
    S = BoostingSmoother(incidence(n), eta=0.3, ridge=1.0)
    s = spectrum(S, rank=25)
    np.testing.assert_allclose(s.values, np.linalg.svd(S.to_dense(), compute_uv=False)[:25], rtol=1e-6)
    np.testing.assert_allclose(s.left.T @ s.left, np.eye(25), atol=1e-10)
    np.testing.assert_allclose(s.right.T @ s.right, np.eye(25), atol=1e-10)
    np.testing.assert_allclose(S @ s.right, s.left * s.values, atol=1e-5)
    np.testing.assert_allclose(S.T @ s.left, s.right * s.values, atol=1e-5)


@pytest.mark.parametrize("n", [300, 1300])
def test_the_same_call_gives_the_same_bytes(n):
    K = ForestKernel(incidence(n))
    first, again, other = spectrum(K, 10), spectrum(K, 10), spectrum(K, 10, random_state=1)
    assert first.left.tobytes() == again.left.tobytes()
    assert first.values.tobytes() == again.values.tobytes()
    np.testing.assert_allclose(first.values, other.values, rtol=1e-6)
    np.testing.assert_allclose(first.left, other.left, atol=1e-4)  # signs are fixed


@given(cases(min_rows=1, max_rows=12), st.booleans())
def test_at_full_rank_it_is_the_smoother(case, kernel):
    Z = LeafIncidence.of(case.forest, case.leaf_id)
    S = ForestKernel(Z) if kernel else BoostingSmoother(Z, eta=0.5, ridge=1.0)
    s = spectrum(S, rank=len(case.X))
    np.testing.assert_allclose(s.left * s.values @ s.right.T, S.to_dense(), atol=1e-9)
    assert (np.diff(s.values) <= 1e-12).all()
    assert (s.values >= 0).all()
    y = case.rng.normal(size=len(case.X))
    np.testing.assert_allclose(s.left @ s.coefficients(y), S @ y, atol=1e-9)


@given(cases(min_rows=2, max_rows=12), st.booleans())
def test_extension_to_the_training_rows_gives_the_directions(case, weighted):
    weight = case.rng.uniform(0.5, 2, size=len(case.X)) if weighted else None
    s = spectrum(leaf(case.forest, RowData(case.X, None, weight, case.leaf_id, case.forest.apply, case.forest.margin)), rank=len(case.X))
    large = s.values > 1e-9
    np.testing.assert_allclose(s.extend(case.X)[:, large], s.left[:, large], atol=1e-6)


def test_multiple_eigenvalues_are_all_found():
    n = 1600
    group = np.repeat(np.arange(20), n // 20)  # 20 groups that share no leaf: the eigenvalue 1 has 20 copies
    rng = np.random.default_rng(0)
    index = group[:, None] * 10 + rng.integers(0, 10, size=(n, 6)) + 200 * np.arange(6)
    s = spectrum(ForestKernel(LeafIncidence(index, 1200)), rank=30)
    np.testing.assert_allclose(s.values[:20], 1.0)
    assert s.values[20] < 0.9


@pytest.mark.parametrize("n_leaves", [1, 3, 1200])
def test_low_and_full_rank_kernels(n_leaves):
    index = (np.arange(1200) % n_leaves)[:, None]
    s = spectrum(ForestKernel(LeafIncidence(index, n_leaves)), rank=8)
    np.testing.assert_allclose(s.values, (np.arange(8) < n_leaves).astype(float), atol=1e-10)
    assert np.isfinite(s.left).all()


def test_restarts_do_not_change_the_result():
    rng = np.random.default_rng(0)
    basis = np.linalg.qr(rng.normal(size=(900, 900)))[0]
    spread = 1.0 / np.arange(1, 901)
    values, vectors, residual = leading_eigenpairs(
        lambda V: basis @ (spread[:, None] * (basis.T @ V)), 900, 8, random_state=0, tolerance=1e-8
    )
    np.testing.assert_allclose(values, spread[:8], rtol=1e-12)
    np.testing.assert_allclose(np.abs(basis[:, :8].T @ vectors), np.eye(8), atol=1e-6)
    assert (residual <= 2e-8 * values).all()
    flat = 1 - np.arange(900) / 9000  # slow decay: several restarts
    values, *_ = leading_eigenpairs(lambda V: basis @ (flat[:, None] * (basis.T @ V)), 900, 8, random_state=0, tolerance=1e-8)
    np.testing.assert_allclose(values, flat[:8], rtol=1e-12)


def test_decay_finds_the_exponent():
    s = spectrum(ForestKernel(incidence(300)), rank=20)
    for beta in (0.5, 2.0):
        power = type(s)(3.0 * np.arange(1.0, 201.0) ** -beta, s.left, s.right, 0.0, None).decay()
        np.testing.assert_allclose((power.beta, power.constant, power.r2), (beta, 3.0, 1.0))
        assert power.n_values == 100
    with pytest.raises(DataMismatchError, match="rank=100"):
        spectrum(ForestKernel(incidence(300)), rank=2).decay()


@pytest.mark.parametrize("weighted", [False, True])
def test_the_oracle_is_the_projection_of_the_cross_kernel(weighted, rows_of, table):
    from sklearn.ensemble import RandomForestRegressor

    X, y, weight = table
    weight = weight if weighted else None
    K = leaf(*rows_of(RandomForestRegressor(20, max_depth=5, random_state=0).fit(X, y), X, y, weight))
    s = spectrum(K, rank=30)
    X_new = X[:60] + 0.1
    cross = K.cross(X_new).to_dense()
    onto = s.left[:, :10] @ s.right[:, :10].T
    best = s.oracle(X_new, y, rank=10)
    np.testing.assert_allclose(best.prediction, cross @ onto @ y, atol=1e-10)
    np.testing.assert_allclose(best.error, np.linalg.norm(cross - cross @ onto), rtol=1e-8)
    np.testing.assert_allclose(best.relative_error, best.error / np.linalg.norm(cross))
    assert s.oracle(X_new, y).error < best.error
    np.testing.assert_allclose(s.extend(X_new) @ s.coefficients(y), s.oracle(X_new, y).prediction)


def test_the_oracle_of_a_smoother(rows_of, table):
    from sklearn.ensemble import GradientBoostingRegressor

    from treespec.operators.boosted import boosting

    X, y, _ = table
    S = boosting(*rows_of(GradientBoostingRegressor(n_estimators=20).fit(X, y), X, y))
    s = spectrum(S, rank=30)
    cross = S.cross(X[:60] + 0.1).to_dense()
    onto = s.right[:, :10] @ s.right[:, :10].T
    best = s.oracle(X[:60] + 0.1, y, rank=10)
    np.testing.assert_allclose(best.prediction, cross @ onto @ y, atol=1e-10)
    np.testing.assert_allclose(best.error, np.linalg.norm(cross - cross @ onto), rtol=1e-8)


@pytest.mark.parametrize("rank", [0, 301])
def test_ranks_outside_the_rows_are_refused(rank):
    with pytest.raises(DataMismatchError, match="rank from 1 to 300"):
        spectrum(ForestKernel(incidence(300)), rank=rank)


@pytest.mark.parametrize("rank", [5, 40, 300])
def test_the_effective_dimension_is_between_its_bounds(rank):
    K = ForestKernel(incidence(300))
    values = np.linalg.eigvalsh(K.to_dense())
    for alpha in (1e-3, 0.1, 3.0):
        exact = (values / (values + alpha)).sum()
        found = spectrum(K, rank).effective_dimension(alpha)
        assert found.lower - 1e-9 <= exact <= found.upper + 1e-9
        if rank == 300:
            np.testing.assert_allclose((found.lower, found.upper), exact)
    with pytest.raises(DataMismatchError, match="positive alpha"):
        spectrum(K, 5).effective_dimension(0.0)
    with pytest.raises(UnsupportedModelError, match="forest kernel"):
        spectrum(BoostingSmoother(incidence(300), eta=0.3), 5).effective_dimension(1.0)


def test_shares_add_up_to_the_fitted_values():
    weight = np.random.default_rng(1).uniform(0.5, 2, size=300)
    y = np.random.default_rng(0).normal(size=(300, 2))
    s = spectrum(ForestKernel(incidence(300), weight), rank=300)
    np.testing.assert_allclose(s.shares(y).sum(), 1.0)
    ordered = s.by_share(y)
    np.testing.assert_allclose(ordered.left @ ordered.coefficients(y), s.left @ s.coefficients(y), atol=1e-10)
    assert (np.diff(ordered.shares(y)) <= 0).all()
    assert s.by_share(np.zeros(300)).shares(np.zeros(300)).max() == 0


def test_the_picture_shows_the_values_and_the_fit():
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    y = np.random.default_rng(0).normal(size=300)
    s = spectrum(ForestKernel(incidence(300)), rank=40).by_share(y)
    ax = s.plot()
    points, line = ax.get_lines()
    np.testing.assert_array_equal(points.get_ydata(), np.sort(s.values)[::-1])
    fit = s.decay()
    np.testing.assert_allclose(line.get_ydata(), fit.constant * np.arange(1.0, fit.n_values + 1) ** -fit.beta)
    assert "eigenvalue" in ax.get_ylabel()
    assert s.plot(ax) is ax
    assert "singular" in spectrum(BoostingSmoother(incidence(300), eta=0.3), 5).plot().get_ylabel()
    plt.close("all")


@pytest.mark.parametrize("weighted", [False, True])
def test_few_leaves_and_many_rows_give_the_same_pairs_as_the_rows(weighted, monkeypatch):
    module = import_module("treespec.operators.spectrum")  # the package offers the function under that name
    weight = np.random.default_rng(1).integers(0, 4, size=4000).astype(float) if weighted else None
    K = ForestKernel(incidence(4000, n_leaves=60), weight)
    over_leaves = spectrum(K, 12)
    monkeypatch.setattr(module, "LeafGram", None)  # not to be used now
    monkeypatch.setattr(module, "_ROWS_PER_LEAF", 1000)
    over_rows = spectrum(K, 12)
    np.testing.assert_allclose(over_leaves.values, over_rows.values, rtol=1e-8)
    np.testing.assert_allclose(over_leaves.left, over_rows.left, atol=1e-5)
    np.testing.assert_allclose(over_leaves.right.T @ over_leaves.left, np.eye(12), atol=1e-9)
    assert over_leaves.residual < 1e-5


def test_a_kernel_of_less_rank_than_asked_for_is_taken_over_its_rows():
    rng = np.random.default_rng(0)
    group = rng.integers(0, 5, size=4000)  # all trees have the same five leaves, split at random into many that repeat them
    index = group[:, None] * 200 + (np.arange(4000) % 200)[:, None] // 100 + 1000 * np.arange(4)
    s = spectrum(ForestKernel(LeafIncidence(index, 4000)), rank=20)
    assert (s.values[:10] > 1 - 1e-9).all()
    np.testing.assert_allclose(s.left.T @ s.left, np.eye(20), atol=1e-8)


def test_wide_blocks_find_the_same(monkeypatch):
    from treespec.operators import lanczos

    K = ForestKernel(incidence(1300))
    narrow = spectrum(K, 20)
    monkeypatch.setattr(lanczos, "_LONG", 0)
    wide = spectrum(K, 20)
    np.testing.assert_allclose(wide.values, narrow.values, rtol=1e-8)
    np.testing.assert_allclose(wide.left.T @ wide.left, np.eye(20), atol=1e-10)
