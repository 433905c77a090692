"""The comparison with softmax has the kernels of GPMKL, the densities that it says, and counts its rows."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from scipy import stats
from scipy.special import log_softmax

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "benchmarks"))

import _class_chains as chains
import softmax as benchmark

from bayesmkl._utils.numpyro_session import numpyro_session
from bayesmkl.kernels.stacks.dense import DenseStack
from bayesmkl.marginal.covariances import kernel_units


@pytest.fixture(scope="module")
def split():
    return benchmark.simulated(3, 12, 5)(0)


def test_kernels_have_the_units_of_gpmkl(split):
    problem = benchmark.problem_of(split)
    kernels = np.moveaxis(split.bank.fit_transform(split.X), -1, 0)
    np.testing.assert_allclose(problem.kernels, kernels / kernel_units(DenseStack(kernels))[:, None, None])
    ratio = problem.new / np.moveaxis(split.bank.transform(split.X_test), -1, 0)
    np.testing.assert_allclose(ratio, np.broadcast_to(problem.diagonal[:, :1, None], ratio.shape))


@pytest.mark.parametrize("likelihood", benchmark.CHAINS)
def test_density_of_the_program(likelihood, split):
    from numpyro.infer.util import log_density

    problem, rng = benchmark.problem_of(split), np.random.default_rng(0)
    values = {"total": 1.7, "parts": np.array([0.5, 0.2, 0.3]), "whitened": rng.normal(size=(3, 12))}
    with numpyro_session():
        options = {"n_classes": 3, "likelihood": likelihood}
        found = float(log_density(chains.program, (problem.kernels, problem.codes), options, values)[0])
    variances = 1.7**2 * values["parts"]
    covariance = (
        np.tensordot(variances, problem.kernels, 1) + 9.0 + 1e-6 * (1.0 + variances.sum()) * np.eye(12)
    )
    score = np.linalg.cholesky(covariance) @ values["whitened"].T
    own = np.arange(3) == split.y[:, None]
    if likelihood == "softmax":
        data = log_softmax(score, axis=1)[own].sum()
    else:
        data = -np.logaddexp(0.0, np.where(own, -score, score)).sum()
    prior = (
        np.log(2.0) + stats.t.logpdf(1.7, 4.0, scale=2.0) + stats.dirichlet.logpdf(values["parts"], [0.5] * 3)
    )
    assert found == pytest.approx(prior + stats.norm.logpdf(values["whitened"]).sum() + data, rel=1e-9)


def test_rows_are_compared_split_by_split():
    rows = [
        {"set": "s", "split": k, "model": m, "log_loss": 0.5 + 0.1 * k + up + 0.01 * k * bool(up)}
        for k in range(3)
        for m, up in ((benchmark.OURS["probit"], 0.02), (benchmark.CHAINS["softmax"], 0.0))
    ]
    mean, error = benchmark.gap(rows, "s", benchmark.OURS["probit"], benchmark.CHAINS["softmax"], "log_loss")
    assert mean == pytest.approx(0.03)
    assert error == pytest.approx(np.std([0.02, 0.03, 0.04], ddof=1) / np.sqrt(3))
