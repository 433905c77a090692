r"""Normal sites of many samples through landmarks: variational inference under other likelihoods than the normal one.

The variational posterior is the prior times a normal site for every sample (Adam, Chang, Khan and Solin 2021, Dual
parameterization of sparse variational Gaussian processes), and the evidence has the lower bound

.. math:: \log Z(\lambda, \nu; \eta) + \sum_i E_q[\log p(y_i \mid f_i) - \log t_i(f_i)], \qquad
   t_i(f) = N(\nu_i / \lambda_i \mid f, 1 / \lambda_i) .

`Z` is the collapsed bound of the sites as observations, `bayesmkl.gp.landmarks`. The bound is at its maximum
over `q` where

.. math:: \lambda_i = -E_q[\partial^2 \log p(y_i \mid f_i)], \qquad
   \nu_i = E_q[\partial \log p(y_i \mid f_i)] + \lambda_i E_q[f_i] ,

to which natural-gradient steps of size one lead. Each pass over the samples takes one, and sums what the sites are to
the features; with these sums hyperparameters climb :math:`\log Z` and their prior at no further cost. Expectations of
the densities less the sites have no slope by `q` at the maximum, so that nothing is missing in the gradient, and the
posterior of the hyperparameters is that with the sites held. First rounds are over some samples only.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg.blas import strmm

from bayesmkl._numerics.linalg import spd_inverse_root
from bayesmkl.gp.conditioning import Sites
from bayesmkl.gp.hyperposterior import Hypermodel, evaluate_height
from bayesmkl.gp.landmarks import (
    LOG_2PI,
    Features,
    LandmarkKernels,
    PseudoSamples,
    Remainder,
    Statistics,
    Sums,
    between_weights,
    feature_blocks,
    pseudo_samples,
)
from bayesmkl.gp.modes import climb
from bayesmkl.outcomes.base import Likelihood

FIRST_SAMPLES, SAMPLES_PER_FEATURE = 4000, 4  # of the first round
GROWTH = 10  # of samples from one round to the next
MOST_PASSES = 30
MOST_STEPS = 25  # of hyperparameters between two passes
TOL = 1e-2  # largest root mean square change of a site, in standard deviations of its score
NARROW, NODES_OF_NARROW, NODES = (
    0.5,
    8,
    20,
)  # of a normal score: standard deviation, and nodes below it and above
LEAST_PRECISION = 1e-10
SLACK = 0.1  # nats by which the bound may fall without shorter steps
SHORTEST = 0.125
TINY = float(np.finfo(float).tiny)


class Predictor(NamedTuple):
    """Moments of scores from features, given hyperparameters and sites.

    Attributes
    ----------
    scales : ndarray of shape (n_features,)
        Prior variances of weights of features.
    of_kernels : ndarray of shape (n_kernels,)
        Factors of kernels.
    mean : ndarray of shape (n_features,)
    root : ndarray of shape (n_features, n_features)
        Upper triangular, in single precision and Fortran order: features times it, squared and summed, is the
        posterior variance, of which no digits cancel.
    """

    scales: np.ndarray
    of_kernels: np.ndarray
    mean: np.ndarray
    root: np.ndarray

    def moments(self, block: np.ndarray, diagonal: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return moments of the scores of a block of rows.

        Parameters
        ----------
        block : ndarray of shape (n_rows, n_features)
        diagonal : ndarray of shape (n_kernels, n_rows)

        Returns
        -------
        mean : ndarray of shape (n_rows,)
        variance : ndarray of shape (n_rows,)
            Of what landmarks know.
        rest : ndarray of shape (n_rows,)
            Variance that they do not explain.
        """
        left = strmm(1.0, self.root, block.astype(np.float32).T, trans_a=1, overwrite_b=1).T
        variance = np.einsum("ij,ij->i", left, left).astype(float)
        rest = self.of_kernels @ diagonal + self.scales[0] - block**2 @ self.scales
        return block @ self.mean, np.maximum(variance, TINY), np.maximum(rest, 0.0)


