"""Treelite both ways: what comes out of its models, what goes into them, and routing by its predictor."""

from dataclasses import replace

import numpy as np
import pytest
import treelite
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_diabetes
from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier, RandomForestRegressor
from treelite.model_builder import Metadata, ModelBuilder, PostProcessorFunc, TreeAnnotation

from probe import nasty_rows
from strategies import forests, grow
from treespec.adapters import sklearn_trees
from treespec.adapters import treelite as adapter
from treespec.adapters._reach import reachable
from treespec.adapters._treelite import TreeliteRouter, structure_of, to_treelite
from treespec.adapters._treelite_bytes import round_down
from treespec.errors import UnsupportedModelError
from treespec.hooks import is_a
from treespec.ir import Forest, InputRule, traverse

X, y = load_diabetes(return_X_y=True)
FUZZ = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
SHIFTS = (0.0, 1e-9, 0.1, 1e-300, 1e39, -1e39, 1e-46, np.inf, -np.inf)


def read_back(model):
    """Return the structure of a model as a plain forest."""
    structure = structure_of(model)
    inputs = InputRule(dtype=structure.input_dtype, categorical=structure.categorical_columns)
    outputs = len(structure.base_score)
    return Forest(**structure.forest_fields(), inputs=inputs, task="regression" if outputs == 1 else "multi-output")


def awkward(forest, rng, dtype):
    """Move thresholds to numbers that float32 lacks, and let the inputs have the type ``dtype``."""
    moved = forest.threshold + np.where(rng.random(forest.n_nodes) < 0.5, 0.0, rng.choice(SHIFTS, forest.n_nodes))
    return replace(forest, threshold=moved, inputs=replace(forest.inputs, dtype=dtype))


# ---- routing


@FUZZ
@given(forests(max_trees=6, max_depth=6, max_outputs=3), st.sampled_from(["float32", "float64"]), st.integers(0, 2**32 - 1))
def test_router_reaches_the_leaves_of_the_reference(forest, dtype, seed):
    rng = np.random.default_rng(seed)
    forest = awkward(forest, rng, dtype)
    encoded = forest.encode(nasty_rows(forest, rng, n_random=60, max_nodes=40))
    leaf = TreeliteRouter(forest).leaf_id(encoded)
    assert leaf.dtype == np.int32
    np.testing.assert_array_equal(leaf, traverse.apply(forest, encoded))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_router_matches_huge_category_codes(dtype):
    codes = np.array([3, 2**24, 2**24 + 2, 2**31 - 1])
    forest = Forest(
        tree_offset=[0, 3], left=[1, -1, -1], right=[2, -1, -1], feature=[0, -1, -1], threshold=[np.nan] * 3,
        default_left=[False] * 3, value=[0.0, 1.0, 2.0], n_features=1, category_offset=[0, 4, 4, 4], category=codes,
        category_left=[True, False, False], categorical=[True, False, False], inputs=InputRule(dtype=dtype, categorical=(0,)),
    )  # fmt: skip
    x = [3, 4, 2**24, 2**24 + 1, 2**24 + 2, 2**24 + 4, 2**31 - 1, 2**31, 2**32 + 3, 2.0**32 + 2**24, 1e30, -3, 3.9, np.nan, np.inf, -np.inf]
    encoded = forest.encode(np.array(x)[:, None])
    expected = traverse.apply(forest, encoded)
    assert 1 < (expected == 1).sum() < len(x)
    np.testing.assert_array_equal(TreeliteRouter(forest).leaf_id(encoded), expected)


def test_router_works_in_blocks(monkeypatch):
    forest = grow(np.random.default_rng(0), n_trees=7, max_depth=5)
    encoded = forest.encode(np.random.default_rng(1).normal(size=(101, 3)))
    monkeypatch.setattr("treespec.adapters._treelite._BLOCK", 70)
    monkeypatch.setattr("treespec.adapters._treelite._GROUP", 60)
    np.testing.assert_array_equal(TreeliteRouter(forest).leaf_id(encoded), traverse.apply(forest, encoded))
    assert TreeliteRouter(forest).leaf_id(encoded[:0]).shape == (0, 7)


@given(st.floats(allow_nan=False), st.floats(allow_nan=False, width=32))
@example(threshold=-3.402823364973241e38, x=-np.inf)
@example(threshold=1e300, x=np.inf)
def test_rounding_down_keeps_the_side_of_every_float32(threshold, x):
    assert (np.float32(x) <= round_down(np.array([threshold]))[0]) == (x <= threshold)


# ---- there and back


