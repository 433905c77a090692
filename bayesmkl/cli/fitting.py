"""Commands `fit` and `demo`: read and check a table, fit, judge by rows held out, write the folder of a run."""

from __future__ import annotations

import inspect
import json
import time
from collections.abc import Sequence
from fnmatch import fnmatchcase
from itertools import groupby
from pathlib import Path
from types import SimpleNamespace as Options
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator
from sklearn.model_selection import GroupShuffleSplit, train_test_split

from bayesmkl import __version__, bemkl, gp, posterior
from bayesmkl._utils.memory import available_memory, format_bytes, require_memory
from bayesmkl._utils.tables import listed, named
from bayesmkl._utils.validation import counted
from bayesmkl.cli import runs, tables
from bayesmkl.cli.tables import did_you_mean, say
from bayesmkl.datasets import load_wdbc
from bayesmkl.evaluation.metrics import evaluated
from bayesmkl.evaluation.plots import picture
from bayesmkl.evaluation.predictions import Predictions
from bayesmkl.evaluation.study import labels_of
from bayesmkl.kernels import Gaussian, KernelBank, Overlap, Tanimoto
from bayesmkl.kernels.adapters import NAMED, PAIRWISE_NAMES
from bayesmkl.persistence import save_model
from bayesmkl.posterior.contributions import quick_feature_table
from bayesmkl.posterior.fitted import fitted_bemkl

OWN: dict[str, Any] = {"gaussian": Gaussian(relative_width=1.0), "tanimoto": Tanimoto()}
KERNELS = (*NAMED, *OWN, *PAIRWISE_NAMES)
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


# --------------------------------------------------------------------------------------------------------- models


def new_model(options: Options, seen: pd.DataFrame) -> BaseEstimator:
    """Return the estimator of the task and the method, with the parameters that options name.

    `seen` has the columns that kernels may see.
    """
    bank, views = bank_of(options, [str(name) for name in seen])
    made: Any = getattr(
        bemkl if options.method == "bemkl" else gp, runs.estimator_of(options.task, options.method)
    )
    design = gp.Design(covariate_columns=options.covariate, group_columns=options.group)
    given: dict[str, tuple[str, Any]] = {  # parameters
        "--kernel-prior": ("kernel_prior", options.kernel_prior),
        "--likelihood": ("likelihood", options.likelihood),
        "--missing-views": (
            "missing_views",
            None if options.missing_views == "error" else options.missing_views,
        ),
        "--max-iter": ("max_iter", options.max_iter),
        "--level": ("levels", options.level or None),
        "--covariate": ("design", design if options.covariate else None),
        "--group": ("design", design if options.group else None),
    }
    parameters: dict[str, Any] = {"views": views, "random_state": options.seed}
    if options.method == "gpmkl":
        parameters["inference"] = gp.Marginal(n_draws=options.draws)
    known = inspect.signature(made).parameters
    for option, (name, value) in given.items():
        if value is not None and name not in known:
            raise ValueError(
                f"{option} cannot be used with --task {options.task} and --method {options.method}. Leave it "
                "out, or choose another task or method."
            )
        parameters |= {} if value is None else {name: value}
    return made(bank, **parameters)


