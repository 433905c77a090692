r"""Localized BEMKL with everything but the weights of its gates integrated out: draws of w, then of all else given w.

The posterior of w (`bayesmkl.bemkl.inference.local_evidence`) has a mode for every pattern of the kernels' signs that
fits, since views that differ hardly know of each other's sign. Chains have two kinds of steps. Hamiltonian ones move
coordinates v, in a metric that is the curvature at the mode first and learned before the first draw that counts, at
fixed signs; their trajectories end at a random length. And each time the sign of one kernel, times which v are
coordinates of w, is proposed to change, which is accepted by the evidence: v stays near the mode, whatever the signs.
All chains take each step at once.

Expectation propagation need not converge along a trajectory, where the gradient is but a proposal; both of its ends
are judged by an evidence whose error is second order in what sites lack.

(a, w) and (c a, w / c) are one model, and c < 0 is as good as c > 0. Draws are reported with gates whose mean square
over training samples and kernels is one, on the side of their leading principal axis. Labels leave the scale with its
prior's heavy tail, and no mean of raw gates is worth a name.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy import optimize

from bayesmkl._utils.memory import require_memory
from bayesmkl._utils.options import Marginal
from bayesmkl._utils.threads import blas_threads_for
from bayesmkl.bemkl.inference.local_evidence import MAX_STEPS, LocalModel, LocalPrior, LocalProcess
from bayesmkl.bemkl.inference.marginal import REMEDY, known_precisions
from bayesmkl.bemkl.inference.runs import Fit
from bayesmkl.bemkl.models.localized import LocalizedProblem, LocalizedState
from bayesmkl.bemkl.models.moments import Gamma
from bayesmkl.bemkl.reading.local_weights import LocalDraws, standardized
from bayesmkl.marginal.agreement import draws_of_chains
from bayesmkl.marginal.conditioning import Sites
from bayesmkl.marginal.hyperposterior import Draws, Point

__all__ = ["local_model", "run_marginal_localized"]

Report = Callable[[int, str], None] | None

CLOSE = 1e-3  # tolerance of sites at the ends of a trajectory
LOOSE, FEW_STEPS = 2e-2, 6  # the same along it, and the most steps of expectation propagation there
TIGHT = 1e-6  # on the way to the mode and of what is drawn in the end
DIFFERENCE = 1e-3  # of coordinates, to measure the curvature
LEAST_CURVATURE = 0.3
LENGTH = (0.8, 2.2)  # of trajectories, in units of the metric; a quarter of a turn is 1.57
FIRST_STEP, LARGEST_STEP, MOST_STEPS = 0.5, 1.2, 12
JITTER = (0.5, 1.1)  # of steps, so that some are short enough where the posterior is narrow
ACCEPTED = 0.8  # part of the trajectories that the step size aims at
PER_COORDINATE = 5.0  # points, with which their covariance is half trusted
MOST_ROUNDS = 4  # of `n_points` each, while chains do not agree
BLOCK = 16  # points at once, whose posterior of all else is drawn from


def local_model(problem: LocalizedProblem) -> LocalModel:
    """Return the model of the weights of the gates: known precisions of a and b, and weights smaller by root P.

    Parameters
    ----------
    problem : LocalizedProblem
    """
    n_kernels, n_features = problem.stack.n_kernels, problem.features.shape[1]
    priors = known_precisions(problem.priors, n_kernels)
    gate = Gamma(priors.gate.concentration, priors.gate.rate / n_kernels)
    noises = (priors.intermediate, priors.noise) if problem.margin is None else ()
    prior = LocalPrior(n_kernels, n_features - 1, priors.kernel, gate, noises)
    known = np.array([problem.intermediate_precision or 1.0, 1.0], dtype=np.float64)
    return LocalModel(LocalProcess.of(problem, priors.intercept), prior, known)


def run_marginal_localized(
    problem: LocalizedProblem,
    state: LocalizedState,
    options: Marginal,
    rng: np.random.Generator,
    report: Report = None,
) -> Fit:
    """Draw the weights of the gates from their marginal posterior, then a and b given each.

    Parameters
    ----------
    problem : LocalizedProblem
    state : LocalizedState
        The variational posterior, from which the climb to the mode starts.
    options : Marginal
    rng : numpy.random.Generator
    report : callable, optional
        Is told the number of the step.

    Returns
    -------
    Fit
        With `LocalDraws`.

    Raises
    ------
    MemoryError
        If draws would not fit into memory, before anything is computed.
    """
    n_train, n_chains = problem.stack.n_train, options.n_chains
    require_memory(
        32.0 * options.n_draws * n_train, f"{options.n_draws} draws of {n_train} sample weights", REMEDY
    )
    model = local_model(problem)
    with blas_threads_for(n_train):
        mode = _find_mode(model, _start(model.prior, state))
        chains, found = _draw_chains(model, mode, options, rng, report)
        n_points = len(chains.coordinates)
        per_chain = -(-options.n_draws // n_chains)
        chosen = np.arange(per_chain) * n_points // per_chain
        draws = _draw_rest(model, chains, chosen, rng)
    draws = standardized(draws, problem.features)
    return Fit(
        draws,
        found.outcome,
        per_chain,
        points=found,
        n_evaluations=mode.n_evaluations + chains.n_evaluations,
    )


def _compared(model: LocalModel, chains: _Chains) -> Draws:
    """Return the points of all chains, and how far these agree on weights of a common scale and sign."""
    n_points, n_chains = chains.heights.shape
    coordinates = chains.coordinates.swapaxes(0, 1).reshape(n_points * n_chains, -1)
    heights = chains.heights.T.ravel()
    weights, _, _ = model.values(coordinates)
    nothing = np.zeros(len(weights))
    weights = standardized(
        LocalDraws(weights, nothing, nothing[:, None], nothing), model.process.features
    ).weights
    values = np.column_stack([weights.reshape(len(weights), -1), heights])
    points = tuple(Point(height, np.nan, (), True) for height in heights)  # others are not visited
    return draws_of_chains(coordinates, points, values.reshape(n_chains, n_points, -1))


class _Mode(NamedTuple):
    coordinates: np.ndarray
    root: np.ndarray  # R with R R' the inverse of the curvature
    sites: Sites  # of one point
    n_evaluations: int


def _start(prior: LocalPrior, state: LocalizedState) -> np.ndarray:
    """Return the coordinates of a variational posterior, in the scale that the known precisions of a give it."""
    weights = state.readout.mean[1:].reshape(prior.n_kernels, -1)
    size = np.sqrt((state.dual.mean**2).mean() + state.dual.variance.mean())  # of a, which has one here
    upsilon, epsilon = state.intermediate_precision.mean, state.noise_precision.mean
    noises = np.array([float(upsilon) * size**2, float(epsilon)])
    return prior.coordinates(size * weights, noises)


def _find_mode(model: LocalModel, start: np.ndarray) -> _Mode:
    """Climb to a mode by L-BFGS, and measure the curvature there by differences of gradients."""
    latest: list[Sites | None] = [None]

    def negative(coordinates: np.ndarray) -> tuple[float, np.ndarray]:
        height, slope, found = model.evaluate(coordinates[None], latest[0], tol=TIGHT)
        latest[0] = found.sites if np.isfinite(height[0]) else latest[0]
        return -float(height[0]), -slope[0]

    climb = optimize.minimize(
        negative, start, jac=True, method="L-BFGS-B", options={"maxiter": 200, "ftol": 1e-7}
    )
    _, _, here = model.evaluate(climb.x[None], latest[0], tol=TIGHT)
    steps = DIFFERENCE * np.eye(len(climb.x))
    both = climb.x + np.vstack([-steps, steps])
    _, slopes, _ = model.evaluate(both, _repeat(here.sites, len(both)), tol=TIGHT)
    below, above = np.split(slopes, 2)
    curvature = (below - above) / (2.0 * DIFFERENCE)
    values, vectors = np.linalg.eigh(0.5 * (curvature + curvature.T))
    cov = (vectors / np.maximum(values, LEAST_CURVATURE)) @ vectors.T
    return _Mode(climb.x, np.linalg.cholesky(cov), here.sites, int(climb.nfev) + len(both) + 1)


def _metric(seen: np.ndarray, root: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return mean of what chains have seen, and the root of its covariance as far as so many points are good for."""
    n, size = seen.shape
    trust = n / (n + PER_COORDINATE * size)
    cov = trust * np.atleast_2d(np.cov(seen.T)) + (1.0 - trust) * root @ root.T
    return seen.mean(axis=0), np.linalg.cholesky(cov)


