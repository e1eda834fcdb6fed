"""The input rule: each setting changes exactly what it should."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy.sparse import coo_matrix, csr_matrix

from treespec.errors import DataMismatchError
from treespec.ir import InputRule
from treespec.ir.table import n_rows

NAN = np.nan
TINY = 1.0000000180025095e-35


def encode(rule, X, n=None, names=None):
    return rule.encode(X, np.shape(X)[1] if n is None else n, names)


def test_numbers_are_rounded_to_the_dtype():
    x = np.array([[0.1, 16777217.0]])
    np.testing.assert_array_equal(encode(InputRule(dtype="float32"), x), x.astype(np.float32))
    np.testing.assert_array_equal(encode(InputRule(), x), x)


def test_float64_input_that_needs_no_change_is_not_copied_nor_changed():
    x = np.array([[1.0, NAN]])
    assert np.shares_memory(encode(InputRule(), x), x)
    before = np.array([[TINY, -999.0, -0.5]])
    x = before.copy()
    encode(InputRule(missing_value=-999.0, zero="flush", categorical=(2,), negative_fraction_is_zero=True), x)
    np.testing.assert_array_equal(x, before)


def test_a_missing_value_becomes_nan():
    np.testing.assert_array_equal(encode(InputRule(missing_value=-999.0), np.array([[-999.0, 1.0]])), [[NAN, 1.0]])


@pytest.mark.parametrize(("zero", "expected"), [("keep", TINY), ("flush", 0.0), ("missing", NAN)])
def test_tiny_values(zero, expected):
    above = np.nextafter(TINY, 1)
    np.testing.assert_array_equal(encode(InputRule(zero=zero), np.array([[TINY, above]])), [[expected, above]])


def test_zero_is_a_category_even_where_zero_is_missing():
    np.testing.assert_array_equal(encode(InputRule(zero="missing", categorical=(0,)), np.array([[0.0, 0.0]])), [[0.0, NAN]])


def test_negative_fractions_of_codes():
    x = np.array([[-0.5, -0.5], [-1.0, 0.0], [-1.5, 0.0]])
    rule = InputRule(categorical=(0,), negative_fraction_is_zero=True)
    np.testing.assert_array_equal(encode(rule, x)[:, 0], [0.0, -1.0, -1.5])
    assert encode(rule, x)[0, 1] == -0.5


def test_sparse_rows_follow_the_rule_for_absent_entries():
    X = csr_matrix(np.array([[0.0, 2.0], [3.0, 0.0]]))
    np.testing.assert_array_equal(encode(InputRule(), X), [[0, 2], [3, 0]])
    np.testing.assert_array_equal(encode(InputRule(absent="missing"), X), [[NAN, 2], [3, NAN]])


def test_entries_that_a_sparse_matrix_stores_twice_are_added_up():
    X = coo_matrix(([1.0, 2.0, 5.0], ([0, 0, 1], [0, 0, 1])), shape=(2, 2))
    np.testing.assert_array_equal(InputRule().encode(X, 2), [[3, 0], [0, 5]])
    np.testing.assert_array_equal(InputRule(absent="missing").encode(X, 2), [[3, NAN], [NAN, 5]])


def test_refused_values_are_named():
    with pytest.raises(DataMismatchError, match="NaN in column 1"):
        encode(InputRule(nan="refuse"), np.array([[1.0, NAN]]))
    with pytest.raises(DataMismatchError, match="too large in column 0"):
        encode(InputRule(dtype="float32", infinite="refuse"), np.array([[1e39, 1.0]]))
    encode(InputRule(infinite="refuse"), np.array([[1e39, NAN]]))


CATEGORIES = InputRule(categorical=(1,), categories=((1, ("b", "a", "c")),))


@pytest.mark.parametrize("unknown", ["other", "missing"])
@pytest.mark.parametrize("kind", ["pandas category", "pandas text", "polars", "polars category", "arrow", "object array"])
def test_categories_are_matched_by_value(kind, unknown):
    values = ["a", "b", None, "c", "new"]
    number = [1.0, 2.0, 3.0, 4.0, 5.0]
    frames = {
        "pandas category": lambda: pd.DataFrame({"n": number, "c": pd.Categorical(values, categories=["new", "c", "b", "a"])}),
        "pandas text": lambda: pd.DataFrame({"n": number, "c": values}),
        "polars": lambda: pl.DataFrame({"n": number, "c": values}),
        "polars category": lambda: pl.DataFrame({"n": number, "c": pl.Series(values, dtype=pl.Categorical)}),
        "arrow": lambda: pa.table({"n": number, "c": values}),
        "object array": lambda: np.array(list(zip(number, values, strict=True)), dtype=object),
    }
    rule = InputRule(categorical=(1,), categories=CATEGORIES.categories, unknown_category=unknown)
    np.testing.assert_array_equal(encode(rule, frames[kind](), 2)[:, 1], [1, 0, NAN, 2, 3 if unknown == "other" else NAN])


def test_numeric_and_boolean_category_values():
    rule = InputRule(categorical=(0,), categories=((0, (-5.0, 2.0, 7.5)),))
    np.testing.assert_array_equal(encode(rule, np.array([[7.5], [-5.0], [3.0], [NAN]]))[:, 0], [2, 0, 3, NAN])
    rule = InputRule(categorical=(0,), categories=((0, (False, True)),))
    np.testing.assert_array_equal(encode(rule, np.array([[True], [False]]))[:, 0], [1, 0])


LARGE = 2**53


@pytest.mark.parametrize("value", [LARGE + 1, -LARGE - 1, 2**62, -(2**63)])
@pytest.mark.parametrize(
    "form", [np.array, lambda v: np.array(v, dtype=object), pd.DataFrame, lambda v: pl.DataFrame(v, orient="row"), list]
)
def test_integers_that_floats_do_not_tell_apart_are_no_categories(value, form):
    rule = InputRule(categorical=(0,), categories=((0, (-5.0, 2.0)),), unknown_category="missing")
    with pytest.raises(DataMismatchError, match=f"column .*0.*\n?.*{value} in row 1"):
        encode(rule, form([[2, 1], [value, 1]]), 2)
    np.testing.assert_array_equal(encode(rule, form([[2, 1], [LARGE, value]]), 2), [[1, 1], [NAN, float(value)]])
    np.testing.assert_array_equal(encode(rule, np.array([[2.0], [float(2**62)]])), [[1], [NAN]])


def test_codes_where_text_was_trained_are_refused():
    with pytest.raises(DataMismatchError, match="such as 'b' in the categorical column 1"):
        encode(CATEGORIES, np.array([[1.0, 0.0]]))


NAMES = ("a", "b", "c")


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame, lambda d: pa.table(d)])
def test_columns_are_matched_by_name(frame):
    X = frame({"c": [3.0], "a": [1.0], "b": [2.0]})
    np.testing.assert_array_equal(encode(InputRule(), X, 3, NAMES), [[1, 2, 3]])
    for columns, message in (
        ({"a": [1.0], "b": [2.0]}, "missing columns 'c'"),
        ({"a": [1.0], "b": [2.0], "c": [1.0], "d": [1.0]}, "does not know 'd'"),
    ):
        with pytest.raises(DataMismatchError, match=message):
            encode(InputRule(), frame(columns), 3, NAMES)


def test_duplicated_columns_are_refused():
    X = pd.DataFrame([[1.0, 2.0, 3.0, 4.0]], columns=["a", "b", "c", "a"])
    with pytest.raises(DataMismatchError, match=r"different names.*'a' 2 times"):
        encode(InputRule(), X, 3, NAMES)


def test_frames_without_known_names_go_by_position():
    np.testing.assert_array_equal(encode(InputRule(), pd.DataFrame({"z": [1], "a": [2]}), 2), [[1, 2]])
    with pytest.raises(DataMismatchError, match="2 columns"):
        encode(InputRule(), pd.DataFrame({"z": [1]}), 2)


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (np.zeros((2, 3)), "2 columns"),
        (np.zeros(2), r"shape \(2,\)"),
        (np.array([["x", 1.0]], dtype=object), "numbers in column 0"),
        (np.array([["1", "2"]]), "numbers in column 0"),
        (np.array([["2020-01-01", "2020-01-01"]], dtype="datetime64[D]"), "datetime64"),
        (pd.DataFrame({"a": ["x"], "b": [1.0]}), "numbers in column 'a'"),
        (pd.DataFrame({"a": pd.to_datetime(["2020-01-01"]), "b": [1.0]}), "column 'a'"),
        (pl.LazyFrame({"a": [1.0], "b": [1.0]}), "eager data frame"),
        ([[1.0, 2.0], [1.0]], "different lengths"),
        (np.zeros((2, 2), complex), "complex"),
    ],
)
def test_bad_rows_say_what_is_wrong(X, message):
    with pytest.raises(DataMismatchError, match=message):
        InputRule().encode(X, 2)


def test_nullable_and_integer_columns():
    X = pd.DataFrame({"a": pd.array([1, None], dtype="Int64"), "b": [True, False]})
    np.testing.assert_array_equal(InputRule().encode(X, 2), [[1, 1], [NAN, 0]])
    X = pl.DataFrame({"a": [1, None], "b": [True, False]})
    np.testing.assert_array_equal(InputRule().encode(X, 2), [[1, 1], [NAN, 0]])
    for missing in (None, pd.NA, NAN):
        X = np.array([[1, missing], [2.5, np.float32(3)]], dtype=object)
        np.testing.assert_array_equal(InputRule().encode(X, 2), [[1, NAN], [2.5, 3]])


@pytest.mark.parametrize("X", [None, 5, np.array(1.0), (r for r in [[1.0]]), pl.LazyFrame({"a": [1.0]})])
def test_what_has_no_rows_is_no_table(X):
    with pytest.raises(DataMismatchError, match="eager data frame"):
        n_rows(X)
