"""Prints tables, and writes them to docs/results with what is needed to repeat them."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Sequence
from datetime import date
from importlib.metadata import version
from pathlib import Path

RESULTS = Path(__file__).resolve().parents[1] / "docs" / "results"
PACKAGES = ("treespec", "numpy", "scipy", "scikit-learn", "treelite", "xgboost", "lightgbm", "torch")


def markdown(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Return a Markdown table with aligned columns."""
    cells = [list(columns), *[[str(c) for c in row] for row in rows]]
    width = [max(len(row[j]) for row in cells) for j in range(len(columns))]
    lines = ["| " + " | ".join(c.ljust(w) for c, w in zip(row, width, strict=True)) + " |" for row in cells]
    lines.insert(1, "|" + "|".join("-" * (w + 2) for w in width) + "|")
    return "\n".join(lines)


def publish(
    name: str, title: str, columns: Sequence[str], rows: Sequence[Sequence[object]], notes: str = "", *, write: bool = True
) -> None:
    """Print a table, and write it to ``docs/results/NAME.md`` with command, versions, cores and date."""
    table = markdown(columns, rows)
    print(table)
    if notes:
        print("\n" + notes)
    if not write:
        return
    packages = ", ".join(f"{p} {version(p)}" for p in PACKAGES)
    text = f"""# {title}

Command: `python {os.path.relpath(sys.argv[0])} {" ".join(sys.argv[1:])}`

{date.today().isoformat()}; {os.cpu_count()} cores, {platform.machine()}; Python {platform.python_version()}, {packages}.

{table}

{notes}
"""
    RESULTS.mkdir(parents=True, exist_ok=True)
    (RESULTS / f"{name}.md").write_text(text.rstrip() + "\n", encoding="utf-8")
