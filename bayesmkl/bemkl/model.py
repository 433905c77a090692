r"""BEMKL by closed-form variational inference (Gönen 2012, §§3-5): one model of all outcomes.

Model: the story in `moments`. What a target says of its score is left to the outcome of the problem, one of
`bayesmkl.outcomes`:

    labels, classes, grades     ε = 1 and 1/υ = σ_g² are known (the paper has σ_g = 1), f_i is beyond what y_i says
    numbers, intervals          υ, ε ~ Gamma are learned, f_i is the target, or lies within its interval

Several outputs c, such as the classes (§5.1), have a λ_c, a_c, G_c, γ_c, b_c, f_c, υ_c and ε_c each; the kernel
weights and their precisions, e and ω, are those of all outputs:

    f_ci | b, e, g_ci ~ N(e' g_ci + b_c, 1/ε_c),      g_cmi | a_c ~ N(k_mi' a_c, 1/υ_c).

The posterior is approximated by Π_c [q(λ_c) q(a_c) q(G_c) q(γ_c) q(f_c) q(υ_c) q(ε_c)] q(ω) q(b, e), where q(b, e) is
one normal distribution over all intercepts and the kernel weights. `sweep` sets every factor once, in the paper's
order, to its optimum given the others; the bound `elbo` never falls. Its halves `update_outputs` and `update_scores`
serve `multitask` as well.

Departures: σ_g is a parameter; E[G Gᵀ] in equation (4) keeps its variance part (the paper prints the product of
the means); the entropy of q(f) is exact. The paper announces regression (§3) and leaves several classes to its
supplement; it prints no equations for either.

One output has no axis for outputs, and takes the updates of `moments`; several have it first, and take those of
`outputs`, where one pass over the kernels serves them all.

**Samples without labels** (§5.2). The outcome is `Labels`, with y_i = 0 for unlabeled samples. Lawrence and Jordan
(2005) give the region between the classes, -ν < f < ν, a category of its own, of which no sample is: an unlabeled one
tells that its score is not there, so the boundary moves to where samples are rare,

    q(f_i) ∝ N(f_i; μ_i, 1) 1{|f_i| > ν},      μ_i = E[e]' E[g_i] + E[b],      P(y_i = +1) = P(f_i > ν).

With ν = 0 an unlabeled sample says nothing. Then q(f_i) = N(μ_i, 1), and the posterior of (a, b, e) given the labels
is exactly what it is without the sample. The factorized approximation pays for it nevertheless: with the other
factors fixed, the sample lowers the bound by

    ½ Var[e' g_i + b] + KL(q(g_i) || N(K_i E[a], σ_g²)) + ½ tr(K_i Cov[a] K_i') / σ_g²,      K_i = (k_1i .. k_Pi)',

zero only where a, b and e are known, so that many unlabeled samples make the approximation narrower and its scores
smaller. The bound has several maxima. One of them, often the highest, puts all unlabeled samples on one side. Two
things keep it away: to start near the fit to the labeled samples, `start_from_labeled`, and, where classes are about
equally frequent, kernels that are centered over all training samples with a prior that holds the intercept near zero,
so that scores have a mean of about zero.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit

from bayesmkl._numerics.acceleration import (
    Coordinate,
    CovarianceCoordinate,
    LogCoordinate,
    UnmeasuredCoordinate,
)
from bayesmkl._numerics.arrays import Array, namespace
from bayesmkl._numerics.truncated_normal import TruncatedMoments, log_normal_cdf
from bayesmkl.bemkl import moments, outputs
from bayesmkl.bemkl.moments import (
    UNIT_PRECISION,
    Gamma,
    IntermediateUpdate,
    PrecisionMoments,
    ReadoutUpdate,
    expected_residual,
    expected_zero_mean,
    known_precision,
    latent_mean,
    probe,
    probe_scale,
    readout_cov_scale,
    readout_precision,
    update_noise_precision,
    update_precision,
    update_readout,
)
from bayesmkl.bemkl.outputs import AbsentViews, CompletedOutputs
from bayesmkl.kernels.stacks.base import Stack
from bayesmkl.kernels.stacks.dense import in_c_order


class Priors(NamedTuple):
    """Gamma priors on the precisions of a, b and e, and, where they are learned, on υ and ε."""

    sample: Gamma = Gamma(1.0, 1.0)
    intercept: Gamma = Gamma(1.0, 1.0)
    kernel: Any = Gamma(1.0, 1.0)  # for samplers also a prior on e itself (`Dirichlet`, `SpikeSlab`)
    intermediate: Gamma = Gamma(1.0, 1.0)
    noise: Gamma = Gamma(1.0, 1.0)


class Problem(NamedTuple):
    """Data and priors of a fit, constant during it."""

    stack: Stack  # training kernels
    gram: Any  # sum_m K_m' K_m, (n_train, n_train), computed once (§4.1)
    y: Any  # (n_samples,), or (n_outputs, n_samples) of several outputs
    priors: Priors
    outcome: Any  # an `Outcome`: what the targets say of the scores
    intermediate_precision: Any = None  # 1/σ_g², where υ is known
    absent: AbsentViews | None = None  # which samples lack which views, of several outputs


class State(NamedTuple):
    """The factors of the posterior, and the cut points of grades."""

    sample_precision: Gamma  # q(λ), (n_train,)
    dual: Any  # q(a), normal
    intermediate: Any  # q(G)
    intercept_precision: Gamma  # q(γ)
    kernel_precision: Any  # q(ω), (n_kernels,); of a task None, they have it in common
    readout: Any  # q(b, e), all intercepts first; None before it is found
    latent: TruncatedMoments | None = None  # q(f), shaped as y; None where targets are observed
    intermediate_precision: Gamma | None = None  # q(υ), None where it is known
    noise_precision: Gamma | None = None  # q(ε), None where it is one
    distances: Any = None  # of neighboring cut points of grades, (n_levels - 2,)

    @property
    def competes(self) -> bool:
        """Whether outputs are classes that compete: q(f_i) is one distribution over all of them."""
        return self.latent is not None and self.latent.entropy.ndim < self.latent.mean.ndim


class Carry(NamedTuple):
    """State that a sweep reads from the previous one; fields that a problem does not have are empty."""

    dual_square: Any  # E[a²], (n_train,)
    intermediate_precision: Any  # E[υ]
    noise_precision: Any  # E[ε]
    pull: Any  # sum_m K_m' E[g_m], (n_train,)
    probe: Any  # E[G] of a few samples, which only the acceleration reads
    readout: Any  # E[(b, e)], (n_outputs + n_kernels,)
    readout_cov: Any  # its covariance
    distances: Any  # of neighboring cut points
    latent: Any  # E[f]


COORDINATES = Carry(
    LogCoordinate,
    LogCoordinate,
    LogCoordinate,
    UnmeasuredCoordinate,
    Coordinate,
    Coordinate,
    CovarianceCoordinate,
    LogCoordinate,
    Coordinate,
)


def _updates_of(y: Array) -> ModuleType:
    """Return the updates of one output, or those of several."""
    return moments if y.ndim == 1 else outputs


def _or_empty(value: Any, like: Array) -> Any:
    return like.reshape(-1)[:0] if value is None else value


def init(problem: Problem, noise: Array | None) -> Carry:
    """Start from unit kernel weights, and from scores that agree with the targets.

    Intermediate outputs start at the scores, or, of numbers and intervals, share the centered targets equally.

    Parameters
    ----------
    problem : Problem
    noise : array of shape (n_samples,) or as the targets, or None
        Of labels and classes, how far every score starts beyond the margin. Of numbers and intervals, what is added
        to the targets that are shared out; zeros for the deterministic start. Of grades, see `Grades.start`.
    """
    y, stack = problem.y, problem.stack
    xp, lead, n_outputs = namespace(y), y.shape[:-1], y.size // y.shape[-1]
    scores, distances = problem.outcome.start(y, noise)
    ones, weights = xp.ones(lead, dtype=scores.dtype), xp.ones((stack.n_kernels,), dtype=scores.dtype)
    parts, centers, noises = scores, 0.0 * ones, None
    if problem.outcome.has_noise:
        centers, noises = scores.mean(axis=-1), ones
        parts = (scores - centers[..., None] + noise) / stack.n_kernels
    intermediate = weights[:, None] * parts[..., None, :]
    return Carry(
        dual_square=xp.ones((*lead, stack.n_train), dtype=scores.dtype),
        intermediate_precision=_or_empty(noises, scores),
        noise_precision=_or_empty(noises, scores),
        pull=_updates_of(y).adjoin(stack, intermediate),
        probe=probe(intermediate),
        readout=xp.concatenate([centers.reshape(-1), weights]),
        readout_cov=xp.eye(n_outputs + stack.n_kernels, dtype=scores.dtype),
        distances=_or_empty(distances, scores),
        latent=_or_empty(None if problem.outcome.is_observed else scores, scores),
    )


def carry(problem: Problem, state: State) -> Carry:
    """Return the carry of `state` for the next sweep."""
    mean, like = state.intermediate.mean, state.readout.mean
    upsilon, epsilon, latent = (
        _or_empty(None if factor is None else factor.mean, like)
        for factor in (state.intermediate_precision, state.noise_precision, state.latent)
    )
    return Carry(
        state.dual.square,
        upsilon,
        epsilon,
        _updates_of(problem.y).adjoin(problem.stack, mean),
        probe(mean),
        state.readout.mean,
        state.readout.cov,
        _or_empty(state.distances, like),
        latent,
    )


def scales(state: State) -> Carry:
    """Return the reciprocal posterior scale of every measured coordinate."""
    xp, empty = namespace(state.dual.mean), state.dual.mean.reshape(-1)[:0]
    upsilon, epsilon = (
        empty if factor is None else factor.concentration**0.5 * xp.ones_like(factor.rate)
        for factor in (state.intermediate_precision, state.noise_precision)
    )
    distances, latent = empty, empty
    if state.distances is not None:
        per_grade = state.intermediate.n_samples / (state.distances.shape[0] + 2)
        distances = per_grade**0.5 * xp.ones_like(state.distances)
    if state.latent is not None:
        noise = 1.0 if state.noise_precision is None else xp.sqrt(state.noise_precision.mean)
        latent = noise * xp.ones_like(state.latent.mean)
    return Carry(
        0.5 * xp.ones_like(state.dual.mean),
        upsilon,
        epsilon,
        empty,
        probe_scale(state.intermediate),
        1.0 / xp.sqrt(state.readout.variance),
        readout_cov_scale(state.readout),
        distances,
        latent,
    )


def takes(problem: Problem, state: Any) -> bool:
    """Return whether `state` has the factors of a posterior of `problem`, whatever their sizes."""
    if not isinstance(state, State) or state.kernel_precision is None:
        return False
    outcome, is_noisy = problem.outcome, state.noise_precision is not None
    return (
        state.dual.mean.ndim == problem.y.ndim
        and is_noisy == outcome.has_noise
        and (state.latent is None) == outcome.is_observed
        and (state.distances is not None) == outcome.has_cuts
        and state.competes == outcome.competes
    )


# ------------------------------------------------------------------------------------------------ updates, §4.1


def sweep(
    problem: Problem,
    start: Carry,
    solve_readout: ReadoutUpdate = update_readout,
    solve_intermediate: IntermediateUpdate | None = None,
) -> tuple[State, Any]:
    """Update every factor once, in the paper's order (§4.1), noise precisions last; return the state with its ELBO.

    `solve_readout` is the update of q(b, e), `solve_intermediate` that of q(G) of one output.
    """
    priors = problem.priors
    of, scores, (_, epsilon) = _updates_of(problem.y), _scores(problem, start), precisions(problem, start)
    own, projection = update_outputs(problem, start, solve_intermediate)  # q(λ), q(a), q(G), q(γ)
    kernel_precision = update_precision(priors.kernel, _square(start)[-problem.stack.n_kernels :])  # q(ω)
    design, target, common = of.readout_equation(own.intermediate, scores, epsilon)
    prior = readout_precision(own.intercept_precision, kernel_precision)
    readout = solve_readout(design, target, prior, common)  # q(b, e), (4)
    own = own._replace(kernel_precision=kernel_precision)
    state, error, misfit = update_scores(problem, start, own, projection, readout, design)  # q(f), q(υ), q(ε)
    return state, elbo(problem, state, error, misfit)


def update_outputs(
    problem: Problem, start: Carry, solve_intermediate: IntermediateUpdate | None = None
) -> tuple[State, Any]:
    """Update q(λ), q(a), q(G) and q(γ); return a state of them alone, and ``K_m E[a]``."""
    of, priors, (upsilon, epsilon) = _updates_of(problem.y), problem.priors, precisions(problem, start)
    sample_precision = update_precision(priors.sample, start.dual_square)  # q(λ)
    dual = of.update_dual(problem.gram, start.pull, sample_precision.mean, upsilon)  # q(a), (3)
    views = () if problem.absent is None else (problem.absent,)
    projection, intermediate = (solve_intermediate or of.update_intermediate)(  # q(G)
        problem.stack,
        dual.mean,
        _scores(problem, start),
        start.readout,
        start.readout_cov,
        upsilon,
        epsilon,
        *views,
    )
    intercepts = _square(start)[: -problem.stack.n_kernels]
    intercepts = intercepts[0] if problem.y.ndim == 1 else intercepts
    intercept_precision = update_precision(priors.intercept, intercepts)  # q(γ)
    return State(sample_precision, dual, intermediate, intercept_precision, None, None), projection


def update_scores(
    problem: Problem,
    start: Carry,
    own: State,
    projection: Array,
    readout: Any,
    design: Array | None = None,
) -> tuple[State, Any, Any]:
    """Update q(f), q(υ) and q(ε) given q(b, e); return the state with them, and its `errors`."""
    outcome, (_, epsilon) = problem.outcome, precisions(problem, start)
    loc = _updates_of(problem.y).latent_mean(own.intermediate, readout)
    latent, distances = outcome.update(problem.y, loc, epsilon, start.distances)  # q(f)
    state = own._replace(readout=readout, latent=latent, distances=distances)
    return update_noises(problem, state, projection, design)


def update_noises(
    problem: Problem, state: State, projection: Array, design: Array | None = None
) -> tuple[State, Any, Any]:
    """Update q(υ) and q(ε) where they are not known; return the state with them, and its `errors`."""
    error, misfit = errors(problem, state, projection, design)
    if problem.outcome.has_noise:
        priors, outputs = problem.priors, state.intermediate
        state = state._replace(
            intermediate_precision=update_noise_precision(priors.intermediate, error, outputs.n_projected),
            noise_precision=update_noise_precision(priors.noise, misfit, outputs.n_samples),
        )
    return state, error, misfit


def precisions(problem: Problem, start: Carry) -> tuple[Any, Any]:
    """Return E[υ] and E[ε] of a carry, or the known ones."""
    if problem.outcome.has_noise:
        return start.intermediate_precision, start.noise_precision
    return problem.intermediate_precision, 1.0


def _scores(problem: Problem, start: Carry) -> Any:
    """Return E[f], or the targets that are observed."""
    return problem.y if problem.outcome.is_observed else start.latent


def _square(start: Carry) -> Any:
    """Return the second moments of (b, e)."""
    cov = start.readout_cov  # of many kernels it is in parts, which have a method alone
    return start.readout**2 + cov.diagonal()


# ----------------------------------------------------------------------------------------------- the bound, (2)


def errors(
    problem: Problem, state: State, projection: Array | None = None, design: Array | None = None
) -> tuple[Any, Any]:
    """Return ``E ||g_mi - k_mi' a||²`` and ``E (f_i - e' g_i - b)²``, summed over samples, of every output.

    Parameters
    ----------
    problem : Problem
    state : State
    projection : array of shape (n_kernels, n_samples), optional
        ``K_m E[a]`` where it is at hand.
    design : array of shape (1 + n_kernels, 1 + n_kernels), optional
        `moments.readout_design` of one output, likewise.
    """
    of = _updates_of(problem.y)
    if projection is None:
        projection = of.project(problem.stack, state.dual.mean)
    error = of.intermediate_error(state.intermediate, projection, problem.gram, state.dual)
    if state.latent is None:
        return error, of.score_error(problem.y, state.intermediate, state.readout, design)
    misfit = of.score_error(state.latent.mean, state.intermediate, state.readout, design)
    return error, misfit + state.latent.variance.sum(axis=-1)


def elbo(problem: Problem, state: State, error: Array | None = None, misfit: Array | None = None) -> Any:
    """Return the evidence lower bound (2) in nats, of any state, not only a fixed point.

    `error` and `misfit` are its `errors`, where they are at hand.
    """
    weights_square = state.readout.square[-state.intermediate.mean.shape[-2] :]
    return (
        output_bound(problem, state, error, misfit)
        + state.kernel_precision.bound(problem.priors.kernel)
        + expected_zero_mean(weights_square, state.kernel_precision)  # E[log p(e | ω)]
        + state.readout.log_folds
        + state.readout.entropy
    )


def output_bound(
    problem: Problem, state: State, error: Array | None = None, misfit: Array | None = None
) -> Any:
    """Return the terms for λ, a, G, γ, b, f or y, υ and ε, without the entropy of q(b)."""
    if error is None or misfit is None:
        error, misfit = errors(problem, state)
    priors, intermediate = problem.priors, state.intermediate
    upsilon: Gamma | PrecisionMoments
    epsilon: Gamma | PrecisionMoments
    if state.intermediate_precision is None or state.noise_precision is None:
        upsilon, epsilon = known_precision(state.dual.mean, problem.intermediate_precision), UNIT_PRECISION
        noises = 0.0
    else:
        upsilon, epsilon = state.intermediate_precision, state.noise_precision
        noises = upsilon.bound(priors.intermediate) + epsilon.bound(priors.noise)
    intercepts_square = state.readout.square[: -intermediate.mean.shape[-2]]
    bound = (
        state.sample_precision.bound(priors.sample)
        + expected_zero_mean(state.dual.square, state.sample_precision)  # E[log p(a | λ)]
        + state.dual.entropy
        + expected_residual(error, intermediate.n_projected, upsilon)  # E[log p(G | a, υ)]
        + intermediate.entropy
        + state.intercept_precision.bound(priors.intercept)
        + expected_zero_mean(intercepts_square, state.intercept_precision)  # E[log p(b | γ)]
        + expected_residual(misfit, intermediate.n_samples, epsilon)  # E[log p(f | b, e, G, ε)]
        + noises
    )
    if isinstance(intermediate, CompletedOutputs):  # whose scores have weights
        weight = intermediate.score_weight
        bound = bound + 0.5 * namespace(weight).log(weight).sum()
    return bound if state.latent is None else bound + state.latent.entropy.sum()


# --------------------------------------------------------------------------------------------- samples without labels


def labeled_part(problem: Problem) -> Problem:
    """Return the problem without the unlabeled samples, their columns of the kernels kept: `a` stays the same."""
    labeled = problem.y != 0.0
    stack = in_c_order(problem.stack.rows(labeled))  # of stacks that are in one place
    return problem._replace(stack=stack, gram=stack.gram(), y=problem.y[labeled])


def start_from_labeled(problem: Problem, labeled: State) -> Carry:
    """Start from a posterior of the labeled samples; unlabeled scores begin where it predicts them.

    Parameters
    ----------
    problem : Problem
    labeled : State
        Posterior of ``labeled_part(problem)``.
    """
    intermediate = problem.stack.apply(labeled.dual.mean)
    intermediate[:, problem.y != 0.0] = labeled.intermediate.mean
    loc = latent_mean(labeled.intermediate._replace(mean=intermediate), labeled.readout)
    latent = problem.outcome.update(problem.y, loc, 1.0, None)[0]
    everyone = labeled._replace(intermediate=labeled.intermediate._replace(mean=intermediate), latent=latent)
    return carry(problem, everyone)


def positive_probability(problem: Problem, state: State) -> np.ndarray:
    """Return the probability under q(f) that each training sample lies above the margin, shape (n_samples,).

    It is 0 or 1 for labeled samples.
    """
    loc = latent_mean(state.intermediate, state.readout)
    margin = problem.outcome.margin
    log_odds = log_normal_cdf(loc - margin) - log_normal_cdf(-loc - margin)
    return np.where(problem.y == 0.0, expit(log_odds), 0.5 * (1.0 + problem.y))
