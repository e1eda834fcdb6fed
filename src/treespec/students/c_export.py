"""Writes a student as C99: one header, one source, and a self-test."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from treespec.errors import UnsupportedModelError
from treespec.students.c_code import CCode, check_prefix, expected_outputs, finish_code, number_array
from treespec.students.c_rows import raw_rows, test_rows

if TYPE_CHECKING:
    from treespec.students.base import Student

_TEST_ROWS = 20


@dataclass(frozen=True)
class CExport:
    """What was written.

    Attributes
    ----------
    header, source, test : Path
    data_bytes : int
        Constant data (flash), code not counted.
    stack_bytes : int
        Local arrays of one prediction (RAM), about.
    n_outputs : int
        Length of ``out``.
    """

    header: Path
    source: Path
    test: Path
    data_bytes: int
    stack_bytes: int
    n_outputs: int


def export(student: Student, directory: str | Path, prefix: str = "treespec") -> CExport:
    """Write ``prefix.h``, ``prefix.c`` and ``prefix_test.c`` into a directory.

    Parameters
    ----------
    student : Student
        Of packed trees or nets.
    directory : path
        Made where it does not exist.
    prefix : str
        Of file and function names.

    Returns
    -------
    CExport

    Raises
    ------
    UnsupportedModelError
        For students of another kind.
    """
    check_prefix(prefix)
    code = _code(student)
    finish, n_outputs = finish_code(student.outcome, getattr(student, "head", "margin"), code.n_sums)
    folder = Path(directory)
    folder.mkdir(parents=True, exist_ok=True)
    export = CExport(
        folder / f"{prefix}.h", folder / f"{prefix}.c", folder / f"{prefix}_test.c", code.data_bytes, code.stack_bytes, n_outputs
    )
    export.header.write_text(_header(student, code, prefix, n_outputs), encoding="utf-8")
    export.source.write_text(_source(code, finish, prefix, n_outputs, student.outcome.n_outputs), encoding="utf-8")
    rows = test_rows(student, _TEST_ROWS)
    export.test.write_text(
        _test(rows, expected_outputs(student.outcome, student._margin(raw_rows(student, rows))), prefix), encoding="utf-8"
    )
    return export


def _code(student: Student) -> CCode:
    if student.kind == "packed":
        from treespec.students.c_packed import packed_code

        return packed_code(student)  # type: ignore[arg-type]
    if student.kind == "mlp":
        from treespec.students.c_mlp import mlp_code

        return mlp_code(student)  # type: ignore[arg-type]
    raise UnsupportedModelError.expected("a student of packed trees or nets", f"kind {student.kind!r}", "distil with a built-in compressor")


def _header(student: Student, code: CCode, prefix: str, n_outputs: int) -> str:
    outcome, guard = student.outcome, f"{prefix.upper()}_H"
    meaning = "what predict gives"
    if n_outputs > 1 and outcome.classes is not None and len(outcome.classes) == 1:
        meaning = "probabilities of " + ", ".join(str(c) for c in outcome.classes[0])
    names = [] if outcome.feature_names is None else [f"x[{j}] is {name}" for j, name in enumerate(outcome.feature_names)]
    lines = [f"A student of {outcome.framework}, written by treespec.", f"out: {meaning}.", *names, *code.notes]
    comment = "\n".join(f" * {_plain(line)}" for line in lines)
    return f"""/*
{comment}
 * {code.data_bytes} bytes of constant data; about {code.stack_bytes} bytes of stack; no heap.
 */
#ifndef {guard}
#define {guard}

#define {prefix.upper()}_N_FEATURES {outcome.n_features}
#define {prefix.upper()}_N_MARGINS {outcome.n_outputs}
#define {prefix.upper()}_N_OUTPUTS {n_outputs}

#ifdef __cplusplus
extern "C" {{
#endif

/* x: {outcome.n_features} values, NaN for missing; out: {n_outputs} values. */
void {prefix}_predict(const float *x, float *out);

/* The {outcome.n_outputs} raw margins. */
void {prefix}_margin(const float *x, float *out);

#ifdef __cplusplus
}}
#endif

#endif
"""


def _plain(line: str) -> str:
    """Return text that cannot end a comment or leave its line."""
    return "".join(c if c.isprintable() and c.isascii() else "?" for c in line).replace("*/", "* /").replace("/*", "/ *").rstrip("\\")


def _source(code: CCode, finish: str, prefix: str, n_outputs: int, n_margins: int) -> str:
    def function(name: str, n: int, work: str) -> str:
        return f"""
void {prefix}_{name}(const float *x, float *out)
{{
    int i;
    if (!refused(x)) {work}(x, out);
    else for (i = 0; i < {n}; i++) out[i] = NAN;
}}
"""

    includes = f'#include "{prefix}.h"\n\n#include <math.h>\n#include <stdint.h>\n#include <string.h>\n\n'
    ends = function("predict", n_outputs, "predictions") + function("margin", n_margins, "margins")
    return includes + code.text + finish + ends


def _test(rows: NDArray[np.float32], expected: NDArray[np.float64], prefix: str) -> str:
    n, p = rows.shape
    return f"""/* Compares {n} rows with what the student gave when it was exported; exit status 0 if they agree. */
#include "{prefix}.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>

{number_array("rows", rows)}
{number_array("expected", expected.astype(np.float32))}
int main(void)
{{
    int i, k, wrong = 0;
    for (i = 0; i < {n}; i++) {{
        float out[{expected.shape[1]}];
        {prefix}_predict(rows + i * {p}, out);
        for (k = 0; k < {expected.shape[1]}; k++) {{
            float want = expected[i * {expected.shape[1]} + k];
            if (!(fabsf(out[k] - want) <= 1e-5f * (1 + fabsf(want)))) wrong++;
        }}
    }}
    printf(wrong ? "%d values differ\\n" : "all values agree (%d differ)\\n", wrong);
    return wrong != 0;
}}
"""
