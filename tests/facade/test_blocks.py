"""Rows larger than memory: every source gives the numbers that rows in memory give, and what is wrong is named."""

import gc

import numpy as np
import pandas as pd
import pyarrow.dataset as ds
import pytest
from scipy.sparse import csr_array
from sklearn.datasets import load_diabetes
from sklearn.ensemble import GradientBoostingRegressor, RandomForestClassifier, RandomForestRegressor

import treespec
from treespec import errors
from treespec.facade import blocks as blocks_module
from treespec.facade import sources
from treespec.facade.blocks import Sampler
from treespec.operators import leaf as leaf_module

X, y = load_diabetes(return_X_y=True)
weight = np.random.default_rng(0).uniform(0.5, 2, len(y))
names = [f"c{j}" for j in range(X.shape[1])]
STEP = 100


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    monkeypatch.setattr(sources, "BLOCK_ROWS", 64)
    monkeypatch.setattr(leaf_module, "_BLOCK_ROWS", 50)


@pytest.fixture(scope="module")
def model():
    return RandomForestRegressor(12, min_samples_leaf=40, random_state=0).fit(X, y, sample_weight=weight)


@pytest.fixture(scope="module")
def here(model):
    return treespec.wrap(model, X, y, sample_weight=weight)


def cut(*arrays):
    return [tuple(a[i : i + STEP] for a in arrays) for i in range(0, len(X), STEP)]


@pytest.fixture(params=["memmap", "parquet", "data set", "generator", "pairs", "function", "sparse", "array"])
def source(request, tmp_path):
    """Return X, y and sample_weight of `wrap`."""
    kind = request.param
    if kind == "memmap":
        np.save(tmp_path / "X.npy", X)
        return np.load(tmp_path / "X.npy", mmap_mode="r"), y, weight
    if kind in ("parquet", "data set"):
        frame = pd.DataFrame(X, columns=names).assign(w=weight, target=y)
        frame[:200].to_parquet(tmp_path / "0.parquet")
        frame[200:].to_parquet(tmp_path / "1.parquet", row_group_size=70)
        return (ds.dataset(tmp_path, format="parquet") if kind == "data set" else str(tmp_path)), "target", "w"
    if kind == "generator":
        return (X[i : i + STEP] for i in range(0, len(X), STEP)), y, weight
    if kind == "pairs":
        return cut(X, y, weight), None, None
    if kind == "sparse":
        return [csr_array(b) for (b,) in cut(X)], y, weight
    return (lambda: (b for (b,) in cut(X))) if kind == "function" else X, y, weight


@pytest.mark.parametrize("leaf_ids", ["memory", "disk"])
def test_every_source_gives_the_numbers_of_rows_in_memory(model, here, source, leaf_ids):
    rows, labels, w = source
    there = treespec.wrap(model, rows, labels, sample_weight=w, leaf_ids="disk" if rows is X else leaf_ids)
    assert there.rows.n_rows == len(X)
    np.testing.assert_array_equal(there.rows.leaf_id, here.rows.leaf_id)
    np.testing.assert_array_equal(there.rows.y, y)
    np.testing.assert_array_equal(there.rows.sample_weight, weight)
    V = np.random.default_rng(1).normal(size=(len(X), 3))
    for name in ("leaf", "in-bag", "oob", "path"):
        mine, theirs = here.smoother(name), there.smoother(name)
        np.testing.assert_array_equal(theirs @ V, mine @ V)
        np.testing.assert_array_equal(theirs.rmatmat(V), mine.rmatmat(V))
        assert theirs.trace() == mine.trace()
        np.testing.assert_equal(theirs.exactness, mine.exactness)
        np.testing.assert_array_equal(theirs.cross(X[:7]) @ V, mine.cross(X[:7]) @ V)
        np.testing.assert_array_equal(theirs.weights(X[:7], top=5).toarray(), mine.weights(X[:7], top=5).toarray())
    for name in ("leaf", "path"):
        mine, theirs = here.spectrum(8, smoother=name), there.spectrum(8, smoother=name)
        np.testing.assert_allclose(theirs.values, mine.values, rtol=1e-12)
        np.testing.assert_allclose(theirs.left, mine.left, atol=1e-10)
        np.testing.assert_allclose(theirs.extend(X[:9]), mine.extend(X[:9]), atol=1e-10)
    np.testing.assert_array_equal(there.kpp(alpha=2.0).coef_, here.kpp(alpha=2.0).coef_)


