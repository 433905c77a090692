"""Numbers: normal noise, noise with outliers, and noise that differs between samples."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from scipy.special import ndtr

from bayesmkl._numerics.arrays import Array, namespace, special_functions
from bayesmkl._numerics.truncated_normal import LOG_2PI
from bayesmkl._utils.docstrings import fulfil_docs
from bayesmkl._utils.given import check_magnitude, check_numbers, is_missing
from bayesmkl._utils.typing import Targets
from bayesmkl._utils.warnings import warn_user
from bayesmkl.kernels.geometry import weighted_median
from bayesmkl.kernels.sparse import SparseTable
from bayesmkl.outcomes.base import (
    TARGET,
    Derivatives,
    Likelihood,
    LogNormal,
    Outcome,
    Predicted,
    Tilted,
    log_normal,
)

NOISE = LogNormal(0.3, 1.5)
N_NODES = 161  # of the precision of the noise of one target
LEAST_LOG_WEIGHT = 40.0  # of them, below the highest


@fulfil_docs(Likelihood)
@dataclass(frozen=True)
class Gaussian(Likelihood):
    r"""Normal noise: :math:`y_i \mid f_i \sim N(f_i, \phi^2)` with the standard deviation :math:`\phi`.

    Parameters
    ----------
    noise_prior : LogNormal, default=LogNormal(0.3, 1.5)
        Prior of the standard deviation, in units of the standardized target.

    Examples
    --------
    >>> import numpy as np
    >>> Gaussian().log_density(np.zeros(1), np.zeros(1), np.array([1.0])).round(4)
    array([-0.9189])
    """

    noise_prior: LogNormal = NOISE

    names = ("noise_std",)

    def log_density(self, y: Array, score: Array, parameters: Array) -> Any:
        """Return the log density of every target."""
        return log_normal(y - score, parameters[0] ** 2)

    def derivatives(self, y: Array, score: Array, parameters: Array, order: int = 3) -> Derivatives:
        """Return derivatives of the log density."""
        rest, variance = y - score, parameters[0] ** 2
        by_std = (rest**2 / variance - 1.0) / parameters[0]
        if order == 0:
            return Derivatives(None, None, None, by_std[None], None, None)
        one = namespace(y).ones_like(rest)
        if order == 2:
            return Derivatives(rest / variance, -one / variance, None, by_std[None], None, None)
        precision_by_std = -2.0 / (variance * parameters[0])
        return Derivatives(
            rest / variance,
            -one / variance,
            0.0 * one,
            by_std[None],
            (precision_by_std * rest)[None],
            (-precision_by_std * one)[None],
        )

    def tilted(self, y: Array, mean: Array, variance: Array, parameters: Array) -> Tilted:
        """Integrate the density over normal scores."""
        total = variance + parameters[0] ** 2
        rest = y - mean
        by_std = (rest**2 / total - 1.0) / total * parameters[0]
        return Tilted(log_normal(rest, total), rest / total, -1.0 / total, by_std[None])

    def predict(self, mean: Array, variance: Array, parameters: Array, y: Array | None = None) -> Predicted:
        """Return moments of the target."""
        return Predicted(mean, variance + parameters[0] ** 2)

    def noise_variance(self, y: np.ndarray, parameters: np.ndarray) -> Any:
        """Return the variance of the noise in units of the score."""
        return parameters[0] ** 2

    def cdf(
        self, y: np.ndarray, mean: np.ndarray, variance: np.ndarray, parameters: np.ndarray
    ) -> np.ndarray:
        """Return the probability of targets below `y` under normal scores.

        Parameters
        ----------
        y : ndarray of shape (n_samples,)
            Targets.
        mean, variance : ndarray of shape (n_samples,)
            Mean and variance of every score.
        parameters : ndarray of shape (n_parameters,)
            Parameters of the likelihood.

        Returns
        -------
        ndarray of shape (n_samples,)
            Probabilities.
        """
        return ndtr((y - mean) / np.sqrt(variance + parameters[0] ** 2))

    def sample(
        self, score: np.ndarray, parameters: np.ndarray, rng: np.random.Generator, y: np.ndarray | None = None
    ) -> np.ndarray:
        """Draw a target for every score."""
        return score + parameters[0] * rng.standard_normal(score.shape)


@fulfil_docs(Likelihood)
@dataclass(frozen=True)
class StudentT(Likelihood):
    r"""Noise with outliers: :math:`y_i = f_i + \sigma t_i` with a Student t of :math:`\nu` degrees of freedom.

    This is normal noise with a precision that is drawn for every sample from a Gamma distribution, so a target far
    from its score has little influence. The likelihood is not log-concave in the score.

    Parameters
    ----------
    noise_prior : LogNormal, default=LogNormal(0.3, 1.5)
        Prior of the scale :math:`\sigma`, in units of the standardized target.
    df_prior : LogNormal, default=LogNormal(6.0, 1.0, least=2.0)
        Prior of :math:`\nu`, which is above two because targets would otherwise have no variance. A few samples
        contain little information about it: the posterior mean then stays near the prior mean, 11.9, even if tails
        are heavier.

    Examples
    --------
    >>> import numpy as np
    >>> StudentT().log_density(np.zeros(1), np.zeros(1), np.array([1.0, 4.0])).round(4)
    array([-0.9808])
    """

    noise_prior: LogNormal = NOISE
    df_prior: LogNormal = LogNormal(6.0, 1.0, 2.0)

    names = ("noise_std", "df")

    def log_density(self, y: Array, score: Array, parameters: Array) -> Any:
        """Return the log density of every target."""
        return self.log_density_of_square((y - score) ** 2, parameters)

    def log_density_of_square(self, square: Array, parameters: Array) -> Any:
        """Return the log density of a target at a squared distance from its score.

        Parameters
        ----------
        square : array of shape (n_samples,)
            Squared distances.
        parameters : array of shape (2,)
            Scale and degrees of freedom.

        Returns
        -------
        array of shape (n_samples,)
            Log densities.
        """
        xp, special = namespace(square), special_functions(square)
        scale, df = parameters
        constant = special.gammaln(0.5 * (df + 1.0)) - special.gammaln(0.5 * df) - 0.5 * xp.log(df * math.pi)
        return constant - xp.log(scale) - 0.5 * (df + 1.0) * xp.log1p(square / (df * scale**2))

    def derivatives(self, y: Array, score: Array, parameters: Array, order: int = 3) -> Derivatives:
        """Return derivatives of the log density."""
        xp, (scale, df) = namespace(score), parameters
        rest = y - score
        own, by_scale, by_df = df * scale**2, 2.0 * df * scale, scale**2
        total, more = own + rest**2, df + 1.0
        by_total = more * (3.0 * rest**2 - own) / total**3  # of `second`, which falls by it
        return Derivatives(
            more * rest / total,
            -more * (own - rest**2) / total**2,
            -2.0 * more * rest * (3.0 * own - rest**2) / total**3,
            self.parameter_slopes_of_square(rest**2, parameters),
            xp.stack([-more * rest * by_scale / total**2, rest / total - more * rest * by_df / total**2]),
            xp.stack([-by_total * by_scale, -(own - rest**2) / total**2 - by_total * by_df]),
        )

    def parameter_slopes_of_square(self, square: Array, parameters: Array) -> Any:
        """Return derivatives of the log density by the parameters.

        Parameters
        ----------
        square : array of shape (n_samples,)
            Squared distances.
        parameters : array of shape (2,)
            Scale and degrees of freedom.

        Returns
        -------
        array of shape (2, n_samples)
            By scale and degrees of freedom.
        """
        xp, special, (scale, df) = namespace(square), special_functions(square), parameters
        own = df * scale**2
        gammas = special.digamma(0.5 * (df + 1.0)) - special.digamma(0.5 * df)
        far = (df + 1.0) * square / (own + square)
        return xp.stack([(far - 1.0) / scale, 0.5 * (gammas - 1.0 / df - xp.log1p(square / own) + far / df)])

    def tilted(self, y: Array, mean: Array, variance: Array, parameters: Array) -> Tilted:
        """Integrate the density over normal scores, as a mixture over the precision of the noise."""
        xp, special, (scale, df) = namespace(mean), special_functions(mean), parameters
        rest, shape = y - mean, 0.5 * df
        log_weight, noise, bent = self._mixture(parameters, rest)
        spread = variance + noise
        log_terms = log_weight + log_normal(rest, spread)
        most = log_terms.max(axis=0)
        terms = xp.exp(log_terms - most)
        total = terms.sum(axis=0)
        part = terms / total
        pull = rest / spread
        first = (part * pull).sum(axis=0)
        by_spread = 0.5 * (pull**2 - 1.0 / spread)
        by_weight = 0.5 * (xp.log(shape) + 1.0 - special.digamma(shape) + bent)
        return Tilted(
            most + xp.log(total),
            first,
            (part * (pull**2 - 1.0 / spread)).sum(axis=0) - first**2,
            xp.stack([(part * by_spread * 2.0 * noise / scale).sum(axis=0), (part * by_weight).sum(axis=0)]),
        )

    def _mixture(self, parameters: Array, rest: Array) -> tuple[Any, Any, Any]:
        """Return log weights and variances of normal distributions that make noise as large as `rest`.

        The last array is what the log weights are half of `df` times, but for a constant.
        """
        xp, special, (scale, df) = namespace(parameters), special_functions(parameters), parameters
        heavy = 2.0 * LEAST_LOG_WEIGHT / df
        far = xp.log1p((rest / scale) ** 2 / df)  # the precision of an outlier is so much lower
        lowest, highest = -heavy - xp.sqrt(2.0 * heavy) - far, xp.log1p(heavy + xp.sqrt(2.0 * heavy))
        log_precision = lowest + (highest - lowest) * xp.linspace(0.0, 1.0, N_NODES)[:, None]
        shape = 0.5 * df
        precision = xp.exp(log_precision)
        bent = log_precision - precision
        constant = shape * xp.log(shape) - special.gammaln(shape) + xp.log((highest - lowest) / (N_NODES - 1))
        return shape * bent + constant, scale**2 / precision, bent

    def predict(self, mean: Array, variance: Array, parameters: Array, y: Array | None = None) -> Predicted:
        """Return moments of the target."""
        scale, df = parameters
        return Predicted(mean, variance + scale**2 * df / (df - 2.0))

    def noise_variance(self, y: np.ndarray, parameters: np.ndarray) -> Any:
        """Return the variance of the noise in units of the score."""
        scale, df = parameters
        return scale**2 * df / (df - 2.0)

    def cdf(
        self, y: np.ndarray, mean: np.ndarray, variance: np.ndarray, parameters: np.ndarray
    ) -> np.ndarray:
        """Return the probability of targets below `y` under normal scores.

        Parameters
        ----------
        y : ndarray of shape (n_samples,)
            Targets.
        mean, variance : ndarray of shape (n_samples,)
            Mean and variance of every score.
        parameters : ndarray of shape (n_parameters,)
            Parameters of the likelihood.

        Returns
        -------
        ndarray of shape (n_samples,)
            Probabilities.
        """
        log_weights, noise, _ = self._mixture(parameters, y - mean)
        weights = np.exp(log_weights)
        return (weights * ndtr((y - mean) / np.sqrt(variance + noise))).sum(axis=0) / weights.sum(axis=0)

    def sample(
        self, score: np.ndarray, parameters: np.ndarray, rng: np.random.Generator, y: np.ndarray | None = None
    ) -> np.ndarray:
        """Draw a target for every score."""
        scale, df = parameters
        return score + scale * rng.standard_t(np.broadcast_to(df, score.shape))


@fulfil_docs(Likelihood)
@dataclass(frozen=True)
class Heteroscedastic(Likelihood):
    r"""Noise with the standard deviation :math:`\phi_{t_i} / \sqrt{\lambda_i}` of a task and a known precision.

    The fields of a target are its value, the position :math:`t_i` of its task, and its precision :math:`\lambda_i`
    relative to other samples. The mean of `n` measurements has precision `n`.

    Parameters
    ----------
    likelihood : Gaussian or StudentT
        Likelihood of a value. Its first parameter is the scale of the noise; other parameters are the same for all
        samples.
    tasks : tuple of str, default=()
        Names of the tasks, each with its own scale. Empty if all samples belong to the same task.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesmkl.outcomes import Gaussian, Heteroscedastic
    >>> likelihood = Heteroscedastic(Gaussian(), ("north", "south"))
    >>> likelihood.names
    ('noise_std[north]', 'noise_std[south]')
    >>> zero_in_the_south_from_four = np.array([[0.0], [1.0], [4.0]])
    >>> likelihood.log_density(zero_in_the_south_from_four, np.zeros(1), np.array([1.0, 2.0])).round(4)
    array([-0.9189])
    """

    likelihood: Gaussian | StudentT
    tasks: tuple[str, ...] = ()

    @property
    def n_scales(self) -> int:
        """Number of scales."""
        return max(len(self.tasks), 1)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the parameters; those of scales name the task."""
        first, *rest = self.likelihood.names
        return *((f"{first}[{task}]" for task in self.tasks) if self.tasks else (first,)), *rest

    @property
    def priors(self) -> tuple[LogNormal, ...]:
        """Priors of the parameters."""
        first, *rest = self.likelihood.priors
        return *(first,) * self.n_scales, *rest

    def log_density(self, y: Array, score: Array, parameters: Array) -> Any:
        """Return the log density of every target."""
        return self.likelihood.log_density(y[..., 0, :], score, self.of_samples(y, parameters))

    def derivatives(self, y: Array, score: Array, parameters: Array, order: int = 3) -> Derivatives:
        """Return derivatives of the log density."""
        own = self.of_samples(y, parameters)
        found = self.likelihood.derivatives(y[..., 0, :], score, own, order)
        by_parameters = {
            name: self.pull(y, getattr(found, name))
            for name in ("parameters", "first_parameters", "second_parameters")
            if getattr(found, name) is not None
        }
        return found._replace(**by_parameters)

    def tilted(self, y: Array, mean: Array, variance: Array, parameters: Array) -> Tilted:
        """Integrate the density over normal scores."""
        found = self.likelihood.tilted(y[..., 0, :], mean, variance, self.of_samples(y, parameters))
        return found._replace(parameters=self.pull(y, found.parameters))

    def predict(self, mean: Array, variance: Array, parameters: Array, y: Array | None = None) -> Predicted:
        """Return moments of targets, whose other fields are those of `y`."""
        assert y is not None
        return self.likelihood.predict(mean, variance, self.of_samples(y, parameters))

    def noise_variance(self, y: np.ndarray, parameters: np.ndarray) -> Any:
        """Return the mean variance of the noise of the samples."""
        own = self.of_samples(y, parameters[..., None])
        return self.likelihood.noise_variance(y[0], own).mean(axis=-1)

    def cdf(
        self, y: np.ndarray, mean: np.ndarray, variance: np.ndarray, parameters: np.ndarray
    ) -> np.ndarray:
        """Return the probability of targets below `y` under normal scores.

        Parameters
        ----------
        y : ndarray of shape (3, n_samples)
            Targets.
        mean, variance : ndarray of shape (n_samples,)
            Mean and variance of every score.
        parameters : ndarray of shape (n_parameters,)
            Parameters of the likelihood.

        Returns
        -------
        ndarray of shape (n_samples,)
            Probabilities.
        """
        return self.likelihood.cdf(y[0], mean, variance, self.of_samples(y, parameters))

    def sample(
        self, score: np.ndarray, parameters: np.ndarray, rng: np.random.Generator, y: np.ndarray | None = None
    ) -> np.ndarray:
        """Draw the number of a target for every score, with task and precision of `y`."""
        assert y is not None
        return self.likelihood.sample(score, self.of_samples(y, parameters), rng)

    def of_samples(self, y: Array, parameters: Array) -> Any:
        """Return the parameters of every sample, of the likelihood of numbers.

        Parameters
        ----------
        y : array of shape (3, n_samples), or with more axes in front
            Targets, of which only the last two fields are read.
        parameters : array of shape (n_parameters,), or with axes of which the last, of length one, is that of samples
            Parameters.

        Returns
        -------
        array of shape (1 or 2, ..., n_samples)
            Scale of the noise, and what else there is.
        """
        xp, n_scales = namespace(parameters), self.n_scales
        task, precision = task_and_precision(y)
        scales = parameters[:n_scales]
        scales = scales[task] if scales.ndim == 1 else xp.moveaxis(scales[..., 0], 0, -1)[..., task]
        scales = scales / xp.sqrt(precision)
        rest = [xp.broadcast_to(one, scales.shape) for one in parameters[n_scales:]]
        return xp.stack([scales, *rest])

    def pull(self, y: Array, by_samples: Array) -> Any:
        """Pull slopes by the parameters of samples back to the parameters, (n_parameters, n_samples).

        Parameters
        ----------
        y : array of shape (3, n_samples)
            Targets.
        by_samples : array of shape (1 or 2, n_samples), or with axes of scores after the first
            Slopes by what `of_samples` returns.

        Returns
        -------
        array of shape (n_parameters, n_samples), or with axes of scores after the first
            Slopes by every parameter; those by the scale of another task are zero.
        """
        xp = namespace(by_samples)
        task, precision = task_and_precision(y)
        by_scale = by_samples[0] / xp.sqrt(precision)
        each = [xp.where(task == t, by_scale, 0.0) for t in range(self.n_scales)]
        return xp.stack([*each, *by_samples[1:]])


