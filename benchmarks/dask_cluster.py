"""Kernel spectrum of rows on a local Dask cluster of two processes: beside memory, with a worker killed, and what the client holds.

python benchmarks/dask_cluster.py --write
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import signal
import subprocess
import sys
import threading
import time

import numpy as np

COLUMNS = 30


def data(n_rows: int):
    """Return Dask rows and labels that are the same in every process."""
    import dask.array as da

    X = da.random.RandomState(0).normal(size=(n_rows, COLUMNS), chunks=(n_rows // 16, COLUMNS))
    return X, 3 * da.sin(X[:, 0]) + X[:, 1] * X[:, 2] + X[:, 3:8].sum(axis=1)


def model():
    """Return a forest that is the same in every process."""
    from sklearn.ensemble import RandomForestRegressor

    X, y = (a.compute(scheduler="synchronous") for a in data(20_000))
    return RandomForestRegressor(30, max_leaf_nodes=200, max_features=8, random_state=0).fit(X, y)


def megabytes() -> float:
    """Return the peak resident memory of this process so far, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def on_cluster(n_rows: int, rank: int) -> dict[str, object]:
    """Wrap, decompose, fit KPP, and decompose again while a worker is killed."""
    from dask.distributed import Client, LocalCluster

    import treespec

    forest = model()
    X, y = data(n_rows)
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster, Client(cluster) as client:
        before = megabytes()
        start = time.perf_counter()
        wrapped = treespec.wrap(forest, X, y)
        routed = time.perf_counter() - start
        start = time.perf_counter()
        found = wrapped.spectrum(rank)
        seconds = time.perf_counter() - start
        fitted = wrapped.smoother("leaf").cross(np.zeros((1, COLUMNS))).matvec(y)
        kpp = wrapped.kpp(alpha=1.0)
        peak = megabytes()
        victim = next(iter(client.run(os.getpid).values()))
        threading.Timer(seconds / 3, os.kill, (victim, signal.SIGKILL)).start()
        start = time.perf_counter()
        again = wrapped.spectrum(rank)
        survived = time.perf_counter() - start
        return {
            "before": before, "peak": peak, "routed": routed, "seconds": seconds, "survived": survived,
            "same": bool(np.array_equal(again.values, found.values)), "values": found.values.tolist(), "fitted": fitted.tolist(),
            "coef": kpp.coef_[:50].tolist(), "leaves": wrapped.forest.n_leaves, "residual": found.residual,
        }  # fmt: skip


def in_memory(n_rows: int, rank: int) -> dict[str, object]:
    """Return the same from rows in memory."""
    import treespec

    forest = model()
    X, y = (a.compute(scheduler="synchronous") for a in data(n_rows))
    before = megabytes()
    start = time.perf_counter()
    wrapped = treespec.wrap(forest, X, y)
    routed = time.perf_counter() - start
    start = time.perf_counter()
    found = wrapped.spectrum(rank)
    seconds = time.perf_counter() - start
    fitted = wrapped.smoother("leaf").cross(np.zeros((1, COLUMNS))).matvec(y)
    return {
        "before": before, "peak": megabytes(), "routed": routed, "seconds": seconds, "values": found.values.tolist(),
        "fitted": fitted.tolist(), "coef": wrapped.kpp(alpha=1.0).coef_[:50].tolist(),
    }  # fmt: skip


def main() -> None:
    """Run both ways in processes of their own and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=320_000)
    parser.add_argument("--rank", type=int, default=20)
    parser.add_argument("--write", action="store_true", help="write the table to docs/results")
    parser.add_argument("--measure", choices=["cluster", "memory"], help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        print(json.dumps((on_cluster if options.measure == "cluster" else in_memory)(options.rows, options.rank)))
        return
    from table import publish

    found = {}
    for way in ("memory", "cluster"):
        command = [sys.executable, __file__, "--rows", str(options.rows), "--rank", str(options.rank), "--measure", way]
        found[way] = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()[-1])
    here, there = found["memory"], found["cluster"]
    again = f"{there['survived']:.1f}, {'same bits' if there['same'] else 'other values'}"
    rows = [
        [name, f"{f['before']:.0f}", f"{f['peak']:.0f}", f"{f['routed']:.1f}", f"{f['seconds']:.1f}", survived]
        for name, f, survived in (("memory", here, ""), ("two workers", there, again))
    ]
    difference = {
        key: float(np.abs(np.subtract(here[key], there[key])).max() / np.abs(here[key]).max()) for key in ("values", "fitted", "coef")
    }
    notes = (
        f"{options.rows:,} x {COLUMNS} rows in 16 blocks, random forest of 30 trees ({there['leaves']:,} leaves), kernel spectrum of rank "
        f"{options.rank}. *Client*: resident memory of the process that calls treespec, before `wrap` (fitting included) and at its peak "
        "(spectrum, a prediction, KPP ridge); the rows in memory take "
        f"{options.rows * COLUMNS * 8 / 1e6:.0f} MB. *Worker killed*: the spectrum again, one of the two workers killed in the middle. "
        f"Largest relative differences between the two ways: eigenvalues {difference['values']:.0e}, a prediction of the smoother "
        f"{difference['fitted']:.0e}, coefficients of KPP ridge {difference['coef']:.0e}. Both workers and the client share two cores with "
        "other work, so that seconds are upper bounds."
    )
    columns = ["rows in", "client MB before", "client peak MB", "route s", "spectrum s", "worker killed s"]
    publish("dask_cluster", "Kernel spectrum on a Dask cluster of two processes", columns, rows, notes, write=options.write)


if __name__ == "__main__":
    main()
