"""LightGBM against its own predictions: every leaf, margin and prediction, on rows made to break adapters."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy import sparse

from probe import nasty_rows
from treespec import wrap
from treespec.adapters import lightgbm as adapter
from treespec.adapters import lightgbm_text
from treespec.adapters._treelite import structure_of
from treespec.errors import DataMismatchError, FileFormatError, ModelNotFittedError, UnsupportedModelError
from treespec.ir.inputs import ZERO_THRESHOLD

lgb = pytest.importorskip("lightgbm")

N = 500
SMALL = {"n_estimators": 8, "num_leaves": 12, "n_jobs": 1, "min_child_samples": 4, "cat_smooth": 1, "min_data_per_group": 2, "verbose": -1}
BAGGED = {"boosting_type": "rf", "bagging_freq": 1, "bagging_fraction": 0.6}


def data(seed=0):
    """Numbers with zeros and missing values, and a last column that may serve as a category."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(N, 4))
    X[rng.random(X.shape) < 0.1] = np.nan
    X[rng.random(X.shape) < 0.2] = 0
    X[:, 3] = rng.integers(0, 40, N)
    y = np.nan_to_num(X[:, 0]) + (X[:, 3] % 3 == 1) + rng.normal(size=N) * 0.2
    return X, y


X, Y = data()
TWO, THREE = np.where(Y > 0.3, "yes", "no"), np.digitize(Y, [0, 1]) * 10
POSITIVE = np.abs(Y) + 0.1
SHARE = 1 / (1 + np.exp(-Y))


def regressor(y=Y, X=X, fit=None, **options):
    return lambda: lgb.LGBMRegressor(**(SMALL | options)).fit(X, y, **fit or {})


def classifier(y=TWO, fit=None, **options):
    return lambda: lgb.LGBMClassifier(**(SMALL | options)).fit(X, y, **fit or {})


