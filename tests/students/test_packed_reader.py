"""The reader of packed bytes: hostile input ends in `FileFormatError`, never in anything else, and never in a large allocation."""

import struct
import tracemalloc
import zlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import strategies
from treespec.errors import FileFormatError
from treespec.ir import InputRule
from treespec.students.outcome import Outcome
from treespec.students.packed import PackedStudent
from treespec.students.packed_bits import BitReader, BitWriter
from treespec.students.packed_direct import choose_direct, read_direct, write_direct
from treespec.students.packed_format import pack
from treespec.students.packed_numbers import Mapping, choose, numbers_of, read_keys, read_style, write_keys, write_style


def payloads():
    rng = np.random.default_rng(1)
    rule = InputRule(categorical=(0,), categories=((0, ("a", "b", "c", "d")),), missing_value=-1.0)
    exact = strategies.grow(rng, n_trees=6, max_depth=4, n_outputs=2, categorical=(0,), by_output=True, inputs=rule)
    deep = strategies.grow(rng, n_trees=8, max_depth=6, n_outputs=1)
    shared = deep.with_values(np.round(deep.value))
    vectors = strategies.grow(rng, n_trees=8, max_depth=5, n_outputs=3)
    vectors = vectors.with_values(np.round(vectors.value), aggregation="mean")
    yield exact, pack(exact)
    yield deep, pack(deep, leaf_bits=6)
    yield shared, pack(shared)
    yield vectors, pack(vectors)


PAYLOADS = list(payloads())


def with_checksum(body):
    return struct.pack("<I", zlib.crc32(body)) + body


def read(payload, forest):
    try:
        return PackedStudent(payload, Outcome.of(forest))
    except FileFormatError:
        return None


