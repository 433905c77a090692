"""Grades, classes with an order: their likelihood, and the truncated moments between their cut points."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from bayesmkl._numerics.arrays import Array, namespace, special_functions
from bayesmkl._numerics.truncated_normal import LOG_2PI, TruncatedMoments, interval_moments
from bayesmkl._utils.docstrings import fulfil_docs
from bayesmkl._utils.typing import Targets
from bayesmkl._utils.validation import shown
from bayesmkl.outcomes.base import (
    PROBIT,
    Derivatives,
    Likelihood,
    LogNormal,
    Outcome,
    Predicted,
    Tilted,
    no_parameters,
    repeat,
)
from bayesmkl.outcomes.intervals import LAWS, Along, log_mass_slopes
from bayesmkl.outcomes.labels import check_labels

LAW = LAWS["normal"]


@fulfil_docs(Likelihood)
@dataclass(frozen=True)
class OrdinalProbit(Likelihood):
    r"""Ordered grades of a noisy score that cut points divide: :math:`P(y_i \le k \mid f_i) = \Phi(b_k - f_i)`.

    Grades are 0 to n_levels - 1. The distances between cut points, :math:`b_k - b_{k - 1}`, are inferred. The mean of
    the cut points is zero, because the intercept shifts all of them.

    Parameters
    ----------
    n_levels : int, default=2
        Number of grades.
    distance_prior : LogNormal, default=LogNormal(0.7, 1.0)
        Prior of the distances, in units of the noise.

    Examples
    --------
    >>> import numpy as np
    >>> grades = np.array([0.0, 1.0, 2.0])
    >>> np.exp(OrdinalProbit(3).log_density(grades, np.zeros(3), np.array([2.0]))).round(4)
    array([0.1587, 0.6827, 0.1587])
    """

    n_levels: int = 2
    distance_prior: LogNormal = LogNormal(0.7, 1.0)

    unit = PROBIT

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the parameters."""
        return tuple(f"distance_{number}" for number in range(self.n_levels - 2))

    @property
    def priors(self) -> tuple[LogNormal, ...]:
        """Priors of the parameters."""
        return (self.distance_prior,) * (self.n_levels - 2)

    def cut_slopes(self) -> np.ndarray:
        """Return derivatives of the cut points by their distances.

        Returns
        -------
        ndarray of shape (n_levels - 1, n_levels - 2)
            What a unit of each distance adds to each cut point.
        """
        below = np.tril(np.ones((self.n_levels - 1, self.n_levels - 2)), -1)
        return below - below.mean(axis=0)

    def cuts(self, parameters: Array) -> list[Any]:
        """Return the cut points.

        Parameters
        ----------
        parameters : array of shape (n_levels - 2, ...)
            Distances of the cut points.

        Returns
        -------
        list of n_levels - 1 arrays of shape (...,)
            Cut points, ascending.
        """
        nothing = 0.0 * parameters.sum(axis=0)
        return [
            sum((slope * own for slope, own in zip(row, parameters, strict=True)), nothing)
            for row in self.cut_slopes()
        ]

    def log_density(self, y: Array, score: Array, parameters: Array) -> Any:
        """Return the log probability of every grade."""
        lower, upper = self._ends(y, score, parameters)
        return log_mass_slopes(LAW, lower, upper, [(0.0, 0.0)])[0].value

    def derivatives(self, y: Array, score: Array, parameters: Array, order: int = 3) -> Derivatives:
        """Return derivatives of the log probability."""
        found, own = self._slopes(y, score, 1.0, parameters)
        return Derivatives(
            -found.first,
            found.second,
            -found.third,
            _stacked(score, [each.moved for each in own]),
            _stacked(score, [-each.first_moved for each in own]),
            _stacked(score, [each.second_moved for each in own]),
        )

    def _slopes(self, y: Array, score: Array, scale: Any, parameters: Array) -> tuple[Along, list[Along]]:
        """Return derivatives of the log probability with all ends scaled: by a shift, and by every distance."""
        lower, upper = (end * scale for end in self._ends(y, score, parameters))
        directions: list[tuple[Any, Any]] = [
            (self._pick(y - 1.0, list(by)) * scale, self._pick(y, list(by)) * scale)
            for by in self.cut_slopes().T
        ]
        found, *own = log_mass_slopes(LAW, lower, upper, [(0.0, 0.0), *directions])
        return found, own

    def _ends(self, y: Array, score: Array, parameters: Array) -> tuple[Any, Any]:
        """Return the cut points below and above every grade, from the score."""
        xp, cuts = namespace(score), self.cuts(parameters)
        lower = xp.where(y < 0.5, -xp.inf, self._pick(y - 1.0, cuts) - score)
        upper = xp.where(y > self.n_levels - 1.5, xp.inf, self._pick(y, cuts) - score)
        return lower, upper

    def _pick(self, number: Array, values: list[Any]) -> Any:
        """Return the value with each number, zero where there is none."""
        xp = namespace(number)
        return sum(xp.where(number == at, 1.0, 0.0) * value for at, value in enumerate(values))

    def tilted(self, y: Array, mean: Array, variance: Array, parameters: Array) -> Tilted:
        """Integrate the probability over normal scores: noise and score are one normal variable."""
        xp = namespace(mean)
        scale = 1.0 / xp.sqrt(1.0 + variance)
        found, own = self._slopes(y, mean, scale, parameters)
        by_distance = _stacked(mean, [each.moved for each in own])
        return Tilted(found.value, -found.first * scale, found.second * scale**2, by_distance)

    def log_probabilities(self, mean: Array, variance: Array, parameters: Array) -> Any:
        """Return log probabilities of all grades under normal scores.

        Parameters
        ----------
        mean, variance : array of shape (...,)
            Mean and variance of every score.
        parameters : array of shape (n_levels - 2, ...)
            Distances of the cut points.

        Returns
        -------
        array of shape (n_levels, ...)
            Logarithms of probabilities, which sum to one over the grades.
        """
        xp = namespace(mean)
        nothing = xp.zeros_like(mean)
        scale = 1.0 / xp.sqrt(1.0 + variance)
        ends = [-xp.inf + nothing, *((cut - mean) * scale for cut in self.cuts(parameters)), xp.inf + nothing]
        return xp.stack(
            [log_mass_slopes(LAW, lower, upper, [(0.0, 0.0)])[0].value for lower, upper in pairwise(ends)]
        )

    def predict(self, mean: Array, variance: Array, parameters: Array, y: Array | None = None) -> Predicted:
        """Return moments of the grade, as a number."""
        p = namespace(mean).exp(self.log_probabilities(mean, variance, parameters))
        grade = namespace(mean).arange(self.n_levels).reshape(-1, *(1,) * mean.ndim)
        average = (grade * p).sum(axis=0)
        return Predicted(average, ((grade - average) ** 2 * p).sum(axis=0))

    def noise_variance(self, y: np.ndarray, parameters: np.ndarray) -> Any:
        """Return the variance of the noise in units of the score."""
        return np.ones(parameters.shape[1:])

    def sample(
        self, score: np.ndarray, parameters: np.ndarray, rng: np.random.Generator, y: np.ndarray | None = None
    ) -> np.ndarray:
        """Draw a grade for every score."""
        noisy = score + rng.standard_normal(score.shape)
        return sum((noisy > cut).astype(float) for cut in self.cuts(parameters))


