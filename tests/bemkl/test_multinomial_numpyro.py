"""Multinomial probit a second time, as NumPyro programs of a small case: literal, collapsed, sampled."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from numpyro.handlers import seed, substitute, trace
from numpyro.infer import MCMC, NUTS
from scipy import stats
from test_multiclass import kernels_between, three_views
from test_multinomial import problem_of, random_problem, signs_of

from bayesmkl._numerics.largest_normal import largest_moments, log_largest
from bayesmkl._utils.numpyro_session import numpyro_session
from bayesmkl.bemkl import model as bemkl
from bayesmkl.bemkl.ascent import LoopOptions, maximize_elbo
from bayesmkl.bemkl.model import Priors
from bayesmkl.bemkl.moments import Gamma
from bayesmkl.bemkl.reading import log_class_probabilities, predict_class_scores
from bayesmkl.kernels.stacks.dense import DenseStack

pytestmark = pytest.mark.heavy

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


def log_joint(problem, dual, readout):
    """log p(y, a, b, e) of one draw, with NumPy and SciPy."""
    n_classes = problem.y.shape[0]
    intercept, weights, total = readout[:n_classes], readout[n_classes:], 0.0
    for value, prior in zip([dual, intercept, weights], problem.priors[:3], strict=True):
        law = stats.t(2.0 * prior.concentration, scale=(prior.rate / prior.concentration) ** 0.5)
        total += law.logpdf(value).sum()
    mean = np.einsum("m,mij,cj->ci", weights, problem.stack.kernels, dual) + intercept[:, None]
    scale = np.sqrt(1.0 + weights @ weights / problem.intermediate_precision)
    return total + (log_largest(mean / scale, np.ones_like(mean), 0.0) * (problem.y > 0.0)).sum()


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


def test_gradient_of_the_collapsed_density_by_finite_difference(rng):
    problem, _ = random_problem(rng, "general", sigma=0.8)
    values, h = random_parameters(rng, problem), 1e-5

    def density(dual, intercept, weights):
        return log_joint(problem, dual, np.concatenate([intercept, weights]))

    with numpyro_session():
        potential = partial(numpyro.infer.util.log_density, collapsed, (problem,), {})
        value, slope = jax.jit(jax.value_and_grad(lambda v: potential(v)[0]))(values)
        value, slope = float(value), {name: np.asarray(part) for name, part in slope.items()}
    point = [values[name] for name in ("dual", "intercept", "kernel_weights")]
    assert value == pytest.approx(density(*point), rel=1e-9)
    for index, name in enumerate(("dual", "intercept", "kernel_weights")):
        move = [np.zeros_like(part) for part in point]
        move[index] = rng.normal(size=point[index].shape)
        up, down = (
            density(*(p + sign * h * m for p, m in zip(point, move, strict=True))) for sign in (1.0, -1.0)
        )
        assert (slope[name] * move[index]).sum() == pytest.approx((up - down) / (2 * h), rel=1e-5, abs=1e-6)


@pytest.mark.slow
def test_class_probabilities_order_the_classes_as_a_sampler_does(rng):
    """Mean field shrinks the scores of 18 samples: probabilities are less extreme than the sampler's, by 0.12."""
    views, labels = three_views(rng, 18)
    others, _ = three_views(rng, 12)
    problem, start = problem_of(kernels_between(views, views), signs_of(labels, 3), KNOWN_PRECISIONS)
    state = maximize_elbo(bemkl, problem, start, LoopOptions()).state
    rows = DenseStack(kernels_between(others, views))
    found = np.exp(log_class_probabilities(predict_class_scores(rows, state.dual, state.readout, 1.0), 0.0))
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
