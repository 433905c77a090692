"""Multinomial probit: updates, limits, the bound, and class probabilities.

Multinomial probit a second time, as NumPyro programs of a small case: literal, collapsed, sampled.
"""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
import reference
from helpers import (
    BINARY_PRIORS,
    SAME_FORMULA,
    SAME_ITERATION,
    assert_monte_carlo,
    assert_same,
    frozen,
    random_covariance,
    random_kernels,
)
from numpyro.handlers import seed, substitute, trace
from numpyro.infer import MCMC, NUTS
from scipy import stats
from test_bound import random_state
from test_multiclass import kernels_between, three_views
from test_sweeps import assert_state, shapes_and_scales

from bayesmkl._numerics.largest_normal import largest_moments, log_largest
from bayesmkl._numerics.truncated_normal import log_normal_cdf
from bayesmkl._utils.devices import numpyro_session
from bayesmkl.bemkl import model as bemkl
from bayesmkl.bemkl.ascent import LoopOptions, maximize_elbo
from bayesmkl.bemkl.model import Carry, Priors, Problem
from bayesmkl.bemkl.moments import Gamma
from bayesmkl.bemkl.reading import (
    ClassScores,
    predict_class_scores,
    predict_scores,
)
from bayesmkl.kernels.stacks.dense import DenseStack
from bayesmkl.outcomes import Classes

pytestmark = pytest.mark.heavy

N_CLASSES, N_KERNELS, N_SAMPLES = 3, 4, 9
PLAIN = LoopOptions(max_iter=30, tol=0.0, accelerate=False)


def signs_of(labels, n_classes):
    return np.where(np.arange(n_classes)[:, None] == labels, 1.0, -1.0)


def random_classes(rng, kernels, n_classes=N_CLASSES):
    """Return signs of classes that the first kernel tells apart up to some noise; every class occurs."""
    n_samples = kernels.shape[1]
    scores = kernels[0] @ rng.normal(size=(n_samples, n_classes)) + 0.3 * rng.normal(
        size=(n_samples, n_classes)
    )
    labels = scores.argmax(axis=1)
    labels[:n_classes] = np.arange(min(n_classes, n_samples))
    return signs_of(labels, n_classes)


def problem_of(kernels, y, prior="non-sparse", margin=0.0, sigma=1.0):
    """Return problem and start; `prior` is a name or the priors themselves."""
    stack, priors = DenseStack(frozen(kernels)), BINARY_PRIORS[prior] if isinstance(prior, str) else prior
    problem = Problem(
        stack, frozen(stack.gram()), frozen(y), Priors(*priors), Classes(margin), 1.0 / sigma**2
    )
    return problem, bemkl.init(problem, np.ones(y.shape[1]))


def random_problem(rng, prior="non-sparse", n_samples=N_SAMPLES, **options):
    kernels = random_kernels(rng, n_samples, N_KERNELS)
    return problem_of(kernels, random_classes(rng, kernels), prior, **options)


# -------------------------------------------------------------------------- updates against equations in loops


def largest_by_grid(means, y, margin):
    """Mean and variance of the scores by the trapezoidal rule over the largest one, sample by sample."""
    mean, variance = np.empty(y.shape), np.empty(y.shape)
    for i in range(y.shape[1]):
        own = int(np.argmax(y[:, i]))
        top = np.linspace(means[:, i].min() - 12.0, means[:, i].max() + margin + 12.0, 251)
        density = stats.norm.pdf(top, means[own, i])
        others = [c for c in range(len(y)) if c != own]
        for c in others:
            density = density * stats.norm.cdf(top - margin, means[c, i])
        density /= density.sum()
        mean[own, i] = density @ top
        variance[own, i] = density @ (top - mean[own, i]) ** 2
        for c in others:
            law = stats.truncnorm(-np.inf, top - margin - means[c, i], loc=means[c, i])
            first, spread = law.stats("mv")
            mean[c, i] = density @ first
            variance[c, i] = density @ (spread + (first - mean[c, i]) ** 2)
    return mean, variance