def bank_of(options: Options, columns: Sequence[str]) -> tuple[KernelBank | None, Any]:
    """Return the kernels on the views that options name, of `columns`; or None for default ones, and the views.

    A view may be named several times, and * and ? stand for any letters.
    """
    views: dict[str, list[str]] = {}
    for name, pattern in _pairs("--view", options.view, "NAME=COLUMN, such as mean='mean_*'"):
        found = [c for c in columns if c == pattern] or [c for c in columns if fnmatchcase(c, pattern)]
        if not found:
            hint = "it is the target." if pattern == options.target else did_you_mean(pattern, columns)
            raise ValueError(f"--view {name}={pattern} names no column to predict from; {hint}")
        own = views.setdefault(name, [])
        own += [column for column in found if column not in own]
    unnamed = [*["all"] * ("all" in options.kernels_on), *(columns if "each" in options.kernels_on else [])]
    unnamed += ["numbers", "categories"] if options.kernels_on == "types" else []
    of_view = {name: list[Any]() for name in views or unnamed}
    for name, word in _pairs("--kernels", options.kernels, "VIEW=KERNEL, such as bits=tanimoto"):
        if name not in of_view:
            raise ValueError(
                f"--kernels is for the view {name!r}, which does not exist; {did_you_mean(name, of_view)}"
            )
        if word not in KERNELS:
            hint = did_you_mean(word, KERNELS)
            raise ValueError(
                f"--kernels {name}={word} names no known kernel; {hint} Python has other kernels."
            )
        of_view[name].append(OWN.get(word, word))
    if not options.kernels:
        return None, views or options.kernels_on
    by_view = {name: own or ["auto"] for name, own in of_view.items()}
    return KernelBank(by_view, views=views or options.kernels_on, scale=True), None


def _pairs(option: str, given: Sequence[str], form: str) -> list[tuple[str, str]]:
    """Cut texts of the form NAME=WORD in two."""
    pairs = []
    for text in given:
        name, _, word = (part.strip() for part in text.partition("="))
        if not name or not word:
            raise ValueError(f"{option} must be {form}; got {text!r}.")
        pairs.append((name, word))
    return pairs


# ------------------------------------------------------------------------------------------------------- commands


def _training(
    features: pd.DataFrame, y: np.ndarray, options: Options
) -> tuple[Any, KernelBank, pd.DataFrame, np.ndarray, np.ndarray]:
    """Return the model to fit, its kernels, what these see, and the positions of rows to fit and of rows held out.

    Kernels see the rows to fit, with the columns of no design.
    """
    train, test = _held_out(features, y, options)
    seen = features.iloc[train].drop(columns=[*options.covariate, *options.group])
    model: Any = new_model(options, seen)
    bank = model.kernels or KernelBank(model._kernels_for(seen), views=model.views, scale=True)
    used = (
        [name for own in bank.views.values() for name in own]
        if isinstance(bank.views, dict)
        else [str(name) for name in seen]
    )
    if options.missing_views == "error":
        tables.check_missing(features, used)
    counts = {
        str(seen.columns[j])
        for _, own in bank.kernels_on(seen)
        for kernel, columns in own
        for j in columns
        if kernel.takes_units and not isinstance(kernel, Overlap)
    }
    tables.check_constant(seen[[name for name in dict.fromkeys(used) if name not in counts]])
    left = [str(name) for name in seen if name not in used]
    if left:
        say(f"Not used, because they are in no view: {listed(left)}.")
    return model, bank, seen, train, test


def _held_out(features: pd.DataFrame, y: np.ndarray, options: Options) -> tuple[np.ndarray, np.ndarray]:
    """Return the positions of rows to fit and of rows to test.

    Classes, grades and events are spread over both; groups of a design stay together, as in comparisons.
    """
    share, seed, rows = options.test_size, options.seed, np.arange(len(y))
    if options.group:
        groups = labels_of(features, [list(features.columns).index(name) for name in options.group])
        if len(np.unique(groups)) < 2:
            raise ValueError(
                f"--group {named(options.group)} connects all rows, so no group can be held out for the "
                "metrics. Leave one of the columns out."
            )
        splitter = GroupShuffleSplit(1, test_size=share, random_state=seed)
        train, test = next(splitter.split(rows, groups=groups))
        say(
            f"Rows held out are those of {counted(len(np.unique(groups[test])), 'group')} of {named(options.group)}."
        )
        return train, test
    spread: Any = None
    if options.task != "regression":
        spread = y["event"] if options.event else np.unique(y, return_inverse=True)[1]
    train, test = train_test_split(rows, test_size=share, random_state=seed, stratify=spread)
    return train, test


