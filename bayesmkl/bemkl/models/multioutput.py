r"""BEMKL for several real-valued targets with one set of kernel weights (Gönen 2012, §§3, 5.1).

Model: `regression` once for every output c with its own λ_c, a_c, G_c, γ_c, b_c and noise precisions υ_c, ε_c; the
kernel weights and their precisions, e and ω, are those of all outputs:

    y_ci | b, e, g_ci ~ N(e' g_ci + b_c, 1/ε_c),   ε_c ~ Gamma,   g_cmi | a_c ~ N(k_mi' a_c, 1/υ_c),   υ_c ~ Gamma.

The posterior is approximated by Π_c [q(λ_c) q(υ_c) q(ε_c) q(a_c) q(G_c) q(γ_c)] q(ω) q(b, e), where q(b, e) is one
normal distribution over all intercepts and the kernel weights: the extension of the paper's §5.1 to the regression
that its §3 announces; it prints no equations for either. With one output all is as in `regression`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from bayesmkl._numerics.acceleration import (
    Coordinate,
    CovarianceCoordinate,
    LogCoordinate,
    UnmeasuredCoordinate,
)
from bayesmkl._numerics.arrays import Array, namespace
from bayesmkl.bemkl.models.absent_views import AbsentViews
from bayesmkl.bemkl.models.moments import (
    Gamma,
    Gaussian,
    ReadoutUpdate,
    probe,
    probe_scale,
    readout_cov_scale,
    readout_precision,
    shared_bound,
    update_noise_precision,
    update_precision,
    update_readout,
)
from bayesmkl.bemkl.models.outputs import (
    Intermediates,
    adjoin,
    intermediate_errors,
    project,
    readout_design,
    readout_target,
    score_bound,
    score_errors,
    update_duals,
    update_intermediates,
)
from bayesmkl.kernels.stacks.base import KernelStack

__all__ = [
    "COORDINATES",
    "STATE",
    "MultioutputCarry",
    "MultioutputPriors",
    "MultioutputProblem",
    "MultioutputState",
    "carry",
    "elbo",
    "init",
    "scales",
    "step",
    "sweep",
]


class MultioutputPriors(NamedTuple):
    """Gamma priors on the precisions of a, b, e, of the intermediate outputs and of the target noise."""

    sample: Gamma = Gamma(1.0, 1.0)
    intercept: Gamma = Gamma(1.0, 1.0)
    kernel: Gamma = Gamma(1.0, 1.0)
    intermediate: Gamma = Gamma(1.0, 1.0)
    noise: Gamma = Gamma(1.0, 1.0)


class MultioutputProblem(NamedTuple):
    """Data and priors of a fit, constant during it."""

    stack: KernelStack  # training kernels
    gram: Any  # sum_m K_m' K_m, (n_train, n_train)
    y: Any  # (n_outputs, n_samples)
    priors: MultioutputPriors
    absent: AbsentViews | None = None  # which samples lack which views


class MultioutputState(NamedTuple):
    """The factors of the posterior."""

    sample_precision: Gamma  # q(λ), (n_outputs, n_train)
    intermediate_precision: Gamma  # q(υ), (n_outputs,)
    noise_precision: Gamma  # q(ε), (n_outputs,)
    dual: Gaussian  # q(a), one per output
    intermediate: Intermediates  # q(G), one mean and covariance per output
    intercept_precision: Gamma  # q(γ), (n_outputs,)
    kernel_precision: Gamma  # q(ω), (n_kernels,)
    readout: Gaussian  # q(b, e), all intercepts first


class MultioutputCarry(NamedTuple):
    """State that a sweep reads from the previous one."""

    dual_square: Any  # E[a²], (n_outputs, n_train)
    intermediate_precision: Any  # E[υ], (n_outputs,)
    noise_precision: Any  # E[ε], (n_outputs,)
    pull: Any  # sum_m K_m' E[g_cm], (n_outputs, n_train)
    probe: Any  # E[G] of a few samples, which only the acceleration reads
    readout: Any  # E[(b, e)], (n_outputs + n_kernels,)
    readout_cov: Any  # its covariance


def init(problem: MultioutputProblem, noise: Array) -> MultioutputCarry:
    """Start from unit kernel weights and intermediate outputs that share each centered target equally.

    Parameters
    ----------
    problem : MultioutputProblem
    noise : array of shape (n_samples,) or (n_outputs, n_samples)
        Added to the targets that are shared out; zeros for the deterministic start.
    """
    xp, (n_outputs, _) = namespace(problem.y), problem.y.shape
    n_kernels, centers = problem.stack.n_kernels, problem.y.mean(axis=1)
    ones = xp.ones((n_outputs,), dtype=problem.y.dtype)
    kernel_ones = xp.ones((n_kernels,), dtype=problem.y.dtype)
    parts = (problem.y - centers[:, None] + noise) / n_kernels
    intermediate = kernel_ones[:, None] * parts[:, None, :]
    return MultioutputCarry(
        dual_square=xp.ones((n_outputs, problem.stack.n_train), dtype=problem.y.dtype),
        intermediate_precision=ones,
        noise_precision=ones,
        pull=adjoin(problem.stack, intermediate),
        probe=probe(intermediate),
        readout=xp.concatenate([centers, kernel_ones]),
        readout_cov=xp.eye(n_outputs + n_kernels, dtype=problem.y.dtype),
    )


def carry(problem: MultioutputProblem, state: MultioutputState) -> MultioutputCarry:
    """Return the carry of `state` for the next sweep."""
    intermediate = state.intermediate.mean
    return MultioutputCarry(
        state.dual.square,
        state.intermediate_precision.mean,
        state.noise_precision.mean,
        adjoin(problem.stack, intermediate),
        probe(intermediate),
        state.readout.mean,
        state.readout.cov,
    )


STATE = MultioutputState
COORDINATES = MultioutputCarry(
    LogCoordinate,
    LogCoordinate,
    LogCoordinate,
    UnmeasuredCoordinate,
    Coordinate,
    Coordinate,
    CovarianceCoordinate,
)


def scales(state: MultioutputState) -> MultioutputCarry:
    """Return the reciprocal posterior scale of every measured coordinate."""
    xp = namespace(state.dual.mean)
    ones = xp.ones_like(state.noise_precision.rate)
    return MultioutputCarry(
        0.5 * xp.ones_like(state.dual.mean),
        ones * state.intermediate_precision.concentration**0.5,
        ones * state.noise_precision.concentration**0.5,
        state.dual.mean[:0],
        probe_scale(state.intermediate),
        1.0 / xp.sqrt(state.readout.variance),
        readout_cov_scale(state.readout),
    )


def sweep(
    problem: MultioutputProblem,
    start: MultioutputCarry,
    solve_readout: ReadoutUpdate = update_readout,
) -> tuple[MultioutputState, Any]:
    """Update every factor once, noise precisions last, and return the state with its ELBO.

    `solve_readout` is the update of q(b, e).
    """
    priors, y, n_outputs = problem.priors, problem.y, problem.y.shape[0]
    upsilon, epsilon = start.intermediate_precision, start.noise_precision
    sample_precision = update_precision(priors.sample, start.dual_square)  # q(λ)
    dual = update_duals(  # q(a)
        problem.gram, start.pull, sample_precision.mean, upsilon
    )
    projection, intermediate = update_intermediates(  # q(G)
        problem.stack,
        dual.mean,
        y,
        start.readout,
        start.readout_cov,
        upsilon,
        epsilon,
        problem.absent,
    )
    readout_square = start.readout**2 + namespace(y).diagonal(start.readout_cov)
    intercept_precision = update_precision(priors.intercept, readout_square[:n_outputs])  # q(γ)
    kernel_precision = update_precision(priors.kernel, readout_square[n_outputs:])  # q(ω)
    readout = solve_readout(  # q(b, e)
        readout_design(intermediate, epsilon),
        readout_target(intermediate, y, epsilon),
        readout_precision(intercept_precision, kernel_precision),
        1.0,
    )
    error = intermediate_errors(intermediate, projection, problem.gram, dual)
    intermediate_precision = update_noise_precision(  # q(υ)
        priors.intermediate, error, intermediate.n_projected
    )
    misfit = score_errors(y, intermediate, readout)
    noise_precision = update_noise_precision(priors.noise, misfit, intermediate.n_samples)  # q(ε)
    state = MultioutputState(
        sample_precision,
        intermediate_precision,
        noise_precision,
        dual,
        intermediate,
        intercept_precision,
        kernel_precision,
        readout,
    )
    return state, _bound(problem, state, error, misfit)


def step(problem: MultioutputProblem, state: MultioutputState) -> tuple[MultioutputState, Any]:
    """Run one iteration from a full state."""
    return sweep(problem, carry(problem, state))


def elbo(problem: MultioutputProblem, state: MultioutputState) -> Any:
    """Return the evidence lower bound in nats, for any state."""
    projection = project(problem.stack, state.dual.mean)
    error = intermediate_errors(state.intermediate, projection, problem.gram, state.dual)
    return _bound(problem, state, error, score_errors(problem.y, state.intermediate, state.readout))


def _bound(problem: MultioutputProblem, state: MultioutputState, error: Array, misfit: Array) -> Any:
    return (
        shared_bound(problem.priors, state, error, state.intermediate_precision)
        + state.intermediate_precision.bound(problem.priors.intermediate)
        + state.noise_precision.bound(problem.priors.noise)
        + score_bound(misfit, state.intermediate, state.noise_precision)  # E[log p(y | b, e, G)]
    )
