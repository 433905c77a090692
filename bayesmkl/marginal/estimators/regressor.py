"""Regression by an additive Gaussian process, of one target or several."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.utils import Tags

from bayesmkl._estimator.targets import location_and_scale
from bayesmkl._utils.docstrings import fill_docs
from bayesmkl._utils.options import Marginal
from bayesmkl._utils.typing import Samples, Targets
from bayesmkl._utils.validation import check_scale, shown
from bayesmkl.kernels.bank import KernelBank
from bayesmkl.kernels.stacks.dense import DenseStack
from bayesmkl.marginal.estimators.base import BaseGPMKL, overall
from bayesmkl.marginal.estimators.shared_docs import GPMKL
from bayesmkl.marginal.hyperpriors import DirichletShares, HalfT, Horseshoe, LogNormal, WeightPrior
from bayesmkl.marginal.likelihoods import Gaussian, Likelihood

__all__ = ["GPMKLRegressor"]

NOISE = LogNormal(0.3, 1.5)


@fill_docs(GPMKL)
class GPMKLRegressor(RegressorMixin, BaseGPMKL):
    r"""Regression by a sum of Gaussian processes, one for each kernel, with inferred weights.

    As `GPMKLClassifier`, with normal noise of unknown standard deviation around the score:

    .. math:: y_i = \sum_m w_m g_m(x_i) + b + \epsilon_i, \qquad g_m \sim GP(0, K_m / c_m), \qquad
       \epsilon_i \sim N(0, \phi^2) .

    Given weights and noise everything else is integrated out exactly [1]_.

    Parameters
    ----------
    %(kernels)s
    kernel_prior : str, HalfT, DirichletShares, Horseshoe or numpyro.distributions.Distribution, default="dirichlet"
        Prior of the weights, in units of the standardized target. "dirichlet" is
        ``DirichletShares(concentration=0.5, df=4, scale=1)``, "half-t" ``HalfT(df=4, scale=1)`` on each, "horseshoe"
        ``Horseshoe(scale=0.1, slab=2)``; see `GPMKLClassifier`.
    noise_prior : "log-normal" or LogNormal, default="log-normal"
        Prior of the standard deviation of the noise, in the same units; the word is ``LogNormal(0.3, 1.5)``.
    normalize_y : bool, default=True
        Standardize the target first, so that priors mean the same whatever its units. Predictions are in the
        original units; weights and `posterior_` are those of the standardized target.
    %(intercept_std)s
    %(inference)s
    %(kernel_names)s
    %(random_state)s
    %(verbose)s

    Attributes
    ----------
    %(kernel_shares_, kernel_shares_std_)s
    %(kernel_weights_, kernel_weights_std_)s
    noise_std_ : float, or ndarray of shape (n_outputs,)
        Posterior mean standard deviation of the noise, in the units of the target.
    intercept_ : float, or ndarray of shape (n_outputs,)
        Posterior mean of `b`.
    dual_coef_ : ndarray of shape (n_kernels, n_samples) or (n_outputs, n_kernels, n_samples)
        Posterior mean weights of the training samples in each kernel's part.
    y_mean_, y_scale_ : float, or ndarray of shape (n_outputs,)
        Mean and standard deviation by which the target was standardized (0 and 1 without `normalize_y`).
    %(log_evidence_)s
    elpd_i_ : ndarray of shape (n_samples,)
        Leave-one-out log density of every sample's target, in nats and the units of the target; of several the joint
        one.
    %(pareto_k_)s
    %(rhat_)s
    %(ess_)s
    %(unconverged_)s
    %(n_evaluations_)s
    %(outcome_)s
    %(converged_)s
    %(posterior_)s
    target_ : ndarray of shape (n_samples,) or (n_outputs, n_samples)
        The standardized training target.
    %(training_kernels_)s
    %(kernel_names_)s
    %(n_kernels_in_)s
    %(kernel_bank_)s
    %(n_features_in_)s
    %(feature_names_in_)s

    See Also
    --------
    GPMKLClassifier : The same model of classes.
    bayesmkl.bemkl.BEMKLRegressor : Weights of samples that all kernels share, by variational inference.

    References
    ----------
    .. [1] C. E. Rasmussen and C. K. I. Williams (2006), Gaussian processes for machine learning, §2.2 and §5.4.

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
    KERNEL_PRIORS: ClassVar[dict[str, WeightPrior]] = {
        "dirichlet": DirichletShares(0.5, 4.0, 1.0),
        "half-t": HalfT(4.0, 1.0),
        "horseshoe": Horseshoe(0.1, 2.0),
    }

    def __init__(
        self,
        kernels: KernelBank | str | None = None,
        *,
        kernel_prior: str | HalfT | DirichletShares | Horseshoe = "dirichlet",
        noise_prior: str | LogNormal = "log-normal",
        normalize_y: bool = True,
        intercept_std: float = 3.0,
        inference: str | Marginal = "marginal",
        kernel_names: Sequence[str] | None = None,
        random_state: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.kernels = kernels
        self.kernel_prior = kernel_prior
        self.noise_prior = noise_prior
        self.normalize_y = normalize_y
        self.intercept_std = intercept_std
        self.inference = inference
        self.kernel_names = kernel_names
        self.random_state = random_state
        self.verbose = verbose

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    def _likelihood(self) -> Likelihood:
        return Gaussian()

    def _parameter_prior(self) -> LogNormal:
        value = self.noise_prior
        if isinstance(value, str) and value == "log-normal":
            return NOISE
        if not isinstance(value, LogNormal):
            raise ValueError(
                f'`noise_prior` must be "log-normal" or a LogNormal(median, log_std); got {shown(value)}.'
            )
        return LogNormal(*(check_scale(f"noise_prior.{k}", v) for k, v in value._asdict().items()))

    def _check_parameters(self) -> None:
        super()._check_parameters()
        self._parameter_prior()

    def fit(self, X: Samples, y: Targets) -> GPMKLRegressor:
        """Draw from the posterior.

        Parameters
        ----------
        %(X:training)s
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
            Targets. Several share the kernel weights, and have noise of their own.

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
        """
        self._find_posterior(*self._prepare(X, y))
        draws = self.posterior_
        noise = self.y_scale_ * (draws.probability @ draws.parameters[..., 0])
        self.noise_std_ = noise if np.ndim(self.y_scale_) else float(noise[0])
        return self

    def _prepare(self, X: Samples, y: Targets) -> tuple[DenseStack, np.ndarray]:
        self._check_parameters()  # first: a mistake in them costs no time
        stack, y = self._fit_stack(X, y, y_numeric=True, multi_output=True)
        self.y_mean_, self.y_scale_ = location_and_scale(y, self.normalize_y)
        return stack, np.atleast_2d(((y - self.y_mean_) / self.y_scale_).T)

    def _log_predictive(
        self, targets: np.ndarray, log_of_each: np.ndarray, log_of_all: np.ndarray
    ) -> np.ndarray:
        return log_of_all - np.sum(np.log(self.y_scale_))

    def _in_nats(self, log_evidence: float) -> float:
        return log_evidence - self.target_.shape[-1] * float(np.sum(np.log(self.y_scale_)))

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
        if not return_std:
            return self._in_units(self._mean_scores(X))
        moments = self._moments(X)
        noise = moments.parameters[..., 0] ** 2
        mean, variance = overall(moments._replace(variance=moments.variance + noise[..., None]))
        std = np.sqrt(variance)
        return self._in_units(mean), self.y_scale_ * (std[0] if self.target_.ndim == 1 else std.T)

    def _in_units(self, scores: np.ndarray) -> np.ndarray:
        """Return scores, (n_outputs, n_rows), as targets."""
        values = scores[0] if self.target_.ndim == 1 else scores.T
        return self.y_mean_ + self.y_scale_ * values
