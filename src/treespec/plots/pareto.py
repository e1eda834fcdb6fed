"""What students score against the bytes that they take."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from treespec.plots.axes import axes_or_new


def plot_pareto(
    n_bytes: Sequence[int], value: Sequence[float | None], label: Sequence[str], *, own: float | None = None, metric: str, ax: Any = None
) -> Any:
    """Draw one point a student, named by its compressor, and the model's own score as a dashed line; return the axes.

    Parameters
    ----------
    n_bytes, value, label : sequences of equal length
    own : float, optional
        Score of the model itself.
    metric : str
        What the values are, for the vertical axis.
    ax : matplotlib axes, optional
    """
    ax = axes_or_new(ax)
    ax.semilogx(n_bytes, value, marker="o", color="#1f5fa8", linewidth=1.5, label="student")
    for k, (x, y, name) in enumerate(zip(n_bytes, value, label, strict=True)):
        ax.annotate(name, (x, y), textcoords="offset points", xytext=(0, 8 if k % 2 == 0 else -14), ha="center", fontsize=8)
    if own is not None:
        ax.axhline(own, color="#c1440e", linestyle="--", linewidth=1.2, label="the model itself")
    ax.margins(x=0.12, y=0.2)
    ax.set_xlabel("bytes")
    ax.set_ylabel(metric)
    ax.grid(visible=True, alpha=0.3)
    ax.legend(loc="lower right", fontsize=8)
    return ax
