"""What the compressors that train nets share: standardised inputs, and the student from trained nets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treespec.distill.columns import fit_columns
from treespec.distill.data import DistillData
from treespec.ir import Forest
from treespec.students.fold import Net, fold_output, store
from treespec.students.mlp import MLPStudent, Precision
from treespec.students.outcome import Outcome
from treespec.students.preprocess import Preprocess

Array = NDArray[np.float64]
_TINY = 1e-9


@dataclass(frozen=True, eq=False)
class Inputs:
    """Rows as nets see them.

    Attributes
    ----------
    preprocess : Preprocess
    values : (n, d) float32
        Standardised.
    mean, sd : (d,) arrays
    """

    preprocess: Preprocess
    values: NDArray[np.float32]
    mean: Array
    sd: Array


def prepare(forest: Forest, data: DistillData, budget: int) -> Inputs:
    """Return standardised inputs of all rows; columns and scaling are fitted on all rows (no label is looked at)."""
    preprocess = fit_columns(forest, data.rows.X, budget, drawn=data.drawn)
    raw = preprocess(data.rows.X, Outcome.of(forest)).astype(np.float64)
    finite = np.where(np.isfinite(raw), raw, np.nan)
    with np.errstate(invalid="ignore"):
        mean = np.nan_to_num(np.nanmean(finite, axis=0)) if len(raw) else np.zeros(raw.shape[1])
        sd = np.nan_to_num(np.nanstd(finite, axis=0)) if len(raw) else np.ones(raw.shape[1])
    sd = np.where(sd > _TINY * np.maximum(np.abs(mean), 1e-30), sd, 1.0)
    values = np.clip((raw - mean) / sd, -_FAR, _FAR)
    return Inputs(preprocess, values.astype(np.float32), mean, sd)


_FAR = 1e4  # standard deviations: an outlier beyond tells a net nothing more and must not swamp its training


@dataclass(frozen=True)
class Output:
    """How a net's outputs become the student's: ``(output @ matrix) * scale + shift``."""

    head: str
    scale: Array
    shift: Array
    matrix: Array | None = None


def build(forest: Forest, inputs: Inputs, nets: Sequence[Net], output: Output, precision: Precision) -> MLPStudent:
    """Return the student that averages the nets, with everything linear folded in."""
    folded = [fold_output(net, output.scale, output.shift, output.matrix) for net in nets]
    exponent, members = store(folded, inputs.mean, inputs.sd, precision)
    return MLPStudent(Outcome.of(forest), inputs.preprocess, exponent, members, output.head, precision)


def forward(net: Net, values: NDArray[np.floating[Any]]) -> Array:
    """Return the (n, k) outputs of a trained net on standardised inputs."""
    h = values.astype(np.float64)
    for k, (weight, bias) in enumerate(net):
        if k:
            h = h / (1 + np.exp(-np.clip(h, -500, 500)))
        h = h @ weight.T + bias
    return h
