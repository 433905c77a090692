"""Posteriors of kernel weights that are not negative: densities, quantiles and tables."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import assert_same, binary_problem, random_covariance, random_kernels
from scipy import stats

from bayesmkl import BEMKLClassifier
from bayesmkl._numerics.quadrant import draw_quadrant, quadrant_quantiles
from bayesmkl.bemkl.draws import NonnegativeGamma, log_prior_terms, log_readout, log_weights
from bayesmkl.bemkl.nonnegative import CutOffNormals, CutOffPair, NonnegativeReadout
from bayesmkl.posterior import (
    diagnose,
    kernel_table,
    refine_posterior,
    sample_posterior,
    to_datatree,
)
from bayesmkl.posterior.checks import prior_draws
from bayesmkl.posterior.evaluated import evaluate_model
from bayesmkl.posterior.fitted import fitted_bemkl


@pytest.fixture(scope="module")
def positive_model(features, bank):
    model = BEMKLClassifier(bank, nonnegative=True, tol=1e-4, intermediate_scale=1.0)
    return model.fit(features, np.where(features["größe"] > 0, "big", "small"))


def normals(rng, n_kernels=3):
    weights = CutOffNormals(rng.normal(size=n_kernels), rng.uniform(0.3, 1.0, n_kernels))
    return NonnegativeReadout.from_factors(
        rng.normal(size=2), rng.normal(size=(2, n_kernels)), rng.uniform(0.5, 2.0, 2), weights
    )


def pair(rng):
    precision = np.linalg.inv(random_covariance(rng, 2))
    weights = CutOffPair(precision @ np.array([0.4, -0.3]), precision)
    return NonnegativeReadout.from_factors(rng.normal(size=1), rng.normal(size=(1, 2)), np.ones(1), weights)


def test_other_library_density_of_independent_weights(rng):
    readout = normals(rng)
    draws = readout.draw(5, rng)
    b, e = draws[:, :2], draws[:, 2:]
    law = readout.weights
    expected = (
        stats.truncnorm(-law.location / law.scale, np.inf, law.location, law.scale).logpdf(e).sum(axis=1)
    )
    assert_same(log_weights(readout, e), expected, 1e-10)
    mean = readout.mean[:2] + (e - readout.mean[2:]) @ readout.slope.T
    expected = expected + stats.norm.logpdf(b, mean, np.sqrt(readout.intercept_variance)).sum(axis=1)
    assert_same(log_readout(readout, draws), expected, 1e-10)


def test_quadrature_of_the_density_of_two_weights(rng):
    readout = pair(rng)

    grid = np.linspace(0.0, 12.0, 801)
    points = np.stack(np.meshgrid(grid, grid, indexing="ij"), axis=-1).reshape(-1, 2)
    density = np.exp(log_weights(readout, points)).reshape(801, 801)
    marginal = np.trapezoid(density, grid, axis=1)
    assert np.trapezoid(marginal, grid) == pytest.approx(1.0, abs=1e-3)
    assert np.trapezoid(grid * marginal, grid) == pytest.approx(readout.mean[1], abs=1e-3)


def test_monte_carlo_quantiles_of_two_weights(rng):
    law = pair(rng).weights
    draws = draw_quadrant(law.linear, law.precision, 100_000, rng)
    for probability in (0.03, 0.5, 0.97):
        below = (draws < quadrant_quantiles(law.linear, law.precision, probability)).mean(axis=0)
        np.testing.assert_allclose(below, probability, atol=4.0 * np.sqrt(0.25 / 100_000))


def test_other_library_half_student_prior(rng):
    problem = binary_problem(random_kernels(rng, 5, 2), [1, -1, 1, 1, -1])
    problem = problem._replace(priors=problem.priors._replace(kernel=NonnegativeGamma(1.5, 2.0)))
    draws = prior_draws(problem, 4000, rng)
    assert draws.kernel_weights.min() >= 0.0
    law = stats.t(3.0, scale=np.sqrt(2.0 / 1.5))
    folded = (draws.kernel_weights[0] < law.ppf(0.75)).mean(axis=0)
    np.testing.assert_allclose(folded, 0.5, atol=4.0 * np.sqrt(0.25 / 4000))
    flat = draws.flat().map(lambda values: values[:6])
    expected = np.log(2.0 * law.pdf(flat.kernel_weights)).sum(axis=1)
    assert_same(log_prior_terms(problem, flat)["kernel_weights"], expected, 1e-10)


def test_table_has_the_quantiles_of_the_draws(positive_model):
    table = kernel_table(positive_model, 0.8).set_index("kernel").loc[positive_model.kernel_names_]
    draws = sample_posterior(positive_model, 20_000, random_state=0)["kernel_weights"]
    assert draws.min() >= 0.0
    lower, upper = (draws < table[f"weight_{end}"].to_numpy() for end in ("lower", "upper"))
    np.testing.assert_allclose(lower.mean(axis=0), 0.1, atol=0.01)
    np.testing.assert_allclose(upper.mean(axis=0), 0.9, atol=0.01)
    assert (table["prob_positive"] == 1.0).all()


def test_densities_of_a_fit_make_its_ratios(positive_model):
    fitted = fitted_bemkl(positive_model)
    (model,), (ratios,) = evaluate_model(fitted, 200, np.random.default_rng(1))
    assert isinstance(model.problem.priors.kernel, NonnegativeGamma)
    tree = to_datatree(positive_model, 200, random_state=1)
    stats = tree["sample_stats"]
    np.testing.assert_allclose((stats["lp"] - stats["log_variational"]).values[0], ratios)
    found = diagnose(positive_model, n_draws=100, random_state=0)
    assert "its kernel weights are not negative" in found["importance"]["advice"]
    with pytest.raises(
        ValueError, match="`model` cannot be refined by Gibbs sampling: its kernel weights are not neg"
    ):
        refine_posterior(positive_model)
