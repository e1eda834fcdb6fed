"""Exact additive attribution of KPP scores (section 5): to nodes, and to variables by the split above each node."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from treespec.errors import MissingDependencyError, UnsupportedModelError
from treespec.kpp.blocks import Blocks, RawFeatures
from treespec.operators.leaf import LeafIncidence
from treespec.operators.path import PathMap
from treespec.operators.rows import here

if TYPE_CHECKING:
    from treespec.kpp.representation import Features, Representation

Array = NDArray[np.float64]

_TABLE = 1 << 23  # numbers of a table of contributions: 64 MB


@dataclass(frozen=True, eq=False)
class Attribution:
    """What each variable (or node) adds to each score; with ``base`` the parts sum to the score exactly.

    This is **not** a Shapley value. Each node's coordinate goes to the variable of the split just above it, given the splits further
    up, so a variable's share depends on the trees and on the minimum-norm coefficients among the many that give the same predictor
    (Remarks 5.4 and 5.5).

    Attributes
    ----------
    values : (n, p) or (n, p, n_outputs) array
        For ``by="node"``: (n, m), a CSR array unless centred, or a list of them, one for each output.
    base : float or (n_outputs,) array
        Intercept and root coordinates; with ``centred`` also the mean of the parts over the training rows. With an anchor (n,) or
        (n, n_outputs): the ensemble's log-odds of each row are in it, and the values explain the correction alone.
    data : array-like or None
        The rows; None for the training rows.
    feature_names : tuple of str or None
    by : {"variable", "node"}
    centred : bool
    """

    values: Any
    base: Any
    data: Any = field(repr=False)
    feature_names: tuple[str, ...] | None
    by: str
    centred: bool

    def to_shap(self) -> Any:
        """Return the values as a ``shap.Explanation``, for shap's plots. They are still not Shapley values.

        Raises
        ------
        MissingDependencyError
            If shap is not installed.
        UnsupportedModelError
            For attributions to nodes, which shap's plots have no place for.
        """
        if self.by != "variable":
            raise UnsupportedModelError.expected("an attribution to variables", "one to nodes", "use attribute(X).to_shap()")
        try:
            import shap  # type: ignore[import-not-found,import-untyped,unused-ignore]
        except ImportError:
            raise MissingDependencyError(
                "to_shap() needs the package 'shap', which is not installed.\n\nHint: pip install shap; .values and .base hold the numbers."
            ) from None
        base = np.broadcast_to(self.base, (len(self.values), *self.values.shape[2:])).copy()
        data = None if self.data is None else np.asarray(self.data)
        names = self.feature_names or [f"Feature {j}" for j in range(self.values.shape[1])]  # some of shap's plots fail without
        return shap.Explanation(values=self.values, base_values=base, data=data, feature_names=list(names))


def by_variable(representation: Representation, features: Features, coef: Array) -> tuple[Array, Array]:
    """Return (n, p, k) parts of the scores and (k,) the root coordinates' part (eq. 37 and 38, intercept left out).

    Notes
    -----
    Contributions are pushed down to a table of leaves and variables, then each tree gathers the variables that it splits on:
    O(n_nodes * p * k + n * sum over trees of their variables * k) time; beside twice the result, tables of 64 MB.
    """
    p, k = representation.common_features(), coef.shape[1]
    out = np.zeros((p, k, features.shape[0]))
    root = np.zeros(k)
    parts = features.parts if isinstance(features, Blocks) else (features,)
    for part, low in zip(parts, representation.edges, strict=False):
        w = representation.factor * coef[low : low + part.shape[1]]
        if isinstance(part, RawFeatures):
            out += part.matrix.T[:, None] * w[:, :, None]
            continue
        _add_paths(out, part.map, here(part.Z, "attributions of all rows"), part.map.scale[:, None] * w)
        roots = part.map.forest.tree_offset[:-1]
        root += (part.map.scale[roots, None] * w[roots]).sum(axis=0)
    return np.ascontiguousarray(out.transpose(2, 0, 1)), root


def _add_paths(out: Array, m: PathMap, Z: LeafIncidence, part: Array) -> None:
    """Add to ``out`` (p, k, n) the parts (n_nodes, k) of the nodes on each row's paths, by the variable split above the node."""
    k = part.shape[1]
    node = np.flatnonzero(m.table.parent >= 0)
    variable = m.forest.feature[m.table.parent[node]]
    used = np.unique(variable)
    step = max(1, _TABLE // max(1, m.n_coordinates * k))
    for start in range(0, len(used), step):
        chosen = used[start : start + step]
        mine = (variable >= chosen[0]) & (variable <= chosen[-1])
        table = np.zeros((m.n_coordinates, len(chosen), k))
        table[node[mine], np.searchsorted(chosen, variable[mine])] = part[node[mine]]
        leaf = m.table.matmat(table.reshape(m.n_coordinates, -1))
        for t in range(Z.n_trees):
            _gather(out, leaf, chosen, Z.tree(t))


def _gather(out: Array, leaf: Array, chosen: NDArray[Any], tree: tuple[int, int, NDArray[Any]]) -> None:
    """Add one tree's table of leaves (all leaves, variables times outputs) to ``out`` (p, k, n), variable by variable."""
    low, width, local = tree
    columns = leaf[low : low + width].T
    place = local.astype(np.intp)
    k = out.shape[1]
    for c in np.flatnonzero(columns.any(axis=1)):
        out[chosen[c // k], c % k] += np.ascontiguousarray(columns[c]).take(place)


def by_node(phi: csr_array, coef: Array, mean: Array | None) -> Any:
    """Return the parts ``w_v phi_v(x)`` of each node (eq. 36), one (n, m) array an output; with ``mean`` those of eq. 39, dense."""
    parts: list[Any] = []
    for j in range(coef.shape[1]):
        w = coef[:, j]
        parts.append(csr_array(phi * w) if mean is None else (phi.toarray() - mean) * w)
    return parts[0] if len(parts) == 1 else parts


By = Literal["variable", "node"]
