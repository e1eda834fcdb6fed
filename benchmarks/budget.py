"""The compression benchmark of the SCATE paper: every method on 15 data sets, two ensembles and two budgets, beside the published figures.

    python benchmarks/budget.py --seeds 0            # every figure is kept in docs/results/budget.jsonl as soon as it is there
    python benchmarks/budget.py --seeds --write      # the table made of what is there; nothing is run

``budget_notes.md`` beside this file is written by hand, and goes below the table.

The paper's splits and preprocessing are not published, so gains are compared: a student's score minus its base's. Each method learns from
the same rows and is chosen on the same validation rows; ``auto`` races the very students of the others.
"""

from __future__ import annotations

import argparse
import csv
import json
import time
from collections import defaultdict
from pathlib import Path

import numpy as np
from datasets import load
from sklearn.model_selection import train_test_split
from table import RESULTS, publish

import treespec
from distill import PUBLISHED, base_model, score
from treespec.distill.auto import TIME_LIMIT
from treespec.distill.budget import parse_budget
from treespec.distill.run import make_data
from treespec.errors import TreespecError
from treespec.plugins import manager

CHEAPEST_FIRST = (
    "breast_cancer", "auto_mpg", "banknote", "diabetes_pima", "boston", "student_por", "concrete", "friedman_1", "abalone",
    "wine_quality_white", "spambase", "telco_churn", "churn", "california", "adult",
)  # fmt: skip
ENSEMBLES, BUDGETS = ("gbm", "rf"), ("10KB", "100KB")
OURS = ("scate", "mlp", "packed", "boosted", "forestprune", "lop", "leaf-refit", "fp-scate")
STORE = RESULTS / "budget.jsonl"
BY_HAND = Path(__file__).with_name("budget_notes.md")
SLOW = 20.0  # CPU seconds that a candidate may take
LEAST_LEFT = 1.0  # seconds that ``auto`` has for what is there already


def key(record):
    return tuple(record[k] for k in ("data", "base", "seed", "budget", "method"))


def stored():
    """Return every figure that is there, by what it is of; the last one of a kind counts."""
    if not STORE.exists():
        return {}
    return {key(r): r for r in map(json.loads, STORE.read_text(encoding="utf-8").splitlines())}


def keep(record):
    with STORE.open("a", encoding="utf-8") as file:
        file.write(json.dumps(record) + "\n")
    print(*(f"{v:.4f}" if isinstance(v, float) else v for v in record.values()), flush=True)


def distilled(compressor, wrapped, size, data, seed):
    """Return a student or an error, and the seconds of CPU that it took."""
    start = time.process_time()
    try:
        made = compressor(wrapped, size, data=data, random_state=seed, progress=None)
    except TreespecError as error:
        made = error
    return made, time.process_time() - start


def again(compressor, made, rows):
    """Return a compressor that gives what is there already for these rows, and works for others."""

    def known(teacher, budget, *, data, **options):
        if data is not rows:
            return compressor(teacher, budget, data=data, **options)
        if isinstance(made, TreespecError):
            raise made
        return made

    return known


def run(name, ensemble, seed, budgets, done):
    """Run what is not there yet of one data set, ensemble and seed."""
    data = load(name)
    if data is None:
        print(f"skipped {name}: its file is not on this machine")
        return
    wanted = [b for b in budgets if any((name, ensemble, seed, b, m) not in done for m in (*OURS, "auto"))]
    if not wanted:
        return
    X, X_test, y, y_test = train_test_split(data.X, data.y, test_size=0.2, random_state=seed)
    wrapped = treespec.wrap(base_model(ensemble, data.task, seed).set_params(n_jobs=1).fit(X, y), X, y)
    base = score(data, y_test, wrapped.predict(X_test))
    registry = {s.name: s.function for s in manager().registry("compressor").values()}
    rows = make_data(wrapped, wrapped.rows, "auto", seed, manager().adapt)
    for budget in wanted:
        head = {"data": name, "base": ensemble, "seed": seed, "budget": budget}
        made = {m: distilled(registry[m], wrapped, parse_budget(budget), rows, seed) for m in OURS}
        for method, (student, seconds) in made.items():
            keep(head | {"method": method} | told(data, X_test, y_test, student, base, seconds))
        known = {m: again(registry[m], student, rows) for m, (student, _) in made.items()}
        spent = sum(s for _, s in made.values())
        start = time.process_time()
        winner = registry["auto"](
            wrapped, parse_budget(budget), data=rows, random_state=seed, progress=None, compressors=known,
            time_limit=max(LEAST_LEFT, TIME_LIMIT - spent),
        )  # fmt: skip
        seconds = time.process_time() - start + spent
        raced = winner.report["raced"]
        chosen = {
            "chosen": winner.report["compressor"],
            "n": len(X),
            "validation": {e["compressor"]: e.get("loss", e.get("in-sample loss")) for e in raced},
            "folds": {e["compressor"]: [e["loss on folds"], e["folds"]] for e in raced if "folds" in e},
            "lossless": bool(getattr(made["packed"][0], "is_exact", False)),
        }
        keep(head | {"method": "auto"} | told(data, X_test, y_test, winner, base, seconds) | chosen)


