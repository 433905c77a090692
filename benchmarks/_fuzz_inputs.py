"""Malformed tables, configurations and models for `fuzz.py`: well-formed ones, broken in a random way."""

from __future__ import annotations

import copy
import gzip
import io
import json
import zipfile
from collections.abc import Callable
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

COLUMNS = ["a", "b", "c"]
TOKENS = [
    b"", b"\x00", b"\xff\xfe", b"\xef\xbb\xbf", b"\r", b"\n", b"\r\n", b",", b",,,,", b"\t", b'"', b'""', b"'", b"\\",
    b"nan", b"NaN", b"NA", b"None", b"inf", b"-inf", b"1e308", b"1e309", b"-1e-320", b"99999999999999999999999",
    b"0x1f", b"1_000", b"1,5", b"1.2.3", b"True", b"2020-01-01", b"=1+1", b"#", b"../../etc/passwd", b"[",
    b"]", b"{", b"}", b"\xe2\x80\xae", b"\xc3", b"\xf0\x9f\x98\x80", b"e", b"-", b"+", b".", b" ",
    b"kind", b"a", b"0", b"1", b"[a][b]",    b"[bold]", b"[/red]", b"%s", b"{0}", b"\x1b[31m", b"x" * 300, b"9" * 400,
]  # fmt: skip
VALUES: list[Any] = [
    None, True, False, 0, 1, -1, 2, 1.5, -0.0, 1e308, -1e308, 10**12, -(10**12), "", " ", "x", "paper", "linear",
    "nan", "../..", "/dev/zero", "\u202e", "[/red]", [], {}, [[]], [1, 2], ["a"], ["a", "a"], {"a": 1},
    {"type": "Gaussian"}, {"type": "Nothing"}, {"kind": "group"}, {"type": 3}, [{"type": "Gaussian", "width": -1.0}],
]  # fmt: skip
TWO = {"kernels": ["rbf", "linear"], "views": "all", "normalize": "trace"}
STUDY: dict[str, Any] = {
    "study": {"cv": 2, "scoring": ["accuracy"], "unavailable": "nan", "inner_cv": 2, "random_state": 1},
    "datasets": {"cells": {"file": "table.csv", "target": "kind", "drop": ["c"]}},
    "models": {
        "average": {"estimator": "UniformMKLClassifier", "kernels": TWO, "grid": {"C": [0.5, 2.0]}},
        "svm": {"estimator": "sklearn.svm.SVC", "C": 1.0, "standardize": True},
    },
}
# Options of `fit`, and values that they may not like; what would run for long is left out.
OPTIONS: dict[str, list[Any]] = {
    "--target": ["", "nothing", "a", "kind ", "KIND", "-", "[bold]", "\u202e", "k" * 500],
    "--task": ["", "regression", "classification", "auto", "clustering", "3"],
    "--kernels-on": ["", "all", "each", "none", "all+each", "ALL"],
    "--kernel-prior": ["", "sparse", "flat"],
    "--missing-views": ["", "integrate", "error", "drop"],
    "--draws": ["", "0", "9", "-5", "1e3", "ten", "99999999999999999999999"],
    "--drop": ["", "a", "kind", "nothing", "a,b"],
    "--test-size": ["", "0", "1", "-0.5", "nan", "inf", "1e-300", "0.999999", "0.01", "half"],
    "--seed": ["", "-1", "1.5", "nan", "4294967296", "99999999999999999999999", "0"],
    "--max-iter": ["", "0", "-3", "1", "1e2", "nan"],
    "--out": ["", ".", "..", "/", "/proc/x", "a/b/c", "table.csv", "~", "x" * 300, "a\nb", "-"],
    "--nothing": ["1"],
    "--force": [],
}  # fmt: skip


def table(n: int = 24) -> pd.DataFrame:
    """Return a small table with two classes."""
    i, j = np.arange(n)[:, None], np.arange(3)
    X = np.sin(1.7 * i * (j + 1) + 0.3 * j)
    return pd.DataFrame(X.round(4), columns=COLUMNS).assign(kind=np.where(X[:, 0] > 0, "high", "low"))


