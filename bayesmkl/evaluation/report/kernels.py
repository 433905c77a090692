"""Kernel weights and gates in the report of a comparison."""

from __future__ import annotations

from typing import TYPE_CHECKING

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
    table,
    tag,
)

if TYPE_CHECKING:
    from bayesmkl.evaluation.comparison import Comparison

MOST_ROWS = 2000  # of kernels; the largest shares of each model
SAID = (
    "Shares of the score, of models without a posterior parts of the sum of all weights, over the splits. A kernel "
    "is selected where its share is above a thousandth of the largest. Stability is 1 where all splits select the "
    "same kernels, and around 0 where they select at random (Nogueira et al. 2018)."
)

SAID_OF_GATES = (
    "Gates of localized models, whose weights depend on the sample: means over the training samples, and how much "
    "they vary between splits and between samples."
)


def kernel_parts(comparison: Comparison) -> list[Markup]:
    """Return tables of how stably kernels are selected, of shares, and of gates; nothing where there are none."""
    weights, gates = comparison.weights(), comparison.gates()
    parts = [] if weights.empty else _shares(comparison, weights)
    return parts if gates.empty else [*parts, tag("p", SAID_OF_GATES), _gates(gates)]


def _shares(comparison: Comparison, weights: pd.DataFrame) -> list[Markup]:
    groups = weights.groupby(["dataset", "model"], sort=False)
    shown = groups.head(max(1, MOST_ROWS // groups.ngroups))
    rows = [
        [
            row["kernel"],
            row["model"],
            row["dataset"],
            *(_number(row[name]) for name in ("mean", "std", "posterior_std")),
            Cell(f"{100 * row['selected']:.0f} %", row["selected"]),
        ]
        for row in shown.to_dict("records")
    ]
    heads = [Column("kernel", False), Column("model", False), Column("data set", False), Column("share")]
    heads += [
        Column("sd over splits"),
        Column("posterior sd", title="mean standard deviation of the posterior"),
        Column("selected", title="part of the splits in which the kernel is selected"),
    ]
    choosers = {"model": ("1", comparison.models), "data set": ("2", comparison.datasets)}
    body = table(heads, rows, "shares of kernels by model and data set", "kernels")
    filtered = join([choices("kernels", choosers, len(rows)), body])
    whole = folded(filtered, counted(len(rows), "row"), len(rows))
    return [tag("p", SAID), _stability(comparison), whole]


def _gates(gates: pd.DataFrame) -> Markup:
    """Return the table of the gates of localized models."""
    groups = gates.groupby(["dataset", "model"], sort=False)
    rows = [
        [
            row["kernel"],
            row["model"],
            row["dataset"],
            *(_number(row[name]) for name in ("mean", "std", "sample_std")),
        ]
        for row in groups.head(max(1, MOST_ROWS // groups.ngroups)).to_dict("records")
    ]
    heads = [Column("kernel", False), Column("model", False), Column("data set", False), Column("mean gate")]
    heads += [
        Column("sd over splits"),
        Column("sd over samples", title="near zero where the weights hardly depend on the sample"),
    ]
    body = table(heads, rows, "gates of kernels by model and data set", "gates")
    return folded(body, counted(len(rows), "row"), len(rows))


def _stability(comparison: Comparison) -> Markup:
    rows = [
        [
            row["model"],
            row["dataset"],
            Cell(row["n_kernels"], float(row["n_kernels"])),
            _number(row["n_selected"]),
            _number(row["stability"]),
            MISSING if np.isnan(row["lower"]) else f"{row['lower']:.2f} to {row['upper']:.2f}",
        ]
        for row in comparison.stability().to_dict("records")
    ]
    heads = [Column("model", False), Column("data set", False), Column("kernels"), Column("selected")]
    heads += [Column("stability"), Column("95 % interval", False)]
    return table(heads, rows, "stability of the selection of kernels", "stability")


def _number(value: float) -> Cell:
    return Cell(MISSING, np.nan) if pd.isna(value) else Cell(number(value, 3), float(value))
