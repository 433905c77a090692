"""Slice sampling: steps that leave a density as it is and need no step size (Neal 2003; Murray et al. 2010)."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

WIDTH = 0.5  # of the first interval of `slice_step`: its variables are logarithms of scales
MOST_STEPS_OUT = 40


def elliptical_slice(
    here: np.ndarray,
    prior_std: np.ndarray,
    log_likelihood: Callable[[np.ndarray], float],
    rng: np.random.Generator,
) -> np.ndarray:
    """Take one elliptical slice step under independent zero-mean normal priors (Murray et al. 2010)."""
    other = prior_std * rng.standard_normal(len(here))
    level = log_likelihood(here) - rng.exponential()

    def rotated(angle: float) -> np.ndarray:
        return math.cos(angle) * here + math.sin(angle) * other

    angle = 2.0 * math.pi * rng.random()
    return rotated(
        _shrink(lambda t: log_likelihood(rotated(t)) > level, angle, angle - 2.0 * math.pi, angle, rng)
    )


def slice_step(log_density: Callable[[float], float], rng: np.random.Generator) -> float:
    """Return one slice-sampling step from 0 with stepping out (Neal 2003, figures 3 and 5)."""
    level = log_density(0.0) - rng.exponential()
    low = -WIDTH * rng.random()
    high = low + WIDTH
    most_down = rng.integers(MOST_STEPS_OUT)
    for _ in range(most_down):
        if log_density(low) <= level:
            break
        low -= WIDTH
    for _ in range(MOST_STEPS_OUT - 1 - most_down):
        if log_density(high) <= level:
            break
        high += WIDTH
    return _shrink(lambda r: log_density(r) > level, rng.uniform(low, high), low, high, rng)


def _shrink(
    accept: Callable[[float], bool], there: float, low: float, high: float, rng: np.random.Generator
) -> float:
    """Draw from an interval around 0 that shrinks towards 0 with every point that is not accepted."""
    while not accept(there) and high - low > 1e-12:
        if there < 0.0:
            low = there
        else:
            high = there
        there = rng.uniform(low, high)
    return there
