"""Evidence: against Gaussian processes of scikit-learn, integrals over all scores, what normal targets say."""

from __future__ import annotations

import numpy as np
import pytest
from problems import NOTHING, additive, kernels, labels, numbers
from scipy.stats import multivariate_normal
from sklearn.gaussian_process import GaussianProcessClassifier, GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

from bayesmkl.gp.conditioning import Sites, condition
from bayesmkl.gp.covariances import Additive
from bayesmkl.gp.evidence import ep_evidence, exact_evidence, laplace_evidence
from bayesmkl.kernels.stacks.dense import DenseStack
from bayesmkl.outcomes import Gaussian, Logit, Probit


def problem(likelihood, rng, n_samples=40):
    X, stack = kernels(rng, n_samples)
    is_regression = bool(likelihood.names)
    y = numbers(rng, X) if is_regression else labels(rng, X)
    return stack, y, np.array([0.35]) if is_regression else NOTHING


def test_equals_the_regression_of_scikit_learn(rng):
    X, y = rng.normal(size=(30, 2)), rng.normal(size=30)
    reference = GaussianProcessRegressor(ConstantKernel(1.7) * RBF(0.8), alpha=0.2**2, optimizer=None).fit(
        X, y
    )
    stack = DenseStack(RBF(0.8)(X)[None])
    covariance, weights, phi = Additive(stack, np.ones(1), 0.0), np.array([np.sqrt(1.7)]), np.array([0.2])
    matrix = covariance.matrix(weights)
    found = exact_evidence(Gaussian(), y, matrix, phi)
    assert found.log_evidence == pytest.approx(reference.log_marginal_likelihood_value_, rel=1e-8)
    _, expected = reference.log_marginal_likelihood(reference.kernel_.theta, eval_gradient=True)
    by_log_variance = 0.5 * weights * covariance.pull(weights, found.by_covariance())
    np.testing.assert_allclose(by_log_variance, expected[:1], rtol=1e-8)
    rows = rng.normal(size=(7, 2))
    cross = covariance.cross(DenseStack(RBF(0.8)(rows, X)[None]), weights, weights)
    mean, std = reference.predict(rows, return_std=True)
    variance = 1.7 - np.einsum("ij,jk,ik->i", cross, found.posterior.shrinkage, cross)
    np.testing.assert_allclose(cross @ found.posterior.dual, mean, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(np.sqrt(variance), std, rtol=1e-8)


def test_laplace_equals_the_classifier_of_scikit_learn(rng):
    X = rng.normal(size=(40, 2))
    y = labels(rng, X)
    reference = GaussianProcessClassifier(ConstantKernel(2.3) * RBF(0.9), optimizer=None).fit(X, y)
    covariance = Additive(DenseStack(RBF(0.9)(X)[None]), np.ones(1), 0.0)
    weights = np.array([np.sqrt(2.3)])
    found = laplace_evidence(Logit(), y, covariance.matrix(weights), NOTHING)
    assert found.log_evidence == pytest.approx(reference.log_marginal_likelihood_value_, rel=1e-8)
    _, expected = reference.log_marginal_likelihood(reference.kernel_.theta, eval_gradient=True)
    np.testing.assert_allclose(
        0.5 * weights * covariance.pull(weights, found.by_covariance()), expected[:1], rtol=1e-6
    )


@pytest.mark.parametrize("likelihood", [Probit(), Logit()], ids=["probit", "logit"])
def test_ep_is_near_the_integral_over_all_scores(likelihood, rng):
    """On a grid over two scores, whose marginals are checked as well."""
    matrix, y = np.array([[2.0, 1.1], [1.1, 1.5]]), np.array([1.0, -1.0])
    grid = np.linspace(-9.0, 9.0, 601)
    first, second = np.meshgrid(grid, grid, indexing="ij")
    log_density = sum(likelihood.log_density(y[i], f, NOTHING) for i, f in enumerate((first, second)))
    density = np.exp(log_density) * multivariate_normal([0, 0], matrix).pdf(
        np.stack([first, second], axis=-1)
    )
    cell = (grid[1] - grid[0]) ** 2
    found, laplace = (f(likelihood, y, matrix, NOTHING) for f in (ep_evidence, laplace_evidence))
    exact = np.log(density.sum() * cell)
    assert abs(found.log_evidence - exact) < 2e-3
    assert abs(found.log_evidence - exact) < 0.1 * abs(laplace.log_evidence - exact)
    means = [(density * f).sum() / density.sum() for f in (first, second)]
    np.testing.assert_allclose(found.posterior.mean, means, atol=2e-3)


def test_exact_equals_the_density_of_the_targets(rng):
    stack, y, phi = problem(Gaussian(), rng)
    matrix = additive(stack).matrix(np.array([1.0, 0.3, -0.2]))
    expected = multivariate_normal(np.zeros(len(y)), matrix + phi[0] ** 2 * np.eye(len(y))).logpdf(y)
    for evidence in (exact_evidence, ep_evidence, laplace_evidence):
        assert evidence(Gaussian(), y, matrix, phi).log_evidence == pytest.approx(expected, rel=1e-9)


def test_conditioning_is_that_of_normal_targets(rng):
    """A site of precision t and linear term n is a target n / t with variance 1 / t; one of none changes nothing."""
    root = rng.normal(size=(8, 8))
    matrix, sites = (
        root @ root.T,
        Sites(np.append(rng.gamma(1.0, size=7), 0.0), np.append(rng.normal(size=7), 0.0)),
    )
    found = condition(matrix, sites)
    seen, precision = matrix[:7, :7], sites.precision[:7]
    gain = matrix[:, :7] @ np.linalg.inv(seen + np.diag(1.0 / precision))
    np.testing.assert_allclose(found.mean, gain @ (sites.linear[:7] / precision), rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(found.variance, np.diag(matrix - gain @ matrix[:7]), rtol=1e-9)
    expected = 0.5 * np.linalg.slogdet(np.eye(7) + seen * precision)[1]
    assert found.half_log_det == pytest.approx(expected, rel=1e-10)
    vector = rng.normal(size=8)
    np.testing.assert_allclose(
        found.remain(vector)[:7], (vector - found.shrinkage @ (matrix @ vector))[:7], rtol=1e-8, atol=1e-9
    )


def test_variances_where_sites_say_nothing_little_and_all(rng):
    root = rng.normal(size=(12, 12))
    matrix = root @ root.T + np.eye(12)
    sites = Sites(np.append(0.0, np.logspace(-14, 8, 11)), rng.normal(size=12))
    expected = np.diag(np.linalg.inv(np.linalg.inv(matrix) + np.diag(sites.precision)))
    np.testing.assert_allclose(condition(matrix, sites).variance, expected, rtol=1e-8)


def test_start_of_sites_saves_steps_and_changes_nothing(rng):
    stack, y, phi = problem(Probit(), rng)
    covariance = additive(stack)
    cold = ep_evidence(Probit(), y, covariance.matrix(np.array([1.0, 0.5, 0.2])), phi)
    moved = covariance.matrix(np.array([1.02, 0.5, 0.2]))
    again, warm = (ep_evidence(Probit(), y, moved, phi, start) for start in (None, cold.sites))
    assert warm.n_steps < again.n_steps
    assert warm.log_evidence == pytest.approx(again.log_evidence, abs=1e-9)
