"""Do predictions come true? Reliability of probabilities, calibration of intervals, predictive checks; and sections.

Draws from the prior have no variance (Student t with 2 degrees of freedom by default): they are described by
quantiles only.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import logsumexp, ndtr
from scipy.stats import binomtest, norm
from sklearn.base import BaseEstimator

from bayesmkl._utils.axes import shorten
from bayesmkl._utils.given import as_array, check_numbers
from bayesmkl._utils.settings import own_settings
from bayesmkl._utils.typing import Targets
from bayesmkl._utils.validation import check_integer, check_probability, shown
from bayesmkl.bemkl.draws import NonnegativeGamma, PosteriorDraws
from bayesmkl.bemkl.model import Priors
from bayesmkl.bemkl.moments import Dirichlet, Gamma
from bayesmkl.gp.reading import HyperDraws, log_complement
from bayesmkl.outcomes.labels import tempered
from bayesmkl.posterior.evaluated import Evaluated
from bayesmkl.posterior.fitted import FittedBEMKL, evenly
from bayesmkl.posterior.loo import LeaveOneOut, log_normalizers, of_points

WIDTH, FIRST_WIDTH = 96, 44  # of a report, and at most of the first column of a table
VERDICTS = ("good", "skipped", "caution", "bad")  # the worst last
SUM_TO_ONE = 1e-3  # what single precision and rounding to four digits leave
N_BINS = 10
LEVELS = (0.5, 0.8)  # of central intervals in regression, beside that of the report
FEWEST = 20  # samples that frequencies need
BAD_ECE = 0.1
FULL = 'Use predictive="full"; with that, kernels that follow the training samples too closely are the usual cause.'
LEAST_CONCENTRATION = 0.5  # 1 degree of freedom of the Student t; with less, draws overflow or are all zero
UNLIKELY, IMPLAUSIBLE = 0.03, 0.005  # tail probabilities
MOST_PRIOR_DRAWS = 1000
MOST_FUNCTIONS = 500  # from the prior of a process, each at all training samples
TINY = 1e-300
TARGET_STATISTICS = {
    "mean": lambda y: y.mean(axis=1),
    "sd": lambda y: y.std(axis=1),
    "smallest": lambda y: y.min(axis=1),
    "largest": lambda y: y.max(axis=1),
}


class Section(NamedTuple):
    """One part of a diagnosis."""

    key: str
    title: str
    values: dict[str, Any]  # numbers, arrays and texts; by class name first where there are several models
    lines: list[str]  # of the report, at most WIDTH characters each
    verdict: str  # one of VERDICTS
    advice: str  # what it means and what to do


def skipped(key: str, title: str, advice: str) -> Section:
    """Return a section without numbers, which says why there are none."""
    return Section(key, title, {}, [], "skipped", advice)


def of_models(values: dict[str, Any]) -> dict[str, Any]:
    """Return values by the name of the model they are of, or those of the only model."""
    return values if len(values) > 1 else next(iter(values.values()))


def worst(verdicts: Sequence[str]) -> str:
    """Return the verdict that decides.

    Examples
    --------
    >>> worst(["good", "bad", "caution"])
    'bad'
    """
    return max(verdicts, key=VERDICTS.index)


def line_of_text(text: str) -> list[str]:
    """Wrap a paragraph."""
    return textwrap.wrap(text, WIDTH, break_long_words=False)


def table(header: Sequence[str], rows: Sequence[Sequence[Any]]) -> list[str]:
    r"""Align rows under a header: the first column to the left, numbers to the right.

    Examples
    --------
    >>> print("\n".join(table(["", "mean", "n"], [["share", 0.25, 100]])))
             mean    n
    share    0.25  100
    """
    texts = [[_text(cell) for cell in row] for row in rows]
    texts = [[shorten(row[0], FIRST_WIDTH), *row[1:]] for row in texts]
    widths = [max(map(len, column)) for column in zip(header, *texts, strict=True)]
    widths[0] = max(widths[0], 6)

    def joined(cells: Sequence[str]) -> str:
        others = [cell.rjust(width) for cell, width in zip(cells[1:], widths[1:], strict=True)]
        return "  ".join([cells[0].ljust(widths[0]), *others]).rstrip()

    return [joined(header), *map(joined, texts)]


def _text(cell: object) -> str:
    if isinstance(cell, float):
        return "-" if cell != cell else f"{cell:.3g}" if abs(cell) < 1000 else f"{cell:.0f}"
    return str(cell)


def render(title: str, about: Sequence[str], sections: Sequence[Section]) -> str:
    """Write a report as text."""
    blocks = ["\n".join([title, "=" * len(title), *about])]
    for section in sections:
        heading = f"{section.title}: {section.verdict.upper()}"
        blocks.append("\n".join([heading, "-" * len(heading), *section.lines, *_wrapped(section)]))
    return "\n\n".join(blocks)


def _wrapped(section: Section) -> list[str]:
    return textwrap.wrap(section.advice, WIDTH, initial_indent="-> ", subsequent_indent="   ")


class Reliability(NamedTuple):
    """Predicted and observed frequencies in bins of predictions; empty bins are left out.

    Parameters
    ----------
    probability : ndarray of shape (n_filled_bins,)
        Mean prediction in each bin.
    frequency : ndarray of shape (n_filled_bins,)
        Observed frequency of events in each bin.
    lower, upper : ndarray of shape (n_filled_bins,)
        Ends of the Wilson interval of that frequency.
    n_events : ndarray of shape (n_filled_bins,)
        Number of events in each bin.
    edges : ndarray of shape (n_bins + 1,)
        Edges of all bins.
    counts : ndarray of shape (n_bins,)
        Number of predictions in every bin, including empty bins.

    Examples
    --------
    >>> from bayesmkl.posterior import reliability
    >>> found = reliability([0, 1, 1, 1], [0.1, 0.8, 0.8, 0.8], n_bins=4)
    >>> found.n_events, found.counts, round(found.calibration_error, 3)
    (array([1, 3]), array([1, 0, 0, 3]), 0.175)
    """

    probability: np.ndarray  # mean prediction in the bin
    frequency: np.ndarray  # observed frequency of its events
    lower: np.ndarray  # Wilson interval of that share
    upper: np.ndarray
    n_events: np.ndarray
    edges: np.ndarray  # of all bins, (n_bins + 1,)
    counts: np.ndarray  # predictions in every bin, (n_bins,)

    @property
    def calibration_error(self) -> float:
        """Mean of ``|frequency - probability|`` over all predictions."""
        return float(np.average(np.abs(self.frequency - self.probability), weights=self.n_events))


@own_settings
def reliability(
    y_true: Targets,
    y_prob: ArrayLike,
    n_bins: int = 10,
    labels: ArrayLike | None = None,
    ci_prob: float = 0.94,
) -> Reliability:
    """Compare predicted probabilities with observed frequencies, bin by bin.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,) or (n_samples, n_labels)
        Observed outcomes: 0/1, -1/+1 or False/True with a one-dimensional `y_prob`, any labels with a table. With
        several labels per sample, a table of 0/1 of the shape of `y_prob`: every label of every sample is an event.
    y_prob : array-like of shape (n_samples,) or (n_samples, n_classes)
        Probability of the positive class, or of every class. A table with two columns counts as the
        probability of its second class; with more, the event is that the most probable class is the true one.
    n_bins : int, default=10
        Number of bins of equal width on [0, 1].
    labels : array-like of shape (n_classes,), default=None
        Class of each column of `y_prob`, ``model.classes_``. None takes the sorted labels in `y_true`.
    ci_prob : float, default=0.94
        Probability content of the Wilson interval of each frequency.

    Returns
    -------
    Reliability
        For every bin with predictions: mean prediction, observed frequency with its interval, and number of events.

    Raises
    ------
    ValueError
        For probabilities outside [0, 1], unequal lengths, labels that do not fit, `n_bins` below 1, or a `ci_prob`
        that is not strictly between 0 and 1.
    TypeError
        If an argument is a sparse matrix, or `y_prob` holds other objects than numbers.

    References
    ----------
    M. H. DeGroot and S. E. Fienberg (1983), The comparison and evaluation of forecasters, The Statistician 32.

    E. B. Wilson (1927), Probable inference, the law of succession, and statistical inference, Journal of the American
    Statistical Association 22.

    Examples
    --------
    >>> result = reliability([0, 1, 1, 1], [0.1, 0.8, 0.8, 0.8], n_bins=2)
    >>> result.probability, result.frequency
    (array([0.1, 0.8]), array([0., 1.]))
    """
    n_bins = check_integer("n_bins", n_bins, low=1)
    check_probability("ci_prob", ci_prob)
    happened, probability = _events(
        as_array("y_true", y_true), check_numbers("y_prob", y_prob).astype(np.float64), labels
    )
    edges = np.arange(n_bins + 1) / n_bins  # 6/10 is the double 0.6, which linspace misses by one bit
    bins = np.searchsorted(edges[1:-1], probability, side="right")
    counts = np.bincount(bins, minlength=n_bins)
    filled = counts > 0
    hits = np.bincount(bins, weights=happened, minlength=n_bins)[filled]
    total = np.bincount(bins, weights=probability, minlength=n_bins)[filled]
    n_events = counts[filled]
    intervals = [
        binomtest(int(k), int(n)).proportion_ci(ci_prob, method="wilson")
        for k, n in zip(hits, n_events, strict=True)
    ]
    lower, upper = np.array(intervals).T
    return Reliability(total / n_events, hits / n_events, lower, upper, n_events, edges, counts)


def _events(
    y_true: np.ndarray, y_prob: np.ndarray, labels: ArrayLike | None
) -> tuple[np.ndarray, np.ndarray]:
    """Reduce any classification to one event per sample, or per label of it, and its predicted probability."""
    if y_true.ndim == 2 and y_true.shape == y_prob.shape:
        y_true, y_prob = y_true.ravel(), y_prob.ravel()
    if y_true.ndim != 1 or y_prob.ndim not in (1, 2) or len(y_true) != len(y_prob) or len(y_true) == 0:
        raise ValueError(
            "`y_true` and `y_prob` must hold one label and one row of probabilities per sample, and at least "
            f"one sample; got shapes {y_true.shape} and {y_prob.shape}."
        )
    if not np.all((y_prob >= 0.0) & (y_prob <= 1.0)):
        raise ValueError(
            "`y_prob` must hold probabilities between 0 and 1; got values from "
            f"{y_prob.min():g} to {y_prob.max():g}. Use `predict_proba`, not `decision_function`."
        )
    if any(label is None for label in y_true.tolist()):
        raise ValueError("`y_true` must hold a label of every sample; got None.")
    if y_prob.ndim == 1 and labels is None:
        return _positive(y_true), y_prob
    if y_prob.ndim == 1:
        y_prob = np.stack([1.0 - y_prob, y_prob], axis=1)
    classes = np.unique(y_true) if labels is None else as_array("labels", labels)
    if classes.ndim != 1 or len(classes) != y_prob.shape[1] or len(np.unique(classes)) < len(classes):
        raise ValueError(
            f"`labels` must name the class of each of the {y_prob.shape[1]} columns of `y_prob`, each once; got "
            f"{shown(classes.tolist())}. Pass the `classes_` of the model."
        )
    unknown = np.setdiff1d(y_true, classes)
    if len(unknown):
        raise ValueError(
            f"`y_true` holds labels that `labels` does not: {unknown.tolist()} are not in {classes.tolist()}."
        )
    sums = y_prob.sum(axis=1)
    if np.abs(sums - 1.0).max() > SUM_TO_ONE:
        raise ValueError(
            f"`y_prob` must have rows that sum to one; got sums from {sums.min():g} to {sums.max():g}. "
            "If a sample may have several labels, pass `y_true` of the same shape."
        )
    if len(classes) == 2:
        return y_true == classes[1], y_prob[:, 1]
    top = y_prob.argmax(axis=1)
    return y_true == classes[top], y_prob[np.arange(len(top)), top]


def _positive(y_true: np.ndarray) -> np.ndarray:
    numeric = y_true.dtype.kind in "biuf"
    if not numeric or not (np.isin(y_true, (0, 1)).all() or np.isin(y_true, (-1, 1)).all()):
        raise ValueError(
            "`y_true` must hold 0/1, -1/+1 or False/True where `y_prob` is one-dimensional; got "
            f"{np.unique(y_true)[:5].tolist()}. Compare with the positive label first: y_true == label."
        )
    return y_true == 1


class Predictions(NamedTuple):
    """Predictions of some samples and the observed outcomes.

    With several labels or targets `y` and `pit` have a column for each, and so have the probabilities: of having it.
    """

    source: str  # what the samples are, for people
    y: np.ndarray  # (n_samples,) or (n_samples, n_outputs)
    log_score: np.ndarray  # log probability or log density of the observed outcomes, (n_samples,)
    probabilities: np.ndarray | None  # (n_samples, n_classes)
    pit: np.ndarray | None  # P(target below the observed one), regression
    trusted: bool  # whether the predictions are what the model would have said without these samples


def held_out_predictions(fitted: FittedBEMKL, model: BaseEstimator, X: Any, y: Targets) -> Predictions:
    """Predict samples that the model was not fitted to.

    Parameters
    ----------
    fitted : FittedBEMKL
    model : estimator
        The fitted estimator.
    X, y
        As `model` takes them.
    """
    y = np.asarray(y)
    source = f"{len(y)} held-out samples"
    if fitted.outcome in ("counts", "times"):
        raise ValueError(
            f"`X_test` must be left out for a model of {fitted.outcome}, whose intervals cannot be checked here; got "
            f"{len(y)} samples. Use `survival_calibration` of bayesmkl.evaluation for times."
        )
    if fitted.is_classifier or fitted.outcome == "grades":
        return _held_out_classes(fitted.estimator, source, np.asarray(model.predict_proba(X)), y)
    if fitted.is_marginal:
        return _held_out_of_process(fitted, source, X, y)
    score = fitted.scores(X)
    location, scale = fitted.estimator.y_mean_, fitted.estimator.y_scale_
    if score is not None:
        _check_lengths(score.mean, y)
        scales = score.scales.reshape(len(score.scales), -1)  # of a draw, or of a sample of it
        standard = ((y - location) / scale - score.means) / scales
        log_density = norm.logpdf(standard) - np.log(scale * scales)
        log_score = np.logaddexp.reduce(log_density, axis=0) - np.log(len(standard))
        return Predictions(source, y, log_score, None, ndtr(standard).mean(axis=0), True)
    mean, std = fitted.estimator.predict(fitted.transform(X), return_std=True)
    _check_lengths(mean, y)
    standard = (y - mean) / std
    log_score = norm.logpdf(standard) - np.log(std)
    log_score = log_score if y.ndim == 1 else log_score.sum(axis=1)
    return Predictions(source, y, log_score, None, ndtr(standard), True)


def _held_out_of_process(fitted: FittedBEMKL, source: str, X: Any, y: np.ndarray) -> Predictions:
    """Predict targets by the mixture of normal densities over the points of the posterior."""
    rows = fitted.transform(X)
    moments = fitted.estimator._moments(rows)
    _check_lengths(moments.mean[0].T if fitted.output_names else moments.mean[0, 0], y)
    target, scale = fitted.estimator._seen(fitted.estimator._validate_rows(rows), y)
    likelihood = fitted.estimator.likelihood_
    points = moments.mean, moments.variance, moments.parameters
    log_density = log_normalizers(likelihood, target, *points)
    log_joint = logsumexp(log_density.sum(axis=1), b=moments.probability[:, None], axis=0)
    log_score = log_joint - np.log(scale).sum(axis=0)
    below = of_points(likelihood.cdf, target, *points)
    pit = np.clip(np.tensordot(moments.probability, below, 1), 0.0, 1.0)
    return Predictions(source, y, log_score, None, pit[0] if y.ndim == 1 else pit.T, True)


def _held_out_classes(estimator: BaseEstimator, source: str, p: np.ndarray, y: np.ndarray) -> Predictions:
    tiny = np.finfo(float).tiny
    if getattr(estimator, "is_multilabel_", False):
        _check_lengths(p, y)
        if not np.isin(y, (0, 1)).all():
            raise ValueError(
                f"`y_test` must hold 0 and 1, a column per label; got {np.unique(y)[:5].tolist()}."
            )
        log_score = np.log(np.maximum(np.where(y == 1, p, 1.0 - p), tiny)).sum(axis=1)
        return Predictions(source, y, log_score, p, None, True)
    classes = estimator.classes_
    unknown = np.setdiff1d(y, classes)
    if len(unknown):
        raise ValueError(
            f"`y_test` must hold classes that the model was fitted with, {classes.tolist()}; got "
            f"{unknown.tolist()} too. Leave those samples out."
        )
    _check_lengths(p[:, 0], y)
    own = p[y[:, None] == classes]
    return Predictions(source, y, np.log(np.maximum(own, tiny)), p, None, True)


def left_out_predictions(fitted: FittedBEMKL, loo: LeaveOneOut) -> Predictions:
    """Take the leave-one-out predictions of the training samples that have a target."""
    y, log_p, log_score = fitted.target[fitted.labeled], loo.log_probabilities, loo.elpd_i
    if log_p is not None and fitted.temperature != 1.0:
        log_p, log_score = _at_temperature(fitted, log_p, y)
    probabilities = None if log_p is None else np.exp(log_p)
    trusted = (fitted.is_drawn or loo.by_cavities) and loo.n_bad <= 0.05 * len(y)
    how = "by cavities" if loo.by_cavities else "PSIS-LOO"
    source = f"{len(y)} training samples, each left out in turn ({how})"
    return Predictions(source, y, log_score, probabilities, loo.pit, trusted)


def _at_temperature(fitted: FittedBEMKL, log_p: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return log probabilities as they are predicted, and those of the observed classes or labels."""
    if fitted.output_kind != "label":
        log_p = tempered(log_p, fitted.temperature)
        return log_p, log_p[y[:, None] == fitted.estimator.classes_]
    sides = tempered(np.stack([log_complement(log_p), log_p], axis=-1), fitted.temperature)
    return sides[..., 1], np.where(y == 1, sides[..., 1], sides[..., 0]).sum(axis=1)


