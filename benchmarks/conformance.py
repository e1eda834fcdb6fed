"""Every kind of tree model, wrapped and compared with its framework on rows made to break adapters:

    python benchmarks/conformance.py --write

Rows: thresholds and their float32 and float64 neighbours, NaN, infinities, signed zeros, subnormal and huge numbers, unseen, negative and
fractional categories; as float64, float32, integers, sparse matrix and frames. Leaves are compared by three routes (framework, Treelite,
reference traversal); the framework is asked directly. Exit status 1 if anything is wrong.
"""

from __future__ import annotations

import argparse
import re
import sys
import traceback
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from table import publish

from catalogue import CASES, Case
from catalogue.support import write_support
from verdict import Verdict, judge

COLUMNS = ("framework", "model", "setting", "task", "trees", "rows", "wrong leaves", "margin error", "bit-equal", "verdict")


def verdict_of(case: Case) -> Verdict:
    """Return the verdict on a case, which includes whether it was to be expected."""
    try:
        verdict = judge(case.make, frames=case.frames(), n_forms=0 if case.whole else None)
    except Exception as error:
        traceback.print_exc()
        return Verdict("CRASH", f"{type(error).__name__}: {error}".split("\n", maxsplit=1)[0])
    if verdict.outcome == "refused" and not case.refused:
        return Verdict("WRONG", f"refused: {verdict.reason}")
    if verdict.outcome != "refused" and case.refused:
        return Verdict("WRONG", f"not refused, though it should be for {case.refused!r}")
    if case.refused and not re.search(case.refused, verdict.reason):
        return Verdict("WRONG", f"refused for another reason: {verdict.reason}")
    return verdict


def cells(case: Case, verdict: Verdict) -> list[object]:
    """Return a row of the table."""
    head = [case.framework, case.model, case.setting]
    if verdict.outcome != "exact":
        return [*head, verdict.task, "", "", "", "", "", f"{verdict.outcome}: {plain(verdict.reason)}"]
    equal = "yes" if verdict.bit_equal else "no"
    error = f"{verdict.margin_error:.0e}" if verdict.margin_error else "0"
    leaves = "" if case.whole else verdict.wrong_leaves
    return [*head, verdict.task, verdict.n_trees, verdict.n_rows, leaves, error, equal, "exact"]


def plain(reason: str) -> str:
    """Return a reason that a table can hold."""
    return reason.partition("Error: ")[2].replace("|", "/") or reason.replace("|", "/")


def main() -> int:
    """Judge the models and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="only models whose framework, class or setting holds this text")
    parser.add_argument("--write", action="store_true", help="write docs/results/conformance.md and docs/support.md")
    options = parser.parse_args()
    chosen = [c for c in CASES if options.only in f"{c.framework} {c.model} {c.setting}"]
    verdicts = []
    for case in chosen:
        verdicts.append(verdict_of(case))
        if verdicts[-1].outcome in ("WRONG", "CRASH"):
            print(f"{case.framework} {case.model} ({case.setting}): {verdicts[-1].outcome}: {verdicts[-1].reason}", flush=True)
    count = Counter(v.outcome for v in verdicts)
    n_rows, n_equal = sum(v.n_rows for v in verdicts), sum(v.bit_equal for v in verdicts if v.outcome == "exact")
    notes = (
        f"{len(verdicts)} models: {count['exact']} exact ({n_equal} of them with bit-equal margins), {count['refused']} refused, "
        f"{count['WRONG']} wrong, {count['CRASH']} crashes; {n_rows:,} rows, {sum(v.wrong_leaves for v in verdicts)} wrong leaves. "
        "Models of models tell no leaves: their predictions are compared. "
        "*margin error*: largest difference from the framework's margin, relative to the larger of 1 and that margin."
    )
    rows = [cells(case, verdict) for case, verdict in zip(chosen, verdicts, strict=True)]
    complete = options.write and not options.only
    publish("conformance", "Conformance: every model against its framework", COLUMNS, rows, notes, write=complete)
    if complete:
        write_support(chosen, verdicts)
    return 1 if count["WRONG"] or count["CRASH"] else 0


if __name__ == "__main__":
    sys.exit(main())
