"""Speed of KPP on spambase as ratios: the fit, attributions, predictions of the refitted forest.

    python benchmarks/kpp_speed.py --write

CPU seconds of one thread on either side (set OMP_NUM_THREADS=1), the least of some repeats that alternate: what other work on the machine
does counts little.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
import warnings
from importlib.metadata import version
from importlib.util import find_spec

import numpy as np
from datasets import load
from lightgbm import LGBMClassifier
from scipy.sparse import diags_array
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from table import publish
from xgboost import DMatrix, XGBClassifier

import treespec

TREES = 200
ALPHAS = (1e-3, 1e-5, 1e-7)  # alpha="auto" chooses about the last
SKLEARN_TOL = 1e-8  # with the default of 1e-4 scores are off by more than 1


def seconds(*calls, repeats):
    """Return the least CPU seconds of each call, and what it returned; the calls take turns."""
    best, out = [np.inf] * len(calls), [None] * len(calls)
    for _ in range(repeats):
        for j, call in enumerate(calls):
            start = time.process_time()
            out[j] = call()
            best[j] = min(best[j], time.process_time() - start)
    return best, out


def models():
    return {
        "random forest": RandomForestClassifier(TREES, random_state=0),
        "XGBoost": XGBClassifier(n_estimators=TREES, max_depth=5, n_jobs=1),
        "LightGBM": LGBMClassifier(n_estimators=TREES, n_jobs=1, verbose=-1),
    }


def fits(forest, X, y, test):
    """Yield rows: the same homogeneous logistic regression on path features, by the operator and on the expanded matrix."""
    wrapped = treespec.wrap(forest)
    scale = diags_array(wrapped.kpp(X, y, weights="impurity-decrease", alpha=1.0).representation.maps[0].scale)
    many = (forest.decision_path(test)[0] @ scale).tocsr()
    for alpha in ALPHAS:

        def ours(tolerance=1e-5, alpha=alpha):
            return wrapped.kpp(X, y, weights="impurity-decrease", alpha=alpha, tolerance=tolerance)  # routes the rows anew

        def expanded(alpha=alpha):
            path = (forest.decision_path(X)[0] @ scale).tocsr()
            return LogisticRegression(C=1 / alpha / len(y), fit_intercept=False, max_iter=10_000, tol=SKLEARN_TOL).fit(path, y)

        (mine, theirs), (k, model) = seconds(ours, expanded, repeats=2)
        exact = ours(1e-11).decision_function(test)
        score, other = k.decision_function(test), many @ model.coef_[0]
        off = [np.abs(s - exact).max() for s in (score, other)]
        same = float(np.mean((score > 0) == (other > 0)))
        note = f"alpha {alpha:g}; same class on {same:.2%} of the test rows; scores up to {off[0]:.0e} and {off[1]:.0e} off the optimum"
        yield "fit", "random forest", "decision_path + LogisticRegression", mine, theirs, theirs / mine, ">= 5", note


def attributions(name, model, X, y):
    """Yield rows: all training rows attributed, beside shap and the framework's own contributions on some of them."""
    k = treespec.wrap(model, X, y).kpp(weights="uniform", alpha=1e-4)
    few = X[:: max(1, len(X) // (40 if name == "random forest" else 1000))]
    rivals = {}
    if find_spec("shap"):
        import shap

        explainer = shap.TreeExplainer(model)
        rivals["shap.TreeExplainer"] = lambda: explainer.shap_values(few, check_additivity=False)
    if name == "XGBoost":
        rivals["pred_contribs"] = lambda: model.get_booster().predict(DMatrix(few), pred_contribs=True)
    if name == "LightGBM":
        rivals["pred_contrib"] = lambda: model.predict(few, pred_contrib=True)
    for rival, call in rivals.items():
        (mine, fresh, theirs), _ = seconds(k.attribute, lambda: k.attribute(X), call, repeats=3)
        per = theirs / len(few) * len(X)
        note = f"{len(X) / mine:,.0f} against {len(few) / theirs:,.0f} rows a second; {per / fresh:.0f} times where rows are routed anew"
        yield "attribute", name, rival, mine, per, per / mine, ">= 50", note


def predictions(name, model, X, y):
    """Yield a row: scores of the refitted forest beside the framework's own leaf ids."""
    k = treespec.wrap(model, X, y).kpp(weights="uniform", alpha=1e-4)
    many = np.tile(X, (10, 1))
    own = {
        "random forest": ("apply", lambda: model.apply(many)),
        "XGBoost": ("pred_leaf", lambda: model.get_booster().predict(DMatrix(many), pred_leaf=True)),
        "LightGBM": ("pred_leaf", lambda: model.predict(many, pred_leaf=True)),
    }
    rival, call = own[name]
    refitted = treespec.wrap(k.to_treelite())
    (mine, theirs, back), _ = seconds(lambda: k.decision_function(many), call, lambda: refitted.margin(many), repeats=3)
    yield "predict", name, rival, mine, theirs, mine / theirs, "<= 1.2", f"k.decision_function, {len(many):,} rows"
    yield "predict", name, rival, back, theirs, back / theirs, "", "k.to_treelite() in Treelite's own predictor: leaf ids, then values"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--parts", nargs="+", default=["fit", "attribute", "predict"])
    parser.add_argument("--write", action="store_true", help="write docs/results/kpp_speed.md")
    arguments = parser.parse_args()
    warnings.filterwarnings("ignore")
    data = load("spambase")
    if data is None:
        print("spambase is not on this machine")
        return
    if os.environ.get("OMP_NUM_THREADS") != "1":
        sys.exit("set OMP_NUM_THREADS=1: CPU seconds of several threads are no measure")
    X, test, y, _ = train_test_split(data.X, data.y, test_size=0.2, random_state=0)
    rows = []
    for name, model in models().items():
        model.fit(X, y)
        if name == "random forest" and "fit" in arguments.parts:
            rows += fits(model, X, y, test)
        if "attribute" in arguments.parts:
            rows += attributions(name, model, X, y)
        if "predict" in arguments.parts:
            rows += predictions(name, model, X, y)
        print(*rows, sep="\n", flush=True)
    columns = ("what", "model", "beside", "treespec s", "other s", "ratio", "goal", "note")
    cells = [(*row[:3], f"{row[3]:.3g}", f"{row[4]:.3g}", f"{row[5]:.2f}", *row[6:]) for row in sorted(rows, key=lambda r: r[0] != "fit")]
    notes = (
        f"spambase, {len(X):,} training rows, {TREES} trees. Seconds are CPU seconds of one thread for all training rows (attribute: those "
        "of the other side scaled up from fewer rows); the least of two or three alternating repeats. The fit includes routing and node "
        "weights on one side, decision_path and its scaling on the other; the forest is wrapped already."
    )
    if find_spec("shap"):
        notes += f" shap {version('shap')}."
    publish("kpp_speed", "Speed of KPP", columns, cells, notes, write=arguments.write)


if __name__ == "__main__":
    main()