def two_by_the_difference(means, y, margin):
    """Mean and variance of two scores: their difference is one truncated normal, their sum is free."""
    mean, variance = np.empty(y.shape), np.empty(y.shape)
    for i in range(y.shape[1]):
        low, high = (margin, np.inf) if y[0, i] > 0 else (-np.inf, -margin)
        loc, scale = means[0, i] - means[1, i], np.sqrt(2.0)
        law = stats.truncnorm((low - loc) / scale, (high - loc) / scale, loc=loc, scale=scale)
        total = means[:, i].sum()
        mean[:, i] = 0.5 * (total + law.mean()), 0.5 * (total - law.mean())
        variance[:, i] = 0.25 * (2.0 + law.var())
    return mean, variance


def random_start(rng, y, kernels):
    """Return a start in which no moment has a special value, for the reference and the model."""
    n_classes, n_train, size = len(y), kernels.shape[2], len(y) + N_KERNELS
    old = reference.OldOutputs(
        a_squared=frozen(rng.uniform(0.2, 2.0, size=(n_classes, n_train))),
        G=frozen(rng.normal(size=(n_classes, N_KERNELS, y.shape[1]))),
        be=frozen(rng.normal(size=size)),
        be_cov=frozen(random_covariance(rng, size)),
        f=frozen(y * rng.uniform(1.0, 3.0, size=y.shape)),
    )
    pull = frozen([reference.pull_of(kernels, g) for g in old.G])
    none = old.f.reshape(-1)[:0]
    return old, Carry(old.a_squared, none, none, pull, old.G, old.be, old.be_cov, none, old.f)


def reference_sweep(kernels, y, margin, sigma, priors, old, scores=largest_by_grid):
    n_classes = len(y)
    found, new = reference.outputs_sweep(
        kernels, None, None, shapes_and_scales(priors), old, [sigma**-2] * n_classes, [1.0] * n_classes
    )
    (G, G_cov), (be, _) = found["G"], found["be"]
    means = np.array([be[c] + be[n_classes:] @ G[c] for c in range(n_classes)])
    found["f"] = scores(means, y, margin)
    return found | {"G": (G, G_cov[0])}, new._replace(f=found["f"][0])


@pytest.mark.parametrize(("prior", "n_train"), [("general", N_SAMPLES), ("sparse", 5)])
def test_sweep_against_the_equations_in_loops(rng, prior, n_train):
    kernels = rng.normal(size=(N_KERNELS, N_SAMPLES, n_train))
    y = signs_of(rng.integers(5, size=N_SAMPLES), 5)
    problem, _ = problem_of(kernels, y, prior, margin=0.7, sigma=1.9)
    old, start = random_start(rng, y, kernels)
    state, _ = bemkl.sweep(problem, start)
    assert_state(state, reference_sweep(kernels, y, 0.7, 1.9, problem.priors, old)[0], SAME_FORMULA)


@pytest.mark.parametrize("margin", [0.0, 0.8])
def test_degenerate_two_classes_against_truncated_differences_over_five_sweeps(rng, margin):
    kernels = random_kernels(rng, N_SAMPLES, N_KERNELS)
    y = random_classes(rng, kernels, 2)
    problem, _ = problem_of(kernels, y, "general", margin, sigma=0.8)
    old, start = random_start(rng, y, kernels)
    for _ in range(5):
        state, _ = bemkl.sweep(problem, start)
        start = bemkl.carry(problem, state)
        found, old = reference_sweep(kernels, y, margin, 0.8, problem.priors, old, two_by_the_difference)
    assert_state(state, found, SAME_ITERATION)


def test_start_exceeds_the_margin(rng):
    problem, start = random_problem(rng, margin=0.7)
    np.testing.assert_allclose(start.latent.sum(axis=0), 0.0, atol=1e-15)
    right = problem.y > 0.0
    gap = np.where(right, start.latent, -np.inf).max(axis=0) - np.where(right, -np.inf, start.latent).max(
        axis=0
    )
    np.testing.assert_allclose(gap, 1.7)
    np.testing.assert_allclose(start.probe, np.repeat(start.latent[:, None], N_KERNELS, axis=1))


