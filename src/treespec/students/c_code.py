"""What the C exports of all students share: arrays, numbers, the link, the files."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treespec.errors import TreespecError
from treespec.ir import link as links
from treespec.students.outcome import Outcome

_A_LINE = 16
C_TYPES = {"float32": "float", "float64": "double", **{f"{sign}int{n}": f"{sign}int{n}_t" for sign in ("", "u") for n in (8, 16, 32, 64)}}


@dataclass(frozen=True, eq=False)
class CCode:
    """The body of a C file.

    Attributes
    ----------
    text : str
        Defines ``static int refused(const INPUT *x)`` and ``static void sums(const INPUT *x, SUM *out)``, and the types.
    data_bytes : int
        Bytes of all constant arrays.
    n_sums : int
        Length of ``out``.
    stack_bytes : int
        Bytes of local arrays of one prediction, about.
    notes : list of str
        For the header: what a caller must know of the columns.
    operations : dict of str to int
        What one prediction takes, by kind of operation.
    """

    text: str
    data_bytes: int
    n_sums: int
    stack_bytes: int
    notes: list[str]
    operations: dict[str, int]


def check_prefix(prefix: str) -> str:
    """Return ``prefix`` if it is a C identifier.

    Raises
    ------
    TreespecError
    """
    if not (prefix.isascii() and prefix.isidentifier()):
        raise TreespecError.expected("a prefix that is a C identifier", repr(prefix), "use letters, digits and underscores")
    return prefix


def byte_array(name: str, data: bytes) -> str:
    """Return a constant array of bytes (C has no empty arrays: one zero then)."""
    return f"static const uint8_t {name}[] = {{\n{_lines([str(b) for b in data] or ['0'])}\n}};\n"


def number_array(name: str, values: NDArray[Any]) -> str:
    """Return a constant array of numbers, exact."""
    return f"static const {C_TYPES[values.dtype.name]} {name}[] = {{\n{_lines([c_number(v) for v in values.ravel()] or ['0'])}\n}};\n"


def _lines(items: Sequence[str]) -> str:
    return ",\n".join("    " + ", ".join(items[i : i + _A_LINE]) for i in range(0, len(items), _A_LINE))


def c_number(value: Any) -> str:
    """Return a number as a C literal that is exactly it."""
    if isinstance(value, (int, np.integer)):
        return str(int(value))
    suffix = "f" if isinstance(value, np.float32) else ""
    number = float(value)
    if math.isnan(number):
        return "NAN"
    if math.isinf(number):
        return "INFINITY" if number > 0 else "-INFINITY"
    return number.hex() + suffix


_STEPS = {
    "identity": "",
    "probability": "",
    "softmax": "    {\n        double top = v[0], sum = 0;\n        for (k = 1; k < N; k++) if (v[k] > top) top = v[k];\n"
    "        for (k = 0; k < N; k++) sum += v[k] = exp(v[k] - top);\n        for (k = 0; k < N; k++) v[k] /= sum;\n    }\n",
    "sigmoid": "    for (k = 0; k < N; k++) v[k] = 1 / (1 + exp(-v[k]));\n",
    "exp": "    for (k = 0; k < N; k++) v[k] = exp(v[k]);\n",
    "mean-variance": "    v[1] = exp(2 * v[1]);\n",
    "log1p-exp": "    for (k = 0; k < N; k++) v[k] = (v[k] > 0 ? v[k] : 0) + log1p(exp(-fabs(v[k])));\n",
    "signed-square": "    for (k = 0; k < N; k++) v[k] = v[k] < 0 ? -v[k] * v[k] : v[k] * v[k];\n",
    "hinge": "    for (k = 0; k < N; k++) v[k] = v[k] > 0 ? 1 : 0;\n",
}
_STEPS["sigmoid-each"] = _STEPS["sigmoid-by-target"] = _STEPS["sigmoid"]
_STEPS["expm1"] = "    for (k = 0; k < N; k++) v[k] = expm1(v[k]);\n"
_STEPS["isolation"] = "    for (k = 0; k < N; k++) v[k] = -exp(-v[k] * 0.6931471805599453);\n"
_STEPS["normalised"] = (
    "    {\n        double sum = 0;\n        for (k = 0; k < N; k++) sum += v[k];\n"
    "        if (sum != 0) for (k = 0; k < N; k++) v[k] /= sum;\n    }\n"
)
_STEPS["sigmoid-normalised"] = _STEPS["sigmoid"] + _STEPS["normalised"]
_STEPS["partition"] = ""
_CUT = "    for (k = 0; k < N; k++) v[k] = v[k] < 1e-6 ? 1e-6 : v[k] > 1 - 1e-6 ? 1 - 1e-6 : v[k];\n"
_INVERSE = {  # of predictions on the scale of the mean, cut to where it is finite
    "identity": "",
    "exp": "    for (k = 0; k < N; k++) v[k] = log(v[k] < 1e-6 ? 1e-6 : v[k]);\n",
    "signed-square": "    for (k = 0; k < N; k++) v[k] = v[k] < 0 ? -sqrt(-v[k]) : sqrt(v[k]);\n",
    "softmax": _CUT + "    for (k = 0; k < N; k++) v[k] = log(v[k]);\n",
    "probability": _CUT,
}
_LOGIT = _CUT + "    for (k = 0; k < N; k++) v[k] = log(v[k] / (1 - v[k]));\n"
_COMPLEMENT = "    v[1] = v[0];\n    v[0] = 1 - v[1];\n"


def finish_code(outcome: Outcome, head: str, n_sums: int) -> tuple[str, int]:
    """Return C functions from sums to margins and on to outputs, and the number of outputs.

    Classes give probabilities, all classes of them; anything else what ``predict`` gives.

    Parameters
    ----------
    head : str
        What the sums are: "margin" or "value", or as `treespec.students.mlp.MLPStudent` says.
    """
    k = outcome.n_outputs
    both = k == 1 and gives_probabilities(outcome)
    to_margin = _head(outcome, head).replace("N;", f"{n_sums};")
    to_margin += _COMPLEMENT if k > n_sums else ""
    if head == "mean" and outcome.link == "probability":
        total = f"for (k = 0; k < {k}; k++) sum += v[k];"
        to_margin += f"    {{\n        double sum = 0;\n        {total}\n        for (k = 0; k < {k}; k++) v[k] /= sum;\n    }}\n"
    by = c_number(outcome.link_scale)
    step = f"v[k] *= {by}"
    if outcome.link == "isolation":
        step = f"v[k] /= {by}" if outcome.link_scale else "v[k] = 1"
    scale = f"    for (k = 0; k < {k}; k++) {step};\n" if outcome.link_scale != 1 else ""
    link = scale + _STEPS[outcome.link].replace("N;", f"{k};") + (_COMPLEMENT if both else "")
    n_outputs = 2 if both else k
    if not to_margin and not link:
        cast = f"    SUM s[{n_sums}];\n    int k;\n    sums(x, s);\n    for (k = 0; k < {k}; k++) out[k] = (float)s[k];\n"
        return _function("margins", cast) + _function("predictions", "    margins(x, out);\n"), n_outputs
    most = max(n_sums, k, n_outputs)
    first = f"    SUM s[{n_sums}];\n    double v[{most}];\n    int k;\n    sums(x, s);\n"
    first += f"    for (k = 0; k < {n_sums}; k++) v[k] = (double)s[k];\n"
    text = _function("margins", first + to_margin + _out(k))
    return text + _function("predictions", first + to_margin + link + _out(n_outputs)), n_outputs


def _head(outcome: Outcome, head: str) -> str:
    if head == "mean":
        scale = f"    for (k = 0; k < N; k++) v[k] /= {c_number(outcome.link_scale)};\n" if outcome.link_scale != 1 else ""
        return _INVERSE.get(outcome.link, _LOGIT) + scale
    if not outcome.links_head(head):
        return ""
    return _STEPS["softmax" if head == "softmax" else "sigmoid"]


def _out(n: int) -> str:
    return f"    for (k = 0; k < {n}; k++) out[k] = (float)v[k];\n"


def _function(name: str, body: str) -> str:
    return f"\nstatic void {name}(const float *x, float *out)\n{{\n{body}}}\n"


def gives_probabilities(outcome: Outcome) -> bool:
    """Tell whether predictions are probabilities of classes."""
    return outcome.task in ("binary", "multiclass", "multi-output") and outcome.link in links.OF_CLASSES


def expected_outputs(outcome: Outcome, margin: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return what the C function gives for margins (n, n_outputs)."""
    p = links.apply_link(outcome, margin)
    return np.column_stack([1 - p[:, 0], p[:, 0]]) if p.shape[1] == 1 and gives_probabilities(outcome) else p
