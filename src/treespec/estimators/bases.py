"""The ensembles that an estimator grows: the user's, or the default ones; how they are fitted, and fitted again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.utils import get_tags

from treespec.errors import DataMismatchError, DataNeededError
from treespec.facade.selfcheck import compare
from treespec.hooks import RowData
from treespec.ir import Forest
from treespec.ir.table import n_rows, take
from treespec.kpp.refit import Refit, refitter, routed
from treespec.plugins import manager

Array = NDArray[np.float64]
Kind = Literal["values", "classes"]

_SEEDS = 2**31 - 1
_CHECKED = 100  # rows of every ensemble that an estimator fits


@dataclass(frozen=True, eq=False)
class Base:
    """One ensemble.

    Attributes
    ----------
    name : str
    model : estimator or booster
        Unfitted with its seed set; or, where ``refit`` is None, fitted and used as it is.
    refit : Refit or None
    """

    name: str
    model: Any
    refit: Refit | None

    def grow(self, X: Any, y: NDArray[Any], sample_weight: Array | None) -> tuple[Forest, RowData]:
        """Return the forest of the fitted ensemble, and these rows routed; ``RowData.model`` is the ensemble itself."""
        if self.refit is not None:
            return self.refit(X, y, sample_weight)
        forest = checked_forest(self.model, X)
        return forest, routed(forest, X, y, sample_weight, self.model)


def checked_forest(model: Any, X: Any) -> Forest:
    """Return the forest of a fitted ensemble, compared with the framework on up to 100 of the rows that it was fitted on.

    Raises
    ------
    SelfCheckError
        If leaves, margins or predictions differ on any of them, as `treespec.wrap`.
    """
    plugins = manager()
    forest = plugins.adapt(model, X)
    native = plugins.native(model, forest)
    if native is not None:
        n = n_rows(X)
        compare(forest, native, take(X, np.unique(np.linspace(0, n - 1, min(n, _CHECKED)).astype(int))))
    return forest


def bases_of(estimator: Any, kind: Kind, random_state: np.random.RandomState, *, several: bool = False) -> list[Base]:
    """Return the ensembles of the parameter ``estimator``: None (the default ones), one, or a list; seeds are set where there are none.

    Of the default ones only those that take several outputs, if there are ``several``.

    Raises
    ------
    DataMismatchError
        If the list is empty, or an ensemble is of the wrong kind.
    """
    given = list(estimator) if isinstance(estimator, (list, tuple)) else [estimator]
    if not given:
        raise DataMismatchError.expected("at least one ensemble", "an empty list", "pass estimator=None for the default ones")
    default = [m for m in default_ensembles(kind) if not several or get_tags(m).target_tags.multi_output]
    given = [m for e in given for m in (default if e is None else [e])]
    out: list[Base] = []
    for model in given:
        can = hasattr(model, "get_params") and hasattr(model, "fit") and not isinstance(model, type)
        fresh = seeded(model, random_state) if can else model
        if can and get_tags(fresh).estimator_type != ("classifier" if kind == "classes" else "regressor"):
            raise DataMismatchError.expected(
                f"a {'classifier' if kind == 'classes' else 'regressor'}",
                type(model).__name__,
                "KPPRegressor goes with regressors, KPPClassifier with classifiers",
            )
        name = type(model).__name__
        taken = sum(b.name.split("-")[0] == name for b in out)
        out.append(Base(name if not taken else f"{name}-{taken + 1}", fresh, refitter(fresh, checked_forest) if can else None))
    return out


def refits_of(bases: Sequence[Base], what: str) -> list[Refit]:
    """Return how each ensemble is fitted.

    Raises
    ------
    DataNeededError
        If one is fitted already and cannot be fitted again.
    """
    out = [b.refit for b in bases if b.refit is not None]
    if len(out) < len(bases):
        fixed = next(b.name for b in bases if b.refit is None)
        raise DataNeededError.expected(
            f"an unfitted estimator for {what}",
            f"a fitted {fixed}, which does not know how it was trained",
            "pass the scikit-learn style estimator (XGBRegressor, LGBMClassifier, ...), or use regime='fixed' and stack=False",
        )
    return out


def seeded(model: Any, random_state: np.random.RandomState) -> Any:
    """Return an unfitted copy, with seeds drawn for every ``random_state`` that is None."""
    fresh = clone(model)
    unset = [k for k, v in sorted(fresh.get_params(deep=True).items()) if k.split("__")[-1] == "random_state" and v is None]
    return fresh.set_params(**{k: int(random_state.randint(_SEEDS)) for k in unset})


def input_tags(estimator: Any, kind: Kind) -> tuple[bool, bool, bool]:
    """Return whether all ensembles take missing values, sparse matrices and several outputs."""
    given = list(estimator) if isinstance(estimator, (list, tuple)) else [estimator]
    models = [m for e in given for m in (default_ensembles(kind) if e is None else [e])]
    tags = [get_tags(m) for m in models if hasattr(m, "get_params") and not isinstance(m, type)]
    return (
        all(t.input_tags.allow_nan for t in tags),
        all(t.input_tags.sparse for t in tags),
        all(t.target_tags.multi_output for t in tags),
    )


def default_ensembles(kind: Kind) -> list[Any]:
    """Return the ensembles of ``estimator=None``: extremely randomised trees and histogram boosting, unfitted."""
    from sklearn.ensemble import (
        ExtraTreesClassifier,
        ExtraTreesRegressor,
        HistGradientBoostingClassifier,
        HistGradientBoostingRegressor,
    )

    boosting = {"max_iter": 200, "max_leaf_nodes": 16, "early_stopping": False}
    if kind == "classes":
        return [ExtraTreesClassifier(150), HistGradientBoostingClassifier(**boosting)]
    return [ExtraTreesRegressor(150), HistGradientBoostingRegressor(**boosting)]
