r"""Priors of kernel weights and noise, as functions of independent standard normal coordinates.

Inference moves in coordinates :math:`u \sim N(0, I)` in which the prior is the same for all models; a prior is
the map from them to kernel weights. There the posterior of a weight that the data say nothing of is its prior,
one of a weight near zero has a normal tail instead of a boundary, and what the data do say is a correction to a
normal density.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
from scipy import special

from bayesmkl._utils.docstrings import entries, fill_docs
from bayesmkl._utils.validation import check_scale, shown
from bayesmkl.outcomes.base import LogNormal, Mapped, joined

FARTHEST = 8.0  # coordinate beyond which a prior is cut off

DOCS = entries(
    """
    df : float, default=4.0
        Degrees of freedom; the smaller, the heavier the tail.
    n_kernels : int
        Number of kernels.
    coordinates : ndarray of shape (n_coordinates,)
        Coordinates, which are standard normal under the prior.
    mapped : Mapped
        Weights of shape (n_kernels,), and a function that pulls a gradient back to the coordinates.
    """
)


class WeightPrior(Protocol):
    """Contract of priors on kernel weights."""

    def n_coordinates(self, n_kernels: int) -> int:
        """Return how many coordinates the weights have."""
        ...

    def weights(self, coordinates: np.ndarray) -> Mapped:
        """Return the kernel weights, (n_kernels,), of some coordinates."""
        ...


@fill_docs(DOCS)
class HalfT(NamedTuple):
    """Independent half-t priors of the kernel weights, whose signs have no effect on the score.

    Parameters
    ----------
    %(df)s
    scale : float, default=1.0
        Scale in units of the score: the latent score of labels, or the standardized target in regression.

    Examples
    --------
    >>> HalfT(df=4.0, scale=1.0).weights(np.zeros(1)).values.round(4)  # the median
    array([0.7407])
    """

    df: float = 4.0
    scale: float = 1.0

    def n_coordinates(self, n_kernels: int) -> int:
        """Return one coordinate per kernel.

        Parameters
        ----------
        %(n_kernels)s

        Returns
        -------
        int
            Number of coordinates.
        """
        return n_kernels

    def weights(self, coordinates: np.ndarray) -> Mapped:
        """Return the kernel weights of some coordinates.

        Parameters
        ----------
        %(coordinates)s

        Returns
        -------
        %(mapped)s
        """
        values, slopes = half_t_quantiles(coordinates, self.df, self.scale)
        return Mapped(values, lambda gradient: slopes * gradient)


@fill_docs(DOCS)
class DirichletShares(NamedTuple):
    r"""Divide a half-t total among the kernels by Dirichlet shares: :math:`w_m^2 = \tau^2 \varphi_m`.

    The total :math:`\tau` has the same prior for any number of kernels.

    Parameters
    ----------
    concentration : float, default=0.5
        Concentration of the Dirichlet distribution, the same for all kernels. Below one, few kernels have most of the
        variance.
    %(df)s
    scale : float, default=2.0
        Scale of the half-t prior on the total standard deviation, in units of the score.

    Examples
    --------
    >>> prior = DirichletShares(concentration=1.0, scale=1.0)
    >>> prior.weights(np.zeros(5)).values.round(4)  # four kernels; the first coordinate is that of the total
    array([0.3703, 0.3703, 0.3703, 0.3703])
    """

    concentration: float = 0.5
    df: float = 4.0
    scale: float = 2.0

    def n_coordinates(self, n_kernels: int) -> int:
        """Return one coordinate per kernel, and one for the total.

        Parameters
        ----------
        %(n_kernels)s

        Returns
        -------
        int
            Number of coordinates.
        """
        return n_kernels + 1

    def weights(self, coordinates: np.ndarray) -> Mapped:
        """Return the kernel weights of some coordinates, the first of which is that of the total.

        Parameters
        ----------
        %(coordinates)s

        Returns
        -------
        %(mapped)s
        """
        (total,), (slope,) = half_t_quantiles(coordinates[:1], self.df, self.scale)
        parts, part_slopes = gamma_quantiles(coordinates[1:], self.concentration)
        root = np.sqrt(parts / parts.sum())

        def pull(gradient: np.ndarray) -> np.ndarray:
            inward = total * gradient * root
            by_log_part = 0.5 * (inward - root**2 * inward.sum())
            return np.concatenate([[slope * (gradient @ root)], by_log_part * part_slopes / parts])

        return Mapped(total * root, pull)


@fill_docs(DOCS)
class NestedShares(NamedTuple):
    r"""Divide a half-t total among the views, and the share of each view among its kernels.

    .. math:: w_m^2 = \tau^2 \, \varphi_{v(m)} \, \psi_m, \qquad \tau \text{ half-t}, \quad
       \varphi \text{ and } \psi \text{ of every view Dirichlet} ,

    so that the prior share of a view does not depend on how many kernels it has.

    Parameters
    ----------
    concentration : float, default=0.5
        Concentration of the Dirichlet distribution of views. Below one, few views have most of the variance.
    within : float, default=1.0
        Concentration of the Dirichlet distribution of the kernels in each view; one is uniform.
    %(df)s
    scale : float, default=2.0
        Scale of the half-t prior on the total standard deviation, in units of the score.
    groups : {"view", "kernel"}, sequence of str or dict, default="view"
        What counts as a view. "view": the views of the bank, or each precomputed kernel. "kernel": each kernel. A
        sequence holds one name per kernel; kernels with the same name are a view. A dict maps names of groups to
        their kernels or views; each kernel that it does not list is a group of its own.

    Examples
    --------
    >>> from bayesmkl import GPMKLClassifier
    >>> from bayesmkl.gp import NestedShares
    >>> GPMKLClassifier(kernel_prior=NestedShares(concentration=1.0)).kernel_prior.within
    1.0
    """

    concentration: float = 0.5
    within: float = 1.0
    df: float = 4.0
    scale: float = 2.0
    groups: str | Sequence[str] | Mapping[str, Sequence[str]] = "view"


class SharesOfKernels(NamedTuple):
    """`NestedShares` of given kernels.

    Its coordinates are one for the total, one for every view, and one for every kernel of a view that has several:
    parts of a whole are Gamma variables, divided by their sum.

    Attributes
    ----------
    prior : NestedShares
    group : int ndarray of shape (n_kernels,)
        View of every kernel, numbered from zero on.

    Examples
    --------
    >>> prior = SharesOfKernels(NestedShares(within=2.0, scale=1.0), np.array([0, 0, 1]))
    >>> prior.weights(np.zeros(prior.n_coordinates(3))).values.round(4)
    array([0.3703, 0.3703, 0.5238])
    """

    prior: NestedShares
    group: np.ndarray

    @property
    def n_views(self) -> int:
        """Number of views."""
        return int(self.group.max()) + 1

    @property
    def has_others(self) -> np.ndarray:
        """Whether a kernel shares its view with others, (n_kernels,)."""
        found: np.ndarray = np.bincount(self.group)[self.group] > 1
        return found

    def n_coordinates(self, n_kernels: int) -> int:
        """Return the number of coordinates."""
        return 1 + self.n_views + int(self.has_others.sum())

    def weights(self, coordinates: np.ndarray) -> Mapped:
        """Return the kernel weights of some coordinates."""
        group, has_others = self.group, self.has_others
        (total,), (slope,) = half_t_quantiles(coordinates[:1], self.prior.df, self.prior.scale)
        of_views, own = np.split(coordinates[1:], [self.n_views])
        parts, part_slopes = gamma_quantiles(of_views, self.prior.concentration)
        inner, inner_slopes = np.ones(len(group)), np.zeros(len(group))
        inner[has_others], inner_slopes[has_others] = gamma_quantiles(own, self.prior.within)
        shares, within = parts / parts.sum(), inner / np.bincount(group, inner)[group]
        root = np.sqrt(shares[group] * within)

        def pull(gradient: np.ndarray) -> np.ndarray:
            inward = total * gradient * root
            of_view = np.bincount(group, inward)
            by_log_part = 0.5 * (of_view - shares * of_view.sum())
            by_log_inner = 0.5 * (inward - within * of_view[group])
            by_own = (by_log_inner * inner_slopes / inner)[has_others]
            return np.concatenate([[slope * (gradient @ root)], by_log_part * part_slopes / parts, by_own])

        return Mapped(total * root, pull)


@fill_docs(DOCS)
class Horseshoe(NamedTuple):
    r"""Regularized horseshoe prior: :math:`w_m = \tau \lambda_m / \sqrt{1 + \tau^2 \lambda_m^2 / c^2}`.

    It expects that few kernels matter. :math:`\tau` and :math:`\lambda_m` are half-Cauchy.

    Parameters
    ----------
    scale : float, default=0.3
        Scale of :math:`\tau`, in units of the score: about the size of a weight that does not matter.
    slab : float, default=5.0
        `c`, the largest size of a weight.

    References
    ----------
    Piironen, J. and Vehtari, A. (2017). Sparsity information and regularization in the horseshoe and other shrinkage
    priors. Electronic Journal of Statistics 11, 5018-5051.

    Examples
    --------
    >>> Horseshoe(scale=1.0, slab=2.0).weights(np.array([0.0, 0.0, 3.0])).values.round(4)
    array([0.8944, 2.    ])
    """

    scale: float = 0.3
    slab: float = 5.0

    def n_coordinates(self, n_kernels: int) -> int:
        """Return one coordinate per kernel, and one for the common scale.

        Parameters
        ----------
        %(n_kernels)s

        Returns
        -------
        int
            Number of coordinates.
        """
        return n_kernels + 1

    def weights(self, coordinates: np.ndarray) -> Mapped:
        """Return the kernel weights of some coordinates, the first of which is that of the common scale.

        Parameters
        ----------
        %(coordinates)s

        Returns
        -------
        %(mapped)s
        """
        factors, slopes = half_t_quantiles(coordinates, 1.0, 1.0)
        common, own = self.scale * factors[0], factors[1:]
        size = common * own
        shrink = 1.0 / np.sqrt(1.0 + (size / self.slab) ** 2)

        def pull(gradient: np.ndarray) -> np.ndarray:
            by_size = gradient * shrink**3
            return slopes * np.concatenate([[self.scale * (by_size @ own)], by_size * common])

        return Mapped(size * shrink, pull)


class WithDesign(NamedTuple):
    """Priors of kernel weights; after them of standard deviations of groups, of what relates tasks, and of widths.

    Attributes
    ----------
    kernel_prior : WeightPrior
    group_prior : HalfT
        Of every standard deviation.
    n_terms : int
        Number of standard deviations.
    task_prior : TaskPrior, optional
        See `bayesmkl.gp.effects`.
    width_prior : WidthPrior, optional
        See `bayesmkl.gp.widths`.
    """

    kernel_prior: WeightPrior
    group_prior: HalfT
    n_terms: int
    task_prior: Any = None
    width_prior: Any = None

    def n_coordinates(self, n_kernels: int) -> int:
        """Return those of the kernels' prior, one for every standard deviation, those of tasks and of widths."""
        return self.kernel_prior.n_coordinates(n_kernels) + self.n_terms + sum(self._n_of_rest)

    @property
    def _n_of_rest(self) -> list[int]:
        return [0 if own is None else own.n_coordinates for own in (self.task_prior, self.width_prior)]

    def weights(self, coordinates: np.ndarray) -> Mapped:
        """Return kernel weights, standard deviations, values of tasks and log widths, one after the other."""
        n_of_tasks, n_of_widths = self._n_of_rest
        sizes = [self.n_terms, n_of_tasks, n_of_widths]
        starts = len(coordinates) - np.cumsum(sizes[::-1])[::-1]
        of_kernels, of_groups, of_tasks, of_widths = np.split(coordinates, starts)
        mapped = [self.kernel_prior.weights(of_kernels), self.group_prior.weights(of_groups)]
        if self.task_prior is not None:
            mapped.append(self.task_prior.values(of_tasks))
        if self.width_prior is not None:
            mapped.append(self.width_prior.values(of_widths))
        return joined(mapped)


