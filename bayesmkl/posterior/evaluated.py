r"""Evaluation of posterior draws at the training samples: scores, shares and densities.

Of classes that compete, the probability of each is that of the largest of several normal scores with one variance:
given a, b and e the scores of a sample under the multinomial probit model are independent, :math:`f_c \sim
N(m_c, s^2)`. In units of s, with :math:`\nu` the margin,

.. math:: P(f_c > f_d + \nu \;\; \forall d \ne c) = \int \varphi(t - m_c) \prod_{d \ne c} \Phi(t - m_d - \nu) \; dt .

All classes share the product over d, less its own factor: one grid over t serves them all, at the cost of a single
class. The integrands are smooth and vanish at both ends, for which the trapezoidal rule is as good as it gets.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import log_ndtr

from bayesmkl.bemkl.draws import (
    PosteriorDraws,
    log_likelihood,
    log_prior,
    log_variational,
    score_means,
    score_scales,
    share_of_each,
)
from bayesmkl.bemkl.outputs import AbsentViews
from bayesmkl.kernels.stacks.base import Stack
from bayesmkl.outcomes import Classes, Grades, Labels
from bayesmkl.outcomes.labels import log_beyond
from bayesmkl.posterior.fitted import FittedBEMKL

LOG_2PI = float(np.log(2.0 * np.pi))
REACH = 6.0  # of the grid beyond where an integrand can have its maximum
STEP = 0.45  # at most; integrands are normal densities of a standard deviation above 0.3, cut off smoothly
BLOCK_SIZE = 2**22  # numbers in a temporary array over all nodes


def log_class_probabilities(scores: np.ndarray, margin: np.ndarray | float) -> np.ndarray:
    """Return the log probability of every class to exceed all others by the margin.

    Parameters
    ----------
    scores : array of shape (n_classes, n_draws, n_samples)
        Means, in units of the standard deviation.
    margin : array that broadcasts with (n_draws, n_samples)
        In the same units.

    Returns
    -------
    array of shape (n_draws, n_samples, n_classes)
        Without a margin the probabilities sum to one.

    Examples
    --------
    >>> probabilities = np.exp(log_class_probabilities(np.zeros((3, 1, 1)), 0.0))
    >>> probabilities.round(6)
    array([[[0.333333, 0.333333, 0.333333]]])
    """
    n_classes, *shape = scores.shape
    flat, margins = scores.reshape(n_classes, -1), np.broadcast_to(margin, shape).ravel()
    # the mode of a class lies between its own score and the largest of the others, hardly below their middle
    low, high = 0.5 * (flat.min(axis=0) + flat.max(axis=0)) - REACH, flat.max(axis=0) + margins + REACH
    found = np.empty((flat.shape[1], n_classes))
    order = np.argsort(high - low)  # so that a block needs about the same number of nodes throughout
    for block in np.array_split(order, _n_blocks(n_classes, high - low)):
        found[block] = _trapezoidal(flat[:, block], margins[block], low[block], high[block]).T
    return found.reshape(*shape, n_classes)


def _n_blocks(n_classes: int, width: np.ndarray) -> int:
    return int(np.ceil(n_classes * (width / STEP).sum() / BLOCK_SIZE))


def _trapezoidal(
    scores: np.ndarray, margin: np.ndarray | float, low: np.ndarray, high: np.ndarray
) -> np.ndarray:
    """Integrate on a uniform grid from `low` to `high`, for scores of shape (n_classes, n)."""
    n_nodes = int(np.ceil((high - low).max() / STEP)) + 1
    step = (high - low) / (n_nodes - 1)
    away = (low + step * np.arange(n_nodes)[:, None]) - scores[:, None, :]  # (n_classes, n_nodes, n)
    log_below = log_ndtr(away - margin)
    others = log_below.sum(axis=0) - log_below
    return np.logaddexp.reduce(others - 0.5 * (away**2 + LOG_2PI), axis=1) + np.log(step)


class Evaluated:
    """One model's draws with what they say at its training samples, in the units of the fit.

    A model has one set of kernel weights and one output or several that share them: classes, labels or targets.

    Parameters
    ----------
    problem : Problem
        Training data of the model.
    draws : PosteriorDraws
        Chains; with an axis of outputs where the targets of `problem` have one.

    Attributes
    ----------
    flat : PosteriorDraws
        The chains in a row: n_draws of them in all. All properties below have one row per draw.
    is_regression : bool
        Whether targets are numbers.
    is_multinomial : bool
        Whether the outputs are classes that compete for a sample.
    """

    def __init__(self, problem: Any, draws: PosteriorDraws) -> None:
        self.problem, self.draws, self.flat = problem, draws, draws.flat()
        self.is_regression = draws.noise_precision is not None
        self.is_multinomial = isinstance(problem.outcome, Classes)
        self.patterns: list[_Pattern] = []

    def in_chains(self, values: np.ndarray) -> np.ndarray:
        """Split the first axis into (n_chains, n_draws)."""
        return values.reshape(self.draws.n_chains, self.draws.n_draws, *values.shape[1:])

    # ---------------------------------------------------------------------------------------- of the whole model

    @property
    def labeled(self) -> np.ndarray:
        """Mask of samples with a target, (n_samples,) of bool: all but unlabeled ones, whose label is zero."""
        if self.is_regression:
            return np.ones(self.problem.y.shape[-1], dtype=bool)
        return np.all(np.atleast_2d(self.problem.y) != 0.0, axis=0)

    @cached_property
    def outputs(self) -> list[Evaluated]:
        """One model per output; this one where there is but one. They know nothing of competing classes."""
        if not self.draws.has_outputs:
            return [self]
        problems = _problems_of_outputs(self.problem)
        found = [Evaluated(*pair) for pair in zip(problems, self.draws.outputs(), strict=True)]
        for c, output in enumerate(found):
            output.patterns = _patterns(self.problem.absent, c)
        return found

    @cached_property
    def shares(self) -> np.ndarray:
        """Kernel shares, (n_draws, n_kernels)."""
        return share_of_each(self.problem.stack, self.flat)

    @cached_property
    def log_likelihood(self) -> np.ndarray:
        """``log p(y_i | a, b, e)`` of the whole target of a sample, (n_draws, n_samples)."""
        if self.is_multinomial:
            own = self.problem.y.argmax(axis=0)[None, :, None]
            return np.take_along_axis(self.log_classes, own, axis=-1)[..., 0]
        if self.draws.has_outputs:
            return np.sum([output.log_likelihood for output in self.outputs], axis=0)
        return log_likelihood(self.problem, self.flat, self.means, self.scales)

    @cached_property
    def log_classes(self) -> np.ndarray:
        """Log probability of every competing class to be the one, by the margin, (n_draws, n_samples, n_classes)."""
        scores = np.stack([output.standard_means for output in self.outputs])
        return log_class_probabilities(scores, self.problem.outcome.margin / self.outputs[0].scales)

    def replicate(self, rng: np.random.Generator) -> np.ndarray:
        """Draw one new target per draw and training sample: labels 0 and 1, grades from 0, or numbers.

        Returns
        -------
        array of shape (n_draws, n_samples), or (n_draws, n_outputs, n_samples)
        """
        if self.is_multinomial:
            cumulated = np.exp(np.logaddexp.accumulate(self.log_classes, axis=-1))
            limit = cumulated[..., -1] * rng.random(cumulated.shape[:-1])
            drawn = (cumulated <= limit[..., None]).sum(axis=-1)
            return (drawn[:, None, :] == np.arange(cumulated.shape[-1])[:, None]).astype(np.int8)
        if self.draws.has_outputs:
            return np.stack([output.replicate(rng) for output in self.outputs], axis=1)
        if self.is_regression:
            return self.means + self.scales * rng.standard_normal(self.means.shape)
        outcome = self.problem.outcome
        if isinstance(outcome, Grades):
            return outcome.likelihood.sample(self.standard_means, outcome.distances_in(self.scales), rng)
        return (rng.random(self.means.shape) < self.label_probabilities).astype(np.int8)

    # ----------------------------------------------------------------------------------------- of a single output

    @cached_property
    def _scores(self) -> tuple[np.ndarray, np.ndarray]:
        stack, precision = self.problem.stack, self.problem.intermediate_precision
        if self.patterns:
            return _completed_scores(stack, self.flat, self.patterns, precision)
        return score_means(stack, self.flat), score_scales(self.flat, precision)[:, None]

    @property
    def means(self) -> np.ndarray:
        """Mean scores m, (n_draws, n_samples)."""
        return self._scores[0]

    @property
    def scales(self) -> np.ndarray:
        """Standard deviations s of the score around its mean, (n_draws, 1), or (n_draws, n_samples) if views miss."""
        return self._scores[1]

    @property
    def standard_means(self) -> np.ndarray:
        """Mean scores in units of their noise, m / s, (n_draws, n_samples)."""
        return self.means / self.scales

    @cached_property
    def log_sides(self) -> np.ndarray:
        """Log probabilities of a score beyond the margin, below and above, (n_draws, n_samples, 2)."""
        return log_beyond(self.standard_means, self.problem.outcome.margin / self.scales)

    @property
    def label_probabilities(self) -> np.ndarray:
        """Probability of the label +1 given that there is a label, (n_draws, n_samples)."""
        odds = self.log_sides[..., 1] - self.log_sides[..., 0]
        return np.exp(-np.logaddexp(0.0, -odds))


class _Pattern(NamedTuple):
    """Samples that lack the same views, and the terms of their score."""

    rows: np.ndarray  # bool, (n_samples,)
    slope: np.ndarray  # (n_kernels, n_kernels), from the present intermediate outputs to the means of all
    excess: float  # variance that the absent ones add to the score, relative to its noise


def _patterns(absent: AbsentViews | None, output: int) -> list[_Pattern]:
    """Return the patterns of missing views, for one output; none where all are there."""
    if absent is None:
        return []
    of_output = (np.asarray(part)[output] for part in (absent.slope, absent.excess))
    return [_Pattern(absent.pattern == p, *own) for p, own in enumerate(zip(*of_output, strict=True))]


def _completed_scores(
    stack: Stack, draws: PosteriorDraws, patterns: list[_Pattern], intermediate_precision: float | None
) -> tuple[np.ndarray, np.ndarray]:
    """Return m and s, each of shape (n_draws, n_samples), of samples that may lack views.

    With ``e' slope g_present`` they are those of other weights, ``slope' e``, and more noise.
    """
    means = np.empty((len(draws.intercept), stack.n_rows))
    scales, weights = np.empty_like(means), draws.kernel_weights
    noise = 1.0 if draws.noise_precision is None else 1.0 / draws.noise_precision
    for rows, slope, excess in patterns:
        present = draws._replace(kernel_weights=weights @ slope)
        means[:, rows] = score_means(stack.rows(rows), present)
        variance = score_scales(present, intermediate_precision) ** 2 + excess * noise
        scales[:, rows] = np.sqrt(variance)[:, None]
    return means, scales


def _problems_of_outputs(problem: Any) -> list[Any]:
    """Return the problems of one output each over the same kernels."""
    outcome = problem.outcome if problem.outcome.has_noise else Labels(problem.outcome.margin)
    return [problem._replace(y=y, outcome=outcome, absent=None) for y in problem.y]


def evaluate_model(
    fitted: FittedBEMKL, n_draws: int | None, rng: np.random.Generator, kernels: ArrayLike | None = None
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
        ``log p(y, a, b, e) - log q(a, b, e)`` of "vb" draws; None for Markov chains of the posterior.
    """
    problems = fitted.problems(kernels)
    models = [Evaluated(*pair) for pair in zip(problems, fitted.draws(n_draws, rng), strict=True)]
    if fitted.is_drawn:
        return models, None
    ratios = []
    for model, state in zip(models, fitted.states, strict=True):
        log_q = log_variational(state, model.flat)
        ratios.append(model.log_likelihood.sum(axis=1) + log_prior(model.problem, model.flat) - log_q)
    return models, ratios


