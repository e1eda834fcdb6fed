"""Recognises a model by its class without importing the framework: who holds a model has imported it."""

from __future__ import annotations

import sys


def is_a(model: object, module: str, *class_names: str) -> bool:
    """Tell whether ``model`` is an instance of one of a module's classes, subclasses included.

    Parameters
    ----------
    model : object
    module : str
        Where the classes are found as attributes (``"sklearn.ensemble"``); false if it was never imported.
    *class_names : str
        Names that this version of the module lacks are passed over.
    """
    loaded = sys.modules.get(module)
    found = (getattr(loaded, name, None) for name in class_names) if loaded is not None else ()
    return isinstance(model, tuple(cls for cls in found if isinstance(cls, type)))
