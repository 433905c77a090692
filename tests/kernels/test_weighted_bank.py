"""Banks of samples with weights: whole ones are repeated samples, in all that a bank learns."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial.distance import pdist

from bayesmkl.kernels import FromDistance, Gaussian, KernelBank, Laplacian, Linear, Polynomial
from bayesmkl.kernels.base import Kernel
from bayesmkl.kernels.geometry import mean_distance, median_distance

KERNELS = [
    Gaussian(relative_width=0.5),
    Laplacian(relative_width=1.0),
    FromDistance("cityblock"),
    Polynomial(2),
]


@pytest.fixture(scope="module")
def samples():
    rng = np.random.default_rng(5)
    return rng.normal(size=(24, 3)) + 3.0, rng.integers(0, 4, 24)


@pytest.mark.parametrize(
    "normalize", [None, "trace", "center", ("trace", "center", "spherical"), ("spherical", "center", "trace")]
)
@pytest.mark.parametrize("by_rows", [False, True])
def test_degenerate_whole_weights_are_repeated_samples(samples, normalize, by_rows):
    X, counts = samples
    bank = KernelBank(KERNELS, {"one": [0, 1], "two": [2]}, normalize)
    if by_rows:
        weighted = bank.fit(X, sample_weight=counts)
    else:
        weighted = KernelBank(**bank.get_params())
        training = weighted.fit_transform(X, sample_weight=counts)
        np.testing.assert_allclose(training, weighted.transform(X), atol=1e-12 * np.abs(training).max())
    repeated = KernelBank(**bank.get_params()).fit(X.repeat(counts, axis=0))
    found = weighted.transform(X)[:, np.arange(24).repeat(counts)]
    expected = repeated.transform(X)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12 * np.abs(expected).max())


def test_degenerate_absent_views_keep_the_weights_of_the_others(samples):
    X, counts = samples
    X = X.copy()
    X[::5, 2] = np.nan
    bank = KernelBank(KERNELS, {"one": [0, 1], "two": [2]}, ("center", "trace"), missing_views="keep")
    found = bank.fit(X, sample_weight=counts).transform(X)[:, np.arange(24).repeat(counts)]
    expected = bank.fit(X.repeat(counts, axis=0)).transform(X)
    np.testing.assert_allclose(found, expected, atol=1e-11)


@pytest.mark.parametrize("seed", range(4))
def test_typical_distances_count_pairs(seed):
    rng = np.random.default_rng(seed)
    X, counts = rng.normal(size=(9, 2)), rng.integers(0, 4, 9).astype(float)
    pairs = pdist(X.repeat(counts.astype(int), axis=0))
    square = np.linalg.norm(X[:, None] - X, axis=2)
    assert mean_distance(square, counts) == pytest.approx(pairs.mean(), rel=1e-12)
    assert median_distance(X, "euclidean", counts) == pytest.approx(np.median(pairs), rel=1e-12)
    equal = median_distance(X, "euclidean", 0.3 * (counts > 0))
    assert equal == pytest.approx(np.median(pdist(X[counts > 0])), rel=1e-12)


def test_degenerate_typical_distances_of_one_point():
    alone = np.array([0.0, 0.5])
    assert (
        median_distance(np.eye(2), "euclidean", alone)
        == median_distance(np.eye(2), "euclidean", 8 * alone)
        == 1.0
    )
    assert mean_distance(1.0 - np.eye(2), alone) == 0.0
    mostly = np.array([9.0, 1.0])  # most pairs are of one point: the mean
    assert median_distance(np.array([[0.0], [8.0]]), "euclidean", mostly) == pytest.approx(8.0 * 9 / 45)


class Own(Kernel):
    """A kernel whose `fit` knows no weights."""

    @property
    def label(self):
        return "own"

    def fit(self, X, y=None):
        return self

    def evaluate(self, geometry, out):
        out[...] = geometry.inner_products

    def diagonal(self, X):
        return np.einsum("ij,ij->i", X, X)


def test_what_cannot_count_says_so(samples):
    X, counts = samples
    with pytest.raises(ValueError, match=r"kernel 'own · all': the `fit` of Own must take a `sample_weight`"):
        KernelBank(Own()).fit(X, sample_weight=counts)
    KernelBank(Own()).fit(X, sample_weight=np.ones(24))
    with pytest.raises(ValueError, match=r"`sample_weight` must be None with `landmarks`"):
        KernelBank(Linear(), landmarks=4).fit(X, sample_weight=counts)
    with pytest.raises(ValueError, match=r"`sample_weight` must hold one weight for each of the 24 samples"):
        KernelBank(Linear()).fit_transform(X, sample_weight=counts[1:])
