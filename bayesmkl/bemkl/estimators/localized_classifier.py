"""Localized BEMKL of labels as a scikit-learn estimator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import ClassifierMixin

from bayesmkl._estimator import class_targets, most_probable
from bayesmkl._estimator.gate_features import refuse_gate_features
from bayesmkl._estimator.gated_scores import gated_accuracy
from bayesmkl._utils.docstrings import fill_docs
from bayesmkl._utils.options import VB, Marginal
from bayesmkl._utils.typing import Samples, Targets
from bayesmkl._utils.validation import check_scale
from bayesmkl.bemkl.estimators.class_models import OneVersusAll
from bayesmkl.bemkl.estimators.classifier import HALF_NORMAL_MEAN
from bayesmkl.bemkl.estimators.localized_base import BaseLocalizedBEMKL
from bayesmkl.bemkl.estimators.shared_docs import LOCALIZED
from bayesmkl.bemkl.models import localized
from bayesmkl.bemkl.models.moments import Gamma
from bayesmkl.bemkl.reading.local_weights import local_score
from bayesmkl.bemkl.reading.predict import ScoreMoments
from bayesmkl.kernels.bank import KernelBank
from bayesmkl.kernels.stacks.dense import DenseStack

__all__ = ["BEMKLLocalizedClassifier"]


@fill_docs(LOCALIZED)
class BEMKLLocalizedClassifier(ClassifierMixin, BaseLocalizedBEMKL):
    r"""Bayesian efficient multiple kernel learning whose kernel weights depend on the sample.

    As `BEMKLClassifier` [1]_, with weights that are functions of gate features z,

    .. math:: g_{mi} \mid a \sim N(k_{mi}^\top a, \sigma_g^2), \qquad
       f_i \sim N\Bigl(\sum_m e_m(z_i) g_{mi} + b, 1\Bigr), \qquad e_m(z) = w_{m0} + w_m^\top \varphi(z),

    :math:`\varphi` being features of a Gaussian process on landmarks [2]_. The score is still bilinear, and all
    updates are in closed form. Whether anything is local the evidence says: gates that are the same everywhere, which
    make `BEMKLClassifier`, are compared with local ones.

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
    margin : float, default=0.0
        The margin :math:`\nu` between the classes.
    intermediate_scale : float, default=0.3
        :math:`\sigma_g`, standard deviation of the intermediate outputs.
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
    classes_ : ndarray of shape (n_classes,)
        Labels. With more than two, one model is fitted per class (one-versus-rest), and attributes marked * have a
        leading axis of length n_classes (or are tuples).
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
        Posterior mean of `b`.
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
        Training labels as the model sees them, -1 and +1.
    %(storage_)s
    %(kernel_bytes_)s
    %(kernel_names_)s
    %(n_kernels_in_)s
    %(kernel_bank_)s
    %(n_features_in_)s
    %(feature_names_in_)s

    See Also
    --------
    BEMKLLocalizedRegressor : The same model of a real-valued target.
    bayesmkl.kernels.Gate : Local weights of kernels in a bank, for every method with global weights.

    Notes
    -----
    Variational posteriors are too narrow as a rule, and so are the standard deviations of `gates` and the intervals
    of localities: they are lower bounds of the uncertainty. Those of ``inference="marginal"`` can be read.

    Of several classes each has gates of its own, since what tells one from the rest may be another view at the same
    place than what tells another one.

    One sweep costs :math:`O(PN^2 + N^3 + N P^2 D^2 + P^3 D^3)` for P kernels, N samples and D features of the gates,
    of which there are about as many as gates of the width can be different, and `n_landmarks` + 1 at most.

    References
    ----------
    .. [1] M. Gönen (2012), Bayesian efficient multiple kernel learning, ICML.
    .. [2] C. K. I. Williams and M. Seeger (2001), Using the Nyström method to speed up kernel machines, NIPS 13.

    Examples
    --------
    >>> from bayesmkl import KernelBank
    >>> from bayesmkl.bemkl import BEMKLLocalizedClassifier
    >>> from bayesmkl.datasets import make_localized
    >>> from bayesmkl.kernels import Gaussian
    >>> sample = make_localized(150, design="halves", random_state=0)
    >>> bank = KernelBank([Gaussian(width=2)], views=sample.views)
    >>> model = BEMKLLocalizedClassifier(bank, gate_columns=sample.gate_columns)
    >>> model = model.fit(sample.data, sample.target)
    >>> bool(model.elbo_gain_ > 5.0), bool(model.locality_.min() > 0.3)
    (True, True)
    """

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
        margin: float = 0.0,
        intermediate_scale: float = 0.3,
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
        self.margin = margin
        self.intermediate_scale = intermediate_scale
        self.predictive = predictive
        self.inference = inference
        self.n_init = n_init
        self.max_iter = max_iter
        self.tol = tol
        self.kernel_names = kernel_names
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Samples, y: Targets, gate_features: ArrayLike | None = None) -> BEMKLLocalizedClassifier:
        """Fit the posterior for gates of every width, and keep the one with the highest bound.

        Parameters
        ----------
        %(X:training)s
        y : array-like of shape (n_samples,)
            Labels of at least two classes.
        %(gate_features:training)s

        Returns
        -------
        self : BEMKLLocalizedClassifier
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
        stack, y = self._fit_stack(X, y)
        labels = class_targets(y)
        self.classes_ = labels.classes
        self._fit_local(stack, labels.targets, gate_features)
        return self

    def _settings(self) -> tuple[localized.LocalizedPriors, float, float]:
        priors = localized.LocalizedPriors(
            self._prior("sample_prior"),
            self._prior("bias_prior"),
            self._kernel_prior(),
            self._prior("gate_prior"),
        )
        margin = check_scale("margin", self.margin, zero=True)
        return priors, margin, check_scale("intermediate_scale", self.intermediate_scale)

    def _local_margin(self) -> float:
        return self._settings()[1]

    def _local_problem(
        self, stack: Any, gram: Any, y: np.ndarray, features: np.ndarray
    ) -> localized.LocalizedProblem:
        priors, margin, scale = self._settings()
        return localized.LocalizedProblem(stack, gram, y, features, priors, margin, scale**-2)

    @staticmethod
    def _initial_noise(n_samples: int, rng: np.random.Generator | None) -> np.ndarray:
        """Return how far scores start beyond the margin: |N(0, 1)|, or its mean everywhere."""
        return np.full(n_samples, HALF_NORMAL_MEAN) if rng is None else np.abs(rng.standard_normal(n_samples))

    # ------------------------------------------------------------------------------------------ predictions

    def _local_score(
        self, stack: DenseStack, features: np.ndarray, posterior: localized.LocalizedState, rule: str
    ) -> ScoreMoments:
        return local_score(stack, features, posterior, self._settings()[2] ** 2, rule)

    def predict_latent(
        self, X: Samples, gate_features: ArrayLike | None = None, return_std: bool = False
    ) -> Any:
        """Predict the latent score `f` of new samples.

        Parameters
        ----------
        %(X)s
        %(gate_features)s
        return_std : bool, default=False
            Also return standard deviations, the unit noise of `f` included.

        Returns
        -------
        mean : ndarray of shape (n_rows,), or (n_rows, n_classes) for more than two classes
            Predictive mean, in units of the noise.
        %(std)s

        Raises
        ------
        NotFittedError
            Before `fit`.
        %(ValueError:gates)s
        %(TypeError:X)s
        """
        mean, std = OneVersusAll().moments(self._scores_of_rows(X, gate_features))
        mean, std = (each[:, 0] if each.shape[1] == 1 else each for each in (mean, std))
        return (mean, std) if return_std else mean

    def decision_function(self, X: Samples, gate_features: ArrayLike | None = None) -> np.ndarray:
        """Return log odds of each class against the rest.

        Parameters
        ----------
        %(X)s
        %(gate_features)s

        Returns
        -------
        ndarray of shape (n_rows,), or (n_rows, n_classes) for more than two classes
            Given a score beyond the margin; positive for ``classes_[1]`` in the binary case.

        Raises
        ------
        NotFittedError
            Before `fit`.
        %(ValueError:gates)s
        %(TypeError:X)s
        """
        odds = OneVersusAll().log_odds(self._scores_of_rows(X, gate_features), self._settings()[1])
        return odds[:, 0] if odds.shape[1] == 1 else odds

    def predict_proba(self, X: Samples, gate_features: ArrayLike | None = None) -> np.ndarray:
        """Predict class probabilities.

        Parameters
        ----------
        %(X)s
        %(gate_features)s

        Returns
        -------
        ndarray of shape (n_rows, n_classes)
            In the order of `classes_`. For more than two classes, the probabilities of each class against the rest
            normalized to sum to one.

        Raises
        ------
        NotFittedError
            Before `fit`.
        %(ValueError:gates)s
        %(TypeError:X)s
        """
        return np.exp(self.predict_log_proba(X, gate_features))

    def predict_log_proba(self, X: Samples, gate_features: ArrayLike | None = None) -> np.ndarray:
        """Predict log class probabilities, which keep their digits where `predict_proba` rounds to 0 or 1.

        Parameters
        ----------
        %(X)s
        %(gate_features)s

        Returns
        -------
        ndarray of shape (n_rows, n_classes)
            Logarithms of what `predict_proba` returns.

        Raises
        ------
        NotFittedError
            Before `fit`.
        %(ValueError:gates)s
        %(TypeError:X)s
        """
        scores = self._scores_of_rows(X, gate_features)
        return OneVersusAll().log_class_probabilities(scores, self._settings()[1])

    def predict(self, X: Samples, gate_features: ArrayLike | None = None) -> np.ndarray:
        """Predict the most probable class.

        Parameters
        ----------
        %(X)s
        %(gate_features)s

        Returns
        -------
        ndarray of shape (n_rows,)
            Labels from `classes_`.

        Raises
        ------
        NotFittedError
            Before `fit`.
        %(ValueError:gates)s
        %(TypeError:X)s
        """
        odds = self.decision_function(X, gate_features)
        return self.classes_[most_probable(odds)]

    score = gated_accuracy
