"""What discriminative estimators share: scores from the kernels that have a weight, in blocks; paths; messages."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import SAME_FORMULA, assert_same, frozen

import bayesmkl._estimator.base as shell
from bayesmkl import KernelBank
from bayesmkl.discriminative import (
    GMKLClassifier,
    LapMKLClassifier,
    LpMKLRegressor,
    SimpleMKLClassifier,
    UniformMKLClassifier,
)
from bayesmkl.kernels import Gaussian, Linear

BANK = KernelBank([Gaussian(width=0.5), Gaussian(width=2), Linear()], views={"left": [0, 1], "right": [2, 3]})


@pytest.fixture
def data(rng):
    X = rng.normal(size=(60, 4))
    return X, np.sign(X[:, 0] * X[:, 1] + 0.2 * rng.normal(size=60))


@pytest.mark.parametrize(
    "model",
    [
        SimpleMKLClassifier(BANK, C=5.0),
        GMKLClassifier(KernelBank(Gaussian(width=1), views="each"), combination="product", C=0.5),
        LapMKLClassifier(BANK, n_neighbors=5),
    ],
    ids=lambda model: type(model).__name__,
)
def test_other_formula_scores_use_active_kernels_only_block_by_block(data, model, monkeypatch):
    X, y = data
    model.fit(X[:40], y[:40])
    assert model.n_active_kernels_ < model.n_kernels_in_  # or the test says nothing
    whole = model._scores_of(model._row_stack(X))
    evaluated = []
    evaluate = KernelBank.evaluate

    def spy(bank, rows, kernels=None):
        evaluated.append((len(rows), len(kernels)))
        return evaluate(bank, rows, kernels)

    monkeypatch.setattr(KernelBank, "evaluate", spy)
    monkeypatch.setattr(shell, "BLOCK_ENTRIES", 40 * 7 * model.n_active_kernels_)
    scores = np.atleast_2d(model.decision_function(X))
    used = int(np.count_nonzero(model.kernel_weights_))
    assert {n_kernels for _, n_kernels in evaluated} == {used}
    assert len(evaluated) > 5
    assert sum(n_rows for n_rows, _ in evaluated) == len(X)
    assert_same(scores, whole, SAME_FORMULA)


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


def test_contract_regression_path_has_one_model_per_value(rng, data):
    X = data[0]
    path = LpMKLRegressor(BANK).path(X, X[:, 0] ** 2, [1.0, 100.0])
    errors = [np.abs(model.predict(X) - X[:, 0] ** 2).mean() for model in path.models]
    assert errors[1] < errors[0]
