"""Importance ratios of variational posteriors: their tails, and the integrals behind those of the kernel weights."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import STANDARD_ERRORS, binary_problem, random_kernels, regression_problem
from scipy import stats
from scipy.special import ndtr

from bayesmkl._numerics.psis import good_k, smooth_weights
from bayesmkl.bemkl.draws import variational_draws
from bayesmkl.bemkl.model import Priors
from bayesmkl.bemkl.moments import Gamma, Gaussian
from bayesmkl.posterior import diagnose
from bayesmkl.posterior.evaluated import Evaluated, evaluate_model
from bayesmkl.posterior.fitted import fitted_bemkl
from bayesmkl.posterior.importance import (
    _advice,
    _direction_ratios,
    _log_ray,
    _Marginal,
    first_sites,
    importance_section,
    log_marginal,
    tail_of,
    target_of,
)

pytestmark = pytest.mark.heavy


def normal_log_ratios(rng, ratio, n_draws=4000, size=3):
    """Draws from q = N(0, 1) against p = N(0, ratio²), in `size` dimensions."""
    draws = rng.standard_normal((n_draws, size))
    return (stats.norm.logpdf(draws, scale=ratio) - stats.norm.logpdf(draws)).sum(axis=1)


def test_exact_posterior_has_small_k_and_a_narrow_one_a_large_k(rng):
    assert tail_of(normal_log_ratios(rng, 1.0))["pareto_k"] == 0.0
    assert tail_of(normal_log_ratios(rng, 1.0))["effective"] == pytest.approx(4000.0)
    assert tail_of(normal_log_ratios(rng, 1.2))["pareto_k"] < 0.5
    for ratio in (3.0, 5.0):
        assert tail_of(normal_log_ratios(rng, ratio, size=1))["pareto_k"] == pytest.approx(
            1 - ratio**-2, abs=0.2
        )
        assert tail_of(normal_log_ratios(rng, ratio))["pareto_k"] > 0.7


def test_other_library_smoothed_weights(rng):
    from arviz_stats.base import array_stats

    ratios = rng.normal(scale=2.0, size=(3, 500))
    weights, pareto_k = smooth_weights(ratios)
    for row, own_weights, own_k in zip(ratios, weights, pareto_k, strict=True):
        expected, expected_k = array_stats.psislw(-row)
        np.testing.assert_allclose(own_weights, expected)
        assert own_k == pytest.approx(float(expected_k))
    constant, k = smooth_weights(np.full((2, 300), -7.0))  # ArviZ raises here
    np.testing.assert_allclose(np.exp(constant), 1.0 / 300)
    np.testing.assert_array_equal(k, 0.0)
    assert good_k(100) == 0.5
    assert good_k(10_000) == 0.7


# --------------------------------------------------------------------------------- the integral over sample weights

PRIORS = (Gamma(1.0, 1.0), Gamma(1.5, 0.7), Gamma(1.0, 1.0))


def quadrature(problem, weights, scale, n_nodes=60):
    """p(y | e) of two samples by the midpoint rule in the quantiles of b, a_1 and a_2, and one weight for each."""
    grid = (np.arange(n_nodes) + 0.5) / n_nodes
    priors = problem.priors
    laws = [stats.t(2 * c, scale=np.sqrt(r / c)) for c, r in (priors.intercept, priors.sample, priors.sample)]
    b, a, a2 = np.meshgrid(*(law.ppf(grid) for law in laws), indexing="ij")
    kernel = np.tensordot(weights, problem.stack.kernels, axes=1)
    scores = [kernel[i, 0] * a + kernel[i, 1] * a2 + b for i in range(2)]
    if not problem.outcome.has_noise:
        each = [
            ndtr((y * m - problem.outcome.margin) / scale) for y, m in zip(problem.y, scores, strict=True)
        ]
    else:
        each = [stats.norm.pdf(y, m, scale) for y, m in zip(problem.y, scores, strict=True)]
    return np.prod(each, axis=0).mean()


@pytest.mark.parametrize("task", ["classification", "regression"])
def test_quadrature_of_the_marginal_likelihood(task, rng):
    kernels = random_kernels(rng, 2, 2)
    if task == "classification":
        problem = binary_problem(kernels, [1.0, -1.0], Priors(*PRIORS), margin=0.6)
    else:
        problem = regression_problem(kernels, [0.8, -0.5], Priors(*PRIORS))
    for weights, scale in ((np.array([0.6, 0.4]), 1.5), (np.array([-0.2, 1.0]), 1.2)):
        target = target_of(problem, weights, scale)
        sites = first_sites(target)
        draws = np.exp([log_marginal(target, sites, rng) for _ in range(400)])
        error = draws.std() / np.sqrt(len(draws))
        expected = quadrature(problem, weights, scale)
        assert abs(draws.mean() - expected) < STANDARD_ERRORS * error + 2e-3 * expected
        assert error < 0.02 * expected  # else the comparison says nothing


def test_degenerate_known_precisions_make_regression_normal(rng):
    sure = Gamma(1e8, 1e8)
    y = rng.normal(size=12)
    problem = regression_problem(random_kernels(rng, 12, 3), y, Priors(sure, sure, PRIORS[2]))
    weights = np.array([0.7, -0.3, 0.5])
    target = target_of(problem, weights, 0.4)
    cov = 0.16 * np.eye(12) + target.design @ target.design.T
    expected = stats.multivariate_normal(np.zeros(12), cov).logpdf(y)
    assert log_marginal(target, first_sites(target), rng) == pytest.approx(expected, abs=1e-3)


def test_quadrature_of_the_density_along_a_ray(rng):
    cov = np.array([[0.3, 0.1, 0.0], [0.1, 0.5, -0.2], [0.0, -0.2, 0.4]])
    mean = np.array([0.1, 0.5, -1.0, 0.2])  # of the intercept and three weights
    readout = Gaussian.from_moments(
        mean, np.pad(cov, ((1, 0), (1, 0)), constant_values=0.01) + 0.01 * np.eye(4)
    )
    here = _Marginal(None, readout, mean[1:], np.empty(0))
    law = stats.multivariate_normal(here.mean, readout.cov[1:, 1:])
    radius = np.linspace(0.0, 15.0, 20_000)
    directions = rng.standard_normal((4, 3))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    exact = [np.log(np.trapezoid(radius**2 * law.pdf(radius[:, None] * u), radius)) for u in directions]
    own = [_log_ray(here, u) for u in directions]
    np.testing.assert_allclose(np.diff(own), np.diff(exact), atol=1e-3)


def test_quadrature_of_the_densities_of_directions(rng):
    """Ratios of the angular densities of p and q, where p is known in polar coordinates and q is normal."""
    cov = np.array([[0.3, 0.1, 0.0], [0.1, 0.5, -0.2], [0.0, -0.2, 0.4]])
    mean = np.array([0.5, -1.0, 0.2])
    readout = Gaussian.from_moments(np.r_[0.3, mean], np.pad(cov, ((1, 0), (1, 0))) + 0.01 * np.eye(4))

    def log_angular(u):
        return 1.3 * u[0] - 0.8 * u[1] * u[2]

    def log_radius(u):  # the radius is log-normal, and its median depends on the direction
        return np.log(np.linalg.norm(mean)) + 0.2 + 0.25 * u[2]

    class Polar:
        def __init__(self):
            self.mean, self.readout, self.precisions = mean, readout, np.ones((20, 1, 2))

        def first_sites(self, weights, precisions, near=None):
            return []

        def log_density(self, weights, precisions, sites, rng):
            radius = np.linalg.norm(weights)
            away = np.log(radius) - log_radius(weights / radius)
            return -0.5 * (away / 0.4) ** 2 - 3.0 * np.log(radius)  # d³e = r³ d(log r) d²u

        def log_prior(self, weights):
            return log_angular(weights / np.linalg.norm(weights))

    draws = rng.multivariate_normal(mean, cov, size=20)
    found = _direction_ratios(Polar(), draws, np.ones((1, 2)), rng)
    law, radius = stats.multivariate_normal(mean, readout.cov[1:, 1:]), np.linspace(0.0, 15.0, 5000)
    directions = draws / np.linalg.norm(draws, axis=1, keepdims=True)
    exact = [
        log_angular(u) - np.log(np.trapezoid(radius**2 * law.pdf(radius[:, None] * u), radius))
        for u in directions
    ]
    assert np.ptp([log_radius(u) for u in directions]) > 0.2  # what a wrong power of the radius would show
    np.testing.assert_allclose(found - found.mean(), exact - np.mean(exact), atol=0.02)


# ------------------------------------------------------------------------------------------------- the whole section


def exact_moments(problem):
    """Mean and standard deviation of one kernel weight on its positive side, by quadrature."""
    grid = np.linspace(0.05, 6.0, 30)
    likelihood = [quadrature(problem, np.array([e]), np.sqrt(1 + e * e), 20) for e in grid]
    weights = stats.t(40.0).pdf(grid) * likelihood
    mean = np.average(grid, weights=weights)
    return mean, np.sqrt(np.average((grid - mean) ** 2, weights=weights))


def state_of(mean, std):
    """A variational posterior of two samples and one kernel whose q(e) is N(mean, std²)."""

    class State:
        dual = Gaussian.from_moments(np.zeros(2), np.eye(2))
        readout = Gaussian.from_moments(np.array([0.0, mean]), np.diag([1.0, std**2]))
        kernel_precision = Gamma(1.0, np.ones(1))
        intercept_precision = Gamma(1.0, np.ones(()))
        sample_precision = Gamma(1.0, np.ones(2))
        noise_precision = None

    return State


def test_quadrature_posterior_of_a_kernel_weight_is_recognized(rng, monkeypatch):
    monkeypatch.setattr("bayesmkl.posterior.importance.MOST_DRAWS", 600)  # one dimension has a thin tail
    for count in ("N_PRECISIONS", "N_COEFFICIENTS"):
        monkeypatch.setattr(f"bayesmkl.posterior.importance.{count}", 3)  # two samples have little noise
    nearly_normal = Gamma(20.0, 20.0)  # under a Student t with 2 degrees of freedom no normal q would do
    priors = Priors(nearly_normal, nearly_normal, nearly_normal)
    problem = binary_problem(random_kernels(rng, 2, 1), [1.0, -1.0], priors, margin=0.3)
    mean, std = exact_moments(problem)
    found = {}
    for narrow in (0.6, 5.0):
        state = state_of(mean, std / narrow)
        model = Evaluated(problem, variational_draws(state, 600, rng))
        section = importance_section(["model"], [model], [state], [np.zeros(600)], rng)
        found[narrow] = section.values["weights"]["pareto_k"], section.verdict
        assert "direction" not in section.values  # of a single weight it is a sign
    assert found[0.6][0] < 0.5
    assert found[0.6][1] == "good"
    assert found[5.0][0] > 0.7
    assert found[5.0][1] == "caution"


def test_narrower_variational_posterior_has_larger_k(binary_model):
    state = binary_model.posterior_
    narrow = state.readout._replace(cov=state.readout.cov / 25.0, log_det=0.0)
    dual = state.dual._replace(cov=state.dual.cov / 25.0, log_det=0.0)
    shrunk = fitted_bemkl(binary_model)._replace(states=(state._replace(readout=narrow, dual=dual),))
    tails = []
    for fitted in (fitted_bemkl(binary_model), shrunk):
        models, ratios = evaluate_model(fitted, 120, np.random.default_rng(0))
        section = importance_section(["model"], models, list(fitted.states), ratios, np.random.default_rng(1))
        tails.append(section.values)
    for what in ("joint", "weights"):
        assert tails[1][what]["pareto_k"] > tails[0][what]["pareto_k"]
        assert tails[1][what]["sd"] > tails[0][what]["sd"]
    assert tails[0]["direction"]["n_draws"] == 100
    assert 0.0 < tails[0]["noise"]["sd"] < tails[1]["weights"]["sd"]


def test_noise_is_not_taken_for_a_finding():
    tail = {"n_draws": 200, "effective": 5.0, "pareto_k": 1.1, "good_k": 0.57}
    values = {"joint": tail | {"sd": 5.0}, "weights": tail | {"sd": 1.4}, "noise": tail | {"sd": 1.2}}
    assert "cannot be told" in _advice("caution", {"model": values})
    clear = values | {"weights": tail | {"sd": 2.4}}
    assert "too narrow: k-hat 1.1" in _advice("caution", {"model": clear})
    assert "noise of the integrals alone reaches 1.1" in _advice("caution", {"model": clear})


def test_ratios_that_cannot_be_had_are_explained(sparse_model, binary_model, monkeypatch):
    found = diagnose(sparse_model, n_draws=100, random_state=0)
    assert set(found["importance"]) == {"joint", "verdict", "advice"}
    assert "No marginal ratios: a sparse prior has its mass at zero" in str(found)
    monkeypatch.setattr("bayesmkl.posterior.importance.BUDGET", 40**3 * 199)
    found = diagnose(binary_model, n_draws=100, random_state=0)
    assert "weights" not in found["importance"]
    assert "with 40 training samples the integrals would take minutes" in str(found)


def test_regression_ratios_include_both_noise_precisions(gibbs_regression_model, regression_model):
    models, ratios = evaluate_model(fitted_bemkl(regression_model), 150, np.random.default_rng(0))
    section = importance_section(
        ["model"], models, [regression_model.posterior_], ratios, np.random.default_rng(0)
    )
    assert np.isfinite([section.values[what]["sd"] for what in ("joint", "weights", "direction")]).all()


def test_a_ratio_of_zero_is_a_weight_of_zero_and_changes_nothing_else(rng):
    log_ratios = rng.normal(size=1000)
    log_weights, pareto_k = smooth_weights(log_ratios)
    others, same_k = smooth_weights(np.append(log_ratios, -np.inf))
    np.testing.assert_allclose(others[:-1], log_weights, rtol=1e-12)
    assert others[-1] == -np.inf
    assert same_k == pytest.approx(float(pareto_k))
