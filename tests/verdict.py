"""What comes of wrapping a model: exact on every row, refused with a reason, or wrong; judged against the framework itself."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field, replace

import numpy as np
from scipy import sparse

import treespec
from probe import nasty_rows
from reference import FLOAT32_MAX, reference_of
from treespec.adapters._treelite import TreeliteRouter
from treespec.errors import TreespecError
from treespec.ir import Forest

MARGIN_TOLERANCE = 1e-6  # relative, as the self-check of `wrap`
_HUGE = 2.0**62
_EXACT = 2**53


@dataclass
class Verdict:
    """The verdict on one model.

    Attributes
    ----------
    outcome : {"exact", "refused", "WRONG", "CRASH"}
    reason : str
        First line of the refusal, or what is wrong.
    task, loss : str
    n_trees, n_rows : int
        Rows over all forms.
    wrong_leaves : int
        (row, tree) pairs that reach another leaf than the framework's.
    margin_error : float
        Largest difference of margins, relative to the larger of 1 and the framework's.
    bit_equal : bool
        Whether all margins are equal as numbers.
    forms : list of str
        Forms of rows that were compared.
    """

    outcome: str = "exact"
    reason: str = ""
    task: str = ""
    loss: str = ""
    n_trees: int = 0
    n_rows: int = 0
    wrong_leaves: int = 0
    margin_error: float = 0.0
    bit_equal: bool = True
    forms: list[str] = field(default_factory=list)

    def blame(self, reason: str) -> None:
        """Say what is wrong; the first finding is kept."""
        if self.outcome == "exact":
            self.outcome, self.reason = "WRONG", reason


def judge(make, *, frames=(), seed=0, n_random=300, max_nodes=150, n_forms=None) -> Verdict:
    """Return the verdict on the model that ``make()`` returns.

    Parameters
    ----------
    make : callable
        Returns the fitted model.
    frames : sequence of frames
        Rows that only a frame can hold (categories by value), compared beside the arrays.
    seed, n_random, max_nodes
        Of `probe.nasty_rows`.
    n_forms : int, optional
        How many other forms the rows come in as well (float32, integers, sparse, frames, ...); by default all.
    """
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")  # of training, of arrays where frames were seen, of huge values
        model = make()
        verdict = Verdict()
        try:
            wrapped = treespec.wrap(model)
        except TreespecError as error:
            verdict.outcome, verdict.reason = "refused", f"{type(error).__name__}: {error}".split("\n", maxsplit=1)[0]
            return verdict
        forest = wrapped.forest
        verdict.task, verdict.loss, verdict.n_trees = forest.task, forest.loss, forest.n_trees
        reference = reference_of(model)
        for name, rows, asked in _forms(forest, seed, n_random, max_nodes, frames, n_forms=n_forms):
            _compare(verdict, wrapped, reference, name, rows, asked)
        if not forest.equals(Forest.from_bytes(forest.to_bytes())):
            verdict.blame("its forest does not survive to_bytes and from_bytes")
        return verdict


def _forms(forest, seed, n_random, max_nodes, frames, *, n_forms):
    """Return (name, rows, what the framework is asked): the nasty rows as float64, and the same or derived rows in other forms."""
    out = [(f"frame {k + 1}", frame, frame) for k, frame in enumerate(frames)]
    named = [values for _, values in forest.inputs.categories]
    by_value = any(isinstance(v, str) for values in named for v in values)
    if by_value and not forest.inputs.numbers_are_codes:
        return out
    plain = forest
    if forest.inputs.numbers_are_codes:
        plain = forest.with_values(forest.value, inputs=replace(forest.inputs, categories=()))
    rows = nasty_rows(plain, np.random.default_rng(seed), n_random=n_random, max_nodes=max_nodes)
    if forest.inputs.infinite == "refuse":  # which may hold for some members of a float64 model only
        rows = np.where(np.abs(rows) > FLOAT32_MAX, 0.5, rows)
    out.append(("float64", rows, rows))
    rng = np.random.default_rng(seed)
    others = _other_forms(forest, rows[seed % 3 :: 3], rng, plain=not named)
    return out + ([others[k] for k in rng.permutation(len(others))[:n_forms]] if n_forms is not None else others)


def _other_forms(forest, rows, rng, *, plain):
    import pandas as pd
    import polars as pl

    single = rows.astype(np.float32)
    if forest.inputs.infinite == "refuse":
        single = np.where(np.isinf(single), np.float32(0.5), single)
    whole = np.trunc(np.clip(np.nan_to_num(rows, nan=0.0, posinf=_HUGE, neginf=-_HUGE), -_HUGE, _HUGE)).astype(np.int64)
    near = rng.integers(2**24, 2**26, rows.shape) * np.where(rng.random(rows.shape) < 0.5, 1, -1)
    on = np.nan_to_num(rows[rng.permutation(len(rows))], posinf=0, neginf=0)
    near = np.where(np.abs(on) > 2**23, np.clip(on, -_HUGE, _HUGE), near).astype(np.int64) + rng.integers(-3, 4, rows.shape)
    if not forest.inputs.numbers_are_codes:  # larger integers are refused as categories
        for j, _ in forest.inputs.categories:
            whole[:, j], near[:, j] = np.clip(whole[:, j], -_EXACT, _EXACT), np.clip(near[:, j], -_EXACT, _EXACT)
    thin = sparse.csr_matrix(np.where(rng.random(rows.shape) < 0.3, 0.0, rows))
    out = [
        ("float32", single, single), ("integers", whole, whole), ("large integers", near, near), ("Fortran order", np.asfortranarray(rows), rows),
        ("small integers", np.clip(whole, -100, 100).astype(np.int8), np.clip(whole, -100, 100).astype(np.int8)), ("lists", rows.tolist(), rows),
        ("CSR", thin, thin), ("CSC", sparse.csc_matrix(thin), sparse.csc_matrix(thin)),
    ]  # fmt: skip
    if plain:  # a frame's numbers would be category values
        names = forest.feature_names or [f"f{j}" for j in range(forest.n_features)]
        frame = pd.DataFrame(rows, columns=list(names))
        out += [("pandas", frame, frame), ("polars", pl.from_pandas(frame), frame), ("Arrow", pl.from_pandas(frame).to_arrow(), None)]
    return out


def _compare(verdict, wrapped, reference, name, rows, asked):
    """Compare one form of rows in every respect."""
    try:
        theirs = reference.leaf(asked), reference.margin(asked), np.asarray(reference.predict(asked))
        probability = reference.proba(asked)
    except Exception as error:  # a form that the framework itself does not take
        if name == "float64":
            verdict.blame(f"the framework takes no {name} rows: {error}"[:200])
        return
    try:
        ours = wrapped.apply(rows), wrapped.margin(rows), wrapped.predict(rows)
    except TreespecError as error:
        verdict.blame(f"{name}: rows that the framework takes are refused: {error}".split("\n", maxsplit=1)[0])
        return
    verdict.forms.append(name)
    verdict.n_rows += len(ours[0])
    _compare_leaves(verdict, wrapped.forest, name, rows, ours[0], theirs[0])
    if theirs[1] is not None:
        _compare_margins(verdict, name, ours[1], np.asarray(theirs[1]))
    elif theirs[2].dtype.kind == "f":
        _compare_margins(verdict, name, np.asarray(ours[2]), theirs[2])
    if not _same(ours[2], theirs[2], wrapped.forest, ours[1]):
        verdict.blame(f"{name}: other predictions")
    if probability is not None and wrapped.forest.classes is not None and wrapped.forest.link not in ("hinge", "identity"):
        mine = wrapped.predict_proba(rows)
        pairs = zip(mine, probability, strict=True) if isinstance(probability, list) else [(mine, probability)]
        if not all(np.shape(p) == np.shape(q) and np.allclose(p, q, rtol=1e-6, atol=MARGIN_TOLERANCE) for p, q in pairs):
            verdict.blame(f"{name}: other probabilities")


def _compare_leaves(verdict, forest, name, rows, ours, theirs):
    start = forest.tree_offset[:-1]
    number = forest.native_id if forest.native_id is not None else np.arange(forest.n_nodes) - np.repeat(start, np.diff(forest.tree_offset))
    encoded = forest.encode(rows)
    ways = {"w.apply": ours, "Forest.apply": forest.apply(rows), "Treelite": TreeliteRouter(forest).leaf_id(encoded)}
    if theirs is None:
        theirs = number[ours]
    for way, leaf in ways.items():
        if leaf.shape != theirs.shape:
            verdict.blame(f"{name}: {way} gives leaves of shape {leaf.shape}, the framework {theirs.shape}")
            continue
        wrong = number[leaf] != theirs
        if wrong.any():
            verdict.wrong_leaves += int(wrong.sum())
            i, t = np.argwhere(wrong)[0]
            verdict.blame(f"{name}: {way}: {int(wrong.sum())} wrong leaves, the first in row {i}, tree {t}")


def _compare_margins(verdict, name, ours, theirs):
    if ours.shape != theirs.shape and ours.size == theirs.size:
        theirs = theirs.reshape(ours.shape)
    if ours.shape != theirs.shape:
        verdict.blame(f"{name}: margins of shape {ours.shape}, the framework's {theirs.shape}")
        return
    error = np.abs(ours - theirs) / np.maximum(1, np.abs(theirs))
    verdict.margin_error = max(verdict.margin_error, float(error.max(initial=0.0)))
    verdict.bit_equal &= bool((ours == theirs).all())
    if not (error <= MARGIN_TOLERANCE).all():
        verdict.blame(f"{name}: margins off by {error.max():.1e}")


def _same(ours, theirs, forest, margin):
    if ours.shape != theirs.shape:
        return False
    if forest.classes is None and theirs.dtype.kind == "f":
        return np.allclose(ours, theirs, rtol=1e-5, atol=1e-6 * max(1e-300, np.abs(theirs).max(initial=0)), equal_nan=True)
    differ = ours != theirs
    if differ.any() and forest.n_outputs == 1:  # a margin within rounding of the boundary
        boundary = 0.5 if forest.link == "probability" else 0.0
        differ &= np.abs(margin - boundary) > 1e-6
    return not differ.any()
