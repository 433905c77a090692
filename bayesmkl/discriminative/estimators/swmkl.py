"""SwMKL as a scikit-learn estimator: gates by the expected success of each kernel alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from bayesmkl._utils.docstrings import fill_docs
from bayesmkl._utils.typing import Samples, Seed
from bayesmkl._utils.validation import check_choice, check_number, check_scale
from bayesmkl.discriminative.estimators.checked import OnStep
from bayesmkl.discriminative.estimators.localized import LocalFit, Rows
from bayesmkl.discriminative.estimators.shared_docs import BY_SUCCESS
from bayesmkl.discriminative.estimators.success import BySuccess
from bayesmkl.discriminative.localized.swmkl import (
    AUTO,
    PSD,
    SwMKLOptions,
    SwMKLResult,
    fit_swmkl,
    swmkl_gates,
    swmkl_kernel,
    swmkl_scores,
)

if TYPE_CHECKING:
    from bayesmkl.kernels.bank import KernelBank
    from bayesmkl.kernels.base import Kernel


@dataclass(repr=False, eq=False)
@fill_docs(BY_SUCCESS)
class SwMKLClassifier(BySuccess):
    r"""SwMKL: kernels weighted at every sample by their expected success, then one SVM.

    .. math:: \min_{w, b} \tfrac12 \|w\|^2 + C \sum_i \max(0, 1 - y_i f(x_i)) \quad\text{with the kernel}\quad
       \kappa(x, z) = \sum_m \frac{g_m(x)\, g_m(z)}{Z(x, z)} k_m(x, z) .

    For each kernel, one support vector classifier is trained, and :math:`g_m` is a support vector regression of where
    it is right (1) and wrong (0), or the softmax of these, clipped to [`lowest_gate`, 1]. :math:`Z(x, z)` is
    :math:`\|g(x)\| \|g(z)\|` or, in the paper [1]_, :math:`\sum_h g_h(x) g_h(z)`.

    Parameters
    ----------
    %(kernels)s
    C : float, default=1.0
        Factor of the hinge loss of all classifiers, above 0.
    psd : {"unit-norm", "paper"}, default="unit-norm"
        How :math:`\kappa` is normalized: by the lengths of the vectors of gates, or as in the paper, which makes it
        indefinite.
    lowest_gate : float, default=1e-3
        Gates below this are raised to it, between 0 and 1.
    temperature : float, "auto" or None, default="auto"
        Of the softmax of the regressions, above 0; None takes the regressions as they are, as in the paper. "auto" is
        None where gates see the kernels themselves, and else 0.3; of named gate features, 0.3 or 0.05, whichever
        makes the last SVM more accurate in cross-validation, unless ``svm="mwu"``.
    %(gate_targets)s
    %(gate_kernel)s
    %(gate_columns)s
    %(gate_C)s
    %(gate_epsilon)s
    %(gate_subsample)s
    svm : {"libsvm", "mwu"}, default="libsvm"
        Solver of the classifiers: LibSVM, or multiplicative weights, with the squared hinge loss and from single
        columns of :math:`\kappa`, which is then never formed. The regressions are LibSVM's in both cases.
    %(mwu_epsilon)s
    %(tol:libsvm)s
    %(indefinite)s
    %(kernel_names)s
    %(random_state)s
    %(verbose)s

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
        Of the training kernel, for ``psd="paper"``: exact up to 500 samples, from above for more. NaN for
        "unit-norm", where none is negative, and with ``svm="mwu"``.
    %(support_:coefficients)s
    %(support_fraction_)s
    %(n_active_kernels_)s
    %(n_solves_)s *
    objective_history_ : ndarray of shape (1,) *
        Dual value of the last SVM.
    duality_gap_ : float *
        Its primal minus its dual value; NaN for ``psd="paper"``, where nothing bounds the distance to the optimum.
    %(n_iter_)s *
    %(outcome_)s *
    %(converged_)s
    results_ : tuple of SwMKLResult
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
    LDMKLClassifier : The same gates, and a vote of SVMs without a kernel matrix.
    LMKLClassifier : Gates that are optimized together with the SVM.

    Notes
    -----
    With ``psd="unit-norm"`` the gating is separable: gates of unit length, one component, and :math:`\kappa` is
    positive semidefinite. With "paper" gating matrices are normalized pair by pair, no gates of single samples give
    them, and LibSVM minimizes what is no longer convex. The diagonal of :math:`\kappa` is the same.

    The last SVM takes a kernel matrix in memory, unless ``svm="mwu"``; the others do not, if LibSVM has the
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

    kernels: KernelBank | str | None = None
    _: KW_ONLY
    C: float = 1.0
    psd: str = "unit-norm"
    lowest_gate: float = 1e-3
    temperature: float | str | None = "auto"
    gate_targets: str = "auto"
    gate_kernel: Kernel | str = "auto"
    gate_columns: Sequence[str | int] | np.ndarray | None = None
    gate_C: float = 1.0
    gate_epsilon: float = 0.1
    gate_subsample: int | None = None
    svm: str = "libsvm"
    mwu_epsilon: float = 0.05
    tol: float = 1e-3
    indefinite: str = "raise"
    kernel_names: Sequence[str] | np.ndarray | None = None
    random_state: Seed | None = None
    verbose: int = 1

    def _options(self) -> SwMKLOptions:
        lowest = check_number("lowest_gate", self.lowest_gate, low=0.0)
        if lowest >= 1.0:
            raise ValueError(f"`lowest_gate` must be below 1, the largest gate; got {lowest:g}. Try 1e-3.")
        psd = check_choice("psd", self.psd, PSD)
        temperature = self.temperature
        if isinstance(temperature, str):
            check_choice("temperature", temperature, (AUTO,))
        elif temperature is not None:
            temperature = check_scale("temperature", temperature)
        return SwMKLOptions(psd, lowest, self._success_options(), temperature)

    def _most_steps(self) -> int:
        return 2 * self.n_kernels_in_ + 1

    def _learn_task(self, training: Rows, target: np.ndarray, inner: Any, on_step: OnStep) -> SwMKLResult:
        options = self._options()
        kernels, offer = self._offer(training, target, inner, options.temperature == AUTO)
        solve = lambda gated, labels: inner.solve(gated, labels, options.success.tol)
        last = solve if self.svm == "mwu" else None
        return fit_swmkl(kernels, target, options, offer, solve=last, on_step=on_step)

    def _describe(self, result: SwMKLResult, stopped: bool) -> LocalFit:
        return LocalFit(
            gates=result.gates / np.linalg.norm(result.gates, axis=0),
            signed_dual=result.signed_dual,
            intercept=result.intercept,
            objective_history=np.array([result.objective]),
            duality_gap=result.gap,
            outcome=self._outcome(stopped),
            n_solves=result.success.n_solves + 1,
        )

    def _store_local(self, results: list[SwMKLResult], stopped: bool) -> None:
        super()._store_local(results, stopped)
        smallest = [result.smallest_eigenvalue for result in results]
        temperatures = [result.temperature for result in results]
        self.temperature_ = temperatures if len(temperatures) > 1 else temperatures[0]
        self.smallest_eigenvalue_ = np.array(smallest) if len(smallest) > 1 else smallest[0]

    def _components(self, result: SwMKLResult, rows: Rows) -> np.ndarray:
        seen, seen_rows = self._seen(result, rows)
        return swmkl_gates(seen, result, seen_rows, self._options())[None]

    def _gates_local(self, X: Samples | None, gate_features: ArrayLike | None = None) -> np.ndarray:
        gates = super()._gates_local(X, gate_features)
        return gates / np.linalg.norm(gates, axis=-1, keepdims=True)

    def _gating(self, row_components: np.ndarray, column_components: np.ndarray, kernel: int) -> np.ndarray:
        gating = super()._gating(row_components, column_components, kernel)
        return gating if self.psd == "unit-norm" else gating / (row_components[0].T @ column_components[0])

    def _scores_at(self, result: SwMKLResult, rows: Rows) -> np.ndarray:
        gates = self._components(result, rows)[0]
        return swmkl_scores(self._voting(), result, rows.kernels, gates, self.psd)

    def _kernel_at(self, result: SwMKLResult, rows: Rows) -> np.ndarray:
        gates = self._components(result, rows)[0]
        return swmkl_kernel(self._voting(), result.gates, rows.kernels, gates, self.psd)
