"""`BlockRows`: rows that were routed block by block, as schemes get them; and what schemes ask of rows of either kind."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from treespec.errors import DataNeededError, UnsupportedModelError
from treespec.hooks import RowData
from treespec.operators.base import is_lazy
from treespec.operators.incidence import Incidence
from treespec.operators.leaf import LeafIncidence

if TYPE_CHECKING:
    from treespec.ir import Forest


class BlockRows(RowData):
    """Rows that are not held together: leaf table, labels, weights, and a uniform sample of the rows themselves.

    Parameters
    ----------
    forest : Forest
    table : Incidence (n, n_leaves)
    y, sample_weight : arrays of n rows, or None
        NumPy arrays; Dask arrays where the rows are with workers.
    apply, margin, model
        As `RowData`.
    sample : callable
        Returns rows in memory, a uniform sample of these.
    """

    def __init__(
        self,
        forest: Forest,
        table: Incidence,
        *,
        y: Any,
        sample_weight: Any,
        apply: Callable[[Any], NDArray[np.int32]],
        margin: Callable[[Any], NDArray[np.float64]],
        model: object,
        sample: Callable[[], RowData],
    ) -> None:
        fields = {
            "y": y,
            "sample_weight": sample_weight,
            "apply": apply,
            "margin": margin,
            "model": model,
            "sampled_from": None,
            "device": None,
        }
        for name, value in (fields | {"table": table, "_forest": forest, "_sample": sample}).items():
            object.__setattr__(self, name, value)

    table: Incidence
    _forest: Forest
    _sample: Callable[[], RowData]

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return int(self.table.shape[0])

    @property
    def X(self) -> Any:  # noqa: N802  # a field of RowData
        """Refuse: the rows were read once and not kept."""
        raise DataNeededError.expected(
            "the rows themselves, which this needs",
            f"{self.n_rows} rows that were routed in blocks and not kept",
            "pass the rows as an array or a frame in memory; w.rows.sample() is a uniform sample of them",
        )

    @property
    def leaf_id(self) -> NDArray[np.int32]:
        """(n, n_trees) int32 node ids, made from the compact table at each call."""
        return self._forest.leaves[here(self.table, "the leaf ids of all rows").leaf_index()]

    def sample(self) -> RowData:
        """Return a uniform sample of the rows, in memory and in their order; ``sampled_from`` tells of how many."""
        return self._sample()


def incidence(forest: Forest, data: RowData) -> Incidence:
    """Return the leaf incidence of rows, wherever they are."""
    return data.table if isinstance(data, BlockRows) else on_device(LeafIncidence.of(forest, data.leaf_id), data.device)


def on_device(Z: LeafIncidence, device: str | None) -> LeafIncidence:
    """Return the incidence with its products on a torch device; itself for None."""
    if device is None:
        return Z
    from treespec.operators.torch_leaves import TorchLeaves

    return TorchLeaves(Z, device)


def local_incidence(forest: Forest, data: RowData, name: str) -> LeafIncidence:
    """Return the leaf incidence of rows in this process, or raise for rows that are with the workers of a cluster.

    Raises
    ------
    UnsupportedModelError
        With ``name``, what is refused.
    """
    return here(incidence(forest, data), f"the {name!r} smoother")


def here(table: Incidence, what: str) -> LeafIncidence:
    """Return the table itself where the rows are in this process.

    Raises
    ------
    UnsupportedModelError
        Where they are not: ``what`` goes through all rows tree by tree, or mixes rows.
    """
    if isinstance(table, LeafIncidence):
        return table
    raise UnsupportedModelError.expected(
        f"rows in this process, for {what}",
        "rows that stay with the workers of Dask",
        "pass the rows as files or blocks, treespec.wrap(model, 'rows.parquet', y); on Dask there are smoother('leaf') and 'path', "
        "their spectra, kpp(learner='ridge') and distill()",
    )


def margins(forest: Forest, data: RowData) -> Any:
    """Return the (n, n_outputs) margins of the model at the rows, from their leaves; a Dask array where labels are one."""
    if not isinstance(data, BlockRows):
        return forest.margin_of(data.leaf_id)
    return data.table.stack(_margins, forest, width=forest.n_outputs)


def _margins(block: LeafIncidence, forest: Forest) -> NDArray[np.float64]:
    return forest.margin_of(forest.leaves[block.leaf_index()])


def row_targets(forest: Forest, data: RowData) -> Any:
    """Return the (n, n_outputs) numbers that the model averages (`treespec.operators.replay.targets`), where the labels are."""
    from treespec.operators.replay import targets

    if not is_lazy(data.y):
        return targets(forest, np.asarray(data.y))
    return incidence(forest, data).stack(_targets, forest, rows=(data.y,), width=forest.n_outputs)


def _targets(block: LeafIncidence, forest: Forest, y: NDArray[Any]) -> NDArray[np.float64]:
    from treespec.operators.replay import targets

    return targets(forest, y)
