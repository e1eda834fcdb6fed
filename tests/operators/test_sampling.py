import numpy as np
import pytest
from sklearn.model_selection import train_test_split

from treespec.operators import LeafIncidence, sampling


@pytest.mark.parametrize(("n", "fraction"), [(101, 0.1), (50, 0.33), (40, 7)])
def test_the_split_is_that_of_scikit_learn(n, fraction):
    expected = train_test_split(np.arange(n), test_size=fraction, random_state=3)
    for found, wanted in zip(sampling.split(n, fraction, 3), expected, strict=True):
        np.testing.assert_array_equal(found, wanted)


def test_the_masks_of_gradient_boosting_keep_the_right_number_of_rows():
    mask = sampling.gradient_boosting(97, 6, 2, 0.5, 0)
    np.testing.assert_array_equal(mask.sum(axis=0), 48)
    np.testing.assert_array_equal(mask[:, 0], mask[:, 1])
    assert (mask[:, 1] != mask[:, 2]).any()


def test_lightgbm_keeps_its_generators_over_blocks_and_draws():
    state = [5, 6, 7]  # one generator for each 1,024 rows
    expected = []
    for _ in range(2):
        draw = np.empty(2500, bool)
        for i in range(2500):
            j = i // 1024
            state[j] = (state[j] * 214013 + 2531011) % 2**32
            draw[i] = ((state[j] >> 16) & 0x7FFF) / 32768 < 0.6
        expected.append(draw)
    generators, length = np.array([5, 6, 7], np.uint64), np.array([1024, 1024, 452])
    for wanted in expected:
        found, generators = sampling._lightgbm_draw(generators, length, 2500, 0.6)
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("seed", [0, 123])
@pytest.mark.parametrize("method", ["hist", "exact"])
def test_rows_are_only_believed_where_the_leaves_agree(method, seed, rows_of, table):
    xgboost = pytest.importorskip("xgboost")
    X, y, _ = table
    model = xgboost.XGBRegressor(n_estimators=5, max_depth=3, subsample=0.6, tree_method=method, seed=seed, n_jobs=1).fit(X, y)
    forest, data = rows_of(model, X, y)
    Z, ones, exact = LeafIncidence.of(forest, data.leaf_id), np.ones(len(y)), method == "exact"
    mask = sampling.xgboost(forest, Z, ones, 0.6, seed, exact=exact)
    np.testing.assert_allclose(Z.with_entries(mask).counts(), forest.cover[forest.leaves])
    assert sampling.xgboost(forest, Z, ones, 0.6, seed + 1, exact=exact) is None
    assert sampling.xgboost(forest, Z, ones, 0.61, seed, exact=exact) is None
