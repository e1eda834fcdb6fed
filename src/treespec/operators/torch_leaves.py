"""`TorchLeaves`: the products of a leaf incidence on a torch device; the only file of the operators that knows torch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from treespec.errors import DataMismatchError, MissingDependencyError
from treespec.operators.base import Array
from treespec.operators.leaf import LeafIncidence

if TYPE_CHECKING:
    import torch

_ROWS = 1 << 16  # gathered at a time: their results stay small on the device


class TorchLeaves(LeafIncidence):
    """A leaf incidence whose products run on a torch device, in float64: the same numbers to rounding.

    Parameters
    ----------
    Z : LeafIncidence
    device : str
        As torch calls it: "cuda", "cuda:1", "cpu". One without float64 ("mps") is refused.

    Raises
    ------
    MissingDependencyError
        Without torch.
    DataMismatchError
        If torch has no such device, or it has no float64.

    Notes
    -----
    Holds 4 bytes for each row and tree on the device. An incidence with entries (`with_entries`) multiplies as NumPy does. On a CPU
    NumPy is faster (see the page on scale), which is why nothing takes this way unasked.
    """

    def __init__(self, Z: LeafIncidence, device: str) -> None:
        super().__init__(np.empty((Z.shape[0], 0), np.int64), Z.shape[1])
        trees = [Z.tree(t) for t in range(Z.n_trees)]
        self._set([local for _, _, local in trees], Z._low, Z._width)
        self.compact, self._entry = True, Z.entries()  # products are made here, and nothing is prepared beside
        self.device = device_of(device)
        self._index = _tensor(np.stack([local.astype(np.int32) + np.int32(low) for low, _, local in trees]), self.device)

    def _forward(self, V: Array) -> Array:
        if self._entry is not None:
            return super()._forward(V)
        table, out = _tensor(V, self.device), np.empty((self.shape[0], V.shape[1]))
        for start in range(0, len(out), _ROWS):
            out[start : start + _ROWS] = _gathered(table, self._index[:, start : start + _ROWS]).cpu().numpy()
        return out

    def _backward(self, U: Array) -> Array:
        if self._entry is not None:
            return super()._backward(U)
        out = _zeros(self.shape[1], U.shape[1], self.device)
        _scatter(out, self._index, _tensor(U, self.device))
        return np.asarray(out.cpu().numpy())

    def normal(self, V: NDArray[Any], weight: Any = None) -> Array:
        """Return ``Z.T diag(weight) Z V``; only V and the result pass between the device and memory."""
        if self._entry is not None:
            return super().normal(V, weight)
        table, out = _tensor(V, self.device), _zeros(self.shape[1], V.shape[1], self.device)
        scale = None if weight is None else _tensor(np.asarray(weight, dtype=np.float64), self.device)
        for start in range(0, self.shape[0], _ROWS):
            index = self._index[:, start : start + _ROWS]
            rows = _gathered(table, index)
            if scale is not None:
                rows *= scale[start : start + _ROWS, None]
            _scatter(out, index, rows)
        return np.asarray(out.cpu().numpy())

    def select(self, trees: NDArray[np.integer[Any]]) -> LeafIncidence:
        """Return the incidence of some trees only, on the same device."""
        plain = LeafIncidence.of_trees(self._local, self._low, self._width, self.shape[1])
        plain._entry = self._entry
        return TorchLeaves(plain.select(trees), str(self.device))


def _zeros(n: int, k: int, device: torch.device) -> torch.Tensor:
    import torch

    return torch.zeros((n, k), dtype=torch.float64, device=device)


def _gathered(table: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    """Return the (n, k) sums of rows of ``table`` over the trees of ``index`` (n_trees, n)."""
    out = _zeros(index.shape[1], table.shape[1], table.device)
    for column in index:
        out += table.index_select(0, column)
    return out


def _scatter(out: torch.Tensor, index: torch.Tensor, rows: torch.Tensor) -> None:
    for column in index:
        out.index_add_(0, column, rows)


def device_of(name: str) -> torch.device:
    """Return the device of a name.

    Raises
    ------
    MissingDependencyError
        Without torch.
    DataMismatchError
        If torch has no such device, or it has no float64.
    """
    try:
        import torch
    except ImportError:
        raise MissingDependencyError.of("torch", "torch", f"device={name!r}") from None
    try:
        device = torch.device(name)
        torch.zeros(1, dtype=torch.float64, device=device)
    except (RuntimeError, AssertionError, TypeError, NotImplementedError) as error:
        raise DataMismatchError.expected(
            "a device that torch has here, with float64", f"{name!r} ({str(error).splitlines()[0][:100]})", "leave device out for NumPy"
        ) from None
    return device


def _tensor(array: NDArray[Any], device: torch.device) -> torch.Tensor:
    import torch

    return torch.from_numpy(np.require(array, requirements=["C", "W"])).to(device)
