"""Gibbs and NUTS against importance sampling from the prior, and (Gibbs) by Geweke's test; the loop over chains.

Shares, bounded functions of the scores and of the scale are compared: raw weights have no moments.
"""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from helpers import (
    assert_monte_carlo,
    binary_problem,
    random_kernels,
    random_labels,
    regression_problem,
)
from scipy.stats import norm
from sklearn.exceptions import ConvergenceWarning

from bayesmkl import BEMKLClassifier
from bayesmkl._numerics.truncated_normal import truncated_moments
from bayesmkl._utils.options import NUTS, Gibbs
from bayesmkl.bemkl import Dirichlet, SpikeSlab, gibbs
from bayesmkl.bemkl.ascent import check_agreement
from bayesmkl.bemkl.draws import (
    PosteriorDraws,
    align_signs,
    log_likelihood,
    score_means,
    score_scales,
    share_draws,
)
from bayesmkl.bemkl.gibbs import Chains, run_chains
from bayesmkl.bemkl.model import Priors
from bayesmkl.bemkl.moments import Gamma
from bayesmkl.bemkl.program import fit_nuts
from bayesmkl.outcomes import Labels

pytestmark = pytest.mark.heavy

N_SAMPLES, N_KERNELS = 4, 2
GAMMA = Gamma(1.5, 0.8)


def small_problem(rng, task, kernel_prior=GAMMA):
    kernels = random_kernels(rng, N_SAMPLES, N_KERNELS)
    if task == "binary":
        priors = Priors(GAMMA, Gamma(1.0, 1.0), kernel_prior)
        return binary_problem(kernels, np.array([-1.0, 1.0, 1.0, -1.0]), priors, 0.5, 1.3)
    priors = Priors(GAMMA, Gamma(1.0, 1.0), kernel_prior, Gamma(2.0, 1.0), Gamma(3.0, 1.0))
    return regression_problem(kernels, np.array([-1.2, 0.4, 2.0, -0.3]), priors)


def summaries(problem, draws):
    """Return bounded functions of draws with one leading axis, (n_draws, n_functions)."""
    scales = score_scales(draws, getattr(problem, "intermediate_precision", None))
    scores = score_means(problem.stack, draws) / scales[:, None]
    size = np.log(1e-3 + (draws.kernel_weights**2).sum(axis=1))
    columns = [share_draws(problem.stack, draws.dual, draws.kernel_weights), np.tanh(0.3 * scores)]
    columns += [np.tanh(size)[:, None], np.tanh(draws.intercept)[:, None]]
    if draws.noise_precision is not None:
        noise = np.column_stack([draws.noise_precision, draws.intermediate_precision])
        columns.append(np.tanh(np.log(noise)))
    return np.concatenate(columns, axis=1)


def prior_draws(rng, problem, n_draws):
    priors, stack = problem.priors, problem.stack

    def student(prior, *shape):
        return rng.standard_normal((n_draws, *shape)) * rng.gamma(
            prior.concentration, 1.0 / prior.rate, size=(n_draws, *shape)
        ) ** -0.5  # fmt: skip

    inclusion = None
    if isinstance(priors.kernel, Gamma):
        weights = student(priors.kernel, stack.n_kernels)
    elif isinstance(priors.kernel, Dirichlet):
        weights = rng.dirichlet(np.full(stack.n_kernels, priors.kernel.concentration), size=n_draws)
    else:
        inclusion = rng.random((n_draws, stack.n_kernels)) < priors.kernel.inclusion
        weights = inclusion * rng.normal(scale=priors.kernel.scale, size=inclusion.shape)
    draws = PosteriorDraws(weights, student(priors.intercept), student(priors.sample, stack.n_train))
    draws = draws._replace(kernel_inclusion=inclusion)
    if not problem.outcome.has_noise:
        return draws
    laws = {"intermediate_precision": priors.intermediate, "noise_precision": priors.noise}
    return draws._replace(
        **{name: rng.gamma(law.concentration, 1.0 / law.rate, size=n_draws) for name, law in laws.items()}
    )


def importance_estimate(rng, problem, n_draws=400_000, functions=summaries):
    """Posterior means of `functions` and their standard errors, from weighted draws of the prior."""
    draws = prior_draws(rng, problem, n_draws)
    weights = np.exp(log_likelihood(problem, draws).sum(axis=1))
    weights /= weights.sum()
    values = functions(problem, draws)
    mean = weights @ values
    return mean, np.sqrt((weights**2) @ (values - mean) ** 2)


def chain_estimate(problem, chains):
    return draws_estimate(problem, align_signs(PosteriorDraws(**chains.parameters)))


def draws_estimate(problem, draws, functions=summaries):
    from numpyro.diagnostics import effective_sample_size

    values = functions(problem, draws.flat()).reshape(draws.n_chains, draws.n_draws, -1)
    error = values.std(axis=(0, 1)) / np.sqrt(effective_sample_size(values))
    return values.mean(axis=(0, 1)), error


