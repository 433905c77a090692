"""Loaders and generators of data: wrong names, sizes and options."""

from __future__ import annotations

import gzip
import itertools

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from in_turn import in_turn, together
from parameters import thinned
from scipy import sparse
from verdicts import THING, assert_refused

from bayesmkl import datasets

pytestmark = [pytest.mark.family("functions"), pytest.mark.heavy]

MAKERS = {
    name: getattr(datasets, name)
    for name in (
        "make_corrupted",
        "make_localized",
        "make_multiview",
        "make_pathways",
        "make_ringnorm",
        "make_twonorm",
        "make_waveform",
    )
}
LOADERS = [
    "load_diabetes",
    "load_digits_views",
    "load_gbsg2",
    "load_iris",
    "load_lung",
    "load_wdbc",
    "load_wine",
]
COUNTS = ["20", None, True, np.nan, np.inf, 0, -1, 20.0, 1j, [20], 10**400]
SEEDS = ["0", -1, 1.5, True, np.nan, {}, [1.5], object]
FLAGS = ["yes", None, 1, 0, np.nan, [True]]
WRONG = {
    "make_corrupted": {
        "corruption": ["", "labels", None, 1, True, ["features"]],
        "fraction": ["0.2", None, True, np.nan, np.inf, -0.1, 1.1, [0.2], 1j],
        "separations": [None, 1.0, "1", [], ["a"], [np.nan], [-1.0], [[1.0]], [1j], {}, [1e200]],
    },
    "make_localized": {
        "design": ["", "Hours", None, 1, True, ["hours"], np.nan],
        "noise": ["0.1", None, True, np.nan, np.inf, -0.1, [0.1], 1j, 1e200],
    },
    "make_multiview": {
        "kernel_weights": [None, 1.0, "1", [], ["a"], [np.nan], [0.0, 0.0], [[1.0]], [1j], {}, [1e200]],
        "n_features": [
            None,
            "2",
            True,
            0,
            -1,
            1.5,
            np.nan,
            [1, 2],
            [1, 1, 1, 0],
            ["a"] * 4,
            [1.5] * 4,
            [],
            {},
        ],
        "task": ["", "Classification", None, 1, True],
        "noise": ["0.1", None, True, np.nan, np.inf, -0.1, [0.1], 1j],
        "intercept": ["0", True, np.nan, np.inf, [0.0], 1j],
    },
    "make_pathways": {
        "n_sets": COUNTS,
        "n_active": ["5", None, True, np.nan, np.inf, -1, 201, 5.0, 1j, [5], 10**400],
        "n_genes": ["2000", None, True, np.nan, 0, -1, 2000.0, 1j, [2000], 10**400],
        "min_size": COUNTS,
        "max_size": ["100", None, True, np.nan, np.inf, 0, -1, 9, 2001, 100.0, 1j, [100], 10**400],
        "block_size": COUNTS,
        "correlation": ["0.4", None, True, np.nan, np.inf, -0.1, 1.0, [0.4], 1j],
        "coherence": ["0.5", None, True, np.nan, np.inf, -0.1, 1.1, [0.5], 1j],
        "signal": ["0.5", None, True, np.nan, np.inf, 0.0, -0.1, 1.1, [0.5], 1j],
        "task": ["", "Regression", None, 1, True],
    },
    "make_waveform": {"binary": FLAGS},
    "make_ringnorm": {},
    "make_twonorm": {},
}


@together
@pytest.mark.parametrize(
    ("maker", "argument", "value"),
    thinned(
        pytest.param(maker, argument, value, id=f"{maker}-{argument}-{str(value)[:20]!r}")
        for maker, own in WRONG.items()
        for argument, values in (own | {"n_samples": COUNTS, "random_state": SEEDS}).items()
        for value in values
    ),
)
def test_wrong_arguments_of_generators_are_refused_by_name(maker, argument, value):
    assert_refused(lambda: MAKERS[maker](**{argument: value}), f"`{argument}`")


@together
@pytest.mark.parametrize("maker", MAKERS)
def test_equal_arguments_of_other_types_draw_equal_data(maker):
    plain = MAKERS[maker](30, random_state=7)
    for n_samples, seed in ((np.int16(30), np.uint8(7)), (30, np.random.default_rng(7))):
        other = MAKERS[maker](n_samples, random_state=seed)
        np.testing.assert_array_equal(other.data, plain.data)
        np.testing.assert_array_equal(other.target, plain.target)