def calibration_section(
    found: Predictions, classes: np.ndarray | None, ci_prob: float, against_narrow: str = FULL
) -> Section:
    """Score predictions against observed outcomes: proper scores and calibration.

    Parameters
    ----------
    found : Predictions
    classes : array of shape (n_classes,) or None
        Class of each column of the probabilities; None in regression.
    ci_prob : float
        Content of all intervals.
    against_narrow : str, optional
        What to do where intervals are too narrow.
    """
    n = len(found.y)
    values: dict[str, Any] = {
        "source": found.source,
        "n_samples": n,
        "log_loss": -float(found.log_score.mean()),
        "log_loss_se": float(found.log_score.std() / np.sqrt(n)),
    }
    own, lines = _of_numbers(found, ci_prob) if classes is None else _of_classes(found, classes, ci_prob)
    values |= own
    if not found.trusted:
        verdict = "caution"
        advice = (
            "These are training samples, and leaving them out by reweighting is unreliable here, see above: take the "
            "numbers as a guess. Pass `X_test` and `y_test`."
        )
    elif n < FEWEST:
        advice = f"{n} samples are too few to judge calibration; at least {FEWEST} are needed."
        verdict = "caution"
    elif classes is not None:
        verdict, advice = _judge_probabilities(values)
    else:
        verdict, advice = _judge_intervals(values["coverage"], against_narrow)
    lines = [f"On {found.source}:", *lines]
    return Section("calibration", "Calibration", values, lines, verdict, advice)


