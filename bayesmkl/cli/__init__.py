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
from typing import Annotated

import typer

from bayesmkl import __version__
from bayesmkl.cli.choices import (
    BY_DEFAULT,
    Inference,
    KernelPrior,
    KernelsOn,
    Likelihood,
    Method,
    MissingViews,
    Multiclass,
    Task,
    TaskCorrelation,
)
from bayesmkl.cli.stops import STOPS, stops_raise, told

__all__ = ["app", "main"]

app = typer.Typer(
    name="bayesmkl",
    help="Bayesian multiple kernel learning: which kernels matter, how surely, and what to predict.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_show_locals=False,
)


def main() -> None:
    """Run the command line."""
    try:
        with stops_raise():
            app(prog_name="bayesmkl")
    except STOPS as stop:  # before a command has begun
        line, code = told(stop)
        typer.echo(line, err=True)
        raise SystemExit(code) from None


@contextmanager
def _bad_input_reported() -> Iterator[None]:
    """Turn what is wrong with the user's data or files into one message on stderr and exit code 2.

    After Ctrl-C there is one line too, and the exit code is 130; 143 after SIGTERM.
    """
    try:
        with stops_raise():
            yield
    except (ValueError, OSError, MemoryError, ImportError) as error:
        typer.secho(f"error: {error or 'not enough memory; use fewer rows or kernels'}", fg="red", err=True)
        raise typer.Exit(2) from error
    except STOPS as stop:
        line, code = told(stop)
        typer.echo(line, err=True)
        raise typer.Exit(code) from None


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"bayesmkl {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit."),
    ] = False,
) -> None:
    stdout = sys.stdout
    if isinstance(stdout, io.TextIOWrapper) and stdout.errors in ("strict", "surrogateescape"):
        stdout.reconfigure(errors="backslashreplace")  # names that a terminal cannot show end no command


Seed = Annotated[int, typer.Option(min=0, help="Seed of the split, the fit and the posterior draws.")]
MaxIter = Annotated[
    int, typer.Option(min=1, help="Maximum number of iterations over all factors of the posterior.")
]
Tol = Annotated[float, typer.Option(min=0.0, help="Stop when the ELBO changes less than this, relatively.")]
Data = Annotated[
    Path, typer.Argument(help="Table with a header: .csv, .csv.gz, .tsv or .parquet.", show_default=False)
]


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="Folder for the report, plots, tables and the model.")] = Path(
        "demo"
    ),
    seed: Seed = 0,
    fast: Annotated[
        bool,
        typer.Option("--fast", help="Every third tumor only."),
    ] = False,
) -> None:
    """Find out which views of a tumor tell whether it is malignant, and write a report.

    The Wisconsin breast cancer data in three views, with a fourth that says nothing, and with samples that lack a
    view; half of the rows to fit, half to test. An earlier run in the same folder is replaced.
    """
    with _bad_input_reported():
        from bayesmkl.cli.demo import run_demo

        run_demo(out, seed=seed, fast=fast)