@in_turn(("loader", "argument", "value"), itertools.product(LOADERS, ["return_X_y", "as_frame"], FLAGS))
def test_flags_of_loaders_are_true_or_false(loader, argument, value):
    assert_refused(lambda: getattr(datasets, loader)(**{argument: value}), f"`{argument}`")


# -------------------------------------------------------------------------------------------------- gene sets

GENE_SETS = [
    ({"path": None}, "`path`"),
    ({"path": 1.5}, "`path`"),
    ({"path": b"sets.gmt"}, "`path`"),
    ({"path": ["sets.gmt"]}, "`path`"),
    ({"path": THING}, "`path`"),
    ({"path": ""}, "`path`"),
    ({"path": "."}, "`path`"),
    ({"path": "none.gmt"}, "`path`"),
    ({"path": "noise.gmt"}, "`path`"),
    ({"path": "noise.gmt.gz"}, "`path`"),
    ({"path": "table.csv"}, "`path`"),
    ({"path": "empty.gmt"}, "`path`"),
    ({"columns": None}, "`columns`"),
    ({"columns": 3}, "`columns`"),
    ({"columns": True}, "`columns`"),
    ({"columns": "TP53"}, "`columns`"),
    ({"columns": b"TP53"}, "`columns`"),
    ({"columns": []}, "`columns`"),
    ({"columns": {"TP53"}}, "`columns`"),
    ({"columns": {"TP53": [1.0]}}, "`columns`"),
    ({"columns": iter(["TP53"])}, "`columns`"),
    ({"columns": ["TP53", "TP53"]}, "`columns`"),
    ({"columns": ["TP53", 1]}, "`columns`"),
    ({"columns": ["TP53", None]}, "`columns`"),
    ({"columns": ["TP53", np.nan]}, "`columns`"),
    ({"columns": [["TP53"], ["ATM", "age"]]}, "`columns`"),
    ({"columns": np.array("TP53")}, "`columns`"),
    ({"columns": np.array([["TP53"]])}, "`columns`"),
    ({"columns": np.ones((2, 2))}, "`columns`"),
    ({"columns": np.ones(2)}, "`columns`"),
    ({"columns": range(3)}, "`columns`"),
    ({"columns": sparse.eye_array(2)}, "`columns`"),
    ({"columns": pd.DataFrame}, "`columns`"),
    ({"columns": pd.DataFrame()}, "`columns`"),
    ({"columns": pd.DataFrame([[1.0, 2.0]])}, "`columns`"),
    ({"columns": pd.DataFrame([[1.0, 2.0]], columns=["TP53", "TP53"])}, "`columns`"),
    ({"columns": pl.LazyFrame({"TP53": [1.0]})}, "`columns`"),
    ({"columns": pa.table({"TP53": [1.0]})}, "`columns`"),
    ({"columns": THING}, "`columns`"),
    ({"columns": ["tp53", "atm"]}, "`columns`"),
    ({"columns": ["x" * 10**5]}, "`columns`"),
    *(({size: value}, f"`{size}`") for size in ("min_size", "max_size") for value in COUNTS),
    ({"min_size": 3, "max_size": 2}, "`max_size`"),
]


