"""Influence: the ten most influential labels of a prediction are removed or flipped, the leaf values refitted, and the prediction moves.

    python benchmarks/influence.py

Splits are held fixed, as `influence` says. *Predicted*: the tangent times the change of the labels; *moved*: what the refitted model says.
"""

from __future__ import annotations

import argparse

import numpy as np
from exactness_settings import counts, hgb, lgb, lgbc, three, two, xgb, xgbc
from sklearn.datasets import make_friedman1
from sklearn.ensemble import GradientBoostingClassifier, HistGradientBoostingClassifier
from table import publish

import treespec

ROWS, NEW, TOP = 1500, 50, 10
CLEAR = 0.1  # of the largest predicted move: below, a sign means little
CASES = [
    ("XGBoost", "logistic", xgbc(), two),
    ("XGBoost", "softmax", xgbc(), three),
    ("XGBoost", "Poisson", xgb(objective="count:poisson", max_depth=3), counts),
    ("LightGBM", "logistic", lgbc(num_leaves=8), two),
    ("LightGBM", "softmax", lgbc(num_leaves=8), three),
    ("LightGBM", "Poisson", lgb(objective="poisson", num_leaves=8), counts),
    ("scikit-learn GradientBoosting", "logistic", GradientBoostingClassifier(random_state=0), two),
    ("scikit-learn GradientBoosting", "softmax", GradientBoostingClassifier(random_state=0), three),
    ("scikit-learn HistGradientBoosting", "logistic", HistGradientBoostingClassifier(max_leaf_nodes=8, random_state=0), two),
    ("scikit-learn HistGradientBoosting", "softmax", HistGradientBoostingClassifier(max_leaf_nodes=8, random_state=0), three),
    ("scikit-learn HistGradientBoosting", "Poisson", hgb(loss="poisson", max_leaf_nodes=8), counts),
]


def said(J, rows):
    """Return what the model predicts for training rows, (k, K): a label that says the same has no pull."""
    F = J.margin[rows]
    if type(J.loss).__name__ == "Poisson":
        return np.exp(F)
    return np.exp(F) / np.exp(F).sum(axis=1, keepdims=True) if F.shape[1] > 1 else 1 / (1 + np.exp(-F))


def change(J, rows, how):
    """Return the change (n, K) of the labels of some rows."""
    dy = np.zeros_like(J.y)
    if how == "removed":
        dy[rows] = said(J, rows) - J.y[rows]
    elif J.y.shape[1] > 1:
        dy[rows] = np.roll(J.y[rows], 1, axis=1) - J.y[rows]
    else:
        dy[rows] = 1 - 2 * J.y[rows]
    return dy


def moves(w, X_new, how):
    """Return predicted and true moves of the margin of each new row, of the class that is predicted."""
    J = w.smoother("boosting-tangent")
    before, cross = J.predict(X_new), J.cross(X_new)
    output = before.argmax(axis=1) if J.n_outputs > 1 else np.zeros(len(X_new), int)
    influential = w.influence(X_new, top=TOP)
    predicted, moved = np.empty(len(X_new)), np.empty(len(X_new))
    for j, k in enumerate(output):
        dy = change(J, influential.indices[influential.indptr[j] : influential.indptr[j + 1]], how)
        predicted[j] = (cross @ dy.ravel()).reshape(-1, J.n_outputs)[j, k]
        moved[j] = J.refit(J.y + dy).predict(X_new[j : j + 1])[0, k] - before[j, k]
    return predicted, moved


def main() -> None:
    """Run every model and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="write the table to docs/results")
    options = parser.parse_args()
    X, y = make_friedman1(ROWS + NEW, noise=1.0, random_state=0)
    rows = []
    for framework, loss, model, target in CASES:
        labels = target(y)[:ROWS]
        w = treespec.wrap(model.fit(X[:ROWS], labels), X[:ROWS], labels)
        freedom = w.smoother("boosting-tangent").degrees_of_freedom()
        for how in ("removed", "flipped"):
            if how == "flipped" and loss == "Poisson":
                continue
            predicted, moved = moves(w, X[ROWS:], how)
            clear = np.abs(predicted) > CLEAR * np.abs(predicted).max()
            signs = (np.sign(predicted) == np.sign(moved))[clear].mean()
            together, size = np.corrcoef(predicted, moved)[0, 1], np.median(moved[clear] / predicted[clear])
            moved_by = np.median(np.abs(moved)) / w.margin(X[:ROWS]).std()
            rows.append(
                [framework, loss, how, f"{moved_by:.2f}", f"{signs:.0%}", f"{together:.3f}", f"{size:.2f}", f"{freedom:.0f}"]
            )  # fmt: skip
            print(*rows[-1], sep=" | ", flush=True)
    columns = ["framework", "loss", "ten labels", "median move / sd", "same sign", "correlation", "moved / predicted", "degrees of freedom"]
    notes = (
        f"make_friedman1, {ROWS} training rows, {NEW} new ones, 100 rounds. For each new row the {TOP} labels of largest influence on the "
        "margin of its predicted class are *removed* (they say what the model says anyway) or *flipped* (the other, the next of "
        "three), and all leaf values are refitted. *median move / sd*: size of the true move. *same sign*: among moves predicted to be at "
        "least a tenth of the largest. *moved / predicted*: the median ratio; 1 in the limit of small changes, ten whole labels are none. "
        "*degrees of freedom*: of the fitted probabilities or rates (of all classes together), Hutchinson estimate."
    )
    publish("influence", "Influence of labels: predicted and true moves", columns, rows, notes, write=options.write)


if __name__ == "__main__":
    main()
