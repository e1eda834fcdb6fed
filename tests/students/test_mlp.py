"""Nets as students: folding and rounding change nothing that matters, bytes are as counted, files are exact."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from treespec.errors import FileFormatError
from treespec.students.file import loads
from treespec.students.fold import fold_output, store
from treespec.students.mlp import MLPStudent, inverse_link, student_bytes
from treespec.students.outcome import Outcome
from treespec.students.preprocess import Column, Preprocess

PRECISIONS = ["float32", "float16", "int8"]
TOLERANCE = {"float32": 1e-4, "float16": 5e-3, "int8": 5e-2}


def random_net(rng, shape):
    return [(rng.normal(size=(b, a)) / np.sqrt(a), rng.normal(size=b) / 10) for a, b in pairwise(shape)]


def plain(net, z):
    for k, (weight, bias) in enumerate(net):
        z = z / (1 + np.exp(-z)) if k else z
        z = z @ weight.T + bias
    return z


def student(rng, d=3, hidden=(8,), k=1, precision="float16", members=1, mean=0.0, sd=1.0, scale=1.0, shift=0.0, **outcome):
    nets = [random_net(rng, (d, *hidden, k)) for _ in range(members)]
    mean, sd = np.broadcast_to(mean, d).astype(float), np.broadcast_to(sd, d).astype(float)
    exponent, stored = store([fold_output(net, np.full(k, scale), np.full(k, shift)) for net in nets], mean, sd, precision)
    outcome = Outcome(**{"task": "regression", "link": "identity", "n_outputs": k, "n_features": d} | outcome)
    return MLPStudent(outcome, Preprocess((Column(),) * d), exponent, stored, "value", precision), nets


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("hidden", [(), (16,), (9, 7)])
def test_folding_and_rounding_keep_the_function(precision, hidden):
    rng = np.random.default_rng(0)
    mean, sd = np.array([1.6e9, 3e-6, -20.0]), np.array([1e6, 1e-6, 5.0])
    made, (net,) = student(rng, hidden=hidden, precision=precision, mean=mean, sd=sd, scale=8e4, shift=2e5)
    z = rng.normal(size=(200, 3))
    X = z * sd + mean
    z = (X.astype(np.float32).astype(float) - mean) / sd
    expected = plain(net, z)[:, 0]
    got = (made.predict(X) - 2e5) / 8e4
    assert np.abs(got - expected).max() <= TOLERANCE[precision] * max(1, np.abs(expected).max())


def test_the_first_bias_is_taken_from_the_rounded_weights():
    """A column far from zero magnifies the rounding of its weight, unless the bias knows of it."""
    rng = np.random.default_rng(1)
    made, (net,) = student(rng, hidden=(), precision="int8", mean=1e4, sd=1.0)
    assert abs(made.predict(np.full((1, 3), 1e4))[0] - net[0][1][0]) < 1e-2


def test_members_are_averaged():
    rng = np.random.default_rng(2)
    made, nets = student(rng, members=3, precision="float32")
    z = rng.normal(size=(50, 3))
    np.testing.assert_allclose(made.predict(z), np.mean([plain(n, z)[:, 0] for n in nets], axis=0), atol=1e-5)


@given(st.integers(1, 6), st.lists(st.integers(1, 9), max_size=3), st.integers(1, 3), st.sampled_from(PRECISIONS), st.integers(1, 3))
@settings(max_examples=40, deadline=None)
def test_bytes_are_counted_before_training_and_files_are_exact(d, hidden, k, precision, members):
    rng = np.random.default_rng(0)
    made, _ = student(
        rng, d=d, hidden=tuple(hidden), k=k, precision=precision, members=members, task="regression" if k == 1 else "multi-output"
    )
    assert made.n_bytes == len(made.payload()) == student_bytes(made.preprocess, made.shape, precision, members)
    again = loads(made.to_bytes())
    X = rng.normal(size=(20, d))
    np.testing.assert_array_equal(again.predict(X), made.predict(X))
    assert again.to_bytes() == made.to_bytes()


def test_infinities_and_huge_values_do_not_give_nan():
    made, _ = student(np.random.default_rng(0), hidden=(4, 4))
    X = np.array([[np.inf, -np.inf, 0.0], [1e300, -1e300, 1e38]])
    assert np.isfinite(made.predict(X)).all()


@pytest.mark.parametrize(
    ("link", "scale", "mean", "margin"),
    [("identity", 1.0, 3.0, 3.0), ("exp", 1.0, 2.0, np.log(2)), ("sigmoid", 2.0, 0.75, np.log(3) / 2), ("signed-square", 1.0, -4.0, -2.0)],
)
def test_inverse_links(link, scale, mean, margin):
    outcome = Outcome("regression", link, 1, 1, link_scale=scale)
    np.testing.assert_allclose(inverse_link(np.array([[mean]]), outcome), [[margin]])


def test_inverse_link_of_probabilities():
    outcome = Outcome("binary", "probability", 2, 1)
    np.testing.assert_allclose(
        inverse_link(np.array([[0.3], [1.7], [-2.0]]), outcome), [[0.7, 0.3], [1e-6, 1 - 1e-6], [1 - 1e-6, 1e-6]], atol=1e-12
    )


def test_damaged_files_are_refused(tmp_path):
    import treespec

    data = student(np.random.default_rng(0), hidden=(5,))[0].to_bytes()
    rng = np.random.default_rng(0)
    for end in range(0, len(data), 7):
        with pytest.raises(FileFormatError):
            loads(data[:end])
    for position in rng.choice(len(data), 150, replace=False):
        bad = bytearray(data)
        bad[position] ^= 1 + int(rng.integers(255))
        with pytest.raises(FileFormatError):
            loads(bytes(bad))
    with pytest.raises(FileFormatError, match="No such file"):
        treespec.load_student(tmp_path / "none.tsp")


FORGED = [
    {"kind": {"a": 1}},
    {"kind": "pickle"},
    {"report": [1]},
    {"outcome": 3},
    {"outcome": {"link": "[]"}},
    {"outcome": {"task": "guessing"}},
    {"outcome": {"n_outputs": float("inf")}},
    {"outcome": {"n_outputs": 0}},
    {"outcome": {"link_scale": float("nan")}},
    {"outcome": {"absent": "x"}},
    {"outcome": {"feature_names": ["a"]}},
    {"outcome": {"task": "binary", "classes": []}},
    {"outcome": {"task": "binary", "classes": [{"type": "text", "labels": "x"}]}},
]


@pytest.mark.parametrize("change", FORGED)
def test_forged_metadata_is_refused(change):
    """Right checksums, as a hostile writer would make them."""
    import json
    import struct
    import zlib

    data = student(np.random.default_rng(0), hidden=(5,))[0].to_bytes()
    head = struct.Struct("<4sIIII")
    _, version, n_text, n_payload, _ = head.unpack_from(data)
    metadata, payload = json.loads(data[head.size : head.size + n_text]), data[head.size + n_text :]

    def forged(metadata):
        text = json.dumps(metadata).encode()
        return head.pack(b"TSPS", version, len(text), n_payload, zlib.crc32(payload, zlib.crc32(text))) + text + payload

    assert isinstance(loads(forged(metadata)), MLPStudent)
    own = change.get("outcome")
    changed = metadata | change | ({"outcome": metadata["outcome"] | own} if isinstance(own, dict) else {})
    with pytest.raises(FileFormatError):
        loads(forged(changed))


def test_what_is_no_path_is_refused(tmp_path):
    import treespec

    for path, message in [(None, "no path"), (5, "no path"), ("a\0b", "no path|No such"), (tmp_path, "directory"), ("/dev/zero", "device")]:
        with pytest.raises(FileFormatError, match=message):
            treespec.load_student(path)


def test_a_forged_payload_is_refused():
    """Right checksums, wrong sizes: as a hostile writer would make it."""
    import struct
    import zlib

    made, _ = student(np.random.default_rng(0), hidden=(5,))
    body = made.payload()[12:]
    for head in [
        (1, 200, 2, 0, 3, 1),
        (1, 1, 255, 0, 3, 1),
        (1, 1, 2, 0, 3, 60000),
        (9, 1, 2, 0, 3, 1),
        (1, 1, 2, 9, 3, 1),
        (1, 0, 2, 0, 3, 1),
        (1, 1, 2, 0, 4, 1),
    ]:
        with pytest.raises(FileFormatError):
            MLPStudent.from_payload(struct.pack("<BBBBHHI", *head, zlib.crc32(body)) + body, made.outcome)
    assert isinstance(MLPStudent.from_payload(made.payload(), made.outcome), MLPStudent)
