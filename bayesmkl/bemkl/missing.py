r"""BEMKL of samples that lack views: what is absent is integrated over, not filled in.

Model: `model` of several outputs, be it one. A sample that lacks view m has no row k_mi, and g_mi is not
known to follow it. What its other views say about g_mi over the population takes that place, and g_mi is integrated
out of the score (`outputs`): its expectation given the present views stays in the mean of the score, and its
spread makes the target of an incomplete sample less precise. As a basis function, a training sample takes part in
the kernels of the views that it has; stacks hold zeros at absent rows and columns.

Labels say on which side of the margin a score is, not how far. With the spread ρ of an incomplete sample held, its
score would grow with it, and ρ with the scores of the next round. In training ρ is zero for labels, therefore: all
scores have unit noise around their expectations. In predictions the spread counts for labels and targets alike.

Kernels are centered on the samples that have their view, so that all outputs have mean zero and the mean of an absent
one needs no parameter. Were it one, samples that lack a view would have an intercept of their own to follow, held at
what it was before: chance associations of gaps with targets then make the means of views grow without end.

For a given covariance S of the outputs and given ρ, this is a model like any other: q(g_i) has one covariance per
pattern of absent views, and sweeps never lower the bound. Both are learned outside of the sweeps.
`fit_with_missing_views` alternates between raising the bound with them held, and setting them to what the posterior
says: S by the EM algorithm for a normal sample with missing values, from k_mi' E[a] of the present views with the
spread 1/υ around it; ρ = E[ε] E[e' C e]. From the sixth round on S goes only part of that way, for rounds can circle
where few samples have two views at once. They end when what follows from S has settled. A bound belongs to its S and
ρ: those of two rounds do not compare, and those of the last round are reported.

With no view absent, S and ρ play no part, and nothing is centered: the result is that of the model itself.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any

import numpy as np

from bayesmkl._numerics.convergence import Outcome
from bayesmkl.bemkl.ascent import Fit, LoopOptions, after, maximize_elbo
from bayesmkl.bemkl.model import Problem, State
from bayesmkl.bemkl.moments import probe
from bayesmkl.bemkl.outputs import (
    AbsentViews,
    ViewMoments,
    apply_by_pattern,
    completion,
    project,
    view_patterns,
)
from bayesmkl.kernels.presence import centered
from bayesmkl.kernels.stacks.base import Stack

SETTLED = 0.05  # largest change of A, and relative one of 1 + ρ, that ends the rounds
FIRST_ROUND = 20  # sweeps, at most; every round may take twice as many as the one before
FREE_ROUNDS = 5  # later ones move S by less and less, so that rounds which circle come to rest
ROUNDS = 5  # none takes more than this part of all sweeps
EM_STEPS = 20  # of one round, at most
EM_SETTLED = 1e-4  # change of S, in standard deviations, that ends them
LEAST_VARIANCE = 1e-8  # at the start, of a view whose outputs are all equal


def fit_with_missing_views(
    algorithm: Any,
    problem: Problem,
    begin: Callable[[Any], Any],
    options: LoopOptions,
    on_sweep: Callable[[int, float], None] | None = None,
) -> tuple[Fit, Any]:
    """Alternate between raising the bound and learning the moments of the views.

    Parameters
    ----------
    algorithm : module
        `model` or `nonnegative`.
    begin : callable
        Takes the problem on centered kernels, returns the carry to start from.
    problem, options, on_sweep
        As in `maximize_elbo`. ``problem.stack.present`` says which sample has which view (None: all have all).
        ``options.max_iter`` bounds the sweeps of all rounds together.

    Returns
    -------
    result : Fit
        `n_iter` counts the sweeps of all rounds, `elbo_history` has those of the last one.
    problem : NamedTuple
        On centered kernels, and with the moments; ``result.state.intermediate.absent`` holds them as well.
    """
    problem, center = _centered(problem)
    start = begin(problem)
    moments = start_moments(problem.stack, center, start.probe)
    noise = start.noise_precision if problem.outcome.has_noise else None
    absent = absent_views(problem, moments, start.readout, start.readout_cov, noise)
    complete = absent.present.all()  # then the moments play no part, and one round is the plain fit
    done, sweeps, settled = 0, options.max_iter if complete else FIRST_ROUND, False
    for n_rounds in count(1):
        problem = problem._replace(absent=absent)
        sweeps = min(sweeps, options.max_iter - done)
        part = options._replace(max_iter=sweeps)
        result = maximize_elbo(algorithm, problem, start, part, after(done, on_sweep))
        done += result.n_iter
        if result.outcome in (Outcome.NOT_FINITE, Outcome.NOT_IMPROVING):
            break
        state = result.state
        found = posterior_moments(problem, state, moments)
        step = min(1.0, (FREE_ROUNDS / n_rounds) ** 2)
        moments = found._replace(cov=moments.cov + step * (found.cov - moments.cov))
        noise = None if state.noise_precision is None else state.noise_precision.mean
        updated = absent_views(problem, moments, state.readout.mean, state.readout.cov, noise)
        settled = _change(absent, updated) < SETTLED
        if done >= options.max_iter or (settled and result.outcome.converged):
            break
        absent, start = updated, algorithm.carry(problem, state)
        sweeps = min(2 * sweeps, -(-options.max_iter // ROUNDS))
    outcome = result.outcome if settled or not result.outcome.converged else Outcome.MAX_ITER
    return _with_moments(result._replace(n_iter=done, outcome=outcome), problem, moments)


def _with_moments(result: Fit, problem: Any, moments: ViewMoments) -> tuple[Fit, Any]:
    """Replace the moments in the results of the last round by the latest ones, for predictions."""
    absent = problem.absent._replace(moments=moments)
    if result.state is not None:
        intermediate = result.state.intermediate._replace(absent=absent)
        result = result._replace(state=result.state._replace(intermediate=intermediate))
    return result, problem._replace(absent=absent)


def absent_views(
    problem: Problem,
    moments: ViewMoments,
    readout: np.ndarray,
    readout_cov: np.ndarray,
    noise_precision: np.ndarray | None,
) -> AbsentViews:
    """Compute conditional moments of the training samples from the moments of views and weights.

    Parameters
    ----------
    problem : Problem
    moments : ViewMoments
    readout, readout_cov : arrays of shape (d,) and (d, d), d = n_outputs + n_kernels
        Mean and covariance of q(b, e).
    noise_precision : array of shape (n_outputs,) or None
        E[ε] of targets; None for labels, whose ρ is zero.

    Raises
    ------
    ValueError
        If a sample has no view at all.
    """
    n_kernels = problem.stack.n_kernels
    weights, cov = readout[-n_kernels:], readout_cov[-n_kernels:, -n_kernels:]
    patterns, index = view_patterns(_present(problem.stack))
    found = completion(patterns, moments.cov)
    excess = np.zeros(found.cov.shape[:2])
    if noise_precision is not None:
        spread = ((np.outer(weights, weights) + cov) * found.cov).sum(axis=(-2, -1))  # E[e' C e]
        excess = noise_precision[:, None] * spread
    counts = np.bincount(index, minlength=len(patterns)).astype(np.float64)
    return AbsentViews(index, counts, patterns, found.slope, excess, moments)


def start_moments(stack: Stack, center: np.ndarray, probed: np.ndarray) -> ViewMoments:
    """Return independent views, with the variances of E[G] at the start where probed samples have them.

    Parameters
    ----------
    stack : Stack
    center : array of shape (n_kernels, n_train)
        Center of the kernels.
    probed : array of shape (n_outputs, n_kernels, n_probed)
        ``probe(E[G])``.
    """
    present = probe(_present(stack))
    share = _shares(
        present | ~present.any(axis=1, keepdims=True)
    )  # all count for a view that none of them has
    mean = (share * probed).sum(axis=2)
    variance = (share * (probed - mean[..., None]) ** 2).sum(axis=2)
    cov = np.maximum(variance, LEAST_VARIANCE)[..., None] * np.eye(len(present))
    return ViewMoments(center, np.zeros_like(mean), cov)


def posterior_moments(problem: Any, state: State, moments: ViewMoments) -> ViewMoments:
    """Return the moments of the intermediate outputs over the population, by EM steps from `moments`."""
    present, values = _present(problem.stack), project(problem.stack, state.dual.mean)
    mean = values.mean(axis=2) if present.all() else moments.mean
    if state.intermediate_precision is not None:
        noise = state.intermediate_precision.mean_reciprocal
    else:
        noise = np.full(len(values), 1.0 / problem.intermediate_precision)
    cov = moments.cov
    for _ in range(EM_STEPS):
        before, cov = cov, em_step(values - mean[..., None], present, noise, cov)
        std = np.sqrt(np.diagonal(cov, axis1=1, axis2=2))
        if np.max(np.abs(cov - before) / std[:, None] / std[..., None]) < EM_SETTLED:
            break
    return moments._replace(mean=mean, cov=cov)


def em_step(values: np.ndarray, present: np.ndarray, noise: np.ndarray, cov: np.ndarray) -> np.ndarray:
    """Take one step of the EM algorithm for S from the expectations of present outputs.

    Parameters
    ----------
    values : array of shape (n_outputs, n_kernels, n_samples)
        Expected intermediate outputs, of mean zero; what they are at absent views does not matter.
    present : bool array of shape (n_kernels, n_samples)
    noise : array of shape (n_outputs,)
        Variance of the outputs around their expectations, 1/υ.
    cov : array of shape (n_outputs, n_kernels, n_kernels)
    """
    patterns, index = view_patterns(present)
    law, counts = completion(patterns, cov), np.bincount(index, minlength=len(patterns))
    completed = apply_by_pattern(law.slope, values.mT, index)
    spread = law.cov + noise[:, None, None, None] * (law.slope @ law.slope.mT)
    return (completed.mT @ completed + (counts[:, None, None] * spread).sum(axis=1)) / len(index)


def _shares(present: np.ndarray) -> np.ndarray:
    """Return the weights of a mean over present samples, (n_kernels, n_samples)."""
    return present / np.maximum(present.sum(axis=1, keepdims=True), 1)


def _centered(problem: Any) -> tuple[Any, np.ndarray]:
    """Return the problem on centered kernels if samples lack views, and the center, (n_kernels, n_train)."""
    stack, present = problem.stack, _present(problem.stack)
    if present.all():
        return problem, np.zeros((stack.n_kernels, stack.n_train))
    center = np.stack([share @ kernel for share, kernel in zip(_shares(present), stack.each(), strict=True)])
    stack = centered(stack, center)
    return problem._replace(stack=stack, gram=stack.gram()), center


def _change(old: AbsentViews, new: AbsentViews) -> float:
    spread = np.abs(np.log((1.0 + new.excess) / (1.0 + old.excess)))
    return float(max(np.abs(new.slope - old.slope).max(), spread.max()))


def _present(stack: Stack) -> np.ndarray:
    """Return the mask of present views, bool array of shape (n_kernels, n_rows)."""
    return (
        np.ones((stack.n_kernels, stack.n_rows), bool) if stack.present is None else np.asarray(stack.present)
    )
