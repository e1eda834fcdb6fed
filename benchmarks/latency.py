"""Time of one row, and of many: students of 10 KB beside the model that they stand for, Treelite, and tl2cgen's compiled C of the model.

    python benchmarks/latency.py --dataset california churn

"C" times are a loop in C over 1,000 rows (gcc -O2; the least of many rounds); "Python" times are one call for one row from Python. Ratios
are of times in the same run. Batches are 5,000 rows: the student is numpy, the model its own native code, one thread each.
"""

from __future__ import annotations

import argparse
import ctypes
import subprocess
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import tl2cgen
import treelite
import xgboost
from datasets import Dataset, load
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from table import publish

import treespec

ROWS = 1000
BATCH = 5000
COLUMNS = (
    "set", "model", "student", "bytes", "model us", "Treelite us", "tl2cgen us", "student C us", "fast C us", "from Python us",
    "tl2cgen in C us",
    "model / C", "model / fast C", "tl2cgen / from Python", "tl2cgen in C / fast C", "batch model us", "batch student us", "batch ratio",
)  # fmt: skip
LOOP = """
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
static double now(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec * 1e6 + t.tv_nsec * 1e-3; }
int main(void)
{
    float *rows = malloc(N * F * sizeof(float)), out[64];
    double least = 1e30, sum = 0;
    int i, j, r;
    if (fread(rows, sizeof(float), N * F, stdin) != N * F) return 1;
    (void)j;
    for (r = 0; r < 60; r++) {
        int from = r % 5 * (N / 5);
        double begin = now(), end;
        for (i = from; i < from + N / 5; i++) { CALL; sum += out[0]; }
        end = now();
        if (end - begin < least) least = end - begin;
    }
    printf("%.4f %g\\n", least / (N / 5), sum);
    return 0;
}
"""


def microseconds(call: Callable[[int], object], n: int = 200) -> float:
    """Return the median time of calls for single rows."""
    times = []
    for i in range(n):
        begin = time.perf_counter()
        call(i)
        times.append(time.perf_counter() - begin)
    return float(np.median(times) * 1e6)


def loop_time(folder: Path, include: str, call: str, sources: list[str], rows: np.ndarray) -> float:
    """Return the microseconds of a row in a loop in C."""
    text = f"#define N {len(rows)}\n#define F {rows.shape[1]}\n{include}\n" + LOOP.replace("CALL", call)
    (folder / "loop.c").write_text(text)
    subprocess.run(["gcc", "-std=gnu99", "-O2", "-w", "loop.c", *sources, "-o", "loop", "-lm"], cwd=folder, check=True)
    out = subprocess.run([folder / "loop"], input=rows.tobytes(), check=True, capture_output=True).stdout
    return float(out.split()[0])


def student_times(student: object, rows: np.ndarray, folder: Path) -> tuple[float, float | None, float]:
    """Return microseconds of a row: in C, in fast C (trees alone), from Python."""
    student.to_c(folder, "m")
    plain = loop_time(folder, '#include "m.h"', "m_predict(rows + i * F, out)", ["m.c"], rows)
    subprocess.run(["gcc", "-std=c99", "-O2", "-shared", "-fPIC", "m.c", "-o", "m.so", "-lm"], cwd=folder, check=True)
    predict = ctypes.CDLL(str(folder / "m.so")).m_predict
    out = np.zeros(64, np.float32)
    place, to = rows.ctypes.data, ctypes.c_void_p(out.ctypes.data)
    step = rows.strides[0]
    called = microseconds(lambda i: predict(ctypes.c_void_p(place + i * step), to))
    if student.kind != "packed":
        return plain, None, called
    student.to_c(folder, "m", fast=True)
    return plain, loop_time(folder, '#include "m.h"', "m_predict(rows + i * F, out)", ["m.c"], rows), called


def tl2cgen_times(model: treelite.Model, rows: np.ndarray, folder: Path) -> tuple[float, float]:
    """Return microseconds of a row with tl2cgen's compiled C of the model: called from Python, and in C."""
    library = folder / "base.so"
    tl2cgen.export_lib(model, toolchain="gcc", libpath=str(library), params={"parallel_comp": 4}, options=["-O2"])
    predictor = tl2cgen.Predictor(str(library), nthread=1)
    called = microseconds(lambda i: predictor.predict(tl2cgen.DMatrix(rows[i : i + 1])))
    code = folder / "code"
    tl2cgen.generate_c_code(model, str(code), params={"parallel_comp": 4})
    fill = "for (j = 0; j < F; j++) e[j].fvalue = rows[i * F + j]; predict(e, 0, out)"
    include = '#include "code/header.h"\nstatic union Entry e[F];\n'
    return called, loop_time(folder, include, fill, [str(p) for p in sorted(code.glob("*.c"))], rows)


