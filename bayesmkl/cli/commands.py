"""Commands `fit`, `diagnose`, `predict`, `demo`: read and check, fit, evaluate, write a run."""

from __future__ import annotations

import json
import os
import platform
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd
import scipy
import sklearn
from sklearn.model_selection import train_test_split
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler

from bayesmkl import __version__
from bayesmkl._utils.memory import format_bytes, require_memory
from bayesmkl.bemkl import NUTS, SVI, VB, BEMKLClassifier, BEMKLRegressor, Gibbs
from bayesmkl.cli.folders import CONFIG, MODEL, RUN_FORMAT, RUN_VERSION, check_free, folder_beside, load_run
from bayesmkl.cli.report import notes_of_warnings, print_metrics, print_shares, say
from bayesmkl.cli.tables import (
    EMPTY_CELLS,
    check_constant,
    check_features,
    check_target,
    label_in,
    labeled_rows,
    match_columns,
    named,
    read_table,
    select_columns,
    table_suffix,
    words_among,
    write_table,
)
from bayesmkl.datasets import load_wdbc
from bayesmkl.evaluation import evaluate_classifier, evaluate_regressor
from bayesmkl.evaluation.predictions import Predictions
from bayesmkl.kernels import KernelBank
from bayesmkl.kernels.adapters import auto_kernels
from bayesmkl.marginal import GPMKLClassifier, GPMKLRegressor, Marginal
from bayesmkl.persistence import save_model
from bayesmkl.posterior import (
    diagnose,
    kernel_table,
    plot_elbo,
    plot_kernel_weights,
    plot_predictions,
    plot_reliability,
    refine_posterior,
    save_posterior,
    view_table,
)
from bayesmkl.posterior.fitted import fitted_bemkl

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator


__all__ = [
    "FitOptions",
    "check_options",
    "may_be_empty",
    "new_model",
    "run_demo",
    "run_diagnose",
    "run_fit",
    "run_predict",
]

# By method, the default first.
KERNEL_PRIORS = {"bemkl": ("nonsparse", "sparse"), "gpmkl": ("dirichlet", "half-t", "horseshoe")}
LONG_ROWS, LONG_KERNELS = 2000, 30  # beyond which GPMKL takes long