@app.command()
def fit(
    data: Data,
    target: Annotated[str, typer.Option(help="Column to predict.", show_default=False)],
    out: Annotated[
        Path | None,
        typer.Option(
            help="Folder to write; it must not exist yet. Needed but for --dry-run.", show_default=False
        ),
    ] = None,
    task: Annotated[
        Task,
        typer.Option(
            help="auto: text or few different whole numbers are classes. ordinal: classes with an order. survival: "
            "times, with --event."
        ),
    ] = Task.AUTO,
    event: Annotated[
        str | None,
        typer.Option(
            help="survival: column of 0 and 1, whether the event was seen at the time in --target.",
            show_default=False,
        ),
    ] = None,
    level: Annotated[
        list[str] | None,
        typer.Option(help="ordinal: a grade that is text, in ascending order; repeated.", show_default=False),
    ] = None,
    kernels_on: Annotated[
        KernelsOn,
        typer.Option(
            help="3 Gaussian kernels and a linear one on all columns together, on each column, or both. types: "
            "numbers, text and true or false as categories, dates as days; empty cells are filled in."
        ),
    ] = KernelsOn.ALL_AND_EACH,
    view: Annotated[
        list[str] | None,
        typer.Option(help="NAME=COLUMN: kernels on a view, such as mean='mean_*', instead; repeated."),
    ] = None,
    kernels: Annotated[
        list[str] | None,
        typer.Option(help="VIEW=KERNEL, such as bits=tanimoto; repeated. Views not named have auto."),
    ] = None,
    category: Annotated[
        list[str] | None,
        typer.Option(help="--kernels-on types: column of numbers that are categories; repeated."),
    ] = None,
    method: Annotated[
        Method,
        typer.Option(
            help="bemkl: fast. gpmkl: an additive Gaussian process, whose intervals hold, for up to 2000 rows and 30 "
            "kernels."
        ),
    ] = Method.BEMKL,
    likelihood: Annotated[
        Likelihood | None,
        typer.Option(
            help="gpmkl: distribution of the target. Quantities: gaussian (default), student-t with outliers; "
            "counts: poisson, negative-binomial; two classes: probit, logit; times: log-logistic and others.",
            show_default=False,
        ),
    ] = None,
    kernel_prior: Annotated[
        KernelPrior | None,
        typer.Option(
            help="bemkl: nonsparse (its default), or sparse, which switches most kernels off. gpmkl: dirichlet "
            "(its default), half-t, horseshoe, or spike-slab, under which kernels are in or out.",
            show_default=False,
        ),
    ] = None,
    multiclass: Annotated[
        Multiclass | None,
        typer.Option(
            help="More than two classes: one set of kernel weights for all (shared, the default), a model per class "
            "(one-versus-all, the default of gibbs and --refine), or scores that compete (multinomial, vb only).",
            show_default=False,
        ),
    ] = None,
    nonnegative: Annotated[
        bool, typer.Option("--nonnegative", help="No kernel weight below zero; vb only.")
    ] = False,
    unlabeled_label: Annotated[
        str | None,
        typer.Option(
            help="Value of the target that marks rows without a label. With two classes they take part in the fit; "
            "vb only.",
            show_default=False,
        ),
    ] = None,
    missing_views: Annotated[
        MissingViews,
        typer.Option(
            help="Empty cells: integrate averages over what their kernels may say, with --kernels-on each or --view; "
            "impute (gpmkl) does so for whole views, and takes means of columns inside views."
        ),
    ] = MissingViews.ERROR,
    covariate: Annotated[
        list[str] | None,
        typer.Option(help="gpmkl: column with a linear effect, that no kernel sees; may be repeated."),
    ] = None,
    group: Annotated[
        list[str] | None,
        typer.Option(help="gpmkl: column of sites, batches or subjects, text too; may be repeated."),
    ] = None,
    slope: Annotated[
        list[str] | None,
        typer.Option(help="GROUP=COVARIATE: gpmkl: an effect that differs between levels; may be repeated."),
    ] = None,
    task_column: Annotated[
        str | None,
        typer.Option(help="gpmkl: column that says which outcome the target is of.", show_default=False),
    ] = None,
    task_correlation: Annotated[
        TaskCorrelation,
        typer.Option(help="Correlation of functions of tasks: the same for all pairs, or each its own."),
    ] = TaskCorrelation.EQUAL,
    offset: Annotated[
        str | None,
        typer.Option(
            help="gpmkl, regression: column that is a known part of the target.", show_default=False
        ),
    ] = None,
    precision: Annotated[
        str | None,
        typer.Option(
            help="gpmkl, regression: column of relative precisions of the target.", show_default=False
        ),
    ] = None,
    inference: Annotated[
        Inference | None,
        typer.Option(
            help="vb, the default of bemkl: variational, fast, intervals too narrow. nuts: the reference, a minute "
            "for 100 rows. marginal: all that gpmkl has.",
            show_default=False,
        ),
    ] = None,
    draws: Annotated[
        int, typer.Option(min=10, help="Draws of each of the four chains, after as many of warm-up.")
    ] = 1000,
    refine: Annotated[
        bool,
        typer.Option(
            "--refine",
            help="After vb, Gibbs chains that start around it, until they agree; a note if they do not.",
        ),
    ] = False,
    drop: Annotated[
        list[str] | None, typer.Option(help="Column to leave out, such as an identifier; may be repeated.")
    ] = None,
    test_size: Annotated[float, typer.Option(help="Share of the rows held out for the metrics.")] = 0.3,
    seed: Seed = 0,
    max_iter: MaxIter = 3000,
    tol: Tol = 1e-6,
    refit: Annotated[
        bool, typer.Option("--refit", help="After the metrics, fit all rows and save that model instead.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace the folder of an earlier run.")] = False,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run", help="Print views, kernels, memory and about how long it takes; write nothing."
        ),
    ] = False,
) -> None:
    """Fit BEMKL or GPMKL to a table; write the model, its posterior, metrics and plots.

    Columns are standardized, but for those of a design. Metrics come from rows that the model has not seen; the
    saved model is the one fitted to the other rows, unless --refit is given.
    """
    with _bad_input_reported():
        from bayesmkl.cli.commands import FitOptions, run_fit

        run_fit(
            data,
            out,
            FitOptions(
                target=target,
                task=Task.SURVIVAL.value if event is not None and task is Task.AUTO else task.value,
                event=event,
                level=tuple(level or ()),
                kernels_on=kernels_on.value,
                view=tuple(view or ()),
                view_kernels=tuple(kernels or ()),
                category=tuple(category or ()),
                method=method.value,
                likelihood=None if likelihood is None else likelihood.value,
                kernel_prior=None if kernel_prior is None else kernel_prior.value,
                multiclass=None if multiclass is None else multiclass.value,
                nonnegative=nonnegative,
                unlabeled_label=unlabeled_label,
                missing_views=missing_views.value,
                covariate=tuple(covariate or ()),
                group=tuple(group or ()),
                slope=tuple(slope or ()),
                task_column=task_column,
                task_correlation=task_correlation.value,
                offset=offset,
                precision=precision,
                inference=(inference or BY_DEFAULT[method]).value,
                draws=draws,
                refine=refine,
                drop=tuple(drop or ()),
                test_size=test_size,
                seed=seed,
                max_iter=max_iter,
                tol=tol,
                refit=refit,
            ),
            force=force,
            dry_run=dry_run,
        )


