"""Scores of several labeled outputs with one set of kernel weights (`multiclass`, `multinomial`).

The two differ in what the labels say of the scores, and so in q(f), where scores start, and nothing else.
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
    UNIT_PRECISION,
    known_precision,
    probe,
    probe_scale,
    readout_cov_scale,
    shared_bound,
)
from bayesmkl.bemkl.models.outputs import adjoin, intermediate_errors, project, score_bound, score_errors

__all__ = ["COORDINATES", "ScoresCarry", "carry", "elbo", "scales", "start_at"]


class ScoresCarry(NamedTuple):
    """State that a sweep reads from the previous one."""

    dual_square: Any  # E[a²], (n_outputs, n_train)
    pull: Any  # sum_m K_m' E[g_cm], (n_outputs, n_train)
    probe: Any  # E[G] of a few samples, which only the acceleration reads
    readout: Any  # E[(b, e)], (n_outputs + n_kernels,)
    readout_cov: Any  # its covariance
    latent: Any  # E[f], (n_outputs, n_samples)


COORDINATES = ScoresCarry(
    LogCoordinate, UnmeasuredCoordinate, Coordinate, Coordinate, CovarianceCoordinate, Coordinate
)


def start_at(problem: Any, scores: Array) -> ScoresCarry:
    """Start from unit kernel weights, and from intermediate outputs of all kernels that equal `scores`.

    Parameters
    ----------
    problem : MulticlassProblem or MultinomialProblem
    scores : array of shape (n_outputs, n_samples)
    """
    xp, n_outputs = namespace(problem.y), problem.y.shape[0]
    eye = xp.eye(n_outputs + problem.stack.n_kernels, dtype=scores.dtype)
    intermediate = xp.ones((problem.stack.n_kernels, 1), dtype=scores.dtype) * scores[:, None, :]
    return ScoresCarry(
        dual_square=xp.ones((n_outputs, problem.stack.n_train), dtype=scores.dtype),
        pull=adjoin(problem.stack, intermediate),
        probe=probe(intermediate),
        readout=eye[n_outputs:].sum(axis=0),
        readout_cov=eye,
        latent=scores,
    )


def carry(problem: Any, state: Any) -> ScoresCarry:
    """Return the carry of `state` for the next sweep."""
    intermediate = state.intermediate.mean
    return ScoresCarry(
        state.dual.square,
        adjoin(problem.stack, intermediate),
        probe(intermediate),
        state.readout.mean,
        state.readout.cov,
        state.latent.mean,
    )


def scales(state: Any) -> ScoresCarry:
    """Return the reciprocal posterior scale of every measured coordinate."""
    xp = namespace(state.latent.mean)
    return ScoresCarry(
        0.5 * xp.ones_like(state.dual.mean),
        state.dual.mean[:0],
        probe_scale(state.intermediate),
        1.0 / xp.sqrt(state.readout.variance),
        readout_cov_scale(state.readout),
        xp.ones_like(state.latent.mean),
    )


def elbo(problem: Any, state: Any, projection: Array | None = None) -> Any:
    """Return the evidence lower bound (2) in nats.

    Parameters
    ----------
    problem : MulticlassProblem or MultinomialProblem
    state : MulticlassState or MultinomialState
        Any state, not only a fixed point.
    projection : array of shape (n_outputs, n_kernels, n_samples), optional
        ``K_m E[a_c]`` where it is at hand.
    """
    if projection is None:
        projection = project(problem.stack, state.dual.mean)
    precision = known_precision(projection, problem.intermediate_precision)
    error = intermediate_errors(state.intermediate, projection, problem.gram, state.dual)
    misfit = score_errors(state.latent.mean, state.intermediate, state.readout)
    misfit = misfit + state.latent.variance.sum(axis=1)
    return (
        shared_bound(problem.priors, state, error, precision)
        + score_bound(misfit, state.intermediate, UNIT_PRECISION)  # E[log p(f | b, e, G)]
        + state.latent.entropy.sum()
    )
