"""Models of every loss and tree shape: leaves and margins as CatBoost's, on nasty rows."""

import numpy as np
import pandas as pd
import pytest

catboost = pytest.importorskip("catboost")

import treespec  # noqa: E402
import treespec_catboost  # noqa: E402
from treespec.errors import DataMismatchError, ModelNotFittedError, SelfCheckError, UnsupportedModelError  # noqa: E402
from treespec.testing import check_adapter, nasty_rows  # noqa: E402

FAST = {"iterations": 6, "depth": 3, "verbose": 0, "thread_count": 1, "allow_writing_files": False}
SHAPES = ["SymmetricTree", "Depthwise", "Lossguide"]


def table(missing=0.0, n=240):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 3))
    y = X[:, 0] + X[:, 1] ** 2
    X[rng.random(X.shape) < missing] = np.nan
    return X, y


def raw(model, X):
    return catboost.CatBoost.predict(model, X, prediction_type="RawFormulaVal").reshape(len(X), -1)


def check(model, X, **options):
    """The conformance check, and margins within 1e-12 of the raw values."""
    forest = check_adapter(treespec_catboost, model, X, **options)
    rows = nasty_rows(forest, np.random.default_rng(1))
    if isinstance(rows, np.ndarray):
        theirs = raw(model, rows)
        np.testing.assert_allclose(forest.margin_of(forest.apply(rows)), theirs, rtol=1e-12, atol=1e-12 * np.abs(theirs).max())
    return forest


X, Y = table()
POSITIVE = np.abs(Y) + 0.1
BINARY, THREE = (Y > 1).astype(int), np.digitize(Y, [0.3, 1.3])
REGRESSOR, CLASSIFIER, RANKER = "CatBoostRegressor", "CatBoostClassifier", "CatBoostRanker"
LOSSES = {
    "RMSE": (REGRESSOR, Y, "identity"), "MAE": (REGRESSOR, Y, "identity"), "Quantile:alpha=0.3": (REGRESSOR, Y, "identity"),
    "MultiQuantile:alpha=0.1,0.5": (REGRESSOR, Y, "identity"), "Expectile:alpha=0.3": (REGRESSOR, Y, "identity"),
    "Huber:delta=1": (REGRESSOR, Y, "identity"), "LogLinQuantile": (REGRESSOR, POSITIVE, "identity"), "Poisson": (REGRESSOR, POSITIVE, "exp"),
    "Tweedie:variance_power=1.5": (REGRESSOR, POSITIVE, "exp"), "RMSEWithUncertainty": (REGRESSOR, Y, "mean-variance"),
    "MultiRMSE": (REGRESSOR, np.column_stack([Y, X[:, 2]]), "identity"), "Cox": (REGRESSOR, POSITIVE, "identity"),
    "SurvivalAft:dist=Normal": (REGRESSOR, np.column_stack([POSITIVE, POSITIVE + 1]), "identity"),
    "Logloss": (CLASSIFIER, BINARY, "sigmoid"), "CrossEntropy": (CLASSIFIER, BINARY, "sigmoid"),
    "Focal:focal_alpha=0.5;focal_gamma=1": (CLASSIFIER, BINARY, "sigmoid"), "MultiClass": (CLASSIFIER, THREE, "softmax"),
    "MultiClassOneVsAll": (CLASSIFIER, THREE, "sigmoid-each"), "MultiLogloss": (CLASSIFIER, np.column_stack([BINARY, THREE > 1]) * 1, "sigmoid-each"),
    "YetiRank": (RANKER, THREE, "identity"), "PairLogit": (RANKER, THREE, "identity"), "QueryRMSE": (RANKER, THREE, "identity"),
}  # fmt: skip


