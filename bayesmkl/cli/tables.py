"""Tables in files and on the terminal, and the checks that a table must pass before anything is fitted to it."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from numbers import Real
from pathlib import Path
from types import SimpleNamespace as Options
from typing import Any

import numpy as np
import pandas as pd
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from bayesmkl._utils.extras import require
from bayesmkl._utils.files import written_beside
from bayesmkl._utils.tables import (
    MISSING,
    MOST_CLASSES,
    PARQUET,
    listed,
    named,
    read_table,
    table_suffix,
    unnamed_columns,
)

PIPED_WIDTH = 110  # columns without a terminal


def console(stderr: bool = False) -> Console:
    """Return the stream to print to: stdout for results, else stderr."""
    stream = sys.stderr if stderr else sys.stdout
    return Console(file=stream, width=None if stream.isatty() else PIPED_WIDTH, highlight=False)


def say(text: str) -> None:
    """Print one paragraph."""
    console().print(escape(text), soft_wrap=True)


def note(text: str) -> None:
    """Print one paragraph on stderr."""
    console(stderr=True).print(f"[yellow]note:[/yellow] {escape(text)}", soft_wrap=True)


def show(title: str, table: pd.DataFrame) -> None:
    """Print a table, whose numbers are rounded to three digits."""
    shown = Table(box=SIMPLE_HEAD, pad_edge=False)
    for name, values in table.items():
        is_number = pd.api.types.is_numeric_dtype(values)
        shown.add_column(escape(str(name)), overflow="fold", justify="right" if is_number else "left")
    for row in table.itertuples(index=False):
        shown.add_row(*(f"{one:.3g}" if isinstance(one, float) else escape(str(one)) for one in row))
    say(title)
    console().print(shown)


@contextmanager
def notes_of_warnings() -> Iterator[None]:
    """Show warnings meant for users as short notes on stderr, each once, and drop those meant for developers."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", UserWarning)
        yield
    for text in dict.fromkeys(str(warning.message) for warning in caught):
        note(text)


def did_you_mean(word: str, known: Collection[str], n: int = 1) -> str:
    """Suggest the nearest known words, or list what is known; a sentence that ends the message."""
    lower = {name.lower(): name for name in known}
    close = [lower[near] for near in get_close_matches(str(word).lower(), lower, n=n, cutoff=0.55)]
    return f"did you mean {named(close)}?" if close else f"known: {named(sorted(known)) or 'nothing'}."


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


# ---------------------------------------------------------------------------------------------------- rows to fit

COUNTS = ("poisson", "negative-binomial")
QUANTITIES = ("gaussian", "student-t", *COUNTS)


def rows_to_fit(options: Options) -> tuple[pd.DataFrame, np.ndarray]:
    """Read and check the table of `bayesmkl fit`; return the columns to predict from, and the target."""
    if options.out is None and not options.dry_run:
        raise ValueError("--out must name the folder to write. To see what would be fitted, add --dry-run.")
    check_options(options)
    labels = [options.target] if options.task not in ("regression", "survival") else []
    table = read_table(options.data, [*labels, *options.group])
    event = [] if options.event is None else [options.event]
    roles = {"--target": [options.target], "--event": event, "--drop": options.drop}
    roles |= {"--covariate": options.covariate, "--group": options.group}
    features = features_of(table, roles, ["--covariate", "--group"])
    y, options.task = check_target(
        table[options.target], options.task, table[options.event] if event else None
    )
    kinds = {"survival": "times", "regression": "a quantity"}
    grades = "grades" if options.task == "ordinal" else "classes"
    kind = kinds.get(options.task) or f"{len(np.unique(y))} {grades}"
    kind += f", {int(y['event'].sum())} events" if event else ""
    say(
        f"{len(features)} rows, {features.shape[1]} columns to predict {options.target!r} from ({kind}: "
        f"{options.task})."
    )
    for name in options.category:
        if name not in features:
            hint = did_you_mean(name, [str(column) for column in features])
            raise ValueError(f"--category names the column {name!r}, from which nothing is predicted; {hint}")
    features = features.astype(dict.fromkeys(options.category, "category"))
    return features.astype({name: str for name in may_be_text(features) if name in options.group}), y


