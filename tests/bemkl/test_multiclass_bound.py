"""The bound of several outputs with one set of kernel weights: exact, never falling, flat at convergence."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import arrays_of, random_kernels
from scipy import stats
from test_elbo import deviation, gamma_law, normal
from test_multiclass import (
    MODELS,
    N_KERNELS,
    N_OUTPUTS,
    N_SAMPLES,
    PLAIN,
    one_output,
    problem_of,
    random_problem,
    random_state,
    single_problem,
    targets_of,
)
from test_stationarity import moves_of_gamma, moves_of_normal, with_entry

from bayesmkl._numerics.convergence import Outcome
from bayesmkl._numerics.truncated_normal import truncated_moments
from bayesmkl.bemkl.ascent import LoopOptions, maximize_elbo
from bayesmkl.bemkl.moments import Gamma
from bayesmkl.bemkl.outputs import latent_mean


def bound_draws(model, rng, problem, state, loc, n_draws=10_000):
    """Return draws of log p(y, Θ, Ξ) - log q(Θ, Ξ), every density from scipy.stats."""
    log_p, log_q = np.zeros(n_draws), np.zeros(n_draws)
    kernels, priors, draws = np.asarray(problem.stack.kernels), problem.priors, {}
    gammas = {"sample_precision": priors.sample, "intercept_precision": priors.intercept}
    gammas |= {"kernel_precision": priors.kernel}
    if model == "targets":
        gammas |= {"intermediate_precision": priors.intermediate, "noise_precision": priors.noise}
    for name, prior in gammas.items():
        law = gamma_law(getattr(state, name))
        draws[name] = law.rvs(size=(n_draws, *np.shape(getattr(state, name).rate)), random_state=rng)
        axes = tuple(range(1, draws[name].ndim))
        log_q += law.logpdf(draws[name]).sum(axis=axes)
        log_p += gamma_law(prior).logpdf(draws[name]).sum(axis=axes)
    readout = normal(state.readout).rvs(size=n_draws, random_state=rng)
    log_q += normal(state.readout).logpdf(readout)
    b, e = readout[:, :N_OUTPUTS], readout[:, N_OUTPUTS:]
    log_p += stats.norm.logpdf(b, scale=draws["intercept_precision"] ** -0.5).sum(axis=1)
    log_p += stats.norm.logpdf(e, scale=draws["kernel_precision"] ** -0.5).sum(axis=1)
    for c in range(N_OUTPUTS):
        one = one_output(state, c)
        a = normal(one.dual).rvs(size=n_draws, random_state=rng)
        log_q += normal(one.dual).logpdf(a)
        log_p += stats.norm.logpdf(a, scale=draws["sample_precision"][:, c] ** -0.5).sum(axis=1)
        noise = stats.multivariate_normal(np.zeros(N_KERNELS), one.intermediate.cov)
        columns = noise.rvs(size=(n_draws, N_SAMPLES), random_state=rng)
        log_q += noise.logpdf(columns).sum(axis=1)
        g = one.intermediate.mean + columns.transpose(0, 2, 1)
        upsilon = epsilon = None
        if model == "targets":
            upsilon = draws["intermediate_precision"][:, c, None, None]
            epsilon = draws["noise_precision"][:, c, None]
        scale = (problem.intermediate_precision if upsilon is None else upsilon) ** -0.5
        means = np.einsum("mij,sj->smi", kernels, a)
        log_p += stats.norm.logpdf(g, loc=means, scale=scale).sum(axis=(1, 2))
        score = b[:, c, None] + np.einsum("sm,smi->si", e, g)
        if model == "targets":
            log_p += stats.norm.logpdf(problem.y[c], loc=score, scale=epsilon**-0.5).sum(axis=1)
            continue
        law = stats.truncnorm(problem.outcome.margin - problem.y[c] * loc[c], 60.0, loc=problem.y[c] * loc[c])
        f = problem.y[c] * law.rvs(size=(n_draws, N_SAMPLES), random_state=rng)
        log_q += law.logpdf(problem.y[c] * f).sum(axis=1)
        log_p += stats.norm.logpdf(f, loc=score).sum(axis=1)
    return log_p - log_q


@pytest.mark.heavy
@pytest.mark.parametrize("prior", ["non-sparse", "general"])
@MODELS
def test_bound_of_random_factors_against_monte_carlo(rng, model, prior):
    module, problem, _ = random_problem(model, rng, prior, margin=0.6, sigma=1.4)
    state, loc = random_state(model, rng, problem)
    assert deviation(bound_draws(model, rng, problem, state, loc), module.elbo(problem, state)) < 4.0


@MODELS
def test_bound_after_sweeps_against_monte_carlo_which_separate_weights_fail(rng, model):
    """Counting the terms of e once per output, as separate models do, is not the bound of shared weights."""
    module, problem, start = random_problem(model, rng, "general")
    state, bound = module.sweep(problem, start)
    for _ in range(4):
        state, bound = module.step(problem, state)
    assert bound == pytest.approx(module.elbo(problem, state), rel=1e-13)
    loc = latent_mean(state.intermediate, state.readout)
    draws = bound_draws(model, rng, problem, state, loc)
    assert deviation(draws, bound) < 4.0
    singles = 0.0
    for c in range(N_OUTPUTS):
        single, alone, _ = single_problem(model, problem.stack.kernels, problem.y[c], "general")
        singles += single.elbo(alone, one_output(state, c))
    assert deviation(draws, singles) > 20.0


def check_monotone(model, rng, n_problems, n_sweeps):
    kinds = ["smooth", "rank deficient", "duplicated", "near identity", "badly scaled"]
    n_gains = 0
    for index in range(n_problems):
        n_samples, n_kernels = int(rng.integers(5, 31)), int(rng.integers(1, 10))
        kernels = random_kernels(rng, n_samples, n_kernels, kinds[index % len(kinds)])
        prior = ["non-sparse", "sparse", "general"][index % 3]
        margin, sigma = float(rng.integers(0, 2)), float(rng.choice([0.1, 0.5, 1.0, 3.0]))
        y = targets_of(model, rng, kernels, int(rng.integers(2, 7)))
        module, problem, start = problem_of(model, kernels, y, prior, margin, sigma)
        for accelerate in (False, True):
            result = maximize_elbo(
                module, problem, start, PLAIN._replace(max_iter=n_sweeps, accelerate=accelerate)
            )
            bound = result.elbo_history
            assert result.outcome is Outcome.MAX_ITER, index
            assert not (bound[:-1] - bound[1:] > 1e-9 * np.abs(bound[1:])).any(), index
            assert bound[-1] == pytest.approx(module.elbo(problem, result.state), rel=1e-12)
            n_gains += int((np.diff(bound) > 1e-6).sum())
    assert n_gains > 10 * n_problems  # the bounds did move


def moves(problem, state):
    """Yield (name, function of the step that returns the moved state) for every variational parameter."""
    for field, factor in zip(state._fields, state, strict=True):
        if factor is None:
            continue
        if isinstance(factor, Gamma):
            found = moves_of_gamma(factor)
        elif field == "readout":
            found = moves_of_normal(factor)
        elif field == "latent":
            found = moves_of_truncated(problem, state)
        else:
            found = moves_of_outputs(factor)
        for name, move in found:
            yield f"{field}.{name}", lambda h, f=field, move=move: state._replace(**{f: move(h)})


def moves_of_truncated(problem, state):
    loc = latent_mean(state.intermediate, state.readout)
    for i in np.ndindex(loc.shape):
        yield (
            f"location{i}",
            lambda h, i=i: truncated_moments(
                with_entry(loc, i, loc[i] + h), problem.y, problem.outcome.margin
            ),
        )


def moves_of_outputs(factor):
    """Means of every output and covariances, of every output or one for all."""
    shared = factor.cov.ndim == 2
    for c, mean in enumerate(factor.mean):
        cov, log_det = (factor.cov, factor.log_det) if shared else (factor.cov[c], factor.log_det[c])
        for name, move in moves_of_normal(type(factor)(mean, cov, log_det)):
            if shared and name.startswith("cov") and c > 0:
                continue

            def moved(h, c=c, move=move):
                one = move(h)
                mean = with_entry(factor.mean, c, one.mean)
                if shared:
                    return type(factor)(mean, one.cov, one.log_det)
                cov, log_det = with_entry(factor.cov, c, one.cov), with_entry(factor.log_det, c, one.log_det)
                return type(factor)(mean, cov, log_det)

            yield f"{c}.{name}", moved


def slopes(module, problem, state, h=1e-4):
    """Return the central difference of the bound in every parameter, by name."""
    return {
        name: float(module.elbo(problem, move(h)) - module.elbo(problem, move(-h))) / (2 * h)
        for name, move in moves(problem, state)
    }


@pytest.mark.heavy
@MODELS
def test_bound_is_flat_in_every_parameter_by_finite_difference(rng, model):
    module, problem, start = random_problem(model, rng, n_samples=7, margin=0.8, sigma=0.7)
    before, _ = module.sweep(problem, start)
    state = maximize_elbo(module, problem, start, LoopOptions(max_iter=1500, tol=1e-15)).state
    assert np.abs(state.dual.mean).max() > 0.02  # not the trivial optimum, at which kernels play no part
    found = slopes(module, problem, state)
    size = lambda d: d * (d + 1) // 2
    covs = N_OUTPUTS * size(7) + size(N_OUTPUTS + N_KERNELS)
    covs += size(N_KERNELS) * (1 if model == "classes" else N_OUTPUTS)
    numbers = sum(np.size(value) for name, value in arrays_of(state) if name.endswith((".mean", ".rate")))
    rates = sum(np.size(value) for name, value in arrays_of(state) if name.endswith(".rate"))
    assert len(found) == covs + numbers + rates  # a concentration for every rate
    steepest = max(found, key=lambda name: abs(found[name]))
    assert abs(found[steepest]) < 1e-4, f"{steepest}: {found[steepest]:.1e}"
    assert max(map(abs, slopes(module, problem, before).values())) > 0.1
