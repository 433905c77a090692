"""Draws of hyperparameters by whichever way a prior and the options ask for."""

from __future__ import annotations

import numpy as np

from bayesmkl._utils.options import Marginal
from bayesmkl._utils.progress import step_progress
from bayesmkl.gp.covariances import Additive
from bayesmkl.gp.hyperposterior import MOST_OF_CHAINS, Draws, Hypermodel, draw_importance
from bayesmkl.gp.hyperpriors import HalfT
from bayesmkl.gp.modes import find_mode
from bayesmkl.gp.selection import draw_selections
from bayesmkl.gp.spike_slab import SpikeSlabOfKernels


def with_kernels_to_choose(model: Hypermodel) -> Hypermodel:
    """Return a model with a prior that has no sets of kernels where all of them are constant, and none is worth one.

    Parameters
    ----------
    model : Hypermodel
    """
    prior, covariance = model.kernel_prior, model.covariance
    if not (isinstance(prior, SpikeSlabOfKernels) and isinstance(covariance, Additive)):
        return model
    if np.isfinite(covariance.units).any():
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
            f'"nuts", whose steps take the curvature of all pairs of {n_kernels} weights.'
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
    counts = options.n_points, options.n_chains, options.n_warmup
    if isinstance(model.kernel_prior, SpikeSlabOfKernels):
        n_sweeps = options.n_chains * (options.n_warmup + -(-options.n_points // options.n_chains))
        with step_progress(show_progress, "drawing sets of kernels", n_sweeps, "sweep") as report:
            return draw_selections(model, *counts, rng, report), 0
    mode = find_mode(model, start)
    if options.sampler == "nuts":
        from bayesmkl.gp.chains import draw_chains

        return draw_chains(model, mode, *counts, rng), mode.n_evaluations
    with step_progress(show_progress, "drawing kernel weights", 2 * options.n_points, "point") as report:
        return draw_importance(model, mode, options.n_points, rng, report), mode.n_evaluations
