"""Each rule of the reader of packed trees, broken alone: the error names what is wrong."""

import json
import struct
import zlib

import numpy as np
import pytest

import strategies
from treespec.errors import FileFormatError
from treespec.students.outcome import Outcome
from treespec.students.packed_bits import BitReader, BitWriter
from treespec.students.packed_direct import read_direct
from treespec.students.packed_format import pack
from treespec.students.packed_inputs import read_rule
from treespec.students.packed_leaves import read_exact
from treespec.students.packed_numbers import read_keys, read_style
from treespec.students.packed_quantise import read_quantised
from treespec.students.packed_reader import _read_leaves, _read_outputs, _read_shape, unpack
from treespec.students.packed_tables import read_tables


def source(*fields, zeros=200):
    """Return a reader of (value, width) numbers, gamma-coded integers ("g", value), raw bytes, and zeros behind them."""
    out = BitWriter()
    for field in fields:
        if isinstance(field, bytes):
            out.raw(field)
        elif field[0] == "g":
            out.gamma(field[1])
        else:
            out.number(*field)
    out.append(np.zeros(zeros, np.uint8))
    return BitReader(out.to_bytes())


def refused(match, read, *arguments):
    with pytest.raises(FileFormatError, match=match):
        read(*arguments)


def test_bits():
    refused("end inside a field", source((1, 1), zeros=0).take, 9)
    refused("padding", _aligned, source((0b10, 2)))
    refused("too large", source(zeros=400).gamma, 2**70, "number of trees")
    refused("number of trees 5, above 4", source(("g", 5)).gamma, 4, "number of trees")
    refused("end inside a table", source((1, 1)).ends, 2)


def _aligned(reader):
    reader.take(1)
    reader.align()


@pytest.mark.parametrize(("kind", "exponent", "k"), [(3, 0, 0), (0, 8, 0), (1, 0, 63)])
def test_styles(kind, exponent, k):
    refused("a table of kind", read_style, source((0, 1), (kind, 2), (exponent, 6), (k, 6)), None)
    refused("repeats the one before", read_style, source((1, 1)), None)
    assert read_style(source((0, 1), (0, 2), (7, 6), (62, 6)), None).k == 62


def test_keys():
    half = (2**62 - 1, 62)
    refused("first key", read_keys, source((0, 1), ("g", 4)), 1, 61)
    refused("too large", read_keys, source((0, 1), ("g", 0), half, half, (16, 5)), 2, 62)
    refused("not sorted", read_keys, source((0, 1), ("g", 1), half, half, (0b10, 2)), 2, 62)
    refused("too large", read_direct, source((0, 1), ("g", 0), half, half, (16, 5)), 2, 62)
    refused("not sorted", read_direct, source((0, 1), ("g", 0), (0, 1), (0, 1), (1, 1)), 2, 1)


def test_tables():
    number = [(0, 1), (2, 2), (0, 6), (0, 6), (0, 1), ("g", 0)]
    refused("feature 3, above 1", read_tables, source((0, 1), ("g", 3)), 1, 0, 2, "float32")
    refused("number of splits", read_tables, source((0, 1), ("g", 0), ("g", 10_000)), 1, 0, 2, "float32")
    refused("no number", read_tables, source((0, 1), ("g", 0), ("g", 0), *number[:4], (0, 1), ("g", 2**31)), 1, 0, 2, "float32")
    assert len(read_tables(source((0, 1), ("g", 0), ("g", 0), *number), 1, 0, 2, "float32")) == 1
    refused("several empty", read_tables, source((1, 1), ("g", 0), (1, 1), ("g", 1), (0, 1), (1, 1), ("g", 0)), 1, 0, 2, "float32")
    negative = [(0, 1), (0, 1), ("g", 1), (0, 6), (1, 1), ("g", 5)]
    refused("code out of range", read_tables, source((1, 1), ("g", 0), (1, 1), ("g", 0), *negative), 1, 0, 2, "float32")


