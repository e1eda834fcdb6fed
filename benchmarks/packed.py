"""Bytes a node of packed trees, on the boosted models of the SCATE paper (100 trees of depth 6, squared loss):

    python benchmarks/packed.py --dataset california concrete

Trained on 80 percent of the rows. "equal" says that lossless predictions are bit-equal to XGBoost's on every test row; the score is R2, or
the accuracy of the margin above 0.5, on test rows. "6-bit" are leaves of 6 bits, rounded with the training rows. m2cgen's C is of the same
model; emlearn takes no boosted models: its C is of a random forest of 100 trees and about as many nodes. Both are compiled with gcc -Os.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

import lightgbm
import numpy as np
import treelite
import xgboost
from datasets import TARGET, Dataset, load
from sklearn.ensemble import RandomForestRegressor
from sklearn.metrics import accuracy_score, r2_score
from sklearn.model_selection import train_test_split
from table import publish

import treespec
from treespec.students.packed import PackedStudent

DATASETS = sorted(set(TARGET) - {"wine_quality_red"})
COLUMNS = (
    "set", "nodes", "lossless KB", "equal", "6-bit KB", "score", "6-bit less", "lossless B/node", "6-bit B/node", ".ubj B/node",
    "LightGBM text B/node", "Treelite B/node", "m2cgen object B/node", "emlearn object B/node",
)  # fmt: skip


def file_size(save: object) -> int:
    """Return the bytes of the file that ``save(path)`` writes."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.ubj"
        save(str(path))
        return path.stat().st_size


def object_size(source: str, *options: str) -> int:
    """Return the bytes of code and data of C source, compiled with gcc -Os."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "m.c"
        path.write_text(source)
        subprocess.run(["gcc", "-std=gnu99", "-Os", "-w", *options, "-c", path, "-o", Path(folder) / "m.o"], check=True)
        table = subprocess.run(["size", Path(folder) / "m.o"], check=True, capture_output=True, text=True).stdout
        return sum(int(n) for n in table.splitlines()[1].split()[:2])


def m2cgen_bytes(model: object) -> int:
    """Return the bytes of the object that m2cgen's C of a model compiles to."""
    import m2cgen

    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(100_000)
    text = m2cgen.export_to_c(model)
    sys.setrecursionlimit(limit)
    return object_size(text)


def emlearn_bytes(forest: object) -> int:
    """Return the bytes of the object that emlearn's C of a forest compiles to."""
    errors = np.geterr()
    import emlearn  # changes numpy's handling of errors

    np.seterr(**errors)
    with tempfile.TemporaryDirectory() as folder:
        made = emlearn.convert(forest, method="inline", dtype="float")
        path = Path(folder) / "forest.h"
        made.save(file=str(path), name="forest")
        call = "float call(const float *x, int n) { return forest_predict(x, n); }\n"
        return object_size(path.read_text() + call, f"-I{emlearn.includedir}")


def score(data: Dataset, y: np.ndarray, prediction: np.ndarray) -> float:
    """Return R2, or accuracy above 0.5."""
    return float(r2_score(y, prediction) if data.task == "regression" else accuracy_score(y, prediction > 0.5))


def row(data: Dataset, seed: int, threads: int, *, objects: bool) -> list[object]:
    """Return the table's row of one data set."""
    X, X_test, y, y_test = train_test_split(data.X, data.y, test_size=0.2, random_state=seed)
    model = xgboost.XGBRegressor(n_estimators=100, max_depth=6, base_score=0.0, random_state=seed, n_jobs=threads).fit(X, y)
    w = treespec.wrap(model, X, y)
    n = w.forest.n_nodes
    exact = PackedStudent.of(w.forest)
    rounded = w.distill("1MB", compressor="packed", leaf_bits=6)
    native = model.predict(X_test)
    equal = np.array_equal(exact.predict(X_test).astype(np.float32), native)
    lgb = lightgbm.train({"num_leaves": 31, "verbose": -1, "num_threads": threads}, lightgbm.Dataset(X, y), 100)
    lgb_nodes = sum(2 * tree["num_leaves"] - 1 for tree in lgb.dump_model()["tree_info"])
    compiled = ["", ""]
    if objects:
        trees = RandomForestRegressor(100, max_leaf_nodes=max(2, n // 200), random_state=seed).fit(X, y)
        nodes = sum(t.tree_.node_count for t in trees.estimators_)
        compiled = [f"{m2cgen_bytes(model) / n:.1f}", f"{emlearn_bytes(trees) / nodes:.1f}"]
    return [
        data.name, n, f"{exact.n_bytes / 1000:.1f}", "yes" if equal else "NO", f"{rounded.n_bytes / 1000:.1f}",
        f"{score(data, y_test, native):.4f}", f"{score(data, y_test, native) - score(data, y_test, rounded.predict(X_test)):.4f}",
        *(f"{bytes_ / nodes:.1f}" for bytes_, nodes in (
            (exact.n_bytes, n), (rounded.n_bytes, n), (file_size(model.save_model), n), (len(lgb.model_to_string().encode()), lgb_nodes),
            (len(treelite.frontend.from_xgboost(model.get_booster()).serialize_bytes()), n),
        )),
        *compiled,
    ]  # fmt: skip


def main() -> None:
    """Pack each data set's model and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dataset", nargs="+", default=DATASETS)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument(
        "--objects", nargs="*", default=DATASETS, help="data sets for which m2cgen's and emlearn's C is compiled (minutes each)"
    )
    parser.add_argument("--write", action="store_true", help="write docs/results/packed.md")
    options = parser.parse_args()
    rows = []
    for name in options.dataset:
        data = load(name)
        if data is None:
            print(f"{name}: not on this machine, left out")
            continue
        rows.append(row(data, options.seed, options.threads, objects=name in options.objects))
        print(*rows[-1], flush=True)
    publish("packed", "Packed trees: bytes of boosted models", COLUMNS, rows, write=options.write)


if __name__ == "__main__":
    main()
