r"""SwMKL: kernels weighted at every sample by their expected success (Kannao and Guha 2015).

Algorithm 2 of Moeller, Swaminathan and Venkatasubramanian (2016): the gates :math:`g_i` are regressions of where the
SVM of kernel `i` alone is right, and one more SVM is trained on

.. math:: \kappa(x, x') = \sum_i \frac{g_i(x)\, g_i(x')}{Z(x, x')}\, \kappa_i(x, x'), \qquad
   Z(x, x') = \sum_h g_h(x)\, g_h(x') .

Departures:

* Regressions leave (0, 1), and :math:`Z` can then be zero or negative: gates are clipped to ``[lowest_gate, 1]``.
* Regressions are close to one where a kernel is right and to the rate of chance where it is not, so that gates differ
  little. ``temperature`` takes their softmax in place of them, as LD-MKL does; None is the paper's. Of several
  kernels that are offered to the regressions, that with the most accurate last SVM in cross-validation is taken, of
  equally good ones the first. "auto" compares two temperatures, a soft and a sharp one, takes the soft one where
  regressions may also see the kernels themselves, and None where they do: those of a flexible kernel follow single
  training samples, and would decide at these alone.
* Division by :math:`Z` makes the kernel indefinite, not only its terms: ``psd="unit-norm"`` divides by
  :math:`\|g(x)\|\,\|g(x')\|` instead. That is :math:`\sum_i \hat g_i \kappa_i \hat g_i` with gates of unit length,
  positive semidefinite, and with the same diagonal. ``psd="paper"`` keeps :math:`Z`, and reports the smallest
  eigenvalue.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from scipy.linalg import eigh_tridiagonal, eigvalsh
from scipy.special import softmax

from bayesmkl.discriminative.inner import InnerSolution
from bayesmkl.discriminative.localized.success import (
    OWN,
    Folds,
    Offer,
    Success,
    SuccessOptions,
    best_vote,
    fit_success,
    gate_outputs,
)
from bayesmkl.discriminative.svm.libsvm import solve_svm
from bayesmkl.discriminative.svm.one_kernel import GatedKernel, OneKernel, one_class, row_blocks

PSD = ("unit-norm", "paper")
AUTO = "auto"
SOFT, SHARP = 0.3, 0.05  # temperatures that "auto" compares
EXACT = 500  # samples up to which all eigenvalues are computed
LANCZOS_STEPS = 80


class SwMKLOptions(NamedTuple):
    """Normalization of the gates, and options of the success regressions.

    Parameters
    ----------
    psd : {"unit-norm", "paper"}
    lowest_gate : float
        Gates below this are raised to it.
    success : SuccessOptions
        SVMs of the single kernels; the last SVM has their `C` and `tol`.
    temperature : float, "auto" or None
        Of the softmax of the regressions; None takes them as they are.
    """

    psd: str = "unit-norm"
    lowest_gate: float = 1e-3
    success: SuccessOptions = SuccessOptions()
    temperature: float | str | None = None


class SwMKLResult(NamedTuple):
    """A fitted SwMKL.

    Parameters
    ----------
    signed_dual : ndarray of shape (n_train,)
    intercept : float
    gates : ndarray of shape (n_kernels, n_train)
        As they enter the kernel: clipped, and of unit length with ``psd="unit-norm"``.
    success : Success
        The SVMs of the single kernels, and the regressions.
    objective : float
        Dual value of the last SVM.
    gap : float
        Its primal minus its dual value; NaN with ``psd="paper"``, where the kernel is indefinite and there is no such
        bound.
    smallest_eigenvalue : float
        Of the combined kernel, from above; NaN with ``psd="unit-norm"``, where none is negative, and where the kernel
        is not formed.
    temperature : float or None
        That of the gates.
    """

    signed_dual: np.ndarray
    intercept: float
    gates: np.ndarray
    success: Success
    objective: float
    gap: float
    smallest_eigenvalue: float
    temperature: float | None = None

    @property
    def chosen(self) -> int:
        """Position of the kernels that the regressions see among those offered."""
        return self.success.chosen

    @property
    def support(self) -> np.ndarray:
        """Positions of the last SVM's support vectors."""
        return np.flatnonzero(self.signed_dual)


