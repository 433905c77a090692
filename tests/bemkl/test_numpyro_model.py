"""The NumPyro programs: the collapsed one against integrals of the literal one, and both against other libraries.

The NumPyro program of several outputs with shared kernel weights, against densities written in NumPy.
"""

from __future__ import annotations

import threading
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import (
    BINARY_PRIORS,
    REGRESSION_PRIORS,
    assert_monte_carlo,
    assert_same,
    binary_problem,
    random_kernels,
    random_labels,
    regression_problem,
)
from numpyro.handlers import condition, substitute, trace
from numpyro.infer import Predictive, log_likelihood
from numpyro.infer.util import log_density
from scipy import special, stats
from sklearn.preprocessing import StandardScaler

from bayesmkl import BEMKLClassifier, KernelBank
from bayesmkl._numerics.convergence import Outcome
from bayesmkl._utils.devices import numpyro_session
from bayesmkl.bemkl import NUTS
from bayesmkl.bemkl.draws import PosteriorDraws, log_prior_terms
from bayesmkl.bemkl.draws import log_likelihood as log_likelihood_of
from bayesmkl.bemkl.model import Priors, Problem
from bayesmkl.bemkl.moments import Dirichlet, SpikeSlab
from bayesmkl.bemkl.program import (
    BeyondMargin,
    MarginalLabel,
    collapsed_model,
    literal_model,
)
from bayesmkl.bemkl.reading import class_scores
from bayesmkl.datasets import load_iris
from bayesmkl.kernels import Gaussian, Linear
from bayesmkl.kernels.stacks.dense import DenseStack
from bayesmkl.outcomes import Labels, Numbers

pytestmark = pytest.mark.heavy

INTEGRAL = 1e-9  # of smooth integrands by Gauss-Legendre or the trapezoidal rule; 1e-6 is asked for
TASKS = ["binary", "regression"]


@pytest.fixture
def session():
    with numpyro_session():
        yield


def make_problem(rng, task, n_samples, n_kernels, margin=0.6, sigma=1.4):
    kernels = random_kernels(rng, n_samples, n_kernels)
    if task == "binary":
        y = random_labels(rng, n_samples) if n_samples > 1 else np.array([-1.0])
        return binary_problem(kernels, y, BINARY_PRIORS["general"], margin, sigma)
    return regression_problem(kernels, rng.normal(size=n_samples), REGRESSION_PRIORS["general"])


def with_kernel_prior(problem, prior):
    return problem._replace(priors=problem.priors._replace(kernel=prior))


def random_parameters(rng, problem, *draws, scale=1.0):
    """Values of the sites that both models have."""
    stack, values = problem.stack, {}
    values["dual"] = scale * rng.normal(size=(*draws, stack.n_train))
    values["intercept"] = scale * rng.normal(size=draws)
    values["kernel_weights"] = rng.normal(size=(*draws, stack.n_kernels))
    if problem.outcome.has_noise:
        values["intermediate_precision"] = rng.gamma(2.0, size=draws)
        values["noise_precision"] = rng.gamma(2.0, size=draws)
    return values


def literal_parameters(rng, problem):
    """Values of all sites of the literal model but `intermediate` and `latent`."""
    values = random_parameters(rng, problem)
    sizes = {
        "sample_precision": problem.stack.n_train,
        "intercept_precision": (),
        "kernel_precision": problem.stack.n_kernels,
    }
    return values | {name: rng.gamma(2.0, size=size) for name, size in sizes.items()}


@partial(jax.jit, static_argnums=0)
def _sites(model, problem, values):
    def sites(values):
        record = trace(substitute(model, values)).get_trace(problem).values()
        return {
            site["name"]: jnp.sum(site["fn"].log_prob(site["value"]))
            for site in record
            if site["type"] == "sample"
        }

    return jax.vmap(sites)(values)


def site_log_densities(model, problem, values):
    """Log density of every site, summed within the site, for values with one leading axis."""
    return jax.tree.map(np.asarray, _sites(model, problem, values))


