r"""Markov chains over which kernels are in a model, under a spike-and-slab prior.

Function values are integrated out, so that kernels enter and leave by the evidence alone (George and McCulloch 1997).
Whether kernel `m` is in, and with which weight, is proposed by a posterior that takes the sites of all else as they
are. With :math:`K_m / c_m = Z Z^\top`, and `R` and :math:`\alpha` those of the scores without it, the evidence at
weight `w` over that without the kernel is

.. math:: |I + w^2 Z^\top R Z|^{-1/2} \exp\!\left( \tfrac{w^2}{2}\,
   \alpha^\top Z (I + w^2 Z^\top R Z)^{-1} Z^\top \alpha \right) ,

exactly for normal noise where `Z` is exact. It takes one product of `R` with a few columns, and no factorization.
Proposals are accepted by the evidence itself, so that every step leaves the posterior as it is.

Kernels of single features have ranks of 15 to 40 whatever the number of samples. Under normal noise of precision
:math:`\tau` samples are read once, then, for :math:`G = U^\top U` and :math:`U^\top y` of the columns `U` of all
kernels, the intercept and covariates. With the scales `S` of the columns that are in, and :math:`A = I + \tau S G S`,

.. math:: \log |C + \tau^{-1} I| = \log |A| - N \log \tau, \qquad
   R = \tau I - \tau^2\, U S A^{-1} S U^\top ,

so that a step takes as long as a factorization of `A`, a hundred rows or so. Sampling then goes on until Monte Carlo
errors of all probabilities of inclusion are small, or chains are as long as they may be. A sweep does three things.

* Kernels are proposed anew: in, with a weight from the quantiles of its prior, or out.
* Kernels that are in are swapped for others, the more alike the more often: sets of features that overlap stand for
  each other.
* The common size of weights, noise and what a design has are moved by elliptical slice sampling (Murray, Adams and
  MacKay 2010), alone and with the weights of all kernels that are in: their coordinates are standard normal under the
  prior, and no gradient is needed. Then the common size is drawn anew given the weights.

Under the prior most groups add nothing, and kernels of the others have a size in common. A group, such as the
kernels of a view, is in the model with probability :math:`\pi`, whose prior is a Beta distribution, so that the
more groups there are the fewer need to be in. Of a group that is in, every kernel is in with probability
:math:`\rho`, and one at random where that gives none. Weights of kernels that are in are

.. math:: w_m = \tau \sqrt{h_m}, \qquad h_m \sim \operatorname{Gamma}(\alpha, \text{rate } \alpha), \qquad
   \tau \text{ half-t} ,

and all others are zero.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg.lapack import dpotrf, dtrtrs
from scipy.special import betainc, betaincinv, gammainc, gammaincc, ndtr, ndtri

from bayesmkl._numerics.slice_sampling import elliptical_slice, slice_step
from bayesmkl._utils.docstrings import fill_docs
from bayesmkl.gp.covariances import Additive
from bayesmkl.gp.evidence import Evidence, Height, exact_evidence
from bayesmkl.gp.hyperposterior import LOOSE, Draws, Hypermodel, Point, evaluate_height
from bayesmkl.gp.hyperpriors import (
    DOCS,
    FARTHEST,
    Mapped,
    gamma_quantiles,
    gamma_values,
    half_t_quantiles,
    half_t_values,
)
from bayesmkl.kernels.stacks.base import Stack
from bayesmkl.kernels.stacks.factored import Factorizer
from bayesmkl.outcomes import Gaussian

NOT_SURE = 1e-12  # a probability of inclusion is as far from zero and one


@fill_docs(DOCS)
class SpikeSlabWeights(NamedTuple):
    r"""Spike-and-slab prior: kernels are in the model or not, and included kernels share the scale of their weights.

    Parameters
    ----------
    concentration : float, default=4.0
        :math:`\alpha`: the larger, the more similar are the weights of included kernels, and the fewer kernels that
        matter little are included.
    %(df)s
    scale : float, default=1.0
        Scale of the half-t prior of :math:`\tau`, in units of the score.
    inclusion : tuple of a float and a float or None, default=(1.0, None)
        Shapes of the Beta prior of :math:`\pi`, the probability that a group of kernels is included. Its mean is
        ``inclusion[0] / sum(inclusion)``. None stands for the number of groups, so that about one group is expected
        to be included. (1, 1) is uniform over the fraction of groups that matter.
    within : float, default=0.5
        :math:`\rho`, the probability that a kernel of an included group is included.
    groups : {"view", "kernel"}, sequence of str or dict, default="view"
        Kernels that are included or excluded together. "view": the kernels of each view, or each precomputed kernel.
        "kernel": each kernel alone. A sequence holds one name per kernel; kernels with the same name are a group. A
        dict maps names of groups to their kernels or views, as in ``{"imaging": ["MRI", "PET"]}``; each kernel that
        it does not list is a group of its own.

    See Also
    --------
    bayesmkl.posterior.inclusion_table : Posterior inclusion probabilities, and lists with few false inclusions.

    References
    ----------
    J. G. Scott and J. O. Berger (2010). Bayes and empirical-Bayes multiplicity adjustment in the variable-selection
    problem. Annals of Statistics 38, 2587-2619.

    I. Castillo, J. Schmidt-Hieber and A. van der Vaart (2015). Bayesian linear regression with sparse priors.
    Annals of Statistics 43, 1986-2018.

    Examples
    --------
    >>> from bayesmkl import GPMKLClassifier
    >>> from bayesmkl.gp import SpikeSlabWeights
    >>> GPMKLClassifier(kernel_prior=SpikeSlabWeights(groups="kernel")).kernel_prior.within
    0.5
    """

    concentration: float = 4.0
    df: float = 4.0
    scale: float = 1.0
    inclusion: tuple[float, float | None] = (1.0, None)
    within: float = 0.5
    groups: str | Sequence[str] | Mapping[str, Sequence[str]] = "view"


class Chosen(NamedTuple):
    """The prior of the weights of kernels that are in, where those of the others are zero.

    Attributes
    ----------
    prior : SpikeSlabWeights
    chosen : int ndarray
        Positions of the kernels that are in.
    n_kernels : int
        How many there are.
    """

    prior: SpikeSlabWeights
    chosen: np.ndarray
    n_kernels: int

    def n_coordinates(self, n_kernels: int) -> int:
        """Return one coordinate of the common size, and one for each kernel that is in."""
        return 1 + len(self.chosen)

    def weights(self, coordinates: np.ndarray) -> Mapped:
        """Return the weights of all kernels."""
        alpha = self.prior.concentration
        (size,) = half_t_values(coordinates[:1], self.prior.df, self.prior.scale)
        root = np.sqrt(gamma_values(coordinates[1:], alpha) / alpha)
        values = np.zeros(self.n_kernels)
        values[self.chosen] = size * root

        def pull(gradient: np.ndarray) -> np.ndarray:
            own = gradient[self.chosen]
            _, (slope,) = half_t_quantiles(coordinates[:1], self.prior.df, self.prior.scale)
            parts, part_slopes = gamma_quantiles(coordinates[1:], alpha)
            return np.append(slope * (own @ root), 0.5 * own * size * root / parts * part_slopes)

        return Mapped(values, pull)


class SpikeSlabOfKernels(NamedTuple):
    r"""The prior of given kernels, a `bayesmkl.gp.hyperpriors.WeightPrior`.

    Its coordinates are one for the common size and one for the part of each kernel; one for :math:`\pi`; and one for
    each group and each kernel, which are in above a threshold. Of a group that is in, the kernel with the largest
    coordinate is in where none is above the threshold.

    Attributes
    ----------
    prior : SpikeSlabWeights
    group : int ndarray of shape (n_kernels,)
        Group of every kernel, numbered from zero on.
    """

    prior: SpikeSlabWeights
    group: np.ndarray

    @property
    def n_groups(self) -> int:
        """Number of groups."""
        return int(self.group.max()) + 1

    @property
    def inclusion(self) -> tuple[float, float]:
        """Shapes of the Beta prior."""
        first, second = self.prior.inclusion
        return first, float(self.n_groups) if second is None else second

    def n_coordinates(self, n_kernels: int) -> int:
        """Return the number of coordinates."""
        return 2 * n_kernels + 2 + self.n_groups

    def weights(self, coordinates: np.ndarray) -> Mapped:
        """Return the kernel weights of some coordinates; derivatives by what chooses kernels are zero."""
        chosen = np.flatnonzero(self.included(coordinates))
        own = np.append(0, 1 + chosen)
        mapped = Chosen(self.prior, chosen, len(self.group)).weights(coordinates[own])

        def pull(gradient: np.ndarray) -> np.ndarray:
            found = np.zeros(len(coordinates))
            found[own] = mapped.pull(gradient)
            return found

        return Mapped(mapped.values, pull)

    def included(self, coordinates: np.ndarray) -> np.ndarray:
        """Return which kernels are in at some coordinates, (n_kernels,)."""
        _, (of_probability,), of_groups, of_kernels = np.split(
            coordinates, np.cumsum([1 + len(self.group), 1, self.n_groups])
        )
        uniform = ndtr(np.clip(of_probability, -FARTHEST, FARTHEST))
        probability = betaincinv(*self.inclusion, uniform)
        largest = np.full(self.n_groups, -np.inf)
        np.maximum.at(largest, self.group, of_kernels)
        within = (of_kernels > -ndtri(self.prior.within)) | (of_kernels == largest[self.group])
        return within & (of_groups > -ndtri(probability))[self.group]

    def coordinates_of(
        self, included: np.ndarray, of_weights: np.ndarray, rng: np.random.Generator
    ) -> np.ndarray:
        """Return coordinates at which some kernels are in: those of the weights, and others drawn from their prior.

        Parameters
        ----------
        included : bool ndarray of shape (n_kernels,)
        of_weights : ndarray of shape (1 + n_kernels,)
            Coordinates of the common size and of the parts of kernels, of which those of kernels that are out are
            drawn anew.
        rng : numpy.random.Generator
        """
        (a, b), n_kernels = self.inclusion, len(self.group)
        sizes, counts = np.bincount(self.group), np.bincount(self.group, weights=included)
        n_in = int((counts > 0).sum())
        drawn = rng.beta(a + n_in, b + self.n_groups - n_in)
        probability = float(np.clip(drawn, NOT_SURE, 1.0 - NOT_SURE))
        of_groups = _on_sides(counts > 0, probability, rng)
        of_kernels = rng.standard_normal(n_kernels)  # of a group that is out, or one kernel: whatever it is
        for g in np.flatnonzero((counts > 0) & (sizes > 1)):
            own = np.flatnonzero(self.group == g)
            of_kernels[own] = self._coordinates_within(included[own], rng)
        of_weights = np.where(np.append(True, included), of_weights, rng.standard_normal(1 + n_kernels))
        of_probability = ndtri(betainc(a, b, probability))
        return np.concatenate([of_weights, [of_probability], of_groups, of_kernels])

    def _coordinates_within(self, included: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Draw coordinates of the kernels of one group, of which one alone may be the largest below the threshold."""
        p, n = self.prior.within, len(included)
        if included.sum() == 1 and rng.random() < (1.0 - p) / (1.0 - p + n * p):
            found = _on_sides(np.zeros(n, dtype=bool), p, rng)
            at, largest = int(np.argmax(included)), int(np.argmax(found))
            found[[at, largest]] = found[[largest, at]]
            return found
        return _on_sides(included, p, rng)

    def log_odds(self, included: np.ndarray, m: int) -> float:
        """Return the log prior odds of kernel `m` given which others are in."""
        sizes = np.bincount(self.group)
        counts = np.bincount(self.group[included], minlength=len(sizes))
        own, size = int(counts[self.group[m]]) - int(included[m]), int(sizes[self.group[m]])
        if own:
            return self._log_within(own + 1, size) - self._log_within(own, size)
        (a, b), n_in = self.inclusion, int((counts > 0).sum()) - int(included[m])
        return float(np.log((a + n_in) / (b + len(sizes) - n_in - 1))) + self._log_within(1, size)

    def _log_within(self, n_in: int, size: int) -> float:
        """Return the log probability of some kernels of a group that is in."""
        p = self.prior.within
        of_none = (1.0 - p) ** size / size if n_in == 1 else 0.0
        return float(np.log(p**n_in * (1.0 - p) ** (size - n_in) + of_none))


