"""BEMKL regression as a scikit-learn estimator, of one target or several."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import RegressorMixin

from bayesmkl._estimator.targets import location_and_scale, warn_of_copies
from bayesmkl._utils.docstrings import fill_docs
from bayesmkl._utils.typing import Samples, Targets
from bayesmkl._utils.validation import check_choice
from bayesmkl.bemkl.base import BaseBEMKL, FitTask, Settings
from bayesmkl.bemkl.draws import PosteriorDraws
from bayesmkl.bemkl.many_kernels import for_so_many
from bayesmkl.bemkl.model import Priors, Problem
from bayesmkl.bemkl.moments import Gamma
from bayesmkl.bemkl.outputs import view_moments
from bayesmkl.bemkl.reading import (
    ScoreDraws,
    ScoreMoments,
    predict_score,
    predict_scores,
    score_of_draws,
)
from bayesmkl.bemkl.shared_docs import BEMKL
from bayesmkl.kernels.stacks.base import Stack
from bayesmkl.outcomes import Numbers


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

    def _prepare(self, X: Samples, y: Targets, settings: Settings | None = None) -> tuple[Stack, np.ndarray]:
        """Return the training kernels and the targets, validated."""
        settings = settings or self._checked()
        stack, y = self._fit_stack(X, y, y_numeric=True, storage=settings.holding)
        warn_of_copies(self, X, y)
        return stack, y

    def _task(
        self,
        stack: Stack,
        gram: Any,
        y: np.ndarray,
        settings: Settings | None = None,
        method: str | None = None,
    ) -> FitTask:
        """Return the model of the targets in `y`."""
        settings = settings or self._settings()
        self.y_mean_, self.y_scale_ = location_and_scale(y, self.normalize_y)
        targets = ((y - self.y_mean_) / self.y_scale_).T
        if y.ndim == 2:
            settings.check(method or settings.inference.name, ("several columns", "`y` with several columns"))
        problem = self._problem(stack, gram, targets, settings.priors)
        algorithm = for_so_many(settings.algorithm(), problem, settings.loop.backend)
        return FitTask([problem], stack, targets, False, algorithm, [self.init], ["regression"], settings)

    def _problems(self, stack: Stack, with_gram: bool = True) -> list[Problem]:
        """Return the problem of the last fit; densities of draws and draws of the prior need no Gram matrix."""
        gram: Any = self._gram(stack) if with_gram else None
        return [self._problem(stack, gram, self.target_, self._priors())]

    def _problem(self, stack: Stack, gram: np.ndarray, targets: np.ndarray, priors: Priors) -> Problem:
        """Return the problem of one target, (n_samples,), or of several, (n_outputs, n_samples).

        Missing views are integrated over by the updates for several targets, which are given one.
        """
        targets = targets if self.missing_views == "error" else np.atleast_2d(targets)
        return Problem(stack, gram, targets, priors, Numbers())

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
            outputs = posterior.outputs()  # draws have their noise in them
            return [score_of_draws(stack, own) for own in outputs], np.zeros(len(outputs))
        noise = posterior.noise_precision
        own = np.atleast_1d(noise.mean_reciprocal if rule == "full" else 1.0 / noise.mean)
        variance = posterior.intermediate_precision.mean_reciprocal
        if posterior.dual.mean.ndim == 1:
            return [predict_score(stack, posterior.dual, posterior.readout, float(variance), rule)], own
        moments = view_moments(posterior)
        return list(
            predict_scores(stack, posterior.dual, posterior.readout, variance, rule, moments=moments)
        ), own

    def _shaped(self, columns: list[np.ndarray]) -> np.ndarray:
        """Put predictions of all outputs side by side, or return the one of a single target."""
        return columns[0] if self.target_.ndim == 1 else np.stack(columns, axis=1)
