"""Products with the leaf incidence on a torch device, beside NumPy: seconds for a few numbers of columns.

python benchmarks/torch_device.py --write
"""

from __future__ import annotations

import argparse
import time

import numpy as np
import torch
from table import publish

from treespec.operators import LeafIncidence
from treespec.operators.torch_leaves import TorchLeaves


def seconds(call, argument, repeats: int = 3) -> float:
    """Return the least of some times of ``call(argument)``."""
    found = []
    for _ in range(repeats):
        start = time.perf_counter()
        call(argument)
        found.append(time.perf_counter() - start)
    return min(found)


def main() -> None:
    """Time both ways and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=50_000)
    parser.add_argument("--trees", type=int, default=50)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--write", action="store_true", help="write the table to docs/results")
    options = parser.parse_args()
    rng = np.random.default_rng(0)
    rows = []
    for leaves in (64, 1000):
        index = rng.integers(0, leaves, size=(options.rows, options.trees)) + np.arange(options.trees) * leaves
        here = LeafIncidence(index, options.trees * leaves)
        there = TorchLeaves(here, options.device)
        for k in (1, 4, 16, 64):
            V, U = rng.normal(size=(here.shape[1], k)), rng.normal(size=(here.shape[0], k))
            difference = max(np.abs(here @ V - there @ V).max(), np.abs(here.T @ U - there.T @ U).max())
            times = [seconds(here.matmat, V), seconds(there.matmat, V), seconds(here.rmatmat, U), seconds(there.rmatmat, U)]
            rows.append([leaves, k, *(f"{t:.3f}" for t in times), f"{difference:.0e}"])
            print(*rows[-1], flush=True)
    device = options.device
    columns = ["leaves a tree", "columns", "gather NumPy", f"gather {device}", "scatter NumPy", f"scatter {device}", "difference"]
    notes = f"Seconds; {options.rows:,} rows, {options.trees} trees, {torch.get_num_threads()} thread(s), best of three."
    publish("torch_device", f"Leaf products: NumPy and torch on {device}", columns, rows, notes, write=options.write)


if __name__ == "__main__":
    main()
