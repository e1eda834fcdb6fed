"""Writes a student as ONNX: the margin, the prediction, and labels where there are classes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from treespec.errors import UnsupportedModelError
from treespec.students.c_code import gives_probabilities
from treespec.students.c_rows import text_columns
from treespec.students.onnx_graph import Graph
from treespec.students.outcome import Outcome

if TYPE_CHECKING:
    from treespec.students.base import Student

_SMALLEST = 1e-6  # as in treespec.students.mlp


def export(student: Student, path: str | Path) -> None:
    """Write a student as an ONNX file; see `treespec.students.base.Student.to_onnx`."""
    outcome = student.outcome
    if student.kind == "packed":
        from treespec.students.onnx_trees import trees

        graph = Graph(student.forest.inputs.dtype)  # type: ignore[attr-defined]
        sums, n_sums = trees(graph, student), student.forest.n_outputs  # type: ignore[arg-type, attr-defined]
    elif student.kind == "mlp":
        from treespec.students.onnx_net import net

        graph = Graph("float32")
        sums, n_sums = net(graph, student), student.shape[-1]  # type: ignore[arg-type, attr-defined]
    else:
        raise UnsupportedModelError.expected("a student of packed trees or nets", f"kind {student.kind!r}", "use a built-in compressor")
    margin = _margin(graph, outcome, getattr(student, "head", "margin"), sums, n_sums)
    output, width = _linked(graph, outcome, margin)
    outputs: dict[str, tuple[str, str, int | None]] = {
        "output": (graph.cast(output, "float32"), "float32", width),
        "margin": (graph.cast(margin, "float32"), "float32", outcome.n_outputs),
    }
    label = _label(graph, outcome, margin, output, width)
    if label is not None:
        outputs = {"label": (label[0], label[1], None), **outputs}
    graph.save(path, outcome.n_features, outputs, _about(student))


def _about(student: Student) -> dict[str, str]:
    outcome = student.outcome
    about: dict[str, Any] = {"task": outcome.task, "framework": outcome.framework, "n_bytes": student.n_bytes}
    if outcome.feature_names is not None:
        about["columns"] = list(outcome.feature_names)
    text = text_columns(student)
    if text:
        about["categories"] = {str(j): list(values) for j, values in text.items()}
    if outcome.classes is not None:
        about["classes"] = [c.tolist() for c in outcome.classes]
    return {name: value if isinstance(value, str) else json.dumps(value) for name, value in about.items()}


def _double(value: float) -> np.ndarray:
    return np.array(value, np.float64)


def _margin(graph: Graph, outcome: Outcome, head: str, sums: str, n_sums: int) -> str:
    """Return the (n, n_outputs) float64 margins of what a student sums up to."""
    if head == "mean":
        return _inverse(graph, outcome, sums, n_sums)
    if not outcome.links_head(head):
        return sums
    p = graph("Softmax", sums, axis=1) if head == "softmax" else graph("Sigmoid", sums)
    return _both(graph, p) if n_sums < outcome.n_outputs else p


def _both(graph: Graph, p: str) -> str:
    return graph("Concat", graph("Sub", _double(1), p), p, axis=1)


def _inverse(graph: Graph, outcome: Outcome, mean: str, n_sums: int) -> str:
    if outcome.link == "identity":
        return mean
    if outcome.link == "exp":
        return graph("Div", graph("Log", graph("Max", mean, _double(_SMALLEST))), _double(outcome.link_scale))
    if outcome.link == "signed-square":
        return graph("Mul", graph("Sign", mean), graph("Sqrt", graph("Abs", mean)))
    p = graph("Min", graph("Max", mean, _double(_SMALLEST)), _double(1 - _SMALLEST))
    if outcome.link == "probability":
        p = _both(graph, p) if n_sums < outcome.n_outputs else p
        return graph("Div", p, graph("ReduceSum", p, np.array([1]), keepdims=1))
    odds = p if outcome.link == "softmax" else graph("Div", p, graph("Sub", _double(1), p))
    return graph("Div", graph("Log", odds), _double(outcome.link_scale))


def _linked(graph: Graph, outcome: Outcome, margin: str) -> tuple[str, int]:
    """Return what ``predict`` gives, or probabilities of all classes, and the number of columns."""
    v = margin
    if outcome.link == "isolation":
        v = graph("Div", v, _double(outcome.link_scale)) if outcome.link_scale else graph("Add", graph("Sub", v, v), _double(1))
    elif outcome.link_scale != 1:
        v = graph("Mul", v, _double(outcome.link_scale))
    v = _LINKS[outcome.link](graph, v)
    if outcome.n_outputs == 1 and gives_probabilities(outcome):
        return _both(graph, v), 2
    return v, outcome.n_outputs


def _softplus(graph: Graph, v: str) -> str:
    wide = graph("Log", graph("Add", _double(1), graph("Exp", graph("Neg", graph("Abs", v)))))
    return graph("Where", graph("Less", v, _double(-30)), graph("Exp", v), graph("Add", graph("Max", v, _double(0)), wide))


def _expm1(graph: Graph, v: str) -> str:
    near = graph("Add", v, graph("Mul", graph("Mul", v, v), graph("Add", _double(1 / 2), graph("Div", v, _double(6)))))
    return graph("Where", graph("Less", graph("Abs", v), _double(1e-4)), near, graph("Sub", graph("Exp", v), _double(1)))


def _shares(graph: Graph, p: str) -> str:
    total = graph("ReduceSum", p, np.array([1]), keepdims=1)
    return graph("Div", p, graph("Where", graph("Equal", total, _double(0)), _double(1), total))


_LINKS: dict[str, Callable[[Graph, str], str]] = {
    "identity": lambda _, v: v,
    "probability": lambda _, v: v,
    "partition": lambda _, v: v,
    "sigmoid": lambda graph, v: graph("Sigmoid", v),
    "softmax": lambda graph, v: graph("Softmax", v, axis=1),
    "sigmoid-normalised": lambda graph, v: _shares(graph, graph("Sigmoid", v)),
    "normalised": _shares,
    "exp": lambda graph, v: graph("Exp", v),
    "expm1": _expm1,
    "log1p-exp": _softplus,
    "signed-square": lambda graph, v: graph("Mul", v, graph("Abs", v)),
    "mean-variance": lambda graph, v: graph(
        "Add",
        graph("Mul", v, np.array([1.0, 0.0])),
        graph("Mul", graph("Exp", graph("Mul", v, np.array([0.0, 2.0]))), np.array([0.0, 1.0])),
    ),
    "hinge": lambda graph, v: graph.cast(graph("Greater", v, _double(0)), "float64"),
    "isolation": lambda graph, v: graph("Neg", graph("Exp", graph("Mul", v, _double(-np.log(2))))),
}
_LINKS["sigmoid-each"] = _LINKS["sigmoid-by-target"] = _LINKS["sigmoid"]


def _label(graph: Graph, outcome: Outcome, margin: str, output: str, width: int) -> tuple[str, str] | None:
    """Return the (n,) class labels and their type; None where there are none, or several a row."""
    if outcome.classes is None or len(outcome.classes) != 1:
        return None
    labels = outcome.classes[0]
    kind = "int64" if labels.dtype.kind in "biu" else "float32" if labels.dtype.kind == "f" else "str"
    if width > 1:
        index = graph("ArgMax", output, axis=1, keepdims=0, select_last_index=int(outcome.ties_to_last and outcome.n_outputs == 1))
    else:
        positive = graph("GreaterOrEqual" if outcome.ties_to_last else "Greater", margin, _double(0))
        index = graph("Squeeze", graph.cast(positive, "int64"), np.array([1]))
    return graph("Gather", labels.astype(object if kind == "str" else kind), index, axis=0), kind
