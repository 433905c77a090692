"""Draws of additive Gaussian processes, for ArviZ."""

from __future__ import annotations

from typing import Any

import numpy as np

from bayesmkl.marginal.reading import HyperDraws
from bayesmkl.posterior.fitted import FittedBEMKL, evenly

__all__ = ["drawn_of_process", "parameters_of_process"]

N_PRIOR = 500  # draws from the prior at most: each is a function at all training samples


def drawn_of_process(
    fitted: FittedBEMKL, n_draws: int | None, rng: np.random.Generator, pointwise: bool
) -> dict[str, dict[str, np.ndarray]]:
    """Return all that has one chain and draws, by group and variable; several outputs are the third axis.

    Parameters
    ----------
    fitted : FittedBEMKL
    n_draws : int or None
        At most this many of the draws, at even distances.
    rng : numpy.random.Generator
        Of replicated targets and draws from the prior.
    pointwise : bool
        Whether to draw targets from the prior, which takes the training kernels.
    """
    estimator: Any = fitted.estimator
    draws: HyperDraws = fitted.states[0]
    chosen = evenly(draws.n_draws, n_draws)
    point, score = draws.point[chosen], draws.score[chosen]
    parameters, likelihood = draws.parameters[point], estimator.likelihood_
    targets = np.atleast_2d(estimator.target_)
    groups = {
        "posterior": parameters_of_process(fitted, chosen),
        "posterior_predictive": {"y": _in_units(fitted, _sampled(likelihood, score, parameters, rng))},
        "log_likelihood": {"y": _log_likelihood(fitted, likelihood, targets, score, parameters)},
    }
    n_prior = min(N_PRIOR, len(chosen))
    weights, own = estimator._draw_prior(n_prior, len(targets), rng)
    groups["prior"] = {"kernel_weights": weights, **_noise(fitted, own)}
    if pointwise:
        scores = estimator._draw_prior_scores(weights, len(targets), rng)
        groups["prior_predictive"] = {"y": _in_units(fitted, _sampled(likelihood, scores, own, rng))}
    return {
        group: {name: values[None] for name, values in variables.items()}
        for group, variables in groups.items()
    }


def parameters_of_process(fitted: FittedBEMKL, chosen: np.ndarray) -> dict[str, np.ndarray]:
    """Return weights, shares, scores and noise of some draws, by the names that users see.

    Parameters
    ----------
    fitted : FittedBEMKL
    chosen : ndarray of int
        Positions of the draws.
    """
    draws: HyperDraws = fitted.states[0]
    point = draws.point[chosen]
    return {
        "kernel_weights": draws.kernel_weights[point],
        "kernel_shares": draws.shares[chosen],
        "score": _outputs(fitted, draws.score[chosen]),
        **_noise(fitted, draws.parameters[point]),
    }


def _sampled(
    likelihood: Any, score: np.ndarray, parameters: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """Draw targets of scores, (n_draws, n_outputs, n_samples)."""
    by_parameter = np.moveaxis(parameters, -1, 0)[..., None]
    return likelihood.sample(score, by_parameter, rng)


def _log_likelihood(
    fitted: FittedBEMKL, likelihood: Any, targets: np.ndarray, score: np.ndarray, parameters: np.ndarray
) -> np.ndarray:
    found = likelihood.log_density(targets, score, np.moveaxis(parameters, -1, 0)[..., None])
    scale = np.atleast_1d(getattr(fitted.estimator, "y_scale_", 1.0))
    return _outputs(fitted, found - np.log(scale)[:, None])


def _in_units(fitted: FittedBEMKL, values: np.ndarray) -> np.ndarray:
    """Return labels 0 and 1, or numbers in the units of the user."""
    if fitted.is_classifier:
        return _outputs(fitted, (values > 0.0).astype(np.int8))
    location, scale = (np.atleast_1d(getattr(fitted.estimator, name)) for name in ("y_mean_", "y_scale_"))
    return _outputs(fitted, location[:, None] + scale[:, None] * values)


def _noise(fitted: FittedBEMKL, parameters: np.ndarray) -> dict[str, np.ndarray]:
    return {} if fitted.is_classifier else {"noise_std": _outputs(fitted, parameters[..., 0])}


def _outputs(fitted: FittedBEMKL, values: np.ndarray) -> np.ndarray:
    """Drop the axis of outputs, the second, where there is one output."""
    return values[:, 0] if fitted.output_names is None else values
