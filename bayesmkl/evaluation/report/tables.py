"""The tables of a report that need no further computation: scores, failures, cost, every split."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from bayesmkl.evaluation.report.markup import (
    MISSING,
    Cell,
    Column,
    Markup,
    choices,
    counted,
    folded,
    join,
    number,
    plain,
    table,
    tag,
)
from bayesmkl.evaluation.scoring import METRICS

if TYPE_CHECKING:
    from bayesmkl.evaluation.comparison import Comparison

COSTS = {
    "fit_seconds": ("fit, s", "seconds to fit, the search for parameters included"),
    "predict_seconds": ("predict, s", "seconds to predict the test rows"),
    "kernel_seconds": ("kernels, s", "seconds to compute kernels, part of the two before"),
    "reused_seconds": ("saved, s", "seconds of kernels that another model had computed on the same rows"),
    "kernel_stacks": ("kernel stacks", "stacks of kernels that were computed for this model"),
    "peak_memory_mb": ("memory, MiB", "highest memory of fit and prediction above that before"),
    "support_fraction": ("support", "support points, as a fraction of the training rows"),
    "n_active_kernels": ("active kernels", "kernels with a weight that matters"),
    "converged": ("converged", "whether the fit met its tolerance"),
}
COUNTS = {
    "n_train": ("train", "training rows"),
    "n_test": ("test", "test rows"),
    "seed": ("seed", "seed of the fit"),
}
TEXTS = {"best_params": "parameters chosen", "error": "error", "note": "warnings"}


def title_of(metric: str) -> str:
    """Return the name of a metric in tables."""
    return METRICS[metric].title if metric in METRICS else metric


def score_table(comparison: Comparison, metric: str) -> Markup:
    """Return a row per model and a column per data set: mean ± standard deviation over splits, the best in bold."""
    greater = comparison.about["metrics"][metric]
    summary = {(row["model"], row["dataset"]): row for row in comparison.summary(metric).to_dict("records")}
    n_splits = comparison.cells.groupby("dataset", observed=True)["split"].nunique().to_dict()
    best: dict[str, float] = {}
    for (_, dataset), row in summary.items():
        if row["n"] == n_splits[dataset]:
            best[dataset] = (max if greater else min)(row["mean"], best.get(dataset, row["mean"]))
    columns = [Column("model", numeric=False)]
    columns += [Column(dataset, descending=greater) for dataset in comparison.datasets]
    ranks = comparison.ranks(metric)["mean_rank"] if len(comparison.datasets) > 1 else None
    if ranks is not None:
        columns.append(Column("mean rank", title="mean over data sets of the place of the model, 1 the best"))
    rows = []
    for model in comparison.models:
        scores = [
            _score_cell(summary.get((model, dataset)), n_splits[dataset], best.get(dataset, np.nan))
            for dataset in comparison.datasets
        ]
        mean_rank = [] if ranks is None else [Cell(number(ranks[model], 2), float(ranks[model]))]
        rows.append([model, *scores, *mean_rank])
    label = f"{title_of(metric)} of every model on every data set"
    return table(columns, rows, label, f"scores-{plain(metric)}")


def _score_cell(found: Mapping[Any, Any] | None, n_splits: int, best: float) -> Cell:
    """Show a mean; link to the reasons where not all splits have a score."""
    if found is None or (found["n"] == 0 and found["failed"] == 0):
        return Cell(MISSING, np.nan, "note")
    if found["n"] == n_splits:
        is_best = bool(np.isclose(found["mean"], best, rtol=1e-12, atol=0.0))
        return Cell(_mean_and_spread(found["mean"], found["std"]), found["mean"], "best" if is_best else "")
    if found["n"] == 0:
        return Cell(tag("a", "failed", href="#failures", class_="failed"), np.nan)
    link = tag("a", f"({found['n']:.0f} of {n_splits})", href="#failures", class_="failed")
    return Cell(join([_mean_and_spread(found["mean"], found["std"]), " ", link]), found["mean"])


def _mean_and_spread(mean: float, spread: float) -> str:
    return number(mean) if np.isnan(spread) else f"{number(mean)} ± {number(spread)}"


def failure_tables(comparison: Comparison) -> list[Markup]:
    """Return failures, metrics that could not be measured, and warnings; an empty list without any."""
    cells, found = comparison.cells, []
    if (cells["error"] != "").any():
        found += [
            tag("h3", "Fits that failed"),
            _grouped(cells[cells["error"] != ""], "error", "failures-errors"),
        ]
    fitted = cells[cells["error"] == ""]
    absent = fitted.melt(["dataset", "model", "split"], comparison.metrics, "metric", "value")
    absent = absent[absent["value"].isna()]
    if len(absent):
        found += [tag("h3", "Scores that a model does not give"), _absent_table(comparison, absent)]
    if (cells["note"] != "").any():
        warned = cells[cells["note"] != ""]
        summary = tag("summary", f"{counted(len(warned), 'fit')} with warnings")
        found += [tag("h3", "Warnings"), tag("details", summary, _grouped(warned, "note", "failures-notes"))]
    return found


def _absent_table(comparison: Comparison, absent: pd.DataFrame) -> Markup:
    """Return a row per model and metric, with the data sets that it concerns."""
    rows = []
    groups: Any = absent.groupby(["model", "metric"], sort=False, observed=True)["dataset"]
    for (model, metric), names in groups:
        concerned = list(dict.fromkeys(names))
        everywhere = len(concerned) == len(comparison.datasets) > 1
        rows.append([model, title_of(metric), "all" if everywhere else ", ".join(concerned)])
    heads = [Column("model", False), Column("metric", False), Column("data sets", False)]
    return table(heads, rows, "scores that a model does not give", "failures-absent")


def _grouped(cells: pd.DataFrame, what: str, identity: str) -> Markup:
    """Return a row per model, data set and message, with the splits that it concerns."""
    groups: Any = cells.groupby(["model", "dataset", what], sort=False, observed=True)["split"]
    rows = [
        [model, dataset, len(splits), ", ".join(str(split) for split in splits), message]
        for (model, dataset, message), splits in groups
    ]
    heads = [
        Column("model", False),
        Column("data set", False),
        Column("how many"),
        Column("splits", False),
        Column(what, False),
    ]
    return table(heads, rows, f"{what} by model and data set", identity)


def cost_table(comparison: Comparison) -> Markup:
    """Return seconds, memory, support points and active kernels, means over the splits that succeeded."""
    cells = comparison.cells[comparison.cells["error"] == ""]
    shown = _with_numbers(cells, COSTS)
    numbers = cells[["dataset", "model"]].assign(**{name: _as_numbers(cells[name]) for name in shown})
    means = numbers.groupby(["dataset", "model"], sort=False, observed=True).mean().reset_index()
    heads = [Column("model", False), Column("data set", False)]
    heads += [Column(COSTS[name][0], title=COSTS[name][1]) for name in shown]
    rows = [
        [row["model"], row["dataset"], *(_cost_cell(name, row[name]) for name in shown)]
        for row in means.to_dict("records")
    ]
    choosers = {"model": ("0", comparison.models), "data set": ("1", comparison.datasets)}
    body = table(heads, rows, "cost and sparsity by model and data set", "costs")
    note = tag("p", "Means over the splits on which the model succeeded.")
    filtered = join([choices("costs", choosers, len(rows)), body])
    return join([note, folded(filtered, counted(len(rows), "row"), len(rows))])


def _cost_cell(name: str, value: float) -> Cell:
    if name == "converged":
        return Cell(MISSING if np.isnan(value) else f"{100 * value:.0f} %", value)
    return Cell(
        number(value, 1 if name in ("kernel_stacks", "peak_memory_mb", "n_active_kernels") else 3), value
    )


def split_table(comparison: Comparison) -> Markup:
    """Return every model on every split, to sort and to filter."""
    cells = comparison.cells
    numbers = [*_with_numbers(cells, COSTS), *_with_numbers(cells, COUNTS)]
    texts = [name for name in TEXTS if (cells[name] != "").any()]
    heads = [Column("data set", False), Column("model", False), Column("split")]
    heads += [
        Column(title_of(name), descending=comparison.about["metrics"][name]) for name in comparison.metrics
    ]
    heads += [Column(*_head(name)) for name in numbers] + [Column(TEXTS[name], False) for name in texts]
    rows = (
        [row["dataset"], row["model"], Cell(row["split"], float(row["split"]))]
        + [_exact(row[name]) for name in comparison.metrics]
        + [_split_cell(name, row[name]) for name in numbers]
        + [Cell(row[name], None, "failed" if name == "error" else "") for name in texts]
        for row in cells.to_dict("records")
    )
    body = table(heads, rows, "every model on every split", "splits")
    choosers = {"data set": ("0", comparison.datasets), "model": ("1", comparison.models)}
    filtered = join([choices("splits", choosers, len(cells)), body])
    return folded(filtered, counted(len(cells), "row"), len(cells))


def _head(name: str) -> tuple[str, bool, str]:
    head, explanation = (COSTS | COUNTS)[name]
    return head, True, explanation


def _exact(value: float) -> Cell:
    return Cell(number(value, 4), float(value))


def _split_cell(name: str, value: float | None) -> Cell:
    if pd.isna(value):
        return Cell(MISSING, np.nan)
    if name == "converged":
        return Cell("yes" if value else "no", float(value))
    return Cell(int(value), float(value)) if float(value).is_integer() else Cell(number(value), float(value))


def _as_numbers(column: pd.Series) -> pd.Series:
    return pd.to_numeric(column.astype(object), errors="coerce").astype(float)


def _with_numbers(cells: pd.DataFrame, names: Iterable[str]) -> list[str]:
    """Return the columns with data that a report can show."""
    return [name for name in names if name in cells and _as_numbers(cells[name]).notna().any()]
