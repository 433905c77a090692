"""Polarization, alignment, the empirical optimal kernel and the Frobenius products, against explicit matrices."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import SAME_FORMULA, assert_same, frozen, random_kernels, random_labels

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


def samples_first(kernels):
    return np.moveaxis(kernels, 0, -1)


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
