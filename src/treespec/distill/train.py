"""Training of nets: the one file that knows torch.

Several nets of one shape are trained at once, as batched matrix products: they see the same rows in the same order and differ in
target, weight decay and starting weights. One thread and a generator of its own, so that the same call gives the same bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from treespec.errors import MissingDependencyError

if TYPE_CHECKING:
    from treespec.students.fold import Net

Float32 = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Recipe:
    """How nets are trained.

    Attributes
    ----------
    hidden : tuple of int
        Widths of the hidden layers; none for a linear model.
    loss : callable
        ``loss(output, target, rows) -> (c,)`` of torch tensors (c, batch, k), ``rows`` their indices; made by the functions below.
    decay : (c,) sequence of float
        Decoupled weight decay of each net (AdamW); biases do not decay.
    steps, batch : int
    rate : float
        Largest learning rate: 5 percent warm-up, then a half cosine to 0.
    checks : int
        How often, evenly over the second half of training, the nets are offered to ``keep``.
    seed : int
    """

    hidden: tuple[int, ...]
    loss: Callable[[Any, Any, Any], Any]
    decay: Sequence[float]
    steps: int = 800
    batch: int = 64
    rate: float = 5e-3
    checks: int = 8
    seed: int = 0


@dataclass
class Best:
    """The best state of each net that training has seen.

    Attributes
    ----------
    value : (c,) list of float
        Validation loss.
    step : (c,) list of int
    net : (c,) list of Net
    """

    value: list[float]
    step: list[int]
    net: list[Net] = field(default_factory=list)


def train(
    inputs: Float32,
    targets: Float32,
    recipe: Recipe,
    *,
    judge: Callable[[NDArray[np.float64]], Sequence[float]] | None = None,
    judged: Float32 | None = None,
    stop: Sequence[int] | None = None,
    row_weight: NDArray[np.float64] | None = None,
) -> Best:
    """Train ``len(recipe.decay)`` nets of one shape.

    Parameters
    ----------
    inputs : (n, d) float32
        Standardised.
    targets : (c, n, k) or (1, n, k) float32
        One set of targets a net, or one for all.
    recipe : Recipe
    judge : callable, optional
        ``judge(outputs)`` gives a validation loss for each of the (c, m, k) outputs of the rows ``judged``; the best state of each net
        is kept (early stopping). Without it the last state is kept.
    judged : (m, d) float32, optional
    stop : (c,) sequence of int, optional
        Step after which the state of each net is kept, where there is no ``judge``.
    row_weight : (n,) array, optional
        Rows are drawn in proportion to it.

    Returns
    -------
    Best

    Raises
    ------
    MissingDependencyError
        If torch is not installed.

    Notes
    -----
    O(steps * batch * c * weights) time, on one core; memory of the rows and a few batches.
    """
    try:
        import torch
    except ImportError:
        raise MissingDependencyError.of("torch", "torch", "Training a student") from None
    with _one_thread(torch):
        generator = torch.Generator().manual_seed(recipe.seed)
        nets = _Nets(torch, [inputs.shape[1], *recipe.hidden, targets.shape[2]], recipe, generator)
        X, T = torch.from_numpy(np.ascontiguousarray(inputs)), torch.from_numpy(np.ascontiguousarray(targets))
        V = None if judged is None else torch.from_numpy(np.ascontiguousarray(judged))
        last = [recipe.steps] * nets.count if stop is None else list(stop)
        best = Best([np.inf] * nets.count, list(last), [[]] * nets.count)
        for step, rows in enumerate(_batches(torch, len(inputs), recipe, generator, row_weight), start=1):
            nets.step(step, X[rows], T[:, rows], rows)
            if judge is not None and V is not None and _is_check(step, recipe):
                nets.keep_better(best, step, judge(nets.outputs(V)))
            for k in range(nets.count):
                if step == last[k] and (judge is None or not best.net[k]):  # the last state, where no check was finite
                    best.step[k], best.net[k] = step, nets.net(k)
        return best


class _Nets:
    """Nets of one shape, in training."""

    def __init__(self, torch: Any, shape: Sequence[int], recipe: Recipe, generator: Any) -> None:
        self.torch, self.recipe, self.count = torch, recipe, len(recipe.decay)
        self.weights, self.biases = _start(torch, shape, self.count, generator)
        self.decay = torch.tensor(list(recipe.decay)).reshape(-1, 1, 1)
        self.optimizer = torch.optim.Adam([*self.weights, *self.biases], lr=recipe.rate)

    def forward(self, x: Any) -> Any:
        """Return the (c, n, k) outputs for inputs (n, d)."""
        h = x.expand(self.count, *x.shape)
        for k, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            h = self.torch.baddbmm(bias, self.torch.nn.functional.silu(h) if k else h, weight)
        return h

    def step(self, step: int, x: Any, target: Any, rows: Any) -> None:
        """Do one step of AdamW, with a weight decay for each net."""
        rate = self.recipe.rate * _schedule(step, self.recipe.steps)
        self.optimizer.param_groups[0]["lr"] = rate
        self.optimizer.zero_grad()
        self.recipe.loss(self.forward(x), target, rows).sum().backward()
        with self.torch.no_grad():
            for weight in self.weights:
                weight.mul_(1 - rate * self.decay)
        self.optimizer.step()

    def outputs(self, x: Any) -> NDArray[np.float64]:
        """Return the outputs as an array."""
        with self.torch.no_grad():
            out: NDArray[np.float64] = self.forward(x).double().numpy()
        return out

    def keep_better(self, best: Best, step: int, losses: Sequence[float]) -> None:
        """Keep the state of each net whose loss is its smallest so far."""
        for k, value in enumerate(losses):
            if value < best.value[k]:
                best.value[k], best.step[k], best.net[k] = float(value), step, self.net(k)

    def net(self, k: int) -> Net:
        """Return the state of net k."""
        pairs = zip(self.weights, self.biases, strict=True)
        return [(w[k].detach().numpy().T.astype(np.float64), b[k, 0].detach().numpy().astype(np.float64)) for w, b in pairs]


# ---- losses: functions of outputs (c, batch, k) and targets (c or 1, batch, k), one number a net


def loss_of(name: str, shift: NDArray[np.float64], scale: NDArray[np.float64]) -> Callable[[Any, Any, Any], Any]:
    """Return the loss of `treespec.distill.problem.Problem`, on outputs before shift and scale."""

    def loss(output: Any, target: Any, rows: Any) -> Any:
        import torch

        t_scale, t_shift = torch.from_numpy(scale).float(), torch.from_numpy(shift).float()
        if name == "squared":
            return ((output - (target - t_shift) / t_scale) ** 2).mean(dim=(1, 2))
        z = output * t_scale + t_shift
        if name == "logistic":
            return (torch.nn.functional.softplus(z) - target * z).mean(dim=(1, 2))
        if name == "softmax":
            return (torch.logsumexp(z, dim=2) * target.sum(dim=2) - (target * z).sum(dim=2)).mean(dim=1)
        return ((z.clamp(max=30).exp() - target * z) / t_shift.exp()).mean(dim=(1, 2))

    return loss


def spectral_loss(
    weight: NDArray[np.float64],
    gamma: float,
    head: NDArray[np.float64] | None = None,
    extra: Sequence[tuple[float, NDArray[np.float64]]] = (),
) -> Callable[[Any, Any, Any], Any]:
    """Return SCATE's loss: ``sum_j weight_j (g_j - psi_j)^2 + gamma * sum of squared off-diagonal entries of the Gram matrix of g``.

    Parameters
    ----------
    weight : (P,) array
        Squared eigenvalues, divided by the largest.
    gamma : float
    head : (P, k) array, optional
        Maps directions to predictions, for ``extra``.
    extra : sequence of (factor, (n, k) array)
        Adds ``factor * mean (g @ head - target)^2``: teacher margins, labels (both standardised).
    """

    def loss(output: Any, target: Any, rows: Any) -> Any:
        import torch

        w = torch.from_numpy(weight).float()
        value = (w * (output - target) ** 2).sum(dim=2).mean(dim=1)
        if gamma:
            gram = output.transpose(1, 2) @ output / output.shape[1]
            off = gram - torch.diag_embed(torch.diagonal(gram, dim1=1, dim2=2))
            value = value + gamma * (off**2).sum(dim=(1, 2))
        if head is not None:
            prediction = output @ torch.from_numpy(head).float()
            for factor, wanted in extra:
                value = value + factor * ((prediction - torch.from_numpy(wanted).float()[rows]) ** 2).mean(dim=(1, 2))
        return value

    return loss


# ---- parts


@contextmanager
def _one_thread(torch: Any) -> Iterator[None]:
    """One thread: small products are not faster on more, and sums come out the same everywhere."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def _start(torch: Any, shape: Sequence[int], count: int, generator: Any) -> tuple[list[Any], list[Any]]:
    weights, biases = [], []
    for n_in, n_out in pairwise(shape):
        bound = 1 / np.sqrt(max(1, n_in))
        weights.append(((torch.rand(count, n_in, n_out, generator=generator) * 2 - 1) * bound).requires_grad_())
        biases.append(((torch.rand(count, 1, n_out, generator=generator) * 2 - 1) * bound).requires_grad_())
    return weights, biases


def _batches(torch: Any, n: int, recipe: Recipe, generator: Any, row_weight: NDArray[np.float64] | None) -> Iterator[Any]:
    """Yield the rows of each step: epochs without replacement, or draws in proportion to weights."""
    batch = min(recipe.batch, n)
    if row_weight is not None:
        p = torch.from_numpy(row_weight / row_weight.sum())
        for _ in range(recipe.steps):
            yield torch.multinomial(p, batch, replacement=True, generator=generator)
        return
    done = 0
    while done < recipe.steps:
        order = torch.randperm(n, generator=generator)
        for start in range(0, n - batch + 1, batch):
            yield order[start : start + batch]
            done += 1
            if done == recipe.steps:
                return


def _schedule(step: int, steps: int) -> float:
    warm = max(1, steps // 20)
    return step / warm if step <= warm else 0.5 * (1 + np.cos(np.pi * (step - warm) / max(1, steps - warm)))


def _is_check(step: int, recipe: Recipe) -> bool:
    gap = max(1, recipe.steps // (2 * recipe.checks))
    return step > recipe.steps // 2 and (recipe.steps - step) % gap == 0
