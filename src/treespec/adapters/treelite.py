"""Adapter for ``treelite.Model``: any model that Treelite imported or built, with what Treelite keeps of it."""

from __future__ import annotations

from typing import Any

import numpy as np

from treespec.adapters._treelite import TreeliteStructure, structure_of
from treespec.errors import UnsupportedModelError
from treespec.hooks import Native, hookimpl, is_a
from treespec.ir import Forest, InputRule
from treespec.ir.forest import Task

_LINKS = {
    "identity": "identity",
    "identity_multiclass": "probability",
    "sigmoid": "sigmoid",
    "multiclass_ova": "sigmoid-each",
    "softmax": "softmax",
    "exponential": "exp",
    "logarithm_one_plus_exp": "log1p-exp",
    "signed_square": "signed-square",
    "hinge": "hinge",
}
_TASKS: dict[str, Task] = {"kBinaryClf": "binary", "kRegressor": "regression", "kMultiClf": "multiclass", "kLearningToRank": "ranking"}


@hookimpl
def treespec_adapt(model: Any) -> Forest | None:
    """Return the forest of a Treelite model. Class labels and column names are not in it: prediction gives probabilities, as Treelite's."""
    if not is_a(model, "treelite", "Model"):
        return None
    return forest_of(structure_of(model), framework="treelite")


def forest_of(structure: TreeliteStructure, *, framework: str) -> Forest:
    """Return the forest of Treelite's trees.

    Raises
    ------
    UnsupportedModelError
        If there are none, or the postprocessor is not known.
    """
    if structure.postprocessor not in _LINKS or structure.task not in _TASKS:
        raise UnsupportedModelError.expected(
            f"a postprocessor of {sorted(_LINKS)}", f"{structure.postprocessor!r} ({structure.task})", "wrap the original model instead"
        )
    if not len(structure.left):
        raise UnsupportedModelError.expected("at least one tree", "none", "fit the model for at least one round")
    scaled = structure.postprocessor in ("sigmoid", "multiclass_ova")
    return Forest(
        **structure.forest_fields(),
        link=_LINKS[structure.postprocessor],
        link_scale=structure.sigmoid_alpha if scaled else 1.0,
        sum_dtype=structure.input_dtype,
        inputs=InputRule(dtype=structure.input_dtype, categorical=structure.categorical_columns),
        task=_task(structure),
        framework=framework,
    )


def _task(structure: TreeliteStructure) -> Task:
    if len(structure.n_classes) > 1:
        return "multi-output"
    return _TASKS[structure.task]


@hookimpl
def treespec_native(model: Any, forest: Forest) -> Native | None:
    """Return Treelite's own predictor (GTIL)."""
    return TreeliteNative(model, forest) if is_a(model, "treelite", "Model") else None


class TreeliteNative:
    """Routing and prediction by Treelite's predictor on the model as it came.

    Parameters
    ----------
    model : treelite.Model
    forest : Forest
    """

    def __init__(self, model: Any, forest: Forest) -> None:
        self._model = model
        self._forest = forest

    def leaf_id(self, X: Any) -> Any:
        """Return (n, n_trees) node ids."""
        from treelite import gtil

        rows = self._forest.encode(X)
        return gtil.predict_leaf(self._model, rows).reshape(len(rows), -1).astype(np.int32)

    def margin(self, X: Any) -> Any:
        """Return the raw margins, the outputs of all targets side by side."""
        return self._outputs(X, pred_margin=True)

    def predict(self, X: Any) -> Any:
        """Return Treelite's prediction: values or probabilities, the outputs of all targets side by side."""
        return self._outputs(X, pred_margin=False)

    def _outputs(self, X: Any, *, pred_margin: bool) -> Any:
        from treelite import gtil

        raw = gtil.predict(self._model, self._forest.encode(X), pred_margin=pred_margin)
        n_classes = self._model.get_header_accessor().get_field("num_class").tolist()
        columns = np.concatenate([raw[:, k, :n] for k, n in enumerate(n_classes)], axis=1).astype(np.float64)
        return columns[:, 0] if columns.shape[1] == 1 else columns