class FoundSites(NamedTuple):
    """Sites, and what they make of the samples.

    Attributes
    ----------
    sites : Sites
        Of the samples.
    pseudo : PseudoSamples
    targets : ndarray of shape (1, n_pseudo)
    remainder : Remainder
    converged : bool
        Whether they have settled.
    coordinates : ndarray of shape (n_coordinates,)
        Hyperparameters at their mode.
    """

    sites: Sites
    pseudo: PseudoSamples
    targets: np.ndarray
    remainder: Remainder
    converged: bool
    coordinates: np.ndarray


def predictor_of(pseudo: PseudoSamples, intercept_std: float, weights: np.ndarray, sites: Sites) -> Predictor:
    """Condition weights of features on the sites of pseudo-samples.

    Parameters
    ----------
    pseudo : PseudoSamples
    intercept_std : float
        Of the prior.
    weights : ndarray of shape (n_kernels,)
    sites : Sites
        Of the pseudo-samples.
    """
    scales = pseudo.scales(weights, intercept_std)
    loadings = pseudo.loadings * np.sqrt(scales)
    told = (loadings.T * sites.precision) @ loadings
    np.einsum("ii->i", told)[...] += 1.0
    inverse_root, _, pull = spd_inverse_root(told, loadings.T @ sites.linear, overwrite=True)
    root = np.sqrt(scales)[:, None] * inverse_root
    return Predictor(
        scales, weights**2 / pseudo.units, np.sqrt(scales) * pull, np.asfortranarray(root, dtype=np.float32)
    )


def find_sites(
    bank: LandmarkKernels,
    features: Features,
    X: Any,
    y: np.ndarray,
    likelihood: Likelihood,
    model_of: Callable[[PseudoSamples, np.ndarray, Remainder], Hypermodel],
    rng: np.random.Generator,
) -> FoundSites:
    """Find sites and the mode of the hyperparameters, over some samples, over more of them, and over all.

    Parameters
    ----------
    bank : LandmarkKernels
    features : Features
        Of the bank.
    X : ndarray of shape (n_samples, n_columns)
        Validated samples.
    y : ndarray of shape (n_samples,)
    likelihood : Likelihood
        Without parameters.
    model_of : callable
        Makes a model of pseudo-samples.
    rng : numpy.random.Generator
        Of the samples of the first rounds.
    """
    size = max(FIRST_SAMPLES, SAMPLES_PER_FEATURE * features.size)
    problem, start = _Problem(bank, features, X, y, likelihood, model_of), _State(None, None)
    while size < len(y) / 2:
        some = np.sort(rng.choice(len(y), size, replace=False))
        _, start = _climb(problem._replace(X=X[some], y=y[some]), start)
        size *= GROWTH
    return _climb(problem, start)[0]


class _Problem(NamedTuple):
    """What `find_sites` is given, of the samples of a round."""

    bank: LandmarkKernels
    features: Features
    X: Any
    y: np.ndarray
    likelihood: Likelihood
    model_of: Callable[[PseudoSamples, np.ndarray, Remainder], Hypermodel]


class _State(NamedTuple):
    coordinates: np.ndarray | None
    predictor: Predictor | None


