"""SwMKL and LD-MKL as scikit-learn estimators: gates by the expected success of each kernel alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from bayesmkl._estimator.gate_features import features_of, refuse_gate_features
from bayesmkl._numerics.convergence import Outcome
from bayesmkl._utils.docstrings import fill_docs
from bayesmkl._utils.typing import Samples, Targets
from bayesmkl._utils.validation import (
    check_choice,
    check_flag,
    check_number,
    check_scale,
    float_of,
    shown,
)
from bayesmkl.discriminative.estimators.checked import SINGLE_PRECISION, check_below_one
from bayesmkl.discriminative.estimators.localized import (
    MOST_COMPARED,
    FeatureGatedClassifier,
    LocalFit,
    Rows,
)
from bayesmkl.discriminative.estimators.shared_docs import GATED
from bayesmkl.discriminative.folds import evenly_dealt
from bayesmkl.discriminative.localized import by_success
from bayesmkl.discriminative.problems import OnStep
from bayesmkl.discriminative.svm import one_kernel
from bayesmkl.discriminative.svm.native import NativeKernel, native_kernels
from bayesmkl.kernels.bank import KernelBank
from bayesmkl.kernels.base import Kernel
from bayesmkl.kernels.functions import Gaussian
from bayesmkl.kernels.quality import describe_indefinite, indefinite_kernels
from bayesmkl.kernels.stacks.columns import BankColumns
from bayesmkl.kernels.stacks.dense import DenseStack

GATE_TARGETS = ("auto", "cv", "train")
OWN = "own"
WIDTHS = (0.5, 0.25)  # of Gaussians of named features, in median distances
N_FOLDS = 3


@dataclass(eq=False, repr=False, kw_only=True)
class BySuccess(FeatureGatedClassifier):
    """Classifiers whose gates are regressions of where SVMs of single kernels are right."""

    gate_targets: str = "auto"
    gate_kernel: Kernel | str = "auto"
    gate_columns: Sequence[str | int] | np.ndarray | None = None
    gate_C: float = 1.0
    gate_epsilon: float = 0.1
    svm: str = "libsvm"
    mwu_epsilon: float = 0.05

    # ------------------------------------------------------------------------------------------- parameters

    def _options(self) -> Any:
        raise NotImplementedError

    def _check_parameters(self) -> None:
        super()._check_parameters()
        self._options()
        self._refuse_with_own("gate_columns", self.gate_columns)

    def _success_options(self) -> by_success.SuccessOptions:
        check_choice("gate_targets", self.gate_targets, GATE_TARGETS)
        named = isinstance(self.gate_kernel, str) and self.gate_kernel in (OWN, by_success.AUTO)
        if not named and not isinstance(self.gate_kernel, Kernel):
            raise ValueError(
                f'`gate_kernel` must be "auto", "own" or a kernel such as Gaussian(width=1); got '
                f"{self.gate_kernel!r}."
            )
        if isinstance(self.gate_kernel, Kernel):
            try:
                self.gate_kernel.check_parameters()
            except ValueError as error:
                raise ValueError(f"`gate_kernel`: {error}") from error
        return by_success.SuccessOptions(
            C=check_scale("C", self.C),
            gate_C=check_scale("gate_C", self.gate_C),
            gate_epsilon=check_scale("gate_epsilon", self.gate_epsilon, zero=True),
            tol=check_number("tol", self.tol, low=0.0),
            targets=self.gate_targets,
        )

    def _refuse_with_own(self, name: str, given: Any) -> None:
        """Raise for features of gates that see kernels."""
        if given is not None and isinstance(self.gate_kernel, str) and self.gate_kernel == OWN:
            raise ValueError(
                f'`{name}` must be None with `gate_kernel="own"`, with which gates depend on the kernels '
                f"only; got {shown(given)}. Give them a kernel: `gate_kernel=Gaussian(width=1)`."
            )

    def _refuse_gate_features(self, gate_features: ArrayLike | None, has_samples: bool) -> None:
        """Raise for features of gates that see kernels, or columns of the samples."""
        self._refuse_with_own("gate_features", gate_features)
        refuse_gate_features(self, gate_features, has_samples)

    def _warn_unless_converged(self, results: Sequence[Any]) -> None:
        """Warn of SVMs that stopped early alone: nothing else is iterated."""

    # ----------------------------------------------------------------------------------------------- fitting

    def _fit_stack(self, X: Samples, y: Targets, **check_y: Any) -> tuple[Any, np.ndarray]:
        """Return the training kernels one by one, as objects on which SVMs can be trained."""
        if self._is_precomputed():
            stack, y = super()._fit_stack(X, y, **check_y)
            return one_kernel.precomputed_kernels(stack), y
        bank, y = self._fit_bank(X, y, **check_y)
        native = native_of(bank)
        if native is not None:
            self._check_among_some(BankColumns(bank, 0.0))
            return native, y
        stack = self._check_kernels(DenseStack(bank.train_stack()), bank.kernels_known_psd_)
        return one_kernel.precomputed_kernels(stack), y

    def _gate_features(
        self, X: np.ndarray | None, gate_features: ArrayLike | None, n_rows: int, fitting: bool
    ) -> np.ndarray | None:
        """Return the features of the gates, or None where they see the kernels themselves."""
        if fitting and not self._takes_features(X, gate_features):
            self.gate_bank_ = self.gate_columns_ = None
            return None
        if not fitting and self.gate_bank_ is None:
            return None
        features = features_of(self, X, gate_features, n_rows, fitting)
        if fitting:
            named = self.gate_columns is not None or X is None
            if named and (features == features[0]).all():
                given = "`gate_features`" if X is None else f"`gate_columns` {shown(self.gate_columns)}"
                raise ValueError(
                    f"{given} must differ between training samples, because otherwise gates are the same everywhere; "
                    f"got {shown(features[0])} in all {len(features)}. Leave them out, or name other columns."
                )
            offered = [Gaussian(relative_width=width) for width in (WIDTHS if named else (1.0,))]
            kernels = [self.gate_kernel] if isinstance(self.gate_kernel, Kernel) else offered
            self.gate_bank_ = KernelBank(kernels, normalize=None).fit(features)
        return features

    def _takes_features(self, X: np.ndarray | None, gate_features: ArrayLike | None) -> bool:
        """Return whether gates see features; "auto" leaves missing and constant ones, and none, to the kernels."""
        named = self.gate_columns is not None or gate_features is not None
        if isinstance(self.gate_kernel, Kernel) or named:
            return True
        bank = self.kernel_bank_
        if self.gate_kernel == OWN or X is None or bank is None or bank.missing_views != "error":
            return False
        return bool((X[0] != X).any())

    def _offers_own(self) -> bool:
        """Return whether gates that see the kernels themselves are the first candidate."""
        if self.gate_bank_ is None:
            return True
        auto = isinstance(self.gate_kernel, str) and self.gate_kernel == by_success.AUTO
        return auto and self.gate_columns_ is None and self.kernel_bank_ is not None

    def _offer(
        self, training: Rows, target: np.ndarray, inner: Any, tries: bool = False
    ) -> tuple[by_success.SuccessOptions, by_success.Offer]:
        """Return how SVMs are trained, and what gates may see; `tries` if what they see is tried in folds."""
        order = self._sorted_samples(training, target)
        own = [training.kernels] if self._offers_own() else []
        seen = own + [[kernel] * self.n_kernels_in_ for kernel in self._kernels_of_features()]
        compares = len(seen) > 1 or (tries and not own)
        rng = self._rng()
        # folds are independent of the order of the training samples
        in_sample = self.gate_targets == "train" or (self.gate_targets == "auto" and self.gate_bank_ is None)
        folds = None if in_sample and not compares else evenly_dealt(order, target, N_FOLDS, rng)
        options = self._success_options()._replace(order=order, solver=inner if self.svm == "mwu" else None)
        return options, by_success.Offer(seen, folds if folds is not None and len(folds) > 1 else None, rng)

    def _kernels_of_features(self) -> Sequence[one_kernel.OneKernel]:
        """Return the training kernels of features that gates may see."""
        bank = self.gate_bank_
        if bank is None:
            return []
        native = native_of(bank)
        if native is not None:
            return native
        stack = bank.train_stack()
        found = indefinite_kernels(stack, bank.kernels_known_psd_, SINGLE_PRECISION)
        if found:
            described = describe_indefinite(stack, list(bank.kernel_names_), found)
            raise ValueError(f"`gate_kernel` must be positive semidefinite; got {described}. Use a Gaussian.")
        return [one_kernel.PrecomputedKernel(stack[0])]

    def _sorted_samples(self, training: Rows, target: np.ndarray) -> np.ndarray:
        """Return samples sorted by features of gates, those of kernels or values of precomputed ones, and labels."""
        if self.kernel_bank_ is not None:
            keys = [*self.kernel_bank_.X_train_.T]
        else:
            total = sum(kernel.training_rows for kernel in training.kernels)
            keys = [total.diagonal(), np.sort(total, axis=1).sum(axis=1)]
        if training.features is not None:
            keys = [*training.features.T, *keys]
        return np.lexsort((target, *keys[::-1]))

    def _store_local(self, results: list[Any], stopped: bool) -> None:
        super()._store_local(results, stopped)
        names = [OWN] if self._offers_own() else []
        names += [] if self.gate_bank_ is None else list(self.gate_bank_.kernel_names_)
        chosen = [names[result.chosen] for result in results]
        self.gate_kernel_ = chosen if len(chosen) > 1 else chosen[0]

    # ----------------------------------------------------------------------------------------------- results

    def _voting(self) -> Sequence[one_kernel.OneKernel]:
        """Return the kernels as they are needed to score rows."""
        native = native_of(self.kernel_bank_)
        return [one_kernel.NOT_HELD] * self.n_kernels_in_ if native is None else native

    def _row_parts(self, X: Samples, gate_features: ArrayLike | None = None) -> Iterator[Rows]:
        """Cut rows into parts; native kernels take all at once, unless the kernel of the gates is a matrix."""
        check_is_fitted(self, "results_")
        native = native_of(self.kernel_bank_)
        if native is None:
            for rows in super()._row_parts(X, gate_features):
                yield Rows(list(rows.kernels.each()), rows.features)
            return
        X = self._validate_rows(X)
        self._refuse_gate_features(gate_features, True)
        features = self._gate_features(X, gate_features, len(X), fitting=False)
        bank = self.gate_bank_
        held = 1 if bank is None or native_of(bank) is not None else len(bank.X_train_)
        for part in one_kernel.row_blocks(len(X), held):
            yield Rows([k.rows(X[part]) for k in native], None if features is None else features[part])

    def _seen(self, result: Any, rows: Rows) -> tuple[Sequence[one_kernel.OneKernel], Sequence[np.ndarray]]:
        """Return the kernels that gates see, and the rows in the form of each of the kernels."""
        bank, position = self.gate_bank_, result.chosen - int(self._offers_own())
        if position < 0 or bank is None:
            return self._voting(), rows.kernels
        native, n_kernels = native_of(bank), self.n_kernels_in_
        if native is None:
            return [one_kernel.NOT_HELD] * n_kernels, [bank.evaluate(rows.features)[position]] * n_kernels
        return [native[position]] * n_kernels, [native[position].rows(rows.features)] * n_kernels


def native_of(bank: KernelBank | None) -> Sequence[NativeKernel] | None:
    """Return the kernels of a bank in LibSVM's form, if it has all of them and none can be indefinite."""
    return None if bank is None or not np.all(bank.kernels_known_psd_) else native_kernels(bank)


