"""Classification by an additive Gaussian process."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import entr, log_expit, logsumexp
from sklearn.base import ClassifierMixin

from bayesmkl._utils.docstrings import fill_docs
from bayesmkl._utils.typing import Samples, Targets
from bayesmkl._utils.validation import check_choice, scale_or_auto
from bayesmkl.gp.estimators.base import BaseGPMKL, by_row
from bayesmkl.gp.estimators.settings import GPMKL, NamedPriors
from bayesmkl.gp.hyperpriors import DirichletShares, HalfT, Horseshoe, NestedShares
from bayesmkl.gp.reading import LeftOut, log_positive
from bayesmkl.gp.selection import SpikeSlabWeights
from bayesmkl.kernels.stacks.dense import DenseStack
from bayesmkl.outcomes import Logit, Probit
from bayesmkl.outcomes.base import Likelihood
from bayesmkl.outcomes.labels import class_targets, find_temperature, most_probable, tempered

LIKELIHOODS: dict[str, Likelihood] = {"probit": Probit(), "logit": Logit()}


@fill_docs(GPMKL)
@dataclass(eq=False, repr=False, kw_only=True)
class GPMKLClassifier(ClassifierMixin, BaseGPMKL):
    r"""Classification by a sum of Gaussian processes, one for each kernel, with inferred weights.

    Every kernel adds its own function to a latent score. The weight of a kernel is the standard deviation of its
    function:

    .. math:: f = \sum_m w_m g_m + b, \qquad g_m \sim GP(0, K_m / c_m), \qquad p(y_i \mid f_i) = \Phi(y_i f_i) ,

    where :math:`c_m` is the mean variance of :math:`K_m` around its mean over the training samples. Expectation
    propagation integrates the functions out [1]_. Importance sampling draws the weights from their posterior; its
    :math:`\hat k` shows whether the draws are reliable.

    Parameters
    ----------
    %(kernels)s
    %(views)s
    kernel_prior : str, prior of `bayesmkl.gp` or numpyro.distributions.Distribution, default="nested"
        Prior of the weights, which are standard deviations. "nested", the default, is ``NestedShares(scale=2)``: a
        half-t total is divided among views, and the share of a view among its kernels, so that neither the total nor
        the share of a view depends on the number of kernels. "dirichlet" is ``DirichletShares(scale=2)``, which
        divides the total among all kernels and ignores views. "half-t" is ``HalfT(df=4, scale=2)`` for each kernel.
        "horseshoe" is ``Horseshoe(scale=0.3, slab=5)``, which expects that few kernels matter. "spike-slab" is
        ``SpikeSlabWeights()``, which includes or excludes views and kernels. You can also pass a distribution of
        NumPyro on the positive numbers, such as ``numpyro.distributions.Gamma(2, 1)``; it applies to each weight.
    %(design)s
    %(missing_views)s
    %(intercept_std)s
    %(inference)s
    %(together)s
    %(kernel_names)s
    %(kernel_views)s
    %(random_state)s
    %(verbose)s
    likelihood : {"probit", "logit"}, default="probit"
        Probability of a label given its score: :math:`\Phi(y f)`, or :math:`1 / (1 + e^{-y f})`.
    temperature : "auto" or float, default="auto"
        Predicted probabilities are raised to the power of 1 / `temperature` and normalized [2]_. "auto": with more
        than two classes, the temperature that fits the leave-one-out probabilities of the training labels best, with
        the prior N(0, 0.3²) on its logarithm; with two classes and for a label matrix 1, which leaves probabilities
        unchanged.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Labels; for a label matrix, the numbers of its columns. With more than two classes, each class has its own
        score against the rest, and all share the kernel weights; the same holds for several labels. Attributes marked
        * then have an axis of classes.
    %(kernel_shares_, kernel_shares_std_)s
    %(kernel_weights_, kernel_weights_std_)s
    intercept_ : float *
        Posterior mean of `b`.
    dual_coef_ : ndarray of shape (n_kernels, n_samples) *
        Posterior mean weights of the training samples for each kernel. The mean score of a sample is the intercept
        plus the sum of these weights times its kernels.
    %(design_)s
    %(effects_)s
    %(sample_weight_)s
    %(group_labels_)s
    %(log_evidence_)s
    elpd_i_ : ndarray of shape (n_samples,)
        Leave-one-out log probability of every sample's label, in nats. It uses temperature 1.
    temperature_ : float
        Temperature of the predicted probabilities.
    %(pareto_k_)s
    %(rhat_)s
    %(ess_)s
    %(share_mcse_)s
    %(unconverged_)s
    %(n_evaluations_)s
    %(outcome_)s
    %(converged_)s
    likelihood_ : Likelihood
        Likelihood of a label given its score.
    parameters_ : dict of str to float
        Posterior means of the parameters of the likelihood. It is empty, as likelihoods of classes have none.
    is_multilabel_ : bool
        Whether `y` was a matrix of labels.
    %(posterior_)s
    target_ : ndarray of shape (n_samples,) *
        Training labels as the model uses them, -1 and +1.
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
    GPMKLRegressor : The same model for a real-valued target.
    bayesmkl.bemkl.BEMKLClassifier : A model whose kernels share sample weights, fitted by variational inference.

    Notes
    -----
    One point of the posterior costs two or three factorizations of :math:`N^3` operations and one pass over the
    kernels. Predictions need one factorization for every point that was kept.

    With more than two classes, each class has a model against the rest. Together these models count every label
    several times, so the sum of their log evidences is multiplied by :math:`H(y) / \sum_k H(1[y = k])`, the entropy
    of the training labels over those of each class against the rest: .575 for three equal classes. The result is no
    evidence of one model, and `log_evidence_` is NaN.

    The probabilities of each class against the rest are normalized to sum to one. The scores of the classes are
    inferred independently, so the probabilities are too cautious if classes hardly overlap; the temperature is then
    well below 1. The temperature does not change the most probable class. It has no effect on draws, evidence, shares
    or any other result that is computed from scores.

    References
    ----------
    .. [1] C. E. Rasmussen and C. K. I. Williams (2006), Gaussian processes for machine learning, §3.6 and §5.5.
    .. [2] C. Guo et al. (2017), On calibration of modern neural networks, ICML, §4.2.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesmkl import GPMKLClassifier, KernelBank
    >>> X = np.random.default_rng(0).normal(size=(60, 2))
    >>> bank = KernelBank(["rbf"], views={"signal": 0, "noise": 1})
    >>> model = GPMKLClassifier(bank).fit(X, X[:, 0] > 0)
    >>> bool(model.kernel_shares_[0] > 0.8), model.converged_
    (True, True)
    >>> model.predict([[2.0, 0.0]]), model.predict_proba([[2.0, 0.0]]).shape
    (array([ True]), (1, 2))
    """

    _OUTCOME = "labels"
    _takes_several_targets = _takes_landmarks = True
    KERNEL_PRIORS: ClassVar[NamedPriors] = {
        "nested": NestedShares(0.5, 1.0, 4.0, 2.0),
        "dirichlet": DirichletShares(0.5, 4.0, 2.0),
        "half-t": HalfT(4.0, 2.0),
        "horseshoe": Horseshoe(0.3, 5.0),
        "spike-slab": SpikeSlabWeights(4.0, 4.0, 1.0),
    }

    likelihood: str = "probit"
    temperature: float | str = "auto"

    def _likelihood(self) -> Likelihood:
        return LIKELIHOODS[check_choice("likelihood", self.likelihood, tuple(LIKELIHOODS))]

    def fit(self, X: Samples, y: Targets, sample_weight: ArrayLike | None = None) -> GPMKLClassifier:
        """Draw from the posterior.

        Parameters
        ----------
        %(X:training)s
        y : array-like of shape (n_samples,) or (n_samples, n_labels)
            Labels of at least two classes with at least two samples each; or a matrix of 0 and 1 that marks the
            labels of each sample.
        %(sample_weight)s

        Returns
        -------
        self : GPMKLClassifier
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
        return self

    def _read(self, X: Samples, y: Targets, counts: np.ndarray | None) -> tuple[DenseStack, np.ndarray]:
        stack, y = self._fit_stack(X, y, counts=counts)
        labels = class_targets(y)
        self.classes_, self.is_multilabel_ = labels.classes, labels.is_multilabel
        self.likelihood_ = self._likelihood()
        return stack, labels.targets

    def _check_parameters(self) -> None:
        super()._check_parameters()
        scale_or_auto("temperature", self.temperature)

    def _read_left_out(self, targets: np.ndarray, left_out: LeftOut) -> None:
        super()._read_left_out(targets, left_out)
        given = scale_or_auto("temperature", self.temperature)
        competing = len(targets) > 1 and not self.is_multilabel_
        self.temperature_ = 1.0 if given is None else given
        if given is None and competing:
            counts = 1.0 if self.sample_weight_ is None else self.sample_weight_
            log_p = self._log_classes(targets, left_out.each)
            self.temperature_ = find_temperature(log_p, targets.argmax(axis=0), counts)

    def _power(self, targets: np.ndarray) -> float:
        """Return the entropy of labels over those of each class against the rest; see the notes."""
        if len(targets) == 1 or self.is_multilabel_:
            return 1.0
        p = np.average(targets > 0.0, axis=1, weights=self.sample_weight_)
        return float(entr(p).sum() / (entr(p) + entr(1.0 - p)).sum())

    def _in_nats(self, log_evidence: float) -> float:
        if len(self.classes_) > 2 and not self.is_multilabel_:
            return np.nan  # models of each class against the rest are not one model of the classes
        return super()._in_nats(log_evidence)

    def _log_classes(self, targets: np.ndarray, log_of_each: np.ndarray) -> np.ndarray:
        """Return log probabilities of all classes, or of having each label, from those of the own sides.

        They are (n_samples, n), and no temperature takes part.
        """
        positive = log_positive(targets, log_of_each)
        if self.is_multilabel_:
            return positive.T
        if len(targets) == 1:
            return np.concatenate([log_positive(-targets, log_of_each), positive]).T
        return (positive - logsumexp(positive, axis=0)).T

    def _log_predictive(
        self, targets: np.ndarray, log_of_each: np.ndarray, log_of_all: np.ndarray
    ) -> np.ndarray:
        if self.is_multilabel_ or len(targets) == 1:
            return log_of_all
        return self._log_classes(targets, log_of_each)[targets.T > 0.0]

    def _in_units(self, values: np.ndarray) -> np.ndarray:
        return (values > 0.0).astype(np.int8)

    def _scores(self, X: Samples) -> tuple[np.ndarray, np.ndarray]:
        """Return log probabilities of -1 and of +1, each (n_outputs, n_rows), from which all predictions are."""
        moments, likelihood = self._moments(X), self.likelihood_
        mean, variance = moments.mean.ravel(), np.maximum(moments.variance.ravel(), np.finfo(float).tiny)
        nothing, sides = np.zeros(0), []
        for side in (-1.0, 1.0):
            each = likelihood.tilted(np.full(mean.shape, side), mean, variance, nothing).log_normalizer
            each = each.reshape(moments.mean.shape) + np.log(moments.probability)[:, None, None]
            sides.append(logsumexp(each, axis=0))
        return sides[0], sides[1]

    def decision_function(self, X: Samples) -> np.ndarray:
        """Return the log odds of each class against the rest, or of each label, divided by `temperature_`.

        Parameters
        ----------
        %(X)s

        Returns
        -------
        ndarray of shape (n_rows,), or (n_rows, n_classes) for more than two classes and for labels
            Positive for ``classes_[1]`` in the binary case. Finite where probabilities round to 0 and 1.

        Raises
        ------
        NotFittedError
            Before `fit`.
        %(ValueError:X)s
        %(TypeError:X)s
        """
        below, above = self._scores(X)
        return by_row((above - below) / self.temperature_)

    def predict_proba(self, X: Samples) -> np.ndarray:
        """Predict class probabilities.

        Parameters
        ----------
        %(X)s

        Returns
        -------
        ndarray of shape (n_rows, n_classes)
            In the order of `classes_`, at `temperature_`. For a label matrix, the probability of each label.

        Raises
        ------
        NotFittedError
            Before `fit`.
        %(ValueError:X)s
        %(TypeError:X)s
        """
        return np.exp(self.predict_log_proba(X))

    def predict_log_proba(self, X: Samples) -> np.ndarray:
        """Predict log class probabilities, which stay accurate where `predict_proba` rounds to 0 or 1.

        Parameters
        ----------
        %(X)s

        Returns
        -------
        ndarray of shape (n_rows, n_classes)
            Logarithms of what `predict_proba` returns.

        Raises
        ------
        NotFittedError
            Before `fit`.
        %(ValueError:X)s
        %(TypeError:X)s
        """
        below, above = self._scores(X)
        if self.is_multilabel_:
            return log_expit((above - below) / self.temperature_).T
        log_p = np.array([below[0], above[0]]) if len(self.classes_) == 2 else above
        return tempered(log_p.T - logsumexp(log_p, axis=0)[:, None], self.temperature_)

    def predict(self, X: Samples) -> np.ndarray:
        """Predict the most probable class, or the labels that are more probable than not.

        Parameters
        ----------
        %(X)s

        Returns
        -------
        ndarray of shape (n_rows,), or (n_rows, n_labels) of 0 and 1
            Labels from `classes_`.

        Raises
        ------
        NotFittedError
            Before `fit`.
        %(ValueError:X)s
        %(TypeError:X)s
        """
        odds = self.decision_function(X)
        if self.is_multilabel_:
            return (odds > 0.0).astype(int)
        return self.classes_[most_probable(odds)]
