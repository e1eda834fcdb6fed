"""XGBoost against its own predictions: every leaf, margin and prediction, on rows made to break adapters."""

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy import sparse

from probe import nasty_rows
from treespec import wrap
from treespec.adapters import xgboost as adapter
from treespec.adapters import xgboost_document
from treespec.errors import DataMismatchError, ModelNotFittedError, UnsupportedModelError
from treespec.ir import stats

xgb = pytest.importorskip("xgboost")

N = 400
SMALL = {"n_estimators": 8, "max_depth": 4, "n_jobs": 1}
VECTOR = {"multi_strategy": "multi_output_tree", "tree_method": "hist"}


def data(seed=0):
    """Numbers with missing values, and a last column that may serve as a category."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(N, 4))
    X[rng.random(X.shape) < 0.1] = np.nan
    X[:, 3] = rng.integers(0, 9, N)
    y = np.nan_to_num(X[:, 0]) + (X[:, 3] % 3 == 1) + rng.normal(size=N) * 0.2
    return X, y


X, Y = data()
BINARY, THREE = (Y > 0.3).astype(int), np.digitize(Y, [0, 1])
TARGETS = np.column_stack([Y, -(Y**2), np.sin(Y)])
LABELS = np.column_stack([Y > 0.3, Y > 1]).astype(int)
POSITIVE = np.abs(Y) + 0.1


def regressor(y=Y, X=X, **options):
    return lambda: xgb.XGBRegressor(**(SMALL | options)).fit(X, y)


def classifier(y=BINARY, **options):
    return lambda: xgb.XGBClassifier(**(SMALL | options)).fit(X, y)


def trained(param, y=Y, rounds=6, **options):
    return lambda: xgb.train({"nthread": 1, "max_depth": 4} | param, xgb.DMatrix(X, y), rounds, **options)


def survival():
    matrix = xgb.DMatrix(X)
    matrix.set_float_info("label_lower_bound", POSITIVE)
    matrix.set_float_info("label_upper_bound", POSITIVE + 1)
    return xgb.train({"objective": "survival:aft", "nthread": 1}, matrix, 5)


def stopped(make, y, y_valid):
    return lambda: make(n_estimators=60, max_depth=4, n_jobs=1, learning_rate=0.1, early_stopping_rounds=4).fit(
        X[:300], y[:300], eval_set=[(X[300:], y_valid)], verbose=False
    )


MODELS = {
    "regression": regressor(),
    "lossguide": regressor(grow_policy="lossguide", max_leaves=9, tree_method="hist"),
    "pruned": regressor(tree_method="exact", gamma=2.0),
    "approx": regressor(tree_method="approx"),
    "weights": lambda: xgb.XGBRegressor(**SMALL).fit(X, Y, sample_weight=np.arange(N) % 5),
    "subsample": regressor(subsample=0.5, colsample_bytree=0.5),
    "dart": regressor(booster="dart", rate_drop=0.4),
    "forest": lambda: xgb.XGBRFRegressor(n_estimators=7, max_depth=4, n_jobs=1).fit(X, Y),
    "parallel": regressor(num_parallel_tree=3),
    "missing -999": regressor(X=np.nan_to_num(X, nan=-999), missing=-999.0),
    "missing 0": regressor(missing=0.0),
    "base given": regressor(base_score=0.37),
    "codes": regressor(enable_categorical=True, feature_types=["q", "q", "q", "c"]),
    "codes one-hot": regressor(enable_categorical=True, feature_types=["q", "q", "q", "c"], max_cat_to_onehot=100),
    "targets": regressor(TARGETS),
    "targets, vector leaves": regressor(TARGETS, **VECTOR),
    "quantiles": regressor(objective="reg:quantileerror", quantile_alpha=[0.1, 0.5, 0.9]),
    "squaredlogerror": regressor(POSITIVE, objective="reg:squaredlogerror"),
    "absoluteerror": regressor(objective="reg:absoluteerror"),
    "pseudohuber": regressor(objective="reg:pseudohubererror"),
    "poisson": regressor(np.floor(POSITIVE), objective="count:poisson"),
    "gamma": regressor(POSITIVE, objective="reg:gamma"),
    "tweedie": regressor(POSITIVE, objective="reg:tweedie"),
    "cox": regressor(POSITIVE, objective="survival:cox"),
    "aft": survival,
    "reg:logistic": regressor(1 / (1 + np.exp(-Y)), objective="reg:logistic"),
    "binary": classifier(),
    "binary, base given": classifier(base_score=0.17),
    "logitraw": classifier(objective="binary:logitraw", base_score=0.3),
    "hinge": classifier(objective="binary:hinge"),
    "three classes": classifier(THREE),
    "softmax": classifier(THREE, objective="multi:softmax"),
    "three classes, vector leaves": classifier(THREE, **VECTOR),
    "three classes, dart": classifier(THREE, booster="dart", rate_drop=0.3, num_parallel_tree=2),
    "forest classifier": lambda: xgb.XGBRFClassifier(n_estimators=7, max_depth=4, n_jobs=1).fit(X, THREE),
    "labels": classifier(LABELS),
    "labels, vector leaves": classifier(LABELS, **VECTOR),
    "ranker": lambda: xgb.XGBRanker(**SMALL).fit(X, THREE, group=[100] * 4),
    "stopped": stopped(xgb.XGBRegressor, Y, Y[300:][::-1]),
    "stopped classes": stopped(xgb.XGBClassifier, THREE, THREE[300:]),
    "booster": trained({}),
    "booster binary": trained({"objective": "binary:logistic"}, BINARY),
    "booster softmax": trained({"objective": "multi:softmax", "num_class": 3}, THREE),
    "booster slice": lambda: trained({})()[1:5:2],
    "custom objective": trained({}, obj=lambda p, d: (p - d.get_label(), np.ones_like(p))),
}


@pytest.fixture(scope="module", params=MODELS)
def case(request):
    model = MODELS[request.param]()
    forest = adapter.treespec_adapt(model)
    return request.param, model, forest, adapter.treespec_native(model, forest)


def rows_of(forest, seed=1):
    return nasty_rows(forest, np.random.default_rng(seed))


def test_every_row_reaches_the_leaf_of_xgboost(case):
    _, _, forest, native = case
    rows = rows_of(forest)
    assert np.isinf(rows).any() and np.isnan(rows).any()
    np.testing.assert_array_equal(forest.native_id[forest.apply(rows)], native.leaf_id(rows))


def test_margins_are_bit_equal(case):
    name, _, forest, native = case
    rows = rows_of(forest)
    ours, theirs = forest.margin(rows), native.margin(rows)
    if "dart" in name:  # in-place prediction fuses weight and addition; the test below is exact
        np.testing.assert_allclose(ours, theirs, rtol=1e-6, atol=1e-6)
    else:
        np.testing.assert_array_equal(ours, theirs)


def test_predictions_are_equal(case):
    _, _, forest, native = case
    rows = rows_of(forest)
    np.testing.assert_allclose(forest.predict(rows), native.predict(rows), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(
    "name", ["binary", "binary, base given", "logitraw", "three classes", "softmax", "forest classifier", "labels", "stopped classes"]
)
def test_class_probabilities_are_equal(name):
    model = MODELS[name]()
    forest = adapter.treespec_adapt(model)
    rows = rows_of(forest)
    np.testing.assert_allclose(forest.predict_proba(rows), model.predict_proba(rows), rtol=1e-6, atol=1e-6)


def test_wrap_passes_its_self_check(case):
    name, model, _, _ = case
    rows = np.nan_to_num(X, nan=-999) if name == "missing -999" else X
    w = wrap(model, rows)
    assert w.check.n_rows == N
    np.testing.assert_allclose(w.predict(rows), model.predict(rows if hasattr(model, "fit") else xgb.DMatrix(rows)), rtol=1e-6, atol=1e-6)
    assert wrap(model).check.n_rows > 0


def test_dart_margins_are_bit_equal_to_those_of_a_dmatrix():
    model = trained({"booster": "dart", "rate_drop": 0.4})()
    assert min(json.loads(model.save_raw("json"))["learner"]["gradient_booster"]["weight_drop"]) < 1
    forest = adapter.treespec_adapt(model)
    np.testing.assert_array_equal(forest.margin(X), model.predict(xgb.DMatrix(X), output_margin=True))


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.integers(0, 2**31),
    st.integers(1, 6),
    st.sampled_from(["exact", "hist", "approx"]),
    st.sampled_from([0.0, 0.1, 1.0]),
    st.sampled_from(["q", "c"]),
    st.integers(0, 30),
)
def test_leaves_of_any_small_model(seed, depth, method, gamma, kind, exponent):
    X, y = data(seed)
    X[:, :3] *= 10.0**exponent / 1e15
    types = ["q", "q", "q", "q" if method == "exact" else kind]
    model = xgb.train(
        {"max_depth": depth, "tree_method": method, "gamma": gamma, "nthread": 1, "seed": seed},
        xgb.DMatrix(X, y, feature_types=types, enable_categorical=True),
        3,
    )
    forest = adapter.treespec_adapt(model)
    native = adapter.treespec_native(model, forest)
    rows = nasty_rows(forest, np.random.default_rng(seed), max_nodes=60, n_random=100)
    np.testing.assert_array_equal(forest.native_id[forest.apply(rows)], native.leaf_id(rows))
    np.testing.assert_array_equal(forest.margin(rows), native.margin(rows))


# ---- what the forest says


@pytest.mark.parametrize(
    ("name", "task", "link", "loss"),
    [
        ("regression", "regression", "identity", "squared"),
        ("poisson", "regression", "exp", "poisson"),
        ("binary", "binary", "sigmoid", "logistic"),
        ("logitraw", "binary", "probability", "logistic"),
        ("three classes", "multiclass", "softmax", "logistic"),
        ("targets", "multi-output", "identity", "squared"),
        ("labels", "multi-output", "sigmoid-each", "logistic"),
        ("ranker", "ranking", "identity", "rank-ndcg"),
        ("booster binary", "binary", "sigmoid", "logistic"),
    ],
)
def test_task_link_and_loss(name, task, link, loss):
    forest = adapter.treespec_adapt(MODELS[name]())
    assert (forest.task, forest.link, forest.loss) == (task, link, loss)
    assert (forest.classes is not None) == (name in ("binary", "logitraw", "three classes", "labels"))


@pytest.mark.parametrize("name", ["regression", "pruned", "codes", "three classes", "dart", "forest"])
def test_cover_and_gain_are_those_of_xgboost(name):
    model = MODELS[name]()
    forest = adapter.treespec_adapt(model)
    table = model.get_booster().trees_to_dataframe()
    node_of = {(t, int(forest.native_id[v])): v for t in range(forest.n_trees) for v in range(*forest.tree_offset[t : t + 2])}
    at = [node_of[t, n] for t, n in zip(table["Tree"], table["Node"], strict=True)]
    assert sorted(at) == list(range(forest.n_nodes))
    np.testing.assert_allclose(forest.cover[at], table["Cover"], rtol=1e-6)
    leaf = (table["Feature"] == "Leaf").to_numpy()
    np.testing.assert_allclose(forest.gain[at], np.where(leaf, 0, table["Gain"]), rtol=1e-6)
    if name != "dart":
        column = np.repeat(np.maximum(forest.tree_output, 0), np.diff(forest.tree_offset))
        np.testing.assert_allclose(forest.value[at, column[at]][leaf], table["Gain"][leaf], rtol=1e-6)


@pytest.mark.parametrize(("eta", "parallel"), [(0.3, 1), (0.07, 1), (0.5, 4)])
def test_inner_values_are_the_shrunken_newton_steps_of_the_node(eta, parallel):
    model = xgb.train({"eta": eta, "lambda": 2.0, "num_parallel_tree": parallel, "nthread": 1, "max_depth": 4}, xgb.DMatrix(X, Y), 1)
    forest = adapter.treespec_adapt(model)
    residual, path = Y - forest.base_score[0], paths(forest)
    for v in range(forest.n_nodes):
        step = eta / parallel * residual[path[:, v]].sum() / (path[:, v].sum() + 2.0)
        assert forest.value[v, 0] == pytest.approx(step, abs=2e-6)


def paths(forest):
    """Return for each row of X the nodes that it visits."""
    parent, leaf = stats.parent(forest), forest.apply(X)
    visited = np.zeros((N, forest.n_nodes), bool)
    for t in range(forest.n_trees):
        node = leaf[:, t].copy()
        while (node >= 0).any():
            at = np.flatnonzero(node >= 0)
            visited[at, node[at]] = True
            node[at] = parent[node[at]]
    return visited


def test_inner_values_are_unknown_where_the_learning_rate_is():
    model = xgb.train({"eta": 0.05, "nthread": 1}, xgb.DMatrix(X, Y), 3)
    loaded = xgb.Booster()
    loaded.load_model(model.save_raw("ubj"))  # remembers no learning rate
    for source, known in [(model, True), (loaded, False)]:
        forest = adapter.treespec_adapt(source)
        assert np.isfinite(forest.value[~forest.is_leaf]).all() == known
        assert np.isnan(forest.value[~forest.is_leaf]).all() != known


def test_early_stopping_of_a_wrapper_is_followed_and_of_a_booster_is_not():
    model = MODELS["stopped classes"]()
    booster, used = model.get_booster(), model.best_iteration + 1
    assert used < booster.num_boosted_rounds()
    forest = adapter.treespec_adapt(model)
    assert forest.n_trees == 3 * used
    assert f"the first {used} of {booster.num_boosted_rounds()} rounds" in forest.framework
    bare = adapter.treespec_adapt(booster)
    assert bare.n_trees == 3 * booster.num_boosted_rounds()
    assert "all" in bare.framework and "best_iteration" in bare.framework
    np.testing.assert_array_equal(bare.margin(X), booster.predict(xgb.DMatrix(X), output_margin=True))


def test_names_are_those_of_the_user():
    pd = pytest.importorskip("pandas")
    assert adapter.treespec_adapt(MODELS["regression"]()).feature_names is None
    frame = pd.DataFrame(X, columns=list("abcd"))
    assert adapter.treespec_adapt(xgb.XGBRegressor(**SMALL).fit(frame, Y)).feature_names == ("a", "b", "c", "d")


# ---- inputs


def frame_of(names, dtype=None):
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(X[:, :3], columns=list("abc"))
    frame["d"] = pd.Categorical.from_codes(X[:, 3].astype(int), categories=names)
    return frame


CATEGORIES = {"text": [f"v{k}" for k in range(9)], "numbers": [7 * k + 3 for k in range(9)]}


@pytest.fixture(params=CATEGORIES)
def framed(request):
    names = CATEGORIES[request.param]
    frame = frame_of(names)
    model = xgb.XGBClassifier(**SMALL, enable_categorical=True).fit(frame, THREE)
    forest = adapter.treespec_adapt(model)
    assert forest.inputs.categories == ((3, tuple(names)),)
    return names, frame, model, forest, adapter.treespec_native(model, forest)


def test_categories_of_a_frame_are_matched_by_value(framed):
    import pandas as pd

    names, frame, model, forest, native = framed
    other = frame.iloc[:200].copy()
    kept = other["d"].where(np.arange(200) % 7 > 0)  # some missing
    other["d"] = pd.Categorical(kept.astype(object), categories=names[::-1])
    for rows in (frame, other, other[list("dcab")]):
        np.testing.assert_array_equal(forest.native_id[forest.apply(rows)], native.leaf_id(rows))
        np.testing.assert_array_equal(forest.margin(rows), native.margin(rows))
    np.testing.assert_array_equal(forest.margin(other), model.predict(other, output_margin=True))
    assert wrap(model, frame).check.n_rows == N
    assert wrap(model).check.n_rows > 0


def test_numbers_in_a_category_column_are_codes_as_in_xgboost(framed):
    _, frame, model, forest, native = framed
    codes = forest.with_values(forest.value, inputs=replace(forest.inputs, categories=()))
    rows = nasty_rows(codes, np.random.default_rng(3))
    np.testing.assert_array_equal(forest.native_id[forest.apply(rows)], native.leaf_id(rows))
    np.testing.assert_array_equal(forest.margin(X), model.predict(frame, output_margin=True))


def test_other_frames_give_the_same_leaves(framed):
    pl = pytest.importorskip("polars")
    _, frame, _, forest, native = framed
    rows = pl.from_pandas(frame)
    np.testing.assert_array_equal(forest.apply(rows), forest.apply(frame))
    np.testing.assert_array_equal(native.leaf_id(rows), native.leaf_id(frame))


def test_a_category_that_training_did_not_see_is_refused(framed):
    import pandas as pd

    names, frame, _, forest, _ = framed
    rows = frame.iloc[:9].copy()
    unknown = "aaa" if isinstance(names[0], str) else 11
    rows["d"] = pd.Categorical([unknown] + [names[0]] * 8)
    with pytest.raises(DataMismatchError, match=f"9 categories of training in column 'd', but got {unknown!r} in row 0"):
        forest.apply(rows)


def test_the_missing_value_is_compared_in_float32():
    model = MODELS["missing -999"]()
    forest = adapter.treespec_adapt(model)
    rows = np.tile(X[5:6], (4, 1))
    rows[:, 0] = [-999, np.nextafter(-999, 0), np.nextafter(np.float32(-999), np.float32(0)), np.nan]
    encoded = forest.encode(rows)
    np.testing.assert_array_equal(np.isnan(encoded[:, 0]), [True, True, False, True])
    np.testing.assert_array_equal(forest.native_id[forest.apply(rows)], adapter.treespec_native(model, forest).leaf_id(rows))


@pytest.mark.parametrize("form", ["array", "frame", "sparse"])
def test_infinite_values_are_routed_in_every_form(form):
    """XGBoost's wrappers predict such rows; its DMatrix, which tells the leaves, refuses them."""
    pd = pytest.importorskip("pandas")
    rows = X.copy()
    rows[::5, 0], rows[1::5, 0], rows[2::5, 1] = np.inf, -np.inf, 1e300
    made = {
        "array": rows,
        "frame": pd.DataFrame(rows, columns=list("abcd")),
        "sparse": sparse.csr_matrix(np.nan_to_num(rows, posinf=np.inf)),
    }
    given = made[form]
    model = xgb.XGBRegressor(**SMALL).fit(pd.DataFrame(X, columns=list("abcd")) if form == "frame" else X, Y)
    w = wrap(model, given)
    np.testing.assert_array_equal(w.predict(given), model.predict(given))
    assert w.check.n_rows == N