@dataclass(eq=False, repr=False, kw_only=True)
@fill_docs(GATED)
class SwMKLClassifier(BySuccess):
    r"""SwMKL: kernels weighted at every sample by their expected success, then one SVM.

    .. math:: \min_{w, b} \tfrac12 \|w\|^2 + C \sum_i \max(0, 1 - y_i f(x_i)) \quad\text{with the kernel}\quad
       \kappa(x, z) = \sum_m \frac{g_m(x)\, g_m(z)}{Z(x, z)} k_m(x, z) .

    One support vector classifier is trained for each kernel. A support vector regression then predicts where this
    classifier is right (1) or wrong (0). The gate :math:`g_m` is this regression, or the softmax of all of them,
    clipped to [`lowest_gate`, 1]. :math:`Z(x, z)` is :math:`\|g(x)\| \|g(z)\|` or, in the paper [1]_,
    :math:`\sum_h g_h(x) g_h(z)`.

    Parameters
    ----------
    %(kernels)s
    %(indefinite)s
    %(kernel_names)s
    C : float, default=1.0
        Factor of the hinge loss of all classifiers, above 0.
    random_state : int, Generator or None, default=None
        Seed of folds and other random draws. None uses a fixed seed.
    %(verbose)s
    gate_targets : {"auto", "cv", "train"}, default="auto"
        How the success of a classifier is measured: by 3-fold cross-validation ("cv"), or on its own training samples
        ("train", the paper). "auto" is "train" if gates use the kernel whose success they predict, otherwise "cv".
    gate_kernel : "auto", "own" or Kernel, default="auto"
        Kernel of the regressions: the kernel whose success they predict ("own"), or one kernel for all regressions on
        the columns `gate_columns` or, with precomputed kernels, on `gate_features`. "auto" compares candidates by
        cross-validation. With named gate features these are Gaussians of a half and a quarter of the median distance;
        otherwise they are "own" and a Gaussian of the median distance of all features. "auto" is "own" for
        precomputed kernels without features, and if values are missing.
    %(gate_columns)s
    gate_C : float, default=1.0
        Factor of the loss of the regressions.
    gate_epsilon : float, default=0.1
        Errors of the regressions up to this size are not penalized.
    svm : {"libsvm", "mwu"}, default="libsvm"
        Solver of the classifiers: LibSVM, or multiplicative weights, with the squared hinge loss and from single
        columns of :math:`\kappa`, which is then never formed. The regressions are LibSVM's in both cases.
    mwu_epsilon : float, default=0.05
        With ``svm="mwu"``, the duality gap at which an SVM is finished, as a share of its objective.
    psd : {"unit-norm", "paper"}, default="unit-norm"
        How :math:`\kappa` is normalized: by the lengths of the vectors of gates, or as in the paper, which makes it
        indefinite.
    lowest_gate : float, default=1e-3
        Lower bound of the gates, between 0 and 1.
    temperature : float, "auto" or None, default="auto"
        Temperature of the softmax of the regressions, above 0. None uses the regressions without a softmax, as in the
        paper. "auto" is None if gates use the kernels themselves, otherwise 0.3. With named gate features it is 0.3
        or 0.05, whichever makes the last SVM more accurate in cross-validation, unless ``svm="mwu"``.
    %(tol:libsvm)s

    Attributes
    ----------
    %(classes_:separate)s
    gates_ : ndarray of shape (n_samples, n_kernels) *
        Gates of the training samples, scaled to length one: :math:`\sqrt{\Gamma_m(x, x)}` for either `psd`.
    dual_coef_ : ndarray of shape (n_samples,) *
        Signed dual coefficients of the last SVM.
    intercept_ : float *
        Its intercept.
    temperature_ : float or None *
        The temperature of the gates.
    smallest_eigenvalue_ : float *
        Smallest eigenvalue of the training kernel for ``psd="paper"``. NaN for "unit-norm", which has no negative
        eigenvalues, and with ``svm="mwu"``.
    %(support_:coefficients)s
    %(support_fraction_)s
    %(n_active_kernels_)s
    n_solves_ : int *
        Number of SVMs trained.
    objective_history_ : ndarray of shape (1,) *
        Dual value of the last SVM.
    duality_gap_ : float *
        Primal minus dual value of the last SVM. NaN for ``psd="paper"``, whose distance to the optimum has no bound.
    n_iter_ : int *
        One.
    outcome_ : Outcome *
        MAX_ITER if an SVM by multiplicative weights did not reach `mwu_epsilon`, otherwise CONVERGED.
    converged_ : bool
        Whether all SVMs converged.
    results_ : tuple of SwMKLResult
        All SVMs, per class.
    gate_bank_ : KernelBank or None
        The fitted kernels on features that gates may use; None if gates only use the kernels themselves.
    gate_kernel_ : str, or list of str for more than two classes
        Name of the kernel that gates use: "own", or a kernel of `gate_bank_`.
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
    LDMKLClassifier : The same gates, and a vote of SVMs without a kernel matrix.
    LMKLClassifier : Gates that are optimized together with the SVM.

    Notes
    -----
    With ``psd="unit-norm"`` the gating is separable: gates of unit length, one component, and :math:`\kappa` is
    positive semidefinite. With "paper", gating matrices are normalized pair by pair, so they do not correspond to
    gates of single samples, and LibSVM minimizes a problem that is not convex. The diagonal of :math:`\kappa` is the
    same.

    The last SVM keeps a kernel matrix in memory, unless ``svm="mwu"``. The other SVMs do not, if LibSVM has their
    kernels (Gaussian, polynomial, linear, cosine).

    The paper's algorithm is ``SwMKLClassifier(psd="paper", temperature=None, gate_targets="train")`` with a Gaussian
    as `gate_kernel`, or with "own", where the unified view names none. Flexible kernels are right on all of their own
    training samples, and with ``gate_targets="train"`` gates are then constant.

    References
    ----------
    .. [1] R. Kannao and P. Guha (2015), TV news commercials detection using success based locally weighted
       kernel combination; in the form of J. Moeller, S. Swaminathan and S. Venkatasubramanian (2016), A unified view
       of localized kernel learning, SDM (algorithm 2).

    Examples
    --------
    >>> import numpy as np
    >>> from bayesmkl import KernelBank
    >>> from bayesmkl.discriminative import SwMKLClassifier
    >>> from bayesmkl.kernels import Gaussian, Linear
    >>> X = np.random.default_rng(0).normal(size=(300, 3))
    >>> y = np.where(X[:, 0] > 0, X[:, 1], X[:, 2]) > 0
    >>> bank = KernelBank(Linear(), views={"right": [1], "left": [2]}, normalize=None)
    >>> model = SwMKLClassifier(bank, gate_kernel=Gaussian(width=0.5)).fit(X, y)
    >>> print(model.score(X, y) > 0.85, model.gates([[2.0, -0.5, 0.7], [-2.0, -0.5, 0.7]]).round(1))
    True [[...
    """

    psd: str = "unit-norm"
    lowest_gate: float = 1e-3
    temperature: float | str | None = "auto"
    tol: float = 1e-3

    PER_TASK = ("smallest_eigenvalue",)

    def _options(self) -> by_success.SwMKLOptions:
        lowest = check_below_one("lowest_gate", self.lowest_gate, "the largest gate", 1e-3)
        psd = check_choice("psd", self.psd, by_success.PSD)
        temperature = self.temperature
        if isinstance(temperature, str):
            check_choice("temperature", temperature, (by_success.AUTO,))
        elif temperature is not None:
            temperature = check_scale("temperature", temperature)
        return by_success.SwMKLOptions(psd, lowest, self._success_options(), temperature)

    def _most_steps(self) -> int:
        return 2 * self.n_kernels_in_ + 1

    def _learn_task(
        self, training: Rows, target: np.ndarray, inner: Any, on_step: OnStep
    ) -> by_success.SwMKLResult:
        options = self._options()
        success, offer = self._offer(training, target, inner, options.temperature == by_success.AUTO)
        solve = lambda gated, labels: inner.solve(gated, labels, options.success.tol)
        last = solve if self.svm == "mwu" else None
        options = options._replace(success=success)
        return by_success.fit_swmkl(training.kernels, target, options, offer, solve=last, on_step=on_step)

    def _describe(self, result: by_success.SwMKLResult, stopped: bool) -> LocalFit:
        return LocalFit(
            gates=result.gates / np.linalg.norm(result.gates, axis=0),
            signed_dual=result.signed_dual,
            intercept=result.intercept,
            objective_history=np.array([result.objective]),
            duality_gap=result.gap,
            outcome=Outcome.MAX_ITER if stopped else Outcome.CONVERGED,
            n_solves=result.success.n_solves + 1,
        )

    def _store_local(self, results: list[by_success.SwMKLResult], stopped: bool) -> None:
        super()._store_local(results, stopped)
        temperatures = [result.temperature for result in results]
        self.temperature_ = temperatures if len(temperatures) > 1 else temperatures[0]

    def _components(self, result: by_success.SwMKLResult, rows: Rows) -> np.ndarray:
        seen, seen_rows = self._seen(result, rows)
        return by_success.swmkl_gates(seen, result, seen_rows, self._options())[None]

    def _gates_local(self, X: Samples | None, gate_features: ArrayLike | None = None) -> np.ndarray:
        gates = super()._gates_local(X, gate_features)
        return gates / np.linalg.norm(gates, axis=-1, keepdims=True)

    def _gating(self, row_components: np.ndarray, column_components: np.ndarray, kernel: int) -> np.ndarray:
        gating = super()._gating(row_components, column_components, kernel)
        return gating if self.psd == "unit-norm" else gating / (row_components[0].T @ column_components[0])

    def _scores_at(self, result: by_success.SwMKLResult, rows: Rows) -> np.ndarray:
        gates = self._components(result, rows)[0]
        return by_success.swmkl_scores(self._voting(), result, rows.kernels, gates, self.psd)

    def _kernel_at(self, result: by_success.SwMKLResult, rows: Rows) -> np.ndarray:
        gates = self._components(result, rows)[0]
        return by_success.swmkl_kernel(self._voting(), result.gates, rows.kernels, gates, self.psd)


