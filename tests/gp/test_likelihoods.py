"""Likelihoods: derivatives by automatic differentiation, integrals by quadrature, moments by sampling, far tails."""

from __future__ import annotations

import jax
import mpmath
import numpy as np
import pytest
from helpers import SPECIAL_FUNCTION, STANDARD_ERRORS
from scipy.integrate import quad

from bayesmkl._utils.devices import double_precision
from bayesmkl.outcomes import Gaussian, Logit, Probit
from bayesmkl.outcomes.base import tilt

LIKELIHOODS = {"gaussian": Gaussian(), "probit": Probit(), "logit": Logit()}
every_likelihood = pytest.mark.parametrize("likelihood", LIKELIHOODS.values(), ids=LIKELIHOODS)


def parameters_of(likelihood):
    return np.full(len(likelihood.names), 0.7)


def targets_of(likelihood, rng, n):
    return (
        rng.normal(size=n) if isinstance(likelihood, Gaussian) else np.where(rng.random(n) < 0.5, -1.0, 1.0)
    )


@pytest.mark.heavy
@every_likelihood
def test_derivatives_equal_automatic_ones(likelihood, rng):
    """Each is the automatic derivative of the one before."""
    y, f, phi = targets_of(likelihood, rng, 9), 3.0 * rng.normal(size=9), parameters_of(likelihood)
    found = likelihood.derivatives(y, f, phi)
    orders = {
        "first": lambda *at: likelihood.log_density(*at),
        "second": lambda *at: likelihood.derivatives(*at).first,
        "third": lambda *at: likelihood.derivatives(*at).second,
    }
    with double_precision():
        at = [jax.numpy.asarray(values) for values in (y, f, phi)]
        for name, lower in orders.items():
            _, slope = jax.jvp(
                lambda score, lower=lower: lower(at[0], score, at[2]), (at[1],), (jax.numpy.ones(9),)
            )
            np.testing.assert_allclose(getattr(found, name), slope, rtol=1e-9, atol=1e-11)
        for name, lower in zip(
            ("parameters", "first_parameters", "second_parameters"), orders.values(), strict=True
        ):
            slopes = jax.jacfwd(lambda parameters, lower=lower: lower(at[0], at[1], parameters))(at[2])
            np.testing.assert_allclose(getattr(found, name).T, slopes, rtol=1e-9, atol=1e-11)


@pytest.mark.heavy
@every_likelihood
@pytest.mark.parametrize("variance", [1e-3, 1.0, 60.0])
def test_tilted_equals_adaptive_quadrature(likelihood, variance, rng):
    y, m, phi = targets_of(likelihood, rng, 4), 2.0 * rng.normal(size=4), parameters_of(likelihood)
    found = likelihood.tilted(y, m, np.full(4, variance), phi)
    sd = np.sqrt(variance)
    for i in range(4):

        def integrand(f, power, i=i):
            log_density = likelihood.log_density(y[i : i + 1], np.array([f]), phi)[0]
            return f**power * np.exp(log_density - 0.5 * ((f - m[i]) / sd) ** 2) / (sd * np.sqrt(2.0 * np.pi))

        points = sorted({0.0, float(m[i]), float(y[i])})
        z, first, second = (
            quad(
                integrand,
                m[i] - 12 * sd,
                m[i] + 12 * sd,
                (power,),
                points=points,
                epsabs=1e-14,
                epsrel=1e-13,
                limit=500,
            )[0]
            for power in range(3)
        )
        mean = m[i] + variance * found.first[i]
        np.testing.assert_allclose(found.log_normalizer[i], np.log(z), rtol=0, atol=1e-8)
        np.testing.assert_allclose(mean, first / z, rtol=1e-7, atol=1e-7)
        np.testing.assert_allclose(
            variance + variance**2 * found.second[i], second / z - (first / z) ** 2, rtol=1e-6, atol=1e-7
        )


@pytest.mark.parametrize("likelihood", [Gaussian(), Probit()])
def test_quadrature_equals_the_closed_forms(likelihood, rng):
    y, m, v, phi = (
        targets_of(likelihood, rng, 50),
        2 * rng.normal(size=50),
        rng.gamma(1.0, size=50),
        parameters_of(likelihood),
    )
    for found, expected in zip(tilt(likelihood, y, m, v, phi), likelihood.tilted(y, m, v, phi), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-9)


@every_likelihood
def test_predicted_moments_equal_those_of_draws(likelihood, rng):
    mean, variance, phi = np.array([0.8]), np.array([1.7]), parameters_of(likelihood)
    scores = mean + np.sqrt(variance) * rng.standard_normal(200_000)
    drawn = likelihood.sample(scores, phi, rng)
    found = likelihood.predict(mean, variance, phi)
    assert abs(drawn.mean() - found.mean[0]) < STANDARD_ERRORS * drawn.std() / np.sqrt(drawn.size)
    spread = ((drawn - drawn.mean()) ** 2).std() / np.sqrt(drawn.size)
    assert abs(drawn.var() - found.variance[0]) < STANDARD_ERRORS * spread + 1e-12


@pytest.mark.parametrize("z", [-300.0, -38.0, -9.0, -1.0, 0.5, 6.0, 30.0])
def test_probit_keeps_its_digits_in_the_tails(z):
    with mpmath.workdps(60):
        cdf, density = mpmath.ncdf(z), mpmath.npdf(z)
        ratio = density / cdf
        first, second = float(ratio), float(-ratio * (z + ratio))
    found = Probit().derivatives(np.ones(1), np.array([z]), np.zeros(0))
    np.testing.assert_allclose(found.first, first, rtol=100 * SPECIAL_FUNCTION)
    np.testing.assert_allclose(found.second, second, rtol=1e-9)