def fit_and_write(features: pd.DataFrame, y: np.ndarray, options: Options) -> None:
    """Fit a part of the rows, measure on the others, and write the folder of the run."""
    model, bank, seen, train, test = _training(features, y, options)
    X_train, y_train, X_test, y_test = features.iloc[train], y[train], features.iloc[test], y[test]
    _announce(len(train), bank.training_shape(seen)[0])
    started = time.perf_counter()
    with tables.notes_of_warnings():
        model.fit(X_train, y_train)
    seconds = time.perf_counter() - started
    on_test = Predictions(model, X_test, y_train=y_train)
    with tables.notes_of_warnings():
        metrics = evaluated(
            on_test, y_test, "counts" if options.likelihood in tables.COUNTS else options.task
        )
    fitted_rows = runs.row_hashes(X_train, y_train)
    n_copies = int(np.isin(runs.row_hashes(X_test, y_test), fitted_rows).sum())
    with runs.folder_beside(options.out, options.force) as folder:
        name, axes = picture(on_test, y_test, options.task)
        axes.figure.savefig(folder / name)
        ending = ".parquet" if Path(options.data).suffix.lower() == ".parquet" else ".csv"
        targets = {options.target: y_test}
        if options.event:
            targets = {options.target: y_test["time"], options.event: y_test["event"]}
        tables.write_table(X_test.assign(**targets), folder / f"{runs.HELD_OUT}{ending}")
        np.savetxt(folder / runs.TRAINING_ROWS, fitted_rows, "%d")
        found = _write_posterior(model, folder, options.seed)
        scores = pd.DataFrame(metrics.items(), columns=["metric", "value"])
        tables.write_table(scores, folder / "metrics.csv")
        save_model(model, folder / runs.MODEL)
        n_rows = {"n_train": len(X_train), "n_test": len(X_test)}
        _write_config(folder, model, features, options, n_rows)
        files = sorted(path.name for path in folder.iterdir())
    _print_tables(found)
    tables.show(f"On {len(X_test)} held-out rows", scores.assign(meaning=scores["metric"].map(METRICS)))
    if n_copies:
        say(
            f"{n_copies} of the {len(X_test)} held-out rows are copies of training rows: every column is equal. If "
            "they are the same samples, these metrics are too good. Keep one row of each sample, and fit again."
        )
    say(_ending(model, seconds))
    say(f"The saved model is fitted to {len(X_train)} of {len(features)} rows; metrics are from the others.")
    say(f"Written to {options.out}/: {', '.join(files)}")


def _announce(n_train: int, n_kernels: int) -> None:
    """Report the size of the fit, and raise if it cannot fit into memory."""
    n_bytes = 8 * n_kernels * n_train**2
    remedy = "Use fewer rows, leave columns out with --drop, or use --kernels-on all."
    require_memory(n_bytes, f"a stack of {n_kernels} kernels over {n_train} rows", remedy)
    say(f"Fitting {n_kernels} kernels to {n_train} rows ({format_bytes(n_bytes)} of kernels) ...")


def _write_posterior(model: Any, folder: Path, seed: int) -> dict[str, pd.DataFrame]:
    """Write plots, tables and draws; return the tables."""
    found = {"kernels": posterior.kernel_table(model)}
    found["views"] = posterior.view_table(model, random_state=seed, shares=True)
    if fitted_bemkl(model).selects_kernels:
        found["inclusion"] = posterior.inclusion_table(model)
    design = getattr(model, "design_", None)
    if design is not None and design.has_effects:
        found["effects"] = posterior.effect_table(model)
    slopes = quick_feature_table(model, 0.94, np.random.default_rng(seed))
    if slopes is not None:
        found["features"] = slopes
    for name, table in found.items():
        tables.write_table(table, folder / f"{name}.csv")
    plots: dict[str, Any] = {"kernel_weights": posterior.plot_kernel_weights}
    if "class" not in found["views"]:
        plots["views"] = posterior.plot_views
    if hasattr(model, "elbo_"):
        plots["elbo"] = posterior.plot_elbo
    for name, plot in plots.items():
        plot(model).figure.savefig(folder / f"{name}.png")
    posterior.save_posterior(model, folder / "posterior.nc", random_state=seed)
    return found


