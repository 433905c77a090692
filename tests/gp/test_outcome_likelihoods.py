"""Likelihoods of outcomes: derivatives, integrals over normal scores, special cases, draws.

Likelihoods of outcomes at extreme arguments, against definitions in fifty digits and more.
"""

from __future__ import annotations

import jax
import mpmath as mp
import numpy as np
import pytest
from helpers import STANDARD_ERRORS
from problems import INF, LIKELIHOODS, TIMES, log_density_in_many_digits, targets
from scipy import integrate, stats
from scipy.special import logsumexp

from bayesmkl._utils.devices import double_precision
from bayesmkl.outcomes import (
    BetaBinomial,
    FailureTime,
    Gaussian,
    NegativeBinomial,
    Offset,
    OrdinalProbit,
    PiecewiseHazard,
    Poisson,
    Probit,
    StudentT,
)

every_likelihood = pytest.mark.parametrize("name", LIKELIHOODS)
NONE = np.zeros(0)


def problem(name, rng, n=10):
    likelihood, parameters = LIKELIHOODS[name]
    return likelihood, targets(name, n, rng), rng.normal(size=n), np.array(parameters)


def differences(function, h):
    return (8 * (function(h) - function(-h)) - (function(2 * h) - function(-2 * h))) / (12 * h)


@every_likelihood
def test_derivatives_equal_differences_of_the_one_before(name, rng):
    likelihood, y, f, phi = problem(name, rng)
    found = likelihood.derivatives(y, f, phi)
    below = {
        "": lambda *at: likelihood.log_density(y, *at),
        "first_": lambda *at: likelihood.derivatives(y, *at).first,
        "second_": lambda *at: likelihood.derivatives(y, *at).second,
    }
    for own, (which, lower) in zip(("first", "second", "third"), below.items(), strict=True):
        expected = differences(lambda h, lower=lower: lower(f + h, phi), 1e-3)
        np.testing.assert_allclose(getattr(found, own), expected, rtol=1e-7, atol=1e-8)
        slopes = [
            differences(lambda h, lower=lower, e=e: lower(f, phi + h * e), 2e-4) for e in np.eye(len(phi))
        ]
        expected = np.array(slopes).reshape(len(phi), len(f))
        np.testing.assert_allclose(getattr(found, f"{which}parameters"), expected, rtol=1e-7, atol=1e-7)


@pytest.mark.slow
@pytest.mark.heavy
@every_likelihood
def test_jax_equals_numpy(name, rng):
    likelihood, y, f, phi = problem(name, rng)
    variance = rng.gamma(1.0, size=len(f))
    with double_precision():
        given = [jax.numpy.asarray(value) for value in (y, f, phi, variance)]

        @jax.jit
        def on_jax(y, f, phi, variance):
            return (
                likelihood.log_density(y, f, phi),
                *likelihood.derivatives(y, f, phi),
                *likelihood.tilted(y, f, variance, phi),
                *(likelihood.predict(f, variance, phi) if name not in ("hazards",) else ()),
            )

        theirs = on_jax(*given)
    ours = (
        likelihood.log_density(y, f, phi),
        *likelihood.derivatives(y, f, phi),
        *likelihood.tilted(y, f, variance, phi),
        *likelihood.predict(f, variance, phi),
    )
    for one, other in zip(ours, theirs, strict=name != "hazards"):
        np.testing.assert_allclose(other, one, rtol=1e-8, atol=1e-9)


