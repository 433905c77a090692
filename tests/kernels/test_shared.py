"""Kernels that cross-validation takes parts of, against copies of these parts."""

from __future__ import annotations

import pickle
import warnings

import numpy as np
import pytest
from sklearn.base import clone, is_regressor
from sklearn.model_selection import GridSearchCV, cross_val_predict, cross_val_score

from bayesmkl import BEMKLClassifier
from bayesmkl.discriminative import SimpleMKLClassifier, UniformMKLClassifier, UniformMKLRegressor
from bayesmkl.discriminative.estimators import checked
from bayesmkl.gp import GPMKLRegressor
from bayesmkl.kernels import Gaussian, KernelQualityWarning, stack_kernels
from bayesmkl.kernels.stacks.dense import DenseStack

N = 36


@pytest.fixture
def kernels(rng):
    X = rng.normal(size=(N, 3))
    return stack_kernels({f"width {w:g}": Gaussian(width=w)(X, X) for w in (1.0, 2.0, 4.0)})


@pytest.fixture
def signal(rng, kernels):
    values = kernels.values.mean(axis=-1) @ rng.normal(size=N)
    return values - np.median(values)


def test_parts_are_those_of_the_array(kernels):
    values, shared = kernels.values, kernels.shared
    assert shared.shape == values.shape
    rows, train = np.array([3, 1, 30]), np.array([7, 7, 0, 2])
    for index in (np.ix_(rows, train), rows, slice(2, 9), np.arange(N) % 2 == 0):
        np.testing.assert_array_equal(np.asarray(shared[index]), values[index])
        assert len(shared[index]) == len(values[index])
    nested = shared[np.ix_(train, train)][np.ix_([0, 2], [1, 3])]
    np.testing.assert_array_equal(np.asarray(nested), values[np.ix_([7, 0], [7, 2])])
    weights = np.array([0.2, 0.0, 3.0])
    np.testing.assert_allclose(nested.combine(weights), values[np.ix_([7, 0], [7, 2])] @ weights, rtol=1e-14)
    np.testing.assert_array_equal(np.asarray(pickle.loads(pickle.dumps(nested))), np.asarray(nested))


@pytest.mark.heavy
@pytest.mark.parametrize(
    "model",
    [
        *(UniformMKLClassifier("precomputed"), UniformMKLRegressor("precomputed", C=3.0)),
        *(
            SimpleMKLClassifier("precomputed"),
            BEMKLClassifier("precomputed", max_iter=5, tol=0.0, intermediate_scale=1.0),
        ),
        GPMKLRegressor("precomputed"),
    ],
    ids=lambda model: type(model).__name__,
)
def test_cross_validation_finds_what_it_finds_in_the_array(kernels, signal, model):
    y = signal if is_regressor(model) else signal > 0.0
    found = [cross_val_predict(clone(model), X, y, cv=3) for X in (kernels.shared, kernels.values)]
    np.testing.assert_allclose(*found, rtol=1e-10)


def test_a_grid_sums_and_judges_all_kernels_once(kernels, signal, monkeypatch):
    sums, judged = [], []
    combine, judge = DenseStack.combine, checked.judge_for_svm
    monkeypatch.setattr(DenseStack, "combine", lambda *given: sums.append(given) or combine(*given))
    monkeypatch.setattr(
        checked, "judge_for_svm", lambda own, *rest: judged.append(own.shape) or judge(own, *rest)
    )
    y, grid = signal > 0.0, {"C": [0.1, 1.0, 10.0]}
    model = UniformMKLClassifier("precomputed", kernel_names=kernels.names)
    search = GridSearchCV(model, grid, cv=4).fit(kernels.shared, y)
    assert len(sums) == 1
    assert judged == [(3, N, N)]
    assert search.best_estimator_.n_features_in_ == N
    again = GridSearchCV(model, grid, cv=4).fit(kernels.values, y)
    np.testing.assert_array_equal(search.cv_results_["mean_test_score"], again.cv_results_["mean_test_score"])
    assert len(search.predict(kernels.shared[:5])) == 5


def test_doubts_and_indefinite_kernels_are_those_of_the_array(kernels, signal):
    own = np.moveaxis(kernels.values, -1, 0)
    y = signal > 0.0
    with pytest.warns(KernelQualityWarning, match="duplicates"):
        UniformMKLClassifier("precomputed").fit(stack_kernels([*own, own[0]]).shared, y)
    indefinite = stack_kernels([own[0], own[1] - 0.5 * np.eye(N)])
    with pytest.raises(ValueError, match="not positive semidefinite: kernel 1"):
        UniformMKLClassifier("precomputed").fit(indefinite.shared, y)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", KernelQualityWarning)
        clipped = UniformMKLClassifier("precomputed", indefinite="clip")
        scores = [cross_val_score(clipped, X, y, cv=3) for X in (indefinite.shared, indefinite.values)]
    np.testing.assert_array_equal(*scores)


def test_values_that_somebody_may_write_to_are_copied(kernels, signal):
    with pytest.raises(ValueError, match="read-only"):
        kernels.values[0, 0, 0] = 1.0
    own = kernels._replace(values=kernels.values.copy())
    shared = own.shared
    assert not np.shares_memory(shared.whole, own.values)
    assert np.shares_memory(kernels.shared.whole, kernels.values)
    model = UniformMKLClassifier("precomputed").fit(shared, signal > 0.0)
    own.values[...] = np.nan
    assert np.array_equal(model.fit(shared, signal > 0.0).predict(shared), model.predict(kernels.values))


def test_bad_input(kernels, signal):
    shared, y = kernels.shared, signal > 0.0
    with pytest.raises(
        IndexError, match=r"is indexed by samples, .* Index `np\.asarray\(kernels\)` otherwise"
    ):
        shared[:, :, 0]
    with pytest.raises(IndexError, match="is indexed by samples"):
        shared[[N]]
    with pytest.raises(ValueError, match=r"to be shared; got 1 of 3 x 4"):
        _ = stack_kernels([np.ones((3, 4))]).shared
    model = UniformMKLClassifier("precomputed").fit(shared, y)
    broken = stack_kernels([np.full((N, N), np.nan)] * 3).shared
    with pytest.raises(ValueError, match="`X` must be finite"):
        model.predict(broken[:5])
    with pytest.raises(ValueError, match=r"`X` must be a precomputed stack of shape"):
        model.predict(shared[np.ix_([0, 1], [0, 1])])
    with pytest.raises(ValueError, match="`X` must hold training kernels"):
        model.fit(shared[:5], y[:5])
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        model.fit(shared, y[:5])
    with pytest.raises(ValueError, match="one class only"):
        model.fit(shared, np.ones(N))