class ParameterPriors(NamedTuple):
    """Independent priors of the parameters of a likelihood, the same for every output.

    Attributes
    ----------
    each : tuple of LogNormal
    """

    each: tuple[LogNormal, ...]

    def parameters(self, coordinates: np.ndarray) -> Mapped:
        """Return the parameters of some coordinates, the last axis of which is that of the parameters."""
        return LogNormal(*np.reshape(self.each, (-1, 3)).T).parameters(coordinates)


def checked_log_normal(name: str, value: Any, usual: LogNormal) -> LogNormal:
    """Return the prior of a parameter, checked; "log-normal" is the usual one."""
    if isinstance(value, str) and value == "log-normal":
        return usual
    if not isinstance(value, LogNormal):
        raise ValueError(
            f'`{name}` must be "log-normal" or a LogNormal(median, log_std); got {shown(value)}. Programs take other '
            "distributions: `numpyro_model(X, y, priors=...)`."
        )
    return LogNormal(*(check_scale(f"{name}.{k}", v) for k, v in value._asdict().items()))


def half_t_quantiles(coordinates: np.ndarray, df: float, scale: float) -> tuple[np.ndarray, np.ndarray]:
    """Return half-t quantiles of normal coordinates and their slopes."""
    u, values = _cut_off(coordinates), half_t_values(coordinates, df, 1.0)
    log_height = special.gammaln(0.5 * (df + 1.0)) - special.gammaln(0.5 * df) - 0.5 * math.log(df * math.pi)
    density = np.exp(log_height - 0.5 * (df + 1.0) * np.log1p(values**2 / df))
    return scale * values, 0.5 * scale * _normal_density(u) / density * (u == coordinates)


