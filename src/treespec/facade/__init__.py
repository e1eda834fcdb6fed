"""What users call: `wrap` and `Wrapped`. Argument checks and wiring, no mathematics."""

from treespec.facade.geometry import kpp
from treespec.facade.wrapped import Wrapped
from treespec.facade.wrapping import wrap

__all__ = ["Wrapped", "kpp", "wrap"]