def _write_config(
    folder: Path, last: BaseEstimator, features: pd.DataFrame, options: Options, about: dict[str, int]
) -> None:
    classes = getattr(last, "classes_", None)
    config = {
        "format": runs.RUN_FORMAT,
        "version": runs.RUN_VERSION,
        "bayesmkl": __version__,
        **{name: value for name, value in vars(options).items() if name not in ("out", "force", "dry_run")},
        "data": str(options.data),
        "features": list(features.columns),
        "text": tables.may_be_text(features),
        "classes": None if classes is None else classes.tolist(),
        "outcome": fitted_bemkl(last).endings,
    }
    text = json.dumps(config | about, indent=2, ensure_ascii=False)
    (folder / runs.CONFIG).write_text(text + "\n", encoding="utf-8")


# ------------------------------------------------------------------------------------------------------- printing


def _print_tables(found: dict[str, pd.DataFrame]) -> None:
    """Print what the largest kernels and views explain, what is in the model, and effects of a design."""
    sizes = [f"{size}{end}" for size in ("effect", "explained") for end in ("", "_lower", "_upper")]
    for of in ("view", "kernel"):
        table = found[f"{of}s"]
        columns, shown = [*["class"] * ("class" in table), of, *sizes], table
        title = "What views add"
        if of == "kernel":
            shown = table.groupby("class", sort=False).head(5) if "class" in table else table.head(10)
            title = f"The largest of {table[of].nunique()} kernels"
        shown = shown.assign(**{name: 100 * shown[name] for name in sizes[3:]})
        shown = shown[[*columns, *["verdict"] * (of == "view")]]
        tables.show(f"{title}, in % if explained, 94 % intervals by {table['interval_by'].iloc[0]}", shown)
    say(" ".join(found["views"].attrs[name] for name in ("headline", "caption")).strip())
    if "inclusion" in found:
        table = found["inclusion"]
        of, rate = "view" if "view" in table else "kernel", f"{100 * table.attrs['fdr']:.0f} %"
        title = (
            f"{table['selected'].sum()} of {len(table)} {of}s in the model, at most {rate} of them falsely"
        )
        chosen = table["selected"] | table["credible_set"].notna()
        shown = (table[chosen] if chosen.any() else table).astype({"credible_set": object}).fillna("")
        tables.show(title, shown.head(10)[[of, "prob_included", "credible_set"]])
    if "effects" in found:
        table = found["effects"]
        title = f"Effects of columns of the design, with 94 % intervals by {table['interval_by'].iloc[0]}"
        tables.show(title, table[["effect", "kind", "mean", "lower", "upper"]])


def _ending(last: BaseEstimator, seconds: float) -> str:
    """Report in one line how the inference ended."""
    names = {"elbo_": "ELBO", "log_evidence_": "log evidence", "pareto_k_": "k-hat", "rhat_": "R-hat"}
    found = {told: getattr(last, name, np.nan) for name, told in names.items()}
    facts = [f"{told} {value:.2f}" for told, value in found.items() if np.all(np.isfinite(value))]
    return f"{'; '.join(fitted_bemkl(last).endings)} ({', '.join([*facts, f'{seconds:.1f} s'])})."


# -------------------------------------------------------------------------------------------------------- dry run


def print_dry_run(features: pd.DataFrame, y: np.ndarray, options: Options) -> None:
    """Print what would be fitted to the training rows."""
    _, bank, seen, _, _ = _training(features, y, options)
    names = [str(name) for name in seen]
    for view, own in bank.kernels_on(seen):
        for columns, kernels in groupby(own, key=lambda pair: [names[j] for j in pair[1]]):
            say(f"{view.name}: {', '.join(kernel.label for kernel, _ in kernels)} of {listed(columns)}")
    n_kernels, free = bank.training_shape(seen)[0], available_memory()
    memory = "" if free is None else f", of {format_bytes(free)} that are free"
    say(f"{n_kernels} kernels of {len(seen)} rows: {format_bytes(8 * n_kernels * len(seen) ** 2)}{memory}.")
    say("Nothing was written.")


