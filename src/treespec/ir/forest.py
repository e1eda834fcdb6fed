"""`Forest`: the one representation of a tree ensemble in treespec."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from treespec.ir import link as _link
from treespec.ir.inputs import InputRule

LEAF = -1
"""Child id that marks a leaf in `Forest.left` and `Forest.right`."""

ALL_OUTPUTS = -1
"""Entry of `Forest.tree_output` for a tree that adds to every output."""

Task = Literal["regression", "binary", "multiclass", "multi-output", "ranking", "outlier"]


@dataclass(frozen=True, eq=False)
class Forest:
    """A fitted tree ensemble as frozen flat arrays over the nodes of all trees.

    Node ids are global; the nodes of tree t are ``tree_offset[t]:tree_offset[t + 1]``, its root comes first, parents precede
    children, and every node can be reached from a root. Arrays are copied on construction where needed and made read-only; the
    invariants are checked once, here (`treespec.ir.check`).

    Parameters
    ----------
    tree_offset : (n_trees + 1,) int64
    left, right : (n_nodes,) int32
        Global ids of the children; `LEAF` at leaves.
    feature : (n_nodes,) int32
        Column that the node splits on; -1 at leaves.
    threshold : (n_nodes,) float64
        A numerical split sends x left iff ``x <= threshold`` (x rounded to ``inputs.dtype`` first); NaN elsewhere.
    default_left : (n_nodes,) bool
        Where a missing value goes.
    value : (n_nodes, n_outputs) float64
        What a leaf adds to the margin (shrinkage and tree weights included). Inner nodes hold the framework's own node value, on the
        same scale, or NaN where it has none.
    tree_output : (n_trees,) int32
        Output that a tree adds to, or `ALL_OUTPUTS`; a tree's ``value`` is 0 at its leaves for the other outputs.
    base_score : (n_outputs,) float64
        Margin before the first tree.
    aggregation : {"sum", "mean"}
        Margin is ``base_score`` plus the sum or the mean of the leaf values.
    link : str
        Turns margins into predictions; a name of `treespec.ir.link.LINKS`.
    link_scale : float
        Factor on the margin inside the link (``sigmoid`` parameter of LightGBM); for ``isolation`` the divisor.
    sum_dtype : {"float32", "float64"}
        Type in which the framework adds up leaf values and applies the link.
    category_offset : (n_nodes + 1,) int64, category : (n_categories,) int32
        CSR form of the category codes that each categorical split lists.
    category_left : (n_nodes,) bool
        Whether the listed categories go left (all others go the other way).
    categorical : (n_nodes,) bool
        Whether the node splits on categories.
    cover : (n_nodes,) float64 or None
        Training weight (booster: sum of hessians) that reached the node.
    count : (n_nodes,) float64 or None
        Number of training rows that reached the node.
    gain : (n_nodes,) float64 or None
        Loss reduction of the split as the framework stores it; 0 at leaves.
    impurity : (n_nodes,) float64 or None
        Impurity of the node as the framework stores it (scikit-learn).
    inputs : InputRule
        How raw values become the matrix that is routed.
    n_features : int
    feature_names : tuple of str or None
        Only names that the user gave.
    task : str
    classes : tuple of ndarray or None
        One array of class labels for each target; None for values (and for raw boosters, whose prediction is a probability).
    ties_to_last : bool
        Whether a margin exactly on the decision boundary of a binary model means the second class.
    offset : float
        For outlier detectors: rows whose score is below it are outliers.
    framework : str
        For people: "scikit-learn RandomForestClassifier", "xgboost", ...
    native_id : (n_nodes,) int32 or None
        At leaves, the id by which the framework calls the leaf within its tree.
    """

    tree_offset: NDArray[np.int64]
    left: NDArray[np.int32]
    right: NDArray[np.int32]
    feature: NDArray[np.int32]
    threshold: NDArray[np.float64]
    default_left: NDArray[np.bool_]
    value: NDArray[np.float64]
    n_features: int
    tree_output: NDArray[np.int32] = field(default_factory=lambda: np.empty(0, np.int32))
    base_score: NDArray[np.float64] = field(default_factory=lambda: np.empty(0))
    aggregation: Literal["sum", "mean"] = "sum"
    link: str = "identity"
    link_scale: float = 1.0
    sum_dtype: Literal["float32", "float64"] = "float64"
    category_offset: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    category: NDArray[np.int32] = field(default_factory=lambda: np.empty(0, np.int32))
    category_left: NDArray[np.bool_] = field(default_factory=lambda: np.empty(0, np.bool_))
    categorical: NDArray[np.bool_] = field(default_factory=lambda: np.empty(0, np.bool_))
    cover: NDArray[np.float64] | None = None
    count: NDArray[np.float64] | None = None
    gain: NDArray[np.float64] | None = None
    impurity: NDArray[np.float64] | None = None
    inputs: InputRule = field(default_factory=InputRule)
    feature_names: tuple[str, ...] | None = None
    task: Task = "regression"
    classes: tuple[NDArray[Any], ...] | None = None
    ties_to_last: bool = False
    loss: str = "unknown"
    framework: str = "unknown"
    native_id: NDArray[np.int32] | None = None
    offset: float = 0.0

    def __post_init__(self) -> None:
        """Fill defaults, freeze the arrays and check every invariant."""
        from treespec.ir import check

        check.freeze(self)
        check.check(self)

    # ---- sizes

    @property
    def n_trees(self) -> int:
        """Number of trees."""
        return len(self.tree_offset) - 1

    @property
    def n_nodes(self) -> int:
        """Number of nodes over all trees."""
        return len(self.left)

    @property
    def n_outputs(self) -> int:
        """Number of columns of the margin."""
        return int(self.value.shape[1])

    @property
    def input_dtype(self) -> np.dtype[Any]:
        """Type that input values are rounded to before they are compared."""
        return np.dtype(self.inputs.dtype)

    @cached_property
    def is_leaf(self) -> NDArray[np.bool_]:
        """(n_nodes,) True at leaves."""
        return _frozen(self.left == LEAF)

    @cached_property
    def leaves(self) -> NDArray[np.int32]:
        """(n_leaves,) node ids of all leaves, ascending (so tree by tree)."""
        return _frozen(np.flatnonzero(self.is_leaf).astype(np.int32))

    @property
    def n_leaves(self) -> int:
        """Number of leaves over all trees."""
        return len(self.leaves)

    @cached_property
    def leaf_index(self) -> NDArray[np.int32]:
        """(n_nodes,) position of a leaf in ``leaves``; -1 at inner nodes."""
        index = np.full(self.n_nodes, -1, np.int32)
        index[self.leaves] = np.arange(self.n_leaves, dtype=np.int32)
        return _frozen(index)

    # ---- behaviour

    def encode(self, X: Any) -> NDArray[np.floating[Any]]:
        """Return X (array, sparse matrix or frame) as the (n, n_features) matrix that is routed; see `InputRule.encode`."""
        return self.inputs.encode(X, self.n_features, self.feature_names)

    def apply(self, X: Any) -> NDArray[np.int32]:
        """Return the (n, n_trees) int32 ids of the leaves that the rows of X reach (reference traversal, `treespec.ir.traverse`)."""
        from treespec.ir import traverse

        return traverse.apply(self, self.encode(X))

    def margin_of(self, leaf_id: NDArray[np.integer[Any]], start: NDArray[np.float64] | None = None) -> NDArray[np.float64]:
        """Return the (n, n_outputs) margins of rows that reach the leaves ``leaf_id`` (n, n_trees).

        ``start`` (n, n_outputs) takes the place of the initial score.
        """
        from treespec.ir import traverse

        return traverse.margin(self, leaf_id, start)

    def margin(self, X: Any) -> NDArray[np.float64]:
        """Return the raw margins of X: (n,) for one output, else (n, n_outputs)."""
        return _link.squeeze(self.margin_of(self.apply(X)))

    def predict(self, X: Any) -> NDArray[Any]:
        """Return what the framework's ``predict`` returns: values, class labels, or a raw booster's probabilities."""
        return _link.predict(self, self.margin_of(self.apply(X)))

    def predict_proba(self, X: Any) -> NDArray[np.float64] | list[NDArray[np.float64]]:
        """Return class probabilities (n, n_classes), or a list of them for several targets."""
        return _link.predict_proba(self, self.margin_of(self.apply(X)))

    def with_values(self, value: NDArray[np.float64], **changes: Any) -> Forest:
        """Return the same splits with new node values (and other fields, by name)."""
        return replace(self, value=value, **changes)

    def to_bytes(self) -> bytes:
        """Return the forest as versioned bytes (`treespec.ir.serialize`); no pickle."""
        from treespec.ir import serialize

        return serialize.dumps(self)

    @staticmethod
    def from_bytes(data: bytes) -> Forest:
        """Read a forest back from `to_bytes`; damaged or hostile bytes raise `FileFormatError`."""
        from treespec.ir import serialize

        return serialize.loads(data)

    def equals(self, other: Forest) -> bool:
        """Tell whether all fields are equal, bit for bit (labels as text)."""
        return all(_same(getattr(self, f.name), getattr(other, f.name)) for f in fields(self))

    def __repr__(self) -> str:
        """Say what the forest is in one line."""
        return (
            f"Forest({self.framework}: {self.n_trees} trees, {self.n_nodes} nodes, {self.n_features} features, "
            f"{self.n_outputs} output{'s' if self.n_outputs != 1 else ''}, {self.task})"
        )


def _frozen(array: NDArray[Any]) -> NDArray[Any]:
    array.flags.writeable = False
    return array


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        alike = a.dtype == b.dtype or (a.dtype.kind == b.dtype.kind == "U")  # the width of text is not kept
        return alike and a.shape == b.shape and bool(np.array_equal(a, b, equal_nan=a.dtype.kind == "f"))
    if isinstance(a, tuple) and isinstance(b, tuple):
        return len(a) == len(b) and all(_same(x, y) for x, y in zip(a, b, strict=True))
    if isinstance(a, InputRule) and isinstance(b, InputRule):
        return repr(a) == repr(b)  # NaN marks "none"
    return type(a) is type(b) and bool(a == b)
