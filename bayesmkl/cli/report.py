"""What the commands say: tables on stdout, notes on stderr."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import pandas as pd
from rich.console import Console
from rich.markup import escape
from rich.table import Table

__all__ = ["METRICS", "notes_of_warnings", "print_kernels", "print_metrics", "say"]

PIPED_WIDTH = 110  # columns where nobody looks at a terminal
METRICS = {
    "accuracy": "share of correct labels",
    "log_loss": "nats per sample; lower is better",
    "brier": "squared error of the probabilities; lower is better",
    "ece": "expected calibration error, 10 bins; 0 is calibrated",
    "r2": "share of the variance explained",
    "rmse": "root mean squared error, units of the target",
    "nll": "negative log density, nats per sample; lower is better",
    "coverage_95": "share inside the predictive 95 % intervals",
}


def _console(stderr: bool = False) -> Console:
    stream = sys.stderr if stderr else sys.stdout
    return Console(file=stream, width=None if stream.isatty() else PIPED_WIDTH, highlight=False)


def say(text: str) -> None:
    """Print one paragraph."""
    _console().print(escape(text), soft_wrap=True)


@contextmanager
def notes_of_warnings() -> Iterator[None]:
    """Show warnings meant for users as short notes on stderr, each once, and drop those meant for developers."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", UserWarning)
        yield
    for text in dict.fromkeys(str(warning.message) for warning in caught):
        _console(stderr=True).print(f"[yellow]note:[/yellow] {escape(text)}", soft_wrap=True)


def print_kernels(table: pd.DataFrame, n_rows: int = 10) -> None:
    """Print the most important kernels; `table` is that of `kernel_table` at 94 %."""
    groups = table.groupby("class", sort=False) if "class" in table else [(None, table)]
    for label, group in groups:
        of_class = "" if label is None else f" for class {label}"
        shown = Table(
            title=f"Kernels{of_class}: the {min(n_rows, len(group))} largest of {len(group)} shares",
            title_justify="left",
        )
        shown.add_column("kernel", overflow="fold")
        for column in ("share of score", "94 % interval", "weight", "94 % interval"):
            shown.add_column(column, justify="right", no_wrap=True)
        for row in group.head(n_rows).itertuples():
            shown.add_row(
                escape(str(row.kernel)),
                f"{100 * row.share:.1f} %",
                f"{100 * row.share_lower:.1f} to {100 * row.share_upper:.1f}",
                f"{row.weight:.3g}",
                f"{row.weight_lower:.2g} to {row.weight_upper:.2g}",
            )
        _console().print(shown)


def print_metrics(metrics: dict[str, float], n_rows: int) -> None:
    """Print what `evaluate_classifier` or `evaluate_regressor` found."""
    shown = Table(title=f"On {n_rows} rows that the model has not seen", title_justify="left")
    shown.add_column("metric")
    shown.add_column("value", justify="right")
    shown.add_column("meaning")
    for name, value in metrics.items():
        shown.add_row(name, f"{value:.4g}", METRICS[name])
    _console().print(shown)
