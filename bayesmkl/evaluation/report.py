"""A comparison as one page of HTML that needs nothing but itself."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from bayesmkl._utils.validation import shown as shown_value
from bayesmkl.evaluation.page import (
    MISSING,
    Block,
    Drawing,
    Heading,
    ModelReport,
    Printed,
    Rows,
    counted,
    number,
    worded,
)
from bayesmkl.evaluation.plots import plot_critical_difference, plot_scores
from bayesmkl.evaluation.scoring import METRICS
from bayesmkl.evaluation.significance import TESTS, friedman

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from bayesmkl.evaluation.comparison import Comparison

ALPHA = 0.05
TEST = "corrected_t"
REFUSALS = (ValueError, ImportError)  # too few models or data sets, a library that is not installed
COSTS = [
    "fit_seconds",
    "predict_seconds",
    "peak_memory_mb",
    "support_fraction",
    "n_active_kernels",
    "converged",
]


def write_report(
    comparison: Comparison,
    path: str | os.PathLike[str],
    title: str = "Comparison of models",
    metrics: Sequence[str] | None = None,
) -> Path:
    """Write a comparison as one self-contained page of HTML; see :meth:`Comparison.to_html`.

    A page that is there is replaced, at once and only when the new one is complete.
    """
    if not isinstance(title, str):
        raise TypeError(f"`title` must be a str; got {shown_value(title)}.")
    if metrics is not None and (isinstance(metrics, str) or not isinstance(metrics, Sequence) or not metrics):
        raise ValueError(f"`metrics` must be None or a list of metrics; got {shown_value(metrics)}.")
    chosen = list(comparison.metrics[:1] if metrics is None else metrics)
    unknown = [name for name in chosen if name not in comparison.metrics]
    if unknown:
        known = ", ".join(map(repr, comparison.metrics))
        raise ValueError(f"`metrics` must name metrics of the comparison, {known}; got {unknown[0]!r}.")
    parts: dict[str, list[Block]] = {
        "Scores": _scores(comparison),
        "Failures and warnings": _failures(comparison),
        "Ranks": [block for metric in chosen for block in _ranks(comparison, metric)],
        "Differences": [block for metric in chosen for block in _differences(comparison, metric)],
        "Plots": [
            _drawn(plot_scores, f"{_title(metric)} of every model on every split", comparison, metric)
            for metric in chosen
        ],
        "Cost and sparsity": _costs(comparison),
        "Protocol": _protocol(comparison),
        "Environment": [dict(comparison.about.get("environment", {}))],
    }
    return ModelReport(title, _facts(comparison), {k: v for k, v in parts.items() if v}).write_html(path)


def _facts(comparison: Comparison) -> str:
    """Say in a line what was compared, and when."""
    about = comparison.about
    sizes = [
        counted(len(comparison.models), "model"),
        counted(len(comparison.datasets), "data set"),
        counted(len(comparison.cells), "fit"),
    ]
    when = [f"started {about['started']}"] if about.get("started") else []
    when += [f"{number(about['seconds'], 1)} s"] if about.get("seconds") is not None else []
    return " · ".join([*sizes, *when])


def _title(metric: str) -> str:
    return METRICS[metric].title if metric in METRICS else metric


def _scores(comparison: Comparison) -> list[Block]:
    cells = comparison.cells
    n_failed = int((cells["error"] != "").sum())
    blocks: list[Block] = []
    if n_failed:
        blocks.append(
            f"{n_failed} of {counted(len(cells), 'fit')} failed. Means are over the splits that succeeded."
        )
    blocks.append(
        "Mean ± standard deviation over splits. A star is at the best mean of each data set among models that "
        "succeeded on all of its splits; differences below say which of them are real."
    )
    for metric in comparison.metrics:
        better = "higher" if comparison.about["metrics"][metric] else "lower"
        blocks += [Heading(f"{_title(metric)} ({better} is better)"), _score_table(comparison, metric)]
    return blocks


def _score_table(comparison: Comparison, metric: str) -> Rows:
    """Return a row per model and a column per data set."""
    n_splits = comparison.cells.groupby("dataset")["split"].nunique()
    found = {(row["dataset"], row["model"]): row for row in comparison.summary(metric).to_dict("records")}

    def cell(dataset: str, model: str) -> str:
        row, n = found.get((dataset, model)), n_splits[dataset]
        if row is None or row["n"] == 0:
            return "failed" if row is not None and row["failed"] else MISSING
        mean, std = number(row["mean"]), row["std"]
        shown = mean if np.isnan(std) else f"{mean} ± {number(std)}"
        return f"{shown} ({row['n']} of {n})" if row["n"] < n else f"{shown} *" if row["best"] else shown

    frame = pd.DataFrame(index=pd.Index(comparison.models, name="model"))
    columns = [[cell(dataset, model) for model in comparison.models] for dataset in comparison.datasets]
    frame[comparison.datasets] = np.transpose(columns)
    return Rows(frame.reset_index(), f"scores {metric}")


def _failures(comparison: Comparison) -> list[Block]:
    """Return failures and warnings; nothing without any."""
    blocks: list[Block] = []
    for what, title in (("error", "Fits that failed"), ("note", "Warnings")):
        cells = comparison.cells[comparison.cells[what] != ""]
        groups: Any = cells.groupby(["model", "dataset", what], sort=False)["split"]
        rows = [
            (model, dataset, ", ".join(map(str, splits)), message)
            for (model, dataset, message), splits in groups
        ]
        if rows:
            frame = pd.DataFrame(rows, columns=["model", "data set", "splits", what])
            blocks += [Heading(title), Rows(frame, f"{what}s")]
    return blocks


def _ranks(comparison: Comparison, metric: str) -> list[Block]:
    """Return mean ranks over data sets, Friedman's test and the critical-difference diagram, or what is missing."""
    title = _title(metric)
    if len(comparison.datasets) < 2:
        return [Heading(title), "Ranks are means over data sets, and this comparison has one."]
    if comparison.cells[metric].isna().all():
        return [Heading(title), "No model has a score."]
    table = comparison.ranks(metric).rename_axis("model").reset_index()
    blocks: list[Block] = [Heading(title), Rows(worded(table.drop(columns="n")), f"ranks {metric}")]
    try:
        tested = friedman(comparison.scores(metric), comparison.about["metrics"][metric])
    except REFUSALS as reason:
        return [*blocks, str(reason)]
    said = (
        f"Friedman's test that {tested.n_models} models rank alike over {tested.n_datasets} data sets: "
        f"χ² = {number(tested.statistic)}, p = {number(tested.p_value)}; in the form of Iman and Davenport "
        f"F = {number(tested.f_statistic)}, p = {number(tested.f_p_value)}."
    )
    caption = f"Mean ranks by {title}; lines join models that Nemenyi's test cannot tell apart"
    return [*blocks, said, _drawn(plot_critical_difference, caption, comparison, metric)]