def fit_swmkl(
    kernels: Sequence[OneKernel],
    target: np.ndarray,
    options: SwMKLOptions = SwMKLOptions(),  # noqa: B008
    offer: Offer = OWN,
    *,
    solve: Callable[[GatedKernel, np.ndarray], InnerSolution] | None = None,
    on_step: Callable[[int, str], None] | None = None,
) -> SwMKLResult:
    """Learn gates from the success of single kernels, then one SVM on the gated kernel.

    Parameters
    ----------
    kernels : sequence of OneKernel
        Precomputed or native ones.
    target : ndarray of shape (n_train,)
        Labels -1 and +1.
    options : SwMKLOptions
    offer : Offer
        Temperatures are compared where there are folds, and no `solve`.
    solve : callable, optional
        Trains the last SVM from single columns of the gated kernel, so that no kernel matrix is formed. By
        default the matrix is formed for LibSVM.
    on_step : callable, optional
        Called with the number of finished steps, two per kernel and the last SVM, and a status.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesmkl.discriminative.svm.native import native_kernel
    >>> from bayesmkl.kernels import Gaussian, Linear
    >>> X = np.random.default_rng(0).normal(size=(60, 2))
    >>> y = np.where(X[:, 0] * (X[:, 1] > 0) > 0.2, 1.0, -1.0)
    >>> kernels = [native_kernel(Linear(), X), native_kernel(Gaussian(width=1.0), X)]
    >>> result = fit_swmkl(kernels, y)
    >>> rows = [kernel.rows(X[:5]) for kernel in kernels]
    >>> gates = swmkl_gates(kernels, result, rows, SwMKLOptions())
    >>> y[:5], swmkl_scores(kernels, result, rows, gates).round(1)
    (array([-1.,  1., -1.,  1., -1.]), array([-1.1, -0.1, -1.8,  1.3, -2.8]))
    """
    compares = solve is None and (offer.kernels or [kernels])[0] is not kernels
    compared = [_temperatures(options, seen is kernels, compares) for seen in offer.kernels or [kernels]]
    temperature = compared[0][0]

    def choose(scored: np.ndarray, values: Sequence[np.ndarray]) -> int:
        nonlocal temperature
        if solve is None and offer.folds is not None:
            chosen, temperature = _best_gates(kernels, target, options, values, compared, offer.folds)
        else:
            chosen = best_vote(scored, values, target, SOFT)
            temperature = compared[chosen][0]
        return chosen

    compare = choose if len(compared) > 1 or len(compared[0]) > 1 else None
    success = fit_success(
        kernels, target, options.success, offer, choose=compare, on_step=on_step
    )  # lines 1 to 3
    gates = _gates_from(success.outputs, options, temperature)
    gated = GatedKernel(tuple(kernels), gates[None], options.psd != "unit-norm")
    smallest = np.nan
    if solve is not None:
        solution = solve(gated, target)
    else:
        kernel = gated.dense()
        if options.psd != "unit-norm":
            smallest = smallest_eigenvalue(kernel)
        solution = _solve(kernel, target, options.success, offer.order)  # line 4
    if on_step is not None:
        on_step(2 * len(kernels) + 1, "last SVM")
    gap = solution.gap if options.psd == "unit-norm" else np.nan
    dual, intercept, objective, _ = solution
    return SwMKLResult(dual, intercept, gates, success, objective, gap, smallest, temperature)


def swmkl_gates(
    gate_kernels: Sequence[OneKernel],
    result: SwMKLResult,
    rows: Sequence[np.ndarray],
    options: SwMKLOptions,
) -> np.ndarray:
    """Return the gates at rows of the gate kernels, shape (n_kernels, n_rows)."""
    outputs = gate_outputs(gate_kernels, result.success.gate_svms, rows)
    return _gates_from(outputs, options, result.temperature)


def swmkl_kernel(
    kernels: Sequence[OneKernel],
    train_gates: np.ndarray,
    rows: Sequence[np.ndarray],
    row_gates: np.ndarray,
    psd: str,
) -> np.ndarray:
    """Return the combined kernel of rows, shape (n_rows, n_train).

    Parameters
    ----------
    kernels : sequence of OneKernel
    train_gates : ndarray of shape (n_kernels, n_train)
    rows : sequence of ndarray
        One per kernel.
    row_gates : ndarray of shape (n_kernels, n_rows)
    psd : {"unit-norm", "paper"}
    """
    return GatedKernel(tuple(kernels), train_gates[None], psd != "unit-norm").block(rows, row_gates[None])


