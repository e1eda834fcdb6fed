"""`check_node_weights`."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from treespec.errors import DataNeededError, PluginError, UnsupportedModelError
from treespec.hooks import NodeWeights, RowData, Scheme
from treespec.ir import Forest
from treespec.kpp.weights import node_weights
from treespec.testing.contract import Contract, same

_CONTRACT = Contract("node weights")


def check_node_weights(scheme: NodeWeights, forest: Forest, data: RowData | None = None) -> None:
    """Check a node-weight scheme: ``scheme(forest, data) -> (n_nodes,)``.

    Finite numbers of 0 and more, 0 at leaves; the same at every call and for an equal forest; nothing changed of what is given; without
    data, weights or a `DataNeededError`. What `treespec.kpp` itself refuses is refused here by the same code.

    Parameters
    ----------
    scheme : callable
    forest : Forest
    data : RowData, optional
        Rows with labels; `treespec.testing.row_data` makes it.

    Raises
    ------
    ContractError
        If a promise is broken.
    TreespecError
        Whatever the scheme refuses the forest or data with.

    Notes
    -----
    Four calls of the scheme.
    """
    first = _weights(scheme, forest, data)
    _CONTRACT.require(
        same(first, _weights(scheme, forest, data)),
        "the same weights at every call",
        "others at the second",
        "draw no random numbers and keep no state",
    )
    _CONTRACT.require(
        same(first, _weights(scheme, Forest.from_bytes(forest.to_bytes()), data)),
        "weights that depend on the forest's fields and the data alone",
        "others for a copy of the forest",
        "do not look at the identity of objects, and keep no cache by it",
    )
    if data is not None:
        try:
            _weights(scheme, forest, None)
        except DataNeededError:
            return


def _weights(scheme: NodeWeights, forest: Forest, data: RowData | None) -> NDArray[np.float64]:
    given = () if data is None else (data.X, data.y, data.sample_weight, data.leaf_id)
    with _CONTRACT.call("the scheme", *given):
        came = scheme(forest, data)
    try:
        node_weights(Scheme("node-weights", "under test", _returning(came), "you"), forest, data)
    except PluginError as error:
        expected, _, fault = str(error).partition("\n")[0].partition(", but got ")
        asks = expected.removeprefix("Expected ").partition(", from ")[0]
        raise _CONTRACT.broken(asks, fault.removesuffix("."), "np.where(forest.is_leaf, 0.0, weight) is a good end") from None
    except UnsupportedModelError:  # all 0: no metric on this forest, which is said when it is used
        pass
    return np.asarray(came)


def _returning(came: NDArray[np.float64]) -> NodeWeights:
    def scheme(forest: Forest, data: RowData | None = None) -> NDArray[np.float64]:
        return came

    return scheme
