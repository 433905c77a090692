"""Compressed stacks against dense ones."""

from __future__ import annotations

import numpy as np
import pytest

from bayesmkl.bemkl import binary
from bayesmkl.bemkl.loop import LoopOptions, maximize_elbo
from bayesmkl.datasets import load_wdbc
from bayesmkl.kernels import Gaussian, KernelBank, Linear, Polynomial
from bayesmkl.kernels.lowrank import compress
from bayesmkl.kernels.stack import DenseStack


@pytest.fixture(scope="module")
def stack():
    """Ranks from 1 to full: an identity-like kernel, a zero kernel and a bank over single features."""
    data = load_wdbc().data[:80, :4]
    bank = KernelBank([Gaussian(width=1), Linear(), Polynomial(degree=3)], views="each")
    kernels = np.moveaxis(bank.fit_transform((data - data.mean(axis=0)) / data.std(axis=0)), -1, 0)
    return DenseStack(np.concatenate([np.eye(80)[None], kernels, np.zeros((1, 80, 80))]))


def test_other_library_contractions_agree_with_the_dense_stack(stack):
    short = compress(stack)
    assert (short.n_kernels, short.n_rows, short.n_train) == (14, 80, 80)
    assert short.nbytes < 0.5 * stack.kernels.nbytes
    rng = np.random.default_rng(0)
    vector, batch, rows = rng.normal(size=80), rng.normal(size=(80, 3)), rng.normal(size=(14, 80))
    np.testing.assert_allclose(short.apply(vector), stack.apply(vector), atol=1e-9)
    np.testing.assert_allclose(short.apply(batch), stack.apply(batch), atol=1e-9)
    np.testing.assert_allclose(short.adjoint(rows), stack.adjoint(rows), atol=1e-9)
    np.testing.assert_allclose(short.gram(), stack.gram(), atol=1e-9)


def test_degenerate_all_kernels_of_full_rank_or_all_of_low_rank(stack):
    vector = np.random.default_rng(0).normal(size=80)
    for part in (stack.select([0]), stack.select([1, 2])):
        short = compress(part)
        np.testing.assert_allclose(short.apply(vector), part.apply(vector), atol=1e-9)
        np.testing.assert_allclose(short.gram(), part.gram(), atol=1e-9)


@pytest.mark.parametrize("backend", ["numpy", "jax"])
def test_other_library_posterior_agrees_with_the_dense_one(stack, backend):
    y = load_wdbc().target[:80].astype(float)
    options = LoopOptions(max_iter=50, tol=0.0, accelerate=False, backend=backend)
    states = []
    for one in (stack, compress(stack)):
        problem = binary.BinaryProblem(one, stack.gram(), y, binary.BinaryPriors(), 1.0, 1.0)
        states.append(maximize_elbo(binary, problem, binary.init(problem, np.full(80, 0.8)), options).state)
    np.testing.assert_allclose(states[1].readout.mean, states[0].readout.mean, atol=1e-6)
    np.testing.assert_allclose(states[1].dual.mean, states[0].dual.mean, atol=1e-6)
    np.testing.assert_allclose(states[1].dual.cov, states[0].dual.cov, atol=1e-6)