def _stacked(score: Array, by_parameters: list[Any]) -> Any:
    """Return derivatives by the parameters as one array, also where there are none."""
    return namespace(score).stack(by_parameters) if by_parameters else no_parameters(score)


# ---------------------------------------------------------------------------- what grades say to closed-form updates


LARGEST = 1e8  # stands for infinite ends, where all densities are zero
RIDGE = 1e-12  # on the curvature by the distances, relative to its trace
ROUNDING = 1e-13  # of the sum of log Z, relative
HALVINGS = 30  # of a Newton step, at most


class _Grades(NamedTuple):
    cut_slopes: Any  # derivatives of the cut points by their distances, (n_levels - 1, n_levels - 2)
    distances: Any = None  # of cut points that are known, for densities of draws; no update reads them


class Grades(_Grades, Outcome):
    """Ordered classes y_i = 1.0 to K, 0.0 of a sample that is none: between which cut points the score lies.

    With c_0 = -inf < c_1 < ... < c_K = inf, y_i = k | f_i ~ 1{c_{k-1} < f_i <= c_k}. Cut points are parameters, not
    variables: they maximize the bound. The unit noise of the scores fixes their scale. A shift of all cut points is
    one of the intercept, which has a prior, so they are held at the mean zero, and what is free are the K - 2
    distances of neighbors. Two grades have none: their model is that of `Labels` without a margin.

        q(f_i) = N(f_i; μ_i, 1) 1{c_{k-1} < f_i <= c_k} / Z_i,    Z_i = Φ(c_k - μ_i) - Φ(c_{k-1} - μ_i),    k = y_i.

    At this optimum of q(f) the bound depends on the cut points by Σ_i log Z_i alone, which is concave in them and so
    in their distances (Burridge 1981; Pratt 1981). Every sweep takes one Newton step in the distances, halved until
    that sum does not fall, and then sets q(f): the bound never falls.
    """

    has_cuts = True

    @property
    def likelihood(self) -> OrdinalProbit:
        """The likelihood of grades, from 0, whose score has unit noise."""
        return OrdinalProbit(len(self.cut_slopes) + 1)

    def distances_in(self, scale: np.ndarray) -> np.ndarray:
        """Return the known distances in units of `scale`, with a first axis for the distances."""
        return self.distances.reshape(-1, *(1,) * scale.ndim) / scale

    def initial_noise(self, n_samples: int, rng: np.random.Generator | None) -> Any:
        """Return where scores start between their cut points: at a random share of the probability, or the mean."""
        return None if rng is None else 1.0 - rng.random(n_samples)

    def start(self, y: Array, share: Array | None) -> tuple[Any, Any]:
        """Start standard normal scores, cut where they have the frequencies of the grades.

        `share` is the part of the probability between its two cut points that is below the start of every score,
        between 0 and 1; None starts scores at their means.
        """
        xp, special = namespace(y), special_functions(y)
        below = xp.stack([(y <= k).mean() for k in range(1, self.cut_slopes.shape[0] + 1)])
        quantiles = special.ndtri(below)
        distances = quantiles[1:] - quantiles[:-1]
        lower, upper = grade_ends(y, self.cut_slopes, distances)
        if share is None:
            return interval_moments(xp.zeros_like(y), lower, upper).mean, distances
        start, end = special.ndtr(lower), special.ndtr(upper)
        return special.ndtri(start + share * (end - start)), distances

    def update(self, y: Array, loc: Array, precision: Any, distances: Any) -> tuple[TruncatedMoments, Any]:
        """Move the cut points, and return q(f) with their distances."""
        distances, latent = update_cuts(y, self.cut_slopes, distances, loc)
        return latent, distances

    def log_density(self, y: np.ndarray, mean: np.ndarray, scale: np.ndarray) -> np.ndarray:
        """Return the log probability of grades; cut points must be known."""
        return self.likelihood.log_density(y - 1.0, mean / scale, self.distances_in(scale))


