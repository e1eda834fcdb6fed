"""One measure for all candidates, whatever they were trained on: loss and score of margins on given rows."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treespec.distill.data import DistillData
from treespec.ir import link as links

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Verdict:
    """How good predictions are.

    Attributes
    ----------
    loss : float
        What candidates are compared by, smaller is better: 1 - R2, or the Brier score of the probabilities (which is as fair to
        linear probabilities as to logits, and less noisy on few rows than accuracy).
    score : float
        What people read: R2, or accuracy.
    metric : str
        "R2" or "accuracy".
    """

    loss: float
    score: float
    metric: str


def judge(outcome: links.Outcome, margin: Array, wanted: NDArray[Any], weight: Array | None = None) -> Verdict:
    """Judge margins (m, n_outputs) by what is wanted.

    Parameters
    ----------
    wanted : (m,) labels as the user gave them, or (m, k) values or probabilities of the teacher
    """
    loss = float(np.average(row_losses(outcome, margin, wanted, weight), weights=weight))
    if is_classifier(outcome):
        return Verdict(loss, _accuracy(outcome, margin, wanted, weight), "accuracy")
    return Verdict(loss, 1 - loss, "R2")


def row_losses(outcome: links.Outcome, margin: Array, wanted: NDArray[Any], weight: Array | None = None) -> Array:
    """Return the (m,) losses of rows, whose mean is the loss of `judge`: squared errors over the variance, or of probabilities."""
    if is_classifier(outcome):
        p = probabilities(outcome, margin)
        return np.asarray(((p - _shares(outcome, p, wanted)) ** 2).sum(axis=1) / 2)
    prediction = links.apply_link(outcome, margin)
    truth = np.asarray(wanted, float).reshape(len(margin), -1)
    truth = np.repeat(truth, prediction.shape[1], axis=1) if truth.shape[1] == 1 else truth
    centre = np.average(truth, axis=0, weights=weight)
    total = np.average((truth - centre) ** 2, axis=0, weights=weight)
    return np.asarray(((truth - prediction) ** 2 / np.where(total > 0, total, 1.0)).mean(axis=1))


def is_classifier(outcome: links.Outcome) -> bool:
    """Tell whether predictions are judged as classes."""
    return (
        outcome.task in ("binary", "multiclass", "multi-output")
        and outcome.link != "identity"
        and outcome.n_outputs > 0
        and _has_classes(outcome)
    )


def _has_classes(outcome: links.Outcome) -> bool:
    return outcome.link in (*links.OF_CLASSES, "hinge")


def _shares(outcome: links.Outcome, p: Array, wanted: NDArray[Any]) -> Array:
    """Return what is wanted of probabilities: the teacher's, or labels as 0 and 1."""
    if wanted.ndim == 2 and wanted.dtype.kind == "f" and wanted.shape[1] == p.shape[1]:
        return wanted
    return one_hot(outcome, wanted, p.shape[1])


def _accuracy(outcome: links.Outcome, margin: Array, wanted: NDArray[Any], weight: Array | None) -> float:
    p = probabilities(outcome, margin)
    target = _shares(outcome, p, wanted)
    if outcome.link in links.EACH:
        hit = ((p > 0.5) == (target > 0.5)).mean(axis=1)
    else:
        hit = np.mean([p[:, own].argmax(axis=1) == target[:, own].argmax(axis=1) for own in _columns_of_targets(outcome, p)], axis=0)
    return float(np.average(hit, weights=weight))


def _columns_of_targets(outcome: links.Outcome, p: Array) -> list[slice]:
    """Return the columns of probabilities of each target."""
    if outcome.classes is None or len(outcome.classes) == 1:
        return [slice(0, p.shape[1])]
    edges = np.cumsum([0, *(len(c) for c in outcome.classes)]).tolist()
    return [slice(a, b) for a, b in pairwise(edges)]


def probabilities(outcome: links.Outcome, margin: Array) -> Array:
    """Return (m, k) probabilities: both classes of a binary model, else one column an output."""
    p = links.apply_link(outcome, margin)
    return np.column_stack([1 - p[:, 0], p[:, 0]]) if p.shape[1] == 1 else p


def one_hot(outcome: links.Outcome, y: NDArray[Any], k: int) -> Array:
    """Return labels as (m, k) columns of 0 and 1 (raw boosters: class numbers, or probabilities of the second class)."""
    if outcome.classes is not None and len(outcome.classes) > 1 and outcome.link not in links.EACH:
        return np.hstack([(np.asarray(y)[:, [j]] == c[None, :]).astype(float) for j, c in enumerate(outcome.classes)])
    if outcome.classes is not None and len(outcome.classes) > 1:
        return np.column_stack([(np.asarray(y)[:, j] == c[1]).astype(float) for j, c in enumerate(outcome.classes)])
    if outcome.classes is not None:
        return np.asarray(np.asarray(y)[:, None] == outcome.classes[0][None, :], dtype=float)
    labels = np.asarray(y, float)
    if labels.ndim == 2:
        return labels
    return np.column_stack([1 - labels, labels]) if k == 2 else np.eye(k)[labels.astype(int)]


def judge_validation(outcome: links.Outcome, margin: Array, data: DistillData) -> Verdict:
    """Judge margins on the validation rows, by labels or by the teacher as the objective says."""
    rows = data.validation
    weight = None if data.rows.sample_weight is None else data.rows.sample_weight[rows]
    return judge(outcome, margin, wanted_of(outcome, data, rows), weight)


def wanted_of(outcome: links.Outcome, data: DistillData, rows: NDArray[np.intp]) -> NDArray[Any]:
    """Return labels of rows, or what the teacher says of them."""
    if data.objective == "accuracy" and data.rows.y is not None and outcome.task != "ranking":
        return np.asarray(data.rows.y[rows])
    if is_classifier(outcome):
        return probabilities(outcome, data.margin[rows])
    return links.apply_link(outcome, data.margin[rows])
