"""Routing of new rows that survives pickling, and fitted models made of it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treespec.adapters._treelite import TreeliteRouter
from treespec.ir import Forest
from treespec.kpp.honest import CrossFit
from treespec.kpp.model import KPP
from treespec.operators.leaf import LeafIncidence


class Route:
    """Routes rows to the leaves of a forest; unlike a Treelite model it can be pickled, as scikit-learn's tools expect of estimators.

    Parameters
    ----------
    forest : Forest
    """

    def __init__(self, forest: Forest) -> None:
        self.forest = forest
        self._router: TreeliteRouter | None = None

    def __call__(self, X: Any) -> NDArray[np.int32]:
        """Return (n, n_trees) node ids."""
        if self._router is None:
            self._router = TreeliteRouter(self.forest)
        return self._router.leaf_id(self.forest.encode(X))

    def __getstate__(self) -> dict[str, Any]:
        """Leave the router out: it is made again when it is needed."""
        return {"forest": self.forest, "_router": None}


@dataclass(frozen=True, eq=False)
class LeafRoute:
    """Routes rows to the leaf incidence that smoothers want."""

    forest: Forest
    route: Route

    def __call__(self, X: Any) -> LeafIncidence:
        """Return the (n, n_leaves) incidence."""
        return LeafIncidence.of(self.forest, self.route(X))


def portable(model: Any, classes: NDArray[Any] | None = None) -> Any:
    """Return a KPP model with routes that can be pickled, and with the user's class labels in place of class numbers.

    Other models are returned as they are.
    """
    if isinstance(model, CrossFit):
        return replace(model, models=[portable(m, classes) for m in model.models])
    if not isinstance(model, KPP):
        return model
    routes = tuple(Route(f) for f in model.representation.forests)
    targets = model.targets if classes is None else replace(model.targets, classes=(classes,))
    return replace(model, representation=replace(model.representation, routes=routes), targets=targets)
