"""Alignment of kernels, and weights by it, against explicit matrices and SLSQP."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import SAME_FORMULA, assert_same, frozen, learn, random_kernels, random_labels, samples_first
from scipy.optimize import minimize

from bayesmkl.discriminative.estimators.two_stage import AlignmentMKLClassifier, AlignmentMKLRegressor
from bayesmkl.discriminative.global_weights.two_stage import (
    Alignment,
    select_by_alignment,
)
from bayesmkl.discriminative.svm.libsvm import Hinge
from bayesmkl.kernels.alignment import (
    centered_alignment,
    empirical_optimal_kernel,
    frobenius_gram,
    frobenius_norms,
    kernel_alignment,
    kernel_polarization,
    target_products,
)
from bayesmkl.kernels.stacks.dense import DenseStack

KINDS = ["smooth", "rank deficient", "duplicated", "badly scaled"]


def centered(kernels):
    """Return HKH with the matrix H written out."""
    size = kernels.shape[-1]
    H = np.eye(size) - 1.0 / size
    return H @ kernels @ H


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("center", [False, True])
def test_gram_equals_explicit_products(rng, kind, center):
    kernels = frozen(random_kernels(rng, 17, 5, kind))
    explicit = centered(kernels) if center else kernels
    expected = np.einsum("mij,hij->mh", explicit, explicit)
    assert_same(frobenius_gram(DenseStack(kernels), center), expected, SAME_FORMULA)
    assert_same(frobenius_norms(DenseStack(kernels), center) ** 2, expected.diagonal(), SAME_FORMULA)


@pytest.mark.parametrize("center", [False, True])
def test_degenerate_whole_weights_are_repeated_samples(rng, center):
    kernels, targets, counts = random_kernels(rng, 15, 4), rng.normal(size=(2, 15)), rng.integers(0, 4, 15)
    stack, rows = DenseStack(kernels), np.arange(15).repeat(counts)
    repeated = DenseStack(np.ascontiguousarray(kernels[:, rows[:, None], rows]))
    for found, expected in (
        (frobenius_gram(stack, center, counts), frobenius_gram(repeated, center)),
        (frobenius_norms(stack, center, counts), frobenius_norms(repeated, center)),
        (
            target_products(stack, targets, center, counts),
            target_products(repeated, targets[:, rows], center),
        ),
    ):
        np.testing.assert_allclose(found, expected, rtol=1e-11)


def test_gram_of_weighted_samples_is_that_of_weighted_kernels(rng):
    kernels, weights = random_kernels(rng, 15, 4), rng.random(15)
    expected = np.einsum("ij,mij,hij->mh", np.outer(weights, weights), kernels, kernels)
    assert_same(frobenius_gram(DenseStack(kernels), sample_weights=weights), expected, SAME_FORMULA)


def test_centered_gram_of_nearly_constant_kernels_keeps_its_digits(rng):
    """Products of centered kernels are 1e-12 of the others: subtracting products would leave four digits."""
    points = rng.normal(size=(30, 2))
    distances = ((points[:, None] - points) ** 2).sum(axis=-1)
    kernels = np.stack([np.exp(-distances / (2.0 * width**2)) for width in (800.0, 1000.0)])
    exact = centered(kernels.astype(np.longdouble)).astype(np.longdouble)
    expected = np.einsum("mij,hij->mh", exact, exact).astype(float)
    assert expected.max() < 1e-9 * frobenius_gram(DenseStack(kernels)).max()
    assert_same(frobenius_gram(DenseStack(kernels), center=True), expected, 1e-8)


@pytest.mark.parametrize("center", [False, True])
def test_target_products_equal_explicit_products(rng, center):
    kernels, targets = random_kernels(rng, 14, 3), rng.normal(size=(2, 14)) + 1.0
    matrix = targets.T @ targets
    explicit = centered(kernels) if center else kernels
    expected = np.einsum("mij,ij->m", explicit, matrix)
    assert_same(target_products(DenseStack(kernels), targets, center), expected, SAME_FORMULA)


@pytest.mark.parametrize("center", [False, True])
def test_alignment_is_the_cosine_between_matrices(rng, center):
    kernels, y = random_kernels(rng, 16, 4), rng.normal(size=16)
    transform = centered if center else np.asarray
    other = transform(random_kernels(rng, 16, 1)[0])
    for target, matrix in ((y, transform(np.outer(y, y))), (other, other)):
        found = kernel_alignment(samples_first(kernels), target, center=center)
        for m, kernel in enumerate(kernels):
            a, b = transform(kernel).ravel(), matrix.ravel()
            assert found[m] == pytest.approx(a @ b / (np.linalg.norm(a) * np.linalg.norm(b)), rel=1e-10)
        assert kernel_alignment(kernels[2], target, center=center) == pytest.approx(found[2], rel=1e-12)
    if center:
        np.testing.assert_array_equal(found, centered_alignment(samples_first(kernels), other))


def test_alignment_of_the_target_with_itself_is_one_and_of_zeros_zero(rng):
    y = random_labels(rng, 9)
    assert kernel_alignment(np.outer(y, y), y) == pytest.approx(1.0)
    assert kernel_alignment(np.zeros((9, 9)), y) == 0.0
    assert centered_alignment(np.ones((9, 9)), y) == 0.0
    assert centered_alignment(np.outer(y, y), np.ones(9)) == 0.0


def test_centered_alignment_ignores_constants(rng):
    kernels, y = samples_first(random_kernels(rng, 12, 3)), rng.normal(size=12)
    found = centered_alignment(kernels, y)
    assert_same(centered_alignment(4.0 * kernels + 3.0, y - 7.0), found, 1e-9)
    assert np.abs(kernel_alignment(kernels + 3.0, y) - kernel_alignment(kernels, y)).max() > 0.01


def test_polarization_is_the_mean_signed_similarity(rng):
    kernels, y = random_kernels(rng, 10, 3), random_labels(rng, 10)
    expected = [np.mean([[y[i] * y[j] * k[i, j] for i in range(10)] for j in range(10)]) for k in kernels]
    assert_same(kernel_polarization(samples_first(kernels), y), expected, SAME_FORMULA)


def test_optimal_kernel_is_the_entrywise_best(rng):
    kernels = random_kernels(rng, 8, 4, "rank deficient")
    y = np.array(["a", "b", "c", "a", "b", "c", "a", "b"])
    expected = np.empty((8, 8))
    for i in range(8):
        for j in range(8):
            values = [kernel[i, j] for kernel in kernels]
            expected[i, j] = max(values) if y[i] == y[j] else min(values)
    np.testing.assert_array_equal(empirical_optimal_kernel(samples_first(kernels), y), expected)


def test_optimal_kernel_bounds_every_combination_and_is_indefinite(rng):
    """The paper's eq. (4) is an inequality, and K_opti no kernel (its section III says it is)."""
    for _ in range(20):
        kernels, y = random_kernels(rng, 25, 4), random_labels(rng, 25)
        best = empirical_optimal_kernel(samples_first(kernels), y)
        single = kernel_polarization(samples_first(kernels), y)
        mixed = kernel_polarization(np.einsum("m,mij->ij", rng.dirichlet(np.ones(4)), kernels), y)
        assert kernel_polarization(best, y) > max(single.max(), mixed)
        assert np.linalg.eigvalsh(best)[0] < -1e-6 * np.linalg.norm(best)


