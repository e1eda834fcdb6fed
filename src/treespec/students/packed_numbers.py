"""Sorted sets of numbers in few bits: thresholds, distinct leaf values.

A set of numbers becomes integer keys in the same order (decimals, binary fractions, or the floats themselves as integers), and the gaps
between the keys are Rice-coded: ``k`` low bits each, then the rest in unary. All mappings are exact or not used.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from treespec.students.packed_bits import BitReader, BitWriter, damaged, gamma_cost

Dtype = Literal["float32", "float64"]
Kind = Literal["decimal", "binary", "float"]
Keys = NDArray[np.int64]

KINDS: tuple[Kind, ...] = ("decimal", "binary", "float")
_EXPONENT_BITS = 6
_RICE_BITS = 6
_MANTISSA = {"float32": 24, "float64": 53}
_BITS = {"float32": 32, "float64": 64}
_DECIMALS = 7  # powers of ten up to 10 are exact in float32; more places than this are no decimals
_BINARY_OFFSET = 32  # the exponent that is stored is 32 more than the number of binary places


@dataclass(frozen=True, slots=True)
class Mapping:
    """How keys stand for numbers.

    Parameters
    ----------
    kind : {"decimal", "binary", "float"}
        ``key / 10**exponent``; ``key * 2**(32 - exponent)``; or sign and bits of the float, without its ``exponent`` lowest bits.
    exponent : int
        0 to 63.
    """

    kind: Kind
    exponent: int

    def values(self, keys: Keys, dtype: Dtype) -> NDArray[np.floating[Any]]:
        """Return the numbers that keys stand for; NaN where there is none."""
        kind = np.dtype(dtype).type
        if self.kind == "float":
            return _floats(keys, self.exponent, dtype)
        with np.errstate(over="ignore", invalid="ignore"):
            if self.kind == "decimal":
                out = keys.astype(dtype) / kind(10.0**self.exponent)
            else:
                out = np.ldexp(keys.astype(dtype), _BINARY_OFFSET - self.exponent)
        return np.asarray(np.where(np.abs(keys) < 1 << _MANTISSA[dtype], out, kind(np.nan)))

    def keys(self, values: NDArray[np.floating[Any]], dtype: Dtype) -> Keys | None:
        """Return the keys of numbers of type ``dtype``, or None where one cannot be told exactly."""
        keys, exact = self.match(values, dtype)
        return keys if exact.all() else None

    def match(self, values: NDArray[np.floating[Any]], dtype: Dtype) -> tuple[Keys, NDArray[np.bool_]]:
        """Return the keys of numbers, and for which of them they are exact."""
        if self.kind == "float":
            keys = _float_keys(values, dtype)
            exact = np.abs(keys) & np.int64((1 << self.exponent) - 1) == 0
            return np.sign(keys) * (np.abs(keys) >> self.exponent), exact
        with np.errstate(over="ignore", invalid="ignore"):
            wide = values.astype(np.float64)
            scaled = np.rint(wide * 10.0**self.exponent if self.kind == "decimal" else np.ldexp(wide, self.exponent - _BINARY_OFFSET))
        keys = np.where(np.abs(scaled) < 1 << _MANTISSA[dtype], scaled, 0).astype(np.int64)
        return keys, self.values(keys, dtype) == values


def _float_keys(values: NDArray[np.floating[Any]], dtype: Dtype) -> Keys:
    """Return floats as integers in the same order; both zeros are 0."""
    if dtype == "float32":
        bits = values.astype(np.float32).view(np.int32).astype(np.int64)
        return np.where(bits < 0, -(bits + (1 << 31)), bits)
    bits = values.astype(np.float64).view(np.int64)
    magnitude = bits & np.int64((1 << 63) - 1)
    return np.where(bits < 0, -magnitude, magnitude)


def _floats(keys: Keys, shift: int, dtype: Dtype) -> NDArray[np.floating[Any]]:
    largest = (1 << (_BITS[dtype] - 1)) - 1 >> shift
    magnitude = np.abs(keys)
    good = (magnitude <= largest) & (magnitude >= 0)
    bits = np.where(good, magnitude, 0) << shift
    out = bits.astype(np.uint32).view(np.float32) if dtype == "float32" else bits.view(np.float64)
    return np.asarray(np.where(good, np.where(keys < 0, -out, out), np.dtype(dtype).type(np.nan)))


def candidates(values: NDArray[np.floating[Any]], dtype: Dtype) -> Iterator[tuple[Mapping, Keys]]:
    """Yield the exact mappings of sorted numbers with their keys: each kind with the fewest digits that do."""
    for e in range(_DECIMALS + 1):
        keys = Mapping("decimal", e).keys(values, dtype)
        if keys is not None:
            yield Mapping("decimal", e), keys
            break
    places = binary_places(values)
    if places is not None and 0 <= places + _BINARY_OFFSET < 1 << _EXPONENT_BITS:
        mapping = Mapping("binary", places + _BINARY_OFFSET)
        keys = mapping.keys(values, dtype)
        if keys is not None:
            yield mapping, keys
    keys = _float_keys(values, dtype)
    joined = int(np.bitwise_or.reduce(np.abs(keys))) if len(keys) else 0
    shift = (joined & -joined).bit_length() - 1 if joined else 0
    mapping = Mapping("float", min(shift, (1 << _EXPONENT_BITS) - 1))
    yield mapping, np.sign(keys) * (np.abs(keys) >> mapping.exponent)


def binary_places(values: NDArray[np.floating[Any]]) -> int | None:
    """Return the least s such that all ``values * 2**s`` are integers (negative for even numbers); None for none."""
    wide = values.astype(np.float64)
    wide = wide[wide != 0]
    if not np.isfinite(wide).all():
        return None
    if not len(wide):
        return 0
    fraction, exponent = np.frexp(wide)
    mantissa = np.abs(np.ldexp(fraction, 53)).astype(np.int64)
    zeros = np.log2((mantissa & -mantissa).astype(np.float64)).astype(np.int64)
    return int((53 - zeros - exponent).max())


# ---- the Rice code of sorted keys


def _gaps(keys: Keys) -> NDArray[np.uint64]:
    wide = keys.astype(np.uint64)
    return wide[1:] - wide[:-1] - np.uint64(1)  # modulo 2**64, as a gap may exceed int64


def rice(keys: Keys) -> tuple[int, int]:
    """Return the best number of low bits for sorted distinct keys, and the bits that first key and gaps then take."""
    gap = _gaps(keys)
    middle = int(np.median(gap)).bit_length() if len(gap) else int(abs(keys[0])).bit_length()
    mean = int(gap.astype(np.float64).mean()).bit_length() if len(gap) else middle
    best = min((rice_cost(keys, gap, k), k) for k in range(max(0, min(middle, mean) - 2), min(62, max(middle, mean) + 1) + 1))
    return best[1], best[0]


def rice_cost(keys: Keys, gap: NDArray[np.uint64], k: int) -> int:
    """Return the bits of first key and gaps with ``k`` low bits; huge where a unary part would be absurd."""
    first = 1 + gamma_cost(int(abs(int(keys[0]))) >> k) + k
    rest = gap >> np.uint64(k)
    if len(rest) and int(rest.max()) > 1 << 20:
        return 1 << 60
    return first + len(gap) * (k + 1) + int(rest.sum())


def write_keys(out: BitWriter, keys: Keys, k: int) -> None:
    """Write sorted distinct keys: the first with its sign, then all low bits of the gaps, then all unary parts."""
    write_first(out, keys, k)
    gap = _gaps(keys)
    out.numbers(gap & np.uint64((1 << k) - 1), k)
    ends = np.cumsum((gap >> np.uint64(k)).astype(np.int64) + 1)
    unary = np.zeros(int(ends[-1]) if len(ends) else 0, np.uint8)
    unary[ends - 1] = 1
    out.append(unary)


def read_keys(source: BitReader, count: int, k: int) -> Keys:
    """Read ``count`` keys (at least one) that `write_keys` wrote."""
    first = read_first(source, k)
    low = source.numbers(count - 1, k)
    rest = np.diff(source.ends(count - 1), prepend=-1) - 1
    if len(rest) and int(rest.max()) >= 1 << (64 - k):
        raise damaged("a gap in a table that is too large")
    gap = rest.astype(np.uint64) << np.uint64(k) | low
    start = np.array([first], dtype=np.int64).astype(np.uint64)
    return checked_order(np.cumsum(np.concatenate([start, gap + np.uint64(1)]), dtype=np.uint64).astype(np.int64))


def write_first(out: BitWriter, keys: Keys, k: int) -> None:
    """Write the first key with its sign."""
    first = abs(int(keys[0]))
    out.flag(bool(keys[0] < 0))
    out.gamma(first >> k)
    out.number(first & ((1 << k) - 1), k)


def read_first(source: BitReader, k: int) -> int:
    """Read a first key with its sign."""
    negative = source.flag()
    first = source.gamma(((1 << 63) - 1) >> k, "first key of a table") << k | source.number(k)
    return -first if negative else first


def checked_order(keys: Keys) -> Keys:
    """Return keys; `FileFormatError` where they are not sorted."""
    if not (keys[1:] > keys[:-1]).all():
        raise damaged("a table that is not sorted")
    return keys


# ---- a table: mapping and keys


@dataclass(frozen=True, slots=True)
class Style:
    """How a table is written: its mapping and its number of low bits; the next table may repeat it for one bit."""

    mapping: Mapping
    k: int


STYLE_BITS = 2 + _EXPONENT_BITS + _RICE_BITS


def choose(values: NDArray[np.floating[Any]], dtype: Dtype, before: Style | None) -> tuple[Style, Keys, int]:
    """Return the cheapest style for sorted distinct numbers, the keys, and the bits (that of ``before`` costs no style bits)."""
    options: list[tuple[int, Style, Keys]] = []
    again = None if before is None else before.mapping.keys(values, dtype)
    if before is not None and again is not None:
        options.append((1 + rice_cost(again, _gaps(again), before.k), before, again))
    for mapping, keys in candidates(values, dtype):
        k, bits = rice(keys)
        options.append((1 + STYLE_BITS + bits, Style(mapping, k), keys))
    bits, style, keys = min(options, key=lambda option: option[0])
    return style, keys, bits


def rice_cost_of(style: Style, keys: Keys, before: Style | None) -> int:
    """Return the bits of a table in a given style, the style included."""
    return 1 + STYLE_BITS * (style != before) + rice_cost(keys, _gaps(keys), style.k)


def write_style(out: BitWriter, style: Style, before: Style | None) -> None:
    """Write a style, or one bit where it is the one before."""
    out.flag(style == before)
    if style != before:
        out.number(KINDS.index(style.mapping.kind), 2)
        out.number(style.mapping.exponent, _EXPONENT_BITS)
        out.number(style.k, _RICE_BITS)


def read_style(source: BitReader, before: Style | None) -> Style:
    """Read a style."""
    if source.flag():
        if before is None:
            raise damaged("a first table that repeats the one before")
        return before
    kind, exponent, k = source.number(2), source.number(_EXPONENT_BITS), source.number(_RICE_BITS)
    if kind >= len(KINDS) or k > 62 or (KINDS[kind] == "decimal" and exponent > _DECIMALS):
        raise damaged(f"a table of kind {kind}, exponent {exponent} and {k} low bits")
    return Style(Mapping(KINDS[kind], exponent), k)


def numbers_of(style: Style, keys: Keys, dtype: Dtype) -> NDArray[np.floating[Any]]:
    """Return the numbers of a table; `FileFormatError` where one is none, or two are the same."""
    values = style.mapping.values(keys, dtype)
    if np.isnan(values).any() or not (values[1:] > values[:-1]).all():
        raise damaged("a table with a number that is none, or twice the same")
    return values