def _on_sides(above: np.ndarray, probability: float, rng: np.random.Generator) -> np.ndarray:
    """Draw normal numbers above or below the threshold that they exceed with some probability."""
    tail = rng.random(len(above))
    return -ndtri(np.where(above, probability * tail, probability + (1.0 - probability) * tail))


N_BINS = 8  # of equal prior probability, of the weight of a kernel that is proposed
N_SWAPS = 2  # of a sweep
RARE, SELDOM = 0.05, 0.2  # kernels that were in less often than this are proposed in so many of the sweeps
EVEN = 0.1  # part of the partners of swaps that is the same for all
LIKENESS = 2.0  # power of the alignment of two kernels
KEPT, MOST_COLUMNS = 0.95, 48  # part of the trace of a kernel that its columns keep, and how many there are
MOST_TAKEN = 10.0  # variance of kernels that were subtracted, relative to what is left
FACTOR_TOL = 1e-13  # of the factorization of kernels of low rank
RANK_TOL = 1e-10  # of the same where it takes the place of the kernel
MOST_RANKS = 4096  # of all kernels together
MCSE = 0.02  # of probabilities of inclusion, above which chains of kernels of low rank go on
MOST_ROUNDS = 16  # of as many sweeps as are asked for
START = 0.3  # of coordinates of weights and noise, above the median
TINY = 1e-12  # of a bin, where a normal quantile is finite
MIDDLES = ndtri((np.arange(N_BINS) + 0.5) / N_BINS)


