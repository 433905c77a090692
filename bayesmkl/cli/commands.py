"""Commands `fit`, `diagnose`, `predict`: read and check, fit, evaluate, write a run."""

from __future__ import annotations

import json
import os
import platform
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import scipy
import sklearn
from sklearn.pipeline import Pipeline

from bayesmkl import __version__
from bayesmkl._utils.memory import format_bytes, require_memory
from bayesmkl.bemkl import VB
from bayesmkl.cli.designs import design_columns, group_columns
from bayesmkl.cli.dry_run import n_kernels_of, print_dry_run
from bayesmkl.cli.fit_models import new_model
from bayesmkl.cli.fit_options import (
    COUNTS,
    LIKELIHOODS,
    FitOptions,
    check_likelihood,
    check_options,
    has_types,
    may_be_empty,
)
from bayesmkl.cli.fit_views import columns_as_they_are
from bayesmkl.cli.folders import (
    AGAIN,
    CONFIG,
    MODEL,
    RUN_FORMAT,
    RUN_VERSION,
    check_free,
    folder_beside,
    load_run,
)
from bayesmkl.cli.held_out import HELD_OUT, TRAINING_ROWS, held_out, predicted, row_hashes, with_target
from bayesmkl.cli.report import (
    notes_of_warnings,
    print_effects,
    print_inclusion,
    print_metrics,
    print_shares,
    say,
)
from bayesmkl.cli.tables import (
    EMPTY_CELLS,
    check_constant,
    check_features,
    check_target,
    labeled_rows,
    match_columns,
    may_be_text,
    named,
    read_table,
    select_columns,
    table_suffix,
    words_among,
    write_table,
)
from bayesmkl.evaluation.plots import picture
from bayesmkl.evaluation.predictions import Predictions
from bayesmkl.evaluation.scoring import evaluated
from bayesmkl.gp import GPMKLClassifier, GPMKLOrdinalClassifier, GPMKLRegressor, GPMKLSurvival
from bayesmkl.kernels.adapters import auto_kernels
from bayesmkl.persistence import save_model
from bayesmkl.posterior import (
    diagnose,
    effect_table,
    inclusion_table,
    kernel_table,
    plot_elbo,
    plot_kernel_weights,
    refine_posterior,
    save_posterior,
    task_table,
    view_table,
)
from bayesmkl.posterior.features import quick_feature_table
from bayesmkl.posterior.fitted import fitted_bemkl

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator


__all__ = [
    "FitOptions",
    "check_options",
    "fit_and_write",
    "may_be_empty",
    "new_model",
    "run_diagnose",
    "run_fit",
    "run_predict",
]

OF_GPMKL = (GPMKLClassifier, GPMKLOrdinalClassifier, GPMKLRegressor, GPMKLSurvival)
LONG_ROWS, LONG_KERNELS = 2000, 30  # beyond which GPMKL takes long


def run_fit(
    data: Path, out: Path | None, options: FitOptions, force: bool = False, dry_run: bool = False
) -> None:
    """Fit a table from a file; a dry run says what would be fitted."""
    if out is None and not dry_run:
        raise ValueError("--out must name the folder to write. To see what would be fitted, add --dry-run.")
    if out is not None and not dry_run:
        check_free(out, force)
    check_options(options)
    if options.task == "auto" and options.likelihood in LIKELIHOODS["regression"]:
        options = options._replace(task="regression")  # few whole numbers are classes otherwise
    groups = group_columns(options.design)
    labels = [options.target] if options.task not in ("regression", "survival") else []
    table = read_table(data, [*labels, *groups])
    features, target, event = select_columns(
        table, options.target, options.drop, options.event, design_columns(options.design)
    )
    y, task = check_target(target, options.task, options.unlabeled_label, event)
    check_likelihood(options._replace(task=task))
    if task == "regression" and options.multiclass is not None:
        raise ValueError("--multiclass is about classes, and the --target is a quantity. Leave it out.")
    known, unlabeled = labeled_rows(y, options.unlabeled_label)
    kind = _kind(y[known], task)
    kind += f", {len(unlabeled)} rows without a label" if len(unlabeled) else ""
    say(
        f"{len(features)} rows, {features.shape[1]} columns to predict {options.target!r} from ({kind}: {task})."
    )
    words = words_among(y[known]) if task in ("classification", "ordinal") else []
    if words:
        say(f"{named(words)} in {options.target!r} is a class here. {EMPTY_CELLS}")
    options = options._replace(task=task)
    if options.kernels_on != "types":
        features = check_features(features, may_be_empty(options._asdict()), groups)
    if dry_run or out is None:
        print_dry_run(*_training(features, y, options)[:3], options)
        return
    fit_and_write(features, y, out, options, {"data": str(data.absolute())}, force)


