"""The generated page of supported models lists the models that the conformance benchmark fits."""

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "support.md"

pytestmark = pytest.mark.skipif(not (PAGE.exists() and (ROOT / "benchmarks").exists()), reason="no docs or benchmarks in this distribution")


@pytest.fixture
def catalogue(monkeypatch):
    pytest.importorskip("xgboost")
    pytest.importorskip("lightgbm")
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    before = set(sys.modules)
    import catalogue

    yield catalogue
    for name in set(sys.modules) - before:
        if name.split(".")[0] == "catalogue":
            del sys.modules[name]


def test_every_model_and_setting_stands_on_the_page(catalogue):
    sections = PAGE.read_text(encoding="utf-8").split("\n## ")[1:]
    section = {s.split("\n", 1)[0]: s for s in sections}
    assert set(section) == {case.framework for case in catalogue.CASES}
    missing = [c for c in catalogue.CASES if f"`{c.model}`" not in section[c.framework] or c.setting not in section[c.framework]]
    assert [(c.framework, c.model, c.setting) for c in missing] == [], "run python benchmarks/conformance.py --write"


def test_settings_are_told_apart_by_their_names(catalogue):
    names = [(c.framework, c.model, c.setting) for c in catalogue.CASES]
    assert len(names) == len(set(names)) > 400
