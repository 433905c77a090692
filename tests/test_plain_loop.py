"""The plain NumPy loop that benchmarks measure against computes what the package computes."""

from __future__ import annotations

import numpy as np
from _plain_loop import as_state, fit_plain
from numpy.testing import assert_allclose

from bayesmkl.bemkl import model as bemkl
from bayesmkl.bemkl.ascent import LoopOptions, maximize_elbo
from bayesmkl.bemkl.model import Priors, Problem
from bayesmkl.kernels.stacks.dense import DenseStack
from bayesmkl.outcomes import Labels

N_SWEEPS = 15


def test_plain_numpy_finds_the_factors_and_the_bound_of_the_package():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(30, 3)), np.where(rng.uniform(size=30) < 0.5, -1.0, 1.0)
    squares = (x.T[:, :, None] - x.T[:, None]) ** 2
    stack = DenseStack(np.concatenate([np.exp(-squares), np.exp(-0.1 * squares)]))
    problem = Problem(stack, stack.gram(), y, Priors(), Labels(1.0), 1.0)
    start = bemkl.init(problem, np.full(30, np.sqrt(2.0 / np.pi)))
    ours = maximize_elbo(bemkl, problem, start, LoopOptions(max_iter=N_SWEEPS, tol=0.0, accelerate=False))
    plain = as_state(fit_plain(stack.kernels, y, N_SWEEPS), y)
    for name in ("dual", "intermediate", "readout"):
        ours_of, plain_of = getattr(ours.state, name), getattr(plain, name)
        assert_allclose(plain_of.mean, ours_of.mean, rtol=1e-8, atol=1e-8 * abs(ours_of.mean).max())
        assert_allclose(plain_of.cov, ours_of.cov, rtol=1e-8, atol=1e-8 * abs(ours_of.cov).max())
    assert_allclose(plain.latent.mean, ours.state.latent.mean, rtol=1e-8)
    assert_allclose(bemkl.elbo(problem, plain), ours.elbo_history[-1], rtol=1e-10)
