"""The tree IR: one frozen set of flat arrays for every ensemble, its reference traversal, statistics and bytes."""

from treespec.ir.forest import ALL_OUTPUTS, LEAF, Forest
from treespec.ir.inputs import InputRule

__all__ = ["ALL_OUTPUTS", "LEAF", "Forest", "InputRule"]
