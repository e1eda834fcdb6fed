"""From margins to predictions: the links that frameworks use, in the precision in which they use them."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from treespec.errors import UnsupportedModelError

Array = NDArray[np.floating[Any]]


def _sigmoid(m: Array) -> Array:
    with np.errstate(over="ignore"):
        return np.asarray(1 / (1 + np.exp(-m)))


def _softmax(m: Array) -> Array:
    e = np.exp(m - m.max(axis=1, keepdims=True))
    return np.asarray(e / e.sum(axis=1, keepdims=True))


class Outcome(Protocol):
    """What a model says about its outputs: the fields of `treespec.ir.Forest` of these names."""

    @property
    def task(self) -> str: ...  # noqa: D102
    @property
    def link(self) -> str: ...  # noqa: D102
    @property
    def link_scale(self) -> float: ...  # noqa: D102
    @property
    def sum_dtype(self) -> str: ...  # noqa: D102
    @property
    def classes(self) -> tuple[NDArray[Any], ...] | None: ...  # noqa: D102
    @property
    def ties_to_last(self) -> bool: ...  # noqa: D102
    @property
    def offset(self) -> float: ...  # noqa: D102
    @property
    def n_outputs(self) -> int: ...  # noqa: D102
    @property
    def framework(self) -> str: ...  # noqa: D102


def _normalised(p: Array) -> Array:
    """Return the shares of each row; a row of zeros stays one."""
    total = p.sum(axis=1, keepdims=True)
    return np.asarray(np.divide(p, total, out=p.copy(), where=total != 0))


LINKS: dict[str, Callable[[Array], Array]] = {
    "identity": lambda m: m,
    "sigmoid": _sigmoid,
    "sigmoid-each": _sigmoid,  # one against all: probabilities that need not sum to 1
    "sigmoid-by-target": _sigmoid,  # several targets of two classes
    "softmax": _softmax,
    "sigmoid-normalised": lambda m: _normalised(_sigmoid(m)),  # one against the rest, made to sum to 1
    "exp": np.exp,
    "expm1": np.expm1,
    "log1p-exp": lambda m: np.logaddexp(m.dtype.type(0), m),
    "signed-square": lambda m: np.sign(m) * m * m,
    "hinge": lambda m: (m > 0).astype(m.dtype),
    "mean-variance": lambda m: np.column_stack([m[:, 0], np.exp(2 * m[:, 1])]),  # the mean and the log of the standard deviation
    "probability": lambda m: m,  # the margin is a probability already (forests of class frequencies)
    "normalised": _normalised,  # a probability of each class against the rest, made to sum to 1
    "isolation": lambda m: -(2.0**-m),  # the anomaly score of a path length
    "partition": lambda m: m,  # leaves that mean nothing: no prediction
}
"""Name to function of the (n, n_outputs) margins."""

OF_CLASSES = (
    "probability", "normalised", "softmax", "sigmoid", "sigmoid-normalised", "sigmoid-each", "sigmoid-by-target",
)  # fmt: skip
"""Links that give probabilities of classes."""

EACH = ("sigmoid-each", "sigmoid-by-target")
"""Links of outputs that are probabilities each on its own; of several labels, and of several targets (probabilities in pairs)."""


def squeeze(margin: NDArray[Any]) -> NDArray[Any]:
    """Return (n,) for one output, else the (n, n_outputs) array itself."""
    return margin[:, 0] if margin.shape[1] == 1 else margin


def apply_link(forest: Outcome, margin: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the link of the (n, n_outputs) margins, computed in ``forest.sum_dtype``."""
    if forest.link == "partition":
        raise UnsupportedModelError.expected(
            "a model that predicts", f"a partition of the rows alone ({forest.framework})", "use apply(), kpp() or a smoother"
        )
    with np.errstate(over="ignore"):
        return LINKS[forest.link](_scaled(forest, margin.astype(forest.sum_dtype))).astype(np.float64)


