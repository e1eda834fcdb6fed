"""Losses against finite differences, and Newton's method with the curvature that they give."""

import numpy as np
import pytest

from treespec.kpp.losses import Huber, Logistic, Pinball, Softmax

rng = np.random.default_rng(0)
WEIGHT = rng.random(6) + 0.1
Y = rng.normal(size=(6, 1)) * 2
LOSSES = {
    "logistic": (Logistic(np.array([1.0, -1, 1, 1, -1, -1]), WEIGHT), 1),
    "softmax": (Softmax(np.eye(3)[[0, 1, 2, 2, 1, 0]], WEIGHT), 3),
    "huber": (Huber(Y, WEIGHT, 1.0), 1),
    "pinball": (Pinball(Y, WEIGHT, 0.3, 1.0), 1),
}


@pytest.mark.parametrize("name", sorted(LOSSES))
def test_slope_and_curvature_are_derivatives(name):
    loss, k = LOSSES[name]
    score, direction = rng.normal(size=(6, k)), rng.normal(size=(6, k))
    h = 1e-6
    slope = (loss.value(score + h * direction) - loss.value(score - h * direction)) / (2 * h)
    np.testing.assert_allclose((loss.slope(score) * direction).sum(), slope, rtol=1e-6)
    product, diagonal = loss.curvature(score)
    bend = (loss.slope(score + h * direction) - loss.slope(score - h * direction)) / (2 * h)
    np.testing.assert_allclose(product(direction), bend, rtol=1e-4, atol=3e-4)  # straight pieces are bent by 1e-4
    for j in range(k):
        unit = np.zeros((6, k))
        unit[:, j] = 1
        np.testing.assert_allclose(product(unit)[:, j], diagonal[:, j], rtol=1e-12)


def test_the_rounded_pinball_is_close_below_the_exact_one():
    loss = Pinball(Y, WEIGHT, 0.3, 0.5)
    score = rng.normal(size=(6, 1))
    assert 0 <= loss.exact(score) - loss.value(score) <= 0.5 * 0.7**2 / 2 * WEIGHT.sum()
