"""A comparison as one page of HTML that needs nothing but itself."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from bayesmkl._utils.files import as_path, written_beside
from bayesmkl._utils.validation import shown as shown_value
from bayesmkl.evaluation.page import (
    MISSING,
    Block,
    Drawing,
    Heading,
    Html,
    Printed,
    Rows,
    counted,
    number,
    page,
    plain,
)
from bayesmkl.evaluation.plots import plot_critical_difference, plot_curve, plot_scores
from bayesmkl.evaluation.scoring import METRICS
from bayesmkl.evaluation.significance import TESTS, friedman, win_totals

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from bayesmkl.evaluation.comparison import Comparison

ALPHA = 0.05
TEST = "corrected_t"
MOST_ROWS = 2000  # of kernels; the largest shares of each model
MOST_SETS = 3  # whose curves are shown
REFUSALS = (ValueError, ImportError)  # too few models or data sets, a library that is not installed
MODEL = ["dataset", "model"]
COLUMNS = {
    "dataset": "data set",
    "fit_seconds": "fit, s",
    "predict_seconds": "predict, s",
    "peak_memory_mb": "memory, MiB",
    "support_fraction": "support",
    "n_active_kernels": "active kernels",
    "note": "warnings",
    "mean_rank": "mean rank",
    "times_best": "times best",
    "times_worst": "times worst",
    "lower": "from",
    "upper": "to",
    "p_value": "p",
    "p_adjusted": "p, corrected",
    "win_rate": "win rate",
    "n_kernels": "kernels",
    "n_selected": "selected",
    "std": "sd over splits",
    "posterior_std": "posterior sd",
}  # heads of columns in words
COSTS = list(COLUMNS)[1:6]
SHARES = (
    "Shares of the score, of models without a posterior parts of the sum of all weights, over the splits. A kernel "
    "is selected where its share is above a thousandth of the largest. Stability is 1 where all splits select the "
    "same kernels, and around 0 where they select at random (Nogueira et al. 2018)."
)
CALIBRATION = (
    "Mean over the splits, with a band of one standard deviation. Of a calibrated model, samples with a predicted "
    "probability of 0.3 are of the class in 3 of 10 cases. A point holds a tenth of the predictions."
)


def write_report(
    comparison: Comparison,
    path: str | os.PathLike[str],
    title: str = "Comparison of models",
    metrics: Sequence[str] | None = None,
) -> Path:
    """Write a comparison as one self-contained page of HTML; see :meth:`Comparison.to_html`.

    A page that is there is replaced, at once and only when the new one is complete.
    """
    path = as_path("path", path)
    if not isinstance(title, str):
        raise TypeError(f"`title` must be a str; got {shown_value(title)}.")
    if metrics is not None and (isinstance(metrics, str) or not isinstance(metrics, Sequence) or not metrics):
        raise ValueError(f"`metrics` must be None or a list of metrics; got {shown_value(metrics)}.")
    chosen = list(comparison.metrics[:1] if metrics is None else metrics)
    unknown = [name for name in chosen if name not in comparison.metrics]
    if unknown:
        known = ", ".join(map(repr, comparison.metrics))
        raise ValueError(f"`metrics` must name metrics of the comparison, {known}; got {unknown[0]!r}.")
    with written_beside(path) as beside:  # which refuses a place that cannot be written to
        beside.write_text(page(title, _facts(comparison), _parts(comparison, chosen)), encoding="utf-8")
    return path


def _parts(comparison: Comparison, metrics: Sequence[str]) -> dict[str, list[Block]]:
    parts: dict[str, list[Block]] = {
        "Scores": _scores(comparison),
        "Failures and warnings": _failures(comparison),
        "Ranks": [block for metric in metrics for block in _ranks(comparison, metric)],
        "Differences": [block for metric in metrics for block in _differences(comparison, metric)],
        "Plots": [
            _drawn(plot_scores, f"{_title(metric)} of every model on every split", comparison, metric)
            for metric in metrics
        ],
        "Cost and sparsity": _costs(comparison),
        "Kernels": _kernels(comparison),
        "Calibration": _calibration(comparison),
        "Protocol": _protocol(comparison),
        "Environment": [dict(comparison.about.get("environment", {}))],
    }
    return {name: blocks for name, blocks in parts.items() if blocks}


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


def _rows(frame: pd.DataFrame, label: str, identity: str | None = None, fold: str | None = None) -> Rows:
    """Return a table with heads in words."""
    return Rows(frame.rename(columns=COLUMNS), label, identity, fold)


def _link(text: str) -> str:
    return f'<a href="#failures" class="failed">{escape(text)}</a>'


def _scores(comparison: Comparison) -> list[Block]:
    cells = comparison.cells
    n_failed = int((cells["error"] != "").sum())
    blocks: list[Block] = []
    if n_failed:
        failed = _link(f"{n_failed} of {counted(len(cells), 'fit')} failed")
        blocks.append(Html(f"{failed}. Means are over the splits that succeeded."))
    blocks.append(
        Html(
            "Mean ± standard deviation over splits. In bold, the best mean of each data set among models that "
            'succeeded on all of its splits; see <a href="#differences">differences</a> for which of them are real. '
            "A click on the head of a column sorts by it."
        )
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
        if row is None or (row["n"] == 0 and row["failed"] == 0):
            return MISSING
        if row["n"] == 0:
            return Html(_link("failed"))
        mean, std = number(row["mean"]), row["std"]
        shown = mean if np.isnan(std) else f"{mean} ± {number(std)}"
        if row["n"] < n:
            return Html(f"{shown} " + _link(f"({row['n']} of {n})"))
        return Html(f"<b>{shown}</b>") if row["best"] else shown

    columns = [[cell(dataset, model) for model in comparison.models] for dataset in comparison.datasets]
    heads = ["model", *comparison.datasets]
    columns.insert(0, comparison.models)
    if len(comparison.datasets) > 1 and comparison.cells[metric].notna().any():
        ranks = comparison.ranks(metric)["mean_rank"]
        heads, columns = [*heads, "mean rank"], [*columns, [number(ranks[m], 2) for m in comparison.models]]
    frame = pd.DataFrame(list(zip(*columns, strict=True)), columns=heads, dtype=object)  # which keeps Html
    return Rows(frame, f"{_title(metric)} of every model on every data set", f"scores-{plain(metric)}")


def _failures(comparison: Comparison) -> list[Block]:
    """Return failures, metrics that could not be measured, and warnings; nothing without any."""
    cells = comparison.cells
    blocks: list[Block] = []
    failed = cells["error"] != ""
    if failed.any():
        blocks += [Heading("Fits that failed"), _messages(cells[failed], "error", "failures-errors")]
    absent = cells[~failed].melt(["dataset", "model"], comparison.metrics, "metric", "value")
    absent = absent[absent["value"].isna()].drop_duplicates()
    if len(absent):
        absent["metric"] = absent["metric"].map(_title)
        frame = absent.groupby(["model", "metric"], sort=False)["dataset"].agg(", ".join).reset_index()
        blocks += [
            Heading("Scores that a model does not give"),
            Rows(frame, "scores that a model does not give", "failures-absent"),
        ]
    warned = cells[cells["note"] != ""]
    if len(warned):
        fold = f"{counted(len(warned), 'fit')} with warnings"
        blocks += [Heading("Warnings"), _messages(warned, "note", "failures-notes", fold)]
    return blocks


def _messages(cells: pd.DataFrame, what: str, identity: str, fold: str | None = None) -> Rows:
    """Return a row per model, data set and message, with the splits that it concerns."""
    groups: Any = cells.groupby(["model", "dataset", what], sort=False)["split"]
    rows = [
        (model, dataset, len(splits), ", ".join(map(str, splits)), message)
        for (model, dataset, message), splits in groups
    ]
    frame = pd.DataFrame(rows, columns=["model", "dataset", "how many", "splits", what])
    return _rows(frame, f"{what} by model and data set", identity, fold)


def _ranks(comparison: Comparison, metric: str) -> list[Block]:
    """Return mean ranks over data sets, Friedman's test and the critical-difference diagram, or what is missing."""
    title = _title(metric)
    if len(comparison.datasets) < 2:
        return [Heading(title), "Ranks are means over data sets, and this comparison has one."]
    if comparison.cells[metric].isna().all():
        return [Heading(title), "No model has a score."]
    table = comparison.ranks(metric).rename_axis("model").reset_index()
    table["mean_rank"] = [number(rank, 2) for rank in table["mean_rank"]]
    table = table.drop(columns="n").rename(columns={"note": "remark"})
    blocks: list[Block] = [Heading(title), _rows(table, f"ranks by {title}", f"ranks-{plain(metric)}")]
    try:
        tested = friedman(comparison.scores(metric), comparison.about["metrics"][metric])
    except REFUSALS as reason:
        return [*blocks, str(reason)]
    said = (
        f"Friedman's test that {tested.n_models} models rank alike over {tested.n_datasets} data sets: "
        f"χ² = {number(tested.statistic)}, {_p(tested.p_value)}; in the form of Iman and Davenport "
        f"F = {number(tested.f_statistic)}, {_p(tested.f_p_value)}."
    )
    caption = f"Mean ranks by {title}; lines join models that Nemenyi's test cannot tell apart"
    return [*blocks, said, _drawn(plot_critical_difference, caption, comparison, metric)]


