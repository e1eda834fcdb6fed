"""Saved models and Treelite models."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from catalogue import lightgbm_models, sklearn_models, xgboost_models
from catalogue.case import Case

IMPORTED = {
    "RandomForestRegressor": ("default", "three targets", "sample weights"),
    "RandomForestClassifier": ("two classes", "words"),
    "ExtraTreesRegressor": ("default",),
    "GradientBoostingRegressor": ("huber", "init zero"),
    "GradientBoostingClassifier": ("two classes", "words"),
    "HistGradientBoostingRegressor": ("squared_error", "no missing values"),
    "HistGradientBoostingClassifier": ("two classes", "words"),
}
BOOSTERS = (
    "reg:squarederror", "count:poisson", "binary:logistic", "multi:softprob", "three targets", "three targets, vector leaves", "dart",
)  # fmt: skip
TEXTS = ("regression", "poisson", "binary", "multiclass", "multiclassova", "dart", "rf", "cross_entropy_lambda", "codes")


def cases() -> list[Case]:
    """Return the models as Treelite imports them."""
    return [*_imported()]


def _imported() -> Iterator[Case]:
    import treelite

    for case in sklearn_models.cases():
        if case.setting in IMPORTED.get(case.model, ()):
            yield _treelite(case, lambda case=case: treelite.sklearn.import_model(case.make()))
    for cases, names, load in (
        (xgboost_models.cases(), BOOSTERS, lambda m: treelite.frontend.from_xgboost(getattr(m, "get_booster", lambda: m)())),
        (lightgbm_models.cases(), TEXTS, lambda m: treelite.frontend.from_lightgbm(getattr(m, "booster_", m))),
    ):
        for case in cases:
            if case.setting in names and not case.refused:
                yield _treelite(case, lambda case=case, load=load: load(case.make()))


def _treelite(case: Case, make: Any) -> Case:
    return Case("Treelite", f"{case.framework} {case.model}", case.setting, make)
