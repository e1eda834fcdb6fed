"""Adapter for shells: models that hand their rows on to the one model inside them, unchanged.

Searches (``best_estimator_``), ``FrozenEstimator``, self-training, pipelines without steps that change the rows, and the fitted models of
Dask, whose trees are on this machine.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from treespec.adapters._members import fitted
from treespec.errors import ModelNotFittedError, UnsupportedModelError
from treespec.hooks import Adapt, Native, NativeOf, hookimpl, is_a
from treespec.ir import Forest


@hookimpl(tryfirst=True)  # Dask's models are subclasses of those that the adapters of their frameworks take
def treespec_adapt(model: Any, X: Any, adapt: Adapt) -> Forest | None:
    """Return the forest of the model inside."""
    inner = inside(model)
    return None if inner is None else adapt(inner, X)


@hookimpl(tryfirst=True)
def treespec_native(model: Any, forest: Forest, native: NativeOf) -> Native | None:
    """Return the routing and prediction of the model inside."""
    inner = inside(model)
    return None if inner is None else native(inner, forest)


def inside(model: Any) -> Any:
    """Return the model inside a shell, None where ``model`` is no shell.

    Raises
    ------
    ModelNotFittedError
        If the shell was not fitted.
    UnsupportedModelError
        If it does not hold the model (a search with ``refit=False``), or changes the rows before.
    """
    if isinstance(model, dict):  # what xgboost.dask.train returns
        return model["booster"] if is_a(model.get("booster"), "xgboost", "Booster") else None
    for module, name, take in _SHELLS:
        if is_a(model, module, name):
            return take(model)
    return None


def _self_training(model: Any) -> Any:
    fitted(model, "estimator_")
    return model.estimator_


def _found(search: Any) -> Any:
    if not hasattr(search, "best_estimator_"):
        if hasattr(search, "cv_results_"):
            raise UnsupportedModelError.expected(
                "a search that kept its best model",
                f"a {type(search).__name__} with refit=False",
                "fit it with refit=True, or fit the model with best_params_",
            )
        fitted(search, "best_estimator_")
    return search.best_estimator_


def steps_of(pipeline: Any) -> list[Any]:
    """Return the steps of a pipeline before the last that change rows at prediction."""
    return [step for _, step in pipeline.steps[:-1] if step is not None and step != "passthrough" and hasattr(step, "transform")]


def _last(pipeline: Any) -> Any:
    steps = steps_of(pipeline)
    if steps:
        raise UnsupportedModelError.expected(
            "a model of the rows as they come, inside another model",
            f"a Pipeline whose steps {', '.join(type(s).__name__ for s in steps)} change them first",
            "put the steps around the whole model, make_pipeline(steps, model): treespec.wrap applies them then",
        )
    return end_of(pipeline)


def end_of(pipeline: Any) -> Any:
    """Return the model at the end of a pipeline.

    Raises
    ------
    UnsupportedModelError
        If there is none.
    """
    last = pipeline.steps[-1][1]
    if last is None or last == "passthrough":
        raise UnsupportedModelError.expected("a pipeline that ends with a model", "one that ends with 'passthrough'", "wrap the model")
    return last


def _local(model: Any) -> Any:
    """Return the ordinary wrapper of XGBoost around the booster that Dask trained."""
    import xgboost

    if not model.__sklearn_is_fitted__():
        raise ModelNotFittedError.expected("a fitted model", f"an unfitted {type(model).__name__}", "call fit first")
    kind = getattr(xgboost, type(model).__name__.removeprefix("Dask"))
    local = kind(missing=model.missing)
    local.load_model(bytearray(model.get_booster().save_raw("ubj")))
    return local


def _lightgbm(model: Any) -> Any:
    """Return the ordinary wrapper of LightGBM."""
    fitted(model, "fitted_")
    return model.to_local()


_SHELLS: tuple[tuple[str, str, Callable[[Any], Any]], ...] = (
    ("sklearn.model_selection._search", "BaseSearchCV", _found),
    ("sklearn.frozen", "FrozenEstimator", lambda model: model.estimator),
    ("sklearn.semi_supervised", "SelfTrainingClassifier", _self_training),
    ("sklearn.pipeline", "Pipeline", _last),
    ("lightgbm.dask", "_DaskLGBMModel", _lightgbm),
    ("xgboost.dask", "DaskScikitLearnBase", _local),
)
"""Module, class, and how to take out the model inside."""
