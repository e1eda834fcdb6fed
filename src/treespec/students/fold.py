"""From trained weights to the layers of an `MLPStudent`: scaling is folded in, then weights are rounded."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from treespec.students.mlp import Layer, Member, Precision, bias_type, has_scale

Array = NDArray[np.floating]
Net = list[tuple[NDArray[np.float64], NDArray[np.float64]]]
"""Weights (n_out, n_in) and biases (n_out,) of each layer, on standardised inputs and outputs."""

_MAX_EXPONENT = 126


def fold_output(net: Net, scale: Array, shift: Array, matrix: Array | None = None) -> Net:
    """Return the net with ``output * scale + shift`` folded in; with ``matrix`` (n_out, k) the output is multiplied by it first."""
    weight, bias = net[-1]
    if matrix is not None:
        weight, bias = matrix.T @ weight, matrix.T @ bias
    return [*net[:-1], (weight * scale[:, None], bias * scale + shift)]


def store(nets: Sequence[Net], mean: Array, sd: Array, precision: Precision) -> tuple[NDArray[np.int8], list[Member]]:
    """Return the exponents of the inputs and the stored members of nets that expect ``(x - mean) / sd``.

    Parameters
    ----------
    nets : sequence of Net
    mean, sd : (n_inputs,) arrays
    precision : {"float32", "float16", "int8"}

    Returns
    -------
    exponent : (n_inputs,) int8
        The net gets ``x * 2 ** exponent``.
    members : list of tuple of Layer
    """
    exponent = np.zeros(len(sd), np.int8)
    if precision != "float32":
        exponent = np.clip(-np.round(np.log2(sd)), -_MAX_EXPONENT, _MAX_EXPONENT).astype(np.int8)
    factor = np.ldexp(1.0, exponent.astype(int))
    return exponent, [_member(net, mean, sd, factor, precision) for net in nets]


def _member(net: Net, mean: Array, sd: Array, factor: Array, precision: Precision) -> Member:
    layers = []
    n_layers = len(net)
    for k, (weight, bias) in enumerate(net):
        scaled = has_scale(precision, k, n_layers)
        if k == 0:
            stored, scale = _round(weight / (sd * factor), precision, scaled=scaled)
            rounded = stored.astype(np.float64) if scale is None else stored.astype(np.float64) * scale.astype(np.float64)[:, None]
            bias = bias - rounded @ (mean * factor)  # noqa: PLW2901 -- from the rounded weights, so that large means do not magnify rounding
        else:
            stored, scale = _round(weight, precision, scaled=scaled)
        layers.append(Layer(stored, scale, bias.astype(bias_type(precision, k, n_layers))))
    return tuple(layers)


def _round(weight: Array, precision: Precision, *, scaled: bool) -> tuple[NDArray[np.generic], NDArray[np.float32] | None]:
    """Return weights of the precision, and what each row is multiplied by."""
    if not scaled:
        largest = float(np.finfo(precision).max)
        return np.clip(weight, -largest, largest).astype(precision), None
    top = 127.0 if precision == "int8" else 1.0
    scale = (np.abs(weight).max(axis=1, initial=0.0) / top).astype(np.float32)
    share = weight / np.where(scale > 0, scale, 1).astype(np.float64)[:, None]
    return (np.clip(np.round(share), -127, 127).astype(np.int8) if precision == "int8" else share.astype(np.float16)), scale
