"""The page of what is supported, written from the verdicts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from catalogue.case import Case

PAGE = Path(__file__).resolve().parents[2] / "docs" / "support.md"


def write_support(cases: Sequence[Case], verdicts: Sequence[Any]) -> None:
    """Write docs/support.md: framework and model, tasks, settings that are exact, settings that are refused and why."""
    lines = [
        "# Supported models", "",
        "Written by `python benchmarks/conformance.py --write`, which fits each of these models and compares it with its framework on rows",
        "made to break it; the figures stand in [the table](results/conformance.md). What is listed as exact has the framework's leaf in",
        "every tree on every row.", "",
    ]  # fmt: skip
    for framework in dict.fromkeys(c.framework for c in cases):
        lines += [f"## {framework}", "", "| model | task | exact | refused |", "|---|---|---|---|"]
        mine = [(c, v) for c, v in zip(cases, verdicts, strict=True) if c.framework == framework]
        for model in dict.fromkeys(c.model for c, _ in mine):
            own = [(c, v) for c, v in mine if c.model == model]
            tasks = dict.fromkeys(v.task for _, v in own if v.task)
            refused = [(c, v) for c, v in own if v.outcome == "refused"]
            first = True
            for task in tasks:
                exact = "; ".join(c.setting for c, v in own if v.task == task and v.outcome == "exact")
                lines.append(f"| {f'`{model}`' if first else ''} | {task} | {exact} | {_reasons(refused) if first else ''} |")
                first = False
            if first:
                lines.append(f"| `{model}` | | | {_reasons(refused)} |")
        lines.append("")
    PAGE.write_text("\n".join(lines).rstrip() + "\n", encoding="utf-8")


def _reasons(refused: Sequence[tuple[Case, Any]]) -> str:
    return "; ".join(f"{c.setting} ({v.reason.partition('but got ')[2].rstrip('.').replace('|', '/')})" for c, v in refused)
