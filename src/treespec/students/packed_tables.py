"""Split tables as bits: thresholds by `packed_numbers`, category sets as bitsets over the codes that some set lists."""

from __future__ import annotations

import numpy as np

from treespec.students.packed_bits import BitReader, BitWriter, damaged
from treespec.students.packed_numbers import Dtype, Keys, Style, read_keys, read_style, rice, write_keys, write_style
from treespec.students.packed_splits import BY_TABLE, CategoryTable, NumberTable

_RICE_BITS = 6
_LARGEST_CODE = (1 << 31) - 1


def write_tables(out: BitWriter, tables: list[NumberTable | CategoryTable], missing: int) -> None:
    """Write the tables one after the other.

    Each: the step from the feature before, a bit for categories (where there are any: one bit up front), the missing direction (where
    it is told by table), the number of splits less one, and the splits.
    """
    some = any(isinstance(t, CategoryTable) for t in tables)
    out.flag(some)
    before, feature = None, 0
    for table in tables:
        out.gamma(table.feature - feature)
        feature = table.feature
        if some:
            out.flag(isinstance(table, CategoryTable))
        if missing == BY_TABLE:
            out.flag(table.default_left)
        out.gamma(table.count - 1)
        if isinstance(table, NumberTable):
            write_style(out, table.style, before)
            write_keys(out, table.keys, table.style.k)
            before = table.style
        else:
            _write_sets(out, table)


def _write_sets(out: BitWriter, table: CategoryTable) -> None:
    n = len(table.codes)
    dense = n == 0 or int(table.codes[-1]) == n - 1
    out.flag(table.listed_left, dense)
    out.gamma(n)
    if not dense:
        k, _ = rice(table.codes)
        out.number(k, _RICE_BITS)
        write_keys(out, table.codes, k)
    out.append(table.member.ravel())


def read_tables(source: BitReader, n_tables: int, missing: int, n_features: int, dtype: Dtype) -> list[NumberTable | CategoryTable]:
    """Read what `write_tables` wrote, for the features of ``n_features``; thresholds are of type ``dtype``."""
    some = source.flag()
    tables: list[NumberTable | CategoryTable] = []
    before: Style | None = None
    feature = 0
    for _ in range(n_tables):
        feature += source.gamma(n_features - 1 - feature, "feature")
        categorical = some and source.flag()
        left = missing == BY_TABLE and source.flag()
        count = source.gamma(source.n_left, "number of splits") + 1
        if categorical:
            tables.append(_read_sets(source, count, feature, left))
            continue
        before = read_style(source, before)
        keys = read_keys(source, count, before.k)
        values = before.mapping.values(keys, dtype)
        if np.isnan(values).any():
            raise damaged("a threshold that is no number")
        tables.append(NumberTable(feature, left, before, keys))
    return tables


def _read_sets(source: BitReader, count: int, feature: int, left: bool) -> CategoryTable:
    listed_left, dense = source.flag(), source.flag()
    n = source.gamma(source.n_left, "number of codes")
    codes: Keys = np.arange(n, dtype=np.int64)
    if not dense:
        codes = read_keys(source, n, source.number(_RICE_BITS)) if n else codes
        if n and (int(codes[0]) < 0 or int(codes[-1]) > _LARGEST_CODE):
            raise damaged("a category code out of range")
    if n == 0 and count > 1:
        raise damaged("several empty category sets")
    member = source.take(count * n).reshape(count, n).astype(bool)
    return CategoryTable(feature, left, listed_left, codes, member)
