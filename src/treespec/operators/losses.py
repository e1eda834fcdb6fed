"""The losses that boosters descend, with the derivatives that a tangent walk needs.

Every function takes margins F and labels y of shape (n, K), and directions of shape (n, K, k).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from treespec.operators.base import Array


class Loss(Protocol):
    """Gradient and hessian of a loss by the margin, as a framework computes them, and how they change with margin and label."""

    def terms(self, F: Array, y: Array) -> tuple[Array, Array]:
        """Return gradient g and hessian h, (n, K)."""
        ...

    def forward(self, F: Array, y: Array, dF: Array, dy: Array) -> tuple[Array, Array]:
        """Return the directional derivatives dg and dh, (n, K, k)."""
        ...

    def backward(self, F: Array, y: Array, g_bar: Array, h_bar: Array) -> tuple[Array, Array]:
        """Return the transpose of `forward`: F_bar and y_bar, (n, K, k)."""
        ...

    def mean(self, F: Array, dF: Array) -> Array:
        """Return the directional derivative (n, K, k) of what the margins predict for y: a value, rate or probability."""
        ...


@dataclass(frozen=True)
class Squared:
    """``(F - y)^2 / 2``."""

    def terms(self, F: Array, y: Array) -> tuple[Array, Array]:
        """See `Loss`."""
        return F - y, np.ones_like(F)

    def forward(self, F: Array, y: Array, dF: Array, dy: Array) -> tuple[Array, Array]:  # noqa: ARG002
        """See `Loss`."""
        return dF - dy, np.zeros_like(dF)

    def backward(self, F: Array, y: Array, g_bar: Array, h_bar: Array) -> tuple[Array, Array]:  # noqa: ARG002
        """See `Loss`."""
        return g_bar, -g_bar

    def mean(self, F: Array, dF: Array) -> Array:  # noqa: ARG002
        """See `Loss`."""
        return dF


@dataclass(frozen=True)
class Logistic:
    """Log loss of labels in [0, 1] and the probability ``1 / (1 + exp(-scale F))``; hessians are at least ``floor``."""

    scale: float = 1.0
    floor: float = 0.0

    def _curvature(self, F: Array) -> tuple[Array, Array]:
        p = 1 / (1 + np.exp(-self.scale * F))
        return p, p * (1 - p)

    def terms(self, F: Array, y: Array) -> tuple[Array, Array]:
        """See `Loss`."""
        p, q = self._curvature(F)
        return self.scale * (p - y), np.maximum(self.scale**2 * q, self.floor)

    def forward(self, F: Array, y: Array, dF: Array, dy: Array) -> tuple[Array, Array]:  # noqa: ARG002
        """See `Loss`."""
        p, q = self._curvature(F)
        dp = (self.scale * q)[..., None] * dF
        return self.scale * (dp - dy), (self._slope(p, q))[..., None] * dp

    def backward(self, F: Array, y: Array, g_bar: Array, h_bar: Array) -> tuple[Array, Array]:  # noqa: ARG002
        """See `Loss`."""
        p, q = self._curvature(F)
        p_bar = self.scale * g_bar + self._slope(p, q)[..., None] * h_bar
        return (self.scale * q)[..., None] * p_bar, -self.scale * g_bar

    def _slope(self, p: Array, q: Array) -> Array:
        """Return dh / dp: 0 where the hessian is at its floor."""
        return np.where(self.scale**2 * q > self.floor, self.scale**2 * (1 - 2 * p), 0.0)

    def mean(self, F: Array, dF: Array) -> Array:
        """See `Loss`."""
        return (self.scale * self._curvature(F)[1])[..., None] * dF


@dataclass(frozen=True)
class Softmax:
    """Log loss of K classes; hessians are ``factor p (1 - p)``, at least ``floor``."""

    factor: float = 1.0
    floor: float = 0.0

    @staticmethod
    def _p(F: Array) -> Array:
        e = np.exp(F - F.max(axis=1, keepdims=True))
        return np.asarray(e / e.sum(axis=1, keepdims=True))

    def terms(self, F: Array, y: Array) -> tuple[Array, Array]:
        """See `Loss`."""
        p = self._p(F)
        return p - y, np.maximum(self.factor * p * (1 - p), self.floor)

    def forward(self, F: Array, y: Array, dF: Array, dy: Array) -> tuple[Array, Array]:  # noqa: ARG002
        """See `Loss`."""
        p = self._p(F)[..., None]
        dp = p * (dF - (p * dF).sum(axis=1, keepdims=True))
        return dp - dy, self._slope(p) * dp

    def backward(self, F: Array, y: Array, g_bar: Array, h_bar: Array) -> tuple[Array, Array]:  # noqa: ARG002
        """See `Loss`."""
        p = self._p(F)[..., None]
        p_bar = g_bar + self._slope(p) * h_bar
        return p * (p_bar - (p * p_bar).sum(axis=1, keepdims=True)), -g_bar

    def _slope(self, p: Array) -> Array:
        return np.where(self.factor * p * (1 - p) > self.floor, self.factor * (1 - 2 * p), 0.0)

    def mean(self, F: Array, dF: Array) -> Array:
        """See `Loss`."""
        p = self._p(F)[..., None]
        return np.asarray(p * (dF - (p * dF).sum(axis=1, keepdims=True)))


@dataclass(frozen=True)
class Poisson:
    """``exp(F) - y F``; hessians are ``exp(F + delta)``."""

    delta: float = 0.0

    def terms(self, F: Array, y: Array) -> tuple[Array, Array]:
        """See `Loss`."""
        return np.exp(F) - y, np.exp(F + self.delta)

    def forward(self, F: Array, y: Array, dF: Array, dy: Array) -> tuple[Array, Array]:  # noqa: ARG002
        """See `Loss`."""
        rate = np.exp(F)[..., None]
        return rate * dF - dy, rate * np.exp(self.delta) * dF

    def backward(self, F: Array, y: Array, g_bar: Array, h_bar: Array) -> tuple[Array, Array]:  # noqa: ARG002
        """See `Loss`."""
        rate = np.exp(F)[..., None]
        return rate * (g_bar + np.exp(self.delta) * h_bar), -g_bar

    def mean(self, F: Array, dF: Array) -> Array:
        """See `Loss`."""
        return np.exp(F)[..., None] * dF


@dataclass(frozen=True)
class Exponential:
    """``(1 - y) exp(F) + y exp(-F)``: scikit-learn's AdaBoost loss of labels in [0, 1]."""

    def terms(self, F: Array, y: Array) -> tuple[Array, Array]:
        """See `Loss`."""
        up, down = np.exp(F), np.exp(-F)
        return (1 - y) * up - y * down, (1 - y) * up + y * down

    def forward(self, F: Array, y: Array, dF: Array, dy: Array) -> tuple[Array, Array]:
        """See `Loss`."""
        g, h = self.terms(F, y)
        up, down = np.exp(F), np.exp(-F)
        return h[..., None] * dF - (up + down)[..., None] * dy, g[..., None] * dF + (down - up)[..., None] * dy

    def backward(self, F: Array, y: Array, g_bar: Array, h_bar: Array) -> tuple[Array, Array]:
        """See `Loss`."""
        g, h = self.terms(F, y)
        up, down = np.exp(F), np.exp(-F)
        return h[..., None] * g_bar + g[..., None] * h_bar, (down - up)[..., None] * h_bar - (up + down)[..., None] * g_bar

    def mean(self, F: Array, dF: Array) -> Array:
        """See `Loss`; the margin is half the log odds."""
        return (0.5 / np.cosh(F) ** 2)[..., None] * dF
