"""The proof boundaries of KPP (section 3.5): which labels built the representation, and what a number may therefore claim."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

RegimeName = Literal["fixed", "honest", "cross-fit"]


@dataclass(frozen=True)
class Regime:
    """How the representation and the final fit share labels.

    Attributes
    ----------
    name : {"fixed", "honest", "cross-fit"}
    anchor : str
        The paper's name: PB-01 to PB-04.
    labels_used_twice : bool
        Whether the labels of the final fit also grew the trees or set the node weights.
    clause : str
        The conditioning clause that a bound carries.
    """

    name: RegimeName
    anchor: str
    labels_used_twice: bool
    clause: str

    @property
    def status(self) -> str:
        """What a bound under this regime is: a guarantee given the representation, or a diagnostic."""
        if self.labels_used_twice:
            return "diagnostic, not a guarantee: the same labels built the representation and fitted the model"
        return f"holds conditionally: {self.clause}"


_CONDITIONAL = "Conditionally on the KPP representation, the bound holds for the final fit."

FIXED = Regime("fixed", "PB-04", labels_used_twice=True, clause=_CONDITIONAL)
"""Trees, weights and final fit from the same labels: what ``wrap(model, X, y).kpp()`` gives."""

FIXED_LABEL_FREE = Regime("fixed", "PB-01", labels_used_twice=False, clause=_CONDITIONAL)
"""A representation that no label of the final fit entered."""

HONEST = Regime(
    "honest", "PB-02", labels_used_twice=False, clause="The representation is learned on rows disjoint from those of the final fit."
)

CROSS_FIT = Regime(
    "cross-fit", "PB-03", labels_used_twice=False, clause="Fold by fold, given the representation learned without the labels of the fold."
)
