"""Hypothesis strategies: random valid forests, and forests with rows. Needs the extra ``test``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from treespec.errors import MissingDependencyError
from treespec.ir import Forest
from treespec.testing.forests import grow, rows

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

_SEEDS = 2**32 - 1


@dataclass(frozen=True, eq=False)
class Case:
    """A forest, rows for it, and the leaves that they reach.

    Attributes
    ----------
    forest : Forest
    X : (n, n_features) ndarray
    leaf_id : (n, n_trees) int32
    seed : int
    """

    forest: Forest
    X: NDArray[np.float64]
    leaf_id: NDArray[np.int32]
    seed: int

    @property
    def rng(self) -> np.random.Generator:
        """A generator that is the same for the same case."""
        return np.random.default_rng(self.seed)


def forests(
    *, max_trees: int = 5, max_depth: int = 4, max_features: int = 4, max_outputs: int = 1, categories: bool = True
) -> SearchStrategy[Forest]:
    """Return random valid forests: stumps, constant trees and deep ones, one or several outputs, categorical splits, missing values.

    Raises
    ------
    MissingDependencyError
        If Hypothesis is not installed.
    """
    st = _hypothesis()

    def build(seed: int, n_trees: int, depth: int, n_features: int, n_outputs: int, **drawn: Any) -> Forest:
        by_output = n_outputs > 1 and drawn["by_output"]
        return grow(
            np.random.default_rng(seed), n_trees=n_trees, max_depth=depth, n_features=n_features, n_outputs=n_outputs, split=drawn["split"],
            categorical=(0,) if drawn["categorical"] else (), by_output=by_output, aggregation=drawn["aggregation"],
        )  # fmt: skip

    found: SearchStrategy[Forest] = st.builds(
        build,
        seed=st.integers(0, _SEEDS),
        n_trees=st.integers(1, max_trees),
        depth=st.integers(0, max_depth),
        n_features=st.integers(1, max_features),
        n_outputs=st.integers(1, max_outputs),
        split=st.sampled_from([0.0, 0.5, 0.9, 1.0]),
        categorical=st.booleans() if categories else st.just(value=False),
        by_output=st.booleans() if max_outputs > 1 else st.just(value=False),
        aggregation=st.sampled_from(["sum", "mean"]),
    )
    return found


def cases(*, max_rows: int = 30, min_rows: int = 1, **options: Any) -> SearchStrategy[Case]:
    """Return forests with rows: ``min_rows`` rows and up, repeated rows, leaves that no row reaches.

    Parameters
    ----------
    max_rows, min_rows : int
    **options
        As `forests`.
    """
    st = _hypothesis()

    def build(forest: Forest, seed: int, n: int) -> Case:
        X = rows(np.random.default_rng(seed), forest, n)
        return Case(forest, X, forest.apply(X), seed)

    found: SearchStrategy[Case] = st.builds(
        build, forest=forests(**options), seed=st.integers(0, _SEEDS), n=st.integers(min_rows, max_rows)
    )
    return found


def _hypothesis() -> Any:
    try:
        from hypothesis import strategies
    except ImportError as error:
        raise MissingDependencyError.of("hypothesis", "test", "treespec.testing.strategies") from error
    return strategies
