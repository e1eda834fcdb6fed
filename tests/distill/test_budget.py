"""Budgets: what they mean, and what is no budget."""

import pytest

from treespec.distill.budget import parse_budget
from treespec.errors import BudgetError


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("10KB", 10_000),
        ("10KiB", 10_240),
        ("500", 500),
        ("500B", 500),
        ("1.5KB", 1500),
        (" 2 kb ", 2000),
        ("1MB", 1_000_000),
        ("1MiB", 1 << 20),
        (700, 700),
    ],
)
def test_budgets(text, size):
    assert parse_budget(text) == size


@pytest.mark.parametrize(
    "bad", ["", "ten", "10 GB", "-5KB", "0", 0, -3, 1.5, True, None, "1.5", "1.0001KB", "1e3", "\u0661\u0660KB", [10], "KB", "10KBs"]
)
def test_what_is_no_budget_is_shown_with_the_way_out(bad):
    with pytest.raises(BudgetError, match="10KiB") as caught:
        parse_budget(bad)
    assert repr(bad) in str(caught.value)
    assert "Hint:" in str(caught.value)