def ranker(**options):
    return lambda: lgb.LGBMRanker(**(SMALL | options)).fit(X, THREE // 10, group=[100] * 5)


def trained(param=None, y=Y, rounds=6, **options):
    param = {"num_leaves": 8, "num_threads": 1, "verbose": -1, "min_data_in_leaf": 5} | (param or {})
    return lambda: lgb.train(param, lgb.Dataset(X, y), rounds, **options)


def stopped():
    param = {"num_leaves": 8, "num_threads": 1, "verbose": -1}
    valid = lgb.Dataset(X[300:], Y[300:][::-1])
    return lgb.train(
        param,
        lgb.Dataset(X[:300], Y[:300]),
        60,
        valid_sets=[valid],
        callbacks=[lgb.early_stopping(4, verbose=False)],
        keep_training_booster=True,
    )


CATEGORICAL = {"fit": {"categorical_feature": [3]}}
MODELS = {
    "regression": regressor(),
    "categories": regressor(**CATEGORICAL),
    "zero as missing": regressor(zero_as_missing=True),
    "zero as missing, categories": regressor(zero_as_missing=True, **CATEGORICAL),
    "no missing values": regressor(X=np.nan_to_num(X)),
    "use_missing=false": regressor(use_missing=False),
    "few categories": regressor(X=np.column_stack([X[:, :3], X[:, 3] % 3]), **CATEGORICAL),  # their splits have no missing type
    "dart": regressor(boosting_type="dart"),
    "forest": regressor(**BAGGED),
    "goss": regressor(data_sample_strategy="goss"),
    "extra trees, smooth": regressor(extra_trees=True, path_smooth=1.0),
    "monotone": regressor(monotone_constraints=[1, 0, 0, 0]),
    "quantised": regressor(use_quantized_grad=True),
    "weights": lambda: lgb.LGBMRegressor(**SMALL).fit(X, Y, sample_weight=np.arange(N) % 5),
    "no average": regressor(boost_from_average=False),
    "offset": regressor(Y + 1e6),
    "l1": regressor(objective="regression_l1"),
    "huber": regressor(objective="huber"),
    "fair": regressor(objective="fair"),
    "quantile": regressor(objective="quantile", alpha=0.3),
    "mape": regressor(objective="mape"),
    "poisson": regressor(POSITIVE, objective="poisson"),
    "gamma": regressor(POSITIVE, objective="gamma"),
    "tweedie": regressor(POSITIVE, objective="tweedie"),
    "cross entropy": regressor(SHARE, objective="cross_entropy"),
    "cross entropy lambda": regressor(SHARE, objective="cross_entropy_lambda"),
    "reg_sqrt": regressor(reg_sqrt=True),
    "binary": classifier(),
    "binary, sigmoid": classifier(sigmoid=2.5, is_unbalance=True),
    "binary by regression": classifier(objective="regression"),
    "three classes": classifier(THREE),
    "one against all": classifier(THREE, objective="multiclassova", sigmoid=0.7),
    "three classes, forest": classifier(THREE, **BAGGED),
    "three classes, dart": classifier(THREE, boosting_type="dart"),
    "ranker": ranker(),
    "xendcg": ranker(objective="rank_xendcg"),
    "custom objective": classifier((TWO == "yes").astype(int), objective=lambda y, p: (p - y, np.ones_like(p))),
    "booster": trained(),
    "booster binary": trained({"objective": "binary"}, TWO == "yes"),
    "stopped": stopped,
    "refitted": lambda: trained()().refit(X, Y[::-1]),
    "continued": lambda: trained({"seed": 1}, init_model=trained()())(),
    "constant": trained(y=np.ones(N)),
}


@pytest.fixture(scope="module", params=MODELS)
def case(request):
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of training alone
        model = MODELS[request.param]()
    forest = adapter.treespec_adapt(model)
    return request.param, model, forest, adapter.treespec_native(model, forest)


def rows_of(forest, seed=1):
    return nasty_rows(forest, np.random.default_rng(seed))


def test_every_row_reaches_the_leaf_of_lightgbm(case):
    _, _, forest, native = case
    rows = rows_of(forest)
    assert np.isinf(rows).any() and np.isnan(rows).any() and ((np.abs(rows) <= ZERO_THRESHOLD) & (rows != 0)).any()
    np.testing.assert_array_equal(forest.native_id[forest.apply(rows)], native.leaf_id(rows))


def test_margins_are_bit_equal(case):
    name, _, forest, native = case
    rows = rows_of(forest)
    if name == "three classes, forest":  # a mean over the trees of one class, ours over all trees
        np.testing.assert_allclose(forest.margin(rows), native.margin(rows), rtol=1e-12)
    else:
        np.testing.assert_array_equal(forest.margin(rows), native.margin(rows))


def test_predictions_are_equal(case):
    _, _, forest, native = case
    rows = rows_of(forest)
    ours, theirs = forest.predict(rows), native.predict(rows)
    if theirs.dtype.kind == "f":
        np.testing.assert_allclose(ours, theirs, rtol=1e-13)
    else:
        np.testing.assert_array_equal(ours, theirs)


def test_wrap_passes_its_self_check(case):
    _, model, forest, _ = case
    w = wrap(model, X)
    assert w.check.n_rows == N and w.check.max_difference <= 1e-15 * np.abs(w.margin(X)).max()
    np.testing.assert_array_equal(w.apply(X), forest.apply(X))
    assert wrap(model).check.n_rows > 0


@pytest.mark.parametrize(
    "name", ["binary", "binary, sigmoid", "binary by regression", "three classes", "one against all", "three classes, forest"]
)
@pytest.mark.filterwarnings("ignore:X does not have valid feature names")
def test_class_probabilities_are_equal(name):
    model = MODELS[name]()
    forest = adapter.treespec_adapt(model)
    rows = rows_of(forest)
    np.testing.assert_allclose(forest.predict_proba(rows), model.predict_proba(rows), rtol=1e-13, atol=1e-300)
    np.testing.assert_array_equal(forest.classes[0], model.classes_)


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.integers(0, 2**31 - 1), st.integers(2, 20), st.booleans(), st.booleans(), st.booleans(), st.integers(-300, 300))
def test_leaves_of_any_small_model(seed, n_leaves, categorical, use_missing, zero_as_missing, exponent):
    X, y = data(seed)
    X[:, :3] *= 10.0**exponent
    param = {
        "num_leaves": n_leaves,
        "min_data_in_leaf": 3,
        "use_missing": use_missing,
        "zero_as_missing": zero_as_missing,
        "verbose": -1,
        "num_threads": 1,
    }
    param |= {"min_data_per_group": 2, "cat_smooth": 1}
    model = lgb.train(param, lgb.Dataset(X, y, categorical_feature=[3] if categorical else []), 3)
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
        ("reg_sqrt", "regression", "signed-square", "squared-sqrt"),
        ("poisson", "regression", "exp", "poisson"),
        ("cross entropy lambda", "regression", "log1p-exp", "cross-entropy-lambda"),
        ("binary", "binary", "sigmoid", "logistic"),
        ("one against all", "multiclass", "sigmoid-each", "one-vs-all"),
        ("three classes", "multiclass", "softmax", "logistic"),
        ("ranker", "ranking", "identity", "lambdarank"),
    ],
)
def test_task_link_and_loss(name, task, link, loss):
    forest = adapter.treespec_adapt(MODELS[name]())
    assert (forest.task, forest.link, forest.loss) == (task, link, loss)