# ---------------------------------------------------------------------------------------- class probabilities


@pytest.fixture
def fitted(rng):
    """Random factors with large variances, rows to predict, and σ_g²."""
    problem, _ = random_problem(rng)
    state, _ = random_state(rng, problem)
    return DenseStack(frozen(0.5 * rng.normal(size=(N_KERNELS, 6, N_SAMPLES)))), state, 0.6


def test_scores_against_draws_from_the_joint_posterior(rng, fitted):
    rows, state, variance = fitted
    scores = predict_class_scores(rows, state.dual, state.readout, variance)
    be = rng.multivariate_normal(state.readout.mean, state.readout.cov, size=200_000)
    draws = np.empty((len(be), N_CLASSES))
    for c in range(N_CLASSES):
        a = rng.multivariate_normal(state.dual.mean[c], state.dual.cov[c], size=len(be))
        g = a @ rows.kernels[:, 0].T + np.sqrt(variance) * rng.normal(size=(len(be), N_KERNELS))
        draws[:, c] = be[:, c] + (be[:, N_CLASSES:] * g).sum(axis=1)
    assert_monte_carlo(draws, scores.mean[:, 0])
    centered = draws - scores.mean[:, 0]
    expected = scores.common[0] + np.diag(scores.variance[:, 0])
    assert np.abs(np.triu(scores.common[0], 1)).max() > 0.05  # classes are correlated
    assert_monte_carlo(centered[:, :, None] * centered[:, None], expected)


@pytest.mark.parametrize("rule", ["full", "paper"])
def test_marginals_of_the_scores_are_those_of_every_class(fitted, rule):
    rows, state, variance = fitted
    scores = predict_class_scores(rows, state.dual, state.readout, variance, rule)
    marginals = predict_scores(rows, state.dual, state.readout, variance, rule)
    assert_same(scores.mean, np.array([score.mean for score in marginals]), SAME_FORMULA)
    total = scores.variance + scores.common.diagonal(axis1=1, axis2=2).T
    assert_same(total, np.array([score.variance for score in marginals]), SAME_FORMULA)
    if rule == "paper":
        assert scores.variance.max() < 1e-12


def random_scores(rng, n_classes, n_rows, size):
    common = np.array([random_covariance(rng, n_classes, size) for _ in range(n_rows)])
    return ClassScores(
        rng.normal(size=(n_classes, n_rows)), rng.uniform(0.0, 1.0, size=(n_classes, n_rows)), common
    )


@pytest.mark.parametrize(("size", "error"), [(0.0, 0.0), (0.1, 1e-3), (1.0, 2e-2)])
@pytest.mark.parametrize("margin", [0.0, 0.8])
@pytest.mark.parametrize("n_classes", [3, 6])
def test_probabilities_against_draws_of_the_scores(rng, n_classes, margin, size, error):
    """The error of the cubature grows with the covariance that classes have in common."""
    scores = random_scores(rng, n_classes, 2, size)
    found = np.exp(scores.log_class_probabilities(margin))
    np.testing.assert_allclose(found.sum(axis=1), 1.0, rtol=1e-12)
    for row in range(2):
        cov = scores.common[row] + np.diag(1.0 + scores.variance[:, row])
        f = rng.multivariate_normal(scores.mean[:, row], cov, size=400_000)
        first, second = np.partition(f, -2, axis=1)[:, -1], np.partition(f, -2, axis=1)[:, -2]
        winners = f.argmax(axis=1)[first > second + margin]
        frequency = np.bincount(winners, minlength=n_classes) / len(winners)
        spread = np.sqrt(found[row] * (1.0 - found[row]) / len(winners))
        assert np.all(np.abs(frequency - found[row]) < 3.0 * spread + error)


@pytest.mark.parametrize("size", [0.0, 0.1, 1.0])
def test_probabilities_of_two_classes_against_the_closed_form(rng, size):
    scores, margin = random_scores(rng, 2, 20, size), 0.5
    common, contrast = scores.common, np.array([1.0, -1.0])
    spread = np.sqrt(2.0 + scores.variance.sum(axis=0) + contrast @ common @ contrast)
    difference = scores.mean[0] - scores.mean[1]
    sides = np.exp(log_normal_cdf((np.stack([difference, -difference], axis=1) - margin) / spread[:, None]))
    expected = sides / sides.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(np.exp(scores.log_class_probabilities(margin)), expected, atol=1e-9)


