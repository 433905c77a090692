"""What dense stacks do beside their contract: pytrees, read-only kernels, sparse arguments, single precision."""

from __future__ import annotations

import jax
import numpy as np
import pytest
from helpers import SAME_FORMULA, assert_same, frozen

from bayesmkl.bemkl import model as bemkl
from bayesmkl.bemkl.ascent import LoopOptions, maximize_elbo
from bayesmkl.bemkl.model import Priors, Problem
from bayesmkl.datasets import load_wdbc
from bayesmkl.kernels import Gaussian, KernelBank, Polynomial
from bayesmkl.kernels.stacks.dense import DenseStack, store_float32
from bayesmkl.kernels.stacks.packed import pack
from bayesmkl.outcomes import Labels

HALF_ULP = 2.0**-24
pytestmark = pytest.mark.heavy


def make(rng, xp, shape):
    """Return kernels that are not symmetric, and the stack of them."""
    kernels = frozen(rng.normal(size=shape))
    return kernels, DenseStack(xp.asarray(kernels))


def test_stack_passes_through_jit(rng):
    with jax.enable_x64(True):
        kernels, stack = make(rng, jax.numpy, (3, 4, 5))
        rows = rng.normal(size=(3, 4))
        found = jax.jit(lambda given, values: given.adjoint(values))(stack, jax.numpy.asarray(rows))
        assert_same(found, np.einsum("mij,mi->j", kernels, rows), SAME_FORMULA)


def test_contractions_accept_and_keep_read_only_kernels(rng):
    kernels, stack = make(rng, np, (3, 5, 5))
    before = kernels.copy()
    vector, rows = frozen(rng.normal(size=5)), frozen(rng.normal(size=(3, 5)))
    stack.combine(rows[:, 0]), stack.combine_gated(rows, rows), stack.apply(vector), stack.adjoint(rows)
    stack.gram(), stack.quadratic(vector), stack.frobenius(), stack.frobenius(kernels[0]), stack.diagonal()
    np.testing.assert_array_equal(stack.kernels, before)


@pytest.mark.parametrize("n_zero", [0, 9, 11, 12])
def test_combine_with_zero_weights_against_einsum(rng, n_zero):
    kernels, stack = make(rng, np, (12, 5, 7))
    weights = rng.normal(size=12)
    weights[rng.permutation(12)[:n_zero]] = 0.0
    assert np.allclose(stack.combine(weights), np.einsum("m,mij->ij", weights, kernels), rtol=0, atol=1e-13)


@pytest.mark.parametrize("n_support", [0, 1, 4, 30])
def test_quadratic_of_sparse_vectors_against_einsum(rng, n_support):
    kernels, stack = make(rng, np, (5, 30, 30))
    vector = np.zeros(30)
    vector[rng.permutation(30)[:n_support]] = rng.normal(size=n_support)
    expected = np.einsum("i,mij,j->m", vector, kernels, vector)
    assert np.allclose(stack.quadratic(vector), expected, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("shape", [(3, 400, 300), (20, 150, 130), (2, 3, 140000)], ids=str)
def test_combine_gated_in_blocks_against_einsum(rng, shape):
    """Stacks above the size of a block, more kernels than one block takes, rows longer than a block."""
    kernels, stack = make(rng, np, shape)
    rows, columns = rng.normal(size=shape[:2]), rng.normal(size=shape[::2])
    rows[0], rows[1, 0] = 0.0, 0.0
    expected = np.einsum("mi,mij,mj->ij", rows, kernels, columns)
    assert_same(stack.combine_gated(frozen(rows), frozen(columns)), expected, SAME_FORMULA)
    assert not stack.combine_gated(np.zeros_like(rows), frozen(columns)).any()


def test_errors_are_those_of_rounding_not_of_sums_in_single_precision():
    """A sum of a million equal numbers in single precision would be wrong in the third digit."""
    kernels = np.full((1, 1, 2**20), 0.1)
    stack = store_float32(kernels, 1)
    product = stack.apply(np.ones(2**20))[0, 0]
    assert abs(product / (0.1 * 2**20) - 1.0) <= HALF_ULP
    assert product == pytest.approx(np.float64(np.float32(0.1)) * 2**20, rel=1e-14)


def test_posterior_agrees_with_double_precision_to_a_few_times_the_rounding():
    """Measured here: 4e-7 of the largest entry of each factor."""
    data = load_wdbc()
    bank = KernelBank([Gaussian(width=1), Polynomial(degree=2)], views="each")
    bank.fit((data.data[:80, :8] - data.data[:, :8].mean(axis=0)) / data.data[:, :8].std(axis=0))
    y, states = data.target[:80].astype(float), []
    for stack in (DenseStack(bank.train_stack()), store_float32(bank.train_kernels(), bank.n_kernels_)):
        problem = Problem(stack, stack.gram(), y, Priors(), Labels(1.0), 1.0)
        options = LoopOptions(max_iter=50, tol=0.0, accelerate=False)
        states.append(maximize_elbo(bemkl, problem, bemkl.init(problem, np.full(80, 0.8)), options).state)
    error = 0.0
    for found, expected in zip(
        [*states[1].dual[:2], *states[1].readout[:2]],
        [*states[0].dual[:2], *states[0].readout[:2]],
        strict=True,
    ):
        error = max(error, np.abs(found - expected).max() / np.abs(expected).max())
    assert 1e-12 < error < 1e-5, error


def test_what_single_precision_cannot_hold_is_refused():
    with pytest.raises(ValueError, match=r"kernel 1 has entries up to 1e\+39\. Normalize"):
        store_float32([np.eye(2), 1e39 * np.eye(2)], 2)
    with pytest.raises(ValueError, match=r'"packed" holds numbers up to 3\.4e38; kernel 1 has'):
        pack([np.eye(2), 1e39 * np.eye(2)], 2)
    with pytest.raises(ValueError, match=r'"packed" holds one triangle .* of kernel 0 differ by up to 1'):
        pack([np.triu(np.ones((2, 2)))], 1)
