"""The KPP dashboard: every observable of Tables 3 to 6 for one model, with the reading guide evaluated."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from treespec.errors import DataMismatchError, MissingDependencyError
from treespec.kpp import robustness
from treespec.kpp.capacity import Capacity, capacity
from treespec.kpp.observables import Observable, Reader, partitions
from treespec.kpp.ridge import Centred
from treespec.kpp.stability import Stability, half_forests

if TYPE_CHECKING:
    from treespec.kpp.model import KPP

_WIDTH = 62


@dataclass(frozen=True, eq=False)
class Dashboard:
    """What to know about a KPP fit, figure by figure.

    Attributes
    ----------
    rows : tuple of Observable
    title : str
        The model.
    regime : str
        The proof boundary and what it means for every figure that needs labels.
    capacity : Capacity
    stability : Stability
        The curve of Delta_K.
    curve : Curve or None
        Robust accuracy, or the bound on the robust squared error, against the radius; None with an anchor, which the path metric does not
        limit.
    """

    rows: tuple[Observable, ...]
    title: str
    regime: str
    capacity: Capacity = field(repr=False)
    stability: Stability = field(repr=False)
    curve: robustness.Curve | None = field(repr=False)

    def __getitem__(self, name: str) -> float | None:
        """Return the value of an observable by name."""
        for row in self.rows:
            if row.name == name:
                return row.value
        raise KeyError(name)

    @property
    def flags(self) -> tuple[Observable, ...]:
        """The observables whose symptom is there, with the action to take."""
        return tuple(row for row in self.rows if row.flag)

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain data: title, regime and a list of rows."""
        return {"title": self.title, "regime": self.regime, "rows": [asdict(row) for row in self.rows]}

    def to_frame(self) -> Any:
        """Return a pandas frame, one row an observable.

        Raises
        ------
        MissingDependencyError
            If pandas is not installed.
        """
        try:
            import pandas as pd
        except ImportError:
            raise MissingDependencyError.of("pandas", "test", "to_frame()") from None
        return pd.DataFrame([asdict(row) for row in self.rows]).set_index("name")

    def __str__(self) -> str:
        """Return a table for the terminal; ``!`` marks symptoms, which are listed with their actions below."""
        lines = [self.title, f"regime: {self.regime}", ""]
        family = ""
        for row in self.rows:
            if row.family != family:
                family = row.family
                lines.append(family)
            value = "-" if row.value is None else f"{row.value:.5g}"
            lines.append(f" {'!' if row.flag else ' '} {row.name:<24}{value:>12}  {row.note or row.status}"[: _WIDTH * 2].rstrip())
        if self.flags:
            lines += ["", "reading guide"]
            lines += [f" ! {row.name}: {row.symptom}. {row.action[0].upper()}{row.action[1:]}." for row in self.flags]
        return "\n".join(lines)


def dashboard(model: KPP, X: Any = None, y: Any = None, *, delta: float = 0.05) -> Dashboard:
    """Measure a fit.

    Parameters
    ----------
    model : KPP
    X, y : optional
        Held-out rows for errors, margins and certificates, as in Table 6; by default the rows of the fit, and the figures say so.
    delta : float
        Of the uniform bound.

    Notes
    -----
    All eigenvalues of the Gram matrix up to 3,000 rows, a Lanczos run for each point of the Delta_K curve, the rest O(n * n_trees). Of
    several ensembles, Delta_K is that of the first.
    """
    if (X is None) != (y is None):
        raise DataMismatchError.expected("X and y together", "one of them", "pass both, or neither for the rows of the fit")
    held_out = X is not None
    if held_out:
        targets, score = robustness.targets_of(model, X, y), model.scores(X)
    else:
        targets, score = model.targets, model.fitted_scores()
    read = Reader(model, held_out=held_out)
    size = capacity(model.features, model.alpha_)
    path_map = model.representation.maps[0]
    stable = half_forests(path_map.forest, path_map.node_weight, model.representation.leaf_ids_of(model.features)[0])
    curve = None if model.anchor is not None else robustness.curve_of(model, score, targets)
    n = model.features.shape[0]
    typical = 2 * Centred(model.features, np.zeros((n, 1))).trace() / n
    rows = [*read.fit(score, targets), *read.capacity(size), *read.stability(stable), *read.partition(partitions(model))]
    if targets.kind == "classes":
        rows += read.margins(robustness.margins(model, score, targets)[0])
    rows += [*read.bounds(delta), *read.robustness(curve, typical)]
    regime = f"{model.regime.name} ({model.regime.anchor}): {model.regime.status}"
    return Dashboard(tuple(rows), repr(model), regime, size, stable, curve)
