"""Writes a student as C99: one header, one source, and a self-test."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from treespec.errors import TreespecError, UnsupportedModelError, writing
from treespec.students.c_code import CCode, check_prefix, expected_outputs, finish_code
from treespec.students.c_math import without_libm
from treespec.students.c_rows import raw_rows, test_rows
from treespec.students.c_text import Names, header_text, source_text, test_text

if TYPE_CHECKING:
    from treespec.students.base import Student

_TEST_ROWS = 20


@dataclass(frozen=True)
class CExport:
    """What was written, and what it takes.

    Attributes
    ----------
    header, source, test : Path
    data_bytes : int
        Constant data (flash), code not counted: at most the student's ``n_bytes``, unless ``fast``.
    stack_bytes : int
        Local arrays of one prediction (RAM), about. There are no other variables.
    n_outputs : int
        Length of ``out``.
    operations : dict of str to int
        What one prediction takes.
    step : float or None
        What one unit of ``out`` means, where outputs are integers.
    """

    header: Path
    source: Path
    test: Path
    data_bytes: int
    stack_bytes: int
    n_outputs: int
    operations: dict[str, int]
    step: float | None = None


def export(
    student: Student,
    directory: str | Path,
    prefix: str = "treespec",
    *,
    libm: bool = True,
    fast: bool = False,
    unit: ArrayLike | None = None,
) -> CExport:
    """Write ``prefix.h``, ``prefix.c`` and ``prefix_test.c`` into a directory.

    Parameters
    ----------
    student : Student
        Of packed trees or nets.
    directory : path
        Made where it does not exist.
    prefix : str
        Of file and function names.
    libm, fast, unit
        As in `treespec.students.base.Student.to_c`.

    Returns
    -------
    CExport

    Raises
    ------
    UnsupportedModelError
        For students of another kind, or options that are not for this kind.
    """
    check_prefix(prefix)
    with writing(directory, "a directory to write to"):
        folder = Path(directory)
    code, finish, rows, expected, names, step = _integer(student, prefix, unit, fast) if unit is not None else _plain(student, prefix, fast)
    body = code.text + finish
    made = CExport(
        folder / f"{prefix}.h", folder / f"{prefix}.c", folder / f"{prefix}_test.c", code.data_bytes, code.stack_bytes,
        names.n_outputs, code.operations, step,
    )  # fmt: skip
    texts = {
        made.header: header_text(student.outcome, code, names), made.source: source_text(body if libm else without_libm(body), names),
        made.test: test_text(rows, expected, names),
    }  # fmt: skip
    with writing(directory, "a directory to write to"):
        folder.mkdir(parents=True, exist_ok=True)
        for path, text in texts.items():
            path.write_text(text, encoding="utf-8")
    return made


Parts = tuple[CCode, str, np.ndarray, np.ndarray, Names, float | None]


def _plain(student: Student, prefix: str, fast: bool) -> Parts:
    code = _code(student, fast=fast)
    outcome = student.outcome
    finish, n_outputs = finish_code(outcome, getattr(student, "head", "margin"), code.n_sums)
    rows = test_rows(student, _TEST_ROWS)
    expected = expected_outputs(outcome, student._margin(raw_rows(student, rows))).astype(np.float32)
    return code, finish, rows, expected, Names(prefix, outcome.n_features, outcome.n_outputs, n_outputs), None


def _code(student: Student, *, fast: bool) -> CCode:
    if student.kind == "packed":
        from treespec.students.c_packed import packed_code

        return packed_code(student, fast=fast)  # type: ignore[arg-type]
    if student.kind == "mlp" and not fast:
        from treespec.students.c_mlp import mlp_code

        return mlp_code(student)  # type: ignore[arg-type]
    if student.kind == "mlp":
        raise UnsupportedModelError.expected(
            "a student of packed trees for fast=True", "one of nets", "leave fast out: nets have no tables"
        )
    raise UnsupportedModelError.expected("a student of packed trees or nets", f"kind {student.kind!r}", "distil with a built-in compressor")


def _integer(student: Any, prefix: str, unit: ArrayLike, fast: bool) -> Parts:
    from treespec.students.c_integer import MISSING, integer_forest, units_of
    from treespec.students.c_packed import PAD, Layout, forest_code

    if student.kind != "packed":
        raise UnsupportedModelError.expected(
            "a student of packed trees for integers", f"one of kind {student.kind!r}", "distil with compressor='boosted' or 'packed'"
        )
    if fast:
        raise TreespecError.expected("unit or fast", "both", "leave one of them out")
    units = units_of(student, unit)
    u, data = integer_forest(student, units)
    code = forest_code(student, u, Layout(data + bytes(PAD), 0, integer=True))
    floats = test_rows(student, _TEST_ROWS).astype(np.float64)
    near = np.clip(np.rint(floats / units), MISSING + 1, -MISSING - 1)
    rows = np.where(np.isnan(floats), MISSING, near).astype(np.int64).astype(np.int32)
    forest, step = student.forest, 2.0**u.leaves.step  # type: ignore[union-attr]
    sums = integer_sums(student, rows, units)
    wide = "int64_t" if "SUM int64_t" in code.text else "int32_t"
    names = Names(prefix, forest.n_features, forest.n_outputs, forest.n_outputs, wide, step)
    finish = "\nstatic void margins(const INPUT *x, SUM *out)\n{\n    sums(x, out);\n}\n"
    return code, finish, rows, sums, names, step


def integer_sums(student: Any, rows: np.ndarray, units: np.ndarray) -> np.ndarray:
    """Return the (n, n_outputs) int64 that the integer C code gives for int32 rows, by the student itself."""
    from treespec.students.c_integer import floats_of

    x = floats_of(student.forest.inputs, rows, units)
    margin = student.forest.margin(raw_rows(student, x)).reshape(len(rows), -1)
    return np.asarray(np.rint(np.ldexp(margin, -student.unpacked.leaves.step)).astype(np.int64))
