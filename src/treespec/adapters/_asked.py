"""What the caller of `wrap` may say of a model beyond it: checks that boosting adapters share."""

from __future__ import annotations

from typing import Any

import numpy as np

from treespec.errors import DataMismatchError, UnsupportedModelError
from treespec.hooks import Asked


def rounds_asked(asked: Asked, n_rounds: int, *, from_start: bool = False) -> tuple[int, int] | None:
    """Return the first round and the one after the last that the caller asks for, or None.

    Parameters
    ----------
    asked : Asked
    n_rounds : int
        Rounds of the model.
    from_start : bool
        Whether the framework can only begin with its first round.

    Raises
    ------
    DataMismatchError
        If it is no range of the model's rounds.
    """
    given: Any = asked.iteration_range
    if given is None:
        return None
    whole = isinstance(given, (tuple, list)) and len(given) == 2 and all(isinstance(k, (int, np.integer)) for k in given)
    start, stop = (int(given[0]), int(given[1]) or n_rounds) if whole else (-1, -1)
    if not 0 <= start < stop <= n_rounds or (from_start and start):
        first = "0" if from_start else "a"
        raise DataMismatchError.expected(
            f"iteration_range=({first}, b) within the {n_rounds} rounds of the model", repr(given), "(0, 10) uses the first ten rounds"
        )
    return start, stop


def refuse_missing(asked: Asked, why: str) -> None:
    """Raise where the caller names a missing value, and the framework has none but NaN.

    Raises
    ------
    UnsupportedModelError
    """
    if asked.missing is not None:
        raise UnsupportedModelError.expected(
            "a model of XGBoost, with missing=", f"missing={asked.missing!r} for a model whose framework {why}", "leave missing= out"
        )


def said(name: str, rounds: tuple[int, int] | None, n_rounds: int) -> str:
    """Return ``name`` with the rounds that were asked for."""
    if rounds is None or rounds == (0, n_rounds):
        return name
    return f"{name} (rounds {rounds[0]} to {rounds[1]} of {n_rounds}, as asked)"
