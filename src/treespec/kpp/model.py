"""`KPP`: a linear model on the path features of a forest, fitted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.special import expit, softmax

from treespec.errors import UnsupportedModelError
from treespec.kpp import attribution
from treespec.kpp.regimes import FIXED, Regime

if TYPE_CHECKING:
    from treespec.ir import Forest
    from treespec.kpp.anchor import Anchor
    from treespec.kpp.bounds import Bounds
    from treespec.kpp.dashboard import Dashboard
    from treespec.kpp.raw_robustness import RawCertificate
    from treespec.kpp.representation import Features, Representation
    from treespec.kpp.robustness import Curve
    from treespec.kpp.targets import Targets

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class KPP:
    """A fitted KPP model: ``score(x) = intercept + <coef, phi(x)>`` on the path features of one ensemble or several.

    Attributes
    ----------
    representation : Representation
        The feature map.
    coef_ : (m,) or (m, n_outputs) array
        In the coordinates of `transform`: one for each node.
    intercept_ : float or (n_outputs,) array
    alpha_ : float
        The penalty that was used.
    learner, weights : str
        Names of the schemes.
    info : dict
        What the learner says about its fit, and how alpha was chosen.
    regime : Regime
        Which labels built the representation, and what a number may therefore claim.
    features : PathFeatures or Blocks
        The training rows, as an operator.
    targets : Targets
        The training labels.
    sample_weight : (n,) array or None
    anchor : Anchor or None
        The ensembles' own log-odds, if the model is a correction of them: they are part of every score.
    """

    representation: Representation
    coef_: Array
    intercept_: Any
    alpha_: float
    learner: str
    weights: str
    features: Features = field(repr=False)
    targets: Targets = field(repr=False)
    info: dict[str, Any] = field(default_factory=dict, repr=False)
    regime: Regime = FIXED
    sample_weight: NDArray[np.float64] | None = field(default=None, repr=False)
    anchor: Anchor | None = field(default=None, repr=False)

    def __repr__(self) -> str:
        """Say what was fitted, and how."""
        forests = " + ".join(f.framework for f in self.representation.forests)
        raw = "" if self.representation.raw is None else " + raw features"
        on = "" if self.anchor is None else ", anchored at the ensemble"
        return f"KPP({self.learner} on {forests}{raw}{on}, weights {self.weights!r}, alpha {self.alpha_:.4g}, regime {self.regime.name!r})"

    # ---- shapes

    @cached_property
    def coef(self) -> Array:
        """(m, k) coefficients, k = 1 for one output."""
        return self.coef_.reshape(len(self.coef_), -1)

    @property
    def intercept(self) -> Array:
        """(k,) intercepts."""
        return np.atleast_1d(np.asarray(self.intercept_, dtype=np.float64))

    @cached_property
    def norm(self) -> float:
        """Frobenius norm of the coefficients: the Lipschitz constant of the scores in the path metric (eq. 40)."""
        return float(np.linalg.norm(self.coef_))

    @cached_property
    def _leaf_values(self) -> list[Array]:
        return self.representation.leaf_values(self.coef)

    def squeeze(self, score: Array) -> Array:
        """Return (n,) where there is one output, else the (n, k) array itself."""
        return np.asarray(score[:, 0] if self.coef_.ndim == 1 else score)

    # ---- prediction

    def scores(self, X: Any) -> Array:
        """Return the (n, k) linear scores."""
        ids = self.representation.leaf_ids(X)
        score = self.representation.score(X, self._leaf_values, self.coef, ids) + self.intercept
        return score if self.anchor is None else score + self.anchor.scores(ids)

    def fitted_scores(self) -> Array:
        """Return the (n, k) scores of the rows of the fit as the learner saw them: on top of cross-fitted log-odds with an anchor."""
        score = np.asarray(self.features.matmat(self.coef)) + self.intercept
        return score if self.targets.offset is None else score + self.targets.offset

    def decision_function(self, X: Any) -> Array:
        """Return the linear score, (n,) or (n, n_outputs): costs what routing the rows costs, and one gather a row and tree."""
        return self.squeeze(self.scores(X))

    def predict(self, X: Any) -> NDArray[Any]:
        """Return values, or class labels (of several targets: a column each)."""
        return self.decide(self.scores(X))

    def decide(self, score: Array) -> NDArray[Any]:
        """Return predictions from (n, k) scores."""
        if self.targets.kind == "values":
            return self.squeeze(score)
        if self.targets.binary:
            return np.asarray(self.targets.classes[0][(score[:, 0] > 0).astype(int)])
        chosen = [c[score[:, a:b].argmax(axis=1)] for c, (a, b) in zip(self.targets.classes, self._edges, strict=True)]
        return np.asarray(chosen[0] if len(chosen) == 1 else np.column_stack(chosen))

    def predict_proba(self, X: Any) -> Array | list[Array]:
        """Return class probabilities (n, n_classes), or a list of them for several targets; for learner ``logistic``."""
        if self.targets.kind != "classes" or self.learner != "logistic":
            raise UnsupportedModelError.expected(
                "a logistic model, for probabilities", f"learner {self.learner!r}", "use decision_function(), or learner='logistic'"
            )
        score = self.scores(X)
        if self.targets.binary:
            return np.column_stack([expit(-score[:, 0]), expit(score[:, 0])])
        found = [np.asarray(softmax(score[:, a:b], axis=1)) for a, b in self._edges]
        return found[0] if len(found) == 1 else found

    @property
    def _edges(self) -> list[tuple[int, int]]:
        """The columns of each target's classes."""
        return list(pairwise(np.cumsum([0, *map(len, self.targets.classes)]).tolist()))

    # ---- geometry

    def transform(self, X: Any) -> csr_array:
        """Return the path features phi(x) as a CSR array (n, m): n * n_trees * depth entries, norms at most 1."""
        return self.representation.features(X).to_sparse()

    def gram(self, X: Any, Z: Any = None) -> Array:
        """Return the dense (n, n') Gram matrix between two sets of rows (eq. 24); Z defaults to X."""
        features: Any = self.representation.features(X)
        return np.asarray(features.gram(None if Z is None else self.representation.features(Z)))

    def distance(self, X: Any, Z: Any = None) -> Array:
        """Return the dense (n, n') path distances delta (eq. 22): squared Euclidean distances of the path features."""
        features: Any = self.representation.features(X)
        return np.asarray(features.distance(None if Z is None else self.representation.features(Z)))

    # ---- why

    def attribute(self, X: Any = None, *, by: attribution.By = "variable", centred: bool = False) -> attribution.Attribution:
        """Return what each variable, or each node, adds to each score; exact, for all rows in one pass (section 5).

        Parameters
        ----------
        X : array-like or frame (n, p), optional
            By default the training rows, which need not be routed again.
        by : {"variable", "node"}
            By variable: a node's part goes to the variable of the split above it ("marginal split", eq. 37).
        centred : bool
            Parts minus their means over the training rows (eq. 39), the means in ``base``. For nodes the result is then dense.

        Returns
        -------
        Attribution
            ``base + values.sum(axis=1)`` is the score. Not a Shapley value. With an anchor the parts are those of the correction, and
            ``base`` holds the ensemble's log-odds, row by row.

        Notes
        -----
        O(n_nodes * p) and, for each row and tree, one addition for each variable that the tree splits on, an output.
        """
        names = self.representation.forests[0].feature_names
        features = self.features if X is None else self.representation.features(X)
        if by == "node":
            mean = self._mean_features if centred else None
            values = attribution.by_node(features.to_sparse(), self.coef, mean)
            base = self.intercept + (self._mean_features @ self.coef if centred else 0.0)
        else:
            values, root = attribution.by_variable(self.representation, features, self.coef)
            base = self.intercept + root
            if centred:
                shift = self._mean_parts
                values = values - shift
                base = base + shift.sum(axis=0)
            values = values[:, :, 0] if self.coef_.ndim == 1 else values
        if self.anchor is not None:
            base = base + self.anchor.scores(self.representation.leaf_ids_of(features))
        squeezed: Any = base if self.coef_.ndim > 1 else base[:, 0] if base.ndim > 1 else float(base[0])
        return attribution.Attribution(values, squeezed, X, names, by, centred)

    @cached_property
    def _mean_features(self) -> Array:
        n = self.features.shape[0]
        share = np.full(n, 1 / n) if self.sample_weight is None else self.sample_weight / self.sample_weight.sum()
        return np.asarray(self.features.rmatvec(share))

    @cached_property
    def _mean_parts(self) -> Array:
        """(p, k) means of the variables' parts over the training rows, from the mean features alone."""
        out = np.zeros((self.representation.common_features(), self.coef.shape[1]))
        product = self._mean_features[:, None] * self.coef
        edges = self.representation.edges
        for m, low in zip(self.representation.maps, edges[:-1], strict=False):
            node = np.flatnonzero(m.table.parent >= 0)
            np.add.at(out, m.forest.feature[m.table.parent[node]], product[low + node])
        if self.representation.raw is not None:
            out += product[edges[-2] :]
        return out

    # ---- how far, how sure

    def robust_radius(self, X: Any, y: Any = None, *, epsilon: float | None = None) -> Array:
        """Return (n,) certified radii in the path metric delta; see `treespec.kpp.robustness.radius`."""
        from treespec.kpp import robustness

        return robustness.radius(self, X, y, epsilon=epsilon)

    def robust_curve(self, X: Any, y: Any, u: NDArray[Any] | Sequence[float] | None = None) -> Curve:
        """Return the robust accuracy (classes) or the bound on robust squared error (values) at radii u; see `treespec.kpp.robustness`."""
        from treespec.kpp import robustness

        return robustness.curve(self, X, y, u)

    def raw_certificate(self, X: Any, radius: float | NDArray[Any]) -> RawCertificate:
        """Return how far scores and margins can move in an l-infinity ball around each row; see `treespec.kpp.raw_robustness`."""
        from treespec.kpp import raw_robustness

        return raw_robustness.certificate(self, X, radius)

    def bounds(self, delta: float = 0.05) -> Bounds:
        """Return the risk bounds of section 7 at this fit, with their regime and verdict; see `treespec.kpp.bounds`."""
        from treespec.kpp import bounds

        return bounds.bounds(self, delta)

    def dashboard(self, X: Any = None, y: Any = None) -> Dashboard:
        """Return every observable of Tables 3 to 6, the reading guide evaluated; X and y are held-out rows for the certificates."""
        from treespec.kpp import dashboard

        return dashboard.dashboard(self, X, y)

    # ---- back to production

    def to_forest(self) -> Forest:
        """Return the model as a forest: the same splits, new leaf values, root coordinates and intercept folded in.

        Several ensembles become one forest: their trees side by side.

        Raises
        ------
        UnsupportedModelError
            If raw features are part of the model; if it is anchored at a forest, whose log-odds are no sum over trees; or if several
            ensembles read their input so differently that no one forest routes as each does (`treespec.ir.combine`).

        Notes
        -----
        Its margins are the scores, within rounding; predicting costs what the base model costs.
        """
        from treespec.kpp import production

        return production.to_forest(self)

    def to_treelite(self) -> Any:
        """Return `to_forest` as a ``treelite.Model``: for compilers and servers that read Treelite."""
        from treespec.adapters._treelite import to_treelite

        return to_treelite(self.to_forest())
