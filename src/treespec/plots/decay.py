"""How fast a spectrum decays, on two logarithmic axes, with the power law that fits it."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from treespec.plots.axes import axes_or_new


def plot_decay(
    values: NDArray[np.float64], *, slope: float, constant: float, r2: float, n_fitted: int, name: str = "value", ax: Any = None
) -> Any:
    """Draw values against their rank, and the line ``constant * rank ** slope`` over the first ``n_fitted``; return the axes.

    Parameters
    ----------
    values : (P,) array
        Descending; what is not positive is left out.
    slope, constant, r2, n_fitted
        The fitted power law.
    name : str
        What the values are, for the vertical axis.
    ax : matplotlib axes, optional
    """
    ax = axes_or_new(ax)
    rank = np.arange(1, len(values) + 1)
    shown = values > 0
    ax.loglog(rank[shown], values[shown], marker="o", markersize=3.5, linewidth=0, color="#1f5fa8", label=f"{len(values)} leading {name}s")
    fitted = rank[:n_fitted].astype(float)
    label = f"rank^({slope:.2f}), R² {r2:.3f} over the first {n_fitted}"
    ax.loglog(fitted, constant * fitted**slope, color="#c1440e", linewidth=1.5, label=label)
    ax.set_xlabel("rank")
    ax.set_ylabel(name)
    ax.grid(visible=True, which="both", linewidth=0.4, alpha=0.5)
    ax.legend(frameon=False)
    return ax