def _of_classes(found: Predictions, classes: np.ndarray, ci_prob: float) -> tuple[dict[str, Any], list[str]]:
    p, y = found.probabilities, found.y
    assert p is not None
    if y.ndim == 2:  # every label of every sample is an event
        hits, squares = (p > 0.5) == (y == 1), (p - y)[..., None] ** 2
        curve = reliability(y.ravel(), p.ravel(), N_BINS, ci_prob=ci_prob)
    else:
        hits, squares = classes[p.argmax(axis=1)] == y, (p - (y[:, None] == classes)) ** 2
        squares = squares[:, 1:] if len(classes) == 2 else squares
        curve = reliability(y, p, N_BINS, classes, ci_prob)
    values = {
        "accuracy": float(hits.mean()),
        "brier": float(squares.sum(axis=-1).mean()),
        "ece": curve.calibration_error,
        "reliability": {name: np.asarray(value) for name, value in curve._asdict().items()},
        "n_bins_away": int(((curve.probability < curve.lower) | (curve.probability > curve.upper)).sum()),
    }
    lines = [
        f"{_score(found, 'log loss')}, Brier {values['brier']:.3f}, accuracy {values['accuracy']:.3f}, "
        f"ECE {values['ece']:.3f} ({N_BINS} bins)"
    ]
    rows = [
        [f"{predicted:.2f}", f"{came:.2f}", f"{low:.2f} - {high:.2f}", int(n)]
        for predicted, came, low, high, n in zip(*curve[:5], strict=True)
    ]
    events = "samples" if y.ndim == 1 else "labels"
    lines += table(["predicted", "came true", f"{100 * ci_prob:g} % interval", events], rows)
    if y.ndim == 2:
        lines += line_of_text(
            "The event is that a sample has a label; log loss is that of all labels of a sample."
        )
    elif len(classes) > 2:
        lines += line_of_text("The event is that the most probable class is the true one.")
    return values, lines


