"""Reads Treelite checkpoints (``Model.serialize``, format 4) as checked arrays, without Treelite's own reader.

That one believes what a file says, and a damaged file ends the process. Here every length is compared with the bytes that are left
before anything is allocated, and ids are checked by `treespec.adapters._treelite_read`.
"""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treespec.adapters._treelite_fields import Fields
from treespec.adapters._treelite_read import MOST_OUTPUTS, TASKS, TreeliteStructure, structure_from
from treespec.errors import FileFormatError, TreespecError, UnsupportedModelError

START = struct.pack("<i", 4)
"""First bytes: the major version of the Treelite that wrote the file."""

_FLOATS = {(2, 2): "<f4", (3, 3): "<f8"}
_NODES = (
    ("node_type", "i1"), ("cleft", "<i4"), ("cright", "<i4"), ("split_index", "<i4"), ("default_left", "u1"), ("leaf_value", ""),
    ("threshold", ""), ("cmp", "i1"), ("category_list_right_child", "u1"), ("leaf_vector", ""), ("leaf_vector_begin", "<u8"),
    ("leaf_vector_end", "<u8"), ("category_list", "<u4"), ("category_list_begin", "<u8"), ("category_list_end", "<u8"),
    ("data_count", "<u8"), ("data_count_present", "u1"), ("sum_hess", "<f8"), ("sum_hess_present", "u1"), ("gain", "<f8"),
    ("gain_present", "u1"),
)  # fmt: skip
"""Arrays of a tree in the order of the file; "" is the type of thresholds and leaf values."""


def read(data: bytes) -> TreeliteStructure:
    """Return the trees of a checkpoint.

    Raises
    ------
    FileFormatError
        If it is truncated, damaged, or of another format version.

    Notes
    -----
    O(length) time; memory of a few times the file.
    """
    try:
        return structure_from(*_parse(_Reader(data)))
    except UnsupportedModelError as error:
        raise FileFormatError(str(error)) from error
    except (ValueError, OverflowError, IndexError, UnicodeDecodeError) as error:
        if isinstance(error, TreespecError):
            raise
        raise _damaged(f"one without a usable field ({type(error).__name__}: {error})") from error


class _Record:
    """Fields by name, as Treelite's accessors give them."""

    def __init__(self, fields: dict[str, Any]) -> None:
        self._fields = fields

    def get_field(self, name: str) -> Any:
        return self._fields[name]


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    @property
    def n_left(self) -> int:
        return len(self._data) - self._at

    def numbers(self, kind: str, count: int) -> NDArray[Any]:
        """Return the next ``count`` numbers."""
        dtype = np.dtype(kind)
        if count > self.n_left // dtype.itemsize:
            raise _damaged(f"{len(self._data)} bytes, which end inside an array")
        out = np.frombuffer(self._data, dtype, count, self._at)
        self._at += count * dtype.itemsize
        return out

    def number(self, kind: str) -> Any:
        """Return the next number."""
        return self.numbers(kind, 1)[0].item()

    def array(self, kind: str) -> NDArray[Any]:
        """Return an array with its length before it."""
        return self.numbers(kind, self.number("<u8"))

    def text(self) -> str:
        """Return a text with its length before it."""
        return self.array("u1").tobytes().decode("utf-8", "replace")

    def no_more_fields(self, what: str) -> None:
        """Read the number of optional fields, which must be 0: their meaning is not known."""
        if self.number("<i4") != 0:
            raise FileFormatError.expected(
                "a Treelite checkpoint of format 4", f"one with further fields of {what}", "save it with a release of Treelite 4"
            )


def _parse(source: _Reader) -> tuple[Fields, list[Fields]]:
    version = tuple(source.numbers("<i4", 3).tolist())
    if version[0] != 4:
        raise FileFormatError.expected("a Treelite checkpoint of format 4", f"version {version}", "load and save it with Treelite 4")
    kinds = source.number("u1"), source.number("u1")
    if kinds not in _FLOATS:
        raise _damaged(f"thresholds and leaves of types {kinds}")
    n_trees = source.number("<u8")
    if n_trees > source.n_left // len(_NODES):
        raise _damaged(f"{n_trees} trees in {source.n_left} bytes")
    header = _header(source) | {"num_tree": np.array([n_trees])}
    trees = [_tree(source, _FLOATS[kinds]) for _ in range(n_trees)]
    if source.n_left:
        raise _damaged(f"{source.n_left} bytes too many")
    if len(header["target_id"]) != n_trees or len(header["class_id"]) != n_trees:
        raise _damaged("outputs of another number of trees")
    return Fields(_Record(header)), trees


def _header(source: _Reader) -> dict[str, Any]:
    header: dict[str, Any] = {"num_feature": source.numbers("<i4", 1), "task_type": source.numbers("u1", 1)}
    header["average_tree_output"] = source.numbers("u1", 1)
    n_targets = source.number("<i4")
    for name, kind in (("num_class", "<i4"), ("leaf_vector_shape", "<i4"), ("target_id", "<i4"), ("class_id", "<i4")):
        header[name] = source.array(kind)
    header["postprocessor"] = source.text()
    header["sigmoid_alpha"], header["ratio_c"] = source.numbers("<f4", 1), source.numbers("<f4", 1)
    header["base_scores"] = source.array("<f8")
    source.text()  # attributes, for people
    source.no_more_fields("the model")
    n_classes = header["num_class"]
    outputs_exist = len(n_classes) == n_targets > 0 and (n_classes > 0).all() and n_targets * int(n_classes.max()) <= MOST_OUTPUTS
    if not outputs_exist or header["task_type"][0] >= len(TASKS) or header["num_feature"][0] < 0:
        raise _damaged("a number of outputs, of features or a task that cannot be")
    floats = (*header["base_scores"], header["sigmoid_alpha"][0], header["ratio_c"][0])
    if not np.isfinite(floats).all():
        raise _damaged("a base score or parameter that is no number")
    return header


def _tree(source: _Reader, kind: str) -> Fields:
    n_nodes, _ = source.number("<i4"), source.number("u1")
    fields = {name: source.array(own or kind) for name, own in _NODES}
    source.no_more_fields("a tree")
    source.no_more_fields("a node")
    if n_nodes != len(fields["cleft"]) or n_nodes < 1:
        raise _damaged(f"{n_nodes} nodes with {len(fields['cleft'])} children")
    if not (fields["node_type"] <= 2).all() or not np.isfinite(fields["leaf_value"]).all() or not np.isfinite(fields["leaf_vector"]).all():
        raise _damaged("a node or leaf value that cannot be")
    if ((fields["node_type"] == 0) != (fields["cleft"] == -1)).any():
        raise _damaged("nodes that are leaf and split at once")
    return Fields(_Record(fields))


def _damaged(came: str) -> TreespecError:
    return FileFormatError.expected(
        "a well-formed Treelite checkpoint", came, "the file is truncated or damaged; save it again with Model.serialize"
    )
