"""The file of a student: metadata for people, then the payload that a device needs.

Layout (little endian)::

    4 bytes   b"TSPS"
    4 bytes   uint32 format version
    4 bytes   uint32 length of the metadata
    4 bytes   uint32 length of the payload
    4 bytes   uint32 CRC-32 of metadata and payload
    metadata  JSON: kind, outcome (task, link, classes, names), report
    payload   defined by the kind; its length is the student's n_bytes
"""

from __future__ import annotations

import json
import struct
import zlib
from importlib import import_module
from pathlib import Path
from typing import Any

from treespec.errors import FileFormatError, TreespecError
from treespec.students.base import Student
from treespec.students.outcome import Outcome

MAGIC = b"TSPS"
VERSION = 1
KINDS = {"mlp": ("treespec.students.mlp", "MLPStudent"), "packed": ("treespec.students.packed", "PackedStudent")}
"""Kind of student to its module and class."""

_HEAD = struct.Struct("<4sIIII")


def dumps(student: Student) -> bytes:
    """Return the bytes of a student's file; the same student gives the same bytes."""
    payload = student.payload()
    report = student.report if student.report is None or isinstance(student.report, dict) else student.report.to_dict()
    metadata = {"kind": student.kind, "outcome": student.outcome.to_json(), "report": report}
    text = json.dumps(metadata, sort_keys=True).encode()
    return _HEAD.pack(MAGIC, VERSION, len(text), len(payload), zlib.crc32(payload, zlib.crc32(text))) + text + payload


def loads(data: bytes) -> Student:
    """Return the student of `dumps`.

    Raises
    ------
    FileFormatError
        If the bytes are truncated, damaged, of another version or kind.
    """
    if len(data) < _HEAD.size or data[:4] != MAGIC:
        raise damaged("bytes that do not start as one")
    _, version, n_text, n_payload, crc = _HEAD.unpack_from(data)
    if version != VERSION:
        raise FileFormatError.expected(f"student format version {VERSION}", f"version {version}", "read it with the release that wrote it")
    if len(data) != _HEAD.size + n_text + n_payload:
        raise damaged(f"{len(data)} bytes instead of {_HEAD.size + n_text + n_payload}")
    if zlib.crc32(data[_HEAD.size :]) != crc:
        raise damaged("bytes whose checksum is wrong")
    text, payload = data[_HEAD.size : _HEAD.size + n_text], data[_HEAD.size + n_text :]
    try:
        metadata = json.loads(text)
        outcome = Outcome.from_json(metadata["outcome"])
        kind, report = str(metadata["kind"]), metadata["report"]
        if not (report is None or isinstance(report, dict)):
            raise damaged("a report that is no table")
    except FileFormatError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError, RecursionError) as error:
        raise damaged(f"metadata that cannot be read ({error})") from error
    if kind not in KINDS:
        raise FileFormatError.expected(f"a student of kind {', '.join(KINDS)}", repr(kind), "read it with the release that wrote it")
    module, name = KINDS[kind]
    student: Student = getattr(import_module(module), name).from_payload(payload, outcome)
    student.report = report
    return student


def load_student(path: str | Path) -> Student:
    """Return the student that ``student.save(path)`` wrote. Needs numpy alone.

    Raises
    ------
    FileFormatError
        If there is no such file, or it is not a student's.
    """
    try:
        file = Path(path)
        if file.exists() and not file.is_file():
            raise _not_a_file(f"{str(path)!r}, which is a directory or device")
        data = file.read_bytes()
    except OSError as error:
        raise _not_a_file(f"{error.strerror} for {str(path)!r}") from None
    except (TypeError, ValueError) as error:
        if isinstance(error, FileFormatError):
            raise
        raise _not_a_file(f"{path!r}, which is no path ({error})") from None
    return loads(data)


def _not_a_file(came: str) -> TreespecError:
    return FileFormatError.expected("the file of a student", came, "pass the path given to save()")


def damaged(came: Any) -> TreespecError:
    """Return the error for bytes that are not a student's."""
    return FileFormatError.expected("a student written by treespec", str(came), "the file is damaged or not a student; save it again")
