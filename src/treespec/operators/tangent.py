"""The tangent of a booster of any smooth loss: how its margins change with the training labels while the trees keep their splits."""

from __future__ import annotations

from copy import copy
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from treespec.operators import rowwise
from treespec.operators.base import Array, Operator, frozen
from treespec.operators.leaf import LeafIncidence, sum_by_leaf
from treespec.operators.losses import Loss
from treespec.operators.smoother import Router
from treespec.operators.trace import Trace, trace_of
from treespec.operators.walk import WalkSmoother

_SMALLEST = 1e-150  # a leaf of less curvature takes the value 0, as in scikit-learn


class BoostingTangent(WalkSmoother):
    """The Jacobian ``J = d margin / d y`` of a booster, the initial score and the structure of its trees held fixed.

    A leaf takes the Newton step ``v = -T(G) / (H + ridge)``, G and H the weighted sums of gradients and hessians of its rows, T the
    soft threshold by ``alpha``; the margin moves by ``eta v``. Forward, ``dv = -(free / (H + ridge)) (sum w dg + v sum w dh)``, free = 0
    where the leaf is clipped or thresholded to 0; backward, the transpose, rounds in reverse. For squared loss J is the smoother S.

    Parameters
    ----------
    Z : LeafIncidence (n, n_leaves)
        Entries: row weights times masks.
    y : (n, K) array
        Labels: values, or indicators of classes.
    loss : Loss
    output_of : (n_trees,) integer array
        The column of the margin that each tree adds to.
    round_of : (n_trees,) integer array
        Trees of one round see the same margins.
    initial : (K,) array
    eta : float
    ridge : float or (n_leaves,) array
    alpha : float
    clip : float
        Largest magnitude of a leaf before eta.
    route : callable, optional
        ``route(X_new)`` returns the incidence of new rows: a row for each row and output, over the trees of that output.
    exactness : float

    Attributes
    ----------
    margin : (n, K) array
        The replayed margins.

    Notes
    -----
    With K outputs the operator is (n K, n K), rows and columns ordered by row, then output. A product with k columns costs
    O(n * n_trees * k) time and a few (n, K, k) arrays.
    """

    def __init__(
        self,
        Z: LeafIncidence,
        y: NDArray[Any],
        loss: Loss,
        *,
        output_of: NDArray[np.integer[Any]],
        round_of: NDArray[np.integer[Any]],
        initial: NDArray[Any],
        eta: float,
        ridge: NDArray[Any] | float = 0.0,
        alpha: float = 0.0,
        clip: float = np.inf,
        route: Router | None = None,
        exactness: float = float("nan"),
    ) -> None:
        self.n_outputs = y.shape[1]
        super().__init__(y.shape[0] * self.n_outputs, Z.shape[1], route=route, exactness=exactness)
        self.Z, self.loss, self.eta = Z, loss, float(eta)
        self.y, self.initial = frozen(np.array(y, dtype=np.float64)), frozen(np.array(initial, dtype=np.float64))
        self._output = np.asarray(output_of).tolist()
        self._reached = Z.plain() if self.n_outputs == 1 else by_output(Z.leaf_index(), Z.shape[1], self._output)
        self._rounds = [np.flatnonzero(round_of == r).tolist() for r in np.unique(round_of)]
        self._ridge = frozen(np.array(np.broadcast_to(np.asarray(ridge, dtype=np.float64), Z.shape[1])))
        self._alpha, self._clip = float(alpha), float(clip)
        self._fit()

    def refit(self, y: NDArray[Any]) -> BoostingTangent:
        """Return the tangent of the same trees with leaf values refitted to the labels ``y`` (n, K).

        Splits, initial score and weights stay: what the model would be if other labels had grown the same trees. ``refit(y).margin``
        are its margins of the training rows, ``refit(y).predict(X_new)`` those of others.
        """
        new = copy(self)
        new.y = frozen(np.array(y, dtype=np.float64).reshape(self.y.shape))
        new.exactness = float("nan")
        new._fit()
        return new

    @property
    def leaf_value(self) -> Array:
        """(n_leaves,) what a leaf adds to the margin: the replayed values, step length included."""
        return self.eta * self._value

    def predict(self, X_new: Any) -> Array:
        """Return the (m, K) margins of new rows from the replayed leaf values."""
        reached = self.cross(X_new).Z_new.matvec(self.leaf_value)
        return self.initial + reached.reshape(-1, self.n_outputs)

    def _fit(self) -> None:
        """Replay the model: margins, and for each leaf its value and what a change of its sums does to it."""
        ridge, alpha, clip = self._ridge, self._alpha, self._clip
        value, factor = np.zeros(self.n_leaves), np.zeros(self.n_leaves)
        F = np.tile(self.initial, (len(self.y), 1))
        for trees in self._rounds:
            g, h = self.loss.terms(F, self.y)
            for t in trees:
                low, width, local = self.Z.tree(t)
                c, leaves = self._output[t], slice(low, low + width)
                G = sum_by_leaf(local, g[:, c : c + 1], width, self._entries(t))[:, 0]
                H = sum_by_leaf(local, h[:, c : c + 1], width, self._entries(t))[:, 0]
                curved = H > _SMALLEST
                inverse = np.divide(1.0, H + ridge[leaves], out=np.zeros(width), where=curved)
                raw = -np.sign(G) * np.maximum(np.abs(G) - alpha, 0.0) * inverse
                free = (np.abs(raw) < clip) & ((np.abs(G) > alpha) | (alpha == 0))
                value[leaves] = np.clip(raw, -clip, clip)
                factor[leaves] = -self.eta * inverse * free
            self._step(F, trees, self.eta * value)
        self._value, self._factor, self.margin = frozen(value), frozen(factor), frozen(F)

    def _entries(self, t: int) -> NDArray[Any] | None:
        entries = self.Z.entries()
        return None if entries is None else entries[t]

    def _step(self, F: Array, trees: list[int], value: Array) -> None:
        """Add leaf values to the margins (n, K), in place."""
        for t in trees:
            low, width, local = self.Z.tree(t)
            F[:, self._output[t]] += value[low : low + width].take(local)

    def _columns(self, V: NDArray[Any]) -> Array:
        """Return V (n K, k) as an (n, K, k) copy."""
        return np.array(V, dtype=np.float64).reshape(len(self.y), self.n_outputs, -1)

    def leaf_values(self, V: NDArray[Any]) -> Array:
        """Return the (n_leaves, k) changes of leaf values, step length included, for the label changes V (n K, k)."""
        dy = self._columns(V)
        dF = np.zeros_like(dy)
        out = np.zeros((self.n_leaves, dy.shape[2]))
        F = np.tile(self.initial, (len(self.y), 1))
        for trees in self._rounds:
            dg, dh = self.loss.forward(F, self.y, dF, dy)
            for t in trees:
                low, width, local = self.Z.tree(t)
                c, leaves = self._output[t], slice(low, low + width)
                change = dg[:, c] + self._value[leaves].take(local)[:, None] * dh[:, c]
                out[leaves] = self._factor[leaves, None] * sum_by_leaf(local, np.ascontiguousarray(change), width, self._entries(t))
            for t in trees:
                low, width, local = self.Z.tree(t)
                dF[:, self._output[t]] += out[low : low + width].take(local, axis=0)
            self._step(F, trees, self.eta * self._value)
        return out

    def leaf_values_adjoint(self, G: NDArray[Any]) -> Array:
        """Return the transpose of `leaf_values` times G (n_leaves, k): (n K, k)."""
        n, k = len(self.y), G.shape[1]
        F_bar, y_bar = np.zeros((n, self.n_outputs, k)), np.zeros((n, self.n_outputs, k))
        F = self.margin.copy()
        for trees in reversed(self._rounds):
            self._step(F, trees, -self.eta * self._value)
            g_bar, h_bar = np.zeros_like(F_bar), np.zeros_like(F_bar)
            for t in trees:
                low, width, local = self.Z.tree(t)
                c, leaves = self._output[t], slice(low, low + width)
                at_leaf = self._factor[leaves, None] * (G[leaves] + sum_by_leaf(local, np.ascontiguousarray(F_bar[:, c]), width))
                at_row = at_leaf.take(local, axis=0)
                entries = self._entries(t)
                if entries is not None:
                    at_row *= entries[:, None]
                g_bar[:, c] += at_row
                h_bar[:, c] += self._value[leaves].take(local)[:, None] * at_row
            more_F, more_y = self.loss.backward(F, self.y, g_bar, h_bar)
            F_bar += more_F
            y_bar += more_y
        return y_bar.reshape(n * self.n_outputs, k)

    def _forward(self, V: Array) -> Array:
        return self._reached.matmat(self.leaf_values(V))

    def _backward(self, U: Array) -> Array:
        return self.leaf_values_adjoint(self._reached.rmatmat(U))

    def label_weights(self, X_new: Any, output: NDArray[np.integer[Any]], top: int | None = None) -> csr_array:
        """Return the (m, n) derivatives of one margin of each new row by the training labels, read as indicators of the same output.

        Entry (j, i): how the margin ``output[j]`` of new row j moves when training row i is more of that class (of a value, rate: when
        it is larger). One backward walk a new row, in blocks.

        Parameters
        ----------
        X_new : array-like of shape (m, n_features)
        output : (m,) integer array
        top : int or None
            Keep the largest of each row.
        """
        cross = self.cross(X_new)
        K, n, m = self.n_outputs, len(self.y), cross.shape[0] // self.n_outputs
        reached = cross.Z_new.leaf_index()[np.arange(m) * K + output]

        def rows(block: slice) -> Array:
            one = LeafIncidence(reached[block], self.n_leaves)
            count = one.shape[0]
            walked = self.leaf_values_adjoint(one.rmatmat(np.eye(count))).reshape(n, K, count)
            return np.asarray(walked[:, output[block], np.arange(count)].T)

        return rowwise.largest(rows, (m, n), top)

    def degrees_of_freedom(self, *, probes: int | None = None, random_state: int = 0) -> Trace:
        """Return the effective degrees of freedom ``Tr(d mean / d y)`` of the fitted values, rates or probabilities.

        ``trace()`` is that of the margins, which live on another scale than the labels; for squared loss the two are the same. (Of a
        logistic regression this trace is the number of its coefficients.) Exact or estimated as `trace`.
        """
        return trace_of(_Mean(self), probes=probes, random_state=random_state)

    def norm(self, *, steps: int = 20, random_state: int = 0) -> float:
        """Return the largest singular value, from below, by ``steps`` power iterations (two walks each)."""
        v = np.random.default_rng(random_state).standard_normal((self.shape[1], 1))
        size = 0.0
        for _ in range(steps):
            v /= np.linalg.norm(v) or 1.0
            v = self.rmatmat(self.matmat(v))
            size = float(np.sqrt(np.linalg.norm(v)))
        return size