@pytest.mark.heavy
@every_likelihood
@pytest.mark.parametrize("variance", [1e-3, 0.3, 10.0])
def test_tilted_equals_a_dense_sum_with_its_derivatives(name, variance, rng):
    """Of scores whose standard deviation is up to five times the scale of the density."""
    likelihood, y, m, phi = problem(name, rng)
    found, sd = likelihood.tilted(y, m, np.full(10, variance), phi), np.sqrt(variance)
    steps = np.linspace(-11.0, 11.0, 8001)[:, None]
    scores = m + sd * steps
    terms = np.exp(likelihood.log_density(y, scores, phi)) * stats.norm.pdf(steps) * (steps[1] - steps[0])
    z = terms.sum(axis=0)
    mean = (terms * steps).sum(axis=0) / z
    spread = (terms * (steps - mean) ** 2).sum(axis=0) / z
    slopes = (terms * likelihood.derivatives(y, scores, phi, 0).parameters).sum(axis=1) / z
    tolerance = 1e-5 if variance == 10.0 else 1e-7
    np.testing.assert_allclose(found.log_normalizer, np.log(z), rtol=0, atol=0.1 * tolerance)
    np.testing.assert_allclose(found.first * sd, mean, rtol=tolerance, atol=tolerance)
    np.testing.assert_allclose(found.second * variance, spread - 1.0, rtol=tolerance, atol=tolerance)
    np.testing.assert_allclose(found.parameters, slopes, rtol=tolerance, atol=tolerance)


def test_the_integral_at_a_gross_error_equals_a_dense_sum():
    steps, sd, phi, y = np.linspace(-11.0, 11.0, 8001)[:, None], 0.5, np.array([0.3, 30.0]), np.full(1, 60.0)
    heights = StudentT().log_density(y, sd * steps, phi) + stats.norm.logpdf(steps)
    expected = logsumexp(heights) + np.log(steps[1, 0] - steps[0, 0])
    found = StudentT().tilted(y, np.zeros(1), np.full(1, sd**2), phi)
    np.testing.assert_allclose(found.log_normalizer, expected, rtol=1e-9)


@pytest.mark.parametrize("name", ["weibull", "log-logistic", "hazards", "poisson", "beta-binomial"])
@pytest.mark.parametrize("variance", [1e4, 1e7])
def test_tilted_is_the_integral_of_the_density_where_scores_may_be_anything(name, variance, rng):
    """A wide normal density is flat where the density is, and the product is the area of that."""
    likelihood, y, _, phi = problem(name, rng, 12)
    if name == "beta-binomial":
        y[1] += 2.0
        y[0] = np.clip(y[0], 1.0, y[1] - 1.0)
    elif name == "poisson":
        y += 1.0
    else:
        y[1], y[2] = y[0], -INF
        y[0] = y[1] = np.where(np.isfinite(y[0]), y[0], 0.3)
    found = likelihood.tilted(y, np.zeros(12), np.full(12, variance), phi)
    scores = np.linspace(-60.0, 60.0, 20_001)[:, None]
    heights = likelihood.log_density(y, scores, phi) + stats.norm.logpdf(scores, scale=np.sqrt(variance))
    area = np.exp(heights).sum(axis=0) * (scores[1] - scores[0])
    np.testing.assert_allclose(found.log_normalizer, np.log(area), atol=0.05)
    assert (found.second < 0.0).all()


