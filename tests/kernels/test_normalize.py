"""Normalizations against their definitions and against the same operation on explicit features."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.preprocessing import KernelCenterer

from bayesmkl.kernels import KernelBank

RNG = np.random.default_rng(7)
TRAIN = RNG.normal(loc=1.0, size=(15, 4))
ROWS = RNG.normal(loc=0.5, size=(6, 4))


def dot(X, Z):
    """The linear kernel, with nothing known about it."""
    return X @ Z.T


def normalize_linear(names, train, rows):
    """Return the normalized linear kernel of `train`, of `rows`, and self-similarities of these."""
    bank = KernelBank(dot, normalize=names)
    kernel = bank.fit_transform(train)[:, :, 0]
    rows_kernel, diagonal = bank.rows_and_diagonal(rows)
    return kernel, rows_kernel[0], diagonal[0]


def unit(features):
    return features / np.linalg.norm(features, axis=1, keepdims=True)


# What each sequence does to the features of a linear kernel, statistics from `train` alone.
ON_FEATURES = {
    ("spherical",): lambda x, train: unit(x),
    ("center",): lambda x, train: x - train.mean(axis=0),
    ("trace",): lambda x, train: x / np.sqrt(np.mean(np.sum(train**2, axis=1))),
    ("center", "spherical"): lambda x, train: unit(x - train.mean(axis=0)),
    ("spherical", "center"): lambda x, train: unit(x) - unit(train).mean(axis=0),
    ("center", "trace"): lambda x, train: (
        (x - train.mean(axis=0)) / np.sqrt(np.mean(np.sum((train - train.mean(axis=0)) ** 2, axis=1)))
    ),
}


@pytest.mark.parametrize("names", ON_FEATURES, ids="-".join)
def test_kernel_normalization_equals_normalizing_explicit_features(names):
    kernel, rows_kernel, diagonal = normalize_linear(names, TRAIN, ROWS)
    train, rows = (ON_FEATURES[names](side, TRAIN) for side in (TRAIN, ROWS))
    np.testing.assert_allclose(kernel, train @ train.T, atol=1e-13)
    np.testing.assert_allclose(rows_kernel, rows @ train.T, atol=1e-13)
    np.testing.assert_allclose(diagonal, np.einsum("ij,ij->i", rows, rows), atol=1e-13)
    np.testing.assert_array_equal(kernel, kernel.T)


def test_centering_equals_scikit_learn_also_for_an_asymmetric_kernel():
    skewed = RNG.normal(size=(4, 4))
    bank = KernelBank(lambda X, Z: X @ skewed @ Z.T, normalize="center")
    kernel = bank.fit_transform(TRAIN)[:, :, 0]
    reference = KernelCenterer().fit(TRAIN @ skewed @ TRAIN.T)
    np.testing.assert_allclose(kernel, reference.transform(TRAIN @ skewed @ TRAIN.T), atol=1e-13)
    expected = reference.transform(ROWS @ skewed @ TRAIN.T)
    np.testing.assert_allclose(bank.transform(ROWS)[:, :, 0], expected, atol=1e-13)


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10**6), n_samples=st.integers(2, 12), log_scale=st.integers(-6, 6))
def test_identities_hold_on_random_kernels(seed, n_samples, log_scale):
    features = np.random.default_rng(seed).normal(size=(n_samples, 3)) * 10.0**log_scale
    spherical, centered, traced = (
        normalize_linear((name,), features, features)[0] for name in ("spherical", "center", "trace")
    )
    np.testing.assert_allclose(spherical.diagonal(), 1.0, rtol=1e-14)
    assert np.linalg.eigvalsh(spherical)[0] > -1e-12 * n_samples
    size = np.abs(centered).max()
    np.testing.assert_allclose(centered.sum(axis=0), 0.0, atol=1e-12 * n_samples * size)
    np.testing.assert_allclose(np.trace(traced), n_samples, rtol=1e-13)


def test_sample_without_self_similarity_keeps_a_row_of_zeros():
    features = np.vstack([TRAIN[:4], np.zeros(4)])
    kernel, rows_kernel, diagonal = normalize_linear(
        ("spherical",), features, np.vstack([ROWS[:2], np.zeros(4)])
    )
    np.testing.assert_array_equal(kernel[4], 0.0)
    np.testing.assert_array_equal(kernel[:, 4], 0.0)
    np.testing.assert_allclose(kernel.diagonal()[:4], 1.0)
    np.testing.assert_array_equal(rows_kernel[2], 0.0)
    np.testing.assert_array_equal(diagonal, [1.0, 1.0, 0.0])


def test_tiny_samples_are_no_zeros():
    features = np.array([[1.0], [1e-12], [-1e-100]])
    kernel = normalize_linear(("spherical",), features, features)[0]
    np.testing.assert_allclose(kernel, [[1, 1, -1], [1, 1, -1], [-1, -1, 1]], rtol=1e-14)


@pytest.mark.parametrize("last", ["spherical", "trace"])
@pytest.mark.parametrize("value", [0.1, 3e7])
def test_rounding_errors_of_centering_are_not_blown_up(last, value):
    constant = np.full((7, 3), value)
    kernel, rows_kernel, _ = normalize_linear(("center", last), constant, constant[:2] * 1.5)
    np.testing.assert_array_equal(kernel, 0.0)
    np.testing.assert_array_equal(rows_kernel, 0.0)


def test_centering_alone_leaves_no_rounding_errors_at_the_training_mean():
    features = np.array([[0.1, 1.0], [0.3, 3.0], [0.2, 2.0]])
    kernel, rows_kernel, _ = normalize_linear(("center",), features, np.array([[0.7, 0.3], [0.2, 2.0]]))
    np.testing.assert_array_equal(kernel[2], 0.0)
    np.testing.assert_array_equal(kernel[:, 2], 0.0)
    np.testing.assert_array_equal(rows_kernel[:, 2], 0.0)
    np.testing.assert_array_equal(rows_kernel[1], 0.0)
    assert np.abs(rows_kernel[0, :2]).min() > 0.1


def test_centering_data_with_a_large_offset_keeps_what_is_left_of_them():
    # inner products of 1e16 are exact to about 1, so samples closer than that to the mean count as the mean
    features = 1e8 + np.random.default_rng(4).normal(scale=20.0, size=(60, 1))
    kernel, rows_kernel, _ = normalize_linear(("center", "spherical"), features, features[:3])
    away = np.abs(features[:, 0] - features.mean()) > 30.0
    signs = np.sign(features[away, 0] - features.mean())
    assert away.sum() >= 2
    np.testing.assert_allclose(kernel[np.ix_(away, away)], np.outer(signs, signs), atol=0.1)
    np.testing.assert_allclose(rows_kernel, kernel[:3], atol=1e-12)


def test_kernel_of_zeros_passes_every_normalization():
    for names in ON_FEATURES:
        kernel = normalize_linear(names, np.zeros((4, 2)), np.zeros((1, 2)))[0]
        np.testing.assert_array_equal(kernel, 0.0)


@pytest.mark.parametrize(
    ("names", "kernel", "message"),
    [
        (("spherical",), [[0.0, -1.0], [-1.0, 0.0]], "no similarity to themselves but some to others"),
        (("spherical",), [[-1.0, 0.0], [0.0, 1.0]], "similarity -1 to itself"),
        (("trace",), [[-3.0, 0.0], [0.0, 1.0]], "mean self-similarity is -1"),
    ],
)
def test_indefinite_kernels_without_a_length_are_refused(names, kernel, message):
    def looked_up(X, Z):
        return np.array(kernel)[np.ix_(X[:, 0].astype(int), Z[:, 0].astype(int))]

    with pytest.raises(ValueError, match=message):
        KernelBank(looked_up, normalize=names).fit([[0.0], [1.0]])


def test_names():
    one = KernelBank("linear", normalize=["center", "spherical"]).fit_transform(TRAIN)
    np.testing.assert_array_equal(
        one, KernelBank("linear", normalize=("center", "spherical")).fit_transform(TRAIN)
    )
    none = KernelBank("linear", normalize=()).fit_transform(TRAIN)
    np.testing.assert_array_equal(none, KernelBank("linear", normalize=None).fit_transform(TRAIN))
    for wrong in ("unit", ["center", "unit"], 3, [None]):
        with pytest.raises(ValueError, match='`normalize` must be "spherical", "trace", "center", None'):
            KernelBank("linear", normalize=wrong).fit(TRAIN)