@pytest.mark.parametrize("name", ["regression", "categories", "binary", "three classes, forest", "dart"])
def test_statistics_are_those_of_lightgbm(name):
    model = MODELS[name]()
    forest = adapter.treespec_adapt(model)
    table = model.booster_.trees_to_dataframe()
    base = {t: forest.tree_offset[t] for t in range(forest.n_trees)}
    number = {}
    for v in range(forest.n_nodes):
        t = int(np.searchsorted(forest.tree_offset, v, "right")) - 1
        number[f"{t}-{'L' if forest.is_leaf[v] else 'S'}{forest.native_id[v]}"] = v
    assert len(base) == forest.n_trees
    at = [number[key] for key in table["node_index"]]
    assert sorted(at) == list(range(forest.n_nodes))
    np.testing.assert_array_equal(forest.count[at], table["count"])
    np.testing.assert_allclose(forest.cover[at], table["weight"], rtol=1e-5)
    np.testing.assert_allclose(forest.gain[at], table["split_gain"].fillna(0), rtol=1e-5)
    scale = 3 if "three" in name else 1
    column = np.repeat(forest.tree_output, np.diff(forest.tree_offset))
    np.testing.assert_allclose(forest.value[at, column[at]] / scale, table["value"], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", ["regression", "categories", "no missing values", "three classes", "dart", "forest", "constant"])
def test_the_text_is_read_as_treelite_reads_it(name):
    treelite = pytest.importorskip("treelite")
    model = MODELS[name]()
    booster = getattr(model, "booster_", model)
    structure, forest = structure_of(treelite.frontend.from_lightgbm(booster)), adapter.treespec_adapt(model)
    np.testing.assert_array_equal(np.diff(structure.tree_offset), np.diff(forest.tree_offset))
    theirs, ours = structure.tree_offset[:-1].copy(), forest.tree_offset[:-1].copy()
    while len(ours):  # both trees side by side, level by level
        leaf = forest.is_leaf[ours]
        np.testing.assert_array_equal(structure.left[theirs] == -1, leaf)
        np.testing.assert_array_equal(structure.value[theirs[leaf]], forest.value[ours[leaf]])
        np.testing.assert_array_equal(structure.count[theirs], forest.count[ours])
        theirs, ours = theirs[~leaf], ours[~leaf]
        for name_ in ("feature", "threshold", "categorical"):
            np.testing.assert_array_equal(getattr(structure, name_)[theirs], getattr(forest, name_)[ours])
        for a, b in zip(theirs, ours, strict=True):
            np.testing.assert_array_equal(
                structure.category[slice(*structure.category_offset[a : a + 2])], forest.category[slice(*forest.category_offset[b : b + 2])]
            )
        theirs, ours = (np.concatenate([f.left[v], f.right[v]]) for f, v in ((structure, theirs), (forest, ours)))


def test_early_stopping_is_followed():
    model = stopped()
    assert 0 < model.best_iteration < model.current_iteration()
    forest = adapter.treespec_adapt(model)
    assert forest.n_trees == model.best_iteration
    assert f"the first {model.best_iteration} of {model.current_iteration()} rounds" in forest.framework
    np.testing.assert_array_equal(forest.margin(X), model.predict(X))


def test_a_wrapper_that_stopped_early_is_followed():
    model = lgb.LGBMClassifier(**(SMALL | {"n_estimators": 60})).fit(
        X[:300], THREE[:300], eval_X=X[300:], eval_y=THREE[300:], callbacks=[lgb.early_stopping(3, verbose=False)]
    )
    forest = adapter.treespec_adapt(model)
    assert forest.n_trees == 3 * model.best_iteration_ < 180
    np.testing.assert_array_equal(forest.margin(X), model.booster_.predict(X, raw_score=True))


def test_names_are_those_of_the_user():
    pd = pytest.importorskip("pandas")
    assert adapter.treespec_adapt(MODELS["regression"]()).feature_names is None
    frame = pd.DataFrame(X, columns=["a b", "c", "d", "é"])
    model = lgb.LGBMRegressor(**SMALL).fit(frame, Y)
    forest = adapter.treespec_adapt(model)
    assert forest.feature_names == ("a_b", "c", "d", "é")  # as LightGBM writes them
    native = adapter.treespec_native(model, forest)
    for rows in (frame, frame[["é", "d", "c", "a b"]]):
        np.testing.assert_array_equal(forest.margin(rows), model.predict(frame))
        np.testing.assert_array_equal(native.margin(rows), model.predict(frame))


# ---- inputs


@pytest.fixture(scope="module")
def large():
    """A model of integers beyond 2^24, and rows on its thresholds and beside them."""
    rng = np.random.default_rng(0)
    stamps = rng.integers(2**26, 2**40, (N, 2))
    model = lgb.LGBMRegressor(**(SMALL | {"max_bin": 500, "min_data_in_bin": 1})).fit(stamps.astype(float), stamps[:, 0] / 2**40)
    forest = adapter.treespec_adapt(model)
    on = forest.threshold[(forest.feature == 0) & ~forest.is_leaf].astype(np.int64)
    rows = np.column_stack([rng.choice(on, 300) + rng.integers(-2, 3, 300), stamps[:300, 1]])
    return model, forest, adapter.treespec_native(model, forest), rows


@pytest.mark.parametrize("form", ["integers", "unsigned", "list", "objects", "float64", "frame", "sparse"])
def test_integers_that_are_no_floats_lose_digits_as_in_lightgbm(large, form):
    pd = pytest.importorskip("pandas")
    model, forest, native, whole = large
    forms = {"unsigned": whole.astype(np.uint64), "list": whole.tolist(), "objects": whole.astype(object), "integers": whole}
    forms |= {"float64": whole.astype(float), "frame": pd.DataFrame(whole), "sparse": sparse.csr_matrix(whole.astype(float))}
    rows = forms[form]
    expected = model.predict(rows)
    assert (expected == model.predict(whole.astype(float))).all() == (form in ("objects", "float64", "frame", "sparse"))
    np.testing.assert_array_equal(forest.margin(rows), expected)
    np.testing.assert_array_equal(native.margin(rows), expected)
    np.testing.assert_array_equal(wrap(model).predict(rows), expected)


def test_boosters_read_objects_as_float32_and_wrappers_do_not(large):
    model, _, _, whole = large
    rows, booster = whole.astype(object), model.booster_
    assert (booster.predict(rows) != model.predict(rows)).any()
    np.testing.assert_array_equal(wrap(booster).predict(rows), booster.predict(rows))
    np.testing.assert_array_equal(wrap(booster).forest.margin(rows), booster.predict(rows))


def test_sparse_integers_are_taken(large):
    model, forest, native, whole = large
    rows = sparse.csr_matrix(whole)  # LightGBM itself takes floats alone
    np.testing.assert_array_equal(native.margin(rows), model.predict(rows.astype(float)))
    np.testing.assert_array_equal(forest.margin(rows), native.margin(rows))


@pytest.mark.parametrize("zero_as_missing", [False, True])
@pytest.mark.parametrize("form", ["csr_matrix", "csr_array", "coo_matrix", "csc_matrix", "csc_array", "arrow", "dense"])
def test_tiny_entries_are_zero_in_the_forms_in_which_lightgbm_flushes_them(form, zero_as_missing):
    pa, pd = pytest.importorskip("pyarrow"), pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    scale = 1e-34
    train = np.where(rng.random((N, 3)) < 0.3, 0, rng.normal(size=(N, 3)) * scale)
    param = {"verbose": -1, "min_data_in_leaf": 3, "num_threads": 1, "zero_as_missing": zero_as_missing}
    model = lgb.train(param, lgb.Dataset(train, train[:, 0] / scale), 5)
    forest = adapter.treespec_adapt(model)
    native = adapter.treespec_native(model, forest)
    edge = [ZERO_THRESHOLD, np.nextafter(ZERO_THRESHOLD, 1), np.nextafter(ZERO_THRESHOLD, 0), 5e-324, 1e-34, np.nan]
    rows = rng.choice([0.0, *edge, *(-v for v in edge)], (2000, 3))
    entries = sparse.csr_matrix(rows)
    made = {"dense": rows, "arrow": pa.table(pd.DataFrame(rows, columns=list("abc")))}
    given = made[form] if form in made else getattr(sparse, form)(entries)
    asked = given if form in ("dense", "csc_matrix") else entries  # LightGBM takes all others as rows of entries, if at all
    expected = model.predict(asked)
    flushed = form in ("dense", "csc_matrix") or zero_as_missing
    assert (expected == model.predict(rows)).all() == flushed
    np.testing.assert_array_equal(forest.margin(given), expected)
    np.testing.assert_array_equal(native.margin(given), expected)
    np.testing.assert_array_equal(wrap(model).predict(given), expected)


@pytest.fixture(params=["text", "numbers"])
def framed(request):
    pd = pytest.importorskip("pandas")
    names = [f"v{k}" if request.param == "text" else 7 * k + 3 for k in range(40)]
    frame = pd.DataFrame(X[:, :3], columns=list("abc"))
    frame["d"] = pd.Categorical.from_codes(X[:, 3].astype(int), categories=names)
    model = lgb.LGBMClassifier(**SMALL).fit(frame, THREE)
    forest = adapter.treespec_adapt(model)
    assert forest.inputs.categories == ((3, tuple(names)),)
    return names, frame, model, forest, adapter.treespec_native(model, forest)


def test_categories_of_a_frame_are_matched_by_value(framed):
    import pandas as pd

    names, frame, model, forest, native = framed
    other = frame.iloc[:200].copy()
    values = other["d"].astype(object)
    values[np.arange(200) % 5 == 0] = "new" if isinstance(names[0], str) else 10**6  # unseen
    values[np.arange(200) % 7 == 0] = None
    other["d"] = pd.Categorical(values, categories=[*names[::-1], values.iloc[5]])
    for rows in (frame, other, other[list("dcab")]):
        np.testing.assert_array_equal(forest.native_id[forest.apply(rows)], native.leaf_id(rows))
        np.testing.assert_array_equal(forest.margin(rows), native.margin(rows))
    np.testing.assert_array_equal(forest.margin(other), model.predict(other, raw_score=True))
    np.testing.assert_array_equal(forest.predict(other), model.predict(other))
    assert wrap(model, frame).check.n_rows == N
    assert wrap(model).check.n_rows > 0


def test_numbers_in_a_category_column_are_codes_as_in_lightgbm(framed):
    _, frame, model, forest, native = framed
    codes = forest.with_values(forest.value, inputs=replace(forest.inputs, categories=()))
    rows = nasty_rows(codes, np.random.default_rng(3))
    np.testing.assert_array_equal(forest.native_id[forest.apply(rows)], native.leaf_id(rows))
    np.testing.assert_array_equal(forest.margin(X), model.predict(frame, raw_score=True))


def test_other_frames_give_the_same_leaves(framed):
    pl = pytest.importorskip("polars")
    _, frame, _, forest, native = framed
    rows = pl.from_pandas(frame)
    np.testing.assert_array_equal(forest.apply(rows), forest.apply(frame))
    np.testing.assert_array_equal(native.leaf_id(rows), native.leaf_id(frame))


def test_text_in_a_numerical_column_is_refused(framed):
    _, frame, _, forest, _ = framed
    with pytest.raises(DataMismatchError, match="numbers in column 'a', but got 'x' in row 0"):
        forest.apply(frame.assign(a="x"))


@pytest.mark.parametrize("form", [sparse.csr_matrix, sparse.csr_array, sparse.csc_matrix])
@pytest.mark.parametrize("name", ["regression", "zero as missing"])
def test_what_a_sparse_matrix_does_not_store_is_zero(form, name):
    model = MODELS[name]()
    forest = adapter.treespec_adapt(model)
    native = adapter.treespec_native(model, forest)
    dense = X * (np.random.default_rng(0).random(X.shape) < 0.5)
    rows = form(dense)
    np.testing.assert_array_equal(forest.native_id[forest.apply(rows)], native.leaf_id(rows))
    np.testing.assert_array_equal(forest.margin(rows), forest.margin(dense))


# ---- texts that no training writes, read by LightGBM and by us


def both(text):
    text = "\n".join(line for line in text.split("\n") if not line.startswith("tree_sizes="))  # LightGBM jumps by them
    booster = lgb.Booster(model_str=text)
    forest = adapter.treespec_adapt(booster)
    return booster, forest, rows_of(forest)


def test_a_threshold_of_zero_sends_a_missing_value_left_where_it_is_zero():
    text = MODELS["no missing values"]().booster_.model_to_string()
    lines = text.split("\n")
    first = next(i for i, line in enumerate(lines) if line.startswith("threshold="))
    lines[first] = "threshold=0 " + lines[first].partition(" ")[2]
    booster, forest, rows = both("\n".join(lines))
    assert (forest.threshold == 0).any()
    np.testing.assert_array_equal(forest.native_id[forest.apply(rows)], booster.predict(rows, pred_leaf=True))


def test_probabilities_that_tie_choose_the_class_that_lightgbm_chooses():
    model = MODELS["one against all"]()
    text = model.booster_.model_to_string().replace("sigmoid:0.7", "sigmoid:700")
    booster, forest, rows = both(text)
    p = booster.predict(rows)
    assert (np.sort(p, axis=1)[:, -1] == np.sort(p, axis=1)[:, -2]).any()
    labelled = forest.with_values(forest.value, classes=(np.arange(3),))
    np.testing.assert_array_equal(labelled.predict(rows), p.argmax(axis=1))


# ---- refusals


def test_linear_leaves_are_refused():
    with pytest.raises(UnsupportedModelError, match="linear_tree=true"):
        adapter.treespec_adapt(trained({"linear_tree": True})())


@pytest.mark.parametrize("make", ["LGBMRegressor", "LGBMClassifier", "LGBMRanker"])
def test_unfitted_models_are_refused(make):
    with pytest.raises(ModelNotFittedError):
        adapter.treespec_adapt(getattr(lgb, make)())


def test_zeros_that_are_missing_for_some_trees_only_are_refused():
    first = trained({"zero_as_missing": True})()
    with pytest.raises(UnsupportedModelError, match="trained partly with zero_as_missing"):
        adapter.treespec_adapt(trained(init_model=first)())


def test_category_columns_that_cannot_be_told_apart_are_refused():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"a": X[:, 0], "b": pd.Categorical.from_codes(X[:, 3].astype(int) % 3, categories=[5, 6, 7], ordered=True)})
    frame["c"] = pd.Categorical.from_codes(X[:, 3].astype(int), categories=range(40))
    model = lgb.LGBMRegressor(**SMALL).fit(frame, Y)  # an ordered category is a number for LightGBM, and recoded all the same
    with pytest.raises(UnsupportedModelError, match="2 category columns and 1 categorical features"):
        adapter.treespec_adapt(model)


