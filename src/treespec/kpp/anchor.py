"""`Anchor`: the ensembles' own log-odds, to which a logistic KPP model adds a correction.

The rows of the fit must get log-odds from ensembles that have not seen their labels (a forest is all but certain of the rows that grew
it), so they are cross-fitted where the same labels grew the trees. New rows get those of the ensembles themselves.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from treespec.errors import DataMismatchError, DataNeededError, UnsupportedModelError
from treespec.ir import link as links
from treespec.ir.table import take
from treespec.kpp.folds import FoldFit, fold_fits
from treespec.kpp.representation import gather

if TYPE_CHECKING:
    from treespec.hooks import RowData, Scheme
    from treespec.ir import Forest
    from treespec.kpp.refit import Refit
    from treespec.kpp.targets import Targets

Array = NDArray[np.float64]
AnchorName = Literal["base"]

LEAST = 1e-3
"""Added to the probabilities of forests before their logarithm: a leaf of one class is not certain."""

_SLACK = 1e-9
"""How far rounding may move the logarithm of a probability of `LEAST` or more."""

_SUMS = ("sigmoid", "softmax")  # log-odds of these links are sums over leaves


@dataclass(frozen=True, eq=False)
class Anchor:
    """The mean log-odds of the ensembles (two classes), or the mean log-probabilities up to a constant a row (more).

    Attributes
    ----------
    forests : tuple of Forest
    n_outputs : int
        1 for two classes, else the number of classes.
    """

    forests: tuple[Forest, ...]
    n_outputs: int

    @classmethod
    def of(cls, forests: Sequence[Forest], targets: Targets, learner: Scheme) -> Anchor:
        """Check that the ensembles and the learner can be anchored.

        Raises
        ------
        DataMismatchError
            If labels are values or several targets, or the learner takes no ``offset``.
        UnsupportedModelError
            If an ensemble has no probabilities.
        """
        if "offset" not in inspect.signature(learner.function).parameters or targets.kind != "classes":
            raise DataMismatchError.expected(
                "classes and learner='logistic' with anchor='base'",
                f"{targets.kind} and learner {learner.name!r}",
                "leave the anchor out: a ridge on what the ensemble leaves over finds nothing (see the page on KPP)",
            )
        if len(targets.classes) > 1:
            raise DataMismatchError.expected("one target with anchor='base'", f"{len(targets.classes)}", "fit one model a target")
        k = 1 if targets.binary else len(targets.classes[0])
        for forest in forests:
            width = np.shape(links.predict_proba(forest, np.zeros((1, forest.n_outputs))))[1]
            if width != len(targets.classes[0]):
                raise DataMismatchError.expected(
                    f"an ensemble of the {len(targets.classes[0])} classes of y", f"one of {width}", "pass rows of every class"
                )
        return cls(tuple(forests), k)

    def scores(self, leaf_ids: Sequence[NDArray[np.int32]]) -> Array:
        """Return the (n, k) log-odds of rows that reach these leaves, one array (n, n_trees) an ensemble."""
        each = [self._one(forest, ids) for forest, ids in zip(self.forests, leaf_ids, strict=True)]
        return np.asarray(np.mean(each, axis=0))

    def _one(self, forest: Forest, leaf_id: NDArray[np.int32]) -> Array:
        if forest.link in _SUMS:
            value, constant = self._sum_of(forest)
            return gather(value, leaf_id) + constant
        logs = _logs(forest, forest.margin_of(leaf_id))
        return logs[:, 1:] - logs[:, :1] if self.n_outputs == 1 else logs

    def leaf_values(self) -> tuple[list[Array], Array] | None:
        """Return what each leaf adds to the log-odds, one array (n_nodes, k) an ensemble, and a constant (k,).

        None where an ensemble's log-odds are no sum over its trees: those of a mean of probabilities.
        """
        if any(forest.link not in _SUMS for forest in self.forests):
            return None
        found = [self._sum_of(forest) for forest in self.forests]
        share = 1 / len(found)
        return [value * share for value, _ in found], np.asarray(np.sum([c for _, c in found], axis=0) * share)

    def _sum_of(self, forest: Forest) -> tuple[Array, Array]:
        """Return (n_nodes, k) leaf values, 0 at inner nodes, and a constant (k,), whose sums are the log-odds."""
        value = np.where(forest.is_leaf[:, None], forest.value, 0.0) * forest.link_scale
        constant = forest.base_score * forest.link_scale
        if forest.aggregation == "mean":
            value /= max(1, forest.n_trees)
        if self.n_outputs == 1 and forest.n_outputs == 2:
            return value[:, 1:] - value[:, :1], constant[1:] - constant[:1]
        return value, np.asarray(constant)

    def enclose(self, margins: Sequence[tuple[Array, Array]]) -> tuple[Array, Array]:
        """Return the least and largest (n, k) log-odds where each ensemble's margins (n, n_outputs) lie between a lower and an upper end.

        Each probability of a forest, and each margin of a booster, moves by itself: sound, and exact for one ensemble of two classes
        with one margin.
        """
        found = [self._ends(forest, low, high) for forest, (low, high) in zip(self.forests, margins, strict=True)]
        return np.mean([a for a, _ in found], axis=0) - _SLACK, np.mean([b for _, b in found], axis=0) + _SLACK

    def _ends(self, forest: Forest, low: Array, high: Array) -> tuple[Array, Array]:
        if forest.link in _SUMS:
            least, largest = low * forest.link_scale, high * forest.link_scale
            if forest.n_outputs == self.n_outputs:
                return least, largest
        else:
            logs = np.stack([_logs(forest, np.clip(m, 0.0, 1.0) if forest.link == "probability" else m) for m in (low, high)])
            least, largest = logs.min(axis=0), logs.max(axis=0)
            if self.n_outputs > 1:
                return least, largest
        return least[:, 1:] - largest[:, :1], largest[:, 1:] - least[:, :1]


def _logs(forest: Forest, margin: Array) -> Array:
    """Return (n, n_classes) logarithms of probabilities that are a little blunted."""
    p = np.asarray(links.predict_proba(forest, margin), dtype=np.float64)
    return np.asarray(np.log((p + LEAST) / (1 + LEAST * p.shape[1])))


def anchored(
    name: AnchorName,
    forests: Sequence[Forest],
    rows: Sequence[RowData],
    targets: Targets,
    learner: Scheme,
    *,
    refit: Sequence[Refit | None] | None,
    unseen: bool,
    random_state: int,
) -> tuple[Anchor, Targets, list[FoldFit] | None]:
    """Return the anchor, the labels with its log-odds as offset, and the fits of the folds that those took.

    Parameters
    ----------
    name : {"base"}
    forests, rows : sequences
        The ensembles, and the rows of the fit as each has routed them.
    targets : Targets
    learner : Scheme
    refit : sequence of Refit or None
    unseen : bool
        Whether no ensemble has seen these rows: their own log-odds will do. Else they are cross-fitted.
    random_state : int

    Raises
    ------
    DataNeededError
        If the ensembles have seen the rows and cannot be fitted again.
    """
    if name != "base":
        raise DataMismatchError.expected("anchor None or 'base'", repr(name), "'base' is the ensemble itself")
    anchor = Anchor.of(forests, targets, learner)
    if unseen:
        return anchor, replace(targets, offset=anchor.scores([d.leaf_id for d in rows])), None
    if refit is None or any(r is None for r in refit):
        raise DataNeededError.expected(
            "ensembles that can be fitted again, for anchor='base'",
            "one that cannot (a raw booster or a model file)",
            "what trees say of the rows that grew them is no anchor: pass the scikit-learn style estimator; or kpp(X, y) with rows that "
            "they have not seen, and weights='gain' or 'uniform'",
        )
    folds = list(fold_fits(refit, rows[0], targets, random_state))
    offset = np.empty((targets.n_rows, anchor.n_outputs))
    for fold in folds:
        held = take(rows[0].X, fold.test)
        offset[fold.test] = Anchor.of(fold.forests, targets, learner).scores([d.apply(held) for d in fold.rows])
    return anchor, replace(targets, offset=offset), folds


def refuse(model: Any, what: str, hint: str) -> None:
    """Raise if a KPP model is anchored.

    Raises
    ------
    UnsupportedModelError
    """
    if model.anchor is not None:
        raise UnsupportedModelError.expected(f"a KPP model without anchor, for {what}", "anchor='base'", hint)
