"""Estimators with one weight per kernel, found by a rule that is given, or by that of a preset."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from bayesmkl._utils.docstrings import fill_docs, fulfil_docs
from bayesmkl._utils.typing import Samples, Targets
from bayesmkl._utils.validation import check_scale, shown
from bayesmkl.discriminative import methods
from bayesmkl.discriminative.estimators.base import (
    BaseDiscriminative,
    DiscriminativeClassifier,
    DiscriminativeRegressor,
    NoveltyDetector,
    path_over_C,
)
from bayesmkl.discriminative.estimators.checked import check_tube
from bayesmkl.discriminative.estimators.shared_docs import CLASSIFIER, DISCRIMINATIVE, REGRESSOR
from bayesmkl.discriminative.global_weights.joint import Lp, Simple
from bayesmkl.discriminative.global_weights.two_stage import InUnitVariance
from bayesmkl.discriminative.primal.solve import OneClass
from bayesmkl.discriminative.problems import InnerProblem, OnStep
from bayesmkl.discriminative.svm.libsvm import Hinge, spread_of
from bayesmkl.discriminative.weights import Training, WeightRule
from bayesmkl.kernels.alignment import centering_errors
from bayesmkl.kernels.stacks.base import Stack

RULES: tuple[type[WeightRule], ...] = tuple(
    getattr(importlib.import_module(f"{methods.PACKAGE}.{module}"), name)
    for module, names in methods.RULES.items()
    for name in names
)


@fulfil_docs(BaseDiscriminative)
class ByRule(BaseDiscriminative):
    """Kernel weights found by a rule: the parameter `weights`, or of presets the one of their own parameters."""

    RULE: ClassVar[type[WeightRule] | None] = None  # of presets
    TARGET: ClassVar[str]  # what there is to learn from
    weights: Any
    C: Any = 1.0  # of models without

    @property
    def _rule(self) -> WeightRule:
        if self.RULE is None:
            return self._default_rule() if self.weights is None else self.weights
        return self.RULE(**{parameter.name: getattr(self, parameter.name) for parameter in fields(self.RULE)})

    def _default_rule(self) -> WeightRule:
        return Simple()

    def _svm(self, costs: np.ndarray | None = None) -> InnerProblem:
        """Return what is solved on the combined kernel, with valid parameters."""
        raise NotImplementedError

    _stopping = _rule
    _needs_sums_alone = property(lambda self: self._rule.needs_sums_alone)

    def _check_parameters(self) -> None:
        rule = self._rule
        if not isinstance(rule, WeightRule):
            words = ", ".join(f"{kind.__name__}()" for kind in RULES)
            raise ValueError(f"`weights` must be None or a rule, one of {words}; got {shown(rule)}.")
        super()._check_parameters()
        self._refuse_unless(self.TARGET, lambda kind: self.TARGET in kind.targets)
        if getattr(self, "class_weight", None) is not None:
            self._refuse_unless("weights of classes", lambda kind: kind.counts_samples)
        self._svm(), rule.checked()

    def _refuse_unless(self, what: str, suits: Callable[[type[WeightRule]], bool]) -> None:
        """Raise for a rule that does not suit what there is to learn from; name those that do."""
        if not suits(type(self._rule)):
            others = ", ".join(f"{kind.__name__}()" for kind in RULES if suits(kind))
            raise ValueError(
                f"`weights` must be a rule that takes {what} in {type(self).__name__}; got {shown(self._rule)}. Use "
                f"one of {others}."
            )

    def _centering_errors(self, stack: Stack) -> np.ndarray:
        errors = super()._centering_errors(stack)
        return np.maximum(errors, centering_errors(stack)) if self._rule.centered else errors

    def _fit_stack(self, X: Samples, y: Targets, **check_y: Any) -> tuple[Stack, np.ndarray]:
        stack, y = super()._fit_stack(X, y, **check_y)
        self._rule.check_kernels(stack, self.kernel_names_, fitting=True)
        return stack, y

    def _prepare(
        self, X: Samples, y: Targets, sample_weight: ArrayLike | None = None
    ) -> tuple[Training, np.ndarray]:
        if sample_weight is not None:
            self._refuse_unless("weights of samples", lambda kind: kind.counts_samples)
        training, targets = super()._prepare(X, y, sample_weight)
        return self._rule.prepare(training), targets

    def _unit(self, target: np.ndarray, counts: np.ndarray | None) -> float:
        return 1.0

    def _learn(
        self, training: Training, targets: np.ndarray, start: np.ndarray | None, on_step: OnStep
    ) -> Any:
        counts, costs = training.weights
        svm = self._svm(costs)
        if self.C is None and self._rule.relative_C:
            svm = InUnitVariance(svm, counts)
        training = training._replace(unit=self._unit(targets[0], counts))
        return self._rule.checked().learn(training, targets, svm, start, on_step)

    def gates(self, X: Samples | None = None) -> np.ndarray:
        r"""Return the same gates for every row, :math:`\sqrt{d_m}`; raise for products of kernels."""
        if not self._rule.is_sum:
            raise ValueError(
                '`combination` must be "sum" for gates, because a product of kernels is not a weighted sum '
                'of them; got "product". Look at `kernel_weights_`.'
            )
        return super().gates(X)

    def _combine(self, stack: Stack, kernel_weights: np.ndarray) -> np.ndarray:
        rule = self._rule
        rule.check_kernels(stack, self.kernel_names_, fitting=False)
        return rule.combine(stack, kernel_weights)


@fill_docs(DISCRIMINATIVE)
class ClassifierByRule(ByRule, DiscriminativeClassifier):
    """Support vector machines on a combination of kernels."""

    TARGET = "labels"
    multiclass: str = "one-versus-rest"
    path = path_over_C

    def _svm(self, costs: np.ndarray | None = None) -> InnerProblem:
        return Hinge(check_scale("C", 1.0 if self.C is None and self._rule.relative_C else self.C), costs)

    def _shares_weights(self) -> bool:
        return super()._shares_weights() or self._rule.shares_weights

    def fit(self, X: Samples, y: Targets, sample_weight: ArrayLike | None = None) -> Self:
        """Learn kernel weights and classifier.

        Parameters
        ----------
        %(X:training)s
        %(y:labels)s
        %(sample_weight)s

        Returns
        -------
        self : estimator
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
        self._fit_tasks(*self._prepare(X, y, sample_weight))
        return self