def task_and_precision(y: Any) -> tuple[Any, Any]:
    """Return the last two fields of targets of `Heteroscedastic`, of the first output: all have the same."""
    first = y[(0,) * (y.ndim - 2)]
    return first[-2].astype(int), first[-1]


# --------------------------------------------------------------------------- what numbers say to closed-form updates


class _Numbers(NamedTuple):
    """Nothing but the target."""


class Numbers(_Numbers, Outcome):
    """Targets of one output or several that are the scores themselves, with the noise precisions υ and ε learned."""

    unit = TARGET
    has_noise = is_observed = True

    def start(self, y: Array, noise: Array) -> tuple[Any, Any]:
        """Return the targets."""
        return y, None

    def update(self, y: Array, loc: Array, precision: Any, distances: Any) -> tuple[None, Any]:
        """Return no factor: the target is known."""
        return None, None

    def log_density(self, y: np.ndarray, mean: np.ndarray, scale: np.ndarray) -> np.ndarray:
        """Return the log density of normal targets."""
        return -0.5 * (((y - mean) / scale) ** 2 + LOG_2PI) - np.log(scale)


# --------------------------------------------------------------------------------------------------- numbers of users


MOST_COPIES = 0.05  # per sample: up to this many, intervals are as wide as without them
UNITS = "Standardize it, or express it in other units."


