"""Entropies and bound terms of single factors against scipy.stats, numerical integration and loops."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from helpers import (
    random_gaussian,
    random_intermediate,
)
from scipy import integrate, stats

from bayesmkl.bemkl.moments import Gamma, Gaussian

N_KERNELS, N_SAMPLES = 3, 6
PRIORS = [Gamma(1.0, 1.0), Gamma(0.6, 2.1), Gamma(3.4, 0.2), Gamma(1e-10, 1e-10)]


def gamma_law(factor):
    return stats.gamma(factor.concentration, scale=1.0 / factor.rate)


def expectation(law, function):
    """Return E[function(x)] by quadrature in log x, piecewise because the left tail is long."""
    nodes = [-400.0, -100.0, -30.0, -10.0, -3.0, 0.0, 2.0, 4.0, 6.0]
    integrand = lambda u: np.exp(law.logpdf(np.exp(u)) + u) * function(np.exp(u))
    pieces = itertools.pairwise(nodes)
    return sum(integrate.quad(integrand, *ends, epsabs=1e-13, epsrel=1e-12)[0] for ends in pieces)


@pytest.mark.parametrize("factor", [Gamma(1.5, 0.8), Gamma(0.5, 2.0), Gamma(5.0, 3.0)])
def test_gamma_moments_against_integration(factor):
    factor = Gamma(factor.concentration, np.array(factor.rate))
    np.testing.assert_allclose(factor.mean, expectation(gamma_law(factor), lambda x: x), rtol=1e-9)
    np.testing.assert_allclose(factor.log_mean, expectation(gamma_law(factor), np.log), rtol=1e-9)


@pytest.mark.heavy
@pytest.mark.parametrize("prior", PRIORS, ids=str)
@pytest.mark.parametrize("concentration", [0.5, 1.5, 4.2])
def test_gamma_bound_against_integration_and_scipy_entropy(prior, concentration):
    rates = np.array([0.3, 1.0, 2.5])
    expected = 0.0
    for rate in rates:
        law = gamma_law(Gamma(concentration, rate))
        expected += expectation(law, gamma_law(prior).logpdf) + law.entropy()
    found = Gamma(concentration, rates).bound(prior)
    np.testing.assert_allclose(found, expected, rtol=1e-8)


def test_gaussian_entropy_and_moments_against_scipy(rng):
    factor = random_gaussian(rng, 5)
    np.testing.assert_allclose(factor.entropy, stats.multivariate_normal(factor.mean, factor.cov).entropy())
    np.testing.assert_allclose(factor.log_det, np.log(np.linalg.eigvalsh(factor.cov)).sum())
    np.testing.assert_allclose(factor.variance, np.diag(factor.cov))
    np.testing.assert_allclose(factor.square, np.diag(factor.cov + np.outer(factor.mean, factor.mean)))
    assert Gaussian.from_moments(factor.mean, 4.0 * factor.cov).log_det == pytest.approx(
        factor.log_det + 5 * np.log(4.0)
    )


def test_intermediate_entropy_against_scipy_column_by_column(rng):
    factor = random_intermediate(rng, N_KERNELS, N_SAMPLES)
    columns = [stats.multivariate_normal(column, factor.cov).entropy() for column in factor.mean.T]
    np.testing.assert_allclose(factor.entropy, sum(columns))