def _differences(comparison: Comparison, metric: str) -> list[Block]:
    """Return tests of all pairs of models on every data set, and how often each model is better than others."""
    title, several = _title(metric), len(comparison.datasets) > 1
    try:
        pairs = comparison.significance(metric, TEST, alpha=ALPHA)
        totals = win_totals(comparison.wins(metric, TEST, alpha=ALPHA)) if several else None
    except REFUSALS as reason:
        return [Heading(title), str(reason)]
    explained = (
        f"Two-sided {TESTS[TEST]} over the splits of each data set. P-values are corrected by Holm's procedure for "
        f"the number of pairs of a data set; below {ALPHA:g}, one of the two counts as better. From and to bound "
        f"the mean difference of a pair alone with {100 * (1 - ALPHA):g} % confidence."
    )
    names = ["difference", "lower", "upper", "p_value", "p_adjusted"]
    table = pairs[["dataset", "first", "second", *names, "better", "note"]].astype(object)
    for name in names:
        table[name] = [_value_of_p(v) if name.startswith("p_") else number(v, 4) for v in pairs[name]]
    table = table.rename(columns={"note": "remark"})
    table["dataset"] = table["dataset"].replace("", comparison.datasets[0])
    label, fold = f"pairs of models by {title}", counted(len(table), "pair")
    blocks: list[Block] = [Heading(title), explained, _rows(table, label, f"pairs-{plain(metric)}", fold)]
    if totals is not None:
        blocks += [
            "Wins, ties and losses against all others on all data sets, by the same test at the level "
            f"{ALPHA:g} for each pair, without a correction for their number.",
            _rows(totals.reset_index(), "wins, ties and losses", f"wins-{plain(metric)}"),
        ]
    return blocks