def test_outputs_and_shape():
    refused("adds to no output", _read_outputs, source((3, 2)), 4, 3)
    refused("adds to no output", _read_outputs, source((2, 2), (3, 2)), 1, 3)
    assert _read_outputs(source((2, 2), (2, 2)), 1, 3)[1].tolist() == [2]
    refused("without a parent", _read_shape, source((0b10, 2)), 1, 1)
    refused("without a parent", _read_shape, source((0b1001, 4)), 1, 2)
    assert _read_shape(source((0b101, 3)), 1, 2).tolist() == [True, False, True, False, False]


def test_leaves():
    number = np.array([np.inf], "<f4").tobytes()
    refused("leaf value that is not finite", read_exact, source((0, 2), number), 1, 1)
    refused("base score that is not finite", _read_leaves, source((0, 1), (1, 1), (0, 1), number), 1, 1, 1, 1)
    table = [(0, 1), (1, 1), ("g", 2), (0, 1), (0, 2), (0, 6), (0, 6), (0, 1), ("g", 0), (0b1010, 4)]
    refused("distinct leaf values", read_exact, source((0, 1), (1, 1), ("g", 10_000)), 1, 1)
    aligned = source(*table, b"\x03")
    refused("an index above 2", read_exact, aligned, 1, 1)
    assert read_exact(source(*table, b"\x02"), 1, 1).values.tolist() == [[2.0]]


@pytest.mark.parametrize(
    ("fields", "match"),
    [
        ([("g", 17)], "leaf bits"),
        ([("g", 4), (0, 1), ("g", 2000)], "leaf step"),
        ([("g", 4), (0, 1), ("g", 3), (53, 6)], "base score of 53 bits"),
        ([("g", 4), (0, 1), ("g", 3), (0, 7), (6, 3)], "steps of 6 bits"),
    ],
)
def test_quantised_leaves(fields, match):
    refused(match, read_quantised, source(*fields), 2, 1, 1, 1)


@pytest.mark.parametrize(
    ("text", "match"),
    [
        (b"[[9,[1]]]", "column 9"),
        (b"[[true,[1]]]", "column True"),
        (b"[[0,[[1]]]]", "neither text nor numbers"),
        (b"[[0,[1]", "cannot be read"),
        (b"[1]", "cannot be read"),
    ],
)
def test_category_values(text, match):
    fields = [(0, 4), (0, 2), (0, 1), (1, 1), (0, 2), (0, 3), ("g", 0), ("g", len(text)), text]
    refused(match, read_rule, source(*fields), 2)
    assert json.loads(b"[[1,[1]]]") == [[1, [1]]]


def test_input_rules():
    refused("does not exist", read_rule, source((0, 4), (3, 2)), 2)
    refused("does not exist", read_rule, source((0, 4), (0, 2), (0, 1), (1, 1), (3, 2), (0, 3), ("g", 0), ("g", 0)), 2)
    refused("column 2, above 1", read_rule, source((0, 4), (0, 2), (0, 1), (1, 1), (0, 2), (0, 3), ("g", 1), ("g", 2)), 2)


def test_the_head_must_fit_the_link():
    forest = strategies.grow(np.random.default_rng(0))
    for head, link in (("logit", "exp"), ("softmax", "identity")):
        refused("head", unpack, pack(forest, head=head), Outcome.of(forest.with_values(forest.value, link=link)))
    unpack(pack(forest, head="logit"), Outcome.of(forest))  # a regression on 0 and 1


def test_indices_stay_within_the_splits():
    for seed in range(30):
        forest = strategies.grow(np.random.default_rng(seed), n_trees=5, max_depth=2, n_features=2, split=1.0)
        payload = pack(forest)
        u = unpack(payload, Outcome.of(forest))
        if u.n_splits & (u.n_splits - 1):  # else every index of so many bits is a split
            break
    body = bytearray(payload[4:])
    body[u.index_at // 8 - 4] = 255
    refused(f"a split above {u.n_splits - 1}", unpack, struct.pack("<I", zlib.crc32(bytes(body))) + bytes(body), Outcome.of(forest))