def run_demo(out: Path, seed: int, fast: bool) -> None:
    """Fit the Wisconsin breast cancer data."""
    check_free(out, force=True)
    wdbc: Any = load_wdbc(as_frame=True)
    labels = wdbc.target_names[(np.asarray(wdbc.target) + 1) // 2]
    say("Wisconsin diagnostic breast cancer: is a tumor malignant, by 30 measurements of cell nuclei?")
    options = FitOptions("diagnosis", "classification", "all" if fast else "all+each", seed=seed)
    _fit_and_write(wdbc.data, labels, out, options, {"data": "wdbc"}, force=True)


def run_fit(data: Path, out: Path, options: FitOptions, force: bool) -> None:
    """Fit a table from a file."""
    check_free(out, force)
    check_options(options)
    labels = [options.target] if options.task != "regression" else []
    features, target = select_columns(read_table(data, labels), options.target, options.drop)
    y, task = check_target(target, options.task, options.unlabeled_label)
    if task == "regression" and options.multiclass is not None:
        raise ValueError("--multiclass is about classes, and the --target is a quantity. Leave it out.")
    known, unlabeled = labeled_rows(y, options.unlabeled_label)
    kind = f"{len(np.unique(y[known]))} classes" if task == "classification" else "a quantity"
    kind += f", {len(unlabeled)} rows without a label" if len(unlabeled) else ""
    say(
        f"{len(features)} rows, {features.shape[1]} columns to predict {options.target!r} from ({kind}: {task})."
    )
    words = words_among(y[known])
    if words:
        say(f"{named(words)} in {options.target!r} is a class here. {EMPTY_CELLS}")
    features = check_features(features, may_be_empty=options.missing_views == "integrate")
    _fit_and_write(features, y, out, options._replace(task=task), {"data": str(data.absolute())}, force)


def run_diagnose(run: Path, data: Path | None, n_draws: int, seed: int) -> None:
    """Print the diagnosis of a run."""
    with notes_of_warnings():
        model, config = load_run(run)
        X_test = y_test = None
        if data is not None:
            labels = [config["target"]] if config["task"] == "classification" else []
            table = read_table(data, labels, config.get("classes"))
            X_test, _ = match_columns(table, config["features"], may_be_empty(config))
            if config["target"] not in table:
                raise ValueError(
                    f"--data must have the target column {config['target']!r}; it has {list(table.columns)}."
                )
            label = config.get("unlabeled_label")
            y_test, _ = check_target(table[config["target"]], config["task"], label)
            known, _ = labeled_rows(y_test, label)
            X_test, y_test = X_test.iloc[known], y_test[known]
        diagnosis = diagnose(model, X_test, y_test, n_draws=n_draws, random_state=seed)
    say(str(diagnosis))


def run_predict(run: Path, data: Path, out: Path) -> None:
    """Predict the rows of a table from a file."""
    table_suffix(out)
    with notes_of_warnings():
        model, config = load_run(run)
    features, others = match_columns(read_table(data), config["features"], may_be_empty(config))
    ignored = [name for name in others if name not in (config["target"], *config["drop"])]
    if ignored:
        say(f"Not used, because the model was not fitted to them: {', '.join(ignored)}.")
    with notes_of_warnings():
        columns = _predictions(model, features, config["task"])
    write_table(pd.DataFrame(columns), out)
    say(f"{len(features)} predictions written to {out}.")


def _predictions(model: BaseEstimator, features: pd.DataFrame, task: str) -> dict[str, np.ndarray]:
    """Return the columns of the table of predictions, which are all finite."""
    predictions = Predictions(model, features)
    if task == "classification":
        probabilities = predictions.probabilities()
        columns = {f"probability_{c}": probabilities[:, k] for k, c in enumerate(model.classes_)}
    else:
        mean, std = predictions.moments()
        columns = {"mean": mean, "sd": std}
    unusable = ~np.isfinite(list(columns.values())).all(axis=0)
    if unusable.any():
        raise ValueError(
            f"{unusable.sum()} of {len(features)} predictions are not finite, the first one of row "
            f"{np.flatnonzero(unusable)[0] + 1}. Its values are far from those that the model was fitted to, or the "
            "model is damaged: fit it again."
        )
    return columns if task == "regression" else {"prediction": predictions.labels()} | columns


def _fit_and_write(
    features: pd.DataFrame, y: np.ndarray, out: Path, options: FitOptions, about: dict[str, Any], force: bool
) -> None:
    is_class = options.task == "classification"
    known, unlabeled = labeled_rows(y, options.unlabeled_label)
    classes = np.unique(y[known], return_inverse=True)[1] if is_class else None
    train, test = train_test_split(
        known, test_size=options.test_size, random_state=options.seed, stratify=classes
    )
    train = np.concatenate([train, unlabeled])
    X_train, X_test, y_train, y_test = features.iloc[train], features.iloc[test], y[train], y[test]
    check_constant(X_train)
    model = new_model(options, y)
    _announce(len(features) if options.refit else len(X_train), features.shape[1], options)
    seconds = _timed_fit(model, X_train, y_train)
    on_test = Predictions(model, X_test)
    evaluate = evaluate_classifier if is_class else evaluate_regressor
    metrics = evaluate(on_test.as_model(), X_test, y_test)
    with folder_beside(out, force) as folder:
        _plot_test(on_test, y_test, is_class, folder)
        if options.refit:
            seconds += _timed_fit(model, features, y)
        if options.refine:
            seconds += _timed_refinement(model, options.seed)
        tables = _write_posterior(model, folder, options.seed)
        write_table(pd.DataFrame(metrics.items(), columns=["metric", "value"]), folder / "metrics.csv")
        save_model(model, folder / MODEL)
        n_train = len(features) if options.refit else len(X_train)
        rows = {"n_train": n_train, "n_test": len(X_test), "features": list(features.columns)}
        about = about | rows | _about_fit(model[-1], seconds)
        _write_config(folder / CONFIG, options, about)
        files = sorted(path.name for path in folder.iterdir())
    for of, table in tables.items():
        print_shares(table, of, "the variance" if options.method == "gpmkl" else "the score")
    print_metrics(metrics, len(X_test))
    say(_ending(model[-1], about))
    if options.refit:
        say(
            f"The saved model is fitted to all {n_train} rows, the metrics are of a fit to {len(X_train)} of them."
        )
    else:
        say(f"The saved model is fitted to {n_train} of {len(features)} rows, the others gave the metrics.")
    say(f"Written to {out}{os.sep}: {', '.join(files)}")


def _write_posterior(model: Pipeline, folder: Path, seed: int) -> dict[str, pd.DataFrame]:
    """Write plots, tables and draws; return the tables by what their rows are."""
    tables = {"kernel": kernel_table(model)}
    if len(set(model[-1].kernel_bank_.kernel_views_)) > 1:
        tables["view"] = view_table(model, random_state=seed)
    for of, table in tables.items():
        write_table(table, folder / f"{of}s.csv")
    _save_plot(plot_kernel_weights(model), folder / "kernel_weights.png")
    if hasattr(model[-1], "elbo_"):
        _save_plot(plot_elbo(model), folder / "elbo.png")
    save_posterior(model, folder / "posterior.nc", random_state=seed)
    return tables


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
    if isinstance(last, GPMKLClassifier | GPMKLRegressor):
        n_points = len(last.posterior_.kernel_weights)
        return (
            f"Log evidence {last.log_evidence_:.2f} nats; {outcome} (k-hat {last.pareto_k_:.2f}, {n_points} points "
            f"worth {last.ess_:.0f} draws, {seconds})."
        )
    if about["elbo"] is None:
        posterior = last.posterior_[0] if type(last.posterior_) is tuple else last.posterior_
        n_chains = posterior.n_chains
        chains = "chain" if n_chains == 1 else "chains"
        return f"{outcome} ({n_chains} {chains} of {numbers} draws, {seconds})."
    steps = "sweeps" if isinstance(last._inference(), VB) else "steps"
    return f"ELBO {about['elbo']:.2f} nats; {outcome} ({numbers} {steps}, {seconds})."


def _announce(n_train: int, n_features: int, options: FitOptions) -> None:
    """Report the size of the fit, and raise if it cannot fit into memory."""
    n_views = {"all": 1, "each": n_features, "all+each": 1 + n_features}[options.kernels_on]
    n_kernels = n_views * len(auto_kernels())
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


def _plot_test(on_test: Predictions, y: np.ndarray, is_class: bool, folder: Path) -> None:
    if is_class:
        axes = plot_reliability(y, on_test.probabilities(), labels=on_test.classes)
        _save_plot(axes, folder / "reliability.png")
    else:
        axes = plot_predictions(y, *on_test.moments())
        _save_plot(axes, folder / "predicted_vs_observed.png")


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


class FitOptions(NamedTuple):
    """Everything that decides a fit, as it is kept in the run's configuration."""

    target: str
    task: str = "auto"
    kernels_on: str = "all+each"
    method: str = "bemkl"
    kernel_prior: str | None = None
    multiclass: str | None = None
    nonnegative: bool = False
    unlabeled_label: str | None = None
    missing_views: str = "error"
    inference: str = "vb"
    draws: int = 1000
    refine: bool = False
    drop: tuple[str, ...] = ()
    test_size: float = 0.3
    seed: int = 0
    max_iter: int = 3000
    tol: float = 1e-6
    refit: bool = False

    @property
    def sampling(self) -> str | None:
        """The option that asks for draws instead of VB, or after it."""
        if self.inference != "vb":
            return f"--inference {self.inference}"
        return "--refine" if self.refine else None

    @property
    def by_gibbs(self) -> bool:
        """Whether posteriors are sampled by Gibbs, which knows one score only."""
        return self.inference == "gibbs" or self.refine


def check_options(options: FitOptions) -> None:
    """Raise for options that are out of range or do not go together."""
    if not 0.0 < options.test_size < 1.0:
        raise ValueError(
            f"--test-size must be between 0 and 1; got {options.test_size:g}. 0.3 holds out 30 %."
        )
    _check_method(options)
    if options.refine and options.inference != "vb":
        raise ValueError(
            f"--refine follows --inference vb; got {options.inference}, whose draws need no refinement. Leave it out."
        )
    closed_form_only = {
        "--multiclass multinomial": options.multiclass == "multinomial",
        "--nonnegative": options.nonnegative,
        "--unlabeled-label": options.unlabeled_label is not None,
        "--missing-views integrate": options.missing_views == "integrate",
    }
    for name, given in closed_form_only.items():
        if given and options.sampling is not None:
            raise ValueError(f"{name} is for the closed form only. Leave it out, or {options.sampling}.")
    if options.multiclass == "shared" and options.by_gibbs:
        raise ValueError(
            f"--multiclass shared has no Gibbs sampler, which {options.sampling} needs. Use --multiclass "
            "one-versus-all, or --inference nuts."
        )
    if options.missing_views == "integrate" and options.kernels_on != "each":
        raise ValueError(
            "--missing-views integrate needs --kernels-on each, where every column is a view of its own; got "
            f"--kernels-on {options.kernels_on}, and kernels on all columns need all of them. Views of several "
            "columns are for Python: KernelBank(views={name: columns})."
        )


def _check_method(options: FitOptions) -> None:
    """Raise for options that the method does not have."""
    priors = KERNEL_PRIORS[options.method]
    if options.kernel_prior is not None and options.kernel_prior not in priors:
        raise ValueError(
            f"--kernel-prior must be {', '.join(priors[:-1])} or {priors[-1]} with --method {options.method}; got "
            f"{options.kernel_prior}."
        )
    if options.method == "bemkl":
        return
    if options.inference != Marginal.name:
        raise ValueError(
            f"--method gpmkl has --inference {Marginal.name} only; got {options.inference}. Leave it out."
        )
    default = FitOptions._field_defaults
    of_bemkl = ("multiclass", "nonnegative", "unlabeled_label", "missing_views", "refine", "max_iter", "tol")
    for name in of_bemkl:
        if getattr(options, name) != default[name]:
            raise ValueError(
                f"--{name.replace('_', '-')} is an option of --method bemkl; got it with --method gpmkl. Leave one "
                "of them out."
            )


def may_be_empty(config: dict[str, Any]) -> bool:
    """Return whether the model of a run takes empty cells."""
    return config.get("missing_views") == "integrate"


def _inference(options: FitOptions) -> Any:
    """Return the inference with as many draws as asked for."""
    if options.inference == "svi":
        return SVI(n_draws=options.draws)
    samplers: dict[str, Any] = {"nuts": NUTS, "gibbs": Gibbs}
    if options.inference in samplers:
        return samplers[options.inference](n_warmup=options.draws, n_draws=options.draws)
    if options.inference == Marginal.name:
        return Marginal(n_draws=max(4 * options.draws, 100))
    return options.inference


def _kernel_prior(options: FitOptions) -> str:
    """Return the prior that was asked for, or the method's default."""
    return options.kernel_prior or KERNEL_PRIORS[options.method][0]


def new_model(options: FitOptions, y: np.ndarray) -> Pipeline:
    """Build what is fitted; `y` says of which type labels are."""
    last = _gpmkl(options) if options.method == "gpmkl" else _bemkl(options, y)
    scaler = StandardScaler().set_output(transform="pandas")
    return Pipeline([("standardize", scaler), (options.method, last)])


def _gpmkl(options: FitOptions) -> BaseEstimator:
    kind = GPMKLClassifier if options.task == "classification" else GPMKLRegressor
    return kind(
        KernelBank("auto", views=options.kernels_on),
        kernel_prior=_kernel_prior(options),
        inference=_inference(options),
        random_state=options.seed,
        verbose=1,
    )


def _bemkl(options: FitOptions, y: np.ndarray) -> BaseEstimator:
    common: dict[str, Any] = {
        "kernel_prior": _kernel_prior(options),
        "nonnegative": options.nonnegative,
        "missing_views": options.missing_views,
        "inference": _inference(options),
        "max_iter": options.max_iter,
        "tol": options.tol,
        "random_state": options.seed,
        "verbose": 1,
    }
    bank = KernelBank("auto", views=options.kernels_on)
    if options.task == "classification":
        multiclass = options.multiclass or ("one-versus-all" if options.by_gibbs else "shared")
        label = None if options.unlabeled_label is None else label_in(y, options.unlabeled_label)
        return BEMKLClassifier(bank, multiclass=multiclass, unlabeled_label=label, **common)
    return BEMKLRegressor(bank, **common)
