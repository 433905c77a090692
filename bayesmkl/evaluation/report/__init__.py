"""A comparison as one page of HTML that needs nothing but itself.

Style and script are inside, pictures too, and the page's own security policy forbids everything else. All text that
comes from data, names, messages and configurations is escaped (:mod:`bayesmkl.evaluation.report.markup`).
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bayesmkl._utils.files import as_path, written_beside
from bayesmkl._utils.validation import shown
from bayesmkl.evaluation.report.analysis import difference_parts, picture_parts, rank_parts
from bayesmkl.evaluation.report.kernels import kernel_parts
from bayesmkl.evaluation.report.markup import Cell, Column, Markup, counted, join, number, table, tag
from bayesmkl.evaluation.report.page import page, pairs, text_of_value
from bayesmkl.evaluation.report.predictions import calibration_parts, prediction_parts
from bayesmkl.evaluation.report.tables import cost_table, failure_tables, score_table, split_table, title_of

if TYPE_CHECKING:
    from bayesmkl.evaluation.comparison import Comparison

__all__ = ["write_report"]

SHOWN_ELSEWHERE = {"study", "view", "models", "datasets", "environment", "config", "started", "seconds"}


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
        raise TypeError(f"`title` must be a str; got {shown(title)}.")
    if metrics is not None and (isinstance(metrics, str) or not isinstance(metrics, Sequence) or not metrics):
        raise ValueError(f"`metrics` must be None or a list of metrics; got {shown(metrics)}.")
    chosen = list(comparison.metrics[:1] if metrics is None else metrics)
    unknown = [name for name in chosen if name not in comparison.metrics]
    if unknown:
        known = ", ".join(map(repr, comparison.metrics))
        raise ValueError(f"`metrics` must name metrics of the comparison, {known}; got {unknown[0]!r}.")
    with written_beside(path) as beside:  # which refuses a place that cannot be written to
        beside.write_text(render(comparison, title, chosen), encoding="utf-8")
    return path


def render(comparison: Comparison, title: str, metrics: Sequence[str]) -> str:
    """Return the page."""
    problems = failure_tables(comparison)
    parts = {"Scores": _scores(comparison)}
    if problems:
        parts["Failures and warnings"] = join(problems)
    parts["Ranks"] = join(part for metric in metrics for part in rank_parts(comparison, metric))
    parts["Differences"] = join(part for metric in metrics for part in difference_parts(comparison, metric))
    parts["Plots"] = join(part for metric in metrics for part in picture_parts(comparison, metric))
    parts["Cost and sparsity"] = cost_table(comparison)
    further = {
        "Kernels": kernel_parts(comparison),
        "Calibration": calibration_parts(comparison),
        "Predictions": prediction_parts(comparison),
    }
    parts |= {name: join(own) for name, own in further.items() if own}
    parts["Every split"] = split_table(comparison)
    parts["Protocol"] = _protocol(comparison)
    parts["Environment"] = _environment(comparison)
    return page(title, _facts(comparison), parts)


def _facts(comparison: Comparison) -> Markup:
    """Summarize in two lines what was compared, when, and how much of it failed."""
    cells, about = comparison.cells, comparison.about
    n_failed = int((cells["error"] != "").sum())
    sizes = [
        counted(len(comparison.models), "model"),
        counted(len(comparison.datasets), "data set"),
        counted(len(cells), "fit"),
    ]
    when = [f"started {about['started']}"] if about.get("started") else []
    when += [f"{number(about['seconds'], 1)} s"] if about.get("seconds") is not None else []
    line = tag("p", " · ".join([*sizes, *when]), class_="facts")
    if not n_failed:
        return line
    link = tag("a", f"{n_failed} of {counted(len(cells), 'fit')} failed", href="#failures", class_="failed")
    return join([line, tag("p", link, ". Means are over the splits that succeeded.")])


def _scores(comparison: Comparison) -> Markup:
    parts: list[Markup] = [
        tag(
            "p",
            "Mean ± standard deviation over splits. In bold, the best mean of each data set among models that "
            "succeeded on all of its splits; see ",
            tag("a", "differences", href="#differences"),
            " for which of them are real. A click on the head of a column sorts by it.",
        )
    ]
    for metric in comparison.metrics:
        better = "higher" if comparison.about["metrics"][metric] else "lower"
        parts += [
            tag("h3", title_of(metric), " ", tag("span", f"({better} is better)", class_="note")),
            score_table(comparison, metric),
        ]
    return join(parts)


def _protocol(comparison: Comparison) -> Markup:
    about = comparison.about
    further = {name: value for name, value in about.items() if name not in SHOWN_ELSEWHERE}
    settings = _settings(about.get("study", [])) | further | {"metrics": ", ".join(comparison.metrics)}
    parts = [
        tag(
            "p",
            "All models were fitted to the same training rows of every split and scored on the same test rows.",
        ),
        pairs(settings),
        tag("h3", "Data"),
        _data_table(comparison),
        tag("h3", "Models"),
        pairs({name: tag("code", about["models"].get(name, "")) for name in comparison.models}),
    ]
    if about.get("config"):
        config = about["config"]
        parts += [
            tag("h3", "Configuration"),
            tag("pre", config if isinstance(config, str) else text_of_value(config, 2)),
        ]
    return join(parts)


def _settings(studies: Any) -> dict[str, str]:
    """Return the protocol by name; several studies of one run may differ."""
    if isinstance(studies, dict):
        studies = studies.get("studies", [studies])
    found: dict[str, dict[str, None]] = {}
    for study in studies:
        for name, value in study.items():
            if name not in SHOWN_ELSEWHERE and value not in (None, "None"):
                found.setdefault(name, {})[str(text_of_value(value))] = None
    return {name: "; ".join(values) for name, values in found.items()}


def _data_table(comparison: Comparison) -> Markup:
    known = comparison.about.get("datasets", {})
    facts = list(dict.fromkeys(fact for about in known.values() for fact in about if about[fact] is not None))
    numeric = [fact.startswith("n_") for fact in facts]
    heads = [Column("data set", False)]
    heads += [Column(fact.removeprefix("n_"), n) for fact, n in zip(facts, numeric, strict=True)]
    heads += [Column("splits"), Column("training rows"), Column("test rows")]
    rows = []
    for name in comparison.datasets:
        cells = comparison.cells[comparison.cells["dataset"] == name]
        sizes = [cells[column].to_numpy() for column in ("n_train", "n_test")]
        facts_shown = [_fact(known.get(name, {}).get(fact)) for fact in facts]
        rows.append([name, *facts_shown, cells["split"].nunique(), *map(_range, sizes)])
    return table(heads, rows, "data sets and splits")


def _fact(value: object) -> Any:
    return "" if value is None else text_of_value(value)


def _range(sizes: np.ndarray) -> Cell:
    least, most = sizes.min(), sizes.max()
    return Cell(f"{least}" if least == most else f"{least} to {most}", float(most))


def _environment(comparison: Comparison) -> Markup:
    return pairs(comparison.about.get("environment", {}))
