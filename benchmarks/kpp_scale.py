"""KPP ridge on many rows: seconds and peak memory of a fit on 300 trees.

    python benchmarks/kpp_scale.py --write

Each size runs in a process of its own, whose peak memory is read when it ends.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time

import numpy as np
from table import publish

TREES, LEAVES, FEATURES = 300, 31, 10
SIZES = (50_000, 100_000, 200_000)


def fit(n, penalty):
    """Fit LightGBM, then KPP on all rows; print what the second took."""
    import lightgbm

    import treespec

    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, FEATURES))
    y = np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + np.abs(X[:, 3]) + 0.5 * rng.normal(size=n)
    model = lightgbm.LGBMRegressor(n_estimators=TREES, num_leaves=LEAVES, n_jobs=1, verbose=-1).fit(X, y)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    start, wall = time.process_time(), time.perf_counter()
    k = treespec.wrap(model, X, y).kpp(alpha=penalty * n, weights="variance-decrease")
    spent, waited = time.process_time() - start, time.perf_counter() - wall
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    error = float(np.sqrt(np.mean((k.features.matvec(k.coef_) + k.intercept_ - y) ** 2)))
    print(json.dumps({"n": n, "cpu": spent, "wall": waited, "before": before, "peak": peak, "rmse": error, **k.info}))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=list(SIZES))
    parser.add_argument("--penalty", type=float, default=1e-3, help="alpha, times the number of rows: the smaller the more iterations")
    parser.add_argument("--one", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--write", action="store_true", help="write docs/results/kpp_scale.md")
    arguments = parser.parse_args()
    if arguments.one:
        fit(arguments.one, arguments.penalty)
        return
    rows, first = [], None
    for n in arguments.sizes:
        run = subprocess.run(
            [sys.executable, __file__, "--one", str(n), "--penalty", str(arguments.penalty)], check=True, capture_output=True, text=True
        )
        found = json.loads(run.stdout.splitlines()[-1])
        first = first or found
        each = found["cpu"] / found["iterations"] / n
        growth = each / (first["cpu"] / first["iterations"] / first["n"])
        rows.append((
            f"{n:,}", f"{found['cpu']:.1f}", f"{found['wall']:.1f}", found["iterations"], f"{found['residual']:.0e}",
            f"{1e6 * found['cpu'] / n:.1f}", f"{growth:.2f}", f"{found['before']:.2f}", f"{found['peak']:.2f}", f"{found['rmse']:.4f}",
        ))  # fmt: skip
        print(*rows[-1], flush=True)
    columns = (
        "rows", "CPU s", "wall s", "iterations", "residual", "CPU us a row", "CPU a row and iteration, relative", "GB before", "GB peak",
        "RMSE",
    )  # fmt: skip
    notes = (
        f"Ridge (conjugate gradients on the operator) on the paths of a LightGBM model of {TREES} trees with {LEAVES} leaves, alpha = "
        f"{arguments.penalty:g} n, {FEATURES} features. Seconds include wrapping, routing and node weights; *GB before* is the peak of the "
        "process when the booster was fitted, *GB peak* that at the end."
    )
    publish("kpp_scale", "KPP on many rows", columns, rows, notes, write=arguments.write)


if __name__ == "__main__":
    main()
