"""Construction of the Bunch that every loader returns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from sklearn.utils import Bunch

from bayesmkl._utils.validation import check_flag
from bayesmkl.datasets._table import Entry

__all__ = ["describe", "make_bunch"]


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
