"""Degenerate cases and symmetries of every method: one kernel, equal kernels, flips, orders, scales, zeros."""

from __future__ import annotations

import numpy as np
import pytest
from cases import CASES, CLASSIFIERS, REGRESSION_CASES, REGRESSORS, known

from bayesmkl.datasets import load_wdbc

pytestmark = [
    pytest.mark.filterwarnings(
        "ignore::bayesmkl.kernels.KernelQualityWarning"
    ),  # duplicates and zeros on purpose
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
    pytest.mark.heavy,
]
ALL = CASES + REGRESSION_CASES
N_TRAIN = 44


@pytest.fixture(scope="module")
def data():
    """Gaussian kernels of three views with unit diagonal, (n_rows, n_train, n_kernels), labels and a real target."""
    table = load_wdbc()
    rows = np.random.default_rng(3).permutation(len(table.target))[:64]
    X = table.data[rows]
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    views = [X[:, :2], X[:, 4:7], X[:, 20:22]]
    kernels = [np.exp(-0.5 * ((view[:, None] - view) ** 2).sum(axis=-1)) for view in views]
    stack = np.stack(kernels, axis=-1)
    y = np.where(table.target[rows] == table.target.max(), 1.0, -1.0)
    return (
        stack[:N_TRAIN, :N_TRAIN],
        stack[N_TRAIN:, :N_TRAIN],
        y[:N_TRAIN],
        X[:N_TRAIN, 1] + 0.3 * X[:N_TRAIN, 20],
    )


@pytest.fixture(scope="module")
def fitted(data):
    """Fit every case once; nobody changes what comes."""
    models = {}

    def get(case):
        if str(case) not in models:
            models[str(case)] = case.make(2.0).fit(data[0], target_of(case, data))
        return models[str(case)]

    return get


def target_of(case, data):
    return data[3] if case.name in REGRESSORS else data[2]


def scores_of(model, rows):
    return model.decision_function(rows) if hasattr(model, "decision_function") else model.predict(rows)


def assert_same_scores(found, expected, case, slack=1.0):
    tolerance = 0.1 if case.is_rough else 2e-3
    np.testing.assert_allclose(found, expected, atol=slack * tolerance * np.abs(expected).max())


def test_every_estimator_with_labels_or_target_is_among_the_cases():
    assert {case.name for case in ALL} == {*CLASSIFIERS, *REGRESSORS}


@pytest.mark.parametrize("C", [0.3, 10.0])
@pytest.mark.parametrize("case", ALL, ids=str)
def test_degenerate_one_kernel_is_the_svm_on_it(data, case, C):
    stack, rows, y = data[0][:, :, :1], data[1][:, :, :1], target_of(case, data)
    model = case.make(C).fit(stack, y)
    total = model.kernel_weights_.sum()
    if not case.regularized:
        assert total == pytest.approx(1.0, rel=1e-6)
    expected = case.reference(total * stack[:, :, 0], y, C, total * rows[:, :, 0])
    assert_same_scores(scores_of(model, rows), expected, case)


@pytest.mark.parametrize("case", ALL, ids=str)
def test_degenerate_equal_kernels_are_one_kernel(data, case):
    stack, rows = (np.repeat(part[:, :, :1], 3, axis=2) for part in data[:2])
    y = target_of(case, data)
    model = case.make(3.0).fit(stack, y)
    total = model.kernel_weights_.sum()
    assert (model.kernel_weights_ >= 0.0).all()
    expected = case.reference(total * stack[:, :, 0], y, 3.0, total * rows[:, :, 0])
    assert_same_scores(scores_of(model, rows), expected, case)


@pytest.mark.parametrize("case", [case for case in ALL if not case.votes], ids=str)
def test_degenerate_combined_kernel_and_dual_give_the_scores_of_the_svm_on_them(data, fitted, case):
    """Whatever the weights are: what comes after them is the SVM on the combined kernel."""
    stack, rows, y = data[0], data[1], target_of(case, data)
    model = fitted(case)
    train, new = model.combined_kernel(stack), model.combined_kernel(rows)
    np.testing.assert_allclose(new, rows @ model.kernel_weights_, atol=1e-10)
    assert_same_scores(scores_of(model, rows), case.reference(train, y, 2.0, new), case)
    assert model.n_active_kernels_ == (model.kernel_weights_ > 1e-6 * model.kernel_weights_.max()).sum()