def test_probabilities_far_from_the_border_stay_finite_and_follow_the_classes(rng):
    scores, order = random_scores(rng, 4, 5, 0.2), rng.permutation(4)
    scores = scores._replace(mean=80.0 * scores.mean)
    logs = scores.log_class_probabilities(0.0)
    assert np.isfinite(logs).all()
    assert logs.min() < -500.0
    moved = ClassScores(scores.mean[order], scores.variance[order], scores.common[:, order][:, :, order])
    assert_same(moved.log_class_probabilities(0.0), logs[:, order], 1e-8)
    lifted = scores._replace(
        mean=scores.mean + 3.0, common=scores.common + 5.0
    )  # a common level decides nothing
    assert_same(lifted.log_class_probabilities(0.0), logs, 1e-8)


# Nearly normal priors: what mean field loses by separating a from its precisions is of no interest here.
KNOWN_PRECISIONS = Priors(Gamma(50.0, 50.0), Gamma(50.0, 50.0), Gamma(50.0, 50.0))


def student_t(prior, shape):
    scale = (prior.rate / prior.concentration) ** 0.5
    return dist.StudentT(2.0 * prior.concentration, 0.0, scale).expand(shape).to_event(len(shape))


def parameters(problem):
    """Sample a, b and e with their precisions integrated out, and return E[f | a, b, e]."""
    n_classes, priors = problem.y.shape[0], problem.priors
    dual = numpyro.sample("dual", student_t(priors.sample, (n_classes, problem.stack.n_train)))
    intercept = numpyro.sample("intercept", student_t(priors.intercept, (n_classes,)))
    weights = numpyro.sample("kernel_weights", student_t(priors.kernel, (problem.stack.n_kernels,)))
    projection = jnp.einsum("mij,cj->cmi", jnp.asarray(problem.stack.kernels), dual)
    return weights, projection, intercept[:, None]


def literal(problem):
    """The story with its intermediate outputs and scores; the label is the class of the largest score."""
    weights, projection, intercept = parameters(problem)
    noise = problem.intermediate_precision**-0.5
    intermediate = numpyro.sample("intermediate", dist.Normal(projection, noise).to_event(3))
    mean = jnp.einsum("m,cmi->ci", weights, intermediate) + intercept
    latent = numpyro.sample("latent", dist.Normal(mean, 1.0).to_event(2))
    numpyro.deterministic("label", latent.argmax(axis=0))


@jax.custom_jvp
def log_likelihood(mean, y):
    return largest_moments(mean, y, 0.0).log_normalizer


@log_likelihood.defjvp
def _log_likelihood_jvp(primals, tangents):
    found = largest_moments(*primals, 0.0)
    return found.log_normalizer, ((found.mean - primals[0]) * tangents[0]).sum(axis=0)


def collapsed(problem):
    """All but a, b and e integrated out: scores have equal variances, and y is one integral."""
    weights, projection, intercept = parameters(problem)
    mean = jnp.einsum("m,cmi->ci", weights, projection) + intercept
    scale = jnp.sqrt(1.0 + weights @ weights / problem.intermediate_precision)
    numpyro.factor("y", log_likelihood(mean / scale, jnp.asarray(problem.y)))


def random_parameters(rng, problem):
    n_classes = problem.y.shape[0]
    return {
        "dual": rng.normal(size=(n_classes, problem.stack.n_train)),
        "intercept": rng.normal(size=n_classes),
        "kernel_weights": rng.normal(size=problem.stack.n_kernels),
    }


