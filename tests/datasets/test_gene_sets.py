"""Gene sets in GMT files as views, against set algebra on what was written."""

from __future__ import annotations

import gzip
import re
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest

from bayesmkl import KernelBank
from bayesmkl.datasets import open_rows, read_gene_sets
from bayesmkl.kernels import Linear

COLUMNS = ["age", "TP53", "ATM", "CDK1", "BRCA1"]


def written(folder, *sets, name="sets.gmt"):
    """Write sets, each a name and its genes, or a line as it stands."""
    lines = [own if isinstance(own, str) else "\t".join([own[0], "about", *own[1]]) for own in sets]
    (folder / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return folder / name


REPAIR = ("REPAIR", ["BRCA1", "TP53", "ATM"])
CYCLE = ("CYCLE", ["CDK1", "TP53"])


@pytest.mark.filterwarnings("ignore:the table lacks")
@pytest.mark.parametrize("seed", range(25))
def test_views_are_the_intersections_of_sets_with_the_table(seed, tmp_path):
    rng = np.random.default_rng(seed)
    genes = [f"G{i}" for i in range(40)]
    columns = [str(name) for name in rng.permutation([*genes[:30], "age", "sex"])]
    sets = [(f"set {i}", list(rng.choice(genes, rng.integers(1, 35)))) for i in range(20)]
    low, high = sorted(rng.integers(1, 15, 2))
    expected = {
        name: sorted(set(own) & set(columns), key=columns.index)
        for name, own in sets
        if low <= len(set(own) & set(columns)) <= high
    }
    file = written(tmp_path, *sets)
    if not expected:
        with pytest.raises(ValueError, match="genes of at least one set"):
            read_gene_sets(file, columns, min_size=low, max_size=high)
        return
    views = read_gene_sets(file, columns, min_size=low, max_size=high)
    assert views == expected
    assert list(views) == list(expected)
    assert type(views) is dict
    assert all(type(column) is str for own in views.values() for column in own)


@pytest.mark.parametrize("kind", ["list", "tuple", "array", "index", "series", "pandas", "polars", "rows"])
def test_columns_are_those_of_any_table_or_a_list(kind, tmp_path):
    X = np.ones((2, len(COLUMNS)))
    frame = pd.DataFrame(X, columns=COLUMNS)
    frame.to_parquet(tmp_path / "table.parquet")
    columns = {
        "list": COLUMNS,
        "tuple": tuple(COLUMNS),
        "array": np.array(COLUMNS),
        "index": frame.columns,
        "series": pd.Series(COLUMNS, index=range(5, 0, -1)),
        "pandas": frame,
        "polars": pl.DataFrame(X, schema=COLUMNS),
        "rows": open_rows(tmp_path / "table.parquet"),
    }[kind]
    views = read_gene_sets(written(tmp_path, REPAIR, CYCLE), columns, min_size=1)
    assert views == {"REPAIR": ["TP53", "ATM", "BRCA1"], "CYCLE": ["TP53", "CDK1"]}


def test_sizes_are_of_genes_in_the_table_and_both_limits_belong_to_them(tmp_path):
    genes = [f"G{i}" for i in range(6)]
    sets = [
        (f"{n} here", [*genes[:n], *genes[:n], *(f"elsewhere{i}" for i in range(9))]) for n in range(1, 7)
    ]
    with pytest.warns(UserWarning, match="lacks 9 of the 15 genes"):
        views = read_gene_sets(written(tmp_path, *sets), genes, min_size=2, max_size=4)
    assert views == {f"{n} here": genes[:n] for n in (2, 3, 4)}
    with pytest.warns(
        UserWarning, match="5 of its 6 sets do not have between min_size=3 and max_size=3 genes"
    ):
        views = read_gene_sets(tmp_path / "sets.gmt", genes, min_size=3, max_size=3)
    assert views == {"3 here": genes[:3]}


def test_sets_have_ten_to_five_hundred_genes_by_default(tmp_path):
    genes = [f"G{i}" for i in range(501)]
    file = written(tmp_path, *[(str(n), genes[:n]) for n in (9, 10, 500, 501)])
    assert {name: len(own) for name, own in read_gene_sets(file, genes).items()} == {"10": 10, "500": 500}


LOOKS = {
    "as it is": "REPAIR\thttps://x\tTP53\tATM\nCYCLE\t\tCDK1\tTP53\n",
    "empty lines": "\nREPAIR\thttps://x\tTP53\tATM\n\n \t \nCYCLE\t\tCDK1\tTP53\n\n",
    "no last line end": "REPAIR\thttps://x\tTP53\tATM\nCYCLE\t\tCDK1\tTP53",
    "ends of Windows": "REPAIR\thttps://x\tTP53\tATM\r\nCYCLE\t\tCDK1\tTP53\r\n",
    "ends of old Macs": "REPAIR\thttps://x\tTP53\tATM\rCYCLE\t\tCDK1\tTP53\r",
    "a mark at its beginning": "\ufeffREPAIR\thttps://x\tTP53\tATM\nCYCLE\t\tCDK1\tTP53\n",
    "padded to one width": "REPAIR\thttps://x\tTP53\tATM\t\t\nCYCLE\t\tCDK1\t\tTP53\t\n",
    "spaces around fields": " REPAIR \thttps://x\t TP53\tATM \nCYCLE\t\tCDK1 \tTP53\n",
    "genes that come twice": "REPAIR\thttps://x\tTP53\tATM\tTP53\nCYCLE\t\tCDK1\tTP53\tCDK1\n",
    "separators in a description": "REPAIR\tβ\u2028a, b; \x85 c\x0cd\tTP53\tATM\nCYCLE\t\tCDK1\tTP53\n",
    "quotes that are text": 'REPAIR\t5" of\tTP53\tATM\nCYCLE\t\tCDK1\tTP53\n',
}


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("look", LOOKS)
def test_files_of_many_looks_hold_the_same_sets(look, packed, tmp_path):
    data = LOOKS[look].encode()
    file = tmp_path / ("sets.GMT.gz" if packed else "sets.GMT")
    file.write_bytes(gzip.compress(data) if packed else data)
    expected = {"REPAIR": ["TP53", "ATM"], "CYCLE": ["TP53", "CDK1"]}
    assert read_gene_sets(str(file), COLUMNS, min_size=1) == expected


# ------------------------------------------------------------------------------------- genes the table lacks


def test_genes_that_the_table_lacks_are_said_once_with_what_it_costs(tmp_path):
    lost = [f"{i:02d}{'long' * 50}" for i in range(30)]
    file = written(tmp_path, ("BIG", COLUMNS[1:4]), ("SMALL", [*lost, "TP53"]), ("NONE", lost))
    with pytest.warns(UserWarning, match="the table lacks") as caught:
        views = read_gene_sets(file, COLUMNS, min_size=2)
    assert views == {"BIG": COLUMNS[1:4]}
    message = str(caught[0].message)
    assert len(caught) == 1
    assert caught[0].filename == __file__
    assert message.startswith("the table lacks 30 of the 33 genes in 'sets.gmt': '00long")
    assert "and 22 more. 2 of its 3 sets do not have between min_size=2 and max_size=500 genes" in message
    assert len(message) < 800


def test_sets_left_out_by_their_size_alone_are_no_news(tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert list(read_gene_sets(written(tmp_path, REPAIR, CYCLE), COLUMNS, min_size=3)) == ["REPAIR"]


# --------------------------------------------------------------------------------------------------- errors


def refusal(file, columns=COLUMNS, kind=ValueError, **sizes):
    with pytest.raises(kind) as error:
        read_gene_sets(file, columns, **sizes)
    return str(error.value)


def test_identifiers_in_another_case_are_shown_side_by_side(tmp_path):
    message = refusal(written(tmp_path, REPAIR, CYCLE), ["TP53", "Atm", "Brca1", "Cdk1"], min_size=2)
    assert "1 of the 4 genes" in message
    assert "'BRCA1', 'ATM', 'CDK1' in the file and 'Atm', 'Brca1', 'Cdk1' in the table" in message


SPOILED = {
    "a CSV": (
        "set,gene\nREPAIR,TP53\n",
        "line 1 of .* has no tab: 'set,gene'. It seems to be separated by commas",
    ),
    "spaces": ("REPAIR about TP53\n", "line 1 of .* has no tab: 'REPAIR about TP53'. Take out sets without"),
    "no gene": (
        "A\tb\tTP53\n\nB\tc\nC\td\tATM",
        r"line 3 of .* has no gene: 'B\\tc'. Take out sets without genes",
    ),
    "empty genes": (
        "A\tb\tTP53\nB\tc\t \t\n",
        r"line 2 of .* has no gene: 'B\\tc\\t \\t'. Take out sets without",
    ),
    "no name and no gene": ("\tabout\n", "line 1 of .* has no name"),
    "no name": ("A\tb\tTP53\n \tb\tATM\n", "line 2 of .* has no name: .*Give the set a name"),
    "one name twice": (
        "A\tb\tTP53\n\nA \tc\tATM\n",
        "lines 1 and 3 of .* are both called 'A'. Rename or remove one",
    ),
    "nothing": ("", "is empty"),
    "empty lines": ("\n\t\t\n\n", "is empty"),
    "a web page": ("<!DOCTYPE html>\n<html></html>\n", "line 1 of .* has no tab: '<!DOCTYPE html>'"),
    "one long line": ("x" * 10**6, r"line 1 of .* has no tab: 'x+\.\.\.\. Take"),
}


@pytest.mark.parametrize("what", SPOILED)
def test_files_that_are_no_gmt_say_where_and_what_to_do(what, tmp_path):
    text, expected = SPOILED[what]
    (tmp_path / "sets.gmt").write_text(text, encoding="utf-8")
    message = refusal(tmp_path / "sets.gmt", min_size=1)
    assert message.startswith(
        "`path` must be a GMT file, in whose lines the name of a set, a description and genes"
    )
    assert re.search(expected, message)
    assert len(message) < 600


GOOD = b"REPAIR\tabout\tTP53\tATM\n"
DAMAGED = {
    "latin-1": ("a.gmt", GOOD + "MÜLL\tabout\tTP53\n".encode("latin-1"), "line 2 is no text in UTF-8"),
    "UTF-16": ("a.gmt", GOOD.decode().encode("utf-16"), "it is in UTF-16. Save it as UTF-8"),
    "NUL": ("a.gmt", GOOD + b"A\0\tb\tTP53", "line 2 has a NUL byte"),
    "packed without saying so": ("a.gmt", gzip.compress(GOOD), "it is compressed"),
    "not packed": ("a.gmt.gz", GOOD, "Not a gzipped file"),
    "cut off": ("a.gmt.gz", gzip.compress(GOOD)[:-9], "ended before"),
    "turned bits": ("a.gmt.gz", gzip.compress(GOOD)[:10] + b"\xff" * 20, "Error -3"),
}


@pytest.mark.parametrize("what", DAMAGED)
def test_damaged_files_are_refused_whole(what, tmp_path):
    name, data, expected = DAMAGED[what]
    (tmp_path / name).write_bytes(data)
    message = refusal(tmp_path / name, min_size=1)
    assert re.match(rf"`path`: '.*{name}' cannot be read as a GMT file: ", message)
    assert expected in message


@pytest.mark.parametrize("packed", [False, True])
def test_files_that_unpack_to_more_than_memory_holds_are_not_unpacked(packed, tmp_path, monkeypatch):
    monkeypatch.setattr("bayesmkl.datasets._files.MOST_BYTES", 2**20)
    file = tmp_path / ("a.gmt.gz" if packed else "a.gmt")
    for n_genes, fits in ((2**17 - 10, True), (2**17, False)):  # of eight letters, and a tab
        data = b"A\tb" + b"\tG000000" * n_genes
        file.write_bytes(gzip.compress(data) if packed else data)
        if fits:
            assert read_gene_sets(file, ["G000000"], min_size=1) == {"A": ["G000000"]}
        else:
            assert "cannot be read as a GMT file: it holds more than 1 MB." in refusal(file, min_size=1)


UNNAMED = {
    "an array": (
        np.ones((3, 2)),
        r"list of the names of its columns; got array\(.*pd.DataFrame\(X, columns=genes\)",
    ),
    "a frame without names": (
        pd.DataFrame(np.ones((3, 2))),
        "names that are text; got 0 of type int. Name them",
    ),
    "Entrez numbers": (
        pd.DataFrame([[1.0, 2.0]], columns=[7157, 672]),
        r"got 7157 of type int.*astype\(str\)",
    ),
    "tuples": (pd.DataFrame([[1.0]], columns=[("rna", "TP53")]), r"got \('rna', 'TP53'\) of type tuple"),
    "rows of an array": (open_rows(np.ones((3, 2))), "a list of the names of its columns; got"),
    "one name": ("TP53", "a list of the names of its columns; got 'TP53'"),
    "a set": ({"TP53"}, "a list of the names of its columns; got {'TP53'}"),
    "no column": ([], r"a list of the names of its columns; got \[\]"),
}


@pytest.mark.parametrize("what", UNNAMED)
def test_columns_without_names_of_their_own_are_refused(what, tmp_path):
    columns, expected = UNNAMED[what]
    message = refusal(written(tmp_path, REPAIR), columns)
    assert message.startswith("`columns` must ")
    assert re.search(expected, message, re.DOTALL)


# --------------------------------------------------------------------------------------------------- a bank


@pytest.mark.heavy
def test_kernels_of_a_thousand_sets_are_linear_kernels_on_their_columns(rng, tmp_path):
    genes = [f"G{i}" for i in range(300)]
    frame = pd.DataFrame(rng.normal(size=(12, 300)), columns=genes)
    sets = {f"set {i}": list(rng.choice(genes, rng.integers(10, 40), replace=False)) for i in range(1000)}
    views = read_gene_sets(written(tmp_path, *sets.items()), frame)
    bank = KernelBank(Linear(), views, normalize=None)
    stack = bank.fit_transform(frame)
    assert bank.kernel_views_ == list(sets)
    for m, own in enumerate(sets.values()):
        X = frame[own].to_numpy()
        np.testing.assert_allclose(stack[:, :, m], X @ X.T, rtol=1e-12, atol=1e-12)
