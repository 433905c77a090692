r"""Multinomial probit BEMKL: one set of kernel weights, classes that compete (Gönen 2012, §5.1).

Model: every class c has its own λ_c, a_c, G_c, γ_c, b_c and scores f_c as in `multiclass`, with e and ω in common,

    f_ci | b, e, g_ci ~ N(e' g_ci + b_c, 1),      y_i | f_i  ~  1{f_ci > f_ji + ν for c = y_i and every j ≠ c}:

the score of the sample's own class is the largest (Albert and Chib 1993; Girolami and Rogers 2006). The paper has one
binary likelihood per class in its place, so that the probabilities of the classes need not sum to one; here they do.

The posterior is approximated by Π_c [q(λ_c) q(a_c) q(G_c) q(γ_c)] q(ω) q(b, e) Π_i q(f_i), where q(f_i) is one
distribution over the scores of all classes: independent normal ones given that the right one is the largest. Its
expectations and its normalizer are integrals over one variable, taken by Gauss and Hermite's rule (`largest_normal`).
`sweep` sets every factor once, in the order of §4.1, to its optimum given the others; the bound `elbo` never falls.

Identifiability: the likelihood knows only differences of scores. Their scale is fixed by the unit noise. Their
common level, f_ci + h_i for all c, is left to the priors on a and b, which have mean zero: all classes keep their
scores, and none is singled out as a reference with score zero, so that the result does not depend on the order of the
classes. q(f_i) leaves the sum over classes where it was, sum_c E[f_ci] = sum_c E[e' g_ci + b_c], and the start has
sum zero.

The margin ν is the paper's, here between the right class and the best of the others; ν = 0 is the model of Girolami
and Rogers, whose likelihood sums to one over the classes.

References: Albert, J. H. and Chib, S. (1993), Bayesian analysis of binary and polychotomous response data, Journal of
the American Statistical Association 88. Girolami, M. and Rogers, S. (2006), Variational Bayesian multinomial probit
regression with Gaussian process priors, Neural Computation 18.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from bayesmkl._numerics.arrays import Array, namespace
from bayesmkl._numerics.largest_normal import largest_moments
from bayesmkl._numerics.truncated_normal import TruncatedMoments
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
    "MultinomialPriors",
    "MultinomialProblem",
    "MultinomialState",
    "carry",
    "elbo",
    "init",
    "scales",
    "step",
    "sweep",
]


class MultinomialPriors(NamedTuple):
    """Gamma priors on the precisions of a, b and e."""

    sample: Gamma = Gamma(1.0, 1.0)
    intercept: Gamma = Gamma(1.0, 1.0)
    kernel: Gamma = Gamma(1.0, 1.0)


class MultinomialProblem(NamedTuple):
    """Data and priors of a fit, constant during it."""

    stack: KernelStack  # training kernels
    gram: Any  # sum_m K_m' K_m, (n_train, n_train), computed once (§4.1)
    y: Any  # (n_classes, n_samples): +1.0 for the class of the sample, -1.0 for the others
    priors: MultinomialPriors
    margin: Any  # ν
    intermediate_precision: Any  # 1/σ_g²
    absent: AbsentViews | None = None  # which samples lack which views


class MultinomialState(NamedTuple):
    """The factors of the posterior."""

    sample_precision: Gamma  # q(λ), (n_classes, n_train)
    dual: Gaussian  # q(a), one per class
    intermediate: Intermediates  # q(G), one mean per output
    intercept_precision: Gamma  # q(γ), (n_classes,)
    kernel_precision: Gamma  # q(ω), (n_kernels,)
    readout: Gaussian  # q(b, e), all intercepts first
    latent: TruncatedMoments  # q(f), (n_classes, n_samples), entropy and normalizer (n_samples,)


def init(problem: MultinomialProblem, magnitude: Array) -> ScoresCarry:
    """Start from unit kernel weights and scores that are largest for the right class and have sum zero.

    Parameters
    ----------
    problem : MultinomialProblem
    magnitude : array of shape (n_samples,)
        How far the right class starts beyond the margin; intermediate outputs start at the same values as scores.
    """
    share = 0.5 * (problem.y + 1.0) - 1.0 / problem.y.shape[0]
    return start_at(problem, share * (problem.margin + magnitude))


STATE = MultinomialState


def sweep(
    problem: MultinomialProblem,
    start: ScoresCarry,
    solve_readout: ReadoutUpdate = update_readout,
) -> tuple[MultinomialState, Any]:
    """Update every factor once, in the paper's order (§4.1), and return the state with its ELBO.

    `solve_readout` is the update of q(b, e).
    """
    priors, precision, n_classes = problem.priors, problem.intermediate_precision, problem.y.shape[0]
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
    intercept_precision = update_precision(priors.intercept, readout_square[:n_classes])  # q(γ)
    kernel_precision = update_precision(priors.kernel, readout_square[n_classes:])  # q(ω)
    readout = solve_readout(  # q(b, e), (4) with the samples of all classes
        readout_design(intermediate, 1.0),
        readout_target(intermediate, start.latent, 1.0),
        readout_precision(intercept_precision, kernel_precision),
        1.0,
    )
    latent = largest_moments(latent_means(intermediate, readout), problem.y, problem.margin)  # q(f)
    state = MultinomialState(
        sample_precision, dual, intermediate, intercept_precision, kernel_precision, readout, latent
    )
    return state, elbo(problem, state, projection)


def step(problem: MultinomialProblem, state: MultinomialState) -> tuple[MultinomialState, Any]:
    """Run one iteration from a full state."""
    return sweep(problem, carry(problem, state))
