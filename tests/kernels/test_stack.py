"""Every contraction of the dense stack against einsum, on NumPy and JAX."""

from __future__ import annotations

import jax
import numpy as np
import pytest
from helpers import SAME_FORMULA, assert_same, frozen

from bayesmkl.kernels.stacks.dense import DenseStack

pytestmark = pytest.mark.heavy

SHAPES = [(1, 4, 4), (3, 6, 6), (4, 7, 5), (4, 3, 8), (2, 1, 5)]
RECTANGLES = pytest.mark.parametrize("shape", SHAPES, ids=str)
SQUARES = pytest.mark.parametrize("shape", [shape for shape in SHAPES if shape[1] == shape[2]], ids=str)


def make(rng, xp, shape):
    """Return kernels that are not symmetric, and the stack of them."""
    kernels = frozen(rng.normal(size=shape))
    return kernels, DenseStack(xp.asarray(kernels))


@RECTANGLES
def test_sizes(rng, xp, shape):
    _, stack = make(rng, xp, shape)
    assert (stack.n_kernels, stack.n_rows, stack.n_train) == shape
    assert stack.nbytes == 8 * np.prod(shape)


@RECTANGLES
def test_combine_against_einsum(rng, xp, shape):
    kernels, stack = make(rng, xp, shape)
    weights = frozen(rng.normal(size=shape[0]))
    assert_same(stack.combine(xp.asarray(weights)), np.einsum("m,mij->ij", weights, kernels), SAME_FORMULA)
    batch = frozen(rng.normal(size=(2, shape[0])))
    assert_same(stack.combine(xp.asarray(batch)), np.einsum("qm,mij->qij", batch, kernels), SAME_FORMULA)


@RECTANGLES
def test_combine_gated_against_einsum(rng, xp, shape):
    kernels, stack = make(rng, xp, shape)
    rows, columns = frozen(rng.normal(size=shape[:2])), frozen(rng.normal(size=shape[::2]))
    expected = np.einsum("mi,mij,mj->ij", rows, kernels, columns)
    assert_same(stack.combine_gated(xp.asarray(rows), xp.asarray(columns)), expected, SAME_FORMULA)


@RECTANGLES
def test_apply_against_einsum(rng, xp, shape):
    kernels, stack = make(rng, xp, shape)
    vector, batch, each = (
        frozen(rng.normal(size=size)) for size in [shape[2], (shape[2], 3), (shape[0], shape[2], 1)]
    )
    assert_same(stack.apply(xp.asarray(vector)), np.einsum("mij,j->mi", kernels, vector), SAME_FORMULA)
    assert_same(stack.apply(xp.asarray(batch)), np.einsum("mij,jq->miq", kernels, batch), SAME_FORMULA)
    assert_same(stack.apply(xp.asarray(each)), np.einsum("mij,mj->mi", kernels, each[..., 0]), SAME_FORMULA)


@RECTANGLES
def test_adjoint_against_einsum(rng, xp, shape):
    kernels, stack = make(rng, xp, shape)
    rows, batch = frozen(rng.normal(size=shape[:2])), frozen(rng.normal(size=(*shape[:2], 3)))
    assert_same(stack.adjoint(xp.asarray(rows)), np.einsum("mij,mi->j", kernels, rows), SAME_FORMULA)
    assert_same(stack.adjoint(xp.asarray(batch)), np.einsum("mij,miq->jq", kernels, batch), SAME_FORMULA)


@RECTANGLES
def test_adjoint_is_the_adjoint_of_apply(rng, xp, shape):
    _, stack = make(rng, xp, shape)
    vector, rows = rng.normal(size=shape[2]), rng.normal(size=shape[:2])
    left = float((np.asarray(stack.apply(xp.asarray(vector))) * rows).sum())
    right = float(vector @ np.asarray(stack.adjoint(xp.asarray(rows))))
    np.testing.assert_allclose(left, right, rtol=1e-10)


@RECTANGLES
def test_gram_against_einsum_and_against_adjoint_of_apply(rng, xp, shape):
    kernels, stack = make(rng, xp, shape)
    expected = np.einsum("mij,mik->jk", kernels, kernels)
    assert_same(stack.gram(), expected, SAME_FORMULA)
    assert_same(stack.adjoint(stack.apply(xp.eye(shape[2]))), expected, SAME_FORMULA)


@SQUARES
def test_quadratic_against_einsum(rng, xp, shape):
    kernels, stack = make(rng, xp, shape)
    vector, batch, each = (
        frozen(rng.normal(size=size)) for size in [shape[2], (shape[2], 3), (shape[0], shape[2], 1)]
    )
    found = [stack.quadratic(xp.asarray(given)) for given in (vector, batch, each)]
    assert_same(found[0], np.einsum("mij,i,j->m", kernels, vector, vector), SAME_FORMULA)
    assert_same(found[1], np.einsum("mij,iq,jq->mq", kernels, batch, batch), SAME_FORMULA)
    assert_same(found[2], np.einsum("mij,mi,mj->m", kernels, each[..., 0], each[..., 0]), SAME_FORMULA)


@RECTANGLES
def test_frobenius_against_einsum(rng, xp, shape):
    kernels, stack = make(rng, xp, shape)
    other = frozen(rng.normal(size=shape[1:]))
    assert_same(stack.frobenius(), np.einsum("mij,nij->mn", kernels, kernels), SAME_FORMULA)
    assert_same(stack.frobenius(xp.asarray(other)), np.einsum("mij,ij->m", kernels, other), SAME_FORMULA)


@RECTANGLES
def test_columns_rows_and_select_pick_what_they_say(rng, xp, shape):
    kernels, stack = make(rng, xp, shape)
    index = np.array([shape[2] - 1, 0])
    np.testing.assert_array_equal(np.asarray(stack.columns(index)), kernels[:, :, index])
    for rows in (slice(0, 1), slice(shape[1] // 2, None)):
        part = stack.rows(rows)
        assert isinstance(part, DenseStack)
        np.testing.assert_array_equal(np.asarray(part.kernels), kernels[:, rows])
    mask = np.arange(shape[0]) % 2 == 0
    for picked, expected in [
        (mask, kernels[::2]),
        (np.array([shape[0] - 1, 0]), kernels[[-1, 0]]),
        (shape[0] - 1, kernels[-1:]),
    ]:
        chosen = stack.select(picked)
        assert isinstance(chosen, DenseStack)
        np.testing.assert_array_equal(np.asarray(chosen.kernels), expected)


@SQUARES
def test_diagonal_holds_the_diagonals(rng, xp, shape):
    kernels, stack = make(rng, xp, shape)
    np.testing.assert_array_equal(np.asarray(stack.diagonal()), np.einsum("mii->mi", kernels))


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