@pytest.mark.parametrize("form", [sparse.csr_matrix, sparse.csr_array, sparse.coo_matrix])
def test_what_a_sparse_matrix_does_not_store_is_missing(form):
    dense = np.nan_to_num(X) * (np.random.default_rng(0).random(X.shape) < 0.4)
    model = xgb.XGBRegressor(**SMALL).fit(sparse.csr_matrix(dense), Y)
    forest = adapter.treespec_adapt(model)
    native = adapter.treespec_native(model, forest)
    rows = form(dense)
    np.testing.assert_array_equal(forest.margin(rows), native.margin(rows))
    np.testing.assert_array_equal(forest.margin(rows), model.predict(sparse.csr_matrix(dense)))
    np.testing.assert_array_equal(forest.native_id[forest.apply(rows)], native.leaf_id(rows))
    assert (forest.margin(rows) != forest.margin(dense)).any()


# ---- documents


def edited(model, change):
    document = json.loads(model.save_raw("json"))
    change(document)
    return xgboost_document.read(json.dumps(document).encode())


def test_an_unknown_objective_predicts_its_margin():
    model = trained({"objective": "binary:logistic"}, BINARY)()
    document = edited(model, lambda d: d["learner"]["objective"].update(name="reg:not-yet-invented"))
    forest = adapter.forest_of(document, framework="xgboost")
    assert (forest.link, forest.loss, forest.task) == ("identity", "unknown", "regression")
    difference = forest.margin(X) - model.predict(xgb.DMatrix(X), output_margin=True)
    np.testing.assert_allclose(difference, difference[0], atol=1e-6)  # no logit of the base score


