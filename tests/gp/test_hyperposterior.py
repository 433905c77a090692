"""Draws of hyperparameters and what is read off: a grid, NUTS with all function values explicit, refits."""

from __future__ import annotations

import functools

import jax
import numpy as np
import pytest
from numpyro.infer import MCMC, NUTS
from problems import additive, kernels, labels, numbers
from scipy.special import logsumexp

from bayesmkl._utils.devices import numpyro_session
from bayesmkl.gp import drawing, hyperposterior
from bayesmkl.gp.chains import draw_chains
from bayesmkl.gp.conditioning import Sites, condition
from bayesmkl.gp.drawing import find_mode
from bayesmkl.gp.evidence import ep_evidence, exact_evidence
from bayesmkl.gp.hyperposterior import (
    Hypermodel,
    draw_importance,
    evaluate,
    evaluate_height,
    evaluate_slope,
    share_error,
)
from bayesmkl.gp.hyperpriors import DirichletShares, HalfT, Horseshoe, LogNormal
from bayesmkl.gp.parts import joint_moments, prior_parts
from bayesmkl.gp.program import explicit_program
from bayesmkl.gp.reading import PriorParts, draw_scores, read, score_moments, shares
from bayesmkl.kernels.stacks.dense import DenseStack
from bayesmkl.outcomes import Gaussian, Probit

NOISE, PROBIT = LogNormal(0.3, 1.0), Probit()
WIDE, UNIT = HalfT(4.0, 1.5), HalfT(4.0, 1.0)


def classification(rng, prior=WIDE, n_samples=40, likelihood=PROBIT, evidence=ep_evidence):
    X, stack = kernels(rng, n_samples)
    return Hypermodel(additive(stack), likelihood, labels(rng, X)[None], prior, NOISE, evidence)


def regression(rng, prior=UNIT, n_samples=40):
    X, stack = kernels(rng, n_samples)
    y = numbers(rng, X)
    return Hypermodel(additive(stack), Gaussian(), (y / y.std())[None], prior, NOISE, exact_evidence)


def drawn(model, n_draws=400, seed=0):
    return draw_importance(model, find_mode(model), n_draws, np.random.default_rng(seed))


def reading(model, weighted, n_draws, rng):
    return read(model, weighted, PriorParts(model.covariance, n_draws, len(model.targets), rng), rng)


@pytest.mark.parametrize("build", [classification, regression])
def test_fewer_draws_are_the_first_of_more(build, rng):
    model = build(rng)
    more, fewer = drawn(model, 256), drawn(model, 192)
    np.testing.assert_array_equal(more.coordinates[:192], fewer.coordinates[:192])
    np.testing.assert_array_equal(*([own.log_density for own in one.points[:192]] for one in (more, fewer)))


def test_draws_end_where_shares_are_known_well_enough(rng):
    model = regression(rng)
    mode, seeds = find_mode(model), [np.random.default_rng(seed) for seed in (1, 1, 1)]
    loose, tight, all_of_them = (
        draw_importance(model, mode, 512, own, share_mcse=enough)
        for own, enough in zip(seeds, (1.0, 0.025, 0.0), strict=True)
    )
    assert 64 <= len(loose.weights) <= len(tight.weights) <= len(all_of_them.weights) == 512
    np.testing.assert_array_equal(all_of_them.coordinates[: len(tight.weights)], tight.coordinates)


def test_draws_that_have_no_weights_are_not_doubled(rng):
    model = regression(rng)
    mode = find_mode(model)
    hopeless = draw_importance(
        model, mode._replace(cov=1e-6 * mode.cov), 128, np.random.default_rng(0), share_mcse=0.1
    )
    assert hopeless.pareto_k >= 1.0
    assert len(hopeless.weights) == 128
    assert not hopeless.converged


def test_the_error_of_shares_is_that_of_many_seeds(rng):
    model = regression(rng)
    mode, means, ends, errors = find_mode(model), [], [], []
    for seed in range(24):
        own = np.random.default_rng(seed)
        found = reading(model, draw_importance(model, mode, 128, own), 1000, own).draws
        means.append(found.shares.mean(axis=0))
        ends.append(np.quantile(found.shares, [0.03, 0.97], axis=0).ravel())
        errors.append(share_error(found.shares, np.full(1000, 1e-3), found.point))
    largest = max(np.std(means, axis=0).max(), np.std(ends, axis=0).max())
    assert 0.9 * largest < np.mean(errors) < 3.0 * largest