def grade_ends(y: Array, cut_slopes: Array, distances: Array) -> tuple[Any, Any]:
    """Return the cut points below and above every grade, infinite on both sides of a sample that is none.

    Parameters
    ----------
    y : array of shape (n_samples,)
        Grades from 1.0, 0.0 for none.
    cut_slopes : array of shape (n_levels - 1, n_levels - 2)
    distances : array of shape (n_levels - 2,)
    """
    xp, grade = namespace(y), y.astype(int)
    cuts, infinite = cut_slopes @ distances, xp.asarray([xp.inf], dtype=y.dtype)
    lower = xp.concatenate([-infinite, -infinite, cuts])
    upper = xp.concatenate([infinite, cuts, infinite])
    return lower[grade], upper[grade]


def update_cuts(y: Array, cut_slopes: Array, distances: Array, loc: Array) -> tuple[Any, TruncatedMoments]:
    """Move the cut points by a Newton step that does not lower Σ log Z, and return their distances, and q(f).

    Parameters
    ----------
    y, cut_slopes, distances
        As in `grade_ends`; there must be a sample of every grade.
    loc : array of shape (n_samples,)
        μ.
    """
    latent = interval_moments(loc, *grade_ends(y, cut_slopes, distances))
    if distances.shape[0] == 0:
        return distances, latent
    gradient, curvature = _cut_derivatives(y, cut_slopes, distances, loc, latent.log_normalizer)
    xp = namespace(y)
    ridge = RIDGE * xp.trace(curvature) * xp.eye(len(distances), dtype=loc.dtype)
    direction = xp.linalg.solve(curvature + ridge, gradient)
    total = latent.log_normalizer.sum()
    least = total - ROUNDING * xp.abs(total)

    # no distance falls below half of what it was
    longest = xp.where(direction < 0.0, 0.5 * distances / xp.where(direction < 0.0, -direction, 1.0), 1.0)
    size = xp.minimum(1.0, longest.min())

    def attempt(part: Any) -> tuple[Any, Any, TruncatedMoments]:
        moved = distances + part * size * direction
        return part, moved, interval_moments(loc, *grade_ends(y, cut_slopes, moved))

    def halve(found: tuple[Any, Any, TruncatedMoments]) -> tuple[Any, Any, TruncatedMoments]:
        part = 0.5 * found[0]
        return attempt(xp.where(part > 0.5**HALVINGS, part, 0.0))

    def is_too_far(found: tuple[Any, Any, TruncatedMoments]) -> Any:
        part, _, latent = found
        return (part > 0.0) & ~(latent.log_normalizer.sum() >= least)  # nor is NaN enough

    _, moved, latent = repeat(halve, attempt(xp.ones((), dtype=loc.dtype)), is_too_far)
    return moved, latent


