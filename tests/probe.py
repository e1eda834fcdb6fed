"""The nasty rows of `treespec.testing`, under the short name that the tests use."""

from treespec.testing import CODES, nasty_rows, neighbours

__all__ = ["CODES", "nasty_rows", "neighbours"]
