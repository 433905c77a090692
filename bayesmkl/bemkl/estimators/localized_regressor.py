"""Localized BEMKL of a real-valued target as a scikit-learn estimator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import RegressorMixin

from bayesmkl._estimator.gate_features import refuse_gate_features
from bayesmkl._estimator.gated_scores import gated_r2
from bayesmkl._estimator.targets import location_and_scale
from bayesmkl._utils.docstrings import fill_docs
from bayesmkl._utils.options import VB, Marginal
from bayesmkl._utils.typing import Samples, Targets
from bayesmkl.bemkl.estimators.localized_base import BaseLocalizedBEMKL
from bayesmkl.bemkl.estimators.shared_docs import LOCALIZED
from bayesmkl.bemkl.models import localized
from bayesmkl.bemkl.models.moments import Gamma
from bayesmkl.bemkl.reading.local_weights import local_score
from bayesmkl.bemkl.reading.predict import ScoreDraws, ScoreMoments
from bayesmkl.kernels.bank import KernelBank
from bayesmkl.kernels.stacks.dense import DenseStack

__all__ = ["BEMKLLocalizedRegressor"]


@fill_docs(LOCALIZED)
class BEMKLLocalizedRegressor(RegressorMixin, BaseLocalizedBEMKL):
    r"""Regression with `BEMKLRegressor`'s model, whose kernel weights depend on the sample.

    The target is :math:`y_i \sim N(\sum_m e_m(z_i) g_{mi} + b, 1/\varepsilon)` [1]_ with gates
    :math:`e_m(z) = w_{m0} + w_m^\top \varphi(z)` as in `BEMKLLocalizedClassifier`, and learned precisions of both
    noises.

    Parameters
    ----------
    %(kernels)s
    %(gate_columns)s
    %(gate_width)s
    %(n_landmarks)s
    %(kernel_prior)s
    %(gate_prior)s
    %(sample_prior)s
    %(bias_prior)s
    intermediate_prior : {"nonsparse", "sparse"} or Gamma, default="nonsparse"
        Prior on the precision :math:`\upsilon` of the intermediate outputs.
    noise_prior : {"nonsparse", "sparse"} or Gamma, default="nonsparse"
        Prior on the precision :math:`\varepsilon` of the target noise.
    normalize_y : bool, default=True
        Standardize the target for the fit; predictions are in its own units.
    %(predictive)s
    %(inference)s
    %(n_init)s
    %(max_iter)s
    %(tol)s
    %(kernel_names)s
    %(random_state)s
    %(verbose)s

    Attributes
    ----------
    y_mean_, y_scale_ : float *
        Mean and standard deviation of the target, or 0 and 1. With several targets one model is fitted to each, with
        gates of its own, and attributes marked * have a leading axis of length n_targets (or are tuples).
    %(gate_width_)s
    %(gate_widths_)s
    %(gate_elbos_)s
    %(elbo_gain_)s
    %(locality_)s *
    %(locality_interval_)s *
    %(kernel_shares_, kernel_shares_std_)s *
    %(kernel_weights_, kernel_weights_std_)s *
    %(kernel_weights_cov_)s *
    intercept_ : float *
        Posterior mean of `b`, of the standardized target.
    %(dual_coef_)s *
    %(gate_columns_)s
    %(n_gate_features_)s
    %(gate_features_)s
    %(gate_basis_)s
    %(rhat_, ess_)s *
    %(elbo_)s
    %(elbo_history_)s *
    %(n_iter_)s *
    %(outcome_)s *
    %(converged_)s
    posterior_ : LocalizedState or LocalDraws *
        All factors of the variational posterior, or the draws of marginal inference.
    target_ : ndarray of shape (n_samples,) *
        The standardized training target.
    %(storage_)s
    %(kernel_bytes_)s
    %(kernel_names_)s
    %(n_kernels_in_)s
    %(kernel_bank_)s
    %(n_features_in_)s
    %(feature_names_in_)s

    See Also
    --------
    BEMKLLocalizedClassifier : The same model of labels.

    Notes
    -----
    Variational posteriors are too narrow as a rule, and so are the standard deviations of `gates` and the intervals
    of localities: they are lower bounds of the uncertainty. Those of ``inference="marginal"`` can be read.

    References
    ----------
    .. [1] M. Gönen (2012), Bayesian efficient multiple kernel learning, ICML, §3.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesmkl import KernelBank
    >>> from bayesmkl.bemkl import BEMKLLocalizedRegressor
    >>> from bayesmkl.kernels import Linear
    >>> rng = np.random.default_rng(0)
    >>> X = np.c_[rng.normal(size=(120, 2)), rng.uniform(-1, 1, size=120)]
    >>> y = np.where(X[:, 2] > 0.0, X[:, 0], X[:, 1]) + rng.normal(scale=0.1, size=120)
    >>> bank = KernelBank([Linear()], views={"right": 0, "left": 1})
    >>> model = BEMKLLocalizedRegressor(bank, gate_columns=[2]).fit(X[:80], y[:80])
    >>> bool(model.elbo_gain_ > 3.0), bool(model.score(X[80:], y[80:]) > 0.5)  # .26 with global weights
    (True, True)
    """

    _FLAGS = ("normalize_y",)
    _takes_several_targets = True

    def __init__(
        self,
        kernels: KernelBank | str | None = None,
        *,
        gate_columns: Sequence[str | int] | np.ndarray | None = None,
        gate_width: float | str = "auto",
        n_landmarks: int | None = None,
        kernel_prior: str | Gamma = "nonsparse",
        gate_prior: str | Gamma = "nonsparse",
        sample_prior: str | Gamma = "nonsparse",
        bias_prior: str | Gamma = "nonsparse",
        intermediate_prior: str | Gamma = "nonsparse",
        noise_prior: str | Gamma = "nonsparse",
        normalize_y: bool = True,
        predictive: str = "full",
        inference: str | VB | Marginal = "vb",
        n_init: int = 1,
        max_iter: int = 3000,
        tol: float = 1e-6,
        kernel_names: Sequence[str] | None = None,
        random_state: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.kernels = kernels
        self.gate_columns = gate_columns
        self.gate_width = gate_width
        self.n_landmarks = n_landmarks
        self.kernel_prior = kernel_prior
        self.gate_prior = gate_prior
        self.sample_prior = sample_prior
        self.bias_prior = bias_prior
        self.intermediate_prior = intermediate_prior
        self.noise_prior = noise_prior
        self.normalize_y = normalize_y
        self.predictive = predictive
        self.inference = inference
        self.n_init = n_init
        self.max_iter = max_iter
        self.tol = tol
        self.kernel_names = kernel_names
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Samples, y: Targets, gate_features: ArrayLike | None = None) -> BEMKLLocalizedRegressor:
        """Fit the posterior for gates of every width, and keep the one with the highest bound.

        Parameters
        ----------
        %(X:training)s
        y : array-like of shape (n_samples,) or (n_samples, n_targets)
            Targets; the width of the gates is the same for all of them.
        %(gate_features:training)s

        Returns
        -------
        self : BEMKLLocalizedRegressor
            The fitted estimator.

        Raises
        ------
        %(ValueError:parameters)s
        %(TypeError:gates)s

        Warns
        -----
        %(ConvergenceWarning)s
        %(KernelQualityWarning)s
        """
        self._check_parameters()  # first: a mistake in them costs no time
        refuse_gate_features(self, gate_features, not self._is_precomputed())
        stack, y = self._fit_stack(X, y, y_numeric=True)
        y = y[:, 0] if y.shape[1:] == (1,) else y
        self.y_mean_, self.y_scale_ = location_and_scale(y, self.normalize_y)
        self._fit_local(stack, np.atleast_2d(((y - self.y_mean_) / self.y_scale_).T), gate_features)
        return self

    def _settings(self) -> tuple[localized.LocalizedPriors]:
        names = (
            "sample_prior",
            "bias_prior",
            "kernel_prior",
            "gate_prior",
            "intermediate_prior",
            "noise_prior",
        )
        self._kernel_prior()  # which refuses priors on the weights themselves
        return (localized.LocalizedPriors(*map(self._prior, names)),)

    def _local_problem(
        self, stack: Any, gram: Any, y: np.ndarray, features: np.ndarray
    ) -> localized.LocalizedProblem:
        return localized.LocalizedProblem(stack, gram, y, features, *self._settings())

    @staticmethod
    def _initial_noise(n_samples: int, rng: np.random.Generator | None) -> np.ndarray:
        """Return the noise added to the starting intermediate outputs: N(0, 1), or its mean."""
        return np.zeros(n_samples) if rng is None else rng.standard_normal(n_samples)

    # ------------------------------------------------------------------------------------------ predictions

    def _local_score(
        self, stack: DenseStack, features: np.ndarray, posterior: localized.LocalizedState, rule: str
    ) -> ScoreMoments:
        upsilon: Any = posterior.intermediate_precision
        return local_score(stack, features, posterior, float(upsilon.mean_reciprocal), rule)

    def predict(self, X: Samples, gate_features: ArrayLike | None = None, return_std: bool = False) -> Any:
        """Predict the target.

        Parameters
        ----------
        %(X)s
        %(gate_features)s
        return_std : bool, default=False
            Also return standard deviations of the target, its noise included.

        Returns
        -------
        mean : ndarray of shape (n_rows,) or (n_rows, n_targets)
            Predictive mean, in the units of the target.
        %(std)s

        Raises
        ------
        NotFittedError
            Before `fit`.
        %(ValueError:gates)s
        %(TypeError:X)s
        """
        scores = self._scores_of_rows(X, gate_features)
        mean = self.y_mean_ + self.y_scale_ * self._shaped([score.mean for score in scores])
        if not return_std:
            return mean
        variances = [self._variance(*pair) for pair in zip(scores, self._posteriors(), strict=True)]
        return mean, self.y_scale_ * np.sqrt(self._shaped(variances))

    def _variance(self, score: ScoreMoments | ScoreDraws, posterior: Any) -> np.ndarray:
        """Return the variance of a standardized target, its noise included."""
        if isinstance(score, ScoreDraws):
            return score.total_variance
        epsilon: Any = cast(localized.LocalizedState, posterior).noise_precision
        return (epsilon.mean_reciprocal if self.predictive == "full" else 1.0 / epsilon.mean) + score.variance

    def _shaped(self, columns: list[np.ndarray]) -> np.ndarray:
        """Put predictions of all targets side by side, or return the one of a single target."""
        return columns[0] if len(columns) == 1 else np.stack(columns, axis=1)

    score = gated_r2