def half_t_values(coordinates: np.ndarray, df: float, scale: float) -> np.ndarray:
    """Return half-t quantiles of normal coordinates, as `half_t_quantiles` does, without their slopes."""
    found: np.ndarray = -scale * special.stdtrit(df, 0.5 * special.ndtr(-_cut_off(coordinates)))
    return found


def gamma_quantiles(coordinates: np.ndarray, shape: float) -> tuple[np.ndarray, np.ndarray]:
    """Return Gamma quantiles of normal coordinates, with scale one, and their slopes."""
    u, values = _cut_off(coordinates), gamma_values(coordinates, shape)
    slopes = _normal_density(u) / np.exp((shape - 1.0) * np.log(values) - values - special.gammaln(shape))
    return values, slopes * (u == coordinates)


def gamma_values(coordinates: np.ndarray, shape: float) -> np.ndarray:
    """Return Gamma quantiles of normal coordinates, as `gamma_quantiles` does, without their slopes."""
    u = _cut_off(coordinates)
    values, is_low = np.empty_like(u), u < 0.0
    values[is_low] = special.gammaincinv(shape, special.ndtr(u[is_low]))
    values[~is_low] = special.gammainccinv(shape, special.ndtr(-u[~is_low]))
    return np.maximum(values, 1e-300)


def _cut_off(coordinates: np.ndarray) -> np.ndarray:
    return np.minimum(np.maximum(coordinates, -FARTHEST), FARTHEST)


def _normal_density(u: np.ndarray) -> np.ndarray:
    return np.exp(-0.5 * u**2) / math.sqrt(2.0 * math.pi)
