"""What all checks share: the form of a failure, calls that may not change what they are given, and results that repeat."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treespec.errors import ContractError, TreespecError


class Contract:
    """The promises of one hook, checked one by one.

    Parameters
    ----------
    of : str
        What is checked, for messages: "node weights", "a smoother", ...
    """

    def __init__(self, of: str) -> None:
        self.of = of

    def require(self, good: Any, asks: str, came: Callable[[], Any] | str, hint: str) -> None:
        """Raise `ContractError` unless ``good``; ``came`` is only worked out then."""
        if not good:
            raise self.broken(asks, str(came() if callable(came) else came), hint)

    def broken(self, asks: str, came: str, hint: str) -> ContractError:
        """Return the error for a promise that is not kept."""
        return ContractError(f"The contract of {self.of} asks for {asks}, but got {came}.\n\nHint: {hint}.")

    @contextmanager
    def call(self, what: str, *given: Any) -> Iterator[None]:
        """Run a call of the plugin: it may only raise errors of treespec, change nothing that it is given, and leave numpy's random state.

        Parameters
        ----------
        what : str
            The call, for messages.
        *given : object
            Arrays, frames and the like, which are compared before and after.
        """
        before = [copy.deepcopy(value) for value in given]
        state = _random_state()
        try:
            yield
        except (TreespecError, Warning):
            raise
        except Exception as error:
            raise self.broken(
                f"an error of treespec.errors where {what} cannot be done",
                f"{type(error).__name__}: {error}",
                "refuse with UnsupportedModelError, DataNeededError or DataMismatchError and say what to do; else repair the call",
            ) from error
        self.require(
            all(same(a, b) for a, b in zip(before, given, strict=True)),
            f"{what} to leave its arguments as they are",
            "an argument that was changed in place",
            "copy an array before you write into it",
        )
        self.require(
            state == _random_state(),
            f"{what} to take its random numbers from random_state alone",
            "another state of numpy's global generator",
            "use numpy.random.default_rng(random_state)",
        )

    def numbers(self, array: Any, what: str, shape: tuple[int, ...]) -> NDArray[np.float64]:
        """Return an array of finite real numbers of the given shape."""
        came = np.asarray(array)
        self.require(came.shape == shape, f"{what} of shape {shape}", f"shape {came.shape}", "return one number for each")
        self.require(came.dtype.kind in "fiu", f"{what} that are real numbers", f"type {came.dtype}", "convert them to float64")
        self.require(
            np.isfinite(came).all(), f"finite {what}", lambda: f"{int((~np.isfinite(came)).sum())} that are not", "divide by no empty sum"
        )
        return came.astype(np.float64)

    def close(self, came: Any, expected: Any, asks: str, hint: str, tolerance: float = 1e-9) -> None:
        """Require numbers to agree within ``tolerance`` of the largest."""
        a, b = np.asarray(came, np.float64), np.asarray(expected, np.float64)
        self.require(a.shape == b.shape, asks, f"shapes {a.shape} and {b.shape}", hint)
        scale = max(1e-300, float(np.abs(b).max(initial=0.0)), float(np.abs(a).max(initial=0.0)))
        off = np.abs(a - b)
        self.require((off <= tolerance * scale).all(), asks, lambda: f"a difference of {off.max():.3g} (largest number {scale:.3g})", hint)


def same(a: Any, b: Any) -> bool:
    """Tell whether two results are equal, bit for bit: arrays, sparse arrays, frames, and tuples, lists and dicts of them."""
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        return _same_arrays(np.asarray(a), np.asarray(b))
    if isinstance(a, (tuple, list)) and isinstance(b, (tuple, list)):
        return len(a) == len(b) and all(same(x, y) for x, y in zip(a, b, strict=True))
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(same(a[k], b[k]) for k in a)
    if hasattr(a, "toarray") and hasattr(b, "toarray"):
        return _same_arrays(a.toarray(), b.toarray())
    if hasattr(a, "equals"):
        return bool(a.equals(b))
    return a is b or bool(a == b) or (a != a and b != b)


def _same_arrays(a: NDArray[Any], b: NDArray[Any]) -> bool:
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    if a.dtype.kind == "O":
        return all(same(x, y) for x, y in zip(a.ravel().tolist(), b.ravel().tolist(), strict=True))
    return bool(np.array_equal(a, b, equal_nan=a.dtype.kind in "fc"))


def _random_state() -> tuple[bytes, int]:
    state: Any = np.random.get_state()  # noqa: NPY002  # the global generator is what must not move
    return state[1].tobytes(), int(state[2])
