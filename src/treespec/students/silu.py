"""SiLU and linear layers as float32 operations in a fixed order, which the C export repeats: both give the same bits."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Float32 = NDArray[np.float32]

LOWEST, HIGHEST = np.float32(-87), np.float32(88)
"""Arguments of the exponential are cut to this range, within which it neither overflows nor vanishes."""

PER_LN2 = np.float32(1 / np.log(2))
LN2_HIGH = np.float32(355 / 512)
"""So few bits that its products with whole numbers are exact."""
LN2_LOW = np.float32(np.log(2) - 355 / 512)
ROUND = np.float32(1.5 * 2**23)
"""Added and taken away, it rounds to a whole number."""
TAYLOR = tuple(np.float32(1 / f) for f in (5040, 720, 120, 24, 6, 2, 1, 1))

_BLOCK = 256  # rows at a time, so that a layer stays in the cache


def exponential(v: Float32) -> Float32:
    """Return exp(v) to 1e-7 relative, v cut to -87 and 88."""
    v = np.minimum(np.maximum(v, LOWEST), HIGHEST)
    n = (v * PER_LN2 + ROUND) - ROUND
    r = (v - n * LN2_HIGH) - n * LN2_LOW
    out = np.full_like(r, TAYLOR[0])
    for factor in TAYLOR[1:]:
        out = out * r + factor
    return np.asarray(out * ((n.astype(np.int32) + 127) << 23).view(np.float32))


def silu(h: Float32) -> Float32:
    """Return h / (1 + exp(-h))."""
    return np.asarray(h / (1 + exponential(-h)))


def linear(h: Float32, weight: Float32, scale: Float32 | None, bias: Float32) -> Float32:
    """Return a layer's (n_out, n) outputs for (n_in, n) inputs, added up input by input.

    Parameters
    ----------
    weight : (n_in, n_out, 1) float32
    scale, bias : (n_out, 1) float32
    """
    out = np.zeros((weight.shape[1], h.shape[1]), np.float32)
    product = np.empty_like(out)
    with np.errstate(over="ignore", under="ignore"):
        for row, column in zip(h, weight, strict=True):
            np.multiply(column, row, out=product)
            out += product
        if scale is not None:
            out *= scale
        out += bias
    return out


Dense = list[tuple[Float32, Float32 | None, Float32]]
"""Weight, scale and bias of each layer, as `linear` takes them."""


def forward(members: list[Dense], inputs: Float32) -> Float32:
    """Return the (n, k) sum of the outputs of several nets for (n, n_inputs) inputs.

    O(n * weights) time; some 100 kB besides the result.
    """
    out = np.zeros((len(inputs), members[0][-1][2].shape[0]), np.float32)
    for start in range(0, len(inputs), _BLOCK):
        rows = np.ascontiguousarray(inputs[start : start + _BLOCK].T)
        for member in members:
            h = rows
            for k, (weight, scale, bias) in enumerate(member):
                h = linear(silu(h) if k else h, weight, scale, bias)
            out[start : start + _BLOCK] += h.T
    return out