def panel(low, high, n_nodes):
    """Nodes and log weights of Gauss and Legendre."""
    nodes, weights = np.polynomial.legendre.leggauss(n_nodes)
    half = 0.5 * (high - low)
    return low + half * (nodes + 1.0), np.log(half * weights)


def product_rule(*rules):
    """Nodes, one array per dimension, and log weights of a product of one-dimensional rules."""
    nodes = np.meshgrid(*(nodes for nodes, _ in rules), indexing="ij")
    log_weights = sum(np.meshgrid(*(weights for _, weights in rules), indexing="ij"))
    return [axis.reshape(-1) for axis in nodes], log_weights.reshape(-1)


def repeated(values, size):
    return {name: np.broadcast_to(value, (size, *np.shape(value))) for name, value in values.items()}


# ------------------------------------------------------------------------------------------- marginal densities


@pytest.mark.parametrize("n_kernels", [1, 2])
@pytest.mark.parametrize("task", TASKS)
def test_collapsed_likelihood_is_the_literal_one_with_g_and_f_integrated_out(rng, session, task, n_kernels):
    problem = make_problem(rng, task, 1, n_kernels)
    values = literal_parameters(rng, problem)
    expected = log_likelihood(collapsed_model, values, problem, batch_ndims=0)["y"].item()

    center = problem.stack.apply(values["dual"])[:, 0]
    if task == "binary":  # f on either side of the end of the margin, where its likelihood jumps
        spread, n_nodes = problem.intermediate_precision**-0.5, 64
        end = problem.y[0] * problem.outcome.margin
        below, above = panel(-40.0, end, 96), panel(end, 40.0, 96)
        latent_rule = [tuple(np.concatenate(parts) for parts in zip(below, above, strict=True))]
    else:
        spread, n_nodes, latent_rule = values["intermediate_precision"] ** -0.5, 250, []
    rules = [panel(middle - 7.5 * spread, middle + 7.5 * spread, n_nodes) for middle in center]
    nodes, log_weights = product_rule(*rules, *latent_rule)
    literal = repeated(values, log_weights.size)
    literal["intermediate"] = np.stack(nodes[:n_kernels], axis=1)[:, :, None]
    if task == "binary":
        literal["latent"] = nodes[-1][:, None]
    sites = site_log_densities(literal_model, problem, literal)
    integrand = sites["intermediate"] + sites.get("latent", 0.0) + sites["y"]
    assert abs(special.logsumexp(integrand + log_weights) - expected) < INTEGRAL


@pytest.mark.parametrize("task", TASKS)
def test_collapsed_priors_are_the_literal_ones_with_precisions_integrated_out(rng, session, task):
    problem = make_problem(rng, task, 1, 1)
    values = random_parameters(rng, problem)
    expected = site_log_densities(collapsed_model, problem, repeated(values, 1))

    log_precision = np.linspace(-60.0, 12.0, 2000)
    literal = repeated(values, log_precision.size)
    precision = np.exp(log_precision)
    literal |= {"sample_precision": precision[:, None], "kernel_precision": precision[:, None]}
    literal |= {"intercept_precision": precision, "intermediate": np.zeros((precision.size, 1, 1))}
    if task == "binary":
        literal["latent"] = np.zeros((precision.size, 1))
    sites = site_log_densities(literal_model, problem, literal)
    step = log_precision[1] - log_precision[0]
    pairs = {"dual": "sample", "intercept": "intercept", "kernel_weights": "kernel"}
    for name, prefix in pairs.items():
        integrand = (
            sites[name] + sites[f"{prefix}_precision"] + log_precision
        )  # d precision = precision d log
        marginal = special.logsumexp(integrand) + np.log(step)
        assert abs(marginal - expected[name][0]) < INTEGRAL, name
    if task == "regression":
        for name in ("intermediate_precision", "noise_precision"):
            assert_same(sites[name][0], expected[name][0], 1e-14, name)


@pytest.mark.parametrize("task", TASKS)
def test_collapsed_likelihood_against_draws_of_g_and_f(rng, session, task):
    problem = make_problem(rng, task, 6, 5, margin=0.8, sigma=0.7)
    values = literal_parameters(rng, problem)
    expected = np.exp(log_likelihood(collapsed_model, values, problem, batch_ndims=0)["y"])
    draws = Predictive(condition(literal_model, values), num_samples=40_000)(jax.random.key(0), problem)
    draws |= repeated(values, 40_000)
    likelihood = np.exp(log_likelihood(literal_model, draws, problem)["y"])
    assert_monte_carlo(likelihood, expected, task)