def check_options(options: Options) -> None:
    """Raise for options that do not go together and that no estimator would tell apart."""
    if options.task == "auto":
        options.task = "survival" if options.event else options.task
        options.task = "regression" if options.likelihood in QUANTITIES else options.task
    if (options.event is None) == (options.task == "survival"):
        raise ValueError(
            "--event names the column that says whether the event was seen, of --task survival. Give both of them, "
            "or neither."
        )
    if options.view and options.kernels_on is not None:
        raise ValueError(
            f"--view and --kernels-on {options.kernels_on} both choose the columns of kernels. Leave one of them out."
        )
    options.kernels_on = options.kernels_on or "all+each"


# ---------------------------------------------------------------------------------------------------- features


def features_of(
    table: pd.DataFrame, roles: Mapping[str, Sequence[str]], kept: Sequence[str] = ()
) -> pd.DataFrame:
    """Return the columns to predict from: those without a role, and those whose role is in `kept`.

    `roles` are columns by what names them, such as "--drop"; each must be there, and of one role.
    """
    of: dict[str, str] = {}
    for role, columns in roles.items():
        for column in columns:
            if column not in table.columns:
                hint = did_you_mean(column, table.columns, n=3)
                raise ValueError(f"{role} names the column {column!r}, which the table does not have; {hint}")
            if of.setdefault(column, role) != role:
                raise ValueError(f"{of[column]} and {role} both name the column {column!r}. Name it once.")
    features = table.drop(columns=[column for column, role in of.items() if role not in kept])
    if features.shape[1] == 0:
        raise ValueError("the table has no column left to predict from.")
    nameless = unnamed_columns(features.columns)
    if nameless:
        raise ValueError(
            f"{named(nameless)} has no name in the file, so it probably holds row numbers, which should not "
            "be used to predict. Give the column a name, or leave it out by --drop, or by `drop` in a file."
        )
    return features


def check_features(features: pd.DataFrame) -> pd.DataFrame:
    """Return the features as numbers, NaN where values are missing; raise for text and infinite values, by name."""
    text = may_be_text(features)
    if text:
        example = features[text[0]].dropna()
        shown = f" (such as {example.iloc[0]!r} in {text[0]!r})" if len(example) else ""
        raise ValueError(
            f"{_columns(text)} no numbers{shown}. Encode such columns as numbers first, or leave them out by `drop`."
        )
    numbers = features.astype(np.float64)
    infinite = [str(name) for name in numbers if np.isinf(numbers[name]).any()]
    if infinite:
        raise ValueError(f"{_columns(infinite)} infinite values. Replace them, or leave it out.")
    return numbers


def check_missing(features: pd.DataFrame, used: Sequence[str]) -> None:
    """Raise for empty cells in columns of numbers that kernels see, naming the columns."""
    missing = features[list(dict.fromkeys(used))].select_dtypes("number").isna().sum()
    if missing.any():
        counts = [f"{name!r} ({count} of {len(features)})" for name, count in missing[missing > 0].items()]
        raise ValueError(
            f"values are missing in {listed(counts)}. Fill them in or remove these rows, leave such columns out "
            "with --drop, or fit with --missing-views impute --method gpmkl, or --missing-views integrate "
            "--kernels-on each."
        )


def may_be_text(features: pd.DataFrame) -> list[str]:
    """Return the columns that hold no numbers."""
    return [str(name) for name, dtype in features.dtypes.items() if not pd.api.types.is_numeric_dtype(dtype)]


def check_constant(features: pd.DataFrame) -> None:
    """Raise for columns of one value only, which cannot be standardized."""
    numbers = features.select_dtypes("number")
    constant = [str(name) for name in features if features[name].nunique(dropna=name in numbers) == 1]
    if constant:
        raise ValueError(
            f"{_columns(constant)} the same value in all {len(features)} rows to fit, so nothing can be "
            "learned from it. Leave it out with --drop."
        )


