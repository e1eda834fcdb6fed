"""Bytes of a forest: a round trip is exact, and no damaged bytes get through."""

import json
import struct
import zlib

import numpy as np
import pytest
from hypothesis import given, settings

from strategies import forests, grow
from treespec.errors import FileFormatError
from treespec.ir import Forest, InputRule, serialize


def rich():
    return grow(
        np.random.default_rng(3), n_trees=4, n_features=3, n_outputs=2, categorical=(1,), feature_names=("a", "b", "ü"),
        inputs=InputRule(dtype="float32", missing_value=-999.0, categorical=(1,), categories=((1, ("x", "y", 3.0)),), unknown_category="missing"),
        framework="test", native_id=None, loss="squared", link_scale=0.7,
    )  # fmt: skip


@given(forests(max_outputs=3))
@settings(max_examples=60)
def test_round_trip_is_exact(forest):
    data = forest.to_bytes()
    again = Forest.from_bytes(data)
    assert again.equals(forest)
    assert again.to_bytes() == data


def test_round_trip_keeps_the_input_rule_and_classes():
    forest = rich()
    again = Forest.from_bytes(forest.to_bytes())
    assert again.equals(forest)
    assert repr(again.inputs) == repr(forest.inputs)
    stump = grow(np.random.default_rng(0), n_trees=1, n_outputs=1)
    for classes in (np.array(["no", "yes"]), np.array([0, 1]), np.array([False, True]), np.array([1.5, 2.5])):
        binary = stump.with_values(stump.value, task="binary", classes=(classes,), link="sigmoid")
        read = Forest.from_bytes(binary.to_bytes()).classes[0]
        np.testing.assert_array_equal(read, classes)
        assert read.dtype.kind == classes.dtype.kind


def test_every_truncation_is_refused():
    data = rich().to_bytes()
    for end in range(0, len(data), max(1, len(data) // 97)):
        with pytest.raises(FileFormatError):
            Forest.from_bytes(data[:end])


def test_every_flipped_byte_is_refused():
    data = rich().to_bytes()
    rng = np.random.default_rng(0)
    for position in rng.choice(len(data), 200, replace=False):
        bad = bytearray(data)
        bad[position] ^= 1 + int(rng.integers(255))
        with pytest.raises(FileFormatError):
            Forest.from_bytes(bytes(bad))


def forged(change, body=None):
    """Return bytes with a changed header and a right checksum, as a hostile writer would make them."""
    data = rich().to_bytes()
    head = struct.Struct("<4sIQI")
    _, _, length, _ = head.unpack_from(data)
    header = json.loads(data[head.size : head.size + length])
    change(header)
    text = json.dumps(header).encode()
    body = data[head.size + length :] if body is None else body
    return head.pack(b"TSPF", 1, len(text), zlib.crc32(body, zlib.crc32(text))) + text + body


def huge(header):
    header["arrays"][0][2] = [2**60]


def negative(header):
    header["arrays"][0][2] = [-5]


def objects(header):
    header["arrays"][0][1] = "|O"


def cycle(header):
    header["fields"]["n_features"] = 0


def unknown(header):
    header["fields"]["surprise"] = 1


def no_rule(header):
    header["fields"]["inputs"] = {}


def deep(header):
    header["fields"]["classes"] = [{"type": "O8", "labels": [1]}]


FIELDS = [
    ("sum_dtype", "floGt64"), ("sum_dtype", -1), ("task", "guessing"), ("link_scale", [[]]), ("link_scale", float("inf")), ("loss", None),
    ("framework", float("nan")), ("ties_to_last", 2), ("classes", [{"type": "<f8", "labels": 3}]), ("classes", []),
]  # fmt: skip
RULE = [
    ("dtype", "float16"), ("nan", 0), ("infinite", "x"), ("zero", []), ("absent", None), ("unknown_category", {}), ("categorical", [99]),
    ("numbers_are_codes", 3), ("negative_fraction_is_zero", float("nan")), ("categories", [[99, [1.0]]]),
]  # fmt: skip


@pytest.mark.parametrize(("field", "value"), FIELDS)
def test_fields_of_no_meaning_are_refused(field, value):
    with pytest.raises(FileFormatError):
        Forest.from_bytes(forged(lambda header: header["fields"].update({field: value})))


@pytest.mark.parametrize(("field", "value"), RULE)
def test_an_input_rule_of_no_meaning_is_refused(field, value):
    with pytest.raises(FileFormatError):
        Forest.from_bytes(forged(lambda header: header["fields"]["inputs"].update({field: value})))


@pytest.mark.parametrize("data", [None, 3, "TSPF", b""])
def test_what_is_no_bytes_is_refused(data):
    with pytest.raises(FileFormatError):
        Forest.from_bytes(data)


@pytest.mark.parametrize("change", [huge, negative, objects, cycle, unknown, no_rule, deep])
def test_a_forged_header_is_refused(change):
    assert Forest.from_bytes(forged(lambda header: None)).equals(rich())
    with pytest.raises(FileFormatError):
        Forest.from_bytes(forged(change))


def test_another_version_says_so():
    data = bytearray(rich().to_bytes())
    data[4] = 9
    with pytest.raises(FileFormatError, match="version 9"):
        serialize.loads(bytes(data))


def test_the_width_of_text_labels_is_no_difference():
    wide = np.array(["a", "b"], dtype="<U21")
    forest = grow(np.random.default_rng(0), n_outputs=2)
    forest = forest.with_values(forest.value, task="binary", classes=(wide,))
    assert forest.equals(Forest.from_bytes(forest.to_bytes()))
    assert not forest.equals(forest.with_values(forest.value, classes=(np.array(["a", "c"]),)))