def test_labels_within_the_margin_carry_no_probability(session):
    law = MarginalLabel(np.array([0.3, -2.0]), np.array([1.5, 0.8]), 0.9)
    missing = 1.0 - np.exp(law.log_prob(1.0)) - np.exp(law.log_prob(-1.0))
    within = stats.norm(law.loc, law.scale)
    assert_same(missing, within.cdf(0.9) - within.cdf(-0.9), 1e-13)


# ---------------------------------------------------------------------------------------------- sampled labels


def test_marginal_labels_are_drawn_from_the_law_of_observed_ones(session):
    loc, scale, margin = np.array([-0.7, 0.2, 1.9]), np.array([0.5, 1.7, 1.2]), 0.6
    labels = np.asarray(MarginalLabel(loc, scale, margin).sample(jax.random.key(1), (40_000,)))
    assert set(np.unique(labels)) == {-1.0, 1.0}
    sides = stats.norm.cdf((loc - margin) / scale), stats.norm.cdf((-loc - margin) / scale)
    assert_monte_carlo(labels == 1.0, sides[0] / (sides[0] + sides[1]))


def test_labels_of_known_scores(session):
    law = BeyondMargin(np.array([-2.0, -0.4, 0.0, 0.5, 0.7]), 0.5)
    np.testing.assert_array_equal(law.sample(jax.random.key(0), (2,)), [[-1.0, 0.0, 0.0, 0.0, 1.0]] * 2)
    inf = np.inf
    np.testing.assert_array_equal(law.log_prob(1.0), [-inf, -inf, -inf, -inf, 0.0])
    np.testing.assert_array_equal(law.log_prob(-1.0), [0.0, -inf, -inf, -inf, -inf])


def test_labels_other_than_plus_and_minus_one_are_outside_the_support(session):
    np.testing.assert_array_equal(
        MarginalLabel.support(np.array([-1.0, 0.0, 0.5, 1.0])), [True, False, False, True]
    )


# --------------------------------------------------------------------------------------------------- gradients


def test_derivatives_of_the_marginal_label_in_both_tails(session):
    """Against φ(z)/Φ(z) and -r (r + z) from scipy; beyond -40 the latter cancels and Laplace's series takes over."""
    z = np.array([-1e8, -1e4, -60.0, -37.0, -5.0, -3.0 - 1e-9, -3.0, -1.0, 0.0, 1.0, 5.0, 8.0, 40.0, 1e6])
    first = jax.grad(lambda loc: MarginalLabel(loc, 1.0, 0.0).log_prob(1.0))
    slope, curvature = jax.jit(jax.vmap(first))(z), jax.jit(jax.vmap(jax.grad(first)))(z)
    with np.errstate(over="ignore"):
        mills = np.sqrt(2.0 / np.pi) / special.erfcx(-z / np.sqrt(2.0))
    np.testing.assert_allclose(slope, mills, rtol=1e-12, atol=2e-15)
    tail = z < -40.0
    expected = np.where(tail, 1.0 / np.where(tail, z, 1.0) ** 2 - 1.0, -mills * (mills + z))
    np.testing.assert_allclose(curvature, expected, rtol=1e-6, atol=1e-12)


@jax.jit
def along(t, problem, values, direction):
    """Log density of the collapsed model at ``values + t * direction``."""
    moved = {name: value + t * direction[name] for name, value in values.items()}
    return log_density(collapsed_model, (problem,), {}, moved)[0]


slope = jax.jit(jax.grad(along))