def _differences(comparison: Comparison, metric: str) -> list[Block]:
    """Return tests of all pairs of models on every data set."""
    title = _title(metric)
    try:
        pairs = comparison.significance(metric, TEST, alpha=ALPHA)
    except REFUSALS as reason:
        return [Heading(title), str(reason)]
    explained = (
        f"Two-sided {TESTS[TEST]} over the splits of each data set. P-values are corrected by Holm's procedure for "
        f"the number of pairs of a data set; below {ALPHA:g}, one of the two counts as better. From lower to upper "
        f"is the mean difference of a pair alone with {100 * (1 - ALPHA):g} % confidence."
    )
    table = pairs.drop(columns="n")
    table["dataset"] = table["dataset"].replace("", comparison.datasets[0])
    return [Heading(title), explained, Rows(worded(table), f"pairs {metric}")]


def _drawn(plot: Callable[..., Axes], caption: str, *given: Any) -> Block:
    """Return a plot as a picture, or the reason why there is none."""
    try:
        return Drawing.of(plot(*given), caption)
    except REFUSALS as reason:
        return str(reason)


def _costs(comparison: Comparison) -> list[Block]:
    """Return seconds, memory, support points and active kernels, means over the splits that succeeded."""
    cells = comparison.cells[comparison.cells["error"] == ""]
    names = [name for name in COSTS if name in cells and cells[name].notna().any()]
    means = cells.groupby(["model", "dataset"], sort=False)[names].mean().reset_index()
    return ["Means over the splits on which the model succeeded.", Rows(worded(means), "costs")]


def _protocol(comparison: Comparison) -> list[Block]:
    about = comparison.about
    facts = pd.DataFrame.from_dict(about.get("datasets", {}), orient="index", dtype=object)
    splits = comparison.cells.groupby("dataset", sort=False)[["split", "n_train", "n_test"]].agg(
        {"split": "nunique", "n_train": "mean", "n_test": "mean"}
    )
    table = facts.dropna(axis="columns", how="all").join(splits, how="right").rename_axis("data set")
    blocks: list[Block] = [
        "All models were fitted to the same training rows of every split and scored on the same test rows.",
        {"metrics": ", ".join(comparison.metrics)} | {k: about.get(k) for k in ("random_state", "cv")},
        Heading("Data"),
        Rows(worded(table.reset_index()), "data sets"),
        Heading("Models"),
        Rows(pd.DataFrame(about["models"].items(), columns=["model", "estimator"]), "models"),
    ]
    if about.get("config"):
        blocks += [Heading("Configuration"), Printed(str(about["config"]).splitlines())]
    return blocks
