"""Places of the truth among weighted draws, and the bands that they are judged by, in studies of calibration."""

from __future__ import annotations

import _ranks as ranks
import numpy as np
from numpy.testing import assert_allclose
from scipy.stats import kstest


def places_of(rng, shift=0.0, n=250):
    """Theta ~ N(0, 1), y ~ N(theta, 1); draws from a wider density, weighted to the posterior moved by `shift`."""
    found = []
    for _ in range(n):
        truth = rng.standard_normal()
        y = truth + rng.standard_normal()
        draws = 0.5 * y + rng.standard_normal(200)
        log_weights = -((draws - 0.5 * y - shift) ** 2) + 0.5 * (draws - 0.5 * y) ** 2
        weights = np.exp(log_weights)
        weights /= weights.sum()
        ess = 1.0 / (weights**2).sum()
        found.append(ranks.weighted_rank(draws[:, None], weights, ess, np.array([truth]), rng))
    return np.array(found)


def test_places_are_uniform_under_the_posterior_and_outside_the_band_under_another():
    rng = np.random.default_rng(0)
    right, wrong = places_of(rng), places_of(rng, shift=0.4)
    assert kstest(right[:, 0], "uniform").pvalue > 0.05
    low, high = ranks.simultaneous_band(len(right))
    (difference,), (off,) = ranks.ecdf_difference(right), ranks.ecdf_difference(wrong)
    assert np.all((low <= difference) & (difference <= high))
    assert not np.all((low <= off) & (off <= high))
    assert ranks.asymmetry(right[:, 0]) > 0.05 > 1e-6 > ranks.asymmetry(wrong[:, 0])
    assert_allclose(ranks.coverage(right)["coverage"], [50.0, 80.0, 94.0], atol=10.0)


def test_bands_hold_so_many_sets_of_uniform_numbers():
    rng = np.random.default_rng(1)
    ecdf = (rng.random((1000, 100, 1)) <= ranks.GRID).mean(axis=1) - ranks.GRID
    low, high = ranks.simultaneous_band(100)
    inside = ((ecdf >= low - 1e-12) & (ecdf <= high + 1e-12)).all(axis=1).mean()
    assert 0.93 < inside < 0.985
