"""Categories that are encoded one-hot: hashes become names by the rows of training; target statistics are refused."""

import numpy as np
import pandas as pd
import pytest

catboost = pytest.importorskip("catboost")

import treespec  # noqa: E402
import treespec_catboost  # noqa: E402
from treespec.errors import DataMismatchError, DataNeededError, UnsupportedModelError  # noqa: E402
from treespec.testing import check_adapter  # noqa: E402
from treespec_catboost.categories import _hits, text_of  # noqa: E402

FAST = {"iterations": 12, "depth": 4, "verbose": 0, "thread_count": 1, "allow_writing_files": False, "one_hot_max_size": 20}
N = 300
RNG = np.random.default_rng(0)
FRAME = pd.DataFrame(
    {
        "colour": RNG.choice(["red", "green", "bl ue", "ünï", "12", "007", ""], N),
        "z": RNG.normal(size=N),
        "code": RNG.integers(-3, 5, N),
        "flag": RNG.random(N) < 0.5,
    }
)
Y = (
    (FRAME.colour == "red") * 2 - (FRAME.code == -1) * 3 + (FRAME.code == 3) * 1.5 + FRAME.flag + FRAME.z + (FRAME.colour == "12") * 2
).to_numpy()
CATS = ["colour", "code", "flag"]


def fit(shape="SymmetricTree", **options):
    return catboost.CatBoostRegressor(**FAST | options, grow_policy=shape, cat_features=CATS).fit(FRAME, Y)


@pytest.mark.parametrize("shape", ["SymmetricTree", "Depthwise", "Lossguide"])
def test_text_integers_and_booleans(shape):
    model = fit(shape)
    forest = check_adapter(treespec_catboost, model, FRAME)
    assert forest.inputs.categorical == (0, 2, 3) and forest.feature_names == ("colour", "z", "code", "flag")
    assert set(forest.feature[forest.categorical].tolist()) >= {0, 2}
    np.testing.assert_allclose(forest.margin(FRAME), model.predict(FRAME), rtol=1e-12)


def forms():
    as_text = FRAME.assign(code=FRAME.code.astype(str))
    return {
        "text for integers": as_text,
        "integers for booleans": FRAME.assign(flag=FRAME.flag.astype(int)),
        "pandas categories": FRAME.assign(colour=FRAME.colour.astype("category"), code=FRAME.code.astype("category")),
        "nullable integers": FRAME.assign(code=FRAME.code.astype("Int64")),
        "objects": FRAME.astype(object),
        "other order": FRAME[["code", "flag", "z", "colour"]],
        "unseen": FRAME.assign(colour="violet", code=99),
        "array of objects": FRAME.to_numpy(),
        "text '1' and 1 in one column": FRAME.assign(code=np.where(np.arange(N) % 2, FRAME.code.astype(str), FRAME.code.astype(object))),
    }


@pytest.mark.parametrize("form", forms())
def test_every_form_of_a_category_is_the_one_that_catboost_sees(form):
    model, rows = fit(), forms()[form]
    w = treespec.wrap(model, FRAME, Y)
    theirs = model.predict(FRAME if form == "other order" else rows)
    np.testing.assert_allclose(w.forest.margin(rows), theirs, rtol=1e-12)
    np.testing.assert_allclose(w.margin(rows), theirs, rtol=1e-12)
    np.testing.assert_array_equal(w.forest.apply(rows), w.apply(rows))


def test_other_frames():
    polars, pyarrow = pytest.importorskip("polars"), pytest.importorskip("pyarrow")
    w = treespec.wrap(fit(), FRAME, Y)
    for rows in (polars.from_pandas(FRAME), pyarrow.Table.from_pandas(FRAME)):
        np.testing.assert_array_equal(w.margin(rows), w.margin(FRAME))


def test_categories_that_training_would_refuse_are_refused():
    w = treespec.wrap(fit(), FRAME, Y)
    for column, value in (("colour", None), ("code", np.nan)):
        with pytest.raises(DataMismatchError, match=f"missing value in column '{column}'"):
            w.predict(FRAME.astype(object).assign(**{column: value}))
    with pytest.raises(DataMismatchError, match=r"1\.5 in row 0"):
        w.predict(FRAME.assign(code=1.5))


def test_names_come_from_the_rows_of_training():
    model = fit()
    with pytest.raises(DataNeededError, match=r"(?s)columns .*.colour.*hashes"):
        treespec.wrap(model)
    with pytest.raises(DataMismatchError, match=r"that lack \d+ of them"):
        treespec.wrap(model, FRAME[FRAME.colour != "red"])


def test_categories_without_a_split_need_no_rows():
    frame = FRAME[["colour", "z"]]
    model = catboost.CatBoostRegressor(**FAST | {"iterations": 2, "depth": 1}, cat_features=["colour"]).fit(frame, FRAME.z)
    w = treespec.wrap(model)
    np.testing.assert_allclose(w.forest.margin(frame), model.predict(frame), rtol=1e-12)


def test_hashes_are_those_of_catboost_for_texts_of_every_length():
    texts = ["x" * k + "é" * (k % 3) for k in range(0, 150, 7)] + ["-1", "1", "0"]
    frame = pd.DataFrame({"t": texts * 4})
    model = catboost.CatBoostRegressor(**FAST | {"one_hot_max_size": 200, "iterations": 150, "depth": 2}, cat_features=["t"])
    model.fit(frame, np.tile(np.random.default_rng(0).normal(size=len(texts)) * 10, 4))
    forest = treespec.wrap(model, frame).forest
    known = {v for v in dict(forest.inputs.categories)[0] if isinstance(v, str)}
    assert len(known) > 15 and known <= set(texts)
    np.testing.assert_allclose(forest.margin(frame), model.predict(frame), rtol=1e-12)
    assert _hits([], [5]).shape == (0, 1)


def test_the_text_of_a_category():
    assert [text_of(v) for v in ("a", np.str_("b"), 3, 3.0, True, np.bool_(False), -(2**60))] == [
        "a",
        "b",
        "3",
        "3",
        "1",
        "0",
        str(-(2**60)),
    ]
    assert [text_of(v) for v in (1.5, None, np.nan)] == [None] * 3


def test_target_statistics_are_refused_by_name():
    model = catboost.CatBoostRegressor(**FAST | {"one_hot_max_size": 2}, cat_features=["colour"]).fit(FRAME[["colour", "z"]], Y)
    with pytest.raises(UnsupportedModelError, match=r"(?s)OnlineCtr on the categorical features 'colour'.*one_hot_max_size"):
        treespec.wrap(model, FRAME[["colour", "z"]], Y)


@pytest.mark.parametrize("compressor", ["packed", "mlp"])
def test_students_know_the_categories(compressor, tmp_path):
    w = treespec.wrap(fit(), FRAME, Y)
    options = {} if compressor == "packed" else {"steps": 30}
    student = w.distill("20KB", compressor=compressor, **options)
    student.save(tmp_path / "student")
    loaded = treespec.load_student(tmp_path / "student")
    np.testing.assert_array_equal(loaded.predict(FRAME), student.predict(FRAME))
    if compressor == "packed":
        np.testing.assert_allclose(student.predict(FRAME), w.predict(FRAME), atol=0.05 * Y.std())
