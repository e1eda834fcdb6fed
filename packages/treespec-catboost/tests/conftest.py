from __future__ import annotations

import pytest

import treespec

pytest.importorskip("catboost", reason="catboost is not installed: pip install treespec-catboost")


@pytest.fixture(autouse=True, scope="session")
def plugin():
    """The plugin, registered where it is not installed."""
    import treespec_catboost
    from treespec.plugins import manager

    installed = any(row.kind == "adapter" and "catboost" in row.owner for row in treespec.plugins())
    if not installed:
        manager().register(treespec_catboost, "catboost")
    yield treespec_catboost
    if not installed:
        manager().unregister(treespec_catboost)
