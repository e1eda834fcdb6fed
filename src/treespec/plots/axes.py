"""The axes that a picture is drawn on."""

from __future__ import annotations

from typing import Any

from treespec.errors import MissingDependencyError


def axes_or_new(ax: Any = None) -> Any:
    """Return ``ax``, or the axes of a new figure.

    Raises
    ------
    MissingDependencyError
        If matplotlib is not installed.
    """
    if ax is not None:
        return ax
    try:
        from matplotlib import pyplot as plt
    except ImportError:
        raise MissingDependencyError.of("matplotlib", "plot", "A picture") from None
    return plt.subplots(layout="constrained")[1]
