"""Bounds of tasks with related weights, and of samples that lack views, term by term with 50 digits."""

from __future__ import annotations

import sys
from pathlib import Path

import mpmath
import numpy as np
import pytest
from helpers import TaskPriors, label_task, random_kernels, target_task
from many_digits import (
    DIGITS,
    LOG_2PI,
    exact,
    gamma_bound,
    gamma_moments,
    inverse,
    normal_entropy,
    truncated,
    zero_mean_bound,
)

from bayesmkl.bemkl import multitask
from bayesmkl.bemkl.moments import Gamma
from bayesmkl.kernels.stacks.dense import DenseStack

sys.path.append(str(Path(__file__).parents[1] / "bemkl"))
from test_missing_views import random_problem

pytestmark = [pytest.mark.family("numbers under stress"), pytest.mark.heavy]

CLOSE = 1e-11


def shape_and_rate(factor, *shape):
    rate = exact(np.broadcast_to(factor.rate, shape))
    return np.broadcast_to(exact(factor.concentration), rate.shape), rate


def log_det(matrix):
    return -inverse(matrix)[1]


def residual_bound(size, misfit, mean, log_mean):
    return (size * (log_mean - LOG_2PI) - mean * misfit) / 2


def noise_terms(factor, prior, size, misfit):
    """Bound of a learned noise precision, and of the residuals that it belongs to."""
    shape, rate = (part[0] for part in shape_and_rate(factor, 1))
    mean, log_mean, _ = gamma_moments(shape, rate)
    return gamma_bound(shape, rate, prior) + residual_bound(size, misfit, mean, log_mean)


def dual_terms(factor, prior, mean, cov):
    """λ and a."""
    gammas = shape_and_rate(factor, len(mean))
    square = mean**2 + np.diag(cov)
    entropy = normal_entropy(len(mean), log_det(cov))
    return gamma_bound(*gammas, prior) + zero_mean_bound(square, *gammas) + entropy


def expected_misfit(f, weights, rows, covs, be, be_cov):
    """Weighted sum of E (f - e'x - b)² over samples, by expanding the square."""
    second, total = np.outer(be, be) + be_cov, mpmath.mpf(0)
    for i in range(len(f)):
        row = np.concatenate([exact(np.ones(1)), rows[:, i]])
        outer = np.outer(row, row)
        outer[1:, 1:] = outer[1:, 1:] + covs[i]
        total += weights[i] * (f[i] ** 2 - 2 * f[i] * (be @ row) + np.sum(second * outer))
    return total


# ------------------------------------------------------------------------------------------------ related tasks


def tasks_under(rng, priors, margin=1.0):
    """A regression and two classifications, of different sizes."""
    tasks = []
    for n, kind in [(5, "labels"), (4, "targets"), (4, "labels")]:
        stack = DenseStack(random_kernels(rng, n, 2))
        y = rng.normal(size=n)
        if kind == "labels":
            tasks.append(label_task(stack, np.where(np.arange(n) % 2, 1.0, -1.0), margin, 1.7))
        else:
            tasks.append(target_task(stack, y))
    return priors.problem_of(tasks)


def multitask_bound(problem, state):
    priors, readout, P = TaskPriors.of(problem), state.readout, 2
    common, common_cov = exact(readout.common.mean), exact(readout.common.cov)
    total = normal_entropy(P, log_det(common_cov))
    distance = mpmath.mpf(0)
    for t, (task, one) in enumerate(zip(problem.tasks, state.tasks, strict=True)):
        slope, given, be = exact(readout.slope[t]), exact(readout.given.cov[t]), exact(readout.given.mean[t])
        be_cov = given + slope @ common_cov @ slope.T
        total += normal_entropy(1 + P, log_det(given))
        apart = slope[1:] - exact(np.eye(P))
        distance += np.sum((be[1:] - common) ** 2) + np.trace(given[1:, 1:] + apart @ common_cov @ apart.T)
        K, mean, cov = exact(task.stack.kernels), exact(one.dual.mean), exact(one.dual.cov)
        G, G_cov, n = exact(one.intermediate.mean), exact(one.intermediate.cov), len(task.y)
        total += dual_terms(one.sample_precision, priors.sample, mean, cov)
        total += normal_entropy(P * n, n * log_det(G_cov))
        gammas = shape_and_rate(one.intercept_precision, 1)
        total += gamma_bound(*gammas, priors.intercept)
        total += zero_mean_bound(be[0] ** 2 + be_cov[0, 0], *gammas)
        gram = sum(k.T @ k for k in K)
        g_misfit = (
            np.sum((G - np.array([k @ mean for k in K])) ** 2) + n * np.trace(G_cov) + np.sum(gram * cov)
        )
        covs, weights = [G_cov] * n, exact(np.ones(n))
        if not task.outcome.has_noise:
            locs, upsilon = be[1:] @ G + be[0], exact(task.intermediate_precision)
            moments = [
                truncated(loc, y, exact(task.outcome.margin))
                for loc, y in zip(locs, exact(task.y), strict=True)
            ]
            misfit = expected_misfit([m[0] for m in moments], weights, G, covs, be, be_cov)
            misfit += sum(m[1] for m in moments)
            total += residual_bound(n, misfit, 1, 0) + sum(m[2] for m in moments)
            total += residual_bound(n * P, g_misfit, upsilon, mpmath.log(upsilon))
        else:
            misfit = expected_misfit(exact(task.y), weights, G, covs, be, be_cov)
            total += noise_terms(one.noise_precision, priors.noise, n, misfit)
            total += noise_terms(one.intermediate_precision, priors.intermediate, n * P, g_misfit)
    gammas = shape_and_rate(state.kernel_precision, P)
    total += gamma_bound(*gammas, priors.kernel) + zero_mean_bound(common**2 + np.diag(common_cov), *gammas)
    return total + noise_terms(state.task_precision, priors.task, len(problem.tasks) * P, distance)