# ----------------------------------------------------------------------------------------------------------- demo

VIEWS = {"mean": "mean *", "error": "* error", "worst": "worst *", "shuffled": "shuffled *"}
LACKING = 0.2  # share of the tumors without the view "error"
STORY = (
    'Is a tumor malignant? Thirty measurements of its cell nuclei, in three views: the "mean" over the cells of a '
    'sample, its standard "error", and the "worst" values. Two things are added: the view "shuffled", the worst '
    'values of other tumors, which cannot help; and gaps: every fifth tumor lacks the view "error".\n'
)


def run_demo(out: Path, seed: int, fast: bool) -> None:
    """Fit the Wisconsin breast cancer data, explain what is printed, and write a report."""
    runs.check_free(out, force=True)
    say(STORY)
    features, labels = tumors(seed, step=3 if fast else 1)
    options = Options(
        data="wdbc",
        target="diagnosis",
        out=out,
        force=True,
        task="classification",
        view=[f"{view}={columns}" for view, columns in VIEWS.items()],
        kernels=[f"{view}=gaussian" for view in VIEWS],
        method="gpmkl",
        missing_views="integrate",
        test_size=0.5,
        seed=seed,
        kernels_on="all+each",
        draws=4000,
        **dict.fromkeys(("event", "likelihood", "kernel_prior", "max_iter")),
        **{name: [] for name in ("level", "category", "covariate", "group", "drop")},
    )
    fit_and_write(features, labels, options)
    runs.run_report(out, None, None, seed)
    say("\n" + _explained(out, labels) + f"\nOpen {out / 'report.html'} in a browser.")


def tumors(seed: int, step: int = 1) -> tuple[pd.DataFrame, np.ndarray]:
    """Return every `step`-th tumor with its label, with a view that says nothing and with gaps in another."""
    wdbc: Any = load_wdbc(as_frame=True)
    rng = np.random.default_rng(seed)
    features = wdbc.data.astype(float).reset_index(drop=True)
    worst = [name for name in features if name.startswith("worst ")]
    others = features[worst].iloc[rng.permutation(len(features))].reset_index(drop=True)
    others = others.rename(columns=lambda name: name.replace("worst", "shuffled"))
    features = pd.concat([features, others], axis=1)
    lacking = rng.permutation(len(features))[: round(LACKING * len(features))]
    features.loc[lacking, [name for name in features if name.endswith(" error")]] = np.nan
    labels = wdbc.target_names[(np.asarray(wdbc.target) + 1) // 2]
    return features[::step].reset_index(drop=True), labels[::step]


def _explained(out: Path, labels: np.ndarray) -> str:
    """Say in a line each what explained variance, an interval and a log loss are, with the numbers of this run."""
    views = pd.read_csv(out / "views.csv", index_col="view")
    metrics = pd.read_csv(out / "metrics.csv", index_col="metric")["value"]
    n_test = json.loads((out / runs.CONFIG).read_text(encoding="utf-8"))["n_test"]
    first, shuffled = views.iloc[0], views.loc["shuffled"]
    frequencies = np.unique(labels, return_counts=True)[1] / len(labels)
    nothing = -float(frequencies @ np.log(frequencies))
    return "\n".join(
        (
            f"Explained: the part of the variance of the outcome that a view accounts for; "
            f'{100 * first["explained"]:.0f} % for "{views.index[0]}".',
            f"Interval: that part is in it with probability 94 %: {100 * first['explained_lower']:.0f} to "
            f'{100 * first["explained_upper"]:.0f} % for "{views.index[0]}", at most '
            f'{max(100 * shuffled["explained_upper"], 0):.0f} % for "shuffled".',
            f"Log loss: minus the log probability of the true label, averaged over the {n_test} tumors held out: "
            f"{metrics['log_loss']:.2f}. Class frequencies alone give {nothing:.2f}, perfect predictions give 0.",
        )
    )
