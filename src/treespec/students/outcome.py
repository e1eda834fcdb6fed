"""`Outcome`: what a student's numbers mean, taken over from its teacher."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from treespec.errors import FileFormatError
from treespec.ir.check import classes_problem
from treespec.ir.forest import Task
from treespec.ir.link import LINKS

if TYPE_CHECKING:
    from treespec.ir import Forest


@dataclass(frozen=True, eq=False)
class Outcome:
    """Task, link and classes of the teacher, in the words of `treespec.ir.Forest`.

    Attributes
    ----------
    task, link, link_scale, classes, n_outputs, ties_to_last, framework
        As in `treespec.ir.Forest`.
    n_features : int
        Columns that the teacher, and so the student, takes.
    feature_names : tuple of str or None
    absent : {"zero", "missing", "refuse"}
        What an entry that a sparse matrix does not store means.
    offset : float
        As in `treespec.ir.Forest`.
    missing_value : float
        A number that means missing, as NaN does; NaN for none.
    """

    task: str
    link: str
    n_outputs: int
    n_features: int
    link_scale: float = 1.0
    classes: tuple[NDArray[Any], ...] | None = None
    ties_to_last: bool = False
    framework: str = "unknown"
    feature_names: tuple[str, ...] | None = None
    absent: Literal["zero", "missing", "refuse"] = "zero"
    offset: float = 0.0
    missing_value: float = float("nan")

    sum_dtype = "float64"  # a student is not bound to its teacher's rounding

    def links_head(self, head: str) -> bool:
        """Tell whether margins are probabilities that a student gets from sums of its own by a logistic or softmax head.

        So they are for forests of class frequencies, whose margins are probabilities, and for regression on labels 0 and 1.
        """
        if head in ("margin", "value", "mean"):
            return False
        return self.link == "probability" or (head == "logit" and (self.task, self.link, self.n_outputs) == ("regression", "identity", 1))

    @classmethod
    def of(cls, forest: Forest) -> Outcome:
        """Return the outcome of a forest."""
        return cls(
            forest.task,
            forest.link,
            forest.n_outputs,
            forest.n_features,
            forest.link_scale,
            forest.classes,
            forest.ties_to_last,
            forest.framework,
            forest.feature_names,
            forest.inputs.absent,
            forest.offset,
            forest.inputs.missing_value,
        )

    def to_json(self) -> dict[str, Any]:
        """Return plain values for a file's metadata."""
        return {
            "task": self.task,
            "link": self.link,
            "n_outputs": self.n_outputs,
            "n_features": self.n_features,
            "link_scale": self.link_scale,
            "classes": None if self.classes is None else [_labels_to_json(c) for c in self.classes],
            "ties_to_last": self.ties_to_last,
            "framework": self.framework,
            "feature_names": None if self.feature_names is None else list(self.feature_names),
            "absent": self.absent,
            "offset": self.offset,
            "missing_value": None if math.isnan(self.missing_value) else self.missing_value.hex(),
        }

    @classmethod
    def from_json(cls, plain: dict[str, Any]) -> Outcome:
        """Read what `to_json` wrote; KeyError, TypeError or ValueError for anything else."""
        classes, names = plain["classes"], plain["feature_names"]
        outcome = cls(
            task=str(plain["task"]),
            link=str(plain["link"]),
            n_outputs=int(plain["n_outputs"]),
            n_features=int(plain["n_features"]),
            link_scale=float(plain["link_scale"]),
            classes=None if classes is None else tuple(_labels_from_json(c) for c in classes),
            ties_to_last=bool(plain["ties_to_last"]),
            framework=str(plain["framework"]),
            feature_names=None if names is None else tuple(str(c) for c in names),
            absent=plain.get("absent", "zero"),
            offset=float(plain.get("offset", 0.0)),
            missing_value=float("nan") if plain.get("missing_value") is None else float.fromhex(plain["missing_value"]),
        )
        outcome._check()
        return outcome

    def _check(self) -> None:
        """Raise where the fields do not fit together: ValueError, which readers of files make theirs."""
        if self.link not in LINKS or self.task not in get_args(Task) or self.absent not in ("zero", "missing", "refuse"):
            raise ValueError(f"link {self.link!r}, task {self.task!r} or absent entries {self.absent!r}")
        if not (self.n_outputs >= 1 and self.n_features >= 0 and math.isfinite(self.link_scale) and math.isfinite(self.offset)):
            raise ValueError("sizes")
        if self.feature_names is not None and len(self.feature_names) != self.n_features:
            raise ValueError(f"{len(self.feature_names)} names of {self.n_features} columns")
        problem = classes_problem(self)
        if problem:
            raise ValueError(problem)


def _labels_to_json(labels: NDArray[Any]) -> dict[str, Any]:
    return {"type": "text" if labels.dtype.kind in "OU" else labels.dtype.newbyteorder("<").str, "labels": labels.tolist()}


def _labels_from_json(plain: dict[str, Any]) -> NDArray[Any]:
    labels, dtype = plain["labels"], plain["type"]
    if dtype == "text":
        return np.array(labels) if all(isinstance(c, str) for c in labels) else np.array(labels, dtype=object)
    if np.dtype(dtype).kind not in "biuf":
        raise FileFormatError.expected("class labels that are numbers or text", f"labels of type {dtype!r}", "the file is damaged")
    return np.array(labels, dtype=dtype)
