"""Slice steps against densities whose moments are known."""

from __future__ import annotations

import numpy as np
from helpers import assert_monte_carlo
from scipy import stats

from bayesmkl._numerics.slice_sampling import elliptical_slice, slice_step


def test_elliptical_slices_sample_a_conjugate_posterior(rng):
    prior_std, noise = np.array([1.0, 3.0]), 0.5
    target = np.array([1.0, -2.0])
    here, draws = np.zeros(2), []
    for _ in range(8000):
        here = elliptical_slice(here, prior_std, lambda w: -0.5 * np.sum((w - target) ** 2) / noise**2, rng)
        draws.append(here)
    variance = 1.0 / (prior_std**-2 + noise**-2)
    thinned = np.array(draws)[::8]
    assert_monte_carlo(thinned, variance * target / noise**2)
    assert_monte_carlo((thinned - variance * target / noise**2) ** 2, variance)


def test_slice_steps_sample_a_skewed_density(rng):
    here, draws = 0.0, []
    for _ in range(8000):  # log of a Gamma(2, 3) variable
        here += slice_step(lambda r, here=here: 2.0 * (here + r) - 3.0 * np.exp(here + r), rng)
        draws.append(np.exp(here))
    law = stats.gamma(2.0, scale=1.0 / 3.0)
    assert_monte_carlo(np.array(draws)[::8], law.mean())
    assert_monte_carlo((np.array(draws)[::8] - law.mean()) ** 2, law.var())