def _kind(y: np.ndarray, task: str) -> str:
    """Describe a target in a few words."""
    if task == "survival":
        return f"times, {int(y['event'].sum())} events"
    if task == "regression":
        return "a quantity"
    return f"{len(np.unique(y))} {'grades' if task == 'ordinal' else 'classes'}"


def run_diagnose(run: Path, data: Path | None, n_draws: int, seed: int) -> None:
    """Print the diagnosis of a run."""
    with notes_of_warnings():
        model, config = load_run(run)
        X_test = y_test = None
        _check_diagnosed(config, data)
        if data is not None:
            X_test, y_test, _ = new_rows(run, config, data)
        diagnosis = diagnose(model, X_test, y_test, n_draws=n_draws, random_state=seed)
    say(str(diagnosis))


def new_rows(
    run: Path, config: dict[str, Any], data: Path
) -> tuple[pd.DataFrame | None, np.ndarray | None, str]:
    """Read the rows of --data that a run was not fitted to, and their target; note how many are training rows.

    Rows and targets are None where none are new. Runs of earlier versions do not know their training rows.
    """
    X, y = rows_with_target(config, data)
    path = run / TRAINING_ROWS
    try:
        known = np.loadtxt(path, dtype=np.uint64, ndmin=1) if path.is_file() else np.arange(0)
    except ValueError as error:
        raise ValueError(f"{str(path)!r} is damaged ({error}). {AGAIN}") from error
    is_new = ~np.isin(row_hashes(X, y), known)
    if is_new.all():
        return X, y, ""
    note = f"{np.sum(~is_new)} of the {len(X)} rows in --data are training rows. They are not judged."
    say(note)
    return (X[is_new], y[is_new], note) if is_new.any() else (None, None, note)


def _read_for(config: dict[str, Any], data: Path) -> pd.DataFrame:
    """Read a table as `fit` read that of a run: labels and groups as they are written."""
    labels = [config["target"]] if config["task"] in ("classification", "ordinal") else []
    groups = [] if has_types(config) else config["text"]
    return read_table(data, [*labels, *groups], {config["target"]: config.get("classes")})


def rows_with_target(config: dict[str, Any], data: Path) -> tuple[pd.DataFrame, np.ndarray]:
    """Read new rows of a run, and their target."""
    table = _read_for(config, data)
    X, _ = match_columns(table, config["features"], may_be_empty(config), config["text"], has_types(config))
    event = config.get("event")
    for what, column in (("target", config["target"]), ("event", event)):
        if column is not None and column not in table:
            raise ValueError(f"--data must have the {what} column {column!r}; it has {list(table.columns)}.")
    label = config.get("unlabeled_label")
    seen = None if event is None else table[event]
    y, _ = check_target(table[config["target"]], config["task"], label, seen)
    known, _ = labeled_rows(y, label)
    return X.iloc[known], y[known]


def _check_diagnosed(config: dict[str, Any], data: Path | None) -> None:
    """Raise for runs of which there is no diagnosis, or none with new rows."""
    check_summarized(config, "diagnosis")
    if config["task"] == "survival" and data is not None:
        raise ValueError(
            "--data is for the calibration of classes and quantities, and the run is of times to an event. Leave it "
            "out; calibration.png has the rows that were held out."
        )


def check_summarized(config: dict[str, Any], what: str) -> None:
    """Raise for runs of which there is no diagnosis or report, `what` of them."""
    if config["task"] in ("ordinal", "survival") and config.get("method") == "bemkl":
        raise ValueError(
            f"there is no {what} of runs of --task {config['task']} with --method bemkl, whose intervals are too "
            "narrow. Fit with --method gpmkl."
        )


def run_predict(run: Path, data: Path, out: Path) -> None:
    """Predict the rows of a table from a file."""
    table_suffix(out)
    with notes_of_warnings():
        model, config = load_run(run)
    table = _read_for(config, data)
    features, others = match_columns(
        table, config["features"], may_be_empty(config), config["text"], has_types(config)
    )
    ignored = [
        name for name in others if name not in (config["target"], config.get("event"), *config["drop"])
    ]
    if ignored:
        say(f"Not used, because the model was not fitted to them: {', '.join(ignored)}.")
    with notes_of_warnings():
        columns = predicted(model, features, config["task"])
    write_table(pd.DataFrame(columns), out)
    say(f"{len(features)} predictions written to {out}.")


