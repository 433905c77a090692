"""The paper's bank on real data, 403 kernels over 398 samples: minutes, so these run with `make test TESTS=slow`."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import arrays_of, binary_problem, largest_error
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

from bayesmkl.bemkl import Gamma
from bayesmkl.bemkl import model as bemkl
from bayesmkl.bemkl.ascent import LoopOptions, maximize_elbo
from bayesmkl.bemkl.model import Priors
from bayesmkl.datasets import load_wdbc
from bayesmkl.kernels import KernelBank
from bayesmkl.kernels.stacks.factored import compress_each

pytestmark = pytest.mark.slow
PRIORS = {"nonsparse": Gamma(1.0, 1.0), "sparse": Gamma(1e-10, 1e-10)}
PLAIN = LoopOptions(max_iter=50, tol=0.0, accelerate=False)


@pytest.fixture(scope="module")
def bank():
    X, y = load_wdbc(return_X_y=True)
    X, _, y, _ = train_test_split(X, y, train_size=398, random_state=0)
    stack = KernelBank("paper", views="all+each").fit_transform(StandardScaler().fit_transform(X))
    return np.moveaxis(stack, -1, 0), y.astype(float)


def fit(problem, options):
    return maximize_elbo(bemkl, problem, bemkl.init(problem, np.full(len(problem.y), 0.8)), options)


def worst_factor(states):
    one, other = (dict(arrays_of(state)) for state in states)
    return max(largest_error(other[name], one[name]) for name in one)


@pytest.mark.parametrize("prior", PRIORS)
def test_compressed_and_dense_stacks_agree_after_fifty_sweeps(bank, prior):
    kernels, y = bank
    problem = binary_problem(kernels, y, Priors(kernel=PRIORS[prior]))
    short = problem._replace(stack=compress_each(problem.stack.kernels))
    assert short.stack.nbytes < 0.1 * kernels.nbytes
    assert worst_factor([fit(problem, PLAIN).state, fit(short, PLAIN).state]) < 1e-6
