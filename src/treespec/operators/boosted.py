"""The smoothers ``boosting`` and ``boosting-tangent``: find how a booster was fitted, replay it, refuse what is not the model."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from treespec.errors import DataMismatchError, DataNeededError, TreespecError, UnsupportedModelError
from treespec.ir import ALL_OUTPUTS
from treespec.operators import settings_lightgbm, settings_sklearn, settings_unknown, settings_xgboost
from treespec.operators.base import Array
from treespec.operators.boosting import BoostingSmoother
from treespec.operators.boosting_settings import Settings
from treespec.operators.bootstrap import unwrap
from treespec.operators.leaf import LeafIncidence
from treespec.operators.losses import Squared
from treespec.operators.replay import check, distance, labels_of, refuse
from treespec.operators.rows import local_incidence, margins
from treespec.operators.tangent import BoostingTangent, by_output

if TYPE_CHECKING:
    from treespec.hooks import RowData
    from treespec.ir import Forest

_LARGEST_NORM = 1e6
_READERS = (settings_xgboost.read, settings_lightgbm.read, settings_sklearn.read)


def boosting(forest: Forest, data: RowData, *, output: int | None = None) -> BoostingSmoother:
    """Return the smoother that a booster with squared loss is (smoother ``boosting``): ``model.predict(X) = c + S (y - c)``.

    Parameters
    ----------
    forest : Forest
    data : RowData
        The training rows, labels and weights, in the order of training.
    output : int, optional
        Of a model with several outputs, the one to take: each has its own smoother, over its own trees. One output needs no number.

    Raises
    ------
    DataNeededError
        Without labels, or without ``output`` for a model with several.
    UnsupportedModelError
        If the loss is not squared, or leaf values are not linear in the labels.
    DataMismatchError
        If the replay on these rows differs from the model by more than 1e-5 standard deviations (plus 10 float32 units in the last
        place, where the framework adds up in float32): with the number, and the likely reason.
    """
    labels_of(data, "boosting")
    _require_booster(forest, data, "boosting")
    chosen = chosen_output(forest, output, "smoother('boosting', output=0)")
    Z = local_incidence(forest, data, "boosting")
    refused: TreespecError | None = None
    for settings in _settings(forest, data, Z):
        if not isinstance(settings.loss, Squared):
            raise _not_linear(f"{type(settings.loss).__name__.lower()} loss")
        if settings.alpha != 0:
            miss = distance(*_replay(forest, data, Z, settings, chosen))
            raise _not_linear(f"alpha={settings.alpha:g}, which thresholds them (a linear replay misses by {miss:.3g} standard deviations)")
        try:
            return _replayed(forest, data, Z, settings, chosen)
        except DataMismatchError as error:
            refused = refused or error
    raise refused or refuse("a booster whose settings are known, for the 'boosting' smoother", forest.framework)


def boosting_tangent(forest: Forest, data: RowData) -> BoostingTangent:
    """Return how the margins of a booster change with its training labels (smoother ``boosting-tangent``).

    Squared, logistic, softmax, Poisson and exponential loss; the splits and the initial score are held fixed. With K > 1 outputs the
    operator is (n K, n K), by row, then output: every indicator of a class moves every margin. ``exactness`` is that of the replayed
    margins. See `BoostingTangent.label_weights` for one output, and `BoostingTangent.degrees_of_freedom`.

    Raises
    ------
    DataNeededError
        Without labels.
    UnsupportedModelError
        If the loss cannot be replayed, or the Jacobian is larger than 1e6: leaves are saturated, and it means nothing.
    DataMismatchError
        If the replay on these rows differs from the model; see `boosting`.
    """
    labels_of(data, "boosting-tangent")
    _require_booster(forest, data, "boosting-tangent")
    if forest.n_outputs > 1 and (forest.tree_output == ALL_OUTPUTS).any():
        raise refuse("one output a tree, for the 'boosting-tangent' smoother", "leaves that are vectors")
    Z = local_incidence(forest, data, "boosting-tangent")
    refused: TreespecError | None = None
    for settings in _settings(forest, data, Z):
        try:
            found = _linearised(forest, data, Z, settings)
        except DataMismatchError as error:
            refused = refused or error
            continue
        size = found.norm()
        if not size <= _LARGEST_NORM:
            raise refuse(
                f"a Jacobian of norm up to {_LARGEST_NORM:g}, for the 'boosting-tangent' smoother", f"{size:.3g} (saturated leaves)"
            )
        return found
    raise refused or refuse("a booster whose settings are known, for the 'boosting-tangent' smoother", forest.framework)


def chosen_output(forest: Forest, output: Any, call: str) -> int:
    """Return the number of the output that is meant: 0 where there is one.

    Raises
    ------
    DataNeededError
        If there are several and none was named; ``call`` shows how.
    DataMismatchError
        If there is no such output.
    """
    if output is None:
        if forest.n_outputs > 1:
            raise DataNeededError.expected(f"the number of one of {forest.n_outputs} outputs", "none", f"use {call} (counted from 0)")
        return 0
    if isinstance(output, bool) or not isinstance(output, (int, np.integer)) or not 0 <= output < forest.n_outputs:
        raise DataMismatchError.expected(f"an output in [0, {forest.n_outputs})", f"{output!r}", "count outputs from 0")
    return int(output)


def _linearised(forest: Forest, data: RowData, Z: LeafIncidence, settings: Settings) -> BoostingTangent:
    """Build the tangent and compare its replayed margins with the model's."""
    output = np.maximum(forest.tree_output, 0)

    def build(exactness: float) -> BoostingTangent:
        return BoostingTangent(
            Z if settings.weight is None else Z.with_entries(settings.weight),
            settings.y,
            settings.loss,
            output_of=output,
            round_of=np.arange(Z.n_trees) // (settings.parallel * forest.n_outputs),
            initial=settings.initial,
            eta=settings.eta,
            ridge=settings.ridge,
            alpha=settings.alpha,
            clip=settings.clip,
            route=lambda X: by_output(forest.leaf_index[data.apply(X)], forest.n_leaves, output.tolist()),
            exactness=exactness,
        )

    if settings.mix is not None:
        raise refuse("leaf values that are Newton steps, for the 'boosting-tangent' smoother", "path smoothing")
    single = forest.sum_dtype == "float32"
    native = margins(forest, data)
    return build(check(build(float("nan")).margin, native, single=single, name="boosting-tangent", reason=settings.reason))