def test_bad_input_is_named():
    eye = np.eye(3)
    with pytest.raises(ValueError, match=r"`kernels` must have shape .* got \(2, 3\)"):
        kernel_polarization(np.ones((2, 3)), [1, -1])
    with pytest.raises(ValueError, match="`kernels` must be finite"):
        kernel_alignment(np.full((2, 2), np.nan), [1, -1])
    with pytest.raises(ValueError, match="`target` must belong to the 3 samples of `kernels`; got 2"):
        kernel_alignment(eye, [1, -1])
    with pytest.raises(ValueError, match="`target` must belong to the 3 samples of `kernels`; got 2"):
        kernel_alignment(eye, np.eye(2))
    with pytest.raises(ValueError, match=r"`target` must hold finite numbers.*Encode labels"):
        kernel_polarization(eye, ["a", "b", "a"])
    with pytest.raises(ValueError, match="`y` must belong to the 3 samples"):
        empirical_optimal_kernel(eye, ["a", "b"])


METHODS = ("ratio", "convex", "align", "alignf")

TIGHT = 1e-9
MACHINE = 1e-6
INFORMATIVE = 5  # kernels of a problem, the first of which the labels follow


@pytest.fixture
def problem(rng):
    """Kernels of 45 samples, kernels first, and labels that follow the first kernel."""
    kernels = frozen(random_kernels(rng, 45, INFORMATIVE))
    signal = kernels[0] @ rng.normal(size=45) + 0.2 * rng.normal(size=45)
    return kernels, frozen(np.where(signal > np.median(signal), 1.0, -1.0))


