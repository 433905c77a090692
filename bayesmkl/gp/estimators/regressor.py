"""Regression by an additive Gaussian process: of numbers, with outliers or without, and of counts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from sklearn.base import RegressorMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from bayesmkl._utils.docstrings import fill_docs
from bayesmkl._utils.typing import Samples, Targets
from bayesmkl._utils.validation import shown
from bayesmkl._utils.warnings import warn_user
from bayesmkl.gp.estimators.base import BaseGPMKL, by_row, overall
from bayesmkl.gp.estimators.settings import GPMKL, NamedPriors, is_spike_slab, of_numbers
from bayesmkl.gp.hyperpriors import (
    DirichletShares,
    HalfT,
    Horseshoe,
    LogNormal,
    NestedShares,
    checked_log_normal,
)
from bayesmkl.gp.selection import SpikeSlabWeights
from bayesmkl.kernels.bank import KernelBank
from bayesmkl.kernels.stacks.dense import DenseStack
from bayesmkl.outcomes import (
    BetaBinomial,
    Gaussian,
    Heteroscedastic,
    NegativeBinomial,
    Offset,
    Poisson,
    StudentT,
)
from bayesmkl.outcomes.base import Likelihood
from bayesmkl.outcomes.counts import Rated, check_exposures
from bayesmkl.outcomes.numbers import NOISE, location_and_scale, near_the_median, warn_of_copies

LIKELIHOODS: dict[str, Any] = {
    "gaussian": Gaussian(),
    "student-t": StudentT(),
    "poisson": Poisson(),
    "negative-binomial": NegativeBinomial(),
    "beta-binomial": BetaBinomial(),
}
MOST_ROWS, MOST_COLUMNS, MOST_VIEWS = 300, 16, 4  # with which the default bank infers widths
FAR = 100.0  # times the largest training count, beyond which a mean is no prediction


@fill_docs(GPMKL)
@dataclass(eq=False, repr=False, kw_only=True)
class GPMKLRegressor(RegressorMixin, BaseGPMKL):
    r"""Regression by a sum of Gaussian processes, one for each kernel, with inferred weights.

    The model is that of `GPMKLClassifier`, with normal noise of unknown standard deviation around the score, or
    another likelihood:

    .. math:: y_i = \sum_m w_m g_m(x_i) + b + \epsilon_i, \qquad g_m \sim GP(0, K_m / c_m), \qquad
       \epsilon_i \sim N(0, \phi^2) .

    Given weights and noise, everything else is integrated out: exactly under normal noise [1]_, and by expectation
    propagation for counts and for noise with outliers. With outliers, it starts from the sites of a bound [2]_.

    Parameters
    ----------
    %(kernels)s
        With at most 300 samples, 16 columns and 4 views, normal noise, and no `design` or missing views, None is
        ``KernelBank("adaptive", scale=True)``, which infers a width for each column.
    %(views)s
    kernel_prior : str, prior of `bayesmkl.gp` or numpyro.distributions.Distribution, default="nested"
        Prior of the weights, in units of the standardized target, or of the log rate or log odds. "nested", the
        default, is ``NestedShares(scale=1)``; "dirichlet" is ``DirichletShares(scale=1)``; "half-t" is ``HalfT(df=4,
        scale=1)`` for each kernel; "horseshoe" is ``Horseshoe(scale=0.1, slab=2)``; "spike-slab" is
        ``SpikeSlabWeights(scale=0.5)``. See `GPMKLClassifier`.
    %(design)s
    %(missing_views)s
    %(intercept_std)s
    %(inference)s
    %(together)s
    %(kernel_names)s
    %(kernel_views)s
    %(random_state)s
    %(verbose)s
    likelihood : str or Likelihood, default="gaussian"
        Distribution of a target given its score. "gaussian": normal noise. "student-t": noise with outliers.
        "poisson" and "negative-binomial": counts; the score is the log rate. "beta-binomial": successes out of
        trials; the score is the log odds. Pass an object of :mod:`bayesmkl.outcomes` to choose its priors.
    noise_prior : "log-normal" or LogNormal, default="log-normal"
        Prior of the standard deviation of the noise, or of the scale of Student t noise, in units of the standardized
        target. "log-normal" is ``LogNormal(0.3, 1.5)``. Models of counts do not use it.
    normalize_y : bool, default=True
        Whether to standardize the target first, so that priors mean the same in any units. For counts, scores are
        relative to their mean rate. Predictions are in the original units; weights and `posterior_` refer to the
        standardized target.

    Attributes
    ----------
    %(kernel_shares_, kernel_shares_std_)s
    %(kernel_weights_, kernel_weights_std_)s
    noise_std_ : float, or ndarray of shape (n_outputs,) or (n_tasks,)
        Posterior mean standard deviation of the noise, or scale of Student t noise, in the units of the target, at
        precision 1. Models of counts do not have it.
    likelihood_ : Likelihood
        Likelihood of a target given its score. For counts, the offset is the log of their mean rate.
    parameters_ : dict of str to float, or ndarray of shape (n_outputs,)
        Posterior means of the parameters of the likelihood, in units of the standardized target.
    intercept_ : float, or ndarray of shape (n_outputs,)
        Posterior mean of `b`.
    dual_coef_ : ndarray of shape (n_kernels, n_samples) or (n_outputs, n_kernels, n_samples)
        Posterior mean weights of the training samples, or of the landmarks, for each kernel.
    offset_ : ndarray of shape (n_samples,)
        Offsets of the training samples; zero without `design`.
    y_mean_, y_scale_ : float, or ndarray of shape (n_outputs,) or (n_tasks,)
        Mean and standard deviation that standardize the target (0 and 1 without `normalize_y`). They are computed
        within tasks if `design` names tasks. With Student t noise, they ignore targets more than ten median distances
        from the median. For counts and successes they are the mean rate and 1.
    %(design_)s
    %(effects_)s
    %(sample_weight_)s
    %(group_labels_)s
    %(log_evidence_)s
    elpd_i_ : ndarray of shape (n_samples,)
        Leave-one-out log density of every sample's target, in nats and in the units of the target. For several
        targets it is their joint density.
    %(pareto_k_)s
    %(rhat_)s
    %(ess_)s
    %(share_mcse_)s
    %(unconverged_)s
    %(n_evaluations_)s
    %(outcome_)s
    %(converged_)s
    %(posterior_)s
    target_ : ndarray of shape (n_samples,) or (n_outputs, n_samples)
        The standardized training target. For counts, of shape (n_fields, n_samples): counts, trials if there are any,
        and offsets. If `design` names tasks or precisions, its rows are numbers, positions of tasks, and precisions.
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
    GPMKLClassifier : The same model for classes.
    bayesmkl.bemkl.BEMKLRegressor : A model whose kernels share sample weights, fitted by variational inference.

    References
    ----------
    .. [1] C. E. Rasmussen and C. K. I. Williams (2006), Gaussian processes for machine learning, §2.2 and §5.4.
    .. [2] M. E. Tipping and N. D. Lawrence (2005), Variational inference for Student-t models, Neurocomputing 69.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesmkl import GPMKLRegressor, KernelBank
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(60, 2))
    >>> y = 3.0 * X[:, 0] + rng.normal(scale=0.1, size=60)
    >>> model = GPMKLRegressor(KernelBank(["linear", "rbf"], normalize="trace")).fit(X, y)
    >>> mean, std = model.predict([[1.0, 0.0]], return_std=True)
    >>> bool(abs(mean[0] - 3.0) < 0.2), bool(0.05 < std[0] < 0.2)
    (True, True)
    """

    _FLAGS = ("normalize_y",)
    _takes_several_targets = True
    _takes_offset = _takes_landmarks = True
    KERNEL_PRIORS: ClassVar[NamedPriors] = {
        "nested": NestedShares(0.5, 1.0, 4.0, 1.0),
        "dirichlet": DirichletShares(0.5, 4.0, 1.0),
        "half-t": HalfT(4.0, 1.0),
        "horseshoe": Horseshoe(0.1, 2.0),
        "spike-slab": SpikeSlabWeights(4.0, 4.0, 0.5),
    }

    likelihood: str | Likelihood = "gaussian"
    noise_prior: str | LogNormal = "log-normal"
    normalize_y: bool = True

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.positive_only = self.likelihood in ("poisson", "negative-binomial")
        return tags

    def _new_bank(self, X: Any = None) -> KernelBank:
        if X is not None:
            self._default_kernels = self._kernels_for(getattr(X, "values", X))
        return super()._new_bank(X)

    def _kernels_for(self, X: Any) -> str:
        """Return the kernels of the default bank for some samples: adaptive ones of few dense numbers."""
        views, is_sets = self.views, is_spike_slab(self.kernel_prior, self.KERNEL_PRIORS)
        if is_sets or self.design is not None or self.missing_views != "error":
            return "auto"
        if not isinstance(X, np.ndarray | pd.DataFrame) or not isinstance(self._likelihood(), Gaussian):
            return "auto"
        n_views = len(views) if isinstance(views, Mapping) else 1 if str(views) in ("None", "all") else np.inf
        is_small = len(X) <= MOST_ROWS and X.shape[1] <= MOST_COLUMNS and n_views <= MOST_VIEWS
        return "adaptive" if is_small else "auto"

    def _likelihood(self) -> Likelihood:
        found, prior = self.likelihood, checked_log_normal("noise_prior", self.noise_prior, NOISE)
        if isinstance(found, Gaussian | StudentT | Rated):
            return found
        if not isinstance(found, str) or found not in LIKELIHOODS:
            raise ValueError(
                f"`likelihood` must be one of {', '.join(map(repr, LIKELIHOODS))}, or one of these objects of "
                f"bayesmkl.outcomes; got {shown(found)}. For labels, grades and times use "
                "GPMKLClassifier, GPMKLOrdinalClassifier and GPMKLSurvival."
            )
        named = LIKELIHOODS[found]
        return replace(named, noise_prior=prior) if isinstance(named, Gaussian | StudentT) else named

    def fit(self, X: Samples, y: Targets, sample_weight: ArrayLike | None = None) -> GPMKLRegressor:
        """Draw from the posterior.

        Parameters
        ----------
        %(X:training)s
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
            Targets. Several targets share the kernel weights; each has its own noise. Counts must be whole numbers
            and not negative. With "beta-binomial" the columns are the numbers of successes and of trials.
        %(sample_weight)s

        Returns
        -------
        self : GPMKLRegressor
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
        likelihood = self.likelihood_
        if isinstance(likelihood, Heteroscedastic) and likelihood.tasks:
            names = likelihood.names[: likelihood.n_scales]
            self.noise_std_ = self.y_scale_ * np.array([self.parameters_[name] for name in names])
        elif "noise_std" in self.parameters_:
            noise = self.y_scale_ * self.parameters_["noise_std"]
            self.noise_std_ = noise if np.ndim(self.y_scale_) else float(noise)
        return self

    def _read(self, X: Samples, y: Targets, counts: np.ndarray | None) -> tuple[DenseStack, np.ndarray]:
        likelihood = self._likelihood()
        stack, y = self._fit_stack(X, y, counts=counts, y_numeric=True)
        self.offset_ = np.zeros(len(y))
        if self.design_ is not None and self.design_.offset_column is not None:
            self.offset_ = self.design_.offsets(self.kernel_bank_.X_train_)  # type: ignore[union-attr]
        if isinstance(likelihood, Gaussian | StudentT):
            numbers = self._numbers(likelihood, (y.T - self.offset_).T)
            warn_of_copies(self, X, y, self.sample_weight_)
            return stack, numbers
        if self.design_ is not None and self.design_.precision_column is not None:
            raise ValueError(
                "`precision_column` must be None except with normal and Student t noise; got "
                f"{shown(self.design.precision_column)} with counts. Put numbers of trials into a column of `y` with "  # type: ignore[union-attr]
                '"beta-binomial".'
            )
        assert isinstance(likelihood, Rated)
        check_exposures(self.offset_)
        self.likelihood_ = Offset(likelihood)
        fields = likelihood.encode(y)
        offset = np.zeros(len(fields))
        if self.normalize_y:
            offset = likelihood.base_scores(fields, self.offset_, counts)
        of_rate, several = likelihood.rate(offset), len(fields) > 1
        self.y_mean_, self.y_scale_ = (of_rate, np.ones(len(fields))) if several else (float(of_rate[0]), 1.0)
        offsets = offset[:, None, None] + self.offset_ + np.zeros((len(fields), 1, 1))
        return stack, np.concatenate([fields, offsets], axis=1)

    def _numbers(self, likelihood: Gaussian | StudentT, y: np.ndarray) -> np.ndarray:
        """Return standardized targets, with tasks and precisions after them where there are some."""
        tasks: tuple[str, ...] = ()
        self.likelihood_, task = likelihood, None
        if self.design_ is not None and (self.design_.has_tasks or self.design_.precision_column is not None):
            tasks = self.design_.tasks
            self.likelihood_ = Heteroscedastic(likelihood, tasks)
            task = self._task(self.kernel_bank_.X_train_)  # type: ignore[union-attr]
        each = [np.ones(len(y), dtype=bool)] if task is None else [task == t for t in range(len(tasks))]
        within = "" if task is None else " within every task"
        counts = self.sample_weight_ = of_numbers(self.sample_weight_, each, within)
        if task is None:
            self.y_mean_, self.y_scale_ = self._standards(likelihood, y, counts)
        else:
            if y.ndim > 1:
                raise ValueError(
                    f"`y` must be of shape (n_samples,) with a `task_column`; got {y.shape}. Make each output a "
                    "task: stack its rows, with a column that names the output."
                )
            units = [
                self._standards(likelihood, y[own], None if counts is None else counts[own]) for own in each
            ]
            self.y_mean_, self.y_scale_ = np.array(units).T
        location, scale = self._units(task)
        numbers = (y.T - location) / scale
        if not isinstance(self.likelihood_, Heteroscedastic):
            return numbers
        return self._with_fields(numbers, self.kernel_bank_.X_train_)  # type: ignore[union-attr]

    def _standards(
        self, likelihood: Gaussian | StudentT, y: np.ndarray, counts: np.ndarray | None
    ) -> tuple[Any, Any]:
        """Return location and scale of numbers; outliers, which Student t noise allows for, have no part in them."""
        if isinstance(likelihood, Gaussian):
            return location_and_scale(y, self.normalize_y, counts)
        if y.ndim == 1:
            return location_and_scale(y, self.normalize_y, near_the_median(y, counts))
        found = [location_and_scale(own, self.normalize_y, near_the_median(own, counts)) for own in y.T]
        location, scale = np.array(found).T
        return location, scale

    def _task(self, X: np.ndarray) -> np.ndarray | None:
        """Return positions of the tasks of validated rows whose targets are numbers, None if they have none."""
        return self.design_.task(X) if isinstance(self.likelihood_, Heteroscedastic) else None  # type: ignore[union-attr]

    def _units(self, task: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
        """Return location and scale of targets, which broadcast with (n_outputs, n_rows)."""
        location, scale = (np.atleast_1d(value)[:, None] for value in (self.y_mean_, self.y_scale_))
        return (location, scale) if task is None else (location[task].T, scale[task].T)

    def _with_fields(self, numbers: np.ndarray, X: np.ndarray) -> np.ndarray:
        """Return standardized numbers, (n_outputs, n_rows), with tasks and precisions of validated rows."""
        task, precision = self._task(X), self.design_.precisions(X)  # type: ignore[union-attr]
        known = np.stack([np.zeros(len(X)) if task is None else task, precision])
        return np.concatenate(
            [numbers[:, None], np.broadcast_to(known, (len(numbers), *known.shape))], axis=1
        )

    def _seen(self, X: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return what the likelihood sees of numbers of validated rows, and the scale of these."""
        location, scale = self._units(self._task(X))
        numbers = (y.T - location) / scale
        if not isinstance(self.likelihood_, Heteroscedastic):
            return numbers, scale
        return self._with_fields(numbers, X), scale

    def _offsets(self, X: np.ndarray) -> Any:
        found = super()._offsets(X)
        return found if self._OUTCOME == "counts" else found / self._units(self._task(X))[1]

    def _replicate(self, score: np.ndarray, parameters: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        drawn = super()._replicate(score, parameters, rng)
        return drawn if self._OUTCOME == "counts" else drawn + self.offset_

    def _log_predictive(
        self, targets: np.ndarray, log_of_each: np.ndarray, log_of_all: np.ndarray
    ) -> np.ndarray:
        return log_of_all - self._log_units().sum(axis=0)

    def _log_units(self) -> Any:
        return np.log(self._units(self._training_task)[1])

    @property
    def _training_task(self) -> np.ndarray | None:
        """Positions of the tasks of the training samples."""
        several = isinstance(self.likelihood_, Heteroscedastic) and bool(self.likelihood_.tasks)
        return self.target_[-2].astype(int) if several else None

    def _in_units(self, values: np.ndarray) -> np.ndarray:
        if self._OUTCOME == "counts":
            return values
        location, scale = self._units(self._training_task)
        return location + scale * values

    def _score_units(self) -> np.ndarray:
        if np.ndim(self.y_scale_) and not self._has_outputs:  # tasks have units of their own
            return np.ones(1)
        return np.atleast_1d(np.asarray(self.y_scale_, dtype=float))

    @property
    def _OUTCOME(self) -> str:  # type: ignore[override]
        return "counts" if isinstance(self.likelihood_, Offset) else "numbers"

    def _target_in_units(self) -> np.ndarray:
        if self._OUTCOME == "counts":
            return by_row(self._targets_of_outputs()[:, 0])
        numbers = self._targets_of_outputs()
        if isinstance(self.likelihood_, Heteroscedastic):
            numbers = numbers[:, 0]
        return by_row(self._in_units(numbers) + self.offset_)

    def _warn_of_far_means(self, mean: np.ndarray) -> None:
        """Say so where means of counts are those of a few large scores that nothing speaks against."""
        largest = max(float(self._targets_of_outputs()[:, 0].max()), 1.0)
        n_far = int((mean > FAR * largest).any(axis=0).sum())
        if n_far:
            warn_user(
                f"GPMKLRegressor predicts means of counts up to {mean.max():.2g} for {n_far} rows, more than {FAR:g} "
                f"times the largest training count, {largest:g}. Their log rates are very uncertain, so a few large "
                'draws dominate the mean. Use likelihood="negative-binomial", or `predict_latent`.',
                UserWarning,
            )

    def predict(self, X: Samples, return_std: bool = False) -> Any:
        """Predict the target.

        Parameters
        ----------
        %(X)s
        return_std : bool, default=False
            Whether to also return standard deviations of the target, including its noise.

        Returns
        -------
        mean : ndarray of shape (n_rows,) or (n_rows, n_outputs)
            Predictive mean, in the units of the target; with "beta-binomial" the probability of a success.
        %(std)s

        Raises
        ------
        NotFittedError
            Before `fit`.
        %(ValueError:X)s
        %(TypeError:X)s

        Warns
        -----
        UserWarning
            If predicted mean counts are far above the training counts, which happens for very uncertain log rates.
        """
        check_is_fitted(self, "posterior_")
        counts, likelihood = self._OUTCOME == "counts", self.likelihood_
        location, scale = np.zeros((1, 1)), np.ones((1, 1))
        if not counts:
            rows = self._validate_rows(X) if isinstance(likelihood, Heteroscedastic) else np.empty(0)
            location, scale = self._units(self._task(rows))
        if not (return_std or counts):
            return by_row(location + scale * self._mean_scores(X))
        moments = self._moments(X)
        base: Any = 0.0
        fields = None
        if isinstance(likelihood, Heteroscedastic):
            fields = self._with_fields(np.full(moments.mean.shape[1:], np.nan), rows)
        if counts:  # not the logarithm of `y_mean_`, which is zero where offsets are large
            base = self._targets_of_outputs()[:, -1, :1] - self.offset_[0]
        found = [
            likelihood.predict(mean, variance, own.T[..., None], fields)
            for mean, variance, own in zip(
                moments.mean + base, moments.variance, moments.parameters, strict=True
            )
        ]
        mean, variance = (np.array([getattr(one, name) for one in found]) for name in ("mean", "variance"))
        mean, variance = overall(moments._replace(mean=mean, variance=variance))
        if counts:
            self._warn_of_far_means(mean)
        if not return_std:
            return by_row(mean)
        return by_row(location + scale * mean), by_row(scale * np.sqrt(variance))
