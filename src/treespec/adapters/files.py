"""Adapter for saved models: the path of an XGBoost file (JSON or UBJSON), a LightGBM text or a Treelite checkpoint is a model too.

The content tells the format, not the suffix, and no framework need be installed. A file is a bare booster: wrappers' class labels,
``missing=`` and early stopping are not in it. There is nothing to compare with, so no self-check.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

from treespec.adapters import lightgbm, lightgbm_text, treelite, treelite_checkpoint, xgboost, xgboost_document
from treespec.adapters._asked import refuse_missing, rounds_asked, said
from treespec.errors import FileFormatError, InvalidForestError, UnsupportedModelError
from treespec.hooks import Asked, hookimpl
from treespec.ir import Forest

_LARGEST = 1 << 32  # bytes
_SNIFFED = 64
_OTHERS = {
    b"\x80": (
        "a pickle, which runs code when it is read",
        "load it with the program that you trust to have written it, and wrap the model",
    ),
    b"binf": ("XGBoost's binary format of before 1.0", "load and save it with XGBoost 1.0 to 3.0"),
    b"bs64": ("XGBoost's binary format of before 1.0", "load and save it with XGBoost 1.0 to 3.0"),
    b"\x03\0\0\0": ("a checkpoint of Treelite 3", "load and save it with Treelite 4"),
    b"PK": ("a zip archive", "unpack it"),
    b"\x1f\x8b": ("a gzip file", "unpack it"),
}
"""First bytes of files that are no models for treespec, to what they are and what to do."""


@hookimpl
def treespec_adapt(model: Any) -> Forest | None:
    """Return the forest of a saved XGBoost, LightGBM or Treelite model, given its path."""
    asked = Asked.of(model)
    if not isinstance(asked.model, (str, os.PathLike)):
        return None
    path = Path(asked.model)
    data = _read(path)
    try:
        if data[:1] == b"{":
            document = xgboost_document.read(data)
            return xgboost.chosen_of(asked, document, framework="xgboost model file", missing=xgboost.missing_of(asked))
        if data.startswith(treelite_checkpoint.START):
            return _treelite(asked, data)
        text = lightgbm_text.read(data.decode("utf-8", "replace"))
        return _lightgbm(asked, text)
    except FileFormatError as error:
        raise FileFormatError(f"{path}: {error}") from error
    except InvalidForestError as error:
        raise FileFormatError.expected(
            f"a well-formed model in {path}", str(error).split("\n", maxsplit=1)[0], "the file is damaged; save the model again"
        ) from error


def _treelite(asked: Asked, data: bytes) -> Forest:
    refuse_missing(asked, "takes NaN for missing")
    if asked.iteration_range is not None:
        raise UnsupportedModelError.expected("a model that knows its rounds", "a Treelite checkpoint", "leave iteration_range= out")
    return treelite.forest_of(treelite_checkpoint.read(data), framework="treelite checkpoint")


def _lightgbm(asked: Asked, text: lightgbm_text.LightgbmText) -> Forest:
    refuse_missing(asked, "takes NaN for missing (and zeros where it was trained with zero_as_missing)")
    n_rounds = len(text.trees) // text.n_outputs
    rounds = rounds_asked(asked, n_rounds)
    if rounds is not None:
        text = replace(text, trees=text.trees[rounds[0] * text.n_outputs : rounds[1] * text.n_outputs])
    return lightgbm.forest_of(text, framework=said("lightgbm model file", rounds, n_rounds))


def _read(path: Path) -> bytes:
    """Return the content of a file that starts as a model.

    Raises
    ------
    FileFormatError
        If there is no such file, it cannot be read, is empty or too large, or starts as something else.
    """
    try:
        if not path.is_file():
            came = "which is a directory or device" if path.exists() else "which does not exist"
            raise _refused(f"{str(path)!r}, {came}", "check the path")
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            start = file.read(_SNIFFED)
            _check_start(path, start, size)
            return start + file.read(size)  # a larger number would be allocated at once
    except (OSError, ValueError) as error:
        if isinstance(error, FileFormatError):
            raise
        raise _refused(f"{str(path)!r}, which cannot be read ({error})", "check the path and its permissions") from error


def _check_start(path: Path, start: bytes, size: int) -> None:
    if not start:
        raise _refused(f"{str(path)!r}, which is empty", "save the model again")
    if size > _LARGEST:
        raise _refused(f"{str(path)!r} of {size} bytes", f"models of up to {_LARGEST} bytes are read")
    for first, (what, hint) in _OTHERS.items():
        if start.startswith(first):
            raise _refused(f"{str(path)!r}, {what}", hint)
    if not (start.startswith((b"tree\n", b"tree\r\n", b"{", treelite_checkpoint.START))):
        raise _refused(
            f"{str(path)!r}, which starts with {start[:16]!r}",
            "save it with save_model of XGBoost (.json or .ubj) or LightGBM (.txt), or serialize of Treelite",
        )


def _refused(came: str, hint: str) -> FileFormatError:
    return FileFormatError(str(FileFormatError.expected("the path of a saved XGBoost, LightGBM or Treelite model", came, hint)))
