"""Convex losses of a linear score, as Newton's method needs them: value, slope and curvature."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logsumexp

Array = NDArray[np.float64]
_FLAT = 1e-4  # curvature of straight pieces, relative to round ones: keeps the intercept's Newton step finite where all are straight

Curvature = Callable[[Array], Array]


class Loss(Protocol):
    """A convex loss, summed over rows (with their weights), of scores (n, k)."""

    def value(self, score: Array) -> float:
        """Return the loss."""
        ...

    def slope(self, score: Array) -> Array:
        """Return its (n, k) gradient in the scores."""
        ...

    def curvature(self, score: Array) -> tuple[Curvature, Array]:
        """Return its Hessian in the scores, as a product with (n, k) arrays, and the (n, k) diagonal."""
        ...


class Logistic:
    """``sum w log(1 + exp(-y g))`` for y in {-1, +1} (section 3.4).

    Parameters
    ----------
    sign : (n,) array of -1 and +1
    weight : (n,) array
        1 / n each for the mean loss.
    """

    def __init__(self, sign: Array, weight: Array) -> None:
        self.sign, self.weight = sign[:, None], weight[:, None]

    def value(self, score: Array) -> float:
        """Return the loss."""
        return float((self.weight * np.logaddexp(0.0, -self.sign * score)).sum())

    def slope(self, score: Array) -> Array:
        """Return its gradient."""
        return np.asarray(-self.weight * self.sign * expit(-self.sign * score))

    def curvature(self, score: Array) -> tuple[Curvature, Array]:
        """Return its Hessian."""
        d = np.asarray(self.weight * expit(score) * expit(-score))
        return (lambda V: d * V), d


class Softmax:
    """``sum w (logsumexp(g) - g_y)`` for class numbers y.

    Parameters
    ----------
    one_hot : (n, k) array
    weight : (n,) array
    """

    def __init__(self, one_hot: Array, weight: Array) -> None:
        self.one_hot, self.weight = one_hot, weight[:, None]

    def value(self, score: Array) -> float:
        """Return the loss."""
        lost = logsumexp(score, axis=1, keepdims=True) - (self.one_hot * score).sum(axis=1, keepdims=True)
        return float((self.weight * lost).sum())

    def _probability(self, score: Array) -> Array:
        e = np.exp(score - score.max(axis=1, keepdims=True))
        return np.asarray(e / e.sum(axis=1, keepdims=True))

    def slope(self, score: Array) -> Array:
        """Return its gradient."""
        return np.asarray(self.weight * (self._probability(score) - self.one_hot))

    def curvature(self, score: Array) -> tuple[Curvature, Array]:
        """Return its Hessian."""
        p, w = self._probability(score), self.weight
        return (lambda V: w * p * (V - (p * V).sum(axis=1, keepdims=True))), np.asarray(w * p * (1 - p))


class Huber:
    """``sum w r^2`` up to ``|r| = width``, then straight on: ``2 width |r| - width^2``, with r = y - g.

    Parameters
    ----------
    y : (n, k) array
    weight : (n,) array
    width : float
    """

    def __init__(self, y: Array, weight: Array, width: float) -> None:
        self.y, self.weight, self.width = y, weight[:, None], width

    def value(self, score: Array) -> float:
        """Return the loss."""
        r = np.abs(self.y - score)
        inner = np.minimum(r, self.width)
        return float((self.weight * inner * (2 * r - inner)).sum())

    def slope(self, score: Array) -> Array:
        """Return its gradient."""
        return np.asarray(2 * self.weight * np.clip(score - self.y, -self.width, self.width))

    def curvature(self, score: Array) -> tuple[Curvature, Array]:
        """Return its (generalised) Hessian."""
        d = np.asarray(2 * self.weight * np.where(np.abs(score - self.y) <= self.width, 1.0, _FLAT))
        return (lambda V: d * V), d


class Pinball:
    """``sum w rho(y - g)`` with ``rho(r) = max(level r, (level - 1) r)``, its kink rounded over ``width`` (Moreau envelope).

    Parameters
    ----------
    y : (n, k) array
    weight : (n,) array
    level : float
    width : float
        The rounded loss is at most ``width max(level, 1 - level)^2 / 2`` below the pinball loss.
    """

    def __init__(self, y: Array, weight: Array, level: float, width: float) -> None:
        self.y, self.weight, self.level, self.width = y, weight[:, None], level, width

    def dual(self, score: Array) -> Array:
        """Return the (n, k) slopes of the rounded rho in r, within [level - 1, level]."""
        return np.clip((self.y - score) / self.width, self.level - 1, self.level)

    def value(self, score: Array) -> float:
        """Return the loss."""
        a = self.dual(score)
        return float((self.weight * (a * (self.y - score) - self.width * a * a / 2)).sum())

    def exact(self, score: Array) -> float:
        """Return the pinball loss itself."""
        r = self.y - score
        return float((self.weight * np.maximum(self.level * r, (self.level - 1) * r)).sum())

    def slope(self, score: Array) -> Array:
        """Return its gradient."""
        return np.asarray(-self.weight * self.dual(score))

    def curvature(self, score: Array) -> tuple[Curvature, Array]:
        """Return its (generalised) Hessian."""
        z = (self.y - score) / self.width
        d = np.asarray(self.weight / self.width * np.where((z > self.level - 1) & (z < self.level), 1.0, _FLAT))
        return (lambda V: d * V), d
