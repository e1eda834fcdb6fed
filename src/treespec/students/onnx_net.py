"""ONNX graph of nets: imputation, categories and ranges as the student has them, then float32 layers from weights as they are stored."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from treespec.students.onnx_graph import Graph
from treespec.students.preprocess import Column

if TYPE_CHECKING:
    from treespec.students.mlp import Layer, MLPStudent

_LARGEST = float(np.finfo(np.float32).max)
_LIMIT = 1e18  # as in treespec.students.mlp


def net(graph: Graph, student: MLPStudent) -> str:
    """Add the nodes that give the (n, k) float64 averaged outputs of the nets."""
    x = _inputs(graph, student)
    if student.exponent.any():
        x = graph("Mul", x, np.ldexp(np.float32(1), student.exponent.astype(int)).astype(np.float32)[None, :])
    x = graph("Clip", x, -_LIMIT, _LIMIT)
    outputs = []
    for member in student.members:
        h = x
        for k, layer in enumerate(member):
            if k:
                h = graph("Mul", h, graph("Sigmoid", h))
            h = _linear(graph, h, layer)
        outputs.append(h)
    total = graph("Sum", *outputs)
    return graph.cast(graph("Div", total, float(len(outputs))), "float64")


def _linear(graph: Graph, h: str, layer: Layer) -> str:
    weight = graph.cast(graph.constant(layer.weight.T), "float32")
    out = graph("MatMul", h, weight)
    if layer.scale is not None:
        out = graph("Mul", out, layer.scale[None, :])
    return graph("Add", out, layer.bias.astype(np.float32)[None, :])


def _inputs(graph: Graph, student: MLPStudent) -> str:
    """Return the (n, n_inputs) inputs before they are scaled: all numbers, all flags of missing values, all categories; then in order."""
    columns = list(enumerate(student.preprocess.columns))
    place = np.cumsum([0, *(c.n_inputs for _, c in columns)])
    parts: list[str] = []
    order: list[int] = []
    numbers = [j for j, c in columns if c.kind == "number"]
    if numbers:
        chosen = [student.preprocess.columns[j] for j in numbers]
        x = graph.column(graph.input, np.array(numbers))
        missing = graph("IsNaN", x)
        parts.append(_cut(graph, graph("Where", missing, _row([c.fill for c in chosen]), x), chosen))
        order += [int(place[j]) for j in numbers]
        flagged = [k for k, c in enumerate(chosen) if c.indicator]
        if flagged:
            parts.append(graph.cast(graph.column(missing, np.array(flagged)), "float32"))
            order += [int(place[numbers[k]]) + 1 for k in flagged]
    for j, c in columns:
        if c.kind != "category" or not c.n_inputs:
            continue
        v = graph.column(graph.input, j)
        if c.values:
            codes = [float(k) if isinstance(value, str) else float(value) for k, value in enumerate(c.values)]
            parts.append(graph.cast(graph("Equal", v, _row(codes)), "float32"))
        if c.indicator:
            parts.append(graph.cast(graph("IsNaN", v), "float32"))
        order += range(int(place[j]), int(place[j + 1]))
    if not parts:  # a constant student
        return graph("Slice", graph.input, np.array([0]), np.array([0]), np.array([1]))
    return graph.column(graph("Concat", *parts, axis=1), np.argsort(order))


def _cut(graph: Graph, x: str, columns: list[Column]) -> str:
    low, high = _row([max(c.low, -_LARGEST) for c in columns]), _row([min(c.high, _LARGEST) for c in columns])
    nan = graph("IsNaN", x)  # where no fill is known, NaN stays NaN
    return graph("Where", nan, x, graph("Min", graph("Max", x, low), high))


def _row(values: list[float]) -> np.ndarray:
    return np.array([values], np.float32)
