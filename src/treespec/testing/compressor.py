"""`check_compressor`."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from treespec.distill.run import make_data
from treespec.errors import BudgetError, TreespecError
from treespec.hooks import Compressor, RowData, Student
from treespec.ir.table import n_rows, take
from treespec.students import Student as BuiltinStudent
from treespec.students import load_student
from treespec.testing.contract import Contract, same

if TYPE_CHECKING:
    from treespec.facade import Wrapped

_CONTRACT = Contract("a compressor")
_CHECKED_ROWS = 50


def check_compressor(
    compressor: Compressor, teacher: Wrapped, budget: int, X: Any = None, y: Any = None, *, random_state: int = 0, **options: Any
) -> Student:
    """Check a compressor, ``compressor(teacher, budget, *, data, random_state, progress, ...) -> Student``, and return its student.

    The student keeps the budget, its predictions have the form of the teacher's, row by row, and it saves one file; the same call gives
    the same bytes; progress is a text and a share that does not fall; a budget of one byte raises a `BudgetError` whose ``smallest`` can
    be met; neither the rows nor numpy's random state are changed. A student of `treespec.students` survives ``save`` and ``load_student``.

    Parameters
    ----------
    compressor : callable
    teacher : Wrapped
        Small, from `treespec.wrap`, with rows.
    budget : int
        Bytes that are enough.
    X, y : optional
        Rows to distil on; by default the teacher's.
    random_state : int
    **options
        Passed on to the compressor: those that make it fast.

    Raises
    ------
    ContractError
        If a promise is broken.
    TreespecError
        Whatever the compressor refuses teacher or budget with.

    Notes
    -----
    Three or four calls of the compressor.
    """
    rows = teacher.rows_of(X, y)
    data = make_data(teacher, rows, "auto", random_state)
    shown: list[tuple[Any, Any]] = []

    def progress(what: str, share: float) -> None:
        shown.append((what, share))

    def run(size: int, *, told: bool = False) -> Student:
        seen = data.rows
        with _CONTRACT.call("the compressor", seen.X, seen.y, seen.sample_weight, seen.leaf_id, data.margin, data.fit, data.validation):
            student = compressor(teacher, size, data=data, random_state=random_state, progress=progress if told else None, **options)
        came: Any = student.n_bytes
        _CONTRACT.require(isinstance(came, int) and came > 0, "n_bytes, a positive int", repr(came), "count every byte of constant data")
        _CONTRACT.require(
            came <= size, f"a student of at most {size} bytes", f"{came} bytes", "BudgetError.too_small, if none is that small"
        )
        return student

    student = run(budget, told=True)
    _check_progress(shown)
    _check_predictions(student, teacher, data.rows)
    _check_file(student, run(budget), data.rows)
    _check_smallest(run)
    return student


def _check_progress(shown: list[tuple[Any, Any]]) -> None:
    shares = [share for _, share in shown]
    _CONTRACT.require(
        all(isinstance(what, str) for what, _ in shown) and all(0 <= share <= 1 for share in shares),
        "progress(what, share) with a text and a share of 0 to 1",
        lambda: next(repr(s) for s in shown if not isinstance(s[0], str) or not 0 <= s[1] <= 1),
        "share of the work that is done",
    )
    _CONTRACT.require(shares == sorted(shares), "a share of the work that does not fall", lambda: str(shares[:20]), "count all of the work")


def _check_predictions(student: Student, teacher: Any, rows: RowData) -> None:
    n = min(_CHECKED_ROWS, rows.n_rows)
    X = take(rows.X, slice(0, n))
    with _CONTRACT.call("predictions of the student", X):
        margin, label = np.asarray(student.margin(X)), np.asarray(student.predict(X))
    _CONTRACT.numbers(margin, "margins", np.shape(teacher.margin(X)))
    theirs = np.asarray(teacher.predict(X))
    _CONTRACT.require(
        label.shape == theirs.shape and label.dtype.kind == theirs.dtype.kind,
        f"predictions of shape {theirs.shape} and type {theirs.dtype}",
        f"{label.shape} and {label.dtype}",
        "treespec.ir.link.predict turns margins into predictions",
    )
    classes = teacher.forest.classes
    if classes is not None:
        known = set(np.concatenate([np.asarray(c, object) for c in classes]).tolist())
        _CONTRACT.require(
            set(label.ravel().tolist()) <= known, "labels of the teacher's classes", "others", "classes[margin.argmax(axis=1)]"
        )
    _check_probabilities(student, teacher, X)
    one = np.asarray(student.margin(take(X, slice(1, 2))))
    _CONTRACT.close(one, margin[1:2], "rows that are predicted one by one", "use no statistics of the rows that are predicted", 1e-6)
    try:
        student.predict(np.zeros((2, 10_001)))
    except TreespecError:
        return
    except Exception as error:
        raise _CONTRACT.broken("a DataMismatchError for rows of another width", repr(error), "encode rows with InputRule.encode") from error
    raise _CONTRACT.broken("a DataMismatchError for rows of another width", "predictions", "encode rows with InputRule.encode")


def _check_probabilities(student: Student, teacher: Any, X: Any) -> None:
    try:
        theirs = teacher.predict_proba(X)
    except TreespecError:
        return
    with _CONTRACT.call("predict_proba", X):
        ours = student.predict_proba(X)
    for p, q in zip(ours, theirs, strict=True) if isinstance(theirs, list) else [(ours, theirs)]:
        values = _CONTRACT.numbers(p, "probabilities", np.shape(q))
        _CONTRACT.require(((values >= 0) & (values <= 1)).all(), "probabilities of 0 to 1", "others", "apply the link to the margins")


def _check_file(student: Student, again: Student, rows: RowData) -> None:
    X = take(rows.X, slice(0, min(_CHECKED_ROWS, n_rows(rows.X))))
    for made in (student, again):
        if isinstance(made, BuiltinStudent):  # what the compressor reports is worked up by `distill`, and holds times
            made.report = None
    with tempfile.TemporaryDirectory() as directory:
        first, second = Path(directory, "first"), Path(directory, "second")
        with _CONTRACT.call("save"):
            student.save(first)
            again.save(second)
        _CONTRACT.require(
            {p.name for p in Path(directory).iterdir()} == {"first", "second"} and first.is_file(),
            "save to write one file",
            "others",
            "at path",
        )
        data = first.read_bytes()
        _CONTRACT.require(data[:1] != b"\x80", "a file without pickle", "a pickle", "write numbers as bytes, text as JSON")
        _CONTRACT.require(
            data == second.read_bytes(), "the same bytes for the same call", "others", "draw random numbers from random_state"
        )
        if isinstance(student, BuiltinStudent):
            loaded = load_student(first)
            _CONTRACT.require(
                loaded.n_bytes == student.n_bytes and same(loaded.margin(X), student.margin(X)),
                "save and load_student to give the student back",
                "another one",
                "payload() holds all that from_payload needs",
            )


def _check_smallest(run: Any) -> None:
    try:
        run(1)
    except BudgetError as error:
        smallest = error.smallest
    else:  # unreachable in practice: a student of one byte
        return
    _CONTRACT.require(
        isinstance(smallest, int) and smallest > 1,
        "a BudgetError that names the smallest budget",
        repr(smallest),
        "BudgetError.too_small(...)",
    )
    try:
        run(smallest)
    except BudgetError as error:
        raise _CONTRACT.broken(
            f"the smallest budget that is named ({smallest} bytes) to be met", str(error).partition("\n")[0], "name what can be met"
        ) from error