def _drawn(plot: Callable[..., Axes], caption: str, *given: Any, **options: Any) -> Block:
    """Return a plot as a picture, or the reason why there is none."""
    try:
        return Drawing.of(plot(*given, **options), caption)
    except REFUSALS as reason:
        return str(reason)


def _costs(comparison: Comparison) -> list[Block]:
    """Return seconds, memory, support points and active kernels, means over the splits that succeeded."""
    cells = comparison.cells[comparison.cells["error"] == ""]
    names = [name for name in (*COSTS, "converged") if name in cells and cells[name].notna().any()]
    means = cells.groupby(MODEL, sort=False)[names].mean().reset_index()[["model", "dataset", *names]]
    if "converged" in means:
        means["converged"] = _percent(means["converged"])
    fold = counted(len(means), "row")
    return [
        "Means over the splits on which the model succeeded.",
        _rows(means, "cost and sparsity by model and data set", "costs", fold),
    ]


def _kernels(comparison: Comparison) -> list[Block]:
    """Return tables of how stably kernels are selected, and of shares; nothing where there are none."""
    weights = comparison.weights()
    if weights.empty:
        return []
    stability = comparison.stability()
    ends = zip(stability["lower"], stability["upper"], strict=True)
    stability["95 % interval"] = [MISSING if np.isnan(a) else f"{a:.2f} to {b:.2f}" for a, b in ends]
    stability = stability[["model", "dataset", "n_kernels", "n_selected", "stability", "95 % interval"]]
    weights["selected"] = _percent(weights["selected"])
    groups = weights.rename(columns={"mean": "share"}).groupby(MODEL, sort=False)
    columns = ["kernel", "model", "dataset", "share", "std", "posterior_std", "selected"]
    first = groups.head(max(1, MOST_ROWS // groups.ngroups))[columns]
    label, fold = "shares of kernels by model and data set", counted(len(first), "row")
    return [
        SHARES,
        _rows(stability, "stability of the selection of kernels", "stability"),
        _rows(first, label, "kernels", fold),
    ]


def _percent(parts: pd.Series) -> list[str]:
    return [MISSING if np.isnan(part) else f"{100 * part:.0f} %" for part in parts]


def _calibration(comparison: Comparison) -> list[Block]:
    """Return ROC and calibration curves of data sets with two classes; nothing where predictions are not kept."""
    blocks: list[Block] = []
    for dataset in comparison.datasets[:MOST_SETS]:
        for kind, title in (("calibration", "Calibration"), ("roc", "True over false positives")):
            try:
                drawing = Drawing.of(plot_curve(comparison, kind, dataset), f"{title} on {dataset}")
            except ValueError:  # no probabilities, several classes, nothing kept
                continue
            blocks += [Heading(dataset), drawing] if kind == "calibration" else [drawing]
    return [CALIBRATION, *blocks] if blocks else []


def _protocol(comparison: Comparison) -> list[Block]:
    about = comparison.about
    settings = {"metrics": ", ".join(comparison.metrics)} | {
        name: about.get(name) for name in ("random_state", "cv")
    }
    blocks: list[Block] = [
        "All models were fitted to the same training rows of every split and scored on the same test rows.",
        settings,
        Heading("Data"),
        _data_table(comparison),
        Heading("Models"),
        {name: Html(f"<code>{escape(about['models'].get(name, ''))}</code>") for name in comparison.models},
    ]
    if about.get("config"):
        blocks += [Heading("Configuration"), Printed(str(about["config"]).splitlines())]
    return blocks


def _data_table(comparison: Comparison) -> Rows:
    facts = pd.DataFrame.from_dict(comparison.about.get("datasets", {}), orient="index", dtype=object)
    facts = (
        facts.dropna(axis="columns", how="all")
        .fillna("")
        .rename(columns=lambda fact: fact.removeprefix("n_"))
    )
    splits = comparison.cells.groupby("dataset", sort=False).agg(
        {"split": "nunique", "n_train": "mean", "n_test": "mean"}
    )
    splits.columns = ["splits", "training rows", "test rows"]
    table = facts.join(splits, how="right").rename_axis("data set").reset_index()
    return Rows(table, "data sets and splits")


def _p(value: float) -> str:
    shown = _value_of_p(value)
    return f"p {shown}" if shown.startswith("<") else f"p = {shown}"


def _value_of_p(value: float) -> str:
    if np.isnan(value):
        return MISSING
    return f"{value:.3f}" if value >= 0.001 else "< 0.001"
