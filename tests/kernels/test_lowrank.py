"""Compressed stacks against dense ones."""

from __future__ import annotations

import itertools
import tracemalloc

import jax
import numpy as np
import pytest

from bayesmkl._utils import memory
from bayesmkl.bemkl import model as bemkl
from bayesmkl.bemkl.ascent import LoopOptions, maximize_elbo
from bayesmkl.bemkl.draws import kernel_shares
from bayesmkl.bemkl.model import Priors, Problem
from bayesmkl.bemkl.moments import Gamma
from bayesmkl.bemkl.reading import predict_score
from bayesmkl.datasets import load_wdbc
from bayesmkl.kernels import Gaussian, KernelBank, Linear, Polynomial
from bayesmkl.kernels.stacks import lowrank
from bayesmkl.kernels.stacks.dense import DenseStack
from bayesmkl.kernels.stacks.factorize import CALL_BYTES, Factorizer, group_by_rank
from bayesmkl.kernels.stacks.lowrank import TOLERANCE, compress, compress_each
from bayesmkl.outcomes import Labels

N, P = 80, 14


def standardized(n_samples, n_features):
    data = load_wdbc().data[:n_samples, :n_features]
    return (data - data.mean(axis=0)) / data.std(axis=0)


@pytest.fixture(scope="module")
def stack():
    """Ranks from 1 to full: an identity-like kernel, a zero kernel and a bank over single features."""
    bank = KernelBank([Gaussian(width=1), Linear(), Polynomial(degree=3)], views="each")
    kernels = np.moveaxis(bank.fit_transform(standardized(N, 4)), -1, 0)
    return DenseStack(np.concatenate([np.eye(N)[None], kernels, np.zeros((1, N, N))]))


@pytest.fixture(scope="module")
def short(stack):
    return compress(stack)


def arguments(rng):
    """Every contraction with every kind of argument, by name."""
    return {
        "apply": [rng.normal(size=N), rng.normal(size=(N, 3)), rng.normal(size=(P, N, 1))],
        "adjoint": [
            rng.normal(size=(P, N)),
            rng.normal(size=(P, N, 3)),
            np.moveaxis(rng.normal(size=(3, P, N)), 0, -1),
        ],
        "quadratic": [rng.normal(size=N), rng.normal(size=(N, 3)), rng.normal(size=(P, N, 1))],
        "combine": [rng.normal(size=P), rng.normal(size=(2, P))],
        "columns": [np.array([3, 0, 70])],
    }


@pytest.mark.heavy
def test_other_library_contractions_on_jax_agree_with_those_on_numpy(stack, short, rng):
    short = short.select(np.array([13, 1, 0, 2]))  # compiling takes long: one group and a dense kernel
    calls = {
        "apply": arguments(rng)["apply"][:2],
        "adjoint": [rng.normal(size=(4, N)), rng.normal(size=(4, N, 2))],
    }
    calls["apply"].append(rng.normal(size=(4, N, 1)))
    with jax.enable_x64(True):
        moved = jax.tree.map(jax.numpy.asarray, short._replace(pivots=None))
        together = jax.jit(
            lambda stack, calls: {name: [getattr(stack, name)(v) for v in own] for name, own in calls.items()}
        )
        for name, found in together(moved, calls).items():
            for own, value in zip(found, calls[name], strict=True):
                np.testing.assert_allclose(np.asarray(own), getattr(short, name)(value), atol=1e-11)
        np.testing.assert_allclose(np.asarray(moved.gram()), short.gram(), atol=1e-9)


def test_degenerate_all_kernels_of_full_rank_stay_a_dense_stack(stack):
    full = stack.select([0])
    assert compress(full) is full
    one_by_one = compress_each([full.kernels[0].copy()] * 2, n_kernels=2)
    assert isinstance(one_by_one, DenseStack)
    np.testing.assert_array_equal(one_by_one.kernels, np.stack([full.kernels[0]] * 2))
    assert len(compress(stack.select([1, 2])).dense) == 0


@pytest.mark.parametrize("change", ["indefinite", "asymmetric", "negative"])
def test_kernels_that_no_factor_describes_stay_dense(change, rng):
    x = rng.normal(size=(60, 2))
    kernel = x @ x.T
    if change == "indefinite":  # of low rank, with a diagonal that looks harmless
        kernel = kernel - 0.5 * np.outer(x[:, 0], x[:, 0])[::-1, ::-1] + 0.5 * np.diag(kernel).mean()
    elif change == "asymmetric":
        kernel[5, 6] += 1e-3
    else:
        kernel = -kernel
    short = compress_each([x @ x.T, kernel], n_kernels=2)
    assert len(short.dense) == 1
    np.testing.assert_array_equal(short.dense[0], kernel)


