"""Which nets fit a budget."""

from __future__ import annotations

from collections.abc import Sequence

from treespec.errors import BudgetError
from treespec.students.mlp import Precision, student_bytes
from treespec.students.preprocess import Preprocess

MAX_MEMBERS = 5


def widest(
    preprocess: Preprocess, depth: int, n_outputs: int, budget: int, precision: Precision, *, members: int = 1, most: int = 512
) -> int:
    """Return the largest width of ``depth`` equal hidden layers with which ``members`` nets fit, 0 where not even width 1 does."""
    low, high = 0, most
    while low < high:
        middle = (low + high + 1) // 2
        shape = (preprocess.n_inputs, *[middle] * depth, n_outputs)
        if student_bytes(preprocess, shape, precision, members) <= budget:
            low = middle
        else:
            high = middle - 1
    return low


def members_that_fit(preprocess: Preprocess, shape: Sequence[int], budget: int, precision: Precision, most: int = MAX_MEMBERS) -> int:
    """Return how many nets of this shape fit, at most ``most``."""
    fits = 0
    while fits < most and student_bytes(preprocess, shape, precision, fits + 1) <= budget:
        fits += 1
    return fits


def check_smallest(preprocess: Preprocess, n_outputs: int, budget: int, what: str, *, hidden: tuple[int, ...] = ()) -> None:
    """Raise `BudgetError` where not even the smallest net fits, naming its size.

    The smallest is the cheapest precision of a linear model (or of the given hidden widths).
    """
    shape = (preprocess.n_inputs, *hidden, n_outputs)
    smallest = min(student_bytes(preprocess, shape, p, 1) for p in ("float32", "float16", "int8"))
    if budget < smallest:
        raise BudgetError.too_small(budget, smallest, what)
