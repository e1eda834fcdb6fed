"""Node-weight schemes against their definitions, node by node, and the one check of what a scheme returns."""

import numpy as np
import pytest
from hypothesis import given, settings
from sklearn.ensemble import RandomForestRegressor

import strategies
from kpp import problems
from kpp.problems import WEIGHTS, problem, rows_of, weight
from treespec.errors import DataNeededError, PluginError, UnsupportedModelError
from treespec.hooks import Scheme
from treespec.ir import stats
from treespec.kpp.partition import Partition
from treespec.kpp.targets import Targets
from treespec.kpp.weights import default_scheme, node_weights


def rows_at(forest, leaf_id):
    """The set of rows that visits each node."""
    parent, visits = stats.parent(forest), [[] for _ in range(forest.n_nodes)]
    for i, leaves in enumerate(leaf_id):
        for v in leaves:
            while v >= 0:
                visits[v].append(i)
                v = parent[v]
    return visits


def gini(value, w):
    return 1 - ((w @ value / w.sum()) ** 2).sum()


def entropy(value, w):
    p = w @ value / w.sum()
    return -(p[p > 0] * np.log(p[p > 0])).sum()


def spread(value, w):
    return (w @ (value - w @ value / w.sum()) ** 2).mean() / w.sum()


def by_hand(forest, leaf_id, value, w, level):
    visits = rows_at(forest, leaf_id)
    Q = np.array([level(value[r], w[r]) if len(r) and w[r].sum() else 0.0 for r in visits])
    mass = np.array([w[r].sum() for r in visits])
    decrease = np.zeros(forest.n_nodes)
    for v in np.flatnonzero(~forest.is_leaf):
        if mass[v]:
            ch = [forest.left[v], forest.right[v]]
            decrease[v] = Q[v] - (mass[ch] * Q[ch]).sum() / mass[v]
    return Q, decrease, mass / w.sum()


