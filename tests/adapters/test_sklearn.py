"""Every scikit-learn family: the same leaf, margin and prediction as scikit-learn on every nasty row."""

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_diabetes, load_iris
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.ensemble import (
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    IsolationForest,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.linear_model import LinearRegression
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor, ExtraTreeClassifier, ExtraTreeRegressor

from probe import CODES, nasty_rows
from treespec.adapters import sklearn_boosting, sklearn_hist, sklearn_trees
from treespec.adapters._treelite import TreeliteRouter
from treespec.errors import DataMismatchError, ModelNotFittedError, UnsupportedModelError

pytestmark = pytest.mark.filterwarnings("ignore:(invalid value|overflow) encountered")  # in scikit-learn's own check of rows

ADAPTERS = (sklearn_trees, sklearn_boosting, sklearn_hist)
X, y = load_diabetes(return_X_y=True)
RNG = np.random.default_rng(0)
TWO = (y > 140).astype(int)
THREE = np.array(["low", "mid", "top"])[np.digitize(y, [100, 200])]
X_NAN = np.where(RNG.random(X.shape) < 0.1, np.nan, X)
X_INT = RNG.integers(0, 2**26, X.shape).astype(float)  # float32 rounds these
WEIGHT = RNG.integers(0, 4, len(y)).astype(float)
X_CAT = np.column_stack([RNG.integers(-4, 9, len(y)) * 3, X[:, 0], RNG.integers(0, 40, len(y)) + 0.5, X[:, 1]])
X_CAT[RNG.random(X_CAT.shape) < 0.05] = np.nan
SMALL = {"n_estimators": 7, "random_state": 0}
HIST = {"max_iter": 8, "max_leaf_nodes": 9, "min_samples_leaf": 5, "random_state": 0}

TREES = {
    "tree regression": lambda: DecisionTreeRegressor(max_depth=6, random_state=0).fit(X, y),
    "tree best first": lambda: DecisionTreeRegressor(max_leaf_nodes=30, random_state=0).fit(X, y),
    "tree pruned": lambda: DecisionTreeRegressor(ccp_alpha=20.0, random_state=0).fit(X, y),
    "tree binary": lambda: DecisionTreeClassifier(max_depth=6, random_state=0).fit(X, TWO),
    "tree multi-output": lambda: DecisionTreeRegressor(max_depth=5, random_state=0).fit(X, np.column_stack([y, -y, y**2])),
    "tree NaN": lambda: DecisionTreeRegressor(max_depth=6, random_state=0).fit(X_NAN, y),
    "extra tree": lambda: ExtraTreeRegressor(max_depth=6, random_state=0).fit(X, y),
    "extra tree strings": lambda: ExtraTreeClassifier(max_depth=6, random_state=0).fit(X, THREE),
    "one leaf": lambda: DecisionTreeRegressor().fit(X, np.ones(len(y))),
    "forest regression": lambda: RandomForestRegressor(**SMALL).fit(X, y),
    "forest integers": lambda: RandomForestRegressor(**SMALL).fit(X_INT, y),
    "forest NaN weights": lambda: RandomForestRegressor(max_depth=7, **SMALL).fit(X_NAN, y, sample_weight=WEIGHT),
    "forest monotonic": lambda: RandomForestRegressor(monotonic_cst=[1] + [0] * 9, max_depth=5, **SMALL).fit(X, y),
    "forest absolute": lambda: RandomForestRegressor(criterion="absolute_error", max_depth=4, **SMALL).fit(X, y),
    "forest poisson": lambda: RandomForestRegressor(criterion="poisson", max_depth=4, **SMALL).fit(X, y),
    "forest binary": lambda: RandomForestClassifier(class_weight="balanced", **SMALL).fit(X, TWO),
    "forest strings": lambda: RandomForestClassifier(**SMALL).fit(X, THREE),
    "forest two targets": lambda: RandomForestClassifier(max_depth=5, **SMALL).fit(X, np.column_stack([np.digitize(y, [100, 200]), TWO])),
    "extra trees": lambda: ExtraTreesRegressor(**SMALL).fit(X, y),
    "extra trees NaN": lambda: ExtraTreesClassifier(max_depth=8, **SMALL).fit(X_NAN, THREE),
}
BOOSTING = {
    "squared": lambda: GradientBoostingRegressor(**SMALL).fit(X, y),
    "integers": lambda: GradientBoostingRegressor(**SMALL).fit(X_INT, y),
    "huber subsample": lambda: GradientBoostingRegressor(loss="huber", subsample=0.6, **SMALL).fit(X, y),
    "quantile": lambda: GradientBoostingRegressor(loss="quantile", alpha=0.8, **SMALL).fit(X, y),
    "absolute init zero": lambda: GradientBoostingRegressor(loss="absolute_error", init="zero", **SMALL).fit(X, y),
    "init median": lambda: GradientBoostingRegressor(init=DummyRegressor(strategy="median"), **SMALL).fit(X, y),
    "early stopped": lambda: GradientBoostingRegressor(n_estimators=400, learning_rate=0.5, n_iter_no_change=2, random_state=0).fit(X, y),
    "binary": lambda: GradientBoostingClassifier(**SMALL).fit(X, TWO),
    "exponential": lambda: GradientBoostingClassifier(loss="exponential", **SMALL).fit(X, TWO),
    "init uniform": lambda: GradientBoostingClassifier(init=DummyClassifier(strategy="uniform"), **SMALL).fit(X, THREE),
    "three strings": lambda: GradientBoostingClassifier(**SMALL).fit(X, THREE),
    "three early stopped": lambda: GradientBoostingClassifier(n_estimators=300, learning_rate=0.9, n_iter_no_change=2, random_state=0).fit(
        *load_iris(return_X_y=True)
    ),
    "learning rate changed": lambda: GradientBoostingRegressor(**SMALL).fit(X, y).set_params(learning_rate=0.3),
}
HISTOGRAM = {
    "squared": lambda: HistGradientBoostingRegressor(**HIST).fit(X, y),
    "NaN": lambda: HistGradientBoostingRegressor(**HIST).fit(X_NAN, y, sample_weight=WEIGHT),
    "infinite": lambda: HistGradientBoostingRegressor(**HIST).fit(np.where(X_NAN > 0.08, np.inf, X_NAN), y),
    "absolute": lambda: HistGradientBoostingRegressor(loss="absolute_error", **HIST).fit(X, y),
    "quantile": lambda: HistGradientBoostingRegressor(loss="quantile", quantile=0.7, **HIST).fit(X, y),
    "poisson": lambda: HistGradientBoostingRegressor(loss="poisson", **HIST).fit(X_NAN, y),
    "gamma": lambda: HistGradientBoostingRegressor(loss="gamma", **HIST).fit(X, y),
    "early stopped": lambda: HistGradientBoostingRegressor(early_stopping=True, n_iter_no_change=1, **HIST).fit(X, y),
    "one leaf": lambda: HistGradientBoostingRegressor(**HIST).fit(X[:9], y[:9]),
    "binary": lambda: HistGradientBoostingClassifier(**HIST).fit(X_NAN, TWO),
    "three strings": lambda: HistGradientBoostingClassifier(**HIST).fit(X, THREE),
    "negative and fractional categories": lambda: HistGradientBoostingRegressor(categorical_features=[2, 0], **HIST).fit(X_CAT, y),
    "categories, three classes": lambda: HistGradientBoostingClassifier(categorical_features=[True, False, True, False], **HIST).fit(
        X_CAT, THREE
    ),
}


def adapted(model):
    """Return the forest and the native routes of the one adapter that takes the model."""
    forests = [forest for a in ADAPTERS if (forest := a.treespec_adapt(model)) is not None]
    assert len(forests) == 1
    natives = [native for a in ADAPTERS if (native := a.treespec_native(model, forests[0])) is not None]
    assert len(natives) == 1
    return forests[0], natives[0]


@pytest.mark.parametrize("name", TREES)
def test_trees_route_and_predict_as_scikit_learn(name):
    model = TREES[name]()
    forest, native = adapted(model)
    rows = nasty_rows(forest, np.random.default_rng(1))
    leaf = forest.apply(rows)
    theirs = model.apply(rows).reshape(len(rows), -1)
    np.testing.assert_array_equal(forest.native_id[leaf], theirs)
    np.testing.assert_array_equal(native.leaf_id(rows), theirs)
    np.testing.assert_array_equal(TreeliteRouter(forest).leaf_id(forest.encode(rows)), leaf)
    np.testing.assert_array_equal(forest.margin(rows), native.margin(rows))
    np.testing.assert_array_equal(forest.predict(rows), model.predict(rows))
    if hasattr(model, "predict_proba"):
        ours, theirs = forest.predict_proba(rows), model.predict_proba(rows)
        assert isinstance(ours, list) == isinstance(theirs, list)
        for p, q in zip(*_paired(ours, theirs), strict=True):
            np.testing.assert_array_equal(p, q)


def _paired(ours, theirs):
    return (ours, theirs) if isinstance(ours, list) else ([ours], [theirs])


@pytest.mark.parametrize("name", BOOSTING)
def test_boosting_routes_and_predicts_as_scikit_learn(name):
    model = BOOSTING[name]()
    forest, native = adapted(model)
    rows = nasty_rows(forest, np.random.default_rng(1))
    leaf = forest.apply(rows)
    theirs = model.apply(rows).reshape(len(rows), -1)
    np.testing.assert_array_equal(forest.native_id[leaf], theirs)
    np.testing.assert_array_equal(native.leaf_id(rows), theirs)
    np.testing.assert_array_equal(TreeliteRouter(forest).leaf_id(forest.encode(rows)), leaf)
    np.testing.assert_array_equal(forest.margin(rows), native.margin(rows))
    _same_predictions(forest, model, rows)


@pytest.mark.parametrize("name", HISTOGRAM)
def test_histogram_boosting_routes_and_predicts_as_scikit_learn(name):
    model = HISTOGRAM[name]()
    forest, native = adapted(model)
    rows = nasty_rows(forest, np.random.default_rng(1))
    leaf = forest.apply(rows)
    seen = rows if model._preprocessor is None else model._preprocessor.transform(rows)
    known, index = model._bin_mapper.make_known_categories_bitsets()
    for t, predictor in enumerate(p for stage in model._predictors for p in stage):
        column = max(0, forest.tree_output[t])
        np.testing.assert_array_equal(forest.value[leaf[:, t], column], predictor.predict(seen, known, index, 1), err_msg=str(t))
    np.testing.assert_array_equal(TreeliteRouter(forest).leaf_id(forest.encode(rows)), leaf)
    np.testing.assert_array_equal(forest.margin(rows), native.margin(rows))
    assert not hasattr(native, "leaf_id")
    _same_predictions(forest, model, rows)


def _same_predictions(forest, model, rows):
    if hasattr(model, "classes_"):
        np.testing.assert_array_equal(forest.predict(rows), model.predict(rows))
        np.testing.assert_allclose(forest.predict_proba(rows), model.predict_proba(rows), rtol=1e-13, atol=1e-15)
    else:
        np.testing.assert_allclose(forest.predict(rows), model.predict(rows), rtol=1e-14)


@pytest.mark.parametrize(
    ("model", "chosen"),
    [(GradientBoostingClassifier(init="zero", n_estimators=2), "yes"), (HistGradientBoostingClassifier(max_iter=2), "no")],
    ids=["boosting", "histogram"],
)
def test_a_margin_of_zero_means_the_class_that_it_means_there(model, chosen):
    rows = np.zeros((40, 1))
    forest, native = adapted(model.fit(rows, np.repeat(["no", "yes"], 20)))
    assert native.margin(rows[:1]) == 0
    np.testing.assert_array_equal(model.predict(rows[:1]), [chosen])
    np.testing.assert_array_equal(forest.predict(rows[:1]), [chosen])


def test_probe_rows_reach_missing_values_and_unknown_categories():
    forest, _ = adapted(HISTOGRAM["negative and fractional categories"]())
    rows = nasty_rows(forest, np.random.default_rng(1))
    assert forest.categorical.sum() > 5
    assert not np.isnan([v for _, values in forest.inputs.categories for v in values]).any()
    assert np.isnan(rows[:, 0]).any() and np.isin(rows[:, 0], CODES).any()
    assert np.isnan(forest.encode(rows)[np.isin(rows[:, 0], (1.5, 1e30)), 0]).all()


@pytest.mark.parametrize("kind", ["text", "category", "ordered numbers"])
def test_histogram_boosting_takes_the_categories_of_frames(kind):
    frame = pd.DataFrame({"size": X[:, 0], "colour": RNG.choice(["red", "green", "blue", "no"], len(y)), "age": X[:, 1]})
    frame["size"] = np.where(RNG.random(len(y)) < 0.1, np.nan, frame["size"])
    options = {"categorical_features": ["colour"], "max_iter": 15, "random_state": 0, "min_samples_leaf": 3}
    effect = frame["colour"].map({"red": 3.0, "green": -1.0, "blue": 1.0, "no": 0.0}) + 5 * X[:, 1]
    if kind == "category":
        frame["colour"] = pd.Categorical(frame["colour"], categories=["no", "red", "unused", "blue", "green"])
        options["categorical_features"] = "from_dtype"
    elif kind == "ordered numbers":
        frame["colour"] = frame["colour"].map({"red": -3, "green": 7, "blue": 100, "no": 0})
    model = HistGradientBoostingRegressor(**options).fit(frame[:300], effect[:300])
    forest, native = adapted(model)
    assert forest.categorical.any()
    assert forest.feature_names == ("size", "colour", "age")
    new = frame.astype({"colour": object}) if kind != "ordered numbers" else frame
    new.loc[::7, "colour"] = "never seen" if kind != "ordered numbers" else 12345
    new.loc[::11, "colour"] = np.nan
    np.testing.assert_array_equal(forest.margin(new), model._raw_predict(new).ravel())
    np.testing.assert_array_equal(forest.margin(new[["age", "colour", "size"]]), native.margin(new[["age", "colour", "size"]]))


def test_statistics_are_those_of_the_estimator():
    model = TREES["forest NaN weights"]()
    forest, _ = adapted(model)
    tree = model.estimators_[2].tree_
    here = slice(*forest.tree_offset[2:4])
    np.testing.assert_array_equal(forest.count[here], tree.n_node_samples)
    np.testing.assert_array_equal(forest.cover[here], tree.weighted_n_node_samples)
    np.testing.assert_array_equal(forest.impurity[here], tree.impurity)
    np.testing.assert_array_equal(forest.value[here, 0], tree.value[:, 0, 0])
    importance = np.bincount(forest.feature[here][forest.feature[here] >= 0], forest.gain[here][forest.feature[here] >= 0], 10)
    np.testing.assert_allclose(importance, tree.compute_feature_importances(normalize=False), rtol=1e-12)
    assert (forest.gain[forest.is_leaf] == 0).all()


def test_inner_values_are_on_the_scale_of_the_leaves():
    boosted, _ = adapted(BOOSTING["squared"]())
    root = boosted.tree_offset[:-1]
    inner = ~boosted.is_leaf
    np.testing.assert_allclose(
        (boosted.cover * boosted.value[:, 0])[inner],
        (boosted.cover * boosted.value[:, 0])[boosted.left[inner]] + (boosted.cover * boosted.value[:, 0])[boosted.right[inner]],
        atol=1e-9,
    )
    assert np.isnan(adapted(BOOSTING["huber subsample"]())[0].value[root]).all()
    hist, _ = adapted(HISTOGRAM["squared"]())
    inner = np.setdiff1d(np.flatnonzero(~hist.is_leaf), hist.tree_offset[:-1])
    mass = hist.count * hist.value[:, 0]
    np.testing.assert_allclose(mass[inner], mass[hist.left[inner]] + mass[hist.right[inner]], rtol=1e-4, atol=1e-3)
    assert np.isnan(adapted(HISTOGRAM["absolute"]())[0].value[0, 0])


def test_only_fitted_stages_are_read():
    model = BOOSTING["early stopped"]()
    assert adapted(model)[0].n_trees == len(model.estimators_) < 400


@pytest.mark.parametrize(
    ("make", "task", "loss"),
    [
        (BOOSTING["squared"], "regression", "squared"),
        (HISTOGRAM["squared"], "regression", "squared"),
        (BOOSTING["binary"], "binary", "logistic"),
        (HISTOGRAM["three strings"], "multiclass", "logistic"),
        (TREES["forest binary"], "binary", "unknown"),
        (TREES["forest two targets"], "multi-output", "unknown"),
        (TREES["tree multi-output"], "multi-output", "unknown"),
    ],
)
def test_task_and_loss(make, task, loss):
    forest, _ = adapted(make())
    assert (forest.task, forest.loss) == (task, loss)


@pytest.mark.parametrize(
    "model",
    [DecisionTreeRegressor(), RandomForestClassifier(), GradientBoostingRegressor(), HistGradientBoostingClassifier()],
    ids=lambda m: type(m).__name__,
)
def test_unfitted_is_refused(model):
    with pytest.raises(ModelNotFittedError, match=f"unfitted {type(model).__name__}"):
        adapted(model)


@pytest.mark.parametrize("model", [LinearRegression(), IsolationForest(), "text", DecisionTreeRegressor], ids=str)
def test_others_are_passed(model):
    assert [a.treespec_adapt(model) for a in ADAPTERS] == [None] * 3
    assert [a.treespec_native(model, None) for a in ADAPTERS] == [None] * 3


def test_subclasses_are_taken():
    class Mine(RandomForestRegressor):
        pass

    assert adapted(Mine(n_estimators=2, random_state=0).fit(X, y))[0].framework == "scikit-learn Mine"


@pytest.mark.parametrize(
    "init", [LinearRegression(), DummyClassifier(strategy="stratified", random_state=0)], ids=["function of the features", "random"]
)
def test_initial_models_that_are_no_constant_are_refused(init):
    classifier = isinstance(init, DummyClassifier)
    model = (GradientBoostingClassifier if classifier else GradientBoostingRegressor)(init=init, **SMALL).fit(X, TWO if classifier else y)
    with pytest.raises(UnsupportedModelError, match="constant"):
        adapted(model)


def test_a_single_class_is_refused():
    with pytest.raises(UnsupportedModelError, match="at least two classes"):
        adapted(RandomForestClassifier(n_estimators=2).fit(X, np.zeros(len(y))))


@pytest.mark.parametrize(
    ("make", "value"),
    [
        (TREES["forest regression"], np.inf),
        (TREES["forest regression"], 1e39),
        (TREES["forest monotonic"], np.inf),
        (lambda: ExtraTreeRegressor(splitter="best").fit(X, y), np.nan),
        (BOOSTING["squared"], np.nan),
        (BOOSTING["squared"], -1e300),
    ],
)
def test_rows_that_scikit_learn_refuses_are_refused(make, value):
    model = make()
    forest, _ = adapted(model)
    rows = X[:3].copy()
    rows[1, 4] = value
    with pytest.raises(ValueError, match=r"NaN|infinity|too large"):
        model.predict(rows)
    with pytest.raises(DataMismatchError):
        forest.encode(rows)


def test_names_of_the_training_frame_are_kept():
    frame = pd.DataFrame(X[:, :3], columns=["a", "b", "c"])
    model = RandomForestClassifier(max_depth=4, **SMALL).fit(frame, THREE)
    forest, native = adapted(model)
    assert forest.feature_names == ("a", "b", "c")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        np.testing.assert_array_equal(native.margin(frame[["c", "a", "b"]]), model.predict_proba(frame))
        np.testing.assert_array_equal(native.predict(frame[["c", "a", "b"]]), model.predict(frame))
        np.testing.assert_array_equal(native.leaf_id(frame[["c", "a", "b"]]), model.apply(frame))
    assert adapted(TREES["tree binary"]())[0].feature_names is None


def test_none_among_the_categories_is_refused():
    frame = np.array([["a", None, "b"][i % 3] for i in range(60)], dtype=object)[:, None]
    try:
        model = HistGradientBoostingRegressor(categorical_features=[0], max_iter=2).fit(frame, np.arange(60.0))
    except (TypeError, ValueError):
        pytest.skip("this scikit-learn refuses None itself")
    with pytest.raises(UnsupportedModelError, match="NaN, not None"):
        adapted(model)


def test_large_integers_are_no_categories_because_scikit_learn_finds_them_by_the_rows_beside_them():
    """Seed 333 of benchmarks/differential.py: numpy.isin takes two integers that round to one float for a hit."""
    known = np.tile(np.arange(-5.0, 20.0), 20)
    model = HistGradientBoostingRegressor(categorical_features=[0], max_iter=3, min_samples_leaf=6, random_state=0)
    model.fit(np.column_stack([known, known[::-1]]), np.where(known < -3, 9.0, known % 3))
    forest, _ = adapted(model)
    rows = np.zeros((100, 2), np.int64)
    rows[:, 0] = np.arange(100)
    rows[-2:, 0] = -(2**62), -(2**62) - 3
    alone = np.concatenate([model._raw_predict(rows[[i]]) for i in range(100)])
    if not (model._raw_predict(rows) != alone).any():
        pytest.skip("this NumPy answers alike")
    with pytest.raises(DataMismatchError, match="2\\^53 in the categorical column 0"):
        forest.margin(rows)
    np.testing.assert_array_equal(forest.margin(rows[:-2]), model._raw_predict(rows[:-2]).ravel())
    np.testing.assert_array_equal(forest.margin(rows.astype(float)), alone.ravel())  # as floats they are unknown, whatever is beside them


def test_large_integers_among_the_categories_of_training_are_refused():
    X = np.array([2**60, 2**60 + 1, 5], dtype=np.int64)[np.arange(90) % 3][:, None]
    model = HistGradientBoostingRegressor(categorical_features=[0], max_iter=2).fit(X, np.arange(90) % 3)
    with pytest.raises(UnsupportedModelError, match="2\\^53"):
        adapted(model)
    floats = HistGradientBoostingRegressor(categorical_features=[0], max_iter=2).fit(X.astype(float), np.arange(90) % 3)
    forest, _ = adapted(floats)
    np.testing.assert_array_equal(forest.margin(X.astype(float)), floats._raw_predict(X.astype(float)).ravel())
