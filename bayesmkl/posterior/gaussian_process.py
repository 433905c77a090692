"""Draws of additive Gaussian processes, for ArviZ."""

from __future__ import annotations

from typing import Any

import numpy as np

from bayesmkl.gp.reading import HyperDraws
from bayesmkl.gp.tasks import correlations
from bayesmkl.posterior.cavities import log_predictive_of_points
from bayesmkl.posterior.fitted import FittedBEMKL, evenly

TIE = 1e-3  # nats that tell draws of one point apart: ArviZ divides by zero where the largest weights are the same
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
    parameters, n_outputs = draws.parameters[point], draws.score.shape[1]
    groups = {"posterior": parameters_of_process(fitted, chosen)}
    if not fitted.has_landmarks:
        groups["posterior_predictive"] = {"y": _outputs(fitted, estimator._replicate(score, parameters, rng))}
        groups["log_likelihood"] = {"y": _left_out(fitted, point)}
    n_prior = min(N_PRIOR, len(chosen))
    weights, own = estimator._draw_prior(n_prior, n_outputs, rng)
    groups["prior"] = {"kernel_weights": weights[:, : estimator.n_kernels_in_], **_parameters(fitted, own)}
    if pointwise and not fitted.has_landmarks:
        scores = estimator._draw_prior_scores(weights, n_outputs, rng)
        groups["prior_predictive"] = {"y": _outputs(fitted, estimator._replicate(scores, own, rng))}
    return {
        group: {name: values[None] for name, values in variables.items()}
        for group, variables in groups.items()
    }


def parameters_of_process(fitted: FittedBEMKL, chosen: np.ndarray) -> dict[str, np.ndarray]:
    """Return weights, shares, scores and parameters of some draws, by the names that users see.

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
        **({} if fitted.has_landmarks else {"score": _outputs(fitted, draws.score[chosen])}),
        **_parameters(fitted, draws.parameters[point]),
        **_effects(fitted, chosen),
    }


def _left_out(fitted: FittedBEMKL, point: np.ndarray) -> np.ndarray:
    """Return log densities of samples, with all their outputs, by the others, (n_draws, n_samples).

    The posterior of the hyperparameters without a sample is the posterior divided by this density, up to a constant.
    Importance weights 1 / p are therefore right with it. They are not with the density given the sample's own score.
    """
    estimator, draws = fitted.estimator, fitted.states[0]
    targets = estimator._targets_of_outputs()
    of_points = log_predictive_of_points(fitted, draws.cavity_mean, draws.cavity_variance)
    found = np.array([estimator._log_predictive(targets, each, each.sum(axis=0)) for each in of_points])
    return found[point] + np.random.default_rng(0).normal(scale=TIE, size=(len(point), found.shape[1]))


def _effects(fitted: FittedBEMKL, chosen: np.ndarray) -> dict[str, np.ndarray]:
    """Return draws of the coefficients of covariates and groups, and of what relates tasks, by name."""
    design = fitted.estimator.design_
    if design is None:
        return {}
    draws: HyperDraws = fitted.states[0]
    found, n_covariates = {}, len(design.covariates)
    if design.covariates:
        found["covariate_effects"] = _outputs(fitted, draws.effects[chosen][..., :n_covariates])
    if design.groups:
        found["group_std"] = draws.group_std[draws.point[chosen]]
        found["group_effects"] = _outputs(fitted, draws.effects[chosen][..., n_covariates:])
    if design.has_tasks:
        n_tasks, values = len(design.tasks), draws.task_values[draws.point[chosen]]
        found["task_std"] = values[:, :n_tasks]
        found["task_correlation"] = correlations(values[:, n_tasks:], n_tasks)
        found["task_shares"] = draws.task_shares[chosen]
    return found


def _parameters(fitted: FittedBEMKL, parameters: np.ndarray) -> dict[str, np.ndarray]:
    """Return the parameters of the likelihood, (n_draws, n_outputs, n_parameters), by name."""
    names = fitted.estimator.likelihood_.names
    return {name: _outputs(fitted, parameters[..., k]) for k, name in enumerate(names)}


def _outputs(fitted: FittedBEMKL, values: np.ndarray) -> np.ndarray:
    """Drop the axis of outputs, the second, where there is one output."""
    return values[:, 0] if fitted.output_names is None else values
