r"""Binary BEMKL: closed-form variational inference (Gönen 2012, §§3-4).

Model: the story in `moments` with unit latent noise (ε = 1), known intermediate noise (1/υ = σ_g²; the paper has
σ_g = 1), and

    y_i | f_i  ~  1{y_i f_i > ν},      y_i in {-1, +1}.

An unlabeled sample, y_i = 0, has a score on either side of the margin, 1{|f_i| > ν}: the gap between the classes is
a category that no sample belongs to (Lawrence and Jordan 2005; `semisupervised`).

The posterior is approximated by q(λ) q(a) q(G) q(γ) q(ω) q(b, e) q(f). `sweep` sets every factor once, in the
paper's order, to its optimum given the others; the bound `elbo` never falls.

Departures: σ_g is a parameter; E[G Gᵀ] in equation (4) keeps its variance part (the paper prints the product of
the means); the entropy of q(f) is exact.
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
from bayesmkl._numerics.truncated_normal import TruncatedMoments, label_moments
from bayesmkl.bemkl.models.moments import (
    UNIT_PRECISION,
    Gamma,
    Gaussian,
    IntermediateOutputs,
    IntermediateUpdate,
    ReadoutUpdate,
    expected_residual,
    intermediate_error,
    known_precision,
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
    update_precision,
    update_readout,
)
from bayesmkl.kernels.stacks.base import KernelStack

__all__ = [
    "COORDINATES",
    "STATE",
    "BinaryCarry",
    "BinaryPriors",
    "BinaryProblem",
    "BinaryState",
    "carry",
    "elbo",
    "init",
    "scales",
    "step",
    "sweep",
]


class BinaryPriors(NamedTuple):
    """Gamma priors on the precisions of a, b and e."""

    sample: Gamma = Gamma(1.0, 1.0)
    intercept: Gamma = Gamma(1.0, 1.0)
    kernel: Gamma = Gamma(1.0, 1.0)


class BinaryProblem(NamedTuple):
    """Data and priors of a fit, constant during it."""

    stack: KernelStack  # training kernels
    gram: Any  # sum_m K_m' K_m, (n_train, n_train), computed once (§4.1)
    y: Any  # (n_samples,) of -1.0 and +1.0, or 0.0 if unlabeled
    priors: BinaryPriors
    margin: Any  # ν
    intermediate_precision: Any  # 1/σ_g²


class BinaryState(NamedTuple):
    """The factors of the posterior."""

    sample_precision: Gamma  # q(λ), (n_train,)
    dual: Gaussian  # q(a)
    intermediate: IntermediateOutputs  # q(G)
    intercept_precision: Gamma  # q(γ)
    kernel_precision: Gamma  # q(ω), (n_kernels,)
    readout: Gaussian  # q(b, e), intercept first
    latent: TruncatedMoments  # q(f)


class BinaryCarry(NamedTuple):
    """State that a sweep reads from the previous one."""

    dual_square: Any  # E[a²], (n_train,)
    pull: Any  # sum_m K_m' E[g_m], (n_train,)
    probe: Any  # E[G] of a few samples, which only the acceleration reads
    readout: Any  # E[(b, e)], (1 + n_kernels,)
    readout_cov: Any  # its covariance
    latent: Any  # E[f], (n_samples,)


def init(problem: BinaryProblem, magnitude: Array) -> BinaryCarry:
    """Start from unit kernel weights and scores on the right side of the margin.

    Parameters
    ----------
    problem : BinaryProblem
    magnitude : array of shape (n_samples,)
        How far every score starts beyond the margin; intermediate outputs start at the same values.
    """
    xp = namespace(problem.y)
    n_kernels = problem.stack.n_kernels
    scores = problem.y * (problem.margin + magnitude)
    ones = xp.ones((1 + n_kernels,), dtype=scores.dtype)
    intermediate = ones[1:, None] * scores
    return BinaryCarry(
        dual_square=xp.ones((problem.stack.n_train,), dtype=scores.dtype),
        pull=problem.stack.adjoint(intermediate),
        probe=probe(intermediate),
        readout=ones - xp.eye(1 + n_kernels, dtype=scores.dtype)[0],
        readout_cov=xp.eye(1 + n_kernels, dtype=scores.dtype),
        latent=scores,
    )


def carry(problem: BinaryProblem, state: BinaryState) -> BinaryCarry:
    """Return the carry of `state` for the next sweep."""
    intermediate = state.intermediate.mean
    return BinaryCarry(
        state.dual.square,
        problem.stack.adjoint(intermediate),
        probe(intermediate),
        state.readout.mean,
        state.readout.cov,
        state.latent.mean,
    )


STATE = BinaryState
COORDINATES = BinaryCarry(
    LogCoordinate, UnmeasuredCoordinate, Coordinate, Coordinate, CovarianceCoordinate, Coordinate
)


def scales(state: BinaryState) -> BinaryCarry:
    """Return the reciprocal posterior scale of every measured coordinate."""
    xp = namespace(state.latent.mean)
    return BinaryCarry(
        0.5 * xp.ones_like(state.dual.mean),
        state.dual.mean[:0],
        probe_scale(state.intermediate),
        1.0 / xp.sqrt(state.readout.variance),
        readout_cov_scale(state.readout),
        xp.ones_like(state.latent.mean),
    )


def sweep(
    problem: BinaryProblem,
    start: BinaryCarry,
    solve_readout: ReadoutUpdate = update_readout,
    solve_intermediate: IntermediateUpdate = update_intermediate,
) -> tuple[BinaryState, Any]:
    """Update every factor once, in the paper's order (§4.1), and return the state with its ELBO.

    `solve_readout` is the update of q(b, e), `solve_intermediate` that of q(G).
    """
    priors, precision = problem.priors, problem.intermediate_precision
    sample_precision = update_precision(priors.sample, start.dual_square)  # q(λ)
    dual = update_dual(problem.gram, start.pull, sample_precision.mean, precision)  # q(a), (3)
    projection, intermediate = solve_intermediate(  # q(G)
        problem.stack, dual.mean, start.latent, start.readout, start.readout_cov, precision, 1.0
    )
    readout_square = start.readout**2 + start.readout_cov.diagonal()
    intercept_precision = update_precision(priors.intercept, readout_square[0])  # q(γ)
    kernel_precision = update_precision(priors.kernel, readout_square[1:])  # q(ω)
    design = readout_design(intermediate)
    readout = solve_readout(  # q(b, e), (4)
        design,
        readout_target(intermediate, start.latent),
        readout_precision(intercept_precision, kernel_precision),
        1.0,
    )
    latent = label_moments(latent_mean(intermediate, readout), problem.y, problem.margin)  # q(f)
    state = BinaryState(
        sample_precision, dual, intermediate, intercept_precision, kernel_precision, readout, latent
    )
    return state, elbo(problem, state, projection, design)


def step(problem: BinaryProblem, state: BinaryState) -> tuple[BinaryState, Any]:
    """Run one iteration of the paper's loop from a full state."""
    return sweep(problem, carry(problem, state))


def elbo(
    problem: BinaryProblem, state: BinaryState, projection: Array | None = None, design: Array | None = None
) -> Any:
    """Return the evidence lower bound (2) in nats.

    Parameters
    ----------
    problem : BinaryProblem
    state : BinaryState
        Any state, not only a fixed point.
    projection : array of shape (n_kernels, n_samples), optional
        ``K_m E[a]`` where it is at hand.
    design : array of shape (1 + n_kernels, 1 + n_kernels), optional
        `readout_design` of q(G), likewise.
    """
    if projection is None:
        projection = problem.stack.apply(state.dual.mean)
    if design is None:
        design = readout_design(state.intermediate)
    precision = known_precision(projection, problem.intermediate_precision)
    error = intermediate_error(state.intermediate, projection, problem.gram, state.dual)
    misfit = score_error(state.latent.mean, state.intermediate, state.readout, design)
    misfit = misfit + state.latent.variance.sum()
    return (
        shared_bound(problem.priors, state, error, precision)
        + expected_residual(misfit, state.intermediate.n_samples, UNIT_PRECISION)  # E[log p(f | b, e, G)]
        + state.latent.entropy.sum()
    )
