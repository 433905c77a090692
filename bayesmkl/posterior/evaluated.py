"""A posterior at its training samples: scores, shares and densities of every draw."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from bayesmkl.bemkl.collapsed import (
    log_label,
    log_likelihood,
    log_prior,
    log_variational,
    score_means,
    score_scales,
)
from bayesmkl.bemkl.draws import PosteriorDraws
from bayesmkl.bemkl.regression import RegressionProblem
from bayesmkl.bemkl.shares import share_draws
from bayesmkl.posterior.fitted import FittedBEMKL

__all__ = ["Evaluated", "evaluate_model"]


class Evaluated:
    """One model's draws with what they say at its training samples, in the units of the fit.

    Parameters
    ----------
    problem : BinaryProblem or RegressionProblem
        What the model was fitted to.
    draws : PosteriorDraws
        Chains.

    Attributes
    ----------
    flat : PosteriorDraws
        The chains in a row: n_draws of them in all. All properties below have one row per draw.
    """

    def __init__(self, problem: Any, draws: PosteriorDraws) -> None:
        self.problem, self.draws, self.flat = problem, draws, draws.flat()
        self.is_regression = isinstance(problem, RegressionProblem)

    def in_chains(self, values: np.ndarray) -> np.ndarray:
        """Split the first axis into (n_chains, n_draws)."""
        return values.reshape(self.draws.n_chains, self.draws.n_draws, *values.shape[1:])

    @cached_property
    def means(self) -> np.ndarray:
        """Mean scores m, (n_draws, n_samples)."""
        return score_means(self.problem.stack, self.flat)

    @cached_property
    def scales(self) -> np.ndarray:
        """Standard deviations s of the score around its mean, (n_draws,)."""
        return score_scales(self.flat, getattr(self.problem, "intermediate_precision", None))

    @cached_property
    def shares(self) -> np.ndarray:
        """Kernel shares, (n_draws, n_kernels)."""
        return share_draws(self.problem.stack, self.flat.dual, self.flat.kernel_weights)

    @cached_property
    def log_likelihood(self) -> np.ndarray:
        """``log p(y_i | a, b, e)``, (n_draws, n_samples)."""
        return log_likelihood(self.problem, self.flat, self.means)

    @cached_property
    def log_sides(self) -> np.ndarray:
        """Log probabilities of a score beyond the margin, below and above, (n_draws, n_samples, 2)."""
        return log_label(self.means, self.scales, self.problem.margin)

    @property
    def label_probabilities(self) -> np.ndarray:
        """Probability of the label +1 given that there is a label, (n_draws, n_samples)."""
        odds = self.log_sides[..., 1] - self.log_sides[..., 0]
        return np.exp(-np.logaddexp(0.0, -odds))

    def replicate(self, rng: np.random.Generator) -> np.ndarray:
        """Draw one new target per draw and training sample: labels 0 and 1, or numbers; (n_draws, n_samples)."""
        if self.is_regression:
            return self.means + self.scales[:, None] * rng.standard_normal(self.means.shape)
        return (rng.random(self.means.shape) < self.label_probabilities).astype(np.int8)


def evaluate_model(
    fitted: FittedBEMKL, n_draws: int | None, rng: np.random.Generator, kernels: Any = None
) -> tuple[list[Evaluated], list[np.ndarray] | None]:
    """Evaluate draws of all models of an estimator, and their log importance ratios if they need a correction.

    Parameters
    ----------
    fitted : FittedBEMKL
    n_draws : int or None
        Draws in each chain, see `FittedBEMKL.draws`.
    rng : numpy.random.Generator
    kernels : array-like, optional
        See `FittedBEMKL.training_stack`.

    Returns
    -------
    list of Evaluated
    list of array of shape (n_draws,), or None
        ``log p(y, a, b, e) - log q(a, b, e)`` of "vb" and "svi" draws; None for Markov chains of the posterior.
    """
    problems = fitted.problems(kernels)
    models = [Evaluated(*pair) for pair in zip(problems, fitted.draws(n_draws, rng), strict=True)]
    if fitted.is_sampled:
        return models, None
    ratios = []
    for model, state, stats in zip(models, fitted.states, fitted.statistics(n_draws), strict=True):
        log_q = stats["log_variational"].ravel() if fitted.is_drawn else log_variational(state, model.flat)
        ratios.append(model.log_likelihood.sum(axis=1) + log_prior(model.problem, model.flat) - log_q)
    return models, ratios