class Selector(NamedTuple):
    """What does not change while chains run.

    Attributes
    ----------
    model : Hypermodel
    columns : list of ndarray of shape (n_samples, n_columns)
        Z of every kernel of unit weight, or most of it.
    likeness : ndarray of shape (n_kernels, n_kernels)
        How often the second is proposed in the place of the first; only ratios matter.
    low : LowRank, optional
        Where noise is normal and kernels have few columns.
    """

    model: Hypermodel
    columns: list[np.ndarray]
    likeness: np.ndarray
    low: LowRank | None = None

    @property
    def prior(self) -> SpikeSlabOfKernels:
        """Prior of the kernel weights."""
        found: SpikeSlabOfKernels = self.model.kernel_prior
        return found


class LowRank(NamedTuple):
    """Products of the columns of kernels, the intercept and effects, and of these with the targets.

    Attributes
    ----------
    gram : ndarray of shape (n_columns, n_columns)
        The intercept first, then effects, then kernels.
    products : ndarray of shape (n_columns, n_outputs)
    squares : ndarray of shape (n_outputs,)
        Of the targets, summed.
    own : list of slice
        Columns of every kernel, those of the largest part of it first.
    few : ndarray of int
        How many of these hold most of a kernel.
    is_exact : bool ndarray
        Whether all of them together are the kernel.
    """

    gram: np.ndarray
    products: np.ndarray
    squares: np.ndarray
    own: list[slice]
    few: np.ndarray
    is_exact: np.ndarray

    def scales(self, covariance: Additive, weights: np.ndarray) -> np.ndarray:
        """Return what columns are multiplied by, (n_columns,)."""
        of_kernels, of_groups, *_ = covariance.split(weights)
        found = np.zeros(len(self.gram))
        found[0] = covariance.intercept_std
        if covariance.effects is not None:
            stds = covariance.effects.stds(of_groups)
            found[1 : 1 + len(stds)] = stds
        for m in np.flatnonzero(of_kernels):
            found[self.own[m]] = of_kernels[m]
        return found


