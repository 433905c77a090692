"""A few times to follow from commit to commit: `make track` runs them with pytest-benchmark.

Small enough to take a minute together, large enough to be the work of the package rather than of its interpreter.
"""

from __future__ import annotations

import subprocess
import sys
import warnings

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer
from sklearn.preprocessing import StandardScaler

from bayesmkl import BEMKLClassifier
from bayesmkl.bemkl.inference.loop import LoopOptions, maximize_elbo
from bayesmkl.bemkl.models import model as bemkl
from bayesmkl.bemkl.models.model import Priors, Problem
from bayesmkl.bemkl.models.outcomes import Labels
from bayesmkl.kernels import Gaussian, KernelBank
from bayesmkl.kernels.stacks.dense import DenseStack
from bayesmkl.kernels.stacks.lowrank import compress

N_SAMPLES, N_FEATURES = 300, 9
SWEEPS = LoopOptions(max_iter=20, tol=0.0, accelerate=False)
STACKS = ["dense", "compressed"]


@pytest.fixture(scope="session")
def data():
    X, y = load_breast_cancer(return_X_y=True)
    return StandardScaler().fit_transform(X[:N_SAMPLES, :N_FEATURES]), 2.0 * y[:N_SAMPLES] - 1.0


@pytest.fixture(scope="session")
def bank():
    return KernelBank("paper", views="all+each")  # 130 kernels


@pytest.fixture(scope="session")
def stacks(data, bank):
    dense = DenseStack(np.ascontiguousarray(np.moveaxis(bank.fit_transform(data[0]), -1, 0)))
    return {"dense": dense, "compressed": compress(dense)}


@pytest.fixture(autouse=True)
def quiet():
    """Fits that are cut short do not converge, and say so."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def test_evaluate_kernels(benchmark, data, bank):
    benchmark(bank.fit_transform, data[0])


def test_compress(benchmark, stacks):
    benchmark(compress, stacks["dense"])


@pytest.mark.parametrize("kind", STACKS)
def test_apply(benchmark, stacks, data, kind):
    benchmark(stacks[kind].apply, data[1])


@pytest.mark.parametrize("kind", STACKS)
def test_adjoint(benchmark, stacks, data, kind):
    rows = np.outer(np.arange(1.0, stacks[kind].n_kernels + 1.0), data[1])
    benchmark(stacks[kind].adjoint, rows)


@pytest.mark.parametrize("kind", STACKS)
def test_gram(benchmark, stacks, kind):
    benchmark(stacks[kind].gram)


@pytest.mark.parametrize("kind", STACKS)
def test_twenty_sweeps(benchmark, stacks, data, kind):
    stack = stacks[kind]
    problem = Problem(stack, stack.gram(), data[1], Priors(), Labels(1.0), 1.0)
    start = bemkl.init(problem, np.full(N_SAMPLES, np.sqrt(2.0 / np.pi)))
    benchmark(maximize_elbo, bemkl, problem, start, SWEEPS)


def test_fit(benchmark, data, bank):
    benchmark.pedantic(
        BEMKLClassifier(bank, margin=1.0, intermediate_scale=1.0).fit, data, rounds=3, warmup_rounds=1
    )


def test_fit_with_landmarks(benchmark, data):
    kernels = [Gaussian(width=2.0**k) for k in range(6)]
    model = BEMKLClassifier(
        KernelBank(kernels, landmarks=50, random_state=0), margin=1.0, intermediate_scale=1.0
    )
    benchmark.pedantic(model.fit, data, rounds=3, warmup_rounds=1)


def test_predict_probabilities(benchmark, data, bank):
    model = BEMKLClassifier(bank, max_iter=20, margin=1.0, intermediate_scale=1.0).fit(*data)
    benchmark(model.predict_proba, data[0])


@pytest.mark.parametrize("statement", ["import bayesmkl", "from bayesmkl import BEMKLClassifier"])
def test_import(benchmark, statement):
    command = [sys.executable, "-c", statement]
    benchmark.pedantic(subprocess.run, (command,), {"check": True}, rounds=5, warmup_rounds=1)
