"""The check that the closed form stands on: NumPyro's Trace_ELBO of model and guide equals our bound.

The guide is the closed-form posterior in NumPyro's densities, the model the paper's generative story; neither shares
a formula with `elbo`. On twenty problems the mean of log p - log q over draws is the bound, up to three standard
errors. Two bounds that are wrong in the way others have published fail the same comparison.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np
import pytest
from helpers import (
    BINARY_PRIORS,
    REGRESSION_PRIORS,
    assert_same,
    binary_problem,
    informed_target,
    random_kernels,
    regression_problem,
)

from bayesmkl._numerics.truncated_normal import truncated_moments
from bayesmkl._utils.devices import numpyro_session
from bayesmkl.bemkl import model as bemkl
from bayesmkl.bemkl.ascent import LoopOptions, maximize_elbo
from bayesmkl.bemkl.moments import (
    latent_mean,
)
from bayesmkl.posterior import guide as numpyro_guide
from bayesmkl.posterior.guide import elbo_particles

pytestmark = pytest.mark.heavy

N_SAMPLES, N_KERNELS, N_PARTICLES = 40, 5, 4096
STANDARD_ERRORS = 3.0
CONVERGED = 3000  # sweeps at most


class Estimate(NamedTuple):
    """Of the bound, in nats."""

    mean: float
    standard_error: float


class Case(NamedTuple):
    """One problem, and how many sweeps are made on it."""

    task: str
    prior: str
    n_sweeps: int
    margin: float = 1.0
    sigma: float = 1.0


CASES = [
    Case("binary", "non-sparse", CONVERGED),
    Case("binary", "non-sparse", 1, margin=0.3, sigma=0.5),
    Case("binary", "non-sparse", CONVERGED, margin=0.2, sigma=0.1),
    Case("binary", "sparse", CONVERGED),
    Case("binary", "sparse", 3, margin=0.6, sigma=1.4),
    Case("binary", "sparse", CONVERGED, margin=1.5, sigma=0.7),
    Case("binary", "sparse", 10, margin=0.4, sigma=0.1),
    Case("binary", "general", CONVERGED, margin=0.6, sigma=1.4),
    Case("binary", "general", CONVERGED, margin=1.5, sigma=2.0),
    Case("binary", "general", 2, margin=0.0, sigma=0.8),
    Case("regression", "non-sparse", CONVERGED),
    Case("regression", "non-sparse", 1),
    Case("regression", "non-sparse", 5),
    Case("regression", "sparse", CONVERGED),
    Case("regression", "sparse", 2),
    Case("regression", "sparse", 20),
    Case("regression", "sparse", 200),
    Case("regression", "general", CONVERGED),
    Case("regression", "general", 1),
    Case("regression", "general", 10),
]
NUMBERED = pytest.mark.parametrize(  # each is compiled: every other one is left to `make test TESTS=slow`
    "number", [pytest.param(k, marks=[pytest.mark.slow] * (k % 2)) for k in range(len(CASES))]
)
ALGORITHMS = {"binary": bemkl, "regression": bemkl}


def make_problem(case, rng, n_samples=N_SAMPLES, n_kernels=N_KERNELS):
    kernels = random_kernels(rng, n_samples, n_kernels)
    target = informed_target(rng, kernels)
    if case.task == "binary":
        y = np.where(target > 0.0, 1.0, -1.0)
        y[:3] *= -1.0  # a few labels that no score explains
        return binary_problem(kernels, y, BINARY_PRIORS[case.prior], case.margin, case.sigma)
    return regression_problem(kernels, target, REGRESSION_PRIORS[case.prior])


def maximum(case, problem):
    """Return the state and the bound after the sweeps of the case."""
    algorithm = ALGORITHMS[case.task]
    noise = np.full(problem.y.size, 1.0 if case.task == "binary" else 0.0)
    options = LoopOptions(max_iter=case.n_sweeps, tol=1e-12)
    result = maximize_elbo(algorithm, problem, algorithm.init(problem, noise), options)
    return result.state, result.elbo_history[-1]


@cache
def solved(number):
    """Return problem, state and bound."""
    case = CASES[number]
    problem = make_problem(case, np.random.default_rng(number))
    return problem, *maximum(case, problem)


@cache
def estimated(number):
    """Return the estimate of the bound."""
    problem, state, _ = solved(number)
    particles = elbo_particles(problem, state, N_PARTICLES, random_state=number)
    return Estimate(float(particles.mean()), float(particles.std(ddof=1) / np.sqrt(N_PARTICLES)))


def deviation(bound, estimate):
    """Return how many standard errors lie between a bound and its estimate."""
    return abs(estimate.mean - bound) / estimate.standard_error


# --------------------------------------------------------------------------------------------------- the check


@NUMBERED
def test_closed_form_bound_equals_trace_elbo(number):
    (problem, state, bound), estimate = solved(number), estimated(number)
    assert_same(ALGORITHMS[CASES[number].task].elbo(problem, state), bound, 1e-12)
    assert estimate.standard_error < 0.01 * abs(bound)
    assert deviation(bound, estimate) < STANDARD_ERRORS


def test_location_of_the_latent_factor_follows_from_its_moments(rng):
    """q(f) after a sweep has its location at E[e]' E[g] + E[b], which the guide is not told."""
    y, margin = np.where(rng.random(200) < 0.5, -1.0, 1.0), 0.7
    location = np.linspace(-30.0, 30.0, 200)
    with numpyro_session():
        moments = truncated_moments(location, y, margin)
        normal = numpyro_guide._cut_off_normal(moments, y, margin).base_dist.base_dist
        np.testing.assert_allclose(y * normal.loc, location, rtol=1e-12, atol=1e-12)
    for number, case in enumerate(CASES[:10]):
        problem, state, _ = solved(number)
        with numpyro_session():
            law = numpyro_guide._cut_off_normal(state.latent, problem.y, case.margin)
            found = np.asarray(problem.y * law.base_dist.base_dist.loc)
        assert_same(found, latent_mean(state.intermediate, state.readout), 1e-9)


# ------------------------------------------------------------------------------------------------ the functions


def test_particles_are_reproducible_and_extend_each_other():
    problem, state, _ = solved(0)
    few, many = elbo_particles(problem, state, 300, 5), elbo_particles(problem, state, 600, 5)
    assert few.shape == (300,)
    assert isinstance(few, np.ndarray)
    assert few.dtype == float
    np.testing.assert_array_equal(few, many[:300])
    assert not np.array_equal(few, elbo_particles(problem, state, 300, 6))