def test_collapsed_likelihood_is_the_frequency_of_literal_labels(rng):
    problem, _ = random_problem(rng, "general", n_samples=4, sigma=0.8)
    values, labels, n_draws = random_parameters(rng, problem), problem.y.argmax(axis=0), 10_000
    with numpyro_session():
        draw = lambda key: trace(seed(substitute(literal, values), key)).get_trace(problem)["label"]["value"]
        drawn = np.asarray(jax.jit(jax.vmap(draw))(jax.random.split(jax.random.key(3), n_draws)))
        factor = lambda values: trace(substitute(collapsed, values)).get_trace(problem)["y"]["fn"].log_factor
        probability = np.exp(np.asarray(jax.jit(factor)(values)))
    spread = np.sqrt(probability * (1.0 - probability) / n_draws)
    assert np.all(np.abs((drawn == labels).mean(axis=0) - probability) < 4.0 * spread + 1e-12)


@pytest.mark.parametrize(("precision", "gap"), [(1.0, 20.0), (100.0, 0.8), (1e3, 0.1)])
def test_bound_is_below_the_evidence_and_tight_for_weak_scores(rng, precision, gap):
    """The evidence of few samples is the mean likelihood over draws of a, b and e from their Student t priors.

    Mean field loses about log(1 + e'e) / 2 for every score, by taking it as independent of its intermediate outputs.
    """
    priors = Priors(*[Gamma(1e4, 1e4 / precision)] * 3)
    problem, start = random_problem(rng, priors, n_samples=4)
    bound = maximize_elbo(bemkl, problem, start, LoopOptions()).elbo_history[-1]
    size, laws = 10_000, []
    for factor in problem.priors:
        scale = (factor.rate / factor.concentration) ** 0.5
        laws.append(partial(stats.t(2.0 * factor.concentration, scale=scale).rvs, random_state=rng))
    a, b, e = laws[0](size=(size, 3, 4)), laws[1](size=(size, 3)), laws[2](size=(size, 4))
    mean = np.einsum("sm,mij,scj->csi", e, problem.stack.kernels, a) + b.T[:, :, None]
    mean = mean / np.sqrt(1.0 + (e**2).sum(axis=1) / problem.intermediate_precision)[:, None]
    labels, likelihood = problem.y.argmax(axis=0), np.ones(size)
    for i, own in enumerate(labels):
        y = signs_of(np.full(size, own), 3)
        likelihood *= np.exp(largest_moments(mean[:, :, i], y, 0.0).log_normalizer)
    evidence, error = np.log(likelihood.mean()), likelihood.std() / likelihood.mean() / np.sqrt(size)
    assert error < 0.03
    assert 4.0 * error < evidence - bound < gap


@pytest.mark.slow
def test_class_probabilities_order_the_classes_as_a_sampler_does(rng):
    """Mean field shrinks the scores of 18 samples: probabilities are less extreme than the sampler's, by 0.12."""
    views, labels = three_views(rng, 18)
    others, _ = three_views(rng, 12)
    problem, start = problem_of(kernels_between(views, views), signs_of(labels, 3), KNOWN_PRECISIONS)
    state = maximize_elbo(bemkl, problem, start, LoopOptions()).state
    rows = DenseStack(kernels_between(others, views))
    found = np.exp(predict_class_scores(rows, state.dual, state.readout, 1.0).log_class_probabilities(0.0))
    with numpyro_session():
        sampler = MCMC(NUTS(collapsed), num_warmup=300, num_samples=600, progress_bar=False)
        sampler.run(jax.random.key(5), problem)
        draws = {name: np.asarray(value) for name, value in sampler.get_samples().items()}
    weights = draws["kernel_weights"]
    mean = (
        np.einsum("sm,mij,scj->csi", weights, rows.kernels, draws["dual"]) + draws["intercept"].T[:, :, None]
    )
    scale = np.sqrt(1.0 + (weights**2).sum(axis=1))[:, None]
    logs = log_largest((mean / scale).reshape(3, -1), np.ones((3, mean[0].size)), 0.0)
    sampled = np.exp(logs).reshape(mean.shape).mean(axis=1).T
    np.testing.assert_array_equal(found.argmax(axis=1), sampled.argmax(axis=1))
    assert np.corrcoef(found.ravel(), sampled.ravel())[0, 1] > 0.98
    assert np.abs(found - sampled).mean() < 0.15