@fill_docs(DISCRIMINATIVE)
class RegressorByRule(ByRule, DiscriminativeRegressor):
    """Support vector regression on a combination of kernels."""

    TARGET = "numbers"
    epsilon: Any
    path = path_over_C

    def _svm(self, costs: np.ndarray | None = None) -> InnerProblem:
        return check_tube(self.C, self.epsilon, costs)

    def _unit(self, target: np.ndarray, counts: np.ndarray | None) -> float:
        return spread_of(target, counts)

    def _centers_target(self) -> bool:
        return self._rule.centers_target

    def fit(self, X: Samples, y: Targets, sample_weight: ArrayLike | None = None) -> Self:
        """Learn kernel weights and regression function.

        Parameters
        ----------
        %(X:training)s
        %(y:target)s
        %(sample_weight)s

        Returns
        -------
        self : estimator
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
        self._fit_tasks(*self._prepare(X, y, sample_weight))
        return self


# The parameters of estimators are the fields of dataclasses, which those of presets add to.


@dataclass(eq=False, repr=False, kw_only=True)
class ClassifierParameters(ClassifierByRule):
    """Those of classifiers."""

    C: float | None = 1.0
    multiclass: str = "one-versus-rest"
    class_weight: Mapping[Any, float] | str | None = None
    verbose: int = 1


@dataclass(eq=False, repr=False, kw_only=True)
class RegressorParameters(RegressorByRule):
    """Those of regressors."""

    C: float | None = None
    epsilon: float | None = None
    verbose: int = 1


@fill_docs(CLASSIFIER)
@dataclass(eq=False, repr=False, kw_only=True)
class MKLClassifier(ClassifierParameters):
    r"""Support vector machine on a combination of kernels, weighted by a rule.

    .. math:: f(x) = \sum_i \alpha_i y_i K(x, x_i) + b, \qquad K = \sum_m d_m K_m

    Parameters
    ----------
    %(kernels)s
    %(indefinite)s
    %(kernel_names)s
    C : float or None, default=1.0
        Regularization parameter, :math:`C > 0`: penalty of margin violations. None, with `Alignment` alone: one over
        the variance of the samples in the feature space of the combined kernel.
    %(multiclass)s
    %(class_weight)s
    %(verbose)s
    weights : WeightRule, default=None
        How kernel weights are found: `Uniform`, `BestKernel`, `Alignment`, `OptimalKernel`, `Easy`, `Simple`, `SILP`,
        `Lp`, `GMKL` or `SMO`. None is ``Simple()``.

    Attributes
    ----------
    %(classes_)s
    kernel_weights_ : ndarray of shape (n_kernels,) +
        The weights :math:`d`.
    %(dual_coef_)s *
    %(intercept_)s *
    %(support_)s
    %(support_fraction_)s
    %(n_active_kernels_)s
    objective_history_ : ndarray of shape (n_iter_,) +
        Objective of the rule after every step.
    duality_gap_ : float +
        Duality gap of that objective; NaN if the rule has none.
    %(n_iter_, n_solves_)s +
    %(outcome_)s +
    %(converged_)s
    %(clipping_)s
    %(kernel_names_)s
    %(n_kernels_in_)s
    %(kernel_bank_)s
    %(n_features_in_)s
    %(feature_names_in_)s

    See Also
    --------
    MKLRegressor : The same for a real-valued target.
    SimpleMKLClassifier : The rule `Simple` as an estimator of its own, as all rules have one.

    Notes
    -----
    A hyperparameter search can vary the rule and its parameters: ``weights``, ``weights__p_norm``.

    References
    ----------
    .. [1] M. Gönen and E. Alpaydın (2011), Multiple kernel learning algorithms, JMLR 12.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.model_selection import GridSearchCV
    >>> from bayesmkl import KernelBank
    >>> from bayesmkl.discriminative import Lp, MKLClassifier, Simple, Uniform
    >>> from bayesmkl.kernels import Gaussian
    >>> X, y = load_iris(return_X_y=True)
    >>> model = MKLClassifier(KernelBank(Gaussian(width=1), views="each"))
    >>> grid = [{"weights": [Uniform(), Simple()]}, {"weights": [Lp()], "weights__p_norm": [1.5, 4]}]
    >>> search = GridSearchCV(model, grid, cv=3).fit(X[50:], y[50:])
    >>> len(search.cv_results_["params"]), bool(search.best_score_ > 0.9)
    (4, True)
    """

    weights: WeightRule | None = None


@fill_docs(REGRESSOR, MKLClassifier)
@dataclass(eq=False, repr=False, kw_only=True)
class MKLRegressor(RegressorParameters):
    r"""Support vector regression on a combination of kernels, weighted by a rule.

    .. math:: f(x) = \sum_i v_i K(x, x_i) + b, \qquad K = \sum_m d_m K_m

    Parameters
    ----------
    %(kernels)s
    %(indefinite)s
    %(kernel_names)s
    C : float, default=None
        Penalty of deviations beyond `epsilon`, :math:`C > 0`, in units of the target for kernels of about unit
        self-similarity. None: its standard deviation, so that its unit and origin do not matter; with `Alignment`
        divided by the variance of the samples in the feature space of the combined kernel.
    %(epsilon)s
    %(verbose)s
    weights : WeightRule, default=None
        How kernel weights are found: `Uniform`, `Alignment`, `Simple`, `SILP`, `Lp`, `GMKL` or `SMO`. None is
        ``Simple()``.

    Attributes
    ----------
    %(MKLClassifier.kernel_weights_)s
    %(dual_coef_)s
    %(intercept_)s
    %(support_)s
    %(support_fraction_)s
    %(n_active_kernels_)s
    %(MKLClassifier.objective_history_)s
    %(MKLClassifier.duality_gap_)s
    %(n_iter_, n_solves_)s
    %(outcome_)s
    %(converged_)s
    %(clipping_)s
    %(kernel_names_)s
    %(n_kernels_in_)s
    %(kernel_bank_)s
    %(n_features_in_)s
    %(feature_names_in_)s

    See Also
    --------
    MKLClassifier : The same for labels.

    References
    ----------
    .. [1] M. Gönen and E. Alpaydın (2011), Multiple kernel learning algorithms, JMLR 12.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesmkl import KernelBank
    >>> from bayesmkl.discriminative import MKLRegressor, SMO
    >>> from bayesmkl.kernels import Gaussian
    >>> X = np.random.default_rng(0).uniform(-3, 3, size=(80, 3))
    >>> model = MKLRegressor(KernelBank(Gaussian(width=1), views="each"), weights=SMO()).fit(X, np.sin(X[:, 1]))
    >>> int(model.kernel_weights_.argmax())
    1
    """

    weights: WeightRule | None = None


@fill_docs(REGRESSOR, MKLClassifier)
@dataclass(eq=False, repr=False, kw_only=True)
class MKLOneClass(ByRule, NoveltyDetector):
    r"""Novelty detection with a one-class SVM on a combination of kernels, weighted by a rule.

    .. math:: J = \min_{w, \rho} \; \tfrac12 \|w\|^2 - \rho
       + \tfrac{1}{2 \lambda} \sum_i \max(0, \rho - \langle w, \phi(x_i) \rangle)^2, \qquad K = \sum_m d_m K_m

    Parameters
    ----------
    %(kernels)s
    %(indefinite)s
    %(kernel_names)s
    reg : float, default=1.0
        :math:`\lambda > 0`; large values make the score a kernel density estimate, small ones leave few samples
        below the threshold.
    contamination : "auto" or float, default="auto"
        Share of the training samples, at most 0.5, that the threshold of `predict` puts outside. "auto" is
        :math:`\rho`, below which lie exactly the samples with a coefficient.
    weights : WeightRule, default=None
        How kernel weights are found: `Uniform`, `Simple`, `SILP`, `Lp`, `GMKL` or `SMO`. None is ``Lp(2)``.
    %(verbose)s

    Attributes
    ----------
    %(MKLClassifier.kernel_weights_)s
    %(dual_coef_)s
    intercept_ : float
        :math:`-\rho`.
    %(support_)s
    %(support_fraction_)s
    %(n_active_kernels_)s
    %(MKLClassifier.objective_history_)s
    %(MKLClassifier.duality_gap_)s
    %(n_iter_, n_solves_)s
    %(outcome_)s
    %(converged_)s
    offset_ : float
        Threshold of the score.
    %(clipping_)s
    %(kernel_names_)s
    %(n_kernels_in_)s
    %(kernel_bank_)s
    %(n_features_in_)s
    %(feature_names_in_)s

    See Also
    --------
    PrimalMKLOneClass : With `Lp`, the same problem times :math:`\lambda`, solved in the primal.

    References
    ----------
    .. [1] Z. Hao, G. Yuan, X. Yang and Z. Chen (2012), A primal method for multiple kernel learning, Neural Computing
       and Applications.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesmkl import KernelBank
    >>> from bayesmkl.discriminative import MKLOneClass
    >>> from bayesmkl.kernels import Gaussian
    >>> X = np.random.default_rng(0).normal(size=(100, 4))
    >>> bank = KernelBank(Gaussian(width=1), views={"left": [0, 1], "right": [2, 3]})
    >>> model = MKLOneClass(bank, contamination=0.1).fit(X)
    >>> int((model.predict(X) == -1).sum()), model.predict([[0, 0, 0, 0], [0, 0, 9, 9]]).tolist()
    (10, [1, -1])
    """

    PATH_PARAMETER, TARGET = "reg", "nothing but samples"

    reg: float = 1.0
    contamination: str | float = "auto"
    weights: WeightRule | None = None
    verbose: int = 1

    def _default_rule(self) -> WeightRule:
        return Lp(2.0)

    def _svm(self, costs: np.ndarray | None = None) -> InnerProblem:
        return OneClass(check_scale("reg", self.reg))