def swmkl_scores(
    kernels: Sequence[OneKernel],
    result: SwMKLResult,
    rows: Sequence[np.ndarray],
    row_gates: np.ndarray,
    psd: str = "unit-norm",
) -> np.ndarray:
    """Return the scores of rows with gates (n_kernels, n_rows), shape (n_rows,), in blocks of rows."""
    gated = GatedKernel(tuple(kernels), result.gates[None], psd != "unit-norm")
    support, out = result.support, np.empty(row_gates.shape[1])
    for part in row_blocks(len(out), len(support)):
        block = gated.block([of_all[part] for of_all in rows], row_gates[None, :, part], support)
        out[part] = block @ result.signed_dual[support]
    return out + result.intercept


def smallest_eigenvalue(kernel: np.ndarray) -> float:
    """Return the smallest eigenvalue of a symmetric matrix, from above where it is large.

    For up to 500 samples it is exact. Beyond, it is the smallest Ritz value after 80 steps of Lanczos, which are
    orthogonal to all steps before: never below the eigenvalue, and close to one that stands apart.

    Examples
    --------
    >>> import numpy as np
    >>> round(smallest_eigenvalue(np.array([[0.0, 2.0], [2.0, 0.0]])), 12)
    -2.0
    """
    if len(kernel) <= EXACT:
        return float(eigvalsh(kernel, subset_by_index=[0, 0])[0])
    basis = np.zeros((LANCZOS_STEPS, len(kernel)))
    diagonal, beside = np.zeros(LANCZOS_STEPS), np.zeros(LANCZOS_STEPS)
    vector = np.random.default_rng(0).standard_normal(len(kernel))
    for k in range(LANCZOS_STEPS):
        beside[k] = np.linalg.norm(vector)
        if beside[k] <= 1e-12 * np.abs(diagonal).max(initial=0.0):  # an invariant subspace
            diagonal, beside = diagonal[:k], beside[:k]
            break
        basis[k] = vector / beside[k]
        vector = kernel @ basis[k]
        diagonal[k] = basis[k] @ vector
        for _ in range(2):
            vector = vector - basis[: k + 1].T @ (basis[: k + 1] @ vector)
    return float(eigh_tridiagonal(diagonal, beside[1:], eigvals_only=True)[0])


def _solve(
    kernel: np.ndarray, target: np.ndarray, options: SuccessOptions, order: np.ndarray | None
) -> InnerSolution:
    """Train the SVM on samples in a given order."""
    if order is None:
        return solve_svm(kernel, target, options.C, options.tol)
    solution = solve_svm(kernel[np.ix_(order, order)], target[order], options.C, options.tol)
    signed_dual = np.empty_like(solution.signed_dual)
    signed_dual[order] = solution.signed_dual
    return solution._replace(signed_dual=signed_dual)


def _temperatures(options: SwMKLOptions, own: bool, compares: bool) -> tuple[float | None, ...]:
    """Return the temperatures to compare for regressions that see the kernels themselves, or another one."""
    if not isinstance(options.temperature, str):
        return (options.temperature,)
    if own:
        return (None,)
    return (SHARP, SOFT) if compares else (SOFT,)


def _best_gates(
    kernels: Sequence[OneKernel],
    target: np.ndarray,
    options: SwMKLOptions,
    values: Sequence[np.ndarray],
    temperatures: Sequence[tuple[float | None, ...]],
    folds: Folds,
) -> tuple[int, float | None]:
    """Return candidate and temperature with which the last SVM is right most often at validation samples."""
    best, most = (0, temperatures[0][0]), -1
    for chosen, outputs in enumerate(values):
        for temperature in temperatures[chosen]:
            gates = _gates_from(outputs, options, temperature)
            kernel = GatedKernel(tuple(kernels), gates[None], options.psd != "unit-norm").dense()
            right = 0
            for train, validation in folds:
                labels = target[train]
                if one_class(labels):
                    right += int(np.sum(target[validation] == labels[0]))
                    continue
                svm = solve_svm(kernel[np.ix_(train, train)], labels, options.success.C, options.success.tol)
                scored = kernel[np.ix_(validation, train)] @ svm.signed_dual + svm.intercept
                right += int(np.sum((scored > 0.0) == (target[validation] > 0.0)))
            if right > most:
                best, most = (chosen, temperature), right
    return best


def _gates_from(outputs: np.ndarray, options: SwMKLOptions, temperature: float | None) -> np.ndarray:
    """Clip the regressions, or their softmax; with unit norm, divide by the length over the kernels."""
    outputs = outputs if temperature is None else softmax(outputs / temperature, axis=0)
    gates = np.clip(outputs, options.lowest_gate, 1.0)
    return gates / np.linalg.norm(gates, axis=0) if options.psd == "unit-norm" else gates
