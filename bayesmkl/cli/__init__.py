"""The command line: ``bayesmkl demo | fit | diagnose | report | predict | compare``.

This module only declares commands and options; what they do is imported when one of them runs, so that ``--help``
answers at once.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Annotated, Any, Literal

from typer import Argument, Exit, Option, Typer, echo, secho

from bayesmkl import __version__

__all__ = ["app", "main"]

app = Typer(
    name="bayesmkl",
    help="Bayesian multiple kernel learning: which kernels matter, how surely, and what to predict.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_show_locals=False,
)


def main() -> None:
    """Run the command line."""
    app(prog_name="bayesmkl")


@contextmanager
def _reported() -> Iterator[None]:
    """Turn what is wrong with the user's data or files into one message on stderr and exit code 2.

    After Ctrl-C there is one line too, and the exit code is 130.
    """
    try:
        yield
    except (ValueError, OSError, MemoryError, ImportError) as error:
        secho(f"error: {error or 'not enough memory; use fewer rows or kernels'}", fg="red", err=True)
        raise Exit(2) from error
    except KeyboardInterrupt as stop:
        what = getattr(stop, "__notes__", ["interrupted. Every file is complete or unchanged."])
        echo(f"interrupted: {' '.join(what)}", err=True)
        raise Exit(130) from None


def _show_version(wanted: bool) -> None:
    if wanted:
        echo(f"bayesmkl {__version__}")
        raise Exit


@app.callback()
def _options(
    version: Annotated[bool, Option("--version", callback=_show_version, is_eager=True)] = False,
) -> None:
    stdout = sys.stdout
    if isinstance(stdout, io.TextIOWrapper) and stdout.errors in ("strict", "surrogateescape"):
        stdout.reconfigure(errors="backslashreplace")  # names that a terminal cannot show end no command


def _option(text: str, **more: Any) -> Any:
    return Option(help=text, show_default=False, **more)


Names = list[str] | None
Text = str | None
Run = Annotated[Path, Argument(help="Folder that `bayesmkl fit` wrote.", show_default=False)]
Data = Annotated[
    Path, Argument(help="Table with a header: .csv, .csv.gz, .tsv or .parquet.", show_default=False)
]
Seed = Annotated[int, Option(min=0, help="Seed of the split, the fit and the posterior draws.")]


@app.command()
def demo(
    out: Annotated[Path, Option(help="Folder for the report, plots, tables and the model.")] = Path("demo"),
    seed: Seed = 0,
    fast: Annotated[bool, Option("--fast", help="Every third tumor only.")] = False,
) -> None:
    """Find out which views of a tumor predict whether it is malignant, and write a report.

    The Wisconsin breast cancer data in three views, with a fourth that says nothing, and with samples that lack a
    view; half of the rows to fit, half to test. An earlier run in the same folder is replaced.
    """
    with _reported():
        from bayesmkl.cli.fitting import run_demo

        run_demo(out, seed, fast)


@app.command()
def fit(
    data: Data,
    target: Annotated[str, _option("Column to predict.")],
    out: Annotated[Path | None, _option("Folder to write; required except with --dry-run.")] = None,
    task: Annotated[
        Literal["auto", "classification", "regression", "ordinal", "survival"],
        Option(help="auto: text or few whole numbers are classes. ordinal: grades. survival: with --event."),
    ] = "auto",
    event: Annotated[Text, _option("Column of 0 and 1: was the event seen at the time in --target?")] = None,
    level: Annotated[Names, _option("ordinal: a grade that is text, in ascending order; repeated.")] = None,
    kernels_on: Annotated[
        Literal["all", "each", "all+each", "types"] | None,
        _option(
            "Kernels on all columns together, on each column, or both (the default); types: numbers, and categories. "
            "Numbers have 3 Gaussian kernels and a linear one, categories and true or false have one of agreement."
        ),
    ] = None,
    view: Annotated[Names, _option("NAME=COLUMN: a view, such as mean='mean_*', instead; repeated.")] = None,
    kernels: Annotated[Names, _option("VIEW=KERNEL, such as bits=tanimoto; repeated.")] = None,
    category: Annotated[Names, _option("Column of numbers that are categories; repeated.")] = None,
    method: Annotated[
        Literal["bemkl", "gpmkl"],
        Option(help="bemkl: fast. gpmkl: a Gaussian process with calibrated intervals, up to 2000 rows."),
    ] = "bemkl",
    likelihood: Annotated[
        Text,
        _option(
            "gpmkl: distribution of the target. Quantities: gaussian (default), student-t with outliers; counts: "
            "poisson, negative-binomial; two classes: probit, logit; times: log-logistic and others."
        ),
    ] = None,
    kernel_prior: Annotated[
        Text,
        _option(
            "bemkl: nonsparse (default), sparse, which switches most kernels off. gpmkl: nested (default), "
            "dirichlet, half-t, horseshoe, or spike-slab, which includes or excludes kernels."
        ),
    ] = None,
    missing_views: Annotated[
        Literal["error", "integrate", "impute"],
        Option(
            help="Empty cells of numbers: integrate averages over what missing views may add, with --kernels-on "
            "each or --view; impute (gpmkl) does so for whole views, and fills other gaps with column means."
        ),
    ] = "error",
    covariate: Annotated[Names, _option("gpmkl: column with a linear effect; repeated.")] = None,
    group: Annotated[Names, _option("gpmkl: column of sites or subjects, text too; repeated.")] = None,
    draws: Annotated[int, Option(min=100, help="gpmkl: draws from the posterior.")] = 4000,
    drop: Annotated[Names, _option("Column to leave out, such as an identifier; repeated.")] = None,
    test_size: Annotated[float, Option(min=0.01, max=0.99, help="Share of rows held out for metrics.")] = 0.3,
    seed: Seed = 0,
    max_iter: Annotated[int | None, _option("bemkl: most iterations; 3000 by default.", min=1)] = None,
    force: Annotated[bool, Option("--force", help="Replace the folder of an earlier run.")] = False,
    dry_run: Annotated[bool, Option("--dry-run", help="Only print views, kernels and memory.")] = False,
) -> None:
    """Fit BEMKL or GPMKL to a table; write the model, its posterior, metrics and plots.

    Text and true or false are categories, numbers are standardized. Metrics come from rows that the model has not
    seen; the saved model is the one fitted to the other rows.
    """
    options = SimpleNamespace(**locals())
    for name in ("level", "view", "kernels", "category", "covariate", "group", "drop"):
        setattr(options, name, getattr(options, name) or [])
    with _reported():
        from bayesmkl.cli.runs import check_free
        from bayesmkl.cli.tables import rows_to_fit

        if out is not None and not dry_run:
            check_free(out, force)
        features, y = rows_to_fit(options)  # what is wrong with a table is told before more is imported

        from bayesmkl.cli.fitting import fit_and_write, print_dry_run

        (print_dry_run if dry_run else fit_and_write)(features, y, options)


@app.command()
def diagnose(
    run: Run,
    data: Annotated[Path | None, _option("New rows with the target, to judge calibration by.")] = None,
    draws: Annotated[int, Option(min=100, help="Draws from the posterior.")] = 1000,
    seed: Annotated[int, Option(min=0, help="Seed of the draws.")] = 0,
) -> None:
    """Check whether the posterior of a fitted model can be trusted.

    Convergence of chains or Pareto k-hat of the variational posterior, signal, leave-one-out cross-validation,
    predictive checks and calibration, each with a verdict.
    """
    with _reported():
        from bayesmkl.cli.runs import run_diagnose

        run_diagnose(run, data, draws, seed)


@app.command()
def report(
    run: Run,
    data: Annotated[Path | None, _option("Rows to judge instead of those that `fit` held out.")] = None,
    out: Annotated[Path | None, _option("Folder for report.html, or a page, .html; RUN without it.")] = None,
    seed: Annotated[int, Option(min=0, help="Seed of the draws.")] = 0,
) -> None:
    """Write a page about a fitted model, as HTML and as Markdown.

    Data, what views explain with intervals, held-out predictions and their calibration, what views add for each
    sample, all verdicts on the posterior, how it was computed, what to cite.
    """
    with _reported():
        from bayesmkl.cli.runs import run_report

        run_report(run, data, out, seed)


@app.command()
def predict(
    run: Run,
    data: Data,
    out: Annotated[Path, _option("Table to write: .csv, .csv.gz, .tsv or .parquet.")],
) -> None:
    """Predict the rows of a table with a fitted model.

    Classes and grades get the label and the probability of each, quantities the mean and standard deviation, times to
    an event the risk, the median and the ends of the 94 % interval; one row per row of the input, in its order.
    """
    with _reported():
        from bayesmkl.cli.runs import run_predict

        run_predict(run, data, out)


@app.command()
def compare(
    config: Annotated[Path, Argument(help="What to compare: a TOML file.", show_default=False)],
    out: Annotated[Path, _option("Folder to write; an interrupted run continues there.")],
    retry_failed: Annotated[bool, Option("--retry-failed", help="Compute failed cells again.")] = False,
) -> None:
    """Compare the models of a configuration file on its data sets; write all scores and a report.

    Every finished cell (data set, model, split) is kept at once: after an interruption the same command continues
    where it was. A model that fails is recorded and does not stop the others; the exit code is 3 if all of them did.
    """
    with _reported():
        from bayesmkl.cli.comparing import run_compare

        any_result = run_compare(config, out, retry_failed)
    if not any_result:
        raise Exit(3)
