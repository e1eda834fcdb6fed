"""`wrap`: from a fitted model to `Wrapped`, checked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from treespec.errors import DataNeededError, UnsupportedModelError
from treespec.facade.blocks import BlockReader
from treespec.facade.dask_rows import DaskReader, local_model
from treespec.facade.rows import check_base_margin, check_labels, check_some_rows, check_weights
from treespec.facade.selfcheck import check_whole, self_check
from treespec.facade.sources import in_blocks, source_of
from treespec.facade.steps import last_step
from treespec.facade.wrapped import Wrapped
from treespec.hooks import Asked
from treespec.ir.table import n_rows
from treespec.operators.base import is_lazy
from treespec.plugins import manager


def wrap(
    model: object,
    X: Any = None,
    y: Any = None,
    *,
    sample_weight: Any = None,
    iteration_range: tuple[int, int] | None = None,
    missing: float | None = None,
    base_margin: Any = None,
    leaf_ids: str | Path = "memory",
    device: str | None = None,
) -> Wrapped:
    """Wrap a fitted tree ensemble as it is; nothing is refitted.

    Parameters
    ----------
    model : object
        A fitted model of scikit-learn (trees, forests, gradient boosting), XGBoost or LightGBM (boosters or wrappers), what scikit-learn
        makes of them (searches, pipelines, bagging, voting, stacking, ...: see the page on models), a ``treelite.Model``, the path of a
        saved XGBoost, LightGBM or Treelite model, or what an adapter plugin knows.
    X : array-like or frame of shape (n, n_features), optional
        The rows that the model was fitted on; what needs them says so. Rows larger than memory are read once, block by block: a
        ``numpy.memmap``, the path of Parquet files or a ``pyarrow`` data set, or an iterable (or a function that returns one) of blocks
        ``X``, ``(X, y)`` or ``(X, y, sample_weight)``. A Dask array or data frame is routed by its workers, who keep the leaves.
    y : array-like of shape (n,) or (n, n_targets), or str, optional
        Their labels; for Parquet also the name of a column.
    sample_weight : array-like of shape (n,), or str, optional
        Their weights at training.
    iteration_range : (int, int), optional
        Boosting rounds to use, from the first up to the second, which is left out (a second of 0: to the end), as in XGBoost. By default
        those that the model's own ``predict`` uses.
    missing : float, optional
        The value that means missing, for XGBoost boosters and files, which do not hold it.
    base_margin : array-like of shape (n,) or (n, n_outputs), optional
        Margins of the rows of X before the first tree (``base_margin`` of XGBoost, ``init_score`` of LightGBM), which take the place of
        the model's own. They enter the check; students then learn from the model and not from the labels. Not for rows in blocks.
    leaf_ids : {"memory", "disk"} or path
        Where the leaves that blocks of rows reach are kept: 1 to 4 bytes for each row and tree. "disk" is a temporary folder, a path one
        that stays. (Rows in memory are read in blocks too unless this is "memory".)
    device : str, optional
        A torch device ("cuda") on which smoothers and features multiply, in float64: the same numbers to rounding. By default NumPy, which
        is the faster on CPUs.

    Returns
    -------
    Wrapped

    Raises
    ------
    UnsupportedModelError
        If no adapter knows the model, or it cannot be represented exactly.
    ModelNotFittedError
        If it is not fitted.
    SelfCheckError
        If the conversion differs from the framework on any checked row (up to 1,000 of X, else rows made from the thresholds).
    DataMismatchError
        If X, y or sample_weight do not fit the model or each other.

    Notes
    -----
    Costs a copy of the trees and one prediction of at most 1,000 rows: under half a second for 1,000 trees.

    Examples
    --------
    >>> import treespec
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.ensemble import GradientBoostingClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> w = treespec.wrap(GradientBoostingClassifier(n_estimators=5, random_state=0).fit(X, y))
    >>> w.forest
    Forest(scikit-learn GradientBoostingClassifier: 15 trees, ... nodes, 4 features, 3 outputs, multiclass)
    """
    plugins = manager()
    model = local_model(model)
    check_device(device, X)
    whole, (model, steps) = model, last_step(model)
    blocks = X is not None and (is_lazy(X) or in_blocks(X) or leaf_ids != "memory")
    given = X if X is None or steps is None or blocks else steps(X)
    asked = model if iteration_range is None and missing is None else Asked(model, iteration_range, missing)
    forest = plugins.adapt(asked, None if blocks else given)
    native = plugins.native(asked, forest)
    if X is None and (y is not None or sample_weight is not None or base_margin is not None):
        raise DataNeededError.expected("X together with y, sample_weight or base_margin", "no X", "pass wrap(model, X, y)")
    if blocks:
        if base_margin is not None:
            raise UnsupportedModelError.expected("rows in memory beside a base_margin", "rows in blocks", "pass X as an array or a frame")
        if is_lazy(X):
            reader: DaskReader | BlockReader = DaskReader(X, steps)
        else:
            reader = BlockReader(source_of(X, y, sample_weight, forest), forest, y, sample_weight)
        first = reader.first if steps is None else steps(reader.first)
        forest.encode(first)
        w = Wrapped(forest, native=native, model=model, check=self_check(forest, native, first), steps=steps, device=device)
        if steps is not None:
            check_whole(w, whole, reader.first)
        if isinstance(reader, DaskReader):
            w.keep(reader.read(forest, y, sample_weight, w.apply, w.margin, model))
        else:
            w.keep(reader.read(w.apply, w.margin, model, leaf_ids, device))
        return w
    labels = weight = start = None
    if X is not None:
        check_some_rows(X)
        n = n_rows(X)
        forest.encode(given)  # the clear errors first
        labels = None if y is None else check_labels(y, n, forest)
        weight = check_weights(sample_weight, n)
        start = check_base_margin(base_margin, n, forest)
    check = self_check(forest, native, given, start)
    w = Wrapped(
        forest,
        native=native,
        model=model,
        X=X,
        y=labels,
        sample_weight=weight,
        check=check,
        steps=steps,
        base_margin=start,
        device=device,
    )
    if steps is not None and X is not None:
        check_whole(w, whole, X)
    return w


def check_device(device: str | None, X: Any) -> None:
    """Raise where torch has no such device, or the rows are with the workers of Dask."""
    if device is None:
        return
    if is_lazy(X):
        raise UnsupportedModelError.expected("device=None for rows of Dask", repr(device), "the workers multiply with NumPy")
    from treespec.operators.torch_leaves import device_of

    device_of(device)