def fit(loss, shape="SymmetricTree", wrapper=None, **options):
    name, y, link = LOSSES[loss]
    settings = FAST | {"loss_function": loss, "grow_policy": shape} | options
    model = catboost.CatBoost(settings) if wrapper == "CatBoost" else getattr(catboost, name)(**settings)
    groups = {"group_id": np.repeat(np.arange(len(X) // 10), 10)} if name == RANKER else {}
    return model.fit(X, y, **groups), link


@pytest.mark.parametrize("loss", LOSSES)
def test_every_loss(loss):
    model, link = fit(loss)
    assert check(model, X, sparse=True, unfitted=type(model)()).link == link


@pytest.mark.parametrize("shape", SHAPES[1:])
@pytest.mark.parametrize("loss", ["RMSE", "MultiClass", "Logloss"])
def test_trees_that_are_not_symmetric(loss, shape):
    forest = check(fit(loss, shape, iterations=15, depth=5)[0], X)
    ids = [forest.native_id[s:e][forest.is_leaf[s:e]] for s, e in zip(forest.tree_offset[:-1], forest.tree_offset[1:], strict=True)]
    assert any((np.diff(i) < 0).any() for i in ids)  # CatBoost does not number leaves from left to right


@pytest.mark.parametrize("loss", ["RMSE", "Poisson", "Logloss", "MultiClass", "MultiLogloss", "QueryRMSE"])
def test_the_base_class_predicts_raw_values(loss):
    forest = check(fit(loss, wrapper="CatBoost")[0], X)
    assert forest.link == "identity" and forest.classes is None


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("mode", ["Min", "Max", "Forbidden", None])
def test_missing_values(mode, shape):
    A, _ = table(missing=0.0 if mode == "Forbidden" else 0.1)
    nan = {} if mode is None else {"nan_mode": mode}
    model = catboost.CatBoostRegressor(**FAST | nan, grow_policy=shape).fit(A, np.isnan(A[:, 0]) * 3 + Y)
    forest = check(model, A)
    inner = ~forest.is_leaf
    assert (forest.default_left[inner] == (mode != "Max")).all()


@pytest.mark.parametrize(
    "labels",
    {
        "text": np.array(["c", "a", "b"])[THREE], "objects": np.array(["x", "yy", "z"], object)[THREE], "digits": np.array(["10", "9", "2"])[THREE],
        "floats": THREE + 0.5, "negative": THREE - 1, "bool": THREE > 0, "small": THREE.astype(np.uint8), "two texts": np.array(["no", "yes"])[BINARY],
        "large": THREE * 10**10, "two floats": BINARY + 0.5,
    }.values(),
    ids=lambda labels: f"{labels.dtype}-{len(set(labels.tolist()))}",
)  # fmt: skip
def test_labels_of_every_type(labels):
    model = catboost.CatBoostClassifier(**FAST).fit(X, labels)
    check(model, X)
    w = treespec.wrap(model, X, labels)
    assert w.predict(X).tolist() == model.predict(X).ravel().tolist()
    assert w.forest.classes[0].tolist() == model.classes_.tolist()
    np.testing.assert_allclose(w.predict_proba(X), model.predict_proba(X), rtol=1e-12)


def test_class_names_in_another_order():
    model = catboost.CatBoostClassifier(**FAST, class_names=[2, 0, 1]).fit(X, THREE)
    assert check(model, X).classes[0].tolist() == [2, 0, 1]


def test_early_stopping_keeps_the_best_trees():
    model = catboost.CatBoostRegressor(**FAST | {"iterations": 50}, early_stopping_rounds=3)
    model.fit(X[:160], Y[:160], eval_set=(X[160:], Y[160:][::-1]))
    assert check(model, X).n_trees == model.tree_count_ < 50
    model.shrink(1)
    assert check(model, X).n_trees == 1


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("rounds", [(0, 4), (2, 0), (1, 5), (0, 6)])
def test_some_of_the_trees(rounds, shape):
    model = fit("RMSE", shape)[0]
    w = treespec.wrap(model, X, Y, iteration_range=rounds)
    theirs = model.predict(X, ntree_start=rounds[0], ntree_end=rounds[1] or 6)
    np.testing.assert_allclose(w.predict(X), theirs, rtol=1e-12, atol=1e-12)
    assert w.forest.n_trees == (rounds[1] or 6) - rounds[0] and ("as asked" in w.forest.framework) == (rounds != (0, 6))
    three = fit("MultiClass", shape)[0]
    some = treespec.wrap(three, X, THREE, iteration_range=rounds)
    np.testing.assert_allclose(some.predict_proba(X), three.predict_proba(X, ntree_start=rounds[0], ntree_end=rounds[1] or 6), rtol=1e-12)


def test_rounds_and_missing_values_that_cannot_be():
    model = fit("RMSE")[0]
    for rounds in ((0, 7), (3, 3), (-1, 2), "all"):
        with pytest.raises(DataMismatchError, match="within the 6 trees"):
            treespec.wrap(model, iteration_range=rounds)
    with pytest.raises(UnsupportedModelError, match="missing=-999"):
        treespec.wrap(model, missing=-999)


def test_scale_and_bias_that_were_set():
    model = fit("RMSE")[0]
    model.set_scale_and_bias(-2.5, 7.0)
    forest = check(model, X)
    assert forest.base_score.tolist() == [7.0]


@pytest.mark.parametrize("kind", ["int", "float32", "frame", "named", "list"])
def test_rows_of_every_kind(kind):
    frame = pd.DataFrame(np.round(X * 3), columns=["b", "a", "c"])
    rows = {
        "int": frame.to_numpy(dtype=np.int64), "float32": X.astype(np.float32), "frame": pd.DataFrame(X), "named": frame, "list": X.tolist(),
    }[kind]  # fmt: skip
    model = catboost.CatBoostRegressor(**FAST).fit(rows, Y)
    assert check(model, np.asarray(rows) if kind == "list" else rows).feature_names == {
        "named": ("b", "a", "c"), "frame": ("0", "1", "2"),
    }.get(kind)  # fmt: skip


def test_columns_that_no_tree_uses():
    A = np.column_stack([np.ones(len(X)), X, np.zeros(len(X))])
    model = catboost.CatBoostRegressor(**FAST, ignored_features=[2]).fit(A, Y)
    forest = check(model, A)
    assert forest.n_features == 5 and not {0, 2, 4} & set(forest.feature[~forest.is_leaf].tolist())


def test_a_bag_of_models():
    from sklearn.ensemble import BaggingRegressor

    bag = BaggingRegressor(catboost.CatBoostRegressor(**FAST), n_estimators=2, max_features=2, random_state=0).fit(X, Y)
    w = treespec.wrap(bag, X, Y)
    np.testing.assert_allclose(w.predict(X), bag.predict(X), rtol=1e-12)
    assert w.forest.n_trees == 12


def test_sums_of_models():
    one, two = fit("RMSE")[0], fit("RMSE", depth=2, random_seed=7)[0]
    both = catboost.sum_models([one, two], weights=[0.5, 2.0])
    assert check(both, X).n_trees == 12


def test_cover_is_the_weight_of_training_rows():
    weight = np.random.default_rng(0).integers(1, 4, len(X)).astype(float)
    for shape in SHAPES:
        forest = treespec.wrap(catboost.CatBoostRegressor(**FAST, grow_policy=shape).fit(X, Y, sample_weight=weight)).forest
        np.testing.assert_allclose(forest.cover[forest.tree_offset[:-1]], weight.sum())
        reached = np.bincount(forest.apply(X)[:, 0], weight, minlength=forest.n_nodes)
        leaves = np.flatnonzero(forest.is_leaf)
        leaves = leaves[leaves < forest.tree_offset[1]]
        np.testing.assert_allclose(forest.cover[leaves], reached[leaves])


# ---- refused


def test_what_cannot_be_represented_is_refused_by_name():
    with pytest.raises(ModelNotFittedError, match="unfitted CatBoostRegressor"):
        treespec.wrap(catboost.CatBoostRegressor())
    model = fit("Logloss")[0]
    model.set_probability_threshold(0.3)
    with pytest.raises(UnsupportedModelError, match=r"decides at 0\.3"):
        treespec.wrap(model)
    model = catboost.CatBoostClassifier(**FAST, classes_count=5, loss_function="MultiClass").fit(X, THREE)
    with pytest.raises(UnsupportedModelError, match="5 classes of which 3 occurred"):
        treespec.wrap(model)


def test_what_catboost_does_not_export_is_refused(monkeypatch):
    def save_model(*args, **options):
        raise catboost.CatBoostError("JSON writer: invalid float value: inf")  # borders between finite and infinite values

    model = fit("RMSE")[0]
    monkeypatch.setattr(model, "save_model", save_model)
    with pytest.raises(UnsupportedModelError, match=r"invalid float value: inf.*\n\nHint: train on finite values"):
        treespec.wrap(model)


def test_text_and_embedding_features_are_refused_by_name():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"words": rng.choice(["hello world", "bye you", "hello you"], len(X)), "z": X[:, 0]})
    model = catboost.CatBoostClassifier(**FAST, text_features=["words"]).fit(frame, BINARY)
    with pytest.raises(UnsupportedModelError, match="text features 'words'"):
        treespec.wrap(model)
    frame = pd.DataFrame({"vector": list(rng.normal(size=(len(X), 4))), "z": X[:, 0]})
    model = catboost.CatBoostClassifier(**FAST, embedding_features=["vector"]).fit(frame, BINARY)
    with pytest.raises(UnsupportedModelError, match="embedding features 'vector'"):
        treespec.wrap(model)


@pytest.mark.parametrize("change", ["threshold", "value", "missing"])
def test_the_self_check_catches_a_wrong_conversion(change, monkeypatch):
    import dataclasses

    A, _ = table(missing=0.1)
    model = catboost.CatBoostRegressor(**FAST, nan_mode="Max").fit(A, Y + np.isnan(A[:, 0]) * 3)
    forest_of = treespec_catboost.forest_of

    def wrong(*args):
        forest = forest_of(*args)
        if change == "threshold":
            return dataclasses.replace(forest, threshold=np.nextafter(forest.threshold.astype(np.float32), np.float32(-np.inf)))
        if change == "value":
            return forest.with_values(forest.value * (1 + 1e-4))
        return dataclasses.replace(forest, default_left=~forest.is_leaf)

    monkeypatch.setattr(treespec_catboost, "forest_of", wrong)
    with pytest.raises(SelfCheckError):
        treespec.wrap(model)
