"""Output of commands: tables on stdout, notes on stderr."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import pandas as pd
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table

PIPED_WIDTH = 110  # columns without a terminal
METRICS = {
    "accuracy": "share of correct labels",
    "log_loss": "nats per sample; lower is better",
    "brier": "squared error of the probabilities; lower is better",
    "ece": "expected calibration error, 10 bins; 0 is calibrated",
    "r2": "share of the variance explained",
    "rmse": "root mean squared error, units of the target",
    "nll": "negative log density, nats per sample; lower is better",
    "coverage_95": "share inside the predictive 95 % intervals",
    "grades_off": "grades between the predicted and the true one, on average",
    "rps": "ranked probability score, mean over cut points; lower is better",
    "concordance": "share of pairs in the right order (Harrell); 0.5 is chance",
    "concordance_uno": "the same, weighted for censoring (Uno)",
    "integrated_brier_score": "squared error of survival probabilities over time; lower is better",
}


def console(stderr: bool = False) -> Console:
    """Return the stream to print to: stdout for results, else stderr."""
    stream = sys.stderr if stderr else sys.stdout
    return Console(file=stream, width=None if stream.isatty() else PIPED_WIDTH, highlight=False)


def say(text: str) -> None:
    """Print one paragraph."""
    console().print(escape(text), soft_wrap=True)


@contextmanager
def notes_of_warnings() -> Iterator[None]:
    """Show warnings meant for users as short notes on stderr, each once, and drop those meant for developers."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", UserWarning)
        yield
    for text in dict.fromkeys(str(warning.message) for warning in caught):
        console(stderr=True).print(f"[yellow]note:[/yellow] {escape(text)}", soft_wrap=True)


def print_shares(table: pd.DataFrame, of: str, whole: str = "the score") -> None:
    """Print the largest shares of a `whole` in a `kernel_table` or `view_table`; `of` is "kernel" or "view"."""
    groups = table.groupby("class", sort=False) if "class" in table else [(None, table)]
    n_rows = 5 if "class" in table else 10
    for label, group in groups:
        of_class = "" if label is None else f" for class {label!s}"
        title = (
            f"The {min(n_rows, len(group))} largest of {len(group)} {of}s{of_class}: share of {whole} in %"
        )
        title += ", and raw weight, with 94 % intervals" if of == "kernel" else ", with 94 % interval"
        title += f" by {group['interval_by'].iloc[0]}"
        shown = Table(title=title, title_justify="left", box=SIMPLE_HEAD, pad_edge=False)
        shown.add_column(of, overflow="fold")
        headers = ["share", "94 %", "weight", "94 %"]
        for header in headers if of == "kernel" else headers[:2]:
            shown.add_column(header, justify="right", no_wrap=True)
        for row in group.head(n_rows).to_dict("records"):
            cells = [
                f"{100 * row['share']:.1f}",
                f"{100 * row['share_lower']:.1f} to {100 * row['share_upper']:.1f}",
            ]
            if of == "kernel":
                cells += [f"{row['weight']:.3g}", f"{row['weight_lower']:.2g} to {row['weight_upper']:.2g}"]
            shown.add_row(escape(str(row[of])), *cells)
        console().print(shown)


def print_inclusion(table: pd.DataFrame) -> None:
    """Print the list that an `inclusion_table` marks, or its first rows where it marks none."""
    of, listed = "view" if "view" in table else "kernel", table[table["selected"]]
    rate = f"{100 * table.attrs['fdr']:.0f} %"
    title = f"{len(listed)} of {len(table)} {of}s in the model, at most {rate} of them expected to be false"
    if not len(listed):
        title = (
            f"No {of} of {len(table)} is in the model so surely that at most {rate} are expected to be false"
        )
    shown = Table(title=title, title_justify="left", box=SIMPLE_HEAD, pad_edge=False)
    shown.add_column(of, overflow="fold")
    shown.add_column("probability", justify="right", no_wrap=True)
    shown.add_column("alternative", overflow="fold")
    for row in (listed if len(listed) else table).head(10).to_dict("records"):
        shown.add_row(escape(str(row[of])), f"{row['prob_included']:.2f}", escape(row["alternative"] or ""))
    console().print(shown)


def print_effects(table: pd.DataFrame) -> None:
    """Print an `effect_table`."""
    by = table["interval_by"].iloc[0]
    title = f"Effects of columns of the design, with 94 % intervals by {by}"
    shown = Table(title=title, title_justify="left", box=SIMPLE_HEAD, pad_edge=False)
    shown.add_column("effect", overflow="fold")
    shown.add_column("kind")
    for header in ("mean", "94 %"):
        shown.add_column(header, justify="right", no_wrap=True)
    for row in table.to_dict("records"):
        interval = f"{row['lower']:.2g} to {row['upper']:.2g}"
        shown.add_row(escape(str(row["effect"])), row["kind"], f"{row['mean']:.3g}", interval)
    console().print(shown)


def print_metrics(metrics: dict[str, float], n_rows: int) -> None:
    """Print what `evaluate_classifier` or `evaluate_regressor` found."""
    shown = Table(
        title=f"On {n_rows} rows held out of the fit", title_justify="left", box=SIMPLE_HEAD, pad_edge=False
    )
    shown.add_column("metric")
    shown.add_column("value", justify="right")
    shown.add_column("meaning")
    for name, value in metrics.items():
        shown.add_row(name, f"{value:.4g}", METRICS[name])
    console().print(shown)


def duration(seconds: float) -> str:
    """Return a length of time as people say it.

    Examples
    --------
    >>> duration(4.2), duration(200), duration(9000)
    ('4 s', '3 min', '2.5 h')
    """
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"
