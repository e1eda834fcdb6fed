"""Wrap three kinds of fitted model as they are, and distil each into 10 KB.

Every score is on rows that neither the model nor the student was fitted on.
"""

from __future__ import annotations

import time
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from lightgbm import LGBMClassifier
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits
from sklearn.ensemble import RandomForestRegressor
from sklearn.metrics import accuracy_score, r2_score
from sklearn.model_selection import train_test_split
from xgboost import XGBClassifier

import treespec

BUDGET = "10KB"

CASES = [
    ("diabetes", load_diabetes, RandomForestRegressor(250, max_depth=15, random_state=0)),
    ("breast_cancer", load_breast_cancer, XGBClassifier(n_estimators=100, max_depth=6)),
    ("digits", load_digits, LGBMClassifier(n_estimators=100, verbose=-1)),
]


def main() -> None:
    print("Each model is wrapped as it is and distilled to 10 KB. The first score is the model's, the second its student's, both on")
    print("the 20 percent of the rows that neither was fitted on (R2 for diabetes, accuracy for the others). It takes some minutes.\n")
    columns = f"{'data':<14}{'model':<24}{'trees':>6}{'nodes':>9}{'score':>8}   {'student':<10}{'bytes':>7}{'score':>8}{'seconds':>9}"
    print(columns, flush=True)
    for name, load, model in CASES:
        X, y = load(return_X_y=True)
        X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.2, random_state=0)
        model.fit(X_train, y_train)

        start = time.perf_counter()
        wrapped = treespec.wrap(model, X_train, y_train)
        student = wrapped.distill(BUDGET)
        seconds = time.perf_counter() - start

        with TemporaryDirectory() as folder:
            path = Path(folder) / "student.tsp"
            student.save(path)
            loaded = treespec.load_student(path)
        assert np.array_equal(loaded.predict(X_test), student.predict(X_test))

        score = r2_score if wrapped.task == "regression" else accuracy_score
        teacher_score = score(y_test, wrapped.predict(X_test))
        student_score = score(y_test, student.predict(X_test))
        print(
            f"{name:<14}{type(model).__name__:<24}{wrapped.forest.n_trees:>6}{wrapped.forest.n_nodes:>9}{teacher_score:>8.3f}"
            f"   {student.report.chosen:<10}{student.n_bytes:>7}{student_score:>8.3f}{seconds:>9.1f}"
        )
    print(f"\nThe report of the last student (student.report):\n\n{student.report}")


if __name__ == "__main__":
    main()
