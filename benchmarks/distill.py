"""Students against the SCATE paper: base score, student score, and the published row, on the paper's base models.

The paper's splits and preprocessing are not published, so what is compared is the student's score minus its base's:

    python benchmarks/distill.py --dataset california concrete breast_cancer abalone --budget 10KB --ensemble rf gbm
"""

from __future__ import annotations

import argparse
import csv
import resource
import time
from pathlib import Path

import numpy as np
from datasets import Dataset, load
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.metrics import accuracy_score, r2_score
from sklearn.model_selection import train_test_split
from table import publish
from xgboost import XGBRegressor

import treespec

PUBLISHED = Path(__file__).resolve().parents[2] / "shared" / "reference" / "scate_tables.csv"


def base_model(ensemble: str, task: str, seed: int) -> object:
    """Return the paper's base model: a forest of 250 trees of depth 15, or 100 boosted trees of depth 6 on squared loss."""
    if ensemble == "gbm":
        return XGBRegressor(n_estimators=100, max_depth=6, base_score=0.0, random_state=seed)
    forest = RandomForestClassifier if task == "binary" else RandomForestRegressor
    return forest(250, max_depth=15, random_state=seed, n_jobs=2)


def score(data: Dataset, y: np.ndarray, prediction: np.ndarray) -> float:
    """Return R2, or accuracy (a regressor on 0/1 labels predicts class 1 above 0.5, as in the paper)."""
    if data.task == "regression":
        return float(r2_score(y, prediction))
    return float(accuracy_score(y, prediction > 0.5))


def run(data: Dataset, ensemble: str, seed: int, options: argparse.Namespace, compressor: str) -> tuple[float, float, float, str, int]:
    """Return base score, student score, seconds of wrapping and distilling, what was chosen and the student's bytes."""
    X, X_test, y, y_test = train_test_split(data.X, data.y, test_size=0.2, random_state=seed)
    model = base_model(ensemble, data.task, seed).fit(X, y)
    start = time.perf_counter()
    wrapped = treespec.wrap(model) if options.without_data else treespec.wrap(model, X, y)
    student = wrapped.distill(options.budget, compressor=compressor, random_state=seed)
    seconds = time.perf_counter() - start
    return (
        score(data, y_test, wrapped.predict(X_test)),
        score(data, y_test, student.predict(X_test)),
        seconds,
        student.report.chosen,
        student.n_bytes,
    )


def published(ensemble: str, dataset: str, budget: str) -> tuple[float, float] | None:
    """Return SCATE's published score minus its base score, and its standard error."""
    if not PUBLISHED.exists():
        return None
    with PUBLISHED.open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            if [row[c] for c in ("ensemble", "dataset", "budget", "method")] == [ensemble, dataset, budget, "SCATE"]:
                return float(row["score"]) - float(row["base_score"]), float(row["standard_error"])
    return None


def main() -> None:
    """Run the grid and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dataset", nargs="+", default=["california", "concrete", "breast_cancer", "abalone"])
    parser.add_argument("--ensemble", nargs="+", default=["rf", "gbm"], choices=["rf", "gbm"])
    parser.add_argument("--compressor", nargs="+", default=["auto", "scate"])
    parser.add_argument("--budget", default="10KB")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--without-data", action="store_true", help="distil on rows drawn from the forest itself")
    parser.add_argument("--name", help="write the table to docs/results/NAME.md")
    options = parser.parse_args()

    rows = []
    for name in options.dataset:
        data = load(name)
        if data is None:
            print(f"skipped {name}: its file is not on this machine")
            continue
        for ensemble in options.ensemble:
            for compressor in options.compressor:
                runs = [run(data, ensemble, seed, options, compressor) for seed in range(options.seeds)]
                base, student, seconds = (np.array([r[k] for r in runs]) for k in range(3))
                gain, own = (student - base).mean(), (student - base).std(ddof=1) / np.sqrt(len(runs)) if len(runs) > 1 else 0.0
                reference = published(ensemble, name, options.budget)
                verdict, shown = "", "not here"
                if reference is not None:
                    combined = np.hypot(reference[1], own)
                    verdict = "yes" if gain >= reference[0] - combined else "no"
                    shown = f"{reference[0]:+.3f} +- {reference[1]:.3f}"
                chosen = "/".join(sorted({r[3] for r in runs}))
                rows.append([
                    name, ensemble, compressor, chosen, max(r[4] for r in runs), f"{base.mean():.3f}", f"{student.mean():.3f}",
                    f"{gain:+.3f} +- {own:.3f}", shown, verdict, f"{seconds.mean():.1f}",
                ])  # fmt: skip
                print(*rows[-1], flush=True)
    columns = ["data", "base", "compressor", "chosen", "bytes", "base score", "student", "student - base"]
    columns += ["SCATE - base (paper)", "reached", "seconds"]
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    notes = (
        f"R2 for regression, accuracy for classes, on 20 percent of the rows that neither model was fitted on; {options.seeds} seeds, "
        "mean and standard error. *reached*: student minus base is at least the published SCATE minus its base, within one combined "
        f"standard error. *seconds*: wrapping and distilling. Peak memory, the base models' training included: {peak:.1f} GB."
    )
    print()
    publish(options.name or "distill", f"Students at {options.budget}", columns, rows, notes, write=options.name is not None)


if __name__ == "__main__":
    main()
