"""The observables of the KPP dashboard (Tables 3 to 6), measured on one fit, each with what it warns about and what it may claim."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from treespec.errors import UnsupportedModelError
from treespec.kpp.bounds import bounds
from treespec.kpp.partition import Partition
from treespec.kpp.penalty_path import error_of

if TYPE_CHECKING:
    from treespec.kpp.capacity import Capacity
    from treespec.kpp.model import KPP
    from treespec.kpp.robustness import Curve
    from treespec.kpp.stability import Stability
    from treespec.kpp.targets import Targets

Array = NDArray[np.float64]

LARGE_TRACE = 0.5
LARGE_DIMENSION = 0.5
LARGE_CONDITION = 1e8
STILL_FALLING = 0.15
WEAK_GAIN = 0.1
NEAR_ZERO = 0.1
MANY_NEAR_ZERO = 0.2
SHORT_RADIUS = 0.01
"""Where the reading guide raises its flag. The paper leaves "large" and "small" to the data: these are defaults to look twice at."""

GEOMETRY = "deterministic, given the trees and weights"
CERTIFICATE = "certificate in the path metric, not in raw inputs"


@dataclass(frozen=True)
class Observable:
    """One figure of the dashboard.

    Attributes
    ----------
    name : str
    value : float or None
        None where it was not computed; ``note`` says why.
    family : {"fit", "capacity", "conditioning", "stability", "partition", "margins", "bounds", "robustness"}
    regime : str
        "fixed", "honest" or "cross-fit".
    status : str
        What the figure may claim.
    flag : bool or None
        Whether the reading guide raises its symptom; None where it has none.
    symptom, action : str
        Of the reading guide (Table 3), filled where the flag is raised.
    note : str
    standard_error : float or None
        Of a figure that is estimated from random vectors; None where it is computed.
    """

    name: str
    value: float | None
    family: str
    regime: str
    status: str
    flag: bool | None = None
    symptom: str = ""
    action: str = ""
    note: str = ""
    standard_error: float | None = None


class Reader:
    """Makes observables of one model.

    Parameters
    ----------
    model : KPP
    held_out : bool
        Whether predictions are judged on rows other than those of the fit.
    """

    def __init__(self, model: KPP, *, held_out: bool) -> None:
        self.model, self.held_out = model, held_out
        self.regime = model.regime.name

    def _row(self, name: str, value: float | None, family: str, status: str, note: str = "") -> Observable:
        return Observable(name, None if value is None else float(value), family, self.regime, status, note=note)

    def _read(
        self,
        name: str,
        value: float | None,
        family: str,
        status: str,
        *,
        guide: tuple[bool | None, str, str],
        note: str = "",
        standard_error: float | None = None,
    ) -> Observable:
        flag, symptom, action = guide
        raised = (symptom, action) if flag else ("", "")
        number, raised_flag = None if value is None else float(value), flag if flag is None else bool(flag)
        return Observable(name, number, family, self.regime, status, raised_flag, *raised, note, standard_error)

    # ---- families

    def fit(self, score: Array, targets: Targets) -> Iterator[Observable]:
        """RMSE, MAE and R2; or error, balanced accuracy, AUC, log-loss and Brier score."""
        status = "on the rows given" if self.held_out else "on the rows of the fit: optimistic"
        yield self._row("alpha", self.model.alpha_, "fit", "chosen: " + str(self.model.info.get("alpha", {}).get("method", "given")))
        if targets.kind == "values":
            r = targets.value - score
            spread = float(((targets.value - targets.value.mean(axis=0)) ** 2).sum())
            yield self._row("RMSE", np.sqrt((r**2).mean()), "fit", status)
            yield self._row("MAE", np.abs(r).mean(), "fit", status)
            yield self._row("R2", 1 - float((r**2).sum()) / spread if spread > 0 else None, "fit", status)
            return
        yield self._row("error rate", error_of("error", 0.5, score, targets).mean(), "fit", status)
        yield self._row("balanced accuracy", _balanced_accuracy(self.model, score, targets), "fit", status)
        if targets.binary and len(np.unique(targets.code)) > 1:
            from sklearn.metrics import roc_auc_score

            yield self._row("AUC", roc_auc_score(targets.code[:, 0], score[:, 0]), "fit", status)
        if self.model.learner == "logistic":
            yield self._row("log-loss", error_of("log-loss", 0.5, score, targets).mean(), "fit", status)
            if targets.binary:
                p = 1 / (1 + np.exp(-np.clip(score[:, 0], -700, 700)))
                yield self._row("Brier score", ((p - targets.code[:, 0]) ** 2).mean(), "fit", status)

    def capacity(self, c: Capacity) -> Iterator[Observable]:
        """Trace, effective dimension and conditioning."""
        yield self._read(
            "Tr(G)/n", c.trace / c.n, "capacity", GEOMETRY,
            guide=(c.trace / c.n > LARGE_TRACE, "large raw capacity", "reduce depth, clip node weights"),
        )  # fmt: skip
        if self.model.targets.kind == "values":
            share = c.effective_dimension / c.n
            error = c.effective_dimension_error / c.n
            yield self._read(
                "d_eff/n", share, "capacity", GEOMETRY if not error else "estimate: Hutchinson's, 64 random sign vectors",
                guide=(share > LARGE_DIMENSION, "many active ridge degrees of freedom", "increase alpha or simplify the forest"),
                note=f"+- {error:.2g} (standard error; {c.n} rows are too many for all eigenvalues)" if error else "",
                standard_error=error or None,
            )  # fmt: skip
        shifted = None if c.mu_min is None else c.mu_min + c.alpha
        yield self._read(
            "mu_min + alpha", shifted, "conditioning", GEOMETRY,
            guide=(
                None if shifted is None else (c.mu_max + c.alpha) / max(shifted, 1e-300) > LARGE_CONDITION,
                "poor conditioning", "increase alpha",
            ),
            note="not computed above 3,000 rows" if c.mu_min is None else "",
        )  # fmt: skip

    def stability(self, s: Stability) -> Iterator[Observable]:
        """Half-forest discrepancy."""
        if not len(s.delta):
            yield self._row("Delta_K", None, "stability", "diagnostic", "fewer than two trees with weight")
            return
        falling = s.last_decrease > STILL_FALLING
        yield self._read(
            "Delta_K", s.delta[-1], "stability", "diagnostic for when to stop adding trees, not a bound",
            guide=(falling, "geometry still unstable in K", "add trees if validation improves; otherwise stop"),
            note=f"K = {s.n_trees[-1]} trees a half; last doubling lowered it by {s.last_decrease:.0%}",
        )  # fmt: skip
        yield self._row("Delta_K / n", s.relative[-1], "stability", "diagnostic for when to stop adding trees, not a bound")

    def partition(self, parts: list[tuple[Partition, int]]) -> Iterator[Observable]:
        """IG_var or IG_h: means over the trees of all ensembles."""
        twice = self.model.regime.labels_used_twice
        status = "diagnostic: the same labels grew the trees" if twice else "estimate on rows that did not grow the trees"
        classes = self.model.targets.kind == "classes"
        n_trees = sum(k for _, k in parts)
        gain = sum(p.gain(p.entropy_decrease if classes else p.variance_decrease) * k for p, k in parts) / n_trees
        first = parts[0][0]
        root = first.root_level(first.entropy if classes else first.variance)
        name, unit = ("IG_h", "nats") if classes else ("IG_var", "units of y, squared")
        share = gain / root if root > 0 else 0.0
        yield self._read(
            name, gain, "partition", status,
            guide=(share < WEAK_GAIN, "weak partition gain", "revisit splits, depth or features"),
            note=f"{unit}; {share:.1%} of {root:.4g}",
        )  # fmt: skip

    def margins(self, margin: Array) -> Iterator[Observable]:
        """Signed margins, and how many are near zero."""
        m = margin.min(axis=1)
        status = "on the rows given" if self.held_out else "on the rows of the fit: optimistic"
        near = float((np.abs(m) <= NEAR_ZERO * np.abs(m).max(initial=0.0)).mean())
        for q in (0.05, 0.5, 0.95):
            yield self._row(f"margin, {q:.0%} quantile", np.quantile(m, q), "margins", status)
        yield self._read(
            "margins near zero", near, "margins", status,
            guide=(near > MANY_NEAR_ZERO, "weak separation", "increase alpha, tune the representation, inspect labels"),
            note=f"share with |m| up to {NEAR_ZERO:.0%} of the largest",
        )  # fmt: skip

    def bounds(self, delta: float) -> Iterator[Observable]:
        """Trace term, uniform bound and verdict (Table 5)."""
        try:
            b = bounds(self.model, delta)
        except UnsupportedModelError as error:
            yield self._row("uniform bound", None, "bounds", self.model.regime.status, str(error).split("\n", maxsplit=1)[0])
            return
        yield self._row("trace term", b.trace_term, "bounds", b.status, b.source)
        verdict = (
            f"trivial: above {b.null_risk:.4g}, the loss of a constant" if b.trivial else f"below {b.null_risk:.4g}, the loss of a constant"
        )
        yield self._row("uniform bound", b.uniform, "bounds", b.status, verdict)
        if b.error_bound is not None:
            yield self._row(
                "bound on the error rate", b.error_bound, "bounds", b.status, "eq. 64" + ("; above 1" if b.error_bound > 1 else "")
            )

    def robustness(self, c: Curve | None, typical: float) -> Iterator[Observable]:
        """Norm, u_max, u_half and the curve at a few radii (Table 6); the norm alone with an anchor."""
        if c is None:
            yield self._row("norm of w", self.model.norm, "robustness", "of the correction; the path metric does not limit the anchor")
            return
        where = CERTIFICATE + ("; rows given" if self.held_out else "; rows of the fit")
        share = c.u_half / typical if typical > 0 else np.inf
        yield self._read(
            "norm of w", self.model.norm, "robustness", CERTIFICATE,
            guide=(share < SHORT_RADIUS, "weak robustness", "increase alpha, simplify the representation"),
            note=f"u_half is {share:.2%} of the mean squared distance between rows",
        )  # fmt: skip
        name = "RobAcc" if c.kind == "accuracy" else "RobMSE"
        yield self._row("u_max", c.u_max, "robustness", where)
        yield self._row("u_half", c.u_half, "robustness", where)
        for label, u in (("0", 0.0), ("u_max/100", c.u_max / 100), ("u_max/10", c.u_max / 10), ("u_max", c.u_max)):
            yield self._row(f"{name}({label})", _at(c, u), "robustness", where)


def _at(c: Curve, u: float) -> float | None:
    """Return the curve at a radius of its own grid, which holds u_max / 100 and its multiples."""
    if not np.isfinite(u):
        return None
    return float(c.value[int(np.argmin(np.abs(c.u - u)))])


def _balanced_accuracy(model: KPP, score: Array, targets: Targets) -> float:
    """Mean over classes (and targets) of the share of a class that is predicted right."""
    predicted = np.asarray(model.decide(score)).reshape(len(score), -1)
    recalls = []
    for j, classes in enumerate(targets.classes):
        truth = np.asarray(classes)[targets.code[:, j]]
        recalls += [float((predicted[truth == c, j] == c).mean()) for c in np.unique(truth)]
    return float(np.mean(recalls))


def partitions(model: KPP) -> list[tuple[Partition, int]]:
    """Return the training rows summed over the nodes of each ensemble, and its number of trees."""
    r = model.representation
    ids = r.leaf_ids_of(model.features)
    return [(Partition.of(f, i, model.targets, model.sample_weight), f.n_trees) for f, i in zip(r.forests, ids, strict=True)]
