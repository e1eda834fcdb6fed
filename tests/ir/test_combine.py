"""Several forests as one route every row as each did."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import strategies
from treespec.errors import UnsupportedModelError
from treespec.ir import InputRule
from treespec.ir.combine import Member, combine
from treespec.ir.inputs import ZERO_THRESHOLD


def joined(forests):
    return combine([Member(f, np.eye(f.n_outputs)) for f in forests], n_features=forests[0].n_features, what="sum")


def probes(forests, rng, n=200):
    """Rows at the thresholds, at float64 and float32 neighbours of them, half way between float32 numbers, and at the extremes."""
    t = np.concatenate([f.threshold[~np.isnan(f.threshold)] for f in forests] or [np.zeros(1)])
    with np.errstate(over="ignore"):
        near = t.astype(np.float32)
        up, down = np.nextafter(near, np.float32(np.inf)), np.nextafter(near, np.float32(-np.inf))
    half = [(near.astype(float) + side) / 2 for side in (up, down)]
    values = np.concatenate([t, near, up, down, *half, *(np.nextafter(h, s) for h in half for s in (np.inf, -np.inf))])
    values = np.concatenate([values, [0.0, np.inf, -np.inf, 3.4028235677973366e38, -3.4028235677973366e38, 1e-46, -1e-46, np.nan]])
    return rng.choice(values, (n, forests[0].n_features))


@given(st.integers(0, 10_000), st.sampled_from([("float32", "float32"), ("float32", "float64"), ("float64", "float32")]))
@settings(max_examples=60, deadline=None)
def test_every_row_goes_where_it_went(seed, dtypes):
    rng = np.random.default_rng(seed)
    forests = []
    for dtype in dtypes:
        f = strategies.grow(rng, n_trees=3, max_depth=3, n_features=2, inputs=InputRule(dtype=dtype))
        odd = rng.choice([0.0, 1e-50, -1e-50, 1e39, -1e39, 3.4028234663852886e38, np.inf, 1 / 3, 1e-45, -3.5e-46], f.n_nodes)
        forests.append(f.with_values(f.value, threshold=np.where(rng.random(f.n_nodes) < 0.5, odd, f.threshold)))
    whole, X = joined(forests), probes(forests, rng)
    shift = np.cumsum([0, *(f.n_nodes for f in forests)])
    with np.errstate(over="ignore"):
        each = np.hstack([f.apply(X) + s for f, s in zip(forests, shift, strict=False)])
        np.testing.assert_array_equal(whole.apply(X), each)
    np.testing.assert_allclose(whole.margin(X), sum(f.margin(X) for f in forests), atol=1e-12)


def test_categories_are_kept_side_by_side():
    rng = np.random.default_rng(3)
    forests = [strategies.grow(rng, n_trees=2, max_depth=3, n_features=3, categorical=(1,)) for _ in range(2)]
    assert any(f.categorical.any() for f in forests)
    X = rng.normal(size=(200, 3))
    X[:, 1] = rng.integers(0, 6, 200)
    np.testing.assert_allclose(joined(forests).margin(X), sum(f.margin(X) for f in forests), atol=1e-12)


def test_the_stricter_rule_about_values_holds():
    rng = np.random.default_rng(0)
    forests = [
        strategies.grow(rng, n_features=2, inputs=InputRule(nan=r, infinite=s)) for r, s in (("route", "refuse"), ("refuse", "route"))
    ]
    rule = joined(forests).inputs
    assert (rule.nan, rule.infinite) == ("refuse", "refuse")


def test_tiny_values_that_one_forest_flushes_go_where_they_went():
    rng = np.random.default_rng(1)
    flush = strategies.grow(rng, n_features=1, split=1.0, max_depth=1, inputs=InputRule(zero="flush"))
    keep = strategies.grow(rng, n_features=1, split=1.0, max_depth=1, n_trees=1)
    near = keep.with_values(keep.value, threshold=np.where(np.isnan(keep.threshold), np.nan, -1e-36))
    at = flush.with_values(flush.value, threshold=np.where(np.isnan(flush.threshold), np.nan, rng.choice([0.0, 1e-36, -1e-36])))
    X = np.array([[0.0], [ZERO_THRESHOLD], [-ZERO_THRESHOLD], [1e-34], [-1e-34], [1e-36], [-1e-36], [1.0], [2.0]])
    for a in (flush, at):
        np.testing.assert_allclose(joined([a, near]).margin(X), a.margin(X) + near.margin(X))


@pytest.mark.parametrize("rules", [
    ({}, {"zero": "missing"}), ({}, {"missing_value": -1.0}), ({"dtype": "float32", "missing_value": -1.0}, {"missing_value": -1.0}),
])  # fmt: skip
def test_rules_that_no_one_rule_can_stand_for_are_refused(rules):
    rng = np.random.default_rng(0)
    forests = [strategies.grow(rng, n_features=2, inputs=InputRule(**r)) for r in rules]
    with pytest.raises(UnsupportedModelError, match="read rows alike"):
        joined(forests)


def test_what_a_sparse_matrix_leaves_out_must_mean_one_thing():
    from scipy.sparse import csr_array

    from treespec.errors import DataMismatchError

    rng = np.random.default_rng(0)
    whole = joined([strategies.grow(rng, n_features=2, inputs=InputRule(absent=a)) for a in ("zero", "missing")])
    with pytest.raises(DataMismatchError, match="sparse"):
        whole.margin(csr_array(np.eye(2)))
