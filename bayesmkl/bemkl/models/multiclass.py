r"""BEMKL for several classes or labels with one set of kernel weights: closed-form inference (Gönen 2012, §5.1).

Model: `binary` once for every output c, a class against the others or a label of its own, with its own λ_c, a_c,
G_c, γ_c, b_c and f_c; the kernel weights and their precisions, e and ω, are those of all outputs:

    f_ci | b, e, g_ci ~ N(e' g_ci + b_c, 1),      y_ci | f_ci  ~  1{y_ci f_ci > ν},      y_ci in {-1, +1}.

The paper leaves the inference to its supplement. The posterior is approximated by
Π_c [q(λ_c) q(a_c) q(G_c) q(γ_c) q(f_c)] q(ω) q(b, e), where q(b, e) is one normal distribution over all intercepts
and the kernel weights. `sweep` sets every factor once, in the order of §4.1, to its optimum given the others; the
bound `elbo` never falls. With one output all is as in `binary`, departures from the paper included. All outputs
share the covariance of q(G_c), and one pass over the kernels serves them all.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from bayesmkl._numerics.arrays import Array, namespace
from bayesmkl._numerics.truncated_normal import TruncatedMoments, truncated_moments
from bayesmkl.bemkl.models.absent_views import AbsentViews
from bayesmkl.bemkl.models.moments import (
    Gamma,
    Gaussian,
    ReadoutUpdate,
    readout_precision,
    update_precision,
    update_readout,
)
from bayesmkl.bemkl.models.outputs import (
    Intermediates,
    latent_means,
    readout_design,
    readout_target,
    update_duals,
    update_intermediates,
)
from bayesmkl.bemkl.models.scores import COORDINATES, ScoresCarry, carry, elbo, scales, start_at
from bayesmkl.kernels.stacks.base import KernelStack

__all__ = [
    "COORDINATES",
    "STATE",
    "MulticlassPriors",
    "MulticlassProblem",
    "MulticlassState",
    "carry",
    "elbo",
    "init",
    "scales",
    "step",
    "sweep",
]


class MulticlassPriors(NamedTuple):
    """Gamma priors on the precisions of a, b and e."""

    sample: Gamma = Gamma(1.0, 1.0)
    intercept: Gamma = Gamma(1.0, 1.0)
    kernel: Gamma = Gamma(1.0, 1.0)


class MulticlassProblem(NamedTuple):
    """Data and priors of a fit, constant during it."""

    stack: KernelStack  # training kernels
    gram: Any  # sum_m K_m' K_m, (n_train, n_train), computed once (§4.1)
    y: Any  # (n_outputs, n_samples) of -1.0 and +1.0
    priors: MulticlassPriors
    margin: Any  # ν
    intermediate_precision: Any  # 1/σ_g²
    absent: AbsentViews | None = None  # which samples lack which views


class MulticlassState(NamedTuple):
    """The factors of the posterior."""

    sample_precision: Gamma  # q(λ), (n_outputs, n_train)
    dual: Gaussian  # q(a), one per output
    intermediate: Intermediates  # q(G), one mean per output
    intercept_precision: Gamma  # q(γ), (n_outputs,)
    kernel_precision: Gamma  # q(ω), (n_kernels,)
    readout: Gaussian  # q(b, e), all intercepts first
    latent: TruncatedMoments  # q(f), (n_outputs, n_samples)


def init(problem: MulticlassProblem, magnitude: Array) -> ScoresCarry:
    """Start from unit kernel weights and scores on the right side of the margin.

    Parameters
    ----------
    problem : MulticlassProblem
    magnitude : array of shape (n_samples,) or (n_outputs, n_samples)
        How far every score starts beyond the margin; intermediate outputs start at the same values.
    """
    return start_at(problem, problem.y * (problem.margin + magnitude))


STATE = MulticlassState


def sweep(
    problem: MulticlassProblem,
    start: ScoresCarry,
    solve_readout: ReadoutUpdate = update_readout,
) -> tuple[MulticlassState, Any]:
    """Update every factor once, in the paper's order (§4.1), and return the state with its ELBO.

    `solve_readout` is the update of q(b, e).
    """
    priors, precision, n_outputs = problem.priors, problem.intermediate_precision, problem.y.shape[0]
    sample_precision = update_precision(priors.sample, start.dual_square)  # q(λ)
    dual = update_duals(problem.gram, start.pull, sample_precision.mean, precision)  # q(a), (3)
    projection, intermediate = update_intermediates(  # q(G)
        problem.stack,
        dual.mean,
        start.latent,
        start.readout,
        start.readout_cov,
        precision,
        1.0,
        problem.absent,
    )
    readout_square = start.readout**2 + namespace(projection).diagonal(start.readout_cov)
    intercept_precision = update_precision(priors.intercept, readout_square[:n_outputs])  # q(γ)
    kernel_precision = update_precision(priors.kernel, readout_square[n_outputs:])  # q(ω)
    readout = solve_readout(  # q(b, e), (4) with the samples of all outputs
        readout_design(intermediate, 1.0),
        readout_target(intermediate, start.latent, 1.0),
        readout_precision(intercept_precision, kernel_precision),
        1.0,
    )
    latent = truncated_moments(latent_means(intermediate, readout), problem.y, problem.margin)  # q(f)
    state = MulticlassState(
        sample_precision, dual, intermediate, intercept_precision, kernel_precision, readout, latent
    )
    return state, elbo(problem, state, projection)


def step(problem: MulticlassProblem, state: MulticlassState) -> tuple[MulticlassState, Any]:
    """Run one iteration from a full state."""
    return sweep(problem, carry(problem, state))