class TestSpecialCases:
    f, y = np.linspace(-2.0, 2.5, 8), np.linspace(1.5, -1.0, 8)
    counts, trials = np.arange(8.0), np.arange(8.0) + np.tile([0.0, 3.0], 4)
    unlimited = np.full(8, -INF)

    def same(self, one, other, rtol=1e-5):
        np.testing.assert_allclose(one, other, rtol=rtol, atol=rtol)

    def test_student_t_of_many_degrees_of_freedom_is_normal(self):
        one, other = np.array([0.7, 1e9]), np.array([0.7])
        self.same(StudentT().log_density(self.y, self.f, one), Gaussian().log_density(self.y, self.f, other))
        found, expected = (
            own.tilted(self.y, self.f, np.full(8, 2.0), phi)
            for own, phi in ((StudentT(), one), (Gaussian(), other))
        )
        self.same(found.log_normalizer, expected.log_normalizer)
        self.same(found.second, expected.second)

    def test_negative_binomial_of_large_concentration_is_poisson(self):
        found = NegativeBinomial().log_density(self.counts, self.f, np.array([1e8]))
        self.same(found, stats.poisson.logpmf(self.counts, np.exp(self.f)))
        self.same(Poisson().log_density(self.counts, self.f, NONE), found)

    def test_negative_binomial_is_that_of_scipy(self):
        mean, r = np.exp(self.f), 1.3
        found = NegativeBinomial().log_density(self.counts, self.f, np.array([r]))
        self.same(found, stats.nbinom.logpmf(self.counts, r, r / (r + mean)), 1e-10)

    def test_beta_binomial_is_that_of_scipy_and_of_large_concentration_binomial(self):
        p, y = 1.0 / (1.0 + np.exp(-self.f)), np.stack([self.counts, self.trials])
        found = BetaBinomial().log_density(y, self.f, np.array([3.0]))
        self.same(found, stats.betabinom.logpmf(self.counts, self.trials, 3.0 * p, 3.0 * (1.0 - p)), 1e-10)
        found = BetaBinomial().log_density(y, self.f, np.array([1e7]))
        self.same(found, stats.binom.logpmf(self.counts, self.trials, p))

    def test_two_grades_are_labels(self):
        grades = np.tile([0.0, 1.0], 4)
        labels, variance = 2.0 * grades - 1.0, np.full(8, 1.7)
        own = OrdinalProbit(2)
        self.same(own.log_density(grades, self.f, NONE), Probit().log_density(labels, self.f, NONE), 1e-12)
        pairs = zip(
            own.tilted(grades, self.f, variance, NONE),
            Probit().tilted(labels, self.f, variance, NONE),
            strict=True,
        )
        for one, other in pairs:
            self.same(one, other, 1e-12)

    def test_exponential_times_are_a_constant_hazard_with_the_score_turned(self):
        kinds = np.arange(8) % 3
        y = np.stack([self.y, np.select([kinds == 0, kinds == 1], [self.y, INF], self.y + 1.0), self.y - 0.5])
        one = np.ones(1)
        times, hazards = FailureTime("weibull"), PiecewiseHazard()
        found = times.log_density(y, -self.f, one) - np.where(kinds == 0, self.y, 0.0)  # by time, not its log
        self.same(found, hazards.log_density(y, self.f, one), 1e-10)
        turned = times.derivatives(y, -self.f, one), hazards.derivatives(y, self.f, one)
        self.same(-turned[0].first, turned[1].first, 1e-9)
        self.same(turned[0].second, turned[1].second, 1e-9)

    @pytest.mark.parametrize("name", ["log-normal", "log-logistic", "weibull"])
    def test_observed_times_have_the_density_of_scipy(self, name):
        law = {"log-normal": stats.norm, "log-logistic": stats.logistic, "weibull": stats.gumbel_l}[name]
        y = np.stack([self.y, self.y, self.unlimited])
        found = FailureTime(name).log_density(y, self.f, np.array([0.6]))
        self.same(found, law.logpdf(self.y, self.f, 0.6), 1e-11)
        if name == "log-normal":
            self.same(found, Gaussian().log_density(self.y, self.f, np.array([0.6])), 1e-11)


@pytest.mark.parametrize("name", sorted(TIMES))
def test_intervals_of_all_times_have_all_probability(name):
    likelihood, phi = LIKELIHOODS[name][0], np.array(LIKELIHOODS[name][1])
    ends = np.concatenate([[-INF], np.linspace(-3.0, 2.5, 12), [INF]])
    for entry in (-INF, 0.1):
        seen = np.concatenate([[entry], ends[ends > entry]])
        y = np.stack([seen[:-1], seen[1:], np.full(len(seen) - 1, entry)])
        p = np.exp(likelihood.log_density(y, np.full(y.shape[1], 0.4), phi))
        assert p.sum() == pytest.approx(1.0, rel=1e-10)


@pytest.mark.parametrize("name", sorted(TIMES))
def test_density_after_an_entry_integrates_to_one(name):
    likelihood, phi = LIKELIHOODS[name][0], np.array(LIKELIHOODS[name][1])

    def density(log_time):
        y = np.array([[log_time], [log_time], [0.1]])
        by_time = log_time if name == "hazards" else 0.0
        return np.exp(likelihood.log_density(y, np.array([0.4]), phi)[0] + by_time)

    breaks = np.log([1.5]) if name == "hazards" else None  # the other one is before the entry
    area = integrate.quad(density, 0.1, 9.0, points=breaks, limit=300)[0]
    assert area == pytest.approx(1.0, abs=1e-7)