def weights_of(kernels, targets, method):
    return select_by_alignment(DenseStack(kernels), np.atleast_2d(targets), method).kernel_weights


def cosine(a, b):
    return (a * b).sum() / (np.linalg.norm(a) * np.linalg.norm(b))


@pytest.mark.parametrize(("method", "transform"), [("ratio", np.asarray), ("align", centered)])
def test_ratio_and_align_are_proportional_to_explicit_alignments(problem, method, transform):
    kernels, y = problem
    alignments = np.array([cosine(transform(kernel), transform(np.outer(y, y))) for kernel in kernels])
    assert_same(weights_of(kernels, y, method), alignments / alignments.sum(), 1e-10)


def test_convex_objective_is_the_squared_distance_from_the_target_matrix(problem):
    kernels, y = problem
    selection = select_by_alignment(DenseStack(kernels), y[None], "convex")
    combined = np.einsum("m,mij->ij", selection.kernel_weights, kernels)
    assert selection.objective_history[0] == pytest.approx(
        np.linalg.norm(combined - np.outer(y, y)) ** 2, rel=1e-10
    )
    assert 0.0 <= selection.duality_gap <= 1e-8 * selection.objective_history[0]


def test_convex_agrees_with_slsqp(problem):
    kernels, y = problem
    target = np.outer(y, y)
    found = minimize(
        lambda w: np.linalg.norm(np.einsum("m,mij->ij", w, kernels) - target) ** 2 / y.size**2,
        np.full(INFORMATIVE, 1 / INFORMATIVE),
        bounds=[(0.0, None)] * INFORMATIVE,
        constraints={"type": "eq", "fun": lambda w: w.sum() - 1.0},
        options={"ftol": 1e-14},
    )
    np.testing.assert_allclose(weights_of(kernels, y, "convex"), found.x, atol=1e-4)


def test_alignf_has_the_highest_centered_alignment(rng, problem):
    """Against SLSQP on the alignment itself, from several starts, and against random weights."""
    kernels, y = problem
    target = centered(np.outer(y, y))
    inside = centered(kernels)

    def alignment(w):
        return cosine(np.einsum("m,mij->ij", w, inside), target)

    ours = alignment(weights_of(kernels, y, "alignf"))
    for _ in range(3):
        found = minimize(
            lambda w: -alignment(w),
            rng.dirichlet(np.ones(INFORMATIVE)),
            bounds=[(0.0, 1.0)] * INFORMATIVE,
            constraints={"type": "eq", "fun": lambda w: w.sum() - 1.0},
            options={"ftol": 1e-13},
        )
        assert ours == pytest.approx(-found.fun, abs=1e-7)
    for _ in range(50):
        assert alignment(rng.dirichlet(np.full(INFORMATIVE, 0.5))) <= ours + 1e-12


def test_alignf_with_negative_solution_differs_from_the_unconstrained_one(rng):
    """A kernel that only repeats noise of another one would get a negative weight."""
    y = random_labels(rng, 30)
    noise = rng.normal(size=(30, 30))
    noise = noise @ noise.T / 30
    kernels = np.stack([np.outer(y, y) + noise, noise])
    gram = frobenius_gram(DenseStack(kernels), center=True)
    products = np.array([y @ kernel @ y for kernel in centered(kernels)])
    assert np.linalg.solve(gram, products)[1] < 0.0
    assert weights_of(kernels, y, "alignf").tolist() == [1.0, 0.0]


@pytest.mark.parametrize("method", METHODS)
def test_shared_weights_align_with_the_mean_of_the_targets(rng, method):
    """The explicit matrix T as the target; convex minimizes the sum of the classes' own objectives."""
    kernels, y = random_kernels(rng, 30, 3), np.arange(30) % 3
    targets = np.where(y == np.arange(3)[:, None], 1.0, -1.0)
    T = targets.T @ targets / 3
    weights = weights_of(kernels, targets, method)
    if method in ("ratio", "align"):
        transform = centered if method == "align" else np.asarray
        expected = np.array([max(0.0, cosine(transform(kernel), transform(T))) for kernel in kernels])
        assert_same(weights, expected / expected.sum(), 1e-9)
        return
    transform = centered if method == "alignf" else np.asarray

    def objective(w):
        combined = np.einsum("m,mij->ij", w, transform(kernels))
        if method == "alignf":
            return -cosine(combined, transform(T))
        return sum(np.linalg.norm(combined - np.outer(t, t)) ** 2 for t in targets) / 900

    best = min(objective(w) for w in rng.dirichlet(np.full(3, 0.5), size=4000))
    assert objective(weights) <= best + 1e-12
    assert objective(weights) >= best - 0.02 * abs(best)


