"""Facts about the data sets in the package, and the Bunch that their loaders return."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from sklearn.utils import Bunch

from bayesmkl._utils.validation import check_flag, shown


class Entry(NamedTuple):
    """Facts about one data set."""

    name: str
    title: str
    n_samples: int
    n_features: int
    classes: tuple[
        tuple[int, str, int], ...
    ]  # (label, name, samples), in label order; () = regression or times
    notes: str = ""
    n_events: int = 0  # of times to an event, some of them censored; 0 = other targets
    source: str = "scikit-learn"


def _classes(names: Sequence[str], counts: Sequence[int], first: int = 0) -> tuple[tuple[int, str, int], ...]:
    return tuple((first + k, name, n) for k, (name, n) in enumerate(zip(names, counts, strict=True)))


_ENTRIES = (
    Entry(
        "wdbc",
        "Wisconsin diagnostic breast cancer",
        569,
        30,
        ((-1, "benign", 357), (1, "malignant", 212)),
        "Thirty numbers describing cell nuclei. Not the older set of nine grades from 1 to 10.",
    ),
    Entry("iris", "Iris flowers", 150, 4, _classes(("setosa", "versicolor", "virginica"), (50, 50, 50))),
    Entry("wine", "Italian wines", 178, 13, _classes(("class_0", "class_1", "class_2"), (59, 71, 48))),
    Entry(
        "digits",
        "Hand-written digits, 8 x 8 pixels, as six views",
        1797,
        156,
        _classes([str(digit) for digit in range(10)], (178, 182, 177, 183, 181, 182, 181, 179, 174, 180)),
        "64 pixels of scikit-learn's digits and five views computed from them.",
    ),
    Entry(
        "diabetes",
        "Diabetes progression after one year (regression)",
        442,
        10,
        (),
        "Features in their original units. Not the Pima Indians data.",
    ),
    Entry(
        "gbsg2",
        "German Breast Cancer Study Group 2 (survival)",
        686,
        8,
        (),
        "Days without recurrence of women with node-positive breast cancer.",
        299,
        "lifelines, in this package",
    ),
    Entry(
        "lung",
        "Lung cancer, North Central Cancer Treatment Group (survival)",
        228,
        8,
        (),
        "Days to death; NaN stands for what was not recorded.",
        165,
        "lifelines, in this package",
    ),
)
TABLE: dict[str, Entry] = {entry.name: entry for entry in _ENTRIES}


def look_up(name: str) -> Entry:
    """Find a data set of the package by its name.

    Raises
    ------
    ValueError
        If the package has none of that name.

    Examples
    --------
    >>> from bayesmkl.datasets._named import look_up
    >>> look_up("wine").n_samples
    178
    """
    if isinstance(name, str) and name in TABLE:
        return TABLE[name]
    raise ValueError(
        f"`datasets` must name data sets of the package ({', '.join(TABLE)}); got {shown(name)}. Give other data as "
        "arrays, or as a file."
    )


def describe(entry: Entry) -> str:
    """Write the DESCR of one data set: size, classes, coding and source."""
    lines = [f"{entry.title} (`{entry.name}`)", ""]
    lines.append(f"{entry.n_samples} samples, {entry.n_features} features.")
    if entry.classes:
        target = "; ".join(f"{label} = {name} ({count})" for label, name, count in entry.classes)
    elif entry.n_events:
        censored = entry.n_samples - entry.n_events
        target = f"event and time to it or to censoring ({entry.n_events} events, {censored} censored)."
    else:
        target = "a real number (regression)."
    lines += [f"Target: {target}", *([entry.notes] if entry.notes else []), f"Source: {entry.source}."]
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