PRIORS = {
    "general": TaskPriors(
        Gamma(1.3, 0.7), Gamma(0.6, 2.1), Gamma(2.2, 0.4), Gamma(1.4, 0.6), Gamma(3.1, 1.7), Gamma(0.8, 0.3)
    ),
    "sparse": TaskPriors(kernel=Gamma(1e-10, 1e-10)),
    "shared": TaskPriors(task=Gamma(1e10, 1e4)),
    "separate": TaskPriors(task=Gamma(1e10, 1e14)),
    "all known": TaskPriors(*[Gamma(1e10, 1e10)] * 6),
}


@pytest.mark.parametrize("margin", [0.0, 1.0, 1e3])
@pytest.mark.parametrize("name", PRIORS)
def test_related_tasks(rng, name, margin):
    problem = tasks_under(rng, PRIORS[name], margin)
    start = multitask.init(problem, np.concatenate([np.ones(5), np.zeros(4), np.ones(4)]))
    state, bound = multitask.sweep(problem, start)
    for _ in range(2):
        state, bound = multitask.step(problem, state)
    with mpmath.workdps(DIGITS):
        assert float(bound) == pytest.approx(float(multitask_bound(problem, state)), rel=CLOSE)


# ------------------------------------------------------------------------------------------------- missing views


def bound_with_gaps(problem, state):
    """The bound of several outputs whose samples have some of the views; scores follow E[x], Cov[x] of all views."""
    outputs, absent, priors = state.intermediate, problem.absent, problem.priors
    (C, P, N), pattern = outputs.mean.shape, np.asarray(absent.pattern)
    present = np.asarray(problem.stack.present)
    be, be_cov = exact(state.readout.mean), exact(state.readout.cov)
    K = exact(problem.stack.kernels)
    total = normal_entropy(C + P, log_det(be_cov))
    gammas = shape_and_rate(state.intercept_precision, C), shape_and_rate(state.kernel_precision, P)
    square = be**2 + np.diag(be_cov)
    total += gamma_bound(*gammas[0], priors.intercept) + zero_mean_bound(square[:C], *gammas[0])
    total += gamma_bound(*gammas[1], priors.kernel) + zero_mean_bound(square[C:], *gammas[1])
    take = lambda factor, c: factor._replace(rate=np.asarray(factor.rate)[c])
    for c in range(C):
        mean, cov = exact(state.dual.mean[c]), exact(state.dual.cov[c])
        total += dual_terms(take(state.sample_precision, c), priors.sample, mean, cov)
        rows, covs = exact(outputs.mean[c]), exact(outputs.cov[c])[pattern]
        g_misfit, size = mpmath.mpf(0), int(present.sum())
        for i in range(N):
            have = np.flatnonzero(present[:, i])
            total += normal_entropy(len(have), log_det(covs[i][np.ix_(have, have)]))
            for m in have:
                k = K[m, i]
                g_misfit += (rows[m, i] - k @ mean) ** 2 + covs[i][m, m] + k @ cov @ k
        excess = exact(absent.excess[c])[pattern]
        weights = 1 / (1 + excess)
        pair = [c, *range(C, C + P)]
        one = be[pair], be_cov[np.ix_(pair, pair)]
        total -= sum(mpmath.log(1 + value) for value in excess) / 2
        if not problem.outcome.has_noise:
            locs, labels = one[0][1:] @ rows + one[0][0], exact(problem.y[c])
            moments = [
                truncated(loc, y, exact(problem.outcome.margin)) for loc, y in zip(locs, labels, strict=True)
            ]
            misfit = expected_misfit([m[0] for m in moments], weights, rows, covs, *one)
            total += residual_bound(N, misfit + sum(m[1] for m in moments), 1, 0) + sum(m[2] for m in moments)
            upsilon = exact(problem.intermediate_precision)
            total += residual_bound(size, g_misfit, upsilon, mpmath.log(upsilon))
        else:
            misfit = expected_misfit(exact(problem.y[c]), weights, rows, covs, *one)
            total += noise_terms(take(state.noise_precision, c), priors.noise, N, misfit)
            total += noise_terms(take(state.intermediate_precision, c), priors.intermediate, size, g_misfit)
    return total


@pytest.mark.parametrize("prior", ["non-sparse", "sparse"])
@pytest.mark.parametrize("model", ["labels", "targets"])
def test_samples_that_lack_views(rng, model, prior):
    module, problem, start = random_problem(model, rng, n_samples=6, n_outputs=2, prior=prior)
    state, bound = module.sweep(problem, start)
    for _ in range(2):
        state, bound = module.step(problem, state)
    with mpmath.workdps(DIGITS):
        assert float(bound) == pytest.approx(float(bound_with_gaps(problem, state)), rel=CLOSE)
