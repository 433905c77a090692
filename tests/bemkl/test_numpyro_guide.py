"""The check that the closed form stands on: NumPyro's Trace_ELBO of model and guide equals our bound.

The guide is the closed-form posterior in NumPyro's densities, the model the paper's generative story; neither shares
a formula with `elbo`. On twenty problems the mean of log p - log q over draws is the bound, up to three standard
errors. Two bounds that are wrong in the way others have published fail the same comparison.
"""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from helpers import (
    BINARY_PRIORS,
    REGRESSION_PRIORS,
    assert_same,
    binary_problem,
    informed_target,
    random_kernels,
    regression_problem,
)
from numpyro.distributions import constraints
from numpyro.infer import SVI, Trace_ELBO

from bayesmkl._numerics.truncated_normal import truncated_moments
from bayesmkl._utils.numpyro_session import numpyro_session
from bayesmkl.bemkl import model as bemkl
from bayesmkl.bemkl import moments
from bayesmkl.bemkl.ascent import LoopOptions, maximize_elbo
from bayesmkl.bemkl.model import State
from bayesmkl.bemkl.moments import (
    Gamma,
    Gaussian,
    IntermediateOutputs,
    latent_mean,
    readout_design,
    score_error,
)
from bayesmkl.bemkl.program import literal_model
from bayesmkl.posterior import guide as numpyro_guide
from bayesmkl.posterior.guide import elbo_particles

pytestmark = pytest.mark.heavy

N_SAMPLES, N_KERNELS, N_PARTICLES = 40, 5, 4096
STANDARD_ERRORS = 3.0
CONVERGED = 3000  # sweeps at most


class Estimate(NamedTuple):
    """Of the bound, in nats."""

    mean: float
    standard_error: float


class Case(NamedTuple):
    """One problem, and how many sweeps are made on it."""

    task: str
    prior: str
    n_sweeps: int
    margin: float = 1.0
    sigma: float = 1.0


CASES = [
    Case("binary", "non-sparse", CONVERGED),
    Case("binary", "non-sparse", 1, margin=0.3, sigma=0.5),
    Case("binary", "non-sparse", CONVERGED, margin=0.2, sigma=0.1),
    Case("binary", "sparse", CONVERGED),
    Case("binary", "sparse", 3, margin=0.6, sigma=1.4),
    Case("binary", "sparse", CONVERGED, margin=1.5, sigma=0.7),
    Case("binary", "sparse", 10, margin=0.4, sigma=0.1),
    Case("binary", "general", CONVERGED, margin=0.6, sigma=1.4),
    Case("binary", "general", CONVERGED, margin=1.5, sigma=2.0),
    Case("binary", "general", 2, margin=0.0, sigma=0.8),
    Case("regression", "non-sparse", CONVERGED),
    Case("regression", "non-sparse", 1),
    Case("regression", "non-sparse", 5),
    Case("regression", "sparse", CONVERGED),
    Case("regression", "sparse", 2),
    Case("regression", "sparse", 20),
    Case("regression", "sparse", 200),
    Case("regression", "general", CONVERGED),
    Case("regression", "general", 1),
    Case("regression", "general", 10),
]
NUMBERED = pytest.mark.parametrize(  # each is compiled: every other one is left to `make test TESTS=slow`
    "number", [pytest.param(k, marks=[pytest.mark.slow] * (k % 2)) for k in range(len(CASES))]
)
ALGORITHMS = {"binary": bemkl, "regression": bemkl}


def make_problem(case, rng, n_samples=N_SAMPLES, n_kernels=N_KERNELS):
    kernels = random_kernels(rng, n_samples, n_kernels)
    target = informed_target(rng, kernels)
    if case.task == "binary":
        y = np.where(target > 0.0, 1.0, -1.0)
        y[:3] *= -1.0  # a few labels that no score explains
        return binary_problem(kernels, y, BINARY_PRIORS[case.prior], case.margin, case.sigma)
    return regression_problem(kernels, target, REGRESSION_PRIORS[case.prior])


