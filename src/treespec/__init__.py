"""treespec: look inside any fitted tree ensemble, and distil it into a byte budget.

>>> import treespec
>>> from sklearn.datasets import load_diabetes
>>> from sklearn.ensemble import RandomForestRegressor
>>> X, y = load_diabetes(return_X_y=True)
>>> model = RandomForestRegressor(10, max_depth=4, random_state=0).fit(X, y)
>>> treespec.wrap(model, X, y).task
'regression'

Importing the package loads neither a framework nor scikit-learn nor torch: attributes are looked up when they are first used.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

from treespec import errors

if TYPE_CHECKING:
    from treespec.estimators import DistilledClassifier as DistilledClassifier
    from treespec.estimators import DistilledRegressor as DistilledRegressor
    from treespec.estimators import KPPClassifier as KPPClassifier
    from treespec.estimators import KPPRegressor as KPPRegressor
    from treespec.estimators import KPPTransformer as KPPTransformer
    from treespec.estimators import LeafEmbedding as LeafEmbedding
    from treespec.estimators import SpectralEmbedding as SpectralEmbedding
    from treespec.facade import Wrapped as Wrapped
    from treespec.facade import kpp as kpp
    from treespec.facade import wrap as wrap
    from treespec.ir import Forest as Forest
    from treespec.plugins import plugins as plugins
    from treespec.students import load_student as load_student

__version__ = "0.1.0"

_HOME = {
    "wrap": "treespec.facade",
    "Wrapped": "treespec.facade",
    "kpp": "treespec.facade",
    "Forest": "treespec.ir",
    "load_student": "treespec.students",
    "plugins": "treespec.plugins",
    "DistilledClassifier": "treespec.estimators",
    "DistilledRegressor": "treespec.estimators",
    "KPPClassifier": "treespec.estimators",
    "KPPRegressor": "treespec.estimators",
    "KPPTransformer": "treespec.estimators",
    "LeafEmbedding": "treespec.estimators",
    "SpectralEmbedding": "treespec.estimators",
}
"""Public name to the module it is taken from."""

__all__ = [
    "DistilledClassifier",
    "DistilledRegressor",
    "Forest",
    "KPPClassifier",
    "KPPRegressor",
    "KPPTransformer",
    "LeafEmbedding",
    "SpectralEmbedding",
    "Wrapped",
    "errors",
    "kpp",
    "load_student",
    "plugins",
    "wrap",
]


def __getattr__(name: str) -> Any:
    """Load a public name on first use (PEP 562)."""
    if name not in _HOME:
        raise AttributeError(f"module 'treespec' has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME})


class _Package(ModuleType):
    """Keeps a public function reachable where a submodule has the same name (``treespec.plugins()``).

    The import system would overwrite the attribute with the submodule; ``from treespec.plugins import manager`` works all the same.
    """

    def __setattr__(self, name: str, value: object) -> None:
        if not (isinstance(value, ModuleType) and name in _HOME):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package
