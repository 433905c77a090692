r"""Spike-and-slab prior of kernels in groups: most add nothing, and the others have a size in common.

A group, such as the kernels of a view, is in the model with probability :math:`\pi`, whose prior is a Beta
distribution, so that the more groups there are the fewer need to be in. Of a group that is in, every kernel is in
with probability :math:`\rho`, and one at random where that gives none. Weights of kernels that are in are

.. math:: w_m = \tau \sqrt{h_m}, \qquad h_m \sim \operatorname{Gamma}(\alpha, \text{rate } \alpha), \qquad
   \tau \text{ half-t} ,

and all others are zero.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from scipy.special import betainc, betaincinv, ndtr, ndtri

from bayesmkl._utils.docstrings import fill_docs
from bayesmkl.gp.hyperpriors import (
    DOCS,
    FARTHEST,
    Mapped,
    gamma_quantiles,
    gamma_values,
    half_t_quantiles,
    half_t_values,
)

NOT_SURE = 1e-12  # a probability of inclusion is as far from zero and one


@fill_docs(DOCS)
class SpikeSlabWeights(NamedTuple):
    r"""Spike and slab: kernels are in the model or not, and the weights of those that are have a size in common.

    Parameters
    ----------
    concentration : float, default=4.0
        :math:`\alpha`: the larger, the more alike are the weights of kernels that are in, and the fewer of those that
        matter little are.
    %(df)s
    scale : float, default=1.0
        Of the half-t prior of :math:`\tau`, in units of the score.
    inclusion : tuple of a float and a float or None, default=(1.0, None)
        Shapes of the Beta prior of :math:`\pi`, the probability that a group of kernels is in: mean
        ``inclusion[0] / sum(inclusion)``. None is the number of groups, of which about one is expected to be in.
        (1, 1) says nothing of the part of groups that matter.
    within : float, default=0.5
        :math:`\rho`, the probability that a kernel is in, of a group that is.
    groups : {"view", "kernel"}, sequence of str or dict, default="view"
        What is in or out together: kernels of a view (each of precomputed kernels), each kernel alone, the kernels
        that have the same of these names, one for each kernel, or those that a dict lists by their names or views:
        ``{"imaging": ["MRI", "PET"]}``. Kernels that it does not name are alone.

    See Also
    --------
    bayesmkl.posterior.inclusion_table : Posterior probabilities of inclusion, and lists with few false ones.

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
