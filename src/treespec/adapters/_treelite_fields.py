"""Copies of the fields behind Treelite's accessors, which are views on memory that dies with the model."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from treespec.errors import TreespecError, UnsupportedModelError


def refused(expected: str, came: str) -> TreespecError:
    """Return the error for a model that is not as Treelite writes it."""
    return UnsupportedModelError.expected(expected, came, "the Treelite model is damaged or of a kind that treespec does not know")


class Fields:
    """Copies of the fields behind one of Treelite's accessors, which keeps the model alive."""

    def __init__(self, accessor: Any) -> None:
        self._accessor = accessor

    def array(self, name: str) -> NDArray[Any]:
        """Return an array field."""
        return np.array(self._accessor.get_field(name))

    def number(self, name: str) -> float:
        """Return a field that holds one number."""
        return float(self.array(name)[0])

    def text(self, name: str) -> str:
        """Return a text field."""
        value = self._accessor.get_field(name)
        return value if isinstance(value, str) else ""


class Trees:
    """The fields of all trees, one after the other."""

    def __init__(self, trees: list[Fields]) -> None:
        self._trees = trees
        self._column: dict[str, NDArray[Any]] = {}
        self.parts = {"cleft": [t.array("cleft") for t in trees]}
        self.offset = np.concatenate([[0], np.cumsum([len(a) for a in self.parts["cleft"]], dtype=np.int64)])

    def dtype(self, name: str) -> np.dtype[Any]:
        """Return the type of a field."""
        return self.column(name).dtype

    def part(self, name: str) -> list[NDArray[Any]]:
        """Return a field of each tree."""
        if name not in self.parts:
            self.parts[name] = [t.array(name) for t in self._trees]
        return self.parts[name]

    def column(self, name: str) -> NDArray[Any]:
        """Return a field that has an entry a node."""
        if name not in self._column:
            parts = self.part(name)
            if [len(a) for a in parts] != np.diff(self.offset).tolist():
                raise refused(f"an entry of {name} at every node", "another number")
            self._column[name] = np.concatenate(parts) if parts else np.empty(0)
        return self._column[name]

    def ranges(self, name: str, nodes: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[Any]]:
        """Return the lists that nodes hold of field ``name``, in CSR form."""
        parts = self.part(name)
        shift = np.repeat(np.concatenate([[0], np.cumsum([len(a) for a in parts])])[:-1], np.diff(self.offset))[nodes]
        end = np.repeat([len(a) for a in parts], np.diff(self.offset))[nodes]
        first, last = (self.column(f"{name}_{side}")[nodes].astype(np.int64) for side in ("begin", "end"))
        if ((first < 0) | (first > last) | (last > end)).any():
            raise refused(f"lists inside {name}", "one that runs over its end")
        width = last - first
        if width.sum() > sum(len(a) for a in parts):
            raise refused(f"a list of its own in {name} for each node", "lists that overlap")
        offset = np.concatenate([[0], np.cumsum(width)])
        where = np.arange(offset[-1]) - np.repeat(offset[:-1], width) + np.repeat(first + shift, width)
        return offset, (np.concatenate(parts) if parts else np.empty(0))[where]
