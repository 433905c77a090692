"""Localized BEMKL: BEMKL with one feature, updates that are optima, a bound, and the same model in NumPyro."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import (
    SAME_FORMULA,
    SAME_ITERATION,
    assert_monte_carlo,
    assert_same,
    assert_same_factors,
    frozen,
    informed_target,
    random_gaussian,
    random_kernels,
    random_labels,
)
from scipy import stats

from bayesmkl._numerics.truncated_normal import TruncatedMoments, label_moments
from bayesmkl._utils.numpyro_session import numpyro_session
from bayesmkl.bemkl import Gamma, localized
from bayesmkl.bemkl.gate_basis import gate_basis, gate_scale
from bayesmkl.bemkl.inference.loop import LoopOptions, maximize_elbo
from bayesmkl.bemkl.models import binary, regression
from bayesmkl.bemkl.models.localized import LocalizedPriors, LocalizedProblem, LocalOutputs
from bayesmkl.bemkl.models.moments import Gaussian, IntermediateOutputs
from bayesmkl.bemkl.reading.local_weights import aligned
from bayesmkl.kernels.stacks.dense import DenseStack

N, P, D = 9, 2, 3
GENERAL = LocalizedPriors(
    Gamma(1.3, 0.7), Gamma(0.6, 2.1), Gamma(2.2, 0.4), Gamma(1.4, 0.9), Gamma(3.1, 1.7), Gamma(0.8, 0.3)
)
KINDS = pytest.mark.parametrize("kind", ["labels", "target"])


def problem_of(rng, kind, n_features=D, n_samples=N, priors=GENERAL, margin=0.6, sigma=0.7):
    kernels = random_kernels(rng, n_samples, P)
    stack, target = DenseStack(frozen(kernels)), informed_target(rng, kernels)
    features = frozen(np.c_[np.ones(n_samples), rng.normal(size=(n_samples, n_features - 1))])
    if kind == "target":
        return LocalizedProblem(stack, frozen(stack.gram()), frozen(target), features, priors)
    y = frozen(random_labels(rng, n_samples))
    return LocalizedProblem(stack, frozen(stack.gram()), y, features, priors, margin, sigma**-2)


def start_of(problem):
    return localized.init(problem, np.full(len(problem.y), 0.8 * (problem.margin is not None)))


def without_gates(problem):
    """Return the model without features, its problem and its start."""
    sample, intercept, kernel, _, intermediate, noise = problem.priors
    data = problem.stack, problem.gram, problem.y
    if problem.margin is None:
        priors = regression.RegressionPriors(sample, intercept, kernel, intermediate, noise)
        own = regression.RegressionProblem(*data, priors)
        return regression, own, regression.init(own, np.zeros(len(problem.y)))
    priors = binary.BinaryPriors(sample, intercept, kernel)
    own = binary.BinaryProblem(*data, priors, problem.margin, problem.intermediate_precision)
    return binary, own, binary.init(own, np.full(len(problem.y), 0.8))


def shared(module, state):
    """Return the state as that of the model without features, its covariances of G checked to be all one."""
    outputs = state.intermediate
    for cov in outputs.cov[1:]:
        assert_same(cov, outputs.cov[0], SAME_FORMULA)
    fields = {name: getattr(state, name) for name in module.STATE._fields}
    first = IntermediateOutputs(outputs.mean, outputs.cov[0], outputs.log_det[0])
    return module.STATE(**fields | {"intermediate": first})


# ------------------------------------------------------------------------------------------------- degenerate


@KINDS
def test_degenerate_one_feature_is_bemkl_sweep_by_sweep(rng, kind):
    problem = problem_of(rng, kind, n_features=1, n_samples=30)
    module, own, there = without_gates(problem)
    here = start_of(problem)
    for _ in range(5):
        state, bound = localized.sweep(problem, here)
        expected, other = module.sweep(own, there)
        np.testing.assert_allclose(bound, other, rtol=1e-11)
        assert state.gate_precision.rate.shape == (0,)
        assert_same_factors(shared(module, state), expected, SAME_ITERATION)
        here, there = localized.carry(problem, state), module.carry(own, expected)


@KINDS
def test_degenerate_one_feature_is_bemkl_at_the_end_of_the_accelerated_loop(rng, kind):
    problem = problem_of(rng, kind, n_features=1, n_samples=30)
    module, own, there = without_gates(problem)
    options = LoopOptions(tol=1e-13)
    found = maximize_elbo(localized, problem, start_of(problem), options)
    expected = maximize_elbo(module, own, there, options)
    np.testing.assert_allclose(found.elbo_history[-1], expected.elbo_history[-1], rtol=1e-8)
    np.testing.assert_allclose(found.state.readout.mean, expected.state.readout.mean, rtol=1e-4, atol=1e-6)


@KINDS
def test_degenerate_features_that_are_zero_change_no_score(rng, kind):
    problem = problem_of(rng, kind, n_features=1)
    wider = problem._replace(features=np.c_[problem.features, np.zeros((N, 2))])
    options = LoopOptions(max_iter=30, tol=0.0, accelerate=False)
    few, many = (maximize_elbo(localized, one, start_of(one), options) for one in (problem, wider))
    assert_same(many.state.readout.mean[1::3], few.state.readout.mean[1:], SAME_ITERATION)
    np.testing.assert_allclose(many.state.readout.mean[2::3], 0.0, atol=1e-8)
    assert many.elbo_history[-1] < few.elbo_history[-1]  # weights that do nothing, and their precision


# ---------------------------------------------------------------------------------------- updates and bound


@KINDS
@pytest.mark.parametrize("n_features", [1, 4])
def test_bound_never_falls(rng, kind, n_features):
    problem = problem_of(rng, kind, n_features, n_samples=25)
    options = LoopOptions(max_iter=60, tol=0.0, accelerate=False)
    plain = maximize_elbo(localized, problem, start_of(problem), options)
    assert np.diff(plain.elbo_history).min() > -1e-9
    fast = maximize_elbo(localized, problem, start_of(problem), options._replace(accelerate=True))
    assert np.diff(fast.elbo_history).min() > -1e-9
    assert fast.elbo_history[-1] >= plain.elbo_history[-1] - 1e-6


@KINDS
def test_updates_of_outputs_and_weights_element_by_element(rng, kind):
    problem = problem_of(rng, kind)
    start, phi, K = start_of(problem), problem.features, problem.stack.columns(slice(None))
    state, _ = localized.sweep(problem, start)
    start = localized.carry(problem, state)  # a covariance that is not diagonal
    state, _ = localized.sweep(problem, start)
    upsilon, epsilon = start.intermediate_precision, start.noise_precision
    moment = np.outer(start.readout, start.readout) + start.readout_cov
    a = state.dual.mean
    for i in range(N):
        select = np.kron(np.eye(P), phi[i])  # e_i = select w
        second = select @ moment[1:, 1:] @ select.T
        cov = np.linalg.inv(upsilon * np.eye(P) + epsilon * second)
        pull = start.latent[i] * select @ start.readout[1:] - select @ moment[1:, 0]
        mean = cov @ (upsilon * K[:, i] @ a + epsilon * pull)
        assert_same(state.intermediate.cov[i], cov, SAME_FORMULA)
        assert_same(state.intermediate.mean[:, i], mean, 1e-10)
        assert_same(state.intermediate.log_det[i], np.log(np.linalg.det(cov)), 1e-10)
    prior = np.r_[
        state.intercept_precision.mean,
        np.c_[
            state.kernel_precision.mean, np.repeat(state.gate_precision.mean[:, None], D - 1, axis=1)
        ].ravel(),
    ]
    precision, linear = np.diag(prior), np.zeros(1 + P * D)
    for i in range(N):
        g, cov = state.intermediate.mean[:, i], state.intermediate.cov[i]
        mean = np.r_[1.0, np.kron(g, phi[i])]
        spread = np.zeros((1 + P * D, 1 + P * D))
        spread[1:, 1:] = np.kron(cov, np.outer(phi[i], phi[i]))
        precision = precision + epsilon * (np.outer(mean, mean) + spread)
        linear = linear + epsilon * start.latent[i] * mean
    assert_same(state.readout.cov, np.linalg.inv(precision), 1e-9)
    assert_same(state.readout.mean, np.linalg.solve(precision, linear), 1e-9)
    second = (start.readout**2 + np.diag(start.readout_cov))[1:].reshape(P, D)
    c, r = GENERAL.gate
    assert_same(state.gate_precision.rate, r + 0.5 * second[:, 1:].sum(axis=1), SAME_FORMULA)
    assert state.gate_precision.concentration == c + 0.5 * (D - 1)


def moved(rng, problem, state, factor, size):
    """Return a factor of the same family, so far away, or None if it is known."""
    if isinstance(factor, Gamma):
        one, other = (size * rng.normal(size=np.shape(factor.rate)) for _ in range(2))
        return Gamma(factor.concentration * np.exp(one), factor.rate * np.exp(other))
    if isinstance(factor, TruncatedMoments):
        loc = localized.local_mean(state.intermediate, problem.features, state.readout)
        known = problem.margin is None
        return None if known else label_moments(loc + size * rng.normal(size=N), problem.y, problem.margin)
    if isinstance(factor, LocalOutputs):
        shift, cov = size * rng.normal(size=factor.mean.shape), factor.cov.copy()
        for i in range(N):
            root = np.linalg.cholesky(cov[i])
            turn = np.eye(P) + size * rng.normal(size=(P, P))
            cov[i] = root @ turn @ turn.T @ root.T
        return LocalOutputs(factor.mean + shift, cov, np.linalg.slogdet(cov)[1])
    if isinstance(factor, Gaussian):
        root = np.linalg.cholesky(factor.cov)
        turn = root @ (np.eye(len(root)) + size * rng.normal(size=root.shape))
        return Gaussian.from_moments(factor.mean + root @ (size * rng.normal(size=len(root))), turn @ turn.T)
    return None


@KINDS
def test_every_factor_is_where_the_bound_is_flat_and_highest(rng, kind):
    problem = problem_of(rng, kind)
    options = LoopOptions(max_iter=5000, tol=1e-15)
    state = maximize_elbo(localized, problem, start_of(problem), options).state
    best = localized.elbo(problem, state)
    seen = set()
    for field, factor in zip(state._fields, state, strict=True):
        for _ in range(5):
            seed = rng.integers(2**31)
            for size in (1e-4, -1e-4, 0.1, 0.5):
                other = moved(np.random.default_rng(seed), problem, state, factor, size)
                if other is None:
                    continue
                seen.add(field)
                change = localized.elbo(problem, state._replace(**{field: other})) - best
                assert change < 1e-9, (field, size, change)  # an optimum: second order below, nowhere above
                assert abs(size) > 1e-3 or change > -1e-4, (field, size, change)
    expected = set(state._fields) - (
        {"latent"} if kind == "target" else {"intermediate_precision", "noise_precision"}
    )
    assert seen == expected


@pytest.fixture
def session():
    with numpyro_session():
        yield


def draws_of(rng, problem, state, n):
    """Draw from a posterior; return values of the sites of `literal_localized`, and log densities."""
    values, log_q = {}, np.zeros(n)

    def gamma(name, factor):
        law = stats.gamma(factor.concentration, scale=1.0 / np.asarray(factor.rate))
        drawn = law.rvs(size=(n, *np.shape(factor.rate)), random_state=rng)
        values[name] = drawn
        log_q[:] += law.logpdf(drawn).reshape(n, -1).sum(axis=1)

    for name in ("sample_precision", "intercept_precision", "kernel_precision", "gate_precision"):
        gamma(name, getattr(state, name))
    if problem.margin is None:
        for name in ("intermediate_precision", "noise_precision"):
            gamma(name, getattr(state, name))
    dual, readout = (
        stats.multivariate_normal(f.mean, f.cov).rvs(n, random_state=rng) for f in (state.dual, state.readout)
    )
    for factor, drawn in ((state.dual, dual), (state.readout, readout)):
        log_q += stats.multivariate_normal(factor.mean, factor.cov).logpdf(drawn)
    outputs = np.empty((n, P, N))
    for i in range(N):
        law = stats.multivariate_normal(state.intermediate.mean[:, i], state.intermediate.cov[i])
        outputs[:, :, i] = law.rvs(n, random_state=rng)
        log_q += law.logpdf(outputs[:, :, i])
    weights = readout[:, 1:].reshape(n, P, D)
    values |= {
        "dual": dual,
        "intercept": readout[:, 0],
        "kernel_weights": weights[:, :, 0],
        "gate_weights": weights[:, :, 1:],
        "intermediate": outputs,
    }
    if problem.margin is not None:
        loc = localized.local_mean(state.intermediate, problem.features, state.readout)
        law = stats.truncnorm(problem.margin - problem.y * loc, np.inf, loc=problem.y * loc)
        latent = law.rvs(size=(n, N), random_state=rng)
        values["latent"] = problem.y * latent
        log_q += law.logpdf(latent).sum(axis=1)
    return values, log_q


@KINDS
@pytest.mark.usefixtures("session")
def test_bound_is_that_of_the_numpyro_twin_by_monte_carlo(rng, kind):
    import jax
    from numpyro.infer.util import log_density

    from bayesmkl.bemkl.inference.numpyro_localized import literal_localized

    problem = problem_of(rng, kind)
    state, bound = localized.sweep(
        problem, localized.carry(problem, localized.sweep(problem, start_of(problem))[0])
    )
    values, log_q = draws_of(rng, problem, state, 4000)
    log_p = jax.jit(jax.vmap(lambda one: log_density(literal_localized, (problem,), {}, one)[0]))(values)
    assert_monte_carlo(np.asarray(log_p) - log_q, bound)


@KINDS
@pytest.mark.usefixtures("session")
def test_collapsed_program_has_the_likelihood_of_the_literal_one(rng, kind):
    import jax
    from numpyro.handlers import seed, substitute, trace
    from numpyro.infer.util import log_density

    from bayesmkl.bemkl.inference.numpyro_localized import localized_program

    problem = problem_of(rng, kind)
    program = localized_program(problem)
    weights, gate_weights = rng.normal(size=P), rng.normal(size=(P, D - 1))
    a, b, upsilon, epsilon = rng.normal(size=N), 0.3, 2.0, 3.0
    sites = {"dual": a, "intercept": b, "kernel_weights": weights, "gate_weights": gate_weights}
    sites |= {"gate_precision": np.array([0.5, 2.0])}
    if kind == "target":
        sites |= {"intermediate_precision": upsilon, "noise_precision": epsilon}
    else:
        upsilon, epsilon = problem.intermediate_precision, 1.0
    gates = weights[:, None] + gate_weights @ problem.features[:, 1:].T
    score = (gates * (problem.stack.columns(slice(None)) @ a)).sum(axis=0) + b
    std = np.sqrt(1.0 / epsilon + (gates**2).sum(axis=0) / upsilon)
    if kind == "target":
        expected = stats.norm(score, std).logpdf(problem.y)
    else:
        expected = stats.norm.logcdf((problem.y * score - problem.margin) / std)
    found = trace(substitute(seed(program.model, jax.random.key(0)), sites)).get_trace(**program.data)
    np.testing.assert_allclose(found["score"]["value"], score, rtol=1e-10)
    np.testing.assert_allclose(found["y"]["fn"].log_prob(problem.y), expected, rtol=1e-10)
    joint, _ = log_density(program.model, (), program.data, sites)
    c, r = GENERAL.gate
    prior = stats.gamma(c, scale=1.0 / r).logpdf(sites["gate_precision"]).sum()
    prior += stats.norm(0.0, sites["gate_precision"][:, None] ** -0.5).logpdf(gate_weights).sum()
    for value, law in ((a, GENERAL.sample), (b, GENERAL.intercept), (weights, GENERAL.kernel)):
        scale = np.sqrt(law.rate / law.concentration)
        prior += stats.t(2.0 * law.concentration, scale=scale).logpdf(value).sum()
    if kind == "target":
        prior += stats.gamma(GENERAL.intermediate[0], scale=1.0 / GENERAL.intermediate[1]).logpdf(upsilon)
        prior += stats.gamma(GENERAL.noise[0], scale=1.0 / GENERAL.noise[1]).logpdf(epsilon)
    np.testing.assert_allclose(joint, prior + expected.sum(), rtol=1e-8)


# ------------------------------------------------------------------------------------------ features and signs


def test_features_are_those_of_a_gaussian_process_less_its_mean(rng):
    z = rng.uniform(size=(40, 2))
    scale = gate_scale(z, 40, seed=0)
    basis = gate_basis(scale, z, relative_width=0.7)
    phi = basis.features(z)
    rows = (z - z.mean(axis=0)) / z.std(axis=0)
    kernel = np.exp(-0.5 * ((rows[:, None] - rows) ** 2).sum(axis=2) / (0.7 * scale.median) ** 2)
    center = np.eye(40) - 1.0 / 40
    np.testing.assert_allclose(phi[:, 0], 1.0)
    np.testing.assert_allclose(phi[:, 1:] @ phi[:, 1:].T, center @ kernel @ center, atol=3e-3)
    few = gate_basis(gate_scale(z, None, seed=0), z, relative_width=0.7).features(z)
    np.testing.assert_allclose(few[:, 1:] @ few[:, 1:].T, center @ kernel @ center, atol=0.02)
    assert few.shape[1] <= 21
    np.testing.assert_array_equal(gate_basis(scale, z, relative_width=np.inf).features(z), np.ones((40, 1)))


def test_the_other_sign_is_the_same_posterior(rng):
    problem = problem_of(rng, "labels")
    state = maximize_elbo(localized, problem, start_of(problem), LoopOptions(max_iter=20)).state
    signs = np.where(np.arange(1 + P * D) > 0, -1.0, 1.0)
    mirrored = state._replace(
        dual=state.dual._replace(mean=-state.dual.mean),
        intermediate=state.intermediate._replace(mean=-state.intermediate.mean),
        readout=state.readout._replace(
            mean=signs * state.readout.mean, cov=np.outer(signs, signs) * state.readout.cov
        ),
    )
    np.testing.assert_allclose(localized.elbo(problem, mirrored), localized.elbo(problem, state), rtol=1e-12)
    assert_same_factors(aligned(mirrored), aligned(state), 1e-12)
    assert aligned(state).readout.mean[1::D].sum() >= 0.0


def test_gate_moments_of_a_random_posterior_by_monte_carlo(rng):
    readout = random_gaussian(rng, 1 + P * D)
    phi = np.c_[np.ones(N), rng.normal(size=(N, D - 1))]
    mean, square, with_intercept = localized.gate_moments(readout.mean, readout.cov, phi)
    drawn = rng.multivariate_normal(readout.mean, readout.cov, size=20_000)
    gates = drawn[:, 1:].reshape(-1, P, D) @ phi.T  # (n, P, N)
    assert_monte_carlo(gates, mean.T)
    assert_monte_carlo(np.einsum("nmi,nki->nimk", gates, gates), square)
    assert_monte_carlo(drawn[:, 0, None, None] * gates, with_intercept.T)


def test_weight_precisions_count_the_features(rng):
    square = rng.uniform(size=(P, D))
    kernel, gate = localized.update_weight_precisions(GENERAL, square)
    assert_same(kernel.rate, GENERAL.kernel.rate + 0.5 * square[:, 0], SAME_FORMULA)
    assert kernel.concentration == GENERAL.kernel.concentration + 0.5
    assert gate.concentration == GENERAL.gate.concentration + 0.5 * (D - 1)
