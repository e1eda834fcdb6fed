"""How far apart the candidates of a race ended."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from treespec.plots.axes import axes_or_new


def plot_race(name: Sequence[str], loss: Sequence[float], *, chosen: int, ax: Any = None) -> Any:
    """Draw the validation loss of each candidate as a bar, the best on top, the chosen one marked; return the axes.

    Parameters
    ----------
    name, loss : sequences of equal length
    chosen : int
        Place of the one that was taken, -1 for none of them.
    ax : matplotlib axes, optional
    """
    ax = axes_or_new(ax)
    order = sorted(range(len(loss)), key=lambda k: -loss[k])
    colors = ["#c1440e" if k == chosen else "#1f5fa8" for k in order]
    ax.barh([f"{name[k]} (chosen)" if k == chosen else name[k] for k in order], [loss[k] for k in order], color=colors)
    ax.tick_params(axis="y", labelsize=7)
    ax.set_xlabel("validation loss")
    return ax
