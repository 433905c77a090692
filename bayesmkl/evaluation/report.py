"""A page about a comparison, or about one model: what matters, how surely, for whom, and what it cannot tell."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.utils import _safe_indexing

from bayesmkl._utils.docstrings import fill_docs
from bayesmkl._utils.files import as_path
from bayesmkl._utils.settings import own_settings
from bayesmkl._utils.survival_target import event_and_time
from bayesmkl._utils.typing import Samples, Targets
from bayesmkl._utils.validation import check_probability, counted, generator_of
from bayesmkl.evaluation.metrics import METRICS, evaluated
from bayesmkl.evaluation.page import (
    MISSING,
    SHORT,
    Block,
    Drawing,
    Heading,
    ModelReport,
    Printed,
    Rows,
    number,
    worded,
)
from bayesmkl.evaluation.plots import (
    picture,
    plot_critical_difference,
    plot_scores,
    plot_survival_functions,
)
from bayesmkl.evaluation.predictions import Predictions
from bayesmkl.evaluation.significance import friedman
from bayesmkl.evaluation.store import environment
from bayesmkl.kernels.bank import CheckedTable
from bayesmkl.kernels.sparse import is_sparse
from bayesmkl.kernels.views import column_names
from bayesmkl.posterior import (
    Diagnosis,
    contributions,
    effect_table,
    inclusion_table,
    kernel_table,
    overall_effect,
    plot_contributions,
    plot_effects,
    predict_survival_function,
    summary,
    task_table,
)
from bayesmkl.posterior.checks import VERDICTS, Section, held_out_predictions
from bayesmkl.posterior.contributions import quick_feature_table
from bayesmkl.posterior.diagnose import diagnosis_of
from bayesmkl.posterior.explained import unit_of
from bayesmkl.posterior.fitted import MODEL, FittedBEMKL, fitted_bemkl
from bayesmkl.posterior.plots import draw_views
from bayesmkl.posterior.summary import Summary

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from bayesmkl.evaluation.comparison import Comparison

ALPHA = 0.05
REFUSALS = (ValueError, ImportError)  # too few models or data sets, a library that is not installed
COSTS = [
    "fit_seconds",
    "predict_seconds",
    "peak_memory_mb",
    "support_fraction",
    "n_active_kernels",
    "converged",
]
N_DRAWS = 1000  # of a diagnosis, in each chain
JUDGED = ("labels", "numbers", "grades")  # outcomes whose held-out predictions a diagnosis judges
TASKS = {
    "labels": "classification",
    "numbers": "regression",
    "counts": "counts",
    "grades": "ordinal",
    "times": "survival",
}
ALONG = np.linspace(0.05, 0.95, 9).tolist()  # quantiles of features, of curves
MOST_CURVES = 20  # features along which curves take seconds
DIFFERENT = 0.99  # part of training samples that must differ for others to be known by their values
RISKS = (0.1, 0.5, 0.9)  # quantiles of predicted risks whose survival is drawn
N_PART_DRAWS = 200  # by which a part's interval is found to hold zero
MOST_SAMPLES = 500  # that are shown one by one
MOST_PARTS = 12  # of a score, in the table of samples
MOST_COLUMNS = 12  # that are named of a view
MOST_OUTPUTS = 6  # with kernel weights of their own, whose views are drawn


@fill_docs(MODEL)
@own_settings
def report_model(
    model: BaseEstimator,
    path: str | os.PathLike[str] | None = None,
    X: Samples | None = None,
    y: Targets | None = None,
    *,
    kernels: ArrayLike | None = None,
    title: str | None = None,
    ci_prob: float = 0.94,
    random_state: int | np.random.Generator | None = None,
) -> ModelReport:
    """Write up a fitted model: the answer first, then predictions, views, effects, checks, samples, and an appendix.

    Parameters
    ----------
    %(model)s
    path : path-like, default=None
        Where to write the page of HTML, such as "report.html". None: nowhere yet, see `ModelReport.write_html`.
    X : samples, default=None
        Samples that the model was not fitted to, as it takes them: they are predicted one by one, and with `y` the
        predictions are judged. Training samples with their targets among them are left out. None: samples of training
        are left out in turn.
    y : array-like of shape (n_rows,) or (n_rows, n_outputs), default=None
        Their targets.
    %(kernels:kept)s
    title : str, default=None
        Head of the page; None names the estimator.
    %(ci_prob)s
    random_state : int, numpy.random.Generator or None, default=None
        Seed or source of draws.

    Returns
    -------
    ModelReport
        With `write_html` and `write_markdown`; printed, it is Markdown. Its parts are

        * Summary: what :func:`bayesmkl.posterior.summary` says;
        * Predictions: metrics of held-out samples, or of training samples by the others, and their calibration;
        * Views: effects and explained variance with intervals, and verdicts, as a picture and a table;
        * Effects: those of a `Design`, slopes and curves of features, correlations of tasks, where there are any;
        * Checks: all verdicts of :func:`bayesmkl.posterior.diagnose`, with what to do;
        * Samples: what every view adds to the score of each of at most 500 samples of `X`, by
          :func:`bayesmkl.posterior.contributions`;
        * Appendix: data, kernels, inclusion probabilities under a spike-and-slab prior, all numbers of the checks,
          parameters, versions. Long tables are folded.

    Raises
    ------
    TypeError
        If `model` is none that :func:`bayesmkl.posterior.diagnose` takes, or `path` is no path.
    NotFittedError
        Before `fit`.
    ValueError
        If there is `y` without `X`, if `X` and `y` do not fit to the model, or if nothing can be written to `path`.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesmkl import BEMKLRegressor, KernelBank
    >>> from bayesmkl.evaluation import report_model
    >>> X = np.random.default_rng(0).normal(size=(60, 2))
    >>> y = np.sin(2 * X[:, 0])
    >>> model = BEMKLRegressor(KernelBank(["rbf"], views="each")).fit(X[:40], y[:40])
    >>> report = report_model(model, X=X[40:], y=y[40:], random_state=0)  # "report.html" after `model` writes it
    >>> list(report.parts)
    ['Summary', 'Predictions', 'Views', 'Effects', 'Checks', 'Samples', 'Appendix']
    """
    path = None if path is None else as_path("path", path)
    if y is not None and X is None:
        raise ValueError("`y` must be None without `X`, the samples that it is the target of. Pass both.")
    ci_prob = check_probability("ci_prob", ci_prob)
    rng = generator_of("random_state", random_state)
    fitted = fitted_bemkl(model, of_outcome=False)
    told = ""
    if y is not None:
        y = _times(*event_and_time(y)) if fitted.outcome == "times" else np.asarray(y)
        X, y, told = _unseen(fitted, X, y)
    on_test = None if X is None else Predictions(model, X, y_train=_training_times(fitted))
    held_out = None
    if on_test is not None and y is not None and fitted.outcome in JUDGED:
        classes = fitted.is_classifier or fitted.outcome == "grades"
        held_out = held_out_predictions(fitted, on_test.as_model() if classes else model, X, y)
    diagnosis = diagnosis_of(fitted, held_out, kernels, N_DRAWS, ci_prob, rng)
    found = summary(model, ci_prob, kernels=kernels)
    about = Reported(model, fitted, X, y, on_test, diagnosis, ci_prob, rng, found, kernels)
    parts: dict[str, Sequence[Block]] = {
        "Summary": _summary(about),
        "Predictions": [*([told] if told else []), *_predictions(about)],
        "Views": _views(about),
        "Effects": _effects(about),
        "Checks": _checks(about),
        "Samples": _samples(about),
        "Appendix": [*_data(about), *_kernels(about), *_details(about), *_computation(about)],
    }
    name = type(fitted.estimator).__name__
    report = ModelReport(title or name, found.lines[0], {name: own for name, own in parts.items() if own})
    if path is not None:
        report.write_html(path)
    return report


def _unseen(fitted: FittedBEMKL, X: Any, y: Any) -> tuple[Any, Any, str]:
    """Leave training samples out, which are known by their values if nearly all of them differ, and say so."""
    bank = fitted.estimator.kernel_bank_
    if bank is None or is_sparse(bank.X_train_) or bank.X_train_ is bank.landmarks_:
        return X, y, ""
    columns, rows = bank._used_columns(), fitted.estimator._validate_rows(fitted.transform(X))
    known, given = ([row.tobytes() for row in table[:, columns] + 0.0] for table in (bank.X_train_, rows))
    different = set(known)
    are_new = np.array([row not in different for row in given])
    if are_new.all() or len(different) < DIFFERENT * len(known):
        return X, y, ""
    kept, n_seen = np.flatnonzero(are_new), int((~are_new).sum())
    told = f"{n_seen} of the {len(given)} samples are training samples. They are not judged."
    return (_safe_indexing(X, kept), y[kept], told) if len(kept) else (None, None, told)


class Reported(NamedTuple):
    """A fitted model, held-out samples, if there are some, and what was found out about both."""

    model: BaseEstimator
    fitted: FittedBEMKL
    X: Any
    y: Any
    on_test: Predictions | None
    diagnosis: Diagnosis
    ci_prob: float
    rng: np.random.Generator
    found: Summary
    training_kernels: Any = None  # where the model does not keep precomputed ones

    @property
    def sections(self) -> dict[str, Section]:
        """Sections of the diagnosis by their keys."""
        return {section.key: section for section in self.diagnosis.sections}

    @property
    def bank(self) -> Any:
        """The kernels, None where they were precomputed."""
        return self.fitted.estimator.kernel_bank_


def _summary(about: Reported) -> list[Block]:
    """Say what one would say first."""
    sections = about.sections.values()
    doubts = [f"{s.title} ({s.verdict})" for s in sections if s.verdict in VERDICTS[2:]]
    care = f"Read with care, for the reasons that these checks give: {', '.join(doubts)}."
    return [[*about.found.sentences, care if doubts else "No check of the posterior speaks against it."]]


def _data(about: Reported) -> list[Block]:
    """Say which columns the model was fitted to."""
    fitted, bank, rows = about.fitted, about.bank, []
    if bank is None:
        return ["Kernels were precomputed."]
    names = column_names(bank.n_features_in_, bank.column_labels_)
    for view, present in zip(bank.views_, bank.present_, strict=True):
        n_columns, first = len(view.columns), ", ".join(names[j] for j in view.columns[:MOST_COLUMNS])
        more = f" and {n_columns - MOST_COLUMNS} more" if n_columns > MOST_COLUMNS else ""
        own = {"view": view.name, "columns": n_columns, "such as": first + more}
        n_kernels = (fitted.kernel_views or []).count(view.name)
        rows.append({**own, "kernels": n_kernels, "samples without it": int((~present).sum())})
    return [Heading("Columns"), Rows(pd.DataFrame(rows), "columns of views")]


def _views(about: Reported) -> list[Block]:
    """Say what matters; of many views the first ones and the last two rows."""
    fitted, table = about.fitted, about.found.table
    blocks: list[Block] = [table.attrs["caption"]] if table.attrs["caption"] else []
    for output in [None] if fitted.class_labels is None else fitted.class_labels[:MOST_OUTPUTS]:
        own = table if output is None else table[table.iloc[:, 0] == output]
        own = own if len(own) <= SHORT else pd.concat([own[: SHORT - 2], own[-2:]])
        of_output = "" if output is None else f" of {fitted.output_kind} {output}"
        axes = draw_views(own, unit_of(fitted), about.ci_prob, output)
        blocks.append(Drawing.of(axes, f"Effects of views{of_output}, and variance that they explain."))
        blocks.append(Rows(_readable(own), f"effects of views{of_output}"))
    return blocks


def _effects(about: Reported) -> list[Block]:
    """Say how the outcome follows covariates, groups, tasks and features."""
    blocks: list[Block] = []
    design = getattr(about.fitted.estimator, "design_", None)
    if design is not None and design.has_effects:
        table = effect_table(about.model, about.ci_prob)
        blocks += [Heading("Covariates and groups"), Rows(_readable(table), "covariates and groups")]
    if design is not None and design.has_tasks:
        blocks += [Heading("Tasks"), Rows(_readable(task_table(about.model)), "correlations of tasks")]
    slopes = quick_feature_table(about.model, about.ci_prob, np.random.default_rng(0))
    if slopes is not None:
        said = f"Average slopes of the score, by standard deviations of features. {slopes.attrs['caption']}"
        table_of_slopes = Rows(_readable(slopes[:SHORT]), "slopes")
        blocks += [Heading("Features"), said.strip(), table_of_slopes, *_curves(about)]
    return blocks


def _curves(about: Reported) -> list[Block]:
    """Draw how the outcome changes along the features of views without categories, if these are few."""
    fitted, bank, percent = about.fitted, about.bank, f"{100 * about.ci_prob:g} %"
    pairs = zip(bank.views_, bank.numbers_of_views(), strict=True)
    views = [view for view, numbers in pairs if len(numbers) == len(view.columns)]
    if not 0 < sum(len(view.columns) for view in views) <= MOST_CURVES:
        return []
    rows: Any = CheckedTable(bank.X_train_, None, bank.column_labels_)
    asked: dict[str, Any] = {"by": "feature", "views": [view.name for view in views]}
    try:
        table = overall_effect(fitted.estimator, rows, ALONG, **asked, ci_prob=about.ci_prob, random_state=0)
    except (TypeError, ValueError):  # features that do not vary, tasks
        return []
    output = None if fitted.output_names is None else fitted.output_names[0]
    of_output = "" if output is None else f" of {fitted.output_kind} {output}"
    said = f"Change{of_output} along one feature, others at their medians, with {percent} bands."
    return [Drawing.of(plot_effects(table, output)[0], said)]


def _kernels(about: Reported) -> list[Block]:
    """List all views and kernels."""
    fitted, options = about.fitted, {"ci_prob": about.ci_prob, "kernels": about.training_kernels}
    table = about.found.table
    blocks: list[Block] = []
    if len(table) > SHORT:
        blocks += [Heading("All views"), Rows(_readable(table), "all views")]
    blocks += [Heading("Kernels"), Rows(_readable(kernel_table(about.model, **options)), "kernels")]
    if fitted.selects_kernels:
        table = inclusion_table(about.model)
        listed = f"Of the selected, at most {100 * table.attrs['fdr']:.0f} % are expected to be false."
        blocks += [Heading("What is in the model"), listed, Rows(_readable(table), "inclusion")]
    return blocks


def _predictions(about: Reported) -> list[Block]:
    """Judge predictions of samples that the model was not fitted to."""
    fitted, section = about.fitted, about.sections["calibration"]
    blocks: list[Block] = []
    on_test, classes = about.on_test, fitted.is_classifier and fitted.output_kind == "class"
    of_one = fitted.output_names is None or classes  # of which a sample has one
    if on_test is not None and about.y is not None and of_one:
        task, y = TASKS[fitted.outcome], np.asarray(about.y)
        metrics = evaluated(on_test, y, task)
        blocks.append({"held-out samples": len(y)} | {name: number(v) for name, v in metrics.items()})
        _, axes = picture(on_test, y, task)
        blocks.append(Drawing.of(axes, "Held-out samples: what was predicted, and what came true."))
    elif about.y is None:
        blocks.append("No held-out samples were given: training samples are left out in turn.")
    blocks += [*_survival_curves(about), Heading(f"{section.title}: {section.verdict}")]
    blocks += [Printed(section.lines)] if section.lines else []
    return [*blocks, section.advice]


def _samples(about: Reported) -> list[Block]:
    """Split the scores of samples into what views add."""
    fitted, X = about.fitted, about.X
    if X is None:
        return []
    n_rows = np.shape(X)[0]
    if n_rows > MOST_SAMPLES:
        X = X.iloc[:MOST_SAMPLES] if hasattr(X, "iloc") else X[:MOST_SAMPLES]
    found = contributions(about.model, X, ci_prob=about.ci_prob, n_draws=N_PART_DRAWS, random_state=about.rng)
    blocks: list[Block] = [
        f"What every {found['kind'].values[0]} adds to the score of samples: parts of a row sum to its score. A part "
        f"whose {100 * about.ci_prob:.0f} % interval holds zero has a question mark."
    ]
    if about.bank is not None and not about.bank.are_centered():
        blocks.append(
            "Kernels that are not centered share a constant with the intercept: the sign of a part is less "
            'sure than its differences between samples are. With KernelBank(..., normalize="center") parts are '
            "differences from the mean training sample."
        )
    if n_rows > MOST_SAMPLES:
        blocks.append(f"The first {MOST_SAMPLES} of {n_rows} samples.")
    output = None if fitted.output_names is None else fitted.output_names[0]
    one = found if output is None else found.sel({fitted.output_kind: output})
    if output is not None:
        blocks.append(f"Scores are those of {fitted.output_kind} {output!r}.")
    drawing = Drawing.of(
        plot_contributions(found, output), f"Parts of the scores of {counted(len(one['sample']), 'sample')}."
    )
    return [*blocks, drawing, Rows(_table_of_samples(about, one, X), "parts")]


def _table_of_samples(about: Reported, found: Any, X: Any) -> pd.DataFrame:
    mean, n_samples = found["mean"].values, len(found["sample"])
    frame = pd.DataFrame({"sample": [str(label) for label in found["sample"].values]})
    if about.y is not None and np.ndim(about.y) == 1 and np.asarray(about.y).dtype.names is None:
        frame["target"] = np.asarray(about.y)[:n_samples]
    predicted = about.on_test.labels() if about.on_test else np.empty((0, 0))
    if predicted.ndim == 1:
        frame["prediction"] = predicted[:n_samples]
    frame["score"] = found["score"].values
    is_sure = np.ones(mean.shape, dtype=bool)
    if "interval" in found:
        low, high = found["interval"].values
        is_sure = (low > 0.0) | (high < 0.0)
    largest = np.argsort(-np.abs(mean).mean(axis=0), kind="stable")[:MOST_PARTS]
    for p in np.sort(largest):
        name = str(found["part"].values[p])
        frame[f"{name} (part)" if name in frame else name] = [
            f"{value:+.2f}{'' if sure else '?'}"
            for value, sure in zip(mean[:, p], is_sure[:, p], strict=True)
        ]
    return frame


def _checks(about: Reported) -> list[Block]:
    """Say what the model cannot tell, and what to do."""
    return [[f"{own.title}: {own.verdict}. {own.advice}" for own in about.sections.values()]]


def _details(about: Reported) -> list[Block]:
    """List the numbers of the checks."""
    return [
        block
        for key, section in about.sections.items()
        if section.lines and key != "calibration"  # which is with the predictions
        for block in (Heading(section.title), Printed(section.lines))
    ]


def _computation(about: Reported) -> list[Block]:
    """Say how it was computed."""
    estimator = about.fitted.estimator
    values: dict[str, Any] = {"estimator": repr(estimator), "inference": "; ".join(about.fitted.endings)}
    for name in ("elbo_", "log_evidence_", "pareto_k_", "ess_", "rhat_", "n_evaluations_", "n_iter_"):
        value: Any = getattr(estimator, name, None)
        if np.ndim(value) == 0 and value is not None and np.isfinite(value):
            values[name.removesuffix("_")] = number(value)
    steps = [type(step).__name__ for step in about.fitted.transformers]
    values["before the estimator"] = ", ".join(steps) or None
    return [Heading("Parameters"), values, Heading("Versions"), environment()]


def _readable(table: pd.DataFrame) -> pd.DataFrame:
    """Return a table with heads in words, without Monte Carlo errors."""
    return worded(table[[name for name in table.columns if not str(name).endswith("_mcse")]])


def _survival_curves(about: Reported) -> list[Block]:
    """Draw the survival of samples of low, middle and high risk over time, with bands."""
    if about.X is None or about.fitted.outcome != "times":
        return []
    risk = np.asarray(about.model.predict(about.X))
    places = np.unique(np.rint(np.array(RISKS) * (len(risk) - 1)).astype(int))
    chosen, times = np.argsort(risk, kind="stable")[places], about.fitted.estimator.event_times_
    rows = _safe_indexing(about.X, chosen)
    bands = predict_survival_function(about.model, rows, times, about.ci_prob)
    labels = rows.index if isinstance(rows, pd.DataFrame) else chosen
    axes = plot_survival_functions(times, *bands, names=[f"sample {label}" for label in labels])
    said = f"Survival of samples of low, middle and high risk, with {100 * about.ci_prob:g} % bands."
    return [Drawing.of(axes, said)]


def _training_times(fitted: FittedBEMKL) -> Any:
    """Return times of training and whether their event was seen, of times to an event."""
    if fitted.outcome != "times":
        return None
    return _times(fitted.estimator.target_[0] == fitted.estimator.target_[1], fitted.target)


def _times(event: np.ndarray, time: np.ndarray) -> np.ndarray:
    """Return events and times as an array with these fields."""
    found = np.empty(len(time), dtype=[("event", bool), ("time", float)])
    found["event"], found["time"] = event, time
    return found


# -------------------------------------------------------------------------------------------------------- comparisons


def write_report(
    comparison: Comparison,
    path: str | os.PathLike[str],
    title: str = "Comparison of models",
    metrics: Sequence[str] | None = None,
) -> Path:
    """Write a comparison as one self-contained page of HTML; see :meth:`Comparison.to_html`.

    A page that is there is replaced, at once and only when the new one is complete.
    """
    chosen = [comparison._metric(name) for name in ([None] if metrics is None else metrics)]
    parts: dict[str, list[Block]] = {
        "Scores": _scores(comparison),
        "Failures and warnings": _failures(comparison),
        "Ranks": [block for metric in chosen for block in _ranks(comparison, metric)],
        "Differences": [block for metric in chosen for block in _differences(comparison, metric)],
        "Plots": [
            _drawn(plot_scores, f"{_title(metric)} of every model on every split", comparison, metric)
            for metric in chosen
        ],
        "Cost and sparsity": _costs(comparison),
        "Protocol": _protocol(comparison),
        "Environment": [dict(comparison.about.get("environment", {}))],
    }
    return ModelReport(
        title, _facts_of_comparison(comparison), {k: v for k, v in parts.items() if v}
    ).write_html(path)


def _facts_of_comparison(comparison: Comparison) -> str:
    """Say in a line what was compared, and when."""
    about = comparison.about
    sizes = [
        counted(len(comparison.models), "model"),
        counted(len(comparison.datasets), "data set"),
        counted(len(comparison.cells), "fit"),
    ]
    when = [f"started {about['started']}"] if about.get("started") else []
    when += [f"{number(about['seconds'], 1)} s"] if about.get("seconds") is not None else []
    return " · ".join([*sizes, *when])


def _title(metric: str) -> str:
    return METRICS[metric].title if metric in METRICS else metric


def _scores(comparison: Comparison) -> list[Block]:
    cells = comparison.cells
    n_failed = int((cells["error"] != "").sum())
    blocks: list[Block] = []
    if n_failed:
        blocks.append(
            f"{n_failed} of {counted(len(cells), 'fit')} failed. Means are over the splits that succeeded."
        )
    blocks.append(
        "Mean ± standard deviation over splits. A star is at the best mean of each data set among models that "
        "succeeded on all of its splits; differences below say which of them are real."
    )
    for metric in comparison.metrics:
        better = "higher" if comparison.about["metrics"][metric] else "lower"
        blocks += [Heading(f"{_title(metric)} ({better} is better)"), _score_table(comparison, metric)]
    return blocks


def _score_table(comparison: Comparison, metric: str) -> Rows:
    """Return a row per model and a column per data set."""
    n_splits = comparison.cells.groupby("dataset")["split"].nunique()
    found = {(row["dataset"], row["model"]): row for row in comparison.summary(metric).to_dict("records")}

    def cell(dataset: str, model: str) -> str:
        row, n = found.get((dataset, model)), n_splits[dataset]
        if row is None or row["n"] == 0:
            return "failed" if row is not None and row["failed"] else MISSING
        mean, std = number(row["mean"]), row["std"]
        text = mean if np.isnan(std) else f"{mean} ± {number(std)}"
        return f"{text} ({row['n']} of {n})" if row["n"] < n else f"{text} *" if row["best"] else text

    frame = pd.DataFrame(index=pd.Index(comparison.models, name="model"))
    columns = [[cell(dataset, model) for model in comparison.models] for dataset in comparison.datasets]
    frame[comparison.datasets] = np.transpose(columns)
    return Rows(frame.reset_index(), f"scores {metric}")


def _failures(comparison: Comparison) -> list[Block]:
    """Return failures and warnings; nothing without any."""
    blocks: list[Block] = []
    for what, title in (("error", "Fits that failed"), ("note", "Warnings")):
        cells = comparison.cells[comparison.cells[what] != ""]
        groups: Any = cells.groupby(["model", "dataset", what], sort=False)["split"]
        rows = [
            (model, dataset, ", ".join(map(str, splits)), message)
            for (model, dataset, message), splits in groups
        ]
        if rows:
            frame = pd.DataFrame(rows, columns=["model", "data set", "splits", what])
            blocks += [Heading(title), Rows(frame, f"{what}s")]
    return blocks


def _ranks(comparison: Comparison, metric: str) -> list[Block]:
    """Return mean ranks over data sets, Friedman's test and the critical-difference diagram, or what is missing."""
    title = _title(metric)
    if len(comparison.datasets) < 2:
        return [Heading(title), "Ranks are means over data sets, and this comparison has one."]
    if comparison.cells[metric].isna().all():
        return [Heading(title), "No model has a score."]
    table = comparison.ranks(metric).rename_axis("model").reset_index()
    blocks: list[Block] = [Heading(title), Rows(worded(table.drop(columns="n")), f"ranks {metric}")]
    try:
        tested = friedman(comparison.scores(metric), comparison.about["metrics"][metric])
    except REFUSALS as reason:
        return [*blocks, str(reason)]
    said = (
        f"Friedman's test that {tested.n_models} models rank alike over {tested.n_datasets} data sets: "
        f"χ² = {number(tested.statistic)}, p = {number(tested.p_value)}; in the form of Iman and Davenport "
        f"F = {number(tested.f_statistic)}, p = {number(tested.f_p_value)}."
    )
    caption = f"Mean ranks by {title}; lines join models that Nemenyi's test cannot tell apart"
    return [*blocks, said, _drawn(plot_critical_difference, caption, comparison, metric)]


