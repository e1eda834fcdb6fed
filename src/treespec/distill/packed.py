"""Compressor ``packed``: the model's own trees, bit-packed; lossless where that fits, else with leaf values of as many bits as fit."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from treespec.distill.data import DistillData
from treespec.distill.report import fitted_on
from treespec.distill.unseen import unseen
from treespec.errors import BudgetError
from treespec.hooks import Progress, Teacher
from treespec.ir import Forest
from treespec.ir.table import take
from treespec.students.outcome import Outcome
from treespec.students.packed import PackedStudent
from treespec.students.packed_format import pack
from treespec.students.packed_quantise import MAX_LEAF_BITS

FEWEST_BITS = 3
"""Leaf values of fewer bits no longer tell what the model says."""

_MOST_PLACES = 16
_FEEDBACK_ROWS = 20_000  # rows whose errors trees make good
_ROWS = 5000  # rows that ways to round are compared on


def packed(
    teacher: Teacher,
    budget: int,
    *,
    data: DistillData | None,
    random_state: int,
    progress: Progress | None,
    leaf_bits: int | None = None,
) -> PackedStudent:
    """Return the teacher's own trees in at most ``budget`` bytes.

    Margins equal the teacher's, bit for bit, where that fits. Else leaf values are rounded, to as many bits as fit: to small integers with
    a step of its own for each tree, or (where leaves share values, as in forests of classes) to one grid whose distinct values are a table;
    rows decide which of the two is closer to the teacher.

    Parameters
    ----------
    data : DistillData or None
        Not needed; rows make the error of rounding smaller on rows like them, and decide between ways to round.
    leaf_bits : int, optional
        Round to so many bits, 1 to 16, whether or not lossless fits.

    Raises
    ------
    BudgetError
        If the trees do not fit with 3 bits a leaf; it names what they need then.

    Notes
    -----
    Costs a sort of the nodes: 0.1 s for 10,000 nodes; rounding, O(n_trees) time for each of up to 20,000 rows. Thresholds, missing
    directions and categories are always exact.
    """
    forest = teacher.forest
    leaf_id = None if data is None else data.rows.leaf_id[_some(data.n_rows, random_state)]
    tried: list[dict[str, Any]] = []
    if leaf_bits is not None:
        options = {f"{leaf_bits} bits": pack(forest, leaf_bits, leaf_id=leaf_id)}
    else:
        exact = pack(forest)
        tried.append({"leaves": "exact", "bytes": len(exact)})
        options = {"exact": exact} if len(exact) <= budget else _rounded(forest, budget, leaf_id)
    smallest = min(len(payload) for payload in options.values())
    if smallest > budget:
        raise BudgetError.too_small(budget, smallest, "the model's own trees")
    students = {name: PackedStudent(payload, Outcome.of(forest)) for name, payload in options.items()}
    errors = {name: _distance(s, data, random_state) if len(students) > 1 else 0.0 for name, s in students.items()}
    chosen = min(students, key=lambda name: errors[name])
    if chosen != "exact":
        tried += [{"leaves": name, "bytes": s.n_bytes, "rmse to the teacher": errors[name]} for name, s in students.items()]
    student = students[chosen]
    student.report = {"compressor": "packed", "chosen": {"leaves": chosen}, "candidates": tried, "exact": chosen == "exact"}
    if data is not None:
        # its margins are the teacher's: where that was fitted on the validation rows, they say nothing about new rows
        student.report["in_sample"] = data.objective == "accuracy" and fitted_on(forest, data.rows.leaf_id, data.rows.sampled_from) != "no"
        X = take(data.rows.X, data.validation)
        student.report["validation_margin"] = student.margin(X).reshape(len(data.validation), -1)
        fair = unseen(forest, data) if student.report["in_sample"] else None
        if fair is not None:
            student.report["fair_margin"] = fair[0].margin_of(fair[1][data.validation])
    return student


def _rounded(forest: Forest, budget: int, leaf_id: NDArray[np.integer] | None) -> dict[str, bytes]:
    """Return the finest rounding of each kind that fits; if none does, the smallest of all."""
    low, high = pack(forest, FEWEST_BITS), pack(forest, FEWEST_BITS + 1)
    a_bit = max(1, len(high) - len(low))
    bits = min(MAX_LEAF_BITS, FEWEST_BITS + max(0, budget - len(low)) // a_bit)
    payload = pack(forest, bits, leaf_id=leaf_id)
    while bits > FEWEST_BITS and len(payload) > budget:
        bits -= 1
        payload = pack(forest, bits, leaf_id=leaf_id)
    options = {f"{bits} bits": payload if len(payload) <= budget else low}
    if forest.aggregation == "mean":  # leaves of boosters are hardly ever the same, and one grid for all trees is worse than one for each
        options["a table of rounded values"] = _on_a_grid(forest, budget)
    return {name: p for name, p in options.items() if len(p) <= budget} or options


def _on_a_grid(forest: Forest, budget: int) -> bytes:
    """Return the forest with leaf values rounded to the finest binary grid at which a table of them fits, else to the coarsest."""
    largest = float(np.abs(forest.value[forest.leaves]).max(initial=0.0))
    top = int(np.frexp(largest)[1])
    best = pack(forest.with_values(_to_grid(forest.value, FEWEST_BITS - top)))
    low, high = FEWEST_BITS + 1, _MOST_PLACES
    while low <= high and len(best) <= budget:
        places = (low + high) // 2
        payload = pack(forest.with_values(_to_grid(forest.value, places - top)))
        if len(payload) <= budget:
            best, low = payload, places + 1
        else:
            high = places - 1
    return best


def _some(n: int, random_state: int) -> NDArray[np.intp]:
    return np.random.default_rng(random_state).permutation(n)[:_FEEDBACK_ROWS]


def _to_grid(value: NDArray[np.float64], places: int) -> NDArray[np.float64]:
    return np.asarray(np.ldexp(np.rint(np.ldexp(value, places)), -places))


def _distance(student: PackedStudent, data: DistillData | None, random_state: int) -> float:
    """Return the root mean squared difference of margins from the teacher's, on rows or (without any) over the leaves."""
    if data is None:
        return float(-student.n_bytes)
    rows = _some(data.n_rows, random_state)[:_ROWS]
    margin = student.margin(take(data.rows.X, rows)).reshape(len(rows), -1)
    return float(np.sqrt(np.mean((margin - data.margin[rows]) ** 2)))