def broken_text(rng: np.random.Generator, data: bytes) -> bytes:
    """Return a text with lines, cells or bytes changed."""
    for _ in range(rng.integers(1, 4)):
        edit: Callable[..., bytes] = _LINES[rng.integers(len(_LINES))] if rng.random() < 0.85 else _bytes
        data = edit(rng, data)
    return data


def _bytes(rng: np.random.Generator, data: bytes) -> bytes:
    """Cut, repeat, overwrite or insert somewhere."""
    if not data:
        return TOKENS[rng.integers(len(TOKENS))]
    first, last = sorted(rng.integers(0, len(data) + 1, 2).tolist())
    last = min(last, first + 40)
    middle = [
        b"",
        data[first:last] * 3,
        rng.bytes(last - first),
        TOKENS[rng.integers(len(TOKENS))],
        data[first:last][::-1],
    ][rng.integers(5)]
    return data[:first] if rng.random() < 0.05 else data[:first] + middle + data[last:]


def _cell(rng: np.random.Generator, data: bytes) -> bytes:
    lines = data.split(b"\n")
    at = int(rng.integers(len(lines))) if rng.random() < 0.9 else 0
    cells = lines[at].split(b",")
    cells[rng.integers(len(cells))] = TOKENS[rng.integers(len(TOKENS))]
    lines[at] = b",".join(cells)
    return b"\n".join(lines)


def _column(rng: np.random.Generator, data: bytes) -> bytes:
    """Give a whole column one odd value."""
    rows = [line.split(b",") for line in data.split(b"\n")]
    at, token = int(rng.integers(max(map(len, rows)))), TOKENS[rng.integers(len(TOKENS))]
    for row in rows[int(rng.integers(2)) :]:
        if at < len(row):
            row[at] = token
    return b"\n".join(b",".join(row) for row in rows)


def _drop_lines(rng: np.random.Generator, data: bytes) -> bytes:
    lines = data.split(b"\n")
    keep = rng.random(len(lines)) < rng.choice([0.05, 0.5, 0.9])
    return b"\n".join(line for line, kept in zip(lines, keep, strict=True) if kept)


def _repeat_line(rng: np.random.Generator, data: bytes) -> bytes:
    lines = data.split(b"\n")
    lines.insert(int(rng.integers(len(lines))), lines[rng.integers(len(lines))])
    return b"\n".join(lines)


def _recoded(rng: np.random.Generator, data: bytes) -> bytes:
    text = data.decode("latin-1")
    return [
        text.encode("utf-16"),
        text.encode("utf-32"),
        gzip.compress(data),
        data.replace(b",", b";"),
        data.replace(b"\n", b"\r"),
        data.upper(),
    ][rng.integers(6)]


_LINES = [*[_cell] * 5, *[_column] * 3, _drop_lines, *[_repeat_line] * 2, _recoded]


def broken_parquet(rng: np.random.Generator) -> bytes:
    """Return a Parquet file with an odd column, or with some bytes changed."""
    data = table()
    if rng.random() < 0.6:
        name = rng.choice([*COLUMNS, "kind", "extra", ""])
        values = _odd_columns(len(data))[rng.integers(_N_ODD)]
        arrays = {**{column: pa.array(data[column]) for column in data}, str(name): values}
        if rng.random() < 0.2:
            arrays.pop(str(rng.choice(list(arrays))))
        buffer = io.BytesIO()
        names = list(arrays)
        if rng.random() < 0.1 and names:
            names[-1] = names[0]
        pq.write_table(pa.Table.from_arrays(list(arrays.values()), names=names), buffer)
        return buffer.getvalue()
    buffer = io.BytesIO()
    data.to_parquet(buffer)
    content = buffer.getvalue()
    for _ in range(rng.integers(1, 4)):
        content = _bytes(rng, content)
    return content


