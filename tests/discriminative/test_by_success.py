"""SwMKL and LD-MKL against their steps written with scikit-learn, eigenvalues, fallbacks and degenerate cases."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import assert_same, random_kernels
from scipy.linalg import eigvalsh
from sklearn.model_selection import StratifiedKFold
from sklearn.svm import SVC, SVR

from bayesmkl import KernelBank
from bayesmkl.discriminative.gating import combine_components
from bayesmkl.discriminative.localized.by_success import (
    BIAS,
    PAPER,
    PSD,
    SV_GATE,
    LDMKLOptions,
    Offer,
    SuccessOptions,
    SwMKLOptions,
    fit_ldmkl,
    fit_swmkl,
    gated_vote,
    ldmkl_gates,
    smallest_eigenvalue,
    swmkl_gates,
    swmkl_kernel,
    swmkl_scores,
)
from bayesmkl.discriminative.svm.native import native_kernel, native_kernels
from bayesmkl.discriminative.svm.one_kernel import PrecomputedKernel, precomputed_kernels, scores
from bayesmkl.kernels import Gaussian, Linear, Polynomial
from bayesmkl.kernels.stacks.dense import DenseStack

TIGHT = SuccessOptions(tol=1e-4)
FUNCTIONS = [Gaussian(gamma=0.3), Polynomial(degree=2), Linear()]
GAUSSIANS = [Gaussian(gamma=0.3), Gaussian(gamma=1.0)]


def toy(rng, n_samples=60, n_new=12):
    X = rng.normal(size=(n_samples + n_new, 3))
    y = np.where(X[:, 0] * X[:, 1] + 0.5 * rng.normal(size=len(X)) > 0.0, 1.0, -1.0)
    return X[:n_samples], y[:n_samples], X[n_samples:]


def combined_of(stack, train_gates, row_gates, normalize):
    """The kernel of the paper, term by term, with Z or with the product of lengths."""
    gating = row_gates[:, :, None] * train_gates[:, None, :]
    if normalize == "paper":
        norm = gating.sum(axis=0)
    else:
        norm = np.outer(np.linalg.norm(row_gates, axis=0), np.linalg.norm(train_gates, axis=0))
    return (gating * stack).sum(axis=0) / norm


def swmkl_score(kernels, result, rows, options):
    gates = swmkl_gates(kernels, result, rows, options)
    return swmkl_scores(kernels, result, rows, gates, options.psd)


@pytest.mark.parametrize("psd", ["unit-norm", "paper"])
@pytest.mark.parametrize("targets", ["train", "cv"])
def test_all_steps_written_with_scikit_learn(rng, psd, targets):
    X, y, new = toy(rng)
    bank = KernelBank(FUNCTIONS, normalize=None).fit(X)
    kernels = native_kernels(bank)
    folds = None if targets == "train" else list(StratifiedKFold(3).split(X, y))
    options = SwMKLOptions(psd, success=TIGHT._replace(gate_C=2.0, gate_epsilon=0.05))
    result = fit_swmkl(kernels, y, options, Offer(folds=folds))

    settings = [{"kernel": "rbf", "gamma": 0.3}, {"kernel": "poly", "gamma": 1.0, "coef0": 1.0, "degree": 2}]
    settings.append({"kernel": "linear"})
    train_gates, new_gates = [], []
    for setting in settings:
        svm = SVC(**setting, tol=1e-4)
        if folds is None:
            right = (svm.fit(X, y).predict(X) == y).astype(float)
        else:
            right = np.empty(len(y))
            for train, validation in folds:
                right[validation] = svm.fit(X[train], y[train]).predict(X[validation]) == y[validation]
        gate = SVR(**setting, C=2.0, epsilon=0.05, tol=1e-4).fit(X, right)
        train_gates.append(np.clip(gate.predict(X), 1e-3, 1.0))
        new_gates.append(np.clip(gate.predict(new), 1e-3, 1.0))
    train_gates, new_gates = np.stack(train_gates), np.stack(new_gates)
    kernel = combined_of(bank.train_stack(), train_gates, train_gates, psd)
    svm = SVC(kernel="precomputed", tol=1e-4).fit(kernel, y)
    expected = svm.decision_function(combined_of(bank.row_stack(new), train_gates, new_gates, psd))

    found = swmkl_score(kernels, result, [native.rows(new) for native in kernels], options)
    assert_same(found, expected, 1e-4)
    np.testing.assert_array_equal(result.support, np.sort(svm.support_))


@pytest.mark.parametrize("psd", PSD)
@pytest.mark.parametrize(("functions", "tol", "same"), [(FUNCTIONS, 1e-5, 1e-4), (GAUSSIANS, 1e-8, 1e-6)])
def test_native_and_precomputed_agree(rng, psd, functions, tol, same):
    X, y, new = toy(rng)
    bank = KernelBank(functions).fit(X)
    options = SwMKLOptions(psd, success=SuccessOptions(tol=tol))
    native, dense = native_kernels(bank), precomputed_kernels(DenseStack(bank.train_stack()))
    one, other = fit_swmkl(native, y, options), fit_swmkl(dense, y, options)
    assert_same(one.gates, other.gates, same)
    found = swmkl_score(native, one, [kernel.rows(new) for kernel in native], options)
    assert_same(found, swmkl_score(dense, other, list(bank.row_stack(new)), options), same)


def test_constant_gates_give_the_mean_kernel(rng):
    X, y, new = toy(rng)
    kernels = [native_kernel(Gaussian(gamma=gamma), X) for gamma in (0.5, 5.0, 50.0)]
    options = SwMKLOptions("paper", success=TIGHT._replace(C=100.0))
    result = fit_swmkl(kernels, y, options)
    if np.all(result.success.success == 1.0):  # flexible kernels are right everywhere
        np.testing.assert_allclose(np.ptp(result.gates), 0.0, atol=1e-9)
    rows = [kernel.rows(new) for kernel in kernels]
    mean = np.mean([Gaussian(gamma=gamma)(new, X) for gamma in (0.5, 5.0, 50.0)], axis=0)
    for psd, gate in (("paper", 0.37), ("unit-norm", 1.0 / np.sqrt(3.0))):
        found = swmkl_kernel(kernels, np.full((3, 60), gate), rows, np.full((3, 12), gate), psd)
        assert_same(found, mean, 1e-12)


@pytest.mark.parametrize("psd", ["unit-norm", "paper"])
def test_symmetric_with_the_weighted_diagonal(rng, psd):
    stack = random_kernels(rng, 25, 4, "badly scaled")
    raw = rng.uniform(1e-3, 1.0, size=(4, 25))
    gates = raw / np.linalg.norm(raw, axis=0) if psd == "unit-norm" else raw
    kernel = swmkl_kernel(precomputed_kernels(DenseStack(stack)), gates, list(stack), gates, psd)
    assert_same(kernel, kernel.T, 1e-13)
    diagonal = stack.diagonal(axis1=1, axis2=2)
    assert_same(kernel.diagonal(), (raw**2 * diagonal).sum(axis=0) / (raw**2).sum(axis=0), 1e-12)
    assert_same(kernel, combined_of(stack, raw, raw, psd), 1e-12)
    if psd == "unit-norm":
        assert_same(kernel, combine_components(DenseStack(stack), gates[None], gates[None]), 1e-12)


def test_the_paper_is_indefinite_and_unit_norm_is_not(rng):
    lowest = {"paper": [], "unit-norm": []}
    for _ in range(60):
        stack = random_kernels(rng, 30, 3)
        raw = rng.uniform(1e-3, 1.0, size=(3, 30))
        kernels = precomputed_kernels(DenseStack(stack))
        for psd, gates in (("paper", raw), ("unit-norm", raw / np.linalg.norm(raw, axis=0))):
            lowest[psd].append(eigvalsh(swmkl_kernel(kernels, gates, list(stack), gates, psd))[0])
    assert np.all(np.array(lowest["paper"]) < -1e-3)
    assert np.all(np.array(lowest["unit-norm"]) > -1e-12)


@pytest.mark.parametrize("gate", [0.1, 0.5, 1.0])
def test_two_samples_make_the_paper_indefinite(gate):
    constant, nothing = (PrecomputedKernel(np.full((2, 2), value)) for value in (1.0, 0.0))
    gates = np.array([[1.0, 1.0], [1.0, gate]])  # kernels x samples
    kernel = swmkl_kernel([constant, nothing], gates, [constant.kernel, nothing.kernel], gates, "paper")
    expected = -((1.0 - gate) ** 2) / (2.0 * (1.0 + gate) ** 2 * (1.0 + gate**2))
    np.testing.assert_allclose(np.linalg.det(kernel), expected, atol=1e-15)


@pytest.mark.parametrize("negative", [True, False])
def test_smallest_eigenvalue_of_a_large_matrix(rng, negative):
    root = rng.normal(size=(700, 900))
    kernel = root @ root.T / 900.0
    if negative:
        kernel -= 2.0 * np.outer(root[:, 0], root[:, 0]) / 700.0
    found = smallest_eigenvalue(kernel)
    np.testing.assert_allclose(found, eigvalsh(kernel)[0], rtol=1e-9)
    assert (found < 0.0) == negative


def test_gates_stay_between_their_limits(rng):
    X, y, new = toy(rng)
    kernels = native_kernels(KernelBank(FUNCTIONS).fit(X))
    options = SwMKLOptions("paper", lowest_gate=0.5, success=SuccessOptions(gate_C=10.0, gate_epsilon=0.01))
    result = fit_swmkl(kernels, y, options)
    outputs = result.success.outputs
    assert outputs.max() > 1.0
    assert outputs.min() < 0.5
    np.testing.assert_array_equal(result.gates, np.clip(outputs, 0.5, 1.0))
    far = [kernel.rows(10.0 * new) for kernel in kernels]
    of_rows = swmkl_gates(kernels, result, far, options)
    assert of_rows.min() >= 0.5
    assert of_rows.max() <= 1.0
    unit = swmkl_gates(kernels, result, far, options._replace(psd="unit-norm"))
    assert_same(unit, of_rows / np.sqrt((of_rows**2).sum(axis=0)), 1e-13)


def test_a_kernel_that_fails_on_one_side_is_closed_there(rng):
    X = rng.normal(size=(120, 2))
    left = X[:, 0] < 0.0
    y = np.where(X[:, 1] > 0.0, 1.0, -1.0)
    noise = np.where(left, X[:, 1], rng.permutation(X[:, 1]))  # tells nothing on the right
    kernels = [PrecomputedKernel(np.outer(z, z)) for z in (X[:, 1], noise)]
    gate = native_kernel(Gaussian(width=1.0), X)
    result = fit_swmkl(kernels, y, SwMKLOptions("paper"), Offer([[gate, gate]]))
    assert result.gates[1, left].mean() > result.gates[1, ~left].mean() + 0.2
    assert result.gates[0].min() > 0.8


SETTINGS = [
    {"kernel": "rbf", "gamma": 0.3},
    {"kernel": "poly", "gamma": 1.0, "coef0": 1.0, "degree": 2},
    {"kernel": "linear"},
]


def ldmkl_score(kernels, result, new, temperature=1.0):
    rows = [kernel.rows(new) for kernel in kernels]
    return gated_vote(kernels, result.svms, rows, ldmkl_gates(kernels, result, rows, temperature))


def softmax(values):
    return np.exp(values) / np.exp(values).sum(axis=0)


def reference(X, y, new, options, folds):
    """Algorithm 3 sample by sample, with decisions as they are documented."""
    train_raw, new_raw = [], []
    for setting in SETTINGS:
        svm = SVC(**setting, tol=1e-4)
        right = np.empty(len(y))
        for train, validation in [(np.arange(len(y)),) * 2] if folds is None else folds:
            right[validation] = svm.fit(X[train], y[train]).predict(X[validation]) == y[validation]
        gate = SVR(**setting, tol=1e-4).fit(X, right)
        train_raw.append(gate.predict(X))
        new_raw.append(gate.predict(new))
    train_gates = softmax(np.stack(train_raw) / options.temperature)
    new_gates = softmax(np.stack(new_raw) / options.temperature)
    total = np.zeros(len(new))
    for setting, function, g, g_new in zip(SETTINGS, FUNCTIONS, train_gates, new_gates, strict=True):
        kept = np.flatnonzero(g >= np.exp(-2e-4 / options.temperature) / 3.0)
        svm = SVC(**setting, tol=1e-4).fit(X[kept], y[kept])
        support = kept[svm.support_]
        coef = svm.dual_coef_[0] * (g[support] if options.sv_gate == "paper" else 1.0)
        free = support[np.abs(svm.dual_coef_[0]) < 1.0 - 1e-6]
        without = function(X[free], X[support]) @ coef
        refitted = (y[free] - without).mean()
        bias = {"keep": svm.intercept_[0], "drop": 0.0, "refit": refitted}[options.bias]
        total += g_new * np.tanh(function(new, X[support]) @ coef + bias)
    return total


@pytest.mark.heavy
@pytest.mark.parametrize("sv_gate", SV_GATE)
@pytest.mark.parametrize("bias", BIAS)
@pytest.mark.parametrize(("temperature", "targets"), [(1.0, "train"), (0.3, "cv")])
def test_algorithm_written_with_scikit_learn(rng, sv_gate, bias, temperature, targets):
    X, y, new = toy(rng)
    kernels = native_kernels(KernelBank(FUNCTIONS, normalize=None).fit(X))
    folds = None if targets == "train" else list(StratifiedKFold(3).split(X, y))
    options = LDMKLOptions(sv_gate, bias, temperature, PAPER, success=TIGHT)
    result = fit_ldmkl(kernels, y, options, Offer(folds=folds))
    assert result.retrained.all()
    assert result.n_selected.min() < 60
    assert_same(ldmkl_score(kernels, result, new, temperature), reference(X, y, new, options, folds), 1e-4)


@pytest.mark.parametrize(("functions", "tol", "same"), [(FUNCTIONS, 1e-5, 1e-4), (GAUSSIANS, 1e-8, 1e-6)])
@pytest.mark.parametrize("sv_gate", SV_GATE)
def test_votes_of_native_and_precomputed_agree(rng, functions, tol, same, sv_gate):
    X, y, new = toy(rng)
    bank = KernelBank(functions).fit(X)
    native, dense = native_kernels(bank), precomputed_kernels(DenseStack(bank.train_stack()))
    options = LDMKLOptions(sv_gate, threshold=PAPER, success=SuccessOptions(tol=tol))
    one, other = fit_ldmkl(native, y, options), fit_ldmkl(dense, y, options)
    rows = list(bank.row_stack(new))
    expected = gated_vote(dense, other.svms, rows, ldmkl_gates(dense, other, rows))
    assert_same(ldmkl_score(native, one, new), expected, same)
    np.testing.assert_array_equal(one.n_selected, other.n_selected)


def test_without_free_support_vectors_the_bias_stays(rng):
    X = toy(rng)[0]
    kernels = [native_kernel(Gaussian(gamma=0.1), X)] * 2
    options = LDMKLOptions(success=SuccessOptions(C=1e-3, tol=1e-4))
    balanced = np.where(np.arange(60) % 2 == 0, 1.0, -1.0)  # all duals are at C
    result = fit_ldmkl(kernels, balanced, options)
    svm = SVC(gamma=0.1, C=1e-3, tol=1e-4).fit(X, balanced)
    assert np.all(np.abs(svm.dual_coef_) == 1e-3)
    assert result.svms[0].intercept == pytest.approx(svm.intercept_[0], abs=1e-9)


def test_threshold_is_the_mean_of_exponentials(rng):
    X, y, _ = toy(rng)
    kernels = native_kernels(KernelBank(FUNCTIONS).fit(X))
    for temperature in (0.2, 1.0, 5.0):
        result = fit_ldmkl(kernels, y, LDMKLOptions(temperature=temperature, threshold=PAPER))
        raw = np.stack([scores(kernel, svm) for kernel, svm in zip(kernels, result.gate_svms, strict=True)])
        level = temperature * np.log(np.exp(raw / temperature).mean(axis=0))
        np.testing.assert_array_equal(result.n_selected, (raw >= level - 2e-3).sum(axis=1))
        strict = np.abs(raw - level).min(axis=0) > 1e-2
        np.testing.assert_array_equal((raw > level)[:, strict], (result.gates > 1.0 / 3.0)[:, strict])


def test_a_threshold_of_zero_keeps_the_first_svms(rng):
    X, y, _ = toy(rng)
    kernels = native_kernels(KernelBank(FUNCTIONS, normalize=None).fit(X))
    options = LDMKLOptions(bias="keep", success=TIGHT)
    assert options.threshold == 0.0
    result = fit_ldmkl(kernels, y, options)
    assert result.n_solves == 6
    np.testing.assert_array_equal(result.n_selected, 60)
    for setting, kernel, svm in zip(SETTINGS, kernels, result.svms, strict=True):
        first = SVC(**setting, tol=1e-4).fit(X, y)
        assert_same(scores(kernel, svm), first.decision_function(X), 1e-5)
