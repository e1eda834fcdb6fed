"""C99 code of nets: weights as they are stored, one function a layer, SiLU between layers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from treespec.students.c_code import CCode, c_number, number_array
from treespec.students.preprocess import Column

if TYPE_CHECKING:
    from treespec.students.mlp import Layer, MLPStudent

_LARGEST = "3.402823466e38f"

_HALF = r"""
static float half(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000u) << 16, exponent = h >> 10 & 31u, rest = h & 1023u;
    float out;
    if (exponent == 0) {
        out = (float)rest * 0x1p-24f;
        return sign ? -out : out;
    }
    sign |= (exponent == 31 ? 255u : exponent + 112u) << 23 | rest << 13;
    memcpy(&out, &sign, sizeof out);
    return out;
}
"""

_SILU = r"""
static void silu(float *h, int n)
{
    int i;
    for (i = 0; i < n; i++) h[i] = h[i] / (1 + expf(-h[i]));
}
"""


def mlp_code(student: MLPStudent) -> CCode:
    """Return the C code of a student of nets."""
    shape = student.shape
    arrays, calls, data_bytes = [], [], 0
    for m, member in enumerate(student.members):
        for k, layer in enumerate(member):
            text, call, size = _layer(layer, f"{m}_{k}", shape[k], shape[k + 1], k)
            arrays.append(text)
            data_bytes += size
            calls.append(call + (f"    silu({'ba'[k % 2]}, {shape[k + 1]});\n" if k + 1 < len(member) else ""))
        calls.append(f"    for (k = 0; k < {shape[-1]}; k++) out[k] += {'ba'[(len(member) - 1) % 2]}[k];\n")
    widest = max(shape[1:])
    halves = any(part.dtype == np.float16 for member in student.members for layer in member for part in (layer.weight, layer.bias))
    inputs, input_bytes = _inputs(student)
    text = f"""#define SUM float
{_HALF if halves else ""}{_SILU if len(shape) > 2 else ""}{"".join(arrays)}{inputs}
static void sums(const float *x, float *out)
{{
    float inputs[{max(1, shape[0])}], a[{widest}], b[{widest}];
    int k;
    (void)a;
    read(x, inputs);
    for (k = 0; k < {shape[-1]}; k++) out[k] = 0;
{"".join(calls)}    for (k = 0; k < {shape[-1]}; k++) out[k] /= {len(student.members)};
}}
{_refused(student.preprocess.columns)}"""
    return CCode(text, data_bytes + input_bytes, shape[-1], 4 * (shape[0] + 2 * widest) + 100, _notes(student.preprocess.columns))


def _stored(name: str, values: np.ndarray) -> tuple[str, str]:
    """Return a constant array, and C that reads element ``@``."""
    if values.dtype == np.float16:
        return number_array(name, values.view(np.uint16)), f"half({name}[@])"
    return number_array(name, values), f"(float){name}[@]" if values.dtype == np.int8 else f"{name}[@]"


def _layer(layer: Layer, name: str, n_in: int, n_out: int, k: int) -> tuple[str, str, int]:
    """Return the arrays and the function of a layer, the call, and the bytes."""
    weight, read_weight = _stored(f"weight_{name}", layer.weight)
    bias, read_bias = _stored(f"bias_{name}", layer.bias)
    scale, factor, size = "", "", layer.weight.nbytes + layer.bias.nbytes
    if layer.scale is not None:
        scale, factor = number_array(f"scale_{name}", layer.scale), f" * scale_{name}[i]"
        size += layer.scale.nbytes
    text = f"""{weight}{scale}{bias}
static void layer_{name}(const float *in, float *out)
{{
    int i, j;
    for (i = 0; i < {n_out}; i++) {{
        float sum = 0;
        for (j = 0; j < {n_in}; j++) sum += in[j] * {read_weight.replace("@", f"i * {n_in} + j")};
        out[i] = sum{factor} + {read_bias.replace("@", "i")};
    }}
}}
"""
    source = "inputs" if k == 0 else "ba"[(k - 1) % 2]
    return text, f"    layer_{name}({source}, {'ba'[k % 2]});\n", size


def _inputs(student: MLPStudent) -> tuple[str, int]:
    """Return C that fills the inputs of the nets from a row, and the bytes of its constant array."""
    lines: list[str] = []
    at = 0
    for j, column in enumerate(student.preprocess.columns):
        lines += _column(j, column, at)
        at += column.n_inputs
    some = bool(student.exponent.any())
    array = number_array("exponent", student.exponent.astype(np.int8)) if some else ""
    factor = "        in[k] = ldexpf(in[k], exponent[k]);\n" if some else ""
    body = "".join(f"    {line}\n" for line in lines)
    return (
        f"""{array}
static void read(const float *x, float *in)
{{
    int k;
{body}    for (k = 0; k < {at}; k++) {{
{factor}        if (in[k] > 1e18f) in[k] = 1e18f;
        if (in[k] < -1e18f) in[k] = -1e18f;
    }}
}}
""",
        len(student.exponent) if some else 0,
    )


def _column(j: int, column: Column, at: int) -> list[str]:
    if column.kind == "number":
        low, high = (
            max(getattr(column, "low", -np.inf), -np.finfo(np.float32).max),
            min(getattr(column, "high", np.inf), np.finfo(np.float32).max),
        )
        bottom, top = c_number(np.float32(low)), c_number(np.float32(high))
        fill = c_number(np.float32(min(max(column.fill, low), high))) if not np.isnan(column.fill) else "NAN"
        out = [f"in[{at}] = x[{j}] != x[{j}] ? {fill} : x[{j}] < {bottom} ? {bottom} : x[{j}] > {top} ? {top} : x[{j}];"]
        return [*out, f"in[{at + 1}] = x[{j}] != x[{j}] ? 1.0f : 0.0f;"] if column.indicator else out
    if column.kind == "category":
        codes = [k if isinstance(v, str) else v for k, v in enumerate(column.values)]
        out = [f"in[{at + k}] = x[{j}] == {c_number(np.float32(code))} ? 1.0f : 0.0f;" for k, code in enumerate(codes)]
        return [*out, f"in[{at + len(codes)}] = x[{j}] != x[{j}] ? 1.0f : 0.0f;"] if column.indicator else out
    return []


def _refused(columns: tuple[Column, ...]) -> str:
    never = [j for j, c in enumerate(columns) if c.kind == "number" and np.isnan(c.fill)]
    tests = "".join(f"    if (x[{j}] != x[{j}]) return 1;\n" for j in never)
    return f"\nstatic int refused(const float *x)\n{{\n    (void)x;\n{tests}    return 0;\n}}\n"


def _notes(columns: tuple[Column, ...]) -> list[str]:
    notes = []
    for j, c in enumerate(columns):
        if c.kind == "category" and c.values and isinstance(c.values[0], str):
            notes.append(f"x[{j}] is a code: {', '.join(f'{k} = {v}' for k, v in enumerate(c.values))}; {len(c.values)} for any other")
        if c.kind == "number" and np.isnan(c.fill):
            notes.append(f"x[{j}] must not be missing: a row without it gives NaN")
    return notes