@pytest.mark.parametrize("scale", [1.0, 300.0])
@pytest.mark.parametrize("task", TASKS)
def test_gradient_of_the_collapsed_model_against_finite_differences(rng, session, task, scale):
    """Scores of a few hundred put some labels far into either tail."""
    problem = make_problem(rng, task, 8, 3)
    values = random_parameters(rng, problem, scale=scale)

    for _ in range(5):
        direction = random_parameters(rng, problem)
        found = slope(0.0, problem, values, direction).item()
        h = 1e-4
        values_at = [along(k * h, problem, values, direction).item() for k in (-2, -1, 1, 2)]
        differences = (values_at[2] - values_at[1]) / (2 * h), (values_at[3] - values_at[0]) / (4 * h)
        expected = (4.0 * differences[0] - differences[1]) / 3.0  # Richardson
        assert abs(found - expected) < 1e-6 * max(1.0, abs(expected))


# ------------------------------------------------------------------------------- invariances and other priors


@pytest.mark.parametrize("prior", [Dirichlet(0.7), Dirichlet(np.array([0.4, 1.0, 3.0]))])
@pytest.mark.parametrize("task", TASKS)
def test_dirichlet_weights(rng, session, task, prior):
    problem = make_problem(rng, task, 7, 3)
    values = random_parameters(rng, problem) | {"kernel_weights": np.array([0.5, 0.2, 0.3])}
    gamma = site_log_densities(collapsed_model, problem, repeated(values, 1))
    found = site_log_densities(collapsed_model, with_kernel_prior(problem, prior), repeated(values, 1))
    law = stats.dirichlet(np.broadcast_to(prior.concentration, 3))
    assert_same(found.pop("kernel_weights")[0], law.logpdf(values["kernel_weights"]), 1e-13)
    gamma.pop("kernel_weights")
    assert found == gamma  # nothing else changes


@pytest.mark.parametrize("prior", [SpikeSlab(0.3, 2.0), SpikeSlab(np.array([0.1, 0.5, 0.9]), 0.4)])
@pytest.mark.parametrize("task", TASKS)
def test_spike_and_slab_weights(rng, session, task, prior):
    problem = make_problem(rng, task, 7, 3)
    values = random_parameters(rng, problem)
    slab, inclusion = rng.normal(size=3), np.array([1, 0, 1])
    gamma = site_log_densities(
        collapsed_model, problem, repeated(values | {"kernel_weights": inclusion * slab}, 1)
    )
    del values["kernel_weights"]
    values |= {"slab_weights": slab, "kernel_inclusion": inclusion}
    found = site_log_densities(collapsed_model, with_kernel_prior(problem, prior), repeated(values, 1))
    switches = stats.bernoulli(np.broadcast_to(prior.inclusion, 3)).logpmf(inclusion).sum()
    assert_same(found["kernel_inclusion"][0], switches, 1e-13)
    assert_same(found["slab_weights"][0], stats.norm(scale=prior.scale).logpdf(slab).sum(), 1e-13)
    assert_same(found["y"], gamma["y"], 1e-13)


def test_spike_and_slab_draws_have_exact_zeros(session, rng):
    problem = with_kernel_prior(make_problem(rng, "binary", 5, 4), SpikeSlab(0.3, 2.0))
    fixed = condition(collapsed_model, {"dual": np.zeros(5), "intercept": 0.0})
    draws = Predictive(fixed, num_samples=4000)(jax.random.key(0), problem)
    weights = np.asarray(draws["kernel_weights"])
    np.testing.assert_array_equal(weights != 0.0, draws["kernel_inclusion"] == 1)
    np.testing.assert_allclose(weights, draws["kernel_inclusion"] * draws["slab_weights"], rtol=1e-15)
    assert_monte_carlo(weights != 0.0, 0.3)
    assert_monte_carlo(weights[weights != 0.0] ** 2, 4.0)


# ----------------------------------------------------------------------------------------------------- session


def test_two_threads_take_turns(rng):
    problem = make_problem(rng, "binary", 6, 3)
    values = random_parameters(rng, problem)
    barrier, inside, results, overlaps = threading.Barrier(2), [], [], []

    def work():
        barrier.wait()
        for _ in range(20):
            with numpyro_session():
                overlaps.append(len(inside))
                inside.append(1)
                results.append(log_density(collapsed_model, (problem,), {}, values)[0].item())
                inside.pop()

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert overlaps == [0] * 40
    assert len(set(results)) == 1


