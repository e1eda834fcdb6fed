"""Treelite, both ways: what the other adapters and the router use. Its fields are known to this file and its two halves alone."""

from __future__ import annotations

from treespec.adapters._treelite_read import TreeliteStructure, structure_of

__all__ = ["TreeliteStructure", "structure_of"]