def models(data: Dataset, seed: int) -> dict[str, object]:
    """Return the models of the table: the paper's boosted one, and a forest that a compiler still takes."""
    task = data.task == "regression"
    forest = RandomForestRegressor if task else RandomForestClassifier
    boosted = xgboost.XGBRegressor if task else xgboost.XGBClassifier
    return {
        "XGBoost, 100 trees": boosted(n_estimators=100, max_depth=6, n_jobs=1, random_state=seed),
        "forest, 100 trees of 500 leaves": forest(100, max_leaf_nodes=500, n_jobs=1, random_state=seed),
    }


def alone(predict: Callable, rows: np.ndarray, n: int = 200) -> float:
    """Return the median microseconds of predicting a single row."""
    return microseconds(lambda i: predict(rows[i : i + 1]), n)


def together(predict: Callable, rows: np.ndarray) -> float:
    """Return the microseconds a row of predicting many, the best of five."""
    return min(microseconds(lambda _: predict(rows), 1) for _ in range(5)) / len(rows)


def rows_of(data: Dataset, options: argparse.Namespace):
    """Yield the table's rows of one data set."""
    y = data.y
    for name, model in models(data, 0).items():
        if options.model not in name:
            continue
        model.fit(data.X[:8000], y[:8000])
        rows = np.ascontiguousarray(data.X[np.random.default_rng(0).integers(len(data.X), size=ROWS)], np.float32)
        many = np.ascontiguousarray(data.X[np.random.default_rng(1).integers(len(data.X), size=BATCH)], np.float32)
        plain = name.startswith("forest")
        tree = treelite.sklearn.import_model(model) if plain else treelite.frontend.from_xgboost(model.get_booster())
        w = treespec.wrap(model, data.X[:8000], y[:8000])
        base = alone(model.predict, rows, 60 if plain else 200)
        lite = alone(partial(treelite.gtil.predict, tree, nthread=1), rows)
        batch = together(model.predict, many)
        with tempfile.TemporaryDirectory() as place:
            compiled, in_c = tl2cgen_times(tree, rows, Path(place))
        for compressor in options.student:
            student = w.distill("10KB", compressor=compressor)
            with tempfile.TemporaryDirectory() as place:
                plain_c, fast_c, called = student_times(student, rows, Path(place))
            student.predict(many[:10])
            own = together(student.predict, many)
            best = plain_c if fast_c is None else fast_c
            yield [
                data.name, name, compressor, student.n_bytes, f"{base:.0f}", f"{lite:.0f}", f"{compiled:.0f}", f"{plain_c:.2f}",
                "" if fast_c is None else f"{fast_c:.2f}", f"{called:.1f}", f"{in_c:.2f}", f"{base / plain_c:.0f}", f"{base / best:.0f}",
                f"{compiled / called:.1f}", f"{in_c / best:.2f}", f"{batch:.2f}", f"{own:.2f}", f"{own / batch:.2f}",
            ]  # fmt: skip


def main() -> None:
    """Measure every student and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dataset", nargs="+", default=["california", "churn", "concrete"])
    parser.add_argument("--student", nargs="+", default=["boosted", "mlp"])
    parser.add_argument("--model", default="", help="models whose name holds this, alone")
    parser.add_argument("--write", action="store_true", help="write docs/results/latency.md")
    options = parser.parse_args()
    notes = (
        "Microseconds a row. 'C' times are a loop in C (gcc -O2), the others single calls from Python (medians). Ratios above 1 say how\n"
        "many times faster the student is; the batch ratio is the student's time (numpy) over the model's own (native), both of 5,000 rows."
    )
    rows = []
    for name in options.dataset:
        data = load(name)
        if data is None:
            print(f"{name}: not on this machine, left out")
            continue
        for row in rows_of(data, options):
            rows.append(row)
            publish("latency", "Time of a row: students of 10 KB beside their models", COLUMNS, rows, notes, write=options.write)


if __name__ == "__main__":
    main()
