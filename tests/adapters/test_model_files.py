"""Saved models: the same forest as the model in memory, and a clear error for everything else."""

import json
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from sklearn.ensemble import (
    GradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)

from probe import nasty_rows
from treespec import wrap
from treespec.adapters import _ubjson, files
from treespec.adapters import lightgbm as lightgbm_adapter
from treespec.adapters import treelite as treelite_adapter
from treespec.adapters import xgboost as xgboost_adapter
from treespec.errors import FileFormatError, TreespecError, UnsupportedModelError

RNG = np.random.default_rng(0)
X = RNG.normal(size=(300, 3))
X[RNG.random(X.shape) < 0.1] = np.nan
X[:, 2] = RNG.integers(0, 6, 300)
Y = np.nan_to_num(X[:, 0]) + (X[:, 2] % 2) + 0.1 * RNG.normal(size=300)
THREE = np.digitize(Y, [0, 1])


def xgboost_booster(param=None, y=Y, types=None, rounds=4, x=X):
    xgb = pytest.importorskip("xgboost")
    matrix = xgb.DMatrix(x, y, feature_types=types, enable_categorical=True)
    return xgb.train({"max_depth": 3, "nthread": 1, "seed": 1} | (param or {}), matrix, rounds)


def lightgbm_booster(param=None, y=Y, **options):
    lgb = pytest.importorskip("lightgbm")
    return lgb.train({"num_leaves": 6, "num_threads": 1, "verbose": -1} | (param or {}), lgb.Dataset(X, y, **options), 4)


def frame():
    pd = pytest.importorskip("pandas")
    out = pd.DataFrame(X, columns=["a b", "é", "c"])
    out["c"] = pd.Categorical.from_codes(X[:, 2].astype(int), categories=[f"v{k}" for k in range(6)])
    return out


def xgboost_frame():
    xgb = pytest.importorskip("xgboost")
    return xgb.XGBRegressor(n_estimators=4, max_depth=3, enable_categorical=True).fit(frame(), Y).get_booster()


def lightgbm_frame():
    lgb = pytest.importorskip("lightgbm")
    return lgb.LGBMRegressor(n_estimators=4, num_leaves=6, verbose=-1).fit(frame(), Y).booster_


XGBOOST = {
    "regression": xgboost_booster,
    "codes": lambda: xgboost_booster(types=["q", "q", "c"]),
    "binary": lambda: xgboost_booster({"objective": "binary:logistic"}, Y > 0),
    "three classes": lambda: xgboost_booster({"objective": "multi:softprob", "num_class": 3}, THREE),
    "vector leaves": lambda: xgboost_booster({"multi_strategy": "multi_output_tree", "tree_method": "hist"}, np.column_stack([Y, -Y])),
    "dart": lambda: xgboost_booster({"booster": "dart", "rate_drop": 0.5}),
    "poisson": lambda: xgboost_booster({"objective": "count:poisson"}, np.floor(np.abs(Y))),
    "frame": xgboost_frame,
}
LIGHTGBM = {
    "regression": lightgbm_booster,
    "codes": lambda: lightgbm_booster(categorical_feature=[2]),
    "binary": lambda: lightgbm_booster({"objective": "binary", "sigmoid": 2.0}, Y > 0),
    "three classes": lambda: lightgbm_booster({"objective": "multiclass", "num_class": 3}, THREE),
    "forest": lambda: lightgbm_booster({"boosting": "rf", "bagging_freq": 1, "bagging_fraction": 0.5}),
    "zero as missing": lambda: lightgbm_booster({"zero_as_missing": True}),
    "frame": lightgbm_frame,
}


def treelite_imported(make, y=Y, **options):
    import treelite

    return treelite.sklearn.import_model(make(**options).fit(np.nan_to_num(X), y))


TREELITE = {
    "forest": lambda: treelite_imported(RandomForestRegressor, n_estimators=4, max_depth=4, random_state=0),
    "three classes": lambda: treelite_imported(RandomForestClassifier, THREE, n_estimators=4, max_depth=4, random_state=0),
    "boosting": lambda: treelite_imported(GradientBoostingClassifier, THREE, n_estimators=4, random_state=0),
    "histogram": lambda: treelite_imported(HistGradientBoostingRegressor, max_iter=4, categorical_features=[2]),
    "xgboost": lambda: __import__("treelite").frontend.from_xgboost(XGBOOST["codes"]()),
    "vector leaves": lambda: __import__("treelite").frontend.from_xgboost(XGBOOST["vector leaves"]()),
    "lightgbm": lambda: __import__("treelite").frontend.from_lightgbm(LIGHTGBM["codes"]()),
}