def test_classes_with_own_weights_equal_binary_problems(rng):
    kernels, y = random_kernels(rng, 36, 4), np.arange(36) % 3
    X = np.moveaxis(kernels, 0, -1)
    model = AlignmentMKLClassifier("precomputed", tol=TIGHT).fit(X, y)
    for c in range(3):
        binary = AlignmentMKLClassifier("precomputed", tol=TIGHT).fit(X, y == c)
        assert_same(model.kernel_weights_[c], binary.kernel_weights_, 1e-10)
        assert_same(model.decision_function(X)[:, c], binary.decision_function(X), MACHINE)


@pytest.mark.parametrize("method", METHODS)
def test_regression_targets_in_other_units(rng, method):
    kernels, y = random_kernels(rng, 30, 3), rng.normal(size=30) + 1.0
    weights = weights_of(kernels, y, method)
    assert_same(weights_of(kernels, 100.0 * y, method), weights, 1e-8)
    shifted = weights_of(kernels, y + 50.0, method)
    if method in ("align", "alignf"):
        assert_same(shifted, weights, 1e-8)
    else:
        assert np.abs(shifted - weights).max() > 1e-3


@pytest.mark.slow
def test_weights_of_a_thousand_kernels_are_a_maximum(rng):
    """Stationarity of the cosine on the nonnegative orthant, from the kernels' products alone."""
    kernels = np.empty((1000, 500, 500))
    points = rng.normal(size=(500, 3))
    for kernel in kernels:
        shifted = points * rng.exponential(size=3)
        kernel[:] = np.exp(-0.5 * ((shifted[:, None] - shifted) ** 2).sum(axis=-1))
    y = random_labels(rng, 500)
    stack = DenseStack(kernels)
    weights = learn(stack, y[None], Hinge(1.0), Alignment("alignf")).kernel_weights
    gram, products = frobenius_gram(stack, center=True), target_products(stack, y[None], center=True)
    multiple = weights @ products / (weights @ gram @ weights)
    slope = (products - multiple * gram @ weights) / np.sqrt(
        gram.diagonal()
    )  # of the cosine, kernels of norm one
    assert slope.max() <= 1e-6 * products.max()
    assert np.abs(slope[weights > 0.0]).max() <= 1e-6 * products.max()


# ------------------------------------------------------------------------------------------------ default price


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("scale", [1.0, 1e-3])
def test_identity_of_the_default_price_and_the_variance_of_the_kernel(problem, method, scale):
    kernels, y = problem
    stack = scale * np.moveaxis(kernels, 0, -1)
    target = 1000.0 * kernels[0, 3] - 50.0
    for cls, truth, spread in (
        (AlignmentMKLClassifier, y, 1.0),
        (AlignmentMKLRegressor, target, target.std()),
    ):
        found = cls("precomputed", method=method).fit(stack, truth)
        kernel = stack @ found.kernel_weights_
        center = np.eye(len(y)) - 1.0 / len(y)
        variance = np.trace(center @ kernel @ center) / len(y)
        given = {"epsilon": 0.1 * spread} if cls is AlignmentMKLRegressor else {}
        expected = cls("precomputed", method=method, C=spread / variance, **given).fit(stack, truth)
        bound = max(np.abs(expected.dual_coef_).max(), spread / variance)
        np.testing.assert_allclose(found.dual_coef_, expected.dual_coef_, atol=2e-2 * bound)
        assert np.abs(found.dual_coef_).max() <= spread / variance * (1.0 + 1e-9)
        if method != "convex":  # whose history is that of the weights
            np.testing.assert_allclose(found.objective_history_, expected.objective_history_, rtol=1e-3)


def test_recovery_where_the_aligned_kernel_hardly_varies(rng):
    """Weights sum to one, and the widest Gaussian, of 1 - 1e-4 at the least, gets nearly all of them."""
    X = rng.normal(size=(80, 1))
    stack = np.exp(-((X - X.T) ** 2)[..., None] / np.array([1e-2, 1e5]))
    model = AlignmentMKLRegressor("precomputed").fit(stack, X[:, 0])
    assert model.kernel_weights_[1] > 0.99
    assert model.score(stack, X[:, 0]) > 0.9
    rare = X[:, 0] > np.quantile(X, 0.8)
    predicted = AlignmentMKLClassifier("precomputed").fit(stack, rare).predict(stack)
    assert predicted[rare].mean() > 0.7
    assert predicted[~rare].mean() < 0.1