def _odd_columns(n: int) -> list[pa.Array]:
    half = [None, 1.0] * (n // 2)
    return [
        pa.array([date(2020, 1, 1)] * n),
        pa.array([datetime(2020, 1, 1)] * n),
        pa.array([Decimal("1.5")] * n),
        pa.array([[1.0, 2.0]] * n),
        pa.array([{"x": 1}] * n),
        pa.array([b"\xff"] * n),
        pa.array(half),
        pa.array([None] * n),
        pa.array(["x", None] * (n // 2)).dictionary_encode(),
        pa.array([2**63 - 1] * n),
        pa.array([2**64 - 1] * n, pa.uint64()),
        pa.array([float("inf")] * n),
        pa.array([1e308, -1e308] * (n // 2)),
        pa.array([True, False] * (n // 2)),
        pa.array(np.arange(n), pa.duration("s")),
        pa.array(np.arange(n).astype(np.float16)),
        pa.array([1.0] * n),
        pa.array(["high"] * n),
    ]


_N_ODD = len(_odd_columns(2))


def broken_json(rng: np.random.Generator, content: Any, n: int = 2) -> Any:
    """Return a copy of nested data with some values replaced, removed, renamed or moved."""
    content = copy.deepcopy(content)
    for _ in range(rng.integers(1, n + 1)):
        places = _places(content)
        owner, key = places[rng.integers(len(places))]
        action = rng.integers(5)
        if action == 0:
            del owner[key]
        elif action == 1 and isinstance(owner, dict):
            owner[f"{key}_" if rng.random() < 0.5 else str(rng.choice(["cv", "C", "x", ""]))] = owner.pop(key)
        elif action == 2:
            other, at = places[rng.integers(len(places))]
            owner[key] = copy.deepcopy(other[at])
        else:
            owner[key] = copy.deepcopy(VALUES[rng.integers(len(VALUES))])
    return content


def _places(content: Any) -> list[tuple[Any, Any]]:
    """Return all containers and keys in nested data, the outermost only if there are no others."""
    found: list[tuple[Any, Any]] = []
    left = [content]
    while left:
        value = left.pop()
        keys = (
            list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else []
        )
        for key in keys:
            found.append((value, key))
            left.append(value[key])
    return found or [({"": None}, "")]


def broken_model(rng: np.random.Generator, data: bytes) -> bytes:
    """Return a model file with bytes, its description or its arrays changed; an archive that is whole, mostly."""
    if rng.random() < 0.2:
        return _bytes(rng, data)
    buffer = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(buffer, "w") as new:
        names = old.namelist()
        chosen = "schema.json" if rng.random() < 0.6 else names[rng.integers(len(names))]
        for name in names:
            content = old.read(name)
            if name == chosen == "schema.json":
                content = json.dumps(broken_json(rng, json.loads(content), 1)).encode()
            elif name == chosen:
                content = _broken_array(rng, content)
            if content or rng.random() < 0.5:
                new.writestr(zipfile.ZipInfo(name), content)  # without the time
    return buffer.getvalue()


def _broken_array(rng: np.random.Generator, content: bytes) -> bytes:
    """Return an array in NumPy's format of other numbers, another shape, or none."""
    if rng.random() < 0.3:
        return _bytes(rng, content)
    values = np.load(io.BytesIO(content), allow_pickle=False)
    changed: list[Any] = [
        values[..., :-1] if values.ndim else values,
        values.astype(str),
        values.astype(np.float32) if values.dtype.kind == "f" else values,
        np.zeros_like(values),
        np.full(values.shape, np.nan),
        np.full(values.shape, 1e300),
        values[None],
        values.ravel()[:1],
        -np.abs(values) if values.dtype.kind == "f" else values,
        np.zeros(0),
    ]
    buffer = io.BytesIO()
    np.save(buffer, changed[rng.integers(len(changed))], allow_pickle=False)
    return buffer.getvalue()
