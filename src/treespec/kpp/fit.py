"""`fit`: the entry to KPP for what is above it; wires weights, features, penalty and learner together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from treespec.errors import DataMismatchError, DataNeededError, UnsupportedModelError
from treespec.kpp.alpha import choose_alpha
from treespec.kpp.anchor import AnchorName, anchored
from treespec.kpp.blocks import RawScale
from treespec.kpp.learners import learn
from treespec.kpp.model import KPP
from treespec.kpp.regimes import FIXED, Regime
from treespec.kpp.representation import Representation
from treespec.kpp.targets import Targets
from treespec.kpp.weights import node_weights
from treespec.operators.path import Normalisation, PathMap
from treespec.operators.rows import BlockRows, incidence

if TYPE_CHECKING:
    from treespec.hooks import RowData, Scheme
    from treespec.ir import Forest
    from treespec.kpp.refit import Refit


def fit(
    ensembles: Sequence[tuple[Forest, RowData]],
    *,
    weights: Scheme | Sequence[Scheme],
    learner: Scheme,
    alpha: float | str = "auto",
    weight_data: Sequence[RowData | None] | None = None,
    normalisation: Normalisation = "forest",
    raw: bool = False,
    anchor: AnchorName | None = None,
    regime: Regime = FIXED,
    refit: Sequence[Refit | None] | None = None,
    random_state: int = 0,
    options: Mapping[str, Any] | None = None,
) -> KPP:
    """Fit a linear model on the path features of one ensemble or several (one block-structured Gram matrix).

    Parameters
    ----------
    ensembles : sequence of (Forest, RowData)
        The same rows and labels for all: y and sample_weight are those of the first.
    weights : Scheme or sequence of Scheme
        Node weights of all ensembles, or of each.
    learner : Scheme
    alpha : float or "auto"
        See `treespec.kpp.alpha.choose_alpha` for what "auto" does.
    weight_data : sequence of RowData, optional
        What the weight schemes see, where that is not the rows of the fit (regime "honest": the rows that grew the trees).
    normalisation : {"forest", "tree"}
    raw : bool
        Whether scaled raw features are a further block.
    anchor : {None, "base"}
        "base": the model is fitted on top of the ensembles' own log-odds (`treespec.kpp.anchor`).
    regime : Regime
    refit : sequence of Refit, optional
        For alpha="auto" and for the anchor: how to fit each ensemble again on some of the rows, None where it cannot be.
    random_state : int
        Seed of the folds, and of the random trees where nothing can be refitted.
    options : mapping, optional
        Passed on to the learner.

    Raises
    ------
    DataNeededError
        If there are no labels, or a weight scheme needs more than it is given.
    DataMismatchError
        If the ensembles have different numbers of rows.
    PluginError
        If a scheme or a learner returns what its Protocol does not allow.
    """
    forests = [forest for forest, _ in ensembles]
    rows = [data for _, data in ensembles]
    first = rows[0]
    if first.y is None:
        raise DataNeededError.expected("labels to fit", "rows without y", "pass kpp(X, y), or X and y to wrap()")
    if len({data.n_rows for data in rows}) > 1:
        raise DataMismatchError.expected("the same rows for all ensembles", f"{[d.n_rows for d in rows]} rows", "pass X and y to kpp()")
    schemes = [weights] * len(forests) if not isinstance(weights, Sequence) else list(weights)
    seen = rows if weight_data is None else list(weight_data)
    if any(isinstance(data, BlockRows) and not data.table.here for data in rows):
        return _remote(
            ensembles, schemes, seen, learner, alpha, normalisation, regime, random_state, options or {}, raw=raw, anchor=anchor is not None
        )
    targets = Targets.of(forests[0], first.y)

    def represent(forests: Sequence[Forest], routed: Sequence[RowData], seen: Sequence[RowData | None]) -> Representation:
        maps = tuple(PathMap(f, node_weights(s, f, d), normalisation=normalisation) for f, s, d in zip(forests, schemes, seen, strict=True))
        scale = RawScale.of(forests[0].encode(routed[0].X), routed[0].sample_weight) if raw else None
        return Representation(maps, tuple(d.apply for d in routed), scale)

    representation = represent(forests, rows, seen)
    representation.common_features()
    features = representation.features(first.X if raw else None, [incidence(f, d) for f, d in ensembles])
    call = dict(options or {})
    if "offset" in call:
        raise DataMismatchError.expected("an anchor that is known for new rows too", "an offset of these rows", "use anchor='base'")
    base = grown = None
    if anchor is not None:
        unseen = not regime.labels_used_twice
        base, targets, grown = anchored(anchor, forests, rows, targets, learner, refit=refit, unseen=unseen, random_state=random_state)
    chosen: dict[str, Any] = {"method": "given"}
    if isinstance(alpha, str):
        alpha, chosen = choose_alpha(
            alpha,
            features,
            targets,
            learner,
            forests=forests,
            rows=rows,
            represent=represent,
            refit=refit,
            leaky=regime.labels_used_twice,
            random_state=random_state,
            options=call,
            grown=grown,
        )
    coef, intercept, info = learn(learner, features, targets, alpha=float(alpha), sample_weight=first.sample_weight, options=call)
    return KPP(
        representation,
        coef,
        float(intercept[0]) if coef.ndim == 1 else intercept,
        float(alpha),
        learner.name,
        schemes[0].name if len({s.name for s in schemes}) == 1 else ", ".join(s.name for s in schemes),
        features,
        targets,
        {**info, "alpha": chosen},
        regime,
        first.sample_weight,
        base,
    )


def _remote(
    ensembles: Sequence[tuple[Forest, RowData]],
    schemes: Sequence[Scheme],
    seen: Sequence[RowData | None],
    learner: Scheme,
    alpha: float | str,
    normalisation: Normalisation,
    regime: Regime,
    random_state: int,
    options: Mapping[str, Any],
    *,
    raw: bool,
    anchor: bool,
) -> KPP:
    """Fit rows that stay with the workers of Dask, or refuse what they cannot have."""
    from treespec.kpp.remote import fit_remote

    (forest, data), *others = ensembles
    if others or raw or anchor or not isinstance(data, BlockRows):
        raise UnsupportedModelError.expected(
            "one ensemble without raw features or anchor, for rows that stay with the workers of Dask",
            "several ensembles" if others else "raw=True" if raw else "an anchor",
            "pass the rows as files or blocks",
        )
    return fit_remote(
        forest,
        data,
        scheme=schemes[0],
        learner=learner,
        alpha=alpha,
        weight_data=seen[0],
        normalisation=normalisation,
        regime=regime,
        random_state=random_state,
        options=options,
    )
