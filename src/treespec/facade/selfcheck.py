"""The self-check of `wrap`: the forest against the framework, on rows; it refuses, it never warns.

Tolerance: 1e-6 relative plus 10 float32 ulps of the largest margin. Leaves must be the same on every row.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from treespec.errors import SelfCheckError
from treespec.facade.routing import Router
from treespec.hooks import Native
from treespec.ir import Forest
from treespec.ir import link as links
from treespec.ir.table import n_rows, take

MAX_ROWS = 1000
_MAX_PAIRS = 400_000  # (row, tree) pairs: keeps the check under half a second for 1,000 trees
_WHOLE_ROWS = 200
_MAX_SPLITS = 100_000  # that rows are drawn from
_SPECIAL_SHARE = 0.06
_TINY = (0.0, 1.0000000180025095e-35, -1.0000000180025095e-35, 1e-36, -1e-36, 1e-30, -1e-30)
_HUGE = (3e38, -3e38, float("inf"), float("-inf"))
_ODD_CODES = (-1.0, -0.5, 0.5, 1.5, 1e6)
_RELATIVE = 1e-6
_ULPS = 10 * 2.0**-23


@dataclass(frozen=True)
class SelfCheck:
    """What the self-check compared.

    Attributes
    ----------
    n_rows : int
        Rows compared; 0 where there is no framework object to compare with (a model file).
    rows : str
        Which: "yours" or "made from the thresholds".
    max_difference : float
        Largest absolute difference of margins.
    tolerance : float
        Largest that would have been accepted at the largest margin.
    """

    n_rows: int
    rows: str
    max_difference: float
    tolerance: float


def self_check(forest: Forest, native: Native | None, X: Any = None, base_margin: NDArray[np.float64] | None = None) -> SelfCheck:
    """Compare leaves, margins and predictions with the framework's; margins from ``base_margin`` where the framework takes it.

    Raises
    ------
    SelfCheckError
        If any differs on any row.
    """
    if native is None:
        return SelfCheck(0, "none: the model file has no framework to compare with", 0.0, 0.0)
    most = max(50, min(MAX_ROWS, _MAX_PAIRS // max(1, forest.n_trees)))
    if X is not None:
        n = n_rows(X)
        chosen = np.unique(np.linspace(0, n - 1, min(n, most)).astype(int))
        rows = take(X, chosen)
        source = "yours"
        base_margin = None if base_margin is None else base_margin[chosen]
    else:
        rows, source = threshold_rows(forest, most), "made from the thresholds"
    return compare(forest, native, rows, source, base_margin)


def compare(forest: Forest, native: Native, rows: Any, source: str = "yours", base_margin: NDArray[np.float64] | None = None) -> SelfCheck:
    """Compare all of these rows; see `self_check`."""
    leaf = forest.apply(rows)
    _check_leaves(forest, native, rows, leaf)
    margin, theirs = forest.margin_of(leaf), native.margin(rows)
    difference, tolerance = _compare_margins(forest, theirs, margin)
    if base_margin is not None and hasattr(native, "margin_from"):
        _compare_margins(forest, native.margin_from(rows, base_margin), forest.margin_of(leaf, base_margin))
    prediction = theirs if getattr(native, "margin_is_prediction", False) else native.predict(rows)
    _check_predictions(forest, np.asarray(prediction), margin)
    _check_probabilities(forest, native, rows, margin)
    return SelfCheck(n_rows(rows), source, difference, tolerance)


def _check_leaves(forest: Forest, native: Native, rows: Any, leaf: NDArray[np.int32]) -> None:
    if forest.native_id is None or not hasattr(native, "leaf_id"):
        return
    native_leaf = np.asarray(native.leaf_id(rows))
    if native_leaf.shape != leaf.shape:
        raise _failed(forest, f"leaf ids of shape {leaf.shape}", f"{native_leaf.shape} from the framework")
    theirs = Router(forest, native).to_nodes(native_leaf)
    if (theirs != leaf).any():
        i, t = np.argwhere(theirs != leaf)[0]
        raise _failed(forest, "the same leaf in every tree", f"{int((theirs != leaf).sum())} others, the first in row {i}, tree {t}")


def _compare_margins(forest: Forest, native: NDArray[Any], margin: NDArray[np.float64]) -> tuple[float, float]:
    theirs = np.asarray(native, dtype=np.float64).reshape(len(margin), -1)
    if theirs.shape != margin.shape:
        raise _failed(forest, f"margins of shape {margin.shape}", f"{theirs.shape} from the framework")
    difference = np.abs(theirs - margin)
    floor = _ULPS * float(np.abs(theirs).max(initial=1e-300))
    if not (difference <= _RELATIVE * np.abs(theirs) + floor).all():
        i = int(difference.max(axis=1).argmax())
        raise _failed(
            forest,
            f"equal margins (within {_RELATIVE} relative and 10 float32 ulps)",
            f"{margin[i]} where the framework gives {theirs[i]} (row {i})",
        )
    return float(difference.max(initial=0.0)), floor + _RELATIVE * float(np.abs(theirs).max(initial=0.0))


def _check_predictions(forest: Forest, theirs: NDArray[Any], margin: NDArray[np.float64]) -> None:
    if forest.link == "partition":
        return
    ours = np.asarray(links.predict(forest, margin))
    if ours.shape != theirs.shape:
        raise _failed(forest, f"predictions of shape {ours.shape}", f"{theirs.shape} from the framework")
    if ours.dtype.kind in "fc" and theirs.dtype.kind in "fc" and forest.classes is None:
        scale = float(np.abs(theirs).max(initial=1e-300))
        same = np.isclose(ours, theirs, rtol=1e-5, atol=_ULPS * scale)
    else:
        same = ours == theirs
        if forest.n_outputs == 1 and forest.link != "hinge":  # a margin within rounding of the boundary may fall on either side
            same = same | (np.abs(margin[:, 0] - (0.5 if forest.link == "probability" else 0.0)) <= _ULPS)
    if not same.all():
        i = int(np.argwhere(~same)[0, 0])
        raise _failed(forest, "equal predictions", f"{ours[i]!r} where the framework gives {theirs[i]!r} (row {i})")


def _check_probabilities(forest: Forest, native: Native, rows: Any, margin: NDArray[np.float64]) -> None:
    """Compare probabilities, which a subclass may change though margins and labels are the same."""
    if forest.classes is None or forest.link in ("hinge", "identity") or not hasattr(native, "predict_proba"):
        return
    theirs = native.predict_proba(rows)
    if theirs is None:
        return
    found = links.predict_proba(forest, margin)
    ours = np.hstack(found) if isinstance(found, list) else np.asarray(found)
    if ours.shape != np.shape(theirs) or not np.allclose(ours, theirs, rtol=1e-5, atol=_ULPS):
        raise _failed(forest, "equal probabilities", "others from the framework's predict_proba")


def _failed(forest: Forest, expected: str, came: str) -> Exception:
    return SelfCheckError.expected(
        f"the converted {forest.framework} to give {expected}",
        came,
        "the model is not represented exactly and is refused; parameters changed after fitting, or data with another meaning of missing "
        "values, are the usual causes; otherwise please report it with the model",
    )


def check_whole(w: Predicts, model: Any, X: Any) -> None:
    """Compare predictions with those of a whole pipeline, whose steps were applied one by one.

    Raises
    ------
    SelfCheckError
    """
    rows = take(X, np.unique(np.linspace(0, n_rows(X) - 1, min(n_rows(X), _WHOLE_ROWS)).astype(int)))
    ours, theirs = np.asarray(w.predict(rows)), np.asarray(model.predict(rows))
    number = ours.dtype.kind in "fc" and theirs.dtype.kind in "fc"
    if ours.shape != theirs.shape or not (np.allclose(ours, theirs, rtol=1e-5) if number else np.array_equal(ours, theirs)):
        raise _failed(w.forest, "the predictions of the whole pipeline", "others")


class Predicts(Protocol):
    """What is compared with a whole pipeline."""

    @property
    def forest(self) -> Forest: ...  # noqa: D102
    def predict(self, X: Any) -> NDArray[Any]: ...  # noqa: D102


def threshold_rows(forest: Forest, n: int, seed: int = 0) -> Any:
    """Return n rows on which the rules of adapters tell.

    Thresholds and their float neighbours, tiny and huge values, missing values; category codes, listed or not, negative or fractional.
    A numpy array; or a pandas frame where columns hold category values.
    """
    rng = np.random.default_rng(seed)
    dtype, rule = forest.input_dtype, forest.inputs
    rows = rng.standard_normal((n, forest.n_features)).astype(dtype)
    split = np.flatnonzero(~forest.is_leaf & ~forest.categorical)
    if len(split) > _MAX_SPLITS:  # far more than rows can hold
        split = rng.choice(split, _MAX_SPLITS)
    feature, threshold = forest.feature[split], forest.threshold[split]
    for j in range(forest.n_features):
        thresholds = np.unique(threshold[feature == j])
        thresholds = thresholds[np.isfinite(thresholds) & (np.abs(thresholds) < np.finfo(dtype).max)]
        if len(thresholds):
            drawn = rng.choice(thresholds, n).astype(dtype)
            rows[:, j] = np.where(rng.random(n) < 0.5, drawn, np.nextafter(drawn, dtype.type(np.inf)))
    special = np.array(_TINY + (_HUGE if rule.infinite == "route" else ()), dtype)
    rows = np.where(rng.random(rows.shape) < _SPECIAL_SHARE, rng.choice(special, rows.shape), rows)
    known = dict(rule.categories)
    for j in rule.categorical:
        codes = forest.category[np.repeat(forest.feature == j, np.diff(forest.category_offset))]
        top = max(1, len(known[j]) if j in known else int(codes.max(initial=0)) + 1)
        rows[:, j] = rng.integers(0, top, n)
        odd = rng.random(n) < _SPECIAL_SHARE
        if j not in known:
            rows[odd, j] = rng.choice(np.array([*_ODD_CODES, top, top + 7], dtype), odd.sum())
        elif rule.unknown_category != "refuse":
            rows[odd, j] = top  # a value that training did not see
    if rule.nan == "route":
        missing = rng.random(rows.shape) < 0.05
        missing[:, [j for j in rule.categorical if rule.missing_category == "refuse"]] = False
        rows[missing] = np.nan if np.isnan(rule.missing_value) else rule.missing_value
    if forest.feature_names is None and not rule.numbers_are_codes and not any(isinstance(v, str) for own in known.values() for v in own):
        for j, own in known.items():  # an array of the values themselves
            value = np.array([*own, *_unseen(own)], np.float64)
            present = ~np.isnan(rows[:, j])
            rows[present, j] = value[np.minimum(rows[present, j].astype(int), len(value) - 1)]
        return rows
    return rows if not known and forest.feature_names is None else _frame(forest, rows, known)


def _frame(forest: Forest, rows: NDArray[Any], known: dict[int, tuple[Any, ...]]) -> Any:
    """Return the rows as a frame: frameworks that saw names warn about arrays, and category values need one."""
    try:
        import pandas as pd
    except ImportError:
        return rows
    names = forest.feature_names or tuple(str(j) for j in range(forest.n_features))
    columns = {}
    for j, name in enumerate(names):
        if j in known:
            codes = np.where(np.isnan(rows[:, j]), -1, rows[:, j]).astype(int)
            more = _unseen(known[j]) if forest.inputs.unknown_category != "refuse" else []
            values = [*known[j], *more] or ["none"]  # no category is known: all are others
            columns[name] = pd.Categorical.from_codes(np.minimum(codes, len(values) - 1), categories=values)
        else:
            columns[name] = rows[:, j]
    return pd.DataFrame(columns)


def _unseen(known: tuple[Any, ...]) -> list[Any]:
    """Return a value that is not among the known categories, of their type."""
    if not known:
        return [0.0]
    if all(isinstance(value, str) for value in known):
        return [max((*known, ""), key=len) + "?"]
    return [] if any(isinstance(value, str) for value in known) else [type(known[0])(max(known) + 1)]
