r"""BEMKL of targets that are known to an interval only: closed-form variational inference.

Model: that of `regression`, of targets z_i of which the ends of an interval are observed,

    z_i | b, e, g_i ~ N(e' g_i + b, 1/ε),     l_i < z_i <= u_i.

Where l_i = u_i the target itself is. An infinite u_i is right censoring, a minus infinite l_i left censoring. A
target that was not observed is one more latent variable: with μ_i = E[e]' E[g_i] + E[b],

    q(z_i) = N(z_i; μ_i, 1/E[ε]) 1{l_i < z_i <= u_i} / Z_i,

the truncated normal of `ordinal` with ends that are data, and in other units. All other factors are those of
`regression` with E[z] in the place of the target, and the variance of q(z_i) added to the squared residual of which
q(ε) learns. Where all targets are observed every sweep is that of `regression`.
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
from bayesmkl._numerics.truncated_normal import TruncatedMoments, interval_moments
from bayesmkl.bemkl.models.moments import (
    Gamma,
    Gaussian,
    IntermediateOutputs,
    ReadoutUpdate,
    expected_residual,
    intermediate_error,
    latent_mean,
    probe,
    probe_scale,
    readout_cov_scale,
    readout_design,
    readout_precision,
    readout_target,
    score_error,
    shared_bound,
    update_dual,
    update_intermediate,
    update_noise_precision,
    update_precision,
    update_readout,
)
from bayesmkl.kernels.stacks.base import KernelStack

__all__ = [
    "COORDINATES",
    "STATE",
    "CensoredCarry",
    "CensoredPriors",
    "CensoredProblem",
    "CensoredState",
    "carry",
    "elbo",
    "init",
    "scales",
    "step",
    "sweep",
    "update_targets",
]


class CensoredPriors(NamedTuple):
    """Gamma priors on the precisions of a, b, e, of the intermediate outputs and of the target noise."""

    sample: Gamma = Gamma(1.0, 1.0)
    intercept: Gamma = Gamma(1.0, 1.0)
    kernel: Gamma = Gamma(1.0, 1.0)
    intermediate: Gamma = Gamma(1.0, 1.0)
    noise: Gamma = Gamma(1.0, 1.0)


class CensoredProblem(NamedTuple):
    """Data and priors of a fit, constant during it."""

    stack: KernelStack  # training kernels
    gram: Any  # sum_m K_m' K_m, (n_train, n_train)
    y: Any  # lower ends, (n_samples,)
    upper: Any  # upper ends, (n_samples,)
    priors: CensoredPriors


class CensoredState(NamedTuple):
    """The factors of the posterior."""

    sample_precision: Gamma  # q(λ), (n_train,)
    intermediate_precision: Gamma  # q(υ)
    noise_precision: Gamma  # q(ε)
    dual: Gaussian  # q(a)
    intermediate: IntermediateOutputs  # q(G)
    intercept_precision: Gamma  # q(γ)
    kernel_precision: Gamma  # q(ω), (n_kernels,)
    readout: Gaussian  # q(b, e), intercept first
    latent: TruncatedMoments  # q(z), without variance and entropy where a target was observed


class CensoredCarry(NamedTuple):
    """State that a sweep reads from the previous one."""

    dual_square: Any  # E[a²], (n_train,)
    intermediate_precision: Any  # E[υ]
    noise_precision: Any  # E[ε]
    pull: Any  # sum_m K_m' E[g_m], (n_train,)
    probe: Any  # E[G] of a few samples, which only the acceleration reads
    readout: Any  # E[(b, e)], (1 + n_kernels,)
    readout_cov: Any  # its covariance
    latent: Any  # E[z], (n_samples,)


def init(problem: CensoredProblem, noise: Array) -> CensoredCarry:
    """Start from unit kernel weights and intermediate outputs that share the centered target equally.

    Targets that were not observed start at their expectation under a standard normal law.

    Parameters
    ----------
    problem : CensoredProblem
    noise : array of shape (n_samples,)
        Added to the target that is shared out; zeros for the deterministic start.
    """
    xp = namespace(problem.y)
    y = update_targets(problem.y, problem.upper, xp.zeros_like(problem.y), 1.0).mean
    n_kernels, center = problem.stack.n_kernels, y.mean()
    eye = xp.eye(1 + n_kernels, dtype=y.dtype)
    ones = eye.sum(axis=0)
    intermediate = ones[1:, None] * (y - center + noise) / n_kernels
    return CensoredCarry(
        dual_square=xp.ones((problem.stack.n_train,), dtype=ones.dtype),
        intermediate_precision=ones[0],
        noise_precision=ones[0],
        pull=problem.stack.adjoint(intermediate),
        probe=probe(intermediate),
        readout=ones + (center - 1.0) * eye[0],
        readout_cov=eye,
        latent=y,
    )


def carry(problem: CensoredProblem, state: CensoredState) -> CensoredCarry:
    """Return the carry of `state` for the next sweep."""
    intermediate = state.intermediate.mean
    return CensoredCarry(
        state.dual.square,
        state.intermediate_precision.mean,
        state.noise_precision.mean,
        problem.stack.adjoint(intermediate),
        probe(intermediate),
        state.readout.mean,
        state.readout.cov,
        state.latent.mean,
    )


STATE = CensoredState
COORDINATES = CensoredCarry(
    LogCoordinate,
    LogCoordinate,
    LogCoordinate,
    UnmeasuredCoordinate,
    Coordinate,
    Coordinate,
    CovarianceCoordinate,
    Coordinate,
)


def scales(state: CensoredState) -> CensoredCarry:
    """Return the reciprocal posterior scale of every measured coordinate."""
    xp = namespace(state.dual.mean)
    return CensoredCarry(
        0.5 * xp.ones_like(state.dual.mean),
        xp.sqrt(state.intermediate_precision.concentration),
        xp.sqrt(state.noise_precision.concentration),
        state.dual.mean[:0],
        probe_scale(state.intermediate),
        1.0 / xp.sqrt(state.readout.variance),
        readout_cov_scale(state.readout),
        xp.sqrt(state.noise_precision.mean) * xp.ones_like(state.latent.mean),
    )


def sweep(
    problem: CensoredProblem,
    start: CensoredCarry,
    solve_readout: ReadoutUpdate = update_readout,
) -> tuple[CensoredState, Any]:
    """Update every factor once, noise precisions last, and return the state with its ELBO.

    `solve_readout` is the update of q(b, e).
    """
    priors, y = problem.priors, start.latent
    sample_precision = update_precision(priors.sample, start.dual_square)  # q(λ)
    dual = update_dual(  # q(a)
        problem.gram, start.pull, sample_precision.mean, start.intermediate_precision
    )
    projection, intermediate = update_intermediate(  # q(G)
        problem.stack,
        dual.mean,
        y,
        start.readout,
        start.readout_cov,
        start.intermediate_precision,
        start.noise_precision,
    )
    readout_square = start.readout**2 + namespace(y).diagonal(start.readout_cov)
    intercept_precision = update_precision(priors.intercept, readout_square[0])  # q(γ)
    kernel_precision = update_precision(priors.kernel, readout_square[1:])  # q(ω)
    design = readout_design(intermediate)
    readout = solve_readout(  # q(b, e)
        design,
        readout_target(intermediate, y),
        readout_precision(intercept_precision, kernel_precision),
        start.noise_precision,
    )
    loc = latent_mean(intermediate, readout)
    latent = update_targets(problem.y, problem.upper, loc, start.noise_precision)  # q(z)
    error = intermediate_error(intermediate, projection, problem.gram, dual)
    intermediate_precision = update_noise_precision(  # q(υ)
        priors.intermediate, error, intermediate.n_projected
    )
    misfit = score_error(latent.mean, intermediate, readout, design) + latent.variance.sum()
    noise_precision = update_noise_precision(priors.noise, misfit, intermediate.n_samples)  # q(ε)
    state = CensoredState(
        sample_precision,
        intermediate_precision,
        noise_precision,
        dual,
        intermediate,
        intercept_precision,
        kernel_precision,
        readout,
        latent,
    )
    return state, _bound(problem, state, error, misfit)


def step(problem: CensoredProblem, state: CensoredState) -> tuple[CensoredState, Any]:
    """Run one iteration from a full state."""
    return sweep(problem, carry(problem, state))


def elbo(problem: CensoredProblem, state: CensoredState) -> Any:
    """Return the evidence lower bound in nats, for any state."""
    projection = problem.stack.apply(state.dual.mean)
    error = intermediate_error(state.intermediate, projection, problem.gram, state.dual)
    design = readout_design(state.intermediate)
    misfit = score_error(state.latent.mean, state.intermediate, state.readout, design)
    return _bound(problem, state, error, misfit + state.latent.variance.sum())


def _bound(problem: CensoredProblem, state: CensoredState, error: Array, misfit: Array) -> Any:
    return (
        shared_bound(problem.priors, state, error, state.intermediate_precision)
        + state.intermediate_precision.bound(problem.priors.intermediate)
        + state.noise_precision.bound(problem.priors.noise)
        + expected_residual(
            misfit, state.intermediate.n_samples, state.noise_precision
        )  # E[log p(z | b, e, G)]
        + state.latent.entropy.sum()
    )


def update_targets(lower: Array, upper: Array, loc: Array, precision: Array | float) -> TruncatedMoments:
    """Return q(z): normal between its ends, and a point where these are equal.

    Parameters
    ----------
    lower, upper : arrays of shape (n_samples,)
        Ends.
    loc : array of shape (n_samples,)
        μ.
    precision : float
        E[ε].
    """
    xp = namespace(lower)
    root, is_observed = xp.sqrt(precision * xp.ones_like(loc)), lower == upper
    end = xp.where(is_observed, lower + 1.0, upper)
    mean, variance, entropy, log_normalizer = interval_moments(root * loc, root * lower, root * end)
    return TruncatedMoments(
        xp.where(is_observed, lower, mean / root),
        xp.where(is_observed, 0.0, variance / root**2),
        xp.where(is_observed, 0.0, entropy - xp.log(root)),
        xp.where(is_observed, 0.0, log_normalizer),
    )
