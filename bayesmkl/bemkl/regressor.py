"""BEMKL of numbers as scikit-learn estimators: regression, of one target or several, and times to an event."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import ndtr, ndtri
from sklearn.base import RegressorMixin

from bayesmkl._estimator.predictions import N_BAND_DRAWS, SurvivalPredictions
from bayesmkl._utils.docstrings import fill_docs
from bayesmkl._utils.survival_target import survival_times
from bayesmkl._utils.typing import Samples, Targets
from bayesmkl._utils.validation import check_choice
from bayesmkl.bemkl.base import BEMKL, OUTCOMES, BaseBEMKL, FitTask, Settings
from bayesmkl.bemkl.draws import PosteriorDraws
from bayesmkl.bemkl.model import Problem
from bayesmkl.bemkl.moments import Gamma
from bayesmkl.bemkl.reading import ScoreDraws, ScoreMoments, output_scores, predict_score
from bayesmkl.kernels.stacks.base import Stack
from bayesmkl.outcomes import FailureTime, Intervals, Numbers
from bayesmkl.outcomes.numbers import location_and_scale, warn_of_copies
from bayesmkl.outcomes.times import log_ends, log_slopes, without_features


@fill_docs(BEMKL)
@dataclass(eq=False, repr=False, kw_only=True)
class BEMKLRegressor(RegressorMixin, BaseBEMKL):
    r"""Bayesian efficient multiple kernel learning for regression.

    As `BEMKLClassifier`, with the target in the place of the score and both noise precisions learned:

    .. math:: g_{mi} \mid a \sim N(k_{mi}^\top a, 1/\upsilon), \qquad
       y_i \mid b, e, g_i \sim N(e^\top g_i + b, 1/\varepsilon) .

    Parameters
    ----------
    kernels : KernelBank, "precomputed" or None, default=None
        As in `BEMKLClassifier`.
    %(views)s
    kernel_prior, sample_prior, bias_prior : {"nonsparse", "sparse"} or Gamma, default="nonsparse"
        Priors on the precisions of kernel weights, sample weights and intercept.
    predictive : {"full", "paper"}, default="full"
        "full" carries all of the posterior into the predictive standard deviation; "paper" leaves the variance of
        the intermediate outputs out, and its intervals are too narrow. VB only.
    %(inference)s
    init : {"mean", "random"} or posterior, default="mean"
        Start of the closed-form updates.
    %(n_init)s
    %(max_iter)s
    %(tol)s
    %(storage)s
    %(kernel_names)s
    %(random_state)s
    %(verbose)s
    intermediate_prior, noise_prior : {"nonsparse", "sparse"} or Gamma, default="nonsparse"
        Priors on the precisions :math:`\upsilon` of the intermediate outputs and :math:`\varepsilon` of the target.
    normalize_y : bool, default=True
        Standardize the target first, so that priors mean the same whatever its units. Predictions are in the
        original units; weights, `posterior_` and `elbo_` are those of the standardized target.
    %(nonnegative)s
    missing_views : {"error", "integrate"}, default="error"
        Whether samples may lack views, as in `BEMKLClassifier`. VB only.

    Attributes
    ----------
    kernel_shares_, kernel_shares_std_ : ndarray of shape (n_kernels,)
        Posterior mean and standard deviation of each kernel's part of the score; means sum to one.
    kernel_weights_, kernel_weights_std_ : ndarray of shape (n_kernels,)
        Posterior mean and standard deviation of `e`.
    %(kernel_weights_cov_)s
    intercept_ : float, or ndarray of shape (n_outputs,)
        Posterior mean of `b`.
    %(dual_coef_)s or (n_outputs, n_samples)
    y_mean_, y_scale_ : float, or ndarray of shape (n_outputs,)
        Mean and standard deviation by which the target was standardized (0 and 1 without `normalize_y`).
    elbo_ : float
        Evidence lower bound in nats; "vb" only.
    %(elbo_history_)s
    %(n_iter_)s
    %(outcome_)s
    converged_ : bool
        Whether `tol` was reached, or the chains agree.
    posterior_ : State or PosteriorDraws
        All factors of the variational posterior, or the draws of the other inferences, of shape (n_chains, n_draws,
        ...).
    sample_stats_ : dict of str to ndarray of shape (n_chains, n_draws)
        The sampler's own statistics; not set by "vb".
    target_ : ndarray of shape (n_samples,) or (n_outputs, n_samples)
        The standardized training target.
    %(storage_)s
    %(kernel_bytes_)s
    %(present_)s
    %(training_factors_)s
    %(kernel_names_)s
    %(n_kernels_in_)s
    %(kernel_bank_)s
    %(n_features_in_)s
    %(feature_names_in_)s

    See Also
    --------
    BEMKLClassifier : The model of the paper.

    References
    ----------
    .. [1] M. Gönen (2012), Bayesian efficient multiple kernel learning, ICML, §3.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesmkl import BEMKLRegressor, KernelBank
    >>> from bayesmkl.kernels import Gaussian, Linear
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(80, 2))
    >>> y = 3.0 * X[:, 0] + rng.normal(scale=0.1, size=80)
    >>> bank = KernelBank([Linear(), Gaussian(width=1)], normalize="trace")
    >>> model = BEMKLRegressor(bank).fit(X, y)
    >>> mean, std = model.predict([[1.0, 0.0]], return_std=True)
    >>> bool(abs(mean[0] - 3.0) < 0.2), mean.shape, std.shape
    (True, (1,), (1,))
    """

    _FLAGS = ("nonnegative", "normalize_y")
    _takes_missing_views = _takes_several_targets = True

    intermediate_prior: str | Gamma = "nonsparse"
    noise_prior: str | Gamma = "nonsparse"
    normalize_y: bool = True
    nonnegative: bool = False
    missing_views: str = "error"

    def fit(self, X: Samples, y: Targets) -> BEMKLRegressor:
        """Fit the posterior.

        Parameters
        ----------
        %(X:training)s
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
            Targets. Several share the kernel weights.

        Returns
        -------
        self : BEMKLRegressor
            The fitted estimator.

        Raises
        ------
        %(ValueError:parameters)s
        %(TypeError:numbers)s

        Warns
        -----
        %(ConvergenceWarning)s
        %(KernelQualityWarning)s
        %(UserWarning:copies)s
        """
        self._fit(X, y)
        return self

    def _prepare(self, X: Samples, y: Targets, settings: Settings) -> tuple[Stack, np.ndarray]:
        """Return the training kernels and the targets, validated."""
        stack, y = self._fit_stack(X, y, y_numeric=True, storage=settings.holding)
        warn_of_copies(self, X, y)
        return stack, y

    def _task(
        self, stack: Stack, gram: Any, y: np.ndarray, settings: Settings, method: str | None = None
    ) -> FitTask:
        """Return the model of the targets in `y`."""
        self.y_mean_, self.y_scale_ = location_and_scale(y, self.normalize_y)
        targets = ((y - self.y_mean_) / self.y_scale_).T
        if y.ndim == 2:
            settings.check(method or settings.inference.name, ("several columns", "`y` with several columns"))
        return super()._task(stack, gram, targets, settings)

    def _problems_of(self, stack: Stack, gram: Any, targets: np.ndarray, settings: Settings) -> list[Any]:
        """Return the problem of one target, (n_samples,), or of several, (n_outputs, n_samples).

        Missing views are integrated over by the updates for several targets, which are given one.
        """
        targets = np.atleast_2d(targets) if settings.integrates else targets
        return [Problem(stack, gram, targets, settings.priors, Numbers())]

    def predict(self, X: Samples, return_std: bool = False) -> Any:
        """Predict the target.

        Parameters
        ----------
        %(X)s
        return_std : bool, default=False
            Also return standard deviations of the target, its noise included.

        Returns
        -------
        mean : ndarray of shape (n_rows,) or (n_rows, n_outputs)
            Predictive mean, in the units of the target.
        %(std)s

        Raises
        ------
        NotFittedError
            Before `fit`.
        %(ValueError:X)s
        %(TypeError:X)s
        """
        scores, noise = self._scores(self._row_stack(X))
        mean = self.y_mean_ + self.y_scale_ * self._shaped([score.mean for score in scores])
        if not return_std:
            return mean
        variance = [
            score.total_variance if isinstance(score, ScoreDraws) else own + score.variance
            for score, own in zip(scores, noise, strict=True)
        ]
        return mean, self.y_scale_ * np.sqrt(self._shaped(variance))

    def _scores(self, stack: Stack) -> tuple[list[ScoreMoments | ScoreDraws], np.ndarray]:
        """Return the score of every output for the rows of `stack`, and the variance of its noise."""
        rule, posterior = check_choice("predictive", self.predictive, ("full", "paper")), self.posterior_
        if isinstance(posterior, PosteriorDraws):
            scores = output_scores(stack, posterior, None, rule)  # draws have their noise in them
            return scores, np.zeros(len(scores))
        noise = posterior.noise_precision
        own = np.atleast_1d(noise.mean_reciprocal if rule == "full" else 1.0 / noise.mean)
        variance = posterior.intermediate_precision.mean_reciprocal
        return output_scores(stack, posterior, variance, rule), own

    def _shaped(self, columns: list[np.ndarray]) -> np.ndarray:
        """Put predictions of all outputs side by side, or return the one of a single target."""
        return columns[0] if self.target_.ndim == 1 else np.stack(columns, axis=1)


# -------------------------------------------------------------------------------------------------- times to an event


@fill_docs(OUTCOMES)
@dataclass(eq=False, repr=False, kw_only=True)
class BEMKLSurvival(SurvivalPredictions, BaseBEMKL):
    r"""Bayesian efficient multiple kernel learning for times to an event.

    As `BEMKLRegressor` [2]_, of the logarithm of a time that for some samples is known to lie in an interval only:
    after the last visit (censored), between two visits, before the first [1]_:

    .. math:: g_{mi} \mid a \sim N(k_{mi}^\top a, 1/\upsilon), \qquad
       \log T_i \mid b, e, g_i \sim N(e^\top g_i + b, 1/\varepsilon) .

    The score multiplies the time scale: an accelerated failure time with log-normal noise.

    Parameters
    ----------
    %(kernels)s
    %(views)s
    %(kernel_prior)s
    %(sample_prior)s
    %(bias_prior)s
    %(predictive)s
    %(inference)s
    %(init)s
    %(n_init)s
    %(max_iter)s
    %(tol)s
    %(storage)s
    %(kernel_names)s
    %(random_state)s
    %(verbose)s
    intermediate_prior, noise_prior : {"nonsparse", "sparse"} or Gamma, default="nonsparse"
        Priors on the precisions :math:`\upsilon` of the intermediate outputs and :math:`\varepsilon` of the
        standardized log times.
    %(nonnegative)s

    Attributes
    ----------
    %(kernel_shares_, kernel_shares_std_)s
    %(kernel_weights_, kernel_weights_std_)s
    %(kernel_weights_cov_)s
    intercept_ : float
        Posterior mean of `b`.
    %(dual_coef_)s
    log_time_mean_, log_time_scale_ : float
        Mean and standard deviation by which log times were standardized: those of a model without features.
    %(elbo_)s
    %(elbo_history_)s
    %(n_iter_)s
    %(outcome_)s
    %(converged_)s
    posterior_ : State
        All factors of the variational posterior, those of the log times that were not observed among them.
    target_ : ndarray of shape (3, n_samples)
        Standardized logarithms of the ends of the intervals of the training times, and of their entries, which are
        all minus infinity.
    %(event_times_)s
    %(storage_)s
    %(kernel_bytes_)s
    %(training_factors_)s
    %(kernel_names_)s
    %(n_kernels_in_)s
    %(kernel_bank_)s
    %(n_features_in_)s
    %(feature_names_in_)s

    See Also
    --------
    bayesmkl.gp.GPMKLSurvival : Other distributions of times, entries, and intervals that can be read.
    BEMKLRegressor : The same model of numbers that were all observed.

    Notes
    -----
    Predictions take the posterior of a log time as normal, with the mean and the standard deviation that
    `BEMKLRegressor.predict` returns.

    References
    ----------
    .. [1] J. D. Kalbfleisch and R. L. Prentice (2002), The statistical analysis of failure time data, §2.2 and §3.
    .. [2] M. Gönen (2012), Bayesian efficient multiple kernel learning, ICML, §3.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesmkl import KernelBank
    >>> from bayesmkl.bemkl import BEMKLSurvival
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(80, 2))
    >>> time, end = np.exp(X[:, 0] + 0.3 * rng.normal(size=80)), rng.uniform(1.0, 5.0, size=80)
    >>> y = np.rec.fromarrays([time < end, np.minimum(time, end)], names="event,years")
    >>> model = BEMKLSurvival(KernelBank(["rbf"], views={"signal": 0, "noise": 1})).fit(X, y)
    >>> bool(model.kernel_shares_[0] > 0.8)
    True
    >>> model.predict_survival_function([[-1.0, 0.0], [1.0, 0.0]], times=[1.0]).round(1)
    array([[0.],
           [1.]])
    """

    _FLAGS = ("nonnegative",)
    _INFERENCES = ("vb",)

    _PROGRAM_INSTEAD = (
        "Use that of bayesmkl.gp.GPMKLSurvival, or of BEMKLRegressor if all times were observed."
    )

    intermediate_prior: str | Gamma = "nonsparse"
    noise_prior: str | Gamma = "nonsparse"
    nonnegative: bool = False

    def fit(self, X: Samples, y: Targets) -> BEMKLSurvival:
        """Fit the posterior.

        Parameters
        ----------
        %(X:training)s
        y : structured array of shape (n_samples,)
            A boolean field, whether the event was observed, and a field of numbers, the time to it or to censoring,
            of any names. Or the fields "lower" and "upper" of intervals, which are equal of an observed time;
            `upper` is infinite of a censored one.

        Returns
        -------
        self : BEMKLSurvival
            The fitted estimator.

        Raises
        ------
        %(ValueError:parameters)s
        %(TypeError:y)s

        Warns
        -----
        %(ConvergenceWarning)s
        %(KernelQualityWarning)s
        %(UserWarning:copies)s
        """
        self._fit(X, y)
        return self

    def _prepare(self, X: Samples, y: Targets, settings: Settings) -> tuple[Stack, np.ndarray]:
        """Return the training kernels and standardized ends, (3, n_samples), validated."""
        times = survival_times(y)
        late = np.flatnonzero(times.entry)
        if len(late):
            raise ValueError(
                "`y` must not have late entries, which this estimator does not support; got an entry at "
                f"{times.entry[late[0]]:g} of sample {late[0]} ({len(late)} in all). Use bayesmkl.gp.GPMKLSurvival."
            )
        stack, _ = self._fit_stack(X, times.lower, y_numeric=True, storage=settings.holding)
        logs, is_observed = log_ends(times), times.lower == times.upper
        self.event_times_ = np.unique(times.lower[is_observed])
        warn_of_copies(self, X, logs[0], exact=is_observed)
        all_observed = is_observed.all()
        found = location_and_scale(logs[0], True) if all_observed else without_features(FailureTime(), logs)
        self.log_time_mean_, self.log_time_scale_ = float(found[0]), float(found[1])
        return stack, (logs - self.log_time_mean_) / self.log_time_scale_

    def _problems_of(self, stack: Stack, gram: Any, targets: np.ndarray, settings: Settings) -> list[Any]:
        return [Problem(stack, gram, targets[0], settings.priors, Intervals(targets[1]))]

    def _log_units(self) -> np.ndarray:
        return log_slopes(self.target_, self.log_time_mean_, self.log_time_scale_)

    # ------------------------------------------------------------------------------------------ predictions

    def _score(self, X: Samples) -> ScoreMoments:
        """Return mean and variance of the scores of new samples, without their noise."""
        stack = self._row_stack(X)
        rule, posterior = check_choice("predictive", self.predictive, ("full", "paper")), self.posterior_
        variance = float(posterior.intermediate_precision.mean_reciprocal)
        return predict_score(stack, posterior.dual, posterior.readout, variance, rule)

    def _noise_variance(self) -> float:
        noise = self.posterior_.noise_precision
        return float(1.0 / noise.mean if self.predictive == "paper" else noise.mean_reciprocal)

    def predict_latent(self, X: Samples, return_std: bool = False) -> Any:
        """Predict the standardized logarithm of the time of new samples.

        Parameters
        ----------
        %(X)s
        return_std : bool, default=False
            Also return standard deviations, the noise included.

        Returns
        -------
        mean : ndarray of shape (n_rows,)
            Predictive mean.
        %(std)s

        Raises
        ------
        NotFittedError
            Before `fit`.
        %(ValueError:X)s
        %(TypeError:X)s
        """
        score = self._score(X)
        return (score.mean, np.sqrt(score.variance + self._noise_variance())) if return_std else score.mean

    def predict(self, X: Samples) -> np.ndarray:
        """Predict risks; higher risks mean earlier events.

        Parameters
        ----------
        %(X)s

        Returns
        -------
        ndarray of shape (n_rows,)
            Posterior mean score, the standardized logarithm of the time, times minus one.

        Raises
        ------
        NotFittedError
            Before `fit`.
        %(ValueError:X)s
        %(TypeError:X)s
        """
        return -self._score(X).mean

    def _survival_curves(self, X: Samples, log_times: np.ndarray) -> tuple[np.ndarray, Iterator[np.ndarray]]:
        score, noise, rng = self._score(X), self.posterior_.noise_precision, self._rng()
        std = np.sqrt(score.variance + self._noise_variance())
        survival = ndtr((score.mean[:, None] - log_times) / std[:, None])
        normal = rng.standard_normal((N_BAND_DRAWS, 1))
        root = np.sqrt(rng.gamma(noise.concentration, 1.0 / noise.rate, size=(N_BAND_DRAWS, 1)))
        return survival, (
            ndtr(root * (mean + np.sqrt(variance) * normal - log_times))
            for mean, variance in zip(*score, strict=True)
        )

    def _log_quantiles(self, X: Samples, q: float) -> np.ndarray:
        mean, std = self.predict_latent(X, return_std=True)
        return mean + std * ndtri(q)
