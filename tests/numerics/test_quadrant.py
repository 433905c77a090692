"""Two normal variables in the positive quadrant: many digits, two-dimensional integration, sampling, symmetry."""

from __future__ import annotations

import jax
import mpmath
import numpy as np
import pytest
from helpers import STANDARD_ERRORS, assert_same
from scipy import integrate, stats
from scipy.special import log_ndtr

from bayesmkl._numerics.quadrant import draw_quadrant, quadrant_moments, quadrant_quantiles
from bayesmkl._numerics.truncated_normal import truncated_moments

pytestmark = pytest.mark.heavy

# linear term, diagonal of the precision, its correlation: mild, both deep in the tail, one there, nearly collinear
CASES = [
    ((0.0, 0.0), (1.0, 1.0), 0.5),
    ((3.0, 2.0), (2.0, 1.0), -0.7),
    ((-5.0, 2.0), (4.0, 1.0), 0.95),
    ((50.0, 50.0), (30.0, 31.0), 0.98),
    ((-40.0, -30.0), (1.0, 1.0), -0.9),
    ((100.0, -100.0), (1.0, 1.0), 0.99),
    ((30.0, 30.0), (1.0, 1.0), 0.995),
    ((20.0, -30.0), (1.0, 1.0), -0.99),
    ((1e-3, 1e2), (1e-4, 1e6), 0.1),
]


def case(linear, diagonal, correlation):
    scale = np.sqrt(diagonal)
    matrix = np.array([[1.0, correlation], [correlation, 1.0]])
    return np.array(linear), matrix * scale * scale[:, None]


def exact_moments(linear, precision):
    """Means, variances, covariance and entropy, by integration over the first variable with 20 digits."""
    with mpmath.workdps(20):
        h = [mpmath.mpf(float(value)) for value in linear]
        p = [[mpmath.mpf(float(value)) for value in row] for row in precision]
        scale = 1 / mpmath.sqrt(p[1][1])

        def second(x):
            """Log mass, mean and variance of the second variable given the first."""
            z = (h[1] - p[0][1] * x) * scale
            cdf = mpmath.erfc(-z / mpmath.sqrt(2)) / 2
            mills = mpmath.exp(-z * z / 2) / mpmath.sqrt(2 * mpmath.pi) / cdf
            return mpmath.log(cdf) + z * z / 2, scale * (z + mills), scale**2 * (1 - mills * (mills + z))

        height = lambda x: h[0] * x - p[0][0] * x * x / 2 + second(x)[0]
        unit = 1 / mpmath.sqrt(p[0][0])
        peak = max([unit * mpmath.mpf(k) for k in range(100)], key=height)
        top, right, left = height(peak), unit / 100, unit / 100
        while height(peak + right) > top - 45:
            right *= 2
        while peak - left > 0 and height(peak - left) > top - 45:
            left *= 2
        low, high = max(mpmath.mpf(0), peak - left), peak + right
        knots = [low + (high - low) * k / 8 for k in range(9)]
        mass = lambda f: mpmath.quad(lambda x: f(x) * mpmath.exp(height(x) - top), knots)
        total = mass(lambda x: 1)
        mean = [mass(lambda x: x) / total, mass(lambda x: second(x)[1]) / total]
        variance = [
            mass(lambda x: (x - mean[0]) ** 2) / total,
            mass(lambda x: second(x)[2] + (second(x)[1] - mean[1]) ** 2) / total,
        ]
        cov = mass(lambda x: (x - mean[0]) * (second(x)[1] - mean[1])) / total
        square = p[0][0] * (variance[0] + mean[0] ** 2) + p[1][1] * (variance[1] + mean[1] ** 2)
        energy = h[0] * mean[0] + h[1] * mean[1] - square / 2 - p[0][1] * (cov + mean[0] * mean[1])
        entropy = mpmath.log(total) + top + mpmath.log(2 * mpmath.pi) / 2 + mpmath.log(scale) - energy
        return np.array([float(value) for value in (*mean, *variance, cov, entropy)])


@pytest.mark.parametrize("index", [2, 4])
def test_moments_against_20_digits(index):
    linear, precision = case(*CASES[index])
    found, exact = quadrant_moments(linear, precision), exact_moments(linear, precision)
    np.testing.assert_allclose(found.mean, exact[:2], rtol=1e-12)
    np.testing.assert_allclose(np.diag(found.cov), exact[2:4], rtol=1e-11)
    deviations = np.sqrt(exact[2] * exact[3])
    np.testing.assert_allclose(found.cov, found.cov.T, rtol=1e-15)
    np.testing.assert_allclose(found.cov[0, 1], exact[4], atol=1e-12 * deviations)
    np.testing.assert_allclose(found.entropy, exact[5], rtol=1e-12)


@pytest.mark.parametrize("case_", CASES[:3])
def test_moments_against_integration_over_the_plane(case_):
    linear, precision = case(*case_)
    found = quadrant_moments(linear, precision)
    density = lambda y, x: np.exp(linear @ [x, y] - 0.5 * np.array([x, y]) @ precision @ [x, y])
    upper = found.mean + 25.0 * np.sqrt(np.diag(found.cov))
    total = integrate.dblquad(density, 0, upper[0], 0, upper[1])[0]
    for power in [(1, 0), (0, 1), (1, 1)]:
        moment = integrate.dblquad(
            lambda y, x, p=power: x ** p[0] * y ** p[1] * density(y, x), 0, upper[0], 0, upper[1]
        )[0]
        expected = found.cov[0, 1] + found.mean.prod() if power == (1, 1) else found.mean[power.index(1)]
        assert moment / total == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("case_", CASES)
