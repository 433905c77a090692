"""Posteriors of several outputs that share their kernel weights: draws, densities and leave-one-out accuracy."""

from __future__ import annotations

import types

import numpy as np
import pytest
from helpers import (
    assert_monte_carlo,
    assert_same,
    binary_problem,
    random_gamma,
    random_gaussian,
    random_kernels,
    regression_problem,
)
from scipy import stats
from scipy.special import ndtr

from bayesmkl._numerics.largest_normal import log_largest
from bayesmkl.bemkl.draws import (
    PosteriorDraws,
    log_prior,
    log_prior_terms,
    log_variational,
    share_draws,
    variational_draws,
)
from bayesmkl.bemkl.model import Priors, Problem, State
from bayesmkl.bemkl.moments import Gamma, Gaussian
from bayesmkl.outcomes import Classes, Labels, Numbers
from bayesmkl.posterior.checks import check_section, prior_draws
from bayesmkl.posterior.evaluated import Evaluated, log_class_probabilities
from bayesmkl.posterior.loo import leave_one_out

LIGHT = Gamma(5.0, 5.0)
LABELS = np.array([[1.0, -1.0, 1.0, 1.0, -1.0], [-1.0, -1.0, 1.0, -1.0, 1.0], [-1.0, 1.0, -1.0, -1.0, 1.0]])
CLASSES = 2.0 * np.eye(3)[:, [0, 1, 0, 2, 1]] - 1.0
FITTED = types.SimpleNamespace(
    output_kind="label",
    output_names=["a", "b", "c"],
    estimator=types.SimpleNamespace(y_scale_=np.array([2.0, 0.5])),
)


def shared_problem(kind, rng, size=1.0):
    """Five samples, and priors with lighter tails than the default ones."""
    kernels = size * random_kernels(rng, 5, 2)
    stack = binary_problem(kernels, LABELS[0]).stack
    if kind == "outputs":
        y = np.array([[0.3, -0.8, 1.1, 0.2, -0.4], [0.9, 0.1, -0.7, 0.5, -1.2]])
        return Problem(stack, stack.gram(), y, Priors(*[LIGHT] * 5), Numbers())
    if kind == "multinomial":
        return Problem(stack, stack.gram(), CLASSES, Priors(*[LIGHT] * 3), Classes(0.5), 1.0)
    return Problem(stack, stack.gram(), LABELS, Priors(*[LIGHT] * 3), Labels(0.5), 1.0)


def random_state(rng, n_outputs=3, n_kernels=2, n_train=5):
    """Factors of three outputs; only what draws and densities read."""
    duals = [random_gaussian(rng, n_train) for _ in range(n_outputs)]
    dual = Gaussian(*(np.stack(field) for field in zip(*duals, strict=True)))
    return State(
        random_gamma(rng, n_outputs, n_train),
        dual,
        None,
        random_gamma(rng, n_outputs),
        random_gamma(rng, n_kernels),
        random_gaussian(rng, n_outputs + n_kernels),
        None,
    )


# ------------------------------------------------------------ draws and densities


def test_monte_carlo_joint_draws_have_the_moments_of_the_factors(rng):
    state = random_state(rng)
    draws = variational_draws(state, 4000, rng)
    assert draws.has_outputs
    assert draws.dual.shape == (1, 4000, 3, 5)
    readout = np.concatenate([draws.intercept[0], draws.kernel_weights[0]], axis=1)
    assert_monte_carlo(readout, state.readout.mean)
    away = readout - state.readout.mean
    assert_monte_carlo(away[:, :, None] * away[:, None, :], state.readout.cov)  # b_c and e together
    assert_monte_carlo(draws.dual[0], state.dual.mean)
    assert_monte_carlo(draws.sample_precision[0], state.sample_precision.mean)
    for c, own in enumerate(draws.outputs()):
        assert own.kernel_weights is draws.kernel_weights
        np.testing.assert_array_equal(own.dual, draws.dual[:, :, c])
        np.testing.assert_array_equal(own.intercept, draws.intercept[..., c])
        assert not own.has_outputs