class LowHeight(NamedTuple):
    r"""Log evidence by the columns that are in; see `Height`.

    Attributes
    ----------
    log_evidence : float
    precision : float
        :math:`\tau`.
    lower : ndarray of shape (n_in, n_in)
        `L`, with :math:`A = L L^\top`.
    scales : ndarray of shape (n_in,)
        Of the columns that are in.
    inside : int ndarray of shape (n_in,)
        Their positions.
    pull : ndarray of shape (n_in,)
        :math:`\tau L^{-1} S U^\top y`.
    """

    log_evidence: float
    precision: float
    lower: np.ndarray
    scales: np.ndarray
    inside: np.ndarray
    pull: np.ndarray
    converged: bool = True

    def around(self, low: LowRank, columns: slice, output: int) -> tuple[np.ndarray, np.ndarray]:
        r"""Return :math:`Z^\top R Z` and :math:`Z^\top \alpha` of the columns of a kernel that is not in."""
        shared = self.scales[:, None] * low.gram[self.inside, columns]
        within = dtrtrs(self.lower, shared, lower=1)[0]
        tau = self.precision
        told = tau * low.gram[columns, columns] - tau**2 * (within.T @ within)
        return told, tau * (low.products[columns, output] - within.T @ self.pull)


@dataclass(frozen=True)
class State:
    """Where a chain is.

    Attributes
    ----------
    included : bool ndarray of shape (n_kernels,)
    of_weights : ndarray of shape (1 + n_kernels,)
        Coordinates of the common size and of the parts of kernels, which mean nothing of kernels that are out.
    rest : ndarray
        Coordinates of what the design and the likelihood have.
    point : Point
        Its log density is not that of the state.
    weights : ndarray
        Of all kernels, and what a design has.
    matrix : ndarray of shape (n_samples, n_samples), or None
        Covariance of the scores, where the evidence is not that of columns.
    most : float
        The largest sum of variances since kernels were combined, by which digits of `matrix` are lost.
    outputs : list of Evidence, Height or LowHeight
    """

    included: np.ndarray
    of_weights: np.ndarray
    rest: np.ndarray
    point: Point
    weights: np.ndarray
    matrix: np.ndarray | None
    most: float
    outputs: Sequence[Evidence | Height | LowHeight]


