"""Priors of weights: distributions of values of normal coordinates, pulled gradients, limits."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from bayesmkl.gp.hyperpriors import (
    DirichletShares,
    HalfT,
    Horseshoe,
    LogNormal,
    NestedShares,
    SharesOfKernels,
)

PRIORS = {
    "half-t": HalfT(3.0, 1.5),
    "sparse shares": DirichletShares(0.3, 4.0, 2.0),
    "even shares": DirichletShares(3.0, 4.0, 2.0),
    "horseshoe": Horseshoe(0.2, 4.0),
    "views": SharesOfKernels(NestedShares(0.5, 1.5), np.array([0, 0, 1])),
}
every_prior = pytest.mark.parametrize("prior", PRIORS.values(), ids=PRIORS)
ALPHA = 1e-3  # of a Kolmogorov-Smirnov test with a fixed seed


def draws(prior, rng, n=4000, n_kernels=3):
    u = rng.standard_normal((n, prior.n_coordinates(n_kernels)))
    return np.array([prior.weights(one).values for one in u])


@every_prior
def test_pull_equals_differences(prior, rng):
    u, gradient, h = 1.5 * rng.standard_normal(prior.n_coordinates(3)), rng.normal(size=3), 1e-6
    differences = [
        (prior.weights(u + h * e).values - prior.weights(u - h * e).values) @ gradient / (2 * h)
        for e in np.eye(len(u))
    ]
    np.testing.assert_allclose(prior.weights(u).pull(gradient), differences, rtol=1e-6, atol=1e-9)


@every_prior
def test_far_coordinates_stay_finite(prior):
    for size in (-40.0, -9.0, 9.0, 40.0):
        found = prior.weights(np.full(prior.n_coordinates(3), size))
        assert np.isfinite(found.values).all()
        assert np.isfinite(found.pull(np.ones(3))).all()


def test_half_t_has_its_distribution(rng):
    weights = draws(PRIORS["half-t"], rng).ravel()
    assert stats.kstest(weights, lambda x: 2 * stats.t.cdf(x / 1.5, 3.0) - 1).pvalue > ALPHA


@pytest.mark.parametrize("name", ["sparse shares", "even shares"])
def test_shares_are_dirichlet_and_the_total_half_t(name, rng):
    prior = PRIORS[name]
    squares = draws(prior, rng) ** 2
    total = squares.sum(axis=1)
    shares = squares[:, 1] / total
    assert stats.kstest(shares, stats.beta(prior.concentration, 2 * prior.concentration).cdf).pvalue > ALPHA
    assert stats.kstest(np.sqrt(total), lambda x: 2 * stats.t.cdf(x / 2.0, 4.0) - 1).pvalue > ALPHA
    assert abs(np.corrcoef(shares, np.log(total))[0, 1]) < 0.06


def test_shares_of_views_do_not_depend_on_their_numbers_of_kernels(rng):
    prior = SharesOfKernels(NestedShares(0.5, 1.5, 4.0, 2.0), np.array([0, 0, 0, 1, 2, 2]))
    squares = draws(prior, rng, n_kernels=6) ** 2
    total = squares.sum(axis=1)
    of_views = np.array([squares[:, prior.group == v].sum(axis=1) for v in range(3)]) / total
    for share in of_views:
        assert stats.kstest(share, stats.beta(0.5, 1.0).cdf).pvalue > ALPHA
    for m, others in ((0, 3.0), (5, 1.5)):
        within = squares[:, m] / total / of_views[prior.group[m]]
        assert stats.kstest(within, stats.beta(1.5, others).cdf).pvalue > ALPHA
    assert stats.kstest(np.sqrt(total), lambda x: 2 * stats.t.cdf(x / 2.0, 4.0) - 1).pvalue > ALPHA
    assert abs(np.corrcoef(of_views[0], np.log(total))[0, 1]) < 0.06


def test_horseshoe_is_a_half_cauchy_within_its_slab(rng):
    prior = Horseshoe(0.2, 1e12)
    u = rng.standard_normal((4000, 2))
    common, own = (-stats.cauchy.ppf(0.5 * stats.norm.cdf(-u))).T
    expected = 0.2 * common * own
    found = np.array([prior.weights(one).values[0] for one in u])
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    assert draws(Horseshoe(5.0, 2.0), rng).max() <= 2.0


def test_parameters_are_log_normal(rng):
    u = rng.standard_normal(4000)
    found = LogNormal(0.3, 1.5, 0.2).parameters(u)
    np.testing.assert_allclose(np.log(found.values - 0.2), np.log(0.3) + 1.5 * u, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(found.pull(np.ones(4000)), 1.5 * (found.values - 0.2))