class _Mean(Operator):
    """The Jacobian (n K, n K) of what the margins predict, by the labels."""

    def __init__(self, tangent: BoostingTangent) -> None:
        super().__init__(tangent.shape)
        self._tangent = tangent

    def _forward(self, V: Array) -> Array:
        tangent = self._tangent
        moved = tangent.matmat(V).reshape(*tangent.margin.shape, -1)
        return tangent.loss.mean(tangent.margin, moved).reshape(V.shape)

    def _backward(self, U: Array) -> Array:
        tangent = self._tangent
        back = tangent.loss.mean(tangent.margin, U.reshape(*tangent.margin.shape, -1))  # d mean / d margin is symmetric
        return tangent.rmatmat(back.reshape(U.shape))


def by_output(leaf_index: NDArray[np.integer[Any]], n_leaves: int, output_of: list[int]) -> LeafIncidence:
    """Return the (m K, n_leaves) incidence with a row for each row and output, over the trees of that output, from (m, n_trees)."""
    output = np.asarray(output_of)
    K = int(output.max(initial=0)) + 1
    if K == 1:
        return LeafIncidence(leaf_index, n_leaves)
    trees = np.stack([np.flatnonzero(output == k) for k in range(K)])  # every output has the same number of trees
    return LeafIncidence(leaf_index[:, trees].reshape(len(leaf_index) * K, -1), n_leaves)