def draw_selections(
    model: Hypermodel,
    n_draws: int,
    n_chains: int,
    n_warmup: int,
    rng: np.random.Generator,
    report: Callable[[int, str], None] | None = None,
) -> Draws:
    """Draw by Markov chains, one after the other.

    Parameters
    ----------
    model : Hypermodel
        Its prior of weights is a SpikeSlabOfKernels, or a WithDesign of one.
    n_draws : int
        Of all chains together, one for each sweep.
    n_chains : int
    n_warmup : int
        Sweeps of each chain before the first draw that counts.
    rng : numpy.random.Generator
    report : callable, optional
        Is told how many sweeps there were.

    Returns
    -------
    Draws
        Chain after chain, all of the same weight; without the evidence of the model, which is NaN. R-hat and the
        effective number of draws are of the number of kernels that are in, of their common size, of the parameters
        of the likelihood and the design, and of the log evidence given the draws.
    """
    selector = _selector(model)
    per_chain = -(-n_draws // n_chains)
    chains = [_Chain(selector, number, n_warmup) for number in range(n_chains)]
    n_sweeps, n_rounds = 0, 0
    while n_rounds == 0 or (selector.low and n_rounds < MOST_ROUNDS and not _error(chains) <= MCSE):
        for chain in chains:
            for _ in range(per_chain + (n_warmup if n_rounds == 0 else 0)):
                chain.advance(rng)
                n_sweeps += 1
                if report is not None:
                    report(n_sweeps, "")
        n_rounds += 1
    kept = np.arange(per_chain) * n_rounds + n_rounds - 1
    coordinates = np.array([chain.coordinates[i] for chain in chains for i in kept])
    points = [chain.points[i] for chain in chains for i in kept]
    found = draws_of_chains(
        coordinates, points, np.array([chain.traces for chain in chains], dtype=np.float64)
    )
    return found._replace(included=np.array([chain.included for chain in chains]))


def most_sweeps(n_draws: int, n_chains: int, n_warmup: int) -> int:
    """Return how many sweeps all chains have at most."""
    return n_chains * (n_warmup + MOST_ROUNDS * -(-n_draws // n_chains))


class _Chain:
    """A chain, and what is kept of it."""

    def __init__(self, selector: Selector, number: int, n_warmup: int) -> None:
        self.selector, self.number, self.n_warmup = selector, number, n_warmup
        self.n_sweeps = 0
        self.state: State | None = None
        n_kernels = len(selector.prior.group)
        self._often, self._proposed = np.zeros(n_kernels), np.ones(n_kernels)
        self.coordinates: list[np.ndarray] = []
        self.points: list[Point] = []
        self.traces: list[list[float]] = []
        self.included: list[np.ndarray] = []

    def advance(self, rng: np.random.Generator) -> None:
        """Sweep once."""
        if self.state is None:
            self.state = _start(self.selector, self.number, rng)
        state = self.state = sweep(self.selector, self.state, self._proposed, rng)
        self.n_sweeps += 1
        if self.n_sweeps <= self.n_warmup:
            self._often += state.included
        else:
            own = self.selector.prior.coordinates_of(state.included, state.of_weights, rng)
            self.coordinates.append(np.concatenate([own, state.rest]))
            self.points.append(state.point)
            self.included.append(state.included)
            numbers = [state.point.log_evidence, state.included.sum(), state.of_weights[0], *state.rest]
            self.traces.append(numbers)
        if self.n_sweeps in (self.n_warmup // 4, self.n_warmup):
            self._proposed = np.where(self._often > RARE * self.n_sweeps, 1.0, SELDOM)


def _error(chains: Sequence[_Chain]) -> float:
    """Return the largest Monte Carlo standard error of a probability of inclusion, of kernels and of groups."""
    from arviz_stats.base import array_stats

    inside = np.array([chain.included for chain in chains], dtype=float)
    member = np.eye(chains[0].selector.prior.n_groups)[chains[0].selector.prior.group]
    values = np.concatenate([inside, inside @ member > 0.0], axis=-1)
    moving = np.moveaxis(values[..., np.ptp(values, axis=(0, 1)) > 0.0], -1, 0)
    return float(np.max(array_stats.mcse(moving), initial=0.0)) if len(moving) else 0.0


def sweep(selector: Selector, state: State, proposed: np.ndarray, rng: np.random.Generator) -> State:
    """Propose kernels anew, each with some probability, then swap and move."""
    for m in rng.permutation(np.flatnonzero(rng.random(len(proposed)) < proposed)):
        state = propose(selector, state, int(m), rng)
    for _ in range(N_SWAPS):
        state = swap(selector, state, rng)
    state = move(selector, state, np.zeros(0, dtype=int), rng)
    state = move(selector, state, np.flatnonzero(state.included), rng)
    return rescale(selector, state, rng)


# ------------------------------------------------------------------------------------------------------------ steps


def propose(selector: Selector, state: State, m: int, rng: np.random.Generator) -> State:
    """Propose whether a kernel is in, and its weight; the state without it decides how, wherever it is now."""
    base = _without(selector, state, m) if state.included[m] else state
    if base is None:
        return state
    gains = _gains(selector, base, m)
    log_odds = selector.prior.log_odds(base.included, m)
    of_in = log_odds + _log_sum(gains) - np.log(N_BINS)
    new: State | None = base
    new_gain = 0.0
    if np.log(rng.random()) >= -np.logaddexp(0.0, of_in):
        coordinate, new_gain = _drawn_weight(gains, rng)
        new = _with(selector, base, m, coordinate)
    if new is None:
        return state
    old_gain = gains[_bin_of(state.of_weights[1 + m])] if state.included[m] else 0.0
    log_ratio = (new.point.log_evidence - new_gain) - (state.point.log_evidence - old_gain)
    return new if np.log(rng.random()) < log_ratio else state


def swap(selector: Selector, state: State, rng: np.random.Generator) -> State:
    """Propose another kernel in the place of one that is in."""
    inside, outside = np.flatnonzero(state.included), np.flatnonzero(~state.included)
    if not len(inside) or not len(outside):
        return state
    m = int(rng.choice(inside))
    toward = selector.likeness[m, outside]
    other = int(outside[_chosen(toward, rng)])
    base = _without(selector, state, m)
    if base is None:
        return state
    gains, others = _gains(selector, base, m), _gains(selector, base, other)
    coordinate, new_gain = _drawn_weight(others, rng)
    new = _with(selector, base, other, coordinate)
    if new is None:
        return state
    back = selector.likeness[other, ~new.included]
    prior = selector.prior
    log_ratio = (new.point.log_evidence - new_gain + _log_sum(others)) - (
        state.point.log_evidence - gains[_bin_of(state.of_weights[1 + m])] + _log_sum(gains)
    )
    log_ratio += prior.log_odds(base.included, other) - prior.log_odds(base.included, m)
    log_ratio += np.log(selector.likeness[other, m] / back.sum()) - np.log(
        selector.likeness[m, other] / toward.sum()
    )
    return new if np.log(rng.random()) < log_ratio else state


def move(selector: Selector, state: State, kernels: np.ndarray, rng: np.random.Generator) -> State:
    """Draw the common size, the weights of some kernels and the rest from a slice of an ellipse through them."""
    own = np.append(0, 1 + kernels)
    here = np.concatenate([state.of_weights[own], state.rest])
    seen = {here.tobytes(): state}

    def log_evidence(there: np.ndarray) -> float:
        key = there.tobytes()
        if key not in seen:
            of_weights, rest = state.of_weights.copy(), there[len(own) :]
            of_weights[own] = there[: len(own)]
            found = _at(selector, state.included, of_weights, rest, state)
            if found is None:
                return -np.inf
            seen[key] = found
        return seen[key].point.log_evidence

    there = elliptical_slice(here, np.ones(len(here)), log_evidence, rng)
    return seen.get(there.tobytes(), state)


def rescale(selector: Selector, state: State, rng: np.random.Generator) -> State:
    r"""Draw the common size given the weights, which stay as they are, and with them the evidence.

    Its density in its own coordinate u is :math:`N(u; 0, 1) \prod_m \tau^{-2\alpha} e^{-\alpha w_m^2 / \tau^2}`, the
    product over kernels that are in: that of the weights given :math:`\tau`.
    """
    prior, chosen = selector.prior.prior, np.flatnonzero(state.included)
    alpha, own = prior.concentration, np.append(0, 1 + chosen)
    weights = Chosen(prior, np.arange(len(chosen)), len(chosen)).weights(state.of_weights[own]).values

    def size_at(u: float) -> float:
        return float(half_t_values(np.array([u]), prior.df, prior.scale)[0])

    def log_density(step: float) -> float:
        u = state.of_weights[0] + step
        tau = size_at(u)
        if abs(u) > FARTHEST or tau == 0.0:
            return -np.inf
        return -0.5 * u * u - alpha * float((2.0 * np.log(tau) + (weights / tau) ** 2).sum())

    u = state.of_weights[0] + slice_step(log_density, rng)
    parts = alpha * (weights / size_at(u)) ** 2
    below, above = gammainc(alpha, parts), gammaincc(alpha, parts)
    coordinates = np.where(below < 0.5, ndtri(below), -ndtri(above))
    if (np.abs(coordinates) > FARTHEST).any():  # where priors are cut off
        return state
    of_weights = state.of_weights.copy()
    of_weights[own] = np.append(u, coordinates)
    return replace(state, of_weights=of_weights)


# ---------------------------------------------------------------------------------------------------- of one kernel


def _gains(selector: Selector, base: State, m: int) -> np.ndarray:
    """Return log evidences over that without kernel `m`, at the middle of every bin of its weight, sites fixed."""
    columns = selector.columns[m]
    squares = _squares(*selector.prior.prior[:3], float(base.of_weights[0]))
    gains = np.zeros(N_BINS)
    for k, output in enumerate(base.outputs):
        if isinstance(output, LowHeight):
            assert selector.low is not None
            first = selector.low.own[m].start
            told, pull = output.around(selector.low, slice(first, first + int(selector.low.few[m])), k)
        else:
            within = output.posterior.within(columns)
            told, pull = within.T @ within, columns.T @ output.posterior.dual
        values, vectors = np.linalg.eigh(told)
        heights = (vectors.T @ pull) ** 2
        growth = 1.0 + squares[:, None] * np.maximum(values, 0.0)
        gains += 0.5 * (squares[:, None] * heights / growth - np.log(growth)).sum(axis=1)
    return gains


@lru_cache(maxsize=16)
def _squares(concentration: float, df: float, scale: float, size: float) -> np.ndarray:
    """Return squared weights at the middle of every bin, given the coordinate of the common size."""
    prior = SpikeSlabWeights(concentration, df, scale)
    return Chosen(prior, np.arange(N_BINS), N_BINS).weights(np.append(size, MIDDLES)).values ** 2


def _log_sum(values: np.ndarray) -> float:
    """Return the logarithm of the sum of exponentials of a few numbers, with less ado than SciPy."""
    largest = values.max()
    return float(largest + np.log(np.exp(values - largest).sum()))


def _drawn_weight(gains: np.ndarray, rng: np.random.Generator) -> tuple[float, float]:
    """Draw the coordinate of a weight, in a bin by its gain and there from the prior; return the gain too."""
    at = _chosen(np.exp(gains - gains.max()), rng)
    return float(ndtri((at + max(rng.random(), TINY)) / N_BINS)), float(gains[at])


def _chosen(odds: np.ndarray, rng: np.random.Generator) -> int:
    """Draw a position by its odds, with less ado than ``rng.choice``."""
    below = odds.cumsum()
    return min(int(below.searchsorted(rng.random() * below[-1], side="right")), len(odds) - 1)


def _bin_of(coordinate: float) -> int:
    """Return the bin of a coordinate."""
    return min(int(ndtr(coordinate) * N_BINS), N_BINS - 1)


def _with(selector: Selector, base: State, m: int, coordinate: float) -> State | None:
    """Add a kernel."""
    included, of_weights = base.included.copy(), base.of_weights.copy()
    included[m], of_weights[1 + m] = True, coordinate
    return _at(selector, included, of_weights, base.rest, base, m)


def _without(selector: Selector, state: State, m: int) -> State | None:
    """Leave a kernel out."""
    included = state.included.copy()
    included[m] = False
    return _at(selector, included, state.of_weights, state.rest, state, m)


def _at(
    selector: Selector,
    included: np.ndarray,
    of_weights: np.ndarray,
    rest: np.ndarray,
    near: State | None,
    changed: int | None = None,
) -> State | None:
    """Return a state with its evidence, or None where no digits are left of it.

    Nothing but the kernel that `changed`, if there is one, is other than it is in the state `near`.
    """
    model, low, chosen = selector.model, selector.low, np.flatnonzero(included)
    covariance = model.covariance
    coordinates = np.concatenate([of_weights[np.append(0, 1 + chosen)], rest])
    given = _given(model, chosen)
    weights = given.weight_prior.weights(coordinates[: given.n_weights]).values
    most = float(weights @ weights) + covariance.intercept_std**2
    if low is not None and low.is_exact[chosen].all():
        heights = _low_heights(model, low, weights, given.parameters(coordinates))
        if heights is None:
            return None
        log_evidence = sum(one.log_evidence for one in heights)
        no_start: Any = (None,) * len(heights)  # which sites of normal noise do not need
        point = Point(log_evidence, log_evidence, no_start, True)
        return State(included, of_weights, rest, point, weights, None, most, heights)
    with np.errstate(all="ignore"):
        # what is rounded does not add up over sweeps: moves of all weights combine the kernels anew
        if (
            near is not None
            and near.matrix is not None
            and changed is not None
            and covariance.tasks is None
            and near.most <= MOST_TAKEN * most
        ):
            more = float(weights[changed] ** 2 - near.weights[changed] ** 2)
            matrix = covariance.plus_kernel(near.matrix, changed, more)
            most = max(most, near.most)
        else:
            matrix = covariance.matrix(weights)
    sites = None if near is None else near.point.sites
    try:
        point, outputs = evaluate_height(given, coordinates, sites, matrix, tol=LOOSE)
    except np.linalg.LinAlgError:
        return None
    return State(included, of_weights, rest, point, weights, matrix, most, outputs)


def _low_heights(
    model: Hypermodel, low: LowRank, weights: np.ndarray, parameters: np.ndarray
) -> list[LowHeight] | None:
    """Return the evidence of every output, or None where no digits are left of it."""
    scales = low.scales(model.covariance, weights)
    inside = np.flatnonzero(scales)
    own, n_samples, found = scales[inside], model.covariance.stack.n_train, []
    gram = low.gram[np.ix_(inside, inside)] * np.multiply.outer(own, own)
    for k, (std,) in enumerate(parameters):
        tau = float(std) ** -2.0
        matrix = tau * gram
        np.einsum("ii->i", matrix)[...] += 1.0
        lower, info = dpotrf(matrix.T, lower=1, overwrite_a=1)
        if info:
            return None
        pull = tau * dtrtrs(lower, own * low.products[inside, k], lower=1)[0]
        square = tau * low.squares[k] - pull @ pull
        log_det = 2.0 * np.log(lower.diagonal()).sum() - n_samples * np.log(tau)
        height = float(-0.5 * (square + log_det + n_samples * np.log(2.0 * np.pi)))
        if not np.isfinite(height):
            return None
        found.append(LowHeight(height, tau, lower, own, inside, pull))
    return found


def _given(model: Hypermodel, chosen: np.ndarray) -> Hypermodel:
    """Return the model of the kernels that are in, all coordinates of which are continuous."""
    given = Chosen(model.kernel_prior.prior, chosen, model.covariance.stack.n_kernels)
    return model.with_kernel_prior(given)


# ------------------------------------------------------------------------------------------------- where chains start


def _selector(model: Hypermodel) -> Selector:
    """Factorize the kernels, and compare them."""
    covariance = model.covariance
    factorize = Factorizer(covariance.stack.n_train, FACTOR_TOL)
    columns = [
        _columns(kernel / unit, factorize)
        for kernel, unit in zip(covariance.stack.each(), covariance.units, strict=True)
    ]
    return Selector(model, columns, _likeness(covariance.stack), _low_rank(model, columns))


def _low_rank(model: Hypermodel, columns: list[np.ndarray]) -> LowRank | None:
    """Return products of columns, where noise is normal and they are not many; else None."""
    covariance = model.covariance
    is_normal = model.evidence is exact_evidence and type(model.likelihood) is Gaussian
    if not is_normal or covariance.tasks is not None or model.remainder is not None:
        return None
    n_samples = covariance.stack.n_train
    factorize = Factorizer(n_samples, RANK_TOL)
    basis = np.empty((n_samples, 0)) if covariance.effects is None else covariance.effects.basis
    blocks, few, is_exact, own = [np.ones((n_samples, 1)), basis], [], [], []
    n_columns = 1 + basis.shape[1]
    for kernel, unit, leading in zip(covariance.stack.each(), covariance.units, columns, strict=True):
        factor = factorize(kernel) if np.isfinite(unit) else None
        few.append(leading.shape[1])
        is_exact.append(factor is not None)
        block = leading
        if factor is not None:
            around = factor.transposed - factor.transposed.mean(axis=1, keepdims=True)
            block = factor.transposed.T @ np.linalg.eigh(around @ around.T)[1][:, ::-1] / np.sqrt(unit)
            few[-1] = min(few[-1], block.shape[1])
        own.append(slice(n_columns, n_columns + block.shape[1]))
        n_columns += block.shape[1]
        if n_columns > MOST_RANKS:
            return None
        blocks.append(block)
    if not any(is_exact):
        return None
    every = np.concatenate(blocks, axis=1)
    targets = model.targets.T
    return LowRank(
        every.T @ every, every.T @ targets, (targets**2).sum(axis=0), own, np.array(few), np.array(is_exact)
    )


def _columns(kernel: np.ndarray, factorize: Factorizer) -> np.ndarray:
    """Return the leading columns of a root of a kernel around its mean, which the intercept does not hold."""
    centered = kernel - kernel.mean(axis=0)
    centered = centered - centered.mean(axis=1, keepdims=True)
    factor = factorize(centered)
    if factor is None:
        values, vectors = np.linalg.eigh(centered)
        columns = vectors * np.sqrt(np.maximum(values, 0.0))
    else:
        values, turned = np.linalg.eigh(factor.transposed @ factor.transposed.T)
        columns = factor.transposed.T @ turned
    parts = np.maximum(values[::-1], 0.0)
    parts = np.cumsum(parts) / max(parts.sum(), np.finfo(float).tiny)
    n_columns = min(int(np.searchsorted(parts, KEPT)) + 1, MOST_COLUMNS)
    return np.asfortranarray(columns[:, ::-1][:, :n_columns])


def alignments(stack: Stack) -> np.ndarray:
    """Return alignments of centered kernels, (n_kernels, n_kernels), from 0 to 1."""
    sums = np.asarray(stack.apply(np.ones(stack.n_train)))
    inner = np.asarray(stack.frobenius()) - 2.0 / stack.n_train * sums @ sums.T
    inner += np.outer(sums.sum(axis=1), sums.sum(axis=1)) / stack.n_train**2
    size = np.sqrt(np.maximum(np.diag(inner), np.finfo(float).tiny))
    return np.clip(inner / size[:, None] / size, 0.0, 1.0)


def _likeness(stack: Stack) -> np.ndarray:
    """Return a power of the alignment of centered kernels, and an even part."""
    found = alignments(stack) ** LIKENESS
    return found + EVEN * found.mean()


def _start(selector: Selector, chain: int, rng: np.random.Generator) -> State:
    """Start without kernels, or with some that are drawn."""
    prior, model = selector.prior, selector.model
    n_kernels = len(prior.group)
    n_rest = model.n_coordinates - prior.n_coordinates(n_kernels)
    of_weights, rest = np.full(1 + n_kernels, START), np.full(n_rest, START)
    included = np.zeros(n_kernels, dtype=bool)
    included[rng.choice(n_kernels, min(2 * chain, n_kernels), replace=False)] = True
    found = _at(selector, included, of_weights, rest, None)
    if found is None:
        raise np.linalg.LinAlgError("the evidence at the start of a chain is not finite")
    return found


def draws_of_chains(coordinates: np.ndarray, points: Sequence[Point], chains: np.ndarray) -> Draws:
    """Return draws of the same weight, chain after chain, without the evidence of the model, which is NaN.

    Parameters
    ----------
    coordinates : ndarray of shape (n_draws, n_coordinates)
        Of all chains together.
    points : sequence of Point
        What was found at each draw.
    chains : ndarray of shape (n_chains, n_draws, n)
        Numbers that the chains should agree on.
    """
    rhat, ess = agreement(chains)
    weights = np.full(len(coordinates), 1.0 / len(coordinates))
    return Draws(coordinates, weights, tuple(points), np.nan, np.nan, ess, rhat)


def agreement(chains: np.ndarray) -> tuple[float, float]:
    """Return the largest R-hat of numbers, (n_chains, n_draws, n), and the smallest effective number of draws.

    Numbers that never move say nothing.
    """
    from arviz_stats.base import array_stats

    moving = chains[..., np.ptp(chains, axis=(0, 1)) > 0.0]
    if not moving.shape[-1]:
        return np.nan, float(chains.shape[0] * chains.shape[1])
    each = np.moveaxis(moving, -1, 0)
    rhat = np.nan if len(chains) == 1 else float(np.nanmax(array_stats.rhat(each)))
    return rhat, float(np.min(array_stats.ess(each)))