def test_moments_do_not_depend_on_which_variable_comes_first(case_):
    """The two are treated differently: one by quadrature, one in closed form."""
    linear, precision = case(*case_)
    one, other = quadrant_moments(linear, precision), quadrant_moments(linear[::-1], precision[::-1, ::-1])
    np.testing.assert_allclose(other.mean[::-1], one.mean, rtol=1e-11)
    deviations = np.sqrt(np.diag(one.cov))
    np.testing.assert_allclose(
        other.cov[::-1, ::-1], one.cov, rtol=1e-9, atol=1e-11 * deviations.max() * deviations.min()
    )
    np.testing.assert_allclose(other.entropy, one.entropy, rtol=1e-11)


@pytest.mark.parametrize("linear", [(0.0, 3.0), (-30.0, 0.1), (5.0, -4.0)])
def test_independent_variables_are_two_cut_off_normals(linear):
    linear, precision = np.array(linear), np.diag([2.0, 0.5])
    scale = 1.0 / np.sqrt(np.diag(precision))
    unit = truncated_moments(linear * scale, np.ones(2), 0.0)
    found = quadrant_moments(linear, precision)
    np.testing.assert_allclose(found.mean, scale * unit.mean, rtol=1e-13)
    np.testing.assert_allclose(np.diag(found.cov), scale**2 * unit.variance, rtol=1e-12)
    np.testing.assert_allclose(found.entropy, (unit.entropy + np.log(scale)).sum(), rtol=1e-12)
    assert abs(found.cov[0, 1]) < 1e-14


def test_far_from_the_axes_nothing_is_cut_off():
    linear, precision = case((60.0, 45.0), (2.0, 1.0), -0.4)
    cov = np.linalg.inv(precision)
    found = quadrant_moments(linear, precision)
    np.testing.assert_allclose(found.mean, cov @ linear, rtol=1e-12)
    assert_same(found.cov, cov, 1e-10)
    np.testing.assert_allclose(found.entropy, stats.multivariate_normal(cov=cov).entropy(), rtol=1e-12)


@pytest.mark.parametrize("case_", [CASES[1], CASES[4], CASES[6]])
def test_draws_against_the_moments(rng, case_):
    linear, precision = case(*case_)
    found, n_draws = quadrant_moments(linear, precision), 400_000
    draws = draw_quadrant(linear, precision, n_draws, rng)
    assert (draws >= 0.0).all()
    deviations = np.sqrt(np.diag(found.cov))
    assert (np.abs(draws.mean(axis=0) - found.mean) < STANDARD_ERRORS * deviations / np.sqrt(n_draws)).all()
    away = (draws - found.mean) / deviations
    for i, j in [(0, 0), (0, 1), (1, 1)]:
        products = away[:, i] * away[:, j]
        expected = found.cov[i, j] / (deviations[i] * deviations[j])
        assert abs(products.mean() - expected) < STANDARD_ERRORS * products.std() / np.sqrt(n_draws)


@pytest.mark.parametrize("case_", CASES[:3])
@pytest.mark.parametrize("probability", [0.01, 0.3, 0.975])
def test_quantiles_against_integration_of_each_variable(case_, probability):
    linear, precision = case(*case_)
    quantiles = quadrant_quantiles(linear, precision, probability)
    moments = quadrant_moments(linear, precision)
    for i, j in ((0, 1), (1, 0)):
        center, deviation = moments.mean[i], np.sqrt(moments.cov[i, i])

        def height(x, i=i, j=j):
            z = (linear[j] - precision[0, 1] * x) / np.sqrt(precision[j, j])
            return linear[i] * x - 0.5 * precision[i, i] * x**2 + 0.5 * z**2 + log_ndtr(z)

        top = height(center)
        density = lambda x, height=height, top=top: np.exp(height(x) - top)
        high = center + 15.0 * deviation
        knots = [quantiles[i], *np.clip(center + deviation * np.array([-2.0, 0.0, 2.0]), 0.0, high)]
        total = integrate.quad(density, 0.0, high, points=knots, limit=500)[0]
        below = integrate.quad(
            density, 0.0, quantiles[i], points=[k for k in knots if k < quantiles[i]], limit=500
        )[0]
        assert below / total == pytest.approx(probability, abs=3e-4)  # between nodes


def test_mean_slope_is_the_covariance_by_finite_difference():
    linear, precision = case(*CASES[1])
    found, h = quadrant_moments(linear, precision), 1e-5
    for i, step in enumerate(h * np.eye(2)):
        high, low = (quadrant_moments(linear + side * step, precision).mean for side in (1.0, -1.0))
        np.testing.assert_allclose((high - low) / (2 * h), found.cov[i], rtol=1e-7)


def test_numpy_and_jax_agree():
    with jax.enable_x64(True):
        moments = jax.jit(quadrant_moments)
        for linear, precision in (case(*values) for values in CASES):
            for found, expected in zip(
                moments(*map(jax.numpy.asarray, (linear, precision))),
                quadrant_moments(linear, precision),
                strict=True,
            ):
                assert_same(np.asarray(found), expected, 1e-10)
