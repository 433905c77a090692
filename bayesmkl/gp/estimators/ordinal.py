"""Classification into grades by an additive Gaussian process."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import logsumexp

from bayesmkl._estimator.predictions import GradePredictions
from bayesmkl._utils.docstrings import fill_docs
from bayesmkl._utils.typing import Samples, Targets
from bayesmkl.gp.estimators.base import BaseGPMKL
from bayesmkl.gp.estimators.classifier import GPMKLClassifier
from bayesmkl.gp.estimators.settings import GPMKL, NamedPriors
from bayesmkl.gp.hyperpriors import LogNormal, checked_log_normal
from bayesmkl.kernels.stacks.dense import DenseStack
from bayesmkl.outcomes import OrdinalProbit
from bayesmkl.outcomes.grades import given_levels, number_grades


@fill_docs(GPMKL)
@dataclass(eq=False, repr=False, kw_only=True)
class GPMKLOrdinalClassifier(GradePredictions, BaseGPMKL):
    r"""Classification into ordered classes by a sum of Gaussian processes, one for each kernel.

    The model is that of `GPMKLClassifier`, with cut points that divide the score into ordered grades, one per class
    [1]_:

    .. math:: P(y_i \le k \mid f_i) = \Phi(b_k - f_i) .

    Parameters
    ----------
    %(kernels)s
    %(views)s
    kernel_prior : str, prior of `bayesmkl.gp` or numpyro.distributions.Distribution, default="nested"
        Prior of the weights, standard deviations in units of the noise, as for `GPMKLClassifier`.
    %(design)s
    %(missing_views)s
    %(intercept_std)s
    %(inference)s
    %(together)s
    %(kernel_names)s
    %(kernel_views)s
    %(random_state)s
    %(verbose)s
    %(levels)s
    distance_prior : "log-normal" or LogNormal, default="log-normal"
        Prior of the distance between neighboring cut points, in units of the noise. "log-normal" is
        ``LogNormal(0.7, 1.0)``.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Grades, ascending.
    cut_points_ : ndarray of shape (n_cuts,)
        Posterior means of the cut points between neighboring grades, relative to their mean. `intercept_` is relative
        to the same mean.
    %(kernel_shares_, kernel_shares_std_)s
    %(kernel_weights_, kernel_weights_std_)s
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
        Leave-one-out log probability of every sample's grade, in nats.
    likelihood_ : OrdinalProbit
        Likelihood of a grade given its score.
    parameters_ : dict of str to float
        Posterior means of the distances between cut points.
    %(pareto_k_)s
    %(rhat_)s
    %(ess_)s
    %(share_mcse_)s
    %(unconverged_)s
    %(n_evaluations_)s
    %(outcome_)s
    %(converged_)s
    %(posterior_)s
    target_ : ndarray of shape (n_samples,)
        Numbers of the training grades, from 0.
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
    GPMKLClassifier : Classes without an order.

    References
    ----------
    .. [1] W. Chu and Z. Ghahramani (2005), Gaussian processes for ordinal regression, Journal of Machine Learning
       Research 6.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesmkl import KernelBank
    >>> from bayesmkl.gp import GPMKLOrdinalClassifier
    >>> X = np.random.default_rng(0).normal(size=(60, 2))
    >>> grade = np.digitize(X[:, 0], [-0.5, 0.5])
    >>> model = GPMKLOrdinalClassifier(KernelBank(["rbf"], views={"signal": 0, "noise": 1})).fit(X, grade)
    >>> bool(model.kernel_shares_[0] > 0.8), model.predict([[-2.0, 0.0], [0.0, 0.0], [2.0, 0.0]])
    (True, array([0, 1, 2]))
    """

    KERNEL_PRIORS: ClassVar[NamedPriors] = GPMKLClassifier.KERNEL_PRIORS

    levels: Sequence[Any] | None = None
    distance_prior: str | LogNormal = "log-normal"

    def _likelihood(self) -> OrdinalProbit:
        usual = OrdinalProbit().distance_prior
        return OrdinalProbit(distance_prior=checked_log_normal("distance_prior", self.distance_prior, usual))

    def fit(self, X: Samples, y: Targets, sample_weight: ArrayLike | None = None) -> GPMKLOrdinalClassifier:
        """Draw from the posterior.

        Parameters
        ----------
        %(X:training)s
        y : array-like of shape (n_samples,)
            Grades; every grade must have samples.
        %(sample_weight)s

        Returns
        -------
        self : GPMKLOrdinalClassifier
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
        self._find_posterior(*self._prepare(X, y, sample_weight))
        draws, likelihood = self.posterior_, self.likelihood_
        assert isinstance(likelihood, OrdinalProbit)
        cuts = np.array(likelihood.cuts(draws.parameters[:, 0].T))
        self.cut_points_ = np.broadcast_to(cuts, (len(cuts), len(draws.probability))) @ draws.probability
        return self

    def _read(self, X: Samples, y: Targets, counts: np.ndarray | None) -> tuple[DenseStack, np.ndarray]:
        levels = given_levels(self.levels, y)
        stack, y = self._fit_stack(X, y, counts=counts)
        self.classes_, codes = number_grades(levels, y)
        self.likelihood_ = replace(self._likelihood(), n_levels=len(self.classes_))
        return stack, codes.astype(float)[None]

    def _log_predictive(
        self, targets: np.ndarray, log_of_each: np.ndarray, log_of_all: np.ndarray
    ) -> np.ndarray:
        return log_of_all

    def _log_grades(self, X: Samples) -> np.ndarray:
        moments = self._moments(X)
        scores = moments.mean[:, 0], moments.variance[:, 0], moments.parameters[:, 0]
        return self._log_probabilities(*scores, np.log(moments.probability)[:, None])

    def _log_probabilities(
        self, mean: np.ndarray, variance: np.ndarray, parameters: np.ndarray, log_weights: np.ndarray
    ) -> np.ndarray:
        """Return log probabilities of grades, (n_rows, n_classes), from scores at every point, (n_points, n_rows)."""
        likelihood = self.likelihood_
        assert isinstance(likelihood, OrdinalProbit)
        found = likelihood.log_probabilities(mean, variance, parameters.T[..., None])
        average = logsumexp(found + log_weights, axis=1)
        return (average - logsumexp(average, axis=0)).T
