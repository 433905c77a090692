"""Draws of hyperparameters, by the way that a prior and the options ask for.

Importance sampling begins at the mode of their posterior, with the curvature there.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import optimize

from bayesmkl._utils.options import Marginal
from bayesmkl._utils.progress import step_progress
from bayesmkl.gp.conditioning import Sites
from bayesmkl.gp.hyperposterior import (
    CLOSE,
    FEW_STEPS,
    MANY,
    MOST_OF_CHAINS,
    Draws,
    Hypermodel,
    Mode,
    Slopes,
    Spread,
    climb_bound,
    draw_importance,
    evaluate,
    evaluate_height,
    evaluate_slope,
    expected_factors,
    gather,
    spread_of,
)
from bayesmkl.gp.hyperpriors import HalfT
from bayesmkl.gp.selection import SpikeSlabOfKernels, draw_selections, most_sweeps

START = 0.3  # of every coordinate, above the median
NARROW = -1.0  # of coordinates of widths that are inferred, where the way to the mode begins once more
MOST_ASCENTS, LEAST_GAIN = 5, 0.05  # to a mode of many samples; nats
ROUGH = 3e-4  # tolerance of sites of a gradient of which differences are taken
STEP = 0.02  # of the finite differences of the gradient at the mode
FARTHEST = 8.0  # standard deviations of a coordinate that a step may have
LEAST_CURVATURE = 0.3  # of a coordinate; the prior alone has one
LEAST_LENGTH = 1e-6  # of the part of the mode that is a direction of its own
MANY_WIDTHS = 30  # coordinates, some of widths, from which on the mode may have little of the mass
N_MEASURED = 8  # directions of many coordinates, in which the curvature is measured
Here = tuple[tuple[Sites, ...], np.ndarray]  # sites and gradient at some coordinates


def climb(
    model: Hypermodel, start: np.ndarray | None = None, max_iter: int = 200, tol: float = 1e-5
) -> tuple[np.ndarray, tuple[Sites, ...] | None, Any]:
    """Climb to the mode by L-BFGS; return coordinates, sites near there, and what SciPy's `minimize` does.

    It ends where a step gains at most `tol` of the height. With a `remainder`, where heights are in proportion to the
    number of samples and differences that matter are not, that is of all that was gained, and it begins anew until
    nothing is.
    """
    at = np.full(model.n_coordinates, START) if start is None else start
    found = _ascend(model, at, max_iter, tol)
    for _ in range(MOST_ASCENTS if model.remainder is not None else 0):
        if -found[2].fun < LEAST_GAIN or not found[2].success:
            break
        before, found = found[2], _ascend(model, found[0], max_iter, tol)
        found[2].nfev += before.nfev
    return found


def _ascend(
    model: Hypermodel, start: np.ndarray, max_iter: int, tol: float
) -> tuple[np.ndarray, tuple[Sites, ...] | None, Any]:
    """Run L-BFGS once; with a `remainder` its function is minus what was gained."""
    of_model = Slopes(model, None)
    below: list[float] = [] if model.remainder is not None else [0.0]

    def negative(coordinates: np.ndarray) -> tuple[float, np.ndarray]:
        (height,), (slope,) = of_model.at(coordinates[None])
        if not np.isfinite(height):
            return np.inf, slope
        if not below:
            below.append(height)
        return below[0] - height, -slope

    found = optimize.minimize(
        negative, start, jac=True, method="L-BFGS-B", options={"maxiter": max_iter, "ftol": tol}
    )
    return found.x, of_model.sites, found


def find_mode(model: Hypermodel, start: np.ndarray | None = None, tol: float = 1e-5) -> Mode:
    """Climb to the mode by L-BFGS, and measure the curvature there by differences of gradients.

    Of more than 200 coordinates the mean of independent normal densities takes the place of the mode, since most of
    the mass is there. The curvature of kernel weights is the expected one, in the directions in which there is most
    of it. It is that of normal scores: in a few of these directions, and in that of the mean itself, it is measured.
    """
    ways = [climb(model, at, tol=tol) for at in _starts(model, start)]
    _, sites, found = min(ways, key=lambda way: way[2].fun)
    at, n_climbed = found.x, sum(way[2].nfev for way in ways)
    size, are_many = len(at), len(at) > MANY
    if are_many:
        of_model = Slopes(model, sites)
        at, _ = climb_bound(of_model, at, np.ones(size), np.random.default_rng(0), FEW_STEPS)
        sites, n_climbed = of_model.sites, n_climbed + of_model.n_evaluations
    point, _ = evaluate_height(model, at, sites)
    converged = bool(found.success) and point.converged
    here = point.sites, evaluate_slope(model, at, point.sites, tol=ROUGH)[1]
    if are_many:
        posteriors = [one.posterior for one in evaluate(model, at, point.sites, tol=CLOSE)[1]]
        first = model.kernel_prior.n_coordinates(model.covariance.stack.n_kernels)
        factors = expected_factors(
            model.covariance, model.weights(at), model.kernel_prior, at[:first], posteriors
        )
        factors *= np.sqrt(model.power)
        rest, more = _curvature(model, at, here, np.eye(size)[first:])
        cov, measured = _measured(model, at, here, spread_of(factors, rest.T, LEAST_CURVATURE))
        more += measured
    else:
        curvature, more = _curvature(model, at, here, np.eye(size))
        values, vectors = np.linalg.eigh(0.5 * (curvature + curvature.T))
        cov = (vectors / np.maximum(values, LEAST_CURVATURE)) @ vectors.T
    return Mode(at, cov, point, n_climbed + 2 + more, converged)


def _starts(model: Hypermodel, start: np.ndarray | None) -> list[Any]:
    """Return where ways to the mode begin: functions that vary fast may be noise to kernels that are wide."""
    prior: Any = model.weight_prior
    n_widths = prior.width_prior.n_coordinates if model.covariance.stack.learned else 0
    if start is not None or not n_widths:
        return [start]
    narrow = np.full(model.n_coordinates, START)
    narrow[model.n_weights - n_widths : model.n_weights] = NARROW
    return [None, narrow]


def _measured(model: Hypermodel, at: np.ndarray, here: Here, expected: Spread) -> tuple[Spread, int]:
    """Measure the curvature where most of it is expected, and in the direction of the mode, which is the evidence's.

    There draws depart from a normal density most: the evidence rises in this direction at the mode, and less beyond.
    Returns how many evaluations that took, too.
    """
    basis, variances = expected
    order = np.argsort(-np.abs(1.0 / variances - 1.0))
    chosen, others = order[:N_MEASURED], order[N_MEASURED:]
    along = at - basis @ (at @ basis)
    length = np.linalg.norm(along)
    directions = basis[:, chosen]
    if length > LEAST_LENGTH:
        directions = np.column_stack([directions, along / length])
    found, n_evaluations = _curvature(model, at, here, np.ascontiguousarray(directions.T))
    square = found @ directions
    values, vectors = np.linalg.eigh(0.5 * (square + square.T))
    return Spread(
        np.column_stack([basis[:, others], directions @ vectors]),
        np.concatenate([variances[others], 1.0 / np.maximum(values, LEAST_CURVATURE)]),
    ), n_evaluations


def _curvature(
    model: Hypermodel, at: np.ndarray, here: Here, directions: np.ndarray
) -> tuple[np.ndarray, int]:
    """Measure the curvature times some directions by differences of gradients, (n_directions, n_coordinates).

    Returns how many evaluations that took, too.
    """
    steps, n_evaluations, curvature = np.full(len(directions), STEP), 0, np.zeros((len(directions), len(at)))
    wanted, (sites, slope) = np.arange(len(directions)), here
    while len(wanted):
        for j in wanted:
            there = evaluate_slope(model, at + steps[j] * directions[j], sites, tol=ROUGH)[1]
            curvature[j] = (slope - there) / steps[j]
        n_evaluations += len(wanted)
        own = np.vecdot(curvature, directions)
        sds = 1.0 / np.sqrt(np.maximum(own, LEAST_CURVATURE))
        wanted = np.flatnonzero(sds * FARTHEST < steps)  # a quadratic that far is none
        steps[wanted] = sds[wanted]
    return curvature, n_evaluations


def with_kernels_to_choose(model: Hypermodel) -> Hypermodel:
    """Return a model with a prior that has no sets of kernels where all of them are constant, and none is worth one.

    Parameters
    ----------
    model : Hypermodel
    """
    has_sets = isinstance(model.kernel_prior, SpikeSlabOfKernels)
    if not has_sets or np.isfinite(model.covariance.units).any():
        return model
    return model.with_kernel_prior(HalfT())


def check_many(model: Hypermodel, options: Marginal) -> None:
    """Raise for what cannot be had of thousands of kernels.

    Raises
    ------
    ValueError
        For chains, whose steps take a curvature of all pairs of weights.
    """
    n_kernels, has_sets = model.covariance.stack.n_kernels, isinstance(model.kernel_prior, SpikeSlabOfKernels)
    if options.sampler == "nuts" and model.n_coordinates > MOST_OF_CHAINS and not has_sets:
        raise ValueError(
            f'`sampler` of `inference` must be "importance" with more than {MOST_OF_CHAINS} hyperparameters; got '
            f'"nuts", whose steps need the curvature of all pairs of {n_kernels} weights.'
        )


def draw_hyperparameters(
    model: Hypermodel,
    options: Marginal,
    rng: np.random.Generator,
    show_progress: bool,
    start: np.ndarray | None = None,
) -> tuple[Draws, int]:
    """Draw hyperparameters, and return how many evaluations there were before those that are drawn.

    Parameters
    ----------
    model : Hypermodel
    options : Marginal
        A spike-and-slab prior has Markov chains of its own, whatever the sampler.
    rng : numpy.random.Generator
    show_progress : bool
        Whether to show a progress bar on a terminal.
    start : ndarray of shape (n_coordinates,), optional
        Where the way to the mode begins.
    """
    n_points = options.most_points
    counts = n_points, options.n_chains, options.n_warmup
    if isinstance(model.kernel_prior, SpikeSlabOfKernels):
        with step_progress(show_progress, "drawing sets of kernels", most_sweeps(*counts), "sweep") as report:
            return draw_selections(model, *counts, rng, report), 0
    mode = find_mode(model, start)
    if options.sampler == "nuts":
        from bayesmkl.gp.chains import draw_chains

        return draw_chains(model, mode, *counts, rng), mode.n_evaluations
    if model.covariance.stack.learned and MANY_WIDTHS <= model.n_coordinates <= MANY:
        mode = gather(model, mode, rng)
    enough = options.share_mcse if options.n_points is None else 0.0
    with step_progress(show_progress, "drawing kernel weights", 2 * n_points, "point") as report:
        draws = draw_importance(model, mode, n_points, rng, report, enough)
        n_evaluations, missed = mode.n_evaluations, not draws.outcome.converged
        if missed and not isinstance(mode.cov, Spread):  # there is more near the heaviest draw
            at = int(np.argmax(draws.weights))
            heaviest = mode._replace(coordinates=draws.coordinates[at], point=draws.points[at])
            mode = gather(model, heaviest, rng)
            others = draw_importance(model, mode, n_points, rng, report, enough)
            if others.outcome.converged or others.pareto_k < draws.pareto_k:
                draws, n_evaluations = others, mode.n_evaluations + len(draws.points)
    return draws, n_evaluations
