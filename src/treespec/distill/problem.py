"""`Problem`: what the outputs of a net are trained on and judged by, for each task and link."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from treespec.distill.data import DistillData, can_use_labels
from treespec.errors import DataMismatchError, UnsupportedModelError
from treespec.ir import Forest
from treespec.ir import link as links

Array = NDArray[np.float64]
Loss = Literal["squared", "logistic", "softmax", "poisson"]

_TINY = 1e-9


@dataclass(frozen=True, eq=False)
class Problem:
    """Targets on the scale of the mean: values, or probabilities of classes.

    Attributes
    ----------
    head : {"value", "logit", "softmax", "each"}
        What the net's outputs are; see `treespec.students.mlp.MLPStudent`.
    loss : {"squared", "logistic", "softmax", "poisson"}
    labels : (n, k) array or None
        0/1 or one-hot for classes.
    teacher : (n, k) array
        The teacher's predictions on the same scale.
    shift, scale : (k,) arrays
        The net's outputs are ``(margin - shift) / scale``.
    margin_scale : float
        The teacher's margin is the net's (unscaled) output times this.
    """

    head: str
    loss: Loss
    labels: Array | None
    teacher: Array
    shift: Array
    scale: Array
    margin_scale: float = 1.0

    @property
    def n_outputs(self) -> int:
        """Outputs of a net."""
        return int(self.teacher.shape[1])

    def target(self, objective: str) -> Array:
        """Return what candidates are judged by: labels, or the teacher."""
        return self.teacher if objective == "fidelity" or self.labels is None else self.labels

    def validation_loss(self, output: Array, target: Array, weight: Array | None = None) -> float:
        """Return the mean loss of outputs (n, k), before shift and scale, against targets (n, k)."""
        z = output * self.scale + self.shift
        return float(np.average(_LOSSES[self.loss](z, target), weights=weight))


def pose(forest: Forest, data: DistillData, *, shares: bool = False) -> Problem:
    """Return the problem of imitating this forest on these rows.

    Parameters
    ----------
    shares : bool
        Whether regression on labels 0 and 1 may be put as that of their probability, by the log loss. Not for students whose sums are
        those of the teacher's trees or of its smoother.

    Raises
    ------
    UnsupportedModelError
        For classifiers of several targets, and for outlier detectors.
    DataMismatchError
        If labels do not suit the link (negative ones for a log link).
    """
    several = forest.task == "multi-output" and forest.link == "probability"
    if forest.task == "outlier" or several or forest.link in ("normalised", "partition"):
        raise UnsupportedModelError.expected(
            "regression, ranking, or classification of one target",
            f"a model for {forest.task} with link {forest.link!r} ({forest.framework})",
            "distil a model for each target or class, or pack its own trees: compressor='packed'",
        )
    if forest.link in ("probability", "softmax", "sigmoid", "hinge", *links.EACH) or forest.task in ("binary", "multiclass"):
        return _classes(forest, data)
    if shares and _is_share(forest, data):
        labels = np.asarray(data.rows.y, float).reshape(-1, 1)
        return Problem("logit", "logistic", labels, np.clip(data.margin, 0, 1), np.zeros(1), np.ones(1))
    return _values(forest, data)


def _is_share(forest: Forest, data: DistillData) -> bool:
    """Tell whether the labels that a regression learned are 0 and 1, so that what it predicts are shares of ones."""
    y = data.rows.y
    if y is None or data.objective != "accuracy" or (forest.task, forest.link, forest.n_outputs) != ("regression", "identity", 1):
        return False
    return can_use_labels(forest) and bool(((y == 0) | (y == 1)).all()) and bool(y.any()) and not y.all()


def _classes(forest: Forest, data: DistillData) -> Problem:
    y = data.rows.y
    if forest.link == "hinge":
        p = (data.margin > 0).astype(float)
    elif forest.link == "identity":
        p = _softmax(data.margin) if forest.n_outputs > 1 else _sigmoid(data.margin)
    else:
        p = np.clip(links.apply_link(forest, data.margin), 0, 1)  # a booster's raw scores may pass for probabilities
    two = forest.n_outputs == 1 or (forest.link == "probability" and forest.n_outputs == 2)
    each = forest.link in (*links.EACH, "sigmoid-normalised")
    if two and forest.n_outputs > 1:
        p = p[:, 1:]
    labels = None if y is None else _encode(forest, y, p.shape[1])
    k = p.shape[1]
    head, loss = ("logit", "logistic") if two else ("each", "logistic") if each else ("softmax", "softmax")
    scale = 1.0 if forest.link == "probability" else 1 / forest.link_scale
    return Problem(head, loss, labels, p, np.zeros(k), np.ones(k), scale)  # type: ignore[arg-type]


def _encode(forest: Forest, y: NDArray[Any], k: int) -> Array:
    """Return labels as 0/1 columns, one a class (or the second class alone where k is 1)."""
    if forest.classes is None:  # a raw booster: labels are numbers
        labels = np.asarray(y, dtype=float)
        if labels.ndim == 1 and k > 1:
            number = labels.astype(int)
            if not ((number == labels) & (number >= 0) & (number < k)).all():
                raise DataMismatchError.expected(
                    f"class numbers from 0 to {k - 1}", "others in y", "pass the labels that the booster was trained on"
                )
            return np.asarray(np.eye(k)[number])
        if (labels < 0).any() or (labels > 1).any():
            raise DataMismatchError.expected("labels from 0 to 1", "others in y", "pass the labels that the booster was trained on")
        return labels.reshape(len(labels), -1)
    if len(forest.classes) > 1:
        return np.column_stack([(np.asarray(y)[:, j] == c[1]).astype(float) for j, c in enumerate(forest.classes)])
    classes = forest.classes[0]
    codes = np.searchsorted(classes, y) if classes.dtype.kind in "biufU" else _positions(classes, y)
    return codes.reshape(-1, 1).astype(float) if k == 1 else np.eye(k)[codes]


def _positions(classes: NDArray[Any], y: NDArray[Any]) -> NDArray[np.intp]:
    where = {c: i for i, c in enumerate(classes.tolist())}
    return np.array([where[v] for v in y.tolist()], dtype=np.intp)


def _values(forest: Forest, data: DistillData) -> Problem:
    """Regression: squared loss on the margin, or Poisson loss where the link is the exponential."""
    y = None if data.rows.y is None or not can_use_labels(forest) else np.asarray(data.rows.y, float).reshape(data.n_rows, -1)
    if y is not None and y.shape[1] != forest.n_outputs:
        # a raw booster with several quantiles or the like has more outputs than labels
        y = np.repeat(y, forest.n_outputs, axis=1) if y.shape[1] == 1 else None
    if forest.link == "exp":
        teacher = np.exp(np.clip(data.margin, -50, 50))
        if y is not None and (y < 0).any():
            raise DataMismatchError.expected(
                "labels of 0 and more (the model has a log link)", "negative labels", "pass the labels that it was trained on"
            )
        base = teacher if y is None else y
        return Problem("value", "poisson", y, teacher, np.log(base.mean(axis=0) + _TINY), _spread(data.margin))
    if forest.link == "signed-square" and y is not None:
        y = np.sign(y) * np.sqrt(np.abs(y))
    elif forest.link not in ("identity", "signed-square"):
        y = None  # margins of this link have no labels of their own
    base = data.margin if y is None else y
    return Problem("value", "squared", y, data.margin, base.mean(axis=0), _spread(base))


def _spread(values: Array) -> Array:
    sd = values.std(axis=0)
    return np.where(sd > _TINY * np.maximum(1, np.abs(values).max(axis=0)), sd, 1.0)


def _sigmoid(z: Array) -> Array:
    return np.asarray(1 / (1 + np.exp(-np.clip(z, -500, 500))))


def _softmax(z: Array) -> Array:
    e = np.exp(z - z.max(axis=1, keepdims=True))
    return np.asarray(e / e.sum(axis=1, keepdims=True))


def _logsumexp(z: Array) -> Array:
    top = z.max(axis=1, keepdims=True)
    return np.asarray(top[:, 0] + np.log(np.exp(z - top).sum(axis=1)))


_LOSSES = {
    "squared": lambda z, t: ((z - t) ** 2).mean(axis=1),
    "logistic": lambda z, t: (np.logaddexp(0, z) - t * z).mean(axis=1),
    "softmax": lambda z, t: _logsumexp(z) * t.sum(axis=1) - (t * z).sum(axis=1),
    "poisson": lambda z, t: (np.exp(np.clip(z, -50, 50)) - t * z).mean(axis=1),
}
