"""Tables in files as they come: each is refused by name, or read as what it says."""

from __future__ import annotations

import gzip
import io
from datetime import date
from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from cli_runner import run
from pyarrow import parquet

from bayesmkl._utils.tables import read_table

pytestmark = pytest.mark.family("files: tables")
NAN = np.nan
TEXT = object  # of columns


# Contents, and what is said about them.
REFUSED = {
    # other numbers of fields
    "lines end in a comma": (b"x,y\n1,2,\n3,4,\n", r"line 2 has 3 fields and the first line 2. It ends in ','"),
    "one line ends in a comma": (b"x,y\n1,2\n3,4\n5,6,\n", r"line 4 has 3 fields and the first line 2"),
    "a line too short": (b"x,y,z\n1,2,3\n4,5\n", r"line 3 has 2 fields and the first line 3"),
    "a comma in a field": (b"x,y\n1,Bonn, Rhein\n", r"line 2 has 3 fields"),
    "thousands": (b"x,y\n1,234,5\n", r"line 2 has 3 fields"),
    "decimal commas": (b"x;y\n1,5;2,5\n", r"line 2 has 3 fields .* separated by semicolons"),
    "a comment": (b"x,y\n# made today\n1,2\n", r"line 2 has 1 fields"),
    "a title": (b"Measurements\nx,y\n1,2\n", r"line 2 has 2 fields and the first line 1.* a title"),
    "the line after a long field": (b'x,y\n"1\n\n",2\n3\n', r"line 5 has 1 fields"),
    "index of R": (b'"x","y"\n"1",5,2\n', r"line 2 has 3 fields and the first line 2"),
    # separators
    "semicolons": (b"x;y\n1;2\n", r"only column is 'x;y', which seems to be separated by semicolons"),
    "tabs": (b"x\ty\n1\t2\n", r"separated by tabs"),
    # names
    "a name twice": (b"x,x,y\n1,2,3\n", r"different names; more than one is called 'x'"),
    "a header inside": (b"x,y\n1,a\nx,y\n2,b\n", r"row 2 below the header repeats it"),
    # characters
    "NUL in a number": (b"x,y\n1.5,2\n1\x005,2\n", r"line 3 has a NUL byte"),
    "UTF-16": ("x,y\n1,2\n".encode("utf-16"), r"in UTF-16. Save it as UTF-8"),
    "latin-1": ("x,stra\u00dfe\n1,2\n".encode("latin-1"), r"line 1 is no text in UTF-8 \(byte 0xdf\)"),
    "a zip archive": (b"PK\x03\x04abc", r"compressed, or a spreadsheet"),
    "compressed": (gzip.compress(b"x,y\n1,2\n"), r"compressed, or a spreadsheet"),
    # quotes
    "a quote left open": (b'x,y\n1,"2\n3,4\n5,6\n', r"from line 2 on quotes do not pair"),
    "a quote left open above": (b'x,y\n"1,2\n3,4\n', r"quotes do not pair|line 2 has 1 fields"),
    # nothing
    "empty": (b"", r"it is empty"),
    "a header": (b"x,y\n", r"holds no rows"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_refused_by_name(case, tmp_path):
    content, message = REFUSED[case]
    path = tmp_path / "table.csv"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=message) as caught:
        read_table(path)
    assert str(path) in str(caught.value)


# Contents, what their columns hold, and of which type they are.
READ = {
    "numbers": (b"x,y\n1,2.5\n3,-4e2\n", {"x": ([1, 3], int), "y": ([2.5, -400.0], float)}),
    "a byte order mark": (b"\xef\xbb\xbfx,y\n1,2\n", {"x": ([1], int), "y": ([2], int)}),
    "no end of the last line": (b"x,y\n1,2\n3,4", {"x": ([1, 3], int), "y": ([2, 4], int)}),
    "CRLF": (b"x,y\r\n1,2\r\n3,4\r\n", {"x": ([1, 3], int), "y": ([2, 4], int)}),
    "columns without name and value": (b"x,y,\n1,2,\n3,4,\n", {"x": ([1, 3], int), "y": ([2, 4], int)}),
    "blanks around": (b"x,y\n 1, 2.5 \n3 ,4\n", {"x": ([1, 3], int), "y": ([2.5, 4.0], float)}),
    "quoted": (b'"x","a ""b"", c"\n"1","2,5"\n', {"x": ([1], int), 'a "b", c': (["2,5"], TEXT)}),
    "line ends in quotes": (b'x,y\n"a\nb",1\n"c\r\nd",2\n', {"x": (["a\nb", "c\r\nd"], TEXT), "y": ([1, 2], int)}),
    "every digit": (
        b"x\n0.1234567890123456789\n1.7976931348623157e308\n5e-324\n9007199254740993.0\n",
        {"x": ([0.12345678901234568, 1.7976931348623157e308, 5e-324, 9007199254740992.0], float)},
    ),
    "long identifiers": (b"x,y\n9007199254740993,1\n", {"x": ([9007199254740993], int), "y": ([1], int)}),
    "a number and a word": (b"x,y\n1,2\n1,2\n?,2\n", {"x": (["1", "1", "?"], TEXT), "y": ([2] * 3, int)}),
    "words for missing": (
        b"x,y\nNA,1\n2.5,nan\n,None\n",
        {"x": ([NAN, 2.5, NAN], float), "y": ([1.0, NAN, NAN], float)},
    ),
    "words for infinity": (b"x\ninf\n-Infinity\n", {"x": ([np.inf, -np.inf], float)}),
    "hexadecimal": (b"x\n0x10\n0x1F\n", {"x": (["0x10", "0x1F"], TEXT)}),
    "dates": (b"x\n2026-11-22\n", {"x": (["2026-11-22"], TEXT)}),
    "truth": (b"x,y\nTrue,1\nFALSE,2\n", {"x": ([True, False], bool), "y": ([1, 2], int)}),
    "truth with a gap": (b"x,y\nTrue,1\n,2\n", {"x": ([True, None], TEXT), "y": ([1, 2], int)}),
    "a saved index": (b",x\n0,5\n1,6\n", {"Unnamed: 0": ([0, 1], int), "x": ([5, 6], int)}),
}  # fmt: skip


def assert_holds(table, expected):
    assert table.columns.tolist() == list(expected)
    for name, (values, kind) in expected.items():
        found = table[name]
        if kind is TEXT:
            assert not pd.api.types.is_numeric_dtype(found.dtype)
            assert [None if pd.isna(value) else value for value in found] == values
        else:
            assert found.dtype == kind
            np.testing.assert_array_equal(found.to_numpy(), np.array(values, dtype=kind))


@pytest.mark.parametrize("case", READ)
def test_read_as_it_says(case, tmp_path):
    content, expected = READ[case]
    (tmp_path / "table.csv").write_bytes(content)
    assert_holds(read_table(tmp_path / "table.csv"), expected)
    (tmp_path / "table.csv.gz").write_bytes(gzip.compress(content))
    assert_holds(read_table(tmp_path / "table.csv.gz"), expected)


@pytest.mark.parametrize(
    ("texts", "labels"),
    [
        (["0", "1", "2"], [0, 1, 2]),
        (["1.0", "2.0"], [1.0, 2.0]),
        ([f"{k}.00" for k in range(11)], list(range(11))),  # more than classes have values
        (["9007199254740993", "9007199254740992"], [9007199254740993, 9007199254740992]),
        (["0", "NA", ""], [0, None, None]),
        (["001", "002"], ["001", "002"]),
        (["1", "01"], ["1", "01"]),
        (["1e3", "2e3"], ["1e3", "2e3"]),
        (["no ", "no"], ["no ", "no"]),
        (["NA", "nan", "None", "yes"], ["NA", "nan", "None", "yes"]),
        (["99999999999999999998", "99999999999999999999"], ["99999999999999999998", "99999999999999999999"]),
    ],
)  # fmt: skip
def test_labels_lose_nothing(texts, labels, tmp_path):
    lines = "".join(f'1,"{text}"\n' for text in texts)
    (tmp_path / "table.csv").write_text(f"x,y\n{lines}")
    found = read_table(tmp_path / "table.csv", labels=["y"])["y"].tolist()
    assert [None if pd.isna(label) else label for label in found] == labels
    as_they_are = read_table(tmp_path / "table.csv", labels=["y"], classes={"y": ["a", "b"]})["y"].tolist()
    assert [None if pd.isna(label) else label for label in as_they_are] == [text or None for text in texts]


def parquet_of(table, index=True):
    file = io.BytesIO()
    if isinstance(table, pd.DataFrame):
        table.to_parquet(file, index=index)
    else:
        parquet.write_table(table, file)
    return file.getvalue()


X = [1.5, 2.5]
PARQUET = {
    "row numbers": (pd.DataFrame({"x": X}, index=[7, 3]), {"x": (X, float)}),
    "row names": (pd.DataFrame({"x": X}, index=pd.Index(["a", "b"], name="id")), {"x": (X, float)}),
    "row numbers of others": (
        pa.table({"x": X, "__index_level_0__": [0, 1]}),
        {"x": (X, float), "__index_level_0__": ([0, 1], int)},
    ),
    "numbers as names": (pd.DataFrame({1: X}), {"1": (X, float)}),
    "gaps": (pd.DataFrame({"x": pd.array([1, None], dtype="Int64")}), {"x": ([1, None], "Int64")}),
    "dates": (pa.table({"x": [date(2026, 11, 22)]}), {"x": ([date(2026, 11, 22)], TEXT)}),
    "decimals": (pa.table({"x": [Decimal("1.5")]}), {"x": ([Decimal("1.5")], TEXT)}),
    "a dictionary": (pa.table({"x": pa.array(["01", "1"]).dictionary_encode()}), {"x": (["01", "1"], TEXT)}),
    "text": (pa.table({"x": ["001", "NA"]}), {"x": (["001", "NA"], TEXT)}),
}  # fmt: skip


@pytest.mark.parametrize("case", PARQUET)
def test_parquet_is_read_as_it_says(case, tmp_path):
    table, expected = PARQUET[case]
    (tmp_path / "table.parquet").write_bytes(parquet_of(table))
    found = read_table(tmp_path / "table.parquet", labels=["x"])
    if case == "gaps":
        assert found["x"].tolist() == [1, pd.NA]
    else:
        assert_holds(found, expected)


def test_fields_of_any_length_end(tmp_path):
    (tmp_path / "table.csv").write_text('x\n1\n"' + "y\n" * 70_000 + '"\n')
    with pytest.raises(ValueError, match=r"from line 3 .* \(field larger than field limit \(131072\)\)"):
        read_table(tmp_path / "table.csv")


# ------------------------------------------------------------------------------------------------ the command line


@pytest.fixture(scope="module")
def table():
    """Two classes that one of three columns tells apart."""
    rng = np.random.default_rng(7)
    table = pd.DataFrame(rng.normal(size=(60, 3)), columns=["a", "b", "c"]).round(6)
    table["b"] += np.where(np.arange(60) % 2, 4.0, -4.0)
    return table.assign(code=np.where(np.arange(60) % 2, "001", "002"))


def test_missing_labels_among_words_are_told(table, tmp_path):
    fit = ["fit", tmp_path / "data.csv", "--target", "grade", "--out", tmp_path / "run"]
    table.assign(grade=["mild", "severe", "None"] * 20, code=1).to_csv(tmp_path / "data.csv", index=False)
    code, stdout, stderr = run(*fit)
    assert "'None' in 'grade' is a class here. If it means a missing label" in stdout
    assert code == 2  # before the fit
    assert "column 'code' holds the same value" in stderr
    table.assign(grade=["1", "2", "None"] * 20).to_csv(tmp_path / "data.csv", index=False)
    assert "the target 'grade' is missing in 20 of 60 rows" in run(*fit)[2]