def maximum(case, problem):
    """Return the state and the bound after the sweeps of the case."""
    algorithm = ALGORITHMS[case.task]
    noise = np.full(problem.y.size, 1.0 if case.task == "binary" else 0.0)
    options = LoopOptions(max_iter=case.n_sweeps, tol=1e-12)
    result = maximize_elbo(algorithm, problem, algorithm.init(problem, noise), options)
    return result.state, result.elbo_history[-1]


@cache
def solved(number):
    """Return problem, state and bound."""
    case = CASES[number]
    problem = make_problem(case, np.random.default_rng(number))
    return problem, *maximum(case, problem)


@cache
def estimated(number):
    """Return the estimate of the bound."""
    problem, state, _ = solved(number)
    particles = elbo_particles(problem, state, N_PARTICLES, random_state=number)
    return Estimate(float(particles.mean()), float(particles.std(ddof=1) / np.sqrt(N_PARTICLES)))


def deviation(bound, estimate):
    """Return how many standard errors lie between a bound and its estimate."""
    return abs(estimate.mean - bound) / estimate.standard_error


# --------------------------------------------------------------------------------------------------- the check


def test_guide_takes_no_formula_from_the_bound():
    tree = ast.parse(Path(numpyro_guide.__file__).read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            node.body = [ast.Pass()]  # annotations hold no formula
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]
    ours = {
        (node.module, alias.name)
        for node in imports
        for alias in node.names
        if isinstance(node, ast.ImportFrom) and node.module.startswith("bayesmkl")
    }
    assert ours == {
        ("bayesmkl.bemkl.model", "Problem"),
        ("bayesmkl.bemkl.model", "State"),
        ("bayesmkl.bemkl.program", "literal_model"),
        ("bayesmkl._utils.numpyro_session", "numpyro_session"),
    }
    assert not [a.name for n in imports if isinstance(n, ast.Import) for a in n.names if "bayesmkl" in a.name]


@NUMBERED
def test_closed_form_bound_equals_trace_elbo(number):
    (problem, state, bound), estimate = solved(number), estimated(number)
    assert_same(ALGORITHMS[CASES[number].task].elbo(problem, state), bound, 1e-12)
    assert estimate.standard_error < 0.01 * abs(bound)
    assert deviation(bound, estimate) < STANDARD_ERRORS


@pytest.mark.parametrize("number", [i for i, case in enumerate(CASES) if case.task == "binary"][::2])
def test_bound_without_the_shift_of_the_latent_scores_fails_the_check(number):
    """The entropy of q(f) without ½ (E[f] - μ)²."""
    (problem, state, _), estimate = solved(number), estimated(number)
    shift = state.latent.mean - latent_mean(state.intermediate, state.readout)
    wrong = state._replace(latent=state.latent._replace(entropy=state.latent.entropy - 0.5 * shift**2))
    assert deviation(bemkl.elbo(problem, wrong), estimate) > STANDARD_ERRORS


@NUMBERED
def test_bound_with_the_product_of_means_fails_the_check(number, monkeypatch):
    """E[G] E[G]' in the place of E[G G'] in the expected squared distance of the scores."""
    (problem, state, _), estimate = solved(number), estimated(number)
    algorithm = ALGORITHMS[CASES[number].task]

    def product_of_means(scores, intermediate, readout, _):
        means = intermediate._replace(cov=np.zeros_like(intermediate.cov))
        return score_error(scores, means, readout, readout_design(means))

    monkeypatch.setattr(moments, "score_error", product_of_means)
    assert deviation(algorithm.elbo(problem, state), estimate) > STANDARD_ERRORS


def test_location_of_the_latent_factor_follows_from_its_moments(rng):
    """q(f) after a sweep has its location at E[e]' E[g] + E[b], which the guide is not told."""
    y, margin = np.where(rng.random(200) < 0.5, -1.0, 1.0), 0.7
    location = np.linspace(-30.0, 30.0, 200)
    with numpyro_session():
        moments = truncated_moments(location, y, margin)
        normal = numpyro_guide._cut_off_normal(moments, y, margin).base_dist.base_dist
        np.testing.assert_allclose(y * normal.loc, location, rtol=1e-12, atol=1e-12)
    for number, case in enumerate(CASES[:10]):
        problem, state, _ = solved(number)
        with numpyro_session():
            law = numpyro_guide._cut_off_normal(state.latent, problem.y, case.margin)
            found = np.asarray(problem.y * law.base_dist.base_dist.loc)
        assert_same(found, latent_mean(state.intermediate, state.readout), 1e-9)


