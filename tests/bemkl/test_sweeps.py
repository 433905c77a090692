"""Every factor update of a sweep against the paper's equations written out in loops (`reference`)."""

from __future__ import annotations

import numpy as np
import pytest
import reference
from helpers import (
    BINARY_PRIORS,
    REGRESSION_PRIORS,
    SAME_FORMULA,
    SAME_ITERATION,
    assert_same,
    binary_problem,
    frozen,
    random_covariance,
    random_kernels,
    random_labels,
    regression_problem,
    step,
)

from bayesmkl.bemkl import model as bemkl
from bayesmkl.bemkl.model import Carry

N_KERNELS, N_SAMPLES = 3, 9
FACTORS = {
    "λ": "sample_precision",
    "a": "dual",
    "G": "intermediate",
    "γ": "intercept_precision",
    "ω": "kernel_precision",
    "be": "readout",
    "f": "latent",
    "υ": "intermediate_precision",
    "ε": "noise_precision",
}


def shapes_and_scales(priors):
    return [(prior.concentration, 1.0 / prior.rate) for prior in priors]


def assert_state(state, found, tolerance):
    """Compare a state with what the reference found, factor by factor."""
    assert len(found) == sum(factor is not None for factor in state)
    for symbol, (first, second) in found.items():
        factor = getattr(state, FACTORS[symbol])
        if symbol in "λγωυε":
            assert_same(np.broadcast_to(factor.concentration, np.shape(first)), first, tolerance, symbol)
            assert_same(np.reshape(factor.rate, np.shape(second)), 1.0 / second, tolerance, symbol)
        elif symbol == "f":
            assert_same(factor.mean, first, max(tolerance, 1e-9), symbol)
            assert_same(factor.variance, second, max(tolerance, 1e-7), symbol)
        else:
            assert_same(factor.mean, first, tolerance, f"mean of {symbol}")
            assert_same(factor.cov, second, tolerance, f"covariance of {symbol}")
            np.testing.assert_allclose(factor.log_det, np.linalg.slogdet(second)[1], atol=100 * tolerance)


def random_start(rng, y, kernels):
    """Return a start for both models in which no moment has a special value."""
    n_kernels, _, n_train = kernels.shape
    old = reference.Old(
        a_squared=frozen(rng.uniform(0.2, 2.0, size=n_train)),
        G=frozen(rng.normal(size=(n_kernels, len(y)))),
        be=frozen(rng.normal(size=1 + n_kernels)),
        be_cov=frozen(random_covariance(rng, 1 + n_kernels)),
        f=frozen(y * rng.uniform(1.0, 3.0, size=len(y))),
        upsilon=1.7,
        epsilon=0.6,
    )
    of_g = frozen(reference.pull_of(kernels, old.G)), old.G  # so few samples that all are probed
    none = old.f[:0]
    binary_start = Carry(old.a_squared, none, none, *of_g, old.be, old.be_cov, none, old.f)
    regression_start = Carry(
        old.a_squared, frozen(old.upsilon), frozen(old.epsilon), *of_g, old.be, old.be_cov, none, none
    )
    return old, binary_start, regression_start


def kernels_of(rng, kind):
    """Return kernels, among them ones that are not symmetric and ones on fewer basis than sample points."""
    if kind == "asymmetric":
        return rng.normal(size=(N_KERNELS, N_SAMPLES, N_SAMPLES))
    if kind == "landmarks":
        return rng.normal(size=(N_KERNELS, N_SAMPLES, 4))
    return random_kernels(rng, N_SAMPLES, N_KERNELS)


KINDS = pytest.mark.parametrize("kind", ["smooth", "asymmetric", "landmarks"])
MARGINS_AND_SIGMAS = pytest.mark.parametrize(("margin", "sigma"), [(1.0, 1.0), (0.0, 0.4), (0.7, 1.9)])


@pytest.mark.heavy
@KINDS
@MARGINS_AND_SIGMAS
@pytest.mark.parametrize("prior", BINARY_PRIORS)
def test_binary_sweep_against_the_printed_equations(rng, kind, margin, sigma, prior):
    kernels, y, priors = kernels_of(rng, kind), random_labels(rng, N_SAMPLES), BINARY_PRIORS[prior]
    problem = binary_problem(kernels, y, priors, margin, sigma)
    old, start, _ = random_start(rng, y, kernels)
    found, _ = reference.binary_sweep(kernels, y, margin, sigma, shapes_and_scales(priors), old)
    state, _ = bemkl.sweep(problem, start)
    assert_state(state, found, SAME_FORMULA)


