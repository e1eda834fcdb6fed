"""Embeddings of forests, and distilled estimators."""

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_diabetes
from sklearn.ensemble import ExtraTreesRegressor, RandomForestClassifier, RandomForestRegressor
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline

import treespec
from treespec import DistilledClassifier, DistilledRegressor, KPPTransformer, LeafEmbedding, SpectralEmbedding, errors

X, y = load_diabetes(return_X_y=True)
FOREST = RandomForestRegressor(10, max_depth=5, random_state=0)


def test_path_features_are_those_of_kpp():
    t = KPPTransformer(FOREST).fit(X, y)
    k = treespec.wrap(FOREST.fit(X, y), X, y).kpp(alpha=1.0)
    features = t.transform(X[:20])
    assert features.format == "csr"
    np.testing.assert_allclose(features.toarray(), k.transform(X[:20]).toarray())
    names = t.get_feature_names_out()
    assert len(names) == features.shape[1]
    assert names[0] == "kpptransformer0"


def test_leaves_are_one_a_tree():
    t = LeafEmbedding(FOREST).fit(X, y)
    Z = t.transform(X)
    assert set(np.unique(Z.sum(axis=1))) == {10}
    assert Z.shape[1] == len(t.get_feature_names_out()) == t.forest_.n_leaves
    native = FOREST.fit(X, y).apply(X)
    np.testing.assert_array_equal((Z @ Z.T).toarray()[:5], [(native == native[i]).sum(axis=1) for i in range(5)])


def test_spectral_directions_are_orthonormal_and_extend():
    t = SpectralEmbedding(ExtraTreesRegressor(20, min_samples_leaf=5), n_components=4, random_state=0).fit(X, y)
    psi = t.transform(X)
    np.testing.assert_allclose(psi.T @ psi / len(X), np.eye(4), atol=1e-6)
    np.testing.assert_allclose(t.eigenvalues_[0], 1.0)
    assert t.get_feature_names_out().tolist() == [f"spectralembedding{i}" for i in range(4)]
    np.testing.assert_allclose(t.transform(X[:7]), psi[:7])


@pytest.mark.parametrize("embedding", [KPPTransformer(random_state=0), LeafEmbedding(random_state=0), SpectralEmbedding(random_state=0)])
def test_embeddings_in_pipelines(embedding):
    assert make_pipeline(embedding, Ridge(1.0)).fit(X, y).score(X, y) > 0.4


def test_classifiers_can_be_embedded():
    A, b = load_breast_cancer(return_X_y=True)
    t = KPPTransformer(RandomForestClassifier(5, max_depth=3), weights="entropy-decrease", random_state=0).fit(A, b)
    assert t.transform(A[:2]).shape[0] == 2


def test_one_ensemble_at_a_time():
    with pytest.raises(errors.DataMismatchError, match="one ensemble"):
        KPPTransformer([FOREST]).fit(X, y)
    with pytest.raises(errors.DataMismatchError, match="one ensemble"):
        DistilledRegressor([FOREST]).fit(X, y)


def test_distilled_estimators_predict_with_the_student():
    model = DistilledRegressor(FOREST, budget=2000, compressor="packed", random_state=0).fit(X, y)
    assert model.student_.n_bytes <= 2000
    assert model.score(X, y) > 0.3
    np.testing.assert_array_equal(model.predict(X), model.student_.predict(X))
    A, b = load_breast_cancer(return_X_y=True)
    names = np.array(["malignant", "benign"])[b]
    model = DistilledClassifier(RandomForestClassifier(5, max_depth=4), budget="2KB", compressor="packed", random_state=0).fit(A, names)
    assert model.classes_.tolist() == ["benign", "malignant"]
    assert model.score(A, names) > 0.9
    assert model.predict_proba(A).shape == (569, 2)


def test_errors_of_distillation_come_through():
    with pytest.raises(errors.BudgetError):
        DistilledRegressor(FOREST, budget=10, compressor="packed").fit(X, y)
    with pytest.raises(errors.UnknownNameError):
        DistilledRegressor(FOREST, compressor="zip").fit(X, y)
