"""Times to an event by an additive Gaussian process."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from bayesmkl._estimator.predictions import N_BAND_DRAWS, SurvivalPredictions
from bayesmkl._utils.docstrings import fill_docs
from bayesmkl._utils.survival_target import SurvivalTimes, survival_times
from bayesmkl._utils.typing import Samples, Targets
from bayesmkl._utils.validation import shown
from bayesmkl.gp.estimators.base import BaseGPMKL, by_row
from bayesmkl.gp.estimators.regressor import GPMKLRegressor
from bayesmkl.gp.estimators.settings import GPMKL, NamedPriors, of_numbers
from bayesmkl.gp.reading import ScoreMoments
from bayesmkl.kernels.stacks.dense import DenseStack
from bayesmkl.kernels.tables import refuse_target
from bayesmkl.outcomes import FailureTime, PiecewiseHazard
from bayesmkl.outcomes.base import Likelihood
from bayesmkl.outcomes.numbers import warn_of_copies
from bayesmkl.outcomes.times import log_ends, log_slopes, without_features

TIMES = ("log-normal", "log-logistic", "weibull")
N_PERIODS = 5  # of a baseline hazard, of as many events each
NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(32)  # of a normal score
BISECTIONS = 50
WIDEST = 40.0  # distance in which a quantile is looked for, in standardized log times


@fill_docs(GPMKL)
@dataclass(eq=False, repr=False, kw_only=True)
class GPMKLSurvival(SurvivalPredictions, BaseGPMKL):
    r"""Survival analysis by a sum of Gaussian processes, one for each kernel, with inferred weights.

    The model is that of `GPMKLRegressor` for the logarithm of a time. For some samples the time may only be known to
    lie in an interval: after the last visit (censored), between two visits, or before the first. Samples may also
    have come under observation late (delayed entry). In an accelerated failure time model,

    .. math:: \log T_i = f_i + \sigma \epsilon_i ,

    the score shifts the log time [1]_; in a model with a piecewise constant hazard it is a log hazard ratio,
    :math:`\lambda_i(t) = \lambda_{j(t)} e^{f_i}` [2]_.

    Parameters
    ----------
    %(kernels)s
    %(views)s
    kernel_prior : str, prior of `bayesmkl.gp` or numpyro.distributions.Distribution, default="nested"
        Prior of the weights, in units of the standard deviation of log times in a model without features, or of log
        hazard ratios; see `GPMKLRegressor`.
    %(design)s
    %(missing_views)s
    %(intercept_std)s
    %(inference)s
    %(together)s
    %(kernel_names)s
    %(kernel_views)s
    %(random_state)s
    %(verbose)s
    likelihood : str, FailureTime or PiecewiseHazard, default="log-logistic"
        Distribution of the times: "log-normal", "log-logistic", "weibull", or "piecewise-hazard", whose breaks are
        quantiles of the event times. Pass an object of :mod:`bayesmkl.outcomes` to choose its priors and breaks; its
        breaks are in units of the mean time to an event (total time at risk divided by the number of events).

    Attributes
    ----------
    %(kernel_shares_, kernel_shares_std_)s
    %(kernel_weights_, kernel_weights_std_)s
    log_time_mean_, log_time_scale_ : float
        Location and standard deviation that standardize log times, from a model without features. With a piecewise
        hazard they are the log of the mean time to an event, and 1.
    intercept_ : float
        Posterior mean of the intercept.
    dual_coef_ : ndarray of shape (n_kernels, n_samples)
        Posterior mean weights of the training samples for each kernel.
    %(design_)s
    %(effects_)s
    %(sample_weight_)s
    %(group_labels_)s
    %(log_evidence_)s
    elpd_i_ : ndarray of shape (n_samples,)
        Leave-one-out log density of every observed time, in nats and in the units of the times; for other samples,
        the log probability of the interval that contains the time.
    likelihood_ : FailureTime or PiecewiseHazard
        Likelihood of a standardized log time given its score.
    parameters_ : dict of str to float
        Posterior means of the parameters of the likelihood.
    %(pareto_k_)s
    %(rhat_)s
    %(ess_)s
    %(share_mcse_)s
    %(unconverged_)s
    %(n_evaluations_)s
    %(outcome_)s
    %(converged_)s
    %(posterior_)s
    target_ : ndarray of shape (3, n_samples)
        Standardized logarithms of the lower and upper ends of the training intervals, and of the entry times.
    %(event_times_)s
    %(training_kernels_)s
    %(pseudo_samples_)s
    %(landmark_loss_)s
    %(present_)s
    %(kernel_centers_)s
    %(predictability_)s
    %(kernel_names_)s
    %(n_kernels_in_)s
    %(kernel_bank_)s
    %(n_features_in_)s
    %(feature_names_in_)s

    See Also
    --------
    GPMKLRegressor : The same model for numbers and counts.
    bayesmkl.evaluation.concordance_index : The score of predicted risks.

    References
    ----------
    .. [1] J. D. Kalbfleisch and R. L. Prentice (2002), The statistical analysis of failure time data, §2.2 and §3.
    .. [2] T. Holford (1980), The analysis of rates and of survivorship using log-linear models, Biometrics 36.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesmkl import KernelBank
    >>> from bayesmkl.gp import GPMKLSurvival
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(80, 2))
    >>> time, end = np.exp(X[:, 0] + 0.3 * rng.normal(size=80)), rng.uniform(1.0, 5.0, size=80)
    >>> y = np.rec.fromarrays([time < end, np.minimum(time, end)], names="event,years")
    >>> model = GPMKLSurvival(KernelBank(["rbf"], views={"signal": 0, "noise": 1})).fit(X, y)
    >>> bool(model.kernel_shares_[0] > 0.8)
    True
    >>> model.predict_survival_function([[-1.0, 0.0], [1.0, 0.0]], times=[1.0]).round(1)
    array([[0.],
           [1.]])
    """

    KERNEL_PRIORS: ClassVar[NamedPriors] = GPMKLRegressor.KERNEL_PRIORS

    likelihood: str | FailureTime | PiecewiseHazard = "log-logistic"

    def _likelihood(self) -> Likelihood:
        value = self.likelihood
        if isinstance(value, FailureTime):
            if value.times in TIMES:
                return value
        elif isinstance(value, PiecewiseHazard):
            breaks = np.array(value.breaks, dtype=float)
            if (np.diff(breaks, prepend=0.0) > 0.0).all() and np.isfinite(breaks).all():
                return replace(value, breaks=tuple(breaks.tolist()))
            raise ValueError(
                f"`likelihood` must be a PiecewiseHazard whose breaks are positive and ascend; got {value.breaks}."
            )
        elif value == "piecewise-hazard":
            return PiecewiseHazard()
        elif isinstance(value, str) and value in TIMES:
            return FailureTime(value)
        raise ValueError(
            f'`likelihood` must be one of {", ".join(map(repr, TIMES))}, "piecewise-hazard", a FailureTime of one of '
            f"these or a PiecewiseHazard; got {shown(value)}."
        )

    def fit(self, X: Samples, y: Targets, sample_weight: ArrayLike | None = None) -> GPMKLSurvival:
        """Draw from the posterior.

        Parameters
        ----------
        %(X:training)s
        y : structured array of shape (n_samples,), or DataFrame or array of shape (n_samples, 2)
            Two fields or columns, with any names and in any order: booleans that mark observed events (columns may
            hold 1 and 0), and numbers, the time to the event or to censoring. Or the fields "lower" and "upper" of
            intervals: they are equal for an observed time, and `upper` is infinite for a censored one. An optional
            field "entry" holds the times at which samples came under observation.
        %(sample_weight)s

        Returns
        -------
        self : GPMKLSurvival
            The fitted estimator.

        Raises
        ------
        %(ValueError:parameters)s
        %(TypeError:y)s
        %(MemoryError)s

        Warns
        -----
        %(ConvergenceWarning)s
        %(KernelQualityWarning)s
        %(UserWarning:copies)s
        """
        self._find_posterior(*self._prepare(X, y, sample_weight))
        return self

    def _read(self, X: Samples, y: Targets, counts: np.ndarray | None) -> tuple[DenseStack, np.ndarray]:
        likelihood, times = self._likelihood(), survival_times(y)
        stack, _ = self._fit_stack(X, times.lower, counts=counts, y_numeric=True)
        if self.kernel_bank_ is not None:
            refuse_target(X, y, self.kernel_bank_.views_)
        logs = log_ends(times)
        is_observed = times.lower == times.upper
        self.event_times_ = np.unique(times.lower[is_observed])
        if isinstance(likelihood, PiecewiseHazard):
            self.log_time_mean_, self.log_time_scale_ = _log_time_to_event(times, counts), 1.0
            if isinstance(self.likelihood, str):
                likelihood = replace(likelihood, breaks=_breaks(times, np.exp(self.log_time_mean_), counts))
        else:
            counts = self.sample_weight_ = of_numbers(counts, [is_observed], " over events")
            warn_of_copies(self, X, logs[0], counts, is_observed)
            self.log_time_mean_, self.log_time_scale_ = without_features(likelihood, logs, counts)
        self.likelihood_ = likelihood
        return stack, ((logs - self.log_time_mean_) / self.log_time_scale_)[None]

    def _log_predictive(
        self, targets: np.ndarray, log_of_each: np.ndarray, log_of_all: np.ndarray
    ) -> np.ndarray:
        return log_of_all - self._log_units()

    def _log_units(self) -> np.ndarray:
        if not isinstance(self.likelihood_, PiecewiseHazard):
            return log_slopes(self.target_, self.log_time_mean_, self.log_time_scale_)
        is_observed = self.target_[0] == self.target_[1]
        return np.where(is_observed, self.log_time_mean_, 0.0)  # its density is that of the time itself

    def _score_units(self) -> np.ndarray:
        return np.array([self.log_time_scale_])

    # ------------------------------------------------------------------------------------------ predictions

    def predict(self, X: Samples) -> np.ndarray:
        """Predict risks: the higher, the earlier the event.

        Parameters
        ----------
        %(X)s

        Returns
        -------
        ndarray of shape (n_rows,)
            Posterior mean log hazard ratio; with an accelerated failure time, minus the posterior mean score.

        Raises
        ------
        NotFittedError
            Before `fit`.
        %(ValueError:X)s
        %(TypeError:X)s
        """
        score = by_row(self._mean_scores(X))
        return -score if self.likelihood_.rises else score  # type: ignore[attr-defined]

    def _survival_curves(self, X: Samples, log_times: np.ndarray) -> tuple[np.ndarray, Iterator[np.ndarray]]:
        moments, rng = self._moments(X, of_all=True), self._rng()
        survival = self._survival(moments, log_times)
        point = rng.choice(len(moments.probability), size=N_BAND_DRAWS, p=moments.probability)
        noise = rng.standard_normal((N_BAND_DRAWS, 1))
        own = moments.parameters[point, 0].T[..., None]
        scores = (
            mean[point, None] + np.sqrt(variance[point, None]) * noise
            for mean, variance in zip(moments.mean[:, 0].T, moments.variance[:, 0].T, strict=True)
        )
        return survival, (np.exp(self._log_survival(log_times, score, own)) for score in scores)

    def _log_quantiles(self, X: Samples, q: float) -> np.ndarray:
        moments = self._moments(X, of_all=True)
        n_rows = moments.mean.shape[-1]
        lower, upper = np.full((n_rows, 1), -WIDEST), np.full((n_rows, 1), WIDEST)
        for _ in range(BISECTIONS):
            middle = 0.5 * (lower + upper)
            alive = self._survival(moments, middle) > 1.0 - q
            lower, upper = np.where(alive, middle, lower), np.where(alive, upper, middle)
        return 0.5 * (lower + upper)[:, 0]

    def _log_survival(self, log_times: np.ndarray, score: np.ndarray, parameters: np.ndarray) -> np.ndarray:
        likelihood: Any = self.likelihood_
        with np.errstate(over="ignore", under="ignore"):
            found = likelihood.log_survival(log_times, score, parameters)
        return np.where(np.isneginf(log_times), 0.0, found)

    def _survival(self, moments: ScoreMoments, log_times: np.ndarray) -> np.ndarray:
        """Return mean probabilities of later events, (n_rows, n_times).

        Standardized log times are the same for all rows, (n_times,), or each row's, (n_rows, n_times).
        """
        total = np.zeros((moments.mean.shape[-1], log_times.shape[-1]))
        for mean, variance, own, probability in zip(*moments, strict=True):
            scores = mean[0][:, None] + np.sqrt(variance[0])[:, None] * NODES
            found = self._log_survival(log_times[..., None], scores[:, None], own.T[..., None, None])
            total += probability * (np.exp(found) @ WEIGHTS) / WEIGHTS.sum()
        return np.minimum(total, 1.0)  # probabilities of points sum to one up to rounding


def _log_time_to_event(times: SurvivalTimes, sample_weight: np.ndarray | None) -> float:
    """Return the log of the time at risk of all samples for every event."""
    known = np.isfinite(times.upper)
    counts = np.ones(len(known)) if sample_weight is None else sample_weight
    until = np.where(known, 0.5 * (times.lower + np.where(known, times.upper, 0.0)), times.lower)
    at_risk, n_events = counts @ (until - times.entry), counts @ known
    return float(np.log(max(at_risk, np.finfo(float).tiny) / (n_events if n_events > 0.0 else 1.0)))


def _breaks(times: SurvivalTimes, unit: float, sample_weight: np.ndarray | None) -> tuple[float, ...]:
    """Return times, in a unit, between which there are as many events each; they are in the middle of two events."""
    known = np.isfinite(times.upper)
    counts = np.ones(known.sum()) if sample_weight is None else sample_weight[known]
    middle = 0.5 * (times.lower + times.upper)[known] / unit
    order = np.argsort(middle, kind="stable")
    events, until = middle[order], np.cumsum(counts[order])
    n_events = until[-1] if len(until) else 0.0
    n_periods = max(1, min(N_PERIODS, int(n_events // 10)))
    first = np.arange(1, n_periods) * n_events // n_periods  # of the events of every further period
    last, after = (events[np.searchsorted(until, first, side)] for side in ("left", "right"))
    return tuple(float(each) for each in np.unique(0.5 * (last + after)))
