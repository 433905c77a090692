r"""The evidence of a model without some of its kernels, from the posterior of the model with them.

Hyperparameters have coordinates that are independent a priori. Shares are Gamma variables divided by their sum. So a
model without some kernels has the same prior in the coordinates that are left: the shares of the others are
Dirichlet, and the total is as it was. Where :math:`q` is a t density in these coordinates,

.. math:: p(y) = \int p(y \mid u) \, N(u; 0, I) \, du
   \approx \frac1n \sum_i \frac{p(y \mid u_i) \, N(u_i; 0, I)}{q(u_i)} , \qquad u_i \sim q .

It is around the smaller model's mode, to which few steps lead from the posterior mean of the larger one, and has the
covariance of the larger one's posterior; where that is too different, the curvature at the mode is measured. It does
not adapt to its draws: a density that was fitted to few draws is too high at them, so that the evidence would be too
low by some tenths.
"""

from __future__ import annotations

from collections.abc import Hashable

import numpy as np
from scipy import optimize
from scipy.special import logsumexp

from bayesmkl._numerics.psis import smooth_weights
from bayesmkl.gp.conditioning import Sites
from bayesmkl.gp.drawing import find_mode
from bayesmkl.gp.hyperposterior import (
    LARGEST_K,
    LEAST_COV,
    LOOSE,
    Hypermodel,
    Proposal,
    Slopes,
    evaluate_height,
)
from bayesmkl.gp.hyperpriors import SharesOfKernels
from bayesmkl.gp.widths import n_coordinates_of

N_POINTS = 128
HALF_TRUSTED = 3.0  # effective points per coordinate, by which correlations count half
MOST_STEPS, LEAST_GAIN = 12, 1e-4  # to the mode; the gain of a step is relative to the log posterior


def smaller_evidence(
    larger: Hypermodel,
    smaller: Hypermodel,
    kept: np.ndarray,
    coordinates: np.ndarray,
    probability: np.ndarray,
) -> tuple[float, float]:
    r"""Return the log evidence of a model without some kernels, and :math:`\hat k` of the draws that it is made of.

    Parameters
    ----------
    larger, smaller : Hypermodel
    kept : ndarray of int
        Positions of the kernels of the smaller model in the larger one.
    coordinates : ndarray of shape (n_points, n_coordinates)
        Of the posterior of the larger model, and
    probability : ndarray of shape (n_points,)
        how probable these are.
    """
    if np.isfinite(smaller.covariance.units).any():
        of_larger = coordinate_names(larger, np.arange(larger.covariance.stack.n_kernels))
        place = {name: k for k, name in enumerate(of_larger)}
        own = coordinates[:, [place[name] for name in coordinate_names(smaller, kept, larger)]]
        mean, cov = _moments(own, probability)
        at, sites = _climb(smaller, mean, np.linalg.cholesky(cov))
        found = _by_draws(smaller, at, cov, sites)
        if found[1] <= LARGEST_K:
            return found
    else:  # nothing is left but the noise
        at = None
    mode = find_mode(smaller, at)
    return _by_draws(smaller, mode.coordinates, mode.cov, mode.point.sites)


def _by_draws(
    model: Hypermodel, at: np.ndarray, cov: np.ndarray, sites: tuple[Sites, ...] | None
) -> tuple[float, float]:
    r"""Return the log evidence by draws around some coordinates, and their :math:`\hat k`."""
    proposal, rng = Proposal(at, cov), np.random.default_rng(0)
    drawn = proposal.draw(N_POINTS, rng, proposal.sequence(rng))
    log_density = np.full(N_POINTS, -np.inf)
    for i, u in enumerate(drawn):
        try:
            log_density[i] = evaluate_height(model, u, sites, tol=LOOSE)[0].log_density
        except np.linalg.LinAlgError:
            continue
    log_ratios = log_density - 0.5 * len(at) * np.log(2.0 * np.pi) - proposal.log_density(drawn)
    return float(logsumexp(log_ratios) - np.log(N_POINTS)), float(smooth_weights(log_ratios)[1])


def _moments(coordinates: np.ndarray, probability: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return mean and covariance of points, in which correlations count as far as points are enough for them."""
    mean = probability @ coordinates
    around = coordinates - mean
    cov = (around * probability[:, None]).T @ around
    trust = 1.0 / (1.0 + HALF_TRUSTED * len(mean) * (probability**2).sum())
    return mean, trust * cov + np.diag((1.0 - trust) * np.diag(cov) + LEAST_COV)


def _climb(
    model: Hypermodel, start: np.ndarray, root: np.ndarray
) -> tuple[np.ndarray, tuple[Sites, ...] | None]:
    """Take some steps to the mode, in coordinates in which the covariance is one; return sites near there too."""
    of_model = Slopes(model, None)

    def negative(steps: np.ndarray) -> tuple[float, np.ndarray]:
        (height,), (slope,) = of_model.at((start + root @ steps)[None])
        return -height, -(slope @ root)

    options = {"maxiter": MOST_STEPS, "ftol": LEAST_GAIN}
    found = optimize.minimize(negative, np.zeros_like(start), jac=True, method="L-BFGS-B", options=options)
    return start + root @ found.x, of_model.sites


def coordinate_names(
    model: Hypermodel, kernels: np.ndarray, larger: Hypermodel | None = None
) -> list[Hashable]:
    """Return a name for every coordinate, which it has in a larger model too.

    Parameters
    ----------
    model : Hypermodel
    kernels : ndarray of int
        Positions of its kernels in the larger model.
    larger : Hypermodel, optional
        None: the model is the larger one.
    """
    prior, stack = model.kernel_prior, model.covariance.stack
    n_own = prior.n_coordinates(stack.n_kernels)
    names: list[Hashable]
    if isinstance(prior, SharesOfKernels):
        groups = (prior if larger is None else larger.kernel_prior).group[kernels]
        names = ["total", *(("view", v) for v in np.unique(groups))]
        names += [("kernel", m) for m in kernels[prior.has_others]]
    else:
        names = [("common", k) for k in range(n_own - len(kernels))] + [("kernel", m) for m in kernels]
    widths = [
        ("width", kernels[one.kernel], k) for one in stack.learned for k in range(n_coordinates_of(one))
    ]
    of_design = [("design", k) for k in range(model.n_weights - n_own - len(widths))]
    of_noise = [("parameter", k) for k in range(model.n_coordinates - model.n_weights)]
    return [*names, *of_design, *widths, *of_noise]