@KINDS
@pytest.mark.parametrize("prior", REGRESSION_PRIORS)
def test_regression_sweep_against_the_same_equations_with_noise_precisions(rng, kind, prior):
    kernels, y, priors = kernels_of(rng, kind), rng.normal(size=N_SAMPLES), REGRESSION_PRIORS[prior]
    problem = regression_problem(kernels, y, priors)
    old, _, start = random_start(rng, y, kernels)
    found, _ = reference.regression_sweep(kernels, y, shapes_and_scales(priors), old)
    state, _ = bemkl.sweep(problem, start)
    assert_state(state, found, SAME_FORMULA)


@pytest.mark.heavy
@MARGINS_AND_SIGMAS
@pytest.mark.parametrize("prior", ["non-sparse", "general"])
def test_twenty_binary_steps_against_twenty_reference_iterations(rng, margin, sigma, prior):
    kernels, y = random_kernels(rng, N_SAMPLES, N_KERNELS), random_labels(rng, N_SAMPLES)
    priors = BINARY_PRIORS[prior]
    problem = binary_problem(kernels, y, priors, margin, sigma)
    old, start, _ = random_start(rng, y, kernels)
    state, _ = bemkl.sweep(problem, start)
    found, old = reference.binary_sweep(kernels, y, margin, sigma, shapes_and_scales(priors), old)
    for _ in range(19):
        state, _ = step(bemkl, problem, state)
        found, old = reference.binary_sweep(kernels, y, margin, sigma, shapes_and_scales(priors), old)
    assert_state(state, found, SAME_ITERATION)


@pytest.mark.parametrize("prior", ["non-sparse", "general"])
def test_twenty_regression_steps_against_twenty_reference_iterations(rng, prior):
    kernels, y = random_kernels(rng, N_SAMPLES, N_KERNELS), rng.normal(size=N_SAMPLES)
    priors = REGRESSION_PRIORS[prior]
    problem = regression_problem(kernels, y, priors)
    old, _, start = random_start(rng, y, kernels)
    state, _ = bemkl.sweep(problem, start)
    found, old = reference.regression_sweep(kernels, y, shapes_and_scales(priors), old)
    for _ in range(19):
        state, _ = step(bemkl, problem, state)
        found, old = reference.regression_sweep(kernels, y, shapes_and_scales(priors), old)
    assert_state(state, found, SAME_ITERATION)


def test_binary_start_is_unit_weights_and_scores_beyond_the_margin(rng):
    y, magnitude = random_labels(rng, N_SAMPLES), rng.uniform(0.1, 2.0, size=N_SAMPLES)
    problem = binary_problem(kernels_of(rng, "landmarks"), y, margin=0.7)
    start = bemkl.init(problem, magnitude)
    for i in range(N_SAMPLES):
        score = 0.7 + magnitude[i] if y[i] > 0 else -0.7 - magnitude[i]
        np.testing.assert_allclose(start.latent[i], score)
        np.testing.assert_allclose(start.probe[:, i], [score] * N_KERNELS)
    assert_same(start.pull, reference.pull_of(problem.stack.kernels, start.probe), SAME_FORMULA)
    np.testing.assert_array_equal(start.readout, [0.0, 1.0, 1.0, 1.0])
    np.testing.assert_array_equal(start.readout_cov, np.eye(1 + N_KERNELS))
    np.testing.assert_array_equal(start.dual_square, np.ones(4))


def test_regression_start_predicts_the_target_exactly(rng):
    y = rng.normal(3.0, 2.0, size=N_SAMPLES)
    problem = regression_problem(kernels_of(rng, "landmarks"), y)
    start = bemkl.init(problem, np.zeros(N_SAMPLES))
    np.testing.assert_allclose(start.readout, [y.mean(), 1.0, 1.0, 1.0])
    np.testing.assert_allclose(start.readout[0] + start.readout[1:] @ start.probe, y)
    assert_same(start.pull, reference.pull_of(problem.stack.kernels, start.probe), SAME_FORMULA)
    np.testing.assert_array_equal(start.readout_cov, np.eye(1 + N_KERNELS))
    np.testing.assert_array_equal(start.dual_square, np.ones(4))
    assert float(start.intermediate_precision) == float(start.noise_precision) == 1.0
    noise = rng.normal(size=N_SAMPLES)
    moved = bemkl.init(problem, noise)
    np.testing.assert_allclose((moved.probe - start.probe).sum(axis=0), noise)
    assert_same(moved.pull, reference.pull_of(problem.stack.kernels, moved.probe), SAME_FORMULA)
