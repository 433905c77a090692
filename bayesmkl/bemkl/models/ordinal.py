r"""BEMKL for grades: closed-form variational inference of an ordinal probit model.

Model: the story in `moments` with unit latent noise (ε = 1) and known intermediate noise (1/υ = σ_g²), as in
`binary`, where a grade says between which cut points its score lies,

    y_i = k | f_i  ~  1{c_{k-1} < f_i <= c_k},      y_i in {1, ..., K},      c_0 = -inf < c_1 < ... < c_K = inf.

Cut points are parameters, not variables: they maximize the bound. The unit noise of the scores fixes their scale. A
shift of all cut points is one of the intercept, which has a prior, so they are held at the mean zero, and what is
free are the K - 2 distances of neighbors. Two grades have none: their model is that of `binary` without a margin.

The factors are those of `binary`, but for q(f): with μ_i = E[e]' E[g_i] + E[b],

    q(f_i) = N(f_i; μ_i, 1) 1{c_{k-1} < f_i <= c_k} / Z_i,      Z_i = Φ(c_k - μ_i) - Φ(c_{k-1} - μ_i),     k = y_i.

At this optimum of q(f) the bound depends on the cut points by Σ_i log Z_i alone, which is concave in them and so in
their distances (Burridge 1981; Pratt 1981). Every sweep takes one Newton step in the distances, halved until that sum
does not fall, and then sets q(f): the bound never falls.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from bayesmkl._numerics.acceleration import (
    Coordinate,
    CovarianceCoordinate,
    LogCoordinate,
    UnmeasuredCoordinate,
)
from bayesmkl._numerics.arrays import Array, is_numpy, namespace, special_functions
from bayesmkl._numerics.truncated_normal import LOG_2PI, TruncatedMoments, interval_moments
from bayesmkl.bemkl.models.moments import (
    UNIT_PRECISION,
    Gamma,
    Gaussian,
    IntermediateOutputs,
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
    "OrdinalCarry",
    "OrdinalPriors",
    "OrdinalProblem",
    "OrdinalState",
    "carry",
    "elbo",
    "grade_ends",
    "init",
    "scales",
    "step",
    "sweep",
    "update_cuts",
]

LARGEST = 1e8  # stands for infinite ends, where all densities are zero
RIDGE = 1e-12  # on the curvature by the distances, relative to its trace
ROUNDING = 1e-13  # of the sum of log Z, relative
HALVINGS = 30  # of a Newton step, at most


class OrdinalPriors(NamedTuple):
    """Gamma priors on the precisions of a, b and e."""

    sample: Gamma = Gamma(1.0, 1.0)
    intercept: Gamma = Gamma(1.0, 1.0)
    kernel: Gamma = Gamma(1.0, 1.0)


class OrdinalProblem(NamedTuple):
    """Data and priors of a fit, constant during it."""

    stack: KernelStack  # training kernels
    gram: Any  # sum_m K_m' K_m, (n_train, n_train)
    y: Any  # (n_samples,) of 1.0 to n_levels, or 0.0 of a sample that is none
    priors: OrdinalPriors
    cut_slopes: Any  # derivatives of the cut points by their distances, (n_levels - 1, n_levels - 2)
    intermediate_precision: Any  # 1/σ_g²
    distances: Any = (
        None  # of the cut points where they are known, for densities of draws; no update reads them
    )


class OrdinalState(NamedTuple):
    """The factors of the posterior, and the parameters."""

    sample_precision: Gamma  # q(λ), (n_train,)
    dual: Gaussian  # q(a)
    intermediate: IntermediateOutputs  # q(G)
    intercept_precision: Gamma  # q(γ)
    kernel_precision: Gamma  # q(ω), (n_kernels,)
    readout: Gaussian  # q(b, e), intercept first
    distances: Any  # of neighboring cut points, (n_levels - 2,)
    latent: TruncatedMoments  # q(f)


class OrdinalCarry(NamedTuple):
    """State that a sweep reads from the previous one."""

    dual_square: Any  # E[a²], (n_train,)
    pull: Any  # sum_m K_m' E[g_m], (n_train,)
    probe: Any  # E[G] of a few samples, which only the acceleration reads
    readout: Any  # E[(b, e)], (1 + n_kernels,)
    readout_cov: Any  # its covariance
    distances: Any  # of neighboring cut points, (n_levels - 2,)
    latent: Any  # E[f], (n_samples,)


def init(problem: OrdinalProblem, share: Array | None) -> OrdinalCarry:
    """Start from unit kernel weights, and standard normal scores cut where they have the frequencies of the grades.

    Parameters
    ----------
    problem : OrdinalProblem
    share : array of shape (n_samples,), or None
        Part of the probability between its two cut points that is below the start of every score, between 0 and 1;
        None starts scores at their means. Intermediate outputs start at the same values.
    """
    xp, y = namespace(problem.y), problem.y
    n_kernels, n_levels = problem.stack.n_kernels, problem.cut_slopes.shape[0] + 1
    special = special_functions(y)
    below = xp.stack([(y <= k).mean() for k in range(1, n_levels)])
    quantiles = special.ndtri(below)
    distances = quantiles[1:] - quantiles[:-1]
    lower, upper = grade_ends(y, problem.cut_slopes, distances)
    if share is None:
        scores = interval_moments(xp.zeros_like(y), lower, upper).mean
    else:
        start, end = special.ndtr(lower), special.ndtr(upper)
        scores = special.ndtri(start + share * (end - start))
    ones = xp.ones((1 + n_kernels,), dtype=scores.dtype)
    intermediate = ones[1:, None] * scores
    return OrdinalCarry(
        dual_square=xp.ones((problem.stack.n_train,), dtype=scores.dtype),
        pull=problem.stack.adjoint(intermediate),
        probe=probe(intermediate),
        readout=ones - xp.eye(1 + n_kernels, dtype=scores.dtype)[0],
        readout_cov=xp.eye(1 + n_kernels, dtype=scores.dtype),
        distances=distances,
        latent=scores,
    )


def carry(problem: OrdinalProblem, state: OrdinalState) -> OrdinalCarry:
    """Return the carry of `state` for the next sweep."""
    intermediate = state.intermediate.mean
    return OrdinalCarry(
        state.dual.square,
        problem.stack.adjoint(intermediate),
        probe(intermediate),
        state.readout.mean,
        state.readout.cov,
        state.distances,
        state.latent.mean,
    )


STATE = OrdinalState
COORDINATES = OrdinalCarry(
    LogCoordinate,
    UnmeasuredCoordinate,
    Coordinate,
    Coordinate,
    CovarianceCoordinate,
    LogCoordinate,
    Coordinate,
)


def scales(state: OrdinalState) -> OrdinalCarry:
    """Return the reciprocal posterior scale of every measured coordinate."""
    xp = namespace(state.latent.mean)
    per_grade = state.intermediate.n_samples / (state.distances.shape[0] + 2)
    return OrdinalCarry(
        0.5 * xp.ones_like(state.dual.mean),
        state.dual.mean[:0],
        probe_scale(state.intermediate),
        1.0 / xp.sqrt(state.readout.variance),
        readout_cov_scale(state.readout),
        per_grade**0.5 * xp.ones_like(state.distances),
        xp.ones_like(state.latent.mean),
    )


def sweep(
    problem: OrdinalProblem,
    start: OrdinalCarry,
    solve_readout: ReadoutUpdate = update_readout,
) -> tuple[OrdinalState, Any]:
    """Update every factor once, in the order of `binary`, cut points with q(f), and return the state with its ELBO.

    `solve_readout` is the update of q(b, e).
    """
    priors, precision = problem.priors, problem.intermediate_precision
    sample_precision = update_precision(priors.sample, start.dual_square)  # q(λ)
    dual = update_dual(problem.gram, start.pull, sample_precision.mean, precision)  # q(a), (3)
    projection, intermediate = update_intermediate(  # q(G)
        problem.stack, dual.mean, start.latent, start.readout, start.readout_cov, precision, 1.0
    )
    readout_square = start.readout**2 + namespace(projection).diagonal(start.readout_cov)
    intercept_precision = update_precision(priors.intercept, readout_square[0])  # q(γ)
    kernel_precision = update_precision(priors.kernel, readout_square[1:])  # q(ω)
    design = readout_design(intermediate)
    readout = solve_readout(  # q(b, e), (4)
        design,
        readout_target(intermediate, start.latent),
        readout_precision(intercept_precision, kernel_precision),
        1.0,
    )
    loc = latent_mean(intermediate, readout)
    distances, latent = update_cuts(problem.y, problem.cut_slopes, start.distances, loc)  # c and q(f)
    state = OrdinalState(
        sample_precision,
        dual,
        intermediate,
        intercept_precision,
        kernel_precision,
        readout,
        distances,
        latent,
    )
    return state, elbo(problem, state, projection, design)


def step(problem: OrdinalProblem, state: OrdinalState) -> tuple[OrdinalState, Any]:
    """Run one iteration from a full state."""
    return sweep(problem, carry(problem, state))


def elbo(
    problem: OrdinalProblem,
    state: OrdinalState,
    projection: Array | None = None,
    design: Array | None = None,
) -> Any:
    """Return the evidence lower bound (2) in nats.

    Parameters
    ----------
    problem : OrdinalProblem
    state : OrdinalState
        Any state whose q(f) is between the cut points, not only a fixed point.
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