def fit_and_write(
    features: pd.DataFrame, y: np.ndarray, out: Path, options: FitOptions, about: dict[str, Any], force: bool
) -> None:
    """Fit a part of the rows, measure on the others, and write the folder of the run."""
    model, X_train, y_train, test = _training(features, y, options)
    X_test, y_test = features.iloc[test], y[test]
    n_kernels = n_kernels_of(model, X_train.drop(columns=options.unseen))
    _announce(len(features) if options.refit else len(X_train), n_kernels, options)
    seconds = _timed_fit(model, X_train, y_train)
    on_test = Predictions(model, X_test, y_train=y_train)
    metrics = evaluated(on_test, y_test, "counts" if options.likelihood in COUNTS else options.task)
    fitted_rows = row_hashes(X_train, y_train)
    n_copies = int(np.isin(row_hashes(X_test, y_test), fitted_rows).sum())
    with folder_beside(out, force) as folder:
        name, axes = picture(on_test, y_test, options.task)
        _save_plot(axes, folder / name)
        if options.refit:
            seconds += _timed_fit(model, features, y)
            fitted_rows = row_hashes(features, y)
        else:
            is_parquet = Path(about["data"]).suffix.lower() == ".parquet"
            name = f"{HELD_OUT}.parquet" if is_parquet else f"{HELD_OUT}.csv"
            write_table(with_target(X_test, y_test, options), folder / name)
        np.savetxt(folder / TRAINING_ROWS, fitted_rows, "%d")
        if options.refine:
            seconds += _timed_refinement(model, options.seed)
        tables = _write_posterior(model, folder, options.seed)
        included, effects = _write_inclusion(model, folder), _write_effects(model, folder)
        write_table(pd.DataFrame(metrics.items(), columns=["metric", "value"]), folder / "metrics.csv")
        save_model(model, folder / MODEL)
        n_train = len(features) if options.refit else len(X_train)
        rows = {"n_train": n_train, "n_test": len(X_test), "features": list(features.columns)}
        rows["text"] = may_be_text(features)
        about = about | rows | _about_fit(model[-1], seconds)
        _write_config(folder / CONFIG, options, about)
        files = sorted(path.name for path in folder.iterdir())
    for of, table in tables.items():
        print_shares(table, of, "the variance" if options.method == "gpmkl" else "the score")
    if included is not None:
        print_inclusion(included)
    if effects is not None:
        print_effects(effects)
    print_metrics(metrics, len(X_test))
    if n_copies:
        say(
            f"{n_copies} of the {len(X_test)} held-out rows are copies of training rows: every column is equal. If "
            "they are the same samples, these metrics are too good. Keep one row of each sample, and fit again."
        )
    say(_ending(model[-1], about))
    if options.refit:
        say(
            f"The saved model is fitted to all {n_train} rows, the metrics are of a fit to {len(X_train)} of them."
        )
    else:
        say(f"The saved model is fitted to {n_train} of {len(features)} rows, the others gave the metrics.")
    say(f"Written to {out}{os.sep}: {', '.join(files)}")


def _training(
    features: pd.DataFrame, y: np.ndarray, options: FitOptions
) -> tuple[Pipeline, pd.DataFrame, np.ndarray, np.ndarray]:
    """Return the model that is to be fitted, its rows, their targets, and the positions of rows that are held out."""
    known, unlabeled = labeled_rows(y, options.unlabeled_label)
    train, test = held_out(features, y, known, options)
    train = np.concatenate([train, unlabeled])
    X_train = features.iloc[train]
    seen = X_train.drop(columns=options.unseen)
    model = new_model(options, y, seen)
    if options.kernels_on != "types":
        bank = model[-1].get_params(deep=False)["kernels"]
        check_constant(seen.drop(columns=columns_as_they_are(bank, [str(name) for name in seen])))
    return model, X_train, y[train], test


def _write_posterior(model: Pipeline, folder: Path, seed: int) -> dict[str, pd.DataFrame]:
    """Write plots, tables and draws; return the tables by what their rows are."""
    tables = {"kernel": kernel_table(model)}
    if len(set(model[-1].kernel_bank_.kernel_views_)) > 1:
        tables["view"] = view_table(model, random_state=seed)
    for of, table in tables.items():
        write_table(table, folder / f"{of}s.csv")
    slopes = quick_feature_table(model, 0.94, np.random.default_rng(seed))
    if slopes is not None:
        write_table(slopes, folder / "features.csv")
    _save_plot(plot_kernel_weights(model), folder / "kernel_weights.png")
    if hasattr(model[-1], "elbo_"):
        _save_plot(plot_elbo(model), folder / "elbo.png")
    save_posterior(model, folder / "posterior.nc", random_state=seed)
    return tables


