"""LP-β: its dual, another solver, degenerate and limiting programs, equivariance, recovery, and where it must win."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import assert_same
from scipy.optimize import linprog
from sklearn.model_selection import StratifiedKFold, cross_val_predict
from sklearn.svm import SVC

from bayesmkl import load_model, save_model
from bayesmkl.discriminative import BestKernelClassifier, LPBoostMKLClassifier
from bayesmkl.discriminative.global_weights.lpboostmkl import margins_of, maximize_margin

FOLDS = 4


def folds(n_samples):
    position = np.arange(n_samples) % FOLDS
    return [(np.flatnonzero(position != k), np.flatnonzero(position == k)) for k in range(FOLDS)]


def gaussian(view):
    return np.exp(-0.5 * ((view[:, None] - view) ** 2).sum(axis=-1))


@pytest.fixture
def views(rng):
    """Two views that tell something of the sum of their signs, and two of noise: (n, n, 4) kernels, labels."""
    X = rng.normal(size=(90, 4))
    y = np.where(X[:, 0] + X[:, 1] + 0.3 * rng.normal(size=90) > 0.0, 1, -1)
    return np.stack([gaussian(X[:, [j]]) for j in range(4)], axis=-1), y


def random_margins(rng, n_kernels=5, n_rows=40, n_rivals=1):
    return (
        rng.normal(0.3, 1.0, size=(n_kernels, n_rows, n_rivals))
        * rng.uniform(0.5, 2.0, n_kernels)[:, None, None]
    )


def primal_value(margins, nu, weights):
    """Best value at given weights: rho is the margin of one of the samples, found by trying all of them."""
    worst = np.tensordot(weights, margins, 1).min(axis=1)
    return max(rho - np.maximum(rho - worst, 0.0).sum() / (nu * len(worst)) for rho in worst)


# -------------------------------------------------------------------------------------------------- the program


@pytest.mark.parametrize("nu", [0.05, 0.3, 0.9])
@pytest.mark.parametrize("n_rivals", [1, 3])
def test_strong_duality_and_complementary_slackness(rng, nu, n_rivals):
    margins = random_margins(rng, n_rivals=n_rivals)
    found = maximize_margin(margins, nu)
    n_rows = margins.shape[1]
    u, beta, rho = found.sample_weights, found.kernel_weights, found.margin
    assert u.sum() == pytest.approx(1.0)
    assert (u >= 0.0).all()
    assert (u.sum(axis=1) <= 1.0 / (nu * n_rows) + 1e-9).all()
    edges = np.tensordot(margins, u, 2)
    assert -found.objective == pytest.approx(edges.max(), abs=1e-7)  # rho - sum(xi) / (nu n) = gamma
    assert 0.0 <= found.gap < 1e-7
    np.testing.assert_allclose(beta * (edges.max() - edges), 0.0, atol=1e-7)
    combined = np.tensordot(beta, margins, 1)
    xi = np.maximum(rho - combined.min(axis=1), 0.0)
    np.testing.assert_allclose(u * (combined + xi[:, None] - rho), 0.0, atol=1e-7)
    np.testing.assert_allclose(xi * (1.0 / (nu * n_rows) - u.sum(axis=1)), 0.0, atol=1e-7)


@pytest.mark.parametrize("n_rivals", [1, 3])
def test_other_solver_the_dual_by_another_method(rng, n_rivals):
    """The dual, written down separately and solved by the interior points of HiGHS."""
    margins, nu = random_margins(rng, 4, 30, n_rivals), 0.4
    n_kernels, n_rows, _ = margins.shape
    n_pairs = n_rows * n_rivals
    dual = linprog(
        np.r_[np.zeros(n_pairs), 1.0],
        A_ub=np.block(
            [
                [margins.reshape(n_kernels, -1), -np.ones((n_kernels, 1))],
                [np.kron(np.eye(n_rows), np.ones((1, n_rivals))), np.zeros((n_rows, 1))],
            ]
        ),
        b_ub=np.r_[np.zeros(n_kernels), np.full(n_rows, 1.0 / (nu * n_rows))],
        A_eq=np.r_[np.ones(n_pairs), 0.0][None],
        b_eq=[1.0],
        bounds=[(0.0, None)] * n_pairs + [(None, None)],
        method="highs-ipm",
    )
    found = maximize_margin(margins, nu)
    assert -found.objective == pytest.approx(dual.fun, abs=1e-7)
    np.testing.assert_allclose(found.kernel_weights, -dual.ineqlin.marginals[:n_kernels], atol=1e-6)


@pytest.mark.parametrize("nu", [0.1, 0.5])
def test_no_other_weights_have_a_larger_soft_margin(rng, nu):
    margins = random_margins(rng, n_rivals=2)
    found = maximize_margin(margins, nu)
    assert primal_value(margins, nu, found.kernel_weights) == pytest.approx(-found.objective, abs=1e-7)
    others = np.concatenate(
        [rng.dirichlet(np.ones(5), 200), rng.dirichlet(30 * found.kernel_weights + 0.1, 200)]
    )
    assert max(primal_value(margins, nu, weights) for weights in others) <= -found.objective + 1e-9


@pytest.mark.parametrize("nu", [0.15, 0.5, 0.85])
def test_nu_bounds_the_share_of_samples_below_the_margin(rng, nu):
    margins = random_margins(rng, n_rows=60)
    found = maximize_margin(margins, nu)
    combined = np.tensordot(found.kernel_weights, margins, 1)[:, 0]
    assert np.mean(combined < found.margin - 1e-7) <= nu <= np.mean(combined <= found.margin + 1e-7)


@pytest.mark.parametrize("unit", [1e-30, 1e-6, 1e30])
def test_equivariance_of_the_program_in_units_kernels_and_samples(rng, unit):
    margins = random_margins(rng, n_rivals=2)
    found = maximize_margin(margins, 0.3)
    scaled = maximize_margin(unit * margins, 0.3)
    np.testing.assert_allclose(scaled.kernel_weights, found.kernel_weights, atol=1e-7)
    assert scaled.margin == pytest.approx(unit * found.margin, rel=1e-6)
    kernels, rows = rng.permutation(5), rng.permutation(40)
    permuted = maximize_margin(margins[kernels][:, rows], 0.3)
    np.testing.assert_allclose(permuted.kernel_weights, found.kernel_weights[kernels], atol=1e-7)
    assert permuted.margin == pytest.approx(found.margin, abs=1e-7)


def test_margins_of_classes_are_differences_to_every_rival(rng):
    scores, labels = rng.normal(size=(3, 4, 10)), rng.integers(4, size=10)
    targets = np.where(labels == np.arange(4)[:, None], 1.0, -1.0)
    margins = margins_of(scores, targets)
    assert margins.shape == (3, 10, 3)
    for i, label in enumerate(labels):
        rivals = [c for c in range(4) if c != label]
        np.testing.assert_array_equal(margins[:, i], scores[:, [label], i] - scores[:, rivals, i])
    two = np.stack([scores[:, 0], -scores[:, 0]], axis=1) / 2  # two classes, written as two tasks
    binary = margins_of(scores[:, :1], targets[:1])
    np.testing.assert_allclose(margins_of(two, np.stack([targets[0], -targets[0]])), binary)


# ------------------------------------------------------------------------------------------------ the estimator


def test_other_library_scores_are_the_weighted_ones_of_svc(views, rng):
    kernels, y = views
    train, new = kernels[:60, :60], kernels[60:, :60]
    cv = folds(60)
    model = LPBoostMKLClassifier("precomputed", C=2.0, nu=0.3, cv=cv, tol=1e-6).fit(train, y[:60])
    svms = [SVC(kernel="precomputed", C=2.0, tol=1e-8) for _ in range(4)]
    held_out = [
        cross_val_predict(svm, train[..., m], y[:60], cv=cv, method="decision_function")
        for m, svm in enumerate(svms)
    ]
    weights = maximize_margin((y[:60] * np.stack(held_out))[:, :, None], 0.3).kernel_weights
    np.testing.assert_allclose(model.kernel_weights_, weights, atol=1e-3)
    expected = sum(
        weights[m] * svm.fit(train[..., m], y[:60]).decision_function(new[..., m])
        for m, svm in enumerate(svms)
    )
    assert_same(model.decision_function(new), expected, 2e-3)
    assert model.n_solves_ == 4 * FOLDS + np.count_nonzero(model.kernel_weights_)
    assert model.dual_coef_.shape == (4, 60)


@pytest.mark.heavy
@pytest.mark.parametrize("multiclass", ["shared", "one-versus-rest"])
def test_classes_share_weights_or_have_their_own(rng, multiclass):
    X = rng.normal(size=(120, 3))
    y = np.array(["a", "b", "c"])[np.where(X[:, 0] > 0.3, 0, np.where(X[:, 1] > 0.0, 1, 2))]
    kernels = np.stack([gaussian(X[:, [j]]) for j in range(3)], axis=-1)
    train, new = kernels[:90, :90], kernels[90:, :90]
    model = LPBoostMKLClassifier("precomputed", C=3.0, nu=0.5, multiclass=multiclass, tol=1e-6).fit(
        train, y[:90]
    )
    several = (3, 3) if multiclass == "one-versus-rest" else (3,)
    assert model.kernel_weights_.shape == model.C_.shape == several
    assert model.dual_coef_.shape == (3, 3, 90)
    weights = np.broadcast_to(model.kernel_weights_, (3, 3))
    expected = np.zeros((30, 3))
    for c, label in enumerate(model.classes_):
        for m in np.flatnonzero(weights[c]):
            svm = SVC(kernel="precomputed", C=3.0, tol=1e-8).fit(train[..., m], y[:90] == label)
            expected[:, c] += weights[c, m] * svm.decision_function(new[..., m])
    assert_same(model.decision_function(new), expected, 2e-3)
    chance = np.unique(y[90:], return_counts=True)[1].max() / 30  # the largest class
    assert model.score(new, y[90:]) > chance + 0.1
    assert model.kernel_weights_[..., 2].max() < 0.1
    if multiclass == "one-versus-rest":
        assert model.kernel_weights_[0, 0] > 0.6  # the first class depends on the first view alone


@pytest.mark.heavy
def test_each_kernel_chooses_the_C_of_its_highest_accuracy(views):
    kernels, y = views
    values, cv = [0.01, 1.0, 100.0], StratifiedKFold(3)
    model = LPBoostMKLClassifier("precomputed", C_values=values, cv=cv, tol=1e-6).fit(kernels, y)
    for m in range(4):
        accuracies = [
            BestKernelClassifier("precomputed", C=C, cv=cv, tol=1e-6).fit(kernels[..., m], y).cv_scores_[0]
            for C in values
        ]
        assert model.C_[m] == values[int(np.argmax(accuracies))]
    assert len(set(model.C_)) > 1
    fixed = LPBoostMKLClassifier("precomputed", C=7.0).fit(kernels, y)
    assert fixed.C_.tolist() == [7.0] * 4


def test_combined_kernel_is_the_weighted_sum_and_files_keep_every_part(views, tmp_path):
    kernels, y = views
    model = LPBoostMKLClassifier("precomputed", C_values=(0.5, 5.0)).fit(kernels[:60, :60], y[:60])
    np.testing.assert_allclose(
        model.combined_kernel(kernels[60:, :60]), kernels[60:, :60] @ model.kernel_weights_
    )
    save_model(model, tmp_path / "model.skops")
    loaded = load_model(tmp_path / "model.skops")
    for name in ("C_", "margin_", "dual_coef_", "intercept_"):
        np.testing.assert_array_equal(getattr(loaded, name), getattr(model, name))
    np.testing.assert_array_equal(
        loaded.decision_function(kernels[60:, :60]), model.decision_function(kernels[60:, :60])
    )