@pytest.mark.parametrize("case", ALL, ids=str)
def test_equivariance_flipped_labels_flip_scores(data, fitted, case):
    stack, rows, y = data[0], data[1], target_of(case, data)
    one, other = fitted(case), case.make(2.0).fit(stack, -y)
    np.testing.assert_allclose(other.kernel_weights_, one.kernel_weights_, atol=2e-3)
    assert_same_scores(-scores_of(other, rows), scores_of(one, rows), case)


@pytest.mark.parametrize("case", ALL, ids=str)
def test_equivariance_order_of_samples_and_kernels(data, fitted, case, rng):
    stack, rows, y = data[0], data[1], target_of(case, data)
    order, kernels = rng.permutation(N_TRAIN), np.array([2, 0, 1])
    more = {"cv": folds(N_TRAIN)} if known(case.name, {"cv": None}) else {}
    model = case.make(2.0, **more).fit(stack, y) if more else fitted(case)
    if more:  # the same folds of the same samples
        back = np.argsort(order)
        more = {"cv": [(back[train], back[test]) for train, test in more["cv"]]}
    other = case.make(2.0, **more).fit(stack[order][:, order][:, :, kernels], y[order])
    loose = 10.0 if case.is_rough else 1.0
    np.testing.assert_allclose(other.kernel_weights_, model.kernel_weights_[kernels], atol=loose * 2e-3)
    assert_same_scores(scores_of(other, rows[:, order][:, :, kernels]), scores_of(model, rows), case)
    assert other.duality_gap_ == pytest.approx(
        model.duality_gap_, abs=1e-2 * np.abs(model.objective_history_[-1]), nan_ok=True
    )


def folds(n_samples):
    position = np.arange(n_samples) % 3
    return [(np.flatnonzero(position != k), np.flatnonzero(position == k)) for k in range(3)]


# all but the nearest kernel to y y' and a penalty of weights, which say something about the scale of the kernels
WITHOUT_SCALE = [
    case for case in ALL if case.parameters not in ({"method": "convex"}, {"regularizer": "uniform"})
]


@pytest.mark.parametrize("case", WITHOUT_SCALE, ids=str)
def test_equivariance_kernels_times_s_and_losses_over_s(data, fitted, case):
    scale = 50.0
    stack, rows, y = data[0], data[1], target_of(case, data)
    model = fitted(case)
    scaled = case.make(2.0, scale=scale).fit(scale * stack, y)
    assert_same_scores(scores_of(scaled, scale * rows), scores_of(model, rows), case)


NEEDS_NO_ZEROS = [
    case
    for case in ALL
    # the mean counts zeros; these two may put weight on a kernel of zeros to shrink the others
    if not case.name.startswith("Uniform")
    and case.name != "OBMKLClassifier"
    and case.parameters not in ({"method": "convex"}, {"regularizer": "uniform"})
]


@pytest.mark.parametrize("case", NEEDS_NO_ZEROS, ids=str)
def test_degenerate_kernel_of_zeros_has_no_weight_and_no_influence(data, fitted, case):
    stack, rows, y = data[0], data[1], target_of(case, data)
    with_zero, zero_rows = (np.concatenate([part, 0.0 * part[:, :, :1]], axis=2) for part in (stack, rows))
    model, padded = fitted(case), case.make(2.0).fit(with_zero, y)
    assert padded.kernel_weights_[-1] <= 1e-4 * padded.kernel_weights_.max()
    assert_same_scores(scores_of(padded, zero_rows), scores_of(model, rows), case)


@pytest.mark.parametrize("case", ALL, ids=str)
def test_degenerate_kernels_of_zeros_alone_still_give_a_constant(data, case):
    y = target_of(case, data)
    nothing = np.zeros((N_TRAIN, N_TRAIN, 2))
    model = case.make(2.0).fit(nothing, y)
    scores = scores_of(model, nothing[:5])
    assert np.isfinite(scores).all()
    assert np.ptp(scores) == 0.0
