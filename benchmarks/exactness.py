"""Exactness of every smoother over frameworks and settings: the error of what is offered, and the misfit of what is refused.

    python benchmarks/exactness.py

A row that is offered is checked against the framework's own predictions, on the training rows and on new ones. No setting may be
silently wrong: the run ends with an error if one is off by more than its tolerance.
"""

from __future__ import annotations

import argparse
import re
import sys
import warnings

import numpy as np
from exactness_settings import FORESTS, ROUNDS, SMOOTH, SQUARED, pair
from lightgbm import LGBMClassifier, LGBMRegressor, early_stopping
from sklearn.datasets import make_friedman1
from table import publish
from xgboost import XGBClassifier, XGBRegressor

import treespec
from treespec.errors import DataMismatchError, TreespecError
from treespec.operators import BoostingSmoother, LeafIncidence

ROWS, LARGE = 1500, 12_000
TOLERANCE = 1e-5  # standard deviations
ULPS = 10 * 2.0**-23  # of float32 outputs


def problem(kind):
    """Return X, y, weights or None, new rows, and what else ``fit`` needs."""
    n = LARGE if kind == "large" else ROWS
    X, y = make_friedman1(n + 500, noise=1.0, random_state=0)
    X, X_new, y, y_new = X[:n].copy(), X[n:].copy(), y[:n], y[n:]
    if kind == "cat":
        for table in (X, X_new):
            table[:, 0] = np.floor(table[:, 0] * 40)
        y = y + np.random.default_rng(1).normal(size=40)[X[:, 0].astype(int)] * 3
    y = {"far": y + 1e6, "farther": 1000 * y + 1e6, "positive": np.exp(y / 10)}.get(kind, y) if isinstance(kind, str) else kind(y)
    y = pair(y) if kind == "pair" else y
    weight = np.random.default_rng(0).uniform(0.5, 2, n) if kind == "w" else None
    return X, y, weight, X_new, {"eval_set": [(X_new, y_new)]} if kind == "stop" else {}


def fitted(model, kind, X, y, weight, options):
    if kind == "cat" and isinstance(model, LGBMRegressor):
        options = {"categorical_feature": [0]}
    if kind == "stop" and isinstance(model, LGBMRegressor):
        options["callbacks"] = [early_stopping(5, verbose=False)]
    if isinstance(model, XGBRegressor) and options:
        options["verbose"] = False
    model.fit(X, y, **({} if weight is None else {"sample_weight": weight}), **options)
    if kind == "refit":
        model = model.booster_.refit(X, y[::-1].copy(), decay_rate=0.5)
    return model


def margins(model, w, name, X):
    """Return what the framework itself predicts, (n, n_outputs), on the scale that the smoother works on."""
    if name == "in-bag":
        return (model.predict_proba(X) if hasattr(model, "predict_proba") else model.predict(X)).reshape(len(X), -1)
    if isinstance(model, (XGBRegressor, XGBClassifier)):
        return model.predict(X, output_margin=True).astype(float).reshape(len(X), -1)
    if isinstance(model, (LGBMRegressor, LGBMClassifier)):
        return model.predict(X, raw_score=name != "boosting").reshape(len(X), -1)
    if hasattr(model, "decision_function"):
        return model.decision_function(X).reshape(len(X), -1)
    return model._raw_predict(X) if name == "boosting-tangent" and hasattr(model, "_raw_predict") else model.predict(X).reshape(len(X), -1)


def replayed(w, S, name, y, X):
    """Return what the smoother makes of the labels, for training rows or others, (n, n_outputs)."""
    if name == "boosting-tangent":
        return S[0].predict(X)
    if name == "in-bag":
        labels = np.eye(len(w.forest.classes[0]))[y] if w.forest.classes is not None else y.reshape(len(y), -1)
        return S[0].cross(X).matmat(labels)
    columns = y.reshape(len(y), -1)
    return np.column_stack([s.initial + s.cross(X).matvec(columns[:, k] - s.initial) for k, s in enumerate(S)])


