"""``alpha="auto"``: a penalty that is not fooled by labels that also grew the trees.

Cross-validation and leave-one-out on the training features are leaky: the same labels chose the splits. They are harmless for forests and
about 100 times too small for boosters on noisy labels. So the ensemble is refitted in each fold (``nested``), or, where it cannot be,
the penalty is chosen on random trees that no label grew (``label-free``) and carried over relative to the size of the features.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from treespec.adapters.sklearn_trees import treespec_adapt
from treespec.errors import DataMismatchError, DataNeededError
from treespec.ir.table import take
from treespec.kpp.folds import FOLDS, FoldFit, fold_fits, folds
from treespec.kpp.penalty_path import Path, error_of
from treespec.kpp.refit import Refit, routed
from treespec.kpp.targets import Targets
from treespec.kpp.weights import uniform
from treespec.operators.incidence import Incidence
from treespec.operators.path import PathMap
from treespec.operators.rows import BlockRows, incidence

if TYPE_CHECKING:
    from treespec.hooks import RowData, Scheme
    from treespec.ir import Forest
    from treespec.kpp.representation import Representation

Array = NDArray[np.float64]
Represent = Callable[[Sequence["Forest"], Sequence["RowData"], Sequence["RowData | None"]], "Representation"]

NESTED_ROWS = 20_000
"""Above this many rows the ensemble is not refitted five times over; the label-free choice runs on a sample."""

SAMPLE_ROWS = 2_000
"""Rows that the label-free choice looks at."""

_METHODS = ("auto", "nested", "label-free", "folds")
_RANDOM_TREES = 100
_FLOAT32 = (float(np.finfo(np.float32).min), float(np.finfo(np.float32).max))


def choose_alpha(
    method: str,
    features: Any,
    targets: Targets,
    learner: Scheme,
    *,
    forests: Sequence[Forest],
    rows: Sequence[RowData],
    represent: Represent,
    refit: Sequence[Refit | None] | None,
    leaky: bool,
    random_state: int,
    options: Mapping[str, Any],
    grown: Sequence[FoldFit] | None = None,
) -> tuple[float, dict[str, Any]]:
    """Return the penalty, and how it was chosen.

    Parameters
    ----------
    method : {"auto", "nested", "label-free", "folds"}
        "auto" is "folds", cross-validation on the features as they are, where these labels did not grow the trees (not ``leaky``); else
        "nested" where every ensemble can be refitted and there are at most 20,000 rows; else "label-free".
    features : operator (n, m)
        Of the training rows.
    targets : Targets
    learner : Scheme
    forests : sequence of Forest
    rows : sequence of RowData
        The training rows, routed by each ensemble.
    represent : callable
        Builds the feature map from forests and their rows, as for the final fit.
    refit : sequence of Refit or None
    leaky : bool
        Whether the labels also grew the trees or set the node weights.
    random_state : int
    options : mapping
        Of the learner.
    grown : sequence of FoldFit, optional
        The ensembles of the nested folds, where they are there already; "auto" is then "nested" whatever the number of rows.

    Returns
    -------
    alpha : float
    info : dict
        ``method``, ``grid`` of penalties, mean ``error`` at each, ``criterion`` and ``n_folds``.

    Notes
    -----
    Nested: five fits of every ensemble and of the whole path. Penalties are compared relative to the mean squared distance of the
    features from their mean, so that what is best on fewer rows, or on other trees, carries over.
    """
    if method not in _METHODS:
        raise DataMismatchError.expected(
            "alpha above 0, 'auto', 'nested', 'label-free' or 'folds'", repr(method), "alpha='auto' is the default"
        )
    can = refit is not None and all(r is not None for r in refit) and not any(isinstance(data, BlockRows) for data in rows)
    if method == "nested" and not can:
        raise DataNeededError.expected(
            "ensembles that can be fitted again, for alpha='nested'",
            "one that cannot (a raw booster, a model file, rows in blocks)",
            "wrap the scikit-learn style estimator, or use alpha='label-free'",
        )
    if method == "auto":
        nested = can and (grown is not None or targets.n_rows <= NESTED_ROWS)
        method = "folds" if not leaky else "nested" if nested else "label-free"
    weight = rows[0].sample_weight
    if method == "nested":
        fits = fold_fits(refit or (), rows[0], targets, random_state) if grown is None else grown
        curve = _nested(targets, learner, rows[0], fits, represent=represent, options=options)
    elif method == "folds":
        curve = _folds(features, targets, learner, weight, random_state=random_state, options=options)
    else:
        curve = label_free(targets, learner, forests=forests, rows=rows, random_state=random_state, options=options)
    path = Path.of(features, targets, learner, weight, options)
    best = int(np.argmin(curve))
    info = {
        "method": method,
        "grid": [path.alpha(x) for x in path.grid],
        "error": curve.tolist(),
        "criterion": path.criterion,
        "n_folds": FOLDS,
        "at_edge": best in (0, len(path.grid) - 1),
    }
    return path.alpha(path.grid[best]), info


def _nested(
    targets: Targets, learner: Scheme, data: RowData, fits: Iterable[FoldFit], *, represent: Represent, options: Mapping[str, Any]
) -> Array:
    """Return the mean error on rows that neither the trees nor the fit have seen, at each relative penalty."""
    total: Any = 0.0
    for fold in fits:
        representation = represent(fold.forests, fold.rows, fold.rows)
        features = representation.features(fold.rows[0].X, [d.leaf_id for d in fold.rows])
        held_out = representation.features(take(data.X, fold.test))
        path = Path.of(features, targets.take(fold.train), learner, fold.rows[0].sample_weight, options)
        total = total + _errors(path, held_out, targets.take(fold.test), data.sample_weight, fold.test)
    return np.asarray(total) / targets.n_rows


def label_free(
    targets: Targets,
    learner: Scheme,
    *,
    forests: Sequence[Forest],
    rows: Sequence[RowData],
    random_state: int,
    options: Mapping[str, Any],
) -> Array:
    """Return the mean cross-validated error on the paths of random trees, at each relative penalty; no label grew them."""
    from sklearn.ensemble import ExtraTreesRegressor

    rng = np.random.default_rng(random_state)
    n_leaves = max(2, int(np.median(_leaves_in_use(forests[0], incidence(forests[0], rows[0])))))
    if isinstance(rows[0], BlockRows):
        rows = [rows[0].sample()]
        targets = Targets.of(forests[0], np.asarray(rows[0].y))
    n = targets.n_rows
    chosen = np.sort(rng.choice(n, min(n, SAMPLE_ROWS), replace=False))
    encoded = _numbers(forests[0].encode(take(rows[0].X, chosen)))
    trees = ExtraTreesRegressor(_RANDOM_TREES, max_features=1, max_leaf_nodes=n_leaves, random_state=random_state)
    random_forest = treespec_adapt(trees.fit(encoded, rng.standard_normal(len(chosen))))
    if random_forest is None or random_forest.is_leaf.all():
        raise DataNeededError.expected("rows that differ, to choose alpha on", "rows that are all alike", "pass alpha as a number")
    weight = None if rows[0].sample_weight is None else rows[0].sample_weight[chosen]
    features = PathMap(random_forest, uniform(random_forest)).features(routed(random_forest, encoded, None).leaf_id)
    return _folds(features, targets.take(chosen), learner, weight, random_state=random_state, options=options)


def _leaves_in_use(forest: Forest, Z: Incidence) -> NDArray[np.int64]:
    """Return (n_trees,) how many leaves of each tree hold rows."""
    tree = np.searchsorted(forest.tree_offset, forest.leaves, side="right") - 1
    return np.bincount(tree[Z.counts() > 0], minlength=forest.n_trees)


def _folds(
    features: Any, targets: Targets, learner: Scheme, weight: Array | None, *, random_state: int, options: Mapping[str, Any]
) -> Array:
    """Return the mean cross-validated error on fixed features, at each relative penalty."""
    total: Any = 0.0
    for train, test in folds(targets, random_state):
        path = Path.of(features.rows(train), targets.take(train), learner, None if weight is None else weight[train], options)
        total = total + _errors(path, features.rows(test), targets.take(test), weight, test)
    return np.asarray(total) / targets.n_rows


def _numbers(encoded: NDArray[Any]) -> Array:
    """Return encoded rows as a finite matrix: missing values at the middle of their column."""
    X = np.where(np.isfinite(encoded), encoded, np.nan).astype(np.float64)
    known = np.isfinite(X).any(axis=0)
    middle = np.zeros(X.shape[1])
    middle[known] = np.nanmedian(X[:, known], axis=0)
    return np.clip(np.where(np.isnan(X), middle, X), *_FLOAT32)


def _errors(path: Path, held_out: Any, targets: Targets, weight: Array | None, rows: NDArray[np.integer[Any]]) -> Array:
    w = np.ones(targets.n_rows) if weight is None else weight[rows]
    offset = 0.0 if targets.offset is None else targets.offset
    return np.array([float(w @ error_of(path.criterion, path.level, score + offset, targets)) for score in path.scores(held_out)])
