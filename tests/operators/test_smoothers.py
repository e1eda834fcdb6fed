import numpy as np
import pytest
from scipy.sparse import csr_array

from treespec.errors import DataMismatchError
from treespec.operators import replay, rowwise
from treespec.operators.smoothers import treespec_smoothers
from treespec.plugins import Plugins


def test_the_built_in_smoothers_are_registered_through_the_hook():
    found = {}
    treespec_smoothers(found.__setitem__)
    assert {"leaf", "in-bag", "oob", "boosting", "boosting-tangent"} <= set(found)
    plugins = Plugins(("treespec.operators.smoothers",), use_entry_points=False)
    assert plugins.scheme("smoother", "in-bag").function is found["in-bag"]


def test_the_distance_is_in_standard_deviations():
    native = np.array([[0.0], [2.0]])
    assert replay.distance(native + 0.5, native) == 0.5
    assert replay.distance(np.array([4.0, 4.0]), np.array([8.0, 8.0])) == 0.5  # constant: of its size
    assert replay.distance(np.zeros(0), np.zeros(0)) == 0.0


@pytest.mark.parametrize(
    ("miss", "single", "good"), [(0.9e-5, False, True), (1.1e-5, False, False), (1.1e-5, True, True), (1e-3, True, False)]
)
def test_the_tolerance(miss, single, good):
    native = np.array([99.0, 101.0])  # sd 1; 10 float32 units of 101 are 1.2e-4
    if good:
        assert replay.check(native + miss, native, single=single, name="x", reason="r") == pytest.approx(miss)
    else:
        with pytest.raises(DataMismatchError, match=r"standard deviations \(r\)"):
            replay.check(native + miss, native, single=single, name="x", reason="r")


def test_a_replay_of_nan_is_refused():
    with pytest.raises(DataMismatchError, match="nan standard deviations"):
        replay.check(np.array([np.nan, 1.0]), np.array([0.0, 1.0]), single=True, name="x", reason="r")


def test_largest_goes_block_by_block(monkeypatch):
    monkeypatch.setattr(rowwise, "_ENTRIES", 10)
    dense = np.array([[3.0, -4.0, 0.0, 1.0], [0.0, 0.0, 0.0, 0.0], [1.0, 1.0, -1.0, 1.0], [0.0, 5.0, 0.0, 0.0], [1.0, 2.0, 3.0, 4.0]])
    kept = rowwise.largest(lambda rows: dense[rows], dense.shape, 2)
    expected = np.array([[3.0, -4.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0], [1.0, 1.0, 0.0, 0.0], [0.0, 5.0, 0.0, 0.0], [0.0, 0.0, 3.0, 4.0]])
    np.testing.assert_array_equal(kept.toarray(), expected)
    assert kept.nnz == 7
    np.testing.assert_array_equal(rowwise.largest(lambda rows: dense[rows], dense.shape, None).toarray(), dense)
    assert rowwise.squared_norm(lambda rows: dense[rows], dense.shape) == (dense**2).sum()
    stored = csr_array((np.array([0.0, 1.0]), np.array([0, 1]), np.array([0, 2])), shape=(1, 4))
    assert rowwise.largest(lambda rows: stored[rows], (1, 4), None).nnz == 1  # a stored zero is no weight
    assert rowwise.largest(lambda rows: dense[rows], (0, 4), 2).shape == (0, 4)
    for bad in (0, -3):
        with pytest.raises(DataMismatchError, match="1 or more, or None for all"):
            rowwise.largest(lambda rows: dense[rows], dense.shape, bad)


def test_of_equal_weights_the_first_are_kept():
    rng = np.random.default_rng(0)
    for _ in range(50):
        size = rng.integers(0, 4, size=12).astype(float)
        for top in (1, 3, 12, 20):
            expected = np.sort(np.argsort(-size, kind="stable")[:top])
            np.testing.assert_array_equal(rowwise._largest(size, top), expected)