@app.command()
def diagnose(
    run: Annotated[Path, typer.Argument(help="Folder that `bayesmkl fit` wrote.", show_default=False)],
    data: Annotated[
        Path | None,
        typer.Option(
            help="Table of new rows with the target: calibration is judged by these.", show_default=False
        ),
    ] = None,
    draws: Annotated[int, typer.Option(min=100, help="Draws from the posterior.")] = 1000,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the draws.")] = 0,
) -> None:
    """Say whether the posterior of a fitted model can be trusted.

    Convergence of chains or Pareto k-hat of the variational posterior, signal, leave-one-out cross-validation,
    sensitivity to the prior, predictive checks and calibration, each with a verdict.
    """
    with _bad_input_reported():
        from bayesmkl.cli.commands import run_diagnose

        run_diagnose(run, data, n_draws=draws, seed=seed)


@app.command()
def report(
    run: Annotated[Path, typer.Argument(help="Folder that `bayesmkl fit` wrote.", show_default=False)],
    data: Annotated[
        Path | None,
        typer.Option(
            help="Table with the target; its new rows are judged. Without it, the rows that `fit` held out are.",
            show_default=False,
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Folder for report.html, or a page to write, .html; RUN without it.", show_default=False
        ),
    ] = None,
    refits: Annotated[
        bool, typer.Option("--refits", help="Fit again without each view: which of them do predictions need?")
    ] = False,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the draws.")] = 0,
) -> None:
    """Write a page about a fitted model, as HTML and as Markdown.

    Data, shares of views with intervals, held-out predictions and their calibration, what views add for each sample,
    all verdicts on the posterior, how it was computed, what to cite.
    """
    with _bad_input_reported():
        from bayesmkl.cli.report_command import run_report

        run_report(run, data, out, refits, seed)


@app.command()
def predict(
    run: Annotated[Path, typer.Argument(help="Folder that `bayesmkl fit` wrote.", show_default=False)],
    data: Data,
    out: Annotated[
        Path, typer.Option(help="Table to write: .csv, .csv.gz, .tsv or .parquet.", show_default=False)
    ],
) -> None:
    """Predict the rows of a table with a fitted model.

    Classes and grades get the label and the probability of each, quantities the mean and standard deviation, times to
    an event the risk, the median and the ends of the 94 % interval; one row per row of the input, in its order.
    """
    with _bad_input_reported():
        from bayesmkl.cli.commands import run_predict

        run_predict(run, data, out)


@app.command()
def compare(
    config: Annotated[Path, typer.Argument(help="What to compare: a TOML file.", show_default=False)],
    out: Annotated[
        Path,
        typer.Option(help="Folder to write; one of an interrupted run continues.", show_default=False),
    ],
    jobs: Annotated[
        int | None,
        typer.Option(help="Processes that work at the same time, instead of n_jobs; -1 is one per core."),
    ] = None,
    retry_failed: Annotated[bool, typer.Option("--retry-failed", help="Compute failed cells again.")] = False,
) -> None:
    """Compare models on data sets, as a configuration file says; write all scores and a report.

    Every finished cell (data set, model, split) is kept at once: after an interruption the same command continues
    where it was. A model that fails is recorded and does not stop the others; the exit code is 3 if all of them did.
    """
    with _bad_input_reported():
        from bayesmkl.cli.compare_command import run_compare

        any_result = run_compare(config, out, jobs, retry_failed)
    if not any_result:
        raise typer.Exit(3)
