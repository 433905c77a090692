"""What the dense stack does beside its contract: pytrees, read-only kernels, sparse arguments, sums in blocks."""

from __future__ import annotations

import jax
import numpy as np
import pytest
from helpers import SAME_FORMULA, assert_same, frozen

from bayesmkl.kernels.stacks.dense import DenseStack

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