@given(strategies.cases(max_rows=25, max_outputs=2))
@settings(max_examples=60, deadline=None)
def test_statistics_of_random_forests_and_telescoping(case):
    """eq. 67, 68, 70, 73, 76: gains and leaf risk add up to the root, with weights, empty nodes and several outputs."""
    forest, rng = case.forest, case.rng
    n, k = len(case.X), forest.n_outputs
    w = rng.integers(0, 3, size=n).astype(float)
    w[0] += 1
    y = rng.normal(size=(n, k)) * 10 + 1e3
    part = Partition.of(forest, case.leaf_id, Targets.of(forest, y), w)
    Q, decrease, mass = by_hand(forest, case.leaf_id, y, w, spread)
    np.testing.assert_allclose(part.mass, mass, atol=1e-14)
    np.testing.assert_allclose(part.variance, Q, atol=1e-10)
    np.testing.assert_allclose(part.variance_decrease, decrease, atol=1e-10)
    total = part.gain(part.variance_decrease) + part.leaf_risk(part.variance)
    np.testing.assert_allclose(total, part.root_level(part.variance), rtol=1e-10, atol=1e-10)
    code = rng.integers(0, 3, size=n)
    classes = Targets("classes", np.eye(3)[code], code[:, None], (np.arange(3),))
    part = Partition.of(forest, case.leaf_id, classes, w)
    for level, decrease, function in ((part.variance, part.variance_decrease, gini), (part.entropy, part.entropy_decrease, entropy)):
        Q, expected, _ = by_hand(forest, case.leaf_id, classes.value, w, function)
        np.testing.assert_allclose(level, Q, atol=1e-12)
        np.testing.assert_allclose(decrease, expected, atol=1e-12)
        assert (decrease >= 0).all()
        np.testing.assert_allclose(part.gain(decrease) + part.leaf_risk(level), part.root_level(level), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("name", ["diabetes", "multi-output", "binary", "multiclass", "multi-label"])
@pytest.mark.parametrize("scheme", sorted(WEIGHTS))
def test_every_scheme_on_every_task(name, scheme):
    p = problem(name)
    if scheme == "entropy-decrease" and p.forest.classes is None:
        with pytest.raises(UnsupportedModelError, match="classifier"):
            node_weights(weight(scheme), p.forest, p.data)
        return
    a = node_weights(weight(scheme), p.forest, p.data)
    assert a.shape == (p.forest.n_nodes,)
    assert (a[p.forest.is_leaf] == 0).all() and (a >= 0).all() and a.any()


def test_impurity_decrease_is_not_multiplied_by_the_share_of_rows():
    """eq. 68: from the stored statistics; scikit-learn's importance term is the same times p(v)."""
    p = problem("diabetes")
    a = node_weights(weight("impurity-decrease"), p.forest)
    tree = p.model.estimators_[3].tree_
    local = a[p.forest.tree_offset[3] : p.forest.tree_offset[4]]
    split = tree.children_left >= 0
    left, right, w = tree.children_left, tree.children_right, tree.weighted_n_node_samples
    expected = tree.impurity - (w[left] * tree.impurity[left] + w[right] * tree.impurity[right]) / w
    np.testing.assert_allclose(local[split], expected[split], rtol=1e-12)
    np.testing.assert_allclose(p.forest.gain, a * p.forest.cover / p.forest.cover[0], rtol=1e-9, atol=1e-9)


def test_on_the_training_rows_of_an_unbagged_forest_data_and_stored_impurities_agree():
    p = problem("diabetes")
    model = RandomForestRegressor(3, max_depth=4, bootstrap=False, max_features=0.5, random_state=0).fit(p.X, p.y)
    forest = problems.adapt(model)
    data = rows_of(forest, p.X, p.y)
    np.testing.assert_allclose(
        node_weights(weight("variance-decrease"), forest, data), node_weights(weight("impurity-decrease"), forest), rtol=1e-6, atol=1e-6
    )


@pytest.mark.parametrize("scheme", ["variance-decrease", "entropy-decrease", "variance"])
def test_a_scheme_without_its_data_says_which(scheme):
    p = problem("binary")
    with pytest.raises(DataNeededError, match=f"(?s){scheme}.*no X and y"):
        node_weights(weight(scheme), p.forest)
    with pytest.raises(DataNeededError, match=f"(?s){scheme}.*no y"):
        node_weights(weight(scheme), p.forest, rows_of(p.forest, p.X))


def test_a_scheme_that_the_model_cannot_serve_says_what_does():
    bare = strategies.grow(np.random.default_rng(0), split=1.0)
    for scheme in ("impurity-decrease", "gain"):
        with pytest.raises(DataNeededError, match=r"(?s)stores (impurities|gains).*uniform"):
            node_weights(weight(scheme), bare)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda f: -1.0 * ~f.is_leaf, "negative weights"),
        (lambda f: np.where(f.is_leaf, 0, np.nan), "not finite"),
        (lambda f: np.ones(f.n_nodes), "positive weights at leaves"),
        (lambda f: np.ones(3), r"shape \(3,\)"),
        (lambda f: np.full(f.n_nodes, "x"), "type <U1"),
    ],
)
def test_what_a_plugin_returns_is_checked_and_its_owner_named(make, message):
    forest = problem("diabetes").forest
    scheme = Scheme("node-weights", "odd", lambda f, d=None: make(f), "my-plugin (1.0)")
    with pytest.raises(PluginError, match=message) as error:
        node_weights(scheme, forest)
    assert "my-plugin (1.0)" in str(error.value) and "'odd'" in str(error.value)


def test_weights_that_are_all_zero_are_refused():
    constant = strategies.grow(np.random.default_rng(0), split=0.0)
    with pytest.raises(UnsupportedModelError, match="no split"):
        node_weights(weight("uniform"), constant)
    p = problem("diabetes")
    with pytest.raises(UnsupportedModelError, match="tells these labels apart"):
        node_weights(weight("variance-decrease"), p.forest, rows_of(p.forest, p.X, np.ones(len(p.y))))


def test_the_default_is_what_the_model_stores_else_what_the_data_say():
    assert default_scheme(problem("diabetes").forest) == "impurity-decrease"
    bare = strategies.grow(np.random.default_rng(0))
    assert default_scheme(bare) == "variance-decrease"
    assert default_scheme(bare.with_values(bare.value, task="binary")) == "entropy-decrease"