@pytest.mark.parametrize(("given", "name"), GENE_SETS, ids=[f"case {n}" for n in range(len(GENE_SETS))])
def test_wrong_arguments_of_read_gene_sets_are_refused_by_name(given, name, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    noise = np.random.default_rng(0).bytes(500)
    for file, data in {
        "sets.gmt": b"REPAIR\tabout\tTP53\tATM\n",
        "noise.gmt": noise,
        "noise.gmt.gz": gzip.compress(noise),
        "table.csv": b"sample,TP53\na,1.5\n",
        "empty.gmt": b"",
    }.items():
        (tmp_path / file).write_bytes(data)
    call = {"path": "sets.gmt", "columns": ["TP53", "ATM", "age"], "min_size": 1} | given
    assert_refused(lambda: datasets.read_gene_sets(**call), name, kinds=(ValueError, TypeError, OSError))


# ------------------------------------------------------------------------------------------ kernels of a folder

KERNELS = [
    ({"folder": None}, "`folder`"),
    ({"folder": 3}, "`folder`"),
    ({"folder": THING}, "`folder`"),
    ({"folder": "nowhere"}, "`folder`"),
    ({"folder": "kernels.npy"}, "`folder`"),
    ({"content": None}, "`content`"),
    ({"content": "features"}, "`content`"),
    ({"content": ["kernels"]}, "`content`"),
    ({"content": "distances"}, "distances.npy"),
    ({"return_X_y": "yes"}, "`return_X_y`"),
    ({"return_X_y": None}, "`return_X_y`"),
]


@pytest.mark.parametrize(("given", "name"), KERNELS, ids=[f"case {n}" for n in range(len(KERNELS))])
def test_wrong_arguments_of_load_kernels_are_refused_by_name(given, name, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    np.save("kernels.npy", np.eye(3)[None])
    np.save("labels.npy", np.array([0, 1, 1]))
    assert datasets.load_kernels(".").data.shape == (3, 3, 1)
    call = {"folder": "."} | given
    assert_refused(lambda: datasets.load_kernels(**call), name, kinds=(ValueError, TypeError, OSError))


# --------------------------------------------------------------------------------------------- rows in blocks

TABLE = np.arange(24.0).reshape(8, 3)
OPENED = [
    ({"path": None}, "`path`"),
    ({"path": 1.5}, "`path`"),
    ({"path": b"x.npy"}, "`path`"),
    ({"path": ""}, "`path`"),
    ({"path": "."}, "`path`"),
    ({"path": "none.npy"}, "`path`"),
    ({"path": "none.parquet"}, "`path`"),
    ({"path": "table.csv"}, "`path`"),
    ({"path": "damaged.npy"}, "damaged.npy"),
    ({"path": "damaged.parquet"}, "damaged.parquet"),
    ({"path": [[1.0]]}, "`path`"),
    ({"path": np.ones(3)}, "shape"),
    ({"path": np.ones((2, 2, 2))}, "shape"),
    ({"path": np.full((2, 2), "a")}, "numbers"),
    ({"path": np.ones((2, 2)) * 1j}, "numbers"),
    ({"path": np.full((2, 2), THING)}, "numbers"),
    ({"columns": []}, "`columns`"),
    ({"columns": [3]}, "`columns`"),
    ({"columns": [-4]}, "`columns`"),
    ({"columns": "a"}, "`columns`"),
    ({"columns": [0.5]}, "`columns`"),
    ({"columns": [True]}, "`columns`"),
    ({"columns": 1.5}, "`columns`"),
    ({"columns": {}}, "`columns`"),
    ({"columns": [None]}, "`columns`"),
    ({"columns": [[0]]}, "`columns`"),
]


@pytest.mark.parametrize(("given", "name"), OPENED, ids=str)
def test_wrong_arguments_of_open_rows_are_refused_by_name(given, name, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    for file in ("damaged.npy", "damaged.parquet", "table.csv"):
        (tmp_path / file).write_bytes(b"PAR1 and what is no table")
    call = {"path": TABLE} | given
    assert_refused(lambda: datasets.open_rows(**call)[:], name, kinds=(ValueError, TypeError, OSError))


@together
@pytest.mark.parametrize(
    "index", [1.5, "a", None, [0.5], [[0, 1]], [8], [-9], [True, False], (0, 1, "a")], ids=str
)
def test_rows_that_are_not_there_are_refused(index):
    rows = datasets.open_rows(TABLE)
    assert_refused(lambda: rows[index], "", kinds=(TypeError, IndexError, ValueError))


@together
@pytest.mark.parametrize("value", COUNTS, ids=str)
def test_sizes_of_blocks_and_samples_are_whole_numbers(value):
    rows = datasets.open_rows(TABLE)
    assert_refused(lambda: list(rows.blocks(value)), "`size`")
    assert_refused(lambda: rows.sample(value), "`n_rows`")


STRANGE = {
    "fewer rows": lambda block: block[:1],
    "one axis": lambda block: block[:, 0],
    "text": lambda block: block.astype(str),
    "nothing": lambda block: None,
    "complex": lambda block: block * 1j,
}


@together
@pytest.mark.parametrize("what", STRANGE)
def test_transformed_rows_that_are_none_are_blamed_on_the_function(what):
    rows = datasets.open_rows(TABLE)
    assert_refused(lambda: rows.map(STRANGE[what])[:], "function")


def test_what_is_no_function_does_not_transform_rows():
    assert_refused(lambda: datasets.open_rows(TABLE).map("mean")[:], "function")
