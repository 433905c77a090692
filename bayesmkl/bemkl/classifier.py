"""BEMKL classification as a scikit-learn estimator: classes and labels, some of them missing.

Three ways lead from several classes, or several labels, to models that `ascent` can fit (`multiclass`): a model of
one output, with kernel weights of its own, for every row of the targets; one model of all rows, which share the
weights; and classes whose scores compete, by the multinomial probit likelihood.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy.special import log_expit
from sklearn.base import ClassifierMixin

from bayesmkl._utils.docstrings import fill_docs
from bayesmkl._utils.options import VB
from bayesmkl._utils.typing import Label, Samples, Targets
from bayesmkl._utils.validation import check_choice, scale_or_auto
from bayesmkl.bemkl.ascent import Fit, maximize_elbo
from bayesmkl.bemkl.base import BEMKL, BaseBEMKL, FitTask, Settings
from bayesmkl.bemkl.model import (
    Problem,
    labeled_part,
    positive_probability,
    start_from_labeled,
)
from bayesmkl.bemkl.reading import ClassScores, ScoresApart, class_scores
from bayesmkl.bemkl.selection import USUAL, choose_by_folds
from bayesmkl.kernels.stacks.base import Stack
from bayesmkl.outcomes import Classes, Labels
from bayesmkl.outcomes.labels import ClassTargets, class_targets, find_temperature, most_probable, tempered

MULTICLASS = ("shared", "one-versus-all", "multinomial")


@fill_docs(BEMKL)
@dataclass(eq=False, repr=False, kw_only=True)
class BEMKLClassifier(ClassifierMixin, BaseBEMKL):
    r"""Bayesian efficient multiple kernel learning for classification.

    Every kernel maps a sample to an intermediate output with weights `a` over the training samples, shared by all
    kernels; the kernel weights `e` combine these outputs to a score, and the label is the side of a margin on
    which the score lies:

    .. math:: g_{mi} \mid a \sim N(k_{mi}^\top a, \sigma_g^2), \qquad
       f_i \mid b, e, g_i \sim N(e^\top g_i + b, 1), \qquad y_i f_i > \nu .

    A variational posterior over all of them is found in closed-form updates [1]_.

    Parameters
    ----------
    %(kernels)s
    %(views)s
    kernel_prior : {"nonsparse", "sparse"}, Gamma, "dirichlet", "spike-slab", Dirichlet or SpikeSlab
        Prior on the precision of each kernel weight. "nonsparse", the default, is Gamma(concentration=1, rate=1),
        "sparse" is Gamma(1e-10, 1e-10), which switches most kernels off; the samplers need a concentration of at
        least 0.5. With ``inference="nuts"`` also a prior on the weights themselves: "dirichlet" (weights are
        positive and sum to one) or "spike-slab" (each kernel is in or out).
    sample_prior : {"nonsparse", "sparse"} or Gamma, default="nonsparse"
        Prior on the precision of each sample weight; "sparse" keeps few relevance samples.
    bias_prior : {"nonsparse", "sparse"} or Gamma, default="nonsparse"
        Prior on the precision of the intercept.
    predictive : {"full", "paper"}, default="full"
        "full" carries all of the posterior into predictions; "paper" leaves the variance of the intermediate
        outputs out, as printed in §4.3. VB only: draws need no rule.
    %(inference)s
    init : {"mean", "random"} or posterior, default="mean"
        Start of the updates: the mean of the paper's random start (so that results do not depend on the
        order of samples or kernels), a random start, or a `posterior_` of the same samples and kernels.
    %(n_init)s
        The bound can have several local maxima.
    %(max_iter)s
    %(tol)s
        ``inference=VB(accelerate=False), tol=0, max_iter=200`` is the paper's loop.
    %(storage)s
    %(kernel_names)s
    %(random_state)s
    %(verbose)s
    margin : "auto" or float, default="auto"
        :math:`\nu \ge 0`; the paper leaves its value open. "auto" is 0, and 1 with `unlabeled_label`, as unlabeled
        samples say something by avoiding the margin alone. Above 0, probabilities are too sure: they leave out the
        scores within the margin.
    intermediate_scale : "auto" or float, default="auto"
        :math:`\sigma_g`, standard deviation of the intermediate outputs; 1 in the paper. "auto": .1, .3 or 1, of
        which the log loss in five folds is smallest; 1 for more than 1000 samples or 4 million kernel entries,
        landmarks, streamed kernels, samples without a label or view, label matrices, and classes of
        fewer than three samples.
    temperature : "auto" or float, default="auto"
        Predicted probabilities are those of the posterior to the power of 1 / `temperature`, normalized [2]_. "auto":
        for VB what labels of these folds ask for, at least 1 with two classes; 1 otherwise, and where they compete.
    multiclass : {"shared", "one-versus-all", "multinomial"}, default="shared"
        With more than two classes: one model with a score per class, each against the rest, and one set of kernel
        weights for all; or a model with its own kernel weights for every class; or one model in which the scores of
        the classes compete (multinomial probit). The last two words also say whether the labels of a label matrix
        share kernel weights. "shared" has no Gibbs sampler, "multinomial" is "vb" only.
    %(nonnegative)s
    unlabeled_label : label, default=None
        Mark of samples without a label in `y`; exactly two classes must remain. They take part in the fit:
        their scores avoid the margin, so that the boundary lies where samples are rare. With None, every value of
        `y` is a class. VB only.
    missing_views : {"error", "integrate"}, default="error"
        Whether samples may lack views: NaN in all columns of a view, or in the rows and columns of precomputed
        kernels. "integrate" integrates the kernels of a missing view out. VB only.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Labels; of a label matrix the numbers of its columns. Under "one-versus-all" with more than two, a model is
        fitted per class, and the attributes marked * get a leading axis of length n_classes (or are tuples of that
        length). The attributes marked ** have this axis of classes however they are fitted.
    kernel_shares_, kernel_shares_std_ : ndarray of shape (n_kernels,) *
        Posterior mean and standard deviation of each kernel's share of the score: the numbers to
        read first. Means sum to one.
    kernel_weights_, kernel_weights_std_ : ndarray of shape (n_kernels,) *
        Posterior mean and standard deviation of `e`: known up to a common sign with `dual_coef_`.
    %(kernel_weights_cov_)s *
    intermediate_scale_, temperature_ : float
        The standard deviation of the intermediate outputs, and the temperature, in use.
    intercept_ : float **
        Posterior mean of `b`.
    %(dual_coef_)s **
    elbo_ : float
        Evidence lower bound in nats (summed over the one-versus-all models); "vb" only.
    %(elbo_history_)s *
    %(n_iter_)s *
    %(outcome_)s *
    converged_ : bool
        Whether `tol` was reached, or the chains agree, everywhere.
    transduction_ : ndarray of shape (n_samples,)
        Labels of all training samples, those of unlabeled ones predicted; only with `unlabeled_label`.
    is_multilabel_ : bool
        Whether `y` was a matrix of labels.
    posterior_ : State or PosteriorDraws *
        All factors of the variational posterior, or the draws of the other inferences: arrays of shape (n_chains,
        n_draws, ...), in which of two mirror images (a, e) and (-a, -e) the one is kept whose kernel weights point
        with the others.
    sample_stats_ : dict of str to ndarray of shape (n_chains, n_draws) *
        The sampler's own statistics (diverging, acceptance_rate, n_steps, energy for "nuts"); not set by "vb".
    target_ : ndarray of shape (n_samples,) **
        Training labels as the model sees them, -1 and +1, and 0 for unlabeled samples.
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
    BEMKLRegressor : The same model of a real-valued target.

    Notes
    -----
    Interrupting "nuts" or "gibbs" (Ctrl-C) ends the fit with the finished chains, or the finished draws of the first,
    and a warning that says what was kept; before the first draws it raises KeyboardInterrupt as usual.

    Under "nuts" and "gibbs" the raw score and raw weights have very heavy tails, as their scale is known only through
    the priors: the standard deviations of `predict_latent` and `kernel_weights_std_` are then those of the draws, and
    differ from run to run. Shares and probabilities do not.

    One sweep costs :math:`O(PN^2 + N^3 + P^3 + P^2 N)` for `P` kernels and `N` samples, and :math:`O(PN^2 + N^3)` for
    two classes where :math:`P \ge 3N` and :math:`P \ge 1000`; all kernels take
    :math:`8PN^2` bytes. Variational posteriors are too narrow as a rule; the standard deviations are lower
    bounds of the uncertainty rather than estimates of it.

    References
    ----------
    .. [1] M. Gönen (2012), Bayesian efficient multiple kernel learning, ICML: several classes in §5.1,
       semi-supervised learning in §5.2.
    .. [2] C. Guo et al. (2017), On calibration of modern neural networks, ICML, §4.2.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.preprocessing import StandardScaler
    >>> from bayesmkl import BEMKLClassifier, KernelBank
    >>> from bayesmkl.kernels import Gaussian, Linear
    >>> X, y = load_iris(return_X_y=True)
    >>> X = StandardScaler().fit_transform(X)[50:]
    >>> bank = KernelBank([Gaussian(width=1), Linear()], views={"sepal": [0, 1], "petal": [2, 3]})
    >>> model = BEMKLClassifier(bank).fit(X, y[50:])
    >>> print(dict(zip(model.kernel_names_, model.kernel_shares_.round(2).tolist())))
    {...'linear · petal': ...}
    >>> model.predict_proba(X[:2]).shape
    (2, 2)
    """

    _FLAGS = ("nonnegative",)
    _LABELS = ("unlabeled_label",)
    _takes_missing_views = _takes_several_targets = True
    _BY_TARGET: ClassVar[dict[str, Any]] = {"intermediate_scale": USUAL}
    _OF_SOME_FITS = (*BaseBEMKL._OF_SOME_FITS, "transduction_")

    margin: float | str = "auto"
    intermediate_scale: float | str = "auto"
    temperature: float | str = "auto"
    multiclass: str = "shared"
    nonnegative: bool = False
    unlabeled_label: Label | None = None
    missing_views: str = "error"

    def fit(self, X: Samples, y: Targets) -> BEMKLClassifier:
        """Fit the posterior.

        Parameters
        ----------
        %(X:training)s
        y : array-like of shape (n_samples,) or (n_samples, n_labels)
            Labels of at least two classes, each of at least two samples; or a matrix of 0 and 1 that says which
            labels each sample has. With `unlabeled_label`, exactly two classes besides it.

        Returns
        -------
        self : BEMKLClassifier
            The fitted estimator.

        Raises
        ------
        %(ValueError:parameters)s
        %(TypeError:y)s

        Warns
        -----
        %(ConvergenceWarning)s
        %(KernelQualityWarning)s
        """
        self._fit(X, y)
        return self

    def _task(
        self, stack: Stack, gram: Any, y: np.ndarray, settings: Settings, method: str | None = None
    ) -> FitTask:
        """Return the models of the classes in `y`."""
        labels = class_targets(y, self.unlabeled_label)
        self._check_classes(labels, settings, method or settings.inference.name)
        self.classes_, self.is_multilabel_ = labels.classes, labels.is_multilabel
        targets, of_several = labels.targets, len(labels.targets) > 1 and not labels.is_multilabel
        truth = np.argmax(targets, axis=0) if of_several else (targets[0] > 0.0).astype(int)
        held_out = None
        if isinstance(self.intermediate_scale, str):
            scale = USUAL
            if not labels.is_multilabel and (targets != 0.0).all():

                def probabilities(states: Any, rows: Stack, own: Settings) -> np.ndarray:
                    states = tuple(states) if len(states) > 1 else states[0]
                    scores = class_scores(rows, states, own.intermediate_scale**2, own.predictive)
                    log_p = scores.log_class_probabilities(own.margin)
                    return np.exp(tempered(log_p, own.temperature or 1.0))

                scale, held_out = choose_by_folds(self, settings, stack, targets, truth, probabilities)
            settings = settings._replace(intermediate_scale=scale)
        self.intermediate_scale_ = settings.intermediate_scale
        self.temperature_ = 1.0 if settings.temperature is None else settings.temperature
        competes = len(targets) > 1 and self.multiclass == "multinomial"
        learns = isinstance(settings.inference, VB) and not competes
        if settings.temperature is None and learns and held_out is not None:
            self.temperature_ = find_temperature(held_out, truth, sharpen=of_several)
        problems = self._problems_of(stack, gram, targets, settings)
        several = len(problems) > 1
        names = [f"class {label}" for label in self.classes_] if several else ["classes"]
        targets = targets[0] if len(targets) == 1 else targets
        return FitTask(problems, stack, targets, several, self._inits(len(problems)), names, settings)

    def _problems_of(self, stack: Stack, gram: Any, targets: np.ndarray, settings: Settings) -> list[Any]:
        """Return a problem for every row of the targets, or one for all of them.

        Missing views are integrated over by the updates for several outputs, which may be given one.
        """
        targets = np.atleast_2d(targets)
        kind = self.multiclass if len(targets) > 1 else "one-versus-all"
        outcome = (Classes if kind == "multinomial" else Labels)(settings.margin)
        one_by_one = targets[:, None] if settings.integrates else targets
        return [
            Problem(stack, gram, y, settings.priors, outcome, settings.intermediate_scale**-2)
            for y in (one_by_one if kind == "one-versus-all" else [targets])
        ]

    def _check_classes(self, labels: ClassTargets, settings: Settings, method: str) -> None:
        """Raise for options that do not go together."""
        several, unlabeled = len(labels.targets) > 1, bool((labels.targets == 0.0).any())
        if labels.is_multilabel and several and self.multiclass == "multinomial":
            raise ValueError(
                '`multiclass` "multinomial" is for classes that exclude each other; `y` is a matrix of labels, of '
                'which a sample may have several. Use "shared", or "one-versus-all" for separate kernel weights.'
            )
        asked = [(self.multiclass, f'`multiclass` "{self.multiclass}"')] if several else []
        asked += [("unlabeled", "`unlabeled_label` with unlabeled samples")] if unlabeled else []
        settings.check(method, *asked)
        if unlabeled and settings.integrates:
            raise ValueError(
                '`missing_views` "integrate" does not support samples without a label; got '
                f"`unlabeled_label`={self.unlabeled_label!r} and samples marked by it. Leave out these "
                "samples, or the samples that lack views."
            )
        if unlabeled and settings.n_init > 1:
            raise ValueError(
                f"`n_init` must be 1 with unlabeled samples; got {settings.n_init}. The start is the posterior of "
                "the labeled ones; the highest ELBO often puts all unlabeled samples on one side."
            )

    def _summary(self, task: FitTask, fits: list[Fit]) -> dict[str, Any]:
        """Add the labels of the training samples, unlabeled ones included."""
        values = super()._summary(task, fits)
        if self.unlabeled_label is not None:
            positive = task.targets > 0.0
            if (task.targets == 0.0).any():
                positive = positive_probability(task.problems[0], fits[0].state) > 0.5
            values["transduction_"] = self.classes_[positive.astype(int)]
        return values

    def _settings(self) -> Settings:
        check_choice("multiclass", self.multiclass, MULTICLASS)
        margin = scale_or_auto("margin", self.margin, zero=True)
        scale = scale_or_auto("intermediate_scale", self.intermediate_scale)
        usual_margin = 0.0 if self.unlabeled_label is None else 1.0
        settings = super()._settings()
        return settings._replace(
            margin=usual_margin if margin is None else margin,
            intermediate_scale=getattr(self, "intermediate_scale_", USUAL) if scale is None else scale,
            temperature=scale_or_auto("temperature", self.temperature),
        )

    def _start(
        self, algorithm: Any, problem: Any, settings: Settings, rng: np.random.Generator | None, init: object
    ) -> Any:
        """Start semi-supervised learning at the posterior of the labeled samples, other models as usual."""
        if not (isinstance(init, str) and (problem.y == 0.0).any()):
            return super()._start(algorithm, problem, settings, rng, init)
        labeled = labeled_part(problem)
        start = super()._start(algorithm, labeled, settings, rng, init)
        return start_from_labeled(problem, maximize_elbo(algorithm, labeled, start, settings.loop).state)

    def _scores(self, X: Samples) -> tuple[ScoresApart | ClassScores, float]:
        """Return the scores of the rows of `X`, and the margin."""
        stack, settings = self._row_stack(X), self._settings()
        variance = settings.intermediate_scale**2
        return class_scores(stack, self.posterior_, variance, settings.predictive), settings.margin

    def predict_latent(self, X: Samples, return_std: bool = False) -> Any:
        """Predict the latent score `f` of new samples.

        Parameters
        ----------
        %(X)s
        return_std : bool, default=False
            Also return standard deviations, the unit noise of `f` included.

        Returns
        -------
        mean : ndarray of shape (n_rows,), or (n_rows, n_classes) for more than two classes and for labels
            Predictive mean.
        %(std)s

        Raises
        ------
        NotFittedError
            Before `fit`.
        %(ValueError:X)s
        %(TypeError:X)s
        """
        mean, std = map(_squeeze, self._scores(X)[0].moments())
        return (mean, std) if return_std else mean

    def decision_function(self, X: Samples) -> np.ndarray:
        """Return log odds of each class against the rest, or of each label, over `temperature_`.

        Parameters
        ----------
        %(X)s

        Returns
        -------
        ndarray of shape (n_rows,), or (n_rows, n_classes) for more than two classes and for labels
            Given a score beyond the margin; positive for ``classes_[1]`` in the binary case.
            Finite where probabilities round to 0 and 1.

        Raises
        ------
        NotFittedError
            Before `fit`.
        %(ValueError:X)s
        %(TypeError:X)s
        """
        scores, margin = self._scores(X)
        return _squeeze(scores.log_odds(margin) / self.temperature_)

    def predict_proba(self, X: Samples) -> np.ndarray:
        """Predict class probabilities.

        Parameters
        ----------
        %(X)s

        Returns
        -------
        ndarray of shape (n_rows, n_classes)
            In the order of `classes_`. Of labels, the probability that a sample has each of them. For more than two
            classes, the probabilities of each class against the rest normalized to sum to one, or under "multinomial"
            those of the model.

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
        scores, margin = self._scores(X)
        if self.is_multilabel_:
            return log_expit(scores.log_odds(margin) / self.temperature_)
        return tempered(scores.log_class_probabilities(margin), self.temperature_)

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


def _squeeze(columns: np.ndarray) -> np.ndarray:
    """Return the one column of a single model as a vector."""
    return columns[:, 0] if columns.shape[1] == 1 else columns
