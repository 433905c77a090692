"""Intervals of shares against committed exact posteriors, and the correction that made them against integrals."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import multivariate_normal, norm

from bayesmkl.gp.covariances import Additive, Weighted, kernel_units
from bayesmkl.gp.evidence import ep_evidence
from bayesmkl.gp.hyperposterior import Hypermodel, evaluate
from bayesmkl.gp.hyperpriors import HalfT, LogNormal, StudentT
from bayesmkl.kernels.stacks.dense import DenseStack
from bayesmkl.outcomes import Probit

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

import _orthants as orthants
import _pseudo_marginal as exact
import _reference_sets as sets
import _references as files
import reference_posteriors as references

SCORED = ("a_views_50", "a_smooth_50")


@pytest.fixture(params=["additive", "weighted"])
def five(request):
    """A model of five samples, whose evidence is the probability of an orthant."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2, 5, 3))
    stack = DenseStack(X @ X.transpose(0, 2, 1))
    labels = np.where(rng.random((1, 5)) < 0.5, -1.0, 1.0)
    if request.param == "additive":
        covariance, prior = Additive(stack, kernel_units(stack), 1.0), HalfT(4.0, 2.0)
    else:
        covariance, prior = Weighted(stack, 0.3, 1.0), StudentT(2.0, 1.0)
    return Hypermodel(covariance, Probit(), labels, prior, LogNormal(), ep_evidence)


@pytest.mark.heavy
def test_weights_are_the_exact_evidence_over_that_of_expectation_propagation(five):
    u = np.array([0.8, 1.2])
    point, _ = evaluate(five, u, None)
    chains = exact.Chains(np.tile(u, (1, 200, 1)), [[point] * 200], 1.0, 0, 0)
    found = exact.correct(five, chains, 64, seed=0)
    signs = five.targets[0]
    noisy = np.outer(signs, signs) * (five.covariance.matrix(five.values(u)[0]) + np.eye(5))
    orthant = multivariate_normal(np.zeros(5), noisy).cdf(np.zeros(5))
    assert_allclose(np.exp(found.log_weights).mean() * np.exp(point.log_evidence), orthant, rtol=1e-2)
    assert found.residual < 1e-6


def test_equally_correlated_numbers_are_positive_as_often_as_one_of_them_is_the_least(rng):
    """With correlation ½ they are differences z_i - z_0 of independent ones: z_0 is the least of n + 1 numbers."""
    n = 40
    draws, log_weights = orthants.positive_draws(0.5 + 0.5 * np.eye(n), 4000, rng)
    weights = np.exp(log_weights)
    assert draws.min() > 0.0
    assert_allclose(weights.mean(), 1.0 / (n + 1), atol=4.0 * weights.std() / np.sqrt(4000))
    assert weights.std() < 0.7 * weights.mean()
    # means of z_i - z_0, in units of sqrt(2): z_0 is the least one, the others have -1/n of its mean
    grid = np.linspace(-8.0, 8.0, 4001)
    density = (n + 1) * norm.pdf(grid) * norm.sf(grid) ** n
    least = np.trapezoid(grid * density, grid)
    expected = -least * (1.0 + 1.0 / n) / np.sqrt(2.0)
    means = draws @ weights / weights.sum()
    assert_allclose(means.mean(), expected, rtol=0.01)
    assert_allclose(means, expected, rtol=0.1)


@pytest.mark.heavy
def test_chains_have_the_moments_of_the_posterior(five):
    chains = exact.run_chains(five, n_chains=4, n_warmup=15, n_draws=60, acceptance=0.8, seed=0)
    grid = np.linspace(-4.0, 4.0, 17)
    points = np.stack(np.meshgrid(grid, grid), axis=-1).reshape(-1, 2)
    heights = np.array([evaluate(five, u, None)[0].log_density for u in points])
    weights = np.exp(heights - heights.max())
    weights /= weights.sum()
    expected = weights @ points**2
    ess = 90.0
    spread = np.sqrt(weights @ (points**2 - expected) ** 2)
    assert np.all(np.abs((chains.coordinates**2).mean(axis=(0, 1)) - expected) < 4.0 * spread / np.sqrt(ess))
    assert chains.n_divergent == 0


@pytest.mark.parametrize("path", sorted(files.FOLDER.glob("*.json")), ids=lambda path: path.stem)
def test_references_are_complete(path):
    found = files.load(path.stem)
    assert found["name"] in sets.PROBLEMS
    share = found["quantities"]["share"]
    assert len(share["mean"]) == len(found["kernels"]) == found["n_kernels"]
    assert sum(share["mean"]) == pytest.approx(1.0, abs=1e-3)
    assert np.all(np.diff(share["quantiles"], axis=1) >= 0.0)
    draws = np.array(found["share_draws"]) / files.UNITS
    assert np.all(
        np.abs(draws.mean(axis=0) - share["mean"]) < 6.0 * np.array(share["sd"]) / np.sqrt(len(draws))
    )


@pytest.mark.heavy
@pytest.mark.parametrize("name", SCORED)
def test_default_intervals_hold_what_they_say(name):
    problem, reference = sets.build(name), files.load(name)
    assert_allclose(files.fingerprint(problem), reference["fingerprint"], rtol=1e-6)
    row = references.score(problem, reference, "GPMKL", "marginal")
    assert row["held_least"] >= references.LEAST
    assert row["held_most"] <= references.MOST
    assert row["width_most"] <= references.WIDEST
    assert row["error_most"] < 0.25
    assert abs(row["log_evidence_off"]) < 0.2
