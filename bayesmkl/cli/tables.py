"""Tables in files, and the checks that a table must pass before anything is fitted to it."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from bayesmkl._utils.extras import require
from bayesmkl._utils.files import written_beside
from bayesmkl.datasets._tables import (
    LONGEST_LIST,
    MISSING,
    MOST_CLASSES,
    PARQUET,
    column_hint,
    listed,
    named,
    read_table,
    table_suffix,
    unnamed_columns,
)

__all__ = [
    "EMPTY_CELLS",
    "check_constant",
    "check_features",
    "check_target",
    "label_in",
    "labeled_rows",
    "levels_of",
    "match_columns",
    "may_be_text",
    "named",
    "read_table",
    "select_columns",
    "table_suffix",
    "words_among",
    "write_table",
]

EMPTY_CELLS = "If it stands for no label, remove these rows, or name it with --unlabeled-label."


def write_table(table: pd.DataFrame, path: Path) -> None:
    """Write a table in the format that the name of `path` stands for; the file appears when it is complete."""
    suffix = table_suffix(path)
    with written_beside(path) as beside:
        if suffix == ".parquet":
            require(*PARQUET)
            table.to_parquet(beside, index=False)
        else:
            compression: Any = "gzip" if suffix.endswith(".gz") else None
            table.to_csv(beside, index=False, sep="\t" if "tsv" in suffix else ",", compression=compression)


def select_columns(
    table: pd.DataFrame,
    target: str,
    drop: Sequence[str],
    event: str | None = None,
    design: Sequence[str] = (),
) -> tuple[pd.DataFrame, pd.Series, pd.Series | None]:
    """Split a table into features, target and event, without the columns in `drop`; `design` are columns to keep."""
    of_event = [] if event is None else [event]
    named_by = {column: "--drop" for column in drop} | dict.fromkeys(design, "the design")
    named_by |= dict.fromkeys(of_event, "--event") | {target: "--target"}
    for column in (target, *of_event, *drop, *design):
        if column not in table.columns:
            raise ValueError(
                f"{named_by[column]} names the column {column!r}, which the table does not have; "
                f"{column_hint(column, table)}"
            )
    twice = [column for column in design if named_by[column] != "the design" or column in drop]
    if twice:
        raise ValueError(
            f"columns of the design are neither --target nor --event, and are not left out by --drop; got "
            f"{named(twice)}. Name every column once."
        )
    if event is not None and (event == target or event in drop):
        raise ValueError(
            f"--event {event!r} is the --target or left out by --drop. Name the column that says whether the event "
            "was seen, and the time as --target."
        )
    if target in drop:
        raise ValueError(f"--drop leaves out {target!r}, which is the --target. Give only one of them.")
    features = table.drop(columns=[target, *of_event, *drop])
    if features.shape[1] == 0:
        raise ValueError(
            "the table has no column beside --target and --drop; at least one is needed to predict from."
        )
    nameless = unnamed_columns(features.columns)
    if nameless:
        raise ValueError(
            f"{named(nameless)} has no name in the file, as row numbers have that were saved with a table; to learn "
            "from them is a mistake. Give the column a name, or leave it out: "
            + " ".join(f"--drop {_quoted(name)}" for name in nameless[:LONGEST_LIST])
        )
    return features, table[target], None if event is None else table[event]


def check_features(
    features: pd.DataFrame, may_be_empty: bool = False, groups: Sequence[str] = ()
) -> pd.DataFrame:
    """Return the features as numbers; raise for text, missing and infinite values, naming the columns.

    With `may_be_empty`, missing values become NaN; `groups` may be text.
    """
    text = [name for name in may_be_text(features) if name not in groups]
    if text:
        example = features[text[0]].dropna()
        shown = f" (such as {example.iloc[0]!r} in {text[0]!r})" if len(example) else ""
        raise ValueError(
            f"{_columns(text)} no numbers{shown}. Encode such columns as numbers first, fit with --kernels-on types, "
            "or leave them out: " + " ".join(f"--drop {_quoted(name)}" for name in text[:LONGEST_LIST])
        )
    missing = features.isna().sum()
    if missing.any() and not may_be_empty:
        counts = [f"{name!r} ({count} of {len(features)})" for name, count in missing[missing > 0].items()]
        raise ValueError(
            f"values are missing in {listed(counts)}. Fill them in or remove these rows, leave such columns out "
            "with --drop, or fit with --kernels-on types, or --missing-views integrate --kernels-on each."
        )
    kept = [name for name in may_be_text(features) if name in groups]
    numbers = features.astype({name: str if name in kept else np.float64 for name in features})
    infinite = [str(name) for name in numbers if name not in kept and np.isinf(numbers[name]).any()]
    if infinite:
        raise ValueError(
            f"{_columns(infinite)} infinite values. Replace them, or leave the columns out with --drop."
        )
    return numbers


def may_be_text(features: pd.DataFrame) -> list[str]:
    """Return the columns that hold no numbers."""
    return [str(name) for name, dtype in features.dtypes.items() if not pd.api.types.is_numeric_dtype(dtype)]


def check_constant(features: pd.DataFrame) -> None:
    """Raise for columns of one value only, which cannot be standardized."""
    constant = [str(name) for name in features if features[name].min() == features[name].max()]
    if constant:
        raise ValueError(
            f"{_columns(constant)} the same value in all {len(features)} rows to fit, so standardization would "
            "divide by zero, and nothing can be learned from it. Leave out: "
            + " ".join(f"--drop {_quoted(name)}" for name in constant[:LONGEST_LIST])
        )


def check_target(
    target: pd.Series, task: str, unlabeled: str | None = None, event: pd.Series | None = None
) -> tuple[np.ndarray, str]:
    """Return the target as an array, and what it is about: "classification", "regression", "ordinal", "survival".

    `unlabeled` is the value that marks rows without a label; then two classes must remain. With `event`, which says
    whether the event was seen, the array is structured.
    """
    missing = int(target.isna().sum())
    if missing:
        raise ValueError(
            f"the --target {target.name!r} is missing in {missing} of {len(target)} rows (empty, or NA, NaN or "
            "None among numbers). Fill it in or remove these rows. To use rows without a label, write a value of its "
            "own there and name it with --unlabeled-label."
        )
    if event is not None:
        return _times(target, event), task
    is_number = pd.api.types.is_numeric_dtype(target.dtype) and not pd.api.types.is_bool_dtype(target.dtype)
    if task == "auto":
        whole = is_number and bool(np.all(np.mod(target.to_numpy(np.float64), 1.0) == 0.0))
        classes = not is_number or (whole and target.nunique() <= MOST_CLASSES)
        task = "classification" if classes else "regression"
    if task == "regression":
        if unlabeled is not None:
            raise ValueError(
                "--unlabeled-label is about classes, and the --target is a quantity. Leave it out."
            )
        if not is_number or not np.isfinite(target.to_numpy(np.float64)).all():
            raise ValueError(
                f"--task regression needs finite numbers in the --target; {target.name!r} holds values such as "
                f"{target.iloc[0]!r}."
            )
        return target.to_numpy(np.float64), task
    if not is_number:
        _refuse_strange(target)
    values = target.to_numpy() if is_number else target.astype(str).to_numpy(dtype=str)
    _check_classes(str(target.name), values, unlabeled, is_number)
    return values, task


def _times(time: pd.Series, event: pd.Series) -> np.ndarray:
    """Return events and times as a structured array."""
    if event.isna().any() or not set(event.tolist()) <= {0, 1}:
        other = next(value for value in event.tolist() if value not in (0, 1))
        raise ValueError(
            f"--event must name a column of 0 and 1, or of true and false: whether the event was seen; got {other!r} "
            f"in {event.name!r}. Code it so."
        )
    if not pd.api.types.is_numeric_dtype(time.dtype) or not np.isfinite(time.to_numpy(np.float64)).all():
        raise ValueError(
            f"--task survival needs finite numbers in the --target, the times; {time.name!r} holds values such as "
            f"{time.iloc[0]!r}."
        )
    found = np.empty(len(time), dtype=[("event", bool), ("time", float)])
    found["event"], found["time"] = event.astype(bool), time
    return found


def _refuse_strange(target: pd.Series) -> None:
    """Raise for labels that are neither text nor numbers nor true or false, such as dates and decimals."""
    strange = next((label for label in target if not isinstance(label, str | Real | np.bool_)), None)
    if strange is not None:
        raise ValueError(
            f"the --target {target.name!r} holds values such as {strange!r} of type {type(strange).__name__}. Write "
            "classes as text or whole numbers, and quantities as floating point numbers."
        )


def _check_classes(name: str, values: np.ndarray, unlabeled: str | None, is_number: bool) -> None:
    known, _ = labeled_rows(values, unlabeled)
    labels, counts = np.unique(values[known], return_counts=True)
    found = listed([f"{label!s} ({n} rows)" for label, n in zip(labels, counts, strict=True)])
    if unlabeled is not None and len(labels) != 2:
        raise ValueError(
            f"--unlabeled-label {unlabeled} is for two classes; beside it the --target {name!r} holds {found}. "
            "Recode them as two, or leave rows without a label out."
        )
    if len(labels) < 2 or counts.min() < 2:
        raise ValueError(
            f"classification needs at least two classes with at least two rows each, one to fit and one to test; the "
            f"--target {name!r} holds {found}."
            + (" For a quantity use --task regression." if is_number else "")
        )


def label_in(values: np.ndarray, text: str) -> Any:
    """Return the label that a user means by `text`, as the target holds labels."""
    if values.dtype.kind not in "iuf":
        return text
    try:
        return float(text)
    except ValueError as error:
        raise ValueError(f"--unlabeled-label must be a number, as the --target is; got {text!r}.") from error


def levels_of(texts: Sequence[str], y: np.ndarray) -> list[Any] | None:
    """Return the grades that a user lists, as the target holds them; None where none are listed."""
    if not texts:
        return None
    if y.dtype.kind not in "iuf":
        return list(texts)
    try:
        return [float(text) for text in texts]
    except ValueError as error:
        raise ValueError(f"--level must be numbers, as the --target is; got {named(texts)}.") from error


def labeled_rows(values: np.ndarray, unlabeled: str | None) -> tuple[np.ndarray, np.ndarray]:
    """Return the positions of rows with a label and of those without."""
    if unlabeled is None:
        return np.arange(len(values)), np.arange(0)
    without = values == label_in(values, unlabeled)
    return np.flatnonzero(~without), np.flatnonzero(without)


def words_among(labels: np.ndarray) -> list[str]:
    """Return the labels that stand for missing values elsewhere."""
    return sorted(set(MISSING).intersection(labels.tolist())) if labels.dtype.kind not in "iuf" else []


def match_columns(
    table: pd.DataFrame,
    wanted: Sequence[str],
    may_be_empty: bool = False,
    text: Sequence[str] = (),
    of_any_type: bool = False,
) -> tuple[pd.DataFrame, list[str]]:
    """Take the columns that a model was fitted to, in its order, and name the others; those in `text` are text.

    Columns are numbers beside these, unless they may be `of_any_type`.
    """
    absent = [name for name in wanted if name not in table.columns]
    if absent:
        raise ValueError(
            f"the table lacks {len(absent)} of the {len(wanted)} columns that the model was fitted to: "
            f"{named(absent)}; {column_hint(absent[0], table)}"
        )
    features = table[list(wanted)]
    features = features.astype({name: str for name in text if not features[name].isna().any()})
    if not of_any_type:
        features = check_features(features, may_be_empty, text)
    return features, [name for name in table.columns if name not in wanted]


def _columns(names: Sequence[str]) -> str:
    return f"column {names[0]!r} holds" if len(names) == 1 else f"the columns {named(names)} hold"


def _quoted(name: str) -> str:
    return f'"{name}"' if " " in name else name
