"""The extension points: pluggy markers, typed hook specs, and the Protocols that plugins implement.

A plugin is a module (or object) with functions marked `hookimpl`, offered under the entry point group ``treespec``. Built-in
features use the same hooks. Names are the contract.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import numpy as np
import pluggy
from numpy.typing import NDArray

if TYPE_CHECKING:
    from scipy.sparse import csr_array
    from scipy.sparse.linalg import LinearOperator

    from treespec.ir import Forest

hookspec = pluggy.HookspecMarker("treespec")
hookimpl = pluggy.HookimplMarker("treespec")

ENTRY_POINT_GROUP = "treespec"

Progress = Callable[[str, float], None]
"""Called with what is being done and the share of the work done (0 to 1)."""


# ---- what adapters ask


def is_a(model: object, module: str, *class_names: str) -> bool:
    """Tell whether ``model`` is an instance of one of a module's classes, subclasses included, without importing the module.

    Who holds a model has imported its framework.

    Parameters
    ----------
    model : object
    module : str
        Where the classes are found as attributes (``"sklearn.ensemble"``); false if it was never imported.
    *class_names : str
        Names that this version of the module lacks are passed over.

    Examples
    --------
    >>> from fractions import Fraction
    >>> is_a(Fraction(1, 2), "fractions", "Fraction"), is_a(0.5, "fractions", "Fraction")
    (True, False)
    """
    loaded = sys.modules.get(module)
    found = (getattr(loaded, name, None) for name in class_names) if loaded is not None else ()
    return isinstance(model, tuple(cls for cls in found if isinstance(cls, type)))


@dataclass(frozen=True, eq=False)
class Asked:
    """A model with what the caller of `wrap` says beyond it; adapters that know what to do with it are given it in the model's place.

    Attributes
    ----------
    model : object
    iteration_range : (int, int) or None
        Boosting rounds that are to be used, from the first up to the second, which is left out; a second of 0 means to the end.
    missing : float or None
        The value that means missing, which the model does not hold.
    """

    model: object
    iteration_range: tuple[int, int] | None = None
    missing: float | None = None

    @classmethod
    def of(cls, model: object) -> Asked:
        """Return ``model`` itself if it is one, else one that asks for nothing."""
        return model if isinstance(model, cls) else cls(model)


# ---- what schemes are given


@dataclass(frozen=True, eq=False)
class RowData:
    """Rows with their labels, as the schemes of plugins get them.

    Attributes
    ----------
    X : array-like or frame of shape (n, n_features)
        As the user passed it.
    y : (n,) or (n, n_targets) ndarray, or None
    sample_weight : (n,) float64 or None
    leaf_id : (n, n_trees) int32
        Node id of the leaf that each row reaches.
    apply : callable
        ``apply(X_new) -> (m, n_trees) int32`` routes new rows.
    margin : callable
        ``margin(X_new) -> (m,) or (m, n_outputs)`` raw margins of the wrapped model.
    model : object or None
        The model that was wrapped, for what only it knows (bootstrap seeds, parameters).
    sampled_from : int or None
        Of how many rows these are a uniform sample; None where they are all.
    device : str or None
        The torch device on which products with the leaf incidence are made; None for NumPy.

    Notes
    -----
    Rows that are larger than memory are not kept: their ``X`` raises `DataNeededError`, and their ``leaf_id`` is made when it is asked
    for (with Dask it is refused). Built-in schemes take such rows in blocks.
    """

    X: Any
    y: NDArray[Any] | None
    sample_weight: NDArray[np.float64] | None
    leaf_id: NDArray[np.int32]
    apply: Callable[[Any], NDArray[np.int32]]
    margin: Callable[[Any], NDArray[np.float64]]
    model: object = None
    sampled_from: int | None = None
    device: str | None = None

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.leaf_id)


@dataclass(frozen=True)
class Scheme:
    """What a plugin registered: a name, the callable, and the plugin that owns it."""

    kind: str
    name: str
    function: Callable[..., Any] = field(repr=False)
    owner: str


# ---- what plugins return


class Native(Protocol):
    """The framework's own way to route and predict, for speed and for the self-check; all ids and values exactly as it gives them.

    A framework that does not tell the leaves (scikit-learn's histogram boosting) lacks the method ``leaf_id``;
    one that is slower at it than Treelite has a class attribute ``routes_rows = False``. One whose classifiers have a ``predict_proba``
    beside margins may have a method of that name, which returns their probabilities, or None for other models. One whose ``margin`` is
    what its model's ``predict`` returned may say so in an attribute ``margin_is_prediction = True``; the self-check then asks once.
    """

    def leaf_id(self, X: Any) -> NDArray[Any]:
        """Return the (n, n_trees) native leaf ids of rows as the user passed them, in the numbering of `Forest.native_id`."""
        ...

    def margin(self, X: Any) -> NDArray[Any]:
        """Return the native raw margins, (n,) or (n, n_outputs)."""
        ...

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the native ``predict``."""
        ...


Adapt = Callable[..., "Forest"]
"""Returns the forest of a model (and takes its rows, where there are any), by whichever adapter knows it."""

NativeOf = Callable[[object, "Forest"], "Native | None"]
"""Returns the framework's own routing and prediction of a model, by whichever adapter has them."""


class NodeWeights(Protocol):
    """A node-weight scheme."""

    def __call__(self, forest: Forest, data: RowData | None = None) -> NDArray[np.float64]:
        """Return (n_nodes,) non-negative weights, 0 at leaves."""
        ...


class Smoother(Protocol):
    """A linear map from training labels to fitted values, as an immutable ``scipy.sparse.linalg.LinearOperator`` (n, n)."""

    @property
    def shape(self) -> tuple[int, int]:
        """(n, n)."""
        ...

    exactness: float

    def matvec(self, x: NDArray[Any]) -> NDArray[Any]:
        """Return S @ x."""
        ...

    def rmatvec(self, x: NDArray[Any]) -> NDArray[Any]:
        """Return S.T @ x."""
        ...

    def matmat(self, X: NDArray[Any]) -> NDArray[Any]:
        """Return S @ X."""
        ...

    def rmatmat(self, X: NDArray[Any]) -> NDArray[Any]:
        """Return S.T @ X."""
        ...

    def cross(self, X_new: Any) -> LinearOperator:
        """Return the (m, n) operator that predicts new rows from training labels."""
        ...

    def diagonal(self) -> NDArray[np.float64]:
        """Return the (n,) diagonal."""
        ...

    def trace(self) -> float:
        """Return the trace: the effective degrees of freedom."""
        ...

    def weights(self, X_new: Any, top: int | None = None) -> csr_array:
        """Return the (m, n) sparse weights of the training rows, the ``top`` largest of each new row."""
        ...


class SmootherScheme(Protocol):
    """Builds a smoother. Options are further keyword arguments with defaults; ``w.smoother(name, **options)`` passes them."""

    def __call__(self, forest: Forest, data: RowData) -> Smoother:
        """Return the smoother of the forest on these rows."""
        ...


class Learner(Protocol):
    """Fits a linear model on the features that an operator maps to.

    Options it may name: ``sample_weight``; ``n_classes`` (labels are then class numbers); ``offset`` (n, k), added to the scores before
    the loss: a learner that has it can be anchored.
    """

    def __call__(
        self, features: LinearOperator, y: NDArray[Any], *, alpha: float, **options: Any
    ) -> tuple[NDArray[np.float64], NDArray[np.float64], dict[str, Any]]:
        """Return coefficients (m,) or (m, k), intercept (k,) and information about the fit."""
        ...


class Teacher(Protocol):
    """What a compressor sees of a wrapped model."""

    @property
    def forest(self) -> Forest:
        """The model's IR."""
        ...

    def apply(self, X: Any) -> NDArray[np.int32]:
        """Route rows."""
        ...

    def margin(self, X: Any) -> NDArray[np.float64]:
        """Return raw margins."""
        ...

    def predict(self, X: Any) -> NDArray[Any]:
        """Return predictions."""
        ...


class Student(Protocol):
    """A small model: predicts with numpy alone and knows how many bytes it needs."""

    @property
    def n_bytes(self) -> int:
        """Every byte of constant data that the device needs to predict."""
        ...

    def predict(self, X: Any) -> NDArray[Any]:
        """Return values or class labels."""
        ...

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Return class probabilities."""
        ...

    def margin(self, X: Any) -> NDArray[np.float64]:
        """Return raw margins, on the teacher's scale."""
        ...

    def save(self, path: str | Path) -> None:
        """Write one file, without pickle."""
        ...


class Compressor(Protocol):
    """Turns a teacher into a student within a budget."""

    def __call__(
        self, teacher: Teacher, budget: int, *, data: Any, random_state: int, progress: Progress | None, **options: Any
    ) -> Student:
        """Return a student of at most ``budget`` bytes, or raise `BudgetError` naming the smallest that can be met."""
        ...


F_contra = TypeVar("F_contra", contravariant=True)


class Register(Protocol[F_contra]):
    """The callback that a hook gets: register one scheme under a name."""

    def __call__(self, name: str, scheme: F_contra) -> None:
        """Register ``scheme`` as ``name`` (kebab-case); a name that is taken raises `PluginConflictError`."""
        ...


# ---- the hooks


class HookSpecs:
    """Every hook of treespec."""

    @hookspec(firstresult=True)
    def treespec_adapt(self, model: object, X: Any, adapt: Adapt) -> Forest | None:
        """Turn ``model`` into a `Forest`, or return None to pass; the first result wins.

        Look only at the type before you decide (`is_a`; do not import a framework to find out), copy every array, and refuse with
        `UnsupportedModelError` what cannot be represented exactly. ``X`` are the rows that the user passed along, or None, for what a
        model does not store (names of categories); ``adapt(part)`` returns the forest of a model inside this one. An implementation
        leaves out the arguments that it does not need.
        """

    @hookspec(firstresult=True)
    def treespec_native(self, model: object, forest: Forest, native: NativeOf) -> Native | None:
        """Return the framework's own routing and prediction for a model that `treespec_adapt` took, or None.

        Optional: it lets `wrap` check the conversion against the framework, and routes rows where the framework is faster.
        ``native(part, forest)`` asks for those of a model inside this one.
        """

    @hookspec
    def treespec_node_weights(self, register: Register[NodeWeights]) -> None:
        """Call ``register(name, scheme)`` for each node-weight scheme."""

    @hookspec
    def treespec_smoothers(self, register: Register[SmootherScheme]) -> None:
        """Call ``register(name, scheme)`` for each smoother."""

    @hookspec
    def treespec_learners(self, register: Register[Learner]) -> None:
        """Call ``register(name, scheme)`` for each learner."""

    @hookspec
    def treespec_compressors(self, register: Register[Compressor]) -> None:
        """Call ``register(name, scheme)`` for each compressor."""