def same_but_for(forest, other, *, values=False):
    """Compare all fields but the name of the framework (and, where asked, values of inner nodes, which only a trained booster tells)."""
    value = np.where(forest.is_leaf[:, None], other.value, np.nan) if values else other.value
    return forest.equals(other.with_values(value, framework=forest.framework))


@pytest.mark.parametrize("suffix", ["json", "ubj"])
@pytest.mark.parametrize("name", XGBOOST)
def test_an_xgboost_file_gives_the_forest_of_the_booster(tmp_path, name, suffix):
    booster = XGBOOST[name]()
    booster.save_model(tmp_path / f"model.{suffix}")
    forest = files.treespec_adapt(tmp_path / f"model.{suffix}")
    assert forest.framework == "xgboost model file"
    assert same_but_for(forest, xgboost_adapter.treespec_adapt(booster), values=True)


@pytest.mark.parametrize("name", LIGHTGBM)
def test_a_lightgbm_file_gives_the_forest_of_the_booster(tmp_path, name):
    booster = LIGHTGBM[name]()
    booster.save_model(tmp_path / "model.txt")
    forest = files.treespec_adapt(str(tmp_path / "model.txt"))
    assert forest.framework == "lightgbm model file"
    assert same_but_for(forest, lightgbm_adapter.treespec_adapt(booster))


@pytest.mark.parametrize("name", TREELITE)
def test_a_treelite_checkpoint_gives_the_forest_of_the_model(tmp_path, name):
    model = TREELITE[name]()
    model.serialize(str(tmp_path / "model.bin"))
    forest = files.treespec_adapt(tmp_path / "model.bin")
    assert forest.framework == "treelite checkpoint"
    assert same_but_for(forest, treelite_adapter.treespec_adapt(model))
    rows = nasty_rows(forest, np.random.default_rng(0))
    np.testing.assert_array_equal(wrap(tmp_path / "model.bin").predict(rows), wrap(model).predict(rows))


@pytest.mark.parametrize("make", [XGBOOST["codes"], LIGHTGBM["codes"], XGBOOST["three classes"], LIGHTGBM["zero as missing"]])
def test_a_wrapped_file_predicts_as_the_booster(tmp_path, make):
    booster = make()
    booster.save_model(tmp_path / "model.ubj")  # for LightGBM, too
    w = wrap(tmp_path / "model.ubj")
    rows = nasty_rows(w.forest, np.random.default_rng(0))
    memory = wrap(booster)
    np.testing.assert_array_equal(w.apply(rows), memory.apply(rows))
    np.testing.assert_array_equal(w.margin(rows), memory.margin(rows))
    np.testing.assert_array_equal(w.predict(rows), memory.predict(rows))
    assert w.check.n_rows == 0


def test_the_content_tells_the_format_not_the_suffix(tmp_path):
    booster = xgboost_booster()
    expected = xgboost_adapter.treespec_adapt(booster)
    pretty = json.dumps(json.loads(booster.save_raw("json")), indent=2).encode()
    for name, content in {"a.ubj": booster.save_raw("json"), "b.json": booster.save_raw("ubj"), "c.txt": pretty, "d": pretty}.items():
        (tmp_path / name).write_bytes(content)
        assert same_but_for(files.treespec_adapt(tmp_path / name), expected, values=True)
    text = lightgbm_booster()
    (tmp_path / "e.json").write_bytes(text.model_to_string().replace("\n", "\r\n").encode())
    assert same_but_for(files.treespec_adapt(tmp_path / "e.json"), lightgbm_adapter.treespec_adapt(text))


def test_early_stopping_in_a_file_is_told(tmp_path):
    booster = xgboost_booster()
    booster.set_attr(best_iteration="1")
    booster.save_model(tmp_path / "model.ubj")
    forest = files.treespec_adapt(tmp_path / "model.ubj")
    assert forest.n_trees == 4 and "all 4 rounds" in forest.framework and "best_iteration is 1" in forest.framework


