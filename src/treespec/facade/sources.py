"""Where rows come from that are never held together: memory maps, Parquet, and iterables of row blocks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from treespec.errors import DataMismatchError, DataNeededError, MissingDependencyError
from treespec.ir import Forest
from treespec.ir.table import n_rows, take

BLOCK_ROWS = 1 << 16
"""Rows that are read at a time from memory maps and Parquet; iterables set their own blocks."""

Block = tuple[Any, Any, Any]
"""Rows, their labels or None, their weights or None."""


@dataclass(frozen=True)
class Source:
    """Rows in blocks, to be read once.

    Attributes
    ----------
    blocks : callable
        Returns an iterator of `Block`.
    n_rows : int or None
        Where it is known before they are read.
    labelled, weighted : bool
        Whether blocks bring labels and weights; None where only the blocks tell.
    """

    blocks: Callable[[], Iterator[Block]]
    n_rows: int | None = None
    labelled: bool | None = None
    weighted: bool | None = None


def in_blocks(X: Any) -> bool:
    """Tell whether rows are read block by block: a memory map, a path, a Parquet data set, or an iterable or function of row blocks."""
    if isinstance(X, (np.memmap, str, Path)) or _is_dataset(X):
        return True
    if isinstance(X, (list, tuple)):
        return len(X) > 0 and not isinstance(X[0], (str, bytes)) and (_is_block(X[0]) or (isinstance(X[0], tuple) and _is_pair(X[0])))
    if any(hasattr(X, name) for name in ("shape", "columns", "tocsr", "__array__", "__dataframe__", "__len__", "collect")):
        return False
    return callable(X) or hasattr(X, "__iter__")


def source_of(X: Any, y: Any, sample_weight: Any, forest: Forest) -> Source:
    """Return the blocks of X; ``y`` and ``sample_weight`` may be names of columns where X is Parquet.

    Raises
    ------
    DataMismatchError
        If a Parquet file lacks columns that the model or the call names.
    """
    if isinstance(X, (str, Path)) or _is_dataset(X):
        return _of_parquet(X, y, sample_weight, forest)
    for name, given in (("y", y), ("sample_weight", sample_weight)):
        if isinstance(given, str):
            raise DataMismatchError.expected(
                f"{name} as an array (names of columns are for Parquet files)",
                repr(given),
                "pass the column itself, or pairs (X, y) as blocks",
            )
    return _of_array(X) if hasattr(X, "shape") or hasattr(X, "columns") else _of_iterable(X)


# ---- arrays that are sliced


def _of_array(X: Any) -> Source:
    n = n_rows(X)

    def blocks() -> Iterator[Block]:
        for start in range(0, n, BLOCK_ROWS):
            yield take(X, slice(start, min(n, start + BLOCK_ROWS))), None, None

    return Source(blocks, n, False, False)


# ---- iterables


def _of_iterable(X: Any) -> Source:
    def blocks() -> Iterator[Block]:
        for k, block in enumerate(X() if callable(X) and not hasattr(X, "__iter__") else X):
            yield _block(block, k)

    return Source(blocks)


def _block(block: Any, k: int) -> Block:
    if isinstance(block, (tuple, list)) and _is_pair(block):
        return (*block, *(None,) * (3 - len(block)))
    if not _is_block(block):
        raise DataMismatchError.expected(
            "blocks of rows: arrays, sparse matrices or eager data frames of n_features columns, or tuples (X, y) or (X, y, sample_weight)",
            f"a {type(block).__name__} as block {k}" + (f" of shape {block.shape}" if hasattr(block, "shape") else ""),
            "yield a two-dimensional block at a time",
        )
    return block, None, None


def _is_block(block: Any) -> bool:
    return len(getattr(block, "shape", ())) == 2 or hasattr(type(block), "columns")


def _is_pair(block: Any) -> bool:
    return len(block) in (2, 3) and _is_block(block[0]) and not (_is_block(block[1]) and np.shape(block[1]) == np.shape(block[0]))


# ---- Parquet


def _is_dataset(X: Any) -> bool:
    return (
        type(X).__module__.startswith("pyarrow")
        and (hasattr(X, "scanner") or hasattr(X, "iter_batches"))
        and not hasattr(X, "column_names")
    )


def _of_parquet(X: Any, y: Any, sample_weight: Any, forest: Forest) -> Source:
    dataset = _dataset(X)
    names = list(dataset.schema.names)
    label, weight = (given if isinstance(given, str) else None for given in (y, sample_weight))
    unknown = [c for c in (label, weight) if c is not None and c not in names]
    if unknown:
        raise DataMismatchError.expected(
            "y and sample_weight to name columns of the file", f"{unknown[0]!r}, which it lacks", f"its columns are {names[:10]}"
        )
    wanted = _columns([c for c in names if c not in (label, weight)], forest)
    columns = wanted + [c for c in (label, weight) if c is not None]

    def blocks() -> Iterator[Block]:
        from pyarrow.dataset import ParquetFragmentScanOptions

        options = ParquetFragmentScanOptions(use_buffered_stream=True, pre_buffer=False)
        batches = dataset.to_batches(
            columns=columns,
            batch_size=BLOCK_ROWS,
            batch_readahead=1,
            fragment_readahead=1,
            use_threads=False,
            fragment_scan_options=options,
        )
        for batch in batches:
            if batch.num_rows:
                yield (
                    _rows(batch.select(wanted), named=forest.feature_names is not None),
                    *(None if c is None else batch.column(c).to_numpy(zero_copy_only=False) for c in (label, weight)),
                )

    return Source(blocks, int(dataset.count_rows()), label is not None, weight is not None)


def _rows(batch: Any, *, named: bool) -> Any:
    """Return a record batch as frameworks take it: a pandas frame for models that know names, else an array."""
    if named:
        try:
            return batch.to_pandas()
        except ImportError:
            raise MissingDependencyError.of("pandas", "parquet", "Reading Parquet for a model that knows the names of columns") from None
    return np.column_stack([column.to_numpy(zero_copy_only=False) for column in batch.columns])


def _dataset(X: Any) -> Any:
    try:
        import pyarrow.dataset as ds
    except ImportError:
        raise MissingDependencyError.of("pyarrow", "parquet", "Reading Parquet") from None
    if not isinstance(X, (str, Path)):
        return X if hasattr(X, "to_batches") else ds.dataset(X.files if hasattr(X, "files") else X.metadata.path, format="parquet")
    if not Path(X).exists():
        raise DataNeededError.expected(
            "the path of a Parquet file, or of a folder of them", f"{str(X)!r}, where there is nothing", "check the path"
        )
    try:
        return ds.dataset(str(X), format="parquet")
    except (OSError, ValueError) as error:
        raise DataMismatchError.expected(
            "Parquet files", f"{str(X)!r} ({str(error).splitlines()[0][:100]})", "other formats can be passed as blocks of rows"
        ) from None


def _columns(names: list[str], forest: Forest) -> list[str]:
    """Return the columns of the model: by name where it knows names, else all of them by position."""
    if forest.feature_names is None:
        if len(names) != forest.n_features:
            raise DataMismatchError.expected(
                f"{forest.n_features} columns (the model's features) beside y and sample_weight",
                f"{len(names)}: {names[:8]}{' ...' if len(names) > 8 else ''}",
                "the model was fitted without names, so that columns are taken by position: name the labels (y='column'), drop the rest",
            )
        return names
    plain = {c.replace(" ", "_"): c for c in names}  # LightGBM writes blanks in names as underscores
    missing = [c for c in forest.feature_names if c not in names and c not in plain]
    if missing:
        raise DataMismatchError.expected(
            f"a file with the model's {forest.n_features} columns",
            f"one without {', '.join(map(repr, missing[:5]))}{' ...' if len(missing) > 5 else ''}",
            f"columns are matched by name; the file has {names[:10]}",
        )
    return [c if c in names else plain[c] for c in forest.feature_names]
