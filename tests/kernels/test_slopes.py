"""Derivatives of normalized kernels beside differences of Gram matrices of all points together."""

from __future__ import annotations

import numpy as np
import pytest

from bayesmkl import KernelBank
from bayesmkl.kernels import Cosine, Gaussian, Linear, Polynomial
from bayesmkl.kernels.geometry import PairwiseGeometry
from bayesmkl.kernels.slopes import normalized_slopes

STEP = 1e-3
N_TRAIN, N_ROWS = 9, 4
rng = np.random.default_rng(5)
Z, X = rng.normal(1.0, 1.0, size=(N_TRAIN, 3)), rng.normal(1.0, 1.0, size=(N_ROWS, 3))
COUNTS = np.array([1.0, 2, 1, 3, 1, 1, 2, 1, 1])
NORMALIZE = [
    None,
    "trace",
    "center",
    "spherical",
    ("center", "spherical"),
    ("spherical", "center"),
    ("center", "trace"),
    ("spherical", "center", "trace", "spherical"),
]
KERNELS = [
    Gaussian(width=1.5),
    Linear(),
    Polynomial(degree=1),
    Polynomial(degree=2),
    Polynomial(degree=3),
    "rbf",
    "linear",
    Gaussian(width=1.5) * Linear(),
    Polynomial(degree=2) * Gaussian(width=1) * Polynomial(degree=1),
    Gaussian(width=1) * Gaussian(width=2),
]


def slopes_of(kernel, normalizers, X, Z):
    return normalized_slopes(kernel, normalizers, PairwiseGeometry(X, Z), PairwiseGeometry(X, X))


def gram(kernel, points, names, weights=None):
    """Normalize the Gram matrix of points, of which the first are training samples, by definition."""
    found = kernel(points, points)
    shares = np.zeros(len(points))
    shares[:N_TRAIN] = 1.0 / N_TRAIN if weights is None else weights / weights.sum()
    for name in names:
        if name == "center":
            around = np.eye(len(points)) - shares
            found = around @ found @ around.T
        elif name == "trace":
            found = found / (shares @ found.diagonal())
        else:
            lengths = np.sqrt(found.diagonal())
            found = found / lengths / lengths[:, None]
    return found


@pytest.mark.heavy
@pytest.mark.parametrize("weights", [None, COUNTS], ids=["", "weighted"])
@pytest.mark.parametrize("normalize", NORMALIZE, ids=str)
@pytest.mark.parametrize("kernel", KERNELS, ids=str)
def test_sums_are_those_of_differences(kernel, normalize, weights):
    bank = KernelBank([kernel], normalize=normalize).fit(Z, sample_weight=weights)
    fitted = bank.kernels_[0]
    names = () if normalize is None else (normalize,) if isinstance(normalize, str) else normalize
    slopes = slopes_of(fitted, bank.normalizers_[0], X, Z)
    own = np.random.default_rng(3)
    q, a = own.normal(size=N_ROWS), own.normal(size=N_TRAIN)
    np.testing.assert_allclose(slopes.values, bank.evaluate(X)[0], rtol=1e-9, atol=1e-11)
    train, middle, up, down = np.split(np.arange(N_TRAIN + 3 * N_ROWS), np.cumsum([N_TRAIN, N_ROWS, N_ROWS]))
    of_rows, of_own, of_train, variance, diagonal = (
        slopes.over_rows(q),
        slopes.over_own_rows(q),
        slopes.over_train(a),
        slopes.variance(q),
        slopes.of_diagonal(),
    )
    for j in range(3):
        move = STEP * np.eye(3)[j]
        G = gram(fitted, np.vstack([Z, X, X + move, X - move]), names, weights)
        once = (G[up] - G[down]) / (2.0 * STEP)
        twice = (once[:, up] - once[:, down]) / (2.0 * STEP)
        close = {"rtol": 2e-5, "atol": 2e-5}
        np.testing.assert_allclose(slopes.own_values, G[np.ix_(middle, middle)], rtol=1e-9, atol=1e-11)
        np.testing.assert_allclose(of_rows[:, j], q @ once[:, train], **close)
        np.testing.assert_allclose(of_own[:, j], q @ once[:, middle], **close)
        np.testing.assert_allclose(of_train[:, j], once[:, train] @ a, **close)
        np.testing.assert_allclose(variance[j], q @ twice @ q, **close)
        np.testing.assert_allclose(diagonal[:, j], 2.0 * once[:, middle].diagonal(), **close)


def test_far_from_zero_slopes_of_differences_keep_their_digits():
    near = slopes_of(Gaussian(width=1.5), [], X, Z)
    shift = 2.0**23
    far = slopes_of(Gaussian(width=1.5), [], np.round(X, 5) + shift, np.round(Z, 5) + shift)
    q = np.ones(N_ROWS)
    np.testing.assert_allclose(far.variance(q), near.variance(q), rtol=1e-4)
    np.testing.assert_allclose(far.over_rows(q), near.over_rows(q), rtol=1e-3, atol=1e-4)


def test_kernels_without_slopes_are_named():
    bank = KernelBank([Gaussian(), Cosine()], views={"a": [0, 1], "b": 2}).fit(Z)
    with pytest.raises(
        ValueError, match=r"kernel 'cosine · a' has no slopes. Use the kernels Gaussian, Linear"
    ):
        list(bank.slopes(X))
