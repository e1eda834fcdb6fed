"""Bit streams of the packed format: least significant bit first, every read checked against what is there."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from treespec.errors import FileFormatError, TreespecError

Bits = NDArray[np.uint8]

_CHUNK = 1 << 16
_LONGEST_GAMMA = 62


def damaged(came: str) -> TreespecError:
    """Return the error for bytes that are no packed forest."""
    return FileFormatError.expected(
        "a packed forest written by treespec", came, "the file is damaged or not a student; write it again with Student.save()"
    )


def bit_width(count: int) -> int:
    """Return the bits that tell ``count`` things apart: ceil(log2 count), 0 for one or none."""
    return max(0, count - 1).bit_length()


def gamma_cost(value: int) -> int:
    """Return the bits of `BitWriter.gamma`."""
    return 2 * (value + 1).bit_length() - 1


class BitWriter:
    """Collects bits; `to_bytes` pads the last byte with zeros."""

    def __init__(self) -> None:
        self._parts: list[Bits] = []
        self.n_bits = 0

    def append(self, bits: NDArray[Any]) -> None:
        """Append an array of zeros and ones."""
        part = np.asarray(bits).astype(np.uint8)
        self._parts.append(part)
        self.n_bits += len(part)

    def flag(self, *values: bool | np.bool_) -> None:
        """Append one bit a value."""
        self.append(np.array(values, dtype=np.uint8))

    def number(self, value: int, width: int) -> None:
        """Append an unsigned integer of ``width`` bits."""
        self.append(np.array([value >> i & 1 for i in range(width)], dtype=np.uint8))

    def gamma(self, value: int) -> None:
        """Append an integer of 0 and more in Elias' gamma code: 1 bit for 0, 3 for 1 and 2, 5 for 3 to 6."""
        length = (value + 1).bit_length()
        self.number(1 << (length - 1), length)
        self.number(value + 1 - (1 << (length - 1)), length - 1)

    def signed(self, value: int) -> None:
        """Append any integer: a sign bit, then its magnitude in gamma code."""
        self.flag(value < 0)
        self.gamma(abs(value))

    def numbers(self, values: NDArray[Any], width: int) -> None:
        """Append unsigned integers of ``width`` bits each (up to 64)."""
        values = np.asarray(values).astype(np.uint64).ravel()
        place = np.arange(width, dtype=np.uint64)
        for start in range(0, len(values), _CHUNK):
            self.append((values[start : start + _CHUNK, None] >> place & np.uint64(1)).astype(np.uint8).ravel())

    def raw(self, data: bytes) -> None:
        """Append bytes, from the next byte boundary on."""
        self.align()
        self.append(np.unpackbits(np.frombuffer(data, np.uint8), bitorder="little"))

    def align(self) -> None:
        """Fill up the last byte with zeros."""
        self.append(np.zeros(-self.n_bits % 8, np.uint8))

    def to_bytes(self) -> bytes:
        """Return everything as bytes."""
        return np.packbits(np.concatenate([np.empty(0, np.uint8), *self._parts]), bitorder="little").tobytes()


class BitReader:
    """Reads what a `BitWriter` wrote; reading past the end raises `FileFormatError`."""

    def __init__(self, data: bytes) -> None:
        self._bits = np.unpackbits(np.frombuffer(data, np.uint8), bitorder="little")
        self.position = 0

    @property
    def n_left(self) -> int:
        """Bits not read yet."""
        return len(self._bits) - self.position

    def take(self, count: int) -> Bits:
        """Return the next ``count`` bits."""
        if count > self.n_left:
            raise damaged(f"{len(self._bits) // 8} bytes, which end inside a field")
        start = self.position
        self.position += count
        return self._bits[start : self.position]

    def flag(self) -> bool:
        """Return the next bit."""
        return bool(self.take(1)[0])

    def number(self, width: int) -> int:
        """Return the next unsigned integer of ``width`` bits."""
        return int(sum(int(bit) << i for i, bit in enumerate(self.take(width))))

    def gamma(self, limit: int, what: str) -> int:
        """Return the next integer in gamma code; one above ``limit`` is an error that names ``what`` it counts."""
        length = 1
        while not self.flag():
            length += 1
            if length > _LONGEST_GAMMA:
                raise damaged(f"a {what} that is too large")
        value = (1 << (length - 1)) + self.number(length - 1) - 1
        if value > limit:
            raise damaged(f"{what} {value}, above {limit}")
        return value

    def signed(self, limit: int, what: str) -> int:
        """Return the next integer with a sign bit."""
        negative = self.flag()
        value = self.gamma(limit, what)
        return -value if negative else value

    def numbers(self, count: int, width: int) -> NDArray[np.uint64]:
        """Return the next ``count`` unsigned integers of ``width`` bits each."""
        bits = self.take(count * width)
        out = np.zeros(count, np.uint64)
        for i in range(width):
            out |= bits[i::width].astype(np.uint64) << np.uint64(i)
        return out

    def ends(self, count: int) -> NDArray[np.int64]:
        """Return the distances from here of the next ``count`` ones, and move behind the last."""
        window = 4 * count + 64
        while True:
            found = np.flatnonzero(self._bits[self.position : self.position + window])
            if len(found) >= count:
                break
            if window >= self.n_left:
                raise damaged(f"{len(self._bits) // 8} bytes, which end inside a table")
            window *= 2
        found = found[:count].astype(np.int64)
        self.position += int(found[-1]) + 1 if count else 0
        return found

    def raw(self, count: int) -> bytes:
        """Return the next ``count`` bytes, from the next byte boundary on."""
        self.align()
        return np.packbits(self.take(8 * count), bitorder="little").tobytes()

    def align(self) -> None:
        """Move to the next byte boundary; the bits passed over must be zero."""
        if self.take(-self.position % 8).any():
            raise damaged("padding bits that are not zero")
