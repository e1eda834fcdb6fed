"""The JSON document of a model: what CatBoost exports, and the errors for what is not in it."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

from treespec.errors import FileFormatError, ModelNotFittedError, TreespecError, UnsupportedModelError
from treespec.hooks import is_a

Document = dict[str, Any]


def is_mine(model: object) -> bool:
    """Tell whether the object is a CatBoost model of any class."""
    return is_a(model, "catboost", "CatBoost")


def document_of(model: Any) -> Document:
    """Return the JSON document of a fitted model.

    Raises
    ------
    ModelNotFittedError
    UnsupportedModelError
        If it uses text or embedding features, which CatBoost does not export.
    """
    if not model.is_fitted():
        raise ModelNotFittedError.expected("a fitted model", f"an unfitted {type(model).__name__}", "call fit or load_model first")
    for kind, columns in (("text", model.get_text_feature_indices()), ("embedding", model.get_embedding_feature_indices())):
        if columns:
            names = ", ".join(repr(model.feature_names_[j]) for j in columns)
            raise UnsupportedModelError.expected(
                "numerical features, or categories that are encoded one-hot",
                f"{kind} features {names}, which are turned into numbers inside CatBoost",
                f"compute the {kind} features outside, and train on them as numbers",
            )
    with tempfile.TemporaryDirectory() as directory:
        import catboost

        path = Path(directory, "model.json")
        try:
            model.save_model(str(path), format="json")
        except catboost.CatBoostError as error:  # borders or values that are infinite
            raise UnsupportedModelError.expected(
                "a model that CatBoost exports as JSON", f"an error of its export ({error})", "train on finite values"
            ) from error
        return parse(path.read_bytes(), f"the {type(model).__name__}")


def parse(data: bytes, name: str) -> Document:
    """Return the document that ``data`` holds.

    Raises
    ------
    FileFormatError
        If it is not JSON, or no CatBoost model.
    """
    try:
        document = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise damaged(f"{name}, which cannot be read ({error})") from error
    if not isinstance(document, dict) or not isinstance(document.get("features_info"), dict) or "scale_and_bias" not in document:
        raise damaged(f"{name}, which lacks features_info or scale_and_bias")
    return document


def damaged(came: str) -> TreespecError:
    """Return the error for a document that breaks the format's rules."""
    return FileFormatError.expected("a well-formed CatBoost model", came, "the file is truncated or damaged; save the model again")
