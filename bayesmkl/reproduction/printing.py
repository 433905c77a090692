"""Rows to print: published beside ours, with where each of our numbers comes from."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from bayesmkl.reproduction.tables import PROVENANCE, Entry, Printed, set_name

if TYPE_CHECKING:
    from bayesmkl.evaluation.comparison import Comparison

__all__ = [
    "as_text",
    "check_printed",
    "markdown",
    "plus_minus",
    "provenance",
    "published_beside_ours",
    "values_of",
]

AS_IN_THE_PAPER = "paper"


def provenance(
    comparison: Comparison,
    labels: str | Iterable[str] | None = None,
    variant: str = "",
    model: str | None = None,
) -> dict[str, Any]:
    """Return the columns that every printed row has, :data:`tables.PROVENANCE`.

    Parameters
    ----------
    comparison : Comparison
    labels : str, list of str or None
        The data sets that the row is about, as labeled in the comparison; None: all.
    variant : str
        In which way the row differs from the paper's protocol.
    model : str or None
        The model whose sets and splits count, where variants have fewer; None: all.

    Returns
    -------
    dict
        ``data`` (the label, or how many sets), ``rows`` (a range for several sets), ``splits``, ``seed``,
        ``variant``.
    """
    cells = comparison.cells
    wanted = comparison.datasets if labels is None else [labels] if isinstance(labels, str) else list(labels)
    cells = cells[cells["dataset"].isin(wanted) & ((cells["model"] == model) | (model is None))]
    wanted = [label for label in wanted if label in set(cells["dataset"])]
    n_splits = cells.groupby("dataset")["split"].nunique()
    return {
        "data": wanted[0] if len(wanted) == 1 else f"{len(wanted)} sets{_ending(wanted)}",
        "rows": _range(cells["n_samples"]),
        "splits": _range(n_splits),
        "seed": comparison.about["random_state"],
        "variant": variant or AS_IN_THE_PAPER,
    }


def published_beside_ours(entries: Iterable[Entry], comparison: Comparison, title: str = "") -> Printed:
    """Print each entry of the sets that were run: mean and standard deviation over splits.

    Parameters
    ----------
    entries : iterable of Entry
    comparison : Comparison
    title : str

    Returns
    -------
    Printed
        Columns: those of :data:`tables.PROVENANCE`, ``model``, ``metric``, ``published`` and ``published_sd``,
        ``ours`` and ``ours_sd`` in the paper's unit, ``difference`` (ours minus published) and ``difference_in_sd``
        (in published standard deviations; NaN where none is published). Stand-ins have no difference.

    Raises
    ------
    ValueError
        If an entry of a set that was run names a model or a metric that the comparison does not have.
    """
    label_of = {set_name(label): label for label in comparison.datasets}
    rows = [
        _row(entry, comparison, label_of[entry.dataset]) for entry in entries if entry.dataset in label_of
    ]
    if not rows:
        raise ValueError("no entry of the table is of a data set in the comparison.")
    frame = pd.DataFrame(rows)
    return Printed(title, frame)


def values_of(comparison: Comparison, label: str, model: str, column: str) -> np.ndarray:
    """Return a column of the cells of one data set and model, one value per split.

    Raises
    ------
    ValueError
        If there is no such model or column.
    """
    cells = comparison.cells
    if column not in cells.columns:
        raise ValueError(f"the comparison has no column {column!r}; it has {', '.join(cells.columns)}.")
    chosen = cells[(cells["dataset"] == label) & (cells["model"] == model)]
    if chosen.empty:
        raise ValueError(
            f"the comparison has no model {model!r} on {label!r}; it has {', '.join(comparison.models)}."
        )
    return chosen.sort_values("split")[column].to_numpy(dtype=float)


def check_printed(printed: Iterable[Printed]) -> list[str]:
    """Return the faults of tables to print: empty cells of ours, rows without :data:`tables.PROVENANCE`."""
    faults = []
    for table in printed:
        absent = [column for column in (*PROVENANCE, *table.ours) if column not in table.frame.columns]
        if absent:
            faults.append(f"{table.title}: no column {', '.join(absent)}")
            continue
        if table.frame.empty:
            faults.append(f"{table.title}: no rows")
        for column in (*PROVENANCE, *table.ours):
            empty = table.frame[column].isna() | (table.frame[column].astype(str).str.strip() == "")
            for _, row in table.frame[empty].iterrows():
                where = ", ".join(
                    str(row[name]) for name in ("data", "model", "metric", "variant") if name in row
                )
                faults.append(f"{table.title}: {column} is empty ({where})")
    return faults


def plus_minus(mean: float | None, std: float | None) -> str:
    """Write mean ± standard deviation, with as many digits as the latter deserves.

    Examples
    --------
    >>> plus_minus(96.798, 1.024), plus_minus(0.0684, 0.0357), plus_minus(392.4, 161.0), plus_minus(None, None)
    ('96.80 ± 1.02', '0.068 ± 0.036', '392 ± 161', '–')
    """
    if mean is None or not np.isfinite(mean):
        return "–"
    if std is None or not np.isfinite(std):
        return f"{mean:.4g}"
    if std == 0.0:
        return f"{mean:.4g} ± 0"
    size = int(np.floor(np.log10(std)))
    digits = max(0, min(2, 2 - size)) if size >= -1 else 1 - size
    return f"{mean:.{digits}f} ± {std:.{digits}f}"


def as_text(frame: pd.DataFrame) -> pd.DataFrame:
    """Write a table for people: a column with its ``_sd`` as mean ± standard deviation, an empty cell as a dash."""
    shown = {}
    for name in frame.columns:
        if name.endswith("_sd") and name.removesuffix("_sd") in frame:
            continue
        title = {"difference_in_sd": "in published sd"}.get(name, name.replace("_", " "))
        if f"{name}_sd" in frame:
            pairs = zip(frame[name], frame[f"{name}_sd"], strict=True)
            shown[title] = [plus_minus(mean, std) for mean, std in pairs]
        elif name.startswith("difference"):
            digits = 1 if name.endswith("in_sd") else 2
            shown[title] = ["–" if pd.isna(value) else f"{value:+.{digits}f}" for value in frame[name]]
        else:
            shown[title] = [_text(value) for value in frame[name]]
    return pd.DataFrame(shown)


def markdown(frame: pd.DataFrame) -> str:
    """Write the result of :func:`as_text` as a table in Markdown; columns of numbers to the right.

    Examples
    --------
    >>> print(markdown(pd.DataFrame({"data": ["iris"], "ours": ["95.8 ± 1.0"]})))
    | data |       ours |
    | ---- | ---------: |
    | iris | 95.8 ± 1.0 |
    """
    cells = [
        [str(cell).replace("|", "\\|") for cell in row] for row in [list(frame.columns), *frame.to_numpy()]
    ]
    widths = [max(3, *(len(row[j]) for row in cells)) for j in range(len(frame.columns))]
    right = [all(cell[:1] in "+-–0123456789" for cell in frame[name]) for name in frame.columns]

    def line(row: list[str]) -> str:
        padded = [
            cell.rjust(width) if to_right else cell.ljust(width)
            for cell, width, to_right in zip(row, widths, right, strict=True)
        ]
        return f"| {' | '.join(padded)} |"

    rule = [
        "-" * (width - 1) + ":" if to_right else "-" * width
        for width, to_right in zip(widths, right, strict=True)
    ]
    return "\n".join([line(cells[0]), line(rule), *(line(row) for row in cells[1:])])


def _row(entry: Entry, comparison: Comparison, label: str) -> dict[str, Any]:
    values = entry.scale * values_of(comparison, label, entry.model, entry.metric)
    ours, ours_sd = values.mean(), values.std(ddof=1) if len(values) > 1 else np.nan
    published, published_sd = entry.published or (np.nan, None)
    is_the_set = label == entry.dataset  # neither a part of it nor a stand-in, which compare with nothing
    difference = ours - published if is_the_set else np.nan
    of_row = provenance(comparison, label, entry.variant)
    return {
        **{name: of_row[name] for name in ("data", "rows", "splits", "seed")},
        "splits": str(len(values)),  # of this model: a variant may have fewer
        "model": entry.model,
        "variant": of_row["variant"],
        "metric": entry.metric + (" (%)" if entry.scale == 100.0 else ""),
        "published": published,
        "published_sd": np.nan if published_sd is None else published_sd,
        "ours": ours,
        "ours_sd": ours_sd,
        "difference": difference,
        "difference_in_sd": difference / published_sd if published_sd else np.nan,
    }


def _range(values: pd.Series) -> str:
    low, high = int(values.min()), int(values.max())
    return str(low) if low == high else f"{low}-{high}"


def _ending(labels: list[str]) -> str:
    endings = {label.removeprefix(set_name(label)) for label in labels} - {""}
    return "".join(sorted(endings))


def _text(value: object) -> str:
    if value is None or (isinstance(value, float) and not np.isfinite(value)):
        return "–"
    return f"{value:.4g}" if isinstance(value, float) else str(value)
