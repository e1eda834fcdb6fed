"""Byte budgets: "10KB" is 10,000 bytes, "10KiB" is 10,240, an int is bytes."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Any

import numpy as np

from treespec.errors import BudgetError, TreespecError

_UNITS = {"": 1, "b": 1, "kb": 1000, "mb": 1000**2, "kib": 1024, "mib": 1024**2}
_TEXT = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([a-zA-Z]*)\s*", flags=re.ASCII)


def parse_budget(budget: Any) -> int:
    """Return a budget in bytes.

    Parameters
    ----------
    budget : str or int
        A whole number of bytes, or text such as "500B", "10KB", "1.5KB", "10KiB", "1MB".

    Raises
    ------
    BudgetError
        If it cannot be read, is not positive, or is no whole number of bytes.

    Examples
    --------
    >>> parse_budget("10KB"), parse_budget("10KiB"), parse_budget("1.5 kB"), parse_budget(700)
    (10000, 10240, 1500, 700)
    """
    if isinstance(budget, (int, np.integer)) and not isinstance(budget, (bool, np.bool_)):
        size = Decimal(int(budget))
    else:
        match = _TEXT.fullmatch(budget) if isinstance(budget, str) else None
        if match is None or match[2].lower() not in _UNITS:
            raise _unreadable(budget)
        size = Decimal(match[1]) * _UNITS[match[2].lower()]
    if size <= 0 or size != int(size):
        raise _unreadable(budget)
    return int(size)


def _unreadable(budget: Any) -> TreespecError:
    return BudgetError.expected(
        "a budget of a positive whole number of bytes, or text such as '10KB' (10,000 bytes) or '10KiB' (10,240)",
        repr(budget),
        "units are B, KB, MB, KiB and MiB",
    )