def _of_numbers(found: Predictions, ci_prob: float) -> tuple[dict[str, Any], list[str]]:
    assert found.pit is not None
    n, rows, coverage = found.pit.size, [], {}
    for level in sorted({*LEVELS, ci_prob}):
        inside = np.abs(found.pit - 0.5) <= 0.5 * level
        interval = binomtest(int(inside.sum()), n).proportion_ci(ci_prob, method="wilson")
        coverage[level] = {"covered": float(inside.mean()), "lower": interval.low, "upper": interval.high}
        around = f"{100 * interval.low:.0f} - {100 * interval.high:.0f} %"
        rows.append([f"{100 * level:g} %", f"{100 * inside.mean():.0f} %", around])
    lines = [f"{_score(found, 'negative log density')} nats per sample (units of the target)"]
    lines += table(["central interval", "covers", f"{100 * ci_prob:g} % interval"], rows)
    return {"coverage": coverage, "pit": found.pit}, lines


def _score(found: Predictions, name: str) -> str:
    loss = -found.log_score
    return f"{name} {loss.mean():.3f} ± {loss.std() / np.sqrt(len(loss)):.3f}"


def _judge_probabilities(values: dict[str, Any]) -> tuple[str, str]:
    away, n_bins = values["n_bins_away"], len(values["reliability"]["probability"])
    if away < 2:
        return "good", "Predicted probabilities come true as often as they say, within their intervals."
    return (
        "bad" if values["ece"] > BAD_ECE else "caution",
        f"In {away} of {n_bins} bins the frequency differs from what was predicted; {values['ece']:.3f} on average "
        "over the samples. CalibratedClassifierCV, or other kernels, may help.",
    )