def _differences(comparison: Comparison, metric: str) -> list[Block]:
    """Return tests of all pairs of models on every data set."""
    title = _title(metric)
    try:
        pairs = comparison.significance(metric, alpha=ALPHA)
    except REFUSALS as reason:
        return [Heading(title), str(reason)]
    explained = (
        "Two-sided corrected resampled t-test (Nadeau and Bengio) over the splits of each data set. P-values are "
        f"corrected by Holm's procedure for the number of pairs of a data set; below {ALPHA:g}, one of the two "
        f"counts as better. From lower to upper is the mean difference of a pair alone with {100 * (1 - ALPHA):g} % "
        "confidence."
    )
    table = pairs.drop(columns="n")
    table["dataset"] = table["dataset"].replace("", comparison.datasets[0])
    return [Heading(title), explained, Rows(worded(table), f"pairs {metric}")]


def _drawn(plot: Callable[..., Axes], caption: str, *given: Any) -> Block:
    """Return a plot as a picture, or the reason why there is none."""
    try:
        return Drawing.of(plot(*given), caption)
    except REFUSALS as reason:
        return str(reason)


def _costs(comparison: Comparison) -> list[Block]:
    """Return seconds, memory, support points and active kernels, means over the splits that succeeded."""
    cells = comparison.cells[comparison.cells["error"] == ""]
    names = [name for name in COSTS if name in cells and cells[name].notna().any()]
    means = cells.groupby(["model", "dataset"], sort=False)[names].mean().reset_index()
    return ["Means over the splits on which the model succeeded.", Rows(worded(means), "costs")]


def _protocol(comparison: Comparison) -> list[Block]:
    about = comparison.about
    facts = pd.DataFrame.from_dict(about.get("datasets", {}), orient="index", dtype=object)
    splits = comparison.cells.groupby("dataset", sort=False)[["split", "n_train", "n_test"]].agg(
        {"split": "nunique", "n_train": "mean", "n_test": "mean"}
    )
    table = facts.dropna(axis="columns", how="all").join(splits, how="right").rename_axis("data set")
    blocks: list[Block] = [
        "All models were fitted to the same training rows of every split and scored on the same test rows.",
        {"metrics": ", ".join(comparison.metrics)} | {k: about.get(k) for k in ("random_state", "cv")},
        Heading("Data"),
        Rows(worded(table.reset_index()), "data sets"),
        Heading("Models"),
        Rows(pd.DataFrame(about["models"].items(), columns=["model", "estimator"]), "models"),
    ]
    if about.get("config"):
        blocks += [Heading("Configuration"), Printed(str(about["config"]).splitlines())]
    return blocks
