"""Common form of a data set: as sources deliver it, with its checks, and as the Bunch that users get."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from sklearn.utils import Bunch

from bayesmkl._utils.validation import check_flag
from bayesmkl.datasets._table import Entry

__all__ = ["Raw", "check_raw", "describe", "in_fixed_order", "make_bunch", "splice_codes"]


class Raw(NamedTuple):
    """One data set as a source delivers it, rows in the source's order."""

    data: np.ndarray  # (n_samples, n_features), float64 or text
    target: np.ndarray  # (n_samples,)
    feature_names: list[str] | None = None  # where the table of names has none
    target_multiclass: np.ndarray | None = None  # (n_samples,) the classes behind a binary target


def splice_codes(letters: np.ndarray, junctions: np.ndarray) -> Raw:
    """Code DNA letters (n, 60) as A, C, G, T = 0, 1, 2, 3, dropping rows with any other letter."""
    codes = np.select([letters == base for base in "ACGT"], [0.0, 1.0, 2.0, 3.0], default=np.nan)
    known = ~np.isnan(codes).any(axis=1)
    junctions = junctions[known]
    return Raw(codes[known], np.where(junctions == "N", -1, 1), target_multiclass=junctions)


def check_raw(raw: Raw, entry: Entry, origin: str) -> None:
    """Compare shape and class counts with the table; raise a ValueError that says what differs.

    Parameters
    ----------
    raw : Raw
        What the source delivered.
    entry : Entry
        What it should be.
    origin : str
        Where it came from, for the message.
    """
    problems = []
    if raw.data.shape != (entry.n_samples, entry.n_features):
        problems.append(f"shape {raw.data.shape} instead of {(entry.n_samples, entry.n_features)}")
    problems += _count_problems(raw.target, entry, [count for _, _, count in entry.classes], "")
    if entry.n_train and not problems:
        problems += _count_problems(
            raw.target[: entry.n_train], entry, entry.train_counts, " in the training part"
        )
    if not problems and raw.data.dtype.kind == "f" and not np.isfinite(raw.data).all():
        problems.append(
            f"{np.count_nonzero(~np.isfinite(raw.data))} missing or infinite values instead of none"
        )
    if problems:
        raise ValueError(
            f'"{entry.name}" as read from {origin} is not the expected data set: {"; ".join(problems)}. '
            "Use another copy: set BAYESMKL_DATA to a folder that holds the checked files, or unset it "
            "to download."
        )


def _count_problems(target: np.ndarray, entry: Entry, expected, where: str) -> list[str]:
    found = dict(zip(*np.unique(target, return_counts=True), strict=True))
    labels = [label for label, _, _ in entry.classes]
    problems = [
        f"class {label} ({name}) has {found.get(label, 0)} samples instead of {count}{where}"
        for (label, name, _), count in zip(entry.classes, expected, strict=True)
        if found.get(label, 0) != count
    ]
    extra = [str(label) for label in found if label not in labels]
    return problems + ([f"unexpected classes {', '.join(extra)}{where}"] if extra else [])


def in_fixed_order(raw: Raw, n_train: int) -> Raw:
    """Put rows into one order that depends on their values only, training part first.

    Copies of a set list the same rows in different orders. Sorting makes them one, and a fixed shuffle (the
    same for every set) undoes the sorting, so that unshuffled cross-validation folds are not slices of the
    first feature.
    """
    parts = np.split(np.arange(len(raw.data)), [n_train])
    order = np.concatenate([part[_fixed_order(raw.data[part], raw.target[part])] for part in parts])
    multiclass = None if raw.target_multiclass is None else raw.target_multiclass[order]
    return raw._replace(data=raw.data[order], target=raw.target[order], target_multiclass=multiclass)


def _fixed_order(data: np.ndarray, target: np.ndarray) -> np.ndarray:
    # Single precision: two copies that differ by rounding in the last digits still sort alike.
    keys = data.astype(np.float32) if data.dtype.kind == "f" else data
    order = np.lexsort((target, *keys.T[::-1]))
    shuffle = np.random.RandomState(0).permutation(len(order))
    return order[shuffle]


def describe(entry: Entry) -> str:
    """Write the DESCR of one row of the table: size, classes, coding, source and what papers print."""
    lines = [
        f"{entry.title} (`{entry.name}`)",
        "",
        f"{entry.n_samples} samples, {entry.n_features} features.",
    ]
    if entry.classes:
        lines.append(
            "Target: " + "; ".join(f"{label} = {name} ({count})" for label, name, count in entry.classes)
        )
    elif entry.n_events:
        censored = entry.n_samples - entry.n_events
        lines.append(
            f"Target: event and time to it or to censoring ({entry.n_events} events, {censored} censored)."
        )
    else:
        lines.append("Target: a real number (regression).")
    if entry.n_train:
        lines.append(f"Rows: the first {entry.n_train} are the training part, the others the test part.")
    lines += [entry.notes] if entry.notes else []
    lines += [f"In papers: {entry.paper_sizes}."] if entry.paper_sizes else []
    lines.append(f"Source: {entry.source}.")
    return "\n".join(lines)


def make_bunch(
    entry: Entry,
    data: np.ndarray,
    target: np.ndarray,
    feature_names: Sequence[str],
    *,
    return_X_y: bool = False,
    as_frame: bool = False,
    **extra: Any,
) -> Bunch | tuple[Any, Any]:
    """Wrap arrays as a Bunch, or as ``(data, target)``; with ``as_frame`` as a DataFrame and a Series."""
    check_flag("return_X_y", return_X_y)
    check_flag("as_frame", as_frame)
    X: Any = data
    y: Any = target
    if as_frame:
        X = pd.DataFrame(data, columns=list(feature_names))
        y = pd.Series(target, name="target")
    if return_X_y:
        return X, y
    bunch = Bunch(
        data=X, target=y, feature_names=list(feature_names), DESCR=describe(entry), name=entry.name, **extra
    )
    if entry.classes:
        bunch.target_names = np.array([name for _, name, _ in entry.classes])
    return bunch