def _judge_intervals(coverage: dict[float, dict[str, float]], against_narrow: str) -> tuple[str, str]:
    narrow = sum(level > found["upper"] for level, found in coverage.items())
    wide = sum(level < found["lower"] for level, found in coverage.items())
    if narrow + wide == 0:
        return "good", "Intervals cover what they promise."
    verdict = "bad" if narrow > 0.5 * len(coverage) else "caution"
    if narrow:
        return verdict, f"Intervals are too narrow. {against_narrow}"
    return verdict, "Intervals are too wide: few outliers among the training targets can inflate the noise."


def _check_lengths(predictions: np.ndarray, y: np.ndarray) -> None:
    if predictions.shape != y.shape:
        raise ValueError(
            f"`X_test` and `y_test` must hold the same samples; got {len(predictions)} rows and a target of shape "
            f"{y.shape}, where predictions have {predictions.shape}."
        )


def check_section(
    fitted: FittedBEMKL, models: list[Evaluated], rng: np.random.Generator, ci_prob: float
) -> Section:
    """Compare statistics of the training targets with those of replicated ones.

    Parameters
    ----------
    fitted : FittedBEMKL
    models : list of Evaluated
    rng : numpy.random.Generator
    ci_prob : float
        Content of the intervals.
    """
    reason = why_no_prior_draws(models[0].problem.priors)
    after: list[CheckedOutput] = []
    before: list[CheckedOutput] = []
    for model in models:
        after += _outputs(model, rng)
        if reason is None:
            n = min(MOST_PRIOR_DRAWS, len(model.flat.intercept))
            before += _outputs(Evaluated(model.problem, prior_draws(model.problem, n, rng)), rng)
    return _section(fitted, after, before, ci_prob, reason)