def _write_inclusion(model: Pipeline, folder: Path) -> pd.DataFrame | None:
    """Write which views or kernels are in the model; return the table, None of priors that leave none out."""
    if not fitted_bemkl(model).selects_kernels:
        return None
    table = inclusion_table(model)
    write_table(table, folder / "inclusion.csv")
    return table


def _write_effects(model: Pipeline, folder: Path) -> pd.DataFrame | None:
    """Write what the columns of a design do; return the table of effects, None where there are none."""
    design = getattr(model[-1], "design_", None)
    if design is None or not design.has_effects:
        return None
    effects = effect_table(model)
    write_table(effects, folder / "effects.csv")
    if design.has_tasks:
        write_table(task_table(model), folder / "tasks.csv")
    return effects


def _about_fit(last: BaseEstimator, seconds: float) -> dict[str, Any]:
    classes = getattr(last, "classes_", None)
    return {
        "classes": None if classes is None else classes.tolist(),
        "n_iter": np.atleast_1d(getattr(last, "n_iter_", [])).tolist(),
        "elbo": getattr(last, "elbo_", None),
        "outcome": fitted_bemkl(last).endings,
        "fit_seconds": round(seconds, 3),
    }


def _ending(last: BaseEstimator, about: dict[str, Any]) -> str:
    """Report in one line how the inference ended."""
    outcome, numbers = "; ".join(about["outcome"]), " + ".join(map(str, about["n_iter"]))
    seconds = f"{about['fit_seconds']:.1f} s"
    if isinstance(last, OF_GPMKL):
        worth = f"{len(last.posterior_.kernel_weights)} points worth {last.ess_:.0f} draws, {seconds}"
        if np.isnan(last.pareto_k_):  # of chains
            return f"{outcome} (R-hat {last.rhat_:.3f}, {worth})."
        # None of more than two classes.
        evidence = "" if np.isnan(last.log_evidence_) else f"Log evidence {last.log_evidence_:.2f} nats; "
        return f"{evidence}{outcome} (k-hat {last.pareto_k_:.2f}, {worth})."
    if about["elbo"] is None:
        posterior = last.posterior_[0] if type(last.posterior_) is tuple else last.posterior_
        n_chains = posterior.n_chains
        chains = "chain" if n_chains == 1 else "chains"
        return f"{outcome} ({n_chains} {chains} of {numbers} draws, {seconds})."
    steps = "iterations" if isinstance(last._inference(), VB) else "steps"
    return f"ELBO {about['elbo']:.2f} nats; {outcome} ({numbers} {steps}, {seconds})."


def _announce(n_train: int, n_kernels: int, options: FitOptions) -> None:
    """Report the size of the fit, and raise if it cannot fit into memory."""
    n_bytes = 8 * n_kernels * n_train**2
    require_memory(
        n_bytes,
        f"a stack of {n_kernels} kernels over {n_train} rows",
        "Use fewer rows, leave columns out with --drop, or use --kernels-on all.",
    )
    say(f"Fitting {n_kernels} kernels to {n_train} rows ({format_bytes(n_bytes)} of kernels) ...")
    if options.method == "gpmkl" and (n_train > LONG_ROWS or n_kernels > LONG_KERNELS):
        say(
            f"--method gpmkl takes long with more than {LONG_ROWS} rows or {LONG_KERNELS} kernels. --kernels-on all "
            f"has {len(auto_kernels())} of them; --method bemkl is for more."
        )


def _timed_fit(model: Pipeline, X: pd.DataFrame, y: np.ndarray) -> float:
    started = time.perf_counter()
    with notes_of_warnings():
        model.fit(X, y)
    return time.perf_counter() - started


def _timed_refinement(model: Pipeline, seed: int) -> float:
    started = time.perf_counter()
    with notes_of_warnings():
        model.steps[-1] = ("bemkl", refine_posterior(model, random_state=seed))
    return time.perf_counter() - started


def _save_plot(axes: Any, path: Path) -> None:
    axes.figure.savefig(path)


def _write_config(path: Path, options: FitOptions, about: dict[str, Any]) -> None:
    config = {
        "format": RUN_FORMAT,
        "version": RUN_VERSION,
        "bayesmkl": __version__,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "scikit_learn": sklearn.__version__,
    }
    text = json.dumps(config | options._asdict() | about, indent=2, ensure_ascii=False)
    path.write_text(text + "\n", encoding="utf-8")
