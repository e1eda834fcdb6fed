"""Saved models: ``.json`` is read directly; ``.cbm`` by CatBoost in a process of its own, which a damaged file may bring down."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from treespec.errors import UnsupportedModelError
from treespec_catboost.document import Document, damaged, parse

_LARGEST = 1 << 31  # bytes
_SECONDS = 120
_CONVERT = (
    "import sys, catboost\n"
    "model = catboost.CatBoost().load_model(sys.argv[1], format='cbm')\n"
    "model.save_model(sys.argv[2], format='json')\n"
)


def read_file(model: Any) -> Document | None:
    """Return the document of a file that CatBoost saved, or None for anything else.

    Parameters
    ----------
    model : object
        The path; the content tells, not the suffix.

    Raises
    ------
    FileFormatError
        If the file starts as CatBoost's and is damaged.
    UnsupportedModelError
        If the model uses features that CatBoost does not export.

    Notes
    -----
    A ``.cbm`` costs the start of a Python process.
    """
    if not isinstance(model, (str, os.PathLike)):
        return None
    path = Path(model)
    try:
        if not path.is_file() or path.stat().st_size > _LARGEST:
            return None
        with path.open("rb") as file:
            start = file.read(4)
        data = path.read_bytes() if start[:1] == b"{" else b""
    except (OSError, ValueError):
        return None  # the adapter that takes any path says what is wrong with it
    if start == b"CBM1":
        return _converted(path)
    return parse(data, str(path)) if b'"features_info"' in data and b'"scale_and_bias"' in data else None


def _converted(path: Path) -> Document:
    with tempfile.TemporaryDirectory() as directory:
        out = Path(directory, "model.json")
        try:
            command = [sys.executable, "-c", _CONVERT, str(path), str(out)]
            run = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS, check=False)  # noqa: S603  # our own program
        except subprocess.TimeoutExpired:
            raise damaged(f"{path}, on which CatBoost did not end within {_SECONDS} s") from None
        if run.returncode == 0 and out.is_file():
            return parse(out.read_bytes(), str(path))
    said = run.stderr.strip().rpartition("\n")[2] or f"CatBoost ended with code {run.returncode}"
    if "only in cbm format" in said:
        raise UnsupportedModelError.expected(
            "numerical features, or categories that are encoded one-hot", f"{path}: {said}", "compute text and embedding features outside"
        )
    raise damaged(f"{path}: {said}")