class _Chains(NamedTuple):
    """Points of all chains, each field with the axes (n_points, n_chains)."""

    coordinates: np.ndarray
    heights: np.ndarray
    precision: np.ndarray  # of sites
    linear: np.ndarray
    n_evaluations: int


class _Place(NamedTuple):
    """Where all chains are."""

    v: np.ndarray  # in units of the metric, from the mode
    signs: np.ndarray  # (n_chains, n_kernels)
    height: np.ndarray
    slope: np.ndarray  # by v
    sites: Sites


def _draw_chains(
    model: LocalModel, mode: _Mode, options: Marginal, rng: np.random.Generator, report: Report
) -> tuple[_Chains, Draws]:
    """Run all chains at once, round after round of `n_points` until they agree; return also how far they do."""
    prior, n_chains = model.prior, options.n_chains
    n_points = -(-options.n_points // n_chains)
    n_evaluations = 0
    center, root = mode.coordinates, mode.root

    def coordinates(v: np.ndarray, signs: np.ndarray) -> np.ndarray:
        return prior.signs(signs) * (center + v @ root.T)

    def visit(v: np.ndarray, signs: np.ndarray, sites: Sites, tol: float) -> _Place:
        nonlocal n_evaluations
        n_evaluations += n_chains
        max_steps = MAX_STEPS if tol == CLOSE else FEW_STEPS
        height, slope, found = model.evaluate(coordinates(v, signs), sites, tol, max_steps)
        if tol == CLOSE:  # what is not known is not visited
            height = np.where(found.converged, height, -np.inf)
        return _Place(v, signs, height, (prior.signs(signs) * slope) @ root, found.sites)

    def choose(ratio: np.ndarray, new: _Place, old: _Place) -> _Place:
        taken = np.log(rng.random(n_chains)) < ratio
        return _merge(taken, new, old)

    def move(here: _Place, step: float) -> tuple[_Place, np.ndarray]:
        step *= rng.uniform(*JITTER)
        n_steps = int(np.clip(round(rng.uniform(*LENGTH) / step), 1, MOST_STEPS))
        momentum = rng.standard_normal(here.v.shape)
        before = here.height - 0.5 * (momentum**2).sum(axis=1)
        there = here
        for k in range(n_steps):
            momentum = momentum + 0.5 * step * there.slope
            there = visit(
                there.v + step * momentum, here.signs, there.sites, CLOSE if k == n_steps - 1 else LOOSE
            )
            momentum = momentum + 0.5 * step * there.slope
        ratio = np.nan_to_num(there.height - 0.5 * (momentum**2).sum(axis=1) - before, nan=-np.inf)
        return choose(ratio, there, here), np.exp(np.minimum(ratio, 0.0))

    def flip(here: _Place) -> _Place:
        signs = here.signs.copy()
        signs[np.arange(n_chains), rng.integers(prior.n_kernels, size=n_chains)] *= -1.0
        there = visit(here.v, signs, here.sites, CLOSE)
        return choose(there.height - here.height, there, here)

    first = rng.standard_normal((n_chains, len(mode.coordinates)))
    here = visit(first, np.ones((n_chains, prior.n_kernels)), _repeat(mode.sites, n_chains), CLOSE)
    seen: list[np.ndarray] = []
    log_step, learned = np.log(FIRST_STEP), []
    kept: list[tuple[np.ndarray, ...]] = []
    for k in range(options.n_warmup + MOST_ROUNDS * n_points):
        here, accepted = move(here, float(np.exp(log_step)))
        if prior.n_kernels > 1:
            here = flip(here)
        if k < options.n_warmup:
            seen.append(center + here.v @ root.T)
            recent = np.concatenate(seen[k // 3 :])
            if k + 1 in (options.n_warmup // 3, 2 * options.n_warmup // 3) and len(recent) > recent.shape[1]:
                center, root = _metric(recent, root)
                back = np.linalg.solve(root, (seen[-1] - center).T).T
                here = visit(back, here.signs, here.sites, CLOSE)
            log_step += (accepted.mean() - ACCEPTED) / (k + 1.0) ** 0.5
            log_step = min(log_step, np.log(LARGEST_STEP))
            learned.append(log_step)
            log_step = np.mean(learned[len(learned) // 2 :]) if k == options.n_warmup - 1 else log_step
        else:
            kept.append((coordinates(here.v, here.signs), here.height, *here.sites))
        if report is not None:
            report(k + 1, "")
        if kept and len(kept) % n_points == 0:
            points, heights, precision, linear = (np.stack(field) for field in zip(*kept, strict=True))
            chains = _Chains(points, heights, precision, linear, n_evaluations)
            found = _compared(model, chains)
            if found.outcome.converged:
                break
    return chains, found


def _merge(taken: np.ndarray, new: _Place, old: _Place) -> _Place:
    """Return the new place of chains that take it, and the old one of others."""

    def pick(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return np.where(taken.reshape(-1, *[1] * (a.ndim - 1)), a, b)

    sites = Sites(*map(pick, new.sites, old.sites))
    return _Place(
        pick(new.v, old.v),
        pick(new.signs, old.signs),
        pick(new.height, old.height),
        pick(new.slope, old.slope),
        sites,
    )


def _repeat(sites: Sites, n: int) -> Sites:
    return Sites(*(np.repeat(field, n, axis=0) for field in sites))


def _draw_rest(
    model: LocalModel, chains: _Chains, chosen: np.ndarray, rng: np.random.Generator
) -> LocalDraws:
    """Draw a and b given the weights of `chosen` points of every chain; draws are chain after chain."""
    process, (n_points, n_chains) = model.process, chains.heights.shape
    flat = (chosen + n_points * np.arange(n_chains)[:, None]).ravel()  # of points, chain after chain
    coordinates, precision, linear = (
        field.swapaxes(0, 1).reshape(n_points * n_chains, -1)
        for field in (chains.coordinates, chains.precision, chains.linear)
    )
    points, which = np.unique(flat, return_inverse=True)
    weights, precisions, _ = model.values(coordinates[flat])
    coefficients = np.empty((len(flat), process.parts.shape[-1] + 1))
    for first in range(0, len(points), BLOCK):
        own = points[first : first + BLOCK]
        _, _, found = model.evaluate(coordinates[own], Sites(precision[own], linear[own]), tol=TIGHT)
        roots = np.linalg.cholesky(found.cov)
        here = np.flatnonzero((which >= first) & (which < first + len(own)))
        noise = rng.standard_normal((len(here), coefficients.shape[1]))
        of_point = which[here] - first
        coefficients[here] = found.mean[of_point] + np.einsum("njk,nk->nj", roots[of_point], noise)
    dual = rng.standard_normal((len(flat), len(process.basis)))
    dual += (coefficients[:, :-1] - dual @ process.basis) @ process.basis.T
    intercept = process.intercept_std * coefficients[:, -1]
    known, own_noise = (precisions**-0.5).T
    return LocalDraws(weights, intercept, dual, known, own_noise)