def checks_of_process(fitted: FittedBEMKL, n_draws: int, ci_prob: float, rng: np.random.Generator) -> Section:
    """Compare the same of an additive Gaussian process, with at most `n_draws` of its draws."""
    if fitted.outcome == "times":
        reason = "Replicated times are not censored, and those of the samples are."
        return skipped("checks", "Predictive checks", reason)
    estimator: Any = fitted.estimator
    draws: HyperDraws = fitted.states[0]
    chosen = evenly(draws.n_draws, n_draws)
    after = _outputs_of_process(fitted, draws.score[chosen], draws.parameters[draws.point[chosen]], rng)
    n_prior, n_outputs = min(MOST_FUNCTIONS, len(chosen)), draws.score.shape[1]
    weights, parameters = estimator._draw_prior(n_prior, n_outputs, rng)
    scores = estimator._draw_prior_scores(weights, n_outputs, rng)
    before = _outputs_of_process(fitted, scores, parameters, rng)
    return _section(fitted, after, before, ci_prob)


def _outputs_of_process(
    fitted: FittedBEMKL, scores: np.ndarray, parameters: np.ndarray, rng: np.random.Generator
) -> list[CheckedOutput]:
    """Replicate the targets of scores, (n_draws, n_outputs, n_samples)."""
    estimator: Any = fitted.estimator
    drawn, p = estimator._draw_targets(scores, parameters, rng), None
    if fitted.is_classifier:
        drawn, each = (drawn > 0.0).astype(np.int8), np.moveaxis(parameters, -1, 0)[..., None]
        p = np.exp(estimator.likelihood_.log_density(np.ones_like(scores), scores, each))
    return [
        CheckedOutput(y, drawn[:, k], scores[:, k], None if p is None else p[:, k], "mean |score|")
        for k, y in enumerate(own if own.ndim == 1 else own[0] for own in estimator._targets_of_outputs())
    ]