# ------------------------------------------------------------------------------- every factor is at its optimum


def scaled(factor, shift, scale):
    """Gamma or Gaussian factor with its rate or covariance scaled; means move by `shift` standard deviations."""
    if isinstance(factor, Gamma):
        return Gamma(factor.concentration * (1.0 + shift), factor.rate * scale)
    cov = scale * factor.cov
    std = np.sqrt(np.diag(factor.cov))
    if isinstance(factor, IntermediateOutputs):
        return IntermediateOutputs(factor.mean + shift * std[:, None], cov, np.linalg.slogdet(cov)[1])
    return Gaussian.from_moments(factor.mean + shift * std, cov)


def perturbed(problem, state):
    """Yield name and state for every way to move one factor away from its optimum."""
    for name in state._fields:
        factor = getattr(state, name)
        if factor is None:
            continue
        if name == "latent":
            location = latent_mean(state.intermediate, state.readout)
            for shift in (-0.3, 0.3):
                moved = truncated_moments(location + shift, problem.y, problem.outcome.margin)
                yield f"{name} {shift:+}", state._replace(latent=moved)
            continue
        for shift, scale in [(0.25, 1.0), (-0.25, 1.0), (0.0, 1.5), (0.0, 0.6)]:
            yield f"{name} {shift:+} {scale}", state._replace(**{name: scaled(factor, shift, scale)})


@pytest.mark.parametrize("number", [7, 10])
def test_moving_any_factor_lowers_the_estimated_bound(number):
    """Paired differences, with the same random numbers for both states, at a fixed point."""
    problem, state, bound = solved(number)
    algorithm = ALGORITHMS[CASES[number].task]
    at_optimum = elbo_particles(problem, state, 512)
    for name, moved in perturbed(problem, state):
        loss = at_optimum - elbo_particles(problem, moved, 512)
        error = loss.std() / np.sqrt(loss.size)
        assert loss.mean() > STANDARD_ERRORS * error, name
        expected = bound - algorithm.elbo(problem, moved)
        assert abs(loss.mean() - expected) < 4.0 * error, name


# -------------------------------------------------------------------------- optimizing the same family elsewhere

N_STEPS = {"binary": 2000, "regression": 10_000}


def learnable_guide(start, n_precisions):
    """The family of the closed form with parameters of its own; all precisions are drawn at one site."""

    def normal(name):
        mean = numpyro.param(f"{name}_mean", start[name])
        root = numpyro.param(
            f"{name}_root", 0.3 * jnp.eye(mean.shape[0]), constraint=constraints.lower_cholesky
        )
        return mean, root

    def guide(problem):
        n, n_kernels = problem.y.shape[0], problem.stack.n_kernels
        shapes = [
            numpyro.param(name, jnp.ones(n_precisions), constraint=constraints.positive)
            for name in ("concentration", "rate")
        ]
        precisions = numpyro.sample(
            "precisions", dist.Gamma(*shapes).to_event(1), infer={"is_auxiliary": True}
        )
        for name, index in precision_slices(n, n_kernels, n_precisions).items():
            part = precisions[index]
            numpyro.sample(name, dist.Delta(part, event_dim=part.ndim))
        mean, root = normal("dual")
        numpyro.sample("dual", dist.MultivariateNormal(mean, scale_tril=root))
        mean, root = normal("intermediate")
        numpyro.sample("intermediate", dist.MatrixNormal(mean, root, jnp.eye(n)))
        mean, root = normal("readout")
        readout = numpyro.sample(
            "readout", dist.MultivariateNormal(mean, scale_tril=root), infer={"is_auxiliary": True}
        )
        numpyro.sample("intercept", dist.Delta(readout[0]))
        numpyro.sample("kernel_weights", dist.Delta(readout[1:], event_dim=1))
        if not problem.outcome.has_noise:
            location = numpyro.param("location", jnp.zeros(n))
            above = dist.TruncatedNormal(problem.y * location, 1.0, low=problem.outcome.margin)
            sided = dist.TransformedDistribution(above, dist.transforms.AffineTransform(0.0, problem.y))
            numpyro.sample("latent", sided.to_event(1))

    return guide


