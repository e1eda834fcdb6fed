"""C99 code of nets: weights as they are stored, SiLU between layers; float32 operations in the order of `treespec.students.silu`.

Weights lie in groups of four outputs, input by input, so that four sums grow at a time. No function of libm is called.
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from treespec.students import silu
from treespec.students.c_code import CCode, c_number, number_array
from treespec.students.preprocess import Column

if TYPE_CHECKING:
    from treespec.students.mlp import Layer, MLPStudent

_GROUP = 4

_HALF = r"""
static float half(uint16_t h)
{
    uint32_t bits = (uint32_t)(h & 0x8000u) << 16 | (uint32_t)(h & 0x7fffu) << 13;
    float out;
    memcpy(&out, &bits, sizeof out);
    return out * 0x1p112f;
}
"""

_POWER = r"""
static float power_of_two(int n)
{
    uint32_t bits = (uint32_t)(n + 127) << 23;
    float out;
    memcpy(&out, &bits, sizeof out);
    return out;
}
"""

_SILU = f"""
static void silu(float *h, int n)
{{
    int i;
    for (i = 0; i < n; i++) {{
        float v = -h[i], whole, r, e;
        if (v < {c_number(silu.LOWEST)}) v = {c_number(silu.LOWEST)};
        if (v > {c_number(silu.HIGHEST)}) v = {c_number(silu.HIGHEST)};
        whole = (v * {c_number(silu.PER_LN2)} + {c_number(silu.ROUND)}) - {c_number(silu.ROUND)};
        r = (v - whole * {c_number(silu.LN2_HIGH)}) - whole * {c_number(silu.LN2_LOW)};
        e = {c_number(silu.TAYLOR[0])};
{"".join(f"        e = e * r + {c_number(factor)};" + chr(10) for factor in silu.TAYLOR[1:])}\
        h[i] = h[i] / (1 + e * power_of_two((int)whole));
    }}
}}
"""

_MISSING = r"""
static float value(float v)
{
    return v == @NUMBER@ ? NAN : v;
}
"""

_LINEAR = r"""
static void @NAME@(const @WEIGHT_TYPE@ *w, @SCALE_ARGUMENT@const @BIAS_TYPE@ *bias, int n_in, int n_out, const float *in, float *out)
{
    int i = 0, j;
    for (; i + 4 <= n_out; i += 4) {
        float a = 0, b = 0, c = 0, d = 0;
        for (j = 0; j < n_in; j++, w += 4) {
            a += in[j] * @W0@;
            b += in[j] * @W1@;
            c += in[j] * @W2@;
            d += in[j] * @W3@;
        }
        out[i] = a;
        out[i + 1] = b;
        out[i + 2] = c;
        out[i + 3] = d;
    }
    for (; i < n_out; i++) {
        float a = 0;
        for (j = 0; j < n_in; j++, w++) a += in[j] * @W0@;
        out[i] = a;
    }
    for (i = 0; i < n_out; i++) out[i] = out[i]@SCALE@ + @BIAS@;
}
"""


def mlp_code(student: MLPStudent) -> CCode:
    """Return the C code of a student of nets."""
    shape = student.shape
    arrays, calls, functions, data_bytes = [], [], {}, 0
    for m, member in enumerate(student.members):
        for k, layer in enumerate(member):
            name, functions[name] = _function(layer)
            weight, scale, bias = f"weight_{m}_{k}", f"scale_{m}_{k}", f"bias_{m}_{k}"
            arrays += [_stored(weight, _grouped(layer.weight)), _stored(bias, layer.bias)]
            data_bytes += layer.weight.nbytes + layer.bias.nbytes
            if layer.scale is not None:
                arrays.append(number_array(scale, layer.scale))
                data_bytes += layer.scale.nbytes
            between = f"{weight}, {scale if layer.scale is not None else ''}{', ' if layer.scale is not None else ''}{bias}"
            source = "inputs" if k == 0 else "ba"[(k - 1) % 2]
            calls.append(f"    {name}({between}, {shape[k]}, {shape[k + 1]}, {source}, {'ba'[k % 2]});\n")
            calls.append(f"    silu({'ba'[k % 2]}, {shape[k + 1]});\n" if k + 1 < len(member) else "")
        calls.append(f"    for (k = 0; k < {shape[-1]}; k++) out[k] += {'ba'[(len(member) - 1) % 2]}[k];\n")
    widest = max(shape[1:])
    halves = any(part.dtype == np.float16 for member in student.members for layer in member for part in (layer.weight, layer.bias))
    inputs, input_bytes = _inputs(student)
    tests = _refused(student.preprocess.columns)
    special = student.outcome.missing_value
    if not np.isnan(special):
        inputs, tests = _MISSING.replace("@NUMBER@", c_number(np.float32(special))) + _cleared(inputs), _cleared(tests)
    text = f"""#define SUM float