def match_columns(
    table: pd.DataFrame, wanted: Sequence[str], text: Sequence[str]
) -> tuple[pd.DataFrame, list[str]]:
    """Take the columns that a model was fitted to, in its order, and name the others; those in `text` are text."""
    absent = [name for name in wanted if name not in table.columns]
    if absent:
        raise ValueError(
            f"the table lacks {len(absent)} of the {len(wanted)} columns that the model was fitted to: "
            f"{named(absent)}; {did_you_mean(absent[0], table.columns, n=3)}"
        )
    features = table[list(wanted)]
    features = features.astype({name: str for name in text if not features[name].isna().any()})
    return features, [name for name in table.columns if name not in wanted]


def _columns(names: Sequence[str]) -> str:
    return f"column {names[0]!r} holds" if len(names) == 1 else f"the columns {named(names)} hold"


# ---------------------------------------------------------------------------------------------------- targets


def check_target(target: pd.Series, task: str, event: pd.Series | None = None) -> tuple[np.ndarray, str]:
    """Return the target as an array, and what it is about: "classification", "regression", "ordinal", "survival".

    With `event`, which says whether the event was seen, the array is structured.
    """
    missing = int(target.isna().sum())
    if missing:
        raise ValueError(
            f"the target {target.name!r} is missing in {missing} of {len(target)} rows (empty, or NA, NaN or None "
            "among numbers). Fill it in or remove these rows."
        )
    if event is not None:
        return _times(target, event), "survival"
    is_number = pd.api.types.is_numeric_dtype(target.dtype) and not pd.api.types.is_bool_dtype(target.dtype)
    if task == "auto":
        whole = is_number and bool(np.all(np.mod(target.to_numpy(np.float64), 1.0) == 0.0))
        task = (
            "classification"
            if not is_number or (whole and target.nunique() <= MOST_CLASSES)
            else "regression"
        )
    if task == "regression":
        _require_numbers(target, "--task regression")
        return target.to_numpy(np.float64), task
    strange = next((label for label in target if not isinstance(label, str | Real | np.bool_)), None)
    if strange is not None and not is_number:
        raise ValueError(
            f"the target {target.name!r} holds values such as {strange!r} of type {type(strange).__name__}. Write "
            "classes as text or whole numbers, and quantities as floating point numbers."
        )
    values = target.to_numpy() if is_number else target.astype(str).to_numpy(dtype=str)
    labels, counts = np.unique(values, return_counts=True)
    if len(labels) < 2 or counts.min() < 2:
        found = listed([f"{label!s} ({n} rows)" for label, n in zip(labels, counts, strict=True)])
        raise ValueError(
            f"classification needs at least two classes with at least two rows each, one to fit and one to test; the "
            f"target {target.name!r} holds {found}."
            + (" For a quantity use --task regression." if is_number else "")
        )
    words = sorted(set(MISSING).intersection(labels.tolist())) if not is_number else []
    if words:
        say(
            f"{named(words)} in {target.name!r} is a class here. If it means a missing label, remove its rows."
        )
    return values, task


def _require_numbers(target: pd.Series, what: str) -> None:
    if not pd.api.types.is_numeric_dtype(target.dtype) or not np.isfinite(target.to_numpy(np.float64)).all():
        raise ValueError(
            f"{what} needs finite numbers in the target; {target.name!r} holds values such as {target.iloc[0]!r}."
        )


def _times(time: pd.Series, event: pd.Series) -> np.ndarray:
    """Return events and times as a structured array."""
    if event.isna().any() or not set(event.tolist()) <= {0, 1}:
        other = next(value for value in event.tolist() if value not in (0, 1))
        raise ValueError(
            "the event must be a column of 0 and 1, or of true and false, which says whether the event was "
            f"observed; got {other!r} in {event.name!r}. Recode it."
        )
    _require_numbers(time, "a time to an event")
    found = np.empty(len(time), dtype=[("event", bool), ("time", float)])
    found["event"], found["time"] = event.astype(bool), time
    return found
