"""The command `demo`: a table whose answer is partly known, fitted as `fit` would, and a page about it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from bayesmkl.cli.commands import fit_and_write
from bayesmkl.cli.fit_options import FitOptions
from bayesmkl.cli.folders import CONFIG, check_free
from bayesmkl.cli.report import say
from bayesmkl.cli.report_command import run_report
from bayesmkl.datasets import load_wdbc

VIEWS = {"mean": "mean *", "error": "* error", "worst": "worst *", "shuffled": "shuffled *"}
LACKING = 0.2  # share of the tumors without the view "error"
STORY = (
    'Is a tumor malignant? Thirty measurements of its cell nuclei, in three views: the "mean" over the cells of a '
    'sample, its standard "error", and the "worst" values. Two things are added: the view "shuffled", the worst '
    'values of other tumors, which can say nothing; and gaps, since every fifth tumor lacks the view "error".\n'
)


class Sample(NamedTuple):
    """Features, a column for each; and labels."""

    features: pd.DataFrame
    labels: np.ndarray


def run_demo(out: Path, seed: int, fast: bool) -> None:
    """Fit the Wisconsin breast cancer data, explain what is printed, and write a report."""
    check_free(out, force=True)
    say(STORY)
    sample = tumors(seed, step=3 if fast else 1)
    options = FitOptions(
        "diagnosis",
        "classification",
        view=tuple(f"{view}={columns}" for view, columns in VIEWS.items()),
        view_kernels=tuple(f"{view}=gaussian" for view in VIEWS),
        method="gpmkl",
        inference="marginal",
        missing_views="integrate",
        test_size=0.5,
        seed=seed,
    )
    fit_and_write(*sample, out, options, {"data": "wdbc"}, force=True)
    run_report(out, None, None, refits=False, seed=seed)
    say("\n" + _explained(out, sample.labels) + f"\nOpen {out / 'report.html'} in a browser.")


def tumors(seed: int, step: int = 1) -> Sample:
    """Return every `step`-th tumor, with a view that says nothing and with gaps in another."""
    wdbc: Any = load_wdbc(as_frame=True)
    rng = np.random.default_rng(seed)
    features = wdbc.data.astype(float).reset_index(drop=True)
    worst = [name for name in features if name.startswith("worst ")]
    others = features[worst].iloc[rng.permutation(len(features))].reset_index(drop=True)
    features = pd.concat(
        [features, others.rename(columns=lambda name: name.replace("worst", "shuffled"))], axis=1
    )
    lacking = rng.permutation(len(features))[: round(LACKING * len(features))]
    features.loc[lacking, [name for name in features if name.endswith(" error")]] = np.nan
    labels = wdbc.target_names[(np.asarray(wdbc.target) + 1) // 2]
    return Sample(features[::step].reset_index(drop=True), labels[::step])


def _explained(out: Path, labels: np.ndarray) -> str:
    """Say in a line each what a share, an interval and a log loss are, with the numbers of this run."""
    views = pd.read_csv(out / "views.csv", index_col="view")
    metrics = pd.read_csv(out / "metrics.csv", index_col="metric")["value"]
    n_test = json.loads((out / CONFIG).read_text(encoding="utf-8"))["n_test"]
    first, shuffled = views.iloc[0], views.loc["shuffled"]
    frequencies = np.unique(labels, return_counts=True)[1] / len(labels)
    nothing = -float(frequencies @ np.log(frequencies))
    return "\n".join(
        (
            f"Share: the part of the variance of the score that a view accounts for; {100 * first['share']:.0f} % "
            f'for "{views.index[0]}".',
            f"Interval: the share is in it with probability 94 %: {100 * first['share_lower']:.0f} to "
            f'{100 * first["share_upper"]:.0f} % for "{views.index[0]}", at most '
            f'{max(100 * shuffled["share_upper"], 0):.0f} % for "shuffled".',
            f"Log loss: minus the log probability of the true label, averaged over the {n_test} tumors held out: "
            f"{metrics['log_loss']:.2f}. The frequencies of the classes alone have {nothing:.2f}, certainty has 0.",
        )
    )
