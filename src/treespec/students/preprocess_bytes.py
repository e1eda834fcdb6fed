"""`Preprocess` as bytes: one byte a column, then what that column needs."""

from __future__ import annotations

import struct

import numpy as np

from treespec.students.file import damaged
from treespec.students.preprocess import Column, Preprocess, Value

_UNUSED, _NUMBER, _FILLED, _TEXT, _FLOAT32, _FLOAT64 = range(6)
_INDICATOR = 0x80
_CUT = 0x40
_LONGEST = 0xFFFF


class Reader:
    """Reads values one after the other and never beyond the end."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = memoryview(data), 0

    @property
    def left(self) -> int:
        """Bytes not read yet."""
        return len(self._data) - self._at

    def take(self, n: int) -> memoryview:
        """Return the next n bytes; `FileFormatError` where there are fewer."""
        if n < 0 or n > self.left:
            raise damaged(f"a payload of {len(self._data)} bytes that ends too early")
        self._at += n
        return self._data[self._at - n : self._at]

    def unpack(self, form: str) -> tuple[int, ...]:
        """Return the next values of a little-endian struct format."""
        return struct.unpack("<" + form, self.take(struct.calcsize("<" + form)))

    def array(self, dtype: str, n: int) -> np.ndarray:
        """Return the next n numbers of a little-endian type."""
        return np.frombuffer(self.take(n * np.dtype(dtype).itemsize), dtype)


def dumps(preprocess: Preprocess) -> bytes:
    """Return the columns as bytes."""
    return b"".join(_column_to_bytes(c) for c in preprocess.columns)


def _column_to_bytes(column: Column) -> bytes:
    flag = _INDICATOR if column.indicator else 0
    if column.kind == "unused":
        return bytes([_UNUSED])
    if column.kind == "number":
        cut = struct.pack("<ff", column.low, column.high) if column.is_cut else b""
        flag |= _CUT if cut else 0
        if np.isnan(column.fill):
            return bytes([_NUMBER | flag]) + cut
        return bytes([_FILLED | flag]) + cut + struct.pack("<f", column.fill)
    count = struct.pack("<H", len(column.values))
    if any(isinstance(v, str) for v in column.values):
        texts = [str(v).encode()[:_LONGEST] for v in column.values]
        return bytes([_TEXT | flag]) + count + b"".join(struct.pack("<H", len(t)) + t for t in texts)
    numbers = np.array(column.values, dtype=np.float64)
    exact = bool((numbers.astype(np.float32) == numbers).all())
    return bytes([(_FLOAT32 if exact else _FLOAT64) | flag]) + count + numbers.astype("<f4" if exact else "<f8").tobytes()


def loads(reader: Reader, n_columns: int) -> Preprocess:
    """Read what `dumps` wrote."""
    if n_columns > reader.left:
        raise damaged(f"{n_columns} columns in {reader.left} bytes")
    return Preprocess(tuple(_column_from_bytes(reader) for _ in range(n_columns)))


def _column_from_bytes(reader: Reader) -> Column:
    (tag,) = reader.unpack("B")
    indicator, is_cut, kind = bool(tag & _INDICATOR), bool(tag & _CUT), tag & ~(_INDICATOR | _CUT)
    if kind == _UNUSED:
        return Column("unused")
    if kind in (_NUMBER, _FILLED):
        low, high = (float(v) for v in reader.unpack("ff")) if is_cut else (-np.inf, np.inf)
        fill = float(reader.unpack("f")[0]) if kind == _FILLED else np.nan
        return Column("number", fill, indicator, low, high)
    if kind not in (_TEXT, _FLOAT32, _FLOAT64):
        raise damaged(f"a column of kind {kind}")
    (count,) = reader.unpack("H")
    values: tuple[Value, ...]
    if kind == _TEXT:
        try:
            values = tuple(bytes(reader.take(reader.unpack("H")[0])).decode() for _ in range(count))
        except UnicodeDecodeError as error:
            raise damaged(f"category text that is not UTF-8 ({error})") from error
    else:
        values = tuple(reader.array("<f4" if kind == _FLOAT32 else "<f8", count).astype(float).tolist())
    return Column("category", indicator=indicator, values=values)