def assert_same_posterior(found, expected, label, largest_error=0.03):
    (mean, error), (true, true_error) = found, expected
    deviation = np.abs(mean - true) / np.hypot(error, true_error)
    assert deviation.max() < 4.0, f"{label}: {deviation.round(1)} standard errors"
    assert np.hypot(error, true_error).max() < largest_error, f"{label}: errors too large to tell anything"


@pytest.mark.parametrize(("task", "n_draws"), [("binary", 2000), ("regression", 1000)])
def test_gibbs_against_importance_sampling_from_the_prior(rng, task, n_draws):
    problem = small_problem(rng, task)
    expected = importance_estimate(rng, problem)
    chains = gibbs.fit_gibbs(problem, Gibbs(2, 200, n_draws), rng)
    assert_same_posterior(chain_estimate(problem, chains), expected, "Gibbs")


def label_densities(problem, draws):
    """P(f > margin) and P(f < -margin) of every sample, (n_draws, 2 n_samples)."""
    mean, scale = (
        score_means(problem.stack, draws),
        score_scales(draws, problem.intermediate_precision)[:, None],
    )
    return np.hstack(
        [norm.sf(problem.outcome.margin, mean, scale), norm.cdf(-problem.outcome.margin, mean, scale)]
    )


def test_nuts_through_the_estimator_against_importance_sampling_from_the_prior(rng):
    problem = small_problem(rng, "binary")
    nuts = NUTS(n_chains=2, n_warmup=300, n_draws=2000, target_accept=0.9)
    priors = {"sample_prior": GAMMA, "bias_prior": Gamma(1.0, 1.0), "kernel_prior": GAMMA}
    model = BEMKLClassifier(
        "precomputed", inference=nuts, margin=0.5, intermediate_scale=1.3, **priors, random_state=0
    )
    kernels = np.moveaxis(np.asarray(problem.stack.kernels), 0, -1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(kernels, np.where(problem.y > 0.0, "yes", "no"))
    draws = model.posterior_
    assert draws.dual.shape == (2, 2000, N_SAMPLES)
    assert set(model.sample_stats_) == {"diverging", "acceptance_rate", "n_steps", "energy"}
    assert {values.shape for values in model.sample_stats_.values()} == {(2, 2000)}
    assert all(type(values) is np.ndarray for values in model.sample_stats_.values())
    assert all(values is None or type(values) is np.ndarray for values in draws)
    assert_same_posterior(draws_estimate(problem, draws), importance_estimate(rng, problem), "NUTS")
    above, below = np.split(importance_estimate(rng, problem, functions=label_densities)[0], 2)
    found = model.predict_proba(kernels)[:, list(model.classes_).index("yes")]
    np.testing.assert_allclose(found, above / (above + below), atol=0.02)


@pytest.mark.slow
def test_nuts_in_regression_against_importance_sampling_from_the_prior(rng):
    problem = small_problem(rng, "regression")
    chains = fit_nuts(problem, NUTS(2, 500, 4000, 0.9), seed=0)
    assert_same_posterior(chain_estimate(problem, chains), importance_estimate(rng, problem), "NUTS")


@pytest.mark.slow
@pytest.mark.parametrize("prior", [Dirichlet(0.7), SpikeSlab(0.4, 2.0)], ids=["dirichlet", "spike-slab"])
def test_nuts_under_other_kernel_priors_against_importance_sampling(rng, prior):
    problem = small_problem(rng, "binary", prior)
    chains = fit_nuts(problem, NUTS(2, 500, 4000, 0.9), seed=0)
    weights = chains.parameters["kernel_weights"]
    if isinstance(prior, Dirichlet):
        assert weights.min() >= 0.0
        np.testing.assert_allclose(weights.sum(axis=-1), 1.0)
    else:
        np.testing.assert_array_equal(weights != 0.0, chains.parameters["kernel_inclusion"] == 1)
    assert_same_posterior(chain_estimate(problem, chains), importance_estimate(rng, problem), str(prior))


@pytest.mark.slow
@pytest.mark.parametrize("task", ["binary", "regression"])
def test_gibbs_leaves_the_joint_law_of_parameters_and_data_as_it_is(rng, task):
    """Geweke (2004): sweeps alternating with new data from the model must give back the prior."""
    problem = small_problem(rng, task)
    if task == "binary":
        problem = problem._replace(
            outcome=Labels(0.0)
        )  # without a margin both labels together have probability one
    state, states = gibbs.init(problem, rng), []
    for _ in range(6000):
        a, readout, known, noise = state
        scale = np.sqrt(1.0 / noise + readout[1:] @ readout[1:] / known)
        score = readout[0] + readout[1:] @ problem.stack.apply(a) + scale * rng.standard_normal(N_SAMPLES)
        problem = problem._replace(y=np.sign(score) if task == "binary" else score)
        state = gibbs.sweep(problem, state, rng)
        states.append(state)
    chains = Chains(gibbs._parameters(problem, states), {}, False)
    values = summaries(problem, prior_draws(rng, problem, 100_000))
    expected = values.mean(axis=0), values.std(axis=0) / np.sqrt(len(values))
    assert_same_posterior(chain_estimate(problem, chains), expected, "Geweke", largest_error=0.05)


def test_draws_beyond_the_margin_have_the_moments_of_the_truncated_normal(rng):
    mean = np.repeat([-30.0, -2.0, 0.3, 2.0, 40.0], 4000)
    y = np.where(np.arange(len(mean)) % 2 == 0, 1.0, -1.0)
    scale, margin = 1.7, 0.6
    draws = gibbs.draw_beyond_margin(mean, scale, y, margin, rng)
    assert (y * draws >= margin).all()
    expected = truncated_moments(mean / scale, y, margin / scale)
    for location in np.unique(mean):
        for side in (-1.0, 1.0):
            group = (mean == location) & (y == side)
            assert_monte_carlo(draws[group], scale * expected.mean[group][0])
            squares = (draws[group] - scale * expected.mean[group][0]) ** 2
            assert_monte_carlo(squares, scale**2 * expected.variance[group][0])


# ------------------------------------------------------------------------------------------------- chains


def counting_sampler(fail_at=None):
    """A sampler whose draws count its steps, interrupted after `fail_at` blocks."""
    blocks = []

    def advance(state, n, keep):
        blocks.append((n, keep))
        if fail_at is not None and len(blocks) == fail_at:
            raise KeyboardInterrupt
        values = np.arange(state, state + n, dtype=float)[None]
        return state + n, {"x": values}, {"even": values % 2 == 0}

    return (lambda group: 1000 * group[0]), advance, blocks


@pytest.mark.parametrize(
    ("fail_at", "n_chains", "n_draws"), [(5, 1, 200), (4, 1, 100), (9, 1, 250), (11, 2, 250)]
)
def test_an_interrupt_keeps_finished_blocks_and_chains(fail_at, n_chains, n_draws):
    start, advance, _ = counting_sampler(fail_at)
    chains = run_chains(start, advance, [[0], [1], [2]], Gibbs(3, 130, 250))
    assert chains.interrupted
    assert chains.parameters["x"].shape == (n_chains, n_draws)
    assert chains.stats["even"].shape == (n_chains, n_draws)


@pytest.mark.parametrize("fail_at", [1, 2, 3])
def test_an_interrupt_before_the_first_draws_is_passed_on(fail_at):
    start, advance, _ = counting_sampler(fail_at)
    with pytest.raises(KeyboardInterrupt):
        run_chains(start, advance, [[0], [1]], Gibbs(2, 130, 250))


def test_agreement_sees_chains_that_disagree_but_not_the_symmetries(rng):
    kernels = random_kernels(rng, 10, 3)
    problem = binary_problem(kernels, random_labels(rng, 10))
    n = 500
    weights = np.abs(rng.normal(1.0, 0.3, size=(2, n, 3)))
    dual = rng.normal(size=10) + 0.3 * rng.normal(size=(2, n, 10))
    draws = PosteriorDraws(weights, 0.1 * rng.normal(size=(2, n)), dual)
    fine = check_agreement(problem, draws, {})
    assert fine.rhat < 1.02
    assert fine.ess > 400
    mirrored = draws._replace(
        kernel_weights=draws.kernel_weights * [[[1.0]], [[-1.0]]], dual=draws.dual * [[[1.0]], [[-1.0]]]
    )
    np.testing.assert_allclose(check_agreement(problem, mirrored, {}), fine)
    apart = draws._replace(kernel_weights=weights * np.array([[[1.0, 1.0, 1.0]], [[3.0, 1.0, 1.0]]]))
    assert check_agreement(problem, apart, {}).rhat > 1.2
    diverging = {"diverging": np.arange(2 * n).reshape(2, n) % 100 == 0}
    assert check_agreement(problem, draws, diverging).divergent == pytest.approx(0.01)


@pytest.mark.parametrize("offset", [0.0, 1e6, 1e9])
def test_exact_conditionals_are_accepted_far_from_zero(offset, rng):
    """Where the variance does not depend on (b, e), the proposal of Gibbs is their conditional itself."""
    problem = small_problem(rng, "regression")
    design = np.vstack([np.ones(N_SAMPLES), rng.normal(size=(2, N_SAMPLES))])
    likelihood = gibbs._Likelihood(problem._replace(y=problem.y + offset))
    square, target = design @ design.T, design @ likelihood.y
    readout, moved = np.array([offset, 0.0, 0.0]), 0
    for _ in range(30):
        known, noise, precision = 1e12, 100.0, np.array([1e-20, 1.0, 1.0])
        proposed = gibbs._propose_readout(
            likelihood, design, square, target, readout, precision, known, noise, rng
        )
        readout, moved = proposed, moved + (proposed is not readout)
    assert moved == 30
