"""Every kind of tree model that the conformance benchmark fits: one file a framework."""

from __future__ import annotations

from catalogue import composed, files, lightgbm_models, sklearn_models, xgboost_models
from catalogue.case import Case

CASES: list[Case] = [*sklearn_models.cases(), *xgboost_models.cases(), *lightgbm_models.cases(), *files.cases(), *composed.cases()]
"""All models, in the order of the tables. Nothing is fitted until `Case.make` is called."""

__all__ = ["CASES", "Case"]