def linear_misfit(w, model, y):
    """Return the error, in standard deviations, of the plain recursion of squared loss on a model that is refused."""
    values = np.asarray(y, float)
    if w.forest.n_outputs > 1 or values.ndim > 1:
        return float("nan")
    Z = LeafIncidence.of(w.forest, w.rows.leaf_id)
    ridge = next(
        (float(getattr(model, a)) for a in ("reg_lambda", "l2_regularization") if getattr(model, a, None) is not None),
        1.0 if "XGB" in type(model).__name__ else 0.0,
    )
    eta = getattr(model, "learning_rate", None) or (0.3 if "XGB" in type(model).__name__ else 0.1)
    found = BoostingSmoother(Z, eta=eta, ridge=ridge, initial=values.mean()).replay(values)
    native = w.forest.margin_of(w.rows.leaf_id)[:, 0]
    return float(np.abs(found - native).max() / native.std()) if native.std() > 0 else float("nan")


def examine(framework, setting, model, kind, name):
    """Return a row of the table, and whether the setting is silently wrong."""
    X, y, weight, X_new, options = problem(kind)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = fitted(model, kind, X, y, weight, options)
    head = [framework, setting, name]
    try:
        w = treespec.wrap(model, X, y, sample_weight=weight)
    except TreespecError as error:
        return [*head, "", "", f"not wrapped: {first(error)}"], False
    try:
        several = name == "boosting" and w.forest.n_outputs > 1
        S = [w.smoother(name, **({"output": k} if several else {})) for k in range(w.forest.n_outputs if several else 1)]
    except TreespecError as error:
        measured = re.search(r"([\d.e+-]+) standard deviations", str(error).rpartition("but got")[2])
        miss = float(measured[1]) if measured else linear_misfit(w, model, y) if name == "boosting" else float("nan")
        reason = first(error) if not isinstance(error, DataMismatchError) else re.search(r"standard deviations \((.*)\)\.\n", str(error))[1]
        return [*head, "" if np.isnan(miss) else f"{miss:.2g}", "", f"refused: {reason}"], False
    errors, allowed = [], []
    for rows in (X, X_new):
        native = margins(model, w, name, rows)
        scale = native.std(axis=0).max()
        errors.append(np.abs(replayed(w, S, name, y, rows) - native).max() / scale)
        allowed.append(TOLERANCE + ULPS * np.abs(native).max() / scale * (w.forest.sum_dtype == "float32"))
    wrong = bool((np.array(errors) > allowed).any())
    return [*head, f"{errors[0]:.1e}", f"{errors[1]:.1e}", "SILENTLY WRONG" if wrong else "exact"], wrong


def first(error):
    """Return what came, from the message of an error."""
    return str(error).partition("\n")[0].partition("but got ")[2].rstrip(".")


def main() -> None:
    """Run every setting and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="settings whose framework or name holds this text")
    parser.add_argument("--write", action="store_true", help="write the table to docs/results")
    options = parser.parse_args()
    rows, wrong = [], []
    for name, cases in (("boosting", SQUARED), ("in-bag", FORESTS), ("boosting-tangent", SMOOTH)):
        for framework, setting, model, *more in cases:
            if options.only.lower() in f"{framework} {setting} {name}".lower():
                row, bad = examine(framework, setting, model, more[0] if more else "plain", name)
                rows.append(row)
                wrong += [row] * bad
                print(*row, sep=" | ", flush=True)
    columns = ["framework", "setting", "smoother", "max error / sd", "new rows", "verdict"]
    exact = sum(row[-1] == "exact" for row in rows)
    notes = (
        f"make_friedman1, noise 1, {ROWS} training rows, 500 new ones, {ROUNDS} rounds or trees. *max error / sd*: largest difference of "
        "what the smoother makes of the training labels and the framework's own predictions (margins for the tangent), in standard "
        "deviations of those; of a setting that is refused, how far the replay is off (of one whose loss is not squared: the plain "
        "recursion of squared loss). An error above 1e-5 is allowed only where ten units in the last place of a float32 output are more. "
        f"{exact} exact, {len(rows) - exact} refused, {len(wrong)} silently wrong."
    )
    print()
    publish("exactness", "Exactness of the smoothers", columns, rows, notes, write=options.write)
    if wrong:
        sys.exit(f"{len(wrong)} settings are silently wrong")


if __name__ == "__main__":
    main()
