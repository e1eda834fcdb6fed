"""Rows of Dask: each block is routed where it is, its leaves stay there, and what fits in memory is a sample."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treespec.adapters._treelite import TreeliteRouter
from treespec.errors import DataMismatchError, ModelNotFittedError, TreespecError
from treespec.facade.blocks import Sampler, joined, sample_size
from treespec.facade.rows import check_labels, check_some_rows
from treespec.hooks import RowData, is_a
from treespec.ir import Forest
from treespec.ir.table import n_rows, take
from treespec.operators.base import is_lazy
from treespec.operators.dask_incidence import DaskIncidence
from treespec.operators.leaf import LeafIncidence
from treespec.operators.leaf_writer import block_of
from treespec.operators.rows import BlockRows

_CHECKED = 1000


def local_model(model: object) -> object:
    """Return the model that the estimators of ``xgboost.dask`` and ``lightgbm.dask`` (or what ``xgboost.dask.train`` returns) hold."""
    if is_a(model, "lightgbm.dask", "DaskLGBMClassifier", "DaskLGBMRegressor", "DaskLGBMRanker"):
        return model.to_local()  # type: ignore[attr-defined]
    if isinstance(model, dict) and set(model) >= {"booster", "history"}:
        return model["booster"]
    if is_a(model, "xgboost.dask", "DaskXGBClassifier", "DaskXGBRegressor", "DaskXGBRanker", "DaskXGBRFClassifier", "DaskXGBRFRegressor"):
        return _plain_xgboost(model)
    return model


def _plain_xgboost(model: Any) -> Any:
    """Return the estimator of ``xgboost`` that a Dask estimator is, with the same booster."""
    import xgboost

    if not hasattr(model, "_Booster"):
        raise ModelNotFittedError.expected("a fitted model", f"an unfitted {type(model).__name__}", "call fit(X, y) first")
    plain = getattr(xgboost, type(model).__name__.removeprefix("Dask"))(**model.get_params())
    plain.load_model(model.get_booster().save_raw())
    return plain


class DaskReader:
    """Routes the rows of a Dask array or data frame.

    Parameters
    ----------
    X : dask Array or DataFrame
    steps : callable or None
        What a pipeline does to rows before its model.
    """

    def __init__(self, X: Any, steps: Callable[[Any], Any] | None = None) -> None:
        if not hasattr(X, "to_delayed") or len(getattr(X, "shape", (0, 0))) != 2:
            raise DataMismatchError.expected(
                "a two-dimensional Dask array or data frame", f"a {type(X).__module__}.{type(X).__name__}", "pass one row a sample"
            )
        X = X.rechunk({1: -1}) if hasattr(X, "rechunk") else X
        self._parts, self._steps = list(np.ravel(X.to_delayed())), steps

    @cached_property
    def first(self) -> Any:
        """The first rows, up to 1,000, as NumPy or pandas hold them."""
        from dask import delayed

        call = delayed(_head, pure=False)
        for part in self._parts:
            rows = call(part).compute()
            if n_rows(rows):
                return rows
        check_some_rows(rows)
        return rows

    def read(
        self,
        forest: Forest,
        y: Any,
        sample_weight: Any,
        apply: Callable[[Any], NDArray[np.int32]],
        margin: Callable[[Any], NDArray[np.float64]],
        model: object,
    ) -> BlockRows:
        """Route all rows, where they are, and return them."""
        import dask
        from dask import delayed

        shared = delayed(forest.to_bytes(), pure=False, traverse=False)
        steps = delayed(self._steps, pure=False, traverse=False)
        route = delayed(_routed, pure=False)
        blocks = dask.persist(*[route(part, shared, steps, k) for k, part in enumerate(self._parts)])
        size = delayed(_size, pure=False)
        sizes = dask.compute(*[size(block) for block in blocks])
        filled = [k for k, n in enumerate(sizes) if n]
        table = DaskIncidence([blocks[k] for k in filled], [sizes[k] for k in filled], forest.n_trees, forest.n_leaves)
        check_some_rows(np.empty(table.shape))
        labels = self._labels(table, y, "y", shared, filled)
        weight = self._labels(table, sample_weight, "sample_weight", shared, filled)
        found: list[RowData] = []

        def sample() -> RowData:
            if not found:
                found.append(self._sample([self._parts[k] for k in filled], table, forest, labels, weight, apply, margin, model))
            return found[0]

        return BlockRows(forest, table, y=labels, sample_weight=weight, apply=apply, margin=margin, model=model, sample=sample)

    def _labels(self, table: DaskIncidence, given: Any, name: str, shared: Any, filled: Sequence[int]) -> Any:
        """Return labels or weights as a Dask array cut like the blocks, each block checked where it is."""
        import dask
        import dask.array as da
        from dask import delayed

        if given is None:
            return None
        n, sizes = table.shape[0], table.sizes
        if not is_lazy(given):
            array = np.asarray(given.to_numpy() if hasattr(given, "to_numpy") else given)
            _check_length(name, len(array) if array.ndim else 0, n)
            parts: Sequence[Any] = table.pieces(array)
        elif hasattr(given, "rechunk") and not np.isnan(given.shape[0]):
            _check_length(name, given.shape[0], n)
            parts = table.pieces(given)
        else:
            parts = list(np.ravel(given.to_delayed()))
            if len(parts) != len(self._parts):
                raise DataMismatchError.expected(
                    f"{name} in {len(self._parts)} partitions, those of X",
                    f"{len(parts)}",
                    "repartition it like X, or give it chunks of known size",
                )
            parts = [parts[k] for k in filled]
        check = delayed(_checked, pure=False)
        parts = dask.persist(*[check(part, m, name, shared, k) for k, (part, m) in enumerate(zip(parts, sizes, strict=True))])
        shape, total = delayed(_describe, pure=False), 0.0
        kinds = dask.compute(*[shape(part) for part in parts])
        if name != "y":
            total = sum(kind[2] for kind in kinds)
            if not total > 0:
                raise DataMismatchError.expected("weights that are not all 0", "others", "check sample_weight")
        trailing, dtype = kinds[0][0], kinds[0][1]
        return da.concatenate([da.from_delayed(p, shape=(m, *trailing), dtype=dtype) for p, m in zip(parts, sizes, strict=True)])

    def _sample(
        self,
        parts: Sequence[Any],
        table: DaskIncidence,
        forest: Forest,
        labels: Any,
        weight: Any,
        apply: Callable[[Any], NDArray[np.int32]],
        margin: Callable[[Any], NDArray[np.float64]],
        model: object,
    ) -> RowData:
        """Fetch a uniform sample of rows; those are read a second time."""
        import dask
        from dask import delayed

        sampler = Sampler(sample_size(forest))
        for n in table.sizes:
            sampler.add(np.empty((n, 0)), n)
        rows, edges = sampler.rows, np.cumsum((0, *table.sizes))
        wanted = [rows[(rows >= a) & (rows < b)] - a for a, b in pairwise(edges.tolist())]
        call = delayed(_taken, pure=False)
        tasks = [
            call(part, index, y, w)
            for part, index, y, w in zip(parts, wanted, table.pieces(labels), table.pieces(weight), strict=True)
            if len(index)
        ]
        X, y, w = zip(*dask.compute(*tasks), strict=True)
        kept = joined(list(X))
        stacked = [None if part[0] is None else np.concatenate(part) for part in (y, w)]
        of = table.shape[0] if len(rows) < table.shape[0] else None
        return RowData(kept, stacked[0], stacked[1], apply(kept), apply, margin, model, of)


def _check_length(name: str, came: int, n: int) -> None:
    if came != n:
        what = "labels" if name == "y" else "weights"
        raise DataMismatchError.expected(f"{n} {what} (one for each row of X)", f"{name} of {came} rows", "pass those of the same rows")


# ---- what runs where the rows are


@lru_cache(maxsize=4)
def _router(data: bytes) -> tuple[Forest, TreeliteRouter]:
    forest = Forest.from_bytes(data)
    return forest, TreeliteRouter(forest)


def _routed(part: Any, data: bytes, steps: Callable[[Any], Any] | None, k: int) -> LeafIncidence:
    forest, router = _router(data)
    try:
        return block_of(forest, router.leaf_id(forest.encode(part if steps is None else steps(part))))
    except DataMismatchError as error:
        raise DataMismatchError(f"Block {k} of the Dask rows: {error}") from None


def _checked(part: Any, n: int, name: str, data: bytes, k: int) -> NDArray[Any]:
    forest, _ = _router(data)
    try:
        if name == "y":
            labels = check_labels(part, n, forest)
            return labels.astype(np.float64) if labels.dtype.kind in "fiub" and forest.classes is None else labels
        weight = np.asarray(part, dtype=np.float64)
        if weight.shape != (n,) or not (np.isfinite(weight) & (weight >= 0)).all():
            raise DataMismatchError.expected(f"{n} finite weights of 0 and more", f"others, of shape {weight.shape}", "check sample_weight")
    except TreespecError as error:
        raise type(error)(f"Block {k} of the Dask rows: {error}") from None
    return weight


def _describe(part: NDArray[Any]) -> tuple[tuple[int, ...], np.dtype[Any], float]:
    return part.shape[1:], part.dtype, float(part.sum()) if part.dtype.kind == "f" else 0.0


def _size(block: LeafIncidence) -> int:
    return int(block.shape[0])


def _head(part: Any) -> Any:
    return take(part, slice(0, _CHECKED))


def _taken(part: Any, index: NDArray[np.int64], y: Any, weight: Any) -> tuple[Any, Any, Any]:
    return take(part, index), None if y is None else y[index], None if weight is None else weight[index]
