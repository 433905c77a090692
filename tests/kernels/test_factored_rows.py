"""Kernels of new rows through the factors of the training kernels, against those that the bank evaluates."""

from __future__ import annotations

import numpy as np
import pytest

from bayesmkl.bemkl.moments import Gaussian as Normal
from bayesmkl.bemkl.reading import predict_score
from bayesmkl.kernels import Gaussian, KernelBank, Polynomial
from bayesmkl.kernels import forms as module
from bayesmkl.kernels.forms import weighted_forms
from bayesmkl.kernels.stacks import factored
from bayesmkl.kernels.stacks.dense import DenseStack
from bayesmkl.kernels.stacks.factored import factored_rows, has_factored_rows
from bayesmkl.kernels.stacks.lowrank import LowRankStack, compress_each
from bayesmkl.kernels.stacks.parts import RowParts
from bayesmkl.kernels.stacks.streamed import StreamedStack

N = 150
FUNCTIONS = [Gaussian(width=1), Polynomial(degree=2), Gaussian(width=0.02)]  # the last of full rank


def fitted(rng, functions=FUNCTIONS, **options):
    """A bank over single features with its compressed training kernels."""
    bank = KernelBank(functions, views="each", **options).fit(rng.uniform(-1.0, 1.0, size=(N, 3)))
    return bank, compress_each(bank.train_kernels(), bank.n_kernels_)


@pytest.fixture
def inside(rng):
    return rng.uniform(-0.9, 0.9, size=(9, 3))


@pytest.mark.parametrize("normalize", ["spherical", "trace", None, ("trace", "spherical")])
def test_other_route_rows_are_those_of_the_bank(rng, inside, normalize):
    bank, short = fitted(rng, normalize=normalize)
    assert has_factored_rows(bank, short)
    assert len(short.dense) == 3
    expected = bank.evaluate(inside)
    stack = factored_rows(bank, short, inside)
    assert isinstance(stack, LowRankStack)
    np.testing.assert_allclose(stack.columns(slice(None)), expected, atol=1e-7)
    np.testing.assert_allclose(stack.apply(np.ones(N)), expected.sum(axis=2), atol=1e-6)
    np.testing.assert_array_equal(factored_rows(bank, short, inside[:0]).apply(np.ones(N)), np.empty((9, 0)))


def test_the_kernel_function_is_asked_for_pivots_only(rng, inside):
    asked = []

    def gaussian(X, Z):
        asked.append(len(Z))
        return np.exp(-0.5 * np.subtract.outer(X[:, 0], Z[:, 0]) ** 2)

    bank, short = fitted(rng, [gaussian])
    asked.clear()
    stack = factored_rows(bank, short, inside)
    columns = [n for n in asked if n != len(inside)]  # apart from self-similarities
    assert len(columns) == 3
    assert sum(columns) == sum((pivots >= 0).sum() for pivots in short.pivots) < 3 * 20
    np.testing.assert_allclose(stack.columns(slice(None)), bank.evaluate(inside), atol=1e-7)


def test_rows_that_no_factor_describes_are_evaluated_as_a_whole(rng, inside):
    bank, short = fitted(rng)
    X = inside.copy()
    X[[2, 5], [0, 2]] = 3.0, -4.0  # far outside of [-1, 1]
    stack = factored_rows(bank, short, X)
    assert isinstance(stack, RowParts)
    assert [index.tolist() for index, _ in stack.parts] == [[0, 1, 3, 4, 6, 7, 8], [2, 5]]
    assert (stack.n_kernels, stack.n_rows, stack.n_train, stack.present) == (9, 9, N, None)
    assert stack.nbytes == sum(part.nbytes for _, part in stack.parts)
    expected = DenseStack(bank.evaluate(X))
    weights, vector, each = rng.normal(size=(2, 9)), rng.normal(size=(N, 2)), rng.normal(size=(9, N, 1))
    np.testing.assert_array_equal(stack.combine(weights)[:, [2, 5]], expected.combine(weights)[:, [2, 5]])
    for index in (slice(None), slice(1, 6), np.array([5, 0, 2]), np.arange(9) == 2, np.array([8, 1])):
        part, whole = stack.rows(index), expected.rows(index)
        np.testing.assert_allclose(part.combine(weights), whole.combine(weights), atol=1e-6)
        for argument in (vector, vector[:, 0], each):
            np.testing.assert_allclose(part.apply(argument), whole.apply(argument), atol=1e-6)
    chosen = stack.select([7, 2])
    np.testing.assert_allclose(chosen.apply(vector), expected.select([7, 2]).apply(vector), atol=1e-6)