def _scaled(forest: Outcome, margin: Array) -> Array:
    """Return the margins times the scale of the link; isolation forests divide, and the last bit decides at their offset."""
    scale = np.dtype(forest.sum_dtype).type(forest.link_scale)
    if forest.link != "isolation":
        return np.asarray(margin * scale)
    return np.asarray(np.divide(margin, scale, out=np.ones_like(margin), where=scale != 0))


def score_samples(forest: Outcome, margin: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the (n,) anomaly scores of an outlier detector.

    Raises
    ------
    UnsupportedModelError
        If the model is none.
    """
    if forest.task != "outlier":
        raise UnsupportedModelError.expected(
            "an outlier detector", f"a model for {forest.task} ({forest.framework})", "use predict() or margin()"
        )
    return apply_link(forest, margin)[:, 0]


def predict_proba(forest: Outcome, margin: NDArray[np.float64]) -> NDArray[np.float64] | list[NDArray[np.float64]]:
    """Return class probabilities from (n, n_outputs) margins.

    Raises
    ------
    UnsupportedModelError
        If the model does not predict classes or has no probabilities (hinge loss).
    """
    if forest.task not in ("binary", "multiclass", "multi-output") or forest.link not in OF_CLASSES:
        raise UnsupportedModelError.expected(
            "a classifier with probabilities",
            f"a model for {forest.task} with link {forest.link!r} ({forest.framework})",
            "use predict() or margin()",
        )
    p = apply_link(forest, margin)
    if forest.classes is not None and len(forest.classes) > 1 and forest.link == "sigmoid-by-target":
        return [np.column_stack([1 - p[:, k], p[:, k]]) for k in range(p.shape[1])]
    if forest.classes is not None and len(forest.classes) > 1 and forest.link not in EACH:
        edges = np.cumsum([0, *(len(c) for c in forest.classes)])
        return [p[:, a:b] for a, b in pairwise(edges)]
    return np.column_stack([1 - p[:, 0], p[:, 0]]) if p.shape[1] == 1 else p


def predict(forest: Outcome, margin: NDArray[np.float64]) -> NDArray[Any]:
    """Return the framework's ``predict`` from (n, n_outputs) margins."""
    if forest.task == "outlier":
        return np.where(apply_link(forest, margin)[:, 0] - forest.offset < 0, -1, 1)
    if forest.classes is None:
        return squeeze(apply_link(forest, margin))
    if len(forest.classes) > 1 and forest.link in EACH:  # several labels a row: one probability each
        p = apply_link(forest, margin)
        second = p >= 0.5 if forest.ties_to_last else p > 0.5
        return np.column_stack([c[second[:, k].astype(int)] for k, c in enumerate(forest.classes)])
    if len(forest.classes) > 1:
        edges = np.cumsum([0, *(len(c) for c in forest.classes)])
        chosen = [c[margin[:, a:b].argmax(axis=1)] for c, a, b in zip(forest.classes, edges[:-1], edges[1:], strict=True)]
        return np.column_stack(chosen)
    classes = forest.classes[0]
    if forest.n_outputs > 1:
        return np.asarray(classes[_decision(forest, margin).argmax(axis=1)])
    return np.asarray(classes[_positive(forest, margin[:, 0]).astype(int)])


def _decision(forest: Outcome, margin: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return what the framework takes the argmax of: probabilities, where they can tie although margins do not."""
    by_link = forest.sum_dtype == "float32" or forest.link in ("sigmoid-each", "sigmoid-normalised", "normalised")
    return apply_link(forest, margin) if by_link else margin


def _positive(forest: Outcome, margin: NDArray[np.float64]) -> NDArray[np.bool_]:
    if forest.link in ("sigmoid", "probability"):
        p = apply_link(forest, margin[:, None])[:, 0]
        return p >= 0.5 if forest.ties_to_last else p > 0.5
    return margin >= 0 if forest.ties_to_last else margin > 0