def test_other_library_densities_count_shared_weights_once(rng):
    state, problem = random_state(rng), shared_problem("labels", rng)
    flat = variational_draws(state, 6, rng).flat()
    readout = np.concatenate([flat.intercept, flat.kernel_weights], axis=1)
    expected = stats.multivariate_normal(state.readout.mean, state.readout.cov).logpdf(readout)
    for c in range(3):
        expected = expected + stats.multivariate_normal(state.dual.mean[c], state.dual.cov[c]).logpdf(
            flat.dual[:, c]
        )
    assert_same(log_variational(state, flat), expected, 1e-10)
    student, terms = stats.t(10.0), log_prior_terms(problem, flat)
    assert_same(terms["kernel_weights"], student.logpdf(flat.kernel_weights).sum(axis=1), 1e-12)
    assert_same(terms["intercept"], student.logpdf(flat.intercept).sum(axis=1), 1e-12)
    assert_same(terms["dual_coef"], student.logpdf(flat.dual).sum(axis=(1, 2)), 1e-12)


def test_other_library_prior_of_noise_precisions(rng):
    problem = shared_problem("outputs", rng)
    flat = prior_draws(problem, 7, rng).flat()
    assert flat.noise_precision.shape == (7, 2)
    law = stats.gamma(5.0, scale=0.2)
    assert_same(
        log_prior_terms(problem, flat)["noise_precision"], law.logpdf(flat.noise_precision).sum(axis=1), 1e-12
    )


@pytest.mark.parametrize("kind", ["labels", "outputs"])
def test_brute_force_likelihood_and_shares(kind, rng):
    problem = shared_problem(kind, rng)
    model = Evaluated(problem, prior_draws(problem, 8, rng))
    flat, kernels = model.flat, problem.stack.kernels
    expected, parts = np.zeros((8, 5)), np.zeros((len(problem.y), 8, 2))
    for s in range(8):
        e = flat.kernel_weights[s]
        for c, y in enumerate(problem.y):
            m = flat.intercept[s, c] + sum(e[k] * kernels[k] @ flat.dual[s, c] for k in range(2))
            parts[c, s] = [np.var(e[k] * kernels[k] @ flat.dual[s, c]) for k in range(2)]
            if kind == "labels":
                expected[s] += stats.norm.logcdf((y * m - 0.5) / np.sqrt(1.0 + e @ e))
            else:
                variance = 1.0 / flat.noise_precision[s, c] + e @ e / flat.intermediate_precision[s, c]
                expected[s] += stats.norm.logpdf(y, m, np.sqrt(variance))
    assert_same(model.log_likelihood, expected, 1e-9)
    spread = np.sqrt(parts.mean(axis=0))
    assert_same(model.shares, spread / spread.sum(axis=1, keepdims=True), 1e-9)
    assert_same(
        model.shares, share_draws(problem.stack, flat.dual.transpose(1, 0, 2), flat.kernel_weights), 1e-12
    )


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["labels", "outputs"])
def test_same_densities_as_the_numpyro_model(kind, rng):
    from numpyro.infer.util import log_density

    from bayesmkl._utils.devices import numpyro_session
    from bayesmkl.bemkl.program import collapsed_model

    problem = shared_problem(kind, rng)
    model = Evaluated(problem, prior_draws(problem, 2, rng))
    ours = log_prior(problem, model.flat) + model.log_likelihood.sum(axis=1)
    with numpyro_session():
        for s in range(2):
            values = {name: own[s] for name, own in model.flat._asdict().items() if own is not None}
            assert float(log_density(collapsed_model, (problem,), {}, values)[0]) == pytest.approx(
                ours[s], rel=1e-9
            )


