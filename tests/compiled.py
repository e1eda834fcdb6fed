"""Compiles a C export with every warning an error and the sanitizers on, and runs it."""

from __future__ import annotations

import subprocess

import numpy as np

STRICT = ["gcc", "-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic"]
CHECKED = [*STRICT, "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]

MAIN = """
#include "m.h"
#include <stdio.h>
#define main self_test
#include "m_test.c"
#undef main
int main(int n, char **arguments) {
    (void)arguments;
    if (n > 1) return self_test();
    static float x[M_N_FEATURES + 1], p[M_N_OUTPUTS], m[M_N_MARGINS];
    while (fread(x, sizeof(float), M_N_FEATURES, stdin) == M_N_FEATURES) {
        m_predict(x, p);
        m_margin(x, m);
        fwrite(p, sizeof(float), M_N_OUTPUTS, stdout);
        fwrite(m, sizeof(float), M_N_MARGINS, stdout);
    }
    return 0;
}
"""


def run(student, rows, folder, command=CHECKED, **options):
    """Return what the compiled C gives for float32 rows: outputs and margins; its own self-test must pass too."""
    export = student.to_c(folder, "m", **options)
    (folder / "main.c").write_text(MAIN)
    subprocess.run([*command, "m.c", "main.c", "-o", "main", "-lm"], cwd=folder, check=True)
    subprocess.run([folder / "main", "test"], check=True, capture_output=True)
    out = subprocess.run([folder / "main"], input=rows.astype("<f4").tobytes(), check=True, capture_output=True).stdout
    table = np.frombuffer(out, "<f4").reshape(len(rows), -1)
    return table[:, : export.n_outputs], table[:, export.n_outputs :], export