def precision_slices(n, n_kernels, n_precisions):
    slices = {
        "sample_precision": slice(0, n),
        "intercept_precision": n,
        "kernel_precision": slice(n + 1, n + 1 + n_kernels),
    }
    if n_precisions > n + 1 + n_kernels:
        slices |= {"intermediate_precision": -2, "noise_precision": -1}
    return slices


def learned_state(problem, params):
    """Return the state that the parameters stand for."""
    size = params["rate"].size
    slices = precision_slices(problem.y.size, problem.stack.n_kernels, size)
    factors = {n: Gamma(params["concentration"][i], params["rate"][i]) for n, i in slices.items()}
    for name in ("dual", "readout"):
        root = params[f"{name}_root"]
        factors[name] = Gaussian.from_moments(params[f"{name}_mean"], root @ root.T)
    cov = params["intermediate_root"] @ params["intermediate_root"].T
    factors["intermediate"] = IntermediateOutputs(params["intermediate_mean"], cov, np.linalg.slogdet(cov)[1])
    if "location" in params:
        latent = truncated_moments(params["location"], problem.y, problem.outcome.margin)
        return State(**factors, latent=latent)
    return State(**factors)


def run_svi(problem, start, n_steps):
    """Adam on Trace_ELBO; initialization and all steps in one compilation, for which the time goes."""

    def run(problem):
        n_precisions = problem.y.size + 1 + problem.stack.n_kernels + 2 * (problem.outcome.has_noise)
        adam = numpyro.optim.Adam(lambda step: 0.05 * 0.005 ** (step / n_steps))
        guide = learnable_guide(start, n_precisions)
        svi = SVI(literal_model, guide, adam, Trace_ELBO(num_particles=4))
        state = svi.init(jax.random.key(0), problem)
        state, _ = jax.lax.scan(lambda state, _: svi.update(state, problem), state, None, length=n_steps)
        return svi.get_params(state)

    with numpyro_session():
        start, problem = jax.tree.map(lambda x: jnp.asarray(x, float), (start, problem))
        quick = jax.jit(run, compiler_options={"xla_backend_optimization_level": 0})
        return jax.tree.map(np.asarray, quick(problem))


@pytest.mark.slow
@pytest.mark.parametrize("task", ["binary", "regression"])
def test_svi_from_elsewhere_comes_close_and_does_not_beat_the_closed_form(rng, task):
    case, algorithm = Case(task, "general", 20_000, margin=0.6, sigma=1.4), ALGORITHMS[task]
    n_samples, n_kernels = 20, 3
    problem = make_problem(case, rng, n_samples, n_kernels)
    _, best = maximum(case, problem)
    sizes = {"dual": n_samples, "intermediate": (n_kernels, n_samples), "readout": 1 + n_kernels}
    start = {name: rng.normal(size=size) for name, size in sizes.items()}
    state = learned_state(problem, run_svi(problem, start, N_STEPS[task]))
    reached = algorithm.elbo(problem, state)
    assert best - 2.5 < reached <= best
    from_there = maximize_elbo(
        algorithm, problem, algorithm.carry(problem, state), LoopOptions(max_iter=20_000, tol=1e-12)
    )
    assert_same(from_there.elbo_history[-1], best, 1e-7)  # the same mode


# ------------------------------------------------------------------------------------------------ the functions


def test_particles_are_reproducible_and_extend_each_other():
    problem, state, _ = solved(0)
    few, many = elbo_particles(problem, state, 300, 5), elbo_particles(problem, state, 600, 5)
    assert few.shape == (300,)
    assert isinstance(few, np.ndarray)
    assert few.dtype == float
    np.testing.assert_array_equal(few, many[:300])
    assert not np.array_equal(few, elbo_particles(problem, state, 300, 6))
