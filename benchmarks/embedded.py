"""Builds students of 10 KB for a microcontroller, runs their generated self-tests there (in QEMU), and says what they take:

    python benchmarks/embedded.py

Machines: a Cortex-M3 (MPS2 AN385), where floating point is software, and a Cortex-M4 (AN386) with single precision in hardware. "flash" is
what the student adds to an image that holds the start-up alone, by the linker map: its constant data, its code, and what it needs of libgcc
and libm. "RAM" is the stack that predictions used (painted before, looked at after); there are no variables. Instructions are counted by
QEMU's `-icount shift=0`.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from datasets import load
from sklearn.ensemble import RandomForestRegressor
from table import publish
from xgboost import XGBClassifier, XGBRegressor

import treespec

HERE = Path(__file__).parent / "embedded"
GCC = "arm-none-eabi-gcc"
MACHINES = {
    "M3": ("mps2-an385", ["-mcpu=cortex-m3", "-mfloat-abi=soft"]),
    "M4F": ("mps2-an386", ["-mcpu=cortex-m4", "-mfloat-abi=hard", "-mfpu=fpv4-sp-d16"]),
}
FLAGS = ["-mthumb", "-std=c99", "-Os", "-Wall", "-Wextra", "-Werror", "-ffunction-sections", "-fdata-sections"]
LINK = [
    "-nostartfiles",
    "--specs=nano.specs",
    "--specs=nosys.specs",
    "-Wl,--gc-sections",
    "-Wl,--no-warn-rwx-segments",
    f"-Wl,-T,{HERE}/device.ld",
]
COLUMNS = ("student", "data", "machine", "n_bytes", "constant data", "flash", "RAM", "instructions a prediction", "at 64 MHz", "self-test")


def students(names: list[str]):
    """Yield (name, data set, student, options of to_c)."""
    for name in names:
        data = load(name)
        if data is None:
            print(f"{name}: not on this machine, left out")
            continue
        kind = XGBRegressor if data.task == "regression" else XGBClassifier
        w = treespec.wrap(
            kind(n_estimators=100, max_depth=6, n_jobs=1, random_state=0).fit(data.X[:4000], data.y[:4000]), data.X[:4000], data.y[:4000]
        )
        for compressor, options in (("boosted", {}), ("mlp", {"steps": 300}), ("scate", {"max_steps": 300})):
            yield compressor, name, w.distill("10KB", compressor=compressor, **options), {}
        if data.task == "regression":
            small = XGBRegressor(n_estimators=60, max_depth=6, n_jobs=1, random_state=0).fit(data.X[:4000], data.y[:4000])
            packed = treespec.wrap(small).distill("10KB", compressor="packed")
            yield f"packed, {packed.leaf_bits}-bit leaves", name, packed, {}
            yield "the same, integers alone", name, packed, {"unit": 0.01}
            forest = RandomForestRegressor(25, max_depth=6, random_state=0).fit(data.X[:4000], data.y[:4000])
            yield "packed, lossless", name, treespec.wrap(forest).distill("10KB", compressor="packed"), {}
        else:
            yield "mlp, without libm", name, w.distill("10KB", compressor="mlp", steps=300), {"libm": False}


def build(folder: Path, main: str, machine: str, objects: list[str], defines: list[str]) -> dict[str, int]:
    """Compile and link; return the sizes of the image's sections by the linker map."""
    files = [HERE / "start.c", HERE / main, *objects]
    command = [
        GCC,
        *MACHINES[machine][1],
        *FLAGS,
        *defines,
        f"-I{folder}",
        *files,
        *LINK,
        f"-Wl,-Map={folder}/map",
        "-o",
        folder / "image.elf",
        "-lm",
    ]
    subprocess.run([str(c) for c in command], check=True, cwd=folder)
    text = (folder / "map").read_text()
    return {name: int(size, 16) for name, size in re.findall(r"^(\.\w+)\s+0x[0-9a-f]+\s+(0x[0-9a-f]+)", text, re.MULTILINE)}


def flash(sections: dict[str, int]) -> int:
    """Return the bytes of flash of an image."""
    return sections[".text"] + sections.get(".data", 0)


def row(name: str, data: str, student, options: dict, machine: str) -> list[object]:
    """Return the table's row of one student on one machine."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        export = student.to_c(folder, **options)
        integer = "unit" in options
        kind = "int64_t" if "int64_t *out" in export.header.read_text() else "int32_t"
        defines = [f"-DINPUT={'int32_t' if integer else 'float'}", f"-DOUTPUT={kind if integer else 'float'}"]
        defines.append(f"-DTREESPEC_FUNCTION=treespec_{'margin' if integer else 'predict'}")
        empty = build(folder, "empty.c", machine, [], [])
        image = build(folder, "image.c", machine, [str(export.source)], defines)
        variables = (
            image.get(".bss", 0)
            - 4 * (student.outcome.n_features + export.n_outputs * (1 + (kind == "int64_t" and integer)))
            - empty.get(".bss", 0)
        )
        build(folder, "measure.c", machine, [str(export.source)], defines)
        command = ["qemu-system-arm", "-M", MACHINES[machine][0], "-kernel", folder / "image.elf", "-nographic", "-icount", "shift=0"]
        done = subprocess.run(
            [*command, "-semihosting-config", "enable=on,target=native"], capture_output=True, text=True, timeout=300, check=False
        )
        said = dict(re.findall(r"(stack|instructions) (\d+)", done.stdout + done.stderr))  # the console is QEMU's standard error
        if done.returncode or len(said) < 2:
            print(done.stdout, done.stderr, file=sys.stderr)
            return [name, data, machine, student.n_bytes, export.data_bytes, flash(image) - flash(empty), "", "", "", "FAILS"]
        n = int(said["instructions"])
        return [
            name, data, machine, student.n_bytes, export.data_bytes, flash(image) - flash(empty), int(said["stack"]) + max(0, variables), n,
            f"{n / 64e3:.2f} ms", "passes",
        ]  # fmt: skip


def main() -> None:
    """Build and run every student on every machine and print the table; exit status 1 where a self-test fails."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dataset", nargs="+", default=["california", "churn"])
    parser.add_argument("--write", action="store_true", help="write docs/results/embedded.md")
    options = parser.parse_args()
    for tool in (GCC, "qemu-system-arm"):
        if shutil.which(tool) is None:
            parser.error(f"{tool} is not installed: make test-embedded installs it")
    names = options.dataset if load(options.dataset[0]) is not None else ["friedman_1", "breast_cancer"]
    rows = [row(*student, machine) for student in students(names) for machine in MACHINES]
    notes = (
        "Bytes, but for instructions (one cycle or a few each, on the device). Code is compiled with -Os. Flash is by the linker map what\n"
        "the student adds to an image of the start-up alone: data, code, and what it calls of libgcc and libm. RAM is stack; there are no\n"
        "variables. M3: floating point in software; M4F: float32 in hardware. Instructions are counted by QEMU's -icount."
    )
    publish("embedded", "Students of 10 KB on a microcontroller", COLUMNS, rows, notes, write=options.write)
    sys.exit(any(r[-1] != "passes" for r in rows))


if __name__ == "__main__":
    main()
