"""The random forests and rows of `treespec.testing`, under the short name that the tests use."""

from treespec.testing import GRID, grow, rows
from treespec.testing.strategies import Case, cases, forests

__all__ = ["GRID", "Case", "cases", "forests", "grow", "rows"]
