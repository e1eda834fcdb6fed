"""Forest embeddings as scikit-learn transformers: path features, leaf incidence, spectral directions."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from sklearn.base import BaseEstimator, TransformerMixin, is_classifier
from sklearn.utils import check_random_state
from sklearn.utils.validation import _check_feature_names_in, check_is_fitted

from treespec.errors import DataMismatchError
from treespec.estimators.bases import Base, Kind, bases_of, input_tags
from treespec.estimators.route import LeafRoute, Route
from treespec.estimators.rows import predict_rows, read_classes, read_rows, read_values, read_weights
from treespec.hooks import RowData
from treespec.kpp.weights import default_scheme, node_weights
from treespec.operators.kernel import ForestKernel
from treespec.operators.leaf import LeafIncidence
from treespec.operators.path import PathMap
from treespec.operators.spectrum import spectrum
from treespec.plugins import manager

Array = NDArray[np.float64]


class _Embedding(TransformerMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """Fits one ensemble, and embeds rows by the leaves that they reach."""

    estimator: Any
    random_state: Any

    def __sklearn_tags__(self) -> Any:
        """What the ensemble takes."""
        tags = super().__sklearn_tags__()
        nan, sparse, several = input_tags(self._one(), self._kind)
        tags.input_tags.allow_nan, tags.input_tags.sparse = nan, sparse
        tags.target_tags.required = True
        tags.target_tags.multi_output = several and self._kind == "values"
        return tags

    @property
    def _kind(self) -> Kind:
        return "classes" if self.estimator is not None and is_classifier(self.estimator) else "values"

    def _one(self) -> Any:
        from sklearn.ensemble import ExtraTreesRegressor

        return ExtraTreesRegressor(100, min_samples_leaf=3) if self.estimator is None else self.estimator

    def _grow(self, X: Any, y: Any, sample_weight: Any) -> RowData:
        """Fit the ensemble, and set ``forest_``, ``estimator_`` and ``route_``."""
        if isinstance(self.estimator, (list, tuple)):
            raise DataMismatchError.expected("one ensemble", "a list", "use sklearn.pipeline.FeatureUnion for several")
        tags = self.__sklearn_tags__().input_tags
        rows = read_rows(self, X, reset=True, allow_nan=tags.allow_nan, sparse=tags.sparse)
        weight = read_weights(sample_weight, rows)
        labels = read_values(y, rows.shape[0]) if self._kind == "values" else read_classes(y, rows.shape[0])[1]
        base: Base = bases_of(self._one(), self._kind, check_random_state(self.random_state))[0]
        self.forest_, data = base.grow(rows, labels, weight)
        self.estimator_, self.route_ = data.model, Route(self.forest_)
        return data

    def _leaf_id(self, X: Any) -> NDArray[np.int32]:
        check_is_fitted(self)
        return self.route_(predict_rows(self, X))

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """Return the names of the columns of `transform`: kind and number."""
        check_is_fitted(self)
        _check_feature_names_in(self, input_features)
        return np.asarray([f"{type(self).__name__.lower()}{i}" for i in self._columns()], dtype=object)

    def _columns(self) -> NDArray[np.integer[Any]]:
        """Return the number of each column: of its node, or its place."""
        raise AttributeError(type(self).__name__)  # every embedding has its own


class KPPTransformer(_Embedding):
    """The path features of an ensemble: squared distances are path distances (eq. 22), norms at most 1.

    Parameters
    ----------
    estimator : estimator or None
        Unfitted; None is a forest of 100 extremely randomised regression trees.
    weights : str
        Node weights, as `treespec.KPPRegressor`.
    random_state : int, RandomState or None

    Attributes
    ----------
    estimator_ : estimator
    forest_ : treespec.ir.Forest
    map_ : treespec.operators.path.PathMap

    Notes
    -----
    `transform` returns a CSR array (n, n_nodes) with n * n_trees * depth entries. In a pipeline the labels that grew the trees are
    those of the next step: scores on the training rows are diagnostics.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from treespec import KPPTransformer
    >>> X, y = load_diabetes(return_X_y=True)
    >>> features = KPPTransformer(random_state=0).fit_transform(X, y)
    >>> bool((features**2).sum(axis=1).max() <= 1)
    True
    """

    def __init__(self, estimator: Any = None, *, weights: str = "auto", random_state: Any = None) -> None:
        self.estimator = estimator
        self.weights = weights
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> KPPTransformer:
        """Fit the ensemble, and its node weights."""
        data = self._grow(X, y, sample_weight)
        scheme = manager().scheme("node-weights", default_scheme(self.forest_) if self.weights == "auto" else self.weights)
        self.map_ = PathMap(self.forest_, node_weights(scheme, self.forest_, data))
        return self

    def transform(self, X: Any) -> csr_array:
        """Return (n, n_nodes) path features, CSR."""
        leaf_id = self._leaf_id(X)
        return self.map_.features(leaf_id).to_sparse()

    def _columns(self) -> NDArray[np.integer[Any]]:
        return np.arange(self.map_.n_coordinates)


class LeafEmbedding(_Embedding):
    """The leaves of an ensemble as 0/1 features: the leaf-only embedding.

    Parameters
    ----------
    estimator : estimator or None
        As `KPPTransformer`.
    random_state : int, RandomState or None

    Attributes
    ----------
    estimator_, forest_
        As `KPPTransformer`.
    """

    def __init__(self, estimator: Any = None, *, random_state: Any = None) -> None:
        self.estimator = estimator
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> LeafEmbedding:
        """Fit the ensemble."""
        self._grow(X, y, sample_weight)
        return self

    def transform(self, X: Any) -> csr_array:
        """Return (n, n_leaves) 0/1 features, CSR, n_trees ones a row."""
        leaf_id = self._leaf_id(X)
        return LeafIncidence.of(self.forest_, leaf_id).to_sparse()

    def _columns(self) -> NDArray[np.integer[Any]]:
        return np.flatnonzero(self.forest_.is_leaf)


class SpectralEmbedding(_Embedding):
    """The leading eigenfunctions of the forest kernel, extended to new rows by Nystrom (the SCATE paper).

    Parameters
    ----------
    estimator : estimator or None
        As `KPPTransformer`.
    n_components : int
        At most the number of rows.
    random_state : int, RandomState or None

    Attributes
    ----------
    eigenvalues_ : (n_components,) array
    spectrum_ : treespec.operators.spectrum.Spectrum
    estimator_, forest_
        As `KPPTransformer`.
    """

    def __init__(self, estimator: Any = None, *, n_components: int = 10, random_state: Any = None) -> None:
        self.estimator = estimator
        self.n_components = n_components
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> SpectralEmbedding:
        """Fit the ensemble, and decompose its kernel."""
        data = self._grow(X, y, sample_weight)
        Z = LeafIncidence.of(self.forest_, data.leaf_id)
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        kernel = ForestKernel(Z, data.sample_weight, route=LeafRoute(self.forest_, self.route_))
        self.spectrum_ = spectrum(kernel, int(self.n_components), random_state=seed)
        self.eigenvalues_ = self.spectrum_.values
        self._root = float(np.sqrt(Z.shape[0] if data.sample_weight is None else data.sample_weight.sum()))
        return self

    def transform(self, X: Any) -> Array:
        """Return (n, n_components) eigenfunctions at the rows; on training rows the eigenvectors times the root of their total weight."""
        check_is_fitted(self)
        return np.asarray(self.spectrum_.extend(predict_rows(self, X)) * self._root)

    def _columns(self) -> NDArray[np.integer[Any]]:
        return np.arange(len(self.eigenvalues_))
