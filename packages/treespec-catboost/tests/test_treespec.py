"""What treespec does for any model, it does for CatBoost's: files, distillation, KPP, smoothers and spectra."""

import numpy as np
import pytest

catboost = pytest.importorskip("catboost")

from sklearn.datasets import load_diabetes  # noqa: E402

import treespec  # noqa: E402
from treespec.adapters._treelite import to_treelite  # noqa: E402
from treespec.errors import FileFormatError, UnsupportedModelError  # noqa: E402

X, Y = load_diabetes(return_X_y=True)
X, Y = X[:250].astype(np.float32).astype(np.float64), Y[:250]
FAST = {"iterations": 15, "depth": 3, "verbose": 0, "thread_count": 1, "allow_writing_files": False}


@pytest.fixture(scope="module")
def model():
    return catboost.CatBoostRegressor(**FAST).fit(X, Y)


@pytest.fixture(scope="module")
def wrapped(model):
    return treespec.wrap(model, X, Y)


# ---- files


@pytest.mark.parametrize("kind", ["json", "cbm"])
def test_files_are_read_by_content(kind, model, tmp_path):
    path = tmp_path / "model.bin"
    model.save_model(str(path), format=kind)
    w = treespec.wrap(path)
    assert w.forest.framework == "catboost model file" and w.check.n_rows == 0
    np.testing.assert_array_equal(w.margin(X), treespec.wrap(model).margin(X))
    some = treespec.wrap(path, iteration_range=(0, 3))
    np.testing.assert_array_equal(some.margin(X), treespec.wrap(model, iteration_range=(0, 3)).margin(X))
    assert some.predict(X).shape == Y.shape


def test_a_classifier_in_a_file_knows_its_labels(tmp_path):
    labels = np.array(["low", "middle", "high"])[np.digitize(Y, [100, 200])]
    classifier = catboost.CatBoostClassifier(**FAST).fit(X, labels)
    classifier.save_model(str(tmp_path / "m.json"), format="json")
    w = treespec.wrap(str(tmp_path / "m.json"))
    assert w.predict(X).tolist() == classifier.predict(X).ravel().tolist()


def test_files_of_others_are_left_to_others(tmp_path):
    import xgboost

    path = tmp_path / "model.json"
    xgboost.XGBRegressor(n_estimators=2).fit(X, Y).save_model(path)
    assert treespec.wrap(path).forest.framework.startswith("xgboost")
    with pytest.raises(FileFormatError, match="does not exist"):
        treespec.wrap(tmp_path / "none.cbm")


def test_damaged_files_are_refused(model, tmp_path):
    path = tmp_path / "model.cbm"
    model.save_model(str(path))
    path.write_bytes(path.read_bytes()[:200])
    with pytest.raises(FileFormatError, match=r"model\.cbm: "):
        treespec.wrap(path)
    model.save_model(str(tmp_path / "model.json"), format="json")
    text = (tmp_path / "model.json").read_text()
    rng = np.random.default_rng(0)
    refused = 0
    for k in range(150):
        damaged = bytearray(text.encode())
        if k % 3:
            for at in rng.integers(len(damaged), size=4):
                damaged[at] = int(rng.integers(256))
        else:
            damaged = damaged[: int(rng.integers(30, len(damaged)))]
        path.write_bytes(damaged)
        try:
            treespec.wrap(path).predict(X[:5])
        except (FileFormatError, UnsupportedModelError):
            refused += 1
    assert refused > 50


# ---- what treespec does with a model


def test_kpp(wrapped):
    k = wrapped.kpp(alpha=1.0)
    assert np.corrcoef(k.predict(X), Y)[0, 1] > 0.6
    values = k.attribute(X[:5])
    np.testing.assert_allclose(values.base + values.values.sum(axis=1), k.decision_function(X[:5]), rtol=1e-9)


def test_kpp_of_classes():
    model = catboost.CatBoostClassifier(**FAST).fit(X, Y > 140)
    k = treespec.wrap(model, X, Y > 140).kpp(alpha=0.01)
    assert (k.predict(X) == (Y > 140)).mean() > 0.75


def test_the_smoother_of_squared_loss_is_exact(wrapped):
    smoother = wrapped.smoother()
    assert smoother.exactness < 1e-5
    start = wrapped.forest.base_score[0]
    np.testing.assert_allclose(start + smoother.matvec(Y - start), wrapped.margin(X), atol=1e-5 * Y.std())
    assert wrapped.influence(X[:3], top=5).shape == (3, len(Y))


def test_spectrum(wrapped):
    values = wrapped.spectrum(8).values
    assert values.shape == (8,) and (np.diff(values) <= 1e-9).all() and values[0] > 0.5
    assert wrapped.spectrum(5, smoother="leaf").values.shape == (5,)


@pytest.mark.parametrize("compressor", ["packed", "mlp"])
def test_distil(wrapped, compressor, tmp_path):
    options = {} if compressor == "packed" else {"steps": 50}
    student = wrapped.distill("3KB", compressor=compressor, **options)
    assert student.n_bytes <= 3000
    student.save(tmp_path / "s")
    np.testing.assert_array_equal(treespec.load_student(tmp_path / "s").predict(X), student.predict(X))
    if compressor == "packed":
        assert np.corrcoef(student.predict(X), wrapped.predict(X))[0, 1] > 0.99
        student.to_c(tmp_path)
        assert (tmp_path / "treespec.c").exists()


def test_distil_without_data(model):
    assert treespec.wrap(model).distill("2KB", compressor="packed").n_bytes <= 2000


def test_students_of_a_mean_and_a_variance(tmp_path):
    model = catboost.CatBoostRegressor(**FAST, loss_function="RMSEWithUncertainty").fit(X, Y)
    w = treespec.wrap(model, X, Y)
    np.testing.assert_allclose(w.predict(X), model.predict(X), rtol=1e-12)
    student = w.distill("20KB", compressor="packed")
    np.testing.assert_allclose(student.predict(X), w.predict(X), rtol=1e-3)
    with pytest.raises(UnsupportedModelError, match="mean-variance"):
        to_treelite(w.forest)
    runtime = pytest.importorskip("onnxruntime")
    student.to_onnx(tmp_path / "student.onnx")
    session = runtime.InferenceSession(tmp_path / "student.onnx", providers=["CPUExecutionProvider"])
    (made,) = session.run(None, {session.get_inputs()[0].name: X.astype(np.float32)})[:1]
    np.testing.assert_allclose(made, student.predict(X), rtol=1e-5)
