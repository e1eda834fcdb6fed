"""Whether the rows that `wrap` was given are still what they were: a checksum, since a copy would take their memory again."""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treespec.errors import DataMismatchError

_BLOCK_BYTES = 1 << 24
_NUMBERS = "fiub"


def fingerprint(X: Any) -> int | None:
    """Return a checksum of the numbers in rows (1 s for some GB), None where there are none or their kind cannot be changed in place.

    Arrays, sparse matrices, and the columns of numbers of pandas frames.
    """
    parts = _parts(X)
    total = 0
    for part in parts:
        step = max(1, _BLOCK_BYTES // max(1, part[:1].nbytes))
        for start in range(0, len(part), step):
            total = zlib.crc32(np.ascontiguousarray(part[start : start + step]).view(np.uint8).data, total)
    return total if parts else None


def _parts(X: Any) -> list[NDArray[Any]]:
    """Return the arrays of numbers that rows are made of."""
    if isinstance(X, np.ndarray):
        return [X] if X.dtype.kind in _NUMBERS else []
    if hasattr(X, "tocsr") and hasattr(X, "data"):
        parts = [getattr(X, name, None) for name in ("data", "indices", "indptr", "row", "col")]
        return [part for part in parts if isinstance(part, np.ndarray) and part.dtype.kind in _NUMBERS]
    if hasattr(X, "iloc"):
        return [X.iloc[:, j].to_numpy() for j, kind in enumerate(X.dtypes) if isinstance(kind, np.dtype) and kind.kind in _NUMBERS]
    return []


def check_unchanged(X: Any, seen: int | None) -> None:
    """Raise where rows are no longer those of which ``seen`` is the `fingerprint`.

    Raises
    ------
    DataMismatchError
    """
    if seen is not None and fingerprint(X) != seen:
        raise DataMismatchError.expected(
            "the rows that were passed to wrap", "rows that were changed in place since", "pass a copy to wrap: wrap(model, X.copy(), y)"
        )
