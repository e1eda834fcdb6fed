"""The data sets of the benchmarks: Parquet files beside the repository where they exist, else those that scikit-learn bundles."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn import datasets

FOLDER = Path(__file__).resolve().parents[2] / "shared" / "data"

TARGET = {
    "abalone": "Rings", "adult": "income", "auto_mpg": "mpg", "banknote": "class", "boston": "MEDV", "breast_cancer": "target",
    "california": "MedHouseVal", "churn": "Exited", "concrete": "strength", "diabetes_pima": "Outcome", "friedman_1": "y",
    "spambase": "spam", "student_por": "G3", "telco_churn": "Churn", "wine_quality_white": "quality", "wine_quality_red": "quality",
}  # fmt: skip
BINARY = {"adult", "banknote", "breast_cancer", "churn", "diabetes_pima", "spambase", "telco_churn"}


@dataclass(frozen=True)
class Dataset:
    """Rows with one-hot categories, and their labels (0 and 1 for classes)."""

    name: str
    X: np.ndarray
    y: np.ndarray
    task: str


def load(name: str) -> Dataset | None:
    """Return a data set, or None where it is not on this machine."""
    path = FOLDER / f"{name}.parquet"
    if path.exists():
        frame = pd.read_parquet(path).dropna()
        y, X = frame.pop(TARGET[name]), pd.get_dummies(frame, dtype=float)
        labels = pd.factorize(y, sort=True)[0] if name in BINARY else y.to_numpy(float)
        return Dataset(name, X.to_numpy(float), np.asarray(labels), "binary" if name in BINARY else "regression")
    if name == "breast_cancer":
        return Dataset(name, *datasets.load_breast_cancer(return_X_y=True), "binary")
    if name == "friedman_1":
        return Dataset(name, *datasets.make_friedman1(1000, noise=0.0, random_state=0), "regression")
    return None
