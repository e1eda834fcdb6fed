"""Forests added up: margins are the matrix times the members' margins, on every row, whatever each member makes of its input."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strategies import grow
from treespec.errors import UnsupportedModelError
from treespec.ir import InputRule
from treespec.ir.combine import Member, combine, common_loss
from treespec.ir.common_inputs import largest_that_rounds_to, with_common_inputs
from treespec.ir.inputs import ZERO_THRESHOLD

finite = st.floats(allow_nan=False, width=64)


@given(st.lists(finite | st.floats(allow_nan=False, width=32), min_size=1, max_size=20))
@settings(max_examples=200, deadline=None)
def test_the_largest_double_that_rounds_to_at_most_a_threshold(values):
    t = np.array(values)
    with np.errstate(over="ignore"):
        moved = largest_that_rounds_to(t)
        next_up = np.nextafter(moved, np.inf)
        assert (moved.astype(np.float32) <= t)[np.isfinite(moved)].all()
        above = next_up.astype(np.float32) > t
    assert above[np.isfinite(moved) & (next_up > moved)].all()


@pytest.mark.parametrize(("t", "moved"), [(np.inf, np.inf), (3.5e38, 3.4028235677973362e38), (1.0, 1.0000000596046448), (np.nan, np.nan)])
def test_thresholds_at_the_ends(t, moved):
    np.testing.assert_array_equal(largest_that_rounds_to(np.array([t])), [moved])


def rows_for(forests, n=400):
    """Return rows made of thresholds, their neighbours in both precisions, tiny values and values that float32 cannot hold."""
    rng = np.random.default_rng(0)
    with np.errstate(over="ignore"):
        t = np.concatenate([f.threshold[~f.is_leaf] for f in forests])
        t32 = t.astype(np.float32)
        near = [t, np.nextafter(t, np.inf), np.nextafter(t, -np.inf), t32, np.nextafter(t32, np.float32(np.inf))]
    tiny = [0.0, -0.0, 1e-36, -1e-36, 1e-45, ZERO_THRESHOLD, -ZERO_THRESHOLD, np.nextafter(ZERO_THRESHOLD, 1), 1e39, -1e300, 2.0**-150]
    return rng.choice(np.concatenate([*near, tiny]), (n, forests[0].n_features))


ZEROS = (0.0, 1e-36, -1e-36, ZERO_THRESHOLD, -ZERO_THRESHOLD, 1e-45)


def tree(seed, rule, *, zeros=True, **fields):
    rng = np.random.default_rng(seed)
    made = grow(rng, n_trees=4, n_features=3, **fields)
    threshold = made.threshold.copy()
    if zeros:
        at = ~made.is_leaf & (rng.random(made.n_nodes) < 0.4)
        threshold[at] = rng.choice(ZEROS, at.sum())
    return made.with_values(made.value, threshold=threshold, inputs=rule)


RULES = {
    "float32": InputRule(dtype="float32"), "float64": InputRule(), "flush": InputRule(zero="flush"),
    "flush float32": InputRule(zero="flush", dtype="float32"), "no NaN": InputRule(dtype="float32", nan="refuse"),
}  # fmt: skip


@pytest.mark.parametrize("a", RULES)
@pytest.mark.parametrize("b", RULES)
@pytest.mark.parametrize("zeros", [True, False])
def test_one_rule_for_two_routes_as_each(a, b, zeros):
    forests = [tree(1, RULES[a], zeros=zeros), tree(2, RULES[b], zeros=zeros)]
    rows = rows_for(forests)
    for before, after in zip(forests, with_common_inputs(forests, "sum"), strict=True):
        np.testing.assert_array_equal(after.apply(rows), before.apply(rows))
        assert after.inputs.nan == ("refuse" if "no NaN" in (a, b) else "route")


BAD = {
    "missing values": InputRule(missing_value=-1.0), "zeros that are missing": InputRule(zero="missing"),
    "categories to some": InputRule(categorical=(0,)),
}  # fmt: skip


@pytest.mark.parametrize("message", BAD)
def test_rules_that_have_no_common_one(message):
    with pytest.raises(UnsupportedModelError, match=message):
        with_common_inputs([tree(1, InputRule()), tree(2, BAD[message])], "sum")


def test_sums_of_margins():
    rng = np.random.default_rng(3)
    first = grow(rng, n_trees=5, n_features=4, n_outputs=2, by_output=True)
    second = grow(rng, n_trees=3, n_features=2, n_outputs=3, aggregation="mean")
    a, b = rng.normal(size=(2, 2)), rng.normal(size=(2, 3))
    columns = np.array([3, 1])
    whole = combine(
        [Member(first, a), Member(second, b, columns)], n_features=4, what="sum", base=np.array([0.5, -1.0]), task="multi-output"
    )
    X = rng.normal(size=(200, 4))
    expected = first.margin(X) @ a.T + second.margin(X[:, columns]) @ b.T + [0.5, -1.0]
    np.testing.assert_allclose(whole.margin(X), expected, rtol=1e-12, atol=1e-12)
    np.testing.assert_array_equal(whole.apply(X)[:, :5], first.apply(X))
    np.testing.assert_array_equal(whole.apply(X)[:, 5:] - first.n_nodes, second.apply(X[:, columns]))


def test_a_mean_of_means_stays_one_and_votes_stay_whole():
    rng = np.random.default_rng(4)
    forests = [grow(rng, n_trees=1, n_features=3, aggregation="mean") for _ in range(49)]
    votes = [f.with_values(np.rint(f.value), base_score=np.zeros(f.n_outputs)) for f in forests]
    whole = combine([Member(f, np.eye(1) / 49) for f in votes], n_features=3, what="sum")
    assert whole.aggregation == "mean"
    assert 1 / 49 * 49 != 1
    np.testing.assert_array_equal(whole.value[:, 0], np.concatenate([f.value[:, 0] for f in votes]))


def test_losses_of_sums():
    f = grow(np.random.default_rng(0))
    quantile, squared = (f.with_values(f.value, loss=loss) for loss in ("quantile", "squared"))
    assert [common_loss(x) for x in ([quantile, quantile], [quantile, squared], [squared])] == ["quantile", "none", "none"]
