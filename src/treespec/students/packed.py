"""`PackedStudent`: a forest in a few bytes a node, predicted with numpy alone."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from treespec.ir import Forest
from treespec.ir import link as links
from treespec.students.base import Student
from treespec.students.outcome import Outcome
from treespec.students.packed_format import pack
from treespec.students.packed_reader import Unpacked, unpack
from treespec.students.packed_rebuild import rebuild
from treespec.students.packed_walk import Walk


class PackedStudent(Student):
    """A student that is a bit-packed forest.

    Parameters
    ----------
    payload : bytes
        From `treespec.students.packed_format.pack`.
    outcome : Outcome

    Attributes
    ----------
    head : {"margin", "logit", "softmax"}
        What the sums of the trees are; see `treespec.students.packed_format.HEADS`.
    forest : Forest
        The packed trees.
    sums_outcome : Outcome
        What the sums of the trees are.
    unpacked : Unpacked
        Tables, shape, indices and leaves as they lie in the payload.

    Notes
    -----
    Predicting costs O(n * n_trees * depth) time and about 50 MB; the decoded trees take some 20 bytes a node.
    """

    kind = "packed"

    def __init__(self, payload: bytes, outcome: Outcome) -> None:
        super().__init__(outcome)
        self._payload = payload
        self.unpacked: Unpacked = unpack(payload, outcome)
        self.head = self.unpacked.head
        self.sums_outcome = _sums(outcome, self.head)
        self.forest: Forest = rebuild(self.unpacked, self.sums_outcome)

    @classmethod
    def of(cls, forest: Forest, leaf_bits: int | None = None, *, outcome: Outcome | None = None, head: str = "margin") -> Self:
        """Return a forest packed: exactly, or with leaf values of ``leaf_bits`` bits (`packed_format.pack`)."""
        return cls(pack(forest, leaf_bits, head), outcome or Outcome.of(forest))

    @property
    def is_exact(self) -> bool:
        """Whether margins equal those of the forest that was packed, bit for bit."""
        return self.leaf_bits is None

    @property
    def leaf_bits(self) -> int | None:
        """Bits of a leaf value; None where values are exact."""
        return getattr(self.unpacked.leaves, "bits", None)

    @cached_property
    def _walk(self) -> Walk:
        return Walk(self.unpacked, self.forest)

    def payload(self) -> bytes:
        """Return the packed bytes."""
        return self._payload

    @classmethod
    def from_payload(cls, payload: bytes, outcome: Outcome) -> Self:
        """Read packed bytes; sizes are checked before anything is allocated."""
        return cls(payload, outcome)

    def _margin(self, X: Any) -> NDArray[np.float64]:
        return self.margin_of(self.forest.encode(X))

    def margin_of(self, encoded: NDArray[np.floating[Any]]) -> NDArray[np.float64]:
        """Return the (n, n_outputs) margins of rows that ``forest.encode`` gave."""
        sums = self._walk.margin(encoded)
        if self.head == "margin":
            return sums
        p = links.apply_link(self.forest, sums)
        return np.column_stack([1 - p, p]) if self.head == "logit" and self.outcome.n_outputs > 1 else p

    def predict(self, X: Any) -> NDArray[Any]:
        """Return what the teacher's ``predict`` would, the link in the precision of the teacher."""
        return links.predict(self._meaning, self._margin(X))

    def predict_proba(self, X: Any) -> NDArray[np.float64] | list[NDArray[np.float64]]:
        """Return (n, n_classes) class probabilities, or a list of them for several targets, the link in the precision of the teacher."""
        return links.predict_proba(self._meaning, self._margin(X))

    @property
    def _meaning(self) -> Forest | Outcome:
        return self.forest if self.head == "margin" else self.outcome


def _sums(outcome: Outcome, head: str) -> Outcome:
    """Return the outcome of the sums of the trees."""
    if head == "margin":
        return outcome
    link, n_outputs = ("sigmoid", 1) if head == "logit" else ("softmax", outcome.n_outputs)
    return replace(outcome, link=link, link_scale=1.0, n_outputs=n_outputs, task="regression", classes=None)
