"""Bytes a node of packed trees, on the boosted models of the SCATE paper (100 trees of depth 6, squared loss):

    python benchmarks/packed.py --dataset california concrete

Trained on 80 percent of the rows. "equal" says that lossless predictions are bit-equal to XGBoost's on every test row; the score is R2, or
the accuracy of the margin above 0.5, on test rows.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import lightgbm
import numpy as np
import treelite
import xgboost
from datasets import TARGET, Dataset, load
from sklearn.metrics import accuracy_score, r2_score
from sklearn.model_selection import train_test_split
from table import publish

import treespec
from treespec.students.packed import PackedStudent

DATASETS = sorted(set(TARGET) - {"wine_quality_red"})
COLUMNS = (
    "set", "nodes", "lossless KB", "bytes/node", "equal", "6-bit KB", "score", "6-bit less", ".ubj KB", "LightGBM text KB", "Treelite KB",
)  # fmt: skip


def file_size(save: object) -> int:
    """Return the bytes of the file that ``save(path)`` writes."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.ubj"
        save(str(path))
        return path.stat().st_size


def score(data: Dataset, y: np.ndarray, prediction: np.ndarray) -> float:
    """Return R2, or accuracy above 0.5."""
    return float(r2_score(y, prediction) if data.task == "regression" else accuracy_score(y, prediction > 0.5))


def row(data: Dataset, seed: int, threads: int) -> list[object]:
    """Return the table's row of one data set."""
    X, X_test, y, y_test = train_test_split(data.X, data.y, test_size=0.2, random_state=seed)
    model = xgboost.XGBRegressor(n_estimators=100, max_depth=6, base_score=0.0, random_state=seed, n_jobs=threads).fit(X, y)
    forest = treespec.wrap(model).forest
    exact = PackedStudent.of(forest)
    rounded = PackedStudent.of(forest, leaf_bits=6)
    native = model.predict(X_test)
    equal = np.array_equal(exact.predict(X_test).astype(np.float32), native)
    lgb = lightgbm.train({"num_leaves": 31, "verbose": -1, "num_threads": threads}, lightgbm.Dataset(X, y), 100)
    return [
        data.name, forest.n_nodes, f"{exact.n_bytes / 1000:.1f}", f"{exact.n_bytes / forest.n_nodes:.2f}", "yes" if equal else "NO",
        f"{rounded.n_bytes / 1000:.1f}", f"{score(data, y_test, native):.4f}",
        f"{score(data, y_test, native) - score(data, y_test, rounded.predict(X_test)):.4f}",
        f"{file_size(model.save_model) / 1000:.0f}", f"{len(lgb.model_to_string().encode()) / 1000:.0f}",
        f"{len(treelite.frontend.from_xgboost(model.get_booster()).serialize_bytes()) / 1000:.0f}",
    ]  # fmt: skip


def main() -> None:
    """Pack each data set's model and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dataset", nargs="+", default=DATASETS)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--write", action="store_true", help="write docs/results/packed.md")
    options = parser.parse_args()
    rows = []
    for name in options.dataset:
        data = load(name)
        if data is None:
            print(f"{name}: not on this machine, left out")
            continue
        rows.append(row(data, options.seed, options.threads))
        print(*rows[-1], flush=True)
    publish("packed", "Packed trees: bytes of boosted models", COLUMNS, rows, write=options.write)


if __name__ == "__main__":
    main()