#define INPUT float
{_HALF if halves else ""}{_POWER if len(shape) > 2 or input_bytes else ""}{_SILU if len(shape) > 2 else ""}\
{"".join(functions.values())}{"".join(arrays)}{inputs}
static void sums(const float *x, float *out)
{{
    float inputs[{max(1, shape[0])}], a[{widest}], b[{widest}];
    int k;
    (void)a;
    read(x, inputs);
    for (k = 0; k < {shape[-1]}; k++) out[k] = 0;
{"".join(calls)}    for (k = 0; k < {shape[-1]}; k++) out[k] /= {len(student.members)};
}}
{tests}"""
    n = len(student.members)
    operations = {
        "multiply-adds": n * sum(a * b for a, b in pairwise(shape)), "exponentials": n * sum(shape[1:-1])
    }  # fmt: skip
    stack = 4 * (shape[0] + 2 * widest) + 100
    notes = _notes(student.preprocess.columns)
    notes += [] if np.isnan(special) else [f"{special} means missing, as does NaN"]
    return CCode(text, data_bytes + input_bytes, shape[-1], stack, notes, operations)


def _cleared(text: str) -> str:
    """Return C that reads missing values where a number means missing."""
    return re.sub(r"\bx\[(\d+)\]", r"value(x[\1])", text)


def _grouped(weight: NDArray[np.generic]) -> NDArray[np.generic]:
    """Return (n_out, n_in) weights in groups of four outputs, input by input; what is left over output by output."""
    whole = len(weight) - len(weight) % _GROUP
    groups = weight[:whole].reshape(-1, _GROUP, weight.shape[1]).transpose(0, 2, 1)
    return np.concatenate([groups.ravel(), weight[whole:].ravel()])


def _stored(name: str, values: NDArray[np.generic]) -> str:
    return number_array(name, values.view(np.uint16) if values.dtype == np.float16 else values)


_C_TYPE = {"float32": "float", "float16": "uint16_t", "int8": "int8_t"}
_READ = {"float32": "{}", "float16": "half({})", "int8": "(float){}"}


def _function(layer: Layer) -> tuple[str, str]:
    """Return the name and the text of the function for layers of this kind."""
    weight, bias, scaled = layer.weight.dtype.name, layer.bias.dtype.name, layer.scale is not None
    name = f"linear_{weight}_{bias}" + "_scaled" * scaled
    text = _LINEAR
    for part, value in {
        "NAME": name,
        "WEIGHT_TYPE": _C_TYPE[weight],
        "BIAS_TYPE": _C_TYPE[bias],
        "SCALE_ARGUMENT": "const float *scale, " if scaled else "",
        "SCALE": " * scale[i]" if scaled else "",
        "BIAS": _READ[bias].format("bias[i]"),
        **{f"W{i}": _READ[weight].format(f"w[{i}]") for i in range(_GROUP)},
    }.items():
        text = text.replace(f"@{part}@", value)
    return name, text


def _inputs(student: MLPStudent) -> tuple[str, int]:
    """Return C that fills the inputs of the nets from a row, and the bytes of its constant array."""
    lines: list[str] = []
    at = 0
    for j, column in enumerate(student.preprocess.columns):
        lines += _column(j, column, at)
        at += column.n_inputs
    some = bool(student.exponent.any())
    array = number_array("exponent", student.exponent.astype(np.int8)) if some else ""
    factor = "        in[k] *= power_of_two(exponent[k]);\n" if some else ""
    body = "".join(f"    {line}\n" for line in lines)
    return (
        f"""{array}
static void read(const float *x, float *in)
{{
    int k;
    (void)x;
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
