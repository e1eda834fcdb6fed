"""ONNX graph of packed trees: a tree ensemble says which leaves a row reaches, and leaf values are added up as the student does."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from treespec.errors import UnsupportedModelError
from treespec.ir import Forest, InputRule
from treespec.ir.inputs import ZERO_THRESHOLD
from treespec.students.onnx_graph import Graph
from treespec.students.packed_quantise import Quantised

if TYPE_CHECKING:
    from treespec.students.packed import PackedStudent

_MOST_LEAVES = 1 << 24  # numbers of leaves are float32


def trees(graph: Graph, student: PackedStudent) -> str:
    """Add the nodes that give the (n, n_outputs) float64 sums of the trees; NaN for rows that the model refuses.

    Raises
    ------
    UnsupportedModelError
        If there are 2**24 leaves or more.
    """
    f = student.forest
    if f.n_leaves >= _MOST_LEAVES:
        raise UnsupportedModelError.expected("fewer than 2**24 leaves", str(f.n_leaves), "export a smaller student")
    x = encoded(graph, f.inputs, f.n_features)
    sets, set_of = _sets(graph, f, x)
    inputs = x if sets is None else graph("Concat", x, sets, axis=1)
    sums = _add_up(graph, student, _leaves(graph, f, inputs, set_of))
    bad = _refused(graph, f.inputs, x)
    return sums if bad is None else graph("Where", bad, np.array(np.nan), sums)


def encoded(graph: Graph, rule: InputRule, n_features: int) -> str:
    """Add the nodes that turn the input into numbers as they are compared: missing values NaN, categories as codes."""
    x = graph.input
    nan, flags = float("nan"), np.isin(np.arange(n_features), rule.categorical)[None, :]
    for j, values in rule.categories:
        if values and not rule.numbers_are_codes and not all(isinstance(c, str) for c in values):
            x = _with_column(graph, x, j, _codes(graph, graph.column(x, j), [float(c) for c in values], rule))
        elif values and rule.unknown_category == "missing" and not rule.numbers_are_codes:
            v = graph.column(x, j)
            known = graph("And", graph("GreaterOrEqual", v, 0.0), graph("Less", v, float(len(values))))
            x = _with_column(graph, x, j, graph("Where", known, v, nan))
    if not np.isnan(rule.missing_value):
        x = graph("Where", graph("Equal", x, rule.missing_value), nan, x)
    if rule.zero != "keep":
        tiny = graph("LessOrEqual", graph("Abs", x), ZERO_THRESHOLD)
        if rule.categorical:
            tiny = graph("And", tiny, graph("Not", flags))
        x = graph("Where", tiny, nan if rule.zero == "missing" else 0.0, x)
    if rule.negative_fraction_is_zero and rule.categorical:
        inside = graph("And", graph("Greater", x, -1.0), graph("Less", x, 0.0))
        x = graph("Where", graph("And", inside, flags), 0.0, x)
    return x


def _codes(graph: Graph, v: str, values: list[float], rule: InputRule) -> str:
    equal = graph.cast(graph("Equal", v, np.array([values], graph.dtype)), graph.dtype)
    code = graph("MatMul", equal, np.arange(len(values), dtype=graph.dtype)[:, None])
    known = graph("Greater", graph("MatMul", equal, np.ones((len(values), 1), graph.dtype)), 0.0)
    unknown = float("nan") if rule.unknown_category == "missing" else float(len(values))
    return graph("Where", graph("IsNaN", v), v, graph("Where", known, code, unknown))


def _with_column(graph: Graph, x: str, j: int, column: str) -> str:
    """Return x with column j replaced."""
    before = graph("Slice", x, np.array([0]), np.array([j]), np.array([1]))
    after = graph("Slice", x, np.array([j + 1]), np.array([1 << 31]), np.array([1]))
    return graph("Concat", before, column, after, axis=1)


def _sets(graph: Graph, f: Forest, x: str) -> tuple[str | None, NDArray[np.int64]]:
    """Return (n, n_sets) whether a row goes right at each distinct category set (NaN where missing), and the column of each node's."""
    nodes = np.flatnonzero(f.categorical & ~f.is_leaf)
    place = np.full(f.n_nodes, -1, np.int64)
    parts: list[str] = []
    seen: dict[tuple[int, bool, bytes], int] = {}
    by_feature: dict[int, list[tuple[bool, NDArray[np.int64]]]] = {}
    order: dict[int, list[int]] = {}
    for node in nodes:
        codes = f.category[f.category_offset[node] : f.category_offset[node + 1]].astype(np.int64)
        j, left = int(f.feature[node]), bool(f.category_left[node])
        key = (j, left, codes.tobytes())
        if key not in seen:
            seen[key] = len(seen)
            by_feature.setdefault(j, []).append((left, codes))
            order.setdefault(j, []).append(seen[key])
        place[node] = seen[key]
    if not seen:
        return None, place
    numbers = np.concatenate([order[j] for j in by_feature])
    column_of = np.empty(len(seen), np.int64)
    column_of[numbers] = np.arange(len(seen))
    for j, sets in by_feature.items():
        v = graph.column(x, j)
        known = np.unique(np.concatenate([codes for _, codes in sets]))
        member = np.column_stack([np.isin(known, codes) for _, codes in sets]).astype(graph.dtype)
        sides = np.array([[side for side, _ in sets]], graph.dtype)
        if len(known):
            whole = graph("Where", graph("GreaterOrEqual", v, 0.0), graph("Floor", v), -1.0)
            listed = graph("MatMul", graph.cast(graph("Equal", whole, known[None, :].astype(graph.dtype)), graph.dtype), member)
        else:
            listed = graph("Mul", graph("Where", graph("IsNaN", v), 0.0, graph("Sub", v, v)), np.zeros((1, len(sets)), graph.dtype))
        right = graph("Abs", graph("Sub", listed, sides))
        parts.append(graph("Where", graph("IsNaN", v), float("nan"), right))
    place[nodes] = column_of[place[nodes]]
    return (graph("Concat", *parts, axis=1) if len(parts) > 1 else parts[0]), place