def real_targets(y: Targets) -> np.ndarray:
    """Return real targets that are finite and neither huge nor tiny."""
    array = check_numbers("y", y)
    if is_missing(array).any():
        raise ValueError(
            f"`y` must be finite: y contains NaN; {int(is_missing(array).sum())} of {array.size} values are missing. "
            "Leave these samples out."
        )
    with np.errstate(over="ignore"):  # what is too large for a float64 is infinite
        values = array.astype(np.float64)
    if not np.isfinite(values).all():
        raise ValueError("`y` must be finite: y contains infinity. Leave these samples out.")
    check_magnitude("y", values, UNITS)
    return values


def location_and_scale(
    y: np.ndarray, normalize: bool, sample_weight: np.ndarray | None = None
) -> tuple[float | np.ndarray, float | np.ndarray]:
    """Return mean and standard deviation of every target: 0 and 1 if not standardized, deviation 1 if constant.

    Samples count as often as `sample_weight`, (n_samples,), says.

    Examples
    --------
    >>> location_and_scale(np.array([1.0, 3.0]), True)
    (2.0, 1.0)
    """
    mean, scale = np.zeros(y.shape[1:]), np.ones(y.shape[1:])
    if normalize:
        mean = np.average(y, axis=0, weights=sample_weight)
        scale = np.sqrt(np.average((y - mean) ** 2, axis=0, weights=sample_weight))
        scale = np.where(scale > 0.0, scale, 1.0)
    return (float(mean), float(scale)) if y.ndim == 1 else (mean, scale)


