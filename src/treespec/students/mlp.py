"""`MLPStudent`: one or several small SiLU nets, averaged; numpy alone.

Everything linear is folded: input scaling into the first layer, output scaling (and SCATE's map from spectral directions to the
prediction) into the last. Columns of the first layer differ by orders of magnitude then, so that low-precision weights carry a power of
two for each input, and the biases of the first layer are computed from the rounded weights. Predictions are float32 operations in a fixed
order (`treespec.students.silu`), so that they are the same, bit for bit, on every machine and in C.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from treespec.students import preprocess_bytes
from treespec.students.base import Student
from treespec.students.file import damaged
from treespec.students.outcome import Outcome
from treespec.students.preprocess import Preprocess
from treespec.students.silu import forward

Precision = Literal["float32", "float16", "int8"]
PRECISIONS: tuple[Precision, ...] = ("float32", "float16", "int8")

_HEAD = struct.Struct("<BBBBHHI")  # precision, members, layers, head, columns, outputs, CRC
_HEADS = ("value", "logit", "softmax", "each", "mean")
_ITEM = {"float32": 4, "float16": 2, "int8": 1}
_LARGEST = 1e18  # inputs are cut here, so that an infinity cannot become NaN further on

Float32 = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Layer:
    """One linear layer as it is stored.

    Attributes
    ----------
    weight : (n_out, n_in) float32, float16 or int8 array
    scale : (n_out,) float32 or None
        What the weights are multiplied by: all int8 layers have one, and the last float16 layer, whose outputs may be large.
    bias : (n_out,) float32 or float16
    """

    weight: NDArray[Any]
    scale: Float32 | None
    bias: NDArray[Any]


Member = tuple[Layer, ...]


class MLPStudent(Student):
    """A student that is the average of small nets.

    Parameters
    ----------
    outcome : Outcome
    preprocess : Preprocess
    exponent : (n_inputs,) int8
        Inputs are multiplied by ``2 ** exponent`` before the first layer; zeros for float32.
    members : tuple of tuple of Layer
        All of the same shape.
    head : {"value", "logit", "softmax", "each", "mean"}
        What the outputs are: margins; the logit of the second class; logits of all classes; one logit a label; predictions on the
        scale of the mean (values or probabilities), whose inverse link is the margin.
    precision : {"float32", "float16", "int8"}
    """

    kind = "mlp"

    def __init__(
        self,
        outcome: Outcome,
        preprocess: Preprocess,
        exponent: NDArray[np.int8],
        members: Sequence[Member],
        head: str,
        precision: Precision,
    ) -> None:
        super().__init__(outcome)
        self.preprocess, self.exponent, self.members = preprocess, exponent, tuple(members)
        self.head, self.precision = head, precision
        self._dense = [[_dense(layer) for layer in member] for member in self.members]

    @property
    def shape(self) -> tuple[int, ...]:
        """Widths from the inputs to the outputs."""
        first = self.members[0]
        return (first[0].weight.shape[1], *(layer.weight.shape[0] for layer in first))

    def scores(self, X: Any) -> Float32:
        """Return the (n, k) averaged outputs of the nets, before the head."""
        with np.errstate(over="ignore"):
            inputs = np.clip(np.ldexp(self.preprocess(X, self.outcome), self.exponent), -_LARGEST, _LARGEST)
        return np.asarray(forward(self._dense, inputs) / np.float32(len(self.members)))

    def _margin(self, X: Any) -> NDArray[np.float64]:
        scores = self.scores(X).astype(np.float64)
        if self.head == "mean":
            return inverse_link(scores, self.outcome)
        if not self.outcome.links_head(self.head):
            return scores
        p = _softmax(scores) if self.head == "softmax" else _sigmoid(scores)  # the margin is class probabilities
        return np.column_stack([1 - p, p]) if p.shape[1] < self.outcome.n_outputs else p

    def payload(self) -> bytes:
        """Return header, columns, exponents and weights."""
        columns = preprocess_bytes.dumps(self.preprocess)
        widths = np.array(self.shape[1:-1], dtype="<u2").tobytes()
        exponent = b"" if self.precision == "float32" else self.exponent.astype("i1").tobytes()
        weights = b"".join(_layer_to_bytes(layer) for member in self.members for layer in member)
        body = columns + widths + exponent + weights
        plain = (PRECISIONS.index(self.precision), len(self.members), len(self.shape) - 1, _HEADS.index(self.head))
        return _HEAD.pack(*plain, len(self.preprocess.columns), self.shape[-1], zlib.crc32(body)) + body

    @classmethod
    def from_payload(cls, payload: bytes, outcome: Outcome) -> Self:
        """Read `payload`; sizes are checked before anything is allocated."""
        if len(payload) < _HEAD.size:
            raise damaged("a payload without its header")
        precision, n_members, n_layers, head, n_columns, n_outputs, crc = _HEAD.unpack_from(payload)
        if zlib.crc32(payload[_HEAD.size :]) != crc:
            raise damaged("a payload whose checksum is wrong")
        if precision >= len(PRECISIONS) or head >= len(_HEADS) or not n_members or not n_layers or n_columns != outcome.n_features:
            raise damaged("a header that describes no net for these columns")
        reader = preprocess_bytes.Reader(payload[_HEAD.size :])
        preprocess = preprocess_bytes.loads(reader, n_columns)
        shape = [preprocess.n_inputs, *reader.array("<u2", n_layers - 1).tolist(), n_outputs]
        name = PRECISIONS[precision]
        exponent = np.zeros(shape[0], np.int8) if name == "float32" else reader.array("i1", shape[0]).copy()
        members = [tuple(_layer_from_bytes(reader, name, k, shape) for k in range(n_layers)) for _ in range(n_members)]
        if reader.left:
            raise damaged(f"{reader.left} bytes too many")
        return cls(outcome, preprocess, exponent, members, _HEADS[head], name)


def inverse_link(mean: NDArray[np.float64], outcome: Outcome) -> NDArray[np.float64]:
    """Return the (n, n_outputs) margins of predictions (n, k) on the scale of the mean; cut to where the inverse is finite."""
    if outcome.link == "identity":
        return mean
    if outcome.link == "exp":
        return np.log(np.maximum(mean, _SMALLEST)) / outcome.link_scale
    if outcome.link == "signed-square":
        return np.sign(mean) * np.sqrt(np.abs(mean))
    p = np.clip(mean, _SMALLEST, 1 - _SMALLEST)
    if outcome.link == "probability":
        p = np.column_stack([1 - p, p]) if p.shape[1] < outcome.n_outputs else p
        return np.asarray(p / p.sum(axis=1, keepdims=True))
    return np.asarray((np.log(p) if outcome.link == "softmax" else np.log(p / (1 - p))) / outcome.link_scale)


_SMALLEST = 1e-6


def _sigmoid(z: NDArray[np.float64]) -> NDArray[np.float64]:
    with np.errstate(over="ignore"):
        return np.asarray(1 / (1 + np.exp(-z)))


def _softmax(z: NDArray[np.float64]) -> NDArray[np.float64]:
    e = np.exp(z - z.max(axis=1, keepdims=True))
    return np.asarray(e / e.sum(axis=1, keepdims=True))


def net_bytes(shape: Sequence[int], precision: Precision) -> int:
    """Return the bytes of one net of these widths (from inputs to outputs)."""
    layers = range(len(shape) - 1)
    return sum(shape[k] * shape[k + 1] * _ITEM[precision] + shape[k + 1] * _row_bytes(precision, k, len(shape) - 1) for k in layers)


def student_bytes(preprocess: Preprocess, shape: Sequence[int], precision: Precision, n_members: int) -> int:
    """Return the `n_bytes` of a student that is not trained yet."""
    columns = len(preprocess_bytes.dumps(preprocess))
    exponents = 0 if precision == "float32" else shape[0]
    return _HEAD.size + columns + 2 * (len(shape) - 2) + exponents + n_members * net_bytes(shape, precision)


def has_scale(precision: Precision, k: int, n_layers: int) -> bool:
    """Tell whether the weights of layer k are multiplied by a scale."""
    return precision == "int8" or (precision == "float16" and k == n_layers - 1)


def bias_type(precision: Precision, k: int, n_layers: int) -> str:
    """Return the type of the biases of layer k: float16 for hidden layers behind the first, unless all is float32."""
    return "<f4" if precision == "float32" or k in (0, n_layers - 1) else "<f2"


def _row_bytes(precision: Precision, k: int, n_layers: int) -> int:
    return np.dtype(bias_type(precision, k, n_layers)).itemsize + 4 * has_scale(precision, k, n_layers)


def _dense(layer: Layer) -> tuple[Float32, Float32 | None, Float32]:
    """Return a layer as `treespec.students.silu.linear` takes it."""
    weight, bias = layer.weight.astype(np.float32).T, layer.bias.astype(np.float32)
    return np.ascontiguousarray(weight)[:, :, None], None if layer.scale is None else layer.scale[:, None], bias[:, None]


def _layer_to_bytes(layer: Layer) -> bytes:
    parts = [layer.weight.astype(layer.weight.dtype.newbyteorder("<")).tobytes()]
    if layer.scale is not None:
        parts.append(layer.scale.astype("<f4").tobytes())
    return b"".join([*parts, layer.bias.astype(layer.bias.dtype.newbyteorder("<")).tobytes()])


def _layer_from_bytes(reader: preprocess_bytes.Reader, precision: Precision, k: int, shape: Sequence[int]) -> Layer:
    n_in, n_out, n_layers = shape[k], shape[k + 1], len(shape) - 1
    dtype = {"float32": "<f4", "float16": "<f2", "int8": "i1"}[precision]
    weight = reader.array(dtype, n_in * n_out).reshape(n_out, n_in)
    scale = reader.array("<f4", n_out).astype(np.float32) if has_scale(precision, k, n_layers) else None
    bias = reader.array(bias_type(precision, k, n_layers), n_out)
    if not all(np.isfinite(part).all() for part in (weight, scale, bias) if part is not None):
        raise damaged("a weight that is no finite number")
    return Layer(weight.astype(weight.dtype.newbyteorder("=")), scale, bias.astype(bias.dtype.newbyteorder("=")))