@FUZZ
@given(forests(max_trees=6, max_depth=5, max_outputs=3), st.sampled_from(["float32", "float64"]), st.integers(0, 2**32 - 1))
def test_round_trip_keeps_nodes_routes_and_margins(forest, dtype, seed):
    rng = np.random.default_rng(seed)
    forest = awkward(forest, rng, dtype)
    model = to_treelite(forest)
    back = read_back(model)
    for name in ("tree_offset", "left", "right", "feature", "categorical", "category_offset", "category", "default_left"):
        at = ~forest.is_leaf if name == "default_left" else slice(None)
        np.testing.assert_array_equal(getattr(back, name)[at], getattr(forest, name)[at], err_msg=name)
    np.testing.assert_array_equal(
        back.native_id, np.arange(forest.n_nodes) - np.repeat(forest.tree_offset[:-1], np.diff(forest.tree_offset))
    )
    encoded = forest.encode(nasty_rows(forest, rng, n_random=40, max_nodes=20))
    leaf = traverse.apply(forest, encoded)
    np.testing.assert_array_equal(traverse.apply(back, encoded), leaf)
    tolerance = {"rtol": 1e-5, "atol": 1e-5} if dtype == "float32" else {"rtol": 1e-12, "atol": 1e-12}
    np.testing.assert_allclose(back.margin_of(leaf), forest.margin_of(leaf), **tolerance)
    theirs = treelite.gtil.predict(model, encoded, pred_margin=True).reshape(len(encoded), -1)
    np.testing.assert_allclose(theirs, forest.margin_of(leaf), **tolerance)


@pytest.mark.parametrize("statistics", [{}, {"cover": 2.5}, {"count": 3.0, "gain": 0.5}, {"count": 2.5}])
def test_round_trip_keeps_statistics(statistics):
    forest = grow(np.random.default_rng(0))
    given = {
        name: np.where(forest.is_leaf & (name == "gain"), 0.0, value + np.arange(forest.n_nodes)) for name, value in statistics.items()
    }
    back = read_back(to_treelite(replace(forest, **given)))
    for name in ("cover", "count", "gain"):
        if name in given and not (name == "count" and statistics["count"] % 1):
            np.testing.assert_array_equal(getattr(back, name), given[name])
        else:
            assert getattr(back, name) is None


@pytest.mark.parametrize(
    ("link", "scale", "task", "n_outputs"),
    [
        ("identity", 1.0, "regression", 1),
        ("identity", 1.0, "ranking", 1),
        ("exp", 1.0, "regression", 1),
        ("log1p-exp", 1.0, "regression", 1),
        ("signed-square", 1.0, "regression", 1),
        ("hinge", 1.0, "binary", 1),
        ("sigmoid", 2.0, "binary", 1),
        ("sigmoid-each", 1.0, "multi-output", 3),
        ("sigmoid-each", 1.5, "multiclass", 3),
        ("softmax", 1.0, "multiclass", 3),
        ("probability", 1.0, "multiclass", 3),
        ("identity", 1.0, "multi-output", 3),
    ],
)
@pytest.mark.parametrize("by_output", [False, True])
@pytest.mark.parametrize("aggregation", ["sum", "mean"])
def test_predictions_survive_export(link, scale, task, n_outputs, by_output, aggregation):
    rng = np.random.default_rng(3)
    forest = grow(rng, n_trees=7, n_outputs=n_outputs, by_output=by_output, aggregation=aggregation, link=link, link_scale=scale)
    forest = replace(forest, task=task)
    rows = rng.normal(size=(50, 3))
    model = to_treelite(forest)
    theirs = treelite.gtil.predict(model, rows).reshape(50, -1)
    np.testing.assert_allclose(theirs.squeeze(), forest.predict(rows), rtol=1e-6, atol=1e-6)
    back = adapter.treespec_adapt(model)
    assert back.task == task
    np.testing.assert_allclose(back.predict(rows), forest.predict(rows), rtol=1e-6, atol=1e-6)


def test_classes_of_several_targets_are_padded_and_read_back():
    target = np.column_stack([np.digitize(y, [100, 200]), y > 140])
    model = RandomForestClassifier(n_estimators=4, max_depth=4, random_state=0).fit(X, target)
    forest = sklearn_trees.treespec_adapt(model)
    theirs = treelite.gtil.predict(to_treelite(forest, "float64"), X.astype(np.float32))
    for k, proba in enumerate(model.predict_proba(X)):
        np.testing.assert_allclose(theirs[:, k, : proba.shape[1]], proba, rtol=1e-14)
    np.testing.assert_allclose(
        read_back(to_treelite(forest, "float64")).margin(X.astype(np.float32)), np.hstack(model.predict_proba(X)), rtol=1e-14
    )


