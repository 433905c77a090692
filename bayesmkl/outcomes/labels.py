"""Labels: likelihoods of two classes, and the truncated moments of labels, and of classes that compete."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy import special
from scipy.special import log_ndtr

from bayesmkl._numerics.arrays import Array, is_numpy, namespace
from bayesmkl._numerics.largest_normal import largest_moments
from bayesmkl._numerics.truncated_normal import (
    LOG_2PI,
    TruncatedMoments,
    label_moments,
    log_normal_cdf,
    truncated_moments,
)
from bayesmkl._utils.docstrings import fulfil_docs
from bayesmkl.outcomes.base import Derivatives, Likelihood, Outcome, Predicted, Tilted, no_parameters, tilt

HALF_NORMAL_MEAN = np.sqrt(2.0 / np.pi)
FAR = (
    -50.0
)  # below it z and the ratio of density and distribution function cancel, and their sum is a short series


@fulfil_docs(Likelihood)
@dataclass(frozen=True)
class Probit(Likelihood):
    r"""Labels -1 and +1 by the sign of a noisy score: :math:`p(y_i \mid f_i) = \Phi(y_i f_i)`.

    With a margin, :math:`\Phi(y_i f_i - \nu)`, a score within the margin belongs to no label: densities of the two
    labels do not sum to one, and predictions are their ratio.

    Parameters
    ----------
    margin : float, default=0.0
        :math:`\nu`.

    Examples
    --------
    >>> import numpy as np
    >>> labels, nothing = np.array([1.0, -1.0]), np.zeros(0)
    >>> np.exp(Probit().log_density(labels, np.ones(2), nothing)).round(4)
    array([0.8413, 0.1587])
    """

    margin: float = 0.0

    def log_density(self, y: Array, score: Array, parameters: Array) -> Any:
        """Return the log density of every label."""
        return log_normal_cdf(y * score - self.margin)

    def derivatives(self, y: Array, score: Array, parameters: Array, order: int = 3) -> Derivatives:
        """Return derivatives of the log density."""
        z = y * score - self.margin
        _, ratio, second = log_cdf_derivatives(z)
        none = no_parameters(score)
        third = -second * (z + 2.0 * ratio) - ratio
        return Derivatives(y * ratio, second, y * third, none, none, none)

    def tilted(self, y: Array, mean: Array, variance: Array, parameters: Array) -> Tilted:
        """Integrate the density over normal scores (Rasmussen and Williams, eq. 3.82)."""
        xp = namespace(y)
        scale = 1.0 / xp.sqrt(1.0 + variance)
        z = (y * mean - self.margin) * scale
        log_cdf, ratio, second = log_cdf_derivatives(z)
        return Tilted(log_cdf, y * ratio * scale, second * scale**2, xp.zeros((0, *mean.shape)))

    def predict(self, mean: Array, variance: Array, parameters: Array, y: Array | None = None) -> Predicted:
        """Return moments of the label."""
        xp = namespace(mean)
        scale = 1.0 / xp.sqrt(1.0 + variance)
        own, other = (log_normal_cdf((side * mean - self.margin) * scale) for side in (1.0, -1.0))
        probability = xp.exp(own - xp.logaddexp(own, other)) if self.margin else xp.exp(own)
        return Predicted(2.0 * probability - 1.0, 4.0 * probability * (1.0 - probability))

    def noise_variance(self, y: np.ndarray, parameters: np.ndarray) -> Any:
        """Return the variance of the noise in units of the score."""
        return np.ones(parameters.shape[1:])

    def sample(
        self, score: np.ndarray, parameters: np.ndarray, rng: np.random.Generator, y: np.ndarray | None = None
    ) -> np.ndarray:
        """Draw a label for every score, as labels are observed."""
        mean = self.predict(score, np.zeros_like(score), parameters).mean
        return np.where(special.ndtri(0.5 + 0.5 * mean) + rng.standard_normal(score.shape) > 0.0, 1.0, -1.0)


@fulfil_docs(Likelihood)
@dataclass(frozen=True)
class Logit(Likelihood):
    r"""Labels -1 and +1 with log odds equal to the score: :math:`p(y_i \mid f_i) = 1 / (1 + e^{-y_i f_i})`.

    Examples
    --------
    >>> import numpy as np
    >>> labels, nothing = np.array([1.0, -1.0]), np.zeros(0)
    >>> np.exp(Logit().log_density(labels, np.ones(2), nothing)).round(4)
    array([0.7311, 0.2689])
    """

    def log_density(self, y: Array, score: Array, parameters: Array) -> Any:
        """Return the log density of every label."""
        xp = namespace(y)
        return -xp.logaddexp(xp.zeros_like(score), -y * score)

    def derivatives(self, y: Array, score: Array, parameters: Array, order: int = 3) -> Derivatives:
        """Return derivatives of the log density."""
        xp = namespace(y)
        wrong = xp.exp(self.log_density(-y, score, parameters))  # probability of the other label
        second = -wrong * (1.0 - wrong)
        none = no_parameters(score)
        return Derivatives(y * wrong, second, y * second * (2.0 * wrong - 1.0), none, none, none)

    def predict(self, mean: Array, variance: Array, parameters: Array, y: Array | None = None) -> Predicted:
        """Return moments of the label."""
        xp = namespace(mean)
        probability = xp.exp(tilt(self, xp.ones_like(mean), mean, variance, parameters).log_normalizer)
        return Predicted(2.0 * probability - 1.0, 4.0 * probability * (1.0 - probability))

    def noise_variance(self, y: np.ndarray, parameters: np.ndarray) -> Any:
        """Return the variance of the noise in units of the score."""
        return np.full(parameters.shape[1:], math.pi**2 / 3.0)

    def sample(
        self, score: np.ndarray, parameters: np.ndarray, rng: np.random.Generator, y: np.ndarray | None = None
    ) -> np.ndarray:
        """Draw a label for every score."""
        return np.where(score + rng.logistic(size=score.shape) > 0.0, 1.0, -1.0)


def log_cdf_derivatives(z: Array) -> tuple[Any, Any, Any]:
    """Return the logarithm of the normal distribution function and two derivatives, with all digits in both tails."""
    if is_numpy(z):
        ratio = math.sqrt(2.0 / math.pi) / special.erfcx(-z / math.sqrt(2.0))
        w = 1.0 / np.minimum(z, FAR) ** 2
        excess = np.where(
            z < FAR, -z * w * (1.0 - w * (2.0 - w * (10.0 - w * (74.0 - 706.0 * w)))), z + ratio
        )
        return special.log_ndtr(z), ratio, -ratio * excess
    xp = namespace(z)
    above = truncated_moments(z, xp.ones_like(z), 0.0)
    ratio = xp.where(z < 0.0, above.mean - z, xp.exp(-0.5 * z * z - 0.5 * LOG_2PI - above.log_normalizer))
    second = xp.where(z < 0.0, above.variance - 1.0, -ratio * (z + ratio))
    return above.log_normalizer, ratio, second


# ---------------------------------------------------------------------------- what labels say to closed-form updates


class _Margin(NamedTuple):
    margin: Any  # ν


class _Beyond(_Margin, Outcome):
    def initial_noise(self, n_samples: int, rng: np.random.Generator | None) -> np.ndarray:
        """Return how far scores start beyond the margin: |N(0, 1)|, or its mean everywhere."""
        return np.full(n_samples, HALF_NORMAL_MEAN) if rng is None else np.abs(rng.standard_normal(n_samples))


class Labels(_Beyond):
    """Labels -1.0 and +1.0 of one output or several, y_i | f_i ~ 1{y_i f_i > ν}.

    An unlabeled sample, y_i = 0, has a score on either side of the margin, 1{|f_i| > ν}: the gap between the classes
    is a category that no sample belongs to (Lawrence and Jordan 2005; `bemkl.model`).
    """

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


class Classes(_Beyond):
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

    competes = True

    def start(self, y: Array, magnitude: Array) -> tuple[Any, Any]:
        """Start scores that are largest for the right class, `magnitude` beyond the margin, and have sum zero."""
        share = 0.5 * (y + 1.0) - 1.0 / y.shape[0]
        return share * (self.margin + magnitude), None

    def update(self, y: Array, loc: Array, precision: Any, distances: Any) -> tuple[TruncatedMoments, Any]:
        """Return q(f), with entropies and normalizers of shape (n_samples,)."""
        return largest_moments(loc, y, self.margin), None


def log_beyond(mean: np.ndarray, margin: Array | float) -> np.ndarray:
    """Return ``log P(y f > margin)`` for y = -1 and +1 along a last axis, all in units of the standard deviation.

    The two do not sum to one: a score within the margin belongs to no label.
    """
    return log_ndtr(np.stack([-mean - margin, mean - margin], axis=-1))
