"""Rows for self-tests: as C takes them, and the same rows as the student takes them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from treespec.students.base import Student

Float32 = NDArray[np.float32]


def text_columns(student: Student) -> dict[int, tuple[str, ...]]:
    """Return the columns that hold text, with the text behind each code that C takes."""
    if student.kind == "packed":
        maps = student.forest.inputs.categories  # type: ignore[attr-defined]
        return {j: values for j, values in maps if values and all(isinstance(c, str) for c in values)}
    columns = student.preprocess.columns  # type: ignore[attr-defined]
    return {j: c.values for j, c in enumerate(columns) if c.kind == "category" and c.values and isinstance(c.values[0], str)}


def raw_rows(student: Student, rows: Float32) -> Any:
    """Return rows as the student takes them: codes of text columns become text, any other code a text that none is."""
    text = text_columns(student)
    if not text:
        return rows
    out = rows.astype(object)
    for j, values in text.items():
        codes = rows[:, j]
        known = [not np.isnan(c) and 0 <= c < len(values) for c in codes]
        out[:, j] = [None if np.isnan(c) else values[int(c)] if k else "\0unknown" for c, k in zip(codes, known, strict=True)]
    return out


def test_rows(student: Student, n: int) -> Float32:
    """Return n rows that spread over the student's splits (or around the means of its inputs), missing values among them."""
    rng = np.random.default_rng(0)
    if student.kind == "packed":
        return _split_rows(student.forest, rng, n)  # type: ignore[attr-defined]
    columns = student.preprocess.columns  # type: ignore[attr-defined]
    out = np.zeros((n, len(columns)), np.float32)
    for j, column in enumerate(columns):
        if column.kind == "category":
            values = column.values if column.values and not isinstance(column.values[0], str) else range(len(column.values) + 1)
            out[:, j] = rng.choice(np.array([*values, *([] if not column.indicator else [np.nan])]), n) if len(column.values) else 0
        elif column.kind == "number":
            low, high = (
                v if np.isfinite(v) else d for v, d in ((getattr(column, "low", -np.inf), -3.0), (getattr(column, "high", np.inf), 3.0))
            )
            out[:, j] = rng.uniform(low, high, n)
            if not np.isnan(column.fill):
                out[rng.random(n) < 0.1, j] = np.nan
    return out


def _split_rows(forest: Any, rng: np.random.Generator, n: int) -> Float32:
    out = np.zeros((n, forest.n_features), np.float32)
    rule = forest.inputs
    known = dict(rule.categories)
    for j in range(forest.n_features):
        at = ~forest.is_leaf & (forest.feature == j)
        if j in rule.categorical:
            values = known.get(j, ())
            listed = forest.category[np.repeat(at & forest.categorical, np.diff(forest.category_offset))]
            numbers = [float(c) for c in values if not isinstance(c, str)]
            codes = np.union1d(np.arange(len(values)), np.concatenate([listed, np.array([0, 1])]))
            pool = np.array(numbers if len(numbers) == len(values) > 0 else codes, float)
        else:
            threshold = forest.threshold[at & ~forest.categorical]
            finite = threshold[np.isfinite(threshold)]
            spread = np.ptp(finite) / 20 if len(finite) > 1 else 1.0
            pool = finite[:, None] + spread * rng.normal(size=(1, 5)) if len(finite) else rng.normal(size=(5, 1))
        limit = float(np.finfo(np.float32).max) / 2
        out[:, j] = rng.choice(np.clip(pool.ravel(), -limit, limit), n)
        if rule.nan == "route" and not (j in rule.categorical and rule.missing_category == "refuse"):
            out[rng.random(n) < 0.05, j] = np.nan
    return out