def _require_booster(forest: Forest, data: RowData, name: str) -> None:
    boosted = forest.aggregation == "sum" or settings_lightgbm.is_mine(unwrap(data.model))  # boosting="rf" averages
    if not boosted or forest.task == "outlier":
        raise refuse(f"a booster, for the {name!r} smoother", forest.framework)


def _settings(forest: Forest, data: RowData, Z: LeafIncidence) -> Iterator[Settings]:
    model = unwrap(data.model)
    for read in _READERS:
        found = read(model, forest, data, Z)
        if found is not None:
            yield found
            break
    if forest.link == "identity" and forest.loss in ("squared", "unknown"):
        yield from settings_unknown.guess(forest, data, Z)


def _not_linear(came: str) -> UnsupportedModelError:
    return refuse("leaf values that are linear in the labels, for the 'boosting' smoother", came, "use smoother('boosting-tangent')")


def _build(forest: Forest, data: RowData, Z: LeafIncidence, settings: Settings, output: int, exactness: float) -> BoostingSmoother:
    """Return the smoother of one output."""
    trees = np.flatnonzero((forest.tree_output == output) | (forest.tree_output == ALL_OUTPUTS))
    table = Z if settings.weight is None else Z.with_entries(settings.weight)
    return BoostingSmoother(
        table if len(trees) == Z.n_trees else table.select(trees),
        eta=settings.eta,
        ridge=settings.ridge,
        round_of=np.arange(len(trees)) // settings.parallel,
        mix=settings.mix,
        initial=float(settings.initial[output]),
        route=lambda X: LeafIncidence(forest.leaf_index[data.apply(X)[:, trees]], forest.n_leaves),
        exactness=exactness,
    )


def _replay(forest: Forest, data: RowData, Z: LeafIncidence, settings: Settings, output: int) -> tuple[Array, Array]:
    """Return fitted values of one output: replayed, and the model's own."""
    smoother = _build(forest, data, Z, settings, output, float("nan"))
    return smoother.replay(settings.y[:, output]), margins(forest, data)[:, output]


def _replayed(forest: Forest, data: RowData, Z: LeafIncidence, settings: Settings, output: int) -> BoostingSmoother:
    """Build the smoother of one output and compare its fitted values with the model's."""
    single = forest.sum_dtype == "float32"
    exactness = check(*_replay(forest, data, Z, settings, output), single=single, name="boosting", reason=settings.reason)
    return _build(forest, data, Z, settings, output, exactness)
