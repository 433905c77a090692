"""Evidence under likelihoods of outcomes: gradients against differences, the bound of Student t noise."""

from __future__ import annotations

import numpy as np
import pytest
from problems import (
    EP,
    KINDS,
    LAPLACE,
    LIKELIHOODS,
    MIXTURE,
    STUDENT,
    TIMES,
    additive,
    differences_of,
    kernels,
    label,
    targets,
)
from scipy.special import logsumexp
from scipy.stats import multivariate_normal

from bayesmkl.gp.evidence import ep_evidence, exact_evidence, student_evidence
from bayesmkl.outcomes import Gaussian, StudentT

OTHERS = [name for name in LIKELIHOODS if name != "student-t"]
CASES = [("student-t", MIXTURE), ("student-t", STUDENT)]
CASES += [
    (name, evidence)
    for name, evidences in (
        ("gaussian", (exact_evidence, EP, LAPLACE)),
        ("probit", (EP, LAPLACE)),
        ("logit", (EP, LAPLACE)),
    )
    for evidence in evidences
]
CASES += [(name, LAPLACE) for name in OTHERS]
CASES += [(name, EP) for name in ("ordinal", "offset", "poisson", "negative-binomial", "beta-binomial")]
CASES += [pytest.param(name, EP, marks=pytest.mark.slow) for name in sorted(TIMES)]


def problem(name, rng, n_samples=14):
    _, stack = kernels(rng, n_samples)
    likelihood, parameters = KINDS[name]
    return stack, likelihood, targets(name, n_samples, rng), np.array(parameters)


@pytest.mark.heavy
@pytest.mark.parametrize(("name", "evidence"), CASES, ids=label)
def test_gradient_equals_differences(name, evidence, rng):
    stack, likelihood, y, phi = problem(name, rng)
    covariance, weights = additive(stack), np.array([0.7, -0.4, 0.2])

    def value(at, start=None):
        return evidence(likelihood, y, covariance.matrix(at[:3]), at[3:], start)

    at = np.concatenate([weights, phi])
    found = value(at)
    assert found.converged
    gradient = np.concatenate([covariance.pull(weights, found.by_covariance()), found.by_parameters])

    def along(step):
        return value(at + step, found.sites).log_evidence

    close = 0.05 if evidence is STUDENT else 1e-6  # sites of outliers have no precision
    np.testing.assert_allclose(
        gradient, differences_of(along, at), rtol=0, atol=close * np.abs(gradient).max()
    )


def exact_by_precisions(y, matrix, phi, rng, n_draws=20_000):
    """Return the evidence under Student t noise, normal given precisions, which are drawn; and its error."""
    scale, df = phi
    noise = scale**2 / rng.gamma(0.5 * df, 2.0 / df, (n_draws, len(y)))
    total = matrix + noise[:, :, None] * np.eye(len(y))
    logs = -0.5 * (np.linalg.slogdet(2.0 * np.pi * total)[1] + (y @ np.linalg.inv(total) * y).sum(axis=-1))
    values = np.exp(logs - logs.max())
    return logsumexp(logs) - np.log(n_draws), values.std() / values.mean() / np.sqrt(n_draws)


@pytest.mark.parametrize(("df", "gap"), [(2.5, 1.0), (6.0, 0.5), (60.0, 0.06)])
def test_bound_is_below_the_evidence_and_expectation_propagation_at_it(df, gap):
    """Four targets, one of them an outlier."""
    matrix = np.exp(-np.abs(np.subtract.outer(np.arange(4.0), np.arange(4.0))))
    y = np.array([0.3, -1.2, 0.5, 2.5])
    phi = np.array([0.5, df])
    exact, error = exact_by_precisions(y, matrix, phi, np.random.default_rng(3))
    bound, found = (evidence(StudentT(), y, matrix, phi).log_evidence for evidence in (MIXTURE, STUDENT))
    assert error < 0.05
    assert bound < exact + 4.0 * error
    assert bound > exact - gap - 4.0 * error
    assert abs(found - exact) < 0.03 + 4.0 * error


def test_the_bound_stands_in_where_expectation_propagation_does_not_converge():
    rng, phi = np.random.default_rng(27), np.array([0.2, 2.5])
    x, y = rng.normal(size=(2, 8))
    y[:2] += 8.0
    matrix = np.exp(-0.5 * np.subtract.outer(x, x) ** 2)
    found, bound = (evidence(StudentT(), y, matrix, phi) for evidence in (student_evidence, MIXTURE))
    assert not found.converged
    assert found.log_evidence == pytest.approx(bound.log_evidence, abs=0.01)


def test_bound_is_the_highest_of_its_kind(rng):
    """Of other normal distributions of the scores, none has a higher one."""
    stack, likelihood, y, phi = problem("student-t", rng, 8)
    matrix = additive(stack).matrix(np.array([0.7, 0.4, 0.2]))
    found = MIXTURE(likelihood, y, matrix, phi)
    own = matrix - matrix @ found.posterior.shrinkage @ matrix

    def bound(mean, cov):
        square = (y - mean) ** 2 + np.diag(cov)
        rest = np.linalg.solve(matrix, cov)
        divergence = 0.5 * (
            np.trace(rest) - 8 + mean @ np.linalg.solve(matrix, mean) - np.linalg.slogdet(rest)[1]
        )
        return likelihood.log_density_of_square(square, phi).sum() - divergence

    best = bound(found.posterior.mean, own)
    assert found.log_evidence == pytest.approx(best, abs=1e-6)
    for _ in range(20):
        shift, turn = 0.1 * rng.normal(size=8) @ own, np.eye(8) + 0.03 * rng.normal(size=(8, 8))
        assert bound(found.posterior.mean + shift, turn @ own @ turn.T) < best


def test_bound_is_exact_of_many_degrees_of_freedom(rng):
    stack, likelihood, y, _ = problem("student-t", rng)
    matrix = additive(stack).matrix(np.array([0.7, 0.4, 0.2]))
    found = MIXTURE(likelihood, y, matrix, np.array([0.5, 1e6]))
    exact = exact_evidence(Gaussian(), y, matrix, np.array([0.5]))
    assert found.log_evidence == pytest.approx(exact.log_evidence, abs=1e-3)


@pytest.mark.heavy
@pytest.mark.parametrize("name", [*OTHERS, "probit", "logit"])
def test_ep_is_near_the_mean_over_draws_of_all_scores(name, rng):
    """Importance draws from its own normal approximation: unbiased, whatever it does."""
    stack, likelihood, y, phi = problem(name, rng, 15)
    matrix = additive(stack).matrix(np.array([0.7, 0.4, 0.2]))
    found = ep_evidence(likelihood, y, matrix, phi)
    cov = matrix - matrix @ found.posterior.shrinkage @ matrix
    proposal = multivariate_normal(found.posterior.mean, 0.5 * (cov + cov.T), allow_singular=True)
    scores = proposal.rvs(20_000, random_state=1)
    prior = multivariate_normal(np.zeros(15), matrix, allow_singular=True)
    logs = likelihood.log_density(y, scores, phi).sum(axis=1) + prior.logpdf(scores) - proposal.logpdf(scores)
    values = np.exp(logs - logs.max())
    error = values.std() / values.mean() / np.sqrt(len(values))
    assert error < 0.02
    assert abs(np.log(values.mean()) + logs.max() - found.log_evidence) < 4 * error + 0.03
