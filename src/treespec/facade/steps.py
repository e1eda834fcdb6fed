"""The steps of a pipeline before its model: applied to rows by the fitted transformers themselves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from treespec.adapters.shells import end_of, inside, steps_of
from treespec.errors import DataMismatchError, DataNeededError, UnsupportedModelError
from treespec.hooks import is_a


class Steps:
    """Turns the rows of a pipeline into those that its model sees.

    Parameters
    ----------
    transformers : sequence of fitted transformers
        In their order.
    """

    def __init__(self, transformers: Sequence[Any]) -> None:
        self._transformers = tuple(transformers)

    @property
    def names(self) -> str:
        """The classes of the steps."""
        return ", ".join(type(t).__name__ for t in self._transformers)

    def __call__(self, X: Any) -> Any:
        """Return the transformed rows.

        Raises
        ------
        DataMismatchError
            If a step does not take them.
        """
        for transformer in self._transformers:
            try:
                X = transformer.transform(X)
            except (ValueError, TypeError, KeyError, AttributeError, IndexError) as error:
                raise DataMismatchError.expected(
                    f"rows that {type(transformer).__name__}, a step of the pipeline, takes",
                    f"others ({str(error).split(chr(10), maxsplit=1)[0].rstrip('.')})",
                    "pass rows as the pipeline takes them",
                ) from error
        return X


def last_step(model: Any) -> tuple[Any, Steps | None]:
    """Return the model at the end of searches and pipelines, and the steps before it (None where there are none)."""
    transformers: list[Any] = []
    while True:
        if is_a(model, "sklearn.pipeline", "Pipeline") and steps_of(model):
            transformers += steps_of(model)
            model = end_of(model)
            continue
        inner = inside(model)
        if inner is None:
            return model, Steps(transformers) if transformers else None
        model = inner


def check_no_steps(steps: Steps | None, what: str) -> None:
    """Raise where a pipeline's steps stand between the rows and the trees, for what works on the trees' own columns.

    Raises
    ------
    UnsupportedModelError
    """
    if steps is not None:
        raise UnsupportedModelError.expected(
            f"a model of the rows as they come, for {what}",
            f"a pipeline whose steps {steps.names} change them first, which neither a student nor a map of the columns can do",
            f"use w.last_step.{what}(...): it works on the columns that the steps give, w.transform(X)",
        )


def objective_beside_base_margin(objective: str) -> str:
    """Return the objective of a student of a model with a base margin: the trees alone say nothing about the labels.

    Raises
    ------
    DataNeededError
    """
    if objective == "accuracy":
        raise DataNeededError.expected(
            "labels that the trees alone predict, for objective='accuracy'", "a model with a base_margin", "use objective='fidelity'"
        )
    return "fidelity"