# ------------------------------------------------------------------------------------------------- cut points


def grade_ends(y: Array, cut_slopes: Array, distances: Array) -> tuple[Any, Any]:
    """Return the cut points below and above every grade, infinite on both sides of a sample that is none.

    Parameters
    ----------
    y : array of shape (n_samples,)
        Grades from 1.0, 0.0 for none.
    cut_slopes : array of shape (n_levels - 1, n_levels - 2)
    distances : array of shape (n_levels - 2,)
    """
    xp, grade = namespace(y), y.astype(int)
    cuts, infinite = cut_slopes @ distances, xp.asarray([xp.inf], dtype=y.dtype)
    lower = xp.concatenate([-infinite, -infinite, cuts])
    upper = xp.concatenate([infinite, cuts, infinite])
    return lower[grade], upper[grade]


def update_cuts(y: Array, cut_slopes: Array, distances: Array, loc: Array) -> tuple[Any, TruncatedMoments]:
    """Move the cut points by a Newton step that does not lower Σ log Z, and return their distances, and q(f).

    Parameters
    ----------
    y, cut_slopes, distances
        As in `grade_ends`; there must be a sample of every grade.
    loc : array of shape (n_samples,)
        μ.
    """
    latent = interval_moments(loc, *grade_ends(y, cut_slopes, distances))
    if distances.shape[0] == 0:
        return distances, latent
    gradient, curvature = _cut_derivatives(y, cut_slopes, distances, loc, latent.log_normalizer)
    xp = namespace(y)
    ridge = RIDGE * xp.trace(curvature) * xp.eye(len(distances), dtype=loc.dtype)
    direction = xp.linalg.solve(curvature + ridge, gradient)
    total = latent.log_normalizer.sum()
    least = total - ROUNDING * xp.abs(total)

    # no distance falls below half of what it was
    longest = xp.where(direction < 0.0, 0.5 * distances / xp.where(direction < 0.0, -direction, 1.0), 1.0)
    size = xp.minimum(1.0, longest.min())

    def attempt(part: Any) -> tuple[Any, TruncatedMoments]:
        moved = distances + part * size * direction
        return moved, interval_moments(loc, *grade_ends(y, cut_slopes, moved))

    def is_enough(found: tuple[Any, TruncatedMoments]) -> Any:
        return found[1].log_normalizer.sum() >= least

    return (_halve if is_numpy(y) else _halve_on_jax)(attempt, is_enough)