def _climb(problem: _Problem, state: _State) -> tuple[FoundSites, _State]:
    """Alternate between sites and hyperparameters until neither moves."""
    found, features = _pass(problem, state.predictor, None, 1.0), problem.features
    equal, _, of_equal = pseudo_samples(features, found.equal)  # type: ignore[arg-type]
    size, bound = 1.0, -np.inf
    for n_passes in range(1, MOST_PASSES + 1):
        if n_passes > 1:
            found = _pass(problem, state.predictor, found.sites, size)
        sites = found.sites
        pseudo, targets, remainder = pseudo_samples(features, found.weighted, equal.units)
        constant = found.gain + 0.5 * float(np.log(sites.precision).sum())
        remainder = remainder._replace(unexplained=of_equal.unexplained, constant=constant)
        model = problem.model_of(pseudo, targets, remainder)
        coordinates = climb(model, state.coordinates, MOST_STEPS)[0]
        point, _ = evaluate_height(model, coordinates, None)
        if point.log_density < bound - SLACK:
            size = max(0.5 * size, SHORTEST)
        bound = point.log_density
        weights = model.values(coordinates)[0]
        predictor = predictor_of(pseudo, model.covariance.intercept_std, weights, point.sites[0])
        converged = found.change <= TOL
        state = _State(coordinates, predictor)
        if converged:
            break
    remainder = remainder._replace(turn=between_weights(equal, pseudo))
    return FoundSites(sites, pseudo, targets, remainder, converged, coordinates), state


class _Pass(NamedTuple):
    sites: Sites
    gain: float
    change: float
    weighted: Statistics
    equal: Statistics | None


def _pass(problem: _Problem, predictor: Predictor | None, old: Sites | None, size: float) -> _Pass:
    """Step to new sites, and sum what they are to the features."""
    features, y = problem.features, problem.y
    precision, linear = np.empty(len(y)), np.empty(len(y))
    weighted, equal = Sums(features, 1), Sums(features, 1)
    gain = moved = 0.0
    for rows, block, diagonal in feature_blocks(problem.bank, features, problem.X):
        mean, variance = np.zeros(len(block)), np.ones(len(block))
        if predictor is not None:
            mean, own, rest = predictor.moments(block, diagonal)
            variance = own + rest
        log_density, first, second = expected(problem.likelihood, y[rows], mean, variance)
        new = np.maximum(-second, LEAST_PRECISION)
        at = first + new * mean
        if old is not None:
            steps = new - old.precision[rows], at - old.linear[rows]
            new, at = old.precision[rows] + size * steps[0], old.linear[rows] + size * steps[1]
            sd = np.sqrt(variance)
            moved += float(((sd * (steps[1] - mean * steps[0])) ** 2 + (variance * steps[0]) ** 2).sum())
        precision[rows], linear[rows] = new, at
        log_site = 0.5 * (np.log(new) - LOG_2PI - new * ((mean - at / new) ** 2 + variance))
        gain += float((log_density - log_site).sum())
        weighted.add(block, diagonal, at[None] / new, new)
        if old is None:
            equal.add(block, diagonal, np.zeros((1, len(block))))
    change = np.inf if old is None else float(np.sqrt(moved / len(y)))
    return _Pass(
        Sites(precision, linear),
        gain,
        change,
        weighted.statistics(),
        equal.statistics() if old is None else None,
    )


def expected(
    likelihood: Likelihood, y: np.ndarray, mean: np.ndarray, variance: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return expected log densities under normal scores, and those of their two derivatives, each (n_rows,).

    Parameters
    ----------
    likelihood : Likelihood
        Without parameters.
    y : ndarray of shape (n_rows,)
    mean, variance : ndarray of shape (n_rows,)
        Of the scores.
    """
    sd, nothing = np.sqrt(variance), np.zeros(0)
    found = np.zeros((3, len(y)))
    for n_nodes, rows in ((NODES_OF_NARROW, sd < NARROW), (NODES, sd >= NARROW)):
        nodes, weights = np.polynomial.hermite_e.hermegauss(n_nodes)
        own, total = y[rows], np.zeros((3, np.count_nonzero(rows)))
        for node, weight in zip(nodes, weights / weights.sum(), strict=True):
            score = mean[rows] + node * sd[rows]
            slopes = likelihood.derivatives(own, score, nothing, 2)
            total[0] += weight * likelihood.log_density(own, score, nothing)
            total[1] += weight * slopes.first
            total[2] += weight * slopes.second
        found[:, rows] = total
    return found[0], found[1], found[2]
