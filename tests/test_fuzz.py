"""Mutated files of every format: a clear error or a valid object; no crash, no hang, no memory."""

import os
import signal
import sys
import time

import numpy as np
import pytest

from mutation import mutate, run
from readers import READERS
from treespec.errors import FileFormatError

pytestmark = pytest.mark.skipif(not (hasattr(os, "fork") and sys.platform == "linux"), reason="limits are set in forked children")

NEEDS = {"XGBoost JSON": "xgboost", "XGBoost UBJSON": "xgboost", "LightGBM text": "lightgbm"}


@pytest.mark.parametrize("name", READERS)
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_mutated_files_are_refused_or_valid(name):
    if name in NEEDS:
        pytest.importorskip(NEEDS[name])
    outcome = run(READERS[name].read, READERS[name].mutated(200, seed=1))
    assert set(outcome.counts) <= {"error", "valid"}, outcome.findings[:3]
    assert outcome.counts["error"] > 50 and outcome.counts["valid"] > 5 and sum(outcome.counts.values()) == 200


@pytest.mark.parametrize(
    ("what", "read"),
    [
        ("crash", lambda content: os.kill(os.getpid(), signal.SIGKILL)),
        ("hang", lambda content: time.sleep(60)),
        ("exception", lambda content: np.zeros(2**31)),
        ("exception", lambda content: {}["key"]),
        ("exception", lambda content: (_ for _ in ()).throw(FileFormatError("without a hint"))),
    ],
)
def test_what_must_not_be_is_seen(monkeypatch, what, read):
    monkeypatch.setattr("mutation.SECONDS", 0.2)
    outcome = run(lambda content: read(content) if content == b"bad" else None, [b"good", b"bad", b"good"])
    assert outcome.counts == {"valid": 2, what: 1}
    assert outcome.findings[0][1] == b"bad"


def test_mutations_are_those_of_the_seed_and_differ():
    content = b'{"a": [1, 2, 3], "b": "text"}' * 5
    made = [mutate(content, np.random.default_rng(k)) for k in range(50)]
    assert made == [mutate(content, np.random.default_rng(k)) for k in range(50)]
    assert len(set(made)) > 40


def test_a_net_with_a_weight_that_is_no_number_is_refused():
    reader = READERS["mlp student"]
    content = bytearray(reader.samples()[0])
    content[-4:] = b"\xff\xff\xff\x7f"
    with pytest.raises(FileFormatError, match="no finite number"):
        reader.read(reader.checksum(bytes(content)))


def test_a_small_file_takes_little_memory(tmp_path):
    """A reader that asks for more bytes than there are gets them allocated at once."""
    import tracemalloc

    from treespec.adapters import files

    (tmp_path / "model").write_bytes(READERS["Treelite checkpoint"].samples()[0])
    tracemalloc.start()
    files.treespec_adapt(tmp_path / "model")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 20e6