@pytest.mark.parametrize("task", ["classification", "regression"])
def test_degenerate_single_output_is_the_plain_model(task, rng):
    kernels = random_kernels(rng, 6, 2)
    if task == "classification":
        plain = binary_problem(kernels, [1.0, -1.0, 1.0, 1.0, -1.0, -1.0], margin=0.5)
        several = Problem(plain.stack, plain.gram, plain.y[None], Priors(*plain.priors), Labels(0.5), 1.0)
    else:
        plain = regression_problem(kernels, rng.normal(size=6))
        several = Problem(plain.stack, plain.gram, plain.y[None], Priors(*plain.priors), Numbers())
    draws = prior_draws(plain, 300, rng)
    one = {
        name: None if values is None else values[:, :, None]
        for name, values in draws._asdict().items()
        if not name.startswith("kernel")
    }
    models = Evaluated(plain, draws), Evaluated(several, draws._replace(**one))
    assert_same(models[1].log_likelihood, models[0].log_likelihood, 1e-12)
    assert_same(log_prior(several, models[1].flat), log_prior(plain, models[0].flat), 1e-12)
    fitted = (
        FITTED
        if task == "classification"
        else types.SimpleNamespace(
            output_kind="output",
            output_names=None,
            estimator=types.SimpleNamespace(y_scale_=2.0, y_mean_=1.0),
        )
    )
    found = [leave_one_out(fitted, [model]) for model in models]
    for name in ("elpd_i", "pareto_k", "log_probabilities", "pit"):
        values = [getattr(one, name) for one in found]
        if values[0] is not None:
            np.testing.assert_allclose(values[1].ravel(), values[0].ravel(), rtol=1e-9, atol=1e-9)
    alone = types.SimpleNamespace(
        output_names=None, model_names=["model"], estimator=fitted.estimator, units=lambda k: (1.0, 2.0)
    )
    checks = [check_section(alone, [model], np.random.default_rng(0), 0.9).lines for model in models]
    if task == "regression":  # labels are drawn in another order
        assert checks[0] == checks[1]


# ------------------------------------------------------------ competing classes


@pytest.mark.parametrize("n_classes", [2, 3, 10])
def test_other_quadrature_of_competing_classes(n_classes, rng):
    means, scale = rng.normal(scale=4.0, size=(n_classes, 1, 40)), 1.7
    found = log_class_probabilities(means / scale, 0.8 / scale)[0].T
    expected = log_largest(means[:, 0], np.full((n_classes, 40), scale), 0.8)
    assert_same(found, expected, 1e-6)
    without_margin = log_class_probabilities(means, 0.0)
    np.testing.assert_allclose(np.exp(without_margin).sum(axis=-1), 1.0, rtol=1e-6)


def test_monte_carlo_competing_classes(rng):
    problem = shared_problem("multinomial", rng)
    n = 40_000
    draws = prior_draws(problem, 1, rng).map(lambda values: np.repeat(values, n, axis=1))
    one = Evaluated(problem, draws.map(lambda values: values[:, :1]))
    means = np.stack([output.means[0] for output in one.outputs])
    scores = means[..., None] + one.outputs[0].scales[0] * rng.standard_normal((3, 5, n))
    top = np.sort(scores, axis=0)
    sure = top[2] - top[1] > 0.5
    counts = np.stack([(sure & (scores.argmax(axis=0) == c)).sum(axis=-1) for c in range(3)], axis=-1)
    p = np.exp(one.log_classes[0])
    assert np.all(np.abs(counts - n * p) <= 5.0 * np.sqrt(n * p * (1.0 - p)) + 1e-9)
    np.testing.assert_allclose(one.log_likelihood[0], np.log(p[np.arange(5), CLASSES.argmax(axis=0)]))
    replicated = Evaluated(problem, draws.map(lambda values: values[:, :4000])).replicate(rng)
    assert np.all(replicated.sum(axis=1) == 1)
    q = (p / p.sum(axis=-1, keepdims=True)).T
    assert np.all(np.abs(replicated.mean(axis=0) - q) <= 5.0 * np.sqrt(q * (1.0 - q) / 4000) + 1e-9)


# ------------------------------------------------------------ leave-one-out


