"""The parts of a report on one model."""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator

from bayesmkl import __version__
from bayesmkl.evaluation.held_out import evaluated, picture
from bayesmkl.evaluation.predictions import Predictions
from bayesmkl.evaluation.report.blocks import Block, Drawing, Facts, Heading, Items, Paragraph, Printed, Rows
from bayesmkl.evaluation.report.markup import counted, number
from bayesmkl.evaluation.store import environment
from bayesmkl.kernels.views import column_names
from bayesmkl.posterior import (
    Diagnosis,
    contributions,
    effect_table,
    inclusion_table,
    kernel_table,
    plot_contributions,
    plot_features,
    plot_kernel_weights,
    relevance,
    task_table,
    view_table,
)
from bayesmkl.posterior.features import quick_feature_table
from bayesmkl.posterior.fitted import FittedBEMKL
from bayesmkl.posterior.report import VERDICTS, Section

TASKS = {
    "labels": "classification",
    "numbers": "regression",
    "counts": "counts",
    "grades": "ordinal",
    "times": "survival",
}
N_DRAWS = 200  # by which a part's interval is found to hold zero
MOST_SAMPLES = 500  # that are shown one by one
MOST_PARTS = 12  # of a score, in the table of samples
MOST_COLUMNS = 12  # that are named of a view
INTERVAL = ["share", "share_lower", "share_upper", "interval_by"]
PAPERS = {
    True: "C. E. Rasmussen and C. K. I. Williams (2006). Gaussian processes for machine learning. MIT Press. "
    "(Additive Gaussian processes and their evidence.)",
    False: "M. Gönen (2012). Bayesian efficient multiple kernel learning. Proceedings of the 29th International "
    "Conference on Machine Learning.",
}


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
    training_kernels: Any = None  # where the model does not keep precomputed ones

    @property
    def sections(self) -> dict[str, Section]:
        """Sections of the diagnosis by their keys."""
        return {section.key: section for section in self.diagnosis.sections}

    @property
    def has_views(self) -> bool:
        """Whether there are several views."""
        return len(set(self.fitted.kernel_views or [])) > 1

    @property
    def bank(self) -> Any:
        """The kernels, None where they were precomputed."""
        return self.fitted.estimator.kernel_bank_


def facts(about: Reported) -> str:
    """Say in one line what was fitted to what."""
    fitted = about.fitted
    pieces = [
        type(fitted.estimator).__name__,
        f"{fitted.n_samples} training samples",
        counted(len(fitted.kernel_names), "kernel"),
    ]
    if fitted.kernel_views is not None:
        pieces.append(counted(len(set(fitted.kernel_views)), "view"))
    if about.X is not None:
        pieces.append(f"{_n_rows(about.X)} held-out samples")
    return " · ".join([*pieces, f"bayesmkl {__version__}"])


def summary(about: Reported) -> list[Block]:
    """Say what one would say first."""
    sections = about.sections
    items = [sections["signal"].advice]
    table = _shares(about)
    first = table.columns[0]
    named = [
        f"{row[first]} {row['share']:.2f} [{row['share_lower']:.2f}, {row['share_upper']:.2f}]"
        for _, row in table.head(6).iterrows()
    ]
    left = len(table) - len(named)
    more = f"; {counted(left, 'further one')}" if left else ""
    how = f"{100 * about.ci_prob:.0f} % intervals by {'/'.join(table['interval_by'].unique())}"
    items.append(f"Shares of the score, with {how}: {', '.join(named)}{more}.")
    judged = sections["calibration"]
    if judged.lines:
        items.append(" ".join(judged.lines[:2]))
    doubts = [s for s in sections.values() if VERDICTS.index(s.verdict) >= VERDICTS.index("caution")]
    if doubts:
        names = ", ".join(f"{s.title} ({s.verdict})" for s in doubts)
        items.append(f"Read with care, for the reasons that these checks give: {names}.")
    else:
        items.append("No check of the posterior speaks against it.")
    return [Items(items)]


