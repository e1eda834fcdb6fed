"""Every error that treespec raises on purpose.

A message says what was expected, what came, and after a blank line and ``Hint:`` what to do.
All are ``ValueError`` (so that scikit-learn tools treat them as bad input) and carry no state but their message, except
`BudgetError`, which knows the smallest budget that would do.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class TreespecError(ValueError):
    """Base of all errors raised by treespec."""

    @classmethod
    def expected(cls, expected: str, came: str, hint: str) -> TreespecError:
        """Build the error in the one form that all messages have.

        Parameters
        ----------
        expected, came, hint
            Phrases without a closing full stop.
        """
        return cls(f"Expected {expected}, but got {came}.\n\nHint: {hint}.")


class UnsupportedModelError(TreespecError):
    """The model is not a tree ensemble that treespec can represent exactly."""


class ModelNotFittedError(TreespecError):
    """The model has not been fitted."""


class DataMismatchError(TreespecError):
    """Rows, labels or weights do not fit the model or each other."""


class DataNeededError(TreespecError):
    """A scheme needs data (X, y, ...) that it was not given."""


class SelfCheckError(TreespecError):
    """The converted forest and the framework disagree on some row."""


class InvalidForestError(TreespecError):
    """The arrays of a Forest break one of its invariants."""


class FileFormatError(TreespecError):
    """A file is truncated, damaged, of an unknown version, or not what it claims to be."""


class UnknownNameError(TreespecError):
    """No scheme, smoother, learner or compressor of that name is registered."""


class BudgetError(TreespecError):
    """A byte budget cannot be read or cannot be met.

    Attributes
    ----------
    smallest : int or None
        The smallest budget in bytes that can be met, where that is the problem.
    """

    smallest: int | None = None

    @classmethod
    def too_small(cls, budget: int, smallest: int, what: str) -> BudgetError:
        """Build the error for a budget below the ``smallest`` that ``what`` can meet."""
        error = cls(
            f"Expected a budget of at least {smallest} bytes for {what}, but got {budget} bytes.\n\n"
            f"Hint: {smallest} bytes is the smallest that can be met; ask for distill(budget={smallest}) or more."
        )
        error.smallest = smallest
        return error


class PluginError(TreespecError):
    """A plugin could not be loaded, or returned something that its hook does not allow."""


class PluginConflictError(PluginError):
    """Two plugins registered the same name."""


class ContractError(TreespecError, AssertionError):
    """A plugin breaks a promise of its hook; raised by the checks of `treespec.testing` alone."""


class MissingDependencyError(TreespecError, ImportError):
    """An optional package is needed and is not installed."""

    @classmethod
    def of(cls, package: str, extra: str, purpose: str) -> MissingDependencyError:
        """Build the error that names the ``extra`` which installs ``package``."""
        return cls(f"{purpose} needs the package {package!r}, which is not installed.\n\nHint: pip install 'treespec[{extra}]'.")


@contextmanager
def writing(path: Any, expected: str) -> Iterator[None]:
    """Turn what goes wrong with a path that is written to into a `TreespecError`.

    Parameters
    ----------
    path : object
        What the user passed.
    expected : str
        What it should be.
    """
    try:
        yield
    except TreespecError:
        raise
    except TypeError as error:
        raise TreespecError.expected(expected, f"{path!r}, which is no path", "pass a str or a pathlib.Path") from error
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise TreespecError.expected(expected, f"{str(path)!r} ({reason})", "check the path and its permissions") from error
