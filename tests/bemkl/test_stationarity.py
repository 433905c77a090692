"""At convergence the bound is flat in every variational parameter, and lower everywhere else.

Parameters move in their own units: means by posterior standard deviations, covariance entries by the product of
two of them, Gamma parameters by factors. The bound is counted in nats, so the slopes have no units.
"""

from __future__ import annotations

import numpy as np
import pytest
from helpers import (
    binary_problem,
    informed_target,
    random_covariance,
    random_kernels,
    random_labels,
    regression_problem,
)
from scipy import linalg

from bayesmkl._numerics.truncated_normal import TruncatedMoments, label_moments
from bayesmkl.bemkl import model as bemkl
from bayesmkl.bemkl.ascent import LoopOptions, maximize_elbo
from bayesmkl.bemkl.moments import Gamma, Gaussian, IntermediateOutputs

N_SAMPLES, N_KERNELS = 8, 3
STEP = 1e-4
FLAT = 1e-5


def with_entry(array, index, value):
    changed = np.array(array, dtype=float)
    changed[index] = value
    return changed


def moves_of_gamma(factor):
    concentration = np.broadcast_to(factor.concentration, np.shape(factor.rate)).astype(float)
    rate = np.asarray(factor.rate, dtype=float)
    for i in np.ndindex(rate.shape):
        yield (
            f"concentration{i}",
            lambda h, i=i: Gamma(with_entry(concentration, i, concentration[i] * np.exp(h)), rate),
        )
        yield f"rate{i}", lambda h, i=i: Gamma(concentration, with_entry(rate, i, rate[i] * np.exp(h)))


def moves_of_normal(factor):
    """Entries of mean and covariance; the covariance stays symmetric."""
    deviations = np.sqrt(np.diag(factor.cov))

    def rebuilt(mean, cov):
        return type(factor)(mean, cov, np.linalg.slogdet(cov)[1])

    for index in np.ndindex(factor.mean.shape):
        unit = deviations[index[0]]
        yield (
            f"mean{index}",
            lambda h, i=index, u=unit: rebuilt(
                with_entry(factor.mean, i, factor.mean[i] + h * u), factor.cov
            ),
        )
    for row, column in zip(*np.tril_indices(len(deviations)), strict=True):
        direction = np.zeros_like(factor.cov)
        direction[row, column] = direction[column, row] = deviations[row] * deviations[column]
        yield f"cov[{row},{column}]", lambda h, d=direction: rebuilt(factor.mean, factor.cov + h * d)


def moves_of_truncated(problem, state):
    loc = state.readout.mean[0] + state.readout.mean[1:] @ state.intermediate.mean
    for i in range(len(loc)):
        yield (
            f"location{i}",
            lambda h, i=i: label_moments(with_entry(loc, i, loc[i] + h), problem.y, problem.outcome.margin),
        )


def moves(problem, state):
    """Yield (name, function of the step that returns the moved state) for every variational parameter."""
    for field, factor in zip(state._fields, state, strict=True):
        if factor is None:
            continue
        if isinstance(factor, Gamma):
            found = moves_of_gamma(factor)
        elif isinstance(factor, Gaussian | IntermediateOutputs):
            found = moves_of_normal(factor)
        else:
            assert isinstance(factor, TruncatedMoments)
            found = moves_of_truncated(problem, state)
        for name, move in found:
            yield f"{field}.{name}", lambda h, f=field, move=move: state._replace(**{f: move(h)})


def slopes(module, problem, state):
    """Return the central difference of the bound in every parameter, by name."""
    return {
        name: float(module.elbo(problem, move(STEP)) - module.elbo(problem, move(-STEP))) / (2 * STEP)
        for name, move in moves(problem, state)
    }


def problem_of(model, rng):
    kernels = random_kernels(rng, N_SAMPLES, N_KERNELS)
    if model in ("binary", "semi-supervised"):
        y = random_labels(rng, N_SAMPLES)
        y[-3:] *= model == "binary"  # 0 is unlabeled
        problem = binary_problem(kernels, y, margin=0.8, sigma=0.7)
        return bemkl, problem, bemkl.init(problem, np.ones(N_SAMPLES))
    problem = regression_problem(kernels, informed_target(rng, kernels))
    return bemkl, problem, bemkl.init(problem, np.zeros(N_SAMPLES))


def converged(module, problem, start, accelerate):
    options = LoopOptions(max_iter=600 if accelerate else 15_000, tol=1e-15, accelerate=accelerate)
    state = maximize_elbo(module, problem, start, options).state
    assert np.abs(state.dual.mean).max() > 0.02  # not the trivial optimum, at which kernels play no part
    return state


MODELS = pytest.mark.parametrize("model", ["binary", "semi-supervised", "regression"])


@pytest.mark.heavy
@MODELS
@pytest.mark.parametrize("accelerate", [False, True], ids=["plain", "accelerated"])
def test_bound_is_flat_in_every_parameter_by_finite_difference(rng, model, accelerate):
    module, problem, start = problem_of(model, rng)
    state = converged(module, problem, start, accelerate)
    found = slopes(module, problem, state)
    expected = sum(
        2 * np.size(f.rate) if isinstance(f, Gamma)
        else f.mean.size if isinstance(f, TruncatedMoments)
        else f.mean.size + len(f.cov) * (len(f.cov) + 1) // 2
        for f in state
        if f is not None
    )  # fmt: skip
    assert len(found) == expected
    steepest = max(found, key=lambda name: abs(found[name]))
    assert abs(found[steepest]) < FLAT, f"{steepest}: {found[steepest]:.1e}"


@MODELS
def test_bound_is_steep_before_convergence_by_finite_difference(rng, model):
    module, problem, start = problem_of(model, rng)
    state, _ = module.sweep(problem, start)
    assert max(map(abs, slopes(module, problem, state).values())) > 1e3 * FLAT


def other_factor(rng, problem, state, factor):
    """Return a random factor of the same family, near or far."""
    size = rng.choice([0.03, 0.3, 1.0])
    if isinstance(factor, Gamma):
        shape = np.shape(factor.rate)
        return Gamma(
            factor.concentration * np.exp(size * rng.normal(size=shape)),
            factor.rate * np.exp(size * rng.normal(size=shape)),
        )
    if isinstance(factor, TruncatedMoments):
        loc = state.readout.mean[0] + state.readout.mean[1:] @ state.intermediate.mean
        return label_moments(loc + size * rng.normal(size=len(loc)), problem.y, problem.outcome.margin)
    root = linalg.cholesky(factor.cov, lower=True)
    shift = size * rng.normal(size=factor.mean.shape)
    inner = (1 - size) * np.eye(len(root)) + size * random_covariance(rng, len(root))
    cov = root @ inner @ root.T
    return type(factor)(factor.mean + root @ shift, cov, np.linalg.slogdet(cov)[1])


@MODELS
def test_every_other_factor_lowers_the_bound(rng, model):
    module, problem, start = problem_of(model, rng)
    state = converged(module, problem, start, accelerate=True)
    best = module.elbo(problem, state)
    for field, factor in zip(state._fields, state, strict=True):
        for _ in range(20 * (factor is not None)):
            moved = state._replace(**{field: other_factor(rng, problem, state, factor)})
            assert module.elbo(problem, moved) < best - 1e-6, field
