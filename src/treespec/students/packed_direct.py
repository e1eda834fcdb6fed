"""Sorted sets of numbers of which one can be read without those before it: the code of Elias and Fano, for distinct leaf values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treespec.students.packed_bits import BitReader, BitWriter, damaged, gamma_cost
from treespec.students.packed_numbers import STYLE_BITS, Dtype, Keys, Style, candidates, checked_order, read_first, write_first


def direct(keys: Keys) -> tuple[int, int]:
    """Return the best number of low bits for `write_direct`, and the bits that the keys then take."""
    reach, count = int(keys[-1]) - int(keys[0]), len(keys)
    middle = (reach // count).bit_length() if count > 1 else int(abs(keys[0])).bit_length()
    best = min((_direct_cost(keys, k), k) for k in range(max(0, middle - 3), min(62, middle + 2) + 1))
    return best[1], best[0]


def _direct_cost(keys: Keys, k: int) -> int:
    first = 1 + gamma_cost(int(abs(int(keys[0]))) >> k) + k
    return first + (len(keys) - 1) * (k + 1) + (int(keys[-1]) - int(keys[0]) >> k)


def write_direct(out: BitWriter, keys: Keys, k: int) -> None:
    """Write sorted distinct keys such that one can be read without those before it.

    The first with its sign; of the others' distances from it, all low bits, then the higher bits in unary: one, as many zeros behind the
    one before as they have grown.
    """
    write_first(out, keys, k)
    distance = keys[1:].astype(np.uint64) - keys[:1].astype(np.uint64)
    out.numbers(distance & np.uint64((1 << k) - 1), k)
    place = (distance >> np.uint64(k)).astype(np.int64) + np.arange(len(distance))
    unary = np.zeros(int(place[-1]) + 1 if len(place) else 0, np.uint8)
    unary[place] = 1
    out.append(unary)


@dataclass(frozen=True, eq=False)
class Direct:
    """What `write_direct` wrote: the keys, and where the low and the high bits of their distances begin."""

    keys: Keys
    low_at: int
    high_at: int


def read_direct(source: BitReader, count: int, k: int) -> Direct:
    """Read ``count`` keys (at least one) that `write_direct` wrote."""
    first = read_first(source, k)
    low_at = source.position
    low = source.numbers(count - 1, k)
    high_at = source.position
    high = source.ends(count - 1) - np.arange(count - 1)
    if len(high) and int(high.max()) >= 1 << (64 - k):
        raise damaged("a distance in a table that is too large")
    distance = np.concatenate([np.zeros(1, np.uint64), high.astype(np.uint64) << np.uint64(k) | low])
    return Direct(checked_order((np.array([first]).astype(np.uint64) + distance).astype(np.int64)), low_at, high_at)


def choose_direct(values: NDArray[np.floating[Any]], dtype: Dtype) -> tuple[Style, Keys, int]:
    """Return the cheapest style for sorted distinct numbers that are written with `write_direct`, the keys, and the bits."""
    options: list[tuple[int, Style, Keys]] = []
    for mapping, keys in candidates(values, dtype):
        k, bits = direct(keys)
        options.append((1 + STYLE_BITS + bits, Style(mapping, k), keys))
    bits, style, keys = min(options, key=lambda option: option[0])
    return style, keys, bits
