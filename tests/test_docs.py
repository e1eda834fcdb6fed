"""The docs keep up with the code: every hook is documented with its arguments, and the plugin shown is the one that is tested."""

import inspect
import re
from pathlib import Path

import pytest

from treespec.hooks import HookSpecs

ROOT = Path(__file__).parent.parent
HOOKS = [name for name, _ in inspect.getmembers(HookSpecs, inspect.isfunction) if name.startswith("treespec_")]

pytestmark = pytest.mark.skipif(not (ROOT / "docs" / "hooks.md").exists(), reason="the docs are not in this distribution")


@pytest.mark.parametrize("hook", HOOKS)
def test_every_hook_is_a_heading_with_its_arguments(hook):
    arguments = [a for a in inspect.signature(getattr(HookSpecs, hook)).parameters if a != "self"]
    text = (ROOT / "docs" / "hooks.md").read_text(encoding="utf-8")
    assert re.search(rf"^## `{hook}\({', '.join(arguments)}\)", text, flags=re.MULTILINE), f"docs/hooks.md lacks a heading for {hook}"


def test_no_heading_documents_a_hook_that_does_not_exist():
    text = (ROOT / "docs" / "hooks.md").read_text(encoding="utf-8")
    assert set(re.findall(r"^## `(treespec_\w+)", text, flags=re.MULTILINE)) == set(HOOKS)


def test_the_plugin_in_the_docs_is_the_one_in_the_repository():
    source = (ROOT / "packages" / "treespec-depthdecay" / "src" / "treespec_depthdecay" / "__init__.py").read_text(encoding="utf-8")
    assert source.strip() in (ROOT / "docs" / "hooks.md").read_text(encoding="utf-8")


def test_every_page_is_in_the_navigation():
    navigation = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    pages = [p.relative_to(ROOT / "docs").as_posix() for p in (ROOT / "docs").rglob("*.md")]
    assert [p for p in pages if p not in navigation and not p.startswith("results/")] == []
