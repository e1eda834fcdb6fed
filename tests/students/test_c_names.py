"""Names from the model in a C export: whatever they hold, they end no comment and add no code (SECURITY.md)."""

import re
import shutil
import subprocess

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from compiled import STRICT
from treespec.students.fold import store
from treespec.students.mlp import MLPStudent
from treespec.students.outcome import Outcome
from treespec.students.preprocess import Column, Preprocess

pytestmark = pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc")

NASTY = [
    "*/ int injected; /*", "*/\n#error injected\n/*", "/*", "*/", "/*/", "*/*/", "**//", "*\\\n/ int injected; /*", "ends with \\", "ends with \\ ",
    "\\\t", "\r\n#error injected", "\x0b\x0c#error injected", "??/", "ends with ??/", "*??/\n/ int injected; /*", "é?/", "éé/", "é*/é", "??=error", "???/",
    '"', "'", '"; int injected; char *s = "', "%s%n", "\x00", "\x85#error", "\u2028#error injected", "\u202e*/", "naïve", "数", "*\u200b/", "", " ", "//", "// \\",
]  # fmt: skip


def net(names, classes, values):
    """A net of two inputs, the second a category, with three classes."""
    columns = (Column(), Column("category", values=tuple(values)))
    weight = np.random.default_rng(0).normal(size=(3, 1 + len(values)))
    exponent, members = store([[(weight, np.zeros(3))]], np.zeros(weight.shape[1]), np.ones(weight.shape[1]), "float32")
    outcome = Outcome("multiclass", "softmax", 3, 2, feature_names=tuple(names), classes=(np.array(classes, dtype=object),))
    return MLPStudent(outcome, Preprocess(columns), exponent, members, "margin", "float32")


def tokens(folder):
    """What the compiler sees after comments are gone, of the header and of the source."""
    out = [subprocess.run([*STRICT, "-E", "-P", name], cwd=folder, check=True, capture_output=True).stdout for name in ("m.h", "m.c")]
    assert out[0].count(b"void m_predict(const float *x, float *out);") == 1
    return out


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    folder = tmp_path_factory.mktemp("plain")
    net(["a", "b"], ["p", "q", "r"], ["u", "v"]).to_c(folder, "m")
    return tokens(folder)


def check(names, classes, values, folder, plain):
    net(names, classes, values).to_c(folder, "m")
    assert tokens(folder) == plain
    for command in (
        STRICT,
        ["gcc", "-std=gnu17", "-Wall", "-Wextra", "-Werror", "-trigraphs"],
        ["g++", "-x", "c++", "-Wall", "-Wextra", "-Werror"],
    ):
        if shutil.which(command[0]) is not None:
            name = "m.h" if command[0] == "g++" else "m.c"
            subprocess.run([*command, "-fsyntax-only", name], cwd=folder, check=True, capture_output=True)
    text = (folder / "m.h").read_bytes() + (folder / "m.c").read_bytes()
    assert all(c == 10 or 32 <= c < 127 for c in text)  # nothing that turns the direction of text or hides


@pytest.mark.parametrize("name", NASTY)
def test_a_name_stays_in_its_comment(name, tmp_path, plain):
    check([name, "b"], ["p", "q", "r"], ["u", "v"], tmp_path, plain)
    check(["a", name], ["p", name, "q"], ["u", name], tmp_path, plain)


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])  # each example writes its files anew
@given(texts=st.lists(st.text("*/\\?=\n\r \"'é", max_size=6), min_size=5, max_size=5, unique=True))
def test_names_of_any_comment_signs(texts, tmp_path, plain):
    check(texts[:2], ["p", texts[2], "q"], [texts[3], texts[4]], tmp_path, plain)


def test_names_can_be_read(tmp_path):
    net(["age", "size in m^2 (net)"], ["p", "q", "r"], ["u", "v"]).to_c(tmp_path, "m")
    header = (tmp_path / "m.h").read_text()
    assert " * x[0] is age\n * x[1] is size in m^2 (net)\n" in header and "x[1] is a code: 0 = u, 1 = v; 2 for any other" in header
    assert not re.search(r"age|size in", (tmp_path / "m.c").read_text())