def _section(
    fitted: FittedBEMKL,
    after: list[CheckedOutput],
    before: list[CheckedOutput],
    ci_prob: float,
    reason: str | None = None,
) -> Section:
    """Check every output by draws from the posterior, and from the prior, where `reason` does not say why not."""
    names, values = fitted.output_names or fitted.model_names, {}
    rows, verdicts, far = [], [], []
    for k, name in enumerate(names):
        own: dict[str, Any] = {"posterior": check_output(fitted, k, after[k], ci_prob)}
        own |= {"prior": check_output(fitted, k, before[k], ci_prob, posterior=False)} if before else {}
        own |= {"prior_skipped": reason} if reason else {}
        prefix = f"{name}: " if len(names) > 1 else ""
        for source in ("prior", "posterior"):
            for statistic, found in own.get(source, {}).items():
                cells = [found[key] for key in ("observed", "lower", "median", "upper", "tail_probability")]
                rows.append([f"{prefix}{statistic}, {source}", *cells])
        verdict, own_far = _verdict(own)
        verdicts.append(verdict)
        far += [prefix + statistic for statistic in own_far]
        values[name] = own
    percent = f"{100 * ci_prob:g} %"
    lines = table(["", "observed", f"{percent} from", "median", "to", "tail"], rows)
    lines += line_of_text(
        "tail: probability of a value at least as far out on its side. Statistics without an observed value are "
        "properties of the scores."
    )
    if reason is not None:
        lines += line_of_text(f"No prior predictive check: {reason}.")
    verdict = worst(verdicts)
    return Section("checks", "Predictive checks", of_models(values), lines, verdict, _advice(verdict, far))


def why_no_prior_draws(priors: Priors) -> str | None:
    """Return why nothing can be drawn from these priors, or None if it can."""
    for name, prior in priors._asdict().items():
        if isinstance(prior, Gamma) and prior.concentration < LEAST_CONCENTRATION:
            return (
                f"the prior of the {name} precisions, Gamma({prior.concentration:g}, {prior.rate:g}), leaves weights "
                f"with {2 * prior.concentration:g} degrees of freedom, which overflow or vanish when drawn"
            )
    return None


def prior_draws(problem: Any, n_draws: int, rng: np.random.Generator) -> PosteriorDraws:
    """Draw a, b and e (and υ, ε in regression) from the priors of the collapsed model, as one chain.

    Parameters
    ----------
    problem : Problem
    n_draws : int
    rng : numpy.random.Generator
    """
    priors, stack, outputs = problem.priors, problem.stack, problem.y.shape[:-1]

    def student(prior: Gamma, *shape: int) -> np.ndarray:
        precision = rng.gamma(prior.concentration, 1.0 / prior.rate, size=(1, n_draws, *shape))
        return rng.standard_normal(precision.shape) / np.sqrt(precision)

    inclusion = None
    if isinstance(priors.kernel, Gamma):
        weights = student(priors.kernel, stack.n_kernels)
        weights = np.abs(weights) if isinstance(priors.kernel, NonnegativeGamma) else weights
    elif isinstance(priors.kernel, Dirichlet):
        concentration = np.broadcast_to(priors.kernel.concentration, stack.n_kernels)
        weights = rng.dirichlet(concentration, size=(1, n_draws))
    else:
        shape = (1, n_draws, stack.n_kernels)
        inclusion = (rng.random(shape) < priors.kernel.inclusion).astype(float)
        weights = inclusion * priors.kernel.scale * rng.standard_normal(shape)
    intercept, dual = student(priors.intercept, *outputs), student(priors.sample, *outputs, stack.n_train)
    draws = PosteriorDraws(weights, intercept, dual, kernel_inclusion=inclusion)
    if not problem.outcome.has_noise:
        return draws
    known, noise = (
        rng.gamma(prior.concentration, 1.0 / prior.rate, size=(1, n_draws, *outputs))
        for prior in (priors.intermediate, priors.noise)
    )
    return draws._replace(intermediate_precision=known, noise_precision=noise)


class CheckedOutput(NamedTuple):
    """One output of a model at the samples that have a target."""

    y: np.ndarray  # (n_samples,)
    replicated: np.ndarray  # (n_draws, n_samples)
    standard_means: np.ndarray  # m / s, (n_draws, n_samples)
    probabilities: np.ndarray | None  # of a positive label, (n_draws, n_samples)
    size: str = "mean |m/s|"  # name of the mean absolute score