def test_unknown_fields_do_not_matter():
    model = trained({})()

    def change(d):
        d["new"] = {"deep": [1, {"er": None}]}
        d["learner"]["gradient_booster"]["model"]["trees"][0]["new"] = [1, 2]
        d["learner"]["objective"]["new_param"] = "1"

    assert adapter.forest_of(edited(model, change), framework="xgboost Booster").n_nodes == adapter.treespec_adapt(model).n_nodes


def test_a_scalar_base_score_of_older_versions_serves_all_outputs():
    model = MODELS["three classes"]().get_booster()
    document = edited(model, lambda d: d["learner"]["learner_model_param"].update(base_score="5E-1"))
    np.testing.assert_array_equal(adapter.forest_of(document, framework="xgboost").base_score, [0.5, 0.5, 0.5])


# ---- refusals


def test_linear_boosters_are_refused():
    model = xgb.XGBRegressor(booster="gblinear", n_estimators=2, updater="coord_descent").fit(np.nan_to_num(X), Y)
    with pytest.raises(UnsupportedModelError, match="has no trees"):
        adapter.treespec_adapt(model)


@pytest.mark.parametrize("make", ["XGBRegressor", "XGBClassifier", "XGBRanker", "XGBRFRegressor", "XGBRFClassifier", "Booster"])
def test_unfitted_models_are_refused(make):
    with pytest.raises(ModelNotFittedError):
        adapter.treespec_adapt(getattr(xgb, make)())


def test_a_model_without_trees_is_refused():
    with pytest.raises(UnsupportedModelError, match="at least one tree"):
        adapter.treespec_adapt(trained({}, rounds=0)())


def test_a_classifier_whose_objective_is_for_counts_is_refused():
    with pytest.raises(UnsupportedModelError, match="count:poisson"):
        adapter.treespec_adapt(classifier(objective="count:poisson")())


def test_category_names_that_xgboost_stores_wrongly_are_refused():
    frame = frame_of([f"é{k}" for k in range(9)])
    model = xgb.XGBRegressor(**SMALL, enable_categorical=True).fit(frame, Y)
    with pytest.raises(UnsupportedModelError, match="category names in ASCII"):
        adapter.treespec_adapt(model)


def test_other_objects_are_passed():
    assert adapter.treespec_adapt(object()) is None
    assert adapter.treespec_native(object(), None) is None
