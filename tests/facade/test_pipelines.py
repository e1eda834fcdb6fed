"""Pipelines: wrapped with their steps, on their own rows; what works on columns is refused and works on the last step."""

import numpy as np
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.datasets import load_diabetes
from sklearn.decomposition import PCA
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestRegressor
from sklearn.impute import SimpleImputer
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import treespec
from treespec import errors
from treespec.facade.steps import last_step

X, y = load_diabetes(return_X_y=True)
X_NAN = np.where(np.random.default_rng(0).random(X.shape) < 0.1, np.nan, X)


def forest():
    return RandomForestRegressor(5, max_depth=4, random_state=0)


PIPELINES = {
    "scaled": lambda: make_pipeline(StandardScaler(), forest()).fit(X, y),
    "imputed": lambda: make_pipeline(SimpleImputer(), "passthrough", StandardScaler(), forest()).fit(X_NAN, y),
    "components": lambda: make_pipeline(make_pipeline(StandardScaler(), PCA(3)), forest()).fit(X, y),
    "searched": lambda: GridSearchCV(
        make_pipeline(StandardScaler(), forest()), {"randomforestregressor__max_depth": [2, 3]}, cv=2
    ).fit(X, y),
    "a search inside": lambda: make_pipeline(StandardScaler(), GridSearchCV(forest(), {"max_depth": [2, 3]}, cv=2)).fit(X, y),
    "classes": lambda: make_pipeline(StandardScaler(), HistGradientBoostingClassifier(max_iter=4)).fit(X, np.digitize(y, [100, 200])),
}  # fmt: skip


@pytest.mark.parametrize("name", PIPELINES)
def test_the_pipelines_own_rows_and_predictions(name):
    model = PIPELINES[name]()
    rows = X_NAN if name == "imputed" else X
    w = treespec.wrap(model, rows, None if name == "classes" else y)
    np.testing.assert_allclose(w.predict(rows), model.predict(rows), rtol=1e-12)
    np.testing.assert_array_equal(w.apply(rows), w.forest.apply(w.transform(rows)))
    if name == "classes":
        np.testing.assert_allclose(w.predict_proba(rows), model.predict_proba(rows), rtol=1e-9)
    assert "after " in repr(w)
    w.spectrum(3).extend(rows[:5])


def test_frames_with_categories():
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(1)
    frame = pd.DataFrame({"size": X[:, 0], "kind": rng.choice(["a", "b", "c"], len(y)), "other": X[:, 2]})
    steps = ColumnTransformer([("one", OneHotEncoder(handle_unknown="ignore"), ["kind"]), ("rest", StandardScaler(), ["size", "other"])])
    model = make_pipeline(steps, forest()).fit(frame, y)
    w = treespec.wrap(model, frame, y)
    other = frame.assign(kind="new")[["other", "kind", "size"]]
    np.testing.assert_array_equal(w.predict(other), model.predict(other))
    with pytest.raises(errors.DataMismatchError, match="ColumnTransformer, a step of the pipeline"):
        w.predict(frame[["size"]])


def test_what_works_on_columns_works_on_the_last_step():
    model = PIPELINES["scaled"]()
    w = treespec.wrap(model, X, y)
    for method, arguments in (("distill", ("10KB",)), ("kpp", ())):
        with pytest.raises(errors.UnsupportedModelError, match=f"StandardScaler.*\n*.*w.last_step.{method}"):
            getattr(w, method)(*arguments)
    student = w.last_step.distill("1MB", compressor="packed")
    assert "of the columns that StandardScaler gives" in repr(student)
    np.testing.assert_array_equal(student.predict(w.transform(X)), w.predict(X))
    k = w.last_step.kpp(alpha=1.0)
    assert k.predict(w.transform(X)).shape == (len(y),)
    plain = treespec.wrap(forest().fit(X, y), X, y)
    assert plain.last_step is plain
    assert plain.transform(X) is X


class Lifted(Pipeline):
    """Predicts something else than its last step."""

    def predict(self, X):
        return super().predict(X) + 1


def test_a_pipeline_that_predicts_in_its_own_way():
    model = Lifted([("scale", StandardScaler()), ("forest", forest())]).fit(X, y)
    with pytest.raises(errors.SelfCheckError, match="whole pipeline"):
        treespec.wrap(model, X, y)


def test_a_pipeline_without_a_model():
    for bad, error in (
        (make_pipeline(StandardScaler(), "passthrough").fit(X), errors.UnsupportedModelError),
        (make_pipeline(StandardScaler(), PCA(2)).fit(X), errors.UnsupportedModelError),
        (make_pipeline(StandardScaler(), forest()), errors.ModelNotFittedError),
    ):
        with pytest.raises(error):
            treespec.wrap(bad)


def test_last_step_takes_shells_off():
    inner = forest().fit(X, y)
    assert last_step(inner) == (inner, None)
    model, steps = last_step(PIPELINES["components"]())
    assert isinstance(model, RandomForestRegressor)
    assert steps.names == "Pipeline"
