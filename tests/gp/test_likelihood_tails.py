"""Likelihoods of outcomes at extreme arguments, against definitions in fifty digits and more."""

from __future__ import annotations

import mpmath as mp
import numpy as np
import pytest
from outcome_problems import INF, LIKELIHOODS, log_density_in_many_digits

DIGITS = 80
STEP = mp.mpf(10) ** -18  # of differences: their error is far below that of double precision
CLOSE = 1e-7  # asked of gradient and curvature
FAR = (-300.0, -30.0, -4.0, 0.0, 5.0, 40.0, 250.0)

COUNTS = [[0.0], [1.0], [30.0], [1e6]]
TIMES = [
    [0.3, 0.3, -INF], [0.3, INF, -INF], [-INF, 0.3, -INF], [0.3, 0.7, -INF], [0.3, 0.3 + 1e-4, -INF],
    [-3.0, 4.0, -INF], [9.0, 9.0, -INF], [-20.0, -20.0, -INF], [0.3, 0.3, 0.1], [0.3, INF, -5.0],
    [0.3, 1.1, 0.2],
]  # fmt: skip
CASES = {
    "student-t": ([[-1e4], [0.0], [0.3], [50.0]], [[0.5, 4.0], [1e-4, 2.0001], [100.0, 1e6], [0.3, 1e3]]),
    "poisson": (COUNTS, [[]]),
    "negative-binomial": (COUNTS, [[1e-4], [1.0], [200.0], [1e6]]),
    "beta-binomial": (
        [[0, 1], [1, 1], [3, 8], [0, 500], [500, 500], [70, 500]],
        [[1e-3], [1.0], [200.0], [1e5]],
    ),
    "ordinal": ([[0.0], [1.0], [2.0], [3.0]], [[0.6, 1.1], [1e-4, 3.0], [20.0, 1e-3], [1e-4, 1e-4]]),
    "log-normal": (TIMES, [[0.6], [1e-3], [30.0]]),
    "log-logistic": (TIMES, [[0.6], [1e-3], [30.0]]),
    "weibull": (TIMES, [[0.6], [0.05], [30.0]]),
    "hazards": (TIMES, [[0.8, 1.3, 0.5], [1e-4, 10.0, 1e-3]]),
}


def reference(name, y, score, parameters):
    """Return the log density and its derivatives by score, twice, and parameters."""

    def along(step, which=None):
        moved = [mp.mpf(value) for value in parameters]
        if which is not None:
            moved[which] *= 1 + step
        return log_density_in_many_digits(name, y, mp.mpf(score) + (step if which is None else 0), moved)

    at = along(mp.mpf(0))
    up, down = along(STEP), along(-STEP)
    found = [at, (up - down) / (2 * STEP), (up - 2 * at + down) / STEP**2]
    for which, value in enumerate(parameters):
        found.append((along(STEP, which) - along(-STEP, which)) / (2 * STEP * mp.mpf(value)))
    return found


@pytest.mark.heavy
@pytest.mark.parametrize("name", CASES)
def test_gradient_and_curvature_have_seven_digits_at_extreme_arguments(name):
    likelihood = LIKELIHOODS[name][0]
    targets, settings = CASES[name]
    wrong = []
    for parameters in settings:
        for target in targets:
            y = np.tile(np.array(target, dtype=float)[:, None], len(FAR))
            y = y[0] if len(y) == 1 else y
            scores, own = np.array(FAR), np.array(parameters)
            with np.errstate(all="ignore"):
                value = likelihood.log_density(y, scores, own)
                slopes = likelihood.derivatives(y, scores, own)
            found = np.array([value, slopes.first, slopes.second, *slopes.parameters])
            for i, score in enumerate(FAR):
                with mp.workdps(DIGITS):
                    expected = [float(number) for number in reference(name, target, score, parameters)]
                if not np.abs(expected).max() < 1e100:  # beyond the largest hazard that is told apart
                    continue
                slack = np.array([1e-9, 1e-10, 1e-14] + [1e-10] * len(parameters))
                if (
                    target[-1] > -INF and name == "log-normal"
                ):  # late: of two curvatures that are nearly the same
                    slack[2] = 1e-10 / parameters[0] ** 2
                off = np.abs(found[:, i] - expected) > CLOSE * np.abs(expected) + slack
                wrong += [
                    (name, parameters, target, score, k, expected[k], found[k, i])
                    for k in np.flatnonzero(off)
                ]
    assert not wrong, f"{len(wrong)}: " + "\n".join(map(str, wrong[:40]))
