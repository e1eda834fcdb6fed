"""A student's own preprocessing: numbers, missing values, categories; and its bytes."""

import numpy as np
import pandas as pd
import polars as pl
import pytest

from treespec.errors import DataMismatchError
from treespec.students import preprocess_bytes
from treespec.students.outcome import Outcome
from treespec.students.preprocess import Column, Preprocess

NAN = np.nan
COLUMNS = (
    Column("number"),
    Column("number", fill=2.5, indicator=True),
    Column("unused"),
    Column("category", values=("red", "grün"), indicator=True),
    Column("category", values=(3.0, -1.5)),
)
OUTCOME = Outcome("regression", "identity", 1, 5, feature_names=("a", "b", "c", "d", "e"))
EXPECTED = [[1, 7, 0, 1, 0, 0, 1, 0], [2, 2.5, 1, 0, 1, 0, 0, 1], [3, 9, 0, 0, 0, 1, 0, 0], [4, 9, 0, 0, 0, 0, 0, 0]]


def rows():
    return {
        "a": [1.0, 2, 3, 4],
        "b": [7, None, 9, 9],
        "c": ["x", None, "y", "z"],
        "d": ["red", "grün", None, "blue"],
        "e": [3.0, -1.5, None, 8.0],
    }


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_rows_become_inputs(frame):
    got = Preprocess(COLUMNS)(frame(rows()), OUTCOME)
    np.testing.assert_array_equal(got, EXPECTED)
    assert got.dtype == np.float32


def test_an_object_array_gives_the_same():
    table = np.array(list(zip(*rows().values(), strict=True)), dtype=object)
    np.testing.assert_array_equal(Preprocess(COLUMNS)(table, OUTCOME), EXPECTED)


def test_missing_values_where_there_were_none_are_refused():
    with pytest.raises(DataMismatchError, match=r"no missing values in column 0.*first in row 1"):
        Preprocess((Column(),))(np.array([[1.0], [NAN]]), Outcome("regression", "identity", 1, 1))


def test_far_outliers_are_cut():
    cut = Preprocess((Column("number", low=-1.0, high=2.5), Column("number", fill=0.5, indicator=True, low=-2.0, high=2.0)))
    X = np.array([[9.0, -9.0], [-9.0, NAN], [0.5, np.inf]])
    np.testing.assert_array_equal(cut(X, Outcome("regression", "identity", 1, 2)), [[2.5, -2, 0], [-1, 0.5, 1], [0.5, 2, 0]])
    read = preprocess_bytes.loads(preprocess_bytes.Reader(preprocess_bytes.dumps(cut)), 2)
    assert read.columns[1] == cut.columns[1]
    assert (read.columns[0].low, read.columns[0].high) == (-1.0, 2.5)


def test_inputs_are_counted():
    made = Preprocess(COLUMNS)
    assert made.n_inputs == 8
    np.testing.assert_array_equal(made.is_binary, [False, False, True, True, True, True, True, True])


def test_bytes_are_exact():
    data = preprocess_bytes.dumps(Preprocess(COLUMNS))
    reader = preprocess_bytes.Reader(data)
    read = preprocess_bytes.loads(reader, 5).columns
    assert reader.left == 0
    assert repr(read) == repr(COLUMNS)
    numbers = (Column("category", values=(0.1, 2.0)),)  # 0.1 needs a double
    assert preprocess_bytes.loads(preprocess_bytes.Reader(preprocess_bytes.dumps(Preprocess(numbers))), 1).columns[0].values == (0.1, 2.0)
