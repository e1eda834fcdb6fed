"""KPP ridge on rows that stay with the workers of Dask: the same fit, from the side of the nodes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from treespec.errors import UnsupportedModelError
from treespec.kpp.alpha import label_free
from treespec.kpp.krylov import solve_shifted
from treespec.kpp.model import KPP
from treespec.kpp.penalty_path import RIDGE_GRID
from treespec.kpp.remote_labels import RemoteLabels
from treespec.kpp.representation import Representation
from treespec.kpp.ridge import check_alpha, ridge
from treespec.kpp.targets import Targets
from treespec.kpp.weights import node_weights
from treespec.operators.path import Normalisation, PathFeatures, PathMap

if TYPE_CHECKING:
    from treespec.hooks import RowData, Scheme
    from treespec.ir import Forest
    from treespec.kpp.regimes import Regime
    from treespec.operators.rows import BlockRows

Array = NDArray[np.float64]

_TOLERANCE = 1e-11


class RemoteKPP(KPP):
    """A `KPP` whose training rows are not in this process: what goes through them one by one is refused."""

    @property
    def _mean_features(self) -> Array:
        return mean_features(self.features, self.sample_weight)  # type: ignore[arg-type]  # one block

    def _refuse(self, what: str) -> NoReturn:
        raise UnsupportedModelError.expected(
            f"training rows in this process, for {what}", "rows that stay with the workers of Dask", "fit on rows in memory or in files"
        )

    def bounds(self, delta: float = 0.05) -> NoReturn:  # noqa: ARG002
        """Refuse."""
        self._refuse("bounds()")

    def dashboard(self, X: Any = None, y: Any = None) -> NoReturn:  # noqa: ARG002
        """Refuse."""
        self._refuse("dashboard()")

    def robust_curve(self, X: Any, y: Any, u: Any = None) -> NoReturn:  # noqa: ARG002
        """Refuse."""
        self._refuse("robust_curve()")


def mean_features(features: PathFeatures, weight: Any) -> Array:
    """Return the (m,) weighted mean of the path features of rows, from leaf sums."""
    sums = features.map.on_nodes(features.Z.counts(weight)[:, None])[:, 0]
    total = features.Z.counts(weight).sum() / max(1, features.Z.n_trees)
    mean: Array = sums / total
    return mean


def fit_remote(
    forest: Forest,
    data: BlockRows,
    *,
    scheme: Scheme,
    learner: Scheme,
    alpha: float | str,
    weight_data: RowData | None,
    normalisation: Normalisation,
    regime: Regime,
    random_state: int,
    options: Mapping[str, Any],
) -> KPP:
    """Fit ``|y - b - Phi w|^2 + alpha |w|^2`` by conjugate gradients on ``Phi.T Phi``: nothing larger than nodes leaves the workers.

    Raises
    ------
    UnsupportedModelError
        For other learners than the built-in ridge, which need scores row by row; and for penalties that need refits or folds.
    """
    if learner.function is not ridge:
        raise UnsupportedModelError.expected(
            "learner='ridge' for rows that stay with the workers of Dask", f"learner {learner.name!r}", "pass the rows as files or blocks"
        )
    features = PathMap(forest, node_weights(scheme, forest, weight_data), normalisation=normalisation).features(data.table)
    labels = RemoteLabels(forest, data)
    mean_phi = mean_features(features, data.sample_weight)
    chosen: dict[str, Any] = {"method": "given"}
    if isinstance(alpha, str):
        alpha, chosen = _choose(alpha, forest, data, learner, features, mean_phi, labels.total, random_state, options)
    check_alpha(alpha)

    def multiply(V: Array) -> Array:
        return features.normal(V, data.sample_weight) - labels.total * mean_phi[:, None] * (mean_phi @ V)

    mean_y = labels.mean(indicators=False)
    right = features.map.on_nodes(labels.centred_sums(mean_y))
    solution = solve_shifted(multiply, right, np.array([alpha]), tolerance=float(options.get("tolerance", _TOLERANCE)))
    coef, intercept = solution.x[0], mean_y - mean_phi @ solution.x[0]
    one = coef.shape[1] == 1
    info = {"solver": "cg on nodes", "iterations": solution.n_iterations, "residual": solution.residual, "alpha": chosen}
    return RemoteKPP(
        Representation((features.map,), (data.apply,)),
        coef[:, 0] if one else coef,
        float(intercept[0]) if one else intercept,
        float(alpha),
        learner.name,
        scheme.name,
        features,
        labels.empty,
        info,
        regime,
        data.sample_weight,
    )


def _choose(
    method: str,
    forest: Forest,
    data: BlockRows,
    learner: Scheme,
    features: PathFeatures,
    mean_phi: Array,
    total: float,
    random_state: int,
    options: Mapping[str, Any],
) -> tuple[float, dict[str, Any]]:
    """Return the penalty of the label-free choice on a sample (`treespec.kpp.alpha`), carried over by the size of the features."""
    if method not in ("auto", "label-free"):
        raise UnsupportedModelError.expected(
            "alpha as a number, 'auto' or 'label-free' for rows that stay with the workers of Dask", repr(method), "use alpha='label-free'"
        )
    targets = Targets.of(forest, np.asarray(data.sample().y))
    curve = label_free(targets, learner, forests=[forest], rows=[data], random_state=random_state, options=options)
    norm2 = float(features.Z.counts(data.sample_weight) @ features.map.leaf_norm2)
    size = max(norm2 - total * float(mean_phi @ mean_phi), np.finfo(float).tiny)
    best = int(np.argmin(curve))
    info = {
        "method": "label-free",
        "grid": (RIDGE_GRID * size).tolist(),
        "error": curve.tolist(),
        "at_edge": best in (0, len(RIDGE_GRID) - 1),
    }
    return float(RIDGE_GRID[best] * size), info
