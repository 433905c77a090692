"""Kernel functions against scikit-learn, loops over pairs, and what they must survive."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.metrics import pairwise_distances
from sklearn.metrics.pairwise import (
    cosine_similarity,
    euclidean_distances,
    laplacian_kernel,
    linear_kernel,
    manhattan_distances,
    polynomial_kernel,
    rbf_kernel,
)

from bayesmkl.kernels import Cosine, FromDistance, Gaussian, Laplacian, Linear, Overlap, Polynomial, Tanimoto
from bayesmkl.kernels.geometry import PairwiseGeometry


def _read_only(array):
    array.flags.writeable = False
    return array


RNG = np.random.default_rng(0)
Z = _read_only(RNG.normal(size=(12, 4)))  # training points
X = _read_only(np.vstack([Z[:2], RNG.normal(size=(5, 4))]))  # query points, two of them training points

REFERENCES = [
    (Gaussian(), lambda x, z: rbf_kernel(x, z, gamma=0.5)),
    (Gaussian(width=2), lambda x, z: rbf_kernel(x, z, gamma=0.125)),
    (Gaussian(gamma=0.3), lambda x, z: rbf_kernel(x, z, gamma=0.3)),
    (Laplacian(), lambda x, z: laplacian_kernel(x, z, gamma=1.0)),
    (Laplacian(width=4), lambda x, z: laplacian_kernel(x, z, gamma=0.25)),
    (Laplacian(gamma=0.7), lambda x, z: laplacian_kernel(x, z, gamma=0.7)),
    (Polynomial(), lambda x, z: polynomial_kernel(x, z, degree=2, gamma=1.0, coef0=1.0)),
    (Polynomial(degree=3, offset=0.5), lambda x, z: polynomial_kernel(x, z, degree=3, gamma=1.0, coef0=0.5)),
    (Polynomial(degree=1, offset=-2), lambda x, z: x @ z.T - 2.0),
    (Linear(), linear_kernel),
    (Cosine(), cosine_similarity),
    (Tanimoto(), lambda x, z: np.array([[a @ b / (a @ a + b @ b - a @ b) for b in z] for a in x])),
    (Overlap(), lambda x, z: (x[:, None] == z).mean(axis=2)),
    (Gaussian(width=2) * Linear(), lambda x, z: rbf_kernel(x, z, gamma=0.125) * linear_kernel(x, z)),
    (
        Polynomial() * (Laplacian() * Cosine()),
        lambda x, z: (x @ z.T + 1) ** 2 * laplacian_kernel(x, z, gamma=1.0) * cosine_similarity(x, z),
    ),
]
KERNELS = [kernel for kernel, _ in REFERENCES]
FITTED = [
    *(*KERNELS, FromDistance().fit(Z), FromDistance("cosine", scale=0.5).fit(Z)),
    (FromDistance() * Gaussian(relative_width=1)).fit(Z),
]


def _id(value):
    return value.label if hasattr(value, "label") else ""


@pytest.mark.parametrize(("kernel", "reference"), REFERENCES, ids=_id)
def test_kernel_equals_reference_implementation(kernel, reference):
    np.testing.assert_allclose(kernel(X, Z), reference(X, Z), rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("kernel", FITTED, ids=_id)
def test_diagonal_is_the_diagonal_and_training_kernel_is_symmetric(kernel):
    square = kernel(Z, Z)
    np.testing.assert_allclose(kernel.diagonal(Z), square.diagonal(), rtol=1e-14)
    np.testing.assert_array_equal(square, square.T)
    np.testing.assert_allclose(kernel(X[:2], Z), square[:2], rtol=1e-14, atol=1e-15)


@pytest.mark.parametrize("kernel", [k for k in FITTED if k.known_psd], ids=_id)
@settings(max_examples=10, deadline=None)
@given(data=arrays(np.float64, (6, 3), elements=st.floats(-50, 50).map(lambda value: round(value, 3))))
def test_kernels_known_to_be_positive_semidefinite_are(kernel, data):
    matrix = kernel(data, data)
    eigenvalues = np.linalg.eigvalsh(matrix)
    assert eigenvalues[0] >= -1e-12 * max(abs(eigenvalues[-1]), 1.0)


def test_psd_is_claimed_only_where_it_holds():
    assert all(kernel.known_psd for kernel in KERNELS if kernel.label != "polynomial(degree=1, offset=-2)")
    negative = Polynomial(degree=1, offset=-2.0)
    assert not negative.known_psd
    assert np.linalg.eigvalsh(negative(Z, Z))[0] < -1.0
    assert FromDistance("euclidean").known_psd
    assert not FromDistance("cosine").known_psd


@pytest.mark.parametrize("offset", [0.0, 1e8])
def test_distances_keep_their_digits_far_from_the_origin(offset):
    steps = np.arange(6.0)[:, None] * 0.25  # exactly representable also at 1e8
    geometry = PairwiseGeometry(steps + offset, steps + offset)
    np.testing.assert_array_equal(geometry.squared_distances, (steps - steps.T) ** 2)
    np.testing.assert_array_equal(geometry.l1_distances, np.abs(steps - steps.T))
    np.testing.assert_array_equal(
        Gaussian(width=0.5)(steps + offset, steps + offset), Gaussian(width=0.5)(steps, steps)
    )


@pytest.mark.parametrize("n_rows", [1, 2, 33])
@pytest.mark.parametrize("n_features", [31, 32, 100])
def test_distances_among_all_are_those_of_two_sets_to_the_last_bit(n_rows, n_features):
    rows = 1e3 + np.random.default_rng(2).normal(size=(n_rows, n_features))
    among, between = PairwiseGeometry(rows, rows), PairwiseGeometry(rows, rows.copy())
    np.testing.assert_array_equal(among.squared_distances, between.squared_distances)


def test_equal_rows_have_distance_exactly_zero():
    rows = np.random.default_rng(1).normal(scale=1e5, size=(30, 200))
    geometry = PairwiseGeometry(rows, rows.copy())
    np.testing.assert_array_equal(geometry.squared_distances.diagonal(), 0.0)
    assert geometry.squared_distances.min() == 0.0


def test_rows_of_zeros_are_similar_to_nothing_under_cosine_and_to_each_other_under_tanimoto():
    rows = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 0.0]])
    np.testing.assert_array_equal(Cosine()(rows, rows), [[0, 0, 0], [0, 1, 0], [0, 0, 0]])
    np.testing.assert_array_equal(Cosine().diagonal(rows), [0, 1, 0])
    np.testing.assert_array_equal(Tanimoto()(rows, rows), [[1, 0, 1], [0, 1, 0], [1, 0, 1]])


def test_tanimoto_on_fingerprints_is_intersection_over_union():
    bits = np.random.default_rng(2).random((8, 20)) < 0.4
    jaccard = 1.0 - pairwise_distances(bits, metric="jaccard")
    np.testing.assert_allclose(Tanimoto()(bits, bits), jaccard, atol=1e-15)


def test_overlap_is_the_inner_product_of_indicators_and_unseen_codes_are_like_nothing():
    codes = np.random.default_rng(3).integers(0, 3, size=(9, 4))
    indicators = np.hstack([codes == code for code in range(3)]).astype(float)
    np.testing.assert_allclose(Overlap()(codes, codes), indicators @ indicators.T / 4, atol=1e-15)
    unseen = codes.copy()
    unseen[:, 0] = -1
    agree = Overlap()(codes[:, 1:], codes[:, 1:]) * 0.75
    np.testing.assert_allclose(Overlap()(unseen, codes), agree, atol=1e-15)
    pairs = Overlap() * Overlap()
    np.testing.assert_allclose(pairs(codes, codes), (indicators @ indicators.T / 4) ** 2, atol=1e-15)


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        (Gaussian(width=-1), "`width` of Gaussian must be a positive number; got -1"),
        (Gaussian(width=0), "`width` of Gaussian must be a positive number; got 0"),
        (Gaussian(width=np.nan), "`width` of Gaussian must be a positive number; got nan"),
        (Gaussian(width="2"), "`width` of Gaussian must be a positive number; got '2'"),
        (Laplacian(gamma=-0.5), "`gamma` of Laplacian must be a positive number; got -0.5"),
        (Laplacian(width=1, gamma=1), "`width` or `gamma`, not both"),
        (Polynomial(degree=0), "`degree` of Polynomial must be an integer of at least 1; got 0"),
        (Polynomial(degree=1.5), "`degree` of Polynomial must be an integer of at least 1; got 1.5"),
        (Polynomial(degree=True), "`degree` of Polynomial must be an integer"),
        (Polynomial(offset=np.inf), "`offset` of Polynomial must be a finite number"),
        (FromDistance("euclid"), "`distance` of FromDistance is 'euclid', which is not known; .*euclidean"),
        (FromDistance("mahalanobis"), "not known"),
        (FromDistance(scale=-2), '`scale` of FromDistance must be "train-mean" or a positive number; got -2'),
        (FromDistance(scale="mean"), "`scale` of FromDistance must be"),
        (FromDistance(np.zeros((2, 3))), r"square matrix .* got shape \(2, 3\)"),
        (FromDistance(np.eye(3)), "zero between a sample and itself"),
        (FromDistance(np.array([[0.0, -1.0], [-1.0, 0.0]])), "non-negative"),
        (FromDistance(np.array([[0.0, np.nan], [1.0, 0.0]])), "must be finite"),
    ],
)
def test_bad_parameters_are_refused_by_fit_and_by_a_call(kernel, message):
    with pytest.raises(ValueError, match=message):
        kernel.fit(X)
    with pytest.raises(ValueError, match=message):
        kernel(X, Z)


def test_arguments_of_different_width_are_refused():
    with pytest.raises(ValueError, match="`X` and `Z` must have the same columns; got 3 and 4"):
        Linear()(X[:, :3], Z)


@pytest.mark.parametrize(
    "metric",
    ["euclidean", "l2", "sqeuclidean", "cityblock", "l1", "manhattan", "cosine", "chebyshev", "canberra"],
)
def test_distance_kernel_uses_the_mean_over_training_pairs(metric):
    kernel = FromDistance(metric).fit(Z)
    distances = pairwise_distances(Z, metric=metric)
    pairs = distances[np.triu_indices(len(Z), k=1)]
    assert kernel.scale_ == pytest.approx(pairs.mean(), rel=1e-12)
    expected = np.exp(-pairwise_distances(X, Z, metric=metric) / pairs.mean())
    np.testing.assert_allclose(kernel(X, Z), expected, rtol=1e-7)  # the reference cancels near distance zero


@pytest.mark.parametrize("metric", ["jaccard", "dice", "rogerstanimoto", "sokalsneath"])
def test_distances_of_sets_take_numbers_for_true_and_false(metric):
    bits = np.random.default_rng(3).random((9, 15)) < 0.5
    kernel = FromDistance(metric, scale=0.5).fit(bits)
    expected = np.exp(-pairwise_distances(bits[:3], bits, metric=metric) / 0.5)
    np.testing.assert_allclose(kernel(bits[:3].astype(float), bits.astype(float)), expected, rtol=1e-14)


def test_callable_and_matrix_distances_agree_with_the_named_one():
    everyone = np.vstack([X, Z])
    distances = pairwise_distances(everyone, metric="chebyshev")
    train = np.arange(len(X), len(everyone))
    named = FromDistance("chebyshev").fit(Z)
    by_function = FromDistance(lambda x, z: np.abs(x - z).max()).fit(Z)
    by_position = FromDistance(distances).fit(train[:, None])
    expected = named(X, Z)
    for kernel, rows, against in [
        (by_function, X, Z),
        (by_position, np.arange(len(X))[:, None], train[:, None]),
    ]:
        assert kernel.scale_ == pytest.approx(named.scale_, rel=1e-14)
        np.testing.assert_allclose(kernel(rows, against), expected, rtol=1e-13)


def test_distance_scale_given_as_a_number_and_for_equal_samples():
    np.testing.assert_allclose(
        FromDistance("sqeuclidean", scale=2.0).fit(Z)(X, Z), Gaussian()(X, Z), rtol=1e-14
    )
    constant = FromDistance().fit(np.ones((4, 1)))
    assert constant.scale_ == 1.0
    np.testing.assert_array_equal(constant(np.ones((2, 1)), np.ones((4, 1))), 1.0)


@pytest.mark.parametrize("positions", [[[0.5]], [[5.0]], [[-1.0]], [[0.0, 1.0]]])
def test_positions_outside_the_distance_matrix_are_refused(positions):
    with pytest.raises(ValueError, match="positions in the matrix `distance`; got"):
        FromDistance(np.zeros((4, 4))).fit(np.array(positions))


def test_no_warning_from_extreme_values():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        far = Gaussian(width=1e-3)(np.array([[0.0], [1e6]]), np.array([[0.0]]))
        huge = Polynomial(degree=400)(np.array([[10.0]]), np.array([[10.0]]))
    np.testing.assert_array_equal(far, [[1.0], [0.0]])
    assert np.isinf(huge[0, 0])


@pytest.mark.parametrize("kernel", [Gaussian, Laplacian])
def test_widths_are_those_whose_squares_are_numbers(kernel):
    for width in (1e-149, 1e149):
        assert kernel(width=width)(np.array([[0.0]]), np.array([[0.0]])) == 1.0
    for width in (1e-151, 1e151):
        with pytest.raises(ValueError, match="both lie between 1e-150 and 1e150"):
            kernel(width=width)(np.array([[0.0]]), np.array([[0.0]]))


@pytest.mark.parametrize("degree", [1, 2, 3, 4, 5, 6, 7, 11, 12, 29])
def test_powers_of_any_degree(degree):
    """Against products of one factor after the other, negative ones included."""
    X, Z = np.array([[-1.7], [0.3], [1.1]]), np.array([[1.0], [-0.9]])
    expected = np.multiply.reduce([X @ Z.T - 0.5] * degree)
    kernel = Polynomial(degree=degree, offset=-0.5)
    np.testing.assert_allclose(kernel(X, Z), expected, rtol=1e-14)
    np.testing.assert_allclose(kernel.diagonal(X), kernel(X, X).diagonal(), rtol=1e-14)


@pytest.mark.parametrize(
    ("kernel", "metric", "reference"),
    [
        (Gaussian(relative_width=0.5), euclidean_distances, lambda d, w: np.exp(-(d**2) / (2.0 * w**2))),
        (Laplacian(relative_width=2.0), manhattan_distances, lambda d, w: np.exp(-d / w)),
    ],
    ids=_id,
)
def test_relative_widths_are_in_units_of_the_median_distance_of_training_points(kernel, metric, reference):
    kernel = clone(kernel).fit(Z)
    median = np.median(metric(Z)[np.triu_indices(len(Z), 1)])
    np.testing.assert_allclose(
        kernel(X, Z), reference(metric(X, Z), kernel.relative_width * median), rtol=1e-12
    )
    np.testing.assert_allclose(clone(kernel).fit(7.0 * Z)(7.0 * X, 7.0 * Z), kernel(X, Z), rtol=1e-12)


def test_median_distance_of_many_points_and_of_equal_ones():
    def median(kernel, points):
        return kernel(relative_width=1.0).fit(points).width_

    assert median(Gaussian, np.arange(5000.0)[:, None]) == pytest.approx(
        5000.0 * (1.0 - np.sqrt(0.5)), rel=0.01
    )
    assert median(Gaussian, np.repeat([[0.0], [8.0]], [9, 1], axis=0)) == 8.0 * 9 / 45
    assert median(Laplacian, np.ones((4, 2))) == median(Laplacian, np.ones((1, 2))) == 1.0


def test_relative_widths_must_be_learned_and_stand_alone():
    with pytest.raises(NotFittedError):
        Gaussian(relative_width=1.0)(X, Z)
    with pytest.raises(ValueError, match=r"takes `gamma` or `relative_width`, not both; got gamma=1"):
        Gaussian(gamma=1.0, relative_width=1.0).fit(Z)
    with pytest.raises(ValueError, match="`relative_width` of Laplacian must be a positive number; got -1"):
        Laplacian(relative_width=-1.0).fit(Z)
