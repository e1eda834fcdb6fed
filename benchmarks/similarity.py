"""Similarity search: the ten training rows with the largest weight in each of 1,000 predictions, among 100,000 training rows.

python benchmarks/similarity.py
"""

from __future__ import annotations

import argparse
import os
import time
from importlib.metadata import version
from importlib.util import find_spec

import numpy as np
from sklearn.ensemble import RandomForestRegressor
from spectrum import load, table
from table import publish

import treespec

TREES, TOP, CHECKED = 100, 10, 50
FOREST = {"n_estimators": TREES, "min_samples_leaf": 5, "random_state": 0}


def timed(function):
    start = time.perf_counter()
    found = function()
    return time.perf_counter() - start, found


def dense(model, X, X_new, counts=None):
    """Return the (m, n) weights by the definition, one tree after the other."""
    out = np.zeros((len(X_new), len(X)))
    train, new = model.apply(X), model.apply(X_new)
    for t in range(train.shape[1]):
        own = np.ones(len(X)) if counts is None else counts[t]
        same = (new[:, t][:, None] == train[:, t]) * own
        out += same / same.sum(axis=1, keepdims=True)
    return out / train.shape[1]


def top_of(weights, k):
    """Return the k largest of each row, descending."""
    return -np.sort(-np.partition(weights, weights.shape[1] - k, axis=1)[:, -k:], axis=1)


def difference(sparse, expected):
    """Return how far the largest weights are from those of the dense computation."""
    found = -np.sort(-sparse[: len(expected)].toarray(), axis=1)[:, :TOP]
    return np.abs(found - top_of(expected, TOP)).max() / expected.max()


def ours(model, X, y, X_new):
    rows = []
    for name in ("leaf", "in-bag"):
        w = treespec.wrap(model, X, y)
        prepare, S = timed(lambda w=w, name=name: w.smoother(name))
        seconds, found = timed(lambda S=S: S.weights(X_new, top=TOP))
        again, _ = timed(lambda S=S: S.weights(X_new, top=TOP))
        size = found.data.nbytes + found.indices.nbytes + found.indptr.nbytes
        counts = None if name == "leaf" else [np.bincount(s, minlength=len(X)) for s in model.estimators_samples_]
        miss = difference(found, dense(model, X, X_new[:CHECKED], counts))
        rows.append([f"treespec, {name}", prepare, seconds, again, size, f"{miss:.0e}"])
    return rows


def forestgeom(model, X, y, X_new):
    if find_spec("forestgeom") is None:
        return []
    from forestgeom import Proximity

    rows = []
    for scheme in ("kerf", "gap"):
        proximity = Proximity(model, weight_scheme=scheme)
        prepare, _ = timed(lambda proximity=proximity: proximity.fit(X, y))

        def query(proximity=proximity):
            block = proximity.transform(X_new).tocsr()
            return block, [np.argsort(-block.data[a:b])[:TOP] for a, b in zip(block.indptr[:-1], block.indptr[1:], strict=True)]

        seconds, (block, _) = timed(query)
        again, _ = timed(query)
        size = block.data.nbytes + block.indices.nbytes + block.indptr.nbytes
        rows.append([f"forestgeom {version('forestgeom')}, {scheme}, then sorted", prepare, seconds, again, size, ""])
    return rows


def quantile_forest(X, y, X_new):
    if find_spec("quantile_forest") is None:
        return []
    from quantile_forest import RandomForestQuantileRegressor

    fitting, model = timed(lambda: RandomForestQuantileRegressor(**FOREST, max_samples_leaf=None).fit(X, y))
    seconds, found = timed(lambda: model.proximity_counts(X_new, max_proximities=TOP))
    again, _ = timed(lambda: model.proximity_counts(X_new, max_proximities=TOP))
    size = sum(16 * len(row) for row in found)
    name = f"quantile-forest {version('quantile-forest')} (its own fit: {fitting:.0f} s), counts"
    return [[name, float("nan"), seconds, again, size, ""]]


def main() -> None:
    """Run all and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--write", action="store_true", help="write the table to docs/results")
    options = parser.parse_args()
    X, y = table("flights_delay")
    X, y, X_new = X[: options.rows], y[: options.rows].astype(float), X[options.rows : options.rows + 1000]
    fitting, model = timed(lambda: RandomForestRegressor(**FOREST).fit(X, y))
    print(f"fit {fitting:.0f} s", flush=True)
    rows = [*ours(model, X, y, X_new), *forestgeom(model, X, y, X_new), *quantile_forest(X, y, X_new)]
    shown = [
        [name, "" if np.isnan(prepare) else f"{prepare:.2f}", f"{first:.2f}", f"{again:.2f}", f"{size / 1e6:.2f}", miss]
        for name, prepare, first, again, size, miss in rows
    ]
    columns = ["way", "prepare s", "first call s", "next call s", "result MB", "largest difference"]
    notes = (
        f"`flights_delay`, {options.rows:,} training rows, 1,000 new ones, {TREES} trees, 5 rows a leaf and more; the {TOP} training rows "
        "of largest weight for each new row. *prepare*: routing the training rows, and what follows from them once; *call*: routing of the "
        "new rows included. *largest difference*: of the weights found from those of the definition, computed as a dense block for "
        f"{CHECKED} new rows, relative to the largest weight. Threads: {os.environ.get('OMP_NUM_THREADS', 'default')}. quantile-forest "
        "counts common leaves without weights; forestgeom returns the whole sparse block, which is sorted here. "
        f"{load()}"
    )
    publish("similarity", "Training rows that drive a prediction", columns, shown, notes, write=options.write)


if __name__ == "__main__":
    main()
