"""Rows that are read once, block by block: routed, their leaves kept compact, a uniform sample of them kept in memory."""

from __future__ import annotations

import shutil
import tempfile
import weakref
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treespec.errors import DataMismatchError, TreespecError
from treespec.facade.rows import check_labels, check_some_rows, check_weights
from treespec.facade.sources import Block, Source
from treespec.hooks import RowData
from treespec.ir import Forest
from treespec.ir.table import n_rows, take
from treespec.operators.leaf_writer import LeafWriter
from treespec.operators.rows import BlockRows, on_device

SAMPLE_ROWS = 20_000
"""Rows that are kept in memory, for what needs rows and not leaves (students, alpha='auto'); fewer where they are very wide."""

_SAMPLE_NUMBERS = 1 << 25  # 256 MB
_SEED = 0

Route = Callable[[Any], NDArray[np.int32]]


class BlockReader:
    """Reads a source once.

    Parameters
    ----------
    source : Source
    forest : Forest
    y, sample_weight : array-like or None
        All labels and weights, where blocks do not bring them.
    """

    def __init__(self, source: Source, forest: Forest, y: Any = None, sample_weight: Any = None) -> None:
        self._source, self._forest = source, forest
        self._y = None if source.labelled else y
        self._weight = None if source.weighted else sample_weight
        if source.n_rows is not None:  # before hours of routing
            self._checked(self._y, self._weight, source.n_rows)
        blocks = source.blocks()
        first: Block = next((b for b in blocks if n_rows(b[0])), (np.empty((0, forest.n_features)), None, None))
        self.first = first[0]
        check_some_rows(self.first)
        self._blocks: Iterator[Block] = chain([first], blocks)

    def _checked(self, y: Any, weight: Any, n: int) -> tuple[Any, Any]:
        return None if y is None else check_labels(y, n, self._forest), check_weights(weight, n)

    def read(
        self, route: Route, margin: Callable[[Any], NDArray[np.float64]], model: object, leaf_ids: str | Path, device: str | None = None
    ) -> BlockRows:
        """Route all blocks and return the rows.

        Parameters
        ----------
        route : callable
            Returns the leaf ids of a block.
        margin, model
            As `RowData`.
        leaf_ids : {"memory", "disk"} or path
        device : str or None
            Torch device that products are made on.
        """
        forest = self._forest
        folder, temporary = _folder(leaf_ids)
        writer, sampler = LeafWriter(forest, folder), Sampler(sample_size(forest))
        labels: list[Any] = []
        weights: list[Any] = []
        try:
            for k, (X, y, weight) in enumerate(self._blocks):
                n = n_rows(X)
                if not n:
                    continue
                for found, given in ((labels, y), (weights, weight)):
                    _check_piece(given, n, found, k, writer.n_rows)
                    found.append(given)
                try:
                    writer.add(route(X))
                except DataMismatchError as error:
                    raise DataMismatchError(f"Block {k} (rows {writer.n_rows} and on): {error}") from None
                sampler.add(X, n)
            table = writer.finish()
        except BaseException:
            if temporary:
                shutil.rmtree(str(folder), ignore_errors=True)
            raise
        if temporary:
            weakref.finalize(table, shutil.rmtree, str(folder), ignore_errors=True)
        y, weight = self._checked(_joined(labels, self._y), _joined(weights, self._weight), writer.n_rows)

        def sample() -> RowData:
            rows = sampler.rows
            labels, weights = (None if a is None else a[rows] for a in (y, weight))
            leaf_id = forest.leaves[table.leaf_index(rows)]
            of = writer.n_rows if len(rows) < writer.n_rows else None
            return RowData(sampler.take(), labels, weights, leaf_id, route, margin, model, of)

        return BlockRows(
            forest, on_device(table, device), y=y, sample_weight=weight, apply=route, margin=margin, model=model, sample=sample
        )


class Sampler:
    """A uniform sample of at most ``size`` rows of a stream; the same whatever its blocks are.

    Each row gets a random key, and the rows of the smallest keys stay.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self._rng = np.random.default_rng(_SEED)
        self._key, self._row = np.empty(0), np.empty(0, np.int64)
        self._parts: list[Any] = []
        self._seen = 0

    def add(self, X: Any, n: int) -> None:
        """See the next n rows."""
        key = self._rng.random(n)
        limit = np.inf if len(self._key) < self.size else np.partition(self._key, self.size - 1)[self.size - 1]
        chosen = np.flatnonzero(key <= limit)
        if len(chosen) > self.size:
            chosen = np.sort(chosen[np.argpartition(key[chosen], self.size - 1)[: self.size]])
        self._parts.append(take(X, chosen))
        self._key, self._row = np.append(self._key, key[chosen]), np.append(self._row, chosen + self._seen)
        self._seen += n
        if len(self._key) > 2 * self.size:
            self._shrink()

    def _shrink(self) -> None:
        keep = np.sort(np.argsort(self._key, kind="stable")[: self.size])
        self._parts = [take(joined(self._parts), keep)]
        self._key, self._row = self._key[keep], self._row[keep]

    def take(self) -> Any:
        """Return the rows of the sample."""
        if len(self._key) > self.size or len(self._parts) > 1:
            self._shrink()
        return self._parts[0]

    @property
    def rows(self) -> NDArray[np.int64]:
        """Their numbers, ascending."""
        self.take()
        return self._row


def joined(parts: list[Any]) -> Any:
    """Return blocks of rows of one kind on top of each other."""
    first = parts[0]
    if len(parts) == 1:
        return first
    if hasattr(first, "tocsr"):
        from scipy.sparse import vstack

        return vstack([p.tocsr() for p in parts], format="csr")
    if hasattr(type(first), "columns"):
        import narwhals as nw

        return nw.concat([nw.from_native(p, eager_only=True) for p in parts], how="vertical").to_native()
    return np.concatenate([np.asarray(p) for p in parts])


def sample_size(forest: Forest) -> int:
    """Return how many rows a sample has at most."""
    return max(1000, min(SAMPLE_ROWS, _SAMPLE_NUMBERS // max(1, forest.n_features)))


def _check_piece(given: Any, n: int, before: list[Any], k: int, start: int) -> None:
    """Raise where a block brings another number of labels or weights than rows, or not what other blocks brought."""
    if before and (given is None) != (before[0] is None):
        raise DataMismatchError.expected(
            "all blocks alike, rows alone or (X, y) or (X, y, sample_weight)", f"another kind in block {k}", "yield the same from each"
        )
    if given is not None and len(given) != n:
        raise DataMismatchError.expected(
            f"{n} labels and weights in block {k} (rows {start} and on)", f"{len(given)}", "pass those of the same rows"
        )


def _joined(parts: list[Any], given: Any) -> Any:
    if not parts or parts[0] is None:
        return given
    if given is not None:
        raise DataMismatchError.expected(
            "labels and weights once", "blocks that bring them, and y or sample_weight beside", "pass one of both"
        )
    return np.concatenate([np.asarray(p.to_numpy() if hasattr(p, "to_numpy") else p) for p in parts])


def _folder(leaf_ids: str | Path) -> tuple[Path | None, bool]:
    """Return where leaf ids are written, and whether the folder goes away with them."""
    if leaf_ids == "memory":
        return None, False
    if leaf_ids == "disk":
        return Path(tempfile.mkdtemp(prefix="treespec-")), True
    folder = Path(leaf_ids)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise TreespecError.expected(
            "leaf_ids='memory', 'disk' or a new or empty folder", repr(str(leaf_ids)), "files in it would be overwritten"
        )
    folder.mkdir(parents=True, exist_ok=True)
    return folder, False