def test_one_byte_a_row_and_tree_where_leaves_are_few_and_files_that_go_away(model, tmp_path):
    w = treespec.wrap(model, X, leaf_ids=tmp_path / "leaves")
    assert w.rows.table.nbytes == X.shape[0] * 12
    assert min(p.name for p in (tmp_path / "leaves").iterdir()) == "tree_00000.uint8"
    assert sum(p.stat().st_size for p in (tmp_path / "leaves").iterdir()) == X.shape[0] * 12
    deep = treespec.wrap(RandomForestRegressor(3, random_state=0).fit(np.vstack([X, X + 1e-3]), np.r_[y, -y]), X, leaf_ids="disk")
    column = deep.rows.table.tree(0)[2]
    assert column.dtype == np.uint16
    folder = column.filename.parent
    assert folder.exists()
    del column, deep
    gc.collect()
    assert not folder.exists()
    with pytest.raises(errors.TreespecError, match="would be overwritten"):
        treespec.wrap(model, X, leaf_ids=tmp_path / "leaves")


def test_boosters_replay_from_blocks():
    model = GradientBoostingRegressor(n_estimators=15, random_state=0).fit(X, y)
    w = treespec.wrap(model, cut(X, y))
    np.testing.assert_array_equal(w.smoother() @ y, treespec.wrap(model, X, y).smoother() @ y)
    with pytest.raises(errors.DataMismatchError, match=r"within 1e-05 standard deviations, but got \d"):
        treespec.wrap(model, cut(X, y[::-1])).smoother()  # shuffled


def test_classes_and_frames_of_text(tmp_path):
    labels = np.where(y > 140, "high", "low")
    frame = pd.DataFrame(X, columns=names)
    model = RandomForestClassifier(5, max_depth=4, random_state=0).fit(frame, labels)
    frame.assign(label=labels, id=1)[["id", "label", *names[::-1]]].to_parquet(tmp_path / "rows.parquet")
    w = treespec.wrap(model, tmp_path / "rows.parquet", "label")  # matched by name, other columns passed over
    np.testing.assert_array_equal(w.rows.leaf_id, treespec.wrap(model, frame).rows.leaf_id)
    here = treespec.wrap(model, frame, labels)
    np.testing.assert_array_equal(w.kpp(alpha=0.1).coef_, here.kpp(alpha=0.1).coef_)


def test_students_learn_from_a_stated_sample(model, monkeypatch):
    monkeypatch.setattr(blocks_module, "sample_size", lambda forest: 150)
    w = treespec.wrap(model, cut(X, y))
    rows = w.rows.sample()
    assert (rows.n_rows, rows.sampled_from) == (150, len(X))
    np.testing.assert_array_equal(w.apply(rows.X), rows.leaf_id)
    place = [int(np.flatnonzero((row == X).all(axis=1))[0]) for row in rows.X]
    np.testing.assert_array_equal(rows.y, y[place])
    student = w.distill(2000, compressor="mlp", steps=40)
    assert "a uniform sample of 150 of the 442 rows" in student.report.data
    assert student.report.teacher_rows == "cannot tell"
    assert w.kpp().info["alpha"]["method"] == "label-free"


@pytest.mark.parametrize("size", [1, 7, 60, 1000])
def test_the_sample_is_the_same_for_all_blocks_and_uniform(size):
    rows = np.arange(500.0)[:, None]
    found = []
    for step in (1, 13, 500):
        sampler = Sampler(size)
        for start in range(0, 500, step):
            sampler.add(rows[start : start + step], len(rows[start : start + step]))
        np.testing.assert_array_equal(sampler.take()[:, 0], sampler.rows)
        found.append(sampler.rows)
    assert len(found[0]) == min(size, 500)
    np.testing.assert_array_equal(found[0], found[1])
    np.testing.assert_array_equal(found[0], found[2])