@settings(deadline=None, max_examples=400)
@given(which=st.integers(0, len(PAYLOADS) - 1), data=st.data())
def test_mutated_bytes_are_refused_or_a_forest(which, data):
    forest, payload = PAYLOADS[which]
    body = bytearray(payload[4:])
    for _ in range(data.draw(st.integers(1, 4))):
        body[data.draw(st.integers(0, len(body) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    student = read(with_checksum(bytes(body)), forest)
    if student is not None and not student.forest.inputs.categories:
        assert len(student.margin(np.zeros((3, forest.n_features)))) == 3


@pytest.mark.parametrize("which", range(len(PAYLOADS)))
def test_every_single_bit_of_a_file_matters_or_is_refused(which):
    forest, payload = PAYLOADS[which]
    for position in range(min(len(payload), 250) * 8):
        changed = bytearray(payload)
        changed[position // 8] ^= 1 << position % 8
        with pytest.raises(FileFormatError):
            PackedStudent(bytes(changed), Outcome.of(forest))
        read(with_checksum(bytes(changed[4:])), forest)


@pytest.mark.parametrize("which", range(len(PAYLOADS)))
def test_truncated_and_longer_bytes_are_refused(which):
    forest, payload = PAYLOADS[which]
    for length in range(len(payload)):
        with pytest.raises(FileFormatError):
            PackedStudent(payload[:length], Outcome.of(forest))
        assert read(with_checksum(payload[4 : max(4, length)]), forest) is None
    assert read(with_checksum(payload[4:] + b"\0"), forest) is None


def test_random_bytes_are_refused_without_large_allocations():
    rng = np.random.default_rng(0)
    forest = PAYLOADS[0][0]
    tracemalloc.start()
    for _ in range(500):
        read(with_checksum(rng.integers(0, 256, size=int(rng.integers(1, 300)), dtype=np.uint8).tobytes()), forest)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 300e6


def test_huge_counts_are_refused_before_allocation():
    forest = PAYLOADS[1][0]
    for n_trees, n_inner, n_tables in ((2**20, 0, 0), (2**40, 1, 1), (5, 2**50, 3), (5, 3, 2**30), (0, 10, 1)):
        out = BitWriter()
        out.number(1, 6)
        for n in (n_trees, n_inner, n_tables):
            out.gamma(n)
        out.append(np.zeros(800, np.uint8))
        tracemalloc.start()
        assert read(with_checksum(out.to_bytes()), forest) is None or n_trees == 2**20
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 300e6


def test_another_version_is_refused():
    forest, payload = PAYLOADS[1]
    body = bytearray(payload[4:])
    body[0] = body[0] & 0xF0 | 2
    with pytest.raises(FileFormatError, match="version 2"):
        PackedStudent(with_checksum(bytes(body)), Outcome.of(forest))


@settings(deadline=None, max_examples=150)
@given(
    values=st.lists(st.floats(allow_nan=False, width=32), min_size=1, max_size=40),
    dtype=st.sampled_from(["float32", "float64"]),
    short=st.booleans(),
)
def test_sorted_numbers_come_back(values, dtype, short):
    numbers = np.unique(np.array(values, dtype) + np.zeros(1, dtype))
    if short:
        numbers = np.unique(np.round(numbers[np.abs(numbers) < 1e4], 2)) + np.zeros(1, dtype)
    if not len(numbers):
        return
    ways = ((lambda v, d: choose(v, d, None), write_keys, read_keys), (choose_direct, write_direct, lambda *a: read_direct(*a).keys))
    for chosen, write, read in ways:
        style, keys, bits = chosen(numbers, dtype)
        out = BitWriter()
        write_style(out, style, None)
        write(out, keys, style.k)
        assert out.n_bits == bits
        source = BitReader(out.to_bytes())
        assert read_style(source, None) == style
        np.testing.assert_array_equal(numbers_of(style, read(source, len(numbers), style.k), dtype), numbers)
        assert source.position == bits


@pytest.mark.parametrize("mapping", [Mapping("decimal", 2), Mapping("binary", 35), Mapping("float", 12)])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_mappings_are_exact_or_say_no(mapping, dtype):
    rng = np.random.default_rng(0)
    numbers = np.concatenate([np.round(rng.normal(size=50) * 10, 2), rng.normal(size=50), np.arange(50) / 8]).astype(dtype)
    keys, exact = mapping.match(numbers, dtype)
    np.testing.assert_array_equal(mapping.values(keys, dtype)[exact], numbers[exact])
    assert exact.any() and not exact.all()


def test_bits_come_back():
    rng = np.random.default_rng(0)
    out = BitWriter()
    numbers = [rng.integers(0, 2**w, 20, dtype=np.uint64) for w in (1, 7, 31, 63)]
    for n in (0, 1, 2, 63, 2**40):
        out.gamma(n)
        out.signed(-n)
    for w, values in zip((1, 7, 31, 63), numbers, strict=True):
        out.numbers(values, w)
    out.raw(b"abc")
    source = BitReader(out.to_bytes())
    for n in (0, 1, 2, 63, 2**40):
        assert source.gamma(2**41, "number") == n and source.signed(2**41, "number") == -n
    for w, values in zip((1, 7, 31, 63), numbers, strict=True):
        np.testing.assert_array_equal(source.numbers(20, w), values)
    assert source.raw(3) == b"abc" and source.n_left == 0
    with pytest.raises(FileFormatError):
        source.flag()


@pytest.mark.slow
def test_ten_thousand_mutated_files_are_refused_or_students():
    """Bits flipped, bytes replaced, cut out, repeated, the end cut off: checksums made right, so that the reader itself is tried."""
    rng = np.random.default_rng(0)
    kept = 0
    for i in range(10_000):
        forest, payload = PAYLOADS[i % len(PAYLOADS)]
        body = bytearray(payload[4:])
        at, length = (int(v) for v in rng.integers(0, (len(body), 12)))
        match i // len(PAYLOADS) % 5:
            case 0:
                body[at] ^= 1 << int(rng.integers(8))
            case 1:
                body[at : at + length] = rng.integers(0, 256, length, dtype=np.uint8).tobytes()
            case 2:
                del body[at : at + length]
            case 3:
                body[at:at] = body[at : at + length]
            case 4:
                del body[at:]
        student = read(with_checksum(bytes(body)), forest)
        if student is not None:
            kept += 1
            assert student.n_bytes == len(body) + 4
            if not student.forest.inputs.categories:
                assert len(student.margin(np.zeros((3, forest.n_features)))) == 3
    assert 100 < kept < 5000
