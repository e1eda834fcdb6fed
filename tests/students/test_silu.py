"""SiLU and linear layers in float32: close to what they mean, and in an order that does not depend on the number of rows."""

from itertools import pairwise

import numpy as np
import pytest

from treespec.students.silu import HIGHEST, LOWEST, exponential, forward, linear, silu


def test_the_exponential_is_right_to_a_few_ulps():
    v = np.linspace(-87, 88, 200_001, dtype=np.float32)
    np.testing.assert_allclose(exponential(v), np.exp(v.astype(np.float64)), rtol=2.5e-7, atol=1e-38)
    assert exponential(np.zeros(1, np.float32))[0] == 1


def test_far_arguments_are_cut():
    far = np.array([-np.inf, -1e30, -200, 200, 1e30, np.inf], np.float32)
    np.testing.assert_array_equal(exponential(far), exponential(np.repeat(np.array([LOWEST, HIGHEST]), 3)))
    np.testing.assert_allclose(silu(far[1:5]), [0, 0, 200, 1e30], atol=1e-7)


def test_silu():
    h = np.linspace(-20, 20, 4001, dtype=np.float32)
    wide = h.astype(np.float64)
    np.testing.assert_allclose(silu(h), wide / (1 + np.exp(-wide)), rtol=1e-6)


@pytest.mark.parametrize("n", [1, 3, 255, 256, 257, 700])
def test_rows_are_predicted_alike_alone_and_together(n):
    rng = np.random.default_rng(0)
    shape = (5, 7, 2)
    nets = [
        [(rng.normal(size=(a, b, 1)).astype(np.float32), None, rng.normal(size=(b, 1)).astype(np.float32)) for a, b in pairwise(shape)]
        for _ in range(3)
    ]
    rows = rng.normal(size=(700, 5)).astype(np.float32)
    np.testing.assert_array_equal(forward(nets, rows[:n]), forward(nets, rows)[:n])


def test_a_layer_adds_input_by_input():
    big = np.float32(2**24)
    h, one = np.array([[big], [1], [1], [-big]], np.float32), np.ones((4, 1, 1), np.float32)
    out = linear(h, one, np.full((1, 1), 3, np.float32), np.full((1, 1), 5, np.float32))
    assert out[0, 0] == 5  # 1 is lost beside 2**24, twice