def test_factors_reproduce_kernels_to_the_tolerance_and_are_triangular_at_their_pivots():
    kernel = Gaussian(width=1)(standardized(200, 1), standardized(200, 1))
    ranks = []
    for tolerance in (1e-6, 1e-10):
        factor = Factorizer(200, tolerance)(kernel)
        assert np.abs(factor.transposed.T @ factor.transposed - kernel).max() <= 1.01 * tolerance
        at_pivots = factor.transposed[:, factor.pivots].T
        assert np.array_equal(at_pivots, np.tril(at_pivots))
        ranks.append(len(factor.pivots))
    eigenvalues = np.linalg.eigvalsh(kernel)
    assert (eigenvalues > 200 * 1e-10).sum() <= ranks[1] <= 1.5 * (eigenvalues > 1e-12).sum()
    assert ranks[0] < ranks[1] < 40


def test_brute_force_groups_of_ranks_cost_least():
    def cost(groups, ranks, n_train):
        lines = sum(len(group) * max(ranks[m] for m in group) for group in groups)
        return lines * 8 * n_train + CALL_BYTES * len(groups)

    rng = np.random.default_rng(3)
    for n_train in (50, 400, 3000):
        ranks = rng.integers(0, 60, size=8)
        found = group_by_rank(ranks, n_train)
        assert sorted(np.concatenate(found).tolist()) == list(range(8))
        order, best = np.argsort(ranks).tolist(), np.inf
        for cuts in itertools.product([False, True], repeat=7):
            ends = [0, *(k + 1 for k, cut in enumerate(cuts) if cut), 8]
            best = min(best, cost([order[a:b] for a, b in itertools.pairwise(ends)], ranks, n_train))
        assert cost(found, ranks, n_train) == pytest.approx(best)
    assert group_by_rank(np.array([], dtype=int), 5) == []


def test_kernels_of_a_bank_are_compressed_one_at_a_time():
    bank = KernelBank([Gaussian(width=w) for w in (0.5, 1, 2, 4)], views="each").fit(standardized(300, 8))
    dense = DenseStack(bank.train_stack())
    for kernel, expected in zip(bank.train_kernels(), dense.kernels, strict=True):
        np.testing.assert_array_equal(kernel, expected)
    whole = compress(dense)
    tracemalloc.start()
    short = compress_each(bank.train_kernels(), bank.n_kernels_)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < short.nbytes + 8 * dense.nbytes / dense.n_kernels < 0.5 * dense.nbytes
    for one, other in zip(short.factors, whole.factors, strict=True):
        np.testing.assert_array_equal(one, other)
    np.testing.assert_array_equal(short.order, whole.order)


def test_bad_arguments_are_named():
    with pytest.raises(ValueError, match=r"`tolerance` .*got 0"):
        compress_each([np.eye(3)], 1, tolerance=0)
    with pytest.raises(ValueError, match="`n_kernels` must be the number of `kernels`; got 2 and 1"):
        compress_each([np.eye(3)], 2)


def test_kernels_that_stay_dense_are_refused_before_memory_runs_out(monkeypatch):
    monkeypatch.setattr(memory, "available_memory", lambda: 2**16 - 1)
    monkeypatch.setattr(lowrank, "LOOKED_AFTER", 2**16)
    full = (np.eye(38) for _ in range(8))  # five of them are no cause to look, six are
    with pytest.raises(
        MemoryError, match=r"after 5 of them, of which factors do not shorten 6, needs 65.5 kB.*Compare"
    ):
        compress_each(full, 8)


@pytest.mark.parametrize("prior", [Gamma(1.0, 1.0), Gamma(1e-10, 1e-10)])
def test_other_library_posterior_agrees_with_the_dense_one(stack, short, prior, rng):
    """E[a], E[b, e], both covariances, shares and predictions; measured: 7e-10 at most."""
    y = load_wdbc().target[:N].astype(float)
    options = LoopOptions(max_iter=50, tol=0.0, accelerate=False)
    priors, results = Priors(kernel=prior), []
    for one in (stack, short):
        problem = Problem(one, one.gram(), y, priors, Labels(1.0), 1.0)
        state = maximize_elbo(bemkl, problem, bemkl.init(problem, np.full(N, 0.8)), options).state
        shares = kernel_shares(one, state.dual, state.readout, np.random.default_rng(0))
        score = predict_score(one.rows(slice(20)), state.dual, state.readout, 1.0)
        results.append([*state.dual[:2], *state.readout[:2], *shares, *score])
    for found, expected in zip(results[1], results[0], strict=True):
        np.testing.assert_allclose(found, expected, atol=1e-6 * np.abs(expected).max())
    assert TOLERANCE == 1e-10