def test_scaled_links_that_treelite_lacks_are_refused():
    with pytest.raises(UnsupportedModelError, match="link_scale"):
        to_treelite(grow(np.random.default_rng(0), link="exp", link_scale=2.0))


def test_leaf_values_beyond_float32_are_kept():
    forest = replace(grow(np.random.default_rng(0)), inputs=InputRule(dtype="float32"))
    large = forest.with_values(forest.value * 1e100)
    np.testing.assert_array_equal(read_back(to_treelite(large)).value, large.value)


# ---- models that Treelite made


def built(operator="<=", thresholds=(0.5, -0.25), node_order=(0, 1, 2, 3, 4), **options):
    """Build a tree of two splits; ``node_order`` are the keys in the order of declaration."""
    settings_ = {
        "threshold_type": "float32",
        "leaf_output_type": "float32",
        "postprocessor": PostProcessorFunc(name="identity"),
        "base_scores": [0.5],
    } | options
    builder = ModelBuilder(
        metadata=Metadata(
            num_feature=2, task_type="kRegressor", average_tree_output=False, num_target=1, num_class=[1], leaf_vector_shape=(1, 1)
        ),
        tree_annotation=TreeAnnotation(num_tree=1, target_id=[0], class_id=[0]),
        **settings_,
    )
    builder.start_tree()
    for key in node_order:
        builder.start_node(key)
        if key == 0:
            builder.numerical_test(0, thresholds[0], default_left=True, opname=operator, left_child_key=1, right_child_key=2)
        elif key == 1:
            builder.numerical_test(1, thresholds[1], default_left=False, opname=operator, left_child_key=3, right_child_key=4)
        else:
            builder.leaf(float(key))
        builder.end_node()
    builder.end_tree()
    return builder.commit()


@pytest.mark.parametrize("operator", ["<", "<="])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("threshold", [0.5, 0.1, 0.0, -0.0, np.inf, 1e-45, 3.4028234663852886e38, -3.4028234663852886e38])
def test_strict_comparison_is_translated_in_the_type_of_the_model(operator, dtype, threshold):
    model = built(operator, (threshold, -threshold if np.isfinite(threshold) else 0.0), threshold_type=dtype, leaf_output_type=dtype)
    forest = adapter.treespec_adapt(model)
    assert forest.sum_dtype == dtype
    rows = forest.encode(nasty_rows(forest, np.random.default_rng(0)))
    native = adapter.treespec_native(model, forest)
    np.testing.assert_array_equal(forest.native_id[forest.apply(rows)], native.leaf_id(rows))
    np.testing.assert_array_equal(forest.margin(rows), native.margin(rows))
    np.testing.assert_array_equal(forest.predict(rows), native.predict(rows))


@pytest.mark.parametrize("operator", [">", ">=", "=="])
def test_other_comparisons_are_refused(operator):
    with pytest.raises(UnsupportedModelError, match="comparisons < or <="):
        structure_of(built(operator))


def test_thresholds_that_no_value_is_below_are_refused():
    with pytest.raises(UnsupportedModelError, match="thresholds"):
        structure_of(built("<", (-np.inf, 0.0)))


def test_nodes_in_another_order_are_sorted_and_mapped():
    model = built(node_order=(0, 3, 1, 4, 2))
    forest = adapter.treespec_adapt(model)
    rows = forest.encode(nasty_rows(forest, np.random.default_rng(0)))
    np.testing.assert_array_equal(forest.native_id[forest.apply(rows)], treelite.gtil.predict_leaf(model, rows))
    np.testing.assert_array_equal(forest.margin(rows), treelite.gtil.predict(model, rows).reshape(-1))


def test_fields_are_copies_that_outlive_the_model():
    model = to_treelite(grow(np.random.default_rng(0), n_trees=20, max_depth=6, split=1.0))
    structure = structure_of(model)
    for tree in range(20):
        accessor = model.get_tree_accessor(tree)
        for name in ("threshold", "leaf_value", "cleft"):
            accessor.get_field(name)[:] = -7
    again = structure_of(to_treelite(grow(np.random.default_rng(0), n_trees=20, max_depth=6, split=1.0)))
    np.testing.assert_array_equal(structure.threshold, again.threshold)
    np.testing.assert_array_equal(structure.value, again.value)


@pytest.mark.parametrize(
    ("field", "at", "to", "message"),
    [
        ("cleft", 0, 99, "outside its tree"),
        ("cright", 0, -5, "outside its tree"),
        ("cleft", 1, 0, "two parents"),
        ("cright", 0, 1, "two parents"),
        ("cright", 0, 0, "two parents"),
        ("cleft", 0, 2, "two parents"),
        ("split_index", 1, 2, "features below"),
        ("split_index", 1, -3, "features below"),
        ("cmp", 0, 77, "comparisons"),
        ("threshold", 0, np.nan, "thresholds"),
    ],
)
def test_damaged_trees_are_refused(field, at, to, message):
    model = built()
    model.get_tree_accessor(0).get_field(field)[at] = to
    with pytest.raises(UnsupportedModelError, match=message):
        structure_of(model)


