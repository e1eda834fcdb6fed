"""The spectrum of a kernel ``F F.T`` from its leaf side, ``F.T F``: for rows that are many more than leaves, or not in this process."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from treespec.errors import DataMismatchError
from treespec.operators.base import Array, Operator, frozen
from treespec.operators.incidence import Incidence
from treespec.operators.lanczos import DENSE_ROWS, dense_eigenpairs, leading_eigenpairs
from treespec.operators.leaf import LeafIncidence

NEGLIGIBLE = 1e-12
"""Of the largest value: no direction is extended from less."""

_ROWS_A_NODE = 4  # from so many on, this is the smaller problem by far


class Factor(Protocol):
    """``F = diag(sqrt weight) Z T`` of a kernel ``F F.T``: T is leaf-sized, Z the incidence of the rows."""

    @property
    def Z(self) -> Incidence:  # noqa: N802
        """Incidence of the rows."""
        ...

    @property
    def weight(self) -> Any:
        """Weights of the rows, or None."""
        ...

    @property
    def n_columns(self) -> int:
        """Number of columns of F."""
        ...

    def on_leaves(self, V: NDArray[Any]) -> Array:
        """Return ``T @ V``."""
        ...

    def on_columns(self, U: NDArray[Any]) -> Array:
        """Return ``T.T @ U``."""
        ...


@dataclass(frozen=True, eq=False)
class KernelFactor:
    """The factor of a leaf kernel: T is the diagonal of the roots of the leaf scales."""

    Z: Incidence
    weight: Any
    root: Array

    @property
    def n_columns(self) -> int:
        """Number of leaves."""
        return len(self.root)

    def on_leaves(self, V: NDArray[Any]) -> Array:
        """Return ``T @ V``."""
        out: Array = self.root[:, None] * V
        return out

    on_columns = on_leaves


@dataclass(frozen=True, eq=False)
class PathFactor:
    """The factor of the path kernel: T sums over the nodes on the path to a leaf."""

    Z: Incidence
    map: Any
    weight: None = None

    @property
    def n_columns(self) -> int:
        """Number of nodes."""
        return int(self.map.n_coordinates)

    def on_leaves(self, V: NDArray[Any]) -> Array:
        """Return ``T @ V``."""
        out: Array = self.map.on_leaves(V)
        return out

    def on_columns(self, U: NDArray[Any]) -> Array:
        """Return ``T.T @ U``."""
        out: Array = self.map.on_nodes(U)
        return out


@dataclass(frozen=True, eq=False)
class Directions:
    """Leading directions of ``F F.T`` by what each leaf contributes.

    Attributes
    ----------
    values : (P,) array
        Eigenvalues, descending.
    leaf : (n_leaves, P) array
        ``Z @ leaf`` are the left directions: of these rows, and of any others (Nystrom extension).
    residual : float
        The largest ``|K left - values left|``, in the norm of the row weights, divided by the largest value.
    """

    values: Array
    leaf: Array = field(repr=False)
    residual: float


def pays_off(factor: Factor) -> bool:
    """Tell whether this side is to be taken: rows elsewhere, or where memory is short more rows than leaves, or many more rows than nodes.

    (`treespec.operators.merged` has a faster way for leaf kernels of rows that may be held a second time.)
    """
    Z = factor.Z
    if not isinstance(Z, LeafIncidence):
        return True
    times = 1 if Z.compact else _ROWS_A_NODE if isinstance(factor, PathFactor) else np.inf
    return bool(Z.shape[0] >= times * factor.n_columns)


def leaf_directions(factor: Factor, rank: int, random_state: int, tolerance: float) -> Directions:
    """Return the ``rank`` leading directions.

    Raises
    ------
    DataMismatchError
        If there are fewer columns than directions: all other values are 0.

    Notes
    -----
    A pass over the rows for every four products; all that is held is leaf-sized.
    """
    columns = factor.n_columns
    if rank > columns:
        raise DataMismatchError.expected(
            f"a rank up to {columns} (the {'nodes' if isinstance(factor, PathFactor) else 'leaves'} of the forest: further values are 0)",
            f"{rank}",
            f"ask for spectrum(rank={columns})",
        )

    def multiply(V: Array) -> Array:
        return factor.on_columns(factor.Z.normal(factor.on_leaves(V), factor.weight))

    if columns <= DENSE_ROWS or 4 * rank > columns:
        values, vectors = dense_eigenpairs(multiply, columns, rank)
    else:
        values, vectors, _ = leading_eigenpairs(multiply, columns, rank, random_state=random_state, tolerance=tolerance)
    values = np.maximum(values, 0.0)
    large = values > NEGLIGIBLE * values[0]
    over = np.divide(1.0, np.sqrt(values), out=np.zeros_like(values), where=large)
    rest = multiply(vectors) - vectors * values  # K left - values left is F rest / sqrt(values)
    missed = np.sqrt(np.maximum((rest * multiply(rest)).sum(axis=0), 0.0)) * over
    leaf = factor.on_leaves(vectors) * over
    leaf *= _sign(factor, leaf)
    return Directions(frozen(values), frozen(leaf), float(missed.max() / (values[0] or 1.0)))


def _sign(factor: Factor, leaf: Array) -> Array:
    """Return the (P,) signs of the components of largest magnitude of the right directions ``weight * (Z @ leaf)``."""
    found = np.stack(factor.Z.each(_extreme, leaf, rows=(factor.weight,)))
    top = found[np.abs(found).argmax(axis=0), np.arange(leaf.shape[1])]
    return np.where(top < 0, -1.0, 1.0)


def _extreme(block: LeafIncidence, leaf: Array, weight: Array | None) -> Array:
    rows = block.matmat(leaf)
    if weight is not None:
        rows *= weight[:, None]
    return rows[np.abs(rows).argmax(axis=0), np.arange(rows.shape[1])] if len(rows) else np.zeros(leaf.shape[1])


def extended(cross: Operator, leaf: Array) -> Array:
    """Return the directions at the new rows of a cross operator, whose ``left`` reaches the leaves."""
    left: Any = getattr(cross, "left")  # noqa: B009  # of a leaf product or a path cross
    Z: Incidence = left if isinstance(left, Incidence) else left.Z
    return Z.gather(leaf)
