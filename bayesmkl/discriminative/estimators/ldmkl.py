"""LD-MKL as a scikit-learn estimator: votes of kernels, gated by their expected success."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from bayesmkl._utils.docstrings import fill_docs
from bayesmkl._utils.typing import Seed
from bayesmkl._utils.validation import check_choice, check_flag, check_scale, float_of, shown
from bayesmkl.discriminative.estimators.checked import OnStep
from bayesmkl.discriminative.estimators.localized import LocalFit, Rows
from bayesmkl.discriminative.estimators.shared_docs import BY_SUCCESS
from bayesmkl.discriminative.estimators.success import AUTO, BySuccess
from bayesmkl.discriminative.localized.ldmkl import PAPER, LDMKLOptions, LDMKLResult, fit_ldmkl, ldmkl_gates
from bayesmkl.discriminative.localized.success import BIAS, SV_GATE, gated_vote
from bayesmkl.discriminative.svm.one_kernel import GatedKernel, coefficients_of

if TYPE_CHECKING:
    from bayesmkl.kernels.bank import KernelBank
    from bayesmkl.kernels.base import Kernel


FEW = 0.1  # of the samples


@dataclass(repr=False, eq=False)
@fill_docs(BY_SUCCESS)
class LDMKLClassifier(BySuccess):
    r"""LD-MKL: votes of SVMs of single kernels, gated by their expected success.

    .. math:: f(x) = \sum_m g_m(x) \tanh \bar f_m(x), \qquad
       \bar f_m(x) = \sum_{j \in S_m} v_{mj} k_m(x_j, x) + b_m, \qquad
       g(x) = \operatorname{softmax}\big(h_1(x), \dots, h_P(x)\big) .

    For each of the `P` kernels, one support vector classifier is trained, :math:`h_m` is a support vector regression
    of where it is right (1) and wrong (0), and the voter :math:`\bar f_m` with support vectors :math:`S_m` is that
    classifier, or one trained again on the samples where the gate :math:`g_m` is at least `threshold`. Nothing is
    iterated, and kernels meet in the vote only [1]_. Of kernels that LibSVM has (Gaussian, polynomial, linear,
    cosine) no matrix is ever formed.

    Parameters
    ----------
    %(kernels)s
    C : float, default=1.0
        Factor of the hinge loss of the classifiers, above 0.
    sv_gate : {"none", "paper"}, default="none"
        "paper" multiplies the coefficients of a voter by its gate at the support vectors, "none" leaves them as they
        were trained.
    bias : {"refit", "keep", "drop"}, default="refit"
        The intercepts :math:`b_m`: averaged over the support vectors on the margin, those of the trained SVMs, or
        none (the formula of the paper).
    temperature : float, default=0.1
        Of the softmax, above 0; 1 is the paper's. Low values let one kernel decide.
    threshold : float, "paper" or "auto", default="auto"
        Least gate, from 0 to 1, of the samples that a voter is trained on. 0 keeps all of them, "paper" is
        1 / n_kernels, for sharp gates (a `gate_kernel` and a low `temperature`). "auto" is "paper" where
        `gate_columns` or `gate_features` say what gates depend on, else 0.
    strict : bool, default=False
        With a threshold, whether samples whose gate is equal to it, up to the accuracy of the regressions, are left
        out, as the paper prints, or kept.
    %(gate_targets)s
    %(gate_kernel)s
    %(gate_columns)s
    %(gate_C)s
    %(gate_epsilon)s
    %(gate_subsample)s
    svm : {"libsvm", "mwu"}, default="libsvm"
        Solver of the classifiers: LibSVM, or multiplicative weights, with the squared hinge loss and from single
        columns of the kernel. The regressions are LibSVM's in both cases.
    %(mwu_epsilon)s
    tol : float, default=1e-4
        Tolerance of LibSVM, the largest violation of its optimality conditions.
    %(indefinite)s
    %(kernel_names)s
    %(random_state)s
    %(verbose)s

    Attributes
    ----------
    %(classes_:separate)s
    gates_ : ndarray of shape (n_samples, n_kernels) *
        Gates of the training samples; they sum to one.
    dual_coef_ : ndarray of shape (n_kernels, n_samples) *
        Signed dual coefficients :math:`v_{mj}` of the voters, gated where asked for.
    intercept_ : ndarray of shape (n_kernels,) *
        The intercepts :math:`b_m`.
    retrained_ : ndarray of bool of shape (n_kernels,) *
        False where the samples above the threshold were of one class, and the first classifier votes.
    n_selected_ : ndarray of shape (n_kernels,) *
        Samples above the threshold.
    %(support_:kernels)s
    %(support_fraction_)s
    %(n_active_kernels_)s
    %(n_solves_)s *
    objective_history_ : ndarray of shape (0,) *
        Empty: there is no objective.
    duality_gap_ : float *
        NaN.
    %(n_iter_)s *
    %(outcome_)s *
    %(converged_)s
    results_ : tuple of LDMKLResult
        All SVMs, per class.
    %(gate_bank_)s
    %(gate_kernel_)s
    %(n_gate_features_)s
    %(gate_columns_)s
    %(kernel_names_)s
    %(n_kernels_in_)s
    %(kernel_bank_)s
    %(clipping_)s
    %(n_features_in_)s
    %(feature_names_in_)s

    See Also
    --------
    SwMKLClassifier : The same gates, and one SVM on the gated kernels.
    LMKLClassifier : Gates that are optimized together with the SVM.

    Notes
    -----
    The gating matrices of the scheme are :math:`g_m g_m^\top`, of one component and rank one. Scores are not those of
    an SVM on the `combined_kernel`: every kernel has coefficients of its own, and votes are squashed.

    The defaults depart from the paper [1]_, which is
    ``LDMKLClassifier(sv_gate="paper", bias="drop", threshold="paper", strict=True, temperature=1,
    gate_targets="train")`` with a `gate_kernel` that it does not name. Its eq. 6 gates the support vectors and has
    no intercept. That unbalances the coefficients, which sum to zero as they are trained, and moves the scores: it
    costs accuracy where classes are unequal. Its voters are trained on the samples with a gate above 1 / n_kernels.
    Where kernels succeed about equally often these are few, and of unequal classes; the vote may then be the same
    everywhere. The threshold itself counts as above, up to twice `tol` in the regressions, so that a single kernel
    and identical kernels keep all samples. Where only one class is
    above, the first classifier is kept.

    There is one warning if all training samples get the same answer, if a voter is trained on less than a tenth of
    them, or if no voter is trained again although a threshold asks for it.

    Flexible kernels are right on all of their own training samples, and with ``gate_targets="train"`` gates are then
    constant. On large data, `gate_subsample` bounds the time that the
    regressions take.

    References
    ----------
    .. [1] J. Moeller, S. Swaminathan and S. Venkatasubramanian (2016), A unified view of localized kernel learning,
       SDM (algorithm 3).

    Examples
    --------
    One kernel per view, each of which tells something in one half of the plane only:

    >>> import numpy as np
    >>> from bayesmkl import KernelBank
    >>> from bayesmkl.discriminative import LDMKLClassifier
    >>> from bayesmkl.kernels import Gaussian, Linear
    >>> X = np.random.default_rng(0).normal(size=(300, 3))
    >>> y = np.where(X[:, 0] > 0, X[:, 1], X[:, 2]) > 0
    >>> bank = KernelBank(Linear(), views={"right": [1], "left": [2]}, normalize=None)
    >>> model = LDMKLClassifier(bank, gate_kernel=Gaussian(width=0.5), temperature=0.1).fit(X, y)
    >>> print(model.score(X, y) > 0.85, model.gates([[2.0, -0.5, 0.7], [-2.0, -0.5, 0.7]]).round(1))
    True [[...
    """

    kernels: KernelBank | str | None = None
    _: KW_ONLY
    C: float = 1.0
    sv_gate: str = "none"
    bias: str = "refit"
    temperature: float = 0.1
    threshold: float | str = "auto"
    strict: bool = False
    gate_targets: str = "auto"
    gate_kernel: Kernel | str = "auto"
    gate_columns: Sequence[str | int] | np.ndarray | None = None
    gate_C: float = 1.0
    gate_epsilon: float = 0.1
    gate_subsample: int | None = None
    svm: str = "libsvm"
    mwu_epsilon: float = 0.05
    tol: float = 1e-4
    indefinite: str = "raise"
    kernel_names: Sequence[str] | np.ndarray | None = None
    random_state: Seed | None = None
    verbose: int = 1

    ONE_ANSWER = "Raise `C`, or give kernels that tell the classes apart."

    def _threshold(self, named: bool) -> float | str:
        """Return the threshold in use where features of the gates are `named`, or not."""
        if isinstance(self.threshold, str) and self.threshold in (PAPER, AUTO):
            return PAPER if self.threshold == PAPER or named else 0.0
        threshold = float_of(self.threshold)
        if not 0.0 <= threshold <= 1.0:
            raise ValueError(
                f'`threshold` must be a number from 0 to 1, as gates are, "{AUTO}", or "{PAPER}", which is '
                f"1 / n_kernels; got {shown(self.threshold)}. 0 keeps all samples."
            )
        return threshold

    def _names_features(self) -> bool:
        """Return whether the user said which features the gates of a fitted model depend on."""
        return self.gate_columns is not None or (self._is_precomputed() and self.gate_bank_ is not None)

    def _options(self, named: bool = False) -> LDMKLOptions:
        return LDMKLOptions(
            sv_gate=check_choice("sv_gate", self.sv_gate, SV_GATE),
            bias=check_choice("bias", self.bias, BIAS),
            temperature=check_scale("temperature", self.temperature),
            threshold=self._threshold(named),
            success=self._success_options(),
            squared_hinge=self.svm == "mwu",
            strict=check_flag("strict", self.strict),
        )

    def _most_steps(self) -> int:
        return 3 * self.n_kernels_in_

    def _learn_task(self, training: Rows, target: np.ndarray, inner: Any, on_step: OnStep) -> LDMKLResult:
        kernels, offer = self._offer(training, target, inner)
        return fit_ldmkl(kernels, target, self._options(self._names_features()), offer, on_step=on_step)

    def _describe(self, result: LDMKLResult, stopped: bool) -> LocalFit:
        duals, intercepts = coefficients_of(result.svms, result.gates.shape[1])
        return LocalFit(
            gates=result.gates,
            signed_dual=duals,
            intercept=intercepts,
            objective_history=np.zeros(0),
            duality_gap=np.nan,
            outcome=self._outcome(stopped),
            n_solves=result.n_solves,
        )

    def _store_local(self, results: list[LDMKLResult], stopped: bool) -> None:
        super()._store_local(results, stopped)
        self.retrained_ = self._of_tasks([result.retrained for result in results])
        self.n_selected_ = self._of_tasks([result.n_selected for result in results])

    def _doubts(self, training: Rows, targets: np.ndarray) -> list[str]:
        few = self.retrained_ & (self.n_selected_ < FEW * targets.shape[1])
        doubts = super()._doubts(training, targets)
        if not self.retrained_.any():
            doubts.append(
                "trained no SVM again, as for no kernel the samples with a gate of at least the threshold are of "
                "two classes"
            )
        if few.any():
            doubts.append(
                f"trained {few.sum()} of {few.size} SVMs on less than a tenth of the samples, the smallest on "
                f"{self.n_selected_[few].min()}"
            )
        return doubts

    def _remedy(self) -> str:
        if self._threshold(self._names_features()) == 0.0:
            return super()._remedy()
        return 'Use `threshold=0`, which keeps all samples, raise `temperature`, or use `gate_targets="cv"`.'

    def _components(self, result: LDMKLResult, rows: Rows) -> np.ndarray:
        seen, seen_rows = self._seen(result, rows)
        return ldmkl_gates(seen, result, seen_rows, self._options().temperature)[None]

    def _scores_at(self, result: LDMKLResult, rows: Rows) -> np.ndarray:
        return gated_vote(self._voting(), result.svms, rows.kernels, self._components(result, rows)[0])

    def _kernel_at(self, result: LDMKLResult, rows: Rows) -> np.ndarray:
        gated = GatedKernel(tuple(self._voting()), result.gates[None])
        return gated.block(rows.kernels, self._components(result, rows))
