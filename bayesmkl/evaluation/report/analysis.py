"""Report section on one metric: ranks over data sets, tests of pairs, plots."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from bayesmkl.evaluation.plots import (
    plot_critical_difference,
    plot_learning_curve,
    plot_pairwise,
    plot_ranks,
    plot_scores,
    plot_time,
)
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
    picture,
    plain,
    table,
    tag,
)
from bayesmkl.evaluation.report.tables import title_of
from bayesmkl.evaluation.significance import TESTS, friedman, win_totals

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from bayesmkl.evaluation.comparison import Comparison

ALPHA = 0.05
TEST = "corrected_t"
MOST_ALIKE = 1.2  # largest training part over the smallest where there is no learning curve
REFUSALS = (ValueError, ImportError)  # too few models or data sets, a library that is not installed


def rank_parts(comparison: Comparison, metric: str) -> list[Markup]:
    """Return mean ranks over data sets, Friedman's test and the critical-difference diagram, or what is missing."""
    scores, greater = comparison.scores(metric), comparison.about["metrics"][metric]
    heading = tag("h3", title_of(metric))
    if len(comparison.datasets) < 2:
        return [heading, _remark("Ranks are means over data sets, and this comparison has one.")]
    columns = [
        Column("model", numeric=False),
        Column("mean rank", title="1 is the best"),
        Column("times best", descending=True),
        Column("times worst"),
        Column("remark", numeric=False),
    ]
    ranked = comparison.ranks(metric)
    rows = [
        [
            model,
            Cell(number(row["mean_rank"], 2), row["mean_rank"]),
            int(row["times_best"]),
            int(row["times_worst"]),
            row["note"],
        ]
        for model, row in ranked.iterrows()
    ]
    parts = [heading, table(columns, rows, f"ranks by {title_of(metric)}", f"ranks-{plain(metric)}")]
    try:
        tested = friedman(scores, greater)
    except REFUSALS as reason:
        return [*parts, _remark(reason)]
    parts.append(
        tag(
            "p",
            f"Friedman's test that {tested.n_models} models rank alike over {tested.n_datasets} data sets: "
            f"χ² = {number(tested.statistic)}, {_p(tested.p_value)}; in the form of Iman and Davenport "
            f"F = {number(tested.f_statistic)}, {_p(tested.f_p_value)}.",
        )
    )
    caption = f"Mean ranks by {title_of(metric)}; lines join models that Nemenyi's test cannot tell apart"
    return [*parts, drawn(plot_critical_difference, caption, comparison, metric)]


def difference_parts(comparison: Comparison, metric: str) -> list[Markup]:
    """Return tests of all pairs of models on every data set, and how often each model is better than others."""
    heading, several = tag("h3", title_of(metric)), len(comparison.datasets) > 1
    try:
        pairs = comparison.significance(metric, TEST, alpha=ALPHA)
        totals = win_totals(comparison.wins(metric, TEST, alpha=ALPHA)) if several else None
    except REFUSALS as reason:
        return [heading, _remark(reason)]
    explained = tag(
        "p",
        f"Two-sided {TESTS[TEST]} over the splits of each data set. P-values are corrected by Holm's procedure for "
        f"the number of pairs of a data set; below {ALPHA:g}, one of the two counts as better. From and to bound "
        f"the mean difference of a pair alone with {100 * (1 - ALPHA):g} % confidence.",
    )
    parts = [heading, explained, _pair_table(comparison, metric, pairs)]
    if totals is not None:
        note = (
            f"Wins, ties and losses against all others on all data sets, by the same test at the level {ALPHA:g} for "
            "each pair, without a correction for their number."
        )
        parts += [tag("p", note), _totals_table(totals, f"wins-{plain(metric)}")]
    return [
        *parts,
        drawn(plot_pairwise, f"Which pairs of models differ in {title_of(metric)}", comparison, metric),
    ]


def _totals_table(totals: pd.DataFrame, identity: str) -> Markup:
    columns = [
        Column("model", numeric=False),
        Column("wins", descending=True),
        Column("ties"),
        Column("losses"),
        Column("untested", title="pairs of which one has no result on a data set"),
        Column("win rate", title="wins / (wins + ties + losses)", descending=True),
    ]
    rows = [[model, *map(int, row[:4]), float(row[4])] for model, *row in totals.itertuples()]
    return table(columns, rows, "wins, ties and losses", identity)


def _pair_table(comparison: Comparison, metric: str, pairs: pd.DataFrame) -> Markup:
    columns = [
        Column("data set", numeric=False),
        Column("first", numeric=False),
        Column("second", numeric=False),
        Column("difference", title="mean score of the first minus that of the second"),
        Column("from"),
        Column("to"),
        Column("p"),
        Column("p, corrected"),
        Column("better", numeric=False),
        Column("remark", numeric=False),
    ]
    only = comparison.datasets[0]
    rows = [
        [row["dataset"] or only, row["first"], row["second"]]
        + [Cell(number(row[name], 4), row[name]) for name in ("difference", "lower", "upper")]
        + [Cell(_value_of_p(row[name]), row[name]) for name in ("p_value", "p_adjusted")]
        + [Cell(row["better"], None, "best" if row["better"] else ""), row["note"]]
        for row in pairs.to_dict("records")
    ]
    identity = f"pairs-{plain(metric)}"
    filters = choices(
        identity, {"data set": ("0", comparison.datasets), "model": ("1 2", comparison.models)}, len(rows)
    )
    label = f"pairs of models by {title_of(metric)}"
    return folded(
        join([filters, table(columns, rows, label, identity)]), counted(len(rows), "pair"), len(rows)
    )


def picture_parts(comparison: Comparison, metric: str) -> list[Markup]:
    """Draw scores, ranks, and what scores cost."""
    title = title_of(metric)
    parts = [
        tag("h3", title),
        drawn(plot_scores, f"{title} of every model on every split", comparison, metric),
    ]
    if len(comparison.datasets) > 1:
        parts.append(
            drawn(plot_ranks, f"Ranks of the models on every data set by {title}", comparison, metric)
        )
    parts.append(drawn(plot_time, f"{title} against seconds to fit", comparison, metric))
    sizes = comparison.cells.groupby("dataset", sort=False)["n_train"]
    for dataset in comparison.datasets:
        if sizes.max()[dataset] <= MOST_ALIKE * sizes.min()[dataset]:
            continue
        of_set = partial(plot_learning_curve, dataset=dataset)
        parts.append(drawn(of_set, f"{title} over training rows of {dataset}", comparison, metric))
    return parts


def drawn(plot: Callable[..., Axes], caption: str, comparison: Comparison, metric: str) -> Markup:
    """Return a plot as a picture, or the reason why there is none."""
    try:
        figure: Any = plot(comparison, metric).figure
    except REFUSALS as reason:
        return _remark(reason)
    return picture(figure, caption)


def _remark(reason: object) -> Markup:
    return tag("p", reason, class_="note")


def _p(value: float) -> str:
    shown = _value_of_p(value)
    return f"p {shown}" if shown.startswith("<") else f"p = {shown}"


def _value_of_p(value: float) -> str:
    if np.isnan(value):
        return MISSING
    return f"{value:.3f}" if value >= 0.001 else "< 0.001"