def _cut_derivatives(
    y: Array, cut_slopes: Array, distances: Array, loc: Array, log_normalizer: Array
) -> tuple[Any, Any]:
    """Return the gradient of Σ log Z by the distances, and minus its second derivatives."""
    xp, n_levels = namespace(y), cut_slopes.shape[0] + 1
    start, end = (xp.clip(bound - loc, -LARGEST, LARGEST) for bound in grade_ends(y, cut_slopes, distances))
    at_start, at_end = (
        xp.exp(-0.5 * (bound**2 + LOG_2PI) - log_normalizer) for bound in (start, end)
    )  # densities at the ends of q(f)
    members = (y == xp.arange(1, n_levels + 1)[:, None]).astype(loc.dtype)  # (n_levels, n_samples)
    of_upper, of_lower = (
        members[:-1],
        members[1:],
    )  # by cut points: grades that end there, and that start there
    gradient = of_upper @ at_end - of_lower @ at_start
    bend = of_upper @ (at_end * (end + at_end)) + of_lower @ (at_start * (at_start - start))
    crossed = xp.diag(of_upper[1:] @ (at_start * at_end), 1)  # of the two cut points of a grade
    curvature = xp.diag(bend) - crossed - crossed.T
    return cut_slopes.T @ gradient, cut_slopes.T @ curvature @ cut_slopes


def _halve(attempt: Callable[[Any], Any], is_enough: Callable[[Any], Any]) -> Any:
    """Return the first attempt that is enough, with parts 1, 1/2, 1/4, ... of a step, or that with none of it."""
    for number in range(HALVINGS):
        found = attempt(0.5**number)
        if is_enough(found):
            return found
    return attempt(0.0)


def _halve_on_jax(attempt: Callable[[Any], Any], is_enough: Callable[[Any], Any]) -> Any:
    import jax

    least = 0.5**HALVINGS
    part = jax.lax.while_loop(
        lambda part: (part > least) & ~is_enough(attempt(part)), lambda part: 0.5 * part, jax.numpy.ones(())
    )
    return attempt(jax.numpy.where(part > least, part, 0.0))