def test_doubling_chains_are_refused_before_they_grow():
    n = 60
    child = np.append(np.arange(1, n), -1)
    with pytest.raises(UnsupportedModelError, match="two parents"):
        reachable(child, child, np.array([0, n]))


def test_unreachable_nodes_are_dropped():
    model = built()
    accessor = model.get_tree_accessor(0)
    accessor.get_field("cleft")[1] = accessor.get_field("cright")[1] = -1
    forest = adapter.treespec_adapt(model)
    assert forest.n_nodes == 3
    np.testing.assert_array_equal(forest.native_id, [0, 1, 2])


def test_lists_that_run_over_their_end_are_refused():
    forest = grow(np.random.default_rng(2), categorical=(0, 1, 2), split=1.0)
    model = to_treelite(forest)
    model.get_tree_accessor(0).get_field("category_list_end")[0] = 10**6
    with pytest.raises(UnsupportedModelError, match="category_list"):
        structure_of(model)


def test_codes_that_float32_cannot_tell_apart_are_never_matched():
    codes = np.array([1, 2**24, 2**24 + 2])
    forest = replace(
        grow(np.random.default_rng(0), n_trees=1, max_depth=1, split=1.0, n_features=1, categorical=(0,)),
        category_offset=[0, 3, 3, 3],
        category=codes,
    )
    model = to_treelite(forest, "float32")
    rows = np.array([[1], [2], [2**24], [2**24 + 2], [2**24 + 4]], np.float32)
    back = read_back(model)
    np.testing.assert_array_equal(back.native_id[back.apply(rows)], treelite.gtil.predict_leaf(model, rows))
    np.testing.assert_array_equal(back.category, [1, 2**24])


def test_means_are_taken_over_the_trees_of_each_output():
    rng = np.random.default_rng(0)
    model = to_treelite(grow(rng, n_trees=7, n_outputs=3, by_output=True))
    model.get_header_accessor().get_field("average_tree_output")[:] = 1
    rows = rng.normal(size=(30, 3))
    theirs = treelite.gtil.predict(model, rows, pred_margin=True).reshape(30, -1)
    assert len(set(np.bincount(structure_of(model).tree_output))) > 1
    np.testing.assert_allclose(read_back(model).margin(rows), theirs, rtol=1e-12)


def test_statistics_that_some_node_lacks_are_dropped():
    forest = grow(np.random.default_rng(0))
    model = to_treelite(replace(forest, count=np.ones(forest.n_nodes), cover=np.ones(forest.n_nodes)))
    model.get_tree_accessor(1).get_field("data_count_present")[0] = 0
    structure = structure_of(model)
    assert structure.count is None
    assert structure.cover is not None


def test_imported_classifiers_predict_as_treelite_does():
    three = np.digitize(y, [100, 200])
    for model in (
        RandomForestRegressor(n_estimators=3, random_state=0).fit(X, y),
        GradientBoostingClassifier(n_estimators=3).fit(X, three),
    ):
        imported = treelite.sklearn.import_model(model)
        forest = adapter.treespec_adapt(imported)
        native = adapter.treespec_native(imported, forest)
        np.testing.assert_array_equal(forest.native_id[forest.apply(X)], native.leaf_id(X))
        np.testing.assert_allclose(forest.margin(X), native.margin(X), rtol=1e-12)
        np.testing.assert_allclose(forest.predict(X), native.predict(X), rtol=1e-6)
        assert forest.count is not None and forest.cover is not None


def test_what_the_ir_has_no_link_for_is_refused():
    with pytest.raises(UnsupportedModelError, match="exponential_standard_ratio"):
        adapter.treespec_adapt(built(postprocessor=PostProcessorFunc(name="exponential_standard_ratio", ratio_c=2.0)))


def test_other_objects_are_passed():
    assert adapter.treespec_adapt(object()) is None
    assert adapter.treespec_native(object(), None) is None


def test_recognition_is_by_class_and_imports_nothing():
    import sys

    class Sub(RandomForestRegressor):
        pass

    assert is_a(Sub(), "sklearn.ensemble", "ExtraTreesRegressor", "RandomForestRegressor")
    assert not is_a(Sub(), "sklearn.ensemble", "ExtraTreesRegressor", "NoSuchClass", "__doc__")
    assert not is_a(Sub(), "antigravity", "Sub")
    assert "antigravity" not in sys.modules
