"""Hides the packages named in TREESPEC_HIDDEN, as if they were not installed: ``.ci/matrix`` puts this folder on the path."""

import os
import sys
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec

HIDDEN = frozenset(os.environ.get("TREESPEC_HIDDEN", "").split())


class _Hiding(MetaPathFinder):
    def __init__(self, finder):
        self._finder = finder

    def __getattr__(self, name):
        return getattr(self._finder, name)

    def find_spec(self, fullname, path=None, target=None) -> ModuleSpec | None:
        """Return nothing for a hidden package, and what the finder says for others."""
        if fullname.partition(".")[0] in HIDDEN or not hasattr(self._finder, "find_spec"):
            return None
        return self._finder.find_spec(fullname, path, target)


if HIDDEN:
    sys.meta_path[:] = [_Hiding(finder) for finder in sys.meta_path]
