"""Targets and features far from zero: the same models as near it."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from bayesmkl.discriminative import (
    AlignmentMKLClassifier,
    AlignmentMKLRegressor,
    LMKLRegressor,
    LpMKLRegressor,
    PrimalMKLRegressor,
    SimpleMKLRegressor,
    UniformMKLRegressor,
    knn_laplacian,
)
from bayesmkl.kernels import Gaussian, KernelBank, KernelQualityWarning, Linear

OFFSETS = (2.0**20, 2.0**30)  # that hold all digits of the numbers below
RNG = np.random.default_rng(2)
X = np.round(RNG.normal(size=(50, 3)) * 2**10) / 2**10
Y = np.round((X[:, 0] + np.sin(2 * X[:, 1]) + 0.1 * RNG.normal(size=50)) * 2**14) / 2**14
BANK = KernelBank([Gaussian(width=1.0), Gaussian(width=4.0)], normalize="spherical")


@pytest.mark.parametrize(
    "model",
    [
        AlignmentMKLRegressor(BANK, tol=1e-8),
        LMKLRegressor(BANK, gating="sigmoid", max_iter=2, tol=1e-9, random_state=0),
        LpMKLRegressor(BANK, tol=1e-6),
        PrimalMKLRegressor(BANK, tol=1e-6),
        PrimalMKLRegressor(BANK, loss="huber", tol=1e-6),
        SimpleMKLRegressor(BANK, tol=1e-6),
        UniformMKLRegressor(BANK, tol=1e-8),
    ],
    ids=lambda model: type(model).__name__,
)
@pytest.mark.filterwarnings("ignore:LMKLRegressor stopped after max_iter")
def test_a_constant_added_to_the_target_moves_the_intercept_alone(model):
    near = model.fit(X, Y).predict(X)
    for offset in OFFSETS:
        far = model.fit(X, Y + offset).predict(X) - offset
        np.testing.assert_allclose(far, near, atol=1e-15 * offset + 1e-6)


def test_methods_that_align_with_the_target_as_it_is_keep_doing_so():
    for method in ("ratio", "convex"):
        weights = [AlignmentMKLRegressor(BANK, method=method).fit(X, y).kernel_weights_ for y in (Y, Y + 3.0)]
        assert np.abs(weights[0] - weights[1]).max() > 1e-3


@pytest.mark.parametrize(("n_features", "n_neighbors"), [(2, 3), (20, 3), (2, 30)])
def test_neighbors_do_not_depend_on_where_zero_is(n_features, n_neighbors):
    rows = np.round(RNG.normal(size=(50, n_features)) * 2**10) / 2**10
    near = np.asarray(knn_laplacian(rows, n_neighbors) @ np.eye(50))
    for offset in (*OFFSETS, 2.0**40):
        np.testing.assert_array_equal(
            np.asarray(knn_laplacian(rows + offset, n_neighbors) @ np.eye(50)), near
        )


def test_kernels_that_a_method_centers_itself_are_named():
    y = X[:, 0] > 0
    bank = KernelBank([Linear(), Gaussian(width=2.0)], {"far": [0], "near": [1, 2]}, normalize="trace")
    far = np.column_stack([X[:, 0] + 1e6, X[:, 1:]])
    with pytest.warns(
        KernelQualityWarning, match=r"short of digits after centering .*: linear · far \(errors"
    ):
        AlignmentMKLClassifier(bank).fit(far, y)
    for model in (AlignmentMKLClassifier(bank, method="ratio"), AlignmentMKLClassifier(bank)):
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            model.fit(far if model.method == "ratio" else X, y)
        assert not any("short of digits" in str(one.message) for one in found)