def convergence(draws: np.ndarray) -> dict[str, float]:
    """Return the largest R-hat and the smallest bulk and tail ESS of several quantities.

    Parameters
    ----------
    draws : array of shape (n_chains, n_draws, n)
        Quantities that do not move at all, such as the share of a single kernel, are left out.

    Returns
    -------
    dict
        ``n`` quantities; ``rhat`` (rank normalized, split; NaN for a single chain), ``ess_bulk``, ``ess_tail`` (of
        the 5 % and 95 % quantiles).

    References
    ----------
    Vehtari, A. et al. (2021). Rank-normalization, folding, and localization: an improved R-hat for assessing
    convergence of MCMC. Bayesian Analysis 16.
    """
    from arviz_stats.base import array_stats

    moving = np.moveaxis(draws[..., draws.std(axis=(0, 1)) > 1e-12], -1, 0)
    if len(moving) == 0:
        return {"n": 0, "rhat": np.nan, "ess_bulk": np.nan, "ess_tail": np.nan}
    several = draws.shape[0] > 1
    return {
        "n": len(moving),
        "rhat": float(array_stats.rhat(moving).max()) if several else np.nan,
        "ess_bulk": float(array_stats.ess(moving).min()),
        "ess_tail": float(array_stats.ess(moving, method="tail", prob=(0.05, 0.95)).min()),
    }
