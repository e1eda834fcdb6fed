"""`Student`: what every student can do."""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from treespec.errors import writing
from treespec.ir import link as links
from treespec.students.outcome import Outcome

if TYPE_CHECKING:
    from treespec.students.c_export import CExport


class Student(ABC):
    """A small model that was distilled from a tree ensemble. Immutable but for ``report``.

    Attributes
    ----------
    outcome : Outcome
        Task, link and classes, as the teacher's.
    report : treespec.distill.report.Report or dict or None
        How it came about: scores and the rows they were measured on, fidelity, seconds, every candidate. A dict after loading.
    """

    kind: ClassVar[str]
    """How the file calls this kind of student."""

    def __init__(self, outcome: Outcome) -> None:
        self.outcome = outcome
        self.report: Any = None

    # ---- what a kind of student defines

    @abstractmethod
    def payload(self) -> bytes:
        """Return every byte of constant data that a device needs to predict."""

    @classmethod
    @abstractmethod
    def from_payload(cls, payload: bytes, outcome: Outcome) -> Self:
        """Read a student back; damaged bytes raise `FileFormatError`."""

    @abstractmethod
    def _margin(self, X: Any) -> NDArray[np.float64]:
        """Return (n, n_outputs) margins of rows as the user passes them."""

    # ---- what all can do

    @cached_property
    def n_bytes(self) -> int:
        """Bytes of constant data that a device needs to predict: weights or trees, scaling, imputation, category maps, header.

        Code is not counted, nor what only people need (names of columns and classes, the report).
        """
        return len(self.payload())

    @property
    def task(self) -> str:
        """The teacher's task."""
        return self.outcome.task

    def margin(self, X: Any) -> NDArray[np.float64]:
        """Return raw margins on the teacher's scale, (n,) or (n, n_outputs)."""
        return links.squeeze(self._margin(X))

    def predict(self, X: Any) -> NDArray[Any]:
        """Return what the teacher's ``predict`` would: values, class labels, or a raw booster's probabilities.

        Parameters
        ----------
        X : array-like, sparse matrix or frame of shape (n, n_features)
            As the teacher takes it.
        """
        return links.predict(self.outcome, self._margin(X))

    def predict_proba(self, X: Any) -> NDArray[np.float64] | list[NDArray[np.float64]]:
        """Return (n, n_classes) class probabilities, or a list of them for several targets."""
        return links.predict_proba(self.outcome, self._margin(X))

    def to_bytes(self) -> bytes:
        """Return the student as the bytes of a file: metadata and `payload`; no pickle."""
        from treespec.students.file import dumps

        return dumps(self)

    def save(self, path: str | Path) -> None:
        """Write the student to one file, to be read with `treespec.load_student`.

        Raises
        ------
        TreespecError
            If the file cannot be written.
        """
        data = self.to_bytes()
        with writing(path, "the path of a file to write"):
            Path(path).write_bytes(data)

    def to_c(
        self,
        directory: str | Path,
        prefix: str = "treespec",
        *,
        libm: bool = True,
        fast: bool = False,
        unit: ArrayLike | None = None,
    ) -> CExport:
        """Write the student as C99: ``prefix.h``, ``prefix.c`` and a self-test, ``prefix_test.c``.

        ``void prefix_predict(const float *x, float *out)`` gives what `predict` gives, or probabilities for classes; no heap, no
        recursion, all data constant.

        Parameters
        ----------
        libm : bool
            Whether links may call ``exp`` and its like; without, they are written out. Trees and nets themselves call nothing.
        fast : bool
            Add tables to packed trees that make one row about three times as fast: 4 bytes a node and a threshold, beyond the budget.
        unit : float or (n_features,) array-like, optional
            Take and give integers, without any floating point: input j is an int32 that stands for ``x[j] * unit[j]`` (categories: their
            codes), ``INT32_MIN`` for missing; ``prefix_margin`` gives margins in units of ``PREFIX_STEP``. For packed trees whose leaf
            values are rounded.

        Returns
        -------
        CExport
            The three paths, the bytes of constant data and of stack, and how many operations a prediction takes.
        """
        from treespec.students.c_export import export

        return export(self, directory, prefix, libm=libm, fast=fast, unit=unit)

    def to_onnx(self, path: str | Path) -> None:
        """Write the student as an ONNX file (operator set 17, ``ai.onnx.ml`` 3).

        The input ``x`` (n, n_features) is float32 (float64 for packed trees of models that compare in float64), NaN for missing, text
        categories as their number in the list that the file's metadata holds. Outputs are ``output`` (what `predict` gives; for classes
        the probabilities), ``margin``, both float32, and for one target of classes ``label``. Rows that the model refuses give NaN.

        Margins of trees are those of the student, bit for bit, with runtimes that sum up in order (onnxruntime on the CPU does); those
        of nets differ by the rounding of float32.

        Raises
        ------
        MissingDependencyError
            If onnx is not installed.
        """
        from treespec.students.onnx_export import export

        export(self, path)

    def __repr__(self) -> str:
        """Say what the student is in one line."""
        return f"{type(self).__name__}({self.n_bytes} bytes, {self.task}, from {self.outcome.framework})"
