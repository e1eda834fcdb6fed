"""Models with random hyper-parameters on random data, wrapped and compared with their framework:

    python benchmarks/differential.py --models 2000 --write

Rows, comparisons and forms as in conformance.py. Exit status 1 if anything is wrong.
"""

from __future__ import annotations

import argparse
import sys
import traceback
import warnings
from collections import Counter, defaultdict
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

import numpy as np
from table import publish

from random_models import Draw, draw
from verdict import Verdict, judge

COLUMNS = ("model", "models", "exact", "bit-equal", "refused", "wrong", "crash", "untrained", "rows", "margin error")


def verdict_of(seed: int) -> tuple[Draw, Verdict]:
    """Return the model of a seed and the verdict on it; "untrained" where the framework itself refuses the combination."""
    drawn = draw(seed)
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            model = drawn.make()
    except Exception as error:
        return drawn, Verdict("untrained", f"{type(error).__name__}: {error}".split("\n", maxsplit=1)[0])
    try:
        return drawn, judge(lambda: model, seed=seed, n_random=150, max_nodes=80)
    except Exception as error:
        traceback.print_exc()
        return drawn, Verdict("CRASH", f"{type(error).__name__}: {error}".split("\n", maxsplit=1)[0])


def main() -> int:
    """Judge the models and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", type=int, default=2000)
    parser.add_argument("--first", type=int, default=0, help="seed of the first model")
    parser.add_argument("--write", action="store_true", help="write docs/results/differential.md")
    options = parser.parse_args()
    verdicts: dict[str, list[Verdict]] = defaultdict(list)
    reasons: Counter[str] = Counter()
    for seed in range(options.first, options.first + options.models):
        drawn, verdict = verdict_of(seed)
        verdicts[drawn.name].append(verdict)
        if verdict.outcome in ("WRONG", "CRASH"):
            print(f"seed {seed}: {drawn.name}: {verdict.outcome}: {verdict.reason}; {drawn.options}", flush=True)
        elif verdict.outcome != "exact":
            reasons[f"{drawn.name}: {verdict.outcome}: {verdict.reason[:150]}"] += 1
    for reason, n in reasons.most_common():
        print(f"{n} x {reason}")
    rows = [row(name, verdicts[name]) for name in sorted(verdicts)]
    rows.append(row("all", [v for own in verdicts.values() for v in own]))
    seeds = f"Seeds {options.first} to {options.first + options.models - 1}. "
    notes = seeds + "*untrained*: the framework itself refuses the combination of options."
    publish("differential", "Random models against their frameworks", COLUMNS, rows, notes, write=options.write)
    return 1 if rows[-1][5] or rows[-1][6] else 0


def row(name: str, own: list[Verdict]) -> list[object]:
    """Return the table's row of some verdicts."""
    count = Counter(v.outcome for v in own)
    exact = [v for v in own if v.outcome == "exact"]
    error = max((v.margin_error for v in exact), default=0.0)
    equal = sum(v.bit_equal for v in exact)
    counts = (count["exact"], equal, count["refused"], count["WRONG"], count["CRASH"], count["untrained"])
    return [name, len(own), *counts, sum(v.n_rows for v in own), f"{error:.0e}" if error else "0"]


if __name__ == "__main__":
    sys.exit(main())
