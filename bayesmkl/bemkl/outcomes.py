r"""What targets say of the scores of BEMKL (`model`): all in which its models differ.

With μ_i = E[e]' E[g_i] + E[b], an outcome starts the scores f, or the targets themselves, and finds q(f) from μ: a
normal distribution cut off to where its target says that the score is.

* `Labels`: one label, or several, y_i f_i > ν (Gönen 2012, §§3, 5.1, 5.2).
* `Classes`: classes that compete, f_ci > f_ji + ν for c = y_i and every other j.
* `Grades`: ordered classes, c_{k-1} < f_i <= c_k for k = y_i.
* `Numbers`: the target is the score, with noise of unknown precisions υ and ε.
* `Intervals`: the target is known to an interval only, l_i < f_i <= u_i, as in survival.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from scipy.special import log_ndtr

from bayesmkl._numerics.arrays import Array, is_numpy, namespace, special_functions
from bayesmkl._numerics.largest_normal import largest_moments
from bayesmkl._numerics.truncated_normal import LOG_2PI, TruncatedMoments, interval_moments, label_moments
from bayesmkl.outcomes import FailureTime, OrdinalProbit

LARGEST = 1e8  # stands for infinite ends, where all densities are zero
RIDGE = 1e-12  # on the curvature by the distances, relative to its trace
ROUNDING = 1e-13  # of the sum of log Z, relative
HALVINGS = 30  # of a Newton step, at most


class Labels(NamedTuple):
    """Labels -1.0 and +1.0 of one output or several, y_i | f_i ~ 1{y_i f_i > ν}.

    An unlabeled sample, y_i = 0, has a score on either side of the margin, 1{|f_i| > ν}: the gap between the classes
    is a category that no sample belongs to (Lawrence and Jordan 2005; `semisupervised`).
    """

    margin: Any  # ν

    @property
    def has_noise(self) -> bool:
        """Whether υ and ε are learned."""
        return False

    @property
    def is_observed(self) -> bool:
        """Whether the targets are the scores."""
        return False

    def start(self, y: Array, magnitude: Array) -> tuple[Any, Any]:
        """Start scores on the right side of the margin, `magnitude` beyond it."""
        return y * (self.margin + magnitude), None

    def update(self, y: Array, loc: Array, precision: Any, distances: Any) -> tuple[TruncatedMoments, Any]:
        """Return q(f): normal beyond the margin, on the side of the label."""
        return label_moments(loc, y, self.margin), None

    def log_density(self, y: np.ndarray, mean: np.ndarray, scale: np.ndarray) -> np.ndarray:
        """Return ``log P(y f > margin)``, of unlabeled samples ``log P(|f| > margin)``."""
        log_p = log_ndtr((y * mean - self.margin) / scale)
        unlabeled = y == 0.0  # such a sample is on one side or the other
        if unlabeled.any():
            sides = log_beyond(mean / scale, self.margin / scale)[:, unlabeled]
            log_p[:, unlabeled] = np.logaddexp.reduce(sides, axis=-1)
        return log_p


class Classes(NamedTuple):
    """Classes that compete: the score of the sample's own class is the largest, by the margin.

    y is +1.0 for the class of a sample, -1.0 for the others (Albert and Chib 1993; Girolami and Rogers 2006). The
    paper has one binary likelihood per class in its place (§5.1), so that the probabilities of the classes need not
    sum to one; here they do. q(f_i) is one distribution over the scores of all classes: independent normal ones given
    that the right one is the largest. Its expectations and its normalizer are integrals over one variable, taken by
    Gauss and Hermite's rule (`largest_normal`).

    Identifiability: the likelihood knows only differences of scores. Their scale is fixed by the unit noise. Their
    common level, f_ci + h_i for all c, is left to the priors on a and b, which have mean zero: all classes keep their
    scores, and none is singled out as a reference with score zero, so that the result does not depend on the order of
    the classes. q(f_i) leaves the sum over classes where it was, sum_c E[f_ci] = sum_c E[e' g_ci + b_c], and the
    start has sum zero.

    The margin ν is the paper's, here between the right class and the best of the others; ν = 0 is the model of
    Girolami and Rogers, whose likelihood sums to one over the classes.

    References: Albert, J. H. and Chib, S. (1993), Bayesian analysis of binary and polychotomous response data,
    Journal of the American Statistical Association 88. Girolami, M. and Rogers, S. (2006), Variational Bayesian
    multinomial probit regression with Gaussian process priors, Neural Computation 18.
    """

    margin: Any  # ν

    @property
    def has_noise(self) -> bool:
        """Whether υ and ε are learned."""
        return False

    @property
    def is_observed(self) -> bool:
        """Whether the targets are the scores."""
        return False

    def start(self, y: Array, magnitude: Array) -> tuple[Any, Any]:
        """Start scores that are largest for the right class, `magnitude` beyond the margin, and have sum zero."""
        share = 0.5 * (y + 1.0) - 1.0 / y.shape[0]
        return share * (self.margin + magnitude), None

    def update(self, y: Array, loc: Array, precision: Any, distances: Any) -> tuple[TruncatedMoments, Any]:
        """Return q(f), with entropies and normalizers of shape (n_samples,)."""
        return largest_moments(loc, y, self.margin), None


class Numbers(NamedTuple):
    """Targets of one output or several that are the scores themselves, with the noise precisions υ and ε learned."""

    @property
    def has_noise(self) -> bool:
        """Whether υ and ε are learned."""
        return True

    @property
    def is_observed(self) -> bool:
        """Whether the targets are the scores."""
        return True

    def start(self, y: Array, noise: Array) -> tuple[Any, Any]:
        """Return the targets."""
        return y, None

    def update(self, y: Array, loc: Array, precision: Any, distances: Any) -> tuple[None, Any]:
        """Return no factor: the target is known."""
        return None, None

    def log_density(self, y: np.ndarray, mean: np.ndarray, scale: np.ndarray) -> np.ndarray:
        """Return the log density of normal targets."""
        return -0.5 * (((y - mean) / scale) ** 2 + LOG_2PI) - np.log(scale)


class Intervals(NamedTuple):
    """Targets of which the ends of an interval are observed, y_i < f_i <= u_i, noise as that of `Numbers`.

    Where both ends are equal, the target itself is. An infinite upper end is right censoring, a lower one that is
    minus infinite left censoring. A target that was not observed is one more latent variable,

        q(f_i) = N(f_i; μ_i, 1/E[ε]) 1{y_i < f_i <= u_i} / Z_i,

    and its variance is added to the squared residual of which q(ε) learns. Where all targets are observed every sweep
    is that of `Numbers`.
    """

    upper: Any  # upper ends u, (n_samples,); the targets are the lower ones

    @property
    def has_noise(self) -> bool:
        """Whether υ and ε are learned."""
        return True

    @property
    def is_observed(self) -> bool:
        """Whether the targets are the scores."""
        return False

    def start(self, y: Array, noise: Array) -> tuple[Any, Any]:
        """Start targets that were not observed at their expectation under a standard normal law."""
        return update_targets(y, self.upper, namespace(y).zeros_like(y), 1.0).mean, None

    def update(self, y: Array, loc: Array, precision: Any, distances: Any) -> tuple[TruncatedMoments, Any]:
        """Return q(f), without variance and entropy where a target was observed."""
        return update_targets(y, self.upper, loc, precision), None

    def log_density(self, y: np.ndarray, mean: np.ndarray, scale: np.ndarray) -> np.ndarray:
        """Return the log density of a target, or the log probability of its interval."""
        targets = np.array([y, self.upper, np.full_like(y, -np.inf)])
        return FailureTime().log_density(targets, mean, np.broadcast_to(scale, mean.shape)[None])


class Grades(NamedTuple):
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

    cut_slopes: Any  # derivatives of the cut points by their distances, (n_levels - 1, n_levels - 2)
    distances: Any = None  # of cut points that are known, for densities of draws; no update reads them

    @property
    def has_noise(self) -> bool:
        """Whether υ and ε are learned."""
        return False

    @property
    def is_observed(self) -> bool:
        """Whether the targets are the scores."""
        return False

    @property
    def likelihood(self) -> OrdinalProbit:
        """The likelihood of grades, from 0, whose score has unit noise."""
        return OrdinalProbit(len(self.cut_slopes) + 1)

    def distances_in(self, scale: np.ndarray) -> np.ndarray:
        """Return the known distances in units of `scale`, with a first axis for the distances."""
        return self.distances.reshape(-1, *(1,) * scale.ndim) / scale

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


Outcome: TypeAlias = Labels | Classes | Numbers | Intervals | Grades


def log_beyond(mean: np.ndarray, margin: Array | float) -> np.ndarray:
    """Return ``log P(y f > margin)`` for y = -1 and +1 along a last axis, all in units of the standard deviation.

    The two do not sum to one: a score within the margin belongs to no label.
    """
    return log_ndtr(np.stack([-mean - margin, mean - margin], axis=-1))


# --------------------------------------------------------------------------------------------- censored targets


def update_targets(lower: Array, upper: Array, loc: Array, precision: Array | float) -> TruncatedMoments:
    """Return q(z): normal between its ends, and a point where these are equal.

    Parameters
    ----------
    lower, upper : arrays of shape (n_samples,)
        Ends.
    loc : array of shape (n_samples,)
        μ.
    precision : float
        E[ε].
    """
    xp = namespace(lower)
    root, is_observed = xp.sqrt(precision * xp.ones_like(loc)), lower == upper
    end = xp.where(is_observed, lower + 1.0, upper)
    mean, variance, entropy, log_normalizer = interval_moments(root * loc, root * lower, root * end)
    return TruncatedMoments(
        xp.where(is_observed, lower, mean / root),
        xp.where(is_observed, 0.0, variance / root**2),
        xp.where(is_observed, 0.0, entropy - xp.log(root)),
        xp.where(is_observed, 0.0, log_normalizer),
    )


# ------------------------------------------------------------------------------------------------- cut points


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

    def attempt(part: Any) -> tuple[Any, TruncatedMoments]:
        moved = distances + part * size * direction
        return moved, interval_moments(loc, *grade_ends(y, cut_slopes, moved))

    def is_enough(found: tuple[Any, TruncatedMoments]) -> Any:
        return found[1].log_normalizer.sum() >= least

    return (_halve if is_numpy(y) else _halve_on_jax)(attempt, is_enough)


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


def _halve(attempt: Callable[[Any], Any], is_enough: Callable[[Any], Any]) -> Any:
    """Return the first attempt that is enough, with parts 1, 1/2, 1/4, ... of a step, or that with none of it."""
    for number in range(HALVINGS):
        found = attempt(0.5**number)
        if is_enough(found):
            return found
    return attempt(0.0)


def _halve_on_jax(attempt: Callable[[Any], Any], is_enough: Callable[[Any], Any]) -> Any:
    import jax

    least = 0.5**HALVINGS
    part = jax.lax.while_loop(
        lambda part: (part > least) & ~is_enough(attempt(part)), lambda part: 0.5 * part, jax.numpy.ones(())
    )
    return attempt(jax.numpy.where(part > least, part, 0.0))