def near_the_median(y: np.ndarray, sample_weight: np.ndarray | None = None) -> np.ndarray:
    """Return weights of samples of one target, zero of those more than ten median distances from its median.

    These are 6.7 standard deviations of normal targets: where none is grossly wrong, all count. So they do where half
    of the targets are equal.

    Examples
    --------
    >>> near_the_median(np.array([1.0, 2.0, 3.0, 4.0, 1e9]))
    array([1., 1., 1., 1., 0.])
    """
    counts = np.ones(len(y)) if sample_weight is None else sample_weight
    distance = np.abs(y - weighted_median(y, counts))
    usual = weighted_median(distance, counts)
    return counts * (distance <= 10.0 * usual) if usual > 0.0 else counts


def warn_of_copies(
    model: Any, X: Any, y: np.ndarray, counts: np.ndarray | None = None, exact: np.ndarray | None = None
) -> None:
    """Warn where many samples repeat others, features and target alike, under noise of unknown size.

    Two targets of the same features differ by noise alone, and copies do not differ. Real repetitions do: as long as
    more samples repeat the features of others with another target, equal ones may be due to rounding.

    Parameters
    ----------
    model : BaseMKL
        With its bank, which has validated samples; None with precomputed kernels, which are `X`.
    X : array-like of shape (n_samples, ...)
    y : ndarray of shape (n_samples,) or (n_samples, n_outputs)
    counts : ndarray of shape (n_samples,), optional
        How often samples count.
    exact : ndarray of bool, of shape (n_samples,), optional
        Samples whose targets are numbers, not intervals of them.
    """
    rows = np.asarray(X) if model.kernel_bank_ is None else model.kernel_bank_.X_train_
    if len(rows) != len(y):  # a source of rows was read in parts
        return
    if isinstance(rows, SparseTable):
        table = rows.values
        keys = [table.indices[i:j].tobytes() + table.data[i:j].tobytes() for i, j in pairwise(table.indptr)]
    else:
        keys = [row.tobytes() for row in rows]
    found: dict[bytes, list[Any]] = {}
    for i in range(len(y)) if exact is None else np.flatnonzero(exact):
        own = found.setdefault(keys[i], [-1.0, set()])
        own[0] += 1.0 if counts is None else counts[i]
        own[1].add(y[i].tobytes())
    same = sum(excess for excess, targets in found.values() if len(targets) == 1)
    different = sum(excess for excess, _ in found.values()) - same
    if same > max(MOST_COPIES * len(found), different):
        warn_user(
            f"{same:.0f} of {len(y)} samples repeat another one, features and target "
            "alike. Copies look like measurements without noise: the noise is underestimated, and intervals are too "
            "narrow. Keep one of each, such as by `DataFrame.drop_duplicates`.",
            UserWarning,
        )