@pytest.mark.parametrize("lines", [30, 10])
def test_large_kernels_without_factors_are_not_held(rng, inside, lines, monkeypatch):
    """Neither 9 kernels of the 5 rows far outside, 45 lines, nor 3 kernels of full rank of 9 other rows, 27 lines."""
    X = np.vstack([inside, np.full((5, 3), 5.0)])
    monkeypatch.setattr(factored, "LARGE", 8 * N * lines)
    bank, short = fitted(rng)
    stack, vector = factored_rows(bank, short, X), rng.normal(size=N)
    if lines == 30:
        assert [type(part) for _, part in stack.parts] == [LowRankStack, StreamedStack]
    else:
        assert isinstance(stack, StreamedStack)
    np.testing.assert_allclose(stack.apply(vector), DenseStack(bank.evaluate(X)).apply(vector), atol=1e-6)
    mixing, root = rng.normal(size=(2, 9)), rng.normal(size=(N, N))
    expected = weighted_forms(DenseStack(bank.evaluate(X)), mixing, [root])
    np.testing.assert_allclose(weighted_forms(stack, mixing, [root]), expected, rtol=1e-6)


def test_banks_and_stacks_without_this_road_are_told_apart(rng):
    centered, short = fitted(rng, normalize=("center", "spherical"))
    assert not has_factored_rows(centered, short)
    bank, short = fitted(rng)
    assert not has_factored_rows(bank, DenseStack(bank.train_stack()))
    assert not has_factored_rows(bank, short._replace(pivots=None))
    with_landmarks = KernelBank(FUNCTIONS, landmarks=5, random_state=0).fit(bank.X_train_)
    assert not has_factored_rows(with_landmarks, short)


@pytest.mark.parametrize("case", ["dense", "few rows", "lines", "roots", "parts"])
def test_brute_force_quadratic_forms(rng, inside, case, monkeypatch):
    """sum_mn W_mn k_m' S k_n by einsum, for every way of computing it."""
    monkeypatch.setattr(module, "BLOCK_SIZE", 4 * 9 * N)
    bank, short = fitted(rng, FUNCTIONS[:2] if case == "lines" else FUNCTIONS)
    n_kernels, mixing = bank.n_kernels_, rng.normal(size=(7, bank.n_kernels_))
    roots = [np.tril(rng.normal(size=(N, N))) for _ in range(2)]
    X = np.tile(inside, (1 if case == "few rows" else 6, 1))
    if case == "parts":
        X[3] = 9.0
    stack = DenseStack(bank.evaluate(X)) if case == "dense" else factored_rows(bank, short, X)
    assert isinstance(stack, {"dense": DenseStack, "parts": RowParts}.get(case, LowRankStack))
    kernels = bank.evaluate(X)
    assert kernels.shape[0] == n_kernels
    weights = mixing.T @ mixing
    expected = [
        np.einsum("mn,mia,ab,nib->i", weights, kernels, root @ root.T, kernels, optimize=True)
        for root in roots
    ]
    np.testing.assert_allclose(weighted_forms(stack, mixing, roots), expected, rtol=1e-6)


def test_other_route_predictions_agree(rng, inside):
    bank, short = fitted(rng)
    X = np.vstack([inside, [[5.0, 0.0, 0.0]]])
    root = rng.normal(size=(N, N)) / N
    dual = Normal.from_moments(rng.normal(size=N), root @ root.T + np.eye(N))
    root = rng.normal(size=(10, 10))
    readout = Normal.from_moments(rng.normal(size=10), root @ root.T + np.eye(10))
    found = predict_score(factored_rows(bank, short, X), dual, readout, 1.0)
    expected = predict_score(DenseStack(bank.evaluate(X)), dual, readout, 1.0)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-6 * np.abs(other).max())


def test_values_that_are_not_finite_are_errors_naming_the_kernel(rng):
    bank, short = fitted(rng, [Polynomial(degree=9)], normalize=None)
    with (
        pytest.raises(ValueError, match=r"kernel 'polynomial.*not all finite\. Scale"),
        np.errstate(over="ignore"),
    ):
        factored_rows(bank, short, np.full((1, 3), 1e60))