def _cut_derivatives(
    y: Array, cut_slopes: Array, distances: Array, loc: Array, log_normalizer: Array
) -> tuple[Any, Any]:
    """Return the gradient of Σ log Z by the distances, and minus its second derivatives."""
    xp, n_levels = namespace(y), cut_slopes.shape[0] + 1
    start, end = (xp.clip(bound - loc, -LARGEST, LARGEST) for bound in grade_ends(y, cut_slopes, distances))
    at_start, at_end = (
        xp.exp(-0.5 * (bound**2 + LOG_2PI) - log_normalizer) for bound in (start, end)
    )  # densities at the ends of q(f)
    members = (y == xp.arange(1, n_levels + 1)[:, None]).astype(loc.dtype)  # (n_levels, n_samples)
    of_upper, of_lower = (
        members[:-1],
        members[1:],
    )  # by cut points: grades that end there, and that start there
    gradient = of_upper @ at_end - of_lower @ at_start
    bend = of_upper @ (at_end * (end + at_end)) + of_lower @ (at_start * (at_start - start))
    crossed = xp.diag(of_upper[1:] @ (at_start * at_end), 1)  # of the two cut points of a grade
    curvature = xp.diag(bend) - crossed - crossed.T
    return cut_slopes.T @ gradient, cut_slopes.T @ curvature @ cut_slopes


# ---------------------------------------------------------------------------------------------------- grades of users


def given_levels(levels: Any, y: Targets) -> np.ndarray | None:
    """Return the grades in ascending order, of `levels` or of an ordered categorical; None if neither says it.

    Parameters
    ----------
    levels : sequence or None
        As users give them.
    y : array-like of shape (n_samples,)
        Grades, before they are validated.

    Raises
    ------
    ValueError
        If `levels` are not at least two different grades.

    Examples
    --------
    >>> given_levels(["low", "high"], ["high", "low"])
    array(['low', 'high'], dtype='<U4')
    """
    if levels is None:
        kind = getattr(y, "dtype", None)
        if not getattr(kind, "ordered", False):
            return None
        seen: Any = y
        levels = [level for level in kind.categories if level in set(seen)]  # type: ignore[union-attr]
    listed = isinstance(levels, Sequence | np.ndarray) or hasattr(levels, "to_list")
    found = check_labels(levels) if listed and not isinstance(levels, str | bytes) else np.zeros(0)
    if found.ndim != 1 or len(np.unique(found)) != len(found) or len(found) < 2:
        raise ValueError(
            f"`levels` must be None or at least two different grades in ascending order; got {shown(levels)}."
        )
    return found


def number_grades(levels: np.ndarray | None, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the grades, ascending, and of every sample the place of its grade among them, from 0.

    Parameters
    ----------
    levels : ndarray of shape (n_levels,), or None
        Grades in ascending order; None takes those of `y` if they are numbers.
    y : ndarray of shape (n_samples,)
        Validated grades.

    Raises
    ------
    ValueError
        If grades are text without levels, there is only one, some are not among the levels, or a level has no sample.

    Examples
    --------
    >>> number_grades(np.array(["low", "high"]), np.array(["high", "low", "high"]))[1]
    array([1, 0, 1])
    """
    if levels is None:
        levels = np.unique(y)
        if levels.dtype.kind not in "biuf":
            raise ValueError(
                f"`levels` must give the order of grades that are text; got None, and {shown(y.tolist()[0])} in `y`. "
                'Pass them in ascending order, such as `levels=["low", "middle", "high"]`.'
            )
    levels = _all_seen(levels, y)
    sorter = np.argsort(levels)
    return levels, sorter[np.searchsorted(levels, y, sorter=sorter)]


def _all_seen(levels: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return the grades if they are those of the samples."""
    if len(levels) < 2:
        raise ValueError(
            f"`y` must hold at least two grades; got one class only: {levels.tolist()[0]!r}. Check how the training "
            "samples were selected."
        )
    unknown = np.setdiff1d(y, levels)
    if len(unknown):
        raise ValueError(
            f"`y` must hold grades of `levels`, {levels.tolist()}; got {unknown[:5].tolist()} too. Add them, or "
            "leave these samples out."
        )
    absent = np.setdiff1d(levels, y)
    if len(absent):
        raise ValueError(
            f"`y` must hold samples of every grade of `levels`; got none of {absent[:5].tolist()}, so their cut "
            "points cannot be learned. Remove them from `levels`, or merge them with their neighbors."
        )
    return levels
