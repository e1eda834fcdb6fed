"""KPP on the paper's five data sets beside its bases, a raw linear model and the leaf-only embedding: errors on a fifth of the rows.

    python benchmarks/kpp.py --seeds 0 1            # development seeds
    python benchmarks/kpp.py --seeds 100 101 102 103 104 --write

Every figure is kept in a file as soon as it is there, and found again: a run that was stopped goes on where it was.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections import defaultdict
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from datasets import load
from sklearn import ensemble, linear_model
from sklearn.model_selection import KFold, StratifiedKFold, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from table import RESULTS, markdown, publish

from treespec import KPPClassifier, KPPRegressor, LeafEmbedding
from treespec.estimators.out_of_fold import KPP_NAME, RAW_NAME
from treespec.kpp.penalty_path import Path as PenaltyPath
from treespec.plugins import manager, plugins

DATA = ("breast_cancer", "california", "concrete", "spambase", "wine_quality_red")
TREES = 200
SAMPLE = 2000  # rows of california, as in the paper
BASES = ("random forest", "extra trees", "gradient boosting", "XGBoost", "LightGBM", "CatBoost")
BASELINES = (*BASES, "raw linear")
ADAPTERS = " ".join(p.owner for p in plugins() if p.kind == "adapter")
KNOWN = BASES if "catboost" in ADAPTERS else BASES[:-1]  # CatBoost's adapter is a package of its own
LEAF_ALPHAS = np.logspace(-2, 3, 6)
LEAF_CS = np.logspace(-3, 1, 5)
STORE = RESULTS / "kpp.jsonl"


def base(name, classes, seed):
    """Return an unfitted ensemble, or None where its package is not installed."""
    kind = "Classifier" if classes else "Regressor"
    boost = {"n_estimators": TREES, "learning_rate": 0.1, "random_state": seed}
    if name == "random forest":
        return getattr(ensemble, f"RandomForest{kind}")(TREES, random_state=seed)
    if name == "extra trees":
        return getattr(ensemble, f"ExtraTrees{kind}")(TREES, random_state=seed)
    if name == "gradient boosting":
        return getattr(ensemble, f"GradientBoosting{kind}")(**boost, max_depth=4)
    package, prefix, more = {
        "XGBoost": ("xgboost", "XGB", {"max_depth": 5, "n_jobs": 1}),
        "LightGBM": ("lightgbm", "LGBM", {"num_leaves": 31, "n_jobs": 1, "verbose": -1}),
        "CatBoost": ("catboost", "CatBoost", {"verbose": 0, "thread_count": 1, "allow_writing_files": False}),
    }[name]
    if find_spec(package) is None:
        return None
    settings = {"n_estimators": 1000, "random_state": seed} if name == "CatBoost" else boost  # its own learning rate
    return getattr(__import__(package), prefix + kind)(**settings, **more)


def linear(classes):
    model = linear_model.LogisticRegressionCV(Cs=10, cv=5, max_iter=2000) if classes else linear_model.RidgeCV(np.logspace(-3, 4, 15))
    return make_pipeline(StandardScaler(), model)


def leaf_only(model, classes, train, y, test, seed):
    """Return predictions of a linear model on leaf indicators; its penalty from folds in which the trees are grown again."""
    split = (StratifiedKFold if classes else KFold)(5, shuffle=True, random_state=seed)
    grid = LEAF_CS if classes else LEAF_ALPHAS
    make = (lambda c: linear_model.LogisticRegression(C=c, max_iter=500)) if classes else linear_model.Ridge
    error = np.zeros(len(grid))
    for a, b in split.split(train, y):
        embedding = LeafEmbedding(model).fit(train[a], y[a])
        A, B = embedding.transform(train[a]), embedding.transform(train[b])
        for j, value in enumerate(grid):
            error[j] += loss(make(value).fit(A, y[a]).predict(B), y[b], classes) ** (1 if classes else 2) * len(b)
    embedding = LeafEmbedding(model).fit(train, y)
    return make(grid[error.argmin()]).fit(embedding.transform(train), y).predict(embedding.transform(test))


def loss(predicted, y, classes):
    return float(np.mean(predicted != y)) if classes else float(np.sqrt(np.mean((predicted - y) ** 2)))


def oracle(kpp, test, y, classes):
    """Return the smallest error on the test rows over the whole penalty path: about what a choice of alpha that saw them could reach."""
    learner = manager().scheme("learner", kpp.learner)
    path = PenaltyPath.of(kpp.features, kpp.targets, learner, None, {})
    return min(loss(kpp.decide(s + 0.0), y, classes) for s in path.scores(kpp.representation.features(test)))


def measure(name, seed, wanted, known):
    """Yield (method, error, seconds) of what is wanted and not yet known."""
    data = load(name)
    X, y, classes = data.X, data.y, data.task == "binary"
    if name == "california":
        rows = np.random.default_rng(seed).choice(len(X), SAMPLE, replace=False)
        X, y = X[rows], y[rows]
    train, test, a, b = train_test_split(X, y, test_size=0.2, random_state=seed, stratify=y if classes else None)
    estimator = KPPClassifier if classes else KPPRegressor
    for method in BASELINES:
        if "baselines" in wanted and method not in known:
            model = linear(classes) if method == "raw linear" else base(method, classes, seed)
            if model is not None:
                start = time.perf_counter()
                yield method, loss(model.fit(train, a).predict(test), b, classes), time.perf_counter() - start
    if "default" in wanted and "default" not in known:
        start = time.perf_counter()
        model = estimator(random_state=seed).fit(train, a)
        spent = time.perf_counter() - start
        rest = model.stack_.without(KPP_NAME, RAW_NAME).scores(test)[:, 0]
        yield "stack without KPP", loss((rest > 0).astype(b.dtype) if classes else rest, b, classes), 0.0
        yield "block KPP", loss(model.kpp_.predict(test), b, classes), 0.0
        yield "block KPP, oracle alpha", oracle(model.kpp_, test, b, classes), 0.0
        yield "default", loss(model.predict(test), b, classes), spent
    for method in KNOWN:
        model = base(method, classes, seed)
        if "single" in wanted and model is not None and f"KPP on {method}" not in known:
            start = time.perf_counter()
            fitted = estimator(model, random_state=seed).fit(train, a)
            spent = time.perf_counter() - start
            yield f"KPP on {method}, oracle alpha", oracle(fitted.kpp_, test, b, classes), 0.0
            yield f"KPP on {method}", loss(fitted.predict(test), b, classes), spent
    for method in ("extra trees", "LightGBM"):
        model = base(method, classes, seed)
        if "leaves" in wanted and model is not None and f"leaves of {method}" not in known:
            start = time.perf_counter()
            yield f"leaves of {method}", loss(leaf_only(model, classes, train, a, test, seed), b, classes), time.perf_counter() - start


def read(store):
    found = defaultdict(dict)
    if store.exists():
        for line in store.read_text(encoding="utf-8").splitlines():
            row = json.loads(line)
            found[row["data"], row["seed"]][row["method"]] = row["error"]
    return found


def standard_error(values):
    return np.std(values, ddof=1) / np.sqrt(len(values)) if len(values) > 1 else float("nan")


def with_error(values, n_seeds, plus=""):
    """Return mean and standard error as text, and the number of values where that is not the number of seeds."""
    mean = f"{np.mean(values):{plus}.4f}"
    if len(values) == 1:
        return f"{mean} (1 seed)"
    return f"{mean} ± {standard_error(values):.4f}" + (f" ({len(values)} seeds)" if len(values) < n_seeds else "")


def verdict(gap):
    """Return in words what a paired difference (default minus a rival; below 0 is better) says."""
    mean, se = gap.mean(), standard_error(gap)
    if mean < 0:
        return "ahead" if mean < -se else "ahead by less than one standard error"
    return "equal" if mean == 0 else "tied within one standard error" if mean <= se else "behind"


def errors_by_method(found, seeds):
    """Return columns, rows and notes from the seeds for which the default was measured."""
    order = (*BASELINES, "leaves of extra trees", "leaves of LightGBM", *(f"KPP on {m}" for m in BASES))
    order = (*order, "block KPP", "block KPP, oracle alpha", "stack without KPP", "default")
    rows, notes = {m: [] for m in order}, []
    for name in DATA:
        done = [s for s in seeds if "default" in found[name, s]]
        per = {m: [found[name, s][m] for s in done if m in found[name, s]] for m in order}
        for m in order:
            rows[m].append(with_error(per[m], len(done)) if per[m] else "")
        whole = [m for m in BASELINES if done and len(per[m]) == len(done)]
        if not whole:
            notes.append(f"* {name}: no seed was finished.")
            continue
        if len(done) < len(seeds):
            notes.append(f"* {name}: only seeds {done} were finished; its figures are means over these.")
        best = min(whole, key=lambda m: np.mean(per[m]))
        gap = np.subtract(per["default"], per[best])
        gain = np.subtract(per["default"], per["stack without KPP"])
        sure = abs(gain.mean()) > standard_error(gain)
        adds = ("KPP adds" if gain.mean() < 0 else "KPP costs") if sure else "KPP adds nothing beyond one standard error"
        notes.append(
            f"* {name} ({len(done)} seeds): default minus the best baseline ({best}) {with_error(gap, len(done))}: {verdict(gap)}; "
            f"minus the same stack without KPP {with_error(gain, len(done))}: {adds}."
        )
    if any("seed" in cell for cells in rows.values() for cell in cells):
        notes.append(
            "* Cells with fewer seeds were stopped before all had run: means over other splits than the rest, compare them in pairs below."
        )
    return ("method", *DATA), [(m, *rows[m]) for m in order if any(rows[m])], "\n".join(notes)


def differences(found, seeds):
    """Return the rows of the table of paired differences: KPP minus its ensemble, chosen minus oracle alpha, default minus each rival."""
    pairs = [(f"KPP on {m}", m) for m in BASES]
    pairs += [(m, f"{m}, oracle alpha") for m in (*(f"KPP on {m}" for m in BASES), "block KPP")]
    pairs += [("default", m) for m in (*BASELINES, "leaves of extra trees", "leaves of LightGBM", "block KPP", "stack without KPP")]
    rows = []
    for first, second in pairs:
        cells = []
        for name in DATA:
            both = [found[name, s] for s in seeds if first in found[name, s] and second in found[name, s]]
            gap = [f[first] - f[second] for f in both]
            cells.append(with_error(gap, len(seeds), "+") if gap else "")
        rows.append((f"{first} minus {'the same with ' * second.endswith('alpha')}{second.split(', ')[-1]}", *cells))
    return [row for row in rows if any(row[1:])]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1])
    parser.add_argument("--data", nargs="+", default=list(DATA), choices=DATA)
    parser.add_argument("--parts", nargs="+", default=["baselines", "default", "single", "leaves"])
    parser.add_argument("--store", type=Path, default=STORE)
    parser.add_argument("--write", action="store_true", help="write docs/results/kpp.md")
    parser.add_argument("--table-only", action="store_true")
    arguments = parser.parse_args()
    warnings.filterwarnings("ignore")
    arguments.store.parent.mkdir(parents=True, exist_ok=True)
    for name in arguments.data if not arguments.table_only else []:
        if load(name) is None:
            print(f"{name} is not on this machine")
            continue
        for seed in arguments.seeds:
            for method, error, seconds in measure(name, seed, arguments.parts, read(arguments.store)[name, seed]):
                row = {"data": name, "seed": seed, "method": method, "error": error, "seconds": round(seconds, 2)}
                with arguments.store.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(row) + "\n")
                print(f"{name} {seed} {method:<26} {error:.4f}  {seconds:.1f} s", flush=True)
    if find_spec("catboost") is None:
        print("CatBoost is not installed: left out")
    found = read(arguments.store)
    columns, rows, notes = errors_by_method(found, arguments.seeds)
    head = (
        f"RMSE, or share of wrong classes, on a fifth of the rows; mean and standard error over seeds {arguments.seeds}. Ensembles of "
        f"{TREES} trees (CatBoost: 1,000, its own learning rate); california is a sample of {SAMPLE} rows. The default is `KPPRegressor()` "
        "or `KPPClassifier()`. Oracle alpha: the best of the whole penalty path on the test rows."
    )
    if find_spec("catboost"):
        head += f" CatBoost {version('catboost')}."
    paired = (
        "Paired differences, seed by seed: mean and standard error, below 0 where the first is better. The standard error is over seeds "
        "and so over splits that share rows: it is no test."
    )
    pairs = markdown(("difference", *DATA), differences(found, arguments.seeds))
    publish("kpp", "KPP on the paper's five data sets", columns, rows, f"{head}\n\n{notes}\n\n{paired}\n\n{pairs}", write=arguments.write)


if __name__ == "__main__":
    main()
