"""The built-in compressors, registered through the hook like anybody's."""

from __future__ import annotations

from typing import Any

from treespec.distill.auto import auto
from treespec.distill.boosted import boosted
from treespec.distill.fp_scate import fp_scate
from treespec.distill.mlp import mlp
from treespec.distill.packed import packed
from treespec.distill.pruners import forestprune, leaf_refit, lop
from treespec.distill.scate import scate
from treespec.hooks import Register, hookimpl


@hookimpl
def treespec_compressors(register: Register[Any]) -> None:
    """Register them."""
    register("mlp", mlp)
    register("scate", scate)
    register("packed", packed)
    register("boosted", boosted)
    register("forestprune", forestprune)
    register("lop", lop)
    register("leaf-refit", leaf_refit)
    register("fp-scate", fp_scate)
    register("auto", auto)
