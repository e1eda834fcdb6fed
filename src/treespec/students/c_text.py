"""The three files of a C export as text: header, source, self-test."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from treespec.students.c_code import CCode, c_number, number_array
from treespec.students.outcome import Outcome


@dataclass(frozen=True)
class Names:
    """What the functions are called, and what they take and give.

    Attributes
    ----------
    prefix : str
    n_features, n_margins, n_outputs : int
    integer : str or None
        The C type of outputs, where they are integers; then inputs are int32_t, and there is one function, ``prefix_margin``.
    step : float or None
        What one of these integers means.
    """

    prefix: str
    n_features: int
    n_margins: int
    n_outputs: int
    integer: str | None = None
    step: float | None = None

    @property
    def types(self) -> tuple[str, str]:
        """C types of inputs and outputs."""
        return ("float", "float") if self.integer is None else ("int32_t", self.integer)


def header_text(outcome: Outcome, code: CCode, names: Names) -> str:
    """Return the header."""
    prefix, upper = names.prefix, names.prefix.upper()
    columns = [] if outcome.feature_names is None else [f"x[{j}] is {name}" for j, name in enumerate(outcome.feature_names)]
    needs = ", ".join(f"{n} {what}" for what, n in code.operations.items())
    lines = [
        f"A student of {outcome.framework}, written by treespec.",
        _meaning(outcome, names),
        *columns,
        *code.notes,
        f"A prediction takes {needs}.",
    ]
    comment = "\n".join(f" * {_plain(line)}" for line in lines)
    x, out = names.types
    missing = "NaN" if names.integer is None else "INT32_MIN"
    predict = f"""/* x: {names.n_features} values, {missing} for missing; out: {names.n_outputs} values. */
void {prefix}_predict(const {x} *x, {out} *out);

/* The {names.n_margins} raw margins. */
void {prefix}_margin(const {x} *x, {out} *out);
"""
    if names.integer is not None:
        predict = f"""#define {upper}_STEP {c_number(np.float64(names.step))}

/* x: {names.n_features} integers, {missing} for missing; out: {names.n_margins} margins, each to be multiplied by {upper}_STEP. */
void {prefix}_margin(const {x} *x, {out} *out);
"""
    return f"""/*
{comment}
 * {code.data_bytes} bytes of constant data; about {code.stack_bytes} bytes of stack; no heap.
 */
#ifndef {upper}_H
#define {upper}_H
{chr(10) + "#include <stdint.h>" + chr(10) if names.integer else ""}
#define {upper}_N_FEATURES {names.n_features}
#define {upper}_N_MARGINS {names.n_margins}
#define {upper}_N_OUTPUTS {names.n_outputs}

#ifdef __cplusplus
extern "C" {{
#endif

{predict}
#ifdef __cplusplus
}}
#endif

#endif
"""


def _meaning(outcome: Outcome, names: Names) -> str:
    if names.integer is not None:
        return "x: integers that stand for x[j] times the unit of column j. No floating point."
    if names.n_outputs > 1 and outcome.classes is not None and len(outcome.classes) == 1:
        return "out: probabilities of " + ", ".join(str(c) for c in outcome.classes[0]) + "."
    return "out: what predict gives."


def _plain(line: str) -> str:
    """Return printable ASCII that cannot end a comment or leave its line, and has no trigraph (``??/`` is a backslash to C99)."""
    plain = "".join(c if c.isprintable() and c.isascii() else "_" for c in line)
    return re.sub(r"\?(?=\?)", "? ", plain).replace("*/", "* /").replace("/*", "/ *").rstrip("\\ ")


def source_text(body: str, names: Names) -> str:
    """Return the source around the functions ``refused``, ``margins`` and ``predictions``."""
    x, out = names.types
    refused = {None: "NAN", "int32_t": "INT32_MIN", "int64_t": "INT64_MIN"}[names.integer]

    def function(name: str, n: int, work: str) -> str:
        return f"""
void {names.prefix}_{name}(const {x} *x, {out} *out)
{{
    int i;
    if (!refused(x)) {work}(x, out);
    else for (i = 0; i < {n}; i++) out[i] = {refused};
}}
"""

    libraries = [*(["math"] if names.integer is None else []), "stdint", *(["string"] if "memcpy(" in body else [])]
    includes = f'#include "{names.prefix}.h"\n\n' + "".join(f"#include <{name}.h>\n" for name in libraries)
    ends = function("margin", names.n_margins, "margins")
    if names.integer is None:
        ends = function("predict", names.n_outputs, "predictions") + ends
    return includes + "\n" + body + ends


def test_text(rows: np.ndarray, expected: np.ndarray, names: Names) -> str:
    """Return a self-test: ``rows`` (n, n_features), and the outputs (n, k) that are ``expected`` of them."""
    n, p = rows.shape
    k = expected.shape[1]
    _, out = names.types
    function, wrong = "predict", "!(fabsf(out[k] - want) <= 1e-6f * (1 + fabsf(want)))"
    if names.integer is not None:
        function, wrong = "margin", "out[k] != want"
    wanted = expected.astype({None: np.float32, "int32_t": np.int32, "int64_t": np.int64}[names.integer])
    math = "#include <math.h>\n" if names.integer is None else ""
    return f"""/* Compares {n} rows with what the student gave when it was exported; exit status 0 if they agree. */
#include "{names.prefix}.h"

{math}#include <stdint.h>
#include <stdio.h>

{number_array("rows", rows)}
{number_array("expected", wanted)}
int main(void)
{{
    int i, k, wrong = 0;
    for (i = 0; i < {n}; i++) {{
        {out} out[{k}];
        {names.prefix}_{function}(rows + i * {p}, out);
        for (k = 0; k < {k}; k++) {{
            {out} want = expected[i * {k} + k];
            if ({wrong}) wrong++;
        }}
    }}
    printf(wrong ? "%d values differ\\n" : "all values agree (%d differ)\\n", wrong);
    return wrong != 0;
}}
"""