def told(data, X, y, student, base, seconds):
    """Return the figures of a student, or why there is none."""
    if isinstance(student, TreespecError):
        return {"base_score": base, "score": None, "bytes": None, "seconds": seconds, "why": str(student).split("\n", maxsplit=1)[0]}
    return {"base_score": base, "score": score(data, y, student.predict(X)), "bytes": student.n_bytes, "seconds": seconds}


# ---- what it comes to


def published():
    """Return what is published: (data, ensemble, budget) to {method: (gain, standard error, score)}."""
    out = defaultdict(dict)
    if PUBLISHED.exists():
        with PUBLISHED.open(encoding="utf-8") as file:
            for row in csv.DictReader(file):
                if row["score"] not in ("NA", "TO"):
                    score = float(row["score"])
                    figures = score - float(row["base_score"]), float(row["standard_error"]), score
                    out[row["dataset"], row["ensemble"], row["budget"]][row["method"]] = figures
    return out


def gains(records, cell, method):
    """Return gains over the seeds of one cell, those of no student left out."""
    name, ensemble, budget = cell
    of = [r for r in records if (r["data"], r["base"], r["budget"], r["method"]) == (name, ensemble, budget, method)]
    return np.array([r["score"] - r["base_score"] for r in of if r["score"] is not None]), of


SHORT = {"forestprune": "prune", "leaf-refit": "refit", "fp-scate": "fp-sc."}
COLUMNS = (
    "data", "base", "KB", "score", "published", "auto", "chosen", "ok", "SCATE, p.", *[SHORT.get(m, m) for m in OURS], "regret",
)  # fmt: skip
FEW_ROWS = 10_000

NOTES = """R2 for regression, accuracy for classes, on a fifth of the rows that no model was fitted on. *score*: of the model itself,
mean over the seeds; all others are gains on it. *published*: the best of all methods in the paper, *SCATE, p.*: SCATE there. *ok*: the
gain of `auto` is at least the published one less one combined standard error (of a single seed none is known: the published one alone
counts). *prune*, *refit*, *fp-sc.*: `forestprune`, `leaf-refit`, `fp-scate`. *regret*: of `auto` to the best of our methods on the test
rows. NA: no student of that size (`packed`: the model's own trees do not fit). `auto` has its usual time limit, less what the
candidates took, all of which run.
"""