@pytest.mark.parametrize("build", [classification, regression])
def test_evidence_without_gradient_is_the_same(build, rng):
    model = build(rng)
    for u in 2.0 * rng.normal(size=(5, model.n_coordinates)):
        (point, found), (plain, heights) = evaluate(model, u, None), evaluate_height(model, u, None)
        assert plain.log_density == pytest.approx(point.log_density, rel=1e-10, abs=1e-10)
        assert plain.log_evidence == pytest.approx(point.log_evidence, rel=1e-10, abs=1e-10)
        columns = rng.normal(size=(40, 3))
        for output, height in zip(found, heights, strict=True):
            np.testing.assert_allclose(height.posterior.dual, output.posterior.dual, rtol=1e-8, atol=1e-10)
            np.testing.assert_array_equal(height.sites, output.sites)
            for within in (height.posterior.within(columns), output.posterior.within(columns)):
                expected = columns.T @ output.posterior.shrinkage @ columns
                np.testing.assert_allclose(within.T @ within, expected, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("build", [classification, regression])
@pytest.mark.parametrize("prior", [HalfT(), DirichletShares(), Horseshoe()], ids=lambda p: type(p).__name__)
def test_gradient_equals_differences_in_every_coordinate(build, prior, rng):
    model = build(rng, prior=prior, n_samples=20)
    if build is classification:
        model = model._replace(evidence=functools.partial(ep_evidence, tol=1e-11))
    u, h = rng.normal(size=model.n_coordinates), 1e-5
    _, found = evaluate_slope(model, u, None)
    differences = [
        (evaluate(model, u + h * e, None)[0].log_density - evaluate(model, u - h * e, None)[0].log_density)
        / (2 * h)
        for e in np.eye(len(u))
    ]
    np.testing.assert_allclose(found, differences, rtol=0, atol=1e-5 * np.abs(found).max())


@pytest.mark.heavy
def test_draws_equal_a_grid_over_two_coordinates(rng):
    X, stack = kernels(rng, 20)
    pair = additive(stack.select(np.array([0, 1])))
    model = Hypermodel(pair, Probit(), labels(rng, X)[None], HalfT(4.0, 1.5), NOISE, ep_evidence)
    grid = np.linspace(-4.5, 4.5, 13)
    points = np.array([(a, b) for a in grid for b in grid])
    log_density = np.array([evaluate(model, u, None, tol=1e-3)[0].log_density for u in points])
    weights = np.exp(log_density - logsumexp(log_density))
    squares = np.array([model.values(u)[0] ** 2 for u in points])
    ratio = squares[:, 0] / squares.sum(axis=1)
    found = drawn(model, 500)
    own = np.array([model.values(u)[0] ** 2 for u in found.coordinates])
    own_ratio = own[:, 0] / own.sum(axis=1)
    sd = np.sqrt(weights @ (ratio - weights @ ratio) ** 2)
    assert abs(found.weights @ own_ratio - weights @ ratio) < 4 * sd / np.sqrt(found.ess)
    log_evidence = logsumexp(log_density) + 2 * np.log(grid[1] - grid[0]) - np.log(2 * np.pi)
    assert abs(found.log_evidence - log_evidence) < 0.1
    assert found.pareto_k < 0.5


@pytest.mark.slow
@pytest.mark.parametrize("build", [classification, regression])
def test_shares_and_scores_equal_nuts_with_all_functions_explicit(build, rng):
    model = build(rng, prior=HalfT(4.0, 1.0), n_samples=20)
    draws = reading(model, drawn(model, 600), 400, rng).draws
    program = explicit_program(model)
    with numpyro_session():
        sampler = MCMC(
            NUTS(program.model, target_accept_prob=0.95, max_tree_depth=10),
            num_warmup=600, num_samples=600, num_chains=2, chain_method="sequential", progress_bar=False,
        )  # fmt: skip

        @jax.jit  # all at once: by itself, the start compiles every operation of the program
        def sample(key):
            sampler.run(key, **program.data)
            return sampler.get_samples(group_by_chain=True)

        found = {name: np.array(values) for name, values in sample(jax.random.key(0)).items()}
    scores = found["score"]
    expected = scores.reshape(-1, model.targets.shape[1])
    ours = draws.score[:, 0]
    between = scores.mean(axis=1)  # chains
    error = np.abs(between[0] - between[1]) / 2 + 3 * expected.std(axis=0) / 20
    assert (np.abs(ours.mean(axis=0) - expected.mean(axis=0)) < 2 * error + 0.05).all()
    np.testing.assert_allclose(ours.std(axis=0).mean(), expected.std(axis=0).mean(), rtol=0.12)
    sizes = np.abs(found["kernel_weights"]).reshape(-1, 3)
    spread = sizes.std(axis=0)
    assert (
        np.abs(draws.probability @ np.abs(draws.kernel_weights) - sizes.mean(axis=0)) < 0.3 * spread
    ).all()


@pytest.mark.parametrize("noise", [-6.0, 0.0, 6.0], ids=["little-noise", "noise", "much-noise"])
def test_gradients_in_the_memory_of_a_covariance_are_those_beside_it(noise, rng):
    """Under normal noise, whose sites are all that means and variances are then made of."""
    model = regression(rng)
    u = np.append(rng.normal(size=model.n_weights), noise)
    weights = model.values(u)[0]
    kept = model.covariance.matrix(weights)
    point, found = evaluate(model, u, None, kept)
    np.testing.assert_array_equal(kept, model.covariance.matrix(weights))
    beside = model.covariance.pull(weights, found[0].by_covariance())
    expected = model.pull(u, beside, found[0].by_parameters[None]) + model.log_prior(u)[1]
    for _ in range(2):
        other, slope = evaluate_slope(model, u, None)
        assert other.log_evidence == pytest.approx(point.log_evidence, rel=1e-12)
        np.testing.assert_allclose(slope, expected, rtol=1e-9, atol=1e-9 * np.abs(expected).max())


@pytest.mark.slow
@pytest.mark.parametrize(
    "prior", [WIDE, DirichletShares(1.0, 4.0, 2.0), Horseshoe()], ids=lambda p: type(p).__name__
)
def test_importance_draws_equal_nuts_on_the_evidence(prior, rng):
    model = classification(rng, prior=prior, n_samples=20)
    ours, chains = drawn(model, 1200), draw_chains(model, find_mode(model), 2000, 2, 400, rng)
    weights, theirs = (np.array([model.values(u)[0] for u in own.coordinates]) for own in (ours, chains))
    spread = theirs.std(axis=0)
    assert (np.abs(ours.weights @ weights - theirs.mean(axis=0)) < 0.2 * spread).all()


def test_score_moments_equal_the_regression_at_every_draw(rng):
    """Means and variances of new scores by the textbook's formula with explicit inverses."""
    model = regression(rng)
    draws = reading(model, drawn(model, 200), 5, rng).draws
    rows = DenseStack(model.covariance.stack.kernels[:, :6].copy())
    found = score_moments(model.covariance, draws, rows, model.covariance.stack.diagonal()[:, :6])
    for at, weights in enumerate(draws.kernel_weights):
        matrix = model.covariance.matrix(weights)
        noisy = np.linalg.inv(matrix + draws.parameters[at, 0, 0] ** 2 * np.eye(len(matrix)))
        np.testing.assert_allclose(
            found.mean[at, 0], matrix[:6] @ noisy @ model.targets[0], rtol=1e-8, atol=1e-9
        )
        expected = np.diag(matrix - matrix @ noisy @ matrix)[:6]
        np.testing.assert_allclose(found.variance[at, 0], expected, rtol=1e-6, atol=1e-9)


def test_part_draws_have_the_moments_of_scores(rng):
    model = classification(rng, prior=HalfT(4.0, 1.0), n_samples=25)
    one = reading(model, drawn(model, 100), 1, rng).draws
    weights, sites = one.kernel_weights[0], Sites(one.site_precision[0, 0], one.site_linear[0, 0])
    posterior = condition(model.covariance.matrix(weights), sites)
    prior, point, matrix = (
        PriorParts(model.covariance, 4000, 1, rng),
        np.zeros(4000, int),
        model.covariance.matrix,
    )
    total = prior.total(weights[None], point)[:, 0]
    residuals, of_parts, scores, _ = draw_scores(
        model.covariance,
        weights,
        posterior,
        sites,
        matrix(weights),
        total,
        rng.standard_normal((4000, 1 + total.shape[1])),
    )
    ((_, _, parts),) = prior.corrected(weights[None], point, residuals[:, None])
    parts = parts[:, 0]
    np.testing.assert_allclose(parts.sum(axis=1), of_parts, atol=1e-10)
    np.testing.assert_allclose(scores.std(axis=0), np.sqrt(posterior.variance), rtol=0.08)
    assert (np.abs(scores.mean(axis=0) - posterior.mean) < 5 * scores.std(axis=0) / np.sqrt(4000)).all()
    rows = model.covariance.stack
    pairs = prior_parts(model.covariance, one, 0, rows, rows.diagonal(), np.eye(3, dtype=bool))
    means, covs = joint_moments(posterior, *(np.array(values) for values in zip(*pairs, strict=True)))
    for m in range(3):
        mean, std = means[m], np.sqrt(covs[:, m, m])
        error = parts[:, m].std(axis=0) / np.sqrt(4000)
        assert (np.abs(parts[:, m].mean(axis=0) - mean) < 5 * error).all()
        np.testing.assert_allclose(parts[:, m].std(axis=0), std, rtol=0.08, atol=1e-3)
    np.testing.assert_allclose(shares(parts[:, None]).sum(axis=1), 1.0)


@pytest.mark.heavy
def test_leave_one_out_equals_fits_without_the_sample(rng):
    """Predictions of those fits, and how much evidence the sample adds."""
    model = classification(rng, n_samples=30)
    everything = drawn(model)
    found = reading(model, everything, 400, rng).left_out.joint
    stack = model.covariance.stack
    for i in (5, 11):
        others = np.delete(np.arange(30), i)
        left = DenseStack(np.ascontiguousarray(stack.kernels[:, others][:, :, others]))
        smaller = model._replace(
            covariance=model.covariance._replace(stack=left), targets=model.targets[:, others]
        )
        without = drawn(smaller)
        own = reading(smaller, without, 200, rng).draws
        row = DenseStack(stack.kernels[:, i : i + 1][:, :, others].copy())
        moments = score_moments(smaller.covariance, own, row, stack.diagonal()[:, i : i + 1])
        tilted = model.likelihood.tilted(
            model.targets[:, i], moments.mean[:, 0, 0], moments.variance[:, 0, 0], np.zeros(0)
        )
        predicted = logsumexp(tilted.log_normalizer, b=moments.probability)
        assert found[i] == pytest.approx(predicted, abs=0.03, rel=0.1)
        assert found[i] == pytest.approx(everything.log_evidence - without.log_evidence, abs=0.03, rel=0.1)


def test_outputs_share_their_weights(rng):
    """Two copies of one target are as its evidence squared."""
    model = classification(rng, n_samples=20)
    twice = model._replace(targets=np.repeat(model.targets, 2, axis=0))
    u = rng.normal(size=3)
    (one, slope), (two, steeper) = evaluate_slope(model, u, None), evaluate_slope(twice, u, None)
    assert two.log_evidence == pytest.approx(2 * one.log_evidence, rel=1e-10)
    np.testing.assert_allclose(steeper + u, 2 * (slope + u), rtol=1e-6)
    half, halved = evaluate_slope(twice._replace(power=0.5), u, None)
    assert half.log_density == pytest.approx(one.log_density, rel=1e-10)
    np.testing.assert_allclose(halved, slope, rtol=1e-6)


def test_sites_that_stop_early_are_counted(rng, monkeypatch):
    model = classification(rng, n_samples=15)
    assert find_mode(model).converged
    assert drawn(model, 120).unconverged == 0.0
    monkeypatch.setattr("bayesmkl.gp.evidence.MAX_STEPS", 1)
    assert not find_mode(model).converged
    assert drawn(model, 120).unconverged > 0.5


@pytest.mark.parametrize("fails", [False, True])
def test_sites_that_lead_astray_are_left(rng, fails):
    """Steps from the sites of another point may end far off, or nowhere; from nothing they do not."""

    def lost(likelihood, y, covariance, parameters, start=None, **tol):
        if fails and start is not None:
            raise np.linalg.LinAlgError
        found = ep_evidence(likelihood, y, covariance, parameters, None, **tol)
        return found if start is None else found._replace(log_evidence=-1e131, converged=False)

    model = classification(rng)
    u = rng.normal(size=model.n_coordinates)
    point, _ = evaluate(model, u, None)
    again, _ = evaluate(model._replace(evidence=lost), u, point.sites)
    assert again.log_density == point.log_density
    assert again.converged


@pytest.mark.parametrize("build", [classification, regression])
def test_the_curvature_of_many_weights_is_expected(build, rng, monkeypatch):
    """Of weights the Fisher information and the prior's one; of parameters what differences say."""
    model = build(rng)
    measured = find_mode(model)
    monkeypatch.setattr(drawing, "MANY", 0)
    monkeypatch.setattr(drawing, "climb_bound", lambda of_model, *start: start[:2])  # it stays at the mode
    monkeypatch.setattr(drawing, "N_MEASURED", 0)
    monkeypatch.setattr(
        drawing, "LEAST_LENGTH", np.inf
    )  # of the direction of the mode, which is measured else
    found = find_mode(model)
    np.testing.assert_array_equal(found.coordinates, measured.coordinates)
    n_weights = model.n_weights
    assert measured.n_evaluations - found.n_evaluations == n_weights
    weights, _ = model.values(found.coordinates)
    _, (output,) = evaluate(model, found.coordinates, found.point.sites)
    shrinkage, h = output.posterior.shrinkage, 1e-5
    slopes = [
        (
            model.covariance.matrix(model.values(found.coordinates + h * e)[0])
            - model.covariance.matrix(model.values(found.coordinates - h * e)[0])
        )
        / (2 * h)
        for e in np.eye(len(found.coordinates))[:n_weights]
    ]
    expected = np.array([[np.trace(shrinkage @ a @ shrinkage @ b) / 2 for b in slopes] for a in slopes])
    curvature, other = np.linalg.inv(found.cov.matrix()), np.linalg.inv(measured.cov)
    assert len(weights) == n_weights
    np.testing.assert_allclose(
        curvature[:n_weights, :n_weights], expected + np.eye(n_weights), rtol=1e-4, atol=1e-6
    )
    np.testing.assert_allclose(curvature[n_weights:], other[n_weights:], rtol=0.05, atol=0.02)


def test_a_gathered_density_has_the_moments_of_the_posterior(rng):
    """From far away, beside those of many importance draws."""
    model = regression(rng)
    mode = find_mode(model)
    draws = draw_importance(model, mode, 4096, np.random.default_rng(0))
    mean = draws.weights @ draws.coordinates
    around = draws.coordinates - mean
    cov = (around * draws.weights[:, None]).T @ around
    point, _ = hyperposterior.evaluate_height(model, mode.coordinates + 1.0, None)
    away = mode._replace(coordinates=mode.coordinates + 1.0, cov=0.1 * mode.cov, point=point)
    found = hyperposterior.gather(model, away, np.random.default_rng(0))
    sds = np.sqrt(np.diag(cov))
    np.testing.assert_allclose((found.coordinates - mean) / sds, 0.0, atol=0.3)
    np.testing.assert_allclose(np.sqrt(np.diag(found.cov)) / sds, 1.0, atol=0.25)
    assert found.n_evaluations > away.n_evaluations


def test_a_density_that_matches_slopes_of_a_normal_posterior_is_this_posterior(rng):
    mean, cov = np.array([1.0, -2.0, 0.5]), np.cov(rng.standard_normal((3, 9)))
    density = hyperposterior.Proposal(np.zeros(3), np.eye(3))
    for _ in range(30):
        drawn = density.mean + rng.standard_normal((20, 3)) @ np.linalg.cholesky(density.cov).T
        density = density.matched(drawn, -(drawn - mean) @ np.linalg.inv(cov), 100.0)
    np.testing.assert_allclose(density.mean, mean, atol=1e-6)
    np.testing.assert_allclose(density.cov, cov, atol=1e-6)
