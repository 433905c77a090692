"""Tables that are read in blocks, against the same tables in memory."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest
from pyarrow import parquet
from sklearn.preprocessing import StandardScaler

from bayesmkl._utils import memory
from bayesmkl.datasets import _rows as rows_module
from bayesmkl.datasets import open_rows


@pytest.fixture
def table(rng):
    """Columns of all kinds of numbers, and two that are none."""
    n = 103
    return pd.DataFrame(
        {
            "x": rng.normal(size=n),
            "small": rng.normal(size=n).astype(np.float32),
            "count": rng.integers(0, 2**40, n),
            "flag": rng.random(n) < 0.5,
            "half": pd.array(np.where(rng.random(n) < 0.2, None, 3), dtype="Int64"),
            "city": ["Bonn"] * n,
            "day": pd.Timestamp("2020-01-01"),
        },
        index=np.arange(n)[::-1],
    )


NUMBERS = ["count", "x", "flag", "small", "half"]


@pytest.fixture
def file(table, tmp_path):
    table.to_parquet(tmp_path / "table.parquet", row_group_size=20)
    return tmp_path / "table.parquet"


@pytest.fixture
def expected(table):
    return np.column_stack([table[name].to_numpy(np.float64, na_value=np.nan) for name in NUMBERS])


@pytest.mark.parametrize("size", [1, 7, 20, 64, 1000])
def test_parquet_blocks_cross_row_groups(file, expected, size):
    rows = open_rows(file, NUMBERS)
    blocks = list(rows.blocks(size))
    assert [len(block) for block in blocks[:-1]] == [size] * (len(blocks) - 1)
    np.testing.assert_array_equal(np.concatenate(blocks), expected)
    assert rows.shape == expected.shape
    assert rows.columns == NUMBERS
    assert all(block.dtype == np.float64 and block.flags.c_contiguous for block in blocks)


@pytest.mark.parametrize(
    "index",
    [
        slice(None),
        slice(15, 45),
        slice(-5, None),
        slice(50, 10),
        slice(1, 90, 7),
        [4, 90, 4, -1],
        np.arange(103) % 3 == 0,
    ],
)
def test_indexing_is_that_of_arrays(file, expected, index, tmp_path, monkeypatch):
    monkeypatch.setattr(rows_module, "BLOCK_ROWS", 11)
    np.save(tmp_path / "table.npy", np.asfortranarray(expected))
    for rows in (open_rows(file, NUMBERS), open_rows(tmp_path / "table.npy"), open_rows(expected)):
        np.testing.assert_array_equal(rows[index], expected[index])


def test_one_row_group_is_read_at_a_time(file, monkeypatch):
    """Every pass reads every row group once, alone, and only the columns that are wanted."""
    read, original = [], parquet.ParquetFile.read_row_group

    def counting(self, group, **options):
        read.append((group, options["columns"]))
        return original(self, group, **options)

    monkeypatch.setattr(parquet.ParquetFile, "read_row_group", counting)
    rows = open_rows(file, ["x"])
    assert sum(block.sum() for block in rows.blocks(7)) == pytest.approx(rows[:].sum())
    assert read == [(group, ["x"]) for group in [*range(6), *range(6)]]
    assert rows._group(5).nbytes == 3 * 8  # the last row group is all that is kept


@pytest.fixture
def folder(table, tmp_path):
    """The same rows in three files, of which one has no rows, and what else lies in folders."""
    path = tmp_path / "parts"
    path.mkdir()
    for name, rows in (("a", slice(0, 40)), ("b", slice(40, 40)), ("c", slice(40, None))):
        table.iloc[rows].to_parquet(path / f"part-{name}.parquet", row_group_size=20)
    (path / "_SUCCESS").touch()
    return path


@pytest.mark.parametrize("size", [7, 20, 1000])
def test_a_folder_is_its_files_one_after_another(folder, expected, size):
    rows = open_rows(folder, NUMBERS)
    np.testing.assert_array_equal(np.concatenate(list(rows.blocks(size))), expected)
    np.testing.assert_array_equal(rows[[90, 3, 45]], expected[[90, 3, 45]])
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(rows))[35:50], expected[35:50])
    assert repr(rows) == "<103 rows of 5 columns of the 3 files of 'parts'>"
    assert rows._group(0).nbytes == 20 * 5 * 8  # one row group of one file


@pytest.mark.parametrize(
    ("change", "columns", "message"),
    [
        (
            lambda table: table.drop(columns="x"),
            None,
            r"'part-d.parquet' must have the columns .* of 'part-a.parquet'; got \[\] for \['x: double'\]",
        ),
        (lambda table: table.assign(z=1), None, r"got \['z: int64'\] for \[\]"),
        (lambda table: table.drop(columns="x"), ["x"], "different columns of 'part-d.parquet'"),
        (lambda table: table.astype({"x": np.float32}), ["x"], r"got \['x: float'\] for \['x: double'\]"),
    ],
)
def test_a_file_with_other_columns_is_refused(folder, table, change, columns, message):
    plain = table.drop(columns=["city", "day"])
    for name in "abc":
        plain.to_parquet(folder / f"part-{name}.parquet")
    change(plain).to_parquet(folder / "part-d.parquet")
    with pytest.raises(ValueError, match=message):
        open_rows(folder, columns)
    assert open_rows(folder, ["count"]).shape == (4 * 103, 1)


def test_a_folder_without_files_is_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no file that ends in \.parquet in the folder"):
        open_rows(tmp_path)


def test_a_file_that_changes_between_passes_is_refused(folder, table):
    rows = open_rows(folder, ["x"])
    list(rows.blocks())
    table.iloc[:63].to_parquet(folder / "part-c.parquet")
    with pytest.raises(ValueError, match=r"'part-c\.parquet' has changed"):
        list(rows.blocks())
    assert rows[:40].shape == (40, 1)  # of the first file, which is as it was


def test_a_row_group_beyond_the_memory_is_refused_before_it_is_read(file, expected, monkeypatch):
    rows = open_rows(file, NUMBERS)
    needed = 2 * 8 * 20 * len(NUMBERS)
    monkeypatch.setattr(memory, "_left_on_machine", lambda root: iter([needed]))
    np.testing.assert_array_equal(rows[:], expected)
    monkeypatch.setattr(memory, "_left_on_machine", lambda root: iter([needed - 1]))
    message = r"row group 1 of 'table\.parquet', 20 rows of 5 columns, needs 1\.6 kB, .* smaller row groups"
    with pytest.raises(MemoryError, match=message):
        open_rows(file, NUMBERS)[20:30]


def test_sample_draws_different_rows_in_order(rng):
    rows = open_rows(np.arange(50.0)[:, None])
    sample = rows.sample(20, random_state=3)[:, 0]
    assert (np.diff(sample) > 0).all()
    np.testing.assert_array_equal(sample, rows.sample(20, random_state=3)[:, 0])
    assert not np.array_equal(sample, rows.sample(20, random_state=4)[:, 0])
    np.testing.assert_array_equal(rows.sample(50), rows[:])
    with pytest.raises(ValueError, match="`n_rows` must be at most the number of rows, 50; got 51"):
        rows.sample(51)


def test_map_standardizes_as_in_memory(file, expected):
    rows, scaler = open_rows(file, ["x", "small"]), StandardScaler()
    for block in rows.blocks(30):
        scaler.partial_fit(block)
    scaled = rows.map(scaler.transform)
    np.testing.assert_allclose(scaled[:], StandardScaler().fit_transform(expected[:, [1, 3]]), atol=1e-12)
    assert scaled.columns == ["x", "small"]
    squares = rows.map(lambda X: np.hstack([X, X**2]))
    assert squares.shape == (103, 4)
    assert squares.columns is None
    with pytest.raises(ValueError, match="as many rows as it gets"):
        rows.map(lambda X: X.T)


def test_arrays_by_position(rng):
    X = rng.integers(0, 9, (6, 4)).astype(np.int8)
    np.testing.assert_array_equal(open_rows(X, [3, 0])[:], X[:, [3, 0]])
    np.testing.assert_array_equal(open_rows(X, 2)[:], X[:, [2]])


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (["x", "y"], r"which has 'x', .*; got \['y'\]"),
        (["x", "x"], r"must be different columns .* got \['x', 'x'\]"),
        ([], r"must be different columns"),
        ("day", "'day' of 'table.parquet' holds timestamp"),
    ],
)
def test_wrong_columns_of_parquet(file, columns, message):
    with pytest.raises(ValueError, match=message):
        open_rows(file, columns)


def test_wrong_files(tmp_path, rng):
    with pytest.raises(
        ValueError, match=r"`path` must be a \.parquet or \.npy file; got 'a\.csv'.*Convert it once"
    ):
        open_rows("a.csv")
    with pytest.raises(ValueError, match=r"got 'a\.xlsx'"):
        open_rows("a.xlsx")
    with pytest.raises(FileNotFoundError, match=r"`path`: there is no file"):
        open_rows(tmp_path / "a.parquet")
    np.save(tmp_path / "cube.npy", np.zeros((2, 2, 2)))
    with pytest.raises(ValueError, match=r"two dimensions.*\(2, 2, 2\)"):
        open_rows(tmp_path / "cube.npy")
    np.save(tmp_path / "objects.npy", np.array([[{}]]), allow_pickle=True)
    with pytest.raises(ValueError, match=r"'objects\.npy' is not an array of numbers"):
        open_rows(tmp_path / "objects.npy")
    with pytest.raises(ValueError, match="positions from 0 to 1; got 2"):
        open_rows(rng.normal(size=(3, 2)), [0, 2])


def test_sources_are_no_arrays(file):
    rows = open_rows(file, "x")
    with pytest.raises(TypeError, match=r"read in blocks, <103 rows of 1 columns of 'table\.parquet'>"):
        np.asarray(rows)
    with pytest.raises(TypeError, match="by a slice, by a list of positions or by a boolean mask"):
        rows[:, 0]
    with pytest.raises(IndexError, match="positions must be from 0 to 102"):
        rows[[103]]
