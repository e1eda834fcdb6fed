"""Products on a torch device are NumPy's, on whatever device there is."""

import numpy as np
import pytest
from sklearn.datasets import load_diabetes
from sklearn.ensemble import RandomForestRegressor

import treespec
from strategies import grow, rows
from treespec import errors
from treespec.operators import LeafIncidence, torch_leaves
from treespec.operators.torch_leaves import TorchLeaves

torch = pytest.importorskip("torch")
DEVICES = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("k", [1, 5])
def test_products_are_those_of_numpy(device, k, monkeypatch):
    monkeypatch.setattr(torch_leaves, "_ROWS", 40)
    rng = np.random.default_rng(0)
    forest = grow(rng, n_trees=6, max_depth=4)
    Z = LeafIncidence.of(forest, forest.apply(rows(rng, forest, 130)))
    there = TorchLeaves(Z, device)
    V, U, w = rng.normal(size=(Z.shape[1], k)), rng.normal(size=(Z.shape[0], k)), rng.uniform(size=Z.shape[0])
    calls = []
    monkeypatch.setattr(torch_leaves, "_gathered", lambda *a, f=torch_leaves._gathered: calls.append(1) or f(*a))
    for mine, theirs in (
        (Z @ V, there @ V),
        (Z.T @ U, there.T @ U),
        (Z.normal(V, w), there.normal(V, w)),
        (Z.normal(V), there.normal(V)),
        (Z.with_entries(w) @ V, there.with_entries(w) @ V),
        (Z.with_entries(w).T @ U, there.with_entries(w).T @ U),
        (Z.with_entries(w).normal(V, w), there.with_entries(w).normal(V, w)),
        (Z.select(np.array([1, 4])) @ V, there.select(np.array([1, 4])) @ V),
        (Z.counts(w), there.counts(w)),
    ):
        np.testing.assert_allclose(theirs, mine, atol=1e-12)
    assert len(calls) == 4 * 4  # of four blocks each: a product, two passes, and the product of the selected trees
    assert there.select(np.array([0])).device == there.device


@pytest.mark.parametrize("device", DEVICES)
def test_one_switch(device):
    X, y = load_diabetes(return_X_y=True)
    model = RandomForestRegressor(10, min_samples_leaf=5, random_state=0).fit(X, y)
    here, there = treespec.wrap(model, X, y), treespec.wrap(model, X, y, device=device)
    blocks = treespec.wrap(model, [X[:200], X[200:]], y, device=device)
    for w in (there, blocks):
        for name in ("leaf", "in-bag", "path"):
            np.testing.assert_allclose(w.smoother(name) @ y, here.smoother(name) @ y, rtol=1e-10)
            np.testing.assert_allclose(w.smoother(name).trace(), here.smoother(name).trace(), rtol=1e-12)
        np.testing.assert_allclose(w.spectrum(5).values, here.spectrum(5).values, rtol=1e-10)
        np.testing.assert_allclose(w.kpp(alpha=1.0).predict(X), here.kpp(alpha=1.0).predict(X), rtol=1e-8)
    assert isinstance(there.smoother("leaf").left, TorchLeaves)
    assert isinstance(blocks.rows.table, TorchLeaves)


def test_a_device_that_is_not_there_is_named():
    X, y = load_diabetes(return_X_y=True)
    model = RandomForestRegressor(2, max_depth=2, random_state=0).fit(X, y)
    with pytest.raises(errors.DataMismatchError, match="'abacus'"):
        treespec.wrap(model, X, device="abacus")
    if not torch.cuda.is_available():
        with pytest.raises(errors.DataMismatchError, match="'cuda'"):
            treespec.wrap(model, X, device="cuda")
    da = pytest.importorskip("dask.array")
    with pytest.raises(errors.UnsupportedModelError, match="device=None for rows of Dask"):
        treespec.wrap(model, da.from_array(X), device="cpu")
