"""Out-of-fold predictions in the report of a comparison: calibration, common errors, and hard samples."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from bayesmkl.evaluation.plots import plot_curve
from bayesmkl.evaluation.report.markup import (
    MISSING,
    Cell,
    Column,
    Markup,
    counted,
    folded,
    number,
    picture,
    table,
    tag,
)

if TYPE_CHECKING:
    from bayesmkl.evaluation.comparison import Comparison

MOST_SETS = 3  # whose curves and samples are shown
MOST_ROWS = 20  # of samples
CALIBRATION = (
    "Mean over the splits, with a band of one standard deviation. Of a calibrated model, samples with a predicted "
    "probability of 0.3 are of the class in 3 of 10 cases. A point holds a tenth of the predictions."
)
ERRORS = (
    "Samples on which both models err, over those on which one of them does: 1 for the same errors, 0 for none in "
    "common. The p-value is that of McNemar's exact test, which takes the fits as given, by Holm's procedure for all "
    "pairs of a data set."
)
FAR = (
    "Samples that models miss by most, by their place in the data: the mean absolute error over the models, and what "
    "each of them predicted out of fold."
)
HARD = "Samples that most models get wrong, by their place in the data, with what was predicted of them out of fold."


def calibration_parts(comparison: Comparison) -> list[Markup]:
    """Return ROC and calibration curves of data sets with two classes; nothing where predictions are not kept."""
    parts: list[Markup] = []
    for dataset in comparison.datasets[:MOST_SETS]:
        for kind, title in (("calibration", "Calibration"), ("roc", "True over false positives")):
            try:
                ax: Any = plot_curve(comparison, kind, dataset)
            except ValueError:  # no probabilities, several classes, nothing kept
                continue
            parts += [tag("h3", dataset)] if kind == "calibration" else []
            parts.append(picture(ax.figure, f"{title} on {dataset}"))
    return [tag("p", CALIBRATION), *parts] if parts else []


def prediction_parts(comparison: Comparison) -> list[Markup]:
    """Return common errors of classifiers, and samples that are hard; nothing where predictions are not kept."""
    parts: list[Markup] = []
    for dataset in comparison.datasets[:MOST_SETS]:
        try:
            parts += _of_set(comparison, dataset)
        except ValueError:  # nothing kept
            continue
    return parts


def _of_set(comparison: Comparison, dataset: str) -> list[Markup]:
    try:
        pairs, overlap = comparison.mcnemar(dataset), comparison.error_overlap(dataset)
    except ValueError:  # no classes
        found = comparison.predictions(dataset)
        if "truth" not in found:  # times, several targets
            return []
        return [tag("h3", dataset), tag("p", FAR), _far(comparison, found, dataset)]
    if pairs.empty:
        return []
    rows = [
        [
            row["first"],
            row["second"],
            _share(overlap.loc[row["first"], row["second"]]),
            *(Cell(row[name], float(row[name])) for name in ("first_only", "second_only", "both_wrong")),
            Cell(number(row["p_adjusted"], 3), float(row["p_adjusted"])),
        ]
        for row in pairs.to_dict("records")
    ]
    heads = [Column("first", False), Column("second", False), Column("overlap of errors")]
    heads += [Column("right: first only"), Column("second only"), Column("none"), Column("p, corrected")]
    body = table(heads, rows, f"errors of pairs of models on {dataset}")
    return [
        tag("h3", dataset),
        tag("p", ERRORS),
        folded(body, counted(len(rows), "pair"), len(rows)),
        tag("p", HARD),
        _hard(comparison, dataset),
    ]


def _far(comparison: Comparison, found: pd.DataFrame, dataset: str) -> Markup:
    """Return the samples with the largest errors, and what each model predicted."""
    found = found.drop_duplicates(["model", "row"])
    errors = (found["prediction"] - found["truth"]).abs().groupby(found["row"]).mean()
    farthest = errors.sort_values(ascending=False, kind="stable").index[:MOST_ROWS]
    truth = found.drop_duplicates("row").set_index("row")["truth"]
    wide = found.pivot(index="row", columns="model", values="prediction").reindex(columns=comparison.models)
    rows = [
        [Cell(int(row), float(row)), *map(_value, (truth[row], errors[row], *wide.loc[row]))]
        for row in farthest
    ]
    heads = [Column("sample"), Column("truth"), Column("mean error"), *map(Column, wide.columns)]
    return table(heads, rows, f"hard samples of {dataset}")


def _value(value: float) -> Cell:
    return Cell(MISSING, np.nan) if pd.isna(value) else Cell(number(float(value), 4), float(value))


def _hard(comparison: Comparison, dataset: str) -> Markup:
    """Return the samples on which most models err, and what each of them predicted."""
    found = comparison.predictions(dataset).drop_duplicates(["model", "row"])
    wrong = (found["prediction"] != found["truth"]).groupby(found["row"]).sum()
    hardest = wrong[wrong > 0].sort_values(ascending=False, kind="stable").index[:MOST_ROWS]
    truth = found.drop_duplicates("row").set_index("row")["truth"]
    wide = found.pivot(index="row", columns="model", values="prediction").reindex(columns=comparison.models)
    rows = []
    for row in hardest:
        labels = [str(value) if pd.notna(value) else MISSING for value in wide.loc[row]]
        rows.append(
            [Cell(int(row), float(row)), str(truth[row]), Cell(int(wrong[row]), float(wrong[row])), *labels]
        )
    heads = [Column("sample"), Column("truth", False), Column("models that err")]
    heads += [Column(model, False) for model in wide.columns]
    return table(heads, rows, f"hard samples of {dataset}")


def _share(value: float) -> Cell:
    return Cell(MISSING, np.nan) if np.isnan(value) else Cell(f"{value:.2f}", float(value))
