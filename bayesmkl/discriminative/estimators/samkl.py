"""SAMKL as a scikit-learn estimator."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.exceptions import ConvergenceWarning

from bayesmkl._utils.docstrings import fill_docs
from bayesmkl._utils.typing import Samples, Targets
from bayesmkl._utils.validation import check_choice, check_flag
from bayesmkl._utils.warnings import warn_user
from bayesmkl.discriminative.estimators.localized import LocalizedClassifier, Rows, are_wrong
from bayesmkl.discriminative.estimators.shared_docs import CLASSIFIER
from bayesmkl.discriminative.localized import samkl
from bayesmkl.discriminative.localized.lmkl import local_weights_help
from bayesmkl.discriminative.problems import OnStep, silent
from bayesmkl.kernels.stacks.base import Stack
from bayesmkl.kernels.stacks.dense import DenseStack


@dataclass(eq=False, repr=False, kw_only=True)
@fill_docs(CLASSIFIER)
class SAMKLClassifier(LocalizedClassifier):
    r"""SAMKL: multiple kernel learning that switches kernels off for single samples.

    .. math:: \min_{H, \tau, \gamma, \omega, b} \; \tfrac12 \sum_m \frac{\|\omega_m\|^2}{\gamma_m}
       + C \sum_i \max\Big(0, 1 - \frac{y_i f(x_i)}{\tau_i}\Big), \qquad
       f(x_i) = \sum_m h_{im} \langle \omega_m, \phi_m(x_i) \rangle + b

    with weights :math:`\gamma \ge 0`, :math:`\sum_m \gamma_m = 1`, of the kernels, and switches :math:`h_{im} \in
    \{0, 1\}` of every sample, at most :math:`m_0` of which differ from :math:`h_0`. The margin of a sample is that
    of the kernels that are on for it, :math:`\tau_i = \sum_m h_{im} \|\omega_m\| / \sum_m \|\omega_m\|` [1]_.

    Parameters
    ----------
    %(kernels)s
    %(indefinite)s
    %(kernel_names)s
    %(C)s
    random_state : int, Generator or None, default=None
        Seed of ``ties="random"``; None is a fixed seed.
    %(verbose)s
    max_switches : int, default=1
        Maximum number :math:`m_0` of switches of a sample that may differ from the initial ones. 0 is SimpleMKL.
    initial_switches : {"ones", "support"} or array-like of bool of shape (n_kernels,), default="ones"
        The initial switches :math:`h_0`. "ones": all on. "support": on for the kernels to which SimpleMKL gives a
        weight (separately for each class). An array gives them directly. A kernel that is off at first stays off for
        all samples.
    ties : {"smallest", "largest", "random"}, default="smallest"
        How to choose between sets with the same number of kernels for a training sample. "largest" keeps the kernels
        that support its label most, although only training samples have a label. "smallest" switches off the kernels
        that support it most among those that the sample does not need.
    fallback : bool, default=True
        Whether to compare with SimpleMKL, which has no switches, in three folds of at most 400 samples. Nothing is
        switched unless errors on held-out samples fall by more than one standard error. False is the paper.
    rule : {"auto", "surest", "one-versus-rest"}, default="auto"
        How a new sample gets one of the training patterns of switches. "surest": the pattern with the largest
        absolute score (eq. 17). "one-versus-rest": the pattern with the largest score, in favor of the class (eq.
        18). "auto" is "surest" for two classes and "one-versus-rest" for more, as in the paper.
    normalize : bool, default=False
        Divide scores by :math:`\tau` of their pattern, as the definition of the margin does and the paper's rules do
        not.
    tol : float, default=1e-4
        Stop when an alternation lowers the objective by less than this, relatively, or raises it.
    max_iter : int, default=20
        Maximum number of alternations.
    gap_tol : float, default=1e-2
        Duality gap, relative to the objective, up to which kernel weights and SVM are found in each of them.

    Attributes
    ----------
    %(classes_:separate)s
    kernel_weights_ : ndarray of shape (n_kernels,) *
        Weights :math:`\gamma` on the simplex.
    kernel_switches_ : ndarray of bool of shape (n_samples, n_kernels) *
        The switches :math:`H` of the training samples.
    margins_ : ndarray of shape (n_samples,) *
        Their :math:`\tau`; 1 where no kernel with a weight is off, and at least 0.001.
    patterns_ : ndarray of bool of shape (n_patterns, n_kernels) *
        The different rows of `kernel_switches_`, from which a new sample gets one.
    fell_back_ : bool
        Whether switches did not help held-out samples, so that there are none.
    is_local_ : bool, or ndarray of bool of shape (n_classes,)
        False where all training samples have the same switches.
    gates_ : ndarray of shape (n_samples, n_kernels) *
        :math:`\sqrt{\gamma_m}\, h_{im}` of the training samples.
    dual_coef_ : ndarray of shape (n_samples,) *
        Signed dual :math:`\alpha_i y_i / \tau_i`, zero off the support.
    %(intercept_)s *
    %(support_)s
    %(support_fraction_)s
    n_active_kernels_ : int
        Kernels with a weight that are on for some sample, in any class.
    objective_history_ : ndarray of shape (n_iter_,) *
        Objective of every alternation. It may rise; what is returned belongs to the smallest one.
    duality_gap_ : float *
        Primal minus dual value of the problem in kernel weights and SVM at `kernel_switches_`. The problem in
        the switches is not convex and has no such certificate.
    n_iter_, n_solves_ : int *
        Number of alternations, and number of SVMs trained, without those of the comparison.
    outcome_ : Outcome *
        How the alternation ended.
    %(converged_)s
    results_ : tuple of SAMKLResult
        Results of the fit, one entry for two classes, and one per class for more.
    %(clipping_)s
    %(kernel_names_)s
    %(n_kernels_in_)s
    %(kernel_bank_)s
    %(n_features_in_)s
    %(feature_names_in_)s

    See Also
    --------
    SimpleMKLClassifier : The same without switches.
    plot_gates : Which kernels act for which samples.

    Notes
    -----
    The page *SAMKL* maps equations to functions and lists departures.

    The switches of a training sample depend on its label; those of a new sample cannot. The objective therefore falls
    with `max_switches` even if the kernels are useless. `fallback` compares on held-out samples, with all classes
    together; choose `C` and `max_switches` by cross-validation. For the same reason `predict` on training samples
    does not use the training gates (``gates()``): it infers the switches of all rows.

    More than two classes are learned one against the rest. For two, ``rule="one-versus-rest"`` is the score of
    ``classes_[1]`` alone and favors it; with that of ``classes_[0]``, its mirror image, it is "surest".

    An alternation trains a few SVMs and reads the stack a few times, :math:`O(P N^2)`; its choice of all switches
    is exact and takes :math:`O(N P \log P)`.

    References
    ----------
    .. [1] X. Liu, L. Wang, J. Zhang and J. Yin (2014), Sample-adaptive multiple kernel learning, AAAI.

    Examples
    --------
    Each of three kernels confuses 30 % of the samples with others. It is switched off for these more often than by
    chance, which does not help new samples:

    >>> from bayesmkl.datasets import make_corrupted
    >>> from bayesmkl.discriminative import SAMKLClassifier
    >>> data = make_corrupted(120, corruption="kernels", fraction=0.3, separations=(2, 2, 2), random_state=0)
    >>> settings = {"C": 10.0, "max_switches": 1}
    >>> print(SAMKLClassifier("precomputed", **settings).fit(data.kernels, data.target).is_local_)
    False
    >>> model = SAMKLClassifier("precomputed", fallback=False, **settings).fit(data.kernels, data.target)
    >>> switched_off = ~model.kernel_switches_
    >>> print(f"{data.corrupted.mean():.2f} of all, {data.corrupted[switched_off].mean():.2f} of those switched off")
    0.29 of all, 0.45 of those switched off
    >>> model.patterns_.astype(int)
    array([[0, 1, 1],
           [1, 0, 1],
           [1, 1, 0],
           [1, 1, 1]])
    """

    max_switches: int = 1
    initial_switches: Sequence[bool] | np.ndarray | str | None = "ones"
    ties: str = "smallest"
    fallback: bool = True
    rule: str = "auto"
    normalize: bool = False
    tol: float = 1e-4
    max_iter: int = 20
    gap_tol: float = 1e-2

    PER_TASK = ("kernel_weights", "margins")
    _FLAGS = ("normalize", "fallback")

    def _inner(self, report: Callable[[float], None] | None = None) -> None:
        """Return nothing: the SVMs have margins of their own."""

    def _options(self, n_kernels: int | None = None) -> samkl.SAMKLOptions:
        initial = self.initial_switches
        if isinstance(initial, str):
            check_choice("initial_switches", initial, ("ones", "support"))
            initial = None
        options = samkl.SAMKLOptions(
            self.C, self.max_switches, initial, self.tol, self.max_iter, self.gap_tol
        )
        samkl.check_options(options, n_kernels)
        return options._replace(ties=check_choice("ties", self.ties, samkl.TIES))

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_choice("rule", self.rule, ("auto", *samkl.RULES))
        self._options()

    def _fit_stack(self, X: Samples, y: Targets, **check_y: Any) -> tuple[Stack, np.ndarray]:
        stack, y = super()._fit_stack(X, y, **check_y)
        self._options(stack.n_kernels)
        return stack, y

    def _fit_local(self, kernels: DenseStack, targets: np.ndarray, gate_features: ArrayLike | None) -> None:
        compared = self.fallback and self.max_switches > 0
        self.fell_back_ = bool(compared) and not self._switches_help(kernels, targets)
        super()._fit_local(kernels, targets, gate_features)

    def _learn_task(
        self, training: Rows, target: np.ndarray, inner: Any, on_step: OnStep
    ) -> samkl.SAMKLResult:
        budget = 0 if self.fell_back_ else self.max_switches
        return self._switch(training.kernels, target, budget, self._rng(), on_step)

    def _switch(
        self, stack: Stack, target: np.ndarray, budget: int, rng: Any, on_step: OnStep = silent
    ) -> samkl.SAMKLResult:
        options = self._options()._replace(max_switches=budget)
        if isinstance(self.initial_switches, str) and self.initial_switches == "support":
            options = options._replace(initial_switches=samkl.initial_support(stack, target, options))
        return samkl.fit_samkl(stack, target, options, rng=rng, on_step=on_step)

    def _switches_help(self, stack: Stack, targets: np.ndarray) -> bool:
        """Return whether held-out samples are better predicted with switches than without, all classes together."""
        several = len(targets) > 1
        labels = targets.argmax(axis=0) if several else targets[0]
        errors = _are_others if several else are_wrong
        comparison = self._held_out(labels, errors)
        if comparison is None:
            return False

        def score_both(
            square: DenseStack, rows: DenseStack, train: np.ndarray, _validated: np.ndarray
        ) -> tuple[np.ndarray, np.ndarray]:
            both = []
            for budget in (0, self.max_switches):
                results = [self._switch(square, target[train], budget, comparison.rng) for target in targets]
                scores = [self._infer(result, rows).scores for result in results]
                both.append(np.stack(scores, axis=1) if several else scores[0])
            return both[0], both[1]

        return local_weights_help(comparison, stack, labels, score_both)

    def _infer(self, result: samkl.SAMKLResult, kernels: Stack) -> samkl.Inference:
        rule = self.rule
        if rule == "auto":
            rule = "surest" if len(self.classes_) == 2 else "one-versus-rest"
        return samkl.infer_switches(kernels, result, rule, check_flag("normalize", self.normalize))

    def _components(self, result: samkl.SAMKLResult, rows: Rows) -> np.ndarray:
        return samkl.switch_gates(result.kernel_weights, self._infer(result, rows.kernels).switches)

    def _scores_at(self, result: samkl.SAMKLResult, rows: Rows) -> np.ndarray:
        return self._infer(result, rows.kernels).scores

    def _store_local(self, results: list[samkl.SAMKLResult], stopped: bool) -> None:
        super()._store_local(results, stopped)
        self.kernel_switches_ = self._of_tasks(
            [np.ascontiguousarray(result.switches.T) for result in results]
        )
        patterns = tuple(result.patterns for result in results)
        self.is_local_ = self._of_tasks([len(of_result) > 1 for of_result in patterns])
        self.patterns_ = patterns if len(patterns) > 1 else patterns[0]

    def _warn_unless_converged(self, results: Sequence[Any]) -> None:
        if self.converged_ or self.tol == 0.0:
            return
        gap = max(result.duality_gap / abs(result.objective_history.min()) for result in results)
        if gap > self.gap_tol:
            message = (
                f"found kernel weights with a relative duality gap of {gap:.1e} only, above "
                f"gap_tol={self.gap_tol:g}. Normalize the kernels, lower `C`, or raise `gap_tol`."
            )
        else:
            message = (
                f"stopped after max_iter={self.max_iter} alternations while the objective still fell by more than "
                f"tol={self.tol:g}, relatively. Increase `max_iter`, or `tol` if this is accurate enough."
            )
        warn_user(f"{type(self).__name__} {message}", ConvergenceWarning)


def _are_others(labels: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """Return 1 where another class than that of the label has the highest score, (n_rows, n_classes), 0 elsewhere."""
    return (scores.argmax(axis=1) != labels).astype(np.float64)
