r"""BEMKL for regression: closed-form variational inference (the extension that Gönen 2012, §3 announces).

Model: the story in `moments` with the target in the place of the latent score and both noise precisions learned,

    y_i | b, e, g_i ~ N(e' g_i + b, 1/ε),     ε ~ Gamma,     g_mi | a ~ N(k_mi' a, 1/υ),     υ ~ Gamma.

The posterior is approximated by q(λ) q(υ) q(ε) q(a) q(G) q(γ) q(ω) q(b, e). The paper gives no equations for this
case; with υ = 1 known and ε = 1 the updates of a, G, γ, ω and (b, e) are those of `binary` with E[f] = y.
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
from bayesmkl.bemkl.models.moments import (
    Gamma,
    Gaussian,
    IntermediateOutputs,
    IntermediateUpdate,
    ReadoutUpdate,
    expected_residual,
    intermediate_error,
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
    "RegressionCarry",
    "RegressionPriors",
    "RegressionProblem",
    "RegressionState",
    "carry",
    "elbo",
    "init",
    "scales",
    "step",
    "sweep",
]


class RegressionPriors(NamedTuple):
    """Gamma priors on the precisions of a, b, e, of the intermediate outputs and of the target noise."""

    sample: Gamma = Gamma(1.0, 1.0)
    intercept: Gamma = Gamma(1.0, 1.0)
    kernel: Gamma = Gamma(1.0, 1.0)
    intermediate: Gamma = Gamma(1.0, 1.0)
    noise: Gamma = Gamma(1.0, 1.0)


class RegressionProblem(NamedTuple):
    """Data and priors of a fit, constant during it."""

    stack: KernelStack  # training kernels
    gram: Any  # sum_m K_m' K_m, (n_train, n_train)
    y: Any  # (n_samples,)
    priors: RegressionPriors


class RegressionState(NamedTuple):
    """The factors of the posterior."""

    sample_precision: Gamma  # q(λ), (n_train,)
    intermediate_precision: Gamma  # q(υ)
    noise_precision: Gamma  # q(ε)
    dual: Gaussian  # q(a)
    intermediate: IntermediateOutputs  # q(G)
    intercept_precision: Gamma  # q(γ)
    kernel_precision: Gamma  # q(ω), (n_kernels,)
    readout: Gaussian  # q(b, e), intercept first


class RegressionCarry(NamedTuple):
    """State that a sweep reads from the previous one."""

    dual_square: Any  # E[a²], (n_train,)
    intermediate_precision: Any  # E[υ]
    noise_precision: Any  # E[ε]
    pull: Any  # sum_m K_m' E[g_m], (n_train,)
    probe: Any  # E[G] of a few samples, which only the acceleration reads
    readout: Any  # E[(b, e)], (1 + n_kernels,)
    readout_cov: Any  # its covariance


def init(problem: RegressionProblem, noise: Array) -> RegressionCarry:
    """Start from unit kernel weights and intermediate outputs that share the centered target equally.

    Parameters
    ----------
    problem : RegressionProblem
    noise : array of shape (n_samples,)
        Added to the target that is shared out; zeros for the deterministic start.
    """
    xp = namespace(problem.y)
    n_kernels, center = problem.stack.n_kernels, problem.y.mean()
    eye = xp.eye(1 + n_kernels, dtype=problem.y.dtype)
    ones = eye.sum(axis=0)
    intermediate = ones[1:, None] * (problem.y - center + noise) / n_kernels
    return RegressionCarry(
        dual_square=xp.ones((problem.stack.n_train,), dtype=ones.dtype),
        intermediate_precision=ones[0],
        noise_precision=ones[0],
        pull=problem.stack.adjoint(intermediate),
        probe=probe(intermediate),
        readout=ones + (center - 1.0) * eye[0],
        readout_cov=eye,
    )


def carry(problem: RegressionProblem, state: RegressionState) -> RegressionCarry:
    """Return the carry of `state` for the next sweep."""
    intermediate = state.intermediate.mean
    return RegressionCarry(
        state.dual.square,
        state.intermediate_precision.mean,
        state.noise_precision.mean,
        problem.stack.adjoint(intermediate),
        probe(intermediate),
        state.readout.mean,
        state.readout.cov,
    )


STATE = RegressionState
COORDINATES = RegressionCarry(
    LogCoordinate,
    LogCoordinate,
    LogCoordinate,
    UnmeasuredCoordinate,
    Coordinate,
    Coordinate,
    CovarianceCoordinate,
)


def scales(state: RegressionState) -> RegressionCarry:
    """Return the reciprocal posterior scale of every measured coordinate."""
    xp = namespace(state.dual.mean)
    return RegressionCarry(
        0.5 * xp.ones_like(state.dual.mean),
        xp.sqrt(state.intermediate_precision.concentration),
        xp.sqrt(state.noise_precision.concentration),
        state.dual.mean[:0],
        probe_scale(state.intermediate),
        1.0 / xp.sqrt(state.readout.variance),
        readout_cov_scale(state.readout),
    )


def sweep(
    problem: RegressionProblem,
    start: RegressionCarry,
    solve_readout: ReadoutUpdate = update_readout,
    solve_intermediate: IntermediateUpdate = update_intermediate,
) -> tuple[RegressionState, Any]:
    """Update every factor once, noise precisions last, and return the state with its ELBO.

    `solve_readout` is the update of q(b, e), `solve_intermediate` that of q(G).
    """
    priors, y = problem.priors, problem.y
    sample_precision = update_precision(priors.sample, start.dual_square)  # q(λ)
    dual = update_dual(  # q(a)
        problem.gram, start.pull, sample_precision.mean, start.intermediate_precision
    )
    projection, intermediate = solve_intermediate(  # q(G)
        problem.stack,
        dual.mean,
        y,
        start.readout,
        start.readout_cov,
        start.intermediate_precision,
        start.noise_precision,
    )
    readout_square = start.readout**2 + start.readout_cov.diagonal()
    intercept_precision = update_precision(priors.intercept, readout_square[0])  # q(γ)
    kernel_precision = update_precision(priors.kernel, readout_square[1:])  # q(ω)
    design = readout_design(intermediate)
    readout = solve_readout(  # q(b, e)
        design,
        readout_target(intermediate, y),
        readout_precision(intercept_precision, kernel_precision),
        start.noise_precision,
    )
    error = intermediate_error(intermediate, projection, problem.gram, dual)
    intermediate_precision = update_noise_precision(  # q(υ)
        priors.intermediate, error, intermediate.n_projected
    )
    misfit = score_error(y, intermediate, readout, design)
    noise_precision = update_noise_precision(priors.noise, misfit, intermediate.n_samples)  # q(ε)
    state = RegressionState(
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


def step(problem: RegressionProblem, state: RegressionState) -> tuple[RegressionState, Any]:
    """Run one iteration from a full state."""
    return sweep(problem, carry(problem, state))


def elbo(
    problem: RegressionProblem,
    state: RegressionState,
    projection: Array | None = None,
    design: Array | None = None,
) -> Any:
    """Return the evidence lower bound in nats, for any state; `projection` and `design` as in `binary.elbo`."""
    if projection is None:
        projection = problem.stack.apply(state.dual.mean)
    if design is None:
        design = readout_design(state.intermediate)
    error = intermediate_error(state.intermediate, projection, problem.gram, state.dual)
    return _bound(problem, state, error, score_error(problem.y, state.intermediate, state.readout, design))


def _bound(problem: RegressionProblem, state: RegressionState, error: Array, misfit: Array) -> Any:
    return (
        shared_bound(problem.priors, state, error, state.intermediate_precision)
        + state.intermediate_precision.bound(problem.priors.intermediate)
        + state.noise_precision.bound(problem.priors.noise)
        + expected_residual(
            misfit, state.intermediate.n_samples, state.noise_precision
        )  # E[log p(y | b, e, G)]
    )
