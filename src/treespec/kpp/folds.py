"""Folds of rows, and the ensembles fitted without each of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from treespec.errors import DataNeededError
from treespec.ir.table import take

if TYPE_CHECKING:
    from treespec.hooks import RowData
    from treespec.ir import Forest
    from treespec.kpp.refit import Refit
    from treespec.kpp.targets import Targets

Rows = NDArray[np.int64]

FOLDS = 5
"""Folds of the nested choices; 3 over-smooth where rows repeat."""

_HINT = "alpha='auto', an anchor, a stack and regime='cross-fit' need folds: pass alpha as a number, or ask for fewer folds"


@dataclass(frozen=True, eq=False)
class FoldFit:
    """The ensembles fitted on the rows ``train``, which they have routed; they have not seen ``test``."""

    train: Rows
    test: Rows
    forests: list[Forest]
    rows: list[RowData]


def fold_fits(refit: Sequence[Refit | None], data: RowData, targets: Targets, random_state: int) -> Iterator[FoldFit]:
    """Yield the fits of every ensemble on the rows outside each fold: `FOLDS` fits of each."""
    y = np.asarray(data.y)
    for train, test in folds(targets, random_state):
        weight = None if data.sample_weight is None else data.sample_weight[train]
        fitted = [r(take(data.X, train), y[train], weight) for r in refit if r is not None]
        yield FoldFit(train, test, [f for f, _ in fitted], [d for _, d in fitted])


def folds(targets: Targets, random_state: int, n_folds: int = FOLDS) -> list[tuple[Rows, Rows]]:
    """Return shuffled (train, test) rows; each class of a single target in every fold where it has rows enough.

    Raises
    ------
    DataNeededError
        If there are fewer than two rows a fold, or a class would be missing from a fold's training rows.
    """
    from sklearn.model_selection import KFold, StratifiedKFold

    n = targets.n_rows
    if n < 2 * n_folds:
        raise DataNeededError.expected(f"at least {2 * n_folds} rows for {n_folds} folds", f"{n}", _HINT)
    if targets.kind == "values" or len(targets.classes) > 1:
        return list(KFold(n_folds, shuffle=True, random_state=random_state).split(np.zeros(n)))
    code = targets.code[:, 0]
    least = int(np.bincount(code)[np.unique(code)].min())
    if least < n_folds:
        raise DataNeededError.expected(f"at least {n_folds} rows of each class for {n_folds} folds", f"{least} of one class", _HINT)
    return list(StratifiedKFold(n_folds, shuffle=True, random_state=random_state).split(np.zeros(n), code))