@pytest.mark.parametrize("name", sorted(TIMES))
def test_quantiles_invert_the_survival_function_which_is_the_probability_of_censored_times(name, rng):
    likelihood, _, f, phi = problem(name, rng)
    p = rng.uniform(0.01, 0.99, len(f))
    log_times = likelihood.log_quantile(p, f, phi)
    log_survival = likelihood.log_survival(log_times, f, phi)
    np.testing.assert_allclose(np.exp(log_survival), 1.0 - p, rtol=1e-9)
    y = np.stack([log_times, np.full(len(f), INF), np.full(len(f), -INF)])
    np.testing.assert_allclose(log_survival, likelihood.log_density(y, f, phi), rtol=1e-9)


@pytest.mark.parametrize("name", [name for name in LIKELIHOODS if name != "offset"])
def test_predicted_moments_equal_those_of_draws(name, rng):
    likelihood, phi = LIKELIHOODS[name][0], np.array(LIKELIHOODS[name][1])
    phi = phi if name != "student-t" else np.array([0.5, 9.0])
    mean, variance = np.array([0.4]), np.array([0.3])
    scores = mean + np.sqrt(variance) * rng.standard_normal(100_000)
    drawn, found = likelihood.sample(scores, phi, rng), likelihood.predict(mean, variance, phi)
    slack = 2e-3 if name == "hazards" else 1e-12  # by quantiles
    assert abs(drawn.mean() - found.mean[0]) < STANDARD_ERRORS * drawn.std() / np.sqrt(drawn.size) + slack
    spread = ((drawn - drawn.mean()) ** 2).std() / np.sqrt(drawn.size)
    assert abs(drawn.var() - found.variance[0]) < STANDARD_ERRORS * spread + 5 * slack


@pytest.mark.parametrize("name", ["poisson", "negative-binomial", "beta-binomial", "ordinal"])
def test_probabilities_sum_to_one(name):
    likelihood, phi = LIKELIHOODS[name][0], np.array(LIKELIHOODS[name][1])
    y = np.arange({"ordinal": 4, "beta-binomial": 8}.get(name, 2000)).astype(float)
    y = np.stack([y, np.full(8, 7.0)]) if name == "beta-binomial" else y
    for score in (-1.0, 0.3, 2.0):
        p = np.exp(likelihood.log_density(y, np.full(y.shape[-1], score), phi))
        assert p.sum() == pytest.approx(1.0, rel=1e-10)


def test_an_offset_shifts_the_score(rng):
    count, offset, f = rng.poisson(2.0, 9).astype(float), rng.normal(size=9), rng.normal(size=9)
    y, phi, variance = np.stack([count, offset]), np.array([2.0]), np.full(9, 0.5)
    own, plain = Offset(NegativeBinomial()), NegativeBinomial()
    assert (own.names, own.priors) == (plain.names, plain.priors)
    pairs = [
        ((own.log_density(y, f, phi),), (plain.log_density(count, f + offset, phi),)),
        (own.derivatives(y, f, phi), plain.derivatives(count, f + offset, phi)),
        (own.tilted(y, f, variance, phi), plain.tilted(count, f + offset, variance, phi)),
    ]
    for found, expected in pairs:
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_array_equal(one, other)
    successes = Offset(BetaBinomial())
    y = np.stack([np.minimum(count, 5.0), np.full(9, 5.0), offset])
    np.testing.assert_array_equal(
        successes.log_density(y, f, phi), BetaBinomial().log_density(y[:2], f + offset, phi)
    )
    drawn = own.sample(np.tile(f, (20_000, 1)), phi, rng, np.stack([count, offset]))
    error = drawn.std(axis=0) / np.sqrt(len(drawn))
    assert (np.abs(drawn.mean(axis=0) - np.exp(f + offset)) < STANDARD_ERRORS * error).all()


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