def data(about: Reported) -> list[Block]:
    """Say what the model was fitted to."""
    fitted, bank = about.fitted, about.bank
    values: dict[str, Any] = {"training samples": fitted.n_samples}
    values |= _about_target(fitted)
    if about.X is not None:
        values["held-out samples"] = _n_rows(about.X)
    if bank is None:
        return [Facts(values | {"kernels": "precomputed"})]
    labels = getattr(bank, "column_labels_", None)
    names = column_names(bank.n_features_in_, labels)
    values["columns"] = bank.n_features_in_
    rows = []
    for view, present in zip(bank.views_, bank.present_, strict=True):
        own = [names[j] for j in view.columns[:MOST_COLUMNS]]
        more = len(view.columns) - len(own)
        rows.append(
            {
                "view": view.name,
                "columns": len(view.columns),
                "kernels": (fitted.kernel_views or []).count(view.name),
                "samples without it": int((~present).sum()),
                "such as": ", ".join(own) + (f" and {more} more" if more else ""),
            }
        )
    return [Facts(values), Rows(pd.DataFrame(rows), "views", fold=f"{len(rows)} views")]


def _about_target(fitted: FittedBEMKL) -> dict[str, Any]:
    """Describe the target of training."""
    target = np.asarray(fitted.target)
    if fitted.outcome in ("labels", "grades"):
        if target.ndim > 1:
            return {"labels": ", ".join(f"{n}" for n in fitted.output_names or [])}
        values, counts = np.unique(target, return_counts=True)
        named = [f"{value} ({n})" for value, n in zip(values, counts, strict=True)]
        return {"grades" if fitted.outcome == "grades" else "classes": ", ".join(named)}
    if target.ndim > 1:
        return {"targets": target.shape[1]}
    low, middle, high = (number(v) for v in np.quantile(target, [0.0, 0.5, 1.0]))
    return {"target": f"{fitted.outcome} from {low} to {high}, median {middle}"}


def views(about: Reported, refits: bool) -> list[Block]:
    """Say what matters."""
    fitted, percent = about.fitted, f"{100 * about.ci_prob:.0f} %"
    of_what = "part of the variance of the score" if fitted.is_marginal else "part of the score"
    intro = f"A share is the {of_what} that a view or kernel accounts for; intervals are of {percent}."
    blocks: list[Block] = [Paragraph(intro)]
    axes = plot_kernel_weights(
        about.model, ci_prob=about.ci_prob, by_view=about.has_views, kernels=about.training_kernels
    )
    kernels = kernel_table(about.model, ci_prob=about.ci_prob, kernels=about.training_kernels)
    if about.has_views:
        blocks.append(Rows(_readable(_shares(about)), "shares of views"))
    blocks.append(Drawing.of(axes, f"Shares of kernels with {percent} intervals."))
    whole = Rows(_readable(kernels), "shares of kernels", fold=f"All {len(kernels)} kernels")
    blocks.append(whole)
    if fitted.selects_kernels:
        blocks += _inclusion(about)
    if refits:
        needed = relevance(about.model, kernels=about.training_kernels, random_state=about.rng)
        blocks += [Heading("What predictions need"), Rows(_readable(needed), "relevance")]
    design = getattr(fitted.estimator, "design_", None)
    if design is not None and design.has_effects:
        blocks += [Heading("Effects"), Rows(_readable(effect_table(about.model, about.ci_prob)), "effects")]
    if design is not None and design.has_tasks:
        blocks += [Heading("Tasks"), Rows(_readable(task_table(about.model)), "correlations of tasks")]
    return blocks


def _inclusion(about: Reported) -> list[Block]:
    """Say which views or kernels are in the model, under a prior that leaves some out."""
    # of alternatives, which the table has
    with warnings.catch_warnings(action="ignore", category=UserWarning):
        table = inclusion_table(about.model)
    of_what = "view" if "view" in table else "kernel"
    listed = (
        f"The list of selected {of_what}s is the longest of which at most {100 * table.attrs['fdr']:.0f} % are "
        "expected to be false. An alternative is in the model nearly wherever its row is not."
    )
    fold = f"All {len(table)} {of_what}s"
    return [
        Heading("What is in the model"),
        Paragraph(listed),
        Rows(_readable(table), "inclusion", fold=fold),
    ]


