"""Mutated files: what reading each comes to, in children forked from a warm process, with 1 GB of memory and 5 s each:

    python benchmarks/fuzz.py --files 10000 --write

The checksum of treespec's own files is put right in nine of ten, so that the damage gets past it. Exit status 1 on any crash, hang, or
exception that is no treespec error. Files with findings are kept in build/fuzz.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from table import publish

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from mutation import run
from readers import READERS

COLUMNS = ("format", "files", "refused with an error", "valid", "crash", "hang", "other exception", "slowest s")


def main() -> int:
    """Fuzz each reader and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, default=10_000, help="files of each format")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--format", nargs="+", default=list(READERS))
    parser.add_argument("--write", action="store_true", help="write docs/results/fuzz.md")
    options = parser.parse_args()
    rows, bad = [], 0
    for name in options.format:
        reader = READERS[name]
        outcome = run(reader.read, reader.mutated(options.files, options.seed))
        keep(name, outcome.findings)
        n = outcome.counts
        bad += n["crash"] + n["hang"] + n["exception"]
        rows.append([name, sum(n.values()), n["error"], n["valid"], n["crash"], n["hang"], n["exception"], f"{outcome.slowest:.2f}"])
        print(*rows[-1], flush=True)
    notes = (
        "*valid*: the damage left a file that describes an object, which was then used to predict. Limits of each child: "
        "5 s a file, 1 GB of memory above the warm process."
    )
    publish("fuzz", "Mutated files", COLUMNS, rows, notes, write=options.write)
    return 1 if bad else 0


def keep(name: str, findings: list[tuple[str, bytes]]) -> None:
    """Keep files with findings and print what happened."""
    folder = ROOT / "build" / "fuzz"
    for k, (what, content) in enumerate(findings[:50]):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{name.replace(' ', '_')}_{k}").write_bytes(content)
        print(f"{name} {k}: {what}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
