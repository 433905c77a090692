"""The bound of tasks with related kernel weights: exact, never falling, flat at convergence."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import TaskPriors, random_gamma, random_gaussian, random_intermediate, step
from scipy import stats
from test_bound import (
    check_flat,
    deviation,
    gamma_law,
    moves_of_gamma,
    moves_of_normal,
    moves_of_scores,
    normal,
    with_entry,
)
from test_multitask import (
    N_KERNELS,
    random_problem,
)

from bayesmkl._numerics.truncated_normal import truncated_moments
from bayesmkl.bemkl import multitask
from bayesmkl.bemkl.ascent import LoopOptions
from bayesmkl.bemkl.model import State
from bayesmkl.bemkl.moments import Gamma, Gaussian, latent_mean
from bayesmkl.bemkl.multitask import MultitaskState, TaskReadouts

N_DRAWS = 20_000


def random_state(rng, problem):
    """Return random factors, optima of nothing, and the locations of the scores."""
    tasks, locs = [], []
    for task in problem.tasks:
        n_samples = len(task.y)
        one = {
            "sample_precision": random_gamma(rng, n_samples),
            "dual": random_gaussian(rng, n_samples, 0.3),
            "intermediate": random_intermediate(rng, N_KERNELS, n_samples, 0.3),
            "intercept_precision": random_gamma(rng),
            "kernel_precision": None,
            "readout": None,
        }
        locs.append(rng.normal(size=n_samples))
        if not task.outcome.has_noise:
            tasks.append(State(**one, latent=truncated_moments(locs[-1], task.y, task.outcome.margin)))
        else:
            noise = {name: random_gamma(rng) for name in ("intermediate_precision", "noise_precision")}
            tasks.append(State(**one, **noise))
    given = [random_gaussian(rng, 1 + N_KERNELS, 0.3) for _ in tasks]
    given = Gaussian(*(np.array(field) for field in zip(*given, strict=True)))
    slope = rng.normal(size=(len(tasks), 1 + N_KERNELS, N_KERNELS))
    readout = TaskReadouts(random_gaussian(rng, N_KERNELS, 0.3), given, slope)
    return MultitaskState(tuple(tasks), random_gamma(rng, N_KERNELS), random_gamma(rng), readout), locs


def draw_gamma(rng, factor, prior, size):
    """Return draws and log prior minus log factor."""
    law = gamma_law(factor)
    draws = law.rvs(size=(N_DRAWS, *size), random_state=rng)
    ratio = gamma_law(prior).logpdf(draws) - law.logpdf(draws)
    return draws, ratio.reshape(N_DRAWS, -1).sum(axis=1)


def bound_draws(rng, problem, state, locs):
    """Return draws of log p(y, Θ, Ξ) - log q(Θ, Ξ), every density from scipy.stats."""
    priors, readout = TaskPriors.of(problem), state.readout
    omega, ratio = draw_gamma(rng, state.kernel_precision, priors.kernel, (N_KERNELS,))
    tau, more = draw_gamma(rng, state.task_precision, priors.task, (1,))
    e = normal(readout.common).rvs(size=N_DRAWS, random_state=rng)
    ratio += more + stats.norm.logpdf(e, scale=omega**-0.5).sum(axis=1) - normal(readout.common).logpdf(e)
    for t, (task, one, loc) in enumerate(zip(problem.tasks, state.tasks, locs, strict=True)):
        law = stats.multivariate_normal(np.zeros(1 + N_KERNELS), readout.given.cov[t])
        noise = law.rvs(size=N_DRAWS, random_state=rng)
        be = readout.given.mean[t] + (e - readout.common.mean) @ readout.slope[t].T + noise
        gamma, more = draw_gamma(rng, one.intercept_precision, priors.intercept, ())
        ratio += more - law.logpdf(noise) + stats.norm.logpdf(be[:, 0], scale=gamma**-0.5)
        ratio += stats.norm.logpdf(be[:, 1:], loc=e, scale=tau**-0.5).sum(axis=1)
        ratio += task_draws(rng, task, one, priors, be, loc)
    return ratio


def task_draws(rng, task, one, priors, be, loc):
    """Return the part of λ, a, G and the scores or targets of one task."""
    lam, ratio = draw_gamma(rng, one.sample_precision, priors.sample, (len(task.y),))
    a = normal(one.dual).rvs(size=N_DRAWS, random_state=rng)
    ratio += stats.norm.logpdf(a, scale=lam**-0.5).sum(axis=1) - normal(one.dual).logpdf(a)
    law = stats.multivariate_normal(np.zeros(N_KERNELS), one.intermediate.cov)
    columns = law.rvs(size=(N_DRAWS, len(task.y)), random_state=rng)
    g = one.intermediate.mean + columns.transpose(0, 2, 1)
    ratio -= law.logpdf(columns).sum(axis=1)
    if not task.outcome.has_noise:
        upsilon = task.intermediate_precision
    else:
        upsilon, more = draw_gamma(rng, one.intermediate_precision, priors.intermediate, (1, 1))
        ratio += more
    means = np.einsum("mij,sj->smi", task.stack.kernels, a)
    ratio += stats.norm.logpdf(g, loc=means, scale=upsilon**-0.5).sum(axis=(1, 2))
    score = be[:, :1] + np.einsum("sm,smi->si", be[:, 1:], g)
    if not task.outcome.has_noise:
        law = stats.truncnorm(task.outcome.margin - task.y * loc, 60.0, loc=task.y * loc)
        f = task.y * law.rvs(size=(N_DRAWS, len(task.y)), random_state=rng)
        return ratio + (stats.norm.logpdf(f, loc=score) - law.logpdf(task.y * f)).sum(axis=1)
    epsilon, more = draw_gamma(rng, one.noise_precision, priors.noise, (1,))
    return ratio + more + stats.norm.logpdf(task.y, loc=score, scale=epsilon**-0.5).sum(axis=1)


@pytest.mark.heavy
@pytest.mark.parametrize("prior", ["non-sparse", "general"])
def test_bound_of_random_factors_against_monte_carlo(rng, prior):
    problem, _ = random_problem(rng, prior=prior)
    state, locs = random_state(rng, problem)
    assert deviation(bound_draws(rng, problem, state, locs), multitask.elbo(problem, state)) < 4.0


def test_bound_after_sweeps_against_monte_carlo_which_independent_tasks_fail(rng):
    """A bound that takes the entropy of tasks independent of e is not that of this posterior."""
    problem, start = random_problem(rng, prior="general")
    state, bound = multitask.sweep(problem, start)
    for _ in range(4):
        state, bound = step(multitask, problem, state)
    assert bound == pytest.approx(multitask.elbo(problem, state), rel=1e-13)
    pairs = zip(state.tasks, state.readout.marginals, strict=True)
    locs = [latent_mean(one.intermediate, readout) for one, readout in pairs]
    draws = bound_draws(rng, problem, state, locs)
    assert deviation(draws, bound) < 4.0
    marginals = sum(readout.entropy for readout in state.readout.marginals)
    assert deviation(draws, bound - state.readout.given.entropy + marginals) > 10.0


def with_item(values, index, value):
    return (*values[:index], value, *values[index + 1 :])


def moves(problem, state):
    """Yield (name, function of the step that returns the moved state) for every variational parameter."""
    for t, (task, one) in enumerate(zip(problem.tasks, state.tasks, strict=True)):
        for field, factor in zip(one._fields, one, strict=True):
            if factor is None or field == "readout":  # the marginal of the readout of all
                continue
            if isinstance(factor, Gamma):
                found = moves_of_gamma(factor)
            elif field == "latent":
                found = moves_of_scores(task, latent_mean(one.intermediate, state.readout.marginals[t]))
            else:
                found = moves_of_normal(factor)
            for name, move in found:

                def moved(h, t=t, one=one, field=field, move=move):
                    return state._replace(tasks=with_item(state.tasks, t, one._replace(**{field: move(h)})))

                yield f"{t}.{field}.{name}", moved
    for field in ("kernel_precision", "task_precision"):
        for name, move in moves_of_gamma(getattr(state, field)):
            yield f"{field}.{name}", lambda h, f=field, move=move: state._replace(**{f: move(h)})
    for name, move in moves_of_readout(state.readout):
        yield f"readout.{name}", lambda h, move=move: state._replace(readout=move(h))


def moves_of_readout(readout):
    for name, move in moves_of_normal(readout.common):
        yield f"common.{name}", lambda h, move=move: readout._replace(common=move(h))
    for t in range(len(readout.slope)):
        one = Gaussian(*(field[t] for field in readout.given))
        for name, move in moves_of_normal(one):

            def moved(h, t=t, move=move):
                fields = zip(readout.given, move(h), strict=True)
                return readout._replace(given=Gaussian(*(with_entry(old, t, new) for old, new in fields)))

            yield f"given{t}.{name}", moved
    for index in np.ndindex(readout.slope.shape):
        yield (
            f"slope{index}",
            lambda h, i=index: readout._replace(slope=with_entry(readout.slope, i, readout.slope[i] + h)),
        )


@pytest.mark.heavy
def test_bound_is_flat_in_every_parameter_by_finite_difference(rng):
    problem, start = random_problem(rng, ("labels", "targets"), sizes=[6, 5])
    state, found = check_flat(multitask, problem, start, LoopOptions(max_iter=4000, tol=1e-15), moves)
    assert np.abs(state.tasks[1].dual.mean).max() > 0.02  # not the trivial optimum
    size = lambda d: d + d * (d + 1) // 2
    readout = size(N_KERNELS) + 2 * (size(1 + N_KERNELS) + (1 + N_KERNELS) * N_KERNELS)
    duals, outputs = size(6) + size(5), 11 * N_KERNELS + N_KERNELS * (N_KERNELS + 1)
    gammas = 2 * (11 + 2 + 2 + N_KERNELS + 1)  # λ, γ, (υ, ε), ω, τ
    assert len(found) == readout + duals + outputs + gammas + 6
