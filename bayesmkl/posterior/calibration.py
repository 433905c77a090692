"""Calibration of probabilities and intervals, on held-out samples or by leave-one-out."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.special import logsumexp, ndtr
from scipy.stats import binomtest, norm
from sklearn.base import BaseEstimator

from bayesmkl._estimator.temperature import tempered
from bayesmkl._utils.typing import Targets
from bayesmkl.gp.reading import log_complement
from bayesmkl.posterior.cavities import of_points
from bayesmkl.posterior.fitted import FittedBEMKL
from bayesmkl.posterior.leave_one_out import LeaveOneOut
from bayesmkl.posterior.reliability import reliability
from bayesmkl.posterior.report import Section, line_of_text, table

N_BINS = 10
LEVELS = (0.5, 0.8)  # of central intervals in regression, beside that of the report
FEWEST = 20  # samples that frequencies need
BAD_ECE = 0.1
FULL = 'Use predictive="full"; with that, kernels that follow the training samples too closely are the usual cause.'


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
            f"`X_test` must be left out for a model of {fitted.outcome}, of which no intervals are judged here; got "
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
    log_density = of_points(lambda *one: likelihood.tilted(*one).log_normalizer, target, *points)
    log_score = logsumexp(log_density.sum(axis=1), b=moments.probability[:, None], axis=0) - np.log(
        scale
    ).sum(axis=0)
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
        verdict, advice = (
            "caution",
            f"{n} samples are too few to judge calibration; at least {FEWEST} are needed.",
        )
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