@dataclass(eq=False, repr=False, kw_only=True)
@fill_docs(GATED, SwMKLClassifier)
class LDMKLClassifier(BySuccess):
    r"""LD-MKL: votes of SVMs of single kernels, gated by their expected success.

    .. math:: f(x) = \sum_m g_m(x) \tanh \bar f_m(x), \qquad
       \bar f_m(x) = \sum_{j \in S_m} v_{mj} k_m(x_j, x) + b_m, \qquad
       g(x) = \operatorname{softmax}\big(h_1(x), \dots, h_P(x)\big) .

    One support vector classifier is trained for each of the `P` kernels. The support vector regression :math:`h_m`
    predicts where this classifier is right (1) or wrong (0). The voter :math:`\bar f_m` with support vectors
    :math:`S_m` is the classifier, or a new one trained on the samples whose gate :math:`g_m` is at least `threshold`.
    Nothing is iterated, and the kernels are only combined in the vote [1]_. For kernels that LibSVM has (Gaussian,
    polynomial, linear, cosine), no matrix of more than 2000 samples is ever formed.

    Parameters
    ----------
    %(kernels)s
    %(indefinite)s
    %(kernel_names)s
    C : float, default=1.0
        Factor of the hinge loss of the classifiers, above 0.
    %(SwMKLClassifier.random_state)s
    %(verbose)s
    %(SwMKLClassifier.gate_targets)s
    %(SwMKLClassifier.gate_kernel)s
    %(gate_columns)s
    %(SwMKLClassifier.gate_C)s
    %(SwMKLClassifier.gate_epsilon)s
    svm : {"libsvm", "mwu"}, default="libsvm"
        Solver of the classifiers: LibSVM, or multiplicative weights, with the squared hinge loss and from single
        columns of the kernel. The regressions are LibSVM's in both cases.
    %(SwMKLClassifier.mwu_epsilon)s
    sv_gate : {"none", "paper"}, default="none"
        "paper" multiplies the coefficients of a voter by its gate at the support vectors; "none" does not change
        them.
    bias : {"refit", "keep", "drop"}, default="refit"
        The intercepts :math:`b_m`. "refit": averaged over the support vectors on the margin. "keep": those of the
        trained SVMs. "drop": none, as in the formula of the paper.
    temperature : float, default=0.1
        Temperature of the softmax, above 0; the paper uses 1. Low values let one kernel decide.
    threshold : float, "paper" or "auto", default="auto"
        Smallest gate, from 0 to 1, of the samples that a voter is trained on. 0 keeps all samples. "paper" is
        1 / n_kernels; use it for sharp gates (a `gate_kernel` and a low `temperature`). "auto" is "paper" if
        `gate_columns` or `gate_features` are given, otherwise 0.
    strict : bool, default=False
        Whether to leave out samples whose gate equals the threshold, up to the accuracy of the regressions, as the
        paper does.
    tol : float, default=1e-4
        Tolerance of LibSVM, the largest violation of its optimality conditions.

    Attributes
    ----------
    %(classes_:separate)s
    gates_ : ndarray of shape (n_samples, n_kernels) *
        Gates of the training samples; they sum to one.
    dual_coef_ : ndarray of shape (n_kernels, n_samples) *
        Signed dual coefficients :math:`v_{mj}` of the voters, gated with ``sv_gate="paper"``.
    intercept_ : ndarray of shape (n_kernels,) *
        The intercepts :math:`b_m`.
    retrained_ : ndarray of bool of shape (n_kernels,) *
        False if all samples above the threshold had the same class; the first classifier then votes.
    n_selected_ : ndarray of shape (n_kernels,) *
        Number of samples above the threshold.
    %(support_:kernels)s
    %(support_fraction_)s
    %(n_active_kernels_)s
    %(SwMKLClassifier.n_solves_)s *
    objective_history_ : ndarray of shape (0,) *
        Empty: there is no objective.
    duality_gap_ : float *
        NaN.
    %(SwMKLClassifier.n_iter_)s *
    %(SwMKLClassifier.outcome_)s *
    %(SwMKLClassifier.converged_)s
    results_ : tuple of LDMKLResult
        All SVMs, per class.
    %(SwMKLClassifier.gate_bank_)s
    %(SwMKLClassifier.gate_kernel_)s
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
    The gating matrices are :math:`g_m g_m^\top`, with one component and rank one. Scores are not those of an SVM on
    the `combined_kernel`, because every kernel has its own coefficients and votes are squashed.

    The defaults depart from the paper [1]_, which is ``LDMKLClassifier(sv_gate="paper", bias="drop",
    threshold="paper", strict=True, temperature=1, gate_targets="train")`` with a `gate_kernel` that it does not
    name. Its eq. 6 gates the support vectors and has no intercept. The coefficients, which sum to zero after
    training, are then unbalanced and shift the scores, which costs accuracy if classes have unequal sizes. Voters of
    the paper are trained on the samples with a gate above 1 / n_kernels. If kernels succeed about equally often,
    these samples are few and from unequal classes, and the vote may be the same everywhere (check `n_selected_` and
    `retrained_`). A gate equal to the threshold counts as above it, up to twice `tol` in the regressions, so that a
    single kernel and identical kernels keep all samples. If only one class is above, the first classifier is kept.

    Flexible kernels are right on all of their own training samples, and with ``gate_targets="train"`` gates are then
    constant. Gates are compared on at most 400 samples.

    References
    ----------
    .. [1] J. Moeller, S. Swaminathan and S. Venkatasubramanian (2016), A unified view of localized kernel learning,
       SDM (algorithm 3).

    Examples
    --------
    Use one kernel per view; each view separates the classes in one half of the plane only:

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

    sv_gate: str = "none"
    bias: str = "refit"
    temperature: float = 0.1
    threshold: float | str = "auto"
    strict: bool = False
    tol: float = 1e-4

    PER_TASK = ("retrained", "n_selected")

    def _threshold(self, named: bool) -> float | str:
        """Return the threshold in use where features of the gates are `named`, or not."""
        if isinstance(self.threshold, str) and self.threshold in (by_success.PAPER, by_success.AUTO):
            return by_success.PAPER if self.threshold == by_success.PAPER or named else 0.0
        threshold = float_of(self.threshold)
        if not 0.0 <= threshold <= 1.0:
            raise ValueError(
                f'`threshold` must be a number from 0 to 1, as gates are, "auto", or "paper", which is '
                f"1 / n_kernels; got {shown(self.threshold)}. 0 keeps all samples."
            )
        return threshold

    def _names_features(self) -> bool:
        """Return whether the user said which features the gates of a fitted model depend on."""
        return self.gate_columns is not None or (self._is_precomputed() and self.gate_bank_ is not None)

    def _options(self, named: bool = False) -> by_success.LDMKLOptions:
        return by_success.LDMKLOptions(
            sv_gate=check_choice("sv_gate", self.sv_gate, by_success.SV_GATE),
            bias=check_choice("bias", self.bias, by_success.BIAS),
            temperature=check_scale("temperature", self.temperature),
            threshold=self._threshold(named),
            success=self._success_options(),
            squared_hinge=self.svm == "mwu",
            strict=check_flag("strict", self.strict),
        )

    def _most_steps(self) -> int:
        return 3 * self.n_kernels_in_

    def _learn_task(
        self, training: Rows, target: np.ndarray, inner: Any, on_step: OnStep
    ) -> by_success.LDMKLResult:
        success, offer = self._offer(training, target, inner)
        options = self._options(self._names_features())._replace(success=success)
        offer = offer._replace(n_compared=MOST_COMPARED)
        return by_success.fit_ldmkl(training.kernels, target, options, offer, on_step=on_step)

    def _describe(self, result: by_success.LDMKLResult, stopped: bool) -> LocalFit:
        duals, intercepts = one_kernel.coefficients_of(result.svms, result.gates.shape[1])
        return LocalFit(
            gates=result.gates,
            signed_dual=duals,
            intercept=intercepts,
            objective_history=np.zeros(0),
            duality_gap=np.nan,
            outcome=Outcome.MAX_ITER if stopped else Outcome.CONVERGED,
            n_solves=result.n_solves,
        )

    def _components(self, result: by_success.LDMKLResult, rows: Rows) -> np.ndarray:
        seen, seen_rows = self._seen(result, rows)
        return by_success.ldmkl_gates(seen, result, seen_rows, self._options().temperature)[None]

    def _scores_at(self, result: by_success.LDMKLResult, rows: Rows) -> np.ndarray:
        return by_success.gated_vote(
            self._voting(), result.svms, rows.kernels, self._components(result, rows)[0]
        )

    def _kernel_at(self, result: by_success.LDMKLResult, rows: Rows) -> np.ndarray:
        gated = one_kernel.GatedKernel(tuple(self._voting()), result.gates[None])
        return gated.block(rows.kernels, self._components(result, rows))