def test_a_file_needs_no_framework(tmp_path):
    xgboost_booster().save_model(tmp_path / "x.ubj")
    lightgbm_booster().save_model(tmp_path / "l.txt")
    code = (
        "import sys; sys.modules['xgboost'] = sys.modules['lightgbm'] = None\n"
        "import treespec\n"
        f"print(*[treespec.wrap({str(tmp_path)!r} + name).margin([[0.5, 0.1, 1.0]]).shape for name in ('/x.ubj', '/l.txt')])"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.split() == ["(1,)", "(1,)"]


# ---- what is refused


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "empty"),
        (b"garbage" * 100, "starts with b'garbagegarbagega'"),
        (bytes(range(256)) * 50, "starts with"),
        (b"\x80\x04\x95", "pickle"),
        (b"binf\0\0\0\0", "before 1.0"),
        (b"PK\x03\x04", "zip"),
        (b"\x1f\x8b\x08", "gzip"),
        (b"{", "well-formed XGBoost"),
        (b"{}", "'learner'"),
        (b'{"learner": 3}', "well-formed XGBoost"),
        (b'{"learner": {"gradient_booster": {"name": "gbtree"}}}', "well-formed XGBoost"),
        (b'{"a":' * 100_000, "well-formed XGBoost"),
        (b"{i\x01a" + b"[" * 100_000, "nested deeper"),
        (b"{i\x01a[$d#l\x7f\xff\xff\xff", "a length of 2147483647 with 0 bytes left"),
        (b"{i\x01aSL\xff\xff\xff\xff\xff\xff\xff\xff", "a length of -1"),
        (b"{i\x01a?", "unknown marker"),
        (b"\x03\0\0\0" * 20, "Treelite 3"),
        (b"\x04\0\0\0", "end inside an array"),
        (b"\x04\0\0\0" + bytes(8) + b"\x02\x02" + b"\xff" * 8, "18446744073709551615 trees"),
        (b"tree\n", "end of trees"),
        (b"tree\nversion=v4\nmax_feature_idx=99999999999999\nend of trees\n", "sizes of 0 to"),
        (b"tree\nversion=v4\nmax_feature_idx=1\nnum_tree_per_iteration=99999999\nend of trees\n", "sizes of 0 to"),
    ],
)
def test_what_is_no_model_is_refused(tmp_path, content, message):
    (tmp_path / "model.ubj").write_bytes(content)
    with pytest.raises(FileFormatError, match="model") as caught:
        files.treespec_adapt(tmp_path / "model.ubj")
    assert message in str(caught.value)


def test_paths_without_a_file_are_refused(tmp_path):
    for path, message in [(tmp_path / "no.ubj", "does not exist"), (str(tmp_path), "directory"), ("a\0b", "cannot be read|does not exist")]:
        with pytest.raises(FileFormatError, match=message):
            files.treespec_adapt(path)
    with pytest.raises(FileFormatError, match="does not exist"):
        wrap(str(tmp_path / "no.ubj"))


def test_linear_models_are_refused(tmp_path):
    xgb = pytest.importorskip("xgboost")
    model = xgb.train({"booster": "gblinear", "updater": "coord_descent"}, xgb.DMatrix(X, Y), 2)
    model.save_model(tmp_path / "model.json")
    with pytest.raises(UnsupportedModelError, match="has no trees"):
        files.treespec_adapt(tmp_path / "model.json")


def test_other_objects_are_passed():
    assert files.treespec_adapt(3) is None
    assert files.treespec_adapt(b"bytes") is None


CONTENTS = {
    "xgboost json": lambda: bytes(XGBOOST["codes"]().save_raw("json")),
    "xgboost ubj": lambda: bytes(XGBOOST["codes"]().save_raw("ubj")),
    "vector leaves": lambda: bytes(XGBOOST["vector leaves"]().save_raw("ubj")),
    "lightgbm": lambda: LIGHTGBM["codes"]().model_to_string().encode(),
    "treelite": lambda: TREELITE["xgboost"]().serialize_bytes(),
    "treelite, leaves with vectors": lambda: TREELITE["three classes"]().serialize_bytes(),
}


@pytest.mark.parametrize("name", CONTENTS)
def test_truncated_files_are_refused(tmp_path, name):
    content = CONTENTS[name]()
    if name == "lightgbm":
        content = content[: content.index(b"end of trees") + 12]
    for cut in np.linspace(1, len(content) - 1, 60).astype(int):
        (tmp_path / "m").write_bytes(content[:cut])
        with pytest.raises(FileFormatError):
            files.treespec_adapt(tmp_path / "m")


@pytest.mark.parametrize("name", CONTENTS)
def test_damaged_files_never_crash(tmp_path, name):
    content = CONTENTS[name]()
    rng = np.random.default_rng(5)
    refused = 0
    for _ in range(250):
        damaged = bytearray(content)
        for _ in range(rng.integers(1, 4)):
            at, kind = int(rng.integers(len(damaged))), rng.integers(3)
            if kind == 0:
                damaged[at] = rng.integers(256)
            elif kind == 1:
                del damaged[at : at + int(rng.integers(1, 30))]
            else:
                damaged[at : at + 1] = bytes(rng.choice([b"-", b"9999999999", b"nan", b"1e400", b"\xff\xff\xff\xff"]))
        (tmp_path / "m").write_bytes(damaged)
        try:
            forest = files.treespec_adapt(tmp_path / "m")
        except TreespecError:
            refused += 1
        else:
            assert forest.n_nodes > 0
    assert refused > 50