def test_a_classifier_whose_objective_is_for_counts_is_refused():
    with pytest.raises(UnsupportedModelError, match="poisson"):
        adapter.treespec_adapt(classifier((TWO == "yes").astype(int), objective="poisson")())


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("version=v4", "version=v9"),
        ("left_child=", "left_child=7 "),
        ("split_feature=", "split_feature=9 "),
        ("num_leaves=", "num_leaves=1"),
        ("leaf_value=", "leaf_value=nan "),
        ("threshold=", "threshold=nan "),
        ("decision_type=", "decision_type=15 "),
        ("end of trees", "end"),
        ("cat_boundaries=0 ", "cat_boundaries=1 "),
        ("max_feature_idx=3", "max_feature_idx=-5"),
        ("right_child=", "right_child=0 "),
    ],
)
def test_damaged_texts_are_refused(old, new):
    text = MODELS["categories"]().booster_.model_to_string()
    assert old in text
    if new.startswith(("left", "split", "leaf_v", "thres", "decision", "right")):  # in place of the first number
        head, _, tail = text.partition(old)
        text = head + new + tail.partition(" ")[2]
    else:
        text = text.replace(old, new, 1)
    with pytest.raises(FileFormatError):
        adapter.forest_of(lightgbm_text.read(text), framework="lightgbm")


def test_old_texts_lack_statistics():
    text = MODELS["regression"]().booster_.model_to_string().replace("version=v4", "version=v2")
    drop = ("leaf_weight=", "internal_weight=", "leaf_count=", "internal_count=", "is_linear=")
    text = "\n".join(line for line in text.split("\n") if not line.startswith(drop))
    forest = adapter.forest_of(lightgbm_text.read(text), framework="lightgbm")
    assert forest.cover is None and forest.count is None and forest.gain is not None


def test_other_objects_are_passed():
    assert adapter.treespec_adapt(object()) is None
    assert adapter.treespec_native(object(), None) is None