def features(about: Reported) -> list[Block]:
    """Say along which features the score rises or falls."""
    table = quick_feature_table(about.model, about.ci_prob, about.rng)
    if table is None:
        return [
            Paragraph(
                "No slopes: there are none of these kernels, of gates, missing views and tasks, or they would take "
                "more than some seconds. feature_table(model) says which, or takes the time."
            )
        ]
    kind, output = about.fitted.output_kind, None
    blocks: list[Block] = [
        Paragraph(
            "The slope of the score for one standard deviation of a feature, all others held where they are, "
            "averaged over the training samples. Its size is the root mean square, large also where the score rises "
            "and falls."
        )
    ]
    if kind in table:
        output = table[kind].iloc[0]
        blocks.append(Paragraph(f"The plot is of {kind} {str(output)!r}."))
    blocks.append(Drawing.of(plot_features(table, output), "Average slopes of the score."))
    return [*blocks, Rows(_readable(table), "slopes", fold=f"All {len(table)} slopes")]


def predictions(about: Reported) -> list[Block]:
    """Judge predictions of samples that the model was not fitted to."""
    fitted, section = about.fitted, about.sections["calibration"]
    blocks: list[Block] = []
    on_test, of_one = about.on_test, fitted.output_names is None or _competes(fitted)
    if on_test is not None and about.y is not None and of_one:
        task, y = TASKS[fitted.outcome], np.asarray(about.y)
        metrics = evaluated(on_test, y, task)
        blocks.append(Facts({"held-out samples": len(y)} | {name: number(v) for name, v in metrics.items()}))
        _, axes = picture(on_test, y, task)
        blocks.append(Drawing.of(axes, "Held-out samples: what was predicted, and what came true."))
    elif about.y is None:
        blocks.append(Paragraph("No held-out samples were given: training samples are left out in turn."))
    blocks.append(Heading(f"{section.title}: {section.verdict}"))
    return [*blocks, *_of_section(section)]


def samples(about: Reported) -> list[Block]:
    """Split the scores of samples into what views add."""
    fitted, X, model = about.fitted, about.X, about.model
    whose = "held-out"
    if X is None:
        if about.bank is None or fitted.has_landmarks:
            return [Paragraph("Pass samples as `X` to have their scores split into the parts of views.")]
        names = getattr(fitted.estimator, "feature_names_in_", None)
        X, model, whose = pd.DataFrame(about.bank.X_train_, columns=names), fitted.estimator, "training"
        for column, labels in getattr(fitted.estimator, "group_labels_", ()):  # which are text there
            X[column] = [labels[int(code)] for code in X[column]]
        X = X if names is not None else X.to_numpy()
    n_rows = _n_rows(X)
    if n_rows > MOST_SAMPLES:
        X = X.iloc[:MOST_SAMPLES] if hasattr(X, "iloc") else X[:MOST_SAMPLES]
    found = contributions(model, X, ci_prob=about.ci_prob, n_draws=N_DRAWS, random_state=about.rng)
    kind = str(found["kind"].values[0])
    blocks: list[Block] = [
        Paragraph(
            f"What every {kind} adds to the score of {whose} samples: parts of a row sum to its score. A part whose "
            f"{100 * about.ci_prob:.0f} % interval holds zero has a question mark."
        )
    ]
    if about.bank is not None and not about.bank.are_centered():
        blocks.append(
            Paragraph(
                "Kernels that are not centered share a constant with the intercept: the sign of a part is less "
                'sure than its differences between samples are. With KernelBank(..., normalize="center") parts are '
                "differences from the mean training sample."
            )
        )
    if n_rows > MOST_SAMPLES:
        blocks.append(Paragraph(f"The first {MOST_SAMPLES} of {n_rows} samples."))
    output = None if fitted.output_names is None else fitted.output_names[0]
    one = found if output is None else found.sel({fitted.output_kind: output})
    if output is not None:
        blocks.append(Paragraph(f"Scores are those of {fitted.output_kind} {output!r}."))
    axes = plot_contributions(found, output)
    blocks.append(Drawing.of(axes, f"Parts of the scores of {counted(len(one['sample']), 'sample')}."))
    truth = about.y if whose == "held-out" else fitted.target
    return [*blocks, *_table_of_samples(about, one, model, X, truth)]