def test_the_sample_favours_no_row():
    drawn = np.zeros(40)
    for seed in range(300):
        sampler = Sampler(10)
        sampler._rng = np.random.default_rng(seed)
        for start in range(0, 40, 7):
            part = np.arange(start, min(40, start + 7))[:, None]
            sampler.add(part, len(part))
        drawn[sampler.rows] += 1
    assert drawn.min() > 40 and drawn.max() < 115  # 75 expected, sd 7.5


# ---- what is wrong


def bad(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_what_does_not_fit_is_named(model, tmp_path):
    wrap = treespec.wrap
    frame = pd.DataFrame(X, columns=names).assign(target=y)
    frame.to_parquet(tmp_path / "rows.parquet")
    path = tmp_path / "rows.parquet"
    named = RandomForestRegressor(3, max_depth=2, random_state=0).fit(frame[names].rename(columns={"c3": "other"}), y)
    bad(lambda: wrap(named, path, "target"), errors.DataMismatchError, "without 'other'")
    bad(lambda: wrap(model, path, y), errors.DataMismatchError, r"10 columns .* but got 11")
    bad(lambda: wrap(model, path, "label"), errors.DataMismatchError, "'label', which it lacks")
    bad(lambda: wrap(model, path.with_name("none.parquet")), errors.DataNeededError, "where there is nothing")
    path.with_name("text.parquet").write_text("a,b")
    bad(lambda: wrap(model, path.with_name("text.parquet")), errors.DataMismatchError, "Expected Parquet files")
    bad(lambda: wrap(model, [X[:50], X[50:90, :9]], y[:90]), errors.DataMismatchError, r"Block 1 \(rows 50 and on\): Expected 10 columns")
    bad(lambda: wrap(model, [X[:50], X[50:]], y[:-1]), errors.DataMismatchError, r"442 labels .* shape \(441,\)")
    bad(lambda: wrap(model, path, y[:-1]), errors.DataMismatchError, "10 columns")
    bad(lambda: wrap(model, [X[:50], X[50:]], y, sample_weight=weight[:-1]), errors.DataMismatchError, r"442 weights.*\(441,\)")
    bad(lambda: wrap(model, [(X[:50], y[:50]), (X[50:], y[51:])]), errors.DataMismatchError, "392 labels and weights in block 1")
    bad(lambda: wrap(model, [(X[:50], y[:50]), (X[50:],)]), errors.DataMismatchError, "blocks of rows")
    bad(lambda: wrap(model, iter([(X[:50], y[:50]), X[50:]])), errors.DataMismatchError, "another kind in block 1")
    bad(lambda: wrap(model, cut(X, y), y), errors.DataMismatchError, "labels and weights once")
    bad(lambda: wrap(model, iter([])), errors.DataMismatchError, "at least one row")
    bad(lambda: wrap(model, iter([X[:0]])), errors.DataMismatchError, "at least one row")
    bad(lambda: wrap(model, [X[:50], X[50:]], "target"), errors.DataMismatchError, "names of columns are for Parquet")
    memmap = np.memmap(tmp_path / "X", np.float64, "w+", shape=X.shape)
    bad(lambda: wrap(model, memmap, y[:-1]), errors.DataMismatchError, r"442 labels")
    w = wrap(model, cut(X, y))
    bad(lambda: w.rows.X, errors.DataNeededError, "routed in blocks and not kept")
    bad(lambda: w.kpp(alpha="nested"), errors.DataNeededError, "rows in blocks")
    bad(lambda: w.kpp(alpha=1.0, raw=True), errors.DataNeededError, "not kept")
    assert "442 rows with labels" in repr(w)


def test_labels_of_known_length_are_checked_before_rows_are_read(model, monkeypatch, tmp_path):
    memmap = np.memmap(tmp_path / "X", np.float64, "w+", shape=X.shape)
    monkeypatch.setattr(sources, "take", lambda *a: pytest.fail("rows were read"))
    bad(lambda: treespec.wrap(model, memmap, y[:-1]), errors.DataMismatchError, "442 labels")
