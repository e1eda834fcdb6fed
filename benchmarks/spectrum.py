"""Spectra of forest kernels and boosting smoothers: against the dense way, and the same fitted forest on more and more rows.

    python benchmarks/spectrum.py --dense            # n = 5,000: build the n-by-n matrix, then numpy.linalg
    python benchmarks/spectrum.py --growth           # n = 1e4, 1e5, 1e6

Every measurement of growth runs in a process of its own, whose peak memory is that of the whole process, the rows included.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time

import numpy as np
import pandas as pd
from datasets import FOLDER
from scipy.sparse import csr_array
from sklearn.ensemble import GradientBoostingRegressor, RandomForestClassifier, RandomForestRegressor
from table import publish

import treespec
from treespec.operators import BoostingSmoother
from treespec.operators.merged import LeafGram, MergedKernel

RANK, TREES, FITTED = 50, 100, 20_000
SETS = ("flights_delay", "covertype_part")
SIZES = (10_000, 100_000, 1_000_000)


def table(name):
    """Return X and y of a data set, categories as codes, rows shuffled."""
    frame = pd.read_parquet(FOLDER / f"{name}.parquet").dropna()
    y = pd.factorize(frame.pop(frame.columns[-1]), sort=True)[0]
    X = frame.apply(lambda c: c if c.dtype.kind in "fiub" else c.astype("category").cat.codes).to_numpy(float)
    order = np.random.default_rng(0).permutation(len(X))
    return X[order], y[order]


def forest(X, y):
    return RandomForestClassifier(TREES, max_depth=15, random_state=0).fit(X[:FITTED], y[:FITTED])


def resampled(X, n):
    """Return n rows: the first, or drawn again and moved by a hundredth of a standard deviation, so that few are equal."""
    if n <= len(X):
        return X[:n]
    rng = np.random.default_rng(1)
    drawn = X[rng.integers(len(X), size=n)]
    return drawn + 0.01 * X.std(axis=0) * rng.standard_normal(drawn.shape)


def load():
    """Say how busy the machine was, as other work makes times longer."""
    return f"Load of the machine in the last 15 minutes: {os.getloadavg()[2]:.0f} on {os.cpu_count()} cores."


# ---- against the dense way


def timed(function):
    start = time.perf_counter()
    found = function()
    return time.perf_counter() - start, found


def dense_kernel(w):
    Z = w.smoother("leaf").left.to_sparse()
    count = np.asarray(Z.sum(axis=0)).ravel()
    scaled = Z / np.sqrt(TREES * np.where(count > 0, count, 1.0))
    return np.linalg.eigh((scaled @ scaled.T).toarray())[0][::-1][:RANK]


def dense_smoother(S):
    """The recursion of the SCATE paper, tree by tree on the n-by-n matrix."""
    n = S.shape[0]
    rest = np.eye(n)  # I - S
    for t in range(S.Z.n_trees):
        _, width, local = S.Z.tree(t)
        one_hot = csr_array((np.ones(n), (local.astype(int), np.arange(n))), shape=(width, n))
        rest -= (float(S._eta[t]) * (one_hot @ rest) / np.maximum(np.bincount(local, minlength=width), 1)[:, None])[local]
    return np.linalg.svd(np.eye(n) - rest)[1][:RANK]


def against_dense(n, write):
    rows = []
    X, y = table("covertype_part")
    X, y = X[:n], y[:n]
    cases = {
        "kernel": RandomForestRegressor(TREES, random_state=0).fit(X, y),
        "boosting smoother": GradientBoostingRegressor(n_estimators=TREES, max_depth=4, random_state=0).fit(X, y),
    }
    for name, model in cases.items():
        w = treespec.wrap(model, X, y)
        S = w.smoother()
        seconds, found = timed(lambda w=w: w.spectrum(RANK))
        dense, expected = timed(lambda w=w, S=S: dense_smoother(S) if isinstance(S, BoostingSmoother) else dense_kernel(w))
        error = np.abs(found.values / expected - 1).max()
        rows.append([name, n, f"{seconds:.2f}", f"{dense:.1f}", f"{dense / seconds:.0f}", f"{error:.1e}", f"{found.residual:.1e}"])
        print(*rows[-1], flush=True)
    columns = ["operator", "rows", "treespec s", "dense s", "times faster", "largest relative difference of values", "residual"]
    notes = (
        f"`covertype_part`, {TREES} trees (random forest grown to the end; boosting of depth 4), rank {RANK}. Dense: the n-by-n matrix, "
        "from sparse products or tree by tree, then numpy.linalg.eigh or svd, vectors included, as treespec gives them. One run, on the "
        f"same number of threads ({os.environ.get('OMP_NUM_THREADS', 'default')}). {load()}"
    )
    publish("spectrum_dense", "Spectra against dense matrices", columns, rows, notes, write=write)


# ---- growth


def bandwidth():
    """Return bytes a second of a plain copy of 512 MB, read and written, the best of five."""
    source = np.ones(1 << 26)
    target = np.empty_like(source)
    return 2 * source.nbytes / min(timed(lambda: np.copyto(target, source))[0] for _ in range(5))


def measure(name, n):
    """Return what one process finds for n rows."""
    X, y = table(name)
    model = forest(X, y)
    X = resampled(X, n)
    w = treespec.wrap(model, X)
    routing, _ = timed(lambda: w.rows)
    seconds, s = timed(lambda: w.spectrum(RANK))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    speed = bandwidth()  # after the peak was read
    K = s.smoother
    over_leaves = 2 * np.count_nonzero(K.scale) < n
    operator = LeafGram(K) if over_leaves else MergedKernel(K)
    k = 8 if operator.shape[0] >= 1 << 15 else 4
    V = np.random.default_rng(0).standard_normal((operator.shape[0], k))
    product = min(timed(lambda: operator.matmat(V))[0] for _ in range(3))
    entries = sum(len(block.indices) for _, block in operator._Z._blocks)
    # read once: ids and ones for the gather and again for the scatter, block by block; V and the result; the rows in between
    moved = 2 * entries * 12 + 8 * k * (2 * operator.shape[0] + (0 if over_leaves else 4 * operator._Z.shape[1]))
    return {
        "n": n, "routing": routing, "seconds": seconds, "peak": peak, "residual": s.residual, "columns": k, "product": product,
        "floor": moved / speed, "speed": speed, "where": "leaves" if over_leaves else "rows", "size": operator.shape[0],
        "value": float(s.values[-1]), "entries": entries,
    }  # fmt: skip


def growth(name, write):
    rows, notes, found = [], [], []
    for n in SIZES:
        command = [sys.executable, __file__, "--measure", name, str(n)]
        out = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        found.append(json.loads(out.splitlines()[-1]))
        f = found[-1]
        rows.append(
            [
                name, f"{n:,}", f"{f['routing']:.1f}", f"{f['seconds']:.1f}", f"{f['peak'] / 1e9:.2f}", f"{f['residual']:.0e}",
                f"{f['where']}, {f['size']:,}", f"{1e3 * f['product'] / f['columns']:.1f}", f"{f['floor'] / f['product']:.0%}",
            ]
        )  # fmt: skip
        print(*rows[-1], sep=" | ", flush=True)
    slope = np.polyfit(np.log([f["n"] for f in found]), np.log([f["seconds"] for f in found]), 1)[0]
    both = np.polyfit(np.log([f["n"] for f in found]), np.log([f["seconds"] + f["routing"] for f in found]), 1)[0]
    notes.append(f"`{name}`: growth exponent of the spectrum {slope:.2f}, with routing {both:.2f}.")
    print(notes[-1], flush=True)
    columns = ["data", "rows", "routing s", "spectrum s", "peak GB", "residual", "eigenproblem over", "ms a column", "share of bandwidth"]
    notes.append(
        f"Rank {RANK} of the forest kernel of {TREES} trees of depth 15, fitted once on {FITTED:,} rows (classes). Rows beyond those of "
        "the data are drawn again and moved by a hundredth of a standard deviation. *peak*: resident memory of the process. *share of "
        "bandwidth*: the time that the bytes of one product (leaf ids, entries and vectors, each once) would take at the speed of a plain "
        "copy in the same process, over the time that it takes. The rest goes to the additions themselves: one for each row, tree and "
        "column, to an address that the leaf id says. A spectrum is some 350 products and the reorthogonalisation. "
        f"{load()}"
    )
    publish(f"spectrum_{name}", f"Kernel spectra of up to a million rows: {name}", columns, rows, "\n".join(notes), write=write)


def main() -> None:
    """Run what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dense", action="store_true", help="against the dense way")
    parser.add_argument("--growth", action="store_true", help="time and memory over rows")
    parser.add_argument("--rows", type=int, default=5000, help="of --dense")
    parser.add_argument("--data", nargs="+", default=SETS, help="of --growth")
    parser.add_argument("--measure", nargs=2, metavar=("NAME", "N"), help=argparse.SUPPRESS)
    parser.add_argument("--write", action="store_true", help="write the tables to docs/results")
    options = parser.parse_args()
    if options.measure:
        print(json.dumps(measure(options.measure[0], int(options.measure[1]))))
        return
    if options.dense or not options.growth:
        against_dense(options.rows, options.write)
    if options.growth or not options.dense:
        for name in options.data:
            growth(name, options.write)


if __name__ == "__main__":
    main()