def _outputs(model: Evaluated, rng: np.random.Generator) -> list[CheckedOutput]:
    """Replicate the targets of all outputs."""
    replicated, kept = model.replicate(rng), model.labeled
    if replicated.ndim == 2:
        replicated = replicated[:, None]
    found = []
    for c, output in enumerate(model.outputs):
        p = None
        if model.is_multinomial:
            p = np.exp(model.log_classes[..., c] - np.logaddexp.reduce(model.log_classes, axis=-1))
        elif not model.is_regression:
            p = output.label_probabilities
        means, p = output.standard_means[:, kept], None if p is None else p[:, kept]
        found.append(CheckedOutput(output.problem.y[kept], replicated[:, c][:, kept], means, p))
    return found


def check_output(
    fitted: FittedBEMKL, k: int, output: CheckedOutput, ci_prob: float, posterior: bool = True
) -> dict[str, dict[str, float]]:
    """Return observed value, quantiles and tail probability of every statistic of an output.

    Parameters
    ----------
    fitted : FittedBEMKL
    k : int
        Number of the output, in the model that it belongs to.
    output : CheckedOutput
    ci_prob : float
        Content of the intervals.
    posterior : bool, default=True
        Whether draws are from the posterior, not from the prior.
    """
    tails = [0.5 - 0.5 * ci_prob, 0.5, 0.5 + 0.5 * ci_prob]
    if output.probabilities is None:
        location, scale = fitted.units(k)
        observed = {name: statistic(output.y[None])[0] for name, statistic in TARGET_STATISTICS.items()}
        drawn = {name: statistic(output.replicated) for name, statistic in TARGET_STATISTICS.items()}
        units = {name: (0.0 if name == "sd" else location, scale) for name in drawn}
    else:
        observed, drawn = _label_statistics(output, output.probabilities, posterior)
        units = dict.fromkeys(drawn, (0.0, 1.0))
    found = {}
    for name, values in drawn.items():
        location, scale = units[name]
        lower, median, upper = (float(location + scale * q) for q in np.quantile(values, tails))
        found[name] = {
            "observed": float(location + scale * observed[name]),
            "lower": lower,
            "median": median,
            "upper": upper,
            "tail_probability": _tail_probability(values, observed[name]),
        }
    return found


def _label_statistics(
    output: CheckedOutput, p: np.ndarray, posterior: bool
) -> tuple[dict[str, float], dict[str, np.ndarray]]:
    """Return observed and drawn statistics of labels and scores."""
    positive = output.y > 0
    drawn = {
        "share of the class": output.replicated.mean(axis=1),
        output.size: np.abs(output.standard_means).mean(axis=1),
    }
    observed = {"share of the class": float(positive.mean()), output.size: float("nan")}
    if posterior:  # parameters from the prior have nothing to do with the observed labels
        own, other = (np.where(label, p, 1.0 - p) for label in (positive, output.replicated > 0))
        drawn["log p(y) - log p(y rep)"] = (np.log(own + TINY) - np.log(other + TINY)).sum(axis=1)
        observed["log p(y) - log p(y rep)"] = 0.0
    return observed, drawn


def _tail_probability(drawn: np.ndarray, observed: float) -> float:
    """Return the probability of a value at least as far out as the observed one, on its side; NaN without one."""
    if np.isnan(observed):
        return float("nan")
    ties = 0.5 * (drawn == observed).mean()
    return float(min((drawn > observed).mean(), (drawn < observed).mean()) + ties)


def _verdict(own: dict[str, Any]) -> tuple[str, list[str]]:
    """Return the verdict and which statistics are far out."""
    tails = {
        f"{statistic}, {source}": (source, found["tail_probability"])
        for source in ("prior", "posterior")
        for statistic, found in own.get(source, {}).items()
    }
    limits = {"prior": IMPLAUSIBLE, "posterior": UNLIKELY}
    far = [name for name, (source, tail) in tails.items() if tail < limits[source]]
    if any(source == "posterior" and tail < IMPLAUSIBLE for source, tail in tails.values()):
        return "bad", far
    return ("caution" if far else "good"), far


def _advice(verdict: str, far: list[str]) -> str:
    if verdict == "good":
        return (
            "Targets drawn from the fitted model look like the observed ones, and the prior allows for them."
        )
    where = f"Far out in what the model makes: {'; '.join(far)}."
    if verdict == "caution":
        return (
            f"{where} Look at it: a target that needs a transform (logarithm), outliers, or priors that do not fit "
            "the scale of the kernels (normalize them)."
        )
    return (
        f"{where} Look for outliers or a target that needs a transform; add kernels that can follow the data. Do not "
        "read much into the posterior before."
    )