def _leaves(graph: Graph, f: Forest, inputs: str, set_of: NDArray[np.int64]) -> str:
    """Return the (n, n_trees) int64 numbers of leaves, counted through all trees."""
    size = np.diff(f.tree_offset)
    tree = np.repeat(np.arange(f.n_trees), size)
    local = np.arange(f.n_nodes) - f.tree_offset[tree]
    leaf, sets = f.is_leaf, set_of >= 0
    threshold = np.where(sets, 0.5, np.where(leaf, 0.0, f.threshold)).astype(graph.dtype)
    number = np.cumsum(leaf) - 1
    first = f.tree_offset[tree]
    attributes = {
        "nodes_treeids": tree,
        "nodes_nodeids": local,
        "nodes_featureids": np.where(sets, f.n_features + set_of, np.where(leaf, 0, f.feature)),
        "nodes_truenodeids": np.where(leaf, 0, f.left - first),
        "nodes_falsenodeids": np.where(leaf, 0, f.right - first),
        "nodes_missing_value_tracks_true": (f.default_left & ~leaf).astype(int),
        "target_treeids": tree[leaf],
        "target_nodeids": local[leaf],
        "target_ids": tree[leaf],
    }
    plain = {name: values.tolist() for name, values in attributes.items()}
    if graph.dtype == "float64":
        plain["nodes_values_as_tensor"] = graph.tensor(threshold)
        plain["target_weights_as_tensor"] = graph.tensor(number[leaf].astype(np.float64))
    else:
        plain["nodes_values"], plain["target_weights"] = threshold.tolist(), number[leaf].astype(float).tolist()
    modes = ["LEAF" if end else "BRANCH_LEQ" for end in leaf]
    return graph.cast(graph("TreeEnsembleRegressor", inputs, n_targets=f.n_trees, nodes_modes=modes, **plain), "int64")


def _add_up(graph: Graph, student: PackedStudent, leaf: str) -> str:
    """Return (n, n_outputs) float64 sums: of integers, or in the order and the precision of the student."""
    u, f = student.unpacked, student.forest
    if isinstance(u.leaves, Quantised):
        q = u.leaves
        units = np.rint(np.ldexp(f.value[f.leaves], -q.step)).astype(np.int64)
        total = graph("ReduceSum", graph("Gather", units, leaf, axis=0), np.array([1]), keepdims=0)
        return graph("Mul", graph.cast(graph("Add", total, q.base[None, :]), "float64"), np.array(2.0**q.step))
    values = graph("Gather", f.value[f.leaves].astype(f.sum_dtype), leaf, axis=0)
    start = (f.base_score if f.aggregation == "sum" else np.zeros(f.n_outputs)).astype(f.sum_dtype)
    zero = graph("Sub", graph("Gather", values, np.array([0]), axis=1), graph("Gather", values, np.array([0]), axis=1))
    steps = graph("CumSum", graph("Concat", graph("Add", zero, start[None, None, :]), values, axis=1), np.array(1))
    total = graph("Gather", steps, np.array(f.n_trees), axis=1)
    if f.aggregation == "sum":
        return graph.cast(total, "float64")
    mean = graph.cast(graph("Div", total, np.array(f.n_trees, f.sum_dtype)), "float64")
    return graph("Add", mean, f.base_score[None, :])


def _refused(graph: Graph, rule: InputRule, x: str) -> str | None:
    """Return (n, 1) whether the model refuses a row."""
    tests = []
    if rule.nan == "refuse":
        tests.append(graph("IsNaN", x))
    elif rule.missing_category == "refuse" and rule.categorical:
        tests.append(graph("IsNaN", graph.column(x, np.array(rule.categorical))))
    if rule.infinite == "refuse":
        tests.append(graph("IsInf", x))
    flags = [graph("ReduceMax", graph.cast(test, "float32"), axes=[1], keepdims=1) for test in tests]
    if not flags:
        return None
    return graph("Greater", flags[0] if len(flags) == 1 else graph("Max", *flags), np.array(0.5, np.float32))
