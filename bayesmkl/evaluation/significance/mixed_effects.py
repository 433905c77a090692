r"""Difference between two models over several data sets, each with splits that overlap: a mixed-effects model.

With the difference :math:`d_{ij}` of the scores in split j of data set i,

.. math:: d_{ij} = \delta_i + \varepsilon_{ij}, \qquad \delta_i \sim N(\mu, \tau^2), \qquad
          \varepsilon_i \sim N(0, \sigma_i^2 [(1 - \rho_i) I + \rho_i 1 1']), \qquad
          \rho_i = \frac{n_\mathrm{test}}{n_\mathrm{test} + n_\mathrm{train}} ,

and :math:`p(\mu, \tau, \sigma_1, \ldots) \propto \prod_i \sigma_i^{-1}`, what a data set says of its own
:math:`\delta_i` is the Student density of the Bayesian correlated t-test, a mixture of normal ones over the precision
:math:`\lambda`:

.. math:: p(\bar d_i \mid \mu, \tau) = \int N\bigl(\bar d_i; \mu, \tau^2 + v_i / \lambda\bigr)\,
          \mathrm{Ga}\bigl(\lambda; \tfrac{n_i - 1}{2}, \tfrac{n_i - 1}{2}\bigr) d\lambda, \qquad
          v_i = \Bigl(\tfrac{1}{n_i} + \tfrac{\rho_i}{1 - \rho_i}\Bigr) s_i^2 .

The integral over :math:`\lambda` is a Gauss-Laguerre rule, and the posterior of the two numbers :math:`\mu, \tau` a
grid: nothing is random.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import logsumexp, ndtr, roots_genlaguerre

from bayesmkl._utils.validation import check_number
from bayesmkl.evaluation.significance.pairs import check_confidence, paired_differences

FEWEST = 3  # data sets: with two the posterior of tau is no distribution
N_NODES = 20  # of the rule for the precisions
N_MEANS, FARTHEST = 121, 12.0  # points of mu for every tau, and how many standard errors they reach
N_SPREADS = 80  # points of tau


class MixedEffects(NamedTuple):
    r"""Posterior of the difference between two models on data sets like those compared.

    Parameters
    ----------
    n : int
        Data sets.
    difference : float
        Posterior median of the mean over data sets, :math:`\mu` of first - second, in the unit of the scores.
    lower, upper : float
        Central credible interval of :math:`\mu`.
    between : float
        Posterior median of :math:`\tau`, the standard deviation of the difference between data sets.
    p_first, p_equivalent, p_second : float
        Of a further data set: probability that the first score is larger there by more than the region of
        equivalence, that the difference lies in that region, and that the second score is larger.

    Examples
    --------
    >>> MixedEffects(5, 0.02, 0.01, 0.03, 0.005, 0.95, 0.05, 0.0).between
    0.005
    """

    n: int
    difference: float
    lower: float
    upper: float
    between: float
    p_first: float
    p_equivalent: float
    p_second: float


class _Effects(NamedTuple):
    """What the splits of data sets say: means of differences, their squared scales, and degrees of freedom."""

    mean: np.ndarray
    scale2: np.ndarray
    df: np.ndarray


def bayesian_mixed_effects(
    first: ArrayLike,
    second: ArrayLike,
    datasets: ArrayLike,
    test_train_ratio: float | Mapping[Hashable, float],
    rope: float = 0.01,
    confidence: float = 0.95,
) -> MixedEffects:
    r"""Compare two models over data sets and splits at once.

    Splits of a data set overlap, which makes them say less than their number, and data sets differ in what they say.
    A t-test over all rows takes neither into account; a test of the means of data sets takes a mean of two splits for
    as good as one of a hundred.

    Parameters
    ----------
    first, second : array-like of shape (n_rows,)
        Scores of two models on the same splits of all data sets, all finite.
    datasets : array-like of shape (n_rows,)
        Data set of every row; at least three data sets, and two splits of each.
    test_train_ratio : float or mapping of data set to float
        Size of a test set relative to its training set; 1/9 in tenfold cross-validation.
    rope : float, default=0.01
        Half width of the region of practical equivalence, in the unit of the scores.
    confidence : float, default=0.95
        Probability content of the credible interval.

    Returns
    -------
    MixedEffects
        ``n`` data sets, ``difference``, ``lower``, ``upper``, ``between``, and the probabilities of a further data
        set, ``p_first``, ``p_equivalent`` and ``p_second``.

    Raises
    ------
    ValueError
        If the scores are not finite, or not of one length; for fewer than three data sets, or one with a single
        split; if a data set has no `test_train_ratio`, or none that is positive; if `rope` is negative, or
        `confidence` not strictly between 0 and 1.
    TypeError
        If the scores are sparse, or hold other objects than numbers.

    Notes
    -----
    The model of [1]_ with normal effects of data sets in place of Student ones, and flat priors of :math:`\mu` and
    :math:`\tau`; the noise of each data set is integrated out, as in
    :func:`~bayesmkl.evaluation.significance.bayesian_correlated_t`.

    References
    ----------
    .. [1] G. Corani, A. Benavoli, J. Demšar, F. Mangili and M. Zaffalon, "Statistical comparison of classifiers
       through Bayesian hierarchical modelling", Machine Learning 106, 2017, eq. 5 to 7.

    Examples
    --------
    >>> from bayesmkl.evaluation.significance import bayesian_mixed_effects
    >>> first = [0.81, 0.84, 0.79, 0.92, 0.95, 0.90, 0.71, 0.74, 0.70, 0.88, 0.87, 0.90]
    >>> second = [0.77, 0.80, 0.76, 0.90, 0.92, 0.86, 0.68, 0.69, 0.66, 0.84, 0.84, 0.85]
    >>> result = bayesian_mixed_effects(first, second, [*"aaabbbcccddd"], test_train_ratio=1 / 2)
    >>> result.n, round(result.difference, 3), bool(result.lower > 0.0), result.p_first > 0.9
    (4, 0.037, True, True)
    """
    confidence = check_confidence(confidence)
    rope = check_number("rope", rope, low=0.0, inclusive=True)
    effects = _effects(first, second, datasets, test_train_ratio)
    mu, tau, weight = _posterior(effects)
    tail = 0.5 - confidence / 2.0
    difference, lower, upper = _quantiles(mu, weight, (0.5, tail, 1.0 - tail))
    (between,) = _quantiles(tau[:, 0], weight.sum(axis=1), (0.5,))
    above = float((weight * ndtr((mu - rope) / tau)).sum())  # of N(mu, tau^2), a data set more
    below = float((weight * ndtr((-rope - mu) / tau)).sum())
    inside = max(1.0 - above - below, 0.0)
    return MixedEffects(len(effects.mean), difference, lower, upper, between, above, inside, below)


def _effects(first: ArrayLike, second: ArrayLike, datasets: ArrayLike, ratios: object) -> _Effects:
    """Return what the splits of every data set say."""
    differences = paired_differences(first, second)
    names = np.asarray(datasets, dtype=object)
    if names.shape != differences.values.shape:
        raise ValueError(
            f"`datasets` must name the data set of each of the {len(differences.values)} scores; got shape "
            f"{names.shape}."
        )
    found = []
    different = list(dict.fromkeys(names))
    if len(different) < FEWEST:
        raise ValueError(
            f"`datasets`: effects of data sets need at least {FEWEST} of them; got {len(different)}. Use "
            "bayesian_correlated_t on each."
        )
    for name in different:
        own = differences._replace(values=differences.values[names == name])
        n = len(own.values)
        if n < 2:
            raise ValueError(
                f"`datasets`: {name!r} has one split; at least two are needed to say how they vary."
            )
        ratio = ratios.get(name) if isinstance(ratios, Mapping) else ratios
        if ratio is None:
            raise ValueError(f"`test_train_ratio` is missing for data set {name!r}.")
        factor = 1.0 / n + check_number("test_train_ratio", ratio, low=0.0)
        found.append((own.mean(), factor * own.variance(), n - 1.0))
    return _Effects(*np.array(found).T)


def _posterior(effects: _Effects) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    r"""Return :math:`\mu` on a grid of (spreads, means), :math:`\tau` as a column of it, and probabilities."""
    usual = np.sqrt(np.median(effects.scale2) + effects.mean.var())
    usual = usual if usual > 0.0 else max(float(np.abs(effects.mean).max()), 1.0) * 1e-9  # nothing varies
    share = (np.arange(N_SPREADS) + 0.5) / N_SPREADS
    tau = usual * share / (1.0 - share)
    jacobian = usual / (1.0 - share) ** 2
    nodes, of_nodes = zip(*(_precisions(df) for df in effects.df), strict=True)
    noise = effects.scale2[:, None] / np.array(nodes)  # of data sets, nodes
    precision = 1.0 / (effects.scale2 + tau[:, None] ** 2)  # of spreads, data sets
    center = (precision @ effects.mean) / precision.sum(axis=1)
    width = 1.0 / np.sqrt(precision.sum(axis=1)) + usual / len(effects.mean)
    steps = np.linspace(-FARTHEST, FARTHEST, N_MEANS)
    mu = center[:, None] + width[:, None] * steps
    log_p = np.log(jacobian * width)[:, None] + np.zeros_like(mu)
    for mean, own, weights in zip(effects.mean, noise, of_nodes, strict=True):
        variance = tau[:, None, None] ** 2 + own
        exponent = -0.5 * ((mean - mu)[:, :, None] ** 2 / variance + np.log(variance))
        log_p += logsumexp(exponent, axis=2, b=weights)
    probability = np.exp(log_p - log_p.max())
    return mu, tau[:, None], probability / probability.sum()


def _precisions(df: float) -> tuple[np.ndarray, np.ndarray]:
    r"""Return nodes and weights of :math:`\mathrm{Ga}(\lambda; \nu / 2, \nu / 2)`."""
    nodes, weights = roots_genlaguerre(N_NODES, 0.5 * df - 1.0)
    kept = weights > 0.0  # the last ones may underflow
    nodes, weights = np.where(kept, nodes, 1.0), np.where(kept, weights, 0.0)
    return nodes / (0.5 * df), weights / weights.sum()


def _quantiles(values: np.ndarray, weights: np.ndarray, levels: tuple[float, ...]) -> tuple[float, ...]:
    """Return weighted quantiles, between the points of the grid."""
    order = np.argsort(values, axis=None)
    below = weights.ravel()[order].cumsum() - 0.5 * weights.ravel()[order]
    return tuple(float(np.interp(level, below, values.ravel()[order])) for level in levels)
