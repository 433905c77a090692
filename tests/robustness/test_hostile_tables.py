"""Tables in files as they come: each is refused by name, or read as what it says."""

from __future__ import annotations

import gzip
import io
import locale
from datetime import date
from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import parquet
from typer.testing import CliRunner

from bayesmkl._utils.tables import numbers_in, read_table, read_text, unnamed_columns
from bayesmkl.cli import app
from bayesmkl.cli.comparing import read_config
from bayesmkl.cli.tables import check_target

pytestmark = pytest.mark.family("files: tables")
NAN = np.nan
TEXT = object  # of columns


# Contents, and what is said about them.
REFUSED = {
    # other numbers of fields
    "lines end in a comma": (b"x,y\n1,2,\n3,4,\n", r"line 2 has 3 fields and the header 2. It ends in ','"),
    "one line ends in a comma": (b"x,y\n1,2\n3,4\n5,6,\n", r"line 4 has 3 fields and the header 2"),
    "a line too short": (b"x,y,z\n1,2,3\n4,5\n", r"line 3 has 2 fields and the header 3"),
    "a line cut off": (b"x,y,z\n1,2,3\n4,5", r"line 3 has 2 fields .* cut off"),
    "a comma in a field": (b"x,y\n1,Bonn, Rhein\n", r"line 2 has 3 fields"),
    "thousands": (b"x,y\n1,234,5\n", r"line 2 has 3 fields"),
    "decimal commas": (b"x;y\n1,5;2,5\n", r"line 2 has 3 fields .* separated by semicolons"),
    "blank before a quote": (b'x,y\n1, "a,b"\n', r"line 2 has 3 fields"),
    "a comment": (b"x,y\n# made today\n1,2\n", r"line 2 has 1 fields"),
    "a title": (b"Measurements\nx,y\n1,2\n", r"line 2 has 2 fields and the header 1.* a title"),
    "blanks in a line": (b"x,y\n1,2\n   \n3,4\n", r"line 3 has 1 fields"),
    "an end of file mark": (b"x,y\n1,2\n\x1a", r"line 3 has 1 fields"),
    "the line after a long field": (b'x,y\n"1\n\n",2\n3\n', r"line 5 has 1 fields"),
    "the line after empty lines": (b"x,y\n\n\n1,2,3\n", r"line 4 has 3 fields"),
    "lines end in CR": (b"x,y\r1,2\r3\r", r"line 3 has 1 fields"),
    "index of R": (b'"x","y"\n"1",5,2\n', r"line 2 has 3 fields and the header 2"),
    # separators
    "semicolons": (b"x;y\n1;2\n", r"only column is 'x;y', which seems to be separated by semicolons"),
    "tabs": (b"x\ty\n1\t2\n", r"separated by tabs"),
    "bars": (b"x|y\n1|2\n", r"separated by bars"),
    # names
    "a name twice": (b"x,x,y\n1,2,3\n", r"different names; more than one is called 'x'"),
    "a name of pandas twice": (b",Unnamed: 0,y\n1,2,3\n", r"more than one is called 'Unnamed: 0'"),
    "a header inside": (b"x,y\n1,a\nx,y\n2,b\n", r"row 2 below the header repeats it"),
    # characters
    "NUL in a number": (b"x,y\n1.5,2\n1\x005,2\n", r"line 3 has a NUL byte"),
    "NUL in a name": (b"x,y\x00\n1,2\n", r"line 1 has a NUL byte"),
    "UTF-16": ("x,y\n1,2\n".encode("utf-16"), r"in UTF-16. Save it as UTF-8"),
    "UTF-16 without a mark": ("x,y\n1,2\n".encode("utf-16-le"), r"line 1 has a NUL byte"),
    "latin-1": ("x,stra\u00dfe\n1,2\n".encode("latin-1"), r"line 1 is no text in UTF-8 \(byte 0xdf\)"),
    "latin-1 below": ("x,y\n1,2\n3,M\u00fcnchen\n".encode("latin-1"), r"line 3 is no text in UTF-8"),
    "a zip archive": (b"PK\x03\x04abc", r"compressed, or a spreadsheet"),
    "compressed": (gzip.compress(b"x,y\n1,2\n"), r"compressed, or a spreadsheet"),
    # quotes
    "a quote left open": (b'x,y\n1,"2\n3,4\n5,6\n', r"from line 2 on quotes do not pair"),
    "a quote left open above": (b'x,y\n"1,2\n3,4\n', r"quotes do not pair|line 2 has 1 fields"),
    "a quote left open at the end": (b'x,y\n1,2\n3,"4', r"from line 3 on quotes do not pair"),
    # nothing
    "empty": (b"", r"it is empty"),
    "empty lines": (b"\n\n\n", r"it is empty"),
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
    "CR": (b"x,y\r1,2\r3,4", {"x": ([1, 3], int), "y": ([2, 4], int)}),
    "empty lines": (b"\nx,y\n\n1,2\n\n\n3,4\n\n", {"x": ([1, 3], int), "y": ([2, 4], int)}),
    "columns without name and value": (b"x,y,\n1,2,\n3,4,\n", {"x": ([1, 3], int), "y": ([2, 4], int)}),
    "blanks around": (b"x,y\n 1, 2.5 \n3 ,4\n", {"x": ([1, 3], int), "y": ([2.5, 4.0], float)}),
    "names with blanks": (b"x, y,Y\n1,2,3\n", {"x": ([1], int), " y": ([2], int), "Y": ([3], int)}),
    "quoted": (b'"x","a ""b"", c"\n"1","2,5"\n', {"x": ([1], int), 'a "b", c': (["2,5"], TEXT)}),
    "line ends in quotes": (b'x,y\n"a\nb",1\n"c\r\nd",2\n', {"x": (["a\nb", "c\r\nd"], TEXT), "y": ([1, 2], int)}),
    "a quote inside": (b'x,y\n1,5" pipe\n', {"x": ([1], int), "y": (['5" pipe'], TEXT)}),
    "every digit": (
        b"x\n0.1234567890123456789\n1.7976931348623157e308\n5e-324\n9007199254740993.0\n",
        {"x": ([0.12345678901234568, 1.7976931348623157e308, 5e-324, 9007199254740992.0], float)},
    ),
    "long identifiers": (b"x,y\n9007199254740993,1\n", {"x": ([9007199254740993], int), "y": ([1], int)}),
    "longer identifiers": (b"x\n99999999999999999999\n1\n", {"x": (["99999999999999999999", "1"], TEXT)}),
    "a number and a word": (b"x,y\n1,2\n1,2\n?,2\n", {"x": (["1", "1", "?"], TEXT), "y": ([2] * 3, int)}),
    "words for missing": (
        b"x,y\nNA,1\n2.5,nan\n,None\n",
        {"x": ([NAN, 2.5, NAN], float), "y": ([1.0, NAN, NAN], float)},
    ),
    "words for infinity": (b"x\ninf\n-Infinity\n1e999\n", {"x": ([np.inf, -np.inf, np.inf], float)}),
    "nothing": (b"x,y\n,1\n,2\n", {"x": ([NAN, NAN], float), "y": ([1, 2], int)}),
    "signs": (b"x,y\n+1,.5\n-0,5.\n", {"x": ([1.0, -0.0], float), "y": ([0.5, 5.0], float)}),
    "hexadecimal": (b"x\n0x10\n0x1F\n", {"x": (["0x10", "0x1F"], TEXT)}),
    "underscores": (b"x\n1_000\n", {"x": (["1_000"], TEXT)}),
    "thousands in quotes": (b'x\n"1,234"\n', {"x": (["1,234"], TEXT)}),
    "units": (b"x\n12 kg\n13 kg\n", {"x": (["12 kg", "13 kg"], TEXT)}),
    "per cent": (b"x\n12%\n", {"x": (["12%"], TEXT)}),
    "dates": (b"x\n2026-11-22\n", {"x": (["2026-11-22"], TEXT)}),
    "times": (b"x\n12:30\n", {"x": (["12:30"], TEXT)}),
    "truth": (b"x,y\nTrue,1\nFALSE,2\n", {"x": ([True, False], bool), "y": ([1, 2], int)}),
    "truth with a gap": (b"x,y\nTrue,1\n,2\n", {"x": (["True", None], TEXT), "y": ([1, 2], int)}),
    "digits of other scripts": ("x\n\u0661\n".encode(), {"x": (["\u0661"], TEXT)}),
    "a saved index": (b",x\n0,5\n1,6\n", {"Unnamed: 0": ([0, 1], int), "x": ([5, 6], int)}),
    "zeros in front": (b"x\n007\n010\n", {"x": ([7, 10], int)}),
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


def test_there_are_sixty_files():
    assert len(REFUSED) + len(READ) >= 60


@pytest.mark.parametrize(
    ("texts", "labels"),
    [
        (["0", "1", "2"], [0, 1, 2]),
        (["-1", "1"], [-1, 1]),
        (["1.0", "2.0"], [1.0, 2.0]),
        (["1.50", "2.25"], [1.5, 2.25]),  # a quantity
        ([f"{k}.00" for k in range(11)], list(range(11))),  # more than classes have values
        (["9007199254740993", "9007199254740992"], [9007199254740993, 9007199254740992]),
        (["0", "NA", ""], [0, None, None]),
        (["001", "002"], ["001", "002"]),
        ([f"{k:03d}" for k in range(99)], [f"{k:03d}" for k in range(99)]),
        (["1", "01"], ["1", "01"]),
        (["1", "1.0"], ["1", "1.0"]),
        (["1.00", "2.00"], ["1.00", "2.00"]),
        (["1e3", "2e3"], ["1e3", "2e3"]),
        (["+1", "-1"], ["+1", "-1"]),
        ([" 1", "1"], [" 1", "1"]),
        (["no ", "no"], ["no ", "no"]),
        (["0x1", "0x2"], ["0x1", "0x2"]),
        (["True", "False", ""], ["True", "False", None]),
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


def test_labels_are_of_the_kind_of_those_that_are_known(tmp_path):
    (tmp_path / "table.csv").write_text("y\n1.00\n2.00\n")
    assert read_table(tmp_path / "table.csv", ["y"], classes={"y": [1, 2]})["y"].tolist() == [1.0, 2.0]
    assert read_table(tmp_path / "table.csv", ["y"])["y"].tolist() == ["1.00", "2.00"]
    assert read_table(tmp_path / "table.csv")["y"].tolist() == [1.0, 2.0]


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


def test_parquet_with_a_name_twice_is_refused(tmp_path):
    twice = pa.table([X, X], names=["x", "x"])
    (tmp_path / "table.parquet").write_bytes(parquet_of(twice))
    with pytest.raises(ValueError, match=r"table.parquet.*'x'"):
        read_table(tmp_path / "table.parquet")


@pytest.mark.parametrize(
    "labels",
    [
        [Decimal("1.5"), Decimal("2.5")],
        [date(2026, 11, 22), date(2026, 11, 23)],
        pd.to_datetime(["2026-11-22", "2026-11-23"]),
        [b"a", b"b"],
        [[1], [2]],
    ],
)
def test_labels_of_other_types_are_refused(labels):
    with pytest.raises(ValueError, match="the target 'y' holds values such as"):
        check_target(pd.Series(labels, name="y").repeat(2), "auto")


@pytest.mark.parametrize(
    "labels", [["a", "b"], [True, False], pd.Categorical([3, 1]), pd.array([1, 2], "Int64")]
)
def test_labels_of_usual_types_are_taken(labels):
    values, task = check_target(pd.Series(labels, name="y").repeat(2), "auto")
    assert (len(set(values.tolist())), task) == (2, "classification")


def test_columns_without_a_name_are_known():
    names = ["Unnamed: 0", "Unnamed: 12", "__index_level_0__", "Unnamed: x", "index"]
    assert unnamed_columns(names) == names[:3]


def test_options_of_pandas_and_the_locale_change_nothing(tmp_path):
    (tmp_path / "table.csv").write_text("x,y\n1.5,001\ninf,NA\n")
    options = ["mode.copy_on_write", False] if pd.__version__ < "3" else ["display.width", 10]
    before = locale.setlocale(locale.LC_NUMERIC)
    expected = read_table(tmp_path / "table.csv", ["y"])
    try:
        for name in ("de_DE.UTF-8", "de_DE", "fr_FR.UTF-8"):
            try:
                locale.setlocale(locale.LC_NUMERIC, name)
                break
            except locale.Error:
                continue
        with pd.option_context(*options, "display.precision", 1, "io.parquet.engine", "fastparquet"):
            found = read_table(tmp_path / "table.csv", ["y"])
            pd.DataFrame({"x": X}).to_parquet(tmp_path / "table.parquet", engine="pyarrow")
            assert read_table(tmp_path / "table.parquet")["x"].tolist() == X
    finally:
        locale.setlocale(locale.LC_NUMERIC, before)
    assert found["x"].tolist() == expected["x"].tolist() == [1.5, np.inf]
    assert found["y"].iloc[0] == expected["y"].iloc[0] == "001"


def test_long_files_are_read_whole(tmp_path, monkeypatch, rng):
    """Rows lie across the blocks that are parsed at once."""
    monkeypatch.setattr("bayesmkl._utils.tables.BLOCK", 64)
    values = rng.normal(size=(200, 3))
    np.savetxt(tmp_path / "table.csv", values, delimiter=",", fmt="%.17g")
    found = numbers_in(read_text(tmp_path / "table.csv", header=False).columns)
    np.testing.assert_array_equal(found, values)
    with (tmp_path / "table.csv").open("a") as file:
        file.write('1,2,"' + "x\n" * 70_000 + '"\n')
    with pytest.raises(ValueError, match="line 201 has a field of more than 131072 characters"):
        read_text(tmp_path / "table.csv", header=False)


# ------------------------------------------------------------------------------------------------ the command line


def run(*arguments):
    """Run a command; return exit code, stdout, stderr on one line each."""
    result = CliRunner().invoke(app, [str(argument) for argument in arguments], env={"COLUMNS": "200"})
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, " ".join(result.stdout.split()), " ".join(result.stderr.split())


def fails(*arguments):
    code, _, message = run(*arguments)
    assert code == 2
    return message


@pytest.fixture(scope="module")
def table():
    """Two classes that one of three columns tells apart."""
    rng = np.random.default_rng(7)
    table = pd.DataFrame(rng.normal(size=(60, 3)), columns=["a", "b", "c"]).round(6)
    table["b"] += np.where(np.arange(60) % 2, 4.0, -4.0)
    return table.assign(code=np.where(np.arange(60) % 2, "001", "002"))


@pytest.fixture(scope="module")
def codes(table, tmp_path_factory):
    """A run whose labels are 001 and 002."""
    folder = tmp_path_factory.mktemp("codes")
    table.to_csv(folder / "data.csv", index=False)
    fit = ["fit", folder / "data.csv", "--target", "code", "--kernels-on", "all", "--max-iter", "15"]
    code, stdout, _ = run(*fit, "--out", folder / "run")
    assert code == 0
    assert "(2 classes: classification)" in stdout
    return folder


def ending_in_commas(table):
    header, *lines = table.to_csv(index=False).splitlines()
    return "\n".join([header, *[f"{line}," for line in lines]]) + "\n"


@pytest.mark.heavy
def test_fit_and_predict_refuse_lines_that_end_in_a_comma(codes, table, tmp_path):
    (tmp_path / "data.csv").write_text(ending_in_commas(table))
    fit = ["fit", tmp_path / "data.csv", "--target", "code", "--out", tmp_path / "run"]
    predict = ["predict", codes / "run", tmp_path / "data.csv", "--out", tmp_path / "out.csv"]
    for command in (fit, predict, ["diagnose", codes / "run", "--data", tmp_path / "data.csv"]):
        assert "line 2 has 5 fields and the header 4. It ends in ','" in fails(*command)
    assert {path.name for path in tmp_path.iterdir()} == {"data.csv"}


def test_predictions_of_a_file_in_another_form_are_the_same(codes, table, tmp_path):
    predict = ["predict", codes / "run", tmp_path / "new.csv", "--out", tmp_path / "out.csv"]
    found = []
    for new in (table, table[["c", "code", "b", "a"]].assign(d="x").reset_index()):
        new.to_csv(tmp_path / "new.csv", index="d" in new)
        assert run(*predict)[0] == 0
        found.append(pd.read_csv(tmp_path / "out.csv", dtype={"prediction": str}))
    pd.testing.assert_frame_equal(*found)
    assert (found[0]["prediction"] == table["code"]).mean() > 0.95
    assert found[0].columns.tolist() == ["prediction", "probability_001", "probability_002"]


def test_diagnosis_reads_labels_as_the_model_has_them(codes, table, tmp_path, monkeypatch):
    monkeypatch.setattr("bayesmkl.posterior.diagnose", lambda model, X, y, **options: y.tolist())
    for labels in (table["code"], table["code"].str[2:], table["code"].replace("001", "1")):
        table.assign(code=labels, a=table["a"] + 1.0).to_csv(tmp_path / "new.csv", index=False)
        code, stdout, _ = run("diagnose", codes / "run", "--data", tmp_path / "new.csv")
        assert (code, stdout) == (0, str(labels.tolist()))


def test_a_column_without_a_name_is_not_learned_from(table, tmp_path):
    fit = ["fit", tmp_path / "data.csv", "--target", "code", "--out", tmp_path / "run"]
    table.to_csv(tmp_path / "data.csv")
    message = fails(*fit)
    assert "'Unnamed: 0' has no name in the file" in message
    assert "--target and --drop both name the column 'code'" in fails(
        *fit, "--drop", "Unnamed: 0", "--drop", "code"
    )
    assert {path.name for path in tmp_path.iterdir()} == {"data.csv"}


def test_missing_labels_among_words_are_told(table, tmp_path):
    fit = ["fit", tmp_path / "data.csv", "--target", "grade", "--out", tmp_path / "run"]
    table.assign(grade=["mild", "severe", "None"] * 20, code=1).to_csv(tmp_path / "data.csv", index=False)
    code, stdout, stderr = run(*fit)
    assert "'None' in 'grade' is a class here. If it stands for no label" in stdout
    assert code == 2  # before the fit
    assert "column 'code' holds the same value" in stderr
    table.assign(grade=["1", "2", "None"] * 20).to_csv(tmp_path / "data.csv", index=False)
    assert "the target 'grade' is missing in 20 of 60 rows" in fails(*fit)


CONFIG = """
[datasets.d]
file = "data.csv"
target = "{target}"
{more}
[models.m]
estimator = "{estimator}"
"""


def config(folder, target="y", estimator="UniformMKLClassifier", more=""):
    (folder / "compare.toml").write_text(CONFIG.format(target=target, estimator=estimator, more=more))
    return read_config(folder / "compare.toml")["datasets"]["d"]


def test_comparisons_read_labels_and_groups_as_they_are(tmp_path):
    rows = "".join(f"{k},{k % 2 + 1}.00,{k % 3:03d}\n" for k in range(12))
    (tmp_path / "data.csv").write_text(f"x,y,site\n{rows}")
    X, y, groups, _ = config(tmp_path, more='group = "site"')
    assert y.tolist() == ["1.00", "2.00"] * 6
    assert groups.tolist() == ["000", "001", "002"] * 4
    assert X.columns.tolist() == ["x"]
    _, y, _, _ = config(tmp_path, estimator="UniformMKLRegressor", more='drop = ["site"]')
    assert y.tolist() == [1.0, 2.0] * 6


def test_comparisons_refuse_columns_without_a_name_and_groups_with_gaps(tmp_path):
    (tmp_path / "data.csv").write_text(",x,y,site\n0,5,a,1\n1,6,b,\n")
    with pytest.raises(ValueError, match="'Unnamed: 0' has no name in the file"):
        config(tmp_path, more='drop = ["site"]')
    with pytest.raises(ValueError, match=r"datasets.d.group.*'site', which is empty in 1 of 2 rows"):
        config(tmp_path, more='group = "site"\ndrop = ["Unnamed: 0"]')
    (tmp_path / "data.csv").write_text("x,y\n5,a,\n6,b,\n")
    with pytest.raises(ValueError, match=r"datasets.d.file.*line 2 has 3 fields and the header 2"):
        config(tmp_path)


# --------------------------------------------------------------------------------------- finished cells, other files
