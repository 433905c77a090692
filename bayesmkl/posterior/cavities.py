r"""Leave-one-out predictions of additive Gaussian processes.

Given hyperparameters the score of a sample given all others is its cavity: no weights are needed there. What is left
are the hyperparameters, whose posterior without sample i weighs each of their points by :math:`1 / \hat Z_i` (Vehtari
et al. 2016). These weights have k-hats of their own. Most of them hardly vary, as one sample of many says little of a
few numbers, and then the shape of their tail means nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.special import logsumexp

from bayesmkl._numerics.psis import good_k, smooth_weights
from bayesmkl.gp.reading import HyperDraws, average_left_out
from bayesmkl.outcomes.base import Likelihood, copies_of, repeated
from bayesmkl.posterior.fitted import FittedBEMKL
from bayesmkl.posterior.leave_one_out import LeaveOneOut

EVEN = 0.9  # part of the draws that are effective under weights which hardly vary


def leave_one_out_by_cavities(fitted: FittedBEMKL) -> LeaveOneOut:
    """Predict every training sample by the posterior of the others.

    Parameters
    ----------
    fitted : FittedBEMKL
        Of an additive Gaussian process.
    """
    fitted.refuse_landmarks("leave-one-out predictions, but for their log densities in `elpd_i_`")
    estimator: Any = fitted.estimator
    draws: HyperDraws = fitted.states[0]
    targets = estimator._targets_of_outputs()
    moments = draws.cavity_mean, draws.cavity_variance
    left_out = taken_out = log_predictive_of_points(fitted, *moments)
    copies = 1.0
    if estimator.sample_weight_ is not None:
        likelihood, weighed = repeated(estimator.likelihood_, targets, estimator.sample_weight_)
        taken_out, copies = (
            _log_normalizers(likelihood, weighed, *moments, draws.parameters),
            copies_of(likelihood, weighed[0]),
        )
    left = average_left_out(draws.probability, left_out, taken_out)
    precision = 1.0 / draws.cavity_variance
    variance = 1.0 / (precision + draws.site_precision / copies)
    mean = variance * (precision * draws.cavity_mean + draws.site_linear / copies)
    left_in = log_predictive_of_points(fitted, mean, variance)
    each = logsumexp(left_in, b=draws.probability[:, None, None], axis=0)
    joint = logsumexp(left_in.sum(axis=1), b=draws.probability[:, None], axis=0)
    log_probabilities = pit = None
    if fitted.is_classifier:
        log_probabilities = estimator._log_classes(targets, left.each)
    elif fitted.outcome == "numbers":
        pit = _pit(estimator.likelihood_, draws, targets, np.exp(left.log_weights))
    elif fitted.outcome == "grades":
        each = draws.cavity_mean[:, 0], draws.cavity_variance[:, 0], draws.parameters[:, 0]
        log_probabilities = estimator._log_probabilities(*each, left.log_weights)
    return LeaveOneOut(
        estimator._counted(estimator._log_predictive(targets, left.each, left.joint)),
        estimator._counted(estimator._log_predictive(targets, each, joint)),
        float("nan"),
        _pareto_k(-taken_out.sum(axis=1)[draws.point].T),
        good_k(draws.n_draws),
        log_probabilities,
        pit,
        approximate=False,
        by_cavities=True,
    )


def log_predictive_of_points(fitted: FittedBEMKL, mean: np.ndarray, variance: np.ndarray) -> np.ndarray:
    """Return the log density of every target whose score is normal, point by point.

    Parameters
    ----------
    fitted : FittedBEMKL
        Of an additive Gaussian process.
    mean, variance : ndarray of shape (n_points, n_outputs, n_samples)
        Of the scores.

    Returns
    -------
    ndarray of shape (n_points, n_outputs, n_samples)
    """
    estimator: Any = fitted.estimator
    moments = mean, variance, fitted.states[0].parameters
    return _log_normalizers(estimator.likelihood_, estimator._targets_of_outputs(), *moments)


def _log_normalizers(likelihood: Likelihood, targets: np.ndarray, *moments: np.ndarray) -> np.ndarray:
    """Return log densities of targets whose scores are normal, `of_points`."""
    return of_points(lambda *one: likelihood.tilted(*one).log_normalizer, targets, *moments)


def of_points(
    say: Callable[..., np.ndarray],
    targets: np.ndarray,
    mean: np.ndarray,
    variance: np.ndarray,
    parameters: np.ndarray,
) -> np.ndarray:
    """Return what a likelihood says of targets whose scores are normal, point by point.

    Parameters
    ----------
    say : callable
        Of the targets of one output, mean and variance of the scores, and parameters.
    targets : ndarray of shape (n_outputs, n_samples) or (n_outputs, n_fields, n_samples)
    mean, variance : ndarray of shape (n_points, n_outputs, n_samples)
    parameters : ndarray of shape (n_points, n_outputs, n_parameters)

    Returns
    -------
    ndarray of shape (n_points, n_outputs, n_samples)
    """
    points = zip(mean, variance, parameters, strict=True)
    return np.array([[say(*one) for one in zip(targets, *each, strict=True)] for each in points])


def _pareto_k(log_ratios: np.ndarray) -> np.ndarray:
    """Return k-hat of the weights of draws, (n_samples, n_draws); zero where as good as all draws stay effective."""
    raw = np.exp(log_ratios - logsumexp(log_ratios, axis=1, keepdims=True))
    uneven = 1.0 / (raw**2).sum(axis=1) < EVEN * raw.shape[1]
    found = np.zeros(len(raw))
    if uneven.any():
        found[uneven] = smooth_weights(log_ratios[uneven])[1]
    return found


def _pit(likelihood: Any, draws: HyperDraws, targets: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return P(target below the own one), (n_samples,) or (n_samples, n_outputs)."""
    each = of_points(likelihood.cdf, targets, draws.cavity_mean, draws.cavity_variance, draws.parameters)
    below = np.clip((weights[:, None] * each).sum(axis=0), 0.0, 1.0)
    return below[0] if len(below) == 1 else below.T
