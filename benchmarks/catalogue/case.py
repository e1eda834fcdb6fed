"""`Case`: one fitted model and what should come of wrapping it; and the small data that all are fitted on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

N = 400
N_CATEGORIES = 30


@dataclass(frozen=True)
class Case:
    """One model.

    Attributes
    ----------
    framework : str
    model : str
        The class, as users know it.
    setting : str
        What is special about it; unique within framework and model.
    make : callable
        Returns the fitted model.
    refused : str
        Part of the reason (a regular expression) where the model must be refused; "" where it must be exact.
    whole : bool
        Whether the model is judged by its predictions alone: it is made of models and tells no leaves.
    frames : callable
        Returns frames whose rows are compared beside arrays.
    """

    framework: str
    model: str
    setting: str
    make: Callable[[], Any]
    refused: str = ""
    frames: Callable[[], Sequence[Any]] = tuple
    whole: bool = False


@dataclass(frozen=True)
class Data:
    """Rows with missing values, zeros and a last column of category codes; and labels for every task."""

    X: np.ndarray
    y: np.ndarray

    @property
    def full(self) -> np.ndarray:
        """Return the rows without missing values."""
        return np.nan_to_num(self.X)

    @property
    def two(self) -> np.ndarray:
        return (self.y > 0.3).astype(int)

    @property
    def three(self) -> np.ndarray:
        return np.digitize(self.y, [0, 1])

    @property
    def words(self) -> np.ndarray:
        return np.array(["low", "mid", "top"])[self.three]

    @property
    def positive(self) -> np.ndarray:
        return np.abs(self.y) + 0.1

    @property
    def counts(self) -> np.ndarray:
        return np.floor(3 * self.positive)

    @property
    def share(self) -> np.ndarray:
        return 1 / (1 + np.exp(-self.y))

    @property
    def targets(self) -> np.ndarray:
        return np.column_stack([self.y, -(self.y**2), np.sin(self.y)])

    @property
    def labels(self) -> np.ndarray:
        return np.column_stack([self.y > 0.3, self.y > 1]).astype(int)

    @property
    def weight(self) -> np.ndarray:
        return (np.arange(N) % 5).astype(float)

    def frame(self, values: Sequence[Any] | None = None, *, reverse: bool = False, missing: bool = False) -> Any:
        """Return the rows as a pandas frame, the last column as categories (numbers without ``values``)."""
        import pandas as pd

        frame = pd.DataFrame(self.X[:, :3], columns=["a", "b c", "d"])
        codes = self.X[:, 3].astype(int)
        if values is None:
            frame["e"] = self.X[:, 3]
            return frame
        if missing:
            codes = np.where(np.arange(N) % 7 == 0, -1, codes)
        column = pd.Categorical.from_codes(codes, categories=list(values))
        frame["e"] = column.reorder_categories(list(values)[::-1]) if reverse else column
        return frame


@cache
def data(seed: int = 0) -> Data:
    """Return the data."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(N, 4))
    X[rng.random(X.shape) < 0.1] = np.nan
    X[rng.random(X.shape) < 0.1] = 0
    X[:, 3] = rng.integers(0, N_CATEGORIES, N)
    y = np.nan_to_num(X[:, 0]) + (X[:, 3] % 3 == 1) + rng.normal(size=N) * 0.2
    return Data(X, y)


def words(n: int = N_CATEGORIES) -> list[str]:
    """Return category values that are text."""
    return [f"v{k}" for k in range(n)]


def numbers(n: int = N_CATEGORIES) -> list[int]:
    """Return category values that are integers, not codes."""
    return [7 * k - 30 for k in range(n)]
