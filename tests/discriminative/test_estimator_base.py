"""What discriminative estimators share: scores from the kernels that have a weight, in blocks; paths; messages."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import assert_same, frozen

from bayesmkl import KernelBank
from bayesmkl.discriminative import (
    SimpleMKLClassifier,
    UniformMKLClassifier,
)
from bayesmkl.kernels import Gaussian, Linear

BANK = KernelBank([Gaussian(width=0.5), Gaussian(width=2), Linear()], views={"left": [0, 1], "right": [2, 3]})


@pytest.fixture
def data(rng):
    X = rng.normal(size=(60, 4))
    return X, np.sign(X[:, 0] * X[:, 1] + 0.2 * rng.normal(size=60))


def test_degenerate_clipping_leaves_the_users_kernels_alone(data):
    X, y = data
    kernel = frozen(np.cos(X @ X.T))  # read-only and indefinite
    with pytest.raises(ValueError, match=r"`X`: not positive semidefinite: my kernel \(eigenvalues from -"):
        UniformMKLClassifier("precomputed", kernel_names=["my kernel"]).fit(kernel, y)
    model = UniformMKLClassifier("precomputed", indefinite="clip").fit(kernel, y)
    eigenvalues, vectors = np.linalg.eigh(kernel)
    clipped = (vectors * np.maximum(eigenvalues, 0.0)) @ vectors.T
    assert_same(model.combined_kernel(kernel), clipped, 1e-10)
    assert_same(model.decision_function(kernel), clipped @ model.dual_coef_ + model.intercept_, 1e-10)


def test_contract_missing_labels_are_pointed_to_the_method_that_takes_them(data):
    X, y = data
    for mark in (None, np.nan):
        labels = y.astype(object)
        labels[3:7] = mark
        with pytest.raises(
            ValueError, match=r"`y` must give every sample a label; 4 of 60 are missing.*LapMKL"
        ):
            UniformMKLClassifier(BANK).fit(X, labels)


def test_contract_path_as_table(data):
    X, y = data
    model = SimpleMKLClassifier(BANK)
    before = set(vars(model))
    path = model.path(X, y, [0.1, 1.0, 10.0])
    assert set(vars(model)) == before
    table = path.to_frame()
    assert list(table["C"]) == [0.1, 1.0, 10.0]
    np.testing.assert_array_equal(table["n_solves"], [model.n_solves_ for model in path.models])
    for model, C in zip(path.models, [0.1, 1.0, 10.0], strict=True):
        cold = SimpleMKLClassifier(BANK, C=C).fit(X, y)
        best, other = model.objective_history_[-1], cold.objective_history_[-1]
        assert abs(best - other) <= 1e-3 * (abs(best) + abs(other))
    with pytest.raises(ValueError, match="`C_values` must hold at least one"):
        SimpleMKLClassifier(BANK).path(X, y, [])
    with pytest.raises(ValueError, match="`C_values` must be a finite number > 0; got -1"):
        SimpleMKLClassifier(BANK).path(X, y, [1.0, -1])
