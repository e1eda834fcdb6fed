"""The node-weight scheme ``depth-decay``: splits near the root count most."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from treespec.hooks import NodeWeights, Register, RowData, hookimpl
from treespec.ir import Forest
from treespec.ir.stats import depth


def depth_decay(forest: Forest, data: RowData | None = None) -> NDArray[np.float64]:
    """Return ``2 ** -depth`` at every split and 0 at leaves; needs no data."""
    return np.where(forest.is_leaf, 0.0, 0.5 ** depth(forest))


@hookimpl
def treespec_node_weights(register: Register[NodeWeights]) -> None:
    """Register the scheme."""
    register("depth-decay", depth_decay)
