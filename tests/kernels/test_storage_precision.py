"""Kernels in single precision: the rounding of their entries is the only error."""

from __future__ import annotations

import jax
import numpy as np
import pytest

from bayesmkl.bemkl import model as bemkl
from bayesmkl.bemkl.ascent import LoopOptions, maximize_elbo
from bayesmkl.bemkl.model import Priors, Problem
from bayesmkl.datasets import load_wdbc
from bayesmkl.kernels import Gaussian, KernelBank, Polynomial
from bayesmkl.kernels.stacks import float32 as module
from bayesmkl.kernels.stacks.dense import DenseStack
from bayesmkl.kernels.stacks.float32 import store_float32
from bayesmkl.kernels.stacks.packed import pack
from bayesmkl.outcomes import Labels

P, N, B = 5, 33, 17
HALF_ULP = 2.0**-24


@pytest.fixture(scope="module")
def kernels():
    return np.random.default_rng(0).normal(size=(P, N, B))


@pytest.fixture
def stack(kernels, monkeypatch):
    """A stack that is converted in blocks of some rows of one kernel, or of some kernels."""
    monkeypatch.setattr(module, "ENTRIES", 200)
    monkeypatch.setattr(module, "MANY_ENTRIES", 2 * N * B)
    return store_float32(iter(kernels), P)


def calls(rng):
    return [
        ("apply", rng.normal(size=B)),
        ("apply", rng.normal(size=(B, 3))),
        ("apply", rng.normal(size=(P, B, 1))),
        ("adjoint", rng.normal(size=(P, N))),
        ("adjoint", rng.normal(size=(P, N, 3))),
        ("combine", rng.normal(size=P)),
        ("combine", rng.normal(size=(2, P))),
        ("columns", np.array([4, 0])),
        ("gram",),
    ]


@pytest.mark.heavy
def test_other_library_jax_agrees(stack, rng):
    with jax.enable_x64(True):
        moved = jax.tree.map(jax.numpy.asarray, stack)
        assert moved.kernels.dtype == "float32"
        together = jax.jit(
            lambda stack, calls: [getattr(stack, name)(*own) for name, own in zip(names, calls, strict=True)]
        )
        names, values = zip(*((name, arguments) for name, *arguments in calls(rng)), strict=True)
        for name, arguments, found in zip(names, values, together(moved, values), strict=True):
            assert found.dtype == "float64"
            np.testing.assert_allclose(found, getattr(stack, name)(*arguments), atol=1e-11, err_msg=name)


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
    for n_kernels in (1, 3):
        with pytest.raises(ValueError, match=rf"`n_kernels` must be .*got {n_kernels} and"):
            store_float32([np.eye(2), np.eye(2)], n_kernels)
