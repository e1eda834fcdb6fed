"""`PackedStudent`: a forest in a few bytes a node, predicted with numpy alone."""

from __future__ import annotations

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
        self.forest: Forest = rebuild(self.unpacked, outcome)

    @classmethod
    def of(cls, forest: Forest, leaf_bits: int | None = None) -> Self:
        """Return a forest packed: exactly, or with leaf values of ``leaf_bits`` bits (`packed_format.pack`)."""
        return cls(pack(forest, leaf_bits), Outcome.of(forest))

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
        return self._walk.margin(self.forest.encode(X))

    def predict(self, X: Any) -> NDArray[Any]:
        """Return what the teacher's ``predict`` would, the link in the precision of the teacher."""
        return links.predict(self.forest, self._margin(X))

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Return (n, n_classes) class probabilities, the link in the precision of the teacher."""
        return np.asarray(links.predict_proba(self.forest, self._margin(X)))