def edit(path):
    """Return a tree of a saved XGBoost model, and a function that saves it."""
    document = json.loads(path.read_text())
    return document["learner"]["gradient_booster"]["model"]["trees"][0], lambda: path.write_text(json.dumps(document))


@pytest.mark.parametrize(
    ("field", "value"),
    [("left_children", 10**6), ("right_children", -7), ("left_children", 0), ("split_indices", 99), ("split_indices", -3)],
)
def test_ids_that_lead_nowhere_are_refused(tmp_path, field, value):
    booster = xgboost_booster()
    booster.save_model(tmp_path / "m.json")
    tree, save = edit(tmp_path / "m.json")
    tree[field][0] = value
    save()
    with pytest.raises(FileFormatError):
        files.treespec_adapt(tmp_path / "m.json")


@pytest.mark.parametrize("version", [[2**40, 0, 0], ["9" * 400, 0, 0], 3])
def test_a_version_that_is_none_is_refused(tmp_path, version):
    xgboost_booster().save_model(tmp_path / "m.json")
    document = json.loads((tmp_path / "m.json").read_text())
    (tmp_path / "m.json").write_text(json.dumps(document | {"version": version}))
    with pytest.raises(FileFormatError):
        files.treespec_adapt(tmp_path / "m.json")


def test_nodes_with_two_parents_are_refused(tmp_path):
    xgboost_booster().save_model(tmp_path / "m.json")
    tree, save = edit(tmp_path / "m.json")
    tree["left_children"][0] = tree["right_children"][0]
    save()
    with pytest.raises(FileFormatError, match="no tree"):
        files.treespec_adapt(tmp_path / "m.json")


def test_huge_files_are_not_read(tmp_path):
    path = tmp_path / "m.json"
    with path.open("wb") as file:
        file.write(b"{")
        file.truncate(2**32 + 2)  # sparse: takes no room
    with pytest.raises(FileFormatError, match="models of up to"):
        files.treespec_adapt(path)


# ---- UBJSON


def test_ubjson_is_read_as_json():
    booster = xgboost_booster(types=["q", "q", "c"])
    ours, theirs = _ubjson.loads(bytes(booster.save_raw("ubj"))), json.loads(booster.save_raw("json"))

    def same(a, b):
        if isinstance(b, dict):
            return a.keys() == b.keys() and all(same(a[k], b[k]) for k in b)
        if isinstance(b, list):
            return len(a) == len(b) and all(same(x, z) for x, z in zip(a, b, strict=True))
        return a == b or np.float32(a) == np.float32(b)

    assert same(ours, theirs)


def test_ubjson_round_trip():
    value = {"é": ["x", "", 3, -(2**40)], "empty": {}, "none": []}
    for dtype in (np.int8, np.uint8, np.int16, np.int32, np.int64, np.float32, np.float64):
        value[np.dtype(dtype).name] = np.array([0, 1, 100], dtype)
    back = _ubjson.loads(_ubjson.dumps(value))
    assert back.keys() == value.keys() and back["é"] == value["é"] and back["empty"] == {} and back["none"] == []
    for name, array in list(value.items())[3:]:
        assert back[name].dtype == array.dtype
        np.testing.assert_array_equal(back[name], array)


@pytest.mark.parametrize(
    ("data", "value"),
    [
        (b"{i\x01aZi\x01bTi\x01cF}", {"a": None, "b": True, "c": False}),
        (b"[i\x05U\xffI\x01\x00]", [5, 255, 256]),
        (b"{#i\x01i\x01aCx", {"a": "x"}),
        (b"[#i\x02Si\x01ad\x3f\x80\x00\x00", ["a", 1.0]),
    ],
)
def test_ubjson_forms_that_xgboost_does_not_write(data, value):
    assert _ubjson.loads(data) == value


def test_the_document_treelite_gets_is_ours():
    """A field that only Treelite would trip over is not handed on."""
    document = xgboost_adapter.xgboost_document.read(bytes(xgboost_booster().save_raw("ubj")))
    plain = _ubjson.loads(document.for_treelite())
    assert set(plain["learner"]) == {"gradient_booster", "learner_model_param", "objective"}
    assert plain["learner"]["objective"] == {"name": "reg:squarederror"}
    other = replace(document, objective="anything")
    assert other.for_treelite() == document.for_treelite()