def summary(records):
    """Return the rows of the table, and its notes."""
    reference = published()
    rows, missed, regrets, absent = [], [], [], []
    verdicts = {"auto": [], "lossless": [], "scate": [], "auto, score": [], "scate, score": []}
    for cell in [(d, e, b) for d in CHEAPEST_FIRST for e in ENSEMBLES for b in BUDGETS]:
        auto, of = gains(records, cell, "auto")
        if not len(auto):
            absent.append(" ".join(cell))
            continue
        own = {m: gains(records, cell, m)[0] for m in OURS}
        theirs = reference.get(cell, {})
        best = max(theirs.items(), key=lambda item: item[1][0], default=None)
        regrets.append(max(g.mean() for g in own.values() if len(g)) - auto.mean())
        chosen = "/".join(sorted({r["chosen"] for r in of}))
        base = np.mean([r["base_score"] for r in of])
        if best is not None:
            verdicts["auto"].append(within(auto, best[1]))
            verdicts["lossless"].append(within(np.zeros(1), best[1]) if all(r["lossless"] for r in of) else verdicts["auto"][-1])
            verdicts["scate"].append(within(own["scate"], theirs["SCATE"]))
            verdicts["auto, score"].append(within(auto + base, best[1][::-1]))
            verdicts["scate, score"].append(within(own["scate"] + base, theirs["SCATE"][::-1]))
            missed.append((auto.mean() - best[1][0], *cell, best[0], chosen))
        rows.append([
            cell[0], cell[1], cell[2].removesuffix("KB"), f"{base:.3f}", shown(best), spread(auto), chosen,
            "" if best is None else "yes" if verdicts["auto"][-1] else "no", shown(("", theirs["SCATE"])) if theirs else "",
            *[spread(own[m]) if len(own[m]) else "NA" for m in OURS], f"{regrets[-1]:.3f}",
        ])  # fmt: skip
    if not regrets:
        return rows, NOTES
    reached = {what: f"{sum(v)} of {len(v)}" for what, v in verdicts.items()}
    seconds = np.array([r["seconds"] for r in records if r["method"] != "auto"])
    whole = np.array([r["seconds"] for r in records if r["method"] == "auto" and r["n"] <= FEW_ROWS])
    worst = [f"{d} {e} {b}: {gap:+.3f} (`auto` took {took}; published: {m})" for gap, d, e, b, m, took in sorted(missed)[:10]]
    lines = [
        f"Seeds: {', '.join(map(str, sorted({r['seed'] for r in records})))}. Not run: {'; '.join(absent) or 'none'}.",
        f"`auto` reaches the best published gain in {reached['auto']} cells, the published score itself in {reached['auto, score']}.",
        f"Where the model fits lossless, `auto` races it; had it been taken without a race: {reached['lossless']}.",
        f"`scate` reaches the published gain of SCATE in {reached['scate']} cells, its score in {reached['scate, score']}.",
        f"Mean regret of `auto`: {np.mean(regrets):.4f}; median {np.median(regrets):.4f}, largest {np.max(regrets):.4f}.",
        f"{int((seconds > SLOW).sum())} of {len(seconds)} candidates took more than {SLOW:.0f} s of CPU.",
        f"Median {np.median(seconds):.1f} s, largest {seconds.max():.0f} s.",
        f"A race on up to {FEW_ROWS:,} rows, with folds: median {np.median(whole):.0f} s of CPU, largest {whole.max():.0f} s.",
        f"{int((whole > 90).sum())} of {len(whole)} such races took more than 90 s.",
        "Gain of `auto` less the best published gain, the ten smallest: " + "; ".join(worst) + ".",
    ]
    return rows, "\n".join([NOTES, *[f"* {line}" for line in lines], "", BY_HAND.read_text(encoding="utf-8")])


def within(ours, theirs):
    """Tell whether gains are on average at least the published one less one combined standard error."""
    own = ours.std(ddof=1) / np.sqrt(len(ours)) if len(ours) > 1 else 0.0
    return bool(ours.mean() >= theirs[0] - np.hypot(theirs[1], own))


def spread(values):
    error = f" +- {values.std(ddof=1) / np.sqrt(len(values)):.3f}" if len(values) > 1 else ""
    return f"{values.mean():+.3f}{error}"


def shown(item):
    if item is None:
        return ""
    method, (gain, error, _) = item
    return f"{method} {gain:+.3f} +- {error:.3f}".strip()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dataset", nargs="+", default=CHEAPEST_FIRST, choices=CHEAPEST_FIRST)
    parser.add_argument("--seeds", nargs="*", type=int, default=[0, 1, 2])
    parser.add_argument("--base", nargs="+", default=ENSEMBLES, choices=ENSEMBLES)
    parser.add_argument("--budget", nargs="+", default=BUDGETS, choices=BUDGETS)
    parser.add_argument("--write", action="store_true", help="write the table to docs/results/budget.md")
    options = parser.parse_args()
    for seed in options.seeds:
        for name in options.dataset:
            for ensemble in options.base:
                run(name, ensemble, seed, options.budget, stored())
    rows, notes = summary(list(stored().values()))
    publish("budget", "Every method at 10 KB and 100 KB", COLUMNS, rows, notes, write=options.write)


if __name__ == "__main__":
    main()
