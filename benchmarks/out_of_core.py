"""Kernel spectrum of rows in Parquet that are never held together: time, and peak resident memory of a process of its own.

python benchmarks/out_of_core.py --write
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

COLUMNS = 50
GROUP = 1 << 16


def generate(path: Path, n_rows: int) -> None:
    """Write (n_rows, 50) normal numbers and labels, a row group at a time."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng = np.random.default_rng(0)
    schema = pa.schema([*((f"x{j}", pa.float64()) for j in range(COLUMNS)), ("y", pa.float64())])
    with pq.ParquetWriter(path, schema) as writer:
        for start in range(0, n_rows, GROUP):
            X = rng.standard_normal((min(GROUP, n_rows - start), COLUMNS))
            y = 3 * np.sin(X[:, 0]) + X[:, 1] * X[:, 2] + X[:, 3:8].sum(axis=1) + 0.5 * rng.standard_normal(len(X))
            writer.write_table(pa.table([*X.T, y], schema=schema))


def megabytes() -> float:
    """Return the peak resident memory of this process so far, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def measure(path: str, leaf_ids: str, rank: int, leaves: int | None, check: int) -> dict[str, object]:
    """Fit 50 trees on the first row group, wrap the whole file, and take the spectrum."""
    import pyarrow.parquet as pq
    from sklearn.ensemble import RandomForestRegressor

    import treespec

    head = pq.ParquetFile(path).read_row_group(0).to_pandas()
    X, y = head.drop(columns="y").to_numpy()[:40_000], head["y"].to_numpy()[:40_000]
    forest = RandomForestRegressor(50, max_leaf_nodes=leaves, max_features=8, random_state=0, n_jobs=1).fit(X, y)
    before = megabytes()
    start = time.perf_counter()
    wrapped = treespec.wrap(forest, path, "y", leaf_ids=leaf_ids)
    routed = time.perf_counter() - start
    start = time.perf_counter()
    found = wrapped.spectrum(rank)
    seconds = time.perf_counter() - start
    peak = megabytes()
    difference = float("nan")
    if check:
        rows = pq.ParquetFile(path).read().to_pandas().drop(columns="y").to_numpy()[:check]
        here = treespec.wrap(forest, rows).spectrum(rank)
        there = treespec.wrap(forest, (rows[i : i + 10_000] for i in range(0, check, 10_000)), leaf_ids=leaf_ids).spectrum(rank)
        difference = float(np.abs(here.values - there.values).max())
    return {
        "leaves": wrapped.forest.n_leaves, "ids": wrapped.rows.table.nbytes, "before": before, "routed": routed,
        "seconds": seconds, "peak": peak, "residual": found.residual, "difference": difference,
    }  # fmt: skip


def main() -> None:
    """Run each case in a process of its own and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--rank", type=int, default=20)
    parser.add_argument("--deep", action="store_true", help="also with trees grown to the end, which have more leaves than there are rows")
    parser.add_argument("--write", action="store_true", help="write the table to docs/results")
    parser.add_argument("--measure", nargs=4, metavar=("FILE", "LEAF_IDS", "LEAVES", "CHECK"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        path, leaf_ids, leaves, check = options.measure
        print(json.dumps(measure(path, leaf_ids, options.rank, int(leaves) or None, int(check))))
        return
    from table import publish

    rows, difference = [], float("nan")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.parquet"
        generate(path, options.rows)
        size = path.stat().st_size / 1e6
        for leaf_ids, leaves, check in (("memory", 1000, 50_000), ("disk", 1000, 0), *([("disk", 0, 0)] if options.deep else [])):
            command = [sys.executable, __file__, "--rank", str(options.rank), "--measure", str(path), leaf_ids, str(leaves), str(check)]
            found = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()[-1])
            difference = found["difference"] if check else difference
            rows.append([
                leaf_ids, f"{found['leaves']:,}", f"{found['ids'] / 1e6:.0f}", f"{found['before']:.0f}", f"{found['peak']:.0f}",
                f"{found['routed']:.0f}", f"{found['seconds']:.0f}", f"{found['residual']:.0e}",
            ])  # fmt: skip
            print(*rows[-1], flush=True)
    columns = ["leaf ids in", "leaves", "leaf ids MB", "MB before wrap", "peak MB", "read and route s", "spectrum s", "residual"]
    notes = (
        f"{options.rows:,} x {COLUMNS} float64 rows in one Parquet file of {size:.0f} MB ({options.rows * COLUMNS * 8 / 1e6:.0f} MB in "
        f"memory), random forest of 50 trees fitted on 40,000 of them, kernel spectrum of rank {options.rank}. *Peak*: resident memory of "
        "the whole process, fitting included (*before wrap*: up to then). Largest difference of eigenvalues to rows in memory, on the "
        f"first 50,000 rows: {difference:.0e}. Other work shared the cores, so that seconds are upper bounds."
    )
    publish("out_of_core", "Kernel spectrum of a million rows from Parquet", columns, rows, notes, write=options.write)


if __name__ == "__main__":
    main()
