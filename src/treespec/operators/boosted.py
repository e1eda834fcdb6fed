"""The smoother ``boosting``: finds how a booster was fitted, replays it, and refuses where the replay is not the model."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from treespec.errors import DataMismatchError, TreespecError
from treespec.ir import ALL_OUTPUTS
from treespec.operators import settings_lightgbm, settings_sklearn, settings_unknown, settings_xgboost
from treespec.operators.boosting import BoostingSmoother
from treespec.operators.boosting_settings import Settings
from treespec.operators.bootstrap import unwrap
from treespec.operators.leaf import LeafIncidence
from treespec.operators.replay import check, labels_of, refuse

if TYPE_CHECKING:
    from treespec.hooks import RowData
    from treespec.ir import Forest

_READERS = (settings_xgboost.read, settings_lightgbm.read, settings_sklearn.read)


def boosting(forest: Forest, data: RowData, *, output: int = 0) -> BoostingSmoother:
    """Return the smoother that a booster with squared loss is (smoother ``boosting``): ``model.predict(X) = c + S (y - c)``.

    Parameters
    ----------
    forest : Forest
    data : RowData
        The training rows, labels and weights, in the order of training.
    output : int
        Of a model with several outputs, the one to take: each has its own smoother, over its own trees.

    Raises
    ------
    DataNeededError
        Without labels.
    UnsupportedModelError
        If the loss is not squared, or leaf values are not linear in the labels.
    DataMismatchError
        If the replay on these rows differs from the model by more than 1e-5 standard deviations (plus 10 float32 units in the last
        place, where the framework adds up in float32): with the number, and the likely reason.
    """
    labels_of(data, "boosting")
    boosted = forest.aggregation == "sum" or settings_lightgbm.is_mine(unwrap(data.model))  # boosting="rf" averages
    if not boosted or forest.link != "identity" or forest.task == "outlier":
        raise refuse("a booster with squared loss, for the 'boosting' smoother", f"{forest.framework} with link {forest.link!r}")
    if not 0 <= output < forest.n_outputs:
        raise DataMismatchError.expected(f"an output in [0, {forest.n_outputs})", f"{output}", "count outputs from 0")
    Z = LeafIncidence.of(forest, data.leaf_id)
    refused: TreespecError | None = None
    for settings in _settings(forest, data, Z):
        try:
            return _replayed(forest, data, Z, settings, output)
        except DataMismatchError as error:
            refused = refused or error
    raise refused or refuse("a booster whose settings are known, for the 'boosting' smoother", forest.framework)


def _settings(forest: Forest, data: RowData, Z: LeafIncidence) -> Iterator[Settings]:
    model = unwrap(data.model)
    for read in _READERS:
        found = read(model, forest, data, Z)
        if found is not None:
            yield found
            break
    yield from settings_unknown.guess(forest, data, Z)


def _replayed(forest: Forest, data: RowData, Z: LeafIncidence, settings: Settings, output: int) -> BoostingSmoother:
    """Build the smoother of one output and compare its fitted values with the model's."""
    trees = np.flatnonzero((forest.tree_output == output) | (forest.tree_output == ALL_OUTPUTS))
    table = Z if settings.weight is None else Z.with_entries(settings.weight)
    table = table if len(trees) == Z.n_trees else table.select(trees)
    initial = float(settings.initial[output])

    def build(exactness: float) -> BoostingSmoother:
        return BoostingSmoother(
            table,
            eta=settings.eta,
            ridge=settings.ridge,
            round_of=np.arange(len(trees)) // settings.parallel,
            mix=settings.mix,
            initial=initial,
            route=lambda X: LeafIncidence(forest.leaf_index[data.apply(X)[:, trees]], forest.n_leaves),
            exactness=exactness,
        )

    replay = build(float("nan")).replay(settings.y[:, output])
    native = forest.margin_of(data.leaf_id)[:, output]
    single = forest.sum_dtype == "float32"
    return build(check(replay, native, single=single, name="boosting", reason=settings.reason))