def _table_of_samples(about: Reported, found: Any, model: Any, X: Any, truth: Any) -> list[Block]:
    mean = found["mean"].values
    frame = pd.DataFrame({"sample": [str(label) for label in found["sample"].values]})
    menus = {}
    if truth is not None and np.ndim(truth) == 1 and np.asarray(truth).dtype.names is None:
        frame["target"] = np.asarray(truth)[: len(frame)]
        if about.fitted.outcome in ("labels", "grades"):
            menus["target"] = "target"
    predicted = np.asarray(model.predict(X)) if about.on_test is None else about.on_test.labels()
    if predicted.ndim == 1:
        frame["prediction"] = predicted[: len(frame)]
    frame["score"] = found["score"].values
    order = np.argsort(-np.abs(mean).mean(axis=0), kind="stable")[:MOST_PARTS]
    sure = None
    if "interval" in found:
        low, high = found["interval"].values
        sure = (low > 0.0) | (high < 0.0)
    for p in np.sort(order):
        values = [f"{v:+.2f}" for v in mean[:, p]]
        if sure is not None:
            values = [
                text if is_sure else f"{text}?" for text, is_sure in zip(values, sure[:, p], strict=True)
            ]
        name = str(found["part"].values[p])
        frame[f"{name} (part)" if name in frame else name] = values
    return [Rows(frame, "parts of the scores of samples", "parts", menus, f"{len(frame)} samples")]


def trust(about: Reported) -> list[Block]:
    """Say what the model cannot tell, and how that is known."""
    blocks: list[Block] = [
        Paragraph("Every check has a verdict: good, caution, bad, or skipped where it does not apply.")
    ]
    for key, section in about.sections.items():
        if key != "calibration":  # which is with the predictions
            blocks += [Heading(f"{section.title}: {section.verdict}"), *_of_section(section)]
    return blocks


def computation(about: Reported) -> list[Block]:
    """Say how it was computed."""
    estimator = about.fitted.estimator
    values: dict[str, Any] = {"estimator": repr(estimator), "inference": "; ".join(about.fitted.endings)}
    for name in ("elbo_", "log_evidence_", "pareto_k_", "ess_", "rhat_", "n_evaluations_", "n_iter_"):
        value: Any = getattr(estimator, name, None)
        if np.ndim(value) == 0 and value is not None and np.isfinite(value):
            values[name.removesuffix("_")] = number(value)
    steps = [type(step).__name__ for step in about.fitted.transformers]
    values["before the estimator"] = ", ".join(steps) or None
    return [Facts(values), Heading("Versions"), Facts(environment())]


def citation(about: Reported) -> list[Block]:
    """Say what to cite."""
    return [
        Items(
            [
                f"The bayesmkl developers. bayesmkl: Bayesian multiple kernel learning, version {__version__}.",
                PAPERS[about.fitted.is_marginal],
            ]
        )
    ]


def _shares(about: Reported) -> pd.DataFrame:
    """Return shares of views, or of kernels where there is one view, largest first."""
    if about.has_views:
        table = view_table(about.model, ci_prob=about.ci_prob, random_state=0)
    else:
        table = kernel_table(about.model, ci_prob=about.ci_prob, kernels=about.training_kernels)
    names = [name for name in ("view", "kernel", "class", "label", "output", "task") if name in table]
    kept = [*names[:1], *(n for n in names[1:] if n in ("class", "label", "output", "task")), *INTERVAL]
    return table[kept].sort_values("share", ascending=False, kind="stable").reset_index(drop=True)


def _readable(table: pd.DataFrame) -> pd.DataFrame:
    """Return a table with heads in words, without Monte Carlo errors."""
    kept = [name for name in table.columns if not str(name).endswith("_mcse")]
    return table[kept].rename(columns=lambda name: str(name).replace("_", " "))


def _of_section(section: Section) -> list[Block]:
    printed: list[Block] = [Printed(section.lines)] if section.lines else []
    return [*printed, Paragraph(section.advice)]


def _competes(fitted: FittedBEMKL) -> bool:
    """Whether outputs are classes of which a sample has one."""
    return fitted.is_classifier and fitted.output_kind == "class"


def training_times(fitted: FittedBEMKL) -> Any:
    """Return times of training and whether their event was seen, of times to an event."""
    if fitted.outcome != "times":
        return None
    found = np.empty(fitted.n_samples, dtype=[("event", bool), ("time", float)])
    found["event"] = fitted.estimator.target_[0] == fitted.estimator.target_[1]
    found["time"] = fitted.target
    return found


def _n_rows(X: Any) -> int:
    return int(np.shape(X)[0])
