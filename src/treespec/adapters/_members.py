"""The models inside a model: their forests, with errors that say whose they are, and what the whole says of its columns."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treespec.adapters.sklearn_native import HistNative
from treespec.adapters.sklearn_trees import feature_names
from treespec.errors import ModelNotFittedError, UnsupportedModelError
from treespec.hooks import Adapt
from treespec.ir import Forest


def fitted(model: Any, *attributes: str) -> None:
    """Raise unless the model has what fitting gives it.

    Raises
    ------
    ModelNotFittedError
    """
    if not all(hasattr(model, name) for name in attributes):
        raise ModelNotFittedError.expected("a fitted model", f"an unfitted {type(model).__name__}", "call fit(X, y) first")


def forests_of(model: Any, members: Iterable[Any], adapt: Adapt) -> list[Forest]:
    """Return the forest of each member.

    Raises
    ------
    UnsupportedModelError
        If one is no tree ensemble that can be wrapped, with the reason.
    """
    out = []
    for k, member in enumerate(members):
        try:
            out.append(adapt(member))
        except UnsupportedModelError as error:
            reason, _, hint = str(error).partition("\n\nHint: ")
            raise UnsupportedModelError(
                f"Member {k} ({type(member).__name__}) of the {type(model).__name__} cannot be wrapped: {reason}\n\nHint: {hint}"
            ) from error
    return out


def check_links(model: Any, forests: Sequence[Forest], allowed: tuple[str, ...], why: str, hint: str) -> None:
    """Raise where a member's predictions are not on the scale on which the whole adds them up.

    Raises
    ------
    UnsupportedModelError
    """
    for f in forests:
        if f.link not in allowed:
            raise UnsupportedModelError.expected(
                f"members of a {type(model).__name__} whose {why}", f"{f.framework}, whose prediction is a {f.link} of a sum", hint
            )


def columns_of(model: Any, forests: Sequence[Forest]) -> dict[str, Any]:
    """Return ``n_features`` of the whole, and the column names if it or its members saw any."""
    names = feature_names(model)
    own = {f.feature_names for f in forests}
    n_features = int(getattr(model, "n_features_in_", forests[0].n_features))
    if names is None and len(own) == 1 and forests[0].n_features == n_features:
        names = own.pop()
    return {"n_features": n_features, "feature_names": names}


def name_of(model: Any, forests: Sequence[Forest]) -> str:
    """Return how people call the whole: its class, and the distinct members."""
    kinds = dict.fromkeys(f.framework.removeprefix("scikit-learn ") for f in forests)
    return f"scikit-learn {type(model).__name__} of {', '.join(kinds)}"


class WholeNative(HistNative):
    """Prediction by a model that is made of models: values of a regressor, probabilities of a classifier, or its decision function.

    Parameters
    ----------
    model : fitted estimator
    forest : Forest
    margin : {"predict", "predict_proba", "decision_function"}
        Which method gives the margins.
    """

    def __init__(self, model: Any, forest: Forest, margin: str) -> None:
        super().__init__(model, forest)
        self._method = margin

    def margin(self, X: Any) -> NDArray[Any]:
        """Return the margins, the outputs of all targets side by side."""
        found = getattr(self._model, self._method)(self._rows(X))
        return np.hstack(found) if isinstance(found, list) else np.asarray(found)

    def predict_proba(self, X: Any) -> Any:
        """Return ``predict_proba`` of a classifier, else None; a list for several targets."""
        if not hasattr(self._model, "predict_proba"):
            return None
        found = self._model.predict_proba(self._rows(X))
        return np.hstack(found) if isinstance(found, list) else np.asarray(found)
