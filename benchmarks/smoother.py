"""Exactness of the boosting smoother: max |c + S (y - c) - native| in standard deviations, for every framework.

python benchmarks/smoother.py
"""

from __future__ import annotations

import argparse
import time

import numpy as np
from lightgbm import LGBMRegressor
from sklearn.datasets import make_friedman1
from sklearn.ensemble import GradientBoostingRegressor, HistGradientBoostingRegressor
from table import publish
from xgboost import XGBRegressor

import treespec

MODELS = {
    "XGBoost, lambda 0": lambda: XGBRegressor(n_estimators=100, reg_lambda=0, max_depth=6),
    "XGBoost, lambda 1, automatic base score": lambda: XGBRegressor(n_estimators=100, max_depth=6),
    "XGBoost, base score 0.5": lambda: XGBRegressor(n_estimators=100, max_depth=6, base_score=0.5),
    "XGBoost, 4 parallel trees": lambda: XGBRegressor(n_estimators=25, max_depth=6, num_parallel_tree=4),
    "LightGBM": lambda: LGBMRegressor(n_estimators=100, verbose=-1),
    "LightGBM, lambda 5": lambda: LGBMRegressor(n_estimators=100, reg_lambda=5, verbose=-1),
    "scikit-learn gradient boosting": lambda: GradientBoostingRegressor(n_estimators=100, random_state=0),
    "scikit-learn gradient boosting, subsample": lambda: GradientBoostingRegressor(n_estimators=100, subsample=0.6, random_state=0),
    "scikit-learn histogram boosting": lambda: HistGradientBoostingRegressor(max_iter=100, random_state=0),
    "scikit-learn histogram boosting, l2 5": lambda: HistGradientBoostingRegressor(max_iter=100, l2_regularization=5, random_state=0),
}


def main() -> None:
    """Run every model and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=3000)
    parser.add_argument("--write", action="store_true", help="write the table to docs/results")
    options = parser.parse_args()
    X, y = make_friedman1(options.rows, noise=1.0, random_state=0)
    weight = np.random.default_rng(0).uniform(0.5, 2, len(y))
    rows = []
    for name, make in MODELS.items():
        for weighted in (False, True):
            model = make().fit(X, y, sample_weight=weight if weighted else None)
            wrapped = treespec.wrap(model, X, y, sample_weight=weight if weighted else None)
            start = time.perf_counter()
            smoother = wrapped.smoother("boosting")
            built = time.perf_counter() - start
            start = time.perf_counter()
            smoother.matmat(np.ones((len(y), 10)))
            product = time.perf_counter() - start
            rows.append([name, "yes" if weighted else "no", f"{smoother.exactness:.1e}", f"{1e3 * built:.0f}", f"{100 * product:.1f}"])
            print(*rows[-1], flush=True)
    print()
    columns = ["model", "weights", "max error / sd", "build ms", "ms a column"]
    notes = (
        f"make_friedman1, {options.rows} rows, noise 1. *max error / sd*: max |c + S (y - c) - native prediction| over the training rows."
    )
    publish("smoother", "Exactness of the boosting smoother", columns, rows, notes, write=options.write)


if __name__ == "__main__":
    main()