N, P, K = 7, 3, 2


@pytest.mark.parametrize("kind", ["labels", "targets"])
def test_density_of_all_outputs_is_a_product_that_counts_shared_weights_once(rng, kind):
    roots = rng.normal(size=(P, N, N))
    stack = DenseStack(roots @ roots.mT / N)
    gram = stack.gram()
    values = {
        "dual": rng.normal(size=(K, N)),
        "intercept": rng.normal(size=K),
        "kernel_weights": rng.normal(size=P),
    }
    if kind == "labels":
        y = rng.choice([-1.0, 1.0], size=(K, N))
        joint = Problem(stack, gram, y, Priors(), Labels(0.7), 1.6)
        alone = [Problem(stack, gram, row, Priors(), Labels(0.7), 1.6) for row in y]
        noises = {}
    else:
        y = rng.normal(size=(K, N))
        joint = Problem(stack, gram, y, Priors(), Numbers())
        alone = [Problem(stack, gram, row, Priors(), Numbers()) for row in y]
        noises = {name: rng.gamma(2.0, size=K) for name in ("intermediate_precision", "noise_precision")}
    with numpyro_session():
        found = float(log_density(collapsed_model, (joint,), {}, values | noises)[0])
    draws = [
        PosteriorDraws(
            values["kernel_weights"][None],
            values["intercept"][c : c + 1],
            values["dual"][c : c + 1],
            **{name: noise[c : c + 1] for name, noise in noises.items()},
        )
        for c in range(K)
    ]
    expected = sum(log_likelihood_of(*pair).sum() for pair in zip(alone, draws, strict=True))
    terms = [log_prior_terms(*pair) for pair in zip(alone, draws, strict=True)]
    expected += sum(sum(own.values()) for own in terms) - terms[1]["kernel_weights"]
    assert found == pytest.approx(expected.item(), rel=1e-12)


@pytest.mark.slow
def test_shared_classes_by_nuts_agree_with_the_closed_form():
    X, y = load_iris(return_X_y=True)
    rows = np.random.default_rng(0).permutation(150)
    X, y = StandardScaler().fit_transform(X)[rows], y[rows]
    bank = KernelBank([Gaussian(width=1.5), Linear()], views={"sepal": [0, 1], "petal": [2, 3]})
    nuts = BEMKLClassifier(bank, inference=NUTS(n_chains=2, n_draws=2000), intermediate_scale=1.0).fit(
        X[:50], y[:50]
    )
    closed = BEMKLClassifier(bank, intermediate_scale=1.0).fit(X[:50], y[:50])
    assert nuts.outcome_ in (Outcome.MIXED, Outcome.NOT_MIXED, Outcome.DIVERGING)
    assert nuts.posterior_.dual.shape == (2, 2000, 3, 50)
    assert nuts.kernel_shares_.argmax() == closed.kernel_shares_.argmax() == 2  # Gaussian of the petals
    assert nuts.intercept_.shape == (3,)
    np.testing.assert_allclose(nuts.intercept_, nuts.posterior_.intercept.mean(axis=(0, 1)))
    difference = np.abs(nuts.predict_proba(X[50:]) - closed.predict_proba(X[50:]))
    assert difference.mean() < 0.03


def test_scores_of_draws_are_those_of_every_output(rng):
    rows = DenseStack(rng.normal(size=(P, 5, N)))
    draws = PosteriorDraws(
        rng.normal(size=(2, 4, P)), rng.normal(size=(2, 4, K)), rng.normal(size=(2, 4, K, N))
    )
    flat = draws.flat()
    mean, std = class_scores(rows, draws, 1.3**2, "full").moments()
    scores = np.einsum("sm,mrt,sct->scr", flat.kernel_weights, rows.kernels, flat.dual)
    scores += flat.intercept[..., None]
    np.testing.assert_allclose(mean, scores.mean(axis=0).T, rtol=1e-12)
    noise = (1.0 + 1.3**2 * (flat.kernel_weights**2).sum(axis=1)).mean()
    np.testing.assert_allclose(std, np.sqrt(scores.var(axis=0) + noise).T, rtol=1e-12)