@pytest.mark.heavy
@pytest.mark.parametrize("kind", ["labels", "outputs", "classes", "multinomial"])
def test_exact_leave_one_out(kind, rng):
    problem = shared_problem("labels" if kind == "classes" else kind, rng, size=0.3)
    if kind == "classes":
        problem = problem._replace(y=CLASSES)
    n_prior, n_draws = (6000, 1500) if kind == "multinomial" else (30_000, 3000)
    everything = Evaluated(problem, prior_draws(problem, n_prior, rng))
    likelihood = np.exp(everything.log_likelihood)
    p = likelihood.prod(axis=1)
    kept = rng.choice(n_prior, size=n_draws, p=p / p.sum())
    model = Evaluated(problem, everything.draws.map(lambda values: values[:, kept]))
    fitted = types.SimpleNamespace(**vars(FITTED))
    fitted.output_kind = {"labels": "label", "outputs": "output"}.get(kind, "class")
    found = leave_one_out(fitted, [model])
    for i in range(5):
        others = np.delete(likelihood, i, axis=1).prod(axis=1)
        own = np.average(likelihood[:, i], weights=others)
        if kind == "labels":
            own /= np.average(
                np.prod([sides(output, i).sum(axis=0) for output in everything.outputs], axis=0),
                weights=others,
            )
        elif kind == "outputs":
            below = [ndtr((o.problem.y[i] - o.means[:, i]) / o.scales[:, 0]) for o in everything.outputs]
            expected = [np.average(each, weights=others) for each in below]
            np.testing.assert_allclose(found.pit[i], expected, atol=0.05)
            own /= 2.0 * 0.5
        elif kind == "classes":
            both = [np.average(sides(output, i), weights=others, axis=1) for output in everything.outputs]
            alone = np.array([own[1] / own.sum() for own in both])
            own = (alone / alone.sum())[CLASSES[:, i].argmax()]
        else:
            own /= np.average(np.exp(everything.log_classes[:, i]).sum(axis=1), weights=others)
        assert found.elpd_i[i] == pytest.approx(np.log(own), abs=0.12), i
    if kind in ("classes", "multinomial"):
        np.testing.assert_allclose(np.exp(found.log_probabilities).sum(axis=1), 1.0)


def sides(output, i):
    """Probabilities of the label -1 and +1 of sample i, for every draw."""
    return np.array([ndtr((sign * output.means[:, i] - 0.5) / output.scales[:, 0]) for sign in (-1.0, 1.0)])


# ------------------------------------------------------------ unlabeled samples


def test_unlabeled_samples_are_on_either_side_and_not_scored(rng):
    kernels = random_kernels(rng, 6, 2)
    problem = binary_problem(kernels, [1.0, 0.0, -1.0, 1.0, 0.0, -1.0], margin=0.7)
    model = Evaluated(problem, prior_draws(problem, 200, rng))
    labels = [
        Evaluated(Problem(*problem._replace(y=np.where(problem.y == 0.0, label, problem.y))), model.draws)
        for label in (-1.0, 1.0)
    ]
    expected = np.logaddexp(*(one.log_likelihood[:, [1, 4]] for one in labels))
    assert_same(model.log_likelihood[:, [1, 4]], expected, 1e-12)
    np.testing.assert_array_equal(model.log_likelihood[:, [0, 2]], labels[0].log_likelihood[:, [0, 2]])
    np.testing.assert_array_equal(model.labeled, [True, False, True, True, False, True])
    found = leave_one_out(FITTED, [model])
    whole = leave_one_out(FITTED, [labels[0]])
    assert found.elpd_i.shape == found.pareto_k.shape == (4,)
    assert found.log_probabilities.shape == (4, 2)
    np.testing.assert_allclose(found.elpd_i, whole.elpd_i[[0, 2, 3, 5]])


def test_draws_of_spike_and_slab_share_their_switches(rng):
    switches = rng.integers(0, 2, size=(1, 4, 2)).astype(float)
    weights, b, a = rng.normal(size=(1, 4, 2)), rng.normal(size=(1, 4, 3)), rng.normal(size=(1, 4, 3, 5))
    draws = PosteriorDraws(weights, b, a, kernel_inclusion=switches)
    assert all(own.kernel_inclusion is switches for own in draws.outputs())
