"""A forest as versioned bytes: magic, version, a JSON header, then the raw arrays; no pickle, sizes checked before allocation.

Layout (little endian)::

    4 bytes   b"TSPF"
    4 bytes   uint32 format version
    8 bytes   uint64 length of the header
    4 bytes   uint32 CRC-32 of header and body
    header    JSON: plain fields, and for each array its name, type and shape, in the order of the body
    body      the arrays, C order, one after the other
"""

from __future__ import annotations

import json
import math
import struct
import zlib
from dataclasses import asdict, fields
from typing import TYPE_CHECKING, Any

import numpy as np

from treespec.errors import FileFormatError, TreespecError
from treespec.ir.inputs import InputRule

if TYPE_CHECKING:
    from treespec.ir.forest import Forest

MAGIC = b"TSPF"
VERSION = 1
_HEAD = struct.Struct("<4sIQI")
_TYPES = {"<i8", "<i4", "<f8", "|b1"}


def dumps(forest: Forest) -> bytes:
    """Return the forest as bytes; the same forest gives the same bytes."""
    plain: dict[str, Any] = {}
    arrays: list[tuple[str, np.ndarray[Any, Any]]] = []
    for f in fields(forest):
        value = getattr(forest, f.name)
        if isinstance(value, np.ndarray):
            arrays.append((f.name, value))
        elif f.name == "inputs":
            plain[f.name] = _rule_to_json(value)
        elif f.name == "classes":
            plain[f.name] = None if value is None else [_classes_to_json(c) for c in value]
        else:
            plain[f.name] = value
    table = [[name, a.dtype.newbyteorder("<").str, list(a.shape)] for name, a in arrays]
    header = json.dumps({"fields": plain, "arrays": table}, sort_keys=True, allow_nan=False).encode()
    body = b"".join(np.ascontiguousarray(a, dtype=a.dtype.newbyteorder("<")).tobytes() for _, a in arrays)
    return _HEAD.pack(MAGIC, VERSION, len(header), zlib.crc32(body, zlib.crc32(header))) + header + body


def loads(data: Any) -> Forest:
    """Return the forest of `dumps`.

    Raises
    ------
    FileFormatError
        If the bytes are truncated, damaged, of another version, or describe a forest that breaks an invariant.
    """
    header_end = _check_head(data)
    try:
        header = json.loads(data[_HEAD.size : header_end], parse_constant=_not_json)
        plain, table = dict(header["fields"]), list(header["arrays"])
        values = _read_arrays(data, header_end, table)
        plain["inputs"] = _rule_from_json(plain["inputs"])
        plain["classes"] = None if plain["classes"] is None else tuple(_classes_from_json(c) for c in plain["classes"])
        plain["feature_names"] = None if plain["feature_names"] is None else tuple(plain["feature_names"])
        return _build(plain | values)
    except FileFormatError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, RecursionError, OverflowError) as error:
        raise _damaged(f"a header or arrays that do not form a forest ({error})") from error


def _build(values: dict[str, Any]) -> Forest:
    from treespec.ir.forest import Forest

    try:
        return Forest(**values)
    except TreespecError as error:
        raise _damaged(str(error).split("\n", maxsplit=1)[0]) from error


def _check_head(data: Any) -> int:
    if not isinstance(data, (bytes, bytearray)) or len(data) < _HEAD.size or data[:4] != MAGIC:
        raise _damaged("bytes that do not start as one")
    _, version, length, crc = _HEAD.unpack_from(data)
    if version != VERSION:
        raise FileFormatError.expected(
            f"forest format version {VERSION}", f"version {version}", "read it with the treespec release that wrote it"
        )
    if length > len(data) - _HEAD.size:
        raise _damaged(f"{len(data)} bytes, which end inside the header")
    if zlib.crc32(data[_HEAD.size :]) != crc:
        raise _damaged("bytes whose checksum is wrong")
    return int(_HEAD.size + length)


def _read_arrays(data: bytes, start: int, table: list[Any]) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for name, dtype, shape in table:
        if dtype not in _TYPES or not all(isinstance(k, int) and k >= 0 for k in shape) or len(shape) > 2:
            raise _damaged(f"array {name!r} of type {dtype!r} and shape {shape}")
        count = math.prod(shape)
        size = count * np.dtype(dtype).itemsize
        if size > len(data) - start:
            raise _damaged(f"{len(data)} bytes, which end inside array {name!r}")
        out[name] = np.frombuffer(data, dtype, count, start).reshape(shape)
        start += size
    if start != len(data):
        raise _damaged(f"{len(data) - start} bytes too many")
    return out


def _not_json(constant: str) -> float:
    raise ValueError(f"{constant} in the header")


def _damaged(came: str) -> TreespecError:
    return FileFormatError.expected(
        "a forest written by treespec", came, "the file is damaged or not a forest; write it again with Forest.to_bytes()"
    )


def _rule_to_json(rule: InputRule) -> dict[str, Any]:
    out = asdict(rule)
    out["missing_value"] = None if math.isnan(rule.missing_value) else rule.missing_value.hex()
    return out


def _rule_from_json(plain: dict[str, Any]) -> InputRule:
    missing = plain["missing_value"]
    return InputRule(
        **plain
        | {
            "missing_value": float("nan") if missing is None else float.fromhex(missing),
            "categorical": tuple(int(j) for j in plain["categorical"]),
            "categories": tuple((int(j), tuple(values)) for j, values in plain["categories"]),
        }
    )


def _classes_to_json(classes: np.ndarray[Any, Any]) -> dict[str, Any]:
    kind = classes.dtype.kind
    if kind not in "biufUO":
        raise FileFormatError.expected(
            "class labels that are numbers or text", f"labels of type {classes.dtype}", "encode the labels as numbers before training"
        )
    return {"type": "O" if kind in "OU" else classes.dtype.newbyteorder("<").str, "labels": classes.tolist()}


def _classes_from_json(plain: dict[str, Any]) -> np.ndarray[Any, Any]:
    labels = plain["labels"]
    if plain["type"] == "O":
        return np.array(labels) if all(isinstance(c, str) for c in labels) else np.array(labels, dtype=object)
    if np.dtype(plain["type"]).kind not in "biuf":
        raise _damaged(f"class labels of type {plain['type']!r}")
    return np.array(labels, dtype=plain["type"])
