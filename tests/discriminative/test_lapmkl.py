"""LapMKL's two problems against SciPy, finite differences, each other and degenerate cases; its estimator."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse
from helpers import assert_same, random_kernels, random_labels
from scipy.optimize import approx_fprime, minimize
from scipy.spatial.distance import cdist
from sklearn.base import clone
from sklearn.datasets import make_moons
from sklearn.model_selection import cross_val_score
from sklearn.svm import SVC

from bayesmkl.discriminative import LapMKLClassifier
from bayesmkl.discriminative.graph import knn_laplacian
from bayesmkl.discriminative.primal.primalmkl import Graph, LapMKLOptions, deform, fit_lapmkl, share
from bayesmkl.discriminative.primal.solve import SquaredHinge
from bayesmkl.discriminative.problems import fit_at
from bayesmkl.kernels import Gaussian, KernelBank
from bayesmkl.kernels.stacks.dense import DenseStack

EXACT = LapMKLOptions(tol=1e-10)


def toy(rng, n_samples=18, n_labeled=8, n_kernels=3, gammas=(0.2, 0.3)):
    """Gaussian kernels of different views, the graph of the first view, and labels of some samples."""
    X = rng.normal(size=(n_kernels, n_samples, 2))
    kernels = np.exp(-0.5 * ((X[:, :, None] - X[:, None]) ** 2).sum(axis=-1))
    labeled = np.sort(rng.choice(n_samples, n_labeled, replace=False))
    laplacian = knn_laplacian(X[0], 3)
    laplacian = laplacian if isinstance(laplacian, np.ndarray) else laplacian.toarray()
    return DenseStack(kernels), Graph(laplacian, labeled, *gammas), random_labels(rng, n_labeled)


def loss(scores, y):
    return 0.5 * (np.maximum(0.0, 1.0 - y * scores) ** 2).sum()


def objective_16(stack, graph, y, weights, alphas, intercept):
    """Eq. (16) with one half, at f_m = K_m alpha_m, term by term."""
    total, scores = 0.0, np.full(len(y), intercept)
    for kernel, weight, alpha in zip(stack.kernels, weights, alphas, strict=True):
        f = kernel @ alpha
        total += 0.5 * graph.gamma_ambient * weight * (alpha @ f)
        total += 0.5 * graph.gamma_intrinsic * weight * (f @ graph.laplacian @ f)
        scores = scores + weight * f[graph.labeled]
    return total + loss(scores, y)


def objective_18(stack, graph, y, weights, alpha, intercept):
    """Eq. (18): the same with one alpha."""
    return objective_16(stack, graph, y, weights, [alpha] * stack.n_kernels, intercept)


def minimum_by_scipy(stack, graph, y, weights, shared):
    """Minimize over coefficients and intercept with a general optimizer."""
    n_vectors = 1 if shared else stack.n_kernels

    def value(z):
        alphas = z[:-1].reshape(n_vectors, -1)
        alphas = np.broadcast_to(alphas, (stack.n_kernels, stack.n_train))
        return objective_16(stack, graph, y, weights, alphas, z[-1])

    def gradient(z):
        alphas = np.broadcast_to(z[:-1].reshape(n_vectors, -1), (stack.n_kernels, stack.n_train))
        outputs = [kernel @ alpha for kernel, alpha in zip(stack.kernels, alphas, strict=True)]
        scores = z[-1] + np.tensordot(weights, outputs, axes=1)[graph.labeled]
        slack = -y * np.maximum(0.0, 1.0 - y * scores)
        spread = np.zeros(stack.n_train)
        spread[graph.labeled] = slack
        parts = np.stack(
            [
                weight
                * (
                    graph.gamma_ambient * output
                    + graph.gamma_intrinsic * kernel @ graph.laplacian @ output
                    + kernel @ spread
                )
                for kernel, weight, output in zip(stack.kernels, weights, outputs, strict=True)
            ]
        )
        parts = parts.sum(axis=0) if shared else parts.ravel()
        return np.append(parts, slack.sum())

    start = np.zeros(n_vectors * stack.n_train + 1)
    options = {"maxiter": 20000, "maxfun": 40000, "ftol": 1e-15, "gtol": 1e-9}
    return minimize(value, start, jac=gradient, method="L-BFGS-B", options=options).fun


# ------------------------------------------------------------------------------------------------ given weights


@pytest.mark.heavy
@pytest.mark.parametrize("form", [deform, share])
@pytest.mark.parametrize("gammas", [(0.2, 0.3), (0.3, 0.1), (1.0, 0.0)])
def test_inner_minimum_is_scipys(rng, form, gammas):
    stack, graph, y = toy(rng, n_samples=12, n_labeled=6, gammas=gammas)
    weights = np.array([0.5, 0.2, 0.3])
    at = form(stack, graph).evaluate(weights, y[None])
    assert at.objective == pytest.approx(
        minimum_by_scipy(stack, graph, y, weights, shared=form is share), rel=2e-5
    )
    assert at.inner_gap < 1e-9


@pytest.mark.parametrize(("form", "objective"), [(deform, objective_16), (share, objective_18)])
def test_objective_is_attained_at_the_coefficients(rng, form, objective):
    stack, graph, y = toy(rng)
    result = fit_lapmkl(form(stack, graph), y[None], EXACT)
    value = objective(stack, graph, y, result.kernel_weights, result.signed_dual[0], result.intercept[0])
    assert result.objective_history[-1] == pytest.approx(value, rel=1e-8)


@pytest.mark.parametrize(("form", "objective"), [(deform, objective_16), (share, objective_18)])
def test_coefficients_are_stationary_by_finite_differences(rng, form, objective):
    stack, graph, y = toy(rng)
    weights = np.array([0.5, 0.2, 0.3])
    model = form(stack, graph)
    at = model.evaluate(weights, y[None])
    alpha, intercept = model.coefficients(at)[0], at.solutions[0].intercept

    def value(z):
        return objective(stack, graph, y, weights, z[:-1].reshape(alpha.shape), z[-1])

    z = np.append(alpha.ravel(), intercept)
    np.testing.assert_allclose(approx_fprime(z, value, 1e-6), 0.0, atol=2e-5)
    # and a minimum: any direction goes up
    for _ in range(20):
        step = 0.1 * rng.normal(size=z.shape)
        assert value(z + step) >= at.objective - 1e-9


@pytest.mark.parametrize("form", [deform, share])
@pytest.mark.parametrize("n_tasks", [1, 3])
def test_gradient_in_the_weights_by_finite_differences(rng, form, n_tasks):
    stack, graph, _ = toy(rng)
    targets = np.stack([random_labels(rng, 8) for _ in range(n_tasks)])
    model, weights = form(stack, graph), np.array([0.5, 0.2, 0.3])
    numeric = [
        (
            model.evaluate(weights + step, targets).objective
            - model.evaluate(weights - step, targets).objective
        )
        / 2e-5
        for step in 1e-5 * np.eye(3)
    ]
    np.testing.assert_allclose(model.evaluate(weights, targets).gradient, numeric, rtol=1e-5, atol=1e-7)


def test_partial_derivatives_of_18_by_finite_differences(rng):
    """The gradient of J is that of F at fixed coefficients (envelope)."""
    stack, graph, y = toy(rng)
    model, weights = share(stack, graph), np.array([0.5, 0.2, 0.3])
    at = model.evaluate(weights, y[None])
    alpha, intercept = model.coefficients(at)[0], at.solutions[0].intercept
    numeric = approx_fprime(weights, lambda d: objective_18(stack, graph, y, d, alpha, intercept), 1e-7)
    np.testing.assert_allclose(at.gradient, numeric, rtol=1e-5, atol=1e-6)


def test_deformed_kernels_by_the_explicit_formula(rng):
    """K - K (I / rho + L K)^-1 L K of Sindhwani, Niyogi & Belkin (2005), with inverses."""
    stack, graph, _ = toy(rng, gammas=(0.2, 0.7))
    found = deform(stack, graph).stack.kernels
    for kernel, deformed in zip(stack.kernels, found, strict=True):
        product = graph.laplacian @ kernel
        expected = kernel - kernel @ np.linalg.inv(0.2 / 0.7 * np.eye(18) + product) @ product
        np.testing.assert_allclose(deformed, expected[np.ix_(graph.labeled, graph.labeled)], atol=1e-10)
        assert np.linalg.eigvalsh(deformed)[0] > -1e-12
        assert np.linalg.eigvalsh(kernel[np.ix_(graph.labeled, graph.labeled)] - deformed)[0] > -1e-12


# ------------------------------------------------------------------------------------------- the optimal weights


@pytest.mark.parametrize("p_norm", [1.0, 2.0])
def test_exact_optimum_is_scipys(rng, p_norm):
    """SLSQP over the weights, with deformed kernels by explicit inverses."""
    stack, graph, y = toy(rng, n_labeled=12, gammas=(0.02, 0.02))
    result = fit_lapmkl(deform(stack, graph), y[None], EXACT._replace(p_norm=p_norm))
    ratio = graph.gamma_intrinsic / graph.gamma_ambient
    deformed = np.stack([K @ np.linalg.inv(np.eye(18) + ratio * graph.laplacian @ K) for K in stack.kernels])
    labeled = DenseStack(np.ascontiguousarray(deformed[:, graph.labeled][:, :, graph.labeled]))

    def value(weights):
        fit = fit_at(labeled, y[None], SquaredHinge(graph.gamma_ambient), weights, 1e-10)
        return graph.gamma_ambient * fit.objective

    scipys = minimize(
        value,
        np.full(3, 0.3),
        method="SLSQP",
        bounds=[(0, 1)] * 3,
        constraints={"type": "ineq", "fun": lambda d: 1.0 - (np.maximum(d, 0.0) ** p_norm).sum()},
        options={"ftol": 1e-13, "maxiter": 200},
    )
    assert result.objective_history[-1] == pytest.approx(scipys.fun, rel=1e-6)
    np.testing.assert_allclose(result.kernel_weights, scipys.x, atol=5e-3)
    assert (result.kernel_weights > 0.01).sum() >= 2  # no vertex
    assert result.duality_gap <= 1e-9


def test_gap_bounds_what_is_lost(rng):
    stack, graph, y = toy(rng, gammas=(0.02, 0.02))
    model = deform(stack, graph)
    best = fit_lapmkl(model, y[None], EXACT).objective_history[-1]
    for max_iter in (1, 2, 3):
        early = fit_lapmkl(model, y[None], LapMKLOptions(tol=0.0, max_iter=max_iter))
        assert -1e-9 <= early.objective_history.min() - best <= early.duality_gap + 1e-9


def test_paper_optimum_is_stationary_and_never_below_the_exact_one(rng):
    gaps = []
    for _ in range(10):
        stack, graph, y = toy(rng, gammas=(0.1, 0.5))
        exact, shared = (fit_lapmkl(form(stack, graph), y[None], EXACT) for form in (deform, share))
        gaps.append(shared.objective_history[-1] / exact.objective_history[-1] - 1.0)
        assert np.isnan(shared.duality_gap)
        at = share(stack, graph).evaluate(shared.kernel_weights, y[None])
        # no feasible direction descends
        assert at.gradient @ shared.kernel_weights - at.gradient.min() <= 1e-8
    assert min(gaps) > -1e-8
    assert max(gaps) > 1e-3  # a restriction that costs something


# ---------------------------------------------------------------------------------------------- degenerate cases


@pytest.mark.parametrize("form", [deform, share])
@pytest.mark.parametrize("gammas", ["no price", "no edges"])
def test_without_the_graph_it_is_supervised_learning_on_labeled_rows(rng, form, gammas):
    stack, graph, y = toy(rng, gammas=(0.3, 0.0 if gammas == "no price" else 0.4))
    if gammas == "no edges":
        graph = graph._replace(laplacian=np.zeros_like(graph.laplacian))
    weights = np.array([0.5, 0.2, 0.3])
    at = form(stack, graph).evaluate(weights, y[None])
    alpha = form(stack, graph).coefficients(at)[0]
    labeled = DenseStack(np.ascontiguousarray(stack.kernels[:, graph.labeled][:, :, graph.labeled]))
    supervised = fit_at(labeled, y[None], SquaredHinge(0.3), weights, 1e-10)
    assert at.objective == pytest.approx(0.3 * supervised.objective, rel=1e-8)
    assert at.solutions[0].intercept == pytest.approx(supervised.solutions[0].intercept, rel=1e-7)
    np.testing.assert_allclose(at.gradient, -0.15 * supervised.quadratics, rtol=1e-6)
    expected = np.zeros(18)
    expected[graph.labeled] = supervised.solutions[0].signed_dual
    alphas = alpha if form is deform else alpha[None]
    for found in alphas:
        np.testing.assert_allclose(found, expected, atol=1e-6)


@pytest.mark.parametrize("gammas", [(0.2, 0.3), (0.01, 1.0)])
def test_one_kernel_makes_both_solvers_equal(rng, gammas):
    stack, graph, y = toy(rng, n_kernels=1, gammas=gammas)
    exact, shared = (fit_lapmkl(form(stack, graph), y[None], EXACT) for form in (deform, share))
    assert shared.objective_history[-1] == pytest.approx(exact.objective_history[-1], rel=1e-8)
    assert shared.intercept[0] == pytest.approx(exact.intercept[0], rel=1e-6)
    outputs = [stack.kernels[0] @ np.ravel(result.signed_dual) for result in (exact, shared)]
    np.testing.assert_allclose(outputs[1], outputs[0], atol=1e-6)


def test_lapsvm_is_a_svm_of_the_deformed_kernel(rng):
    """Squared slacks are a ridge on the kernel of an SVM without slacks."""
    stack, graph, y = toy(rng, n_kernels=1, gammas=(0.2, 0.3))
    result = fit_lapmkl(deform(stack, graph), y[None], EXACT)
    kernel = stack.kernels[0] @ np.linalg.inv(np.eye(18) + 1.5 * graph.laplacian @ stack.kernels[0])
    labeled = kernel[np.ix_(graph.labeled, graph.labeled)]
    svm = SVC(kernel="precomputed", C=1e8, tol=1e-8).fit(labeled + 0.2 * np.eye(8), y)
    dual = np.zeros(8)
    dual[svm.support_] = svm.dual_coef_[0]
    expected = kernel[:, graph.labeled] @ dual + svm.intercept_
    np.testing.assert_allclose(
        stack.kernels[0] @ result.signed_dual[0, 0] + result.intercept[0], expected, atol=1e-5
    )


@pytest.mark.parametrize("form", [deform, share])
def test_singular_kernels_are_no_problem(rng, form):
    kernels = random_kernels(rng, 18, 3, kind="rank deficient")
    _, graph, y = toy(rng)
    stack = DenseStack(kernels)
    result = fit_lapmkl(form(stack, graph), y[None], LapMKLOptions(tol=1e-6))
    assert result.outcome.converged
    weights = result.kernel_weights
    expected = minimum_by_scipy(stack, graph, y, weights, shared=form is share)
    assert result.objective_history[-1] == pytest.approx(expected, rel=1e-4)


def test_kernels_the_paper_solver_cannot_use():
    stack = DenseStack(np.array([[[0.0, 1.0], [1.0, 0.0]]]))
    graph = Graph(np.zeros((2, 2)), np.arange(2), 1.0, 1.0)
    with pytest.raises(ValueError, match='not positive semidefinite, which `solver="paper"` needs'):
        share(stack, graph).evaluate(np.ones(1), np.array([[-1.0, 1.0]]))


# --------------------------------------------------------------------------------


BANK = KernelBank([Gaussian(width=0.3), Gaussian(width=1.0), Gaussian(width=3.0)])


def moons(n_samples=80, n_labeled=3):
    """Two moons; -1 marks all but the first `n_labeled` of each."""
    X, y = make_moons(n_samples, noise=0.05, random_state=0)
    partly = np.full(n_samples, -1)
    for label in (0, 1):
        partly[np.flatnonzero(y == label)[:n_labeled]] = label
    return X, y, partly


def three_blobs(rng):
    y = np.repeat(["a", "b", "c"], 20)
    X = np.concatenate([rng.normal(size=(20, 2)) + shift for shift in ([0, 0], [7, 0], [0, 7])])
    return X, y, np.where(np.arange(60) % 20 < 3, y, "?")


def stack_of(X, Z=None):
    distances = cdist(X if Z is None else Z, X, "sqeuclidean")
    return np.stack([np.exp(-0.5 * distances / width**2) for width in (0.3, 1.0, 3.0)], axis=-1)


@pytest.mark.parametrize("solver", ["deformed", "paper"])
def test_unlabeled_samples_help(solver):
    X, y, partly = moons()
    labeled = partly != -1
    model = LapMKLClassifier(BANK, n_neighbors=5, unlabeled_label=-1, solver=solver).fit(X, partly)
    supervised = LapMKLClassifier(BANK, gamma_intrinsic=0.0).fit(X[labeled], y[labeled])
    assert np.mean(model.transduction_ == y) > 0.97
    assert np.mean(supervised.predict(X) == y) < 0.95
    X_new, y_new = make_moons(200, noise=0.05, random_state=1)
    assert model.score(X_new, y_new) > 0.95


@pytest.mark.parametrize("solver", ["deformed", "paper"])
def test_training_rows_are_predicted_as_they_were_learned(solver):
    X, _, partly = moons()
    model = LapMKLClassifier(BANK, unlabeled_label=-1, solver=solver).fit(X, partly)
    unlabeled = partly == -1
    np.testing.assert_array_equal(model.predict(X)[unlabeled], model.transduction_[unlabeled])
    np.testing.assert_array_equal(model.transduction_[~unlabeled], partly[~unlabeled])
    scores = model.decision_function(X)
    error = np.flatnonzero(~unlabeled & (np.where(partly == 1, 1, -1) * scores < 1.0))
    np.testing.assert_array_equal(model.support_, error)
    assert model.support_fraction_ == len(error) / 6


@pytest.mark.parametrize("solver", ["deformed", "paper"])
def test_scores_of_new_rows_by_the_printed_sum(rng, solver):
    X, _, partly = moons()
    options = {"unlabeled_label": -1, "solver": solver, "p_norm": 2.0, "kernels": "precomputed"}
    model = LapMKLClassifier(**options).fit(stack_of(X), partly)
    rows = stack_of(X, X[:7] + 0.1)
    alphas = model.dual_coef_ if solver == "deformed" else [model.dual_coef_] * 3
    assert np.shape(alphas) == (3, 80)
    expected = model.intercept_ + sum(model.kernel_weights_[m] * rows[:, :, m] @ alphas[m] for m in range(3))
    np.testing.assert_allclose(model.decision_function(rows), expected, rtol=1e-10)
    combined = rows @ model.kernel_weights_
    np.testing.assert_allclose(model.combined_kernel(rows), combined, rtol=1e-12)


def euclidean(X):
    return cdist(X, X)


def test_given_graphs_are_the_graph_of_the_features():
    X, _, partly = moons()
    scores = [
        LapMKLClassifier(BANK, unlabeled_label=-1, n_neighbors=7, **graph).fit(X, partly).decision_function(X)
        for graph in (
            {},
            {"laplacian": knn_laplacian(X, 7)},
            {"laplacian": scipy.sparse.csr_matrix(knn_laplacian(X, 7))},
            {"distances": cdist(X, X)},
            {"distances": euclidean},
        )
    ]
    for found in scores[1:]:
        assert_same(found, scores[0], 1e-9)


def test_a_function_of_distances_needs_features():
    X, _, partly = moons()
    with pytest.raises(ValueError, match="`distances` cannot be a function with precomputed kernels"):
        LapMKLClassifier("precomputed", unlabeled_label=-1, distances=euclidean).fit(stack_of(X), partly)


def test_precomputed_kernels_find_neighbors_in_the_feature_space_of_their_mean():
    X, _, partly = moons()
    options = {"kernels": "precomputed", "unlabeled_label": -1, "n_neighbors": 4}
    stack = np.concatenate([stack_of(X[:, :1]), 0.3 * stack_of(X[:, 1:])], axis=-1)
    features = np.linalg.cholesky(stack.mean(axis=-1) + 1e-12 * np.eye(80))
    given = LapMKLClassifier(distances=cdist(features, features), **options).fit(stack, partly)
    found = LapMKLClassifier(**options).fit(stack, partly)
    assert_same(found.laplacian_.toarray(), given.laplacian_.toarray(), 0.0)
    assert_same(found.dual_coef_, given.dual_coef_, 1e-9)


def test_default_labels_are_all_labels():
    X, y, _ = moons()
    codes = np.where(y == 1, 1, -1)
    model = LapMKLClassifier(BANK).fit(X, codes)
    np.testing.assert_array_equal(model.classes_, [-1, 1])
    np.testing.assert_array_equal(model.transduction_, codes)
    marked = LapMKLClassifier(BANK, unlabeled_label=7).fit(X, codes)  # no sample has the mark
    assert_same(marked.dual_coef_, model.dual_coef_, 1e-12)


@pytest.mark.parametrize("solver", ["deformed", "paper"])
def test_classes_one_by_one_are_binary_svms(rng, solver):
    X, y, partly = three_blobs(rng)
    model = LapMKLClassifier(BANK, unlabeled_label="?", solver=solver).fit(X, partly)
    np.testing.assert_array_equal(model.classes_, ["a", "b", "c"])
    assert np.mean(model.transduction_ == y) > 0.95
    for k, label in enumerate("abc"):
        binary = np.where(partly == "?", "?", np.where(partly == label, "yes", "no"))
        alone = clone(model).fit(X, binary)
        np.testing.assert_allclose(model.kernel_weights_[k], alone.kernel_weights_, atol=1e-12)
        np.testing.assert_allclose(model.decision_function(X)[:, k], alone.decision_function(X), rtol=1e-9)


@pytest.mark.parametrize("solver", ["deformed", "paper"])
def test_classes_can_share_weights(rng, solver):
    X, y, partly = three_blobs(rng)
    model = LapMKLClassifier(BANK, unlabeled_label="?", solver=solver, multiclass="shared", tol=1e-6).fit(
        X, partly
    )
    assert model.kernel_weights_.shape == (3,)
    assert np.mean(model.predict(X) == y) > 0.95

    own = clone(model).set_params(multiclass="one-versus-rest").fit(X, partly)
    separate = sum(history[-1] for history in own.objective_history_)
    assert separate <= model.objective_history_[-1] * (1 + 1e-6)
    assert model.objective_history_[-1] < model.objective_history_[0]
    np.testing.assert_array_equal(own.transduction_, model.transduction_)


def test_cross_validation_takes_marks_and_kernels():
    X, y, _ = moons()
    model = LapMKLClassifier("precomputed", n_neighbors=5, unlabeled_label=-1)
    assert cross_val_score(model, stack_of(X), y, cv=3).min() > 0.9


@pytest.mark.parametrize("missing", [None, np.nan])
def test_missing_labels_need_a_mark(missing):
    X, y, _ = moons()
    y = y.astype(object)
    y[3:6] = missing
    with pytest.raises(ValueError, match=r"3 of 80 are missing.*`unlabeled_label=-1`"):
        LapMKLClassifier(BANK).fit(X, y)
